"""`sparselens encode` and `sparselens decode`: a file to measurements, and back."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sparselens.cli import codes
from sparselens.cli.options import AllParts, AsJson, Format, Jobs, Model
from sparselens.cli.sources import PARTS, check_file, check_word, open_encoder, open_source

if TYPE_CHECKING:
    from sparselens.filejobs import FileReport

Resume = Annotated[bool, typer.Option("--resume", help="Go on where an interrupted run to the same file stopped.")]
EngineName = Annotated[str, typer.Option("--engine", help="processes, or dask for a Dask cluster.")]
Scheduler = Annotated[str | None, typer.Option("--scheduler", help="Address of the Dask scheduler: tcp://host:8786.")]
BlockRows = Annotated[int | None, typer.Option("--block-rows", min=1, help="Rows at once; memory grows with it.")]


def encode(
    model: Model,
    data: Annotated[str, typer.Argument(metavar="DATA", help="A file of rows, or a data set's name.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The .npz or .npy file of measurements to write.")],
    lossless: Annotated[
        bool, typer.Option("--lossless", help="Keep rows that would not come back aside: decode returns every row.")
    ] = False,
    format_: Format = None,
    part: AllParts = "all",
    resume: Resume = False,
    jobs: Jobs = 1,
    engine: EngineName = "processes",
    scheduler: Scheduler = None,
    block_rows: BlockRows = None,
    as_json: AsJson = False,
) -> None:
    """Measure every row of a file: Y = X Aᵀ, in bounded memory, whatever the length of the file.

    Example: sparselens encode model/ rows.npz -o y.npz
    """
    from sparselens.filejobs import encode_file

    encoder = open_encoder(model)
    rows = _rows(data, part, format_)
    with _resumable(out, "encode") as update:
        report = encode_file(
            encoder,
            rows,
            out,
            lossless=lossless,
            format=format_,
            resume=resume,
            n_jobs=jobs,
            engine=engine,
            scheduler=scheduler,
            block_rows=block_rows,
            callback=update,
        )
    _say(report, as_json)


def decode(
    model: Model,
    measurements: Annotated[
        Path, typer.Argument(metavar="Y", help="What `sparselens encode` wrote, or any matrix in npz or npy.")
    ],
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            "-o",
            help="The .npz file of rows to write (CSR, status of each row), or .csv for a model of a table.",
        ),
    ],
    resume: Resume = False,
    jobs: Jobs = 1,
    engine: EngineName = "processes",
    scheduler: Scheduler = None,
    block_rows: BlockRows = None,
    as_json: AsJson = False,
) -> None:
    """Recover every row from its measurements, each with a proof; exit with 1 where a row has none.

    Example: sparselens decode model/ y.npz -o x.npz
    """
    from sparselens.filejobs import decode_file

    encoder = open_encoder(model)
    check_file(measurements)
    with _resumable(out, "decode") as update:
        report = decode_file(
            encoder,
            measurements,
            out,
            resume=resume,
            n_jobs=jobs,
            engine=engine,
            scheduler=scheduler,
            block_rows=block_rows,
            callback=update,
        )
    _say(report, as_json)
    if report.n_certified < report.n_rows:
        raise typer.Exit(codes.UNCERTIFIED)


def _rows(data: str, part: str, file_format: str | None) -> Any:
    """The path of a file, to be read in blocks, or the rows of a data set by name."""
    from sparselens.data import list_datasets

    check_word(part, "--part", PARTS)
    if not Path(data).exists() or (file_format is None and data in {info.name for info in list_datasets()}):
        return open_source(data, format=file_format).part(part)
    if part != "all":
        raise ValueError(f"{data} is a file and has no parts: leave out --part.")
    return data


@contextmanager
def _resumable(out: Path, title: str) -> Iterator[Callable[[int, int], None]]:
    """A progress bar; where the work is cut short with rows in hand, a word on how to go on."""
    from sparselens.cli.progress import progress

    try:
        with progress(title) as update:
            yield update  # type: ignore[misc]  # a bar takes a text as well
    except BaseException as error:
        manifest = out.parent / f".{out.name}.parts" / "manifest.json"
        if codes.cut_short(error) and manifest.exists():
            typer.echo(
                f"sparselens: {json.loads(manifest.read_bytes())['rows']:,} rows are kept in {manifest.parent}: "
                "the same command with --resume goes on from there.",
                err=True,
            )
        raise


def _say(report: FileReport, as_json: bool) -> None:
    typer.echo(json.dumps(report.as_dict()) if as_json else report.summary())
