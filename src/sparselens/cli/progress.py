"""Progress bars for people; silence where the output is not a terminal."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Update = Callable[[float, float, str], None]  # called with (done, total, what is going on)


@contextmanager
def progress(title: str, *, timed: bool = True) -> Iterator[Update]:
    """Yield ``update(done, total, text)``, which moves a bar with the time left on standard error.

    The time left is the time so far, scaled: it holds for work that reports seldom, too. Without `timed` it is left
    out: for work whose parts take more and less. Nothing is drawn where standard error is not a terminal, and nothing
    stays on the screen at the end.
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

    console = Console(stderr=True)
    if not console.is_terminal:
        yield _silent
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TextColumn("{task.fields[left]}"))
    began = time.monotonic()
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(title, total=None, left="")

        def update(done: float, total: float, text: str = "") -> None:
            left = time_left(time.monotonic() - began, done / total if total and timed else 0.0)
            bar.update(task, completed=done, total=total, description=f"{title}  {text}".strip(), left=left)

        yield update


def time_left(seconds: float, part: float) -> str:
    """How long the rest takes when `part` of the work took `seconds`, in words; nothing where it cannot be known.

    Examples
    --------
    >>> time_left(30.0, 0.25), time_left(600.0, 0.1), time_left(5.0, 0.0)
    ('1:30 left', '1:30:00 left', '')
    """
    if part <= 0.0 or part >= 1.0:
        return ""
    left = round(seconds / part * (1.0 - part))
    hours, minutes, rest = left // 3600, left // 60 % 60, left % 60
    return f"{hours}:{minutes:02}:{rest:02} left" if hours else f"{minutes}:{rest:02} left"


def _silent(done: float, total: float, text: str = "") -> None:
    """What is told to nobody."""


def training(update: Update, *, text: str = "") -> Callable[..., None]:
    """A callback for `encoder.fit` that moves a bar: the best validation score and how much of the fit is done.

    A training tells an event; an encoder that works through columns or rows tells how many of how many.
    """

    best = float("inf")

    def told(event: Any, total: float | None = None) -> None:
        nonlocal best
        if total is not None:
            update(event, total, text)
            return
        best = min(best, event.best)  # a search trains several times, and each begins anew
        score = f"best score {best:.4g}" if best < float("inf") else ""
        update(event.progress, 1.0, ", ".join(filter(None, [text, score])))

    return told
