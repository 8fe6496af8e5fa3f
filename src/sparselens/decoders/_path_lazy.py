"""The exact ℓ1 path for large matrices: many rows at once, so that one matrix product looks at all columns for all."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparselens._validation import FloatArray
from sparselens.decoders._engine import Candidates
from sparselens.decoders._path_common import UNDERWAY, entry, load, pack, source_stamp
from sparselens.decoders._path_problem import Geometry, grow_rows, largest_room, make_problem, make_rows, patient
from sparselens.decoders._path_row import MOST_EVENTS, SIZE, STEPS, Row, borrow_problem, borrow_row
from sparselens.decoders._path_steps import begin, turn
from sparselens.decoders._spectrum import Spectrum

_TARGET = 128  # columns of the working set, or m where that is more
_SLOTS, _MANY_SLOTS = 64, 256  # rows that are solved side by side: the product reads A once for all of them
_FEW_MEASUREMENTS = 256  # up to this m a row is small
_FIRST_ROOM = 128  # room for the support at first; it grows where a row needs more


def _make_turn_rows(stamp: int) -> Any:
    @entry
    def turn_rows(problem, rows, slots, P, results):
        """One turn of the row in each slot, with what its look saw in P; without P the rows begin."""
        problem = borrow_problem(problem)
        for i in range(len(slots)):
            row = borrow_row(rows, slots[i])
            if len(P) == 0:
                begin(problem, row)
                continue
            if problem.signed:
                for j in range(P.shape[1]):
                    P[i, j] = abs(P[i, j])
            results[i] = turn(problem, row, P[i])
        return stamp

    return turn_rows


_turn_rows = _make_turn_rows(source_stamp())
_NONE = np.zeros(0, dtype=np.int64)


class LazyPathEngine:
    """Solve rows by following their LASSO paths side by side.

    Rows take turns: one product, in single precision where none is patient, looks at all columns for every row, then
    each follows its path on its own working set. A row that is done makes room for the next one.

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
    slots : int, optional
        Rows to solve side by side. More make the product quicker and take more memory.
    """

    def __init__(
        self,
        A: FloatArray,
        *,
        positive: bool,
        columns: FloatArray | None = None,
        spectrum: Spectrum | None = None,
        target: int | None = None,
        slots: int | None = None,
    ) -> None:
        self.geometry = Geometry(A, columns, spectrum)
        self.problem = make_problem(self.geometry, positive=positive, target=target or max(_TARGET, len(A)))
        self.slots = slots or (_MANY_SLOTS if len(A) <= _FEW_MEASUREMENTS else _SLOTS)
        self.spare: list[
            tuple[Row, np.ndarray]
        ] = []  # fresh memory costs the kernel as much as a block of rows costs us

    def patient(self) -> LazyPathEngine:
        """An engine for rows that this one could not solve, on the same arrays."""
        other = object.__new__(LazyPathEngine)
        other.geometry, other.slots, other.problem = self.geometry, self.slots, patient(self.problem)
        other.spare = []
        return other

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "spare": []}

    def solve(self, Y: FloatArray) -> Candidates:
        """Candidates for rows of unit norm."""
        n, (m, d), problem = len(Y), self.geometry.shape, self.problem
        path_Y, true_Y, scale = self.geometry.measurements(Y)
        S, X, U = np.zeros((n, problem.most), dtype=np.int64), np.zeros((n, problem.most)), np.zeros((n, m))
        outcome, size, steps = np.zeros((3, n), dtype=np.int64)
        rows, looks = self._take_arrays(min(n, self.slots))
        load(_turn_rows, problem, rows, _NONE, looks[:0], _NONE)
        waiting, holds = 0, np.zeros(len(rows.n), dtype=np.int64)  # the next row of Y; which one each slot holds
        busy, free = _NONE, np.arange(min(n, len(rows.n)))
        while len(busy) or waiting < n:
            new, free = free[: n - waiting], free[n - waiting :]
            holds[new] = np.arange(waiting, waiting + len(new))
            waiting += len(new)
            rows.y[new], rows.true_y[new] = path_Y[holds[new]], true_Y[holds[new]]
            _turn_rows(problem, rows, new, looks[:0], _NONE)
            busy = np.concatenate([busy, new])
            rows = grow_rows(rows, problem, int(rows.n[busy, SIZE].max()) + MOST_EVENTS + 1)
            results = np.zeros(len(busy), dtype=np.int64)
            P = np.matmul(rows.z[busy], problem.fast.T, out=looks[: len(busy)])
            _turn_rows(problem, rows, busy, P, results)
            done = busy[results != UNDERWAY]
            i, k = holds[done], int(rows.n[done, SIZE].max(initial=0))
            outcome[i], size[i], steps[i] = results[results != UNDERWAY], rows.n[done, SIZE], rows.n[done, STEPS]
            S[i, :k], X[i, :k], U[i] = rows.S[done, :k], rows.x[done, :k], rows.true_u[done, :m]
            busy, free = busy[results == UNDERWAY], np.concatenate([free, done])
        self.spare.append((rows, looks))
        return self.geometry.refit(pack(S, X * scale, U, outcome, size, steps, d), Y)

    def _take_arrays(self, slots: int) -> tuple[Row, np.ndarray]:
        """The arrays of the rows and of what they look at: those of an earlier call, where they are large enough."""
        while self.spare:
            rows, looks = self.spare.pop()  # from the list, so that another thread cannot take the same
            if len(looks) >= slots:
                return rows, looks
        rows = make_rows(self.problem, room=min(largest_room(self.problem), _FIRST_ROOM), slots=slots)
        return rows, np.empty((slots, len(self.problem.A)), dtype=self.problem.fast.dtype)
