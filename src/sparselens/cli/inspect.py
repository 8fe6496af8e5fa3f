"""`sparselens inspect`: what a model is, how it was trained, and which rows of a file it will bring back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sparselens.cli.options import AsJson, Format, Model, Part
from sparselens.cli.sources import check_columns, counted, open_encoder, open_source

if TYPE_CHECKING:
    import scipy.sparse as sp

_CHUNK = 2048  # rows that are certified at once


def inspect(
    model: Model,
    source: Annotated[
        str | None, typer.Option("--data", metavar="DATA", help="Say which rows of this file will come back.")
    ] = None,
    part: Part = None,
    rows: Annotated[int | None, typer.Option(min=1, help="Take the first rows only.")] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="A page (.html) or a picture of the matrix (.png).")
    ] = None,
    format_: Format = None,
    as_json: AsJson = False,
) -> None:
    """Look into a model: singular values, column norms, coherence, training, and what it promises for a file.

    Example: sparselens inspect model --data amazon -o model.html
    """
    from sparselens._files import check_writable
    from sparselens.persist import read_manifest

    if out is not None and out.suffix not in (".html", ".png"):
        raise ValueError(f"{out} must end in .html (a page) or .png (a picture of the matrix).")
    if out is not None:
        check_writable(out.parent)
    encoder, manifest = open_encoder(model), read_manifest(model)
    if out is not None and out.suffix == ".png" and not hasattr(encoder, "components_"):
        raise ValueError(f"{type(encoder).__name__} has no measurement matrix to draw: ask for a page (.html).")
    facts = model_facts(encoder, manifest)
    if source is not None:
        data = open_source(source, format=format_, categories=getattr(encoder, "categories_", None))
        X = data.part("test" if part is None and data.dataset is not None else part)
        check_columns(encoder, X, data.name)
        facts["promise"] = {"data": data.name} | promise(encoder, X[:rows] if rows is not None else X)
    if out is not None:
        _write(facts, model, out)
    typer.echo(json.dumps(facts) if as_json else _text(facts, model))
    if out is not None and not as_json:
        typer.echo(f"{'Page' if out.suffix == '.html' else 'Picture'}: {out}")


def model_facts(encoder: Any, manifest: dict[str, Any]) -> dict[str, Any]:
    """Everything that is known of a model, as plain data."""
    from sparselens.experiments.inspection import matrix_facts

    facts: dict[str, Any] = {
        "encoder": type(encoder).__name__,
        "version": manifest["version"],
        "n_measurements": encoder.n_components,
        "n_columns": encoder.n_features_in_,
        "training_data": encoder.training_data_,
        "params": {key: value for key, value in manifest["params"].items() if value is not None},
        "metrics": manifest["metrics"],
        "report": getattr(encoder, "report_", None),
        "recipe": getattr(encoder, "recipe_", None),
        "history": getattr(encoder, "history_", None) or {},
    }
    if hasattr(encoder, "components_"):
        facts["matrix"] = matrix_facts(encoder.components_)
    return facts


def promise(encoder: Any, X: sp.csr_array) -> dict[str, Any]:
    """How many rows will come back, proved before anything is sent."""
    import numpy as np

    from sparselens.cli.progress import progress
    from sparselens.decoders.certify import certify
    from sparselens.decoders.l1 import L1Decoder

    if not hasattr(encoder, "components_"):
        raise ValueError(f"{type(encoder).__name__} has no measurement matrix: leave out --data.")
    positive = bool(getattr(encoder, "positive", encoder.positive_))
    decoder = L1Decoder(positive=positive).bind(encoder.components_)
    parts = []
    with progress("certify") as update:
        for lo in range(0, X.shape[0], _CHUNK):
            parts.append(certify(encoder.components_, X[lo : lo + _CHUNK], positive=positive, decoder=decoder))
            update(min(lo + _CHUNK, X.shape[0]), X.shape[0], "")
    by = np.concatenate([p.by for p in parts])
    slack = np.concatenate([p.slack for p in parts])
    proved = by != "no"
    return {
        "n_rows": len(by),
        "certified": float(proved.mean()),
        "by_certificate": int((by == "certificate").sum()),
        "by_linear_program": int((by == "lp").sum()),
        "not": int((by == "no").sum()),
        "smallest_slack": float(slack[proved].min()) if proved.any() else None,
        "median_slack": float(np.median(slack[proved])) if proved.any() else None,
    }


def _lines(facts: dict[str, Any]) -> list[tuple[str, str]]:
    """Names and values, for the text and for the page."""
    data = facts["training_data"]
    lines = [
        ("encoder", f"{facts['encoder']}, version {facts['version']}"),
        ("measurements", f"m = {facts['n_measurements']:,} of d = {facts['n_columns']:,} columns"),
        ("fitted on", f"{counted(data['n_rows'], 'row')}, sha256 {data['sha256'][:12]}…"),
    ]
    if facts["report"]:
        lines.append(("training", facts["report"]))
    if facts["recipe"]:
        lines.append(("recipe", ", ".join(f"{key} {value}" for key, value in facts["recipe"].items())))
    if validation := facts["metrics"].get("validation"):
        lines.append(("validation rows", f"{validation['exact']:.2%} exact, RMSE {validation['rmse']:.3g}"))
    if matrix := facts.get("matrix"):
        values, norms = matrix["singular_values"], matrix["column_norms"]
        compared = matrix["coherence_columns"]
        sample = "" if compared == matrix["d"] else f" or more ({compared:,} columns compared with all)"
        zero = f", {matrix['n_zero_columns']:,} are zero" if matrix["n_zero_columns"] else ""
        lines += [
            ("singular values", f"{values[0]:.4g} to {values[-1]:.4g}, condition number {matrix['condition']:.4g}"),
            (
                "column norms",
                f"{norms['smallest']:.4g} to {norms['largest']:.4g}, mean {norms['mean']:.4g}{zero}",
            ),
            ("coherence", f"{matrix['coherence']:.4f}{sample}; at least {matrix['welch_bound']:.4f} (Welch)"),
        ]
    if (p := facts.get("promise")) is not None:
        lines.append(
            (
                p["data"],
                f"{p['certified']:.2%} of {counted(p['n_rows'], 'row')} will come back ({p['by_certificate']:,} proved "
                f"by certificate, {p['by_linear_program']:,} by linear program; {p['not']:,} will not)",
            )
        )
        if p["smallest_slack"] is not None:
            lines.append(("slack", f"smallest {p['smallest_slack']:.3g}, median {p['median_slack']:.3g}"))
    return lines


def _text(facts: dict[str, Any], model: Path) -> str:
    from sparselens.experiments.inspection import training_table

    lines = _lines(facts)
    width = max(len(name) for name, _ in lines)
    text = [str(model), *(f"  {name:<{width}}  {value}" for name, value in lines)]
    header, body = training_table(facts["history"])
    if body:
        widths = [max(map(len, column)) for column in zip(header, *body, strict=True)]
        text.append("Training:")
        text += [
            "  " + "  ".join(f"{cell:>{size}}" for cell, size in zip(line, widths, strict=True))
            for line in [header, *body]
        ]
    return "\n".join(text)


def _write(facts: dict[str, Any], model: Path, out: Path) -> None:
    from sparselens._files import written_whole
    from sparselens.experiments.plots import matrix_picture, save

    with written_whole(out) as draft:
        if out.suffix == ".png":
            save(matrix_picture(facts["matrix"]), draft)
        else:
            draft.write_text(model_page(facts, str(model)), encoding="utf-8")


def model_page(facts: dict[str, Any], name: str) -> str:
    """The page of a model."""
    from sparselens.experiments import page, plots
    from sparselens.experiments.inspection import training_table

    body = [page.facts([line for line in _lines(facts) if line[0] != "training"])]  # the lead says that one
    if matrix := facts.get("matrix"):
        m, d = matrix["m"], matrix["d"]
        cells = len(matrix["heat"]) < m or len(matrix["norms"]) < d
        how = " Each cell shows the entry of largest size of several rows and columns." if cells else ""
        body += [
            page.heading("The matrix"),
            page.figure(
                lambda theme: plots.matrix_picture(matrix, theme=theme),
                f"A, {m:,} x {d:,}: its entries (above) and the norms of its columns (below).{how}",
            ),
            page.figure(lambda theme: plots.spectrum(matrix, theme=theme), "Its singular values."),
        ]
    history = facts["history"]
    header, lines = training_table(history)
    if lines:
        body.append(page.heading("Training"))
        if history.get("epoch"):
            body.append(page.figure(lambda theme: plots.training_curve(history, theme=theme), "The losses."))
        body.append(page.table(header, lines))
    lead = facts["report"] or f"{facts['encoder']} with {facts['n_measurements']:,} measurements"
    return page.page(f"Model {name}", lead[0].upper() + lead[1:], body)
