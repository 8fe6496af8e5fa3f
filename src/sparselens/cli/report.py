"""`sparselens report`: the paper's values beside stored rows, as one page."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sparselens.cli.cells import split
from sparselens.cli.options import AsJson

if TYPE_CHECKING:
    from sparselens.experiments.store import Row


def report(
    results: Annotated[list[Path], typer.Argument(help="Results files, or folders that `reproduce` wrote.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the page and the figures.")] = Path("report"),
    only: Annotated[
        str | None, typer.Option("--only", help="Tables and figures to show, as fig2,table1; those that have rows.")
    ] = None,
    quick: Annotated[
        bool | None, typer.Option("--quick/--full", help="Which form to show; the one that the rows are of.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write one self-contained page (and Markdown): each table and figure, the paper's values, ours, the differences.

    Example: sparselens report reproduced -o report
    """
    page = write(results, out, [] if only is None else split([only]), others=only is None, quick=quick)
    typer.echo(json.dumps({"page": str(page)}) if as_json else f"Page: {page}")


def write(results: Sequence[Path], out: Path, ids: Sequence[str], *, others: bool, quick: bool | None) -> Path:
    """Write index.html, report.md and the figures; return the page's path.

    The page has the tables and figures that are named, and with `others` those too that have rows.
    """
    from sparselens._files import written_whole
    from sparselens.experiments.paper import find
    from sparselens.experiments.plots import save
    from sparselens.experiments.report import LEAD, LEAD_QUICK, build, pictures, to_html, to_markdown, with_rows
    from sparselens.experiments.store import read_rows

    rows = read_rows(results)
    if not rows:
        raise ValueError(f"{', '.join(map(str, results))}: no row that `sparselens reproduce` wrote is there.")
    quick = _mostly_quick(rows) if quick is None else quick
    named = list(dict.fromkeys(experiment.id for name in ids for experiment in find(name)))
    wanted = [experiment for experiment in find("all") if others or experiment.id in named]
    sections = with_rows(build(wanted, rows, quick=quick), named)
    lead = LEAD_QUICK if quick else LEAD
    for name, text in (("index.html", to_html(sections, lead=lead)), ("report.md", to_markdown(sections, lead=lead))):
        with written_whole(out / name) as draft:
            draft.write_text(text, encoding="utf-8")
    for picture in pictures(sections):
        for ending in ("png", "svg"):
            with written_whole(out / "figures" / f"{picture.name}.{ending}") as draft:
                save(picture.draw("light"), draft)
    return out / "index.html"


def _mostly_quick(rows: Sequence[Row]) -> bool:
    """Whether the quick forms show more of the rows than the whole ones; of equals the test rows decide."""
    from sparselens.experiments.compare import rows_of
    from sparselens.experiments.paper import QUICK_ROWS, find

    shown = [
        {row["key"] for experiment in find("all") for _, row in rows_of(experiment, rows, quick=form)}
        for form in (True, False)
    ]
    few = [row["n_test"] is not None and row["n_test"] <= QUICK_ROWS for row in rows]
    return len(shown[0]) > len(shown[1]) or (len(shown[0]) == len(shown[1]) and all(few))
