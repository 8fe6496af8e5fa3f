"""Trainings of one shape as one: which fits go together, and how their models reach the cells that wait for them."""

from __future__ import annotations

import gc
import hashlib
import logging
import shutil
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from sparselens.experiments.algorithms import TRAINED, make_encoder
from sparselens.experiments.measure import Options, handed_over, kept_at, load_data, unfinished
from sparselens.experiments.spec import Cell
from sparselens.experiments.store import cut_sooner, facts
from sparselens.recovery import DataNotFoundError, TrainingDivergedError

Job = tuple[Cell, ...]
_logger = logging.getLogger("sparselens")
_ENTRIES = 2**32  # of the signs and iterates that a stack may hold on a GPU


def stacks_of(jobs: Iterable[Job], options: Options) -> list[list[Job]]:
    """The jobs whose networks have one shape, each group of at least two, in the order of their first mention."""
    from sparselens.encoders.together import FREE, why_not_together

    groups: dict[Any, list[Job]] = {}
    for job in jobs:
        cell = job[0]
        if cell.encoder not in TRAINED:
            continue
        encoder = _encoder(cell, options)
        if why_not_together(encoder) is not None:
            continue
        try:
            data = load_data(cell)
        except DataNotFoundError:  # its row will say so
            continue
        params = {name: repr(value) for name, value in encoder.get_params(deep=False).items() if name not in FREE}
        shape = (data.train.shape, data.valid.shape)
        groups.setdefault((type(encoder).__name__, tuple(params.items()), shape), []).append(job)
    stacks = []
    for (_, _, ((_, d), _)), group in groups.items():
        encoder = _encoder(group[0][0], options)
        depth = getattr(encoder, "n_steps", 1) or 1
        most = max(2, _ENTRIES // (encoder.batch_size * d * (depth + 8)))
        stacks += [group[i : i + most] for i in range(0, len(group), most)]
    return [stack for stack in stacks if len(stack) > 1]


def fit_stack(stack: Sequence[Job], options: Options, *, callback: Callable[[Any], Any] = lambda event: False) -> None:
    """Fit one encoder for each job, all at once, and leave the models where `measure` takes them.

    A training that diverged leaves no model, so that it is tried again alone; so is every one of a stack that failed.
    What is too much for the memory of the GPU is done in halves. A run that is killed goes on where it was.
    """
    failure = _fit(stack, options, callback)
    if failure is None:
        return
    gc.collect()  # what failed is let go of first: its frames end with `_fit`
    _empty_cache()
    if "out of memory" in failure.lower() and len(stack) > 1:
        half = len(stack) // 2
        for part in (stack[:half], stack[half:]):
            fit_stack(part, options, callback=callback)
        return
    _logger.warning(
        "%d trainings at once failed (%s): each of them is done alone, beginning with %s",
        len(stack),
        failure,
        stack[0][0],
    )


def _fit(stack: Sequence[Job], options: Options, callback: Callable[[Any], Any]) -> str | None:
    """Fit a stack and leave its models; what went wrong, where something did."""
    from sparselens.encoders.together import fit_together

    interrupted = False

    def told(event: Any) -> bool:
        nonlocal interrupted
        interrupted = bool(callback(event))
        return interrupted or (options.fit_seconds is not None and event.seconds > options.fit_seconds)

    folder = _unfinished(stack, options)
    try:
        encoders = [_encoder(job[0], options) for job in stack]
        data = [load_data(job[0]) for job in stack]
        fit_together(
            encoders,
            [one.train for one in data],
            X_valid=[one.valid for one in data],
            callback=told,
            checkpoint=folder,
        )
    except TrainingDivergedError:
        pass  # its row will say so
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    where = {name: value for name, value in facts(options.device).items() if name in ("hardware", "device")}
    for job, encoder in zip(stack, encoders, strict=True):
        if hasattr(encoder, "training_data_") and not (interrupted and encoder.history_["stopped_by"] == "callback"):
            history = encoder.history_
            metrics = {"fit_seconds": history["seconds"], "stopped_by": history["stopped_by"]}
            encoder.save(handed_over(job[0], options), metrics=metrics | where)
    if folder is not None and not interrupted:
        shutil.rmtree(folder, ignore_errors=True)
    return None


def _unfinished(stack: Sequence[Job], options: Options) -> Path | None:
    """The folder of the state of a stack; none where a limit of seconds ends it."""
    assert options.stacked is not None
    if options.fit_seconds is not None:
        return None
    name = hashlib.sha256(" ".join(sorted(job[0].fit_key for job in stack)).encode()).hexdigest()[:12]
    return options.stacked / f"{name}-unfinished"


def _empty_cache() -> None:
    import torch

    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def fitted_already(jobs: Iterable[Job], options: Options) -> list[Job]:
    """The jobs whose model is kept, whose own training is under way, or whose model a killed run has handed over.

    A training that was cut sooner than this run would cut it is not among them, and begins again.
    """
    from sparselens.persist import read_manifest

    found = []
    for job in jobs:
        folder, kept = handed_over(job[0], options), kept_at(job[0], options)
        assert folder is not None
        if (folder / "manifest.json").exists():
            metrics = read_manifest(folder)["metrics"]
            if cut_sooner(metrics, options.fit_seconds):
                shutil.rmtree(folder)
            else:
                found.append(job)
        elif kept is not None and any(path.exists() for path in (kept / "manifest.json", unfinished(kept))):
            found.append(job)
    return found


def _encoder(cell: Cell, options: Options) -> Any:
    return make_encoder(
        cell.encoder, cell.data, cell.m, seed=cell.seed, device=options.device, params=dict(cell.params)
    )
