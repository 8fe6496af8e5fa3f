"""`sparselens reproduce`: any table or figure of the paper, by one command."""

from __future__ import annotations

import json
import os
import re
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sparselens.cli import codes
from sparselens.cli.cells import cells_named, compared, figures, is_key, rows_with, split
from sparselens.cli.options import AsJson

if TYPE_CHECKING:
    from sparselens.experiments.run import Progress
    from sparselens.experiments.spec import Cell
    from sparselens.experiments.store import Row

RESULTS = "results.jsonl"
_MOST = 5  # reasons that are told


def reproduce(
    ids: Annotated[
        list[str], typer.Argument(help="fig2, table1, ... or all; --list names them. Or keys of rows.")
    ] = [],  # noqa: B006 - typer copies it
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for rows, figures and page.")] = Path("reproduced"),
    quick: Annotated[bool, typer.Option("--quick", help="A form of a minute or two that shows the effect.")] = False,
    seeds: Annotated[
        int | None, typer.Option(min=1, help="Repetitions, where the paper has its 10, and of quick forms.")
    ] = None,
    m: Annotated[str | None, typer.Option("--m", help="Numbers of measurements, as 10,20,30.")] = None,
    data_sets: Annotated[str | None, typer.Option("--data-sets", help="Only these, as synthetic1,amazon.")] = None,
    encoders: Annotated[str | None, typer.Option("--encoders", help="Only these, as l1ae,certificate.")] = None,
    rows: Annotated[int | None, typer.Option(min=1, help="Decode so many test rows in the place of all.")] = None,
    jobs: Annotated[int | None, typer.Option(min=1, help="Fits side by side: all processors, at most 8.")] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda or cuda:N: where trained encoders train.")] = "cpu",
    fit_seconds: Annotated[float | None, typer.Option(help="Cut each training after so many seconds.")] = None,
    time_limit: Annotated[float | None, typer.Option(help="Begin no fit after so many seconds.")] = None,
    retry: Annotated[
        bool, typer.Option("--retry", help="Measure again what failed, or was cut sooner than --fit-seconds.")
    ] = False,
    source: Annotated[Path | None, typer.Option("--from", help="The file of rows in which keys are looked up.")] = None,
    keep_models: Annotated[bool, typer.Option(help="Keep trained models for the next run.")] = True,
    page: Annotated[bool, typer.Option(help="Write figures and page at the end.")] = True,
    listed: Annotated[bool, typer.Option("--list", help="List the tables and figures, run nothing.")] = False,
    as_json: AsJson = False,
) -> None:
    """Run the cells of a table or figure of the paper, and write one page with the paper's values beside ours.

    Rows are appended to results.jsonl in the folder; what is there is not run again, so that a run that was stopped
    goes on where it was, and the page shows all rows of the folder that are of this form (full or quick). Keys run
    single cells again and print their figures beside the stored ones.

    Example: sparselens reproduce fig2 --quick -o reproduced
    """
    import torch

    from sparselens.experiments.measure import Options
    from sparselens.experiments.run import run
    from sparselens.experiments.store import FAILED, Store
    from sparselens.train import choose_device

    names = split(ids)
    if listed or not names:
        _list(as_json)
        return
    for name, seconds in (("--fit-seconds", fit_seconds), ("--time-limit", time_limit)):
        if seconds is not None and not seconds > 0:
            raise ValueError(f"{name} must be more than 0, got {seconds:g}.")
    torch.set_num_threads(1)
    choose_device(device)  # an unknown device is an error now, not in every row
    selection = {
        "quick": quick or None,
        "data": _names(data_sets),
        "encoders": _names(encoders),
        "seeds": seeds,
        "m": _numbers(m),
        "n_test": rows,
    }
    cells, known = _chosen(names, {k: v for k, v in selection.items() if v is not None}, source, out)
    store = Store(out / RESULTS)
    try:
        with _told() as tell:
            whole = run(
                cells,
                store,
                Options(device, out / "models" if keep_models else None, fit_seconds),
                n_jobs=jobs or min(os.cpu_count() or 1, 8),
                time_limit=time_limit,
                retry=retry,
                again=bool(known),
                together=device.startswith("cuda"),
                callback=tell,
            )
    except BaseException as error:
        if codes.cut_short(error) and store.path.exists():
            typer.echo("sparselens: the rows that were measured are kept: the same command goes on.", err=True)
        raise
    now = store.by_key()
    mine = {cell.key: now[cell.key] for cell in cells if cell.key in now}
    written = None
    if page and not known and mine:
        from sparselens.cli.report import write

        written = str(write([store.path], out, names, others=True, quick=quick))
    counts = Counter(row["status"] for row in mine.values())
    again = [
        (row, mine[row["key"]]) for row in known if mine.get(row["key"]) not in (None, row)
    ]  # not what was left out
    if as_json:
        facts = {"n_cells": len(cells), "status": counts, "whole": whole, "rows": str(store.path), "page": written}
        compared_by_key = {row["key"]: figures(row, measured) for row, measured in again}
        typer.echo(json.dumps(facts | ({"stored_and_now": compared_by_key} if known else {})))
    else:
        told = ", ".join(f"{n} {status}" for status, n in counts.items())
        typer.echo(f"{len(mine)} of {len(cells)} cells: {told or 'none'}. {store.path}")
        if not whole:
            typer.echo("The time limit left cells out: the same command goes on.")
        for row, measured in again:
            typer.echo(compared(row, measured))
        if written is not None:
            typer.echo(f"Page: {written}")
    _tell_why(list(mine.values()))
    if counts[FAILED]:
        raise typer.Exit(codes.FAILED)


def _chosen(
    names: list[str], selection: dict[str, Any], source: Path | None, out: Path
) -> tuple[list[Cell], list[Row]]:
    """The cells that are asked for, and the stored rows where keys ask for them."""
    from sparselens.experiments.spec import Cell

    if not any(map(is_key, names)):
        if source is not None:
            raise ValueError(
                "--from is where the keys of rows are looked up: name keys, of 12 hexadecimal digits, or leave it out."
            )
        return cells_named(names, **({"quick": False} | selection)), []
    if not all(map(is_key, names)) or selection:
        raise ValueError(
            "a key says all of its cell: name keys alone, without tables, figures or options that select cells."
        )
    rows = rows_with(names, source or out / RESULTS)
    return [Cell.from_row(row) for row in rows], rows


def _list(as_json: bool) -> None:
    from sparselens.experiments.paper import EXPERIMENTS

    if as_json:
        typer.echo(json.dumps([{"id": e.id, "title": e.title, "shows": e.shows} for e in EXPERIMENTS.values()]))
        return
    for experiment in EXPERIMENTS.values():
        typer.echo(f"{experiment.id:<20}{experiment.title}: {experiment.shows}")
    typer.echo("Run one of them: sparselens reproduce fig2 --quick", err=True)


def _tell_why(rows: list[Row]) -> None:
    """Why cells have no figure, each reason once, and which ones may be better measured."""
    from sparselens.data import data_root
    from sparselens.experiments.store import FAILED, MISSING, was_cut

    for status in (FAILED, MISSING):
        reasons = Counter(row["reason"] for row in rows if row["status"] == status)
        for reason, n in reasons.most_common(_MOST):
            typer.echo(f"sparselens: {n} {status}: {reason}", err=True)
        if len(reasons) > _MOST:
            typer.echo(f"sparselens: and {len(reasons) - _MOST} other reasons, in the rows.", err=True)
        if reasons and status == MISSING:
            typer.echo(f"sparselens: the data folder is {data_root()} (SPARSELENS_DATA names another).", err=True)
        if reasons and status == FAILED:
            typer.echo("sparselens: --retry measures again what failed.", err=True)
    if n := sum(map(was_cut, rows)):
        typer.echo(
            f"sparselens: {n} of the rows are of trainings that --fit-seconds cut: --retry with more seconds, or "
            "without, trains longer.",
            err=True,
        )


def _numbers(text: str | None) -> list[int] | None:
    if text is None:
        return None
    if not re.fullmatch(r"0*[1-9]\d*(,0*[1-9]\d*)*", text):
        raise ValueError(f"--m must be whole numbers from 1 on with commas, as 10,20,30; got {text!r}.")
    return [int(part) for part in text.split(",")]


def _names(text: str | None) -> list[str] | None:
    return None if text is None else split([text])


class _told:  # noqa: N801 (used like a function)
    """A bar on a terminal, a line for each fit elsewhere; both say how much time is left."""

    def __enter__(self) -> Any:
        from sparselens.cli.progress import progress

        if not sys.stderr.isatty():
            return self._line
        self._bar = progress("reproduce", timed=False)
        update = self._bar.__enter__()
        return lambda now: update(now.done, now.total, self._text(now))

    def __exit__(self, *exception: Any) -> None:
        if hasattr(self, "_bar"):
            self._bar.__exit__(*exception)

    def _line(self, now: Progress) -> None:
        typer.echo(f"[{now.done}/{now.total}] {self._text(now)}", err=True)

    @staticmethod
    def _text(now: Progress) -> str:
        return now.text if now.seconds_left is None else f"{now.text}, about {_duration(now.seconds_left)} left"


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
