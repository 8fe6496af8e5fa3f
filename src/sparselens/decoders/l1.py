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
from sparselens.certificate import Verifier
from sparselens.decoders._engine import Engine, WhenNeeded, path_engine
from sparselens.decoders._spectrum import Spectrum
from sparselens.decoders.base import BaseDecoder, Progress
from sparselens.parallel import count_jobs, decode_in_worker, map_in_order
from sparselens.recovery import ConditionWarning, Recovery, Status

_ALL_COLUMNS = 4000  # up to this d HiGHS is given all columns at once
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
        prove are solved by HiGHS. Whatever solves a row, it counts as certified only after `sparselens.certificate`
        has checked it.
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
        """The solvers to try, in this order, on the rows that are not certified yet."""
        highs: list[Engine] = [WhenNeeded(_highs, self.A_, self.positive)]
        if self.method == "highs":
            return highs
        if find_spec("highspy") is None:  # then what no path proves is reported as UNCERTIFIED
            highs = []
        if self.device is not None:
            return [_torch_path(self.A_, self.positive, self.device), *highs]
        path = path_engine(self.A_, positive=self.positive, columns=self._columns, spectrum=self._spectrum_)
        return [path, WhenNeeded(path.patient), *highs]

    def _block_size(self) -> int:
        if self.device is not None:
            return self._engines_[0].rows_at_once()  # type: ignore[attr-defined]  # the torch engine knows its memory
        return super()._block_size()

    def _decode_blocks(self, Y: FloatArray, callback: Progress | None) -> Iterator[Recovery]:
        if self._n_jobs_ == 1:
            yield from super()._decode_blocks(Y, callback)
            return
        # Several blocks a process, so that an unlucky one does not leave the others idle at the end.
        size = int(np.clip(-(-len(Y) // (4 * self._n_jobs_)), 1, self._block_size()))
        blocks = [Y[start : start + size] for start in range(0, len(Y), size)]
        alone = L1Decoder(self.positive, method=self.method)
        work = partial(decode_in_worker, uuid4().hex, partial(alone.bind, self.A_))
        done = 0
        for part in map_in_order(work, blocks, n_jobs=self._n_jobs_):
            yield part
            done += len(part)
            if callback is not None:
                callback(done, len(Y))

    def _decode_block(self, Y: FloatArray) -> Recovery:
        size = np.linalg.norm(Y, axis=1)
        scale = np.where(size > 0, size, 1.0)[:, None]
        unit = Y / scale  # solvers see rows of norm 1, so that tolerances mean the same for every row
        rec = self._judge(unit, np.flatnonzero(size > 0))
        return Recovery(
            sp.csr_array(rec.x.multiply(scale)), rec.status, rec.residual, rec.gap, rec.n_steps, dual=rec.dual
        )

    def _judge(self, Y: FloatArray, todo: np.ndarray) -> Recovery:
        """Solve the rows `todo`; hand what is not proved to the next solver. The other rows are zero."""
        best = self._zeros(len(Y))
        best.residual[todo] = np.inf  # no answer yet
        for engine in self._engines_:
            if len(todo) == 0:
                break
            candidates = engine.solve(np.ascontiguousarray(Y[todo]))
            proof = self._verifier_.optimal(Y[todo], candidates.x, candidates.dual)
            no_solution = ~proof.optimal & candidates.infeasible
            no_solution[no_solution] = self._verifier_.infeasible(Y[todo][no_solution], candidates.dual[no_solution])
            status = np.full(len(todo), Status.UNCERTIFIED, dtype=np.uint8)
            status[no_solution] = Status.INFEASIBLE
            status[proof.optimal] = Status.OPTIMAL_NOT_UNIQUE
            status[proof.unique] = Status.OPTIMAL_UNIQUE
            new = Recovery(candidates.x, status, proof.residual, proof.gap, candidates.n_steps, dual=candidates.dual)
            # without a proof the answer that fits better stays, whichever engine gave it
            better = (status != Status.UNCERTIFIED) | ~(proof.residual >= best.residual[todo])
            best = _replace_rows(best, todo[better], new[better])
            todo = todo[status == Status.UNCERTIFIED]
        return best

    def _zeros(self, n: int) -> Recovery:
        """What y = 0 decodes to: x = 0, with u = 0 as its proof; unique unless some direction costs nothing."""
        m, d = self.A_.shape
        return Recovery(
            x=sp.csr_array((n, d), dtype=np.float64),
            status=np.full(n, Status.OPTIMAL_UNIQUE, dtype=np.uint8),  # ‖x‖₁ = 0 has no other minimiser
            residual=np.zeros(n),
            gap=np.zeros(n),
            n_steps=np.zeros(n, dtype=np.int64),
            dual=np.zeros((n, m)),
        )


def _replace_rows(old: Recovery, rows: np.ndarray, new: Recovery) -> Recovery:
    """`old` with its rows replaced by those of `new`; x of infeasible rows is emptied."""
    keep = np.ones(len(new))
    keep[new.status == Status.INFEASIBLE] = 0.0
    x = sp.csr_array(new.x.multiply(keep[:, None]))
    x.eliminate_zeros()
    if len(rows) == len(old):
        return Recovery(x, new.status, new.residual, new.gap, new.n_steps, dual=new.dual)
    both = Recovery.concatenate([old, Recovery(x, new.status, new.residual, new.gap, new.n_steps, dual=new.dual)])
    order = np.arange(len(old))
    order[rows] = len(old) + np.arange(len(rows))
    return both[order]


def _highs(A: FloatArray, positive: bool) -> Engine:
    from sparselens.decoders._highs import GeneratedHighsEngine, HighsEngine

    engine = HighsEngine if A.shape[1] <= _ALL_COLUMNS else GeneratedHighsEngine
    return engine(A, positive=positive)


def _torch_path(A: FloatArray, positive: bool, device: str) -> Engine:
    from sparselens.decoders._path_torch import TorchPathEngine

    return TorchPathEngine(A, positive=positive, device=device)
