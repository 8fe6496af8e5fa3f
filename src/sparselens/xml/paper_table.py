"""The paper's multi-label table: SLEEC and ℓ1-AE 1, 2 and 3, ensembles of 1, 3 and 5, P@1, P@3 and P@5.

`measure` runs the cells of one data set; `sparselens reproduce` turns them into the table beside the published values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from sparselens._random import derive_seed
from sparselens._validation import check_choice
from sparselens.metrics import precision_at_k
from sparselens.xml.embedding import PREDICTORS, EmbeddingClassifier
from sparselens.xml.sleec import PRESETS, SLEECClassifier

N_MODELS = (1, 3, 5)
DATA = (
    "eurlex-4k",
    "wiki10-31k",
    "bibtex",
    "delicious",
)  # the paper's two; the others stand in where files are missing


def labels() -> list[str]:
    """The algorithms of the table, as `measure` names them.

    Examples
    --------
    >>> labels()[:2], len(labels())
    (['SLEEC, 1 model', 'SLEEC, 3 models'], 12)
    """
    return [f"{name}, {_models(n)}" for name in ("SLEEC", "ℓ1-AE 1", "ℓ1-AE 2", "ℓ1-AE 3") for n in N_MODELS]


def measure(
    data: Any,
    *,
    random_state: int = 0,
    n_models: tuple[int, ...] = N_MODELS,
    max_epochs: int | None = None,
    device: str = "auto",
    callback: Callable[[int, int, str], None] | None = None,
) -> Iterator[dict[str, Any]]:
    """Yield a row for each algorithm and size of ensemble: ``label``, ``m``, ``p1``, ``p3``, ``p5``, ``n_models``.

    Parameters
    ----------
    data : Dataset
        One of `DATA`, with features: ``load_dataset("bibtex")``. Its official test rows are scored.
    random_state : int
        Models of an ensemble have seeds of their own; the first of five is the single model.
    n_models : tuple of int
        Sizes of ensembles, ascending; what the largest learns serves all of them.
    max_epochs : int, optional
        Of ℓ1-AE, for a quick run.
    device : str
        Of ℓ1-AE.
    callback : callable, optional
        Told (done, total, what).
    """
    from sparselens.encoders.l1ae import L1AE

    name = check_choice(data.name, "data.name", DATA)
    X, Y, X_test, Y_test = data.official_split()
    seed = derive_seed(random_state, table="xml")
    settings = PRESETS[name]
    m = settings["n_components"]
    tell = callback if callback is not None else _silent
    largest = max(n_models)

    def row(label: str, n: int, model: Any) -> dict[str, Any]:
        scores = model.predict_topk(X_test, k=5)
        figures = {f"p{k}": precision_at_k(Y_test, scores, k=k) for k in (1, 3, 5)}
        return {"label": f"{label}, {_models(n)}", "data": name, "m": m, "n_models": n} | figures

    sleec = SLEECClassifier.preset(name, n_models=largest, random_state=seed).fit(
        X, Y, callback=lambda done, total, what: tell(done, 2 * total, f"SLEEC, {what}")
    )
    learners = sleec.parts_
    for n in n_models:
        sleec.parts_ = learners[:n]
        yield row("SLEEC", n, sleec)
    # The paper prints training parameters for Wiki10-31K; elsewhere SGD at its learning rate needs a bound.
    options = {"clip_norm": 1.0, "max_epochs": 400, "validation_interval": 5, "patience": 5, "device": device}
    embedder = L1AE(n_components=m, **(options | ({} if max_epochs is None else {"max_epochs": max_epochs})))
    model = EmbeddingClassifier.as_in_paper(
        embedder,
        n_models=largest,
        alpha=1.0 / (2.0 * settings["C"]),
        n_neighbors=settings["n_neighbors"],
        random_state=seed,
    ).fit(X, Y, callback=lambda done, total, what: tell(total + done, 2 * total, f"ℓ1-AE, {what}"))
    fitted = model.parts_
    for number, predictor in enumerate(PREDICTORS, 1):
        for n in n_models:
            model.set_params(predictor=predictor)
            model.parts_ = fitted[:n]
            yield row(f"ℓ1-AE {number}", n, model)


def _models(n: int) -> str:
    return f"{n} model{'s' if n > 1 else ''}"


def _silent(done: int, total: int, what: str) -> None:
    """What is told to nobody."""
