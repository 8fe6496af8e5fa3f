"""The table of results: one line of JSON a row, only ever appended to, whole after any kill."""

from __future__ import annotations

import json
import math
import os
import platform
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sparselens._version import __version__

Row = dict[str, Any]
DONE, NOT_APPLICABLE, FAILED, MISSING = "done", "not applicable", "failed", "missing"
_NEEDED = ("status", "data", "encoder", "m", "decoder", "seed", "params", "sizes", "n_test")  # of a row of a cell
_FRACTIONS = ("exact", "exact_1e6", "certified", "unique", "support_f1", "p1", "p3", "p5")
_AMOUNTS = ("rmse", "mean_error", "fit_seconds", "decode_seconds", "m", "seed")
TIMINGS = ("fit_seconds", "decode_seconds", "date", "from_cache")  # what may differ between two runs of one cell


class Store:
    """Rows in a file of JSON lines; of several rows with one key the last one counts.

    Every row is written by one call under a lock, so that several processes may append; a line that a killed process
    left unfinished is cut off before the next one is written, and never read.

    Examples
    --------
    >>> import tempfile
    >>> store = Store(Path(tempfile.mkdtemp()) / "results.jsonl")
    >>> store.append({"key": "a", "status": "failed"})
    >>> store.append({"key": "a", "status": "done"})
    >>> [row["status"] for row in store.rows()]
    ['done']
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def append(self, row: Row) -> None:
        """Add a row; it is on its way to the disk when this returns."""
        line = json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with open(self.path, "ab+") as file, _locked(file):
            _cut_unfinished(file)
            file.write(line.encode())
            file.flush()

    def rows(self) -> list[Row]:
        """The rows, each key once, in the order in which the keys came first."""
        return list(self.by_key().values())

    def by_key(self) -> dict[str, Row]:
        """The same by their keys."""
        return {row["key"]: row for row in _read(self.path)}

    def finished(self, *, retry: bool = False, fit_seconds: float | None = None) -> set[str]:
        """Keys of rows that need no other run. Missing data is always tried again.

        `retry` leaves out what failed, and what was cut sooner than a limit of `fit_seconds` would cut it.
        """
        again = {MISSING, FAILED} if retry else {MISSING}
        return {
            row["key"]
            for row in self.rows()
            if row["status"] not in again and not (retry and cut_sooner(row, fit_seconds))
        }


def was_cut(row: Row) -> bool:
    """Whether a limit ended the training of a row, or of a model."""
    return row.get("stopped_by") == "callback"


def cut_sooner(row: Row, limit: float | None) -> bool:
    """Whether a training was cut that would go on with this limit of seconds.

    Examples
    --------
    >>> row = {"stopped_by": "callback", "fit_seconds": 10.0}
    >>> cut_sooner(row, None), cut_sooner(row, 20.0), cut_sooner(row, 5.0)
    (True, True, False)
    """
    return was_cut(row) and (limit is None or row["fit_seconds"] < limit)


def read_rows(paths: Iterable[Path]) -> list[Row]:
    """The rows of several files; a folder stands for every .jsonl file in it."""
    latest: dict[str, Row] = {}
    for path in paths:
        if not path.exists():
            raise FileNotFoundError(f"there is no {path}: name a results file, or a folder that `reproduce` wrote.")
        for file in sorted(path.glob("*.jsonl")) if path.is_dir() else [path]:
            for row in _read(file):
                if lacking := [name for name in _NEEDED if name not in row]:
                    raise ValueError(f"the row {row['key']} of {file} has no {', '.join(lacking)}: remove that line.")
                if damage := _damage(row):
                    raise ValueError(f"the row {row['key']} of {file} is damaged ({damage}): remove that line.")
                latest[row["key"]] = row
    return list(latest.values())


def _damage(row: Row) -> str | None:
    """What no run has written, or None."""
    known = (DONE, NOT_APPLICABLE, FAILED, MISSING)
    if row["status"] not in known:
        return f"status {row['status']!r} is none of {', '.join(known)}"
    if row["status"] != DONE and not isinstance(row.get("reason"), str):
        return f"it is {row['status']}, but gives no reason"
    if not isinstance(row["params"], dict):
        return f"params is {row['params']!r}"
    for name in _FRACTIONS + _AMOUNTS:
        value = row.get(name, 0)
        number = isinstance(value, (int, float)) and math.isfinite(value) and value >= 0
        if value is not None and not (number and (name in _AMOUNTS or value <= 1)):
            return f"{name} is {value!r}"
    return None


def table(rows: Iterable[Row]) -> list[Row]:
    """Rows sorted by key without what a clock gives: equal for an interrupted and an uninterrupted run."""
    kept = ({k: v for k, v in row.items() if k not in TIMINGS} for row in rows)
    return sorted(kept, key=lambda row: row["key"])


def facts(device: str = "cpu") -> Row:
    """Version, commit, date and hardware; SPARSELENS_COMMIT names the commit where there is no git."""
    import torch

    on_gpu = device.startswith("cuda")
    return {
        "version": __version__,
        "commit": os.environ.get("SPARSELENS_COMMIT") or _commit(),
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "hardware": torch.cuda.get_device_name() if on_gpu else f"{_cpu()}, {os.cpu_count()} cores",
        "torch": torch.__version__,
        "device": device,
    }


def _read(path: Path) -> Iterator[Row]:
    if not path.exists():
        return
    with open(path, "rb") as file:
        for number, line in enumerate(file, 1):
            if not line.endswith(b"\n"):  # the last line of a killed process
                return
            try:
                row = json.loads(line)
            except ValueError:
                raise ValueError(f"line {number} of {path} is not JSON: remove that line, or the file.") from None
            if not isinstance(row, dict):
                raise ValueError(f"line {number} of {path} is no row: remove that line, or the file.")
            if "key" in row:
                yield row


def _cut_unfinished(file: Any) -> None:
    """Drop a last line without an end, which a killed process left."""
    size = file.seek(0, os.SEEK_END)
    if size == 0:
        return
    file.seek(-1, os.SEEK_END)
    if file.read(1) == b"\n":
        return
    back, position = b"", size
    while position and b"\n" not in back:
        step = min(65536, position)
        position -= step
        file.seek(position)
        back = file.read(step)
    file.truncate(position + back.rfind(b"\n") + 1)
    file.seek(0, os.SEEK_END)


@contextmanager
def _locked(file: Any) -> Iterator[None]:
    try:
        import fcntl
    except ImportError:  # pragma: no cover - Windows: one process at a time
        yield
        return
    fcntl.flock(file, fcntl.LOCK_EX)
    try:
        yield
    finally:
        fcntl.flock(file, fcntl.LOCK_UN)


def _commit() -> str:
    """The commit of the source tree that this runs from, if it is one."""
    asked = ["git", "rev-parse", "--short", "HEAD"]
    try:
        found = subprocess.run(asked, capture_output=True, text=True, cwd=Path(__file__).parent, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return found.stdout.strip()


def _cpu() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    return next((s.split(":", 1)[1].strip() for s in lines if s.startswith("model name")), platform.processor())
