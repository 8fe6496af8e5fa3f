"""SLEEC's partition of the training points: k-means on dot products."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from sparselens._validation import FloatArray

_ITERATIONS = 7


def dot_product_kmeans(X: sp.csr_array, n_clusters: int, *, seed: int) -> tuple[FloatArray, np.ndarray]:
    """Centres (n_clusters, p) and the cluster of each row: the centre with the largest dot product.

    Starts from random rows; centres are plain means, not renormalised; seven iterations. A cluster that loses every
    row keeps its centre, and the rows' clusters are those of the last centres.

    Examples
    --------
    >>> X = sp.csr_array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.1], [0.1, 1.0]])
    >>> _, cluster = dot_product_kmeans(X, 2, seed=1)
    >>> bool(cluster[0] == cluster[2] != cluster[1] == cluster[3])
    True
    """
    n = X.shape[0]
    n_clusters = min(n_clusters, n)
    if n_clusters == 1:
        return np.asarray(X.mean(axis=0)).reshape(1, -1), np.zeros(n, dtype=np.int64)
    first = np.random.default_rng(seed).choice(n, n_clusters, replace=False)
    centres = X[np.sort(first)].toarray()
    for _ in range(_ITERATIONS):
        cluster = np.argmax(X @ centres.T, axis=1)
        sizes = np.bincount(cluster, minlength=n_clusters)
        member = sp.csr_array((np.ones(n), (cluster, np.arange(n))), shape=(n_clusters, n))
        means = np.asarray((member @ X).toarray()) / np.maximum(sizes, 1)[:, None]
        centres = np.where(sizes[:, None] > 0, means, centres)
    return centres, np.argmax(X @ centres.T, axis=1)
