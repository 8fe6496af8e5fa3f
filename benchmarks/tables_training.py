"""Tables of training: how many rows come back, and how long it takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from statistics import fmean
from typing import Any

from sparselens.experiments import algorithms as a
from sparselens.experiments.algorithms import Algorithm
from sparselens.experiments.paper import cells_of, find
from sparselens.experiments.published import ISTA, TABLE2_LEFT, TABLE2_RIGHT
from sparselens.experiments.spec import Cell
from stored_rows import markdown, stored

Row = dict[str, Any]
_ENCODERS = {"gaussian": "Gaussian", "pca": "PCA", "lbcs": "LBCS", "l1ae": "ℓ1-AE", "certificate": "certificate"}
_FIXED = "l1ae, fixed steps"


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
    largest: dict[str, dict[str, int]] = {}
    for (data, encoder, m), parts in sorted(exact.items()):
        largest.setdefault(data, {})[encoder] = m
        if fmean(parts) >= 0.99:
            enough.setdefault(data, {}).setdefault(encoder, m)

    def shown(data: str, encoder: str) -> str:
        if encoder == "l1ae" and enough[data].get(_FIXED, 10**9) < enough[data].get(encoder, 10**9):
            return f"{enough[data][_FIXED]} (fixed steps)"
        m, tried = enough[data].get(encoder), largest[data].get(encoder)
        return str(m) if m else f"> {tried}" if tried else ""

    lines = []
    for data, best in enough.items():
        if "certificate" in best:
            more = "" if "gaussian" in best else "> "
            ratio = f"{more}{best.get('gaussian', largest[data]['gaussian']) / best['certificate']:.1f}"
            lines.append([data, *(shown(data, name) for name in ("gaussian", "l1ae", "certificate")), ratio])
    return markdown(["data set", "Gaussian", "ℓ1-AE", "certificate", "times fewer than Gaussian"], lines)


def _of_the_paper() -> Iterator[dict[str, Any]]:
    """The paper's cells with ℓ1-min pos, by default or with fixed steps; certificate training has its own rows."""
    for row in stored("paper", "key"):
        if row["status"] != "done" or row["decoder"] != "l1-pos":
            continue
        if row["params"] == dict(a.L1AE_FIXED_L1.params):
            yield row | {"encoder": _FIXED}
        elif not row["params"] and row["encoder"] in _ENCODERS and row["encoder"] != "certificate":
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


# What the paper trains: (data set, in words, encoder, parameters beside the preset's, our names of network and ℓ1, m).
_NETWORKS: tuple[tuple[str, str, str, Row, Algorithm | None, str, tuple[int, ...]], ...] = (
    ("synthetic1", "ℓ1-AE, T = 10", "l1ae", {}, a.L1AE_OWN, a.L1AE_L1.label, (10, 20, 30, 50)),
    ("synthetic1", "ℓ1-AE, T = 20", "l1ae", {"n_steps": 20, "patience": 20}, None, "T = 20", (20, 30)),
    ("synthetic1", "ℓ1-AE, T = 30", "l1ae", {"n_steps": 30, "patience": 20}, None, "T = 30", (20, 30)),
    ("synthetic1", "ISTA-AE", "ista", {}, a.ISTA_OWN, a.ISTA_L1.label, (10,)),
    ("synthetic1", "simple AE", "simple", {}, a.SIMPLE, a.SIMPLE_L1.label, (10,)),
    ("synthetic1", "4-layer AE", "deep", {}, a.DEEP, "", (10,)),
    ("amazon", "ℓ1-AE, T = 60", "l1ae", {}, a.L1AE_OWN, a.L1AE_L1.label, (40, 80, 120)),
)


def l1ae() -> str:
    """The networks of the paper: its RMSE and ours, by their own decoders and by ℓ1-min pos; means over seeds."""
    paper = {(p.data, p.algorithm, p.m): p.value for p in (*TABLE2_LEFT, *TABLE2_RIGHT, *ISTA)}
    rows = [row for row in stored("paper", "key") if row["status"] == "done" and not row["sizes"] and not row["n_test"]]
    lines = []
    for data, words, encoder, params, own, l1, ms in _NETWORKS:
        for m in ms:
            cell = [
                row
                for row in rows
                if (row["data"], row["encoder"], row["m"], row["params"]) == (data, encoder, m, params)
            ]
            figures: list[str] = []
            seeds, trained = set(), {}
            for label, decoder in ((own.label if own else "", "own"), (l1, "l1-pos")):
                mine = [row for row in cell if label and row["decoder"] == decoder]
                value = paper.get((data, label, m))
                figures += ["" if value is None else f"{value:.3g}", _mean([row["rmse"] for row in mine], ".3f")]
                seeds |= {row["seed"] for row in mine}
                trained |= {row["seed"]: row for row in mine}
            exact = _mean([row["exact"] for row in cell if l1 and row["decoder"] == "l1-pos"], ".2%", zero="0.00%")
            where = " and ".join(sorted({_hardware(row) for row in trained.values()}))
            together = max((row.get("together") or 0 for row in trained.values()), default=0)
            at_once = f", {together} at once" if together else ""
            seconds = f"{_mean([row['fit_seconds'] for row in trained.values()], '.0f')} ({where}{at_once})"
            lines.append([data, words, str(m), *figures, exact, str(len(seeds)), seconds])
    header = ["data set", "network", "m", "own decoder, paper", "ours", "ℓ1-min pos, paper", "ours", "rows exact"]
    return markdown([*header, "seeds", "seconds to train"], lines)


def l1ae_cost() -> str:
    """Seconds and memory of ℓ1-AE's training: an epoch, and a whole training to its early stop."""
    rows = {
        (row["case"], row["device"], row["precision"]): row for row in stored("train", "case", "device", "precision")
    }
    epoch = rows["epoch", "cpu", "high"]
    plain = f"{epoch['seconds_per_epoch']:.2f}; a plain autograd loop {epoch['plain_seconds_per_epoch']:.2f}"
    low, high = epoch["times_faster_range"]
    lines = [
        [
            "Synthetic1, m = 20, T = 10: an epoch",
            f"{plain} ({epoch['times_faster']:.1f} times as long, {low:.1f} to {high:.1f} in turns)",
            f"{epoch['peak_gigabytes']:.1f}",
            "CPU, one thread",
        ]
    ]
    for case, device, precision, where in (
        ("rcv1-epoch", "cuda", "high", "H200, TF32"),
        ("rcv1-epoch", "cuda", "highest", "H200, float32"),
        ("rcv1-memory", "cpu", "high", "CPU, one thread"),
    ):
        row = rows[case, device, precision]
        memory = row["gpu_gigabytes"] or row["peak_gigabytes"]
        seconds = f"{row['seconds_per_epoch']:.3g}"
        lines.append(["RCV1 (Mulan), 13,889 rows, m = 400, T = 10: an epoch", seconds, f"{memory:.1f}", where])
    for row in stored("recovery", "data", "encoder", "m", "seed"):
        if row["encoder"] == "l1ae" and row["seed"] == 0 and row["data"] in ("synthetic1", "amazon"):
            what = f"{row['data']}, m = {row['m']}: to the early stop, RMSE {row['rmse']:.3f}"
            lines.append([what, f"{row['train_s']:.0f}", "", _hardware(row)])
    return markdown(["what", "seconds", "memory, GB", "on"], lines)


def l1ae_growth() -> str:
    """Seconds an epoch and memory as one of n, d, m and T grows."""
    rows = [row for row in stored("train", "case", "device") if row["case"].startswith("growth")]
    lines = []
    for axis in "ndmT":
        mine = [row for row in rows if row["case"].startswith(f"growth, {axis}=")]
        columns = ([f"{row[axis]:,}" for row in mine], [f"{row['seconds_per_epoch']:.2f}" for row in mine])
        memory = [f"{row['gigabytes_of_the_fit']:.2f}" for row in mine]
        lines.append([axis, *(" / ".join(column) for column in (*columns, memory))])
    return markdown(["what grows", "sizes", "seconds an epoch", "memory of the fit, GB"], lines)


def l1ae_together() -> str:
    """Epochs a second of ℓ1-AE's trainings on an H200 that were done at once, and of any that were done alone."""
    lines = []
    for data, words in (("synthetic1", "Synthetic1, T = 10"), ("amazon", "Amazon, T = 60")):
        rows = [
            row
            for row in stored("paper", "key")
            if (row["data"], row["encoder"], row["decoder"], row["params"]) == (data, "l1ae", "l1-pos", {})
            and row["status"] == "done"
            and "H200" in row["hardware"]
            and not row["sizes"]
        ]
        alone = [row for row in rows if not row.get("together")]
        most = max(row.get("together") or 0 for row in rows)
        at_once = [row for row in rows if row.get("together") == most]
        many = sum(row["n_epochs"] for row in at_once) / max(row["fit_seconds"] for row in at_once)
        compared = ["", ""]
        if alone:
            one = sum(row["n_epochs"] for row in alone) / sum(row["fit_seconds"] for row in alone)
            compared = [f"{one:.1f}", f"{many / one:.1f}"]
        lines.append([words, str(most), f"{many:.1f}", *compared])
    return markdown(["networks", "at once", "epochs a second, together", "one alone", "times as fast"], lines)


def amazon_panel() -> str:
    """What the Amazon panel of figure 2 took: trainings that were done at once are counted once."""
    wanted = {cell.point for cell in cells_of(find("fig2"), data=["amazon"])}
    rows = [row for row in stored("paper", "key") if Cell.from_row(row).point in wanted and row["status"] == "done"]
    every = max(row["n_rows"] for row in rows)
    lines, trained, decoded = [], {True: 0.0, False: 0.0}, 0.0
    for encoder in dict.fromkeys(row["encoder"] for row in rows):
        mine = [row for row in rows if row["encoder"] == encoder]
        fits: dict[Any, float] = {}
        for row in mine:
            one = (row["commit"], row["together"]) if row.get("together") else row["m"]
            fits[one] = max(fits.get(one, 0.0), row["fit_seconds"])
        seconds = sum(row["decode_seconds"] for row in mine)
        where = " and ".join(sorted({_hardware(row) for row in mine}, reverse=True))
        fewest = min(row["n_rows"] for row in mine)
        n_rows = "all" if fewest == every else f"{fewest:,} or more"
        n_fits, n_cells = str(len({row["m"] for row in mine})), str(len(mine))
        lines.append([encoder, n_fits, f"{sum(fits.values()):.0f}", n_cells, n_rows, f"{seconds:.0f}", where])
        trained[all(row.get("together") for row in mine)] += sum(fits.values())
        decoded += seconds
    lines.append(["trained at once, one stack after the other", "", f"{trained[True]:.0f}", "", "", "", ""])
    lines.append(["beside that, in other processes", "", f"{trained[False]:.0f}", "", "", f"{decoded:.0f}", ""])
    header = ["encoder", "fits", "seconds to train", "cells", "test rows", "seconds to decode", "on"]
    return markdown(header, lines)


def _mean(values: list[float], form: str, zero: str = "0") -> str:
    """The mean as text; nothing of nothing, and rounding errors of exact answers are zero."""
    if not values:
        return ""
    mean = fmean(values)
    return zero if abs(mean) < 1e-10 else f"{mean:{form}}"


def _hardware(row: Row) -> str:
    return "H200" if "H200" in row["hardware"] else "CPU"


TABLES: dict[str, Callable[[], str]] = {
    "amazon-panel": amazon_panel,
    "l1ae": l1ae,
    "l1ae-cost": l1ae_cost,
    "l1ae-growth": l1ae_growth,
    "l1ae-together": l1ae_together,
    "recovery": recovery,
    "recovery-enough": recovery_enough,
    "recovery-time": recovery_time,
}
