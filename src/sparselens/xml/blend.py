"""A learned blend: several classifiers score the same candidates, and weights learned on held-out rows add them up."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone

from sparselens._random import derive_rng, derive_seed
from sparselens._validation import FloatArray, check_count, check_positive_float
from sparselens.xml._parts import Parts, PartsMixin
from sparselens.xml._topk import row_blocks, top_k
from sparselens.xml.base import MultilabelClassifier, Progress
from sparselens.xml.embedding import EmbeddingClassifier
from sparselens.xml.one_vs_all import RidgeOneVsAll

_RIDGE = 1e-3  # keeps the weights of two classifiers that say the same apart from each other finite


@dataclass
class Candidates:
    """Labels that some classifier ranks high, row after row, with the scores of all classifiers."""

    row: np.ndarray  # (c,)
    scores: FloatArray  # (c, n_classifiers)
    is_true: np.ndarray  # (c,)
    n_rows: int

    def ranking_loss(self, weights: FloatArray) -> tuple[float, FloatArray]:
        """Mean cross-entropy of the true labels under the softmax of ``scores @ weights``, and its gradient.

        Rows without a true label among their candidates do not count.
        """
        starts = np.searchsorted(self.row, np.arange(self.n_rows))
        held = np.diff(np.append(starts, len(self.row))) > 0
        starts = starts[held]
        local = np.cumsum(held)[self.row] - 1
        total = self.scores @ weights
        total -= np.maximum.reduceat(total, starts)[local]
        mass = np.exp(total)
        sums = np.add.reduceat(mass, starts)
        hits = np.add.reduceat(self.is_true.astype(np.float64), starts)
        share = np.where(hits > 0, hits, 1.0)
        target = self.is_true / share[local]
        counted = (hits > 0)[local]
        log_p = total - np.log(sums)[local]
        n = max(int((hits > 0).sum()), 1)
        loss = -float(target @ log_p) / n
        slope = (np.where(counted, mass / sums[local], 0.0) - target) / n
        return loss, self.scores.T @ slope


def learn_weights(candidates: Candidates) -> FloatArray:
    """Nonnegative weights that minimise the ranking loss: a convex problem with one unknown a classifier."""
    from scipy.optimize import minimize

    def objective(weights: FloatArray) -> tuple[float, FloatArray]:
        loss, gradient = candidates.ranking_loss(weights)
        return loss + 0.5 * _RIDGE * float(weights @ weights), gradient + _RIDGE * weights

    n = candidates.scores.shape[1]
    found = minimize(objective, np.ones(n), jac=True, bounds=[(0.0, None)] * n, method="L-BFGS-B")
    return np.asarray(found.x if found.x.any() else np.ones(n), dtype=np.float64)


def default_classifiers() -> list[tuple[str, Any]]:
    """Two one-vs-all ridge regressions, and few and many neighbours in the space of their scores."""
    near = {"predictor": "neighbors", "metric": "cosine"}
    return [
        ("one-vs-all", RidgeOneVsAll(alpha=1.0)),
        ("one-vs-all, less ridge", RidgeOneVsAll(alpha=0.2)),
        ("neighbors", EmbeddingClassifier(None, n_neighbors=50, power=8.0, **near)),
        ("few neighbors", EmbeddingClassifier(None, n_neighbors=10, power=2.0, **near)),
    ]


class BlendClassifier(PartsMixin, MultilabelClassifier):
    """Rank labels by a weighted sum of the scores of several classifiers; the weights are learned on held-out rows.

    Fits every classifier on a part of the rows, lets it score the others, learns one weight a classifier (softmax
    cross-entropy of the true labels among the best `n_candidates` labels of each classifier), and fits all of them
    again on all rows.

    Parameters
    ----------
    classifiers : list of (name, classifier), optional
        Cloned; those with a `random_state` get a seed of their own. None takes `default_classifiers`.
    validation_fraction : float
        The part of the rows that the weights are learned on.
    n_candidates : int
        The labels of each classifier that are compared.
    rerank : bool
        Rank only the first classifier's best `n_candidates` labels: the others then order its candidates.
    normalize : bool
        Scale the rows of X to unit ℓ2 norm.
    checkpoint : path, optional
        A folder in which fitted classifiers are kept; `fit` goes on from those it finds there.
    random_state : int, optional

    Attributes
    ----------
    weights_ : dict
        The weight of each classifier, in units of its scores' spread on held-out rows.
    scales_ : dict
        That spread.
    parts_ : list
        The classifiers, fitted on all rows.

    Examples
    --------
    >>> from sparselens.xml import EmbeddingClassifier, RidgeOneVsAll
    >>> X = Y = np.eye(4)[[0, 1, 2, 3] * 10]
    >>> parts = [("linear", RidgeOneVsAll()), ("near", EmbeddingClassifier(predictor="neighbors", n_neighbors=3))]
    >>> model = BlendClassifier(parts, random_state=0).fit(X, Y)
    >>> sorted(model.weights_), model.predict_topk(X[:2], k=1).indices
    (['linear', 'near'], array([0, 1]))
    """

    def __init__(
        self,
        classifiers: Sequence[tuple[str, Any]] | None = None,
        *,
        validation_fraction: float = 0.2,
        n_candidates: int = 50,
        rerank: bool = False,
        normalize: bool = True,
        checkpoint: str | os.PathLike[str] | None = None,
        random_state: int | None = None,
    ) -> None:
        self.classifiers = classifiers
        self.validation_fraction = validation_fraction
        self.n_candidates = n_candidates
        self.rerank = rerank
        self.normalize = normalize
        self.checkpoint = checkpoint
        self.random_state = random_state

    _trees = ("parts_",)

    def _fit(self, X: sp.csr_array, Y: sp.csr_array, callback: Progress) -> None:
        classifiers = list(self.classifiers) if self.classifiers is not None else default_classifiers()
        names = [name for name, _ in classifiers]
        if not names or len(set(names)) < len(names):
            raise ValueError(f"classifiers must be a list of (name, classifier) with different names, got {names}.")
        check_count(self.n_candidates, "n_candidates")
        if not check_positive_float(self.validation_fraction, "validation_fraction") < 1:
            raise ValueError(f"validation_fraction must be below 1, got {self.validation_fraction}.")
        kept = Parts(self.checkpoint, self, X, Y)
        n = X.shape[0]
        seed = derive_seed(self.random_state, role="blend")
        order = derive_rng(seed, role="held out").permutation(n)
        n_valid = round(self.validation_fraction * n)
        if not 0 < n_valid < n:
            raise ValueError(f"{n} rows are too few to hold out a fraction of {self.validation_fraction}: pass more.")
        valid, inner = np.sort(order[:n_valid]), np.sort(order[n_valid:])
        total = 2 * len(names)
        done = 0

        def fitted(which: str, rows: np.ndarray) -> list[Any]:
            nonlocal done
            out = []
            for name, classifier in classifiers:
                own = clone(classifier)
                if "random_state" in own.get_params(deep=False):
                    own.set_params(random_state=derive_seed(seed, classifier=name))
                out.append(kept.get(f"{which}-{name}", lambda own=own: own.fit(X[rows], Y[rows])))
                done += 1
                callback(done, total, "classifiers")
            return out

        self.parts_ = fitted("inner", inner)
        self.scales_ = dict.fromkeys(names, 1.0)
        candidates = self._candidates(X[valid], Y[valid])
        spread = candidates.scores.std(axis=0)
        spread[spread == 0] = 1.0
        candidates.scores /= spread
        self.scales_ = dict(zip(names, spread.tolist(), strict=True))
        self.weights_ = dict(zip(names, learn_weights(candidates).tolist(), strict=True))
        self.parts_ = fitted("all", np.arange(n))

    def _candidates(self, X: sp.csr_array, Y: sp.csr_array) -> Candidates:
        rows, scores, truth = [], [], []
        for block in row_blocks(X.shape[0], self._block_width()):
            parts = self._part_scores(X[block])
            chosen = self._chosen(parts)
            at, labels = np.nonzero(chosen)
            rows.append(at + block.start)
            scores.append(np.stack([part[at, labels] for part in parts], axis=1))
            truth.append(Y[block].toarray()[at, labels] > 0)
        return Candidates(np.concatenate(rows), np.concatenate(scores), np.concatenate(truth), X.shape[0])

    def _chosen(self, parts: list[FloatArray]) -> np.ndarray:
        """Which labels are candidates: (b, n_labels)."""
        chosen = np.zeros(parts[0].shape, dtype=bool)
        for part in parts[:1] if self.rerank else parts:
            np.put_along_axis(chosen, top_k(part, self.n_candidates)[0], True, axis=1)
        return chosen

    def _part_scores(self, X: sp.csr_array) -> list[FloatArray]:
        return [part._score_block(part._scaled(X)) for part in self.parts_]

    def _score_block(self, X: sp.csr_array) -> FloatArray:
        parts = self._part_scores(X)
        factors = [self.weights_[name] / self.scales_[name] for name in self.weights_]
        total = sum(factor * part for factor, part in zip(factors, parts, strict=True))
        scores = np.asarray(total)
        if self.rerank:
            chosen = self._chosen(parts)
            # Below every candidate of the row, in the order of the sum.
            scores = np.where(chosen, scores, scores - (scores.max(axis=1) - scores.min(axis=1) + 1.0)[:, None])
        return scores

    def _block_width(self) -> int:
        return self.n_labels_ * (len(self.parts_) + 3)
