"""SLEEC (Bhatia et al., NeurIPS 2015), built from its published description: the reference for label embeddings."""

from __future__ import annotations

import os
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from sparselens._random import derive_seed
from sparselens._validation import FloatArray, check_count, check_positive_float, unit_rows
from sparselens.xml._clusters import dot_product_kmeans
from sparselens.xml._parts import Parts, PartsMixin
from sparselens.xml.base import MultilabelClassifier, Progress
from sparselens.xml.linear_map import ridge
from sparselens.xml.neighbors import nearest, votes

_COLUMNS = (
    "n_models", "n_clusters", "svp_neighbors", "n_components", "w_thresh", "sp_thresh", "C", "n_neighbors",
)  # fmt: skip
# The settings published with SLEEC.
PRESETS: dict[str, dict[str, Any]] = {
    name: dict(zip(_COLUMNS, row, strict=True))
    for name, row in {
        "eurlex-4k": (5, 3, 100, 100, 0.01, 0.01, 1.0, 8),
        "wiki10-31k": (5, 5, 50, 75, 0.75, 0.5, 0.1, 11),
        "bibtex": (1, 1, 250, 100, 0.01, 0.01, 0.2, 25),
        "delicious": (1, 1, 500, 100, 0.01, 0.01, 0.1, 70),
    }.items()
}


class SLEECClassifier(PartsMixin, MultilabelClassifier):
    """Rank labels by the nearest training points in a learned embedding: SLEEC.

    Each learner clusters the rows of X (k-means on dot products), embeds the points of a cluster so that the largest
    inner products of their unit label rows are kept, maps features to embeddings by ridge regression, and answers with
    the sum of the label rows of the nearest mapped training points. An ensemble pools the neighbours of its learners.

    Parameters
    ----------
    n_components : int
        The dimension m of the embedding.
    n_models, n_clusters : int
        Learners, which differ in their clusters alone, and clusters of each.
    svp_neighbors : int
        How many inner products of a point the embedding keeps.
    n_neighbors : int
    C : float
        Ridge regression with ``alpha = 1/(2C)`` and no bias.
    w_thresh, sp_thresh : float
        The fraction of the smallest nonzeros of the map, and of each dimension of the mapped training points, that
        is set to zero.
    normalize : bool
        Scale the rows of X to unit ℓ2 norm.
    checkpoint : path, optional
        A folder in which finished clusters are kept; `fit` goes on from those it finds there.
    random_state : int, optional

    Attributes
    ----------
    parts_ : list of dict
        Of each learner: ``centres`` and the list ``clusters``, each with the map ``W``, the mapped points ``Z`` and
        the numbers ``rows`` of its training rows.
    labels_ : csr_array of shape (n, n_labels)
        The training labels.

    References
    ----------
    Bhatia et al., "Sparse Local Embeddings for Extreme Multi-label Classification", NeurIPS 2015.

    Examples
    --------
    >>> X = np.eye(4)[[0, 1, 2, 3] * 5]
    >>> Y = np.eye(4)[[0, 1, 2, 3] * 5]
    >>> model = SLEECClassifier(n_components=3, svp_neighbors=5, n_neighbors=3, random_state=0).fit(X, Y)
    >>> model.predict_topk(X[:2], k=1).indices
    array([0, 1])
    >>> SLEECClassifier.preset("bibtex").n_neighbors
    25
    """

    def __init__(
        self,
        n_components: int = 100,
        *,
        n_models: int = 1,
        n_clusters: int = 1,
        svp_neighbors: int = 100,
        n_neighbors: int = 10,
        C: float = 1.0,
        w_thresh: float = 0.01,
        sp_thresh: float = 0.01,
        normalize: bool = True,
        checkpoint: str | os.PathLike[str] | None = None,
        random_state: int | None = None,
    ) -> None:
        self.n_components = n_components
        self.n_models = n_models
        self.n_clusters = n_clusters
        self.svp_neighbors = svp_neighbors
        self.n_neighbors = n_neighbors
        self.C = C
        self.w_thresh = w_thresh
        self.sp_thresh = sp_thresh
        self.normalize = normalize
        self.checkpoint = checkpoint
        self.random_state = random_state

    @classmethod
    def preset(cls, name: str, **overrides: Any) -> Self:
        """The published settings for a data set, any of them overridden by keyword.

        Examples
        --------
        >>> SLEECClassifier.preset("wiki10-31k", n_models=1).n_clusters
        5
        """
        if name not in PRESETS:
            raise ValueError(f"there is no preset {name!r}: the names are {', '.join(PRESETS)}.")
        return cls(**(PRESETS[name] | overrides))

    def _fit(self, X: sp.csr_array, Y: sp.csr_array, callback: Progress) -> None:
        for name in ("n_components", "n_models", "n_clusters", "svp_neighbors", "n_neighbors"):
            check_count(getattr(self, name), name)
        for name in ("w_thresh", "sp_thresh"):
            if not check_positive_float(getattr(self, name), name, allow_zero=True) < 1:
                raise ValueError(f"{name} must be a fraction below 1, got {getattr(self, name)}.")
        alpha = 1.0 / (2.0 * check_positive_float(self.C, "C"))
        seed = derive_seed(self.random_state, role="sleec")
        kept = Parts(self.checkpoint, self, X, Y)
        self.labels_ = Y
        self.parts_: list[dict[str, Any]] = []
        total = self.n_models * min(self.n_clusters, X.shape[0])
        done = 0
        for model in range(self.n_models):
            if model and len(self.parts_[0]["clusters"]) == 1:  # learners differ in their clusters alone
                self.parts_.append(self.parts_[0])
                done += 1
                callback(done, total, "clusters")
                continue
            centres, cluster = dot_product_kmeans(X, self.n_clusters, seed=derive_seed(seed, model=model))
            clusters = []
            for number in range(len(centres)):
                rows = np.flatnonzero(cluster == number)

                def learn(rows: np.ndarray = rows, own: int = derive_seed(seed, m=model, c=number)) -> dict[str, Any]:
                    return self._learn_cluster(X[rows], Y[rows], alpha, own) | {"rows": rows}

                clusters.append(kept.get(f"model{model}-cluster{number}", learn))
                done += 1
                callback(done, total, "clusters")
            self.parts_.append({"centres": centres, "clusters": clusters})

    def _learn_cluster(self, X: sp.csr_array, Y: sp.csr_array, alpha: float, seed: int) -> dict[str, Any]:
        from sparselens.xml._svp import embed, near_pairs

        if X.shape[0] == 0:  # its centre stays, but no row ever had it for its own
            return {"W": np.zeros((X.shape[1], self.n_components)), "Z": np.zeros((0, self.n_components))}
        points, _ = embed(near_pairs(unit_rows(Y), self.svp_neighbors), self.n_components, seed=seed)
        W = prune(ridge(X, points, alpha=alpha), self.w_thresh)
        return {"W": compact(W), "Z": prune_columns(X @ W, self.sp_thresh)}

    def _score_block(self, X: sp.csr_array) -> FloatArray:
        scores = np.zeros((X.shape[0], self.n_labels_))
        for part in self.parts_:
            sizes = np.array([len(cluster["rows"]) for cluster in part["clusters"]])
            closeness = np.where(sizes > 0, X @ part["centres"].T, -np.inf)
            chosen = np.argmax(closeness, axis=1)
            for number in np.unique(chosen):
                mine = np.flatnonzero(chosen == number)
                cluster = part["clusters"][number]
                near, cosines = nearest(_dense(X[mine] @ cluster["W"]), cluster["Z"], self.n_neighbors)
                scores[mine] += votes(cluster["rows"][near], cosines, self.labels_).toarray()
        return scores


def prune(W: FloatArray, fraction: float) -> FloatArray:
    """W with the given fraction of its nonzeros, the smallest in magnitude, set to zero.

    Examples
    --------
    >>> prune(np.array([[1.0, -4.0], [0.0, 3.0]]), 0.4)
    array([[ 0., -4.],
           [ 0.,  3.]])
    """
    size = np.abs(W[W != 0])
    n_out = int(fraction * len(size))
    if n_out == 0:
        return W
    return np.where(np.abs(W) > np.partition(size, n_out - 1)[n_out - 1], W, 0.0)


def prune_columns(Z: FloatArray, fraction: float) -> FloatArray:
    """Z with the given fraction of the entries of each column, the smallest in magnitude, set to zero."""
    n_out = int(fraction * len(Z))
    if n_out == 0:
        return Z
    size = np.abs(Z)
    return np.where(size > np.partition(size, n_out - 1, axis=0)[n_out - 1], Z, 0.0)


def compact(W: FloatArray) -> FloatArray | sp.csr_array:
    """W as CSR where that is smaller."""
    return sp.csr_array(W) if np.count_nonzero(W) < 0.5 * W.size else W


def _dense(Z: Any) -> FloatArray:
    return np.asarray(Z.toarray() if sp.issparse(Z) else Z)
