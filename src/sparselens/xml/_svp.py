"""SLEEC's embedding of the training points: a low-rank fit of label inner products, on near pairs alone."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numba import njit

from sparselens._validation import FloatArray
from sparselens.xml._topk import row_blocks

_MAX_ITERATIONS = 200
_GOOD, _GAIN = 1e-3, 1e-4  # stop below this RMSE on Ω, or where it falls by less than this
_STEP = 0.3  # η = 1/(0.3 ‖M_Ω‖_F)


def near_pairs(Y: sp.csr_array, k: int) -> sp.csr_array:
    """M on Ω: for each row of Y (unit rows) its k largest inner products with all rows, itself included.

    Not symmetric. Where fewer than k rows share a label the rest of Ω holds zeros, which are stored.

    Examples
    --------
    >>> near_pairs(sp.csr_array([[1.0, 0.0], [0.6, 0.8]]), 1).toarray()
    array([[1., 0.],
           [0., 1.]])
    """
    n = Y.shape[0]
    k = min(k, n)
    Y_t = sp.csr_array(Y.T)
    indices = np.empty((n, k), dtype=np.int32)
    data = np.empty((n, k))
    for rows in row_blocks(n, n):
        products = (Y[rows] @ Y_t).toarray()
        # Which zeros fill up a row does not matter, so that the quicker selection without an order of ties will do.
        columns = np.sort(np.argpartition(products, n - k, axis=1)[:, n - k :], axis=1)
        indices[rows] = columns
        data[rows] = np.take_along_axis(products, columns, axis=1)
    return sp.csr_array((data.ravel(), indices.ravel(), np.arange(0, n * k + 1, k)), shape=(n, n))


def embed(M: sp.csr_array, m: int, *, seed: int) -> tuple[FloatArray, list[float]]:
    """Points Z = U (n, m) such that ``UVᵀ ≈ M`` on the stored entries of M, and the RMSE after each iteration.

    Starts from the singular vectors of M, scaled by the roots of the singular values, and alternates gradient steps
    on U and V. Where an iteration makes the fit worse, the points before it are kept.
    """
    U, V = _start(M, m, seed)
    M_t = sp.csr_array(M.T)
    step = 1.0 / (_STEP * max(float(np.linalg.norm(M.data)), np.finfo(float).tiny))
    course: list[float] = []
    best = U
    for _ in range(_MAX_ITERATIONS + 1):
        gradient, squares = _gradient(U, V, M.indptr, M.indices, M.data)
        course.append(float(np.sqrt(squares / max(M.nnz, 1))))
        if len(course) > 1 and course[-1] > course[-2]:
            break
        best = U
        if course[-1] < _GOOD or (len(course) > 1 and course[-2] - course[-1] < _GAIN):
            break
        U = U - step * gradient
        V = V - step * _gradient(V, U, M_t.indptr, M_t.indices, M_t.data)[0]
    return best, course


def _start(M: sp.csr_array, m: int, seed: int) -> tuple[FloatArray, FloatArray]:
    n = M.shape[0]
    rank = min(m, n)
    if not M.data.any():  # no row of the cluster has a label, and ARPACK refuses zeros
        return np.zeros((n, m)), np.zeros((n, m))
    if n > 2 * rank:
        from scipy.sparse.linalg import svds

        v0 = np.random.default_rng(seed).standard_normal(n)
        left, values, right = svds(M, k=rank, v0=v0, solver="arpack")
    else:  # a cluster that is hardly larger than its embedding
        left, values, right = np.linalg.svd(M.toarray())
        left, values, right = left[:, :rank], values[:rank], right[:rank]
    root = np.sqrt(values)
    U, V = np.zeros((n, m)), np.zeros((n, m))
    U[:, :rank], V[:, :rank] = left * root, right.T * root
    return U, V


@njit(cache=True, fastmath=True)
def _gradient(U, V, indptr, indices, target):  # type: ignore[no-untyped-def]
    """``RV`` for the residual ``R = UVᵀ − M`` on the stored entries of M, which is never held, and ``‖R‖²``."""
    out = np.zeros_like(U)
    squares = 0.0
    width = U.shape[1]
    for i in range(len(indptr) - 1):
        for at in range(indptr[i], indptr[i + 1]):
            j = indices[at]
            r = -target[at]
            for c in range(width):
                r += U[i, c] * V[j, c]
            squares += r * r
            for c in range(width):
                out[i, c] += r * V[j, c]
    return out, squares
