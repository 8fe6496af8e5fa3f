"""Trainings of one shape as one: which fits go together, and how their models reach the cells that wait for them."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from sparselens.experiments.algorithms import TRAINED, make_encoder
from sparselens.experiments.measure import Options, load_data
from sparselens.experiments.spec import Cell
from sparselens.experiments.store import facts
from sparselens.recovery import DataNotFoundError, TrainingDivergedError

Job = tuple[Cell, ...]
_ENTRIES = 2**32  # of the signs and iterates that a stack may hold on a GPU


def handed_over(job: Job, folder: Path) -> Path:
    """Where a stack leaves the model of a job."""
    return folder / job[0].fit_key


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

    A training that diverged leaves no model, so that it is tried again alone. What is too much for the memory of the
    GPU is done in halves.
    """
    import torch

    from sparselens.encoders.together import fit_together

    assert options.stacked is not None
    encoders = [_encoder(job[0], options) for job in stack]
    data = [load_data(job[0]) for job in stack]

    def told(event: Any) -> bool:
        return bool(callback(event)) or (options.fit_seconds is not None and event.seconds > options.fit_seconds)

    try:
        fit_together(encoders, [one.train for one in data], X_valid=[one.valid for one in data], callback=told)
    except TrainingDivergedError:
        pass  # its row will say so
    except torch.OutOfMemoryError:
        if len(stack) == 1:
            raise
        torch.cuda.empty_cache()
        half = len(stack) // 2
        for part in (stack[:half], stack[half:]):
            fit_stack(part, options, callback=callback)
        return
    where = {name: value for name, value in facts(options.device).items() if name in ("hardware", "device")}
    for job, encoder in zip(stack, encoders, strict=True):
        if hasattr(encoder, "training_data_"):
            history = encoder.history_
            metrics = {"fit_seconds": history["seconds"], "stopped_by": history["stopped_by"]}
            encoder.save(handed_over(job, options.stacked), metrics=metrics | where)


def left_over(jobs: Iterable[Job], options: Options) -> list[Job]:
    """The jobs whose models a killed run has left; a training that was cut is not among them, and begins again."""
    from sparselens.persist import read_manifest

    assert options.stacked is not None
    found = []
    for job in jobs:
        folder = handed_over(job, options.stacked)
        if (folder / "manifest.json").exists():
            if read_manifest(folder)["metrics"]["stopped_by"] == "callback":
                shutil.rmtree(folder)
            else:
                found.append(job)
    return found


def _encoder(cell: Cell, options: Options) -> Any:
    return make_encoder(
        cell.encoder, cell.data, cell.m, seed=cell.seed, device=options.device, params=dict(cell.params)
    )
