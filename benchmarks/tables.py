"""Write the measured tables into the README and the docs, from the stored rows and from nothing else.

    python benchmarks/tables.py            # rewrite the parts between <!-- table: NAME --> and <!-- end -->
    python benchmarks/tables.py --check    # exit with 1 where a file does not say what the stored rows say

Of several runs of one case the last stored one counts.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks" / "results"
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
_PART = re.compile(r"(<!-- table: ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def stored(name: str, *keys: str) -> list[dict[str, Any]]:
    """The rows of a results file; of rows that agree in `keys` the last one."""
    path = RESULTS / f"{name}.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines() if line.strip()] if path.exists() else []
    latest = {tuple(row.get(key) for key in keys): row for row in rows}
    return list(latest.values())


def markdown(header: list[str], lines: list[list[str]]) -> str:
    """A Markdown table."""
    return "\n".join("| " + " | ".join(line) + " |" for line in [header, ["---"] * len(header), *lines]) + "\n"


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
    """The smallest measured m from which 99% of the test rows come back exactly."""
    rows = stored("recovery", "data", "encoder", "m", "seed")
    lines = []
    for data in sorted({row["data"] for row in rows}):
        best = {
            name: min(
                (r["m"] for r in rows if (r["data"], r["encoder"]) == (data, name) and r["exact"] >= 0.99), default=0
            )
            for name in _ENCODERS
        }
        if best["certificate"]:
            ratio = f"{best['gaussian'] / best['certificate']:.1f}" if best["gaussian"] else ""
            others = [str(best[name]) if best[name] else "" for name in ("gaussian", "l1ae", "certificate")]
            lines.append([data, *others, ratio])
    return markdown(["data set", "Gaussian", "ℓ1-AE", "certificate", "times fewer than Gaussian"], lines)


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


def encode_speed() -> str:
    """The bare product, transform and encode_file."""
    lines = [
        [
            row["case"],
            f"{row['n']:,} x {row['d']:,}",
            *(f"{1e6 * row['seconds'][key] / row['n']:.2f}" for key in ("product", "transform", "encode_file")),
            *(f"{100 * row['speed_of_product'][key]:.0f}%" for key in ("transform", "encode_file")),
        ]
        for row in stored("encode", "case")
    ]
    header = ["case", "rows x columns", "product, µs a row", "`transform`", "`encode_file`"]
    return markdown([*header, "`transform`, speed of the product", "`encode_file`"], lines)


def lossless() -> str:
    """Lossless files against the usual ways to store the same rows."""
    lines = [
        [
            row["case"],
            f"{row['n']:,}",
            f"{row['measured']:,} / {row['kept']:,}",
            *(f"{row[key] / 1000:,.0f}" for key in ("bytes", "bytes_npz", "bytes_gzip", "bytes_dense")),
        ]
        for row in stored("lossless", "case")
    ]
    header = ["rows", "n", "measured / kept", "lossless file, kB", "compressed npz", "gzipped text", "dense float64"]
    return markdown(header, lines)


def scaling() -> str:
    """Time and memory of whole files over n, d and m."""
    rows = [row for row in stored("scaling", "case", "what") if row["case"] != "dask"]
    lines = []
    for letter in "ndm":
        for encoded in sorted((r for r in rows if r["case"][0] == letter and r["what"] == "encode"), key=_size):
            decoded = [r for r in rows if r["case"] == encoded["case"] and r["what"] == "decode"]
            if decoded:
                lines.append(
                    [
                        *(f"{encoded[key]:,}" for key in "ndm"),
                        *(f"{1e6 * row['cpu_s'] / row['n']:.1f}" for row in (encoded, decoded[0])),
                        *(f"{row['peak_mb']:,}" for row in (encoded, decoded[0])),
                        *(f"{size:,.0f}" for size in (encoded["in_mb"], encoded["out_mb"], decoded[0]["out_mb"])),
                        f"{decoded[0]['certified']:.4f} / {decoded[0]['exact']:.4f}",
                    ]
                )
    header = ["n", "d", "m", "encode, µs a row", "decode, µs a row", "encode, peak MB", "decode, peak MB"]
    return markdown([*header, "rows, MB", "measurements, MB", "decoded rows, MB", "certified / exact"], lines)


def _size(row: dict[str, Any]) -> tuple[int, int, int]:
    return row["n"], row["d"], row["m"]


def scaling_billion() -> str:
    """What the longest measured file means for a billion rows."""
    lines = []
    for what in ("encode", "decode"):
        rows = [r for r in stored("scaling", "case", "what") if r["what"] == what and r["case"].startswith("n")]
        for row in sorted(rows, key=_size)[-1:]:
            hours = row["cpu_s"] / row["n"] * 1e9 / 3600
            lines.append(
                [
                    what,
                    f"d = {row['d']:,}, m = {row['m']}, {row['k']} nonzeros a row, measured at n = {row['n']:,}",
                    f"{hours:,.2f}",
                    f"{hours / 16:,.2f}",
                    f"{row['in_mb'] / row['n'] * 1e9 / 1024:,.0f} → {row['out_mb'] / row['n'] * 1e9 / 1024:,.0f}",
                    f"{row['peak_mb']:,}",
                ]
            )
    header = ["", "problem", "core hours", "hours on 16 cores", "file sizes, GB", "peak MB a process"]
    return markdown(header, lines)


def dask() -> str:
    """One process, two processes, two Dask workers."""
    lines = [
        [
            row["what"],
            f"{row['cpu_s']:.1f}",
            f"{row['efficiency']:.2f}",
            f"{min(2.0, 2 * row['efficiency']):.2f}" if row["what"] != "one process" else "1",
            f"{row['speed']:.2f} ({min(row['speeds']):.2f} to {max(row['speeds']):.2f})",
        ]
        for row in stored("scaling", "case", "what")
        if row["case"] == "dask"
    ]
    header = ["", "core seconds", "efficiency", "times faster, at most", "times faster here, on the wall"]
    return markdown(header, lines)


def plans() -> str:
    """The answers of `sparselens plan`, and what they are worth on the untouched test rows."""
    lines = [
        [
            row["data"],
            f"{100 * row['target']:g}%",
            str(row["seed"]),
            str(row["learned"]),
            str(row["gaussian"]),
            f"{row['factor']:.2f}",
            f"{row['test_exact']:.2%} ({row['test_interval'][0]:.2%} to {row['test_interval'][1]:.2%})",
            str(row["n_trainings"]),
            f"{row['seconds']:,.0f}" if row["cpu_s"] is None else f"{row['seconds']:,.0f} ({row['cpu_s']:,.0f})",
            row["hardware"] if "NVIDIA" in row["hardware"] else "CPU",
        ]
        for row in stored("commands", "what", "data", "target", "seed", "hardware")
        if row["what"] == "plan"
    ]
    header = ["data set", "target", "seed", "learned m", "Gaussian m", "factor"]
    header += ["test rows exact at the learned m", "trainings", "seconds (CPU seconds)", "where"]
    return markdown(header, lines)


def first_value() -> str:
    """fit, encode, decode, evaluate: CPU seconds of each command, and what came back."""
    names = ("fit", "encode", "decode", "evaluate")
    lines = [
        [
            f"{row['data']}, m={row['m']}",
            *(f"{row['cpu_s'][name]:,.0f}" for name in names),
            f"{sum(row['cpu_s'].values()):,.0f}",
            f"{row['test_exact']:.2%}",
            f"{row['certified']:.2%}",
            str(row["threads"]),
        ]
        for row in stored("commands", "what", "data", "m", "seed", "hardware")
        if row["what"] == "first"
    ]
    header = ["case", *(f"{name} (CPU s)" for name in names), "together", "test rows exact", "certified", "threads"]
    return markdown(header, lines)


_XML_NAMES = {
    "blend": "**blend (ours)**",
    "l1ae-3, 5": "ℓ1-AE 3, refitted decoder, 5 models (ours)",
    "l1ae-3, 1": "ℓ1-AE 3, refitted decoder, 1 model (ours)",
    "ridge one-vs-all": "ridge one-vs-all (ours)",
    "sleec": "SLEEC (ours)",
    "omikuji-parabel": "omikuji, as Parabel",
    "omikuji-bonsai": "omikuji, as Bonsai",
    "napkinxc-plt": "napkinXC PLT",
    "xr-linear": "PECOS XR-Linear",
    "xr-linear-ova": "PECOS one-vs-all",
}


def _xml_rows(data: str, methods: list[str]) -> dict[str, list[dict[str, Any]]]:
    """The rows of each method on the splits that all of them were run on: other means would not compare."""
    rows = [row for row in stored("xml", "data", "method", "split", "case") if row.get("data") == data and "P@1" in row]
    mine = {method: {row["split"]: row for row in rows if row["method"] == method} for method in methods}
    mine = {method: of_split for method, of_split in mine.items() if of_split}
    common = set.intersection(*(set(of_split) for of_split in mine.values())) if mine else set()
    return {method: [of_split[split] for split in sorted(common)] for method, of_split in mine.items()}


def _xml_sets() -> list[str]:
    return list(dict.fromkeys(row["data"] for row in stored("xml", "data", "method", "split", "case") if "data" in row))


def _percent(rows: list[dict[str, Any]], name: str) -> str:
    return " / ".join(f"{100 * sum(row[f'{name}@{k}'] for row in rows) / len(rows):.2f}" for k in (1, 3, 5))


def xml() -> str:
    """Every data set and method: the mean over splits of P@k and PSP@k, and what it cost."""
    lines = []
    for data in sorted(_xml_sets()):
        shown = _xml_rows(data, list(_XML_NAMES))
        for method, label in _XML_NAMES.items():
            if rows := shown.get(method):
                costs = [sum(row[cost] for row in rows) / len(rows) for cost in ("train_s", "predict_s")]
                peak, size = (max(row[cost] for row in rows) for cost in ("peak_mb", "model_mb"))
                figures = [_percent(rows, name) for name in ("P", "PSP")]
                lines.append(
                    [data, label, *figures, *(f"{c:.0f}" for c in costs), f"{peak:,}", f"{size:.1f}", str(len(rows))]
                )
    header = ["data set", "method", "P@1/3/5", "PSP@1/3/5", "train (s)", "predict (s)", "peak MB", "model MB", "splits"]
    return markdown(header, lines)


def xml_paper() -> str:
    """SLEEC and the ways to predict from ℓ1-AE's embedding, one to five models: the mean over splits of P@k."""
    kinds = {
        "SLEEC": "sleec",
        **{f"ℓ1-AE {i}, as in the paper": f"l1ae-{i} paper" for i in (1, 2, 3)},
        **{f"ℓ1-AE {i}, our settings": f"l1ae-{i}" for i in (1, 2, 3)},
    }
    names = ["sleec", *(f"{method}, {n}" for method in kinds.values() for n in (1, 3, 5))]
    lines = []
    for data in sorted(_xml_sets()):
        shown = _xml_rows(data, names)
        for label, method in kinds.items():
            cells = [shown.get(method if method == "sleec" else f"{method}, {n}", []) for n in (1, 3, 5)]
            if any(cells):
                figures = [_percent(rows, "P") if rows else "" for rows in cells]
                lines.append([data, label, *figures, str(max(map(len, cells)))])
    return markdown(["data set", "method", "1 model, P@1/3/5", "3 models", "5 models", "splits"], lines)


def xml_scale() -> str:
    """A synthetic problem of Wiki10-31K's size."""
    lines = [
        [
            row["method"],
            f"{row['train_s']:.0f}",
            f"{row['predict_s']:.0f}",
            f"{row['peak_mb']:,}",
            f"{100 * row['P@1']:.1f}",
            f"{100 * row['P@1 of the most frequent label']:.1f}",
        ]
        for row in stored("xml", "data", "method", "split", "case")
        if row.get("case") == "wiki10-31k size"
    ]
    header = ["method", "train (s)", "predict 6,616 rows (s)", "peak MB", "P@1", "P@1 of the most frequent label"]
    return markdown(header, lines)


TABLES: dict[str, Callable[[], str]] = {
    "encode-speed": encode_speed,
    "lossless": lossless,
    "scaling": scaling,
    "scaling-billion": scaling_billion,
    "dask": dask,
    "plans": plans,
    "first-value": first_value,
    "l1ae": l1ae,
    "decode": decode_ratios,
    "decode-short": decode_short,
    "decode-growth": decode_growth,
    "decode-gpu": decode_gpu,
    "recovery": recovery,
    "recovery-enough": recovery_enough,
    "recovery-time": recovery_time,
    "xml": xml,
    "xml-paper": xml_paper,
    "xml-scale": xml_scale,
}


def _is_growth(row: dict[str, Any]) -> bool:
    return row["case"].startswith("10 nonzeros")


def _milliseconds(value: float) -> str:
    return f"{value:.3f}" if value < 1 else f"{value:.3g}" if value < 1000 else f"{value:,.0f}"


def render(text: str) -> str:
    """The text with every table written anew."""
    return _PART.sub(lambda part: part[1] + TABLES[part[2]]() + part[3], text)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    stale = []
    for page in PAGES:
        old = page.read_text(encoding="utf-8")
        new = render(old)
        if new != old:
            stale.append(page.name)
            if not check:
                page.write_text(new, encoding="utf-8")
    print(("stale: " if check else "written: ") + (", ".join(stale) or "nothing"))
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
