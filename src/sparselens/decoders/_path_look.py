"""Judging a look at all columns: which were overlooked, and which are worth working on; compiled."""

from __future__ import annotations

import numpy as np

from sparselens.decoders._path_common import column_dot, column_dots, compiled
from sparselens.decoders._path_row import BEGIN, ENDED, LAM, LIMIT, MODE, MOST_EVENTS, OVERLOOKED, SIZE, WIDTH

NEVER = np.float32(1e30)


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
        return -NEVER
    low = -high
    while low > -NEVER and _count(p, low) < target:
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
def overlooked(problem, row, p):
    """Add to V the columns that exceed the limit; returns how many V holds then, or −1 where it is full.

    Underway these are columns outside W; at the end all columns outside the support, judged in double precision.
    """
    norms, mark, V, W, S = problem.norms, row.mark, row.V, row.W, row.S
    start, ended = row.n[OVERLOOKED], row.n[MODE] == ENDED
    limit = row.f[LIMIT] if ended else 1.0
    length = row.z[0] - row.z[0]  # in the precision of z
    for i in range(len(row.z)):
        length += row.z[i] * row.z[i]
    band = p.dtype.type(problem.rounding) * np.sqrt(length)
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
def stock(problem, row, p):
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
        scale = row.o.dtype.type(1.0 if row.n[MODE] == BEGIN else row.f[LAM])
        for i in range(width):
            row.o[i] = p[W[i]] * scale
    row.n[WIDTH] = width


@compiled
def choose(problem, row):
    """Make `near` of the columns in V and of those of W that are nearest to λ; says how many these are.

    Columns of W that are in the support by now are left out.
    """
    W, S, V, o, near, c, mark = row.W, row.S, row.V, row.o, row.near, row.c, row.mark
    width, level = row.n[WIDTH], -NEVER
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
            mark[W[i]] = 1  # once: W has a column that left more than once as often, and the support must not
            n_inner += 1
    for i in range(n_inner):
        mark[near[i]] = 0
    for a in range(row.n[SIZE]):
        mark[S[a]] = 0
    for i in range(row.n[OVERLOOKED]):
        mark[V[i]] = 0
    return n_inner
