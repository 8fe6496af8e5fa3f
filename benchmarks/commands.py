"""What a user waits for: the commands themselves, on a whole data set, each in a process of its own.

    python benchmarks/commands.py plan amazon                  # the answer, checked on the untouched test split
    python benchmarks/commands.py plan amazon --device cuda --seed 1
    python benchmarks/commands.py first amazon -m 60           # fit, encode, decode, evaluate
    python benchmarks/commands.py reproduce all -- --quick --jobs 2     # options after -- go to the command
    python benchmarks/commands.py reproduce fig2 --device cuda --folder FOLDER -- --data-sets amazon

Each run appends one line to benchmarks/results/commands.jsonl. `cpu_s` is the processor time of all processes, which
other work on the machine does not change; `seconds` is what a clock shows.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

STORE = Path(__file__).parent / "results" / "commands.jsonl"


def timed(*arguments: str) -> tuple[str, float, float]:
    """What a command prints, and the seconds and processor seconds that it took."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "sparselens", *arguments], stdout=subprocess.PIPE, text=True, check=False
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode > 1:
        raise SystemExit(f"sparselens {' '.join(arguments)} ended with {done.returncode}")
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return done.stdout, time.perf_counter() - start, cpu


def run(*arguments: str) -> tuple[dict[str, Any], float, float]:
    """What a command prints as JSON, and the seconds and processor seconds that it took."""
    printed, seconds, cpu = timed(*arguments, "--json")
    return json.loads(printed), seconds, cpu


def plan(data: str, target: float, seed: int, device: str, folder: Path) -> dict[str, Any]:
    """Plan, and see whether the answer holds on the test rows."""
    answer, seconds, cpu = run(
        "plan", data, "--target", str(target), "--seed", str(seed), "--device", device, "-o", str(folder / "plan")
    )
    m = answer["answers"]["Certificate"]
    trained = [row for row in answer["rows"] if row["encoder"] == "Certificate"]
    tested, _, _ = run("evaluate", answer["models"][str(m)], data, "--part", "test")
    return {
        "what": "plan",
        "data": data,
        "target": target,
        "seed": seed,
        "learned": m,
        "gaussian": answer["answers"]["Gaussian"],
        "factor": answer["factor"],
        "held_out_exact": next(row["exact"] for row in trained if row["m"] == m),
        "test_exact": tested["exact"],
        "test_interval": tested["exact_interval"],
        "n_trainings": len(trained),
        "seconds": seconds,
        "cpu_s": cpu,
    }


def first(data: str, m: int, seed: int, device: str, folder: Path) -> dict[str, Any]:
    """The four commands of a newcomer."""
    model, y, x = (str(folder / name) for name in ("model", "y.npz", "x.npz"))
    steps = {
        "fit": ("fit", data, "-m", str(m), "-o", model, "--seed", str(seed), "--device", device),
        "encode": ("encode", model, data, "--part", "test", "-o", y),
        "decode": ("decode", model, y, "-o", x),
        "evaluate": ("evaluate", model, data, "--part", "test"),
    }
    taken = {name: run(*arguments) for name, arguments in steps.items()}
    tested = taken["evaluate"][0]
    return {
        "what": "first",
        "data": data,
        "m": m,
        "seed": seed,
        "test_exact": tested["exact"],
        "certified": tested["certified"],
        "seconds": {name: seconds for name, (_, seconds, _) in taken.items()},
        "cpu_s": {name: cpu for name, (_, _, cpu) in taken.items()},
    }


def reproduce(name: str, device: str, options: list[str], folder: Path) -> dict[str, Any]:
    """A table or figure of the paper, or all of them, from nothing; the rows stay in `folder`."""
    if (folder / "results.jsonl").exists():
        raise SystemExit(
            f"{folder} holds results already: what is there is not run again, so that the time means nothing"
        )
    _, seconds, cpu = timed("reproduce", name, "--device", device, "-o", str(folder), *options)
    rows = [json.loads(line) for line in (folder / "results.jsonl").read_text(encoding="utf-8").splitlines()]
    status = Counter(row["status"] for row in rows)
    return {
        "what": "reproduce",
        "data": name,
        "options": " ".join(options),
        "cells": len(rows),
        "status": dict(status),
        "seconds": seconds,
        "cpu_s": cpu,
    }


def main() -> None:
    from facts import facts

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("plan", "first", "reproduce"))
    parser.add_argument("data", help="a data set's name; of reproduce, what to reproduce")
    parser.add_argument("-m", type=int, default=60)
    parser.add_argument("--target", type=float, default=0.99)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path, default=STORE)
    parser.add_argument("--folder", type=Path, help="of reproduce: where the rows stay")
    cut = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    options, passed_on = parser.parse_args(sys.argv[1:cut]), sys.argv[cut + 1 :]
    with tempfile.TemporaryDirectory() as home:
        if options.what == "plan":
            row = plan(options.data, options.target, options.seed, options.device, Path(home))
        elif options.what == "reproduce":
            row = reproduce(options.data, options.device, passed_on, options.folder or Path(home))
        else:
            row = first(options.data, options.m, options.seed, options.device, Path(home))
    row |= {"threads": int(os.environ.get("OMP_NUM_THREADS", os.cpu_count() or 1))} | facts(options.device)
    with open(options.out, "a", encoding="utf-8") as store:
        store.write(json.dumps(row) + "\n")
    print(json.dumps(row, indent=1))


if __name__ == "__main__":
    main()
