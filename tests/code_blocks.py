"""The code blocks of the README and the docs: found, run in order, and compared with what they say they print.

In a page, ```` ```python ```` is run; ```` ```text ```` right after it is what it prints (``...`` stands for anything);
```` ```console ```` is checked for commands that exist. An HTML comment right before a block says what it needs:

    <!-- needs data: bibtex -->      run where that data set is at hand, skipped with the reason elsewhere
    <!-- not run: REASON -->         never run; `test_docs.py` holds the list of these, so that none is added unseen
"""

from __future__ import annotations

import contextlib
import doctest
import io
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
_FENCE = re.compile(
    r"(?:<!-- *(?P<mark>needs data|not run): *(?P<note>[^>]*?) *-->\s*)?"
    r"^(?P<indent> *)```(?P<language>\w+)\n(?P<code>.*?)^(?P=indent)```",
    flags=re.DOTALL | re.MULTILINE,
)


@dataclass(frozen=True)
class Block:
    """A fenced block with where it stands and what it needs."""

    page: str
    line: int
    language: str
    code: str
    mark: str | None
    note: str | None
    follows: bool  # nothing but blank lines stands between this block and the one before it

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def pages() -> list[str]:
    """The README, the guide for contributors and every page of the docs, without what Sphinx generates."""
    generated = ("_build", "api", "gallery")
    docs = [p for p in (ROOT / "docs").rglob("*.md") if p.relative_to(ROOT / "docs").parts[0] not in generated]
    return ["README.md", "CONTRIBUTING.md", *sorted(p.relative_to(ROOT).as_posix() for p in docs)]


def blocks(page: str) -> list[Block]:
    """The fenced blocks of a page in their order."""
    text = (ROOT / page).read_text(encoding="utf-8")
    found, end = [], 0
    for match in _FENCE.finditer(text):
        line = text[: match.start("code")].count("\n")
        follows = end > 0 and not text[end : match.start()].strip()
        code = textwrap.dedent(match["code"])
        found.append(Block(page, line, match["language"], code, match["mark"], match["note"], follows))
        end = match.end()
    return found


def run(block: Block, names: dict[str, Any]) -> str:
    """Run a Python block; return what it printed. An error names the line of the page."""
    code = compile("\n" * block.line + block.code, str(ROOT / block.page), "exec")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, names)
    return printed.getvalue()


def prints(expected: str, got: str) -> bool:
    """Whether the output is the expected one, ``...`` standing for anything."""
    return doctest.OutputChecker().check_output(expected, got, doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)


def commands() -> Iterator[tuple[Block, str]]:
    """Every command of every console block, without comments and without the variables that are set before it.

    In a block with lines that begin with "$ " these are the commands, and the others are what they print.
    """
    for page in pages():
        for block in blocks(page):
            if block.language == "console":
                lines = block.code.replace("\\\n", " ").splitlines()
                lines = [line for line in lines if line.startswith("$ ")] or lines
                for line in lines:
                    command = re.sub(r"(^|\s)#.*", "", line.removeprefix("$ ")).strip()
                    command = re.sub(r"^(\w+=\S+ +)+", "", command)
                    if command:
                        yield block, command
