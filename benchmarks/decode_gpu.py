"""Decode the RCV1 (Mulan subsets) test rows on one device, verify every row there, and time each phase.

    PYTHONPATH=src python benchmarks/decode_gpu.py --data FOLDER --m 600 --out rows.jsonl

FOLDER holds X_30000x47236.npz and meta.npz. Each m adds one JSON row to the output file.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from pathlib import Path

import numpy as np
import scipy.sparse as sp
import torch

from sparselens._certificate_torch import TorchVerifier
from sparselens.decoders._path_torch import TorchPathEngine


def test_rows(folder: Path, n: int) -> sp.csr_array:
    """n of the distinct rows, drawn with a fixed seed."""
    X = sp.csr_array(sp.load_npz(folder / "X_30000x47236.npz"), dtype=np.float64)
    X = X[np.flatnonzero(np.load(folder / "meta.npz")["first_occurrence"])]
    return X[np.sort(np.random.default_rng(0).permutation(X.shape[0])[-n:])]


def measure(X: sp.csr_array, m: int, device: str, *, compile_kernels: bool | None, warm_up: int, seed: int) -> dict:
    """Times of each phase, and what came back."""
    d = X.shape[1]
    A = np.random.default_rng(seed).standard_normal((m, d)) / np.sqrt(m)
    Y = X @ A.T
    size = np.linalg.norm(Y, axis=1)
    unit = Y / size[:, None]
    clock = {}

    def timed(name, call):
        begin = time.perf_counter()
        out = call()
        if device.startswith("cuda"):
            torch.cuda.synchronize()
        clock[name] = time.perf_counter() - begin
        print(f"  m={m}: {name} {clock[name]:.2f} s", flush=True)
        return out

    engine = timed("bind", lambda: TorchPathEngine(A, positive=True, device=device, compile=compile_kernels))
    verifier = timed("bind_verifier", lambda: TorchVerifier(A, positive=True, device=device))
    if warm_up:
        timed("warm_up", lambda: engine.solve(unit[:warm_up]))
    engine.timings.clear()
    if device.startswith("cuda"):
        torch.cuda.reset_peak_memory_stats()
    found = timed("solve", lambda: engine.solve(unit))
    proof = timed("verify", lambda: verifier.optimal(unit, found.x, found.dual))
    claimed = np.flatnonzero(found.infeasible & ~proof.optimal)
    error = sp.csr_array(found.x.multiply(size[:, None])) - X
    error = np.sqrt(np.asarray(error.multiply(error).sum(axis=1)).ravel())
    row = {
        "benchmark": "decode_gpu",
        "data": "rcv1-mulan",
        "n": X.shape[0],
        "d": d,
        "m": m,
        "matrix": "gaussian",
        "seed": seed,
        "device": torch.cuda.get_device_name() if device.startswith("cuda") else platform.processor() or "cpu",
        "torch": torch.__version__,
        "seconds": clock,
        "solve_and_verify": clock["solve"] + clock["verify"],
        "attempts": [{"rows": r, "path": p, "polish": q} for r, p, q in engine.timings],
        "rows_at_once": engine.rows_at_once(),
        "gram_kept": engine.gram is not None,
        "fused": [bool(getattr(f, "works", lambda: False)()) for f in (engine.ratio, engine.rank_one)],
        "steps_mean": float(found.n_steps.mean()),
        "steps_quantiles_0_50_90_99_100": np.quantile(found.n_steps, [0, 0.5, 0.9, 0.99, 1]).tolist(),
        "certified": float(proof.optimal.mean()),
        "unique": float(proof.unique.mean()),
        "uncertified_rows": int((~proof.optimal).sum()),
        "infeasible": int(verifier.infeasible(unit[claimed], found.dual[claimed]).sum()),
        "exact_1e-10": float((error <= 1e-10).mean()),
        "exact_1e-6": float((error <= 1e-6).mean()),
        "certified_error_where_exact": float(error[error <= 1e-6].max(initial=0.0)),
        "largest_residual": float(proof.residual.max()),
        "largest_gap": float(np.abs(proof.gap).max()),
        "peak_gib": torch.cuda.max_memory_allocated() / 2**30 if device.startswith("cuda") else None,
    }
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with X_30000x47236.npz and meta.npz")
    parser.add_argument("--m", type=int, nargs="+", default=[600])
    parser.add_argument("--rows", type=int, default=4630)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--warm-up", type=int, default=256, help="rows of a first solve, which compiles; 0: none")
    parser.add_argument("--eager", action="store_true", help="without torch.compile")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    X = test_rows(args.data, args.rows)
    for m in args.m:
        row = measure(
            X, m, args.device, compile_kernels=False if args.eager else None, warm_up=args.warm_up, seed=args.seed
        )
        print(json.dumps(row, indent=1), flush=True)
        if args.out:
            with args.out.open("a") as file:
                file.write(json.dumps(row) + "\n")
        if args.device.startswith("cuda"):
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
