"""`sparselens data`: which data sets there are, what is in one, and any file as npz."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from sparselens.cli.options import AllParts, AsJson, Data, Format
from sparselens.cli.sources import PARTS, check_word, counted, open_source

app = typer.Typer(help="List data sets, look into one, or convert a file.", no_args_is_help=True)


@app.command("list")
def list_(as_json: AsJson = False) -> None:
    """List every data set that has a name, and which file it needs.

    Example: sparselens data list
    """
    from sparselens.data import data_root, list_datasets

    infos = list_datasets()
    if as_json:
        typer.echo(json.dumps([asdict(info) for info in infos]))
        return
    for info in infos:
        typer.echo(str(info))
    typer.echo(f"Files are looked for under {data_root()} (set SPARSELENS_DATA to change it).")


@app.command()
def info(
    source: Data,
    format_: Format = None,
    as_json: AsJson = False,
) -> None:
    """Say what a data set or a file holds: sizes, nonzeros, structure, provenance.

    Example: sparselens data info synthetic1
    """
    facts = _facts(source, format_)
    if as_json:
        typer.echo(json.dumps(facts))
        return
    width = max(map(len, facts))
    if isinstance(rows := facts["rows"], dict):
        facts["rows"] = ", ".join(f"{n:,} {part}" for part, n in rows.items())
    for key, value in facts.items():
        typer.echo(f"{key:<{width}}  {value}")


@app.command()
def convert(
    source: Data,
    out: Annotated[Path, typer.Option("--out", "-o", help="The .npz file to write (CSR, float64).")],
    part: AllParts = "all",
    format_: Format = None,
    as_json: AsJson = False,
) -> None:
    """Write a data set's rows, or those of any file that can be read, as a CSR .npz file.

    Example: sparselens data convert synthetic1 --part test -o test.npz
    """
    import scipy.sparse as sp

    from sparselens._files import check_writable, written_whole

    if out.suffix != ".npz":
        raise ValueError(f"{out} does not end in .npz: name the file to write with that ending.")
    check_word(part, "--part", PARTS)
    check_writable(out.parent)
    X = open_source(source, format=format_).part(part)
    with written_whole(out) as draft:
        sp.save_npz(draft, X)
    if as_json:
        typer.echo(json.dumps({"path": str(out), "rows": X.shape[0], "columns": X.shape[1], "nonzeros": X.nnz}))
        return
    typer.echo(f"{out}: {counted(X.shape[0], 'row')}, {counted(X.shape[1], 'column')}, {counted(X.nnz, 'nonzero')}")


def _facts(source: str, file_format: str | None) -> dict[str, Any]:
    import numpy as np

    loaded = open_source(source, format=file_format)
    X = loaded.part(None if loaded.dataset is None else "train")
    nonzeros = np.diff(X.indptr)
    facts: dict[str, Any] = {"name": source}
    if (known := loaded.dataset) is not None:
        facts |= {"rows": dict(zip(("train", "valid", "test"), known.sizes, strict=True))}
        facts |= {"structure": str(known.sparsity or "none known"), "provenance": known.provenance}
    else:
        facts |= {"rows": X.shape[0]}
    return facts | {
        "columns": X.shape[1],
        "nonzeros a row": f"mean {nonzeros.mean():.2f}, smallest {nonzeros.min()}, largest {nonzeros.max()}",
        "rows without nonzeros": int((nonzeros == 0).sum()),
        "columns never used": int(X.shape[1] - len(np.unique(X.indices))),
        "values": f"{X.data.min():.4g} to {X.data.max():.4g}" if X.nnz else "none",
    }
