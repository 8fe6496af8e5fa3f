"""Following the path on a working set, event by event, and going back where it went wrong; compiled."""

from __future__ import annotations

import numpy as np

from sparselens.decoders._path_common import (
    BIG,
    add_columns,
    column_dot,
    column_dots,
    combine_rows,
    compiled,
    join,
    late_join,
    late_leave,
    leave,
    make_changes,
    move_last,
    rebuild,
    residual,
)
from sparselens.decoders._path_look import NEVER, choose
from sparselens.decoders._path_row import DONE, EVENTS, LAM, LAST_STEP, NOTHING, OVERLOOKED, SIZE, STEPS, WIDTH

_ROUNDING = 1e-7  # an event that close to λ = 0 is the end of the path
_DEPENDENT = 1e-11  # 1 − g of a column whose correlation stays at λ, to double precision
_LATE = 128  # from this size on M is changed once a segment, not once an event: it no longer fits the nearest cache
_FEW_EVENTS = 8  # events between two looks at all of W
_FRESH = 1 / 16  # look again when λ has fallen to this part, because errors are relative to the λ of the last look

# ---- following the path ----------------------------------------------------------------------------------------------


# These functions are called at every event: they are given the arrays that they need, and not a Row, which would be
# copied for each call.


@compiled
def _rates(fast, S, W, w, k, width, w_fast, move, g):
    """How fast the correlations of W fall with λ: ``g = A_Wᵀ A_S w``."""
    for a in range(k):
        w_fast[a] = w[a]
    for i in range(len(move)):
        move[i] = np.float32(0.0)
    add_columns(fast, S, k, w_fast, np.float32(1.0), move)
    column_dots(fast, W, width, move, g)


@compiled
def _confirm(A, S, x, w, y, k, lam, signed, j, b):
    """In double precision, with b = A_Sᵀa_j: how far λ falls until column j joins, its sign, and its rate."""
    column_dots(A, S, k, A[j], b)
    value, rate = column_dot(A, j, y), 0.0
    for a in range(k):
        value -= b[a] * x[a]
        rate += b[a] * w[a]
    step, sign = (lam - value) / (1.0 - rate) if 1.0 - rate > _DEPENDENT else BIG, 1.0
    if signed and 1.0 + rate > _DEPENDENT and (lam + value) / (1.0 + rate) < step:
        step, sign = (lam + value) / (1.0 + rate), -1.0
    return max(step, 0.0), sign, rate


@compiled
def _propose(c, g, closed, lam, rounding, width, signed, ratio):
    """In the precision of c: how far λ falls until each column of W joins."""
    one, level = np.float32(1.0), c.dtype.type(lam)
    flat = c.dtype.type(rounding)  # a correlation that falls as fast as λ, to that precision, never reaches it
    if signed:
        for i in range(width):
            up, down = one - g[i], one + g[i]
            rise = (level - c[i]) / up if up > flat else NEVER
            fall = (level + c[i]) / down if down > flat else NEVER
            ratio[i] = min(rise, fall) + closed[i]
    else:
        for i in range(width):
            up = one - g[i]
            ratio[i] = (level - c[i]) / up + closed[i] if up > flat else NEVER


@compiled
def _next_join(A, S, x, w, y, W, ratio, k, lam, width, signed, enough, b):
    """The first column of W to reach λ: how far λ falls until then, its place in W, its sign and its rate.

    Single precision proposes a column and double precision confirms it, until the first one is a confirmed one, or
    no earlier than `enough`.
    """
    confirmed, step, sign, rate = -1, BIG, 1.0, 0.0
    for _ in range(width):
        first, place = NEVER, -1
        for i in range(width):
            if ratio[i] < first:
                first, place = ratio[i], i
        if place < 0 or first >= enough:
            return BIG, -1, 1.0, 0.0
        if place == confirmed:
            break
        step, sign, rate = _confirm(A, S, x, w, y, k, lam, signed, W[place], b)
        ratio[place] = step if step < lam * (1.0 - _ROUNDING) else NEVER
        confirmed = place
    return step, confirmed, sign, rate


@compiled
def _next_drop(x, w, sign, k):
    """The first value of the support to reach zero: how far λ falls until then, and its position."""
    step, position = BIG, -1
    for a in range(k):
        if w[a] * sign[a] < 0.0:
            t = -x[a] / w[a]
            if t < step:
                step, position = t, a
    return max(step, 0.0), position


@compiled
def remember(S, sign, x, k, lam, t, past_k, past_lam, past_support, past_sign, past_x):
    """Keep breakpoint t; positions without a sign have left the support."""
    size = 0
    for a in range(k):
        if sign[a] != 0.0:
            past_support[t, size] = S[a]
            past_sign[t, size] = np.int8(sign[a])
            past_x[t, size] = x[a]
            size += 1
    past_k[t] = size
    past_lam[t] = lam


@compiled
def _follow(problem, row, width, last_event):
    """Follow the path on the first `width` columns of `near` up to that event; True where λ reaches 0."""
    M, near, S, at, sign, x, w = row.M, row.near, row.S, row.at, row.sign, row.x, row.w
    c, g, b, v, ratio, closed, rejected = row.c, row.g, row.b, row.v, row.ratio, row.closed, row.rejected
    past_k, past_lam = row.past_k, row.past_lam
    past_support, past_sign, past_x = row.past_support, row.past_sign, row.past_x
    A, fast, y, w_fast, move = problem.A, problem.fast, row.y, row.w_fast, row.move
    signed, most = problem.signed, problem.most
    zero = np.float32(0.0)
    k, lam = row.n[SIZE], row.f[LAM]
    # A large M is changed once for many events: until then dead positions stay, and n_late changes are to be made
    late = k >= _LATE
    known, n_late, n_dead = k, 0, 0
    banned = -1  # a column that has just left may not come back at once
    n_rejected = 0
    stale, last_step = _FRESH * past_lam[0], row.f[LAST_STEP]
    event, ended = row.n[DONE], False
    while event < last_event and k > n_dead and lam >= stale:
        _rates(fast, S, near, w, k, width, w_fast, move, g)
        until_drop, position = _next_drop(x, w, sign, k)
        until_join, place, new_sign, rate = BIG, -1, 1.0, 0.0
        if k - n_dead < most:  # `most` columns span all that A reaches: r = λu, and nothing can join
            _propose(c, g, closed, lam, problem.rounding, width, signed, ratio)
            enough = min(lam * (1.0 - last_step), 1.01 * until_drop)
            until_join, place, new_sign, rate = _next_join(A, S, x, w, y, near, ratio, k, lam, width, signed, enough, b)
        step = min(until_join, until_drop)
        ended = step >= lam * (1.0 - _ROUNDING) or lam - step <= row.f[NOTHING]
        if not ended and until_drop <= until_join and at[position] < 0 and row.n[WIDTH] == len(row.W):
            break  # no room for what leaves: a row that goes back again and again has used it up
        if ended:
            step = lam
        for a in range(k):
            x[a] += step * w[a]
        if ended:
            break
        lam -= step
        fall = c.dtype.type(step)
        for i in range(width):
            c[i] -= fall * g[i]
        if banned >= 0:
            closed[banned] = zero
            banned = -1
        if until_drop <= until_join:
            for i in range(n_rejected):  # they depended on the support, which now changes
                closed[rejected[i]] = zero
            n_rejected = 0
            banned = at[position]
            if banned < 0:  # it was in the support before W was made
                banned = width
                width += 1
                near[banned] = S[position]
                row.W[row.n[WIDTH]] = S[position]
                row.n[WIDTH] += 1
            c[banned], closed[banned] = lam * sign[position], NEVER
            if late:
                late_leave(M, w, known, k, position, row.N, row.factor, n_late)
                n_late += 1
                n_dead += 1
                x[position], sign[position] = 0.0, 0.0
            else:
                leave(M, w, k, position, v)
                k -= 1
                S[position], at[position], sign[position], x[position] = S[k], at[k], sign[k], x[k]
        else:
            j = near[place]
            closed[place] = NEVER
            square = column_dot(A, j, A[j])
            if late:
                for a in range(k):
                    b[a] *= abs(sign[a])  # dead positions take no part
                joined = late_join(M, w, known, k, b, square, rate, new_sign, row.N, row.factor, n_late)
                n_late += 1 if joined else 0
            else:
                joined = join(M, w, k, b, square, rate, new_sign, v)
            if joined:
                S[k], at[k], sign[k], x[k] = j, place, new_sign, 0.0
                k += 1
            else:
                rejected[n_rejected] = place
                n_rejected += 1
        event += 1
        remember(S, sign, x, k, lam, event, past_k, past_lam, past_support, past_sign, past_x)
    make_changes(M, known, k, row.N, row.factor, n_late)
    for a in range(k - 1, -1, -1):
        if sign[a] == 0.0:
            k -= 1
            move_last(M, k, a)
            S[a], sign[a], x[a], w[a] = S[k], sign[k], x[k], w[k]
    row.n[STEPS] += event - row.n[DONE] + (1 if ended else 0)
    row.n[SIZE], row.n[DONE] = k, event
    row.f[LAM] = lam
    return ended


# ---- going back ------------------------------------------------------------------------------------------------------


@compiled
def last_valid(problem, row, n_events, start):
    """The last breakpoint at which no column of V, from `start` on, is above λ; its residual is put into r."""
    A, V, past_lam, r = problem.A, row.V, row.past_lam, row.r
    t = n_events
    while True:
        residual(A, row.past_support[t], row.past_k[t], row.past_x[t], row.y, r)
        valid = True
        for i in range(start, row.n[OVERLOOKED]):
            value = column_dot(A, V[i], r)
            if (abs(value) if problem.signed else value) > past_lam[t] * (1.0 + problem.rounding):
                valid = False
                break
        if valid or t == 0:
            return t
        t -= 1


@compiled
def return_to(problem, row, t):
    """Bring the support, its values and M back to breakpoint t by undoing what differs."""
    M, S, sign, x, w, b, v, mark = row.M, row.S, row.sign, row.x, row.w, row.b, row.v, row.mark
    past_support, past_k, k = row.past_support, row.past_k[t], row.n[SIZE]
    for a in range(past_k):
        mark[past_support[t, a]] = a + 1
    for a in range(k - 1, -1, -1):
        if mark[S[a]] == 0:
            leave(M, w, k, a, v)
            k -= 1
            S[a] = S[k]
    for a in range(k):
        mark[S[a]] = -mark[S[a]]
    for past in range(past_k):
        j = past_support[t, past]
        if mark[j] > 0:
            column_dots(problem.A, S, k, problem.A[j], b)
            join(M, w, k, b, column_dot(problem.A, j, problem.A[j]), 0.0, 0.0, v)
            S[k] = j
            mark[j] = -mark[j]
            k += 1
    for a in range(k):
        past = -mark[S[a]] - 1
        x[a], sign[a] = row.past_x[t, past], row.past_sign[t, past]
        mark[S[a]] = 0
    if problem.careful:
        rebuild(problem.A, S, k, M, b)
    combine_rows(M, sign, k, k, w)
    row.n[SIZE], row.n[DONE], row.f[LAM] = k, t, row.past_lam[t]


@compiled
def _look_at_working_set(problem, row):
    """``o = A_Wᵀr`` in the precision of o."""
    for i in range(len(row.r)):
        row.move[i] = row.r[i]
    column_dots(problem.fast, row.W, row.n[WIDTH], row.move, row.o)


@compiled
def _left_out(problem, row, n_inner, lam):
    """Add to V the columns of W that o shows above λ without having been in `near`; False where V has no room."""
    W, V, o, mark = row.W, row.V, row.o, row.mark
    bound = o.dtype.type(lam * (1.0 + 10.0 * problem.rounding))
    for i in range(n_inner):
        mark[row.near[i]] = 1
    for a in range(row.n[SIZE]):
        mark[row.S[a]] = 1
    end, room = row.n[OVERLOOKED], True
    for i in range(row.n[WIDTH]):
        if (abs(o[i]) if problem.signed else o[i]) > bound and mark[W[i]] == 0:
            if end == len(V):
                room = False
            else:
                V[end] = W[i]
                end += 1
    for i in range(n_inner):
        mark[row.near[i]] = 0
    for a in range(row.n[SIZE]):
        mark[row.S[a]] = 0
    row.n[OVERLOOKED] = end
    return room


@compiled
def advance(problem, row):
    """Follow the path on W for some events; True where λ reaches 0.

    Where W is large only its columns nearest to λ take part, for a few events at a time. Then all of W is looked at,
    as all columns are between two calls of this function, and the row goes back where that shows a column above λ.
    """
    n = row.n
    n[DONE] = 0
    remember(
        row.S, row.sign, row.x, n[SIZE], row.f[LAM], 0,
        row.past_k, row.past_lam, row.past_support, row.past_sign, row.past_x,
    )  # fmt: skip
    while True:
        n_inner = choose(problem, row)
        whole = problem.inner >= n[WIDTH]
        ended = _follow(problem, row, n_inner, n[EVENTS] if whole else min(n[EVENTS], n[DONE] + _FEW_EVENTS))
        if whole:
            return ended
        before, t = n[OVERLOOKED], n[DONE]
        residual(problem.A, row.past_support[t], row.past_k[t], row.past_x[t], row.y, row.r)
        _look_at_working_set(problem, row)
        room = _left_out(problem, row, n_inner, row.past_lam[t])
        if n[OVERLOOKED] > before:
            return_to(problem, row, last_valid(problem, row, t, before))
            _look_at_working_set(problem, row)  # with the residual of that breakpoint
            ended = False
        elif n[DONE] >= n[EVENTS] or n[SIZE] == 0 or not row.f[LAM] >= _FRESH * row.past_lam[0]:  # also where it is NaN
            return ended
        if ended or not room or n[WIDTH] == len(row.W):
            return ended
