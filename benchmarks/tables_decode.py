"""Tables of decoding: ours and other solvers, as sizes grow, on a GPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stored_rows import markdown, stored


def decode_ratios() -> str:
    """Every case and solver: ms a row, the ratio to ours, and how exact the answers are."""
    rows = [row for row in stored("decode", "case", "solver", "threads") if not _is_growth(row)]
    lines = [
        [
            row["case"],
            str(row["threads"]),
            row["solver"],
            *(
                [row["reason"].removeprefix("RuntimeError: ").removeprefix("UnavailableError: "), "", "", "", ""]
                if "reason" in row
                else [
                    _milliseconds(row["ms_per_row"]),
                    "1" if row["solver"] == "sparselens" else f"{row['ratio']:.3g}",
                    f"{row['exact_1e10']:.3f} / {row['exact_1e6']:.3f}",
                    f"{row['certified']:.3f}",
                    f"{row['peak_mb']:,}",
                ]
            ),
        ]
        for row in rows
    ]
    header = ["case", "threads", "solver", "ms a row", "times ours", "exact 1e-10 / 1e-6", "certified", "peak MB"]
    return markdown(header, lines)


def decode_short() -> str:
    """One line a case, one thread: how many times longer the others take."""
    rows = [row for row in stored("decode", "case", "solver", "threads") if not _is_growth(row) and row["threads"] == 1]
    shown = {
        "scipy HiGHS": "scipy HiGHS",
        "highspy, slack basis": "highspy",
        "Gurobi, rebuilt": "Gurobi (a model a row)",
        "Gurobi, leanest": "Gurobi (leanest)",
    }
    lines = []
    for case in dict.fromkeys(row["case"] for row in rows):
        mine = {row["solver"]: row for row in rows if row["case"] == case}
        if "sparselens" not in mine or "ms_per_row" not in mine["sparselens"]:
            continue
        ratios = [f"{mine[s]['ratio']:.0f}x" if s in mine and "ratio" in mine[s] else "–" for s in shown]
        lines.append([case, _milliseconds(mine["sparselens"]["ms_per_row"]), *ratios])
    return markdown(["decoding, one thread", "sparselens, ms a row", *shown.values()], lines)


def decode_growth() -> str:
    """How time grows with d, m and n."""
    rows = [row for row in stored("decode", "case", "solver", "threads") if _is_growth(row) and "reason" not in row]
    lines = [
        [row["case"], row["solver"], _milliseconds(row["ms_per_row"]), f"{row['ratio']:.3g}", f"{row['peak_mb']:,}"]
        for row in rows
    ]
    return markdown(["case", "solver", "ms a row", "times ours", "peak MB"], lines)


def decode_gpu() -> str:
    """Whole test sets on a GPU."""
    lines = [
        [
            f"{row['data']}, m={row['m']}",
            row["hardware"],
            f"{row['n']:,}",
            f"{row['seconds']['bind']:.1f}",
            f"{row['seconds']['decode']:.1f}",
            f"{row['exact_1e10']:.3f} / {row['exact_1e6']:.3f}",
            f"{row['certified']:.4f}",
        ]
        for row in stored("decode_gpu", "data", "m", "hardware")
    ]
    header = ["case", "device", "rows", "bind (s)", "decode and verify (s)", "exact 1e-10 / 1e-6", "certified"]
    return markdown(header, lines)


def _is_growth(row: dict[str, Any]) -> bool:
    return row["case"].startswith("10 nonzeros")


def _milliseconds(value: float) -> str:
    return f"{value:.3f}" if value < 1 else f"{value:.3g}" if value < 1000 else f"{value:,.0f}"


TABLES: dict[str, Callable[[], str]] = {
    "decode": decode_ratios,
    "decode-short": decode_short,
    "decode-growth": decode_growth,
    "decode-gpu": decode_gpu,
}
