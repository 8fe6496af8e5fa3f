"""The `sparselens` command: the group, and how errors reach a person."""

from __future__ import annotations

import os
import signal
import sys
import warnings
from typing import Any

import typer

from sparselens.cli import bench, codes, data, demo, encode, evaluate, fit, inspect, plan, report, reproduce, xml

app = typer.Typer(
    name="sparselens",
    help="Learn the few linear measurements that sparse data needs, and get every vector back exactly, with a proof.",
    no_args_is_help=True,
    rich_markup_mode="markdown",  # which fills the lines of a paragraph
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("plan")(plan.plan)
app.command("fit")(fit.fit)
app.command("encode")(encode.encode)
app.command("decode")(encode.decode)
app.command("evaluate")(evaluate.evaluate)
app.command("inspect")(inspect.inspect)
app.add_typer(data.app, name="data")
app.command("demo")(demo.demo)
app.command("bench")(bench.bench)
app.command("reproduce")(reproduce.reproduce)
app.command("report")(report.report)
app.add_typer(xml.app, name="xml")


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
    """Run a command. Bad input ends with exit code 2 and one clear message; SPARSELENS_DEBUG=1 shows the traceback."""
    before = {number: signal.signal(number, _interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
    shown, warnings.showwarning = warnings.showwarning, _show_warning
    try:
        app()
    except codes.Interrupted as stop:
        _say("stopped before the end; finished files are whole, others were not written.")
        sys.exit(stop.code)
    except BrokenPipeError:  # the reader has gone, as in `sparselens data list | head -1`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(codes.DONE)
    except Exception as error:
        if os.environ.get("SPARSELENS_DEBUG"):
            raise
        _say(codes.sentence_of(error))
        sys.exit(codes.code_of(error))
    finally:
        warnings.showwarning = shown
        for number, handler in before.items():
            signal.signal(number, handler)


def _interrupt(number: int, frame: Any) -> None:
    signal.signal(number, signal.SIG_DFL)  # a second Ctrl-C ends the process at once
    raise codes.Interrupted(codes.INTERRUPTED if number == signal.SIGINT else codes.TERMINATED)


def _show_warning(message: Warning | str, *where: Any, **more: Any) -> None:
    _say(f"warning: {message}")


def _say(text: str) -> None:
    typer.echo(f"sparselens: {text}", err=True)
