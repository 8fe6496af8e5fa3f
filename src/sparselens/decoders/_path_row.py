"""The state of a row on its way along the path, and what all rows share; compiled functions take both apart."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sparselens.decoders._path_common import borrowed, compiled

MOST_EVENTS = 64  # events between two looks at all columns, at most

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
    fast: np.ndarray  # (d, m) the same in the precision of looks and correlations: single, or double with patience
    norms: np.ndarray  # (d,) float32 norms of the columns
    true: np.ndarray  # (d, m') columns of the matrix itself: A, or what A was whitened from
    whitening: np.ndarray  # (m, m') T with A = T · true, where the matrix is whitened
    signed: bool
    whitened: bool
    target: int  # columns of W outside the support
    inner: int  # columns of `near`; `target` where one working set will do
    first_events: int  # events before the first look
    last_step: float  # columns that seem to reach λ only that close to 0 are not looked at, unless the end is wrong
    most: int  # the largest support: the rank of A
    max_steps: int
    careful: bool  # M is made anew at every look: many changes by nearly dependent columns bend the path
    rounding: float  # error of a product with `fast`, relative to the norms of its factors


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
    z: np.ndarray  # (m,) like `fast`, what the next look multiplies with all columns
    W: np.ndarray  # (width,) columns of the working set, without the support
    V: np.ndarray  # columns that sent the row back, kept in W until the path is past them
    past_k: np.ndarray  # (q+1,) the breakpoints since the last look: size of the support,
    past_lam: np.ndarray  # (q+1,) λ,
    past_support: np.ndarray  # (q+1, K) int32 support,
    past_sign: np.ndarray  # (q+1, K) int8 signs,
    past_x: np.ndarray  # (q+1, K) and values
    # scratch
    at: np.ndarray  # (K,) the place in `near` from which a column joined; −1 for those that were there before
    w_fast: np.ndarray  # (K,) like `fast`, as move, o, c, g, ratio and closed
    move: np.ndarray  # (m,) A_S w
    o: np.ndarray  # (width,) correlations of W with the residual
    near: np.ndarray  # (width,) the columns of W that may join: all of them, or the few that are nearest to λ
    N: np.ndarray  # (q, K) changes of M that are not made yet: M + Σ_i f_i N[i] N[i]ᵀ is meant
    factor: np.ndarray  # (q,) the f_i
    c: np.ndarray  # (width,) correlations of `near` with the residual
    g: np.ndarray  # (width,) how fast they fall
    ratio: np.ndarray  # (width,) when they reach λ
    closed: np.ndarray  # (width,) what is added to ratio: 0, or NEVER for columns that may not join
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
        borrowed(problem.fast),
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
        problem.careful,
        problem.rounding,
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
        borrowed(rows.w_fast),
        borrowed(rows.move),
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
