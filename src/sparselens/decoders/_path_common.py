"""What the compiled path solvers share: the compiler, the algebra of a growing support, and the final polish.

The LASSO path of ``½‖y − Ax‖² + λ‖x‖₁`` is piecewise linear in λ. On a support S with signs s the solution moves by
``x_S += γ w`` while λ falls by γ, where ``w = M s`` and ``M = (A_SᵀA_S)⁻¹``. Both solvers keep M itself and change it
by rank one when a column joins or leaves: every inner loop then runs over whole rows, which a processor likes more
than the triangular solves of a Cholesky factor. What M loses in accuracy is won back by refinement on A itself.

Index two-dimensional arrays as ``M[a, c]`` in these functions: a row taken as ``M[a]`` counts references with
atomic instructions, which cost more than the loop over a short row.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from sparselens._validation import FloatArray
from sparselens.decoders._engine import Candidates

SOLVED, NO_SOLUTION, GAVE_UP = 0, 1, 2  # how the path of a row ended
REACHED = 1e-9  # ‖Ax − y‖ / ‖y‖ up to which the end of the path counts as a solution
BIG = 1e300  # stands for infinity, so that no loop has to think about inf − inf
PIVOT = 1e-13  # a column with less than this part of its square norm outside span(A_S) is taken as dependent

# Sums may be reordered and fused, which is what lets them run in vector registers; NaN and infinity keep their meaning.
_FASTMATH = {"reassoc", "contract", "arcp", "nsz"}


def compiled(function: Callable[..., Any]) -> Any:
    """Compile a function with numba and keep the machine code on disk for the next process, where that is possible."""
    from numba import njit

    options: dict[str, Any] = {"fastmath": _FASTMATH, "error_model": "numpy", "boundscheck": False}
    try:
        return njit(cache=True, **options)(function)
    except RuntimeError:  # no folder to write to: compile for this process alone
        return njit(**options)(function)


@compiled
def row_dot(A, j, v, n):
    """``A[j, :n] · v[:n]``"""
    total = 0.0
    for c in range(n):
        total += A[j, c] * v[c]
    return total


@compiled
def add_rows(A, S, k, weights, n, out):
    """``out[:n] += Σ_a weights[a] A[S[a], :n]``"""
    a = 0
    while a + 4 <= k:
        j0, j1, j2, j3 = S[a], S[a + 1], S[a + 2], S[a + 3]
        w0, w1, w2, w3 = weights[a], weights[a + 1], weights[a + 2], weights[a + 3]
        for c in range(n):
            out[c] += w0 * A[j0, c] + w1 * A[j1, c] + w2 * A[j2, c] + w3 * A[j3, c]
        a += 4
    while a < k:
        j0, w0 = S[a], weights[a]
        for c in range(n):
            out[c] += w0 * A[j0, c]
        a += 1


@compiled
def symmetric_product(M, v, k, out):
    """``out[:k] = M[:k, :k] v[:k]`` for a symmetric M, by whole rows."""
    for c in range(k):
        out[c] = 0.0
    a = 0
    while a + 4 <= k:
        v0, v1, v2, v3 = v[a], v[a + 1], v[a + 2], v[a + 3]
        for c in range(k):
            out[c] += v0 * M[a, c] + v1 * M[a + 1, c] + v2 * M[a + 2, c] + v3 * M[a + 3, c]
        a += 4
    while a < k:
        v0 = v[a]
        for c in range(k):
            out[c] += v0 * M[a, c]
        a += 1


@compiled
def join(M, w, k, b, square, g, sign, v):
    """Border M and ``w = M s`` by a column with ``b = A_Sᵀa``, ``square = ‖a‖²`` and ``g = aᵀA_S w``.

    Returns False, and changes nothing, where the column depends on the support.
    """
    symmetric_product(M, b, k, v)
    pivot = square
    for a in range(k):
        pivot -= b[a] * v[a]
    if not pivot > PIVOT * square:
        return False
    inverse = 1.0 / pivot
    for a in range(k):
        f = v[a] * inverse
        for c in range(k):
            M[a, c] += f * v[c]
        M[a, k] = -f
        M[k, a] = -f
    M[k, k] = inverse
    t = (sign - g) * inverse
    for a in range(k):
        w[a] -= t * v[a]
    w[k] = t
    return True


@compiled
def leave(M, w, k, p, v):
    """Take position p out of M and ``w = M s``; the last position takes its place."""
    for a in range(k):
        v[a] = M[p, a]
    inverse = 1.0 / v[p]
    t = w[p] * inverse
    for a in range(k):
        f = v[a] * inverse
        for c in range(k):
            M[a, c] -= f * v[c]
        w[a] -= t * v[a]
    last = k - 1
    if p != last:
        for a in range(last):
            M[p, a] = M[last, a]
        M[p, p] = M[last, last]
        for a in range(last):
            M[a, p] = M[p, a]
        w[p] = w[last]


@compiled
def residual(A, S, k, x, y, n, r):
    """``r = y − A_S x``"""
    for c in range(n):
        r[c] = y[c]
    a = 0
    while a + 4 <= k:
        j0, j1, j2, j3 = S[a], S[a + 1], S[a + 2], S[a + 3]
        x0, x1, x2, x3 = x[a], x[a + 1], x[a + 2], x[a + 3]
        for c in range(n):
            r[c] -= x0 * A[j0, c] + x1 * A[j1, c] + x2 * A[j2, c] + x3 * A[j3, c]
        a += 4
    while a < k:
        j0, x0 = S[a], x[a]
        for c in range(n):
            r[c] -= x0 * A[j0, c]
        a += 1


@compiled
def correct(A, S, k, M, sign, lam, x, y, n, r, b, v):
    """Refine x once towards ``A_Sᵀ(y − A_S x) = λ s``; returns the size of the step, with the old residual in r."""
    residual(A, S, k, x, y, n, r)
    for a in range(k):
        b[a] = row_dot(A, S[a], r, n) - lam * sign[a]
    symmetric_product(M, b, k, v)
    size = 0.0
    for a in range(k):
        x[a] += v[a]
        size = max(size, abs(v[a]))
    return size


@compiled
def dual_vector(A, S, k, M, sign, n, u, b, v):
    """The shortest u with ``A_Sᵀu = s``, refined once; returns how far it misses."""
    for c in range(n):
        u[c] = 0.0
    for a in range(k):
        b[a] = sign[a]
    miss = 0.0
    for _ in range(2):
        symmetric_product(M, b, k, v)
        add_rows(A, S, k, v, n, u)
        miss = 0.0
        for a in range(k):
            b[a] = sign[a] - row_dot(A, S[a], u, n)
            miss = max(miss, abs(b[a]))
    return miss


@compiled
def norm(v, n):
    """``‖v[:n]‖``"""
    total = 0.0
    for i in range(n):
        total += v[i] * v[i]
    return np.sqrt(total)


@compiled
def prune(A, S, sign, x, k, M, w, y, n, r, b, v):
    """Leave out values that are zero but for rounding, where the others reach y as well without them; returns k."""
    largest = 0.0
    for a in range(k):
        largest = max(largest, abs(x[a]))
    small = 0
    for a in range(k):
        small += 1 if abs(x[a]) < 1e-6 * largest else 0
    if small == 0:
        return k
    old_S, old_x = S[:k].copy(), x[:k].copy()
    size = k
    for a in range(k - 1, -1, -1):
        if abs(x[a]) < 1e-6 * largest:
            leave(M, w, size, a, v)
            size -= 1
            S[a], sign[a], x[a] = S[size], sign[size], x[size]
    for _ in range(3):
        correct(A, S, size, M, sign, 0.0, x, y, n, r, b, v)
    residual(A, S, size, x, y, n, r)
    if norm(r, n) <= 1e-13:
        return size
    S[:k], x[:k] = old_S, old_x
    return k


def padded(rows: FloatArray) -> FloatArray:
    """Rows lengthened by zeros to a multiple of 8, so that loops over them have no remainder."""
    n, m = rows.shape
    if m % 8 == 0:
        return np.ascontiguousarray(rows)
    out = np.zeros((n, m + 8 - m % 8))
    out[:, :m] = rows
    return out


def pack(S: np.ndarray, X: FloatArray, U: FloatArray, info: np.ndarray, d: int) -> Candidates:
    """Supports S and values X, of which each row uses the first info[:, 1], as Candidates."""
    infeasible = info[:, 0] == NO_SOLUTION
    counts = np.where(infeasible, 0, info[:, 1])
    used = np.arange(S.shape[1]) < counts[:, None]
    x = sp.csr_array((X[used], S[used], np.concatenate(([0], np.cumsum(counts)))), shape=(len(S), d))
    x.sort_indices()
    return Candidates(x=x, dual=U, infeasible=infeasible, n_steps=info[:, 2])
