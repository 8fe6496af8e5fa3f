"""How many rows come back from m measurements: each data set, each encoder, over m, with the seconds of training.

    python benchmarks/recovery.py                                    # everything that the data folder has
    python benchmarks/recovery.py --data-sets amazon --m 40 60 --encoders gaussian certificate
    python benchmarks/recovery.py --device cuda --time-limit 300     # begin no cell after 300 seconds
    python benchmarks/recovery.py --table                            # print what is stored, run nothing
    python benchmarks/recovery.py --recipes log,0.3,0.1,0.5,0,0.2,0.03  # loss, margin, swap, uniform, thin, drop, rate

Each cell is one line of benchmarks/results/recovery.jsonl; a cell that is there is not run again. Test rows are of
unit norm; "exact" is the part of them with ‖x − x̂‖ ≤ 1e-10 after ℓ1 decoding, and every row counts in the RMSE.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

STORE = Path(__file__).parent / "results" / "recovery.jsonl"
# The numbers of measurements of each data set, the most telling first.
GRID: dict[str, list[int]] = {
    "synthetic1": [10, 20, 12, 16, 30, 50, 70],
    "synthetic2": [20, 15, 25, 30, 40, 50, 70],
    "synthetic3": [30, 10, 50, 100, 20, 40, 60, 70, 80, 90],
    "unstructured": [50, 30, 70],
    "amazon": [40, 60, 20, 30, 80, 120],
    "eurlex-4k-labels": [30, 60, 20, 40, 50, 80, 100],
    "delicious": [50, 80, 40, 60, 70, 100, 120],
    "citeulike-a-tags": [120, 300, 60, 200, 250, 400, 500],
    "bibtex": [15, 20, 10, 12, 25, 30, 40],
    "wiki10-like-labels": [60, 100, 150, 200],
    "rcv1-mulan": [400, 600, 800, 500, 700, 750],
}
ENCODERS = ("gaussian", "certificate", "l1ae", "pca", "lbcs")
_PRESETS = {"rcv1-mulan": "rcv1"}


def make(name: str, data_set: str, m: int, seed: int, device: str) -> Any:
    """An unfitted encoder with its defaults; ℓ1-AE with the paper's parameters where it has some."""
    import sparselens as sl
    from sparselens.encoders.l1ae import PRESETS

    if name == "gaussian":
        return sl.GaussianEncoder(m, random_state=seed)
    if name == "pca":
        return sl.PCAEncoder(m)
    if name == "lbcs":
        return sl.LBCSEncoder(m, random_state=seed)
    if name == "certificate":
        return sl.CertificateEncoder(m, random_state=seed, device=device)
    if name.startswith("certificate:"):
        loss, *numbers, max_steps, batch_size = name.removeprefix("certificate:").split(",")
        names = ("margin", "swap", "uniform", "thin", "drop", "learning_rate")
        fixed = {"loss": loss} | dict(zip(names, map(float, numbers), strict=True))
        sizes = {"max_steps": int(max_steps), "batch_size": int(batch_size)}
        return sl.CertificateEncoder(m, random_state=seed, device=device, **fixed, **sizes)
    preset = _PRESETS.get(data_set, data_set)
    preset = preset if preset in PRESETS else "wiki10-31k"  # the paper's other set of labels
    # The paper's patience of 1 stops on noise (Amazon, m = 40, seed 0: after five epochs, RMSE 0.81); ours goes back to
    # the best weights, so that waiting longer only costs time.
    patience = max(5, PRESETS[preset]["patience"])
    return sl.L1AE.preset(preset, n_components=m, random_state=seed, device=device, patience=patience)


def measure(data: Any, name: str, m: int, seed: int, device: str, n_test: int) -> dict[str, Any]:
    """Train, decode the test rows, and say how they came back."""
    import torch

    from sparselens.encoders._certificate_task import decode_errors
    from sparselens.metrics import EXACT
    from sparselens.train import choose_device

    where = choose_device(device)
    X = data.test[:n_test]
    began = time.perf_counter()
    enc = make(name, data.name, m, seed, device).fit(data.train, X_valid=data.valid)
    if where.type == "cuda":
        torch.cuda.synchronize()
    trained = time.perf_counter()
    errors = decode_errors(enc.components_, X, positive=True, device=where)
    row = {
        "data": data.name,
        "encoder": name,
        "m": m,
        "seed": seed,
        "n_test": X.shape[0],
        "exact": float(np.mean(errors <= EXACT)),
        "rmse": float(np.sqrt(np.mean(errors**2))),
        "train_s": trained - began,
        "decode_s": time.perf_counter() - trained,
        "row_nonzeros": X.nnz / X.shape[0],
        "d": X.shape[1],
    }
    for attribute in ("report_", "recipe_", "history_", "n_too_long_"):
        if name.startswith("certificate"):
            row[attribute] = getattr(enc, attribute)
    return row


def provenance(device: str) -> dict[str, Any]:
    """Version, commit and hardware: what a figure needs to be believed."""
    from facts import facts
    from sparselens.train import choose_device

    if shutil.which("git") is None:
        os.environ.setdefault("SPARSELENS_COMMIT", "unknown")
    return facts(choose_device(device).type)


def cells(data_sets: list[str], encoders: list[str], ms: list[int] | None) -> Iterator[tuple[str, str, int]]:
    """The first m of every data set first, so that a run that is cut short has something of everything."""
    for turn in range(max(map(len, GRID.values()))):
        for data_set in data_sets:
            grid = ms if ms is not None else GRID[data_set]
            if turn < len(grid):
                for encoder in encoders:
                    yield data_set, encoder, grid[turn]


def stored(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def table(rows: list[dict[str, Any]]) -> str:
    """exact / RMSE of every encoder over m, the smallest m with at least 99%, and the seconds of training."""
    out = []
    for data_set in dict.fromkeys(row["data"] for row in rows):
        mine = [row for row in rows if row["data"] == data_set]
        ms = sorted({row["m"] for row in mine})
        out.append(f"\n{data_set}\n  {'encoder':12s}" + "".join(f"{f'm={m}':>16s}" for m in ms) + "   99% at   seconds")
        for encoder in dict.fromkeys(row["encoder"] for row in mine):
            by_m = {row["m"]: row for row in mine if row["encoder"] == encoder}
            figures = "".join(f"{by_m[m]['exact']:9.1%} {by_m[m]['rmse']:6.3f}" if m in by_m else " " * 16 for m in ms)
            enough = min((m for m, row in by_m.items() if row["exact"] >= 0.99), default="-")
            seconds = [row["train_s"] for row in by_m.values()]
            out.append(f"  {encoder:12s}{figures}   {enough!s:>6s}   {min(seconds):.0f} to {max(seconds):.0f}")
    return "\n".join(out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-sets", nargs="+", choices=GRID, default=list(GRID))
    parser.add_argument("--encoders", nargs="+", choices=ENCODERS, default=list(ENCODERS))
    parser.add_argument(
        "--recipes", nargs="+", default=[], help="loss,margin,swap,uniform,thin,drop,rate: in place of encoders"
    )
    parser.add_argument("--max-steps", type=int, default=4000, help="of the recipes")
    parser.add_argument("--batch-size", type=int, default=256, help="of the recipes")
    parser.add_argument("--m", nargs="+", type=int)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--n-test", type=int, default=10**9, help="test rows to decode")
    parser.add_argument("--time-limit", type=float, default=float("inf"), help="begin no cell after so many seconds")
    parser.add_argument("--out", type=Path, default=STORE)
    parser.add_argument("--table", action="store_true", help="print what is stored, run nothing")
    args = parser.parse_args()
    if args.table:
        print(table(stored(args.out)))
        return
    import sparselens as sl

    encoders = [f"certificate:{recipe},{args.max_steps},{args.batch_size}" for recipe in args.recipes] or args.encoders
    done = {(row["data"], row["encoder"], row["m"], row["seed"]) for row in stored(args.out)}
    args.out.parent.mkdir(parents=True, exist_ok=True)
    began, loaded = time.perf_counter(), {}
    for seed in args.seeds:
        for data_set, encoder, m in cells(args.data_sets, encoders, args.m):
            if (data_set, encoder, m, seed) in done:
                continue
            if time.perf_counter() - began > args.time_limit:
                print("time is up")
                return
            if data_set not in loaded:
                try:
                    loaded[data_set] = sl.load_dataset(data_set)
                except sl.recovery.DataNotFoundError as error:
                    loaded[data_set] = None
                    print(f"{data_set}: {error}", flush=True)
            if loaded[data_set] is None:
                continue
            row = measure(loaded[data_set], encoder, m, seed, args.device, args.n_test) | provenance(args.device)
            with args.out.open("a") as file:
                file.write(json.dumps(row) + "\n")
            print(
                f"{data_set} {encoder} m={m}: {row['exact']:.2%} exact, RMSE {row['rmse']:.3f}, "
                f"{row['train_s']:.0f} s to train, {row['decode_s']:.0f} s to decode {row.get('report_', '')}",
                flush=True,
            )


if __name__ == "__main__":
    main()
