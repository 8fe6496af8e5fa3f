"""ℓ1 minimisation with a proof for every row."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from functools import partial
from importlib.util import find_spec
from uuid import uuid4

import numpy as np
import scipy.sparse as sp

from sparselens._validation import FloatArray, check_choice
from sparselens.certificate import ROUNDING, Verifier
from sparselens.decoders._engine import Candidates, Engine, WhenNeeded, path_engine
from sparselens.decoders._essential import OnColumns, essential_columns
from sparselens.decoders._spectrum import Spectrum
from sparselens.decoders.base import BaseDecoder, Progress
from sparselens.parallel import count_jobs, decode_in_worker, map_in_order
from sparselens.recovery import ConditionWarning, Recovery, Status

_PIVOTED = 600  # measurements up to which the dual simplex method is tried: a pivot costs m² and more
_ALL_COLUMNS = 4000  # up to this d HiGHS is given all columns at once
_ABSURD = 1e100  # an entry that only a solver without a grip can give: y has norm 1
_CONDITION = 1e6  # beyond this condition number 1e-10 is not promised


class L1Decoder(BaseDecoder):
    """Recover sparse rows from linear measurements, each with a checked proof of optimality.

    Solves ``min 1ᵀx s.t. Ax = y, x ≥ 0`` (ℓ1-min pos of the paper), or ``min ‖x‖₁ s.t. Ax = y`` for signed rows, by
    following the LASSO path of each row down to λ = 0.

    Parameters
    ----------
    positive : bool, default=True
        Whether x ≥ 0 is asked for.
    method : "auto", "path" or "highs"
        The solver: the LASSO path ("auto" and "path"), or one HiGHS linear program a row. Rows that the path does not
        prove are solved by the dual simplex method (up to 600 measurements), in the end by HiGHS. Whatever solves a
        row, it counts as certified only after `sparselens.certificate` has checked it.
    device : str, optional
        A torch device such as "cuda": follow the paths of all rows at once on it.
    n_jobs : int, optional
        Processes that share the rows; -1 is all processors. Each uses one thread. By default no process is started.

    Notes
    -----
    The path is compiled when it is first used on a machine, which takes a while and is said once on the logger
    ``sparselens``; the result is kept on disk.

    Examples
    --------
    >>> rec = L1Decoder().bind([[1.0, 2.0, 0.0], [0.0, 1.0, 1.0]]).decode([[4.0, 2.0]])
    >>> rec.x.toarray()
    array([[0., 2., 0.]])
    >>> print(rec.summary())
    1 row: 1 certified (1 unique).
    """

    def __init__(
        self,
        positive: bool = True,
        *,
        method: str = "auto",
        device: str | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.positive = positive
        self.method = method
        self.device = device
        self.n_jobs = n_jobs

    def _prepare(self) -> None:
        check_choice(self.positive, "positive", (True, False))
        check_choice(self.method, "method", ("auto", "path", "highs"))
        self._n_jobs_ = count_jobs(self.n_jobs)
        self._key_ = uuid4().hex  # by which a process knows that it is bound to this matrix already
        if self.device is not None and (self.method == "highs" or self._n_jobs_ > 1):
            raise ValueError(
                f"device={self.device!r} follows all rows at once and goes with neither method='highs' nor n_jobs: "
                "leave out the one or the other."
            )
        self._spectrum_ = Spectrum(self.A_)
        if self._spectrum_.condition > _CONDITION:
            warnings.warn(
                f"the condition number of A is {self._spectrum_.condition:.0e}, beyond 1e6: answers may miss 1e-10; "
                "read `gap` and `residual` of each row.",
                ConditionWarning,
                stacklevel=3,
            )
        if self._n_jobs_ == 1:  # otherwise each process makes its own
            self._verifier_ = self._make_verifier()
            self._engines_ = self._make_engines()

    def _make_verifier(self) -> Verifier:
        if self.device is None:
            return Verifier(self.A_, positive=self.positive, columns=self._columns)
        from sparselens._certificate_torch import TorchVerifier

        return TorchVerifier(self.A_, positive=self.positive, device=self.device)

    def _make_engines(self) -> list[Engine]:
        """The solvers to try, in this order, on the rows that are not certified yet; paths see no needless column."""
        highs: list[Engine] = [WhenNeeded(_highs, self.A_, self.positive)]
        if self.method == "highs":
            return highs
        if find_spec("highspy") is None:  # then what no path proves is reported as UNCERTIFIED
            highs = []
        kept = essential_columns(self._columns, positive=self.positive)
        if len(kept) == len(self._columns):
            return [*self._paths(self.A_, self._columns, self._spectrum_), *highs]
        columns = self._columns[kept]
        A = np.ascontiguousarray(columns.T)
        return [*(OnColumns(path, kept, len(self._columns)) for path in self._paths(A, columns, Spectrum(A))), *highs]

    def _paths(self, A: FloatArray, columns: FloatArray, spectrum: Spectrum) -> list[Engine]:
        simplex = [WhenNeeded(_simplex, A, self.positive, columns)] if len(A) <= _PIVOTED else []
        if self.device is not None:
            return [_torch_path(A, self.positive, self.device), *simplex]
        path = path_engine(A, positive=self.positive, columns=columns, spectrum=spectrum)
        return [path, *simplex, WhenNeeded(path.patient)]

    def _block_size(self) -> int:
        if self.device is not None:
            return self._engines_[0].rows_at_once()  # type: ignore[attr-defined]  # the torch engine knows its memory
        # Long blocks: rows with long paths at the end of one leave the products over all columns nearly empty.
        return int(np.clip(2**20 // len(self.A_), 64, 4096))

    def _decode_blocks(self, Y: FloatArray, callback: Progress | None) -> Iterator[Recovery]:
        if self._n_jobs_ == 1:
            yield from super()._decode_blocks(Y, callback)
            return
        # Several blocks a process, so that an unlucky one does not leave the others idle at the end; as many for each.
        rounds = max(4, -(-len(Y) // (self._n_jobs_ * self._block_size())))
        size = max(1, -(-len(Y) // (self._n_jobs_ * rounds)))
        blocks = [Y[start : start + size] for start in range(0, len(Y), size)]
        alone = L1Decoder(self.positive, method=self.method)
        work = partial(decode_in_worker, self._key_, partial(alone.bind, self.A_))
        done = 0
        for part in map_in_order(work, blocks, n_jobs=self._n_jobs_):
            yield part
            done += len(part)
            if callback is not None:
                callback(done, len(Y))

    def _decode_block(self, Y: FloatArray) -> Recovery:
        exponents = np.frexp(np.abs(Y).max(axis=1))[1]
        Y = np.ldexp(Y, -exponents[:, None])  # exact, and the square of 1e-200 or 1e200 would be no float64
        size = np.linalg.norm(Y, axis=1)
        scale = np.where(size > 0, size, 1.0)[:, None]
        unit = Y / scale  # solvers see rows of norm 1, so that tolerances mean the same for every row
        rec = self._judge(unit, np.flatnonzero(size > 0))
        counts = np.diff(rec.x.indptr)
        rec.x.data = np.ldexp(rec.x.data * np.repeat(scale, counts), np.repeat(exponents, counts))
        return rec

    def _judge(self, Y: FloatArray, todo: np.ndarray) -> Recovery:
        """Solve the rows `todo`; hand what is not proved, or misses y, to the next solver. The other rows are zero."""
        best = self._zeros(len(Y))
        best.status[todo], best.residual[todo] = Status.UNCERTIFIED, 1.0
        for engine in self._engines_:
            if len(todo) == 0:
                break
            part = np.ascontiguousarray(Y[todo])
            new = self._checked(part, engine.solve(part))
            proved, before = new.status != Status.UNCERTIFIED, best.status[todo] != Status.UNCERTIFIED
            # of answers that are worth the same, the one that comes nearest to y
            better = (proved & ~before) | ((proved == before) & (new.residual <= best.residual[todo]))
            best = _replace_rows(best, todo[better], new if better.all() else new[better])
            todo = todo[~proved | ((new.residual > ROUNDING) & (new.status != Status.INFEASIBLE))]
        return best

    def _checked(self, Y: FloatArray, found: Candidates) -> Recovery:
        """What candidates are worth."""
        _forget(found, _not_finite(found))
        proof = self._verifier_.optimal(Y, found.x, found.dual)
        if _drop_negative(found, ~proof.optimal & (proof.negativity > 0)):
            proof = self._verifier_.optimal(Y, found.x, found.dual)
        lost = proof.residual > 1.0  # zero is nearer to y
        if lost.any():
            _forget(found, lost)
            proof = self._verifier_.optimal(Y, found.x, found.dual)
        no_solution = ~proof.optimal & found.infeasible
        no_solution[no_solution] = self._verifier_.infeasible(Y[no_solution], found.dual[no_solution])
        status = np.full(len(Y), Status.UNCERTIFIED, dtype=np.uint8)
        status[no_solution] = Status.INFEASIBLE
        status[proof.optimal] = Status.OPTIMAL_NOT_UNIQUE
        status[proof.unique] = Status.OPTIMAL_UNIQUE
        x = found.x
        if no_solution.any() or not x.data.all():  # an infeasible row has no answer, and no zero is stored
            x.data *= np.repeat(~no_solution, np.diff(x.indptr))
            x.eliminate_zeros()
        return Recovery(x, status, proof.residual, proof.gap, found.n_steps, dual=found.dual)

    def _zeros(self, n: int) -> Recovery:
        """What y = 0 decodes to: x = 0, with u = 0 as its proof."""
        m, d = self.A_.shape
        return Recovery(
            x=sp.csr_array((n, d), dtype=np.float64),
            status=np.full(n, Status.OPTIMAL_UNIQUE, dtype=np.uint8),  # ‖x‖₁ = 0 has no other minimiser
            residual=np.zeros(n),
            gap=np.zeros(n),
            n_steps=np.zeros(n, dtype=np.int64),
            dual=np.zeros((n, m)),
        )


def _not_finite(found: Candidates) -> np.ndarray:
    """Which rows an engine could not compute: they hold NaN, or numbers whose squares are no floats."""
    bad = np.asarray(~(np.abs(found.dual) < _ABSURD).all(axis=1))
    bad[_rows_of(found)[~(np.abs(found.x.data) < _ABSURD)]] = True
    found.infeasible[bad] = False
    return bad


def _drop_negative(found: Candidates, rows: np.ndarray) -> bool:
    """Take negative entries out of these rows, in place: an answer that is not proved is at least x ≥ 0."""
    if not rows.any():
        return False
    found.x.data[rows[_rows_of(found)] & (found.x.data < 0)] = 0.0
    return True


def _forget(found: Candidates, rows: np.ndarray) -> None:
    """Make rows zero, in place: no answer of ours holds NaN, or numbers that mean nothing."""
    if rows.any():
        found.x.data[rows[_rows_of(found)]] = 0.0  # which is taken out with the other zeros
        found.dual[rows & ~found.infeasible] = 0.0  # where a Farkas vector is claimed, it is looked at on its own


def _rows_of(found: Candidates) -> np.ndarray:
    return np.repeat(np.arange(found.x.shape[0]), np.diff(found.x.indptr))


def _replace_rows(old: Recovery, rows: np.ndarray, new: Recovery) -> Recovery:
    """`old` with its rows replaced by those of `new`."""
    if len(rows) == len(old):
        return new
    both = Recovery.concatenate([old, new])
    order = np.arange(len(old))
    order[rows] = len(old) + np.arange(len(rows))
    return both[order]


def _simplex(A: FloatArray, positive: bool, columns: FloatArray) -> Engine:
    from sparselens.decoders._simplex import DualSimplexEngine

    return DualSimplexEngine(A, positive=positive, columns=columns)


def _highs(A: FloatArray, positive: bool) -> Engine:
    from sparselens.decoders._highs import GeneratedHighsEngine, HighsEngine

    engine = HighsEngine if A.shape[1] <= _ALL_COLUMNS else GeneratedHighsEngine
    return engine(A, positive=positive)


def _torch_path(A: FloatArray, positive: bool, device: str) -> Engine:
    from sparselens.decoders._path_torch import TorchPathEngine

    return TorchPathEngine(A, positive=positive, device=device)
