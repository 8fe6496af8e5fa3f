"""A learned blend: several classifiers score the same candidates, and weights learned on held-out rows add them up."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
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
from sparselens.xml.linear_map import shared_solutions
from sparselens.xml.one_vs_all import RidgeOneVsAll

_DRAWS = 300  # weights that are tried
_KEPT = 10  # the best of them are averaged: one alone is tuned to the rows that were held out
_RANKS = (1, 3, 5)


@dataclass
class Candidates:
    """Labels that some classifier ranks high, with the scores of all classifiers, row after row.

    scores : (n_rows, width, n_classifiers); is_true : (n_rows, width); held : (n_rows, width), False where a row has
    fewer candidates than the widest.
    """

    scores: FloatArray
    is_true: np.ndarray
    held: np.ndarray

    def precision(self, weights: FloatArray) -> float:
        """The mean of P@1, P@3 and P@5 of the weighted sum of scores."""
        total = np.where(self.held, self.scores @ weights, -np.inf)
        columns, _ = top_k(total, max(_RANKS))
        hits = np.take_along_axis(self.is_true & self.held, columns, axis=1)
        return float(np.mean([hits[:, :k].sum() / (k * len(hits)) for k in _RANKS]))


def learn_weights(candidates: Candidates, *, seed: int) -> FloatArray:
    """Nonnegative weights of sum 1 with a high precision: the mean of the best of many drawn ones.

    Precision is a step function of the weights, so that they are drawn: every classifier alone, all alike, and uniform
    draws from the simplex.
    """
    n = candidates.scores.shape[2]
    draws = np.random.default_rng(seed).dirichlet(np.ones(n), size=_DRAWS) if n > 1 else np.empty((0, 1))
    tried = np.vstack([np.eye(n), np.full((1, n), 1.0 / n), draws])
    reached = np.array([candidates.precision(weights) for weights in tried])
    best = np.argsort(-reached, kind="stable")[:_KEPT]
    mean = tried[best].mean(axis=0)
    return np.asarray(mean if candidates.precision(mean) >= reached[best[-1]] else tried[best[0]])


def default_classifiers() -> list[tuple[str, Any]]:
    """One-vs-all ridge regression, and few and many neighbours in the space of its scores."""
    many = EmbeddingClassifier(None, predictor="neighbors", label_rows="binary", n_neighbors=50, power=8.0)
    few = EmbeddingClassifier(None, predictor="neighbors", label_rows="binary", n_neighbors=10, power=2.0)
    return [("one-vs-all", RidgeOneVsAll()), ("neighbors", many), ("few neighbors", few)]  # one regression for all


class BlendClassifier(PartsMixin, MultilabelClassifier):
    """Rank labels by a weighted sum of the scores of several classifiers; the weights are learned on held-out rows.

    Fits every classifier on a part of the rows, lets it score the others, learns one weight a classifier (the mean of
    P@1, P@3 and P@5 among the best `n_candidates` labels of each), and fits all of them again on all rows.

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
        classifiers = self._named_classifiers()
        names = [name for name, _ in classifiers]
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
                out.append(kept.get(f"{which}-{name}", partial(own.fit, X[rows], Y[rows])))
                done += 1
                callback(done, total, "classifiers")
            return out

        with shared_solutions():
            self.parts_ = fitted("inner", inner)
        self.scales_ = dict.fromkeys(names, 1.0)
        candidates = self._candidates(X[valid], Y[valid])
        spread = candidates.scores[candidates.held].std(axis=0)
        spread[spread == 0] = 1.0
        candidates.scores /= spread
        self.scales_ = dict(zip(names, spread.tolist(), strict=True))
        self.weights_ = dict(
            zip(names, learn_weights(candidates, seed=derive_seed(seed, role="weights")).tolist(), strict=True)
        )
        with shared_solutions():
            self.parts_ = fitted("all", np.arange(n))

    def _named_classifiers(self) -> list[tuple[str, Any]]:
        given = default_classifiers() if self.classifiers is None else self.classifiers
        try:
            pairs = [(name, classifier) for name, classifier in given]
            usable = all(isinstance(n, str) and isinstance(c, MultilabelClassifier) for n, c in pairs)
            if pairs and usable and len(dict(pairs)) == len(pairs):
                return pairs
        except (TypeError, ValueError):  # no list, or no pairs
            pass
        raise ValueError(f"classifiers must be a list of (name, classifier) with different names, got {given!r}.")

    def _candidates(self, X: sp.csr_array, Y: sp.csr_array) -> Candidates:
        blocks = []
        for block in row_blocks(X.shape[0], self._block_width()):
            parts = self._part_scores(X[block])
            chosen = self._chosen(parts)
            labels = np.argsort(~chosen, axis=1, kind="stable")[:, : chosen.sum(axis=1).max()]  # candidates first
            scores = np.stack([np.take_along_axis(part, labels, axis=1) for part in parts], axis=2)
            truth = np.take_along_axis(Y[block].toarray() > 0, labels, axis=1)
            blocks.append((scores, truth, np.take_along_axis(chosen, labels, axis=1)))
        width = max(held.shape[1] for _, _, held in blocks)
        return Candidates(*(np.concatenate([_widened(block[i], width) for block in blocks]) for i in range(3)))

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


def _widened(array: np.ndarray, width: int) -> np.ndarray:
    """The array with its second axis filled up with zeros."""
    out = np.zeros((array.shape[0], width, *array.shape[2:]), dtype=array.dtype)
    out[:, : array.shape[1]] = array
    return out
