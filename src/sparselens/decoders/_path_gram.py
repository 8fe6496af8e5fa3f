"""The exact ℓ1 path for matrices that fit the processor's cache: one row at a time, on a shared Gram matrix.

For each row the LASSO path is followed from ``λ = max Aᵀy`` down to 0, where it ends in a solution of
``min ‖x‖₁ s.t. Ax = y``. Two things make it quick:

* of the d columns only a working set W takes part in the steps. After a few steps one product looks at all columns;
  a column that has overtaken λ unseen sends the row back to the last breakpoint where it had not.
* correlations, and with them the choice of the next column, are in single precision. Values, λ and M are in double.
  An error of 1e-6 in a correlation only bends the path a little: what counts is the support at its end, where x and u
  are polished in double precision and every column that single precision cannot judge is computed in double.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sparselens._validation import FloatArray
from sparselens.decoders._engine import Candidates
from sparselens.decoders._path_common import (
    BIG,
    GAVE_UP,
    NO_SOLUTION,
    REACHED,
    SOLVED,
    compiled,
    correct,
    dual_vector,
    join,
    leave,
    norm,
    pack,
    padded,
    prune,
    residual,
    row_dot,
    symmetric_product,
)

_TARGET = 100  # columns outside the support to work on
_FIRST_EVENTS, _MOST_EVENTS = 8, 32  # events between two looks at all columns
_NEVER = np.float32(1e30)
_FLAT = np.float32(1e-6)  # a correlation that falls as fast as λ, to single precision, never reaches it
_SINGLE = np.float32(1e-6)  # error of a product in single precision, relative to the norms of its factors
_LAST_STEP = 1e-4  # columns that seem to reach λ only that close to 0 are not looked at, unless the end proves wrong
_ROUNDING = 1e-7  # an event that close to λ = 0 is the end of the path
_DEPENDENT = 1e-11  # 1 − g of a column whose correlation stays at λ, to double precision
_MOST_ENDS = 4  # ends of the path that turn out to be none, before the row is left to another solver
_FRESH = 1 / 16  # look again when λ has fallen to this part, because errors are relative to the λ of the last look


class _Row(NamedTuple):
    """The arrays that one row needs, allocated once and used for every row (K = the largest support)."""

    M: np.ndarray  # (K+1, K+1) inverse Gram matrix of the support
    S: np.ndarray  # (K+1,) columns of the support
    sign: np.ndarray  # (K+1,) the sign with which each came in
    x: np.ndarray  # (K+1,) their values
    w: np.ndarray  # (K+1,) direction of x
    w32: np.ndarray  # (K+1,) the same in single precision
    W: np.ndarray  # (width,) columns of the working set
    at: np.ndarray  # (K+1,) where the support stands in W
    H: np.ndarray  # (K+1, width) float32, H[a, i] = a_{S[a]}ᵀ a_{W[i]}
    c: np.ndarray  # (width,) float32 correlations of W with the residual
    g: np.ndarray  # (width,) float32, how fast they fall
    ratio: np.ndarray  # (width,) float32, when they reach λ
    closed: np.ndarray  # (width,) float32, what is added to ratio: 0, or _NEVER for columns that may not join
    rejected: np.ndarray  # (width,) places of columns that depend on the support
    p: np.ndarray  # (d,) float32 correlations of all columns, divided by λ
    rank: np.ndarray  # (d,) |p| where x is signed; p itself otherwise
    r: np.ndarray  # (m,) residual
    u: np.ndarray  # (m,) dual vector, or the proof that there is no solution
    z: np.ndarray  # (m,) float32, what is multiplied with all columns
    b: np.ndarray  # (K+1,) scratch
    v: np.ndarray  # (K+1,) scratch
    V: np.ndarray  # (4d,) columns that were overlooked
    mark: np.ndarray  # (d,) scratch, all zero between uses
    past_k: np.ndarray  # (q+1,) the breakpoints since the last look: size of the support,
    past_lam: np.ndarray  # (q+1,) λ,
    past_support: np.ndarray  # (q+1, K+1) support,
    past_sign: np.ndarray  # (q+1, K+1) signs,
    past_x: np.ndarray  # (q+1, K+1) values,
    past_r: np.ndarray  # (q+1, m) and residual


# ---- looking at all columns ------------------------------------------------------------------------------------------


@compiled
def _look(A32, row, signed):
    """``p = Aᵀz`` for all columns in single precision."""
    m, d = A32.shape
    z, p, rank = row.z, row.p, row.rank
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
            rank[j] = abs(p[j])


@compiled
def _level(rank, target):
    """A value that about `target` entries reach (up to one and a half times as many), found by bisection."""
    d = len(rank)
    low, high = rank[0], rank[0]
    for j in range(d):
        low = min(low, rank[j])
        high = max(high, rank[j])
    if target >= d:
        return low
    for _ in range(24):
        level = np.float32(0.5) * (low + high)
        count = 0
        for j in range(d):
            count += 1 if rank[j] >= level else 0
        if count < target:
            high = level
        elif count > target + target // 2:
            low = level
        else:
            return level
    return low  # many equal values: take them, as far as there is room


@compiled
def _stock(A, G32, row, k, target, n_overlooked):
    """Make W of the support, the columns in V and those with the largest correlations; returns its width."""
    W, S, at, H, c, closed = row.W, row.S, row.at, row.H, row.c, row.closed
    rank, mark = row.rank, row.mark
    level = _level(rank, target)
    for a in range(k):
        W[a], at[a], closed[a] = S[a], a, _NEVER
        mark[S[a]] = 1
    width = k
    for i in range(n_overlooked):
        if mark[row.V[i]] == 0 and width < len(W):
            W[width] = row.V[i]
            mark[row.V[i]] = 1
            width += 1
    known = width
    for j in range(len(rank)):
        if rank[j] >= level and mark[j] == 0 and width < len(W):
            W[width] = j
            width += 1
    for i in range(known):
        mark[W[i]] = 0
    for i in range(k, width):
        closed[i] = np.float32(0.0)
    for i in range(width):  # in double: near the end r/λ is long, and p too coarse
        c[i] = np.float32(row_dot(A, W[i], row.r, A.shape[1]))
    for a in range(k):
        j = S[a]
        for i in range(width):
            H[a, i] = G32[j, W[i]]
    return width


@compiled
def _overlooked(A, norms, row, k, width, limit, signed, ended, start):
    """Add to V, from `start` on, the columns that exceed the limit; returns how many V holds then.

    Underway these are columns outside W; at the end all columns outside the support, judged in double precision.
    """
    rank, mark, V = row.rank, row.mark, row.V
    m = A.shape[1]
    known = k if ended else width
    for i in range(known):
        mark[row.S[i] if ended else row.W[i]] = 1
    length = np.float32(0.0)
    for i in range(m):
        length += row.z[i] * row.z[i]
    band = _SINGLE * np.sqrt(length)
    if ended:
        band = -band
    bound = np.float32(limit)
    count = start
    for j in range(len(rank)):
        if rank[j] > bound + band * norms[j] and mark[j] == 0 and count < len(V):
            V[count] = j
            count += 1
    for i in range(known):
        mark[row.S[i] if ended else row.W[i]] = 0
    if not ended:
        return count
    kept = start
    for i in range(start, count):
        value = row_dot(A, V[i], row.u, m)
        if (abs(value) if signed else value) > limit + 1e-10 * (norms[V[i]] if limit == 0.0 else 1.0):
            V[kept] = V[i]
            kept += 1
    return kept


# ---- following the path ----------------------------------------------------------------------------------------------


@compiled
def _falling_rates(H, w, k, width, g):
    """``g = Σ_a w[a] H[a]``: how fast the correlations of W fall with λ."""
    for i in range(width):
        g[i] = np.float32(0.0)
    a = 0
    while a + 4 <= k:
        w0, w1, w2, w3 = w[a], w[a + 1], w[a + 2], w[a + 3]
        for i in range(width):
            g[i] += w0 * H[a, i] + w1 * H[a + 1, i] + w2 * H[a + 2, i] + w3 * H[a + 3, i]
        a += 4
    while a < k:
        w0 = w[a]
        for i in range(width):
            g[i] += w0 * H[a, i]
        a += 1


@compiled
def _first(ratio, width):
    """The smallest ratio and its place."""
    step, place = _NEVER, -1
    for i in range(width):
        if ratio[i] < step:
            step, place = ratio[i], i
    return step, place


@compiled
def _next_join(A, G, row, y, k, lam, width, signed, last_step):
    """The first column of W to reach λ: how far λ falls until then, its place, sign and rate, with A_Sᵀa in b.

    Single precision proposes a column and double precision confirms it, until the first one is a confirmed one.
    """
    c, g, ratio, closed = row.c, row.g, row.ratio, row.closed
    S, x, w, b = row.S, row.x, row.w, row.b
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
    confirmed, exact, sign, rate = -1, BIG, 1.0, 0.0
    for _ in range(width):
        step, place = _first(ratio, width)
        if step >= lam * (1.0 - last_step):
            return BIG, -1, 1.0, 0.0
        if place == confirmed:
            break
        j = row.W[place]
        value, rate = row_dot(A, j, y, A.shape[1]), 0.0
        for a in range(k):
            b[a] = G[j, S[a]]
            value -= b[a] * x[a]
            rate += b[a] * w[a]
        exact, sign = (lam - value) / (1.0 - rate) if 1.0 - rate > _DEPENDENT else BIG, 1.0
        if signed and 1.0 + rate > _DEPENDENT and (lam + value) / (1.0 + rate) < exact:
            exact, sign = (lam + value) / (1.0 + rate), -1.0
        exact = max(exact, 0.0)
        confirmed = place
        ratio[place] = np.float32(exact) if exact < lam * (1.0 - _ROUNDING) else _NEVER
    return exact, confirmed, sign, rate


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
def _remember(row, t, k, lam):
    """Keep breakpoint t."""
    row.past_k[t] = k
    row.past_lam[t] = lam
    S, sign, x = row.S, row.sign, row.x
    past_support, past_sign, past_x = row.past_support, row.past_sign, row.past_x
    for a in range(k):
        past_support[t, a] = S[a]
        past_sign[t, a] = sign[a]
        past_x[t, a] = x[a]


@compiled
def _advance(A, G, G32, row, y, k, lam, width, n_events, signed, last_step):
    """Follow the path on W for some events; returns (k, λ, events, whether λ reached 0)."""
    M, H, W, S, at, sign = row.M, row.H, row.W, row.S, row.at, row.sign
    x, w, w32, c, g, b, v = row.x, row.w, row.w32, row.c, row.g, row.b, row.v
    closed, rejected = row.closed, row.rejected
    K = M.shape[0] - 1
    zero = np.float32(0.0)
    banned = -1  # a column that has just left may not come back at once
    n_rejected = 0
    stale = _FRESH * lam
    _remember(row, 0, k, lam)
    for event in range(1, n_events + 1):
        for a in range(k):
            w32[a] = w[a]
        _falling_rates(H, w32, k, width, g)
        until_join, place, new_sign, rate = BIG, -1, 1.0, 0.0
        if k < K:  # K columns span all that A reaches: then r = λu falls evenly and nothing can join
            until_join, place, new_sign, rate = _next_join(A, G, row, y, k, lam, width, signed, last_step)
        until_drop, position = _next_drop(x, w, sign, k)
        step = min(until_join, until_drop)
        if step >= lam * (1.0 - _ROUNDING):
            for a in range(k):
                x[a] += lam * w[a]
            return k, 0.0, event - 1, True
        for a in range(k):
            x[a] += step * w[a]
        lam -= step
        step32 = np.float32(step)
        for i in range(width):
            c[i] -= step32 * g[i]
        if banned >= 0:
            closed[banned] = zero
            banned = -1
        if until_drop <= until_join:
            banned = at[position]
            c[banned] = np.float32(lam * sign[position])
            for i in range(n_rejected):  # they depended on the support, which now changes
                closed[rejected[i]] = zero
            n_rejected = 0
            closed[banned] = _NEVER
            leave(M, w, k, position, v)
            k -= 1
            if position != k:
                S[position], at[position], sign[position], x[position] = S[k], at[k], sign[k], x[k]
                for i in range(width):
                    H[position, i] = H[k, i]
        else:
            j = W[place]
            closed[place] = _NEVER
            if join(M, w, k, b, G[j, j], rate, new_sign, v):
                S[k], at[k], sign[k], x[k] = j, place, new_sign, 0.0
                for i in range(width):
                    H[k, i] = G32[j, W[i]]
                k += 1
            else:
                rejected[n_rejected] = place
                n_rejected += 1
        _remember(row, event, k, lam)
        if k == 0 or lam < stale:
            return k, lam, event, False
    return k, lam, n_events, False


# ---- going back ------------------------------------------------------------------------------------------------------


@compiled
def _last_valid(A, row, y, n_events, start, n_overlooked, signed):
    """The last breakpoint at which no overlooked column had passed λ."""
    m = A.shape[1]
    V, past_lam, past_r = row.V, row.past_lam, row.past_r
    for t in range(n_events + 1):
        residual(A, row.past_support[t], row.past_k[t], row.past_x[t], y, m, past_r[t])
    first_bad = n_events + 1
    for i in range(start, n_overlooked):
        column = A[V[i]]
        for t in range(first_bad):
            value = row_dot(past_r, t, column, m)
            if (abs(value) if signed else value) > past_lam[t] * (1.0 + 1e-6):
                first_bad = t
                break
    return max(first_bad - 1, 0)


@compiled
def _return_to(G, row, k, t):
    """Bring the support, its values and M back to breakpoint t by undoing what differs; returns (k, λ)."""
    M, S, sign, x, w, b, v, mark = row.M, row.S, row.sign, row.x, row.w, row.b, row.v, row.mark
    past_support, past_k = row.past_support, row.past_k[t]
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
            for a in range(k):
                b[a] = G[j, S[a]]
            join(M, w, k, b, G[j, j], 0.0, 0.0, v)
            S[k] = j
            mark[j] = -mark[j]
            k += 1
    for a in range(k):
        past = -mark[S[a]] - 1
        x[a], sign[a] = row.past_x[t, past], row.past_sign[t, past]
        mark[S[a]] = 0
    symmetric_product(M, sign, k, w)
    for i in range(len(row.r)):
        row.r[i] = row.past_r[t, i]
    return k, row.past_lam[t]


# ---- one row ---------------------------------------------------------------------------------------------------------


@compiled
def _start(A, row, signed):
    """Let the column with the largest correlation in; returns λ, or 0 where no column leads towards y."""
    m = A.shape[1]
    rank = row.rank
    high = rank[0]
    for j in range(len(rank)):
        high = max(high, rank[j])
    lam = 0.0
    for j in range(len(rank)):
        if rank[j] >= high * np.float32(0.99999):
            value = row_dot(A, j, row.r, m)
            if (abs(value) if signed else value) > lam:
                lam = abs(value)
                row.S[0], row.sign[0] = j, 1.0 if value > 0.0 else -1.0
    if lam > 0.0:
        j = row.S[0]
        row.M[0, 0] = 1.0 / row_dot(A, j, A[j], m)
        row.x[0], row.w[0] = 0.0, row.M[0, 0] * row.sign[0]
        scale = np.float32(1.0 / lam)
        for j in range(len(rank)):
            row.p[j] *= scale
            if signed:
                rank[j] *= scale
    return lam


@compiled
def _finish(A, row, k, y):
    """Polish x and u at λ = 0; returns the limit for Aᵀu: 1 where y is reached, and 0 where u proves that it is not."""
    m = A.shape[1]
    for _ in range(4):
        if correct(A, row.S, k, row.M, row.sign, 0.0, row.x, y, m, row.r, row.b, row.v) <= 1e-16:
            break
    residual(A, row.S, k, row.x, y, m, row.r)
    missing = norm(row.r, m)
    if missing <= REACHED:
        dual_vector(A, row.S, k, row.M, row.sign, m, row.u, row.b, row.v)
        return 1.0
    for i in range(m):
        row.u[i] = row.r[i] / missing
    return 0.0


@compiled
def _solve_row(A, A32, G, G32, norms, y, row, signed, target, first_events, max_steps):
    """Solve one row; returns (outcome, size of the support, steps). S, x and u hold the answer."""
    m = A.shape[1]
    for i in range(m):
        row.r[i], row.u[i], row.z[i] = y[i], y[i], y[i]
    _look(A32, row, signed)
    lam = _start(A, row, signed)
    if lam == 0.0:
        return NO_SOLUTION, 0, 0
    k, steps, n_events, last_step = 1, 0, first_events, _LAST_STEP
    n_overlooked = 0  # columns that sent the row back, kept in W until the path is past them
    n_ends = 0
    while steps <= max_steps and n_ends <= _MOST_ENDS:
        width = _stock(A, G32, row, k, target, n_overlooked)
        k, lam, n_done, ended = _advance(A, G, G32, row, y, k, lam, width, n_events, signed, last_step)
        steps += n_done + (1 if ended else 0)
        if k == 0:
            break
        limit = 1.0
        if ended:
            limit = _finish(A, row, k, y)
            for i in range(m):
                row.z[i] = row.u[i]
        else:
            correct(A, row.S, k, row.M, row.sign, lam, row.x, y, m, row.r, row.b, row.v)
            for i in range(m):
                row.z[i] = row.r[i] / lam
        _look(A32, row, signed)
        n_before = n_overlooked
        n_overlooked = _overlooked(A, norms, row, k, width, limit, signed, ended, n_before)
        if n_overlooked > n_before:
            t = n_done + 1
            while n_overlooked > n_before:
                t = _last_valid(A, row, y, t - 1, n_before, n_overlooked, signed)
                k, lam = _return_to(G, row, k, t)
                for i in range(m):
                    row.z[i] = row.r[i] / lam
                _look(A32, row, signed)
                n_before = n_overlooked
                if t > 0:  # others may have been above λ here, and below it again at the last look
                    n_overlooked = _overlooked(A, norms, row, k, width, 1.0, signed, False, n_before)
            n_events = max(4, n_events // 2)
            if ended:
                n_ends += 1
                last_step *= 0.01
        elif ended:
            outcome = SOLVED if limit == 1.0 else NO_SOLUTION
            if outcome == SOLVED:
                k = prune(A, row.S, row.sign, row.x, k, row.M, row.w, y, m, row.past_r[0], row.b, row.v)
            return outcome, k, steps
        else:
            n_overlooked = 0
            n_events = min(2 * n_events, _MOST_EVENTS)
    return GAVE_UP, k, steps


@compiled
def _solve_rows(A, A32, G, G32, norms, Y, row, signed, target, first_events, max_steps, S, X, U, info):
    """`_solve_row` for every row of Y; info[i] = (outcome, size of the support, steps)."""
    for i in range(len(Y)):
        outcome, k, steps = _solve_row(A, A32, G, G32, norms, Y[i], row, signed, target, first_events, max_steps)
        info[i, 0], info[i, 1], info[i, 2] = outcome, k, steps
        for a in range(k):
            S[i, a], X[i, a] = row.S[a], row.x[a]
        for j in range(U.shape[1]):
            U[i, j] = row.u[j]


# ---- the engine ------------------------------------------------------------------------------------------------------


class GramPathEngine:
    """Solve each row by following its LASSO path on the Gram matrix AᵀA (memory: 12 d² bytes)."""

    def __init__(self, A: FloatArray, *, positive: bool) -> None:
        self.shape = A.shape
        self.signed = not positive
        self.columns = padded(np.ascontiguousarray(A.T))
        self.single = np.ascontiguousarray(self.columns.T, dtype=np.float32)
        self.gram = A.T @ A
        self.gram_single = self.gram.astype(np.float32)
        self.norms = np.sqrt(np.diag(self.gram)).astype(np.float32)
        self.row = _allocate(A.shape[1], self.columns.shape[1], A.shape[0], positive=positive)

    def solve(self, Y: FloatArray) -> Candidates:
        n, (m, d) = len(Y), self.shape
        S, X, U = np.zeros((n, m), dtype=np.int64), np.zeros((n, m)), np.zeros((n, m))
        info = np.zeros((n, 3), dtype=np.int64)
        matrices = (self.columns, self.single, self.gram, self.gram_single, self.norms)
        _solve_rows(*matrices, padded(Y), self.row, self.signed, _TARGET, _FIRST_EVENTS, 10 * m + 100, S, X, U, info)
        return pack(S, X, U, info, d)


def _allocate(d: int, m: int, K: int, *, positive: bool) -> _Row:
    """The arrays of a `_Row` (m is the padded number of measurements)."""
    width, q, single = min(d, 4 * _TARGET + K), _MOST_EVENTS + 1, np.float32
    p = np.zeros(d, dtype=single)
    return _Row(
        M=np.zeros((K + 1, K + 1)),
        S=np.zeros(K + 1, dtype=np.int64),
        sign=np.zeros(K + 1),
        x=np.zeros(K + 1),
        w=np.zeros(K + 1),
        w32=np.zeros(K + 1, dtype=single),
        W=np.zeros(width, dtype=np.int64),
        at=np.zeros(K + 1, dtype=np.int64),
        H=np.zeros((K + 1, width), dtype=single),
        c=np.zeros(width, dtype=single),
        g=np.zeros(width, dtype=single),
        ratio=np.zeros(width, dtype=single),
        closed=np.zeros(width, dtype=single),
        rejected=np.zeros(width, dtype=np.int64),
        p=p,
        rank=p if positive else np.zeros(d, dtype=single),
        r=np.zeros(m),
        u=np.zeros(m),
        z=np.zeros(m, dtype=single),
        b=np.zeros(K + 1),
        v=np.zeros(K + 1),
        V=np.zeros(4 * d, dtype=np.int64),
        mark=np.zeros(d, dtype=np.int64),
        past_k=np.zeros(q, dtype=np.int64),
        past_lam=np.zeros(q),
        past_support=np.zeros((q, K + 1), dtype=np.int64),
        past_sign=np.zeros((q, K + 1)),
        past_x=np.zeros((q, K + 1)),
        past_r=np.zeros((q, m)),
    )
