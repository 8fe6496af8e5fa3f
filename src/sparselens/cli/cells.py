"""Which cells the words of `sparselens reproduce` name: those of tables and figures, or those of stored rows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sparselens.cli.codes import did_you_mean

if TYPE_CHECKING:
    from sparselens.experiments.spec import Cell, Experiment
    from sparselens.experiments.store import Row


def split(words: Sequence[str]) -> list[str]:
    """Names that stand apart, or with commas between them.

    Examples
    --------
    >>> split(["fig2,table1", "fig-toy"])
    ['fig2', 'table1', 'fig-toy']
    """
    return [part.strip() for word in words for part in word.split(",") if part.strip()]


def is_key(name: str) -> bool:
    """Whether a name is the key of a row."""
    return re.fullmatch(r"[0-9a-f]{12}", name) is not None


def rows_with(keys: Sequence[str], source: Path) -> list[Row]:
    """The stored rows of these keys, each once."""
    from sparselens.experiments.store import read_rows

    if not source.exists():
        raise ValueError(f"there is no {source}, where the rows of keys are looked up: name their file with --from.")
    rows = {row["key"]: row for row in read_rows([source])}
    for key in keys:
        if key not in rows:
            raise ValueError(f"{source} has no row with the key {key}: name the file that has it with --from.")
    return [rows[key] for key in dict.fromkeys(keys)]


def cells_named(
    ids: Sequence[str],
    *,
    quick: bool,
    data: list[str] | None = None,
    encoders: list[str] | None = None,
    seeds: int | None = None,
    m: list[int] | None = None,
    n_test: int | None = None,
) -> list[Cell]:
    """The cells of tables and figures; a name that selects nothing is an error."""
    from sparselens.experiments.paper import cells_of, find

    experiments = [experiment for name in ids for experiment in find(name)]
    if data is not None:
        _check_data(data, experiments, quick)
    cells = cells_of(experiments, quick=quick, data=data, seeds=seeds, m=m, n_test=n_test)
    if encoders is None:
        return cells
    known = tuple(dict.fromkeys(cell.encoder for cell in cells))
    if not encoders:
        raise ValueError(f"--encoders names nothing: known are {', '.join(known)}.")
    for name in encoders:
        if name not in known:
            raise ValueError(f"no cell has the encoder {name!r}: {did_you_mean(name, known)}")
    return [cell for cell in cells if cell.encoder in encoders]


def _check_data(names: Sequence[str], experiments: Sequence[Experiment], quick: bool) -> None:
    here, there = (
        tuple(dict.fromkeys(grid.data for one in experiments for grid in one.select(quick=form)))
        for form in (quick, not quick)
    )
    if not names:
        raise ValueError(f"--data-sets names nothing: known are {', '.join(here)}.")
    for name in names:
        if name not in here and name in there:
            remedy = f"leave out --quick, or name {' or '.join(here)}" if quick else "add --quick"
            raise ValueError(f"only the {'full' if quick else 'quick'} form has {name!r}: {remedy}.")
        if name not in here:
            hint = did_you_mean(name, tuple(dict.fromkeys(here + there)))
            raise ValueError(f"no table or figure that was named has the data set {name!r}: {hint}")


def figures(stored: Row, now: Row) -> dict[str, tuple[float, float]]:
    """What both rows of a cell have measured: the stored figure and the new one."""
    names = ("exact", "certified", "rmse", "p1", "p3", "p5", "dimension", "nonzeros")
    both = {name: (stored.get(name), now.get(name)) for name in names}
    return {name: (a, b) for name, (a, b) in both.items() if a is not None and b is not None}


def compared(stored: Row, now: Row) -> str:
    """The figures of one cell, measured again, beside those of its stored row."""
    from sparselens.experiments.spec import Cell

    told = [f"{name} {b:.6g} (stored: {a:.6g})" for name, (a, b) in figures(stored, now).items()]
    return f"{stored['key']}: {Cell.from_row(stored)}, {stored['decoder']}: {', '.join(told) or now['status']}"
