"""`sparselens report`: the paper's values beside stored rows, as one page."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from sparselens.cli.options import AsJson


def report(
    results: Annotated[list[Path], typer.Argument(help="Results files, or folders that `reproduce` wrote.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the page and the figures.")] = Path("report"),
    only: Annotated[str, typer.Option("--only", help="Tables and figures to show, as fig2,table1.")] = "all",
    quick: Annotated[bool, typer.Option("--quick", help="Show the quick forms.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write one self-contained page (and Markdown): each table and figure, the paper's values, ours, the differences.

    Example: sparselens report reproduced -o report
    """
    page = write(results, out, only.split(","), quick=quick)
    typer.echo(json.dumps({"page": str(page)}) if as_json else f"Page: {page}")


def write(results: Sequence[Path], out: Path, ids: Sequence[str], *, quick: bool) -> Path:
    """Write index.html, report.md and the figures; return the page's path."""
    from sparselens._files import written_whole
    from sparselens.experiments.paper import find
    from sparselens.experiments.plots import save
    from sparselens.experiments.report import build, pictures, to_html, to_markdown
    from sparselens.experiments.store import read_rows

    experiments = list({experiment.id: experiment for name in ids for experiment in find(name)}.values())
    sections = build(experiments, read_rows(results), quick=quick)
    for name, text in (("index.html", to_html(sections)), ("report.md", to_markdown(sections))):
        with written_whole(out / name) as draft:
            draft.write_text(text, encoding="utf-8")
    for picture in pictures(sections):
        for ending in ("png", "svg"):
            with written_whole(out / "figures" / f"{picture.name}.{ending}") as draft:
                save(picture.draw("light"), draft)
    return out / "index.html"
