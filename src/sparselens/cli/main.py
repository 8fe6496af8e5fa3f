"""The `sparselens` command: the group, and how errors reach a person."""

from __future__ import annotations

import os
import sys

import typer

from sparselens.cli import data, demo, report, reproduce

EXIT_DONE, EXIT_UNCERTIFIED, EXIT_BAD_INPUT, EXIT_FAILED, EXIT_INTERRUPTED = 0, 1, 2, 3, 130

app = typer.Typer(
    name="sparselens",
    help="Learn the few linear measurements that sparse data needs, and get every vector back exactly, with a proof.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(data.app, name="data")
app.command("demo")(demo.demo)
app.command("reproduce")(reproduce.reproduce)
app.command("report")(report.report)


def _version(value: bool) -> None:
    if value:
        from sparselens._version import __version__

        typer.echo(f"sparselens {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version and stop."
    ),
) -> None:
    """Options of the group."""


def main() -> None:
    """Run a command; bad input ends with exit code 2 and one clear message; SPARSELENS_DEBUG=1 shows the traceback."""
    from sparselens.recovery import SparselensError

    try:
        app()
    except (ValueError, TypeError, OSError) as error:
        _complain(error, EXIT_BAD_INPUT)
    except SparselensError as error:
        _complain(error, EXIT_FAILED)
    except KeyboardInterrupt:
        _complain("stopped before the end; finished files are whole, others were not written.", EXIT_INTERRUPTED)


def _complain(error: BaseException | str, code: int) -> None:
    if os.environ.get("SPARSELENS_DEBUG") and isinstance(error, BaseException):
        raise error
    typer.echo(f"sparselens: {error}", err=True)
    sys.exit(code)
