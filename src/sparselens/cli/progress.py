"""Progress bars for people; silence where the output is not a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress(title: str) -> Iterator[Callable[[int, int, str], None]]:
    """Yield ``update(done, total, text)``, which moves a bar with the time left on standard error."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    if not console.is_terminal:
        yield _silent
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(title, total=None)

        def update(done: int, total: int, text: str = "") -> None:
            bar.update(task, completed=done, total=total, description=f"{title} {text}".strip())

        yield update


def _silent(done: int, total: int, text: str = "") -> None:
    """What is told to nobody."""
