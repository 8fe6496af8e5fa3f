"""Learned label embeddings: embed the labels, map features to embeddings, and come back by neighbours or a decoder."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone

from sparselens._random import derive_seed
from sparselens._validation import (
    FloatArray,
    check_choice,
    check_count,
    check_positive_float,
    unit_rows,
)
from sparselens.xml._parts import Parts, PartsMixin
from sparselens.xml.base import MultilabelClassifier, Progress, standardised
from sparselens.xml.linear_map import ridge, with_constant
from sparselens.xml.neighbors import nearest, votes

PREDICTORS = ("neighbors", "decoder", "average")


class EmbeddingClassifier(PartsMixin, MultilabelClassifier):
    """Rank labels through an embedding of the label vectors that an encoder learns: the paper's ℓ1-AE 1, 2 and 3.

    Fits the encoder on the label rows (unit ℓ2 norm), ``Z = YAᵀ``, then a ridge regression ``Z ≈ XW``; a new row is
    embedded by ``xW`` and its labels come from the nearest mapped training rows, from the encoder's decoder, or from
    the average of both. An ensemble draws its encoders with different seeds and adds up what they say.

    Parameters
    ----------
    embedder : encoder, optional
        ``L1AE(...)``, ``CertificateEncoder(...)``, ``PCAEncoder(...)`` or any other; cloned, with a seed of its own in
        each model. None embeds into the label space itself: ``xW`` are the scores of `RidgeOneVsAll`.
    predictor : "neighbors", "decoder" or "average"
        ℓ1-AE 1, 2 and 3 of the paper.
    n_models : int
    alpha, bias, method, tol :
        Of the ridge regression; see `RidgeMap`.
    n_neighbors : int
    metric : "euclidean" or "cosine"
    power : float
        A neighbour votes with the weight ``max(cosine, 0)^power``; 0 gives everyone one vote, as SLEEC does.
    decoder : "own" or "crossfit"
        The encoder's own decoder, which knows clean embeddings; or a network that is trained on the predictions of
        ridge regressions which have not seen the row.
    decoder_weight : float
        The part of the decoder in "average"; both parts are scaled to unit rows first.
    normalize : bool
        Scale the rows of X to unit ℓ2 norm.
    checkpoint : path, optional
        A folder in which fitted encoders are kept; `fit` goes on from those it finds there.
    random_state : int, optional

    Attributes
    ----------
    parts_ : list of dict
        Of each model: the fitted ``embedder``, the map ``W`` and the mapped training rows ``Z``.
    labels_ : csr_array of shape (n, n_labels)
        The training labels.

    Examples
    --------
    >>> from sparselens import PCAEncoder
    >>> X = Y = np.eye(4)[[0, 1, 2, 3] * 5]
    >>> model = EmbeddingClassifier(PCAEncoder(n_components=3), n_neighbors=3, predictor="average").fit(X, Y)
    >>> model.predict_topk(X[:2], k=1).indices
    array([0, 1])
    """

    def __init__(
        self,
        embedder: Any = None,
        *,
        predictor: str = "average",
        n_models: int = 1,
        alpha: float = 1.0,
        bias: float = 1.0,
        method: str = "auto",
        tol: float = 1e-6,
        n_neighbors: int = 25,
        metric: str = "euclidean",
        power: float = 0.0,
        decoder: str = "own",
        decoder_weight: float = 0.5,
        normalize: bool = True,
        checkpoint: str | os.PathLike[str] | None = None,
        random_state: int | None = None,
    ) -> None:
        self.embedder = embedder
        self.predictor = predictor
        self.n_models = n_models
        self.alpha = alpha
        self.bias = bias
        self.method = method
        self.tol = tol
        self.n_neighbors = n_neighbors
        self.metric = metric
        self.power = power
        self.decoder = decoder
        self.decoder_weight = decoder_weight
        self.normalize = normalize
        self.checkpoint = checkpoint
        self.random_state = random_state

    def _fit(self, X: sp.csr_array, Y: sp.csr_array, callback: Progress) -> None:
        self._check_parameters()
        kept = Parts(self.checkpoint, self, X, Y)
        seed = derive_seed(self.random_state, role="embedding")
        unit = unit_rows(Y)
        encoders, embeddings = [], []
        for model in range(self.n_models):

            def learn(own: int = derive_seed(seed, model=model)) -> Any:
                return None if self.embedder is None else _seeded(self.embedder, own).fit(unit)

            encoders.append(kept.get(f"embedder{model}", learn))
            embeddings.append(unit.toarray() if encoders[-1] is None else encoders[-1].transform(unit))
            callback(model + 1, self.n_models + 1, "models")
        features = with_constant(X, self.bias)
        options = {"alpha": self.alpha, "method": self.method, "tol": self.tol}
        W = ridge(features, np.hstack(embeddings), **options)  # one factorisation for all models
        maps = np.split(W, np.cumsum([Z.shape[1] for Z in embeddings])[:-1], axis=1)
        self.parts_ = [
            {"embedder": encoder, "W": np.ascontiguousarray(own), "Z": np.asarray(features @ own)}
            for encoder, own in zip(encoders, maps, strict=True)
        ]
        self.labels_ = Y
        self.__dict__.pop("_decoders", None)
        callback(self.n_models + 1, self.n_models + 1, "models")

    def _check_parameters(self) -> None:
        check_choice(self.predictor, "predictor", PREDICTORS)
        check_choice(self.decoder, "decoder", ("own", "crossfit"))
        check_choice(self.metric, "metric", ("euclidean", "cosine"))
        check_count(self.n_models, "n_models")
        check_count(self.n_neighbors, "n_neighbors")
        check_positive_float(self.bias, "bias", allow_zero=True)
        check_positive_float(self.power, "power", allow_zero=True)
        if not check_positive_float(self.decoder_weight, "decoder_weight", allow_zero=True) <= 1:
            raise ValueError(f"decoder_weight must be at most 1, got {self.decoder_weight}.")

    def _score_block(self, X: sp.csr_array) -> FloatArray:
        features = with_constant(X, self.bias)
        voted = np.zeros((X.shape[0], self.n_labels_))
        decoded = np.zeros((X.shape[0], self.n_labels_))
        for number, part in enumerate(self.parts_):
            embedded = np.ascontiguousarray(features @ part["W"])
            if self.predictor != "decoder":
                near, cosines = nearest(embedded, part["Z"], self.n_neighbors, metric=self.metric)
                voted += votes(near, cosines, self.labels_, power=self.power).toarray()
            if self.predictor != "neighbors":
                decoded += self._decode(number, embedded)
        if self.predictor == "average":
            w = self.decoder_weight
            return (1.0 - w) * standardised(voted) + w * standardised(decoded)
        return decoded if self.predictor == "decoder" else voted

    def _decode(self, number: int, embedded: FloatArray) -> FloatArray:
        encoder = self.parts_[number]["embedder"]
        if encoder is None:
            return embedded
        cache = self.__dict__.setdefault("_decoders", {})
        if number not in cache:
            cache[number] = getattr(encoder, "decoder_", None) or encoder.decoder()
        return np.asarray(cache[number].decode(embedded).x.toarray())

    def _block_width(self) -> int:
        return self.n_labels_ * 4


def _seeded(embedder: Any, seed: int) -> Any:
    own = clone(embedder)
    if "random_state" in own.get_params(deep=False):
        own.set_params(random_state=seed)
    if "checkpoint" in own.get_params(deep=False) and own.get_params()["checkpoint"] is not None:
        raise ValueError("give checkpoint= to the EmbeddingClassifier, not to its embedder: models would share it.")
    return own
