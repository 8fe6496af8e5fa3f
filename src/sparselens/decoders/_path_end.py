"""The end of the path: refinement, polish, and the proof; compiled."""

from __future__ import annotations

from sparselens.decoders._path_common import (
    add_columns,
    column_dot,
    column_dots,
    combine_rows,
    compiled,
    leave,
    norm,
    rebuild,
    residual,
)
from sparselens.decoders._path_follow import remember
from sparselens.decoders._path_row import LIMIT, SIZE

_REACHED = 1e-9  # ‖Ax − y‖ / ‖y‖ up to which the end of the path counts as a solution
_LOST = 1e-8  # the last change of a refinement, relative to x, from which on M is taken as lost
_DUAL = 1e-12  # what A_Sᵀu may miss the signs by, before M is taken as lost
_EXACT = 1e-13  # ‖Ax − y‖ / ‖y‖ that is nothing but rounding


@compiled
def _size(v, k):
    """The largest magnitude among the first k entries."""
    size = 0.0
    for a in range(k):
        size = max(size, abs(v[a]))
    return size


@compiled
def refine(problem, row, lam):
    """Refine x towards ``A_Sᵀ(y − A_S x) = λ s``, with the residual in r; M is made anew where it is lost."""
    if _refine(problem, row, lam) > _LOST or problem.careful:
        rebuild(problem.A, row.S, row.n[SIZE], row.M, row.b)
        combine_rows(row.M, row.sign, row.n[SIZE], row.n[SIZE], row.w)
        _refine(problem, row, lam)


@compiled
def _refine(problem, row, lam):
    """Refine a few times; returns the size of the last change, relative to x."""
    k, x, b, v = row.n[SIZE], row.x, row.b, row.v
    change = 0.0
    for _ in range(4):
        residual(problem.A, row.S, k, x, row.y, row.r)
        column_dots(problem.A, row.S, k, row.r, b)
        for a in range(k):
            b[a] -= lam * row.sign[a]
        combine_rows(row.M, b, k, k, v)
        for a in range(k):
            x[a] += v[a]
        change = _size(v, k) / _size(x, k)
        if change <= 1e-12:  # what is left to gain is below the rounding of r
            break
    return change


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
def untransform(problem, row):
    """``true_u = Tᵀu``: Aᵀu is the same for the whitened matrix and for the matrix itself."""
    u, true_u = row.u, row.true_u
    for i in range(len(true_u)):
        true_u[i] = 0.0 if problem.whitened else u[i]
    if problem.whitened:
        for a in range(len(u)):
            for i in range(len(true_u)):
                true_u[i] += u[a] * problem.whitening[a, i]


@compiled
def finish(problem, row):
    """Polish x, and make the proof: u with ``A_Sᵀu = s``, or r with ``Aᵀr ≤ 0`` where y is not reached."""
    k, b, u = row.n[SIZE], row.b, row.u
    missing = _polish(problem, row)
    if missing > _EXACT:
        rebuild(problem.A, row.S, k, row.M, b)
        missing = _polish(problem, row)
    if missing > _REACHED:
        length, true_length = norm(row.r), norm(row.true_r)
        row.f[LIMIT] = 0.0
        if length > _REACHED or not problem.whitened:
            for i in range(len(u)):
                u[i] = row.r[i] / length
            untransform(problem, row)
        else:  # y lies outside the range of the matrix, which whitening does not see
            for i in range(len(u)):
                u[i] = 0.0
            for i in range(len(row.true_u)):
                row.true_u[i] = row.true_r[i] / true_length
        return
    row.f[LIMIT] = 1.0
    if _make_dual(problem, row) > _DUAL:
        rebuild(problem.A, row.S, k, row.M, b)
        _make_dual(problem, row)


@compiled
def _make_dual(problem, row):
    """u with ``A_Sᵀu = s``, refined a few times; returns the largest error."""
    k, b, v, u = row.n[SIZE], row.b, row.v, row.u
    for i in range(len(u)):
        u[i] = 0.0
    for a in range(k):
        b[a] = row.sign[a]
    for _ in range(3):
        combine_rows(row.M, b, k, k, v)
        add_columns(problem.A, row.S, k, v, 1.0, u)
        untransform(problem, row)
        column_dots(problem.true, row.S, k, row.true_u, b)
        for a in range(k):
            b[a] = row.sign[a] - b[a]
        if _size(b, k) <= 1e-14:
            break
    return _size(b, k)


@compiled
def prune(problem, row):
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
    remember(S, sign, x, k, 0.0, 0, row.past_k, row.past_lam, row.past_support, row.past_sign, row.past_x)
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
