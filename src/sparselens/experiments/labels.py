"""The multi-label cells: SLEEC and ℓ1-AE's label embeddings, scored by P@1, P@3 and P@5.

The encoders of an embedding take nearly all of the time, so that one fit serves many lines: the three ways of
predicting, with the paper's settings and with ours, by the first one, three and five models of an ensemble of five.
"""

from __future__ import annotations

import copy
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Self

from sparselens.data import Dataset
from sparselens.experiments.spec import Algorithm

EMBEDDING = "label-embedding"
ENCODERS = ("sleec", EMBEDDING)
SIZES = (1, 3, 5)  # models in an ensemble
# How labels are predicted -> the name in the tables.
NAMES = {
    "neighbors": "ℓ1-AE 1",
    "decoder": "ℓ1-AE 2",
    "average": "ℓ1-AE 3",
    "our neighbors": "ℓ1-AE 1 (our settings)",
    "our decoder": "ℓ1-AE 2 (our settings)",
    "our average": "ℓ1-AE 3 (our settings)",
}
# ℓ1-AE on label vectors. The paper gives T = 10; a clipped gradient lets the larger learning rate train. 150
# epochs are what an ensemble of five can afford: 10 minutes of a CPU on Bibtex, and more elsewhere.
_EMBEDDER: dict[str, Any] = {
    "n_steps": 10,
    "learning_rate": 0.01,
    "clip_norm": 1.0,
    "max_epochs": 150,
    "validation_interval": 5,
    "patience": 5,
}


def counted(n_models: int) -> str:
    """The end of a line's name: "1 model", "3 models"."""
    return f"{n_models} model{'s' if n_models > 1 else ''}"


def _lines(n_models: int) -> tuple[Algorithm, ...]:
    all_of_them = (("n_models", max(SIZES)),)
    return (
        Algorithm(f"SLEEC, {counted(n_models)}", "sleec", "neighbors", (("n_models", n_models),)),
        *(
            Algorithm(f"{name}, {counted(n_models)}", EMBEDDING, f"{way}, {n_models}", all_of_them)
            for way, name in NAMES.items()
        ),
    )


SINGLE = _lines(1)
ALGORITHMS = tuple(line for n_models in SIZES for line in _lines(n_models))


def why_not(data: Dataset) -> str | None:
    """The reason for which nothing can be classified, or None."""
    if find_spec("sparselens.xml") is None:
        return "the multi-label classifiers are not part of this version"
    if data.features is None:
        return f"{data.name} has no features here"
    return None


class TwoSettings:
    """ℓ1-AE's label embeddings, trained once, with the paper's regression, neighbours and decoder and with ours."""

    def __init__(self, as_in_paper: Any) -> None:
        self.as_in_paper = as_in_paper

    def __repr__(self) -> str:
        return repr(self.as_in_paper)

    def fit(self, X: Any, Y: Any) -> Self:
        """Train the encoders, then fit what depends on the settings."""
        self.as_in_paper.fit(X, Y)
        ours = type(self.as_in_paper)().get_params(deep=False)
        for same in ("embedder", "n_models", "n_neighbors", "random_state"):
            del ours[same]
        self.ours = copy.copy(self.as_in_paper).set_params(**ours).refit(X, Y)
        return self

    def classifier(self, decoder: str) -> Any:
        """The classifier of a cell: "average, 3" has the paper's settings, "our average, 3" ours."""
        way, n_models = decoder.split(", ")
        chosen = copy.copy(self.ours if way.startswith("our ") else self.as_in_paper)
        chosen.set_params(predictor=way.removeprefix("our "), n_models=int(n_models))
        chosen.parts_ = chosen.parts_[: int(n_models)]
        return chosen


def make_classifier(encoder: str, data: str, m: int, *, seed: int, device: str, params: dict[str, Any]) -> Any:
    """SLEEC with its published settings for the data set, or ℓ1-AE's embeddings with the neighbours of SLEEC."""
    module: Any = import_module("sparselens.xml")
    sleec = module.SLEECClassifier.preset(data)
    if encoder == "sleec":
        return sleec.set_params(n_components=m, random_state=seed, **params)
    from sparselens.encoders.l1ae import L1AE

    own: dict[str, Any] = {key: params[key] for key in params if key != "n_models"}
    return TwoSettings(
        module.EmbeddingClassifier.as_in_paper(
            L1AE(m, device=device, **(_EMBEDDER | own)),
            n_models=params["n_models"],
            n_neighbors=sleec.n_neighbors,
            alpha=1.0 / (2.0 * sleec.C),
            random_state=seed,
        )
    )


def scores(fitted: Any, decoder: str, data: Dataset) -> dict[str, float]:
    """P@1, P@3 and P@5 on the published test rows."""
    metrics: Any = import_module("sparselens.metrics")
    classifier = fitted.classifier(decoder) if isinstance(fitted, TwoSettings) else fitted
    _, _, X, Y = data.official_split()
    best = classifier.predict_topk(X, k=5)
    return {"n_rows": X.shape[0]} | {f"p{k}": metrics.precision_at_k(Y, best, k=k) for k in (1, 3, 5)}
