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

from sparselens.cli.options import AsJson

if TYPE_CHECKING:
    from sparselens.experiments.run import Progress
    from sparselens.experiments.spec import Cell

RESULTS = "results.jsonl"


def reproduce(
    ids: Annotated[list[str], typer.Argument(help="fig2, table1, ... or all; --list names them. Or a row's key.")] = [],  # noqa: B006 - typer copies it
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for rows, figures and page.")] = Path("reproduced"),
    quick: Annotated[bool, typer.Option("--quick", help="A form of a minute or two that shows the effect.")] = False,
    seeds: Annotated[int | None, typer.Option(min=1, help="Repetitions; the paper has 10 on synthetic data.")] = None,
    m: Annotated[str | None, typer.Option("--m", help="Numbers of measurements, as 10,20,30.")] = None,
    data_sets: Annotated[str | None, typer.Option("--data-sets", help="Only these, as synthetic1,amazon.")] = None,
    encoders: Annotated[str | None, typer.Option("--encoders", help="Only these, as l1ae,certificate.")] = None,
    rows: Annotated[int | None, typer.Option(min=1, help="Decode so many test rows in the place of all.")] = None,
    jobs: Annotated[int | None, typer.Option(min=1, help="Fits side by side: all processors, at most 8.")] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda or cuda:N: where trained encoders train.")] = "cpu",
    fit_seconds: Annotated[float | None, typer.Option(help="Cut each training after so many seconds.")] = None,
    time_limit: Annotated[float | None, typer.Option(help="Begin no fit after so many seconds.")] = None,
    retry: Annotated[bool, typer.Option("--retry", help="Try again what is stored as failed.")] = False,
    source: Annotated[Path | None, typer.Option("--from", help="Where a row's key is looked up.")] = None,
    keep_models: Annotated[bool, typer.Option(help="Keep trained models for the next run.")] = True,
    page: Annotated[bool, typer.Option(help="Write figures and page at the end.")] = True,
    listed: Annotated[bool, typer.Option("--list", help="List the tables and figures, run nothing.")] = False,
    as_json: AsJson = False,
) -> None:
    """Run the cells of a table or figure of the paper, and write one page with the paper's values beside ours.

    Rows are appended to results.jsonl in the folder; what is there is not run again, so that a run that was stopped
    goes on where it was.

    Example: sparselens reproduce fig2 --quick -o reproduced
    """
    import torch

    from sparselens.experiments.measure import Options
    from sparselens.experiments.paper import EXPERIMENTS
    from sparselens.experiments.run import run
    from sparselens.experiments.store import Store
    from sparselens.train import choose_device

    if listed or not ids:
        if as_json:
            typer.echo(json.dumps([{"id": e.id, "title": e.title, "shows": e.shows} for e in EXPERIMENTS.values()]))
            return
        for experiment in EXPERIMENTS.values():
            typer.echo(f"{experiment.id:<20}{experiment.title}: {experiment.shows}")
        return
    torch.set_num_threads(1)
    choose_device(device)  # an unknown device is an error now, not in every row
    cells = _cells(
        ids, source or out / RESULTS, quick=quick, seeds=seeds, m=_numbers(m), data=_names(data_sets), n_test=rows
    )
    if (wanted := _names(encoders)) is not None:
        cells = [cell for cell in cells if cell.encoder in wanted]
    options = Options(device, out / "models" if keep_models else None, fit_seconds)
    together = device.startswith("cuda")
    n_jobs = jobs or min(os.cpu_count() or 1, 8)
    store = Store(out / RESULTS)
    with _told() as tell:
        whole = run(
            cells,
            store,
            options,
            n_jobs=n_jobs,
            time_limit=time_limit,
            retry=retry,
            together=together,
            callback=tell,
        )
    keys = {cell.key for cell in cells}
    mine = [row for row in store.rows() if row["key"] in keys]
    counts = Counter(row["status"] for row in mine)
    written = None
    if page and all(name in EXPERIMENTS or name == "all" for name in ids):
        from sparselens.cli.report import write

        written = str(write([out / RESULTS], out, ids, quick=quick))
    if as_json:
        facts = {"n_cells": len(cells), "status": counts, "whole": whole, "rows": str(store.path), "page": written}
        typer.echo(json.dumps(facts))
        return
    told = ", ".join(f"{n} {status}" for status, n in counts.items())
    typer.echo(f"{len(mine)} of {len(cells)} cells: {told or 'none'}. {store.path}")
    if not whole:
        typer.echo("The time limit left cells out: the same command goes on.")
    if written is not None:
        typer.echo(f"Page: {written}")


def _cells(ids: list[str], source: Path, **selection: Any) -> list[Cell]:
    """The cells of tables and figures, or the single cell of a stored row."""
    from sparselens.experiments.paper import cells_of, find
    from sparselens.experiments.spec import Cell
    from sparselens.experiments.store import read_rows

    if len(ids) == 1 and re.fullmatch(r"[0-9a-f]{12}", ids[0]):
        for row in read_rows([source]):
            if row["key"] == ids[0]:
                return [Cell.from_row(row)]
        raise ValueError(f"{source} has no row with the key {ids[0]}: name its file with --from.")
    cells = cells_of([experiment for name in ids for experiment in find(name)], **selection)
    if not cells:
        raise ValueError("no cell is left: the data sets that were named do not occur in these tables and figures.")
    return cells


def _numbers(text: str | None) -> list[int] | None:
    if text is None:
        return None
    if not re.fullmatch(r"\d+(,\d+)*", text):
        raise ValueError(f"--m must be whole numbers with commas, as 10,20,30; got {text!r}.")
    return [int(part) for part in text.split(",")]


def _names(text: str | None) -> list[str] | None:
    return None if text is None else [part.strip() for part in text.split(",") if part.strip()]


class _told:  # noqa: N801 (used like a function)
    """A bar on a terminal, a line for each fit elsewhere; both say how much time is left."""

    def __enter__(self) -> Any:
        from sparselens.cli.progress import progress

        if not sys.stderr.isatty():
            return self._line
        self._bar = progress("reproduce")
        update = self._bar.__enter__()
        return lambda now: update(now.done, now.total, now.text)

    def __exit__(self, *exception: Any) -> None:
        if hasattr(self, "_bar"):
            self._bar.__exit__(*exception)

    @staticmethod
    def _line(now: Progress) -> None:
        left = "" if now.seconds_left is None else f", about {_duration(now.seconds_left)} left"
        typer.echo(f"[{now.done}/{now.total}] {now.text}{left}", err=True)


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
