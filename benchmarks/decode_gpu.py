"""Decode a whole test set on a GPU, every row verified, and time each phase.

    SPARSELENS_DATA=... python benchmarks/decode_gpu.py --m 600 --out benchmarks/results/decode_gpu.jsonl

The first decode compiles kernels; it is done on a few rows and timed apart.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

import sparselens as sl
from facts import facts


def measure(X: Any, m: int, device: str, *, data: str, warm_up: int, seed: int) -> dict[str, Any]:
    """Seconds of each phase, and what came back."""
    A = np.random.default_rng(seed).standard_normal((m, X.shape[1])) / np.sqrt(m)
    Y = np.ascontiguousarray(X @ A.T)
    seconds, last = {}, time.perf_counter()

    def lap(name: str) -> None:
        nonlocal last
        now = time.perf_counter()
        seconds[name], last = now - last, now
        print(f"m={m}: {name} {seconds[name]:.2f} s", flush=True)

    decoder = sl.L1Decoder(positive=True, method="path", device=device).bind(A)
    lap("bind")
    decoder.decode(Y[:warm_up])
    lap("warm_up")
    rec = decoder.decode(Y)
    lap("decode")
    report = sl.recovery_report(X, rec)
    return {
        "data": data,
        "device": device,
        "m": m,
        "d": X.shape[1],
        "n": X.shape[0],
        "seed": seed,
        "seconds": seconds,
        "steps_mean": float(rec.n_steps.mean()),
        "steps_max": int(rec.n_steps.max()),
        "exact_1e10": report.exact,
        "exact_1e6": report.exact_1e6,
        "certified": report.certified,
        "unique": report.unique,
        "largest_gap": float(np.nanmax(np.abs(rec.gap))),
        "largest_residual": float(np.nanmax(rec.residual)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="rcv1-mulan", help="name of a data set")
    parser.add_argument("--m", type=int, nargs="+", default=[600])
    parser.add_argument("--rows", type=int, default=None, help="test rows; by default all")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--warm-up", type=int, default=256)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    X = sl.load_dataset(arguments.data).test[: arguments.rows]
    for m in arguments.m:
        row = measure(
            X, m, arguments.device, data=arguments.data, warm_up=arguments.warm_up, seed=arguments.seed
        ) | facts(arguments.device)
        print(json.dumps(row, indent=1), flush=True)
        if arguments.out:
            with arguments.out.open("a") as file:
                file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
