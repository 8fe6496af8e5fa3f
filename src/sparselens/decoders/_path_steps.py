"""The steps of the exact ℓ1 path, compiled: look at all columns, judge, go back or follow the path a little further.

A row is a small machine. Its driver multiplies the vector z of the row with all columns in single precision (with
patience: double) and hands the result to `turn`, until `turn` says how the path ended. Two things make it quick:

* of the d columns only a working set W takes part in the events between two looks. A column outside W that has
  overtaken λ unseen sends the row back to the last breakpoint where it had not, and joins W.
* correlations, and with them the choice of the next column, are in single precision, and confirmed in double for the
  chosen one. Values, λ and M are in double. A small error in another correlation only bends the path a little: what
  counts is the support at its end, where x and u are polished in double precision and every column that single
  precision cannot judge is computed in double. A row that this does not prove is followed once more, with patience:
  all in double.

`_path_row` says what a row is, `_path_look` judges a look, `_path_follow` goes along the path and back, `_path_end`
polishes and proves; this file puts them together.
"""

from __future__ import annotations

import numpy as np

from sparselens.decoders._path_common import GAVE_UP, NO_SOLUTION, SOLVED, UNDERWAY, column_dot, compiled
from sparselens.decoders._path_end import finish, prune, refine, untransform
from sparselens.decoders._path_follow import advance, last_valid, return_to
from sparselens.decoders._path_look import overlooked, stock
from sparselens.decoders._path_row import (
    BEGIN,
    CHECK,
    DONE,
    ENDED,
    ENDS,
    EVENTS,
    LAM,
    LAST_STEP,
    LIMIT,
    LOOKS,
    MODE,
    MOST_EVENTS,
    NOTHING,
    OVERLOOKED,
    RETURNED,
    SIZE,
    STEPS,
)

_NOTHING = 1e-15  # λ, relative to the first one, that is nothing but the rounding of the residual
_HUGE = 1e30  # for sums in single precision
_MOST_ENDS = 20  # ends of the path that turn out to be none, before the row is left to another solver


@compiled
def begin(problem, row):
    """Prepare a row whose y and true_y are set for its first look."""
    for i in range(len(row.n)):
        row.n[i] = 0
    row.n[EVENTS] = problem.first_events
    row.n[MODE] = BEGIN
    row.f[LAST_STEP] = problem.last_step
    for i in range(len(row.y)):
        row.r[i], row.u[i], row.z[i] = row.y[i], row.y[i], row.y[i]
    for i in range(len(row.true_u)):  # what a row shows that gives up
        row.true_u[i] = 0.0


@compiled
def _start(problem, row, p):
    """Let the column with the largest correlation in; False where no column leads towards y."""
    high, lam = p[0], 0.0
    for j in range(len(p)):
        high = max(high, p[j])
    for j in range(len(p)):
        if p[j] >= high * np.float32(0.99999):
            value = column_dot(problem.A, j, row.y)
            if (abs(value) if problem.signed else value) > lam:
                lam = abs(value)
                row.S[0], row.sign[0] = j, 1.0 if value > 0.0 else -1.0
    if lam == 0.0:  # then y itself proves that there is no solution
        untransform(problem, row)
        return False
    j = row.S[0]
    row.M[0, 0] = 1.0 / column_dot(problem.A, j, problem.A[j])
    row.x[0], row.w[0] = 0.0, row.M[0, 0] * row.sign[0]
    row.n[SIZE], row.f[LAM], row.f[NOTHING] = 1, lam, _NOTHING * lam
    return True


@compiled
def _look_at_residual(row):
    scale = 1.0 / row.f[LAM]
    for i in range(len(row.z)):
        row.z[i] = row.r[i] * scale


@compiled
def _meaningless(z):
    """Whether z holds NaN, or numbers that no dual vector has: rounding has taken over, and no step mends that."""
    total = 0.0
    for i in range(len(z)):
        total += abs(z[i])
    return not total < _HUGE


@compiled
def turn(problem, row, p):
    """Judge ``p = Aᵀz`` (its magnitude where signed), go back or on, and set the next z; says how the path stands."""
    n = row.n
    mode = n[MODE]
    n[LOOKS] += 1
    if n[LOOKS] > problem.max_steps:
        return GAVE_UP
    if mode == BEGIN:
        if not _start(problem, row, p):
            return NO_SOLUTION
    else:
        before = n[OVERLOOKED]
        # where the row has returned to its last look there is nothing to judge: that look was in order
        n[OVERLOOKED] = before if mode == RETURNED and n[DONE] == 0 else overlooked(problem, row, p)
        if n[OVERLOOKED] < 0:
            return GAVE_UP
        if n[OVERLOOKED] > before:
            # a row that has returned finds columns that were above λ there, and below it again at the last look
            return_to(problem, row, last_valid(problem, row, n[DONE] - (1 if mode == RETURNED else 0), before))
            if mode == ENDED:
                n[ENDS] += 1
                row.f[LAST_STEP] *= 0.01
            if mode != RETURNED:
                n[EVENTS] = max(4, n[EVENTS] // 2)
            n[MODE] = RETURNED
            _look_at_residual(row)
            return GAVE_UP if n[ENDS] > _MOST_ENDS or _meaningless(row.z) else UNDERWAY
        if mode == ENDED:
            if row.f[LIMIT] == 0.0:
                return NO_SOLUTION
            prune(problem, row)
            return SOLVED
        if mode == CHECK:
            n[OVERLOOKED] = 0
            n[EVENTS] = min(2 * n[EVENTS], MOST_EVENTS)
    if n[STEPS] > problem.max_steps:
        return GAVE_UP
    stock(problem, row, p)
    if advance(problem, row):
        finish(problem, row)
        n[MODE] = ENDED
        for i in range(len(row.z)):
            row.z[i] = row.u[i]
    elif n[SIZE] == 0:
        return GAVE_UP
    else:
        refine(problem, row, row.f[LAM])
        n[MODE] = CHECK
        _look_at_residual(row)
    return GAVE_UP if _meaningless(row.z) else UNDERWAY
