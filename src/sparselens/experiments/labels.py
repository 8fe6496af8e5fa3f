"""The multi-label cells: SLEEC and ℓ1-AE's label embeddings, scored by P@1, P@3 and P@5."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from sparselens.data import Dataset
from sparselens.experiments.spec import Algorithm

ENCODERS = ("sleec", "embedding")
_NUMBERS = {"ℓ1-AE 1": "neighbors", "ℓ1-AE 2": "decoder", "ℓ1-AE 3": "average"}
# ℓ1-AE on label vectors. The paper gives T = 10; a clipped gradient lets the larger learning rate train.
_EMBEDDER: dict[str, Any] = {
    "n_steps": 10,
    "learning_rate": 0.01,
    "clip_norm": 1.0,
    "max_epochs": 400,
    "validation_interval": 5,
    "patience": 5,
}


def _lines() -> tuple[Algorithm, ...]:
    lines = []
    for n in (1, 3, 5):
        many = f"{n} model{'s' if n > 1 else ''}"
        lines.append(Algorithm(f"SLEEC, {many}", "sleec", "neighbors", (("n_models", n),)))
        lines += [
            Algorithm(f"{label}, {many}", "embedding", predictor, (("n_models", n),))
            for label, predictor in _NUMBERS.items()
        ]
    return tuple(lines)


ALGORITHMS = _lines()


def why_not(data: Dataset) -> str | None:
    """The reason for which nothing can be classified, or None."""
    if find_spec("sparselens.xml") is None:
        return "the multi-label classifiers are not part of this version"
    if data.features is None:
        return f"{data.name} has no features here"
    return None


def make_classifier(encoder: str, data: str, m: int, *, seed: int, device: str, params: dict[str, Any]) -> Any:
    """SLEEC with its published settings for the data set, or ℓ1-AE's embeddings with the neighbours of SLEEC."""
    module: Any = import_module("sparselens.xml")
    sleec = module.SLEECClassifier.preset(data)
    if encoder == "sleec":
        return sleec.set_params(n_components=m, random_state=seed, **params)
    from sparselens.encoders.l1ae import L1AE

    own: dict[str, Any] = {key: params[key] for key in params if key != "n_models"}
    embedder = L1AE(m, device=device, **(_EMBEDDER | own))
    return module.EmbeddingClassifier(
        embedder,
        n_models=params.get("n_models", 1),
        n_neighbors=sleec.n_neighbors,
        alpha=1.0 / (2.0 * sleec.C),
        random_state=seed,
    )


def scores(classifier: Any, predictor: str, data: Dataset) -> dict[str, float]:
    """P@1, P@3 and P@5 on the published test rows."""
    metrics: Any = import_module("sparselens.metrics")
    if "predictor" in classifier.get_params(deep=False):
        classifier.set_params(predictor=predictor)
    _, _, X, Y = data.official_split()
    best = classifier.predict_topk(X, k=5)
    return {"n_rows": X.shape[0]} | {f"p{k}": metrics.precision_at_k(Y, best, k=k) for k in (1, 3, 5)}
