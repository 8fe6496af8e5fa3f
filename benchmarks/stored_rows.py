"""Rows that benchmarks have stored, and Markdown tables of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"


def stored(name: str, *keys: str) -> list[dict[str, Any]]:
    """The rows of a results file; of rows that agree in `keys` the last one."""
    path = RESULTS / f"{name}.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines() if line.strip()] if path.exists() else []
    latest = {tuple(row.get(key) for key in keys): row for row in rows}
    return list(latest.values())


def markdown(header: list[str], lines: list[list[str]]) -> str:
    """A Markdown table."""
    return "\n".join("| " + " | ".join(line) + " |" for line in [header, ["---"] * len(header), *lines]) + "\n"
