"""How fast encoding is, against the bare product of a CSR matrix with a dense one, in turns on one thread.

    python benchmarks/encode.py                 # synthetic1
    python benchmarks/encode.py --cases all     # and amazon and rcv1-mulan under SPARSELENS_DATA
    python benchmarks/encode.py --cases lossless    # sizes of lossless files

`transform` checks its rows and multiplies; `encode_file` also reads them from an uncompressed npz file and writes the
measurements. Times are of the processor, so that other work on the machine counts little; a row holds medians over
turns, and the ratio is the median of the turns' ratios. Results are appended to a JSON-lines file.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import scipy.sparse as sp

import sparselens as sl
from facts import facts

CASES = {"synthetic1": (20, 60), "amazon": (20, 60, 120), "rcv1-mulan": (200,)}


def rows_of(name: str) -> sp.csr_array:
    data = sl.load_dataset(name, random_state=0)
    rows = sp.vstack([data.train, data.valid, data.test], format="csr")
    return sp.csr_array(sp.vstack([rows] * max(1, 100_000 // rows.shape[0]), format="csr"))


def seconds(work: Callable[[], Any]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def measure(name: str, turns: int) -> Iterator[dict[str, Any]]:
    X = rows_of(name)
    with tempfile.TemporaryDirectory() as folder:
        source, out = Path(folder) / "x.npz", Path(folder) / "y.npy"
        sp.save_npz(source, X, compressed=False)
        for m in CASES[name]:
            enc = sl.GaussianEncoder(m, random_state=0).fit(X[:2000])
            B = np.ascontiguousarray(enc.components_.T)
            work = {
                "product": lambda B=B: X @ B,
                "transform": lambda enc=enc: enc.transform(X),
                "encode_file": lambda enc=enc: sl.encode_file(enc, source, out),
            }
            times = {key: [] for key in work}
            for _ in range(turns):
                for key, function in work.items():
                    times[key].append(seconds(function))
            ratios = {
                key: median(a / b for a, b in zip(times["product"], times[key], strict=True))
                for key in ("transform", "encode_file")
            }
            yield {
                "case": f"{name}, m={m}",
                "n": X.shape[0],
                "d": X.shape[1],
                "m": m,
                "nnz": int(X.nnz),
                "seconds": {key: round(median(values), 5) for key, values in times.items()},
                "speed_of_product": {key: round(value, 3) for key, value in ratios.items()},
                "turns": turns,
            } | facts()


def lossless() -> Iterator[dict[str, Any]]:
    """Sizes of lossless files; every row is given back and checked."""
    for name, m in (("synthetic1", 70), ("amazon", 120)):
        X = sl.load_dataset(name, random_state=0).test
        X = sp.csr_array(X[:2000])
        enc = sl.GaussianEncoder(m, random_state=0).fit(X)
        with tempfile.TemporaryDirectory() as folder:
            report = sl.encode_file(enc, X, Path(folder) / "y.npz", lossless=True)
            back = sl.decode_file(enc, Path(folder) / "y.npz", Path(folder) / "x.npz")
        yield {
            "case": f"{name}, Gaussian, m={m}",
            "n": X.shape[0],
            "measured": report.sizes["rows_measured"],
            "kept": report.sizes["rows_kept"],
            "given_back": back.n_certified,
            "bytes": report.n_bytes,
            "bytes_npz": report.sizes["npz"],
            "bytes_gzip": report.sizes["gzip"],
            "bytes_dense": 8 * X.shape[0] * X.shape[1],
        } | facts()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", default="synthetic1", help="names, comma separated, or all")
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "encode.jsonl")
    options = parser.parse_args()
    names = list(CASES) if options.cases == "all" else options.cases.split(",")
    for name in names:
        out = options.out.with_name("lossless.jsonl") if name == "lossless" else options.out
        for row in lossless() if name == "lossless" else measure(name, options.turns):
            print(row)
            with out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
