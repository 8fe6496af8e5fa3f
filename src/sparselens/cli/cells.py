"""Which cells the words of `sparselens reproduce` name: those of tables and figures, or those of stored rows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
    """The stored rows of these keys."""
    from sparselens.experiments.store import read_rows

    if not source.exists():
        raise ValueError(f"there is no {source}, where the rows of keys are looked up: name their file with --from.")
    rows = {row["key"]: row for row in read_rows([source])}
    for key in keys:
        if key not in rows:
            raise ValueError(f"{source} has no row with the key {key}: name its file with --from.")
    return [rows[key] for key in keys]


def cells_named(
    ids: Sequence[str],
    *,
    quick: bool,
    data: list[str] | None,
    encoders: list[str] | None,
    **selection: Any,
) -> list[Cell]:
    """The cells of tables and figures; a name that selects nothing is an error."""
    from sparselens.experiments.paper import cells_of, find

    experiments = [experiment for name in ids for experiment in find(name)]
    for name in data or []:
        _check_data(name, experiments, quick)
    cells = cells_of(experiments, quick=quick, data=data, **selection)
    if encoders is not None:
        known = tuple(dict.fromkeys(cell.encoder for cell in cells))
        for name in encoders or [""]:
            if name not in known:
                raise ValueError(f"no cell has the encoder {name!r}: {did_you_mean(name, known)}")
        cells = [cell for cell in cells if cell.encoder in encoders]
    return cells


def _check_data(name: str, experiments: Sequence[Experiment], quick: bool) -> None:
    forms = {form: [g.data for e in experiments for g in e.select(quick=form)] for form in (True, False)}
    if name in forms[quick]:
        return
    if name in forms[not quick]:
        raise ValueError(
            f"the quick form has no {name!r}: leave out --quick, or name {' or '.join(dict.fromkeys(forms[quick]))}."
            if quick
            else f"only the quick form has {name!r}: add --quick."
        )
    known = tuple(dict.fromkeys(forms[quick]))
    raise ValueError(f"no table or figure that was named has the data set {name!r}: {did_you_mean(name, known)}")


def compared(stored: Row, now: Row) -> str:
    """The figures of one cell, measured again, beside those of its stored row."""
    from sparselens.experiments.spec import Cell

    names = [n for n in ("exact", "certified", "rmse", "p1", "p3", "p5", "dimension", "nonzeros") if n in stored]
    figures = ", ".join(f"{name} {now[name]:.6g} (stored: {stored[name]:.6g})" for name in names if name in now)
    return f"{stored['key']}: {Cell.from_row(stored)}, {stored['decoder']}: {figures or now['status']}"
