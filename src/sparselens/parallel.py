"""Rows over processes, in order, without oversubscribing the processor."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from sparselens._validation import check_count

Item = TypeVar("Item")
Result = TypeVar("Result")


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


def map_in_order(function: Callable[[Item], Result], items: Sequence[Item], *, n_jobs: int) -> Iterator[Result]:
    """Yield ``function(item)`` for each item, in order, from `n_jobs` processes with one BLAS thread each.

    The function travels to a process once for each item, so it should be small, or hold its large arrays as
    something that joblib maps into memory (numpy arrays above a megabyte are).
    """
    from joblib import Parallel, delayed, parallel_config

    with parallel_config(backend="loky", inner_max_num_threads=1):
        yield from Parallel(n_jobs=n_jobs, return_as="generator", batch_size=1)(
            delayed(function)(item) for item in items
        )


_bound: dict[str, Any] = {}  # one decoder a process, kept between blocks


def decode_in_worker(key: str, make: Callable[[], Any], Y: Any) -> Any:
    """Decode a block with the decoder of this process; it is bound when the process first meets its key."""
    if key not in _bound:
        _bound.clear()  # a process serves one matrix at a time
        _bound[key] = make()
    return _bound[key]._decode_checked(Y)
