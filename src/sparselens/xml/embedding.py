"""Learned label embeddings: embed the labels, map features to embeddings, and come back by neighbours or a decoder."""

from __future__ import annotations

import os
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from sparselens._random import derive_seed
from sparselens._validation import (
    FloatArray,
    check_choice,
    check_count,
    check_positive_float,
    unit_rows,
)
from sparselens.decoders.unrolled import UnrolledDecoder
from sparselens.encoders.spectral import principal_directions
from sparselens.xml._parts import Parts, PartsMixin
from sparselens.xml.base import MultilabelClassifier, Progress, standardised
from sparselens.xml.linear_map import ridge, with_constant
from sparselens.xml.neighbors import half_whitening, nearest, votes
from sparselens.xml.one_vs_all import check_fits

PREDICTORS = ("neighbors", "decoder", "average")
_TINY = 1e-2  # of ridge in the refitted decoder: enough against embeddings with dependent columns
_WHOLE_LABEL_SPACE = 2000  # labels up to which neighbours are compared in the whole label space
_DIRECTIONS = 300  # of a larger one: on Delicious (983 labels) they rank as well as the whole space


class EmbeddingClassifier(PartsMixin, MultilabelClassifier):
    """Rank labels through an embedding of the label vectors that an encoder learns: the paper's ℓ1-AE 1, 2 and 3.

    Fits the encoder on the label rows, ``Z = YAᵀ``, then a ridge regression ``Z ≈ XW``; a new row is embedded by ``xW``
    and its labels come from the nearest mapped training rows, from a decoder, or from the average of both. An ensemble
    draws its encoders with different seeds and adds up what they say. The defaults are what won on held-out rows;
    `as_in_paper` has the paper's choices.

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
    label_rows : "unit" or "binary"
        Embed label rows scaled to unit ℓ2 norm, or of zeros and ones. Encoders are trained on unit rows in either case.
    n_neighbors : int
    metric : "cosine" or "euclidean"
    power : float
        A neighbour votes with the weight ``max(cosine, 0)^power``; 0 gives everyone one vote, as SLEEC does.
    whiten : bool
        Compare embeddings in the basis of `half_whitening` and not as they are, so that what is frequent among the
        labels does not drown what tells rows apart. Of the label space itself (no embedder) the 300 leading directions
        are kept where there are more than 2,000 labels.
    decoder : "refit" or "own"
        A linear decoder that is fitted to the mapped training rows, so that it knows what predictions look like; or
        the encoder's own, which knows clean embeddings (scaled to their mean length; a final ReLU is left out, since it
        ranks nothing).
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
        Of each model: the fitted ``embedder``, the map ``W``, the training rows ``Z`` as neighbours see them,
        the change of basis ``basis`` and the decoder ``D``, where there are any, and ``scale``.
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
        tol: float = 1e-4,
        label_rows: str = "unit",
        n_neighbors: int = 25,
        metric: str = "cosine",
        power: float = 8.0,
        whiten: bool = True,
        decoder: str = "refit",
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
        self.label_rows = label_rows
        self.n_neighbors = n_neighbors
        self.metric = metric
        self.power = power
        self.whiten = whiten
        self.decoder = decoder
        self.decoder_weight = decoder_weight
        self.normalize = normalize
        self.checkpoint = checkpoint
        self.random_state = random_state

    @classmethod
    def as_in_paper(cls, embedder: Any, **overrides: Any) -> Self:
        """The paper's choices: SLEEC's map and neighbours on unit label rows, the encoder's own decoder.

        Examples
        --------
        >>> from sparselens import L1AE
        >>> EmbeddingClassifier.as_in_paper(L1AE(n_components=100), n_neighbors=25, n_models=3).decoder
        'own'
        """
        choices: dict[str, Any] = {
            "bias": 0.0,
            "label_rows": "unit",
            "metric": "euclidean",
            "power": 0.0,
            "whiten": False,
            "decoder": "own",
        }
        return cls(embedder, **(choices | overrides))

    def refit(self, X: Any, Y: Any, *, callback: Progress | None = None) -> Self:
        """Fit everything but the encoders again, by the parameters as they are now.

        An encoder takes minutes, the rest seconds: this is how other regressions, neighbours or decoders are tried on
        the same embeddings. A smaller `n_models` keeps the first encoders.

        Examples
        --------
        >>> from sparselens import L1AE
        >>> X = Y = np.eye(4)[[0, 1, 2, 3] * 5]
        >>> embedder = L1AE(n_components=3, max_epochs=5, device="cpu")
        >>> model = EmbeddingClassifier.as_in_paper(embedder, n_models=2, n_neighbors=3, random_state=0).fit(X, Y)
        >>> model.set_params(n_models=1, metric="cosine", whiten=True, decoder="refit").refit(X, Y).score(X, Y)
        1.0
        """
        check_is_fitted(self)
        held = [part["embedder"] for part in self.parts_]
        if check_count(self.n_models, "n_models") > len(held):
            raise ValueError(f"{self.n_models} models need as many encoders, but {len(held)} are fitted: call fit.")
        self._held = held[: self.n_models]
        try:
            return self.fit(X, Y, callback=callback)
        finally:
            del self._held

    def _fit(self, X: sp.csr_array, Y: sp.csr_array, callback: Progress) -> None:
        self._check_parameters()
        unit = unit_rows(Y)
        targets = Y if self.label_rows == "binary" else unit
        encoders = getattr(self, "_held", None) or self._fit_encoders(X, Y, unit, callback)
        features = with_constant(X, self.bias)
        if self.embedder is None:
            remedy = "pass an embedder of fewer dimensions"
            check_fits(X.shape[1], Y.shape[1], "features times labels", remedy)
            if not self.whiten:
                check_fits(Y.shape[0], Y.shape[1], "rows times labels", f"leave whiten=True, or {remedy}")
            clean = [targets] * self.n_models
            maps = [ridge(features, targets, alpha=self.alpha, method=self.method, tol=self.tol)] * self.n_models
        else:
            clean = [encoder.transform(targets) for encoder in encoders]
            W = ridge(features, np.hstack(clean), alpha=self.alpha, method=self.method, tol=self.tol)  # one for all
            maps = np.split(W, self.n_models, axis=1)
        self.labels_ = Y
        self.parts_ = [
            self._part(encoder, Z, np.ascontiguousarray(own), features)
            for encoder, Z, own in zip(encoders, clean, maps, strict=True)
        ]
        self.__dict__.pop("_decoders", None)
        callback(self.n_models + 1, self.n_models + 1, "models")

    def _fit_encoders(self, X: sp.csr_array, Y: sp.csr_array, unit: sp.csr_array, callback: Progress) -> list[Any]:
        kept = Parts(self.checkpoint, self, X, Y)
        seed = derive_seed(self.random_state, role="embedding")
        encoders = []
        for model in range(self.n_models):

            def learn(own: int = derive_seed(seed, model=model)) -> Any:
                return None if self.embedder is None else _seeded(self.embedder, own).fit(unit)

            encoders.append(kept.get(f"embedder{model}", learn))
            callback(model + 1, self.n_models + 1, "models")
        return encoders

    def _part(self, encoder: Any, clean: Any, W: FloatArray, features: sp.csr_array) -> dict[str, Any]:
        """A model: what it needs to embed a row, and to come back by neighbours and by a decoder."""
        part = {"embedder": encoder, "W": W, "scale": 1.0}
        if self.whiten:
            part["basis"] = _basis(encoder, clean)
        if encoder is None:
            part["Z"] = features @ (W @ part["basis"] if self.whiten else W)  # rows times labels are never held
            return part
        mapped = np.asarray(features @ W)
        part["Z"] = mapped @ part["basis"] if self.whiten else mapped
        if self.predictor == "neighbors":
            return part
        if self.decoder == "refit":
            part["D"] = ridge(sp.csr_array(mapped), self.labels_, alpha=_TINY, method="cholesky")
        else:
            length = np.linalg.norm(encoder.transform(unit_rows(self.labels_)), axis=1).mean()
            part["scale"] = float(length / max(np.linalg.norm(mapped, axis=1).mean(), np.finfo(float).tiny))
        return part

    def _check_parameters(self) -> None:
        check_choice(self.predictor, "predictor", PREDICTORS)
        check_choice(self.decoder, "decoder", ("refit", "own"))
        check_choice(self.metric, "metric", ("cosine", "euclidean"))
        check_choice(self.label_rows, "label_rows", ("binary", "unit"))
        check_choice(self.whiten, "whiten", (True, False))
        check_count(self.n_models, "n_models")
        check_count(self.n_neighbors, "n_neighbors")
        check_positive_float(self.bias, "bias", allow_zero=True)
        check_positive_float(self.power, "power", allow_zero=True)
        if not check_positive_float(self.decoder_weight, "decoder_weight", allow_zero=True) <= 1:
            raise ValueError(f"decoder_weight must be at most 1 (the decoder alone), got {self.decoder_weight}.")

    def _score_block(self, X: sp.csr_array) -> FloatArray:
        features = with_constant(X, self.bias)
        voted = np.zeros((X.shape[0], self.n_labels_))
        decoded = np.zeros((X.shape[0], self.n_labels_))
        for number, part in enumerate(self.parts_):
            embedded = np.ascontiguousarray(features @ part["W"])
            if self.predictor != "decoder":
                queries = embedded @ part["basis"] if "basis" in part else embedded
                near, cosines = nearest(queries, part["Z"], self.n_neighbors, metric=self.metric)
                voted += votes(near, cosines, self.labels_, power=self.power).toarray()
            if self.predictor != "neighbors":
                decoded += self._decode(number, embedded)
        if self.predictor == "average":
            w = self.decoder_weight
            return (1.0 - w) * standardised(voted) + w * standardised(decoded)
        return decoded if self.predictor == "decoder" else voted

    def _decode(self, number: int, embedded: FloatArray) -> FloatArray:
        part = self.parts_[number]
        if part["embedder"] is None:
            return embedded
        if "D" in part:
            return np.asarray(embedded @ part["D"])
        cache = self.__dict__.setdefault("_decoders", {})
        if number not in cache:
            cache[number] = own_decoder(part["embedder"])
        return np.asarray(cache[number].decode(embedded * part["scale"]).x.toarray())

    def _block_width(self) -> int:
        return self.n_labels_ * 4


def _basis(encoder: Any, clean: Any) -> FloatArray:
    """The basis in which neighbours are compared; `clean` are the embeddings, or the label rows without an encoder."""
    if encoder is None and clean.nnz and clean.shape[1] > _WHOLE_LABEL_SPACE:
        directions, values = principal_directions(clean, min(_DIRECTIONS, *clean.shape))
        kept = values > 1e-5 * values[0]
        return np.ascontiguousarray(directions[kept].T / np.sqrt(values[kept]))  # λ^(−1/4) for λ = values²
    moment = clean.T @ clean
    moment = moment.toarray() if sp.issparse(moment) else moment
    return half_whitening(moment, getattr(encoder, "components_", None))


def own_decoder(encoder: Any) -> Any:
    """The decoder that the encoder trained, without its last ReLU; where it trained none, its default one."""
    decoder = getattr(encoder, "decoder_", None)
    if isinstance(decoder, UnrolledDecoder):
        return decoder.set_params(final_relu=False).bind(encoder.components_)
    return decoder if decoder is not None else encoder.decoder()


def _seeded(embedder: Any, seed: int) -> Any:
    if isinstance(embedder, type) or not hasattr(embedder, "transform"):
        raise TypeError(f"embedder must be an encoder such as PCAEncoder(n_components=100), got {embedder!r}.")
    own = clone(embedder)
    if "random_state" in own.get_params(deep=False):
        own.set_params(random_state=seed)
    if "checkpoint" in own.get_params(deep=False) and own.get_params()["checkpoint"] is not None:
        raise ValueError("give checkpoint= to the EmbeddingClassifier, not to its embedder: models would share it.")
    return own
