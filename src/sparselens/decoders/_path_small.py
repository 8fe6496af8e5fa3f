"""The exact ℓ1 path for matrices that fit the processor's cache: one row at a time."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparselens._validation import FloatArray
from sparselens.decoders._engine import Candidates
from sparselens.decoders._path_common import UNDERWAY, compiled, entry, load, pack, source_stamp
from sparselens.decoders._path_problem import Geometry, largest_room, make_problem, make_rows, patient
from sparselens.decoders._path_row import SIZE, STEPS, borrow_problem, borrow_row
from sparselens.decoders._path_steps import begin, turn
from sparselens.decoders._spectrum import Spectrum

_TARGET = 80  # columns of the working set, or m where that is more


@compiled
def _look(A, z, p, signed):
    """``p = Aᵀz`` for all columns, in their precision (its magnitude where signed); A is (m, d)."""
    m, d = A.shape
    for j in range(d):
        p[j] = np.float32(0.0)
    for i in range(0, m, 8):  # m is padded to a multiple of 8
        z0, z1, z2, z3 = z[i], z[i + 1], z[i + 2], z[i + 3]
        z4, z5, z6, z7 = z[i + 4], z[i + 5], z[i + 6], z[i + 7]
        for j in range(d):
            p[j] += (
                z0 * A[i, j]
                + z1 * A[i + 1, j]
                + z2 * A[i + 2, j]
                + z3 * A[i + 3, j]
                + z4 * A[i + 4, j]
                + z5 * A[i + 5, j]
                + z6 * A[i + 6, j]
                + z7 * A[i + 7, j]
            )
    if signed:
        for j in range(d):
            p[j] = abs(p[j])


def _make_solve_rows(stamp: int) -> Any:
    @entry
    def solve_rows(problem, rows, fast, p, Y, true_Y, S, X, U, outcome, size, steps):
        """Solve every row of Y, one after the other, in the same slot."""
        problem, row = borrow_problem(problem), borrow_row(rows, 0)
        for i in range(len(Y)):
            for c in range(Y.shape[1]):
                row.y[c] = Y[i, c]
            for c in range(true_Y.shape[1]):
                row.true_y[c] = true_Y[i, c]
            begin(problem, row)
            result = UNDERWAY
            while result == UNDERWAY:
                _look(fast, row.z, p, problem.signed)
                result = turn(problem, row, p)
            outcome[i], size[i], steps[i] = result, row.n[SIZE], row.n[STEPS]
            for a in range(size[i]):
                S[i, a], X[i, a] = row.S[a], row.x[a]
            for c in range(U.shape[1]):
                U[i, c] = row.true_u[c]
        return stamp

    return solve_rows


_solve_rows = _make_solve_rows(source_stamp())


class SmallPathEngine:
    """Solve rows by following their LASSO paths one after the other, with the whole matrix in the cache.

    Parameters
    ----------
    A : float64 array of shape (m, d)
    positive : bool
    columns : float64 array of shape (d, m), optional
        Aᵀ, where the caller has it already.
    spectrum : Spectrum, optional
        That of A, where the caller has it already.
    target : int, optional
        Columns to work on between two looks at all of them.
    """

    def __init__(
        self,
        A: FloatArray,
        *,
        positive: bool,
        columns: FloatArray | None = None,
        spectrum: Spectrum | None = None,
        target: int | None = None,
    ) -> None:
        self.geometry = Geometry(A, columns, spectrum)
        self.problem = make_problem(self.geometry, positive=positive, target=target or max(_TARGET, len(A)))
        self.fast = np.ascontiguousarray(self.problem.fast.T)

    def patient(self) -> SmallPathEngine:
        """An engine for rows that this one could not solve."""
        other = object.__new__(SmallPathEngine)
        other.geometry, other.problem = self.geometry, patient(self.problem)
        other.fast = np.ascontiguousarray(other.problem.fast.T)
        return other

    def solve(self, Y: FloatArray) -> Candidates:
        """Candidates for rows of unit norm."""
        m, d = self.geometry.shape
        path_Y, true_Y, scale = self.geometry.measurements(Y)
        rows, p = make_rows(self.problem, room=largest_room(self.problem), slots=1), np.zeros(d, dtype=self.fast.dtype)
        shared = (self.problem, rows, self.fast, p)
        load(_solve_rows, *shared, path_Y[:0], true_Y[:0], *self._answers(0))
        S, X, U, outcome, size, steps = answers = self._answers(len(Y))
        _solve_rows(*shared, path_Y, true_Y, *answers)
        return self.geometry.refit(pack(S, X * scale, U[:, :m], outcome, size, steps, d), Y)

    def _answers(self, n: int) -> tuple[np.ndarray, ...]:
        """Room for the answers to n rows: supports, values, dual vectors; outcome, size of the support, steps."""
        most, m = self.problem.most, self.problem.true.shape[1]
        counts = (np.zeros(n, dtype=np.int64) for _ in range(3))
        return np.zeros((n, most), dtype=np.int64), np.zeros((n, most)), np.zeros((n, m)), *counts
