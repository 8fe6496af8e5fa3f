"""Model-based CoSaMP for batches of rows, with and without positivity."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from sparselens._validation import FloatArray, check_choice, check_count, check_positive_float
from sparselens.decoders._least_squares import batched_least_squares
from sparselens.decoders.base import BaseDecoder
from sparselens.recovery import Recovery
from sparselens.sparsity import SparsityModel

_EXPLAINED = 1e-6  # an answer with a relative residual below this is refitted on its own support


class CoSaMPDecoder(BaseDecoder):
    r"""Recover rows whose supports follow a known model, from fewer measurements than ℓ1 minimisation needs.

    Model-based CoSaMP (Algorithm 1 of [1]_) with the positivity step of the paper's appendix [2]_. From x̂ = 0 and
    r = y it repeats, 𝕄 being the best approximation in the model and 𝕄₂ that in the sum of two of its members:

    1. ``T = supp 𝕄₂(Aᵀr) ∪ supp x̂``
    2. ``b = A_T⁺ y`` on T (least squares; the shortest solution where \|T\| > m)
    3. ``b = max(b, 0)`` where `positive` (step 6 of the paper)
    4. ``x̂ = 𝕄(b)``, ``r = y − Ax̂``

    A row stops when its residual is at most `tol`, or when a merged support T comes again: everything after it would
    repeat. It never looks at the truth, as the authors' program does. The iterate with the smallest residual is
    returned. Nothing is proved: the status is ESTIMATE.

    Parameters
    ----------
    sparsity : Sparse, BlockSparse, OneHot or any `SparsityModel`
    positive : bool, default=True
    max_iter : int, default=100
    tol : float, default=1e-13
        Stop a row when ``‖y − Ax̂‖ ≤ tol ‖y‖``.

    References
    ----------
    .. [1] Baraniuk, Cevher, Duarte, Hegde (2010). Model-based compressive sensing.
    .. [2] Wu et al. (2019). Learning a compressed sensing measurement matrix via gradient unrolling, appendix.

    Examples
    --------
    >>> import numpy as np
    >>> from sparselens.sparsity import OneHot
    >>> A = np.random.default_rng(0).standard_normal((6, 10))
    >>> x = np.zeros((1, 10)); x[0, [2, 7]] = 0.5
    >>> np.flatnonzero(CoSaMPDecoder(OneHot((5, 5))).bind(A).decode(x @ A.T).x.toarray())
    array([2, 7])
    """

    def __init__(
        self, sparsity: SparsityModel, *, positive: bool = True, max_iter: int = 100, tol: float = 1e-13
    ) -> None:
        self.sparsity = sparsity
        self.positive = positive
        self.max_iter = max_iter
        self.tol = tol

    def _prepare(self) -> None:
        if not isinstance(self.sparsity, SparsityModel):
            raise TypeError(
                f"sparsity must be a model such as Sparse(k), BlockSparse(n_blocks, block_size) or OneHot(groups), "
                f"got {self.sparsity!r} ({type(self.sparsity).__name__})."
            )
        check_choice(self.positive, "positive", (True, False))
        check_count(self.max_iter, "max_iter")
        check_positive_float(self.tol, "tol", allow_zero=True)
        d = self.A_.shape[1]
        self.sparsity.support(np.zeros((1, d)))  # a model that does not fit the columns says so here
        # T is remembered as a sum of random numbers of its columns; equal sums of different sets have odds 2⁻⁶⁴
        self._keys_ = np.random.default_rng(0).integers(0, 2**63, d + 1, dtype=np.uint64)
        self._keys_[d] = 0

    def _decode_block(self, Y: FloatArray) -> Recovery:
        n, d = len(Y), self.A_.shape[1]
        size = np.linalg.norm(Y, axis=1)
        unit = Y / np.where(size > 0, size, 1.0)[:, None]
        best = _Rows.empty(n)
        smallest, n_steps = np.linalg.norm(unit, axis=1), np.zeros(n, dtype=np.int64)
        live = np.flatnonzero(size > 0)
        now = _Rows.empty(len(live))
        seen = np.zeros((n, self.max_iter), dtype=np.uint64)
        R = unit[live]
        for step in range(self.max_iter):
            if len(live) == 0:
                break
            merged = _merge(self._wanted(R @ self.A_), now.columns, d)
            seen[live, step] = self._keys_[merged].sum(axis=1, dtype=np.uint64)
            again = (seen[live, :step] == seen[live, step][:, None]).any(axis=1)
            live, merged = live[~again], merged[~again]
            now = self._fitted(unit[live], merged)
            R = unit[live] - now.measured(self._columns)
            n_steps[live] = step + 1
            error = np.linalg.norm(R, axis=1)
            better = error < smallest[live]
            best.put(live[better], now.take(better))
            smallest[live[better]] = error[better]
            going = error > self.tol
            live, now, R = live[going], now.take(going), R[going]
        self._refit(unit, best, smallest)
        return self._estimate(Y, best.csr(d, size), n_steps)

    def _wanted(self, E: FloatArray) -> np.ndarray:
        """supp 𝕄₂(e) of every row, as column numbers."""
        if hasattr(self.sparsity, "columns"):
            return np.asarray(self.sparsity.columns(E, order=2))
        return _columns_of(self.sparsity.support(E, order=2))

    def _fitted(self, Y: FloatArray, merged: np.ndarray) -> _Rows:
        """Least squares on T, the positivity step, and 𝕄."""
        d = self.A_.shape[1]
        used = merged < d
        columns = np.where(used, merged, 0)
        values = batched_least_squares(self._columns, Y, columns, used)
        if self.positive:
            values = np.maximum(values, 0.0)
        if hasattr(self.sparsity, "keep"):
            kept = self.sparsity.keep(columns, values, d)
        else:
            dense = np.zeros((len(Y), d + 1))
            np.put_along_axis(dense, merged, values, axis=1)
            kept = np.take_along_axis(self.sparsity.support(dense[:, :d], order=1), columns, axis=1)
        kept &= used & (values != 0.0)
        return _Rows.kept(np.where(kept, merged, d), np.where(kept, values, 0.0), d)

    def _refit(self, Y: FloatArray, best: _Rows, smallest: FloatArray) -> None:
        """Sharpen answers that explain y: fitted on T they carry the rounding of up to three times more columns."""
        rows = np.flatnonzero((smallest <= _EXPLAINED) & (smallest > 0))
        answer = best.take(rows)
        used = answer.values != 0.0
        values = batched_least_squares(self._columns, Y[rows], np.where(used, answer.columns, 0), used)
        error = np.linalg.norm(
            Y[rows] - _Rows(np.where(used, answer.columns, 0), values).measured(self._columns), axis=1
        )
        better = error <= smallest[rows]
        if self.positive:
            better &= (values >= 0.0).all(axis=1)
        best.put(rows[better], _Rows(answer.columns[better], values[better]))


class _Rows:
    """Sparse rows as padded arrays (n, k): column numbers, and values that are zero in the padding."""

    def __init__(self, columns: np.ndarray, values: FloatArray) -> None:
        self.columns = columns
        self.values = values

    @classmethod
    def empty(cls, n: int) -> _Rows:
        return cls(np.zeros((n, 0), dtype=np.int64), np.zeros((n, 0)))

    @classmethod
    def kept(cls, columns: np.ndarray, values: FloatArray, d: int) -> _Rows:
        """Move the entries with a column below d to the front and cut the padding that no row needs."""
        width = int((columns < d).sum(axis=1).max(initial=0))
        front = np.argsort(columns >= d, axis=1, kind="stable")[:, :width]
        return cls(np.take_along_axis(columns, front, axis=1), np.take_along_axis(values, front, axis=1))

    def take(self, rows: Any) -> _Rows:
        return _Rows(self.columns[rows], self.values[rows])

    def put(self, rows: np.ndarray, new: _Rows) -> None:
        """Replace rows; the arrays grow where the new rows are longer."""
        extra = new.values.shape[1] - self.values.shape[1]
        if extra > 0:
            self.columns = np.pad(self.columns, ((0, 0), (0, extra)))
            self.values = np.pad(self.values, ((0, 0), (0, extra)))
        width = new.values.shape[1]
        self.values[rows] = 0.0
        self.values[rows, :width] = new.values
        self.columns[rows, :width] = new.columns

    def measured(self, columns: FloatArray) -> FloatArray:
        """A x of every row, given Aᵀ (d, m)."""
        return np.asarray(self.csr(len(columns)) @ columns)

    def csr(self, d: int, scale: FloatArray | None = None) -> sp.csr_array:
        mask = self.values != 0.0
        values = self.values if scale is None else self.values * scale[:, None]
        indptr = np.concatenate(([0], np.cumsum(mask.sum(axis=1))))
        out = sp.csr_array((values[mask], self.columns[mask], indptr), shape=(len(mask), d))
        out.sort_indices()
        return out


def _merge(first: np.ndarray, second: np.ndarray, d: int) -> np.ndarray:
    """The union of two sets of columns in each row, sorted, padded by d; padding that no row needs is cut."""
    both = np.sort(np.concatenate([first, second], axis=1), axis=1)
    both[:, 1:][both[:, 1:] == both[:, :-1]] = d
    both.sort(axis=1)
    return both[:, : max(1, int((both < d).sum(axis=1).max(initial=0)))]


def _columns_of(mask: np.ndarray) -> np.ndarray:
    """Column numbers of a mask's true entries, padded by d."""
    n, d = mask.shape
    counts = mask.sum(axis=1)
    out = np.full((n, int(counts.max(initial=0))), d, dtype=np.int64)
    out[np.arange(out.shape[1]) < counts[:, None]] = np.nonzero(mask)[1]
    return out
