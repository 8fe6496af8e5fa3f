"""The exact ℓ1 path for large matrices: many rows at once, so that one matrix product looks at all columns for all."""

from __future__ import annotations

import numpy as np

from sparselens._validation import FloatArray
from sparselens.decoders._engine import Candidates
from sparselens.decoders._path_common import UNDERWAY, compiled, entry, pack, source_stamp
from sparselens.decoders._path_problem import Geometry, grow_rows, largest_room, make_problem, make_rows
from sparselens.decoders._path_steps import MOST_EVENTS, SIZE, STEPS, Row, begin, turn

_SLOTS = 64  # rows that are solved side by side
_FIRST_EVENTS = 8
_FIRST_ROOM = 128  # room for the support at first; it grows where a row needs more


@compiled
def _row(rows, i):
    """Row i of arrays that hold one row for each slot; scratch is shared."""
    return Row(
        rows.n[i],
        rows.f[i],
        rows.y[i],
        rows.true_y[i],
        rows.M[i],
        rows.S[i],
        rows.sign[i],
        rows.x[i],
        rows.w[i],
        rows.r[i],
        rows.u[i],
        rows.true_u[i],
        rows.z[i],
        rows.W[i],
        rows.V[i],
        rows.past_k[i],
        rows.past_lam[i],
        rows.past_support[i],
        rows.past_sign[i],
        rows.past_x[i],
        rows.past_r,
        rows.at,
        rows.w32,
        rows.move32,
        rows.N,
        rows.factor,
        rows.c,
        rows.g,
        rows.ratio,
        rows.closed,
        rows.rejected,
        rows.b,
        rows.v,
        rows.true_r,
        rows.mark,
    )


def _make_turn_rows(stamp):
    @entry
    def turn_rows(problem, rows, slots, P, results):
        """One turn of the row in each slot, with what its look saw in P; without P the rows begin."""
        for i in range(len(slots)):
            row = _row(rows, slots[i])
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
_NO_LOOK = np.zeros((0, 0), dtype=np.float32)


class LazyPathEngine:
    """Solve rows by following their LASSO paths side by side.

    Rows take turns: one product in single precision looks at all columns for every row, then each follows its path on
    its own working set. A row that is done makes room for the next one.
    """

    def __init__(self, A: FloatArray, *, positive: bool, target: int | None = None, slots: int = _SLOTS) -> None:
        self.geometry = Geometry(A)
        self.problem = make_problem(
            self.geometry,
            positive=positive,
            target=target or max(128, len(A)),
            first_events=_FIRST_EVENTS,
        )
        self.slots = slots

    def solve(self, Y: FloatArray) -> Candidates:
        n, (m, d) = len(Y), self.geometry.shape
        problem = self.problem
        path_Y, true_Y, scale = self.geometry.measurements(Y)
        S, X = np.zeros((n, problem.most), dtype=np.int64), np.zeros((n, problem.most))
        U = np.zeros((n, m))
        outcome, size, steps = np.zeros((3, n), dtype=np.int64)
        rows = make_rows(problem, room=min(largest_room(problem), _FIRST_ROOM), slots=min(n, self.slots))
        free, waiting = list(range(len(rows.n))), list(range(n - 1, -1, -1))
        holds = np.zeros(len(rows.n), dtype=np.int64)  # which row of Y is in each slot
        busy = np.zeros(0, dtype=np.int64)
        while waiting or len(busy):
            new = [free.pop() for _ in range(min(len(free), len(waiting)))]
            if new:
                holds[new] = [waiting.pop() for _ in new]
                rows.y[new], rows.true_y[new] = path_Y[holds[new]], true_Y[holds[new]]
                _turn_rows(problem, rows, np.array(new, dtype=np.int64), _NO_LOOK, np.zeros(0, dtype=np.int64))
                busy = np.concatenate([busy, np.array(new, dtype=np.int64)])
            rows = grow_rows(rows, problem, int(rows.n[busy, SIZE].max()) + MOST_EVENTS + 1)
            P = rows.z[busy] @ problem.A32.T
            results = np.zeros(len(busy), dtype=np.int64)
            _turn_rows(problem, rows, busy, P, results)
            for slot, result in zip(busy[results != UNDERWAY], results[results != UNDERWAY], strict=True):
                i, k = holds[slot], rows.n[slot, SIZE]
                outcome[i], size[i], steps[i] = result, k, rows.n[slot, STEPS]
                S[i, :k], X[i, :k], U[i] = rows.S[slot, :k], rows.x[slot, :k], rows.true_u[slot, :m]
                free.append(int(slot))
            busy = busy[results == UNDERWAY]
        return pack(S, X * scale, U, outcome, size, steps, d)
