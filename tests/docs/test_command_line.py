"""The pages about the command line say what the program says."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from command_line import command
from sparselens.cli.reference import reference

DOCS = Path(__file__).parents[2] / "docs"
_SIZES = re.compile(r"\d[\d.,e-]*(?= (?:MB|kB|s\b|ms a row))|\d\.\d+e-1\d")  # times, sizes, rounding errors


def transcript(page):
    """(command, what it prints) in the order of the page; … stands for anything."""
    for block in re.findall(r"```console\n(.*?)```", (DOCS / page).read_text(encoding="utf-8"), flags=re.DOTALL):
        for entry in re.split(r"^\$ sparselens ", block, flags=re.MULTILINE)[1:]:
            typed, _, printed = entry.partition("\n")
            yield typed, printed


def agrees(printed, expected):
    """Whether what was printed is what the page shows, up to times, sizes and …"""
    lines = [_SIZES.sub("#", " ".join(line.split())) for line in (printed.strip(), expected.strip())]
    pattern = r"[\s\S]*".join(map(re.escape, lines[1].split("…")))
    return re.fullmatch(pattern, lines[0]) is not None


def test_the_reference_is_what_the_program_says():
    assert (DOCS / "cli.md").read_text(encoding="utf-8") == reference(), (
        "docs/cli.md is old: run python -m sparselens.cli.reference docs/cli.md"
    )


def test_the_walk_through_prints_what_the_page_shows(tmp_path, monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    entries = list(transcript("first-file.md"))
    assert {typed.split()[0] for typed, _ in entries} >= {"plan", "fit", "encode", "decode", "evaluate", "inspect"}
    torch.set_num_threads(1)
    for typed, expected in entries:
        ended = command(*shlex.split(typed))
        printed = f"sparselens: {ended.error}" if ended.code == 2 else ended.out
        assert agrees(printed, expected), (
            f"$ sparselens {typed}\n{printed}{ended.error}\n(exit code {ended.code}) but the page shows\n{expected}"
        )
        assert ended.code == (2 if expected.startswith("sparselens: ") else 0)


def test_a_difference_is_noticed():
    assert agrees("a: 3 rows (2.5 s)\n", "a: 3 rows (17 s)")
    assert agrees("a: 3 rows, b", "a: …b")
    assert not agrees("a: 4 rows (2.5 s)", "a: 3 rows (2.5 s)")
    assert not agrees("a: 3 rows, c", "a: …b")
