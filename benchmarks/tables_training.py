"""Tables of training: how many rows come back, and how long it takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from statistics import fmean
from typing import Any

from stored_rows import markdown, stored

_ENCODERS = {"gaussian": "Gaussian", "pca": "PCA", "lbcs": "LBCS", "l1ae": "ℓ1-AE", "certificate": "certificate"}


def recovery() -> str:
    """Every data set over m: exact rows and RMSE of each encoder, and the seconds of certificate training."""
    rows = [row for row in stored("recovery", "data", "encoder", "m", "seed") if row["encoder"] in _ENCODERS]
    shown = [name for name in _ENCODERS if any(row["encoder"] == name for row in rows)]
    lines = []
    for data, m in sorted({(row["data"], row["m"]) for row in rows if row["seed"] == 0}):
        mine = {row["encoder"]: row for row in rows if (row["data"], row["m"], row["seed"]) == (data, m, 0)}
        figures = [f"{mine[e]['exact']:.2%} / {mine[e]['rmse']:.3f}" if e in mine else "" for e in shown]
        seconds = ""
        if "certificate" in mine:
            where = mine["certificate"]["hardware"]
            seconds = f"{mine['certificate']['train_s']:.0f} ({where if 'NVIDIA' in where else 'CPU'})"
        lines.append([data, str(m), *figures, seconds])
    return markdown(["data set", "m", *(_ENCODERS[name] for name in shown), "seconds to train"], lines)


def recovery_enough() -> str:
    """The smallest measured m from which 99% of the test rows come back exactly, in the mean over the seeds."""
    exact: dict[tuple[str, str, int], list[float]] = {}
    for row in (*stored("recovery", "data", "encoder", "m", "seed"), *_of_the_paper()):
        exact.setdefault((row["data"], row["encoder"], row["m"]), []).append(row["exact"])
    enough: dict[str, dict[str, int]] = {}
    for (data, encoder, m), parts in sorted(exact.items()):
        if fmean(parts) >= 0.99:
            enough.setdefault(data, {}).setdefault(encoder, m)
    lines = []
    for data, best in enough.items():
        if "certificate" in best:
            ratio = f"{best['gaussian'] / best['certificate']:.1f}" if "gaussian" in best else ""
            lines.append([data, *(str(best.get(name, "")) for name in ("gaussian", "l1ae", "certificate")), ratio])
    return markdown(["data set", "Gaussian", "ℓ1-AE", "certificate", "times fewer than Gaussian"], lines)


def _of_the_paper() -> Iterator[dict[str, Any]]:
    """The paper's cells with ℓ1-min pos and default parameters; certificate training has its own rows."""
    for row in stored("paper", "key"):
        plain = not row["params"] and row["status"] == "done" and row["decoder"] == "l1-pos"
        if plain and row["encoder"] in _ENCODERS and row["encoder"] != "certificate":
            yield row


def recovery_time() -> str:
    """ℓ1-AE and certificate training side by side: the cells that one commit ran on one machine, seed 0."""
    rows = {
        (r["data"], r["m"], r["encoder"]): r
        for r in stored("recovery", "data", "encoder", "m", "seed")
        if not r["seed"]
    }
    lines = []
    for data, m in sorted({key[:2] for key in rows}):
        theirs, mine = (rows.get((data, m, encoder)) for encoder in ("l1ae", "certificate"))
        if theirs and mine and all(theirs[key] == mine[key] for key in ("commit", "hardware")):
            figures = [f"{r['exact']:.2%} / {r['rmse']:.3f} in {r['train_s']:.0f} s" for r in (theirs, mine)]
            where = mine["hardware"] if "NVIDIA" in mine["hardware"] else "CPU, one thread"
            lines.append([data, str(m), *figures, f"{theirs['train_s'] / mine['train_s']:.1f}", where])
    return markdown(["data set", "m", "ℓ1-AE", "certificate", "times faster", "on"], lines)


# Test RMSE of ℓ1-AE with ℓ1-min pos in the paper's second table.
_PAPER_L1AE = {
    ("synthetic1", 10): "0.357",
    ("synthetic1", 20): "0.097",
    ("synthetic1", 30): "9.9e-3",
    ("amazon", 40): "0.387",
    ("amazon", 80): "0.023",
}


def l1ae() -> str:
    """ℓ1-AE with ℓ1-min pos: the paper's RMSE and ours."""
    lines = [
        [
            row["data"],
            str(row["m"]),
            _PAPER_L1AE.get((row["data"], row["m"]), ""),
            f"{row['rmse']:.3f}",
            f"{row['exact']:.2%}",
            f"{row['train_s']:.0f} ({row['hardware'] if 'NVIDIA' in row['hardware'] else 'CPU'})",
        ]
        for row in stored("recovery", "data", "encoder", "m", "seed")
        if row["encoder"] == "l1ae" and row["seed"] == 0
    ]
    header = ["data set", "m", "RMSE, paper", "RMSE, ours", "rows exact", "seconds to train"]
    return markdown(header, sorted(lines, key=lambda line: (line[0], int(line[1]))))


TABLES: dict[str, Callable[[], str]] = {
    "l1ae": l1ae,
    "recovery": recovery,
    "recovery-enough": recovery_enough,
    "recovery-time": recovery_time,
}
