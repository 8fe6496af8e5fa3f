"""Grow a support by one column a step and fit on it: the compiled core of NNLS and of orthogonal matching pursuit.

All rows of a block make a step together: one matrix product gives every column's correlation with every residual, then
compiled code adds the best column to each row's support and refits by a Cholesky factor that is extended by a row or
shortened by Givens rotations. With `positive` a step ends with a nonnegative fit (Lawson and Hanson's inner loop), so
the support may also shrink.
"""

# mypy: disable-error-code="no-untyped-def"
# (numba infers the types of the compiled functions)

from __future__ import annotations

import math

import numba
import numpy as np
import scipy.sparse as sp

from sparselens._validation import FloatArray

RUNNING, DONE, STUCK = 0, 1, 2
_DEPENDENT = 1e-12  # squared distance of a unit column from the support's span below which it is refused


def active_set(
    A: FloatArray, Y: FloatArray, *, positive: bool, max_nonzeros: int, residual_tol: float, gradient_tol: float
) -> tuple[sp.csr_array, np.ndarray, np.ndarray]:
    """Fit each row of Y by few columns of A.

    Parameters
    ----------
    A : array of shape (m, d)
    Y : array of shape (n, m), rows of unit norm (or zero)
    positive : bool
    max_nonzeros : int
        Stop a row when its support has so many columns.
    residual_tol, gradient_tol : float
        Stop a row when ``‖y − Ax‖`` is at most the one, or the largest ``a_jᵀ(y − Ax)/‖a_j‖`` (its absolute value
        where signed) at most the other.

    Returns
    -------
    x : csr_array of shape (n, d)
    n_steps : int array of shape (n,)
    converged : bool array of shape (n,)
        False where the steps ran out (30 m + 200).
    """
    n, (m, d) = len(Y), A.shape
    norms = np.linalg.norm(A, axis=0)
    unit = np.ascontiguousarray(A / np.where(norms > 0, norms, 1.0))
    columns = np.ascontiguousarray(unit.T)
    k = min(max_nonzeros, m)
    L, support, values = np.zeros((n, k, k)), np.full((n, k), -1, dtype=np.int64), np.zeros((n, k))
    counts, steps = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
    refused = np.zeros((n, d), dtype=np.bool_)
    state, R = np.zeros(n, dtype=np.int64), Y.copy()
    live = np.arange(n)
    for _ in range(30 * m + 200):
        E = R[live] @ unit
        _advance(
            live, E, columns, Y, R, L, support, values, counts, steps, refused, state, positive, residual_tol,
            gradient_tol,
        )  # fmt: skip
        live = live[state[live] == RUNNING]
        if len(live) == 0:
            break
    used = np.arange(k) < counts[:, None]
    indptr = np.concatenate(([0], np.cumsum(counts)))
    x = sp.csr_array((values[used] / norms[support[used]], support[used], indptr), shape=(n, d))
    x.sort_indices()
    x.eliminate_zeros()
    return x, steps, state == DONE


@numba.njit(cache=True)
def _advance(
    live, E, columns, Y, R, L, support, values, counts, steps, refused, state, positive, residual_tol, gradient_tol
):  # pragma: no cover (compiled)
    """One step of every live row."""
    most = support.shape[1]
    for q in range(len(live)):
        i = live[q]
        j = _best(E[q], refused[i], positive)
        size = 0.0
        for a in range(R.shape[1]):
            size += R[i, a] * R[i, a]
        if j < 0 or counts[i] >= most or math.sqrt(size) <= residual_tol or abs(E[q, j]) <= gradient_tol:
            state[i] = DONE
            continue
        steps[i] += 1
        k = counts[i]
        refused[i, j] = True
        if not _append(L[i], k, support[i], columns, j):
            continue  # dependent: it stays refused until a column leaves
        support[i, k] = j
        values[i, k] = 0.0
        counts[i] = k + 1
        if positive:
            _nonnegative_fit(i, columns, Y, L, support, values, counts, refused, j)
        else:
            fit = np.zeros(most)
            _solve(i, columns, Y, L, support, counts, fit)
            values[i, : counts[i]] = fit[: counts[i]]
        _residual(i, columns, Y, support, values, counts, R)


@numba.njit(cache=True)
def _best(e, refused, positive):  # pragma: no cover (compiled)
    """The column with the largest correlation (in absolute value where signed) that is not refused, or −1."""
    best, place = 0.0, -1
    for j in range(len(e)):
        size = e[j] if positive else abs(e[j])
        if size > best and not refused[j]:
            best, place = size, j
    return place


@numba.njit(cache=True)
def _append(L, k, support, columns, j):  # pragma: no cover (compiled)
    """Extend the Cholesky factor by column j; False where it depends on the support."""
    rest = 1.0
    for a in range(k):
        s = np.dot(columns[support[a]], columns[j])
        for b in range(a):
            s -= L[a, b] * L[k, b]
        s /= L[a, a]
        L[k, a] = s
        rest -= s * s
    if rest <= _DEPENDENT:
        return False
    L[k, k] = math.sqrt(rest)
    return True


@numba.njit(cache=True)
def _remove(L, k, p):  # pragma: no cover (compiled)
    """Take row p out of the Cholesky factor of k rows and make it triangular again by Givens rotations."""
    for a in range(p, k - 1):
        for b in range(a + 2):
            L[a, b] = L[a + 1, b]
    for a in range(p, k - 1):
        r = math.hypot(L[a, a], L[a, a + 1])
        c, s = L[a, a] / r, L[a, a + 1] / r
        for b in range(a, k - 1):
            first, second = L[b, a], L[b, a + 1]
            L[b, a] = c * first + s * second
            L[b, a + 1] = c * second - s * first


@numba.njit(cache=True)
def _solve(i, columns, Y, L, support, counts, out):  # pragma: no cover (compiled)
    """Least squares on the support with one step of refinement, which removes the rounding of normal equations."""
    k, m = counts[i], Y.shape[1]
    rest = Y[i].copy()
    right = np.zeros(k)
    out[:k] = 0.0
    for _ in range(2):
        for a in range(k):
            s = np.dot(columns[support[i, a]], rest)
            for b in range(a):
                s -= L[i, a, b] * right[b]
            right[a] = s / L[i, a, a]
        for a in range(k - 1, -1, -1):
            right[a] /= L[i, a, a]
            for b in range(a):
                right[b] -= L[i, a, b] * right[a]
        for a in range(k):
            out[a] += right[a]
            column = columns[support[i, a]]
            for b in range(m):
                rest[b] -= right[a] * column[b]


@numba.njit(cache=True)
def _nonnegative_fit(i, columns, Y, L, support, values, counts, refused, new):  # pragma: no cover (compiled)
    """Go towards the least squares fit; columns that reach zero on the way leave the support."""
    fit = np.zeros(support.shape[1])
    first = True
    while counts[i] > 0:
        k = counts[i]
        _solve(i, columns, Y, L, support, counts, fit)
        if first and fit[k - 1] <= 0.0:  # only rounding lets the new column fall: it stays refused
            counts[i] = k - 1
            return
        first = False
        step = 1.0
        for a in range(k):
            if fit[a] <= 0.0:
                step = min(step, values[i, a] / (values[i, a] - fit[a]))
        for a in range(k):
            values[i, a] += step * (fit[a] - values[i, a])
        if step >= 1.0:
            return
        left = False
        for a in range(k - 1, -1, -1):
            if fit[a] <= 0.0 and values[i, a] <= 1e-15:
                if not left:
                    refused[i, :] = False  # dependence on the old support says nothing about the new one
                    left = True
                _remove(L[i], counts[i], a)
                for b in range(a, counts[i] - 1):
                    support[i, b] = support[i, b + 1]
                    values[i, b] = values[i, b + 1]
                counts[i] -= 1
        if left:
            for a in range(counts[i]):
                refused[i, support[i, a]] = True
            refused[i, new] = True


@numba.njit(cache=True)
def _residual(i, columns, Y, support, values, counts, R):  # pragma: no cover (compiled)
    R[i] = Y[i]
    for a in range(counts[i]):
        column = columns[support[i, a]]
        for b in range(Y.shape[1]):
            R[i, b] -= values[i, a] * column[b]
