"""Exact nearest neighbours by blocked matrix products: in which basis, which they are, and what they vote for."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from sparselens._validation import FloatArray, check_choice
from sparselens.xml._topk import row_blocks, top_k


def half_whitening(moment: FloatArray, A: FloatArray | None = None) -> FloatArray:
    """The (m, r) basis in which neighbours are compared: half way from label vectors to whitened ones.

    First ``z`` becomes its least-squares label vector ``A⁺z``, up to a rotation (where there is no A it stays). Then
    the directions of the training embeddings are stretched by ``λ^(−1/4)``, where ``λ`` are the eigenvalues of their
    second moment. An exponent of 0 lets frequent labels decide which rows are near; −1/2 (Mahalanobis) lets noise in
    rare directions decide, the more of them the worse; half way was safe on every embedding that was tried.
    Directions that hardly occur are left out.

    Parameters
    ----------
    moment : array of shape (m, m)
        ``ZᵀZ`` of the training embeddings Z, up to a factor.
    A : array of shape (m, n_labels), optional

    Examples
    --------
    >>> half_whitening(np.diag([16.0, 1.0])).round(9)
    array([[0. , 0.5],
           [1. , 0. ]])
    >>> half_whitening(np.diag([64.0, 1.0]), np.array([[2.0, 0.0, 0.0], [0.0, 1.0, 0.0]])).round(9)
    array([[0.  , 0.25],
           [1.  , 0.  ]])
    """
    if A is not None:
        to_labels = _power(A @ A.T, -0.5)
        return np.asarray(to_labels @ _power(to_labels.T @ moment @ to_labels, -0.25))
    return _power(moment, -0.25)


def _power(matrix: FloatArray, exponent: float) -> FloatArray:
    """The eigenvectors of a positive semidefinite matrix, each times a power of its eigenvalue; no null space."""
    values, vectors = np.linalg.eigh(matrix)
    kept = values > 1e-10 * values[-1]
    return np.ascontiguousarray(vectors[:, kept] * values[kept] ** exponent)


def nearest(
    queries: FloatArray, points: FloatArray, k: int, *, metric: str = "euclidean"
) -> tuple[np.ndarray, FloatArray]:
    """The k nearest points of each query, nearest first, and the cosines of the angles between them.

    Parameters
    ----------
    queries : array of shape (n_queries, m)
    points : array of shape (n_points, m)
    k : int
        Where there are fewer points, all of them.
    metric : "euclidean" or "cosine"

    Returns
    -------
    indices : int array of shape (n_queries, k)
        Of points that are equally near the first comes first.
    cosines : float64 array of shape (n_queries, k)
        0 where the query or the point is the zero vector.

    Examples
    --------
    >>> points = np.array([[1.0, 0.0], [0.0, 1.0], [3.0, 3.0]])
    >>> nearest(np.array([[0.1, 1.0]]), points, 2)[0], nearest(np.array([[2.0, 1.0]]), points, 1, metric="cosine")[0]
    (array([[1, 0]]), array([[2]]))
    """
    check_choice(metric, "metric", ("euclidean", "cosine"))
    k = min(k, len(points))
    squares = np.einsum("ij,ij->i", points, points)
    scale = np.sqrt(np.where(squares > 0, squares, 1.0))
    indices = np.empty((len(queries), k), dtype=np.int64)
    cosines = np.empty((len(queries), k))
    for rows in row_blocks(len(queries), len(points)):
        products = queries[rows] @ points.T
        # −‖q − z‖² without ‖q‖², which is the same for every point
        closeness = products / scale if metric == "cosine" else 2.0 * products - squares
        found, _ = top_k(closeness, k)
        size = np.linalg.norm(queries[rows], axis=1)
        indices[rows] = found
        cosines[rows] = np.take_along_axis(products, found, axis=1) / scale[found]
        cosines[rows] /= np.where(size > 0, size, 1.0)[:, None]
    return indices, cosines


def votes(indices: np.ndarray, cosines: FloatArray, labels: sp.csr_array, *, power: float = 0.0) -> sp.csr_array:
    """The label rows of each query's neighbours, summed with the weights ``max(cosine, 0)^power``: (n_queries, L).

    A power of 0 gives every neighbour one vote, as SLEEC does.

    Examples
    --------
    >>> labels = sp.csr_array([[1.0, 0.0], [1.0, 1.0]])
    >>> votes(np.array([[0, 1]]), np.array([[1.0, 0.5]]), labels, power=2).toarray()
    array([[1.25, 0.25]])
    """
    n, k = indices.shape
    weights = np.ones(indices.size) if power == 0 else np.maximum(cosines, 0.0).ravel() ** power
    picked = sp.csr_array((weights, indices.ravel(), np.arange(0, n * k + 1, k)), shape=(n, labels.shape[0]))
    return sp.csr_array(picked @ labels)
