"""Commands in this process, as `sparselens.cli.main.main` would end them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from typer.testing import CliRunner

from sparselens.cli import codes
from sparselens.cli.main import app


@dataclass(frozen=True)
class Ended:
    """How a command ended: exit code, what it printed, and what it told about an error."""

    code: int
    out: str
    error: str


def command(*arguments: Any) -> Ended:
    """Run a command of the group; an error becomes its exit code and its sentence."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    error = result.exception
    if error is None or isinstance(error, SystemExit):
        return Ended(result.exit_code, result.stdout, result.stderr)
    if isinstance(error, Exception):
        return Ended(codes.code_of(error), result.stdout, result.stderr + codes.sentence_of(error))
    raise error
