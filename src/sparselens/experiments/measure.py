"""Measure the cells of one fit: load, fit once, decode with every decoder that is asked for, one row each."""

from __future__ import annotations

import math
import shutil
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from sparselens.data import Dataset, data_root, load_dataset
from sparselens.experiments import labels
from sparselens.experiments.algorithms import TRAINED, make_decoder, make_encoder, preset, why_not
from sparselens.experiments.spec import Cell
from sparselens.experiments.store import DONE, FAILED, MISSING, NOT_APPLICABLE, Row, facts, was_cut
from sparselens.metrics import recovery_report
from sparselens.recovery import DataNotFoundError

_DENSE = 2**23  # entries of the answers of an estimating decoder that are held at once
_KEPT_CELLS = 5_000_000  # entries of A up to which a trained model is kept on disk


@dataclass(frozen=True)
class Options:
    """Where and how cells are measured; none of it changes what a cell is.

    Attributes
    ----------
    device : str
        "cpu", "cuda" or "cuda:N".
    models : path or None
        A folder for trained models and for the checkpoints of unfinished trainings.
    fit_seconds : float or None
        Stop a training after so many seconds; its rows say so (``stopped_by`` is "callback").
    stacked : path or None
        Where `together` leaves the models of trainings that were done at once.
    """

    device: str = "cpu"
    models: Path | None = None
    fit_seconds: float | None = None
    stacked: Path | None = None


def measure(cells: Sequence[Cell], options: Options) -> Iterator[Row]:
    """One row for each cell, as soon as it is there; the cells must share a fit. Nothing that fails is lost."""
    began = time.perf_counter()
    common = facts(options.device)
    yield from (
        cell.as_row() | {"status": DONE} | preset(cell.data) | common for cell in cells if cell.decoder == "preset"
    )
    cells = [cell for cell in cells if cell.decoder != "preset"]
    if not cells:
        return
    try:
        data = load_data(cells[0])
    except DataNotFoundError as error:
        # Where the data would lie is this machine's affair.
        lacking = {"status": MISSING, "reason": str(error).replace(str(data_root()), "the data folder")}
        yield from (cell.as_row() | lacking | common for cell in cells)
        return
    todo = []
    for cell in cells:
        if cell.decoder == "facts":
            yield cell.as_row() | {"status": DONE} | _facts_of(data) | common
        elif reason := labels.why_not(data) if cell.encoder in labels.ENCODERS else why_not(cell.decoder, data):
            yield cell.as_row() | {"status": NOT_APPLICABLE, "reason": reason} | common
        else:
            todo.append(cell)
    if not todo:
        return
    try:
        encoder, fitted = fit(todo[0], data, options)
    except Exception as error:
        failure = {"status": FAILED, "reason": _sentence(error), "fit_seconds": time.perf_counter() - began}
        yield from (cell.as_row() | failure | common for cell in todo)
        _let_go(todo[0], options)
        return
    for cell in todo:
        try:
            result = {"status": DONE} | fitted | decode(cell, encoder, data, options)
        except Exception as error:
            result = {"status": FAILED, "reason": _sentence(error)} | fitted
        yield _as_json(cell.as_row() | common | result)
    _let_go(todo[0], options)  # every row is stored


def kept_at(cell: Cell, options: Options) -> Path | None:
    """Where the trained model of a cell is kept for other runs."""
    return options.models / cell.fit_key if options.models is not None and cell.encoder in TRAINED else None


def handed_over(cell: Cell, options: Options) -> Path | None:
    """Where a stack leaves the model of a cell."""
    return options.stacked / cell.fit_key if options.stacked is not None else None


def _let_go(cell: Cell, options: Options) -> None:
    handed = handed_over(cell, options)
    if handed is not None and handed.exists():
        (handed / "manifest.json").unlink(missing_ok=True)  # first, so that a kill leaves no half of a model
        shutil.rmtree(handed)


def unfinished(kept: Path) -> Path:
    """Where the state of a training lies whose model will be kept here."""
    return kept.with_name(kept.name + "-unfinished")


def fit(cell: Cell, data: Dataset, options: Options) -> tuple[Any, Row]:
    """The fitted encoder of a cell, from the folder of models where it is there, and what its rows say about it."""
    from sparselens.persist import load, read_manifest

    if cell.encoder in labels.ENCODERS:
        return _fit_classifier(cell, data, options)
    encoder = make_encoder(
        cell.encoder, cell.data, cell.m, seed=cell.seed, device=options.device, params=dict(cell.params)
    )
    row: Row = {"made_by": repr(encoder), "from_cache": False}
    kept, handed = kept_at(cell, options), handed_over(cell, options)
    if handed is not None and (handed / "manifest.json").exists():
        metrics = read_manifest(handed)["metrics"]  # the seconds and the machine
        encoder = load(handed)
        row |= metrics | _about(encoder)
        if kept is not None and _worth_keeping(cell, data, row):
            encoder.save(kept, metrics=metrics)
        return encoder, row
    if kept is not None and (kept / "manifest.json").exists():
        row |= {"fit_seconds": read_manifest(kept)["metrics"]["fit_seconds"], "from_cache": True}
        encoder = load(kept)
        return encoder, row | _about(encoder)
    began = time.perf_counter()
    _train(encoder, data, kept, options.fit_seconds)
    row |= {"fit_seconds": time.perf_counter() - began} | _about(encoder)
    if kept is not None and _worth_keeping(cell, data, row):
        encoder.save(kept, metrics={"fit_seconds": row["fit_seconds"]})
    return encoder, row


def _worth_keeping(cell: Cell, data: Dataset, row: Row) -> bool:
    """Not a training that was cut: a later run without a limit would take it for a whole one."""
    return not was_cut(row) and cell.m * data.n_features <= _KEPT_CELLS


def _about(encoder: Any) -> Row:
    """How the training went, what was chosen in it, and the singular values of the matrix."""
    row: Row = {}
    history = getattr(encoder, "history_", {})
    for name in ("n_epochs", "n_steps", "stopped_by", "best_epoch", "together"):
        if name in history:
            row[name] = history[name]
    for name in ("recipe_", "structure_found_", "n_hidden_", "tried_"):
        if hasattr(encoder, name):
            row[name.rstrip("_")] = getattr(encoder, name)
    if hasattr(encoder, "components_"):
        A = encoder.components_
        values = np.sqrt(np.maximum(np.linalg.eigvalsh(A @ A.T), 0.0))
        row |= {"sigma_max": float(values[-1]), "sigma_min": float(values[0])}
    return row


def _fit_classifier(cell: Cell, data: Dataset, options: Options) -> tuple[Any, Row]:
    model = labels.make_classifier(
        cell.encoder, cell.data, cell.m, seed=cell.seed, device=options.device, params=dict(cell.params)
    )
    began, made_by = time.perf_counter(), repr(model)
    X, Y, _, _ = data.official_split()
    model.fit(X, Y)
    return model, {"made_by": made_by, "fit_seconds": time.perf_counter() - began, "from_cache": False}


def decode(cell: Cell, encoder: Any, data: Dataset, options: Options) -> Row:
    """How the test rows come back from the cell's decoder."""
    if cell.encoder in labels.ENCODERS:
        return labels.scores(encoder, cell.decoder, data)
    if cell.decoder == "matrix":
        return {"A": np.round(encoder.components_, 4).tolist()}
    X = data.test if cell.n_test is None else data.test[: cell.n_test]
    began = time.perf_counter()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        decoder = make_decoder(cell.decoder, encoder, data, device=options.device)
        Y = encoder.transform(X)
        if cell.decoder.startswith("l1"):
            report = recovery_report(X, decoder.decode(Y, keep_dual=False)).as_dict()
        else:
            report = _in_blocks(decoder, X, Y)
    row: Row = {"decode_seconds": time.perf_counter() - began} | report
    if said:
        row["warnings"] = sorted({str(one.message) for one in said})
    return row


def _in_blocks(decoder: Any, X: Any, Y: np.ndarray) -> dict[str, float]:
    """The report of a decoder whose answers may be dense, a block of rows at a time."""
    size = max(1, _DENSE // X.shape[1])
    parts, counts = [], []
    for lo in range(0, X.shape[0], size):
        rows = X[lo : lo + size]
        parts.append(recovery_report(rows, decoder.decode(Y[lo : lo + size], keep_dual=False)).as_dict())
        counts.append(rows.shape[0])
    mean = {name: float(np.average([part[name] for part in parts], weights=counts)) for name in parts[0]}
    squares = np.average([part["rmse"] ** 2 for part in parts], weights=counts)
    return mean | {"n_rows": int(sum(counts)), "rmse": float(np.sqrt(squares))}


def _train(encoder: Any, data: Dataset, kept: Path | None, limit: float | None) -> None:
    """Fit; a training that is killed goes on from its checkpoint, where its class has one and no limit ends it."""
    began = time.perf_counter()
    resumable = kept is not None and limit is None and "checkpoint" in encoder.get_params(deep=False)
    if resumable:
        folder = unfinished(kept)  # type: ignore[arg-type]
        encoder.set_params(checkpoint=folder)

    def callback(*_: Any) -> bool:
        return limit is not None and time.perf_counter() - began > limit

    encoder.fit(data.train, X_valid=data.valid, callback=callback)
    if resumable:
        encoder.set_params(checkpoint=None)
        shutil.rmtree(folder, ignore_errors=True)


def load_data(cell: Cell) -> Dataset:
    """The rows of a cell."""
    from sparselens.data.synthetic import GENERATORS

    # A generated set is drawn anew for every seed; a real one keeps its split.
    return _load(cell.data, cell.seed if cell.data in GENERATORS else 0, cell.sizes)


@lru_cache(maxsize=2)
def _load(name: str, seed: int, sizes: tuple[int, int, int] | None) -> Dataset:
    return load_dataset(name, random_state=seed, sizes=sizes)


def _facts_of(data: Dataset) -> Row:
    counts = np.concatenate([np.diff(getattr(data, part).indptr) for part in ("train", "valid", "test")])
    return {
        "dimension": data.n_features,
        "occurring": len(np.unique(np.concatenate([data.train.indices, data.valid.indices, data.test.indices]))),
        "nonzeros": float(counts.mean()),
        **dict(zip(("train", "valid", "test"), data.sizes, strict=True)),
        "provenance": data.provenance,
    }


def _sentence(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _as_json(value: Any) -> Any:
    """Plain JSON values; what is not finite becomes None."""
    if isinstance(value, dict):
        return {str(k): _as_json(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_as_json(v) for v in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
