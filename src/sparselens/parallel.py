"""Blocks of rows over processes or over a Dask cluster, in order, without oversubscribing the processor."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar
from uuid import uuid4

from sparselens._validation import check_choice, check_count
from sparselens.recovery import ClusterError, MissingLibraryError

Item = TypeVar("Item")
Result = TypeVar("Result")

ENGINES = ("processes", "dask")
_AHEAD = 3  # blocks that wait or run for each worker: enough to keep it busy, few enough to hold in memory
_IDLE = 300  # seconds after which a process that has nothing to do ends
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
_PATIENCE = 30  # seconds to wait for a cluster that does not answer


def count_jobs(n_jobs: int | None) -> int:
    """The number of processes: None is one, -1 all processors, -2 all but one, as in scikit-learn.

    Examples
    --------
    >>> count_jobs(None), count_jobs(3)
    (1, 3)
    """
    if n_jobs is None:
        return 1
    if isinstance(n_jobs, int) and not isinstance(n_jobs, bool) and n_jobs < 0:
        return max(1, (os.cpu_count() or 1) + 1 + n_jobs)
    return check_count(n_jobs, "n_jobs")


def map_in_order(
    function: Callable[[Item], Result],
    items: Iterable[Item],
    *,
    n_jobs: int | None = 1,
    engine: str = "processes",
    scheduler: str | None = None,
) -> Iterator[Result]:
    """Yield ``function(item)`` for each item, in order, from processes with one BLAS thread each.

    Items are taken as they are needed, so that memory holds a few of them for each process.

    Parameters
    ----------
    function : callable
        It travels once to each process or worker, however many items there are.
    items : iterable
    n_jobs : int or None
        Processes of this machine; with one, nothing is started.
    engine : "processes" or "dask"
    scheduler : str, optional
        The address of a Dask scheduler, such as ``tcp://host:8786``. Its workers need sparselens installed.

    Examples
    --------
    >>> list(map_in_order(abs, [-2, 3]))
    [2, 3]
    """
    check_choice(engine, "engine", ENGINES)
    if engine == "dask":
        return _map_dask(function, items, scheduler)
    if scheduler is not None:
        raise ValueError(f"scheduler={scheduler!r} belongs to engine='dask': pass both, or leave it out.")
    n_jobs = count_jobs(n_jobs)
    return map(function, items) if n_jobs == 1 else _map_processes(function, items, n_jobs)


def _map_processes(function: Callable[[Item], Result], items: Iterable[Item], n_jobs: int) -> Iterator[Result]:
    # loky's processes stay alive between calls, and need no guard in a user's script. joblib.Parallel would do but for
    # one thing: it runs ahead of a consumer that is slower than the processes, and memory grows with the stream.
    from concurrent.futures import BrokenExecutor

    from joblib.externals.loky import get_reusable_executor
    from joblib.externals.loky.backend.reduction import dumps

    executor = get_reusable_executor(
        max_workers=n_jobs, timeout=_IDLE, env=_ONE_THREAD, initializer=end_with, initargs=(os.getpid(),)
    )
    waiting: deque[Any] = deque()
    with TemporaryDirectory(prefix="sparselens-") as folder:
        stored = Path(folder) / uuid4().hex
        stored.write_bytes(dumps(function))
        try:
            for item in items:
                waiting.append(executor.submit(_call_stored, str(stored), item))
                if len(waiting) >= _AHEAD * n_jobs:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        except BrokenExecutor:
            raise ClusterError(
                f"one of {n_jobs} processes was killed, most likely for want of memory: use fewer processes, or fewer "
                "rows at once."
            ) from None
        finally:
            for future in waiting:
                future.cancel()


def end_with(parent: int) -> None:
    """End this process soon after the one that started it, even where that was killed and could tell nobody."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


_functions: dict[str, Callable[[Any], Any]] = {}  # the one function of this process, by the file it came in


def _call_stored(path: str, item: Any) -> Any:
    if path not in _functions:
        from multiprocessing.reduction import ForkingPickler  # as processes are sent everything else

        _functions.clear()
        # written by the process that started this one, in a folder that nobody else may enter
        _functions[path] = ForkingPickler.loads(Path(path).read_bytes())
    return _functions[path](item)


def _map_dask(function: Callable[[Item], Result], items: Iterable[Item], scheduler: str | None) -> Iterator[Result]:
    if not scheduler:
        raise ValueError("engine='dask' needs scheduler=, the address of a Dask scheduler such as tcp://host:8786.")
    try:
        import distributed
    except ImportError:
        raise MissingLibraryError("engine='dask' needs Dask: pip install 'sparselens[dask]'.") from None
    return _map_client(distributed, function, items, scheduler)


def _map_client(
    distributed: Any, function: Callable[[Item], Result], items: Iterable[Item], scheduler: str
) -> Iterator[Result]:
    import warnings

    try:
        client = distributed.Client(scheduler, timeout=_PATIENCE, set_as_default=False)
    except (OSError, ValueError, TimeoutError) as error:
        raise ClusterError(
            f"no Dask scheduler answers at {scheduler} ({type(error).__name__}): start one with 'dask scheduler', and "
            "check the address."
        ) from None
    with client, warnings.catch_warnings():
        # A block of measurements in a task is meant: a task that carries its rows can be run again anywhere, so that
        # a worker that dies takes nothing with it. The same goes for the function, a task of its own.
        warnings.filterwarnings("ignore", message="Sending large graph", category=UserWarning)
        try:
            client.wait_for_workers(1, timeout=_PATIENCE)
        except TimeoutError:
            raise ClusterError(
                f"the Dask scheduler at {scheduler} has no workers: start some with 'dask worker'."
            ) from None
        shared = client.submit(_same, function, pure=False)
        waiting: deque[Any] = deque()
        for item in items:
            waiting.append(client.submit(_call, shared, item, pure=False, retries=2))
            if len(waiting) >= max(2, _AHEAD * sum(client.nthreads().values())):
                yield _result(waiting.popleft(), distributed)
        while waiting:
            yield _result(waiting.popleft(), distributed)


def _result(future: Any, distributed: Any) -> Any:
    try:
        return future.result()
    except (distributed.scheduler.KilledWorker, distributed.client.FutureCancelledError) as error:
        raise ClusterError(
            f"the cluster lost a block of rows ({type(error).__name__}): its workers died again and again; give them "
            "more memory, or fewer rows at once."
        ) from None


def _same(value: Any) -> Any:
    return value


def _call(function: Callable[[Any], Any], item: Any) -> Any:
    return function(item)


_made: dict[str, Callable[[Any], Any]] = {}  # one function a process, kept between blocks
_one_at_a_time = threading.Lock()  # solvers reuse their buffers: threads of one process take turns


def call_in_worker(key: str, make: Callable[[], Callable[[Any], Any]], item: Any) -> Any:
    """``make()(item)``, where `make` is called when the process first meets the key."""
    with _one_at_a_time:
        if key not in _made:
            _made.clear()  # a process serves one matrix at a time
            _made[key] = make()
        return _made[key](item)


def decode_in_worker(key: str, make: Callable[[], Any], Y: Any) -> Any:
    """Decode a block with the decoder of this process; it is bound when the process first meets its key."""
    return call_in_worker(key, partial(_decoding, make), Y)


def _decoding(make: Callable[[], Any]) -> Callable[[Any], Any]:
    return make()._decode_checked
