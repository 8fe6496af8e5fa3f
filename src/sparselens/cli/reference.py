"""The command-line reference of the docs, written from the program itself.

    python -m sparselens.cli.reference docs/cli.md

A test compares the page with what this module writes, so that it cannot grow old.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from sparselens.cli import codes

_HEAD = """# Command line

This page is written from the program (`python -m sparselens.cli.reference docs/cli.md`). {doc}`first-file` walks
through the main commands with their output.

- DATA is the name of a data set (`sparselens data list`) or a file: see {doc}`data` for the formats. `./name` reads a
  file that is called like a data set.
- MODEL is a folder that `sparselens fit` wrote.
- `--json` prints one JSON value on standard output and nothing else.
- Progress bars with the time left go to standard error, and only where that is a terminal.
- A file is written beside its place and then renamed: nobody ever reads half of one, whatever kills the process.
- `SPARSELENS_DEBUG=1` shows the traceback of an error; `SPARSELENS_DATA` says where data sets lie.

(exit-codes)=
## Exit codes

| code | meaning |
|---|---|
"""


def reference() -> str:
    """The whole page."""
    import typer

    from sparselens.cli.main import app

    parts = [_HEAD + "".join(f"| {code} | {text} |\n" for code, text in codes.MEANING.items())]
    parts += [_section(path, command) for path, command in _walk(typer.main.get_command(app), ("sparselens",))]
    return "\n".join(parts)


def _walk(command: Any, path: tuple[str, ...]) -> list[tuple[tuple[str, ...], Any]]:
    """Every command that does something, in the order of the help, with the words to type."""
    if not hasattr(command, "commands"):
        return [(path, command)]
    return [found for name, child in command.commands.items() for found in _walk(child, (*path, name))]


def _section(path: tuple[str, ...], command: Any) -> str:
    paragraphs = [" ".join(text.split()) for text in (command.help or "").split("\n\n")]
    examples = [text.removeprefix("Example: ") for text in paragraphs if text.startswith("Example: ")]
    words = [text for text in paragraphs if text and not text.startswith("Example: ")]
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    options = [p for p in command.params if p.param_type_name == "option" and not p.hidden and p.name != "help"]
    needed = [f"{_shortest(p)} {_metavar(p)}" for p in options if p.required]
    usage = " ".join(
        [*path, *map(_metavar, arguments), *needed, *(["[OPTIONS]"] if len(needed) < len(options) else [])]
    )
    text = f"## {' '.join(path)}\n\n```text\n{usage}\n```\n\n" + "\n\n".join(words) + "\n"
    if examples:
        text += "\n```console\n" + "".join(f"$ {example}\n" for example in examples) + "```\n"
    lines = [f"| `{_metavar(p)}` | {_cell(p.help)} |" for p in arguments]
    lines += [f"| `{_opts(p)}` | {_cell(p.help)}{_default(p)} |" for p in options]
    return text + ("\n|  |  |\n|---|---|\n" + "\n".join(lines) + "\n" if lines else "")


def _opts(option: Any) -> str:
    value = "" if option.is_flag else f" {_metavar(option)}"
    return ", ".join([*sorted(option.opts, key=len), *option.secondary_opts]) + value


def _shortest(option: Any) -> str:
    return min(option.opts, key=len)


def _metavar(param: Any) -> str:
    name = (param.metavar or param.name.strip("_")).upper()
    return name if param.required or param.param_type_name == "option" else f"[{name}]"


def _default(option: Any) -> str:
    if option.required:
        return " Required."
    if option.is_flag or option.default in (None, [], ()):
        return ""
    return f" Default: {option.default}."


def _cell(text: str | None) -> str:
    return " ".join((text or "").split()).replace("|", "\\|")


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(reference(), encoding="utf-8")
