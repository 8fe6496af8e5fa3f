"""`sparselens demo`: the first minute with the library."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sparselens.cli.options import AsJson

if TYPE_CHECKING:
    from sparselens.experiments.demo import DemoResult

_CODE = """import sparselens as sl

data = sl.load_dataset("synthetic1", random_state=0)
enc = sl.CertificateEncoder(n_components=12, random_state=0).fit(data.train, X_valid=data.valid)
Y = enc.transform(data.test)
rec = sl.L1Decoder(positive=True).bind(enc.components_).decode(Y)
print(rec.summary())
print(sl.recovery_report(data.test, rec))"""


def demo(
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the page and the table.")] = Path("demo"),
    rows: Annotated[int, typer.Option(min=1, max=2000, help="Test rows to decode for each matrix and m.")] = 500,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the data set and of the matrices.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Encode and decode a synthetic data set with several matrices; print a table and write one page.

    Example: sparselens demo --out demo
    """
    import torch

    from sparselens._files import check_writable, written_whole
    from sparselens.cli.progress import progress
    from sparselens.experiments.demo import run_demo
    from sparselens.experiments.plots import recovery_curve, save

    # The matrices are small: a second thread gains nothing, and costs a lot where the machine has other work.
    torch.set_num_threads(1)
    start = time.perf_counter()
    check_writable(out)
    with progress("demo") as update:
        result = run_demo(n_test=rows, random_state=seed, callback=update)
    for name, content in (
        ("index.html", demo_page(result, seed)),
        ("table.json", json.dumps(result.rows, indent=1) + "\n"),
    ):
        with written_whole(out / name) as draft:
            draft.write_text(content, encoding="utf-8")
    with written_whole(out / "recovery.png") as draft:
        save(recovery_curve(result.rows), draft)
    if as_json:
        typer.echo(json.dumps(result.rows))
        return
    _print_table(result, rows)
    typer.echo(f"Page: {out / 'index.html'}  ({time.perf_counter() - start:.0f} s)")


def demo_page(result: DemoResult, seed: int) -> str:
    """The demo's page: the recovery curve, the table, one vector before and after, and the code."""
    from sparselens.experiments import page
    from sparselens.experiments.demo import DEMO_EPOCHS
    from sparselens.experiments.plots import recovery_curve, vectors

    example, n = result.example, result.rows[0]["n_rows"]
    panels = [("the vector that was measured", example["truth"])]
    panels += [(f"{label}: {_verdict(example, label)}", pairs) for label, pairs in example["recovered"].items()]
    header, body = _table(result)
    return page.page(
        "sparselens: exact recovery from few measurements",
        "Sparse vectors with 1,000 columns are reduced to m numbers by one matrix product, and recovered by "
        "ℓ1 minimisation. Every answer was checked by an independent certificate.",
        [
            page.figure(
                lambda theme: recovery_curve(result.rows, theme=theme),
                f"Synthetic1 (one block of 10 nonzeros among 1,000), {n:,} test rows, seed {seed}. "
                "Left: rows recovered within 1e-10. Right: root mean squared error. "
                f"ℓ1-AE was trained for {DEMO_EPOCHS} epochs only, at m = 10, 20 and 30.",
            ),
            page.heading("Rows recovered exactly (RMSE)"),
            page.table(header, body, good=lambda cell: cell.startswith("100%")),
            page.heading(f"One vector, {example['m']} measurements"),
            page.figure(
                lambda theme: vectors(panels, example["d"], theme=theme),
                f"The first test row and what comes back of it from {example['m']} measurements.",
            ),
            page.heading("In code"),
            page.code(_CODE),
        ],
    )


def _verdict(example: dict, label: str) -> str:
    truth, found = dict(example["truth"]), dict(example["recovered"][label])
    error = sum((truth.get(j, 0.0) - found.get(j, 0.0)) ** 2 for j in truth.keys() | found.keys()) ** 0.5
    return "recovered exactly" if error <= 1e-10 else f"not recovered (error {error:.2f})"


def _table(result: DemoResult) -> tuple[list[str], list[list[str]]]:
    """Header and cells: a line for each encoder, a column for each m."""
    cells = {(row["encoder"], row["m"]): row for row in result.rows}
    ms = sorted({m for _, m in cells})
    header = ["encoder", *(f"m = {m}" for m in ms)]
    body = []
    for label in dict.fromkeys(label for label, _ in cells):
        line = [label]
        for m in ms:
            row = cells.get((label, m))
            line.append("–" if row is None else f"{100 * row['exact']:.3g}% ({_short(row['rmse'])})")
        body.append(line)
    return header, body


def _short(rmse: float) -> str:
    """Two digits; rounding errors of exact answers are shown as 0."""
    return f"{rmse:.2g}" if rmse > 1e-10 else "0"


def _print_table(result: DemoResult, rows: int) -> None:
    from rich.console import Console
    from rich.table import Table

    from sparselens.experiments.demo import fewest_measurements

    fewest = fewest_measurements(result.rows)
    header, body = _table(result)
    table = Table(title=f"Synthetic1, {rows} test rows: recovered exactly (RMSE)")
    for i, name in enumerate(header):
        table.add_column(name, justify="left" if i == 0 else "right", no_wrap=True)
    for line in body:
        table.add_row(*line)
    Console(width=18 * len(header)).print(table)  # wide enough for every cell
    most = {label: max(row["m"] for row in result.rows if row["encoder"] == label) for label in fewest}
    needed = ", ".join(f"{label} {m or f'above {most[label]}'}" for label, m in fewest.items())
    typer.echo(f"Measurements for 99% of the rows: {needed}.")
    certified = sum(row["certified"] * row["n_rows"] for row in result.rows)
    total = sum(row["n_rows"] for row in result.rows)
    typer.echo(f"{round(certified):,} of {total:,} answers certified optimal by an independent check.")
