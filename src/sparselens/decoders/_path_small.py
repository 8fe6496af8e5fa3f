"""The exact ℓ1 path for matrices that fit the processor's cache: one row at a time."""

from __future__ import annotations

import numpy as np

from sparselens._validation import FloatArray
from sparselens.decoders._engine import Candidates
from sparselens.decoders._path_common import UNDERWAY, compiled, entry, pack, source_stamp
from sparselens.decoders._path_problem import Geometry, largest_room, make_problem, make_rows
from sparselens.decoders._path_steps import SIZE, STEPS, begin, turn

_TARGET, _FIRST_EVENTS = 100, 8


@compiled
def _look(A32, z, p, signed):
    """``p = Aᵀz`` for all columns in single precision (its magnitude where signed); A32 is (m, d)."""
    m, d = A32.shape
    for j in range(d):
        p[j] = np.float32(0.0)
    for i in range(0, m, 8):  # m is padded to a multiple of 8
        z0, z1, z2, z3 = z[i], z[i + 1], z[i + 2], z[i + 3]
        z4, z5, z6, z7 = z[i + 4], z[i + 5], z[i + 6], z[i + 7]
        for j in range(d):
            p[j] += (
                z0 * A32[i, j]
                + z1 * A32[i + 1, j]
                + z2 * A32[i + 2, j]
                + z3 * A32[i + 3, j]
                + z4 * A32[i + 4, j]
                + z5 * A32[i + 5, j]
                + z6 * A32[i + 6, j]
                + z7 * A32[i + 7, j]
            )
    if signed:
        for j in range(d):
            p[j] = abs(p[j])


def _make_solve_rows(stamp):
    @entry
    def solve_rows(problem, row, A32, p, Y, true_Y, S, X, U, outcome, size, steps):
        """Solve every row of Y, one after the other, in the same arrays."""
        for i in range(len(Y)):
            for c in range(Y.shape[1]):
                row.y[c] = Y[i, c]
            for c in range(true_Y.shape[1]):
                row.true_y[c] = true_Y[i, c]
            begin(problem, row)
            result = UNDERWAY
            while result == UNDERWAY:
                _look(A32, row.z, p, problem.signed)
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
    """Solve rows by following their LASSO paths one after the other, with the whole matrix in the cache."""

    def __init__(
        self, A: FloatArray, *, positive: bool, target: int | None = None, events: int = _FIRST_EVENTS
    ) -> None:
        self.geometry = Geometry(A)
        self.problem = make_problem(
            self.geometry, positive=positive, target=target or max(_TARGET, len(A)), first_events=events
        )
        self.single = np.ascontiguousarray(self.problem.A.T, dtype=np.float32)
        self.row = make_rows(self.problem, room=largest_room(self.problem))
        self.p = np.zeros(A.shape[1], dtype=np.float32)

    def solve(self, Y: FloatArray) -> Candidates:
        n, (m, d) = len(Y), self.geometry.shape
        path_Y, true_Y, scale = self.geometry.measurements(Y)
        S, X = np.zeros((n, self.problem.most), dtype=np.int64), np.zeros((n, self.problem.most))
        U = np.zeros((n, true_Y.shape[1]))
        outcome, size, steps = np.zeros((3, n), dtype=np.int64)
        _solve_rows(self.problem, self.row, self.single, self.p, path_Y, true_Y, S, X, U, outcome, size, steps)
        return pack(S, X * scale, np.ascontiguousarray(U[:, :m]), outcome, size, steps, d)
