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
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, ThreadPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from sparselens.experiments.algorithms import TRAINED
from sparselens.experiments.measure import Options, measure
from sparselens.experiments.spec import Cell
from sparselens.experiments.store import FAILED, Row, Store, facts
from sparselens.experiments.together import Job, fit_stack, fitted_already, stacks_of
from sparselens.parallel import end_with

Kind = tuple[str, ...]
_TELL = 10.0  # seconds between two messages about trainings that are done at once
_ALIVE = 30.0  # seconds without an end of any fit after which it is said what is under way


@dataclass(frozen=True)
class Progress:
    """Where a run stands: fits done, fits in all, what was just done, and the seconds that the rest may take.

    `seconds_left` is None where nothing is known of some of what is left.
    """

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
    left, told = set(jobs), 0.0
    taken: dict[Kind, list[float]] = {}

    def say(text: str, seconds: float | None) -> None:
        if callback is not None:
            callback(Progress(len(jobs) - len(left), len(jobs), text, seconds))

    def estimate() -> float | None:
        trained = not stacks and stacked.isdisjoint(left)  # how long a stack trains is not known
        return seconds_left(left, taken, n_jobs) if trained else None

    def tell(job: Job, seconds: float | None = None) -> None:
        left.remove(job)
        if seconds is not None:
            for kind in kinds_of(job):
                taken.setdefault(kind, []).append(seconds)
        say(str(job[0]), estimate())

    def tell_alive(under_way: Iterable[Job]) -> None:
        say(f"under way: {'; '.join(str(job[0]) for job in under_way)}", estimate())

    def in_time() -> bool:
        return time_limit is None or time.perf_counter() - began < time_limit

    def tell_stack(stack: list[Job], event: Any) -> None:
        nonlocal told
        if time.perf_counter() - told > _TELL:
            told = time.perf_counter()
            part = f"{stack[0][0].encoder}: {len(stack)} trainings at once, epoch {event.epoch}, best {event.best:.4f}"
            say(part, None)

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
            tell(job, work(job, store.path, options))
        return True
    while (waiting or stacks) and in_time():
        lost = _run_pool(waiting, stacks, store, options, n_jobs, in_time, tell, tell_stack, tell_alive)
        for job in lost:  # a process died: find out which fit it was by running each alone
            if not in_time():
                return False
            _run_alone(job, store, options, before)
            tell(job)
    return not (waiting or stacks)


def kinds_of(job: Job) -> tuple[Kind, Kind]:
    """Fits that take about as long: of the same encoder on the same data set, or else on any."""
    return (job[0].encoder, job[0].data), (job[0].encoder,)


def seconds_left(left: Collection[Job], taken: dict[Kind, list[float]], n_jobs: int) -> float | None:
    """The seconds that fits may take side by side, from those that fits of their kinds have taken; None without any.

    Examples
    --------
    >>> jobs = [(Cell("toy", encoder, m, "l1-pos"),) for m in (10, 20) for encoder in ("gaussian", "l1ae")]
    >>> taken = {("gaussian",): [1.0, 3.0], ("l1ae", "amazon"): [50.0]}
    >>> seconds_left(jobs, taken, 2), seconds_left(jobs, taken | {("l1ae", "toy"): [10.0]}, 2)
    (None, 12.0)
    """
    total = 0.0
    for kinds, n in Counter(map(kinds_of, left)).items():
        known = [taken[kind] for kind in kinds if kind in taken]
        if not known:
            return None
        total += n * fmean(known[0])
    return total / max(1, min(n_jobs, len(left)))


def work(job: Job, path: Path, options: Options) -> float:
    """Measure the cells of one fit and append their rows; return the seconds that it took."""
    store, began = Store(path), time.perf_counter()
    for row in measure(job, options):
        store.append(row)
    return time.perf_counter() - began


def _run_pool(
    waiting: list[Job],
    stacks: list[list[Job]],
    store: Store,
    options: Options,
    n_jobs: int,
    in_time: Callable[[], bool],
    tell: Callable[[Job, float], None],
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
                        seconds = future.result()
                        tell(running.pop(future), seconds)
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
