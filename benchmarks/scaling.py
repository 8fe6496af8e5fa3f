"""How the time and the memory of encode_file and decode_file grow with n, d and m.

    python benchmarks/scaling.py                      # up to a million rows
    python benchmarks/scaling.py --cases n10000000    # ten million rows: some minutes, 6 GB of disk
    python benchmarks/scaling.py --cases dask         # two Dask workers against one process (needs the extra dask)

Every case runs in a process of its own. Rows have one nonzero in each of k equal parts of the columns, the matrix is
Gaussian. Seconds are those of the processor, over all processes of the case, so that other work on the machine counts
little; the peak is the largest resident memory of the process. The Dask case compares times on the wall, in turns, and
the seconds of all processors together: twice their ratio is what two free cores give. Results are appended to a
JSON-lines file.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import scipy.sparse as sp

from facts import facts

_K = 3
_BLOCK = 100_000
CASES: dict[str, tuple[int, int, int]] = {
    **{f"n{n}": (n, 200, 30) for n in (10_000, 100_000, 1_000_000, 10_000_000)},
    **{f"d{d}": (5_000, d, 60) for d in (500, 2_000, 8_000, 32_000)},
    **{f"m{m}": (5_000, 2_000, m) for m in (30, 60, 120, 240)},
}
_QUICK = [name for name in CASES if name != "n10000000"]


def rows(n: int, d: int, seed: int) -> sp.csr_array:
    """n rows with one nonzero in each of k equal parts of the columns."""
    rng = np.random.default_rng(seed)
    part = d // _K
    columns = np.arange(_K) * part + rng.integers(0, part, (n, _K))
    return sp.csr_array(
        (rng.uniform(0.1, 1.0, n * _K), columns.ravel().astype(np.int32), np.arange(0, n * _K + 1, _K)), shape=(n, d)
    )


def write_rows(path: Path, n: int, d: int) -> None:
    """The rows as an uncompressed CSR file, a block at a time."""
    from sparselens._parts import Parts

    arrays = {"data": ("<f8", ()), "indices": ("<i4", ()), "indptr": ("<i8", ())}
    with Parts(path, arrays, job={}, resume=False) as parts:
        for start in range(0, n, _BLOCK):
            block = rows(min(_BLOCK, n - start), d, seed=start)
            ends = start * _K + block.indptr.astype(np.int64)
            parts.append(
                block.shape[0],
                {"data": block.data, "indices": block.indices, "indptr": ends[(1 if start else 0) :]},
                {},
            )
        parts.become_npz({"format": b"csr", "shape": np.array([n, d]), "_is_array": True})


def peak_mb() -> int:
    """The largest resident memory that this process has had."""
    status = Path("/proc/self/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))) // 1024


def one(what: str, folder: Path, n: int, d: int, m: int) -> None:
    """One measurement, in a process of its own; prints a row."""
    import sparselens as sl

    if what == "prepare":
        write_rows(folder / "x.npz", n, d)
        sl.GaussianEncoder(m, random_state=0).fit(rows(1000, d, seed=0)).save(folder / "model")
        return
    enc = sl.load(folder / "model")
    if what == "decode":
        enc.decoder().decode(enc.transform(rows(64, d, seed=1)))  # compiled before the clock starts
    before = peak_mb()
    start, wall = time.process_time(), time.perf_counter()
    source, out = ("x.npz", "y.npz") if what == "encode" else ("y.npz", "back.npz")
    report = (sl.encode_file if what == "encode" else sl.decode_file)(enc, folder / source, folder / out)
    row = {
        "what": what,
        "n": n,
        "d": d,
        "m": m,
        "k": _K,
        "cpu_s": round(time.process_time() - start, 3),
        "wall_s": round(time.perf_counter() - wall, 3),
        "peak_mb": peak_mb(),
        "peak_mb_before": before,
        "in_mb": round((folder / source).stat().st_size / 2**20, 1),
        "out_mb": round(report.n_bytes / 2**20, 1),
    }
    if what == "decode":
        row["certified"] = report.n_certified / report.n_rows
        row["exact"] = _exact(folder / "x.npz", folder / "back.npz") / n
    print(json.dumps(row))


def _exact(left: Path, right: Path) -> int:
    """Rows that came back within 1e-10, compared a block at a time."""
    from sparselens.data.rows import open_rows

    pairs = zip(open_rows(left).blocks(_BLOCK), open_rows(right).blocks(_BLOCK), strict=True)
    return sum(int((sp.csr_array(a - b).power(2).sum(axis=1) <= 1e-20).sum()) for a, b in pairs)


def measure(name: str) -> Iterator[dict[str, Any]]:
    n, d, m = CASES[name]
    with tempfile.TemporaryDirectory() as folder:
        for what in ("prepare", "encode", "decode"):
            asked = json.dumps({"what": what, "folder": folder, "n": n, "d": d, "m": m})
            done = subprocess.run(
                [sys.executable, __file__, "--one", asked], stdout=subprocess.PIPE, text=True, check=True
            )
            if done.stdout:
                yield {"case": name} | json.loads(done.stdout) | facts()


def dask(turns: int = 3) -> Iterator[dict[str, Any]]:
    """The same decode in one process, in two processes and on two Dask workers, in turns."""
    import distributed

    import sparselens as sl

    X = rows(60_000, 8000, seed=0)
    enc = sl.GaussianEncoder(60, random_state=0).fit(X[:1000])
    with (
        tempfile.TemporaryDirectory() as home,
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
    ):
        folder = Path(home)
        sl.encode_file(enc, X, folder / "y.npz")
        ways: dict[str, dict[str, Any]] = {
            "one process": {},
            "two processes": {"n_jobs": 2},
            "two Dask workers": {"engine": "dask", "scheduler": cluster.scheduler_address},
        }
        times: dict[str, list[float]] = {way: [] for way in ways}
        work: dict[str, list[float]] = {way: [] for way in ways}
        for turn in range(turns + 1):  # the first one compiles and starts processes
            for way, options in ways.items():
                start, before = time.perf_counter(), _processor_seconds()
                report = sl.decode_file(enc, folder / "y.npz", folder / "x.npz", block_rows=3000, **options)
                if turn:
                    times[way].append(time.perf_counter() - start)
                    work[way].append(_processor_seconds() - before)
                assert report.n_certified == report.n_rows
        for way in ways:
            ratio = median(a / b for a, b in zip(times["one process"], times[way], strict=True))
            yield {
                "case": "dask",
                "what": way,
                "n": X.shape[0],
                "d": X.shape[1],
                "m": 60,
                "wall_s": round(median(times[way]), 3),
                "speed": round(ratio, 3),
                "cpu_s": round(median(work[way]), 3),
                "efficiency": round(median(a / b for a, b in zip(work["one process"], work[way], strict=True)), 3),
                "speeds": [round(a / b, 2) for a, b in zip(times["one process"], times[way], strict=True)],
                "load": [round(load, 1) for load in os.getloadavg()],
            } | facts()


def _processor_seconds() -> float:
    """Of this process and all that it started, on whatever core: what other work on the machine does not change."""
    import psutil

    me = psutil.Process()
    return sum(sum(process.cpu_times()[:2]) for process in (me, *me.children(recursive=True)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", default=",".join(_QUICK), help="names, comma separated")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "scaling.jsonl")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        asked = json.loads(options.one)
        one(asked["what"], Path(asked["folder"]), asked["n"], asked["d"], asked["m"])
        return
    for name in options.cases.split(","):
        for row in dask() if name == "dask" else measure(name):
            print({key: value for key, value in row.items() if key not in ("version", "commit", "date", "hardware")})
            with options.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
