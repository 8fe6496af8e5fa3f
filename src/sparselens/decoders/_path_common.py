"""The compiler of the path solvers, the algebra of a support that grows and shrinks, and what they hand out.

The LASSO path of ``½‖y − Ax‖² + λ‖x‖₁`` is piecewise linear in λ. On a support S with signs s the solution moves by
``x_S += γ w`` while λ falls by γ, where ``w = M s`` and ``M = (A_SᵀA_S)⁻¹``. The solvers keep M itself and change it
by rank one when a column joins or leaves: every inner loop then runs over whole rows, which a processor likes more
than the triangular solves of a Cholesky factor. What M loses in accuracy is won back by refinement on A itself.

Arrays of columns have the shape (d, m): row j is column a_j. Index them as ``A[j, c]`` in compiled functions: a row
taken as ``A[j]`` counts references with atomic instructions, which cost more than the loop over a short row.
"""

from __future__ import annotations

import logging
import zlib
from collections.abc import Callable
from pathlib import Path
from threading import Timer
from typing import Any

import numpy as np
import scipy.sparse as sp

from sparselens._validation import FloatArray
from sparselens.decoders._engine import Candidates

_logger = logging.getLogger("sparselens")

SOLVED, NO_SOLUTION, GAVE_UP, UNDERWAY = 0, 1, 2, 3  # how the path of a row ended, or that it has not yet
BIG = 1e300  # stands for infinity, so that no loop has to think about inf − inf
SINGULAR = 1e-15  # of its square norm: what a rebuilt M takes a column to have outside the span of the others, at least
PIVOT = 1e-13  # a column with less than this part of its square norm outside span(A_S) is taken as dependent

# Sums may be reordered and fused, which is what lets them run in vector registers; NaN and infinity keep their meaning.
_OPTIONS: dict[str, Any] = {
    "fastmath": {"reassoc", "contract", "arcp", "nsz"},
    "error_model": "numpy",
    "boundscheck": False,
}


def compiled(function: Callable[..., Any]) -> Any:
    """Compile a function that only compiled functions call, when one of them is first called."""
    from numba import njit

    options: dict[str, Any] = {**_OPTIONS, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    return njit(**options)(function)


def entry(function: Callable[..., Any]) -> Any:
    """Compile a function that Python calls, when it is first called; keep the machine code for the next process.

    Numba notices when the file of a cached function changes, but not when a file changes whose functions it calls.
    A cached function therefore has a closure on `source_stamp`, which numba makes a part of the key.
    """
    from numba import njit

    try:
        return njit(cache=True, **_OPTIONS)(function)
    except RuntimeError:  # no folder to write to: compile for this process alone
        return njit(**_OPTIONS)(function)


_loaded: set[tuple[Any, Any]] = set()


def load(function: Any, problem: Any, *nothing_to_do: Any) -> None:
    """Compile an entry, or read it from the disk, by a call that has nothing to do; say so where it takes long.

    There is one machine code for each precision of the problem.
    """
    key = (function, problem.fast.dtype)
    if key in _loaded:
        return
    message = "compiling the decoder, once on this machine: this takes about half a minute"
    timer = Timer(2.0, _logger.warning, args=(message,))
    timer.daemon = True
    timer.start()
    try:
        function(problem, *nothing_to_do)
    finally:
        timer.cancel()
    _loaded.add(key)


_SOURCES = ("common", "row", "look", "follow", "end", "steps")


def source_stamp() -> int:
    """A number that changes when the source of a compiled function does."""
    folder = Path(__file__).parent
    return zlib.crc32(b"".join((folder / f"_path_{name}.py").read_bytes() for name in _SOURCES))


def _make_borrowed() -> Any:
    from numba.core import cgutils
    from numba.extending import intrinsic

    @intrinsic
    def borrowed(typing_context, array):
        """The same array without a reference count, for the time of a call during which the caller keeps it.

        Compiled functions count references with atomic instructions wherever an array goes in or out of a function,
        which together would take a third of the time of a small problem.
        """

        def generate(context, builder, signature, arguments):
            made = context.make_array(array)(context, builder, arguments[0])
            made.meminfo = cgutils.get_null_value(made.meminfo.type)
            made.parent = cgutils.get_null_value(made.parent.type)
            return made._getvalue()

        return array(array), generate

    return borrowed


borrowed = _make_borrowed()


# ---- sums over columns -----------------------------------------------------------------------------------------------


@compiled
def column_dot(A, j, v):
    """``a_jᵀv``"""
    total = 0.0
    for c in range(A.shape[1]):
        total += A[j, c] * v[c]
    return total


@compiled
def column_dots(A, S, k, v, out):
    """``out = A_Sᵀv``"""
    n = A.shape[1]
    zero = v[0] - v[0]  # in the precision of v
    a = 0
    while a + 4 <= k:
        j0, j1, j2, j3 = S[a], S[a + 1], S[a + 2], S[a + 3]
        t0, t1, t2, t3 = zero, zero, zero, zero
        for c in range(n):
            t0 += A[j0, c] * v[c]
            t1 += A[j1, c] * v[c]
            t2 += A[j2, c] * v[c]
            t3 += A[j3, c] * v[c]
        out[a], out[a + 1], out[a + 2], out[a + 3] = t0, t1, t2, t3
        a += 4
    while a < k:
        j0, t0 = S[a], zero
        for c in range(n):
            t0 += A[j0, c] * v[c]
        out[a] = t0
        a += 1


@compiled
def add_columns(A, S, k, weights, factor, out):
    """``out += factor · A_S weights``"""
    n = A.shape[1]
    a = 0
    while a + 4 <= k:
        j0, j1, j2, j3 = S[a], S[a + 1], S[a + 2], S[a + 3]
        w0, w1 = factor * weights[a], factor * weights[a + 1]
        w2, w3 = factor * weights[a + 2], factor * weights[a + 3]
        for c in range(n):
            out[c] += w0 * A[j0, c] + w1 * A[j1, c] + w2 * A[j2, c] + w3 * A[j3, c]
        a += 4
    while a < k:
        j0, w0 = S[a], factor * weights[a]
        for c in range(n):
            out[c] += w0 * A[j0, c]
        a += 1


@compiled
def residual(A, S, k, x, y, r):
    """``r = y − A_S x``"""
    for c in range(len(y)):
        r[c] = y[c]
    add_columns(A, S, k, x, -1.0, r)


@compiled
def norm(v):
    """``‖v‖``"""
    total = 0.0
    for i in range(len(v)):
        total += v[i] * v[i]
    return np.sqrt(total)


# ---- the inverse Gram matrix of the support --------------------------------------------------------------------------


@compiled
def combine_rows(H, w, k, width, out):
    """``out = Σ_a w[a] H[a]``, in the precision of H; for a symmetric H this is the product Hw."""
    zero = w[0] - w[0]
    for i in range(width):
        out[i] = zero
    a = 0
    while a + 4 <= k:
        w0, w1, w2, w3 = w[a], w[a + 1], w[a + 2], w[a + 3]
        for i in range(width):
            out[i] += w0 * H[a, i] + w1 * H[a + 1, i] + w2 * H[a + 2, i] + w3 * H[a + 3, i]
        a += 4
    while a < k:
        w0 = w[a]
        for i in range(width):
            out[i] += w0 * H[a, i]
        a += 1


@compiled
def join(M, w, k, b, square, rate, sign, v):
    """Border M and ``w = M s`` by a column a with ``b = A_Sᵀa``, ``square = ‖a‖²`` and ``rate = aᵀA_S w``.

    Returns False, and changes nothing, where the column depends on the support.
    """
    combine_rows(M, b, k, k, v)
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
    t = (sign - rate) * inverse
    for a in range(k):
        w[a] -= t * v[a]
    w[k] = t
    return True


@compiled
def move_last(M, last, p):
    """Put the last row and column of M into the place of row and column p."""
    if p != last:
        for a in range(last):
            M[p, a] = M[last, a]
        M[p, p] = M[last, last]
        for a in range(last):
            M[a, p] = M[p, a]


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
    move_last(M, k - 1, p)
    w[p] = w[k - 1]


@compiled
def rebuild(A, S, k, M, b):
    """M from the columns themselves, by Cholesky: what many changes, some by nearly dependent columns, have lost.

    Where not even that can be told from singular, M is a little too small: it only has to lead refinement on.
    """
    for a in range(k):  # the lower triangle of A_SᵀA_S
        column_dots(A, S, a + 1, A[S[a]], b)
        for c in range(a + 1):
            M[a, c] = b[c]
    for a in range(k):  # L, with LLᵀ = A_SᵀA_S
        least = SINGULAR * M[a, a]
        for c in range(a):
            total = M[a, c]
            for i in range(c):
                total -= M[a, i] * M[c, i]
            M[a, c] = total / M[c, c]
        pivot = M[a, a]
        for i in range(a):
            pivot -= M[a, i] * M[a, i]
        M[a, a] = np.sqrt(max(pivot, least))
    for a in range(k):  # L⁻¹, row by row
        inverse = 1.0 / M[a, a]
        for c in range(a):
            b[c] = 0.0
        for i in range(a):
            for c in range(i + 1):
                b[c] -= M[a, i] * M[i, c]
        for c in range(a):
            M[a, c] = b[c] * inverse
        M[a, a] = inverse
    for a in range(k):  # L⁻ᵀL⁻¹: entry (a, c), c ≤ a, needs the rows from a on
        for c in range(a + 1):
            b[c] = 0.0
        for i in range(a, k):
            for c in range(a + 1):
                b[c] += M[i, a] * M[i, c]
        for c in range(a + 1):
            M[a, c] = b[c]
    for a in range(k):
        for c in range(a):
            M[c, a] = M[a, c]


# ---- the same for a large M, whose changes are collected: M + Σ_i factor[i] N[i] N[i]ᵀ is meant ----------------------


@compiled
def late_join(M, w, known, k, b, square, rate, sign, N, factor, n_late):
    """`join` at position k as change number n_late; M itself holds the first `known` positions."""
    v = N[n_late]
    for a in range(k + 1):
        v[a] = 0.0
    for a in range(known):  # v = Mb from the lower triangle alone: half the memory to read
        ba, total = b[a], 0.0
        for c in range(a):
            v[c] += ba * M[a, c]
            total += b[c] * M[a, c]
        v[a] += total + ba * M[a, a]
    for i in range(n_late):
        total = 0.0
        for a in range(k):
            total += N[i, a] * b[a]
        total *= factor[i]
        for a in range(k):
            v[a] += total * N[i, a]
    pivot = square
    for a in range(k):
        pivot -= b[a] * v[a]
    if not pivot > PIVOT * square:
        return False
    v[k] = -1.0
    factor[n_late] = 1.0 / pivot
    t = (sign - rate) / pivot
    for a in range(k):
        w[a] -= t * v[a]
    w[k] = t
    for i in range(n_late):
        N[i, k] = 0.0
    return True


@compiled
def late_leave(M, w, known, k, p, N, factor, n_late):
    """`leave` as change number n_late; position p stays as a dead one, with zeros in M and in w."""
    v = N[n_late]
    for a in range(k):
        v[a] = M[p, a] if a < known and p < known else 0.0
    for i in range(n_late):
        f = factor[i] * N[i, p]
        for a in range(k):
            v[a] += f * N[i, a]
    factor[n_late] = -1.0 / v[p]
    t = w[p] / v[p]
    for a in range(k):
        w[a] -= t * v[a]
    w[p] = 0.0


@compiled
def make_changes(M, known, k, N, factor, n_late):
    """Add the collected changes to M, which then holds k positions."""
    if n_late == 0:
        return
    for a in range(k):
        for c in range(known if a < known else 0, k):
            M[a, c] = 0.0
    for a in range(k):
        i = 0
        while i + 8 <= n_late:
            f0, f1, f2 = factor[i] * N[i, a], factor[i + 1] * N[i + 1, a], factor[i + 2] * N[i + 2, a]
            f3, f4, f5 = factor[i + 3] * N[i + 3, a], factor[i + 4] * N[i + 4, a], factor[i + 5] * N[i + 5, a]
            f6, f7 = factor[i + 6] * N[i + 6, a], factor[i + 7] * N[i + 7, a]
            for c in range(k):
                M[a, c] += (
                    f0 * N[i, c]
                    + f1 * N[i + 1, c]
                    + f2 * N[i + 2, c]
                    + f3 * N[i + 3, c]
                    + f4 * N[i + 4, c]
                    + f5 * N[i + 5, c]
                    + f6 * N[i + 6, c]
                    + f7 * N[i + 7, c]
                )
            i += 8
        while i < n_late:
            f0 = factor[i] * N[i, a]
            for c in range(k):
                M[a, c] += f0 * N[i, c]
            i += 1


# ---- in and out ------------------------------------------------------------------------------------------------------


def padded(rows: FloatArray) -> FloatArray:
    """Rows lengthened by zeros to a multiple of 8, so that loops over them have no remainder.

    A read-only array is copied: numba takes it for another type and would compile everything again.
    """
    n, m = rows.shape
    if m % 8 == 0:
        return np.require(rows, requirements=["C", "W"])
    out = np.zeros((n, m + 8 - m % 8))
    out[:, :m] = rows
    return out


def pack(
    S: np.ndarray, X: FloatArray, U: FloatArray, outcome: np.ndarray, size: np.ndarray, steps: np.ndarray, d: int
) -> Candidates:
    """Supports S and values X, of which each row uses the first `size`, as Candidates."""
    infeasible = outcome == NO_SOLUTION
    counts = np.where(infeasible, 0, size)
    used = np.arange(S.shape[1]) < counts[:, None]
    x = sp.csr_array((X[used], S[used], np.concatenate(([0], np.cumsum(counts)))), shape=(len(S), d))
    x.sort_indices()
    return Candidates(x=x, dual=np.ascontiguousarray(U), infeasible=infeasible, n_steps=steps)
