"""Arguments and options that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Data = Annotated[str, typer.Argument(metavar="DATA", help="A data set's name, or a file.")]
Model = Annotated[Path, typer.Argument(metavar="MODEL", help="A folder that `sparselens fit` or enc.save wrote.")]
Format = Annotated[str | None, typer.Option("--format", help="Format of the file where its name does not say.")]
Part = Annotated[
    str | None, typer.Option("--part", help="Of a data set: train, valid, test or all; test where nothing is said.")
]
AllParts = Annotated[str, typer.Option("--part", help="Of a data set: train, valid, test or all.")]
Jobs = Annotated[int, typer.Option("--jobs", "-j", help="Processes of this machine; -1 is all processors.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
