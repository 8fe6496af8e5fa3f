"""The steps of the exact ℓ1 path, compiled: look at all columns, judge, go back or follow the path a little further.

A row is a small machine. Its driver multiplies the vector z of the row with all columns in single precision and hands
the result to `turn`, until `turn` says how the path ended. Two things make it quick:

* of the d columns only a working set W takes part in the events between two looks. A column outside W that has
  overtaken λ unseen sends the row back to the last breakpoint where it had not, and joins W.
* correlations, and with them the choice of the next column, are in single precision, and confirmed in double for the
  chosen one. Values, λ and M are in double. A small error in another correlation only bends the path a little: what
  counts is the support at its end, where x and u are polished in double precision and every column that single
  precision cannot judge is computed in double.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sparselens.decoders._path_common import (
    BIG,
    GAVE_UP,
    NO_SOLUTION,
    SOLVED,
    UNDERWAY,
    add_columns,
    borrowed,
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
    norm,
    residual,
)

MOST_EVENTS = 64  # events between two looks at all columns, at most
_NEVER = np.float32(1e30)
_FLAT = np.float32(1e-6)  # a correlation that falls as fast as λ, to single precision, never reaches it
_SINGLE = np.float32(1e-6)  # error of a product in single precision, relative to the norms of its factors
_NOTHING = 1e-15  # λ, relative to the first one, that is nothing but the rounding of the residual
_ROUNDING = 1e-7  # an event that close to λ = 0 is the end of the path
_DEPENDENT = 1e-11  # 1 − g of a column whose correlation stays at λ, to double precision
_REACHED = 1e-9  # ‖Ax − y‖ / ‖y‖ up to which the end of the path counts as a solution
_EXACT = 1e-13  # ‖Ax − y‖ / ‖y‖ that is nothing but rounding
_MOST_ENDS = 20  # ends of the path that turn out to be none, before the row is left to another solver
_LATE = 128  # from this size on M is changed once a segment, not once an event: it no longer fits the nearest cache
_FEW_EVENTS = 8  # events between two looks at all of W
_FRESH = 1 / 16  # look again when λ has fallen to this part, because errors are relative to the λ of the last look

# The places in Row.n: size of the support, width of W, events to the next look, events since the last look (or the
# breakpoint that the row returned to), steps in all, columns in V, ends that were none, what the last look was for,
# looks in all.
SIZE, WIDTH, EVENTS, DONE, STEPS, OVERLOOKED, ENDS, MODE, LOOKS = range(9)
# The places in Row.f: λ, last step, what Aᵀu may be at the end (1, or 0: no solution), the λ that counts as 0.
LAM, LAST_STEP, LIMIT, NOTHING = range(4)
BEGIN, CHECK, RETURNED, ENDED = range(4)  # what the last look was for


class Problem(NamedTuple):
    """What all rows share."""

    A: np.ndarray  # (d, m) columns on which the path is followed
    A32: np.ndarray  # (d, m) the same in single precision
    norms: np.ndarray  # (d,) float32 norms of the columns
    true: np.ndarray  # (d, m') columns of the matrix itself: A, or what A was whitened from
    whitening: np.ndarray  # (m, m') T with A = T · true, where the matrix is whitened
    signed: bool
    whitened: bool
    target: int  # columns of W outside the support
    inner: int  # columns of `near`; `target` where one working set will do
    first_events: int  # events before the first look
    last_step: float  # columns that seem to reach λ only that close to 0 are not looked at, unless the end is wrong
    most: int  # the largest support: min(m, d)
    max_steps: int


class Row(NamedTuple):
    """The state of one row, and scratch that rows may share (K = room for the support, m padded)."""

    n: np.ndarray  # (9,) counts, see above
    f: np.ndarray  # (4,) numbers, see above
    y: np.ndarray  # (m,) measurements, of norm 1
    true_y: np.ndarray  # (m',) the same before whitening
    M: np.ndarray  # (K, K) inverse Gram matrix of the support
    S: np.ndarray  # (K,) columns of the support
    sign: np.ndarray  # (K,) the sign with which each came in
    x: np.ndarray  # (K,) their values
    w: np.ndarray  # (K,) direction of x
    r: np.ndarray  # (m,) residual
    u: np.ndarray  # (m,) dual vector, or the proof that there is no solution
    true_u: np.ndarray  # (m',) the same for the matrix itself
    z: np.ndarray  # (m,) float32, what the next look multiplies with all columns
    W: np.ndarray  # (width,) columns of the working set, without the support
    V: np.ndarray  # columns that sent the row back, kept in W until the path is past them
    past_k: np.ndarray  # (q+1,) the breakpoints since the last look: size of the support,
    past_lam: np.ndarray  # (q+1,) λ,
    past_support: np.ndarray  # (q+1, K) int32 support,
    past_sign: np.ndarray  # (q+1, K) int8 signs,
    past_x: np.ndarray  # (q+1, K) and values
    # scratch
    at: np.ndarray  # (K,) the place in `near` from which a column joined; −1 for those that were there before
    w32: np.ndarray  # (K,)
    move32: np.ndarray  # (m,) A_S w
    o: np.ndarray  # (width,) float32 correlations of W with the residual
    near: np.ndarray  # (width,) the columns of W that may join: all of them, or the few that are nearest to λ
    N: np.ndarray  # (q, K) changes of M that are not made yet: M + Σ_i f_i N[i] N[i]ᵀ is meant
    factor: np.ndarray  # (q,) the f_i
    c: np.ndarray  # (width,) float32 correlations of `near` with the residual
    g: np.ndarray  # (width,) float32, how fast they fall
    ratio: np.ndarray  # (width,) float32, when they reach λ
    closed: np.ndarray  # (width,) float32, what is added to ratio: 0, or _NEVER for columns that may not join
    rejected: np.ndarray  # (width,) places of columns that depend on the support
    b: np.ndarray  # (K,)
    v: np.ndarray  # (K,)
    true_r: np.ndarray  # (m',)
    mark: np.ndarray  # (d,) all zero between uses


# ---- arrays without a reference count --------------------------------------------------------------------------------


@compiled
def borrow_problem(problem):
    """The problem with borrowed arrays."""
    return Problem(
        borrowed(problem.A),
        borrowed(problem.A32),
        borrowed(problem.norms),
        borrowed(problem.true),
        borrowed(problem.whitening),
        problem.signed,
        problem.whitened,
        problem.target,
        problem.inner,
        problem.first_events,
        problem.last_step,
        problem.most,
        problem.max_steps,
    )


@compiled
def borrow_row(rows, i):
    """Row i of arrays that hold one row for each slot, borrowed; scratch is shared."""
    return Row(
        borrowed(rows.n[i]),
        borrowed(rows.f[i]),
        borrowed(rows.y[i]),
        borrowed(rows.true_y[i]),
        borrowed(rows.M[i]),
        borrowed(rows.S[i]),
        borrowed(rows.sign[i]),
        borrowed(rows.x[i]),
        borrowed(rows.w[i]),
        borrowed(rows.r[i]),
        borrowed(rows.u[i]),
        borrowed(rows.true_u[i]),
        borrowed(rows.z[i]),
        borrowed(rows.W[i]),
        borrowed(rows.V[i]),
        borrowed(rows.past_k[i]),
        borrowed(rows.past_lam[i]),
        borrowed(rows.past_support[i]),
        borrowed(rows.past_sign[i]),
        borrowed(rows.past_x[i]),
        borrowed(rows.at),
        borrowed(rows.w32),
        borrowed(rows.move32),
        borrowed(rows.o),
        borrowed(rows.near),
        borrowed(rows.N),
        borrowed(rows.factor),
        borrowed(rows.c),
        borrowed(rows.g),
        borrowed(rows.ratio),
        borrowed(rows.closed),
        borrowed(rows.rejected),
        borrowed(rows.b),
        borrowed(rows.v),
        borrowed(rows.true_r),
        borrowed(rows.mark),
    )


# ---- judging a look at all columns -----------------------------------------------------------------------------------


@compiled
def _count(p, level):
    """How many entries reach the level. Counting runs in vector registers, unlike a maximum."""
    count = 0
    for j in range(len(p)):
        count += 1 if p[j] >= level else 0
    return count


@compiled
def _level(p, target, high):
    """A value that about `target` entries reach (up to one and a half times as many), by bisection down from high."""
    if target >= len(p):
        return -_NEVER
    low = -high
    while low > -_NEVER and _count(p, low) < target:
        high, low = low, np.float32(4.0) * low - np.float32(1.0)
    for _ in range(24):
        level = np.float32(0.5) * (low + high)
        count = _count(p, level)
        if count < target:
            high = level
        elif count > target + target // 2:
            low = level
        else:
            return level
    return low  # many equal values: take them, as far as there is room


@compiled
def _overlooked(problem, row, p):
    """Add to V the columns that exceed the limit; returns how many V holds then, or −1 where it is full.

    Underway these are columns outside W; at the end all columns outside the support, judged in double precision.
    """
    norms, mark, V, W, S = problem.norms, row.mark, row.V, row.W, row.S
    start, ended = row.n[OVERLOOKED], row.n[MODE] == ENDED
    limit = row.f[LIMIT] if ended else 1.0
    length = np.float32(0.0)
    for i in range(len(row.z)):
        length += row.z[i] * row.z[i]
    band = _SINGLE * np.sqrt(length)
    if ended:
        band = -band
    bound = np.float32(limit)
    above = 0
    for j in range(len(p)):
        above += 1 if p[j] - band * norms[j] > bound else 0
    if above == 0:
        return start
    for a in range(row.n[SIZE]):
        mark[S[a]] = 1
    for i in range(0 if ended else row.n[WIDTH]):
        mark[W[i]] = 1
    for i in range(0 if ended else start):
        mark[V[i]] = 1
    found = 0
    for j in range(len(p)):
        found += 1 if p[j] - band * norms[j] > bound and mark[j] == 0 else 0
    if found > len(V) - start:  # the worst will do: the next look finds the others
        bound = max(bound, _level(p, (len(V) - start) // 2, np.float32(2.0) * bound + np.float32(1.0)))
    end = start
    for j in range(len(p)):
        if p[j] - band * norms[j] > bound and mark[j] == 0 and end < len(V):
            V[end] = j
            end += 1
    for a in range(row.n[SIZE]):
        mark[S[a]] = 0
    for i in range(0 if ended else row.n[WIDTH]):
        mark[W[i]] = 0
    for i in range(0 if ended else start):
        mark[V[i]] = 0
    if start == len(V) and found > 0:
        return -1
    if not ended:
        return end
    kept = start
    for i in range(start, end):
        value = column_dot(problem.A, V[i], row.u)
        if (abs(value) if problem.signed else value) > limit + 1e-10 * (norms[V[i]] if limit == 0.0 else 1.0):
            V[kept] = V[i]
            kept += 1
    return kept


@compiled
def _stock(problem, row, p):
    """Make W of the columns in V and of those with the largest correlations outside the support."""
    W, S, V, mark = row.W, row.S, row.V, row.mark
    k, most = row.n[SIZE], len(W) - MOST_EVENTS  # columns that leave the support will need room
    level = _level(p, problem.target, np.float32(row.f[LAM] if row.n[MODE] == BEGIN else 1.0))
    for a in range(k):
        mark[S[a]] = 1
    width = 0
    for i in range(row.n[OVERLOOKED]):
        if mark[V[i]] == 0:
            W[width] = V[i]
            mark[V[i]] = 1
            width += 1
    n_overlooked = width
    for j in range(len(p)):
        if p[j] >= level and mark[j] == 0 and width < most:
            W[width] = j
            width += 1
    for a in range(k):
        mark[S[a]] = 0
    for i in range(n_overlooked):
        mark[W[i]] = 0
    if problem.signed:  # p is a magnitude
        column_dots(problem.A, W, width, row.r, row.o)
    else:
        scale = np.float32(1.0 if row.n[MODE] == BEGIN else row.f[LAM])
        for i in range(width):
            row.o[i] = p[W[i]] * scale
    row.n[WIDTH] = width


@compiled
def _choose(problem, row):
    """Make `near` of the columns in V and of those of W that are nearest to λ; says how many these are.

    Columns of W that are in the support by now are left out.
    """
    W, S, V, o, near, c, mark = row.W, row.S, row.V, row.o, row.near, row.c, row.mark
    width, level = row.n[WIDTH], -_NEVER
    if problem.inner < width:
        for i in range(width):
            row.ratio[i] = abs(o[i]) if problem.signed else o[i]
        level = _level(row.ratio[:width], problem.inner, np.float32(row.f[LAM]))
        for i in range(row.n[OVERLOOKED]):
            mark[V[i]] = 2
    for a in range(row.n[SIZE]):
        row.at[a] = -1
        mark[S[a]] = 1
    n_inner = 0
    for i in range(width):
        known = mark[W[i]]
        if known != 1 and (known == 2 or (abs(o[i]) if problem.signed else o[i]) >= level):
            near[n_inner], c[n_inner], row.closed[n_inner] = W[i], o[i], np.float32(0.0)
            n_inner += 1
    for a in range(row.n[SIZE]):
        mark[S[a]] = 0
    for i in range(row.n[OVERLOOKED]):
        mark[V[i]] = 0
    return n_inner


# ---- following the path ----------------------------------------------------------------------------------------------


# These functions are called at every event: they are given the arrays that they need, and not a Row, which would be
# copied for each call.


@compiled
def _rates(A32, S, W, w, k, width, w32, move32, g):
    """How fast the correlations of W fall with λ: ``g = A_Wᵀ A_S w``."""
    for a in range(k):
        w32[a] = w[a]
    for i in range(len(move32)):
        move32[i] = np.float32(0.0)
    add_columns(A32, S, k, w32, np.float32(1.0), move32)
    column_dots(A32, W, width, move32, g)


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
def _propose(c, g, closed, lam, width, signed, ratio):
    """In single precision: how far λ falls until each column of W joins."""
    one, lam32 = np.float32(1.0), np.float32(lam)
    if signed:
        for i in range(width):
            up, down = one - g[i], one + g[i]
            rise = (lam32 - c[i]) / up if up > _FLAT else _NEVER
            fall = (lam32 + c[i]) / down if down > _FLAT else _NEVER
            ratio[i] = min(rise, fall) + closed[i]
    else:
        for i in range(width):
            up = one - g[i]
            ratio[i] = (lam32 - c[i]) / up + closed[i] if up > _FLAT else _NEVER


@compiled
def _next_join(A, S, x, w, y, W, ratio, k, lam, width, signed, enough, b):
    """The first column of W to reach λ: how far λ falls until then, its place in W, its sign and its rate.

    Single precision proposes a column and double precision confirms it, until the first one is a confirmed one, or
    no earlier than `enough`.
    """
    confirmed, step, sign, rate = -1, BIG, 1.0, 0.0
    for _ in range(width):
        first, place = _NEVER, -1
        for i in range(width):
            if ratio[i] < first:
                first, place = ratio[i], i
        if first >= enough:
            return BIG, -1, 1.0, 0.0
        if place == confirmed:
            break
        step, sign, rate = _confirm(A, S, x, w, y, k, lam, signed, W[place], b)
        ratio[place] = np.float32(step) if step < lam * (1.0 - _ROUNDING) else _NEVER
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
def _remember(S, sign, x, k, lam, t, past_k, past_lam, past_support, past_sign, past_x):
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
    A, A32, y, w32, move32 = problem.A, problem.A32, row.y, row.w32, row.move32
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
        _rates(A32, S, near, w, k, width, w32, move32, g)
        until_drop, position = _next_drop(x, w, sign, k)
        until_join, place, new_sign, rate = BIG, -1, 1.0, 0.0
        if k - n_dead < most:  # `most` columns span all that A reaches: r = λu, and nothing can join
            _propose(c, g, closed, lam, width, signed, ratio)
            enough = min(lam * (1.0 - last_step), 1.01 * until_drop)
            until_join, place, new_sign, rate = _next_join(A, S, x, w, y, near, ratio, k, lam, width, signed, enough, b)
        step = min(until_join, until_drop)
        ended = step >= lam * (1.0 - _ROUNDING) or lam - step <= row.f[NOTHING]
        if ended:
            step = lam
        for a in range(k):
            x[a] += step * w[a]
        if ended:
            break
        lam -= step
        step32 = np.float32(step)
        for i in range(width):
            c[i] -= step32 * g[i]
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
            c[banned], closed[banned] = np.float32(lam * sign[position]), _NEVER
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
            closed[place] = _NEVER
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
        _remember(S, sign, x, k, lam, event, past_k, past_lam, past_support, past_sign, past_x)
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
def _last_valid(problem, row, n_events, start):
    """The last breakpoint at which no column of V, from `start` on, is above λ; its residual is put into r."""
    A, V, past_lam, r = problem.A, row.V, row.past_lam, row.r
    t = n_events
    while True:
        residual(A, row.past_support[t], row.past_k[t], row.past_x[t], row.y, r)
        valid = True
        for i in range(start, row.n[OVERLOOKED]):
            value = column_dot(A, V[i], r)
            if (abs(value) if problem.signed else value) > past_lam[t] * (1.0 + 1e-6):
                valid = False
                break
        if valid or t == 0:
            return t
        t -= 1


@compiled
def _return_to(problem, row, t):
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
    combine_rows(M, sign, k, k, w)
    row.n[SIZE], row.n[DONE], row.f[LAM] = k, t, row.past_lam[t]


@compiled
def _left_out(problem, row, n_inner, lam):
    """Add to V the columns of W that are above λ without having been in `near`; False where V has no room for them.

    They are judged with the residual in r, which is in double precision; ``o = A_Wᵀr`` is in single.
    """
    W, V, o, mark = row.W, row.V, row.o, row.mark
    for i in range(len(row.r)):
        row.move32[i] = row.r[i]
    column_dots(problem.A32, W, row.n[WIDTH], row.move32, o)
    bound = np.float32(lam * (1.0 + 1e-5))
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
def _advance(problem, row):
    """Follow the path on W for some events; True where λ reaches 0.

    Where W is large only its columns nearest to λ take part, for a few events at a time. Then all of W is looked at,
    as all columns are between two calls of this function, and the row goes back where that shows a column above λ.
    """
    n = row.n
    n[DONE] = 0
    _remember(
        row.S, row.sign, row.x, n[SIZE], row.f[LAM], 0,
        row.past_k, row.past_lam, row.past_support, row.past_sign, row.past_x,
    )  # fmt: skip
    while True:
        n_inner = _choose(problem, row)
        whole = problem.inner >= n[WIDTH]
        ended = _follow(problem, row, n_inner, n[EVENTS] if whole else min(n[EVENTS], n[DONE] + _FEW_EVENTS))
        if whole:
            return ended
        before, t = n[OVERLOOKED], n[DONE]
        residual(problem.A, row.past_support[t], row.past_k[t], row.past_x[t], row.y, row.r)
        room = _left_out(problem, row, n_inner, row.past_lam[t])
        if n[OVERLOOKED] > before:
            _return_to(problem, row, _last_valid(problem, row, t, before))
            ended = False
            for i in range(len(row.r)):
                row.move32[i] = row.r[i]
            column_dots(problem.A32, row.W, n[WIDTH], row.move32, row.o)
        elif n[DONE] >= n[EVENTS] or n[SIZE] == 0 or row.f[LAM] < _FRESH * row.past_lam[0]:
            return ended
        if ended or not room:
            return ended


# ---- refinement and polish -------------------------------------------------------------------------------------------


@compiled
def _size(v, k):
    """The largest magnitude among the first k entries."""
    size = 0.0
    for a in range(k):
        size = max(size, abs(v[a]))
    return size


@compiled
def _refine(problem, row, lam):
    """Refine x towards ``A_Sᵀ(y − A_S x) = λ s``, with the residual in r."""
    k, x, b, v = row.n[SIZE], row.x, row.b, row.v
    for _ in range(4):
        residual(problem.A, row.S, k, x, row.y, row.r)
        column_dots(problem.A, row.S, k, row.r, b)
        for a in range(k):
            b[a] -= lam * row.sign[a]
        combine_rows(row.M, b, k, k, v)
        for a in range(k):
            x[a] += v[a]
        if _size(v, k) <= 1e-12 * _size(x, k):  # what is left to gain is below the rounding of r
            break


@compiled
def _polish(problem, row):
    """Refine x on the matrix itself at λ = 0, with the residual in true_r (whitened: in r); returns ‖y − Ax‖ / ‖y‖."""
    k, x, b, v, r, true_r = row.n[SIZE], row.x, row.b, row.v, row.r, row.true_r
    for _ in range(4):
        residual(problem.true, row.S, k, x, row.true_y, true_r)
        if problem.whitened:
            for i in range(len(r)):
                r[i] = column_dot(problem.whitening, i, true_r)
        else:
            for i in range(len(r)):
                r[i] = true_r[i]
        column_dots(problem.A, row.S, k, r, b)
        combine_rows(row.M, b, k, k, v)
        if _size(v, k) <= 1e-16 * _size(x, k):
            break
        for a in range(k):
            x[a] += v[a]
    residual(problem.true, row.S, k, x, row.true_y, true_r)
    return norm(true_r) / norm(row.true_y)


@compiled
def _untransform(problem, row):
    """``true_u = Tᵀu``: Aᵀu is the same for the whitened matrix and for the matrix itself."""
    u, true_u = row.u, row.true_u
    for i in range(len(true_u)):
        true_u[i] = 0.0 if problem.whitened else u[i]
    if problem.whitened:
        for a in range(len(u)):
            for i in range(len(true_u)):
                true_u[i] += u[a] * problem.whitening[a, i]


@compiled
def _finish(problem, row):
    """Polish x, and make the proof: u with ``A_Sᵀu = s``, or r with ``Aᵀr ≤ 0`` where y is not reached."""
    k, b, v, u = row.n[SIZE], row.b, row.v, row.u
    missing = _polish(problem, row)
    if missing > _REACHED:
        length, true_length = norm(row.r), norm(row.true_r)
        row.f[LIMIT] = 0.0
        if length > _REACHED or not problem.whitened:
            for i in range(len(u)):
                u[i] = row.r[i] / length
            _untransform(problem, row)
        else:  # y lies outside the range of the matrix, which whitening does not see
            for i in range(len(u)):
                u[i] = 0.0
            for i in range(len(row.true_u)):
                row.true_u[i] = row.true_r[i] / true_length
        return
    row.f[LIMIT] = 1.0
    for i in range(len(u)):
        u[i] = 0.0
    for a in range(k):
        b[a] = row.sign[a]
    for _ in range(3):
        combine_rows(row.M, b, k, k, v)
        add_columns(problem.A, row.S, k, v, 1.0, u)
        _untransform(problem, row)
        column_dots(problem.true, row.S, k, row.true_u, b)
        for a in range(k):
            b[a] = row.sign[a] - b[a]
        if _size(b, k) <= 1e-14:
            break


@compiled
def _prune(problem, row):
    """Leave out values that are zero but for rounding, where the others reach y as well without them."""
    S, sign, x, k = row.S, row.sign, row.x, row.n[SIZE]
    small = 1e-6 * _size(x, k)
    n_small = 0
    for a in range(k):
        n_small += 1 if abs(x[a]) < small else 0
    if n_small == 0:
        return
    residual(problem.true, S, k, x, row.true_y, row.true_r)
    before = norm(row.true_r) / norm(row.true_y)
    _remember(S, sign, x, k, 0.0, 0, row.past_k, row.past_lam, row.past_support, row.past_sign, row.past_x)
    size = k
    for a in range(k - 1, -1, -1):
        if abs(x[a]) < small:
            size -= 1
            leave(row.M, row.w, size + 1, a, row.v)
            S[a], sign[a], x[a] = S[size], sign[size], x[size]
    row.n[SIZE] = size
    if _polish(problem, row) <= max(_EXACT, 4.0 * before):
        return
    row.n[SIZE] = k
    for a in range(k):
        S[a], x[a] = row.past_support[0, a], row.past_x[0, a]


# ---- one turn of a row -----------------------------------------------------------------------------------------------


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
        _untransform(problem, row)
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
        n[OVERLOOKED] = before if mode == RETURNED and n[DONE] == 0 else _overlooked(problem, row, p)
        if n[OVERLOOKED] < 0:
            return GAVE_UP
        if n[OVERLOOKED] > before:
            # a row that has returned finds columns that were above λ there, and below it again at the last look
            _return_to(problem, row, _last_valid(problem, row, n[DONE] - (1 if mode == RETURNED else 0), before))
            if mode == ENDED:
                n[ENDS] += 1
                row.f[LAST_STEP] *= 0.01
            if mode != RETURNED:
                n[EVENTS] = max(4, n[EVENTS] // 2)
            n[MODE] = RETURNED
            _look_at_residual(row)
            return UNDERWAY if n[ENDS] <= _MOST_ENDS else GAVE_UP
        if mode == ENDED:
            if row.f[LIMIT] == 0.0:
                return NO_SOLUTION
            _prune(problem, row)
            return SOLVED
        if mode == CHECK:
            n[OVERLOOKED] = 0
            n[EVENTS] = min(2 * n[EVENTS], MOST_EVENTS)
    if n[STEPS] > problem.max_steps:
        return GAVE_UP
    _stock(problem, row, p)
    if _advance(problem, row):
        _finish(problem, row)
        n[MODE] = ENDED
        for i in range(len(row.z)):
            row.z[i] = row.u[i]
    elif n[SIZE] == 0:
        return GAVE_UP
    else:
        _refine(problem, row, row.f[LAM])
        n[MODE] = CHECK
        _look_at_residual(row)
    return UNDERWAY
