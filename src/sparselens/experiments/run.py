"""Walk the cells of experiments: skip what is stored, share fits, run side by side, survive any kill.

The unit of work is a fit with all of its decoders. A worker appends each row to the store as soon as it is measured,
so that a run which is killed at any point goes on from there when it is started again. On a GPU trainings of one shape
are done at once, in a thread of this process; the workers take their models over.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, ThreadPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sparselens.experiments.algorithms import TRAINED
from sparselens.experiments.measure import Options, measure
from sparselens.experiments.spec import Cell
from sparselens.experiments.store import FAILED, Row, Store, facts
from sparselens.experiments.together import Job, fit_stack, fitted_already, stacks_of
from sparselens.parallel import end_with

_TELL = 10.0  # seconds between two messages about trainings that are done at once
_ALIVE = 30.0  # seconds without an end of any fit after which it is said what is under way


@dataclass(frozen=True)
class Progress:
    """Where a run stands: fits done, fits in all, what was just done, and the seconds that the rest may take."""

    done: int
    total: int
    text: str
    seconds_left: float | None


def plan(cells: Iterable[Cell], finished: set[str]) -> list[Job]:
    """The cells that are not finished, grouped by the fit that they share, in the order of their first mention.

    Examples
    --------
    >>> a, b = (Cell("toy", "gaussian", 10, decoder) for decoder in ("l1", "l1-pos"))
    >>> [len(job) for job in plan([a, b, a], finished=set())], plan([a, b], finished={a.key, b.key})
    ([2], [])
    """
    jobs: dict[str, dict[str, Cell]] = {}
    for cell in cells:
        if cell.key not in finished:
            jobs.setdefault(cell.fit_key, {})[cell.key] = cell
    return [tuple(job.values()) for job in jobs.values()]


def run(
    cells: Iterable[Cell],
    store: Store,
    options: Options,
    *,
    n_jobs: int = 1,
    time_limit: float | None = None,
    retry: bool = False,
    again: bool = False,
    together: bool = False,
    callback: Callable[[Progress], None] | None = None,
) -> bool:
    """Measure every cell that the store does not have yet.

    Parameters
    ----------
    cells : iterable of Cell
    store : Store
    options : Options
    n_jobs : int
        Fits that run side by side, a process with one thread each. 1 runs in this process.
    time_limit : float, optional
        Begin no fit after so many seconds.
    retry : bool
        Measure cells again that are stored as failed, or whose training was cut sooner than now.
    again : bool
        Measure every cell, whatever is stored.
    together : bool
        Train networks of one shape at once, which pays on a GPU.
    callback : callable, optional
        Called with a `Progress` after every fit, now and then during trainings that are done at once, and where a fit
        takes long with what is under way.

    Returns
    -------
    Whether everything was measured: False where the time limit left cells out.
    """
    before = store.by_key()
    jobs = plan(cells, set() if again else store.finished(retry=retry, fit_seconds=options.fit_seconds))
    began = time.perf_counter()
    done, told = 0, 0.0

    def tell(job: Job) -> None:
        nonlocal done
        done += 1
        if callback is not None:
            left = (time.perf_counter() - began) / done * (len(jobs) - done)
            callback(Progress(done, len(jobs), str(job[0]), left))

    def tell_alive(under_way: Iterable[Job]) -> None:
        if callback is not None:
            text = "; ".join(str(job[0]) for job in under_way)
            callback(Progress(done, len(jobs), f"under way: {text}", None))

    def in_time() -> bool:
        return time_limit is None or time.perf_counter() - began < time_limit

    def tell_stack(stack: list[Job], event: Any) -> None:
        nonlocal told
        if callback is not None and time.perf_counter() - told > _TELL:
            told = time.perf_counter()
            part = f"{stack[0][0].encoder}: {len(stack)} trainings at once, epoch {event.epoch}, best {event.best:.4f}"
            callback(Progress(done, len(jobs), part, None))

    stacks: list[list[Job]] = []
    if together:
        options = replace(options, stacked=store.path.parent / "stacked")
        fitted = set(fitted_already(jobs, options))
        stacks = stacks_of([job for job in jobs if job not in fitted], options)
    stacked = {job for stack in stacks for job in stack}
    waiting = [job for job in reversed(jobs) if job not in stacked]
    if n_jobs == 1 and not stacks:
        while waiting:
            if not in_time():
                return False
            job = waiting.pop()
            if job[0].encoder in TRAINED:
                tell_alive([job])
            work(job, store.path, options)
            tell(job)
        return True
    while (waiting or stacks) and in_time():
        lost = _run_pool(waiting, stacks, store, options, n_jobs, in_time, tell, tell_stack, tell_alive)
        for job in lost:  # a process died: find out which fit it was by running each alone
            if not in_time():
                return False
            _run_alone(job, store, options, before)
            tell(job)
    return not (waiting or stacks)


def work(job: Job, path: Path, options: Options) -> None:
    """Measure the cells of one fit and append their rows."""
    store = Store(path)
    for row in measure(job, options):
        store.append(row)


def _run_pool(
    waiting: list[Job],
    stacks: list[list[Job]],
    store: Store,
    options: Options,
    n_jobs: int,
    in_time: Callable[[], bool],
    tell: Callable[[Job], None],
    tell_stack: Callable[[list[Job], Any], None],
    tell_alive: Callable[[Iterable[Job]], None],
) -> list[Job]:
    """Take jobs from the end of `waiting` until it is empty; return those that were under way when a process died.

    The stacks are trained one after the other beside them, and then join them.
    """
    running: dict[Future[Any], Job] = {}
    training: dict[Future[Any], list[Job]] = {}
    fitted: list[Job] = []  # these are measured whatever the time
    stop = threading.Event()

    def train(stack: list[Job]) -> None:
        def told(event: Any) -> bool:
            tell_stack(stack, event)
            return stop.is_set()

        fit_stack(stack, options, callback=told)

    with ThreadPoolExecutor(1) as trainer, _pool(n_jobs) as pool:
        try:
            while running or training or fitted or ((waiting or stacks) and in_time()):
                if stacks and not training and in_time():
                    stack = stacks.pop(0)
                    training[trainer.submit(train, stack)] = stack
                while len(running) < n_jobs and (fitted or (waiting and in_time())):
                    source = fitted or waiting
                    running[pool.submit(work, source[-1], store.path, options)] = source[-1]
                    source.pop()
                ended = wait([*running, *training], timeout=_ALIVE, return_when=FIRST_COMPLETED).done
                if not ended and running:
                    tell_alive(running.values())
                for future in ended:
                    if future in training:
                        fitted += reversed(training.pop(future))
                        future.result()
                    else:
                        future.result()
                        tell(running.pop(future))
        except BrokenProcessPool:
            waiting += fitted
            for stack in training.values():  # it goes on to its end, and leaves its models
                waiting += reversed(stack)
            return list(running.values())
        except BaseException:  # interrupted: what is under way is not waited for, and is run again the next time
            stop.set()
            for child in multiprocessing.active_children():
                child.terminate()
            raise
    return []


def _run_alone(job: Job, store: Store, options: Options, before: dict[str, Row]) -> None:
    """Measure what of a fit has no row yet, or none that was not there `before` the run."""

    def left() -> tuple[Cell, ...]:
        now = store.by_key()
        return tuple(cell for cell in job if now.get(cell.key) == before.get(cell.key))

    if not left():
        return
    with _pool(1) as pool:
        try:
            pool.submit(work, left(), store.path, options).result()
        except BrokenProcessPool:
            why = {"status": FAILED, "reason": "the process died (out of memory?)"} | facts(options.device)
            for cell in left():
                store.append(cell.as_row() | why)


def _pool(n_jobs: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(
        n_jobs, mp_context=multiprocessing.get_context("spawn"), initializer=_begin_worker, initargs=(os.getpid(),)
    )


def _begin_worker(parent: int) -> None:
    """One thread each, and no life after the parent's."""
    import torch

    torch.set_num_threads(1)
    end_with(parent)
