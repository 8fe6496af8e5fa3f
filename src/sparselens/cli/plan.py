"""`sparselens plan`: how many measurements a file needs, and whether learning them is worth it."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sparselens.cli import codes
from sparselens.cli.options import AsJson, Data, Format, Jobs
from sparselens.cli.sources import Source, check_nonnegative, counted, open_source

if TYPE_CHECKING:
    from sparselens.data.onehot import Categories
    from sparselens.experiments.plan import Plan


def plan(
    source: Data,
    target: Annotated[
        float, typer.Option("--target", "-t", min=0.01, max=0.9999, help="Part of the rows that must come back.")
    ] = 0.99,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the page, the points and the models.")] = Path(
        "plan"
    ),
    max_measurements: Annotated[int | None, typer.Option(min=1, help="The largest m to try.")] = None,
    precision: Annotated[
        float, typer.Option(min=0.001, max=1.0, help="Stop when two m differ by at most this part.")
    ] = 0.04,
    max_rows: Annotated[int, typer.Option(min=5, help="Held-out rows to decode for a point, at most.")] = 4000,
    max_steps: Annotated[int | None, typer.Option(min=1, help="Steps of a training; fewer is faster.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the split and of the matrices.")] = 0,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    jobs: Jobs = 1,
    format_: Format = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Forget the points that the folder holds.")] = False,
    as_json: AsJson = False,
) -> None:
    """Say how many measurements the rows need for a target, and whether learning beats a random matrix.

    The rows are split: most train, some validate, some are held out, and the answer is read from the latter with a 95%
    confidence interval. The test rows of a data set stay untouched. The same command in the same folder goes on where a
    killed plan was; another target there reuses its points.

    Example: sparselens plan rows.npz --target 0.99 -o plan
    """
    from sparselens.cli.progress import progress
    from sparselens.experiments import plan as experiment

    start = time.perf_counter()
    data = open_source(source, format=format_, seed=seed)
    check_folder(out)
    if overwrite and (out / "points.json").exists():
        (out / "points.json").unlink()
        shutil.rmtree(out / "models", ignore_errors=True)
    X, X_valid, X_held_out = rows_of(data)
    check_nonnegative(X, data.name, "a plan")
    try:
        with progress("plan") as update:
            answer = experiment.plan(
                X,
                target=target,
                X_valid=X_valid,
                X_held_out=X_held_out,
                max_measurements=max_measurements,
                precision=precision,
                max_rows=max_rows,
                max_steps=max_steps,
                device=device,
                n_jobs=jobs,
                random_state=seed,
                folder=out,
                callback=update,
            )
    except BaseException as error:
        if codes.cut_short(error) and (out / "points.json").exists():
            typer.echo("sparselens: what was measured is kept: the same command goes on.", err=True)
        raise
    if data.categories is not None:
        _keep_categories(answer, data.categories)
    write_page(answer, data.name, out)
    if as_json:
        typer.echo(json.dumps({"data": data.name} | answer.as_dict()))
        return
    typer.echo(_text(answer, data.name, out))
    typer.echo(f"Page: {out / 'index.html'}  ({time.perf_counter() - start:.0f} s)")


def rows_of(data: Source) -> tuple[Any, Any, Any]:
    """Training, validation and held-out rows; the test rows of a data set are left alone.

    Half of a data set's validation rows are held out; a file is split by `sparselens.plan`.
    """
    if data.dataset is None:
        return data.rows, None, None
    valid = data.dataset.valid
    return data.dataset.train, valid[::2], valid[1::2]


def _keep_categories(answer: Plan, categories: Categories) -> None:
    """Store with each model what its columns stand for, as `fit` does."""
    from sparselens.persist import load, read_manifest

    for folder in answer.models.values():
        model = load(folder)
        if getattr(model, "categories_", None) != categories:
            model.categories_ = categories
            model.save(folder, metrics=read_manifest(folder)["metrics"])


def check_folder(out: Path) -> None:
    """Refuse a folder that holds something else, or that cannot be written, before any work is done."""
    from sparselens._files import check_writable

    if out.exists() and not out.is_dir():
        raise FileExistsError(f"{out} is a file: name a folder for the plan.")
    ours = {"points.json", "plan.json", "index.html", "curve.png", "models"}
    others = sorted(p.name for p in out.iterdir() if p.name not in ours) if out.is_dir() else []
    others = [name for name in others if not name.startswith(("unfinished-", "."))]
    if others:
        raise FileExistsError(f"{out} holds something else than a plan ({others[0]!r}): choose another folder.")
    check_writable(out)


def write_page(answer: Plan, name: str, out: Path) -> None:
    """The page, the curve as a picture, and the plan as JSON."""
    from sparselens._files import written_whole
    from sparselens.experiments.plan_page import plan_page
    from sparselens.experiments.plots import plan_curve, save

    for file, content in (
        ("plan.json", json.dumps({"data": name} | answer.as_dict(), indent=1) + "\n"),
        ("index.html", plan_page(answer, name)),
    ):
        with written_whole(out / file) as draft:
            draft.write_text(content, encoding="utf-8")
    with written_whole(out / "curve.png") as draft:
        save(plan_curve(answer.rows, answer.target, answer.answers), draft)


def _text(answer: Plan, name: str, out: Path) -> str:
    sizes = answer.sizes
    lines = [
        f"{name}: {counted(sizes['train'], 'training row')}, {counted(sizes['valid'], 'validation row')}, "
        f"{counted(sizes['held_out'], 'held-out row')}, {counted(sizes['columns'], 'column')}",
        "",
        f"{'m':>6}  {'Gaussian':>22}  {'learned':>22}   rows that come back exactly (95% interval)",
    ]
    cells = {(row["encoder"], row["m"]): row for row in answer.rows}
    for m in sorted({m for _, m in cells}):
        line = [_cell(cells.get((encoder, m))) for encoder in ("Gaussian", "Certificate")]
        lines.append(f"{m:>6}  {line[0]:>22}  {line[1]:>22}".rstrip())
    lines += ["", answer.summary()]
    learned = answer.answers["Certificate"]
    if answer.structure and learned in answer.models:
        lines.append(f"Model of the answer: {answer.models[learned]}")
    return "\n".join(lines)


def _cell(row: dict[str, Any] | None) -> str:
    if row is None:
        return ""
    return f"{100 * row['exact']:.2f}% ({100 * row['low']:.2f}–{100 * row['high']:.2f})"
