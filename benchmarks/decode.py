"""Decode the same measurements with sparselens and with other solvers, in turns, and compare.

    python benchmarks/decode.py                          # the synthetic cases, one thread
    python benchmarks/decode.py --cases amazon,rcv1      # real data under SPARSELENS_DATA
    python benchmarks/decode.py --cases scaling          # how time grows with d, m and n
    python benchmarks/decode.py --cases processes --budget 100   # one process and two, all of Amazon's test rows
    python benchmarks/decode.py --threads 2              # ours on two processes, the others on two threads

Each solver lives in a process of its own (OR-tools and highspy cannot share one) and they take turns on identical
linear programs; a turn's ratio is its time over ours in the same turn, and the table shows medians over turns.
The seconds count solving alone: for sparselens they include the certificate of every row. A peer is given as
many rows as fit in its time budget. Results are appended to a JSON-lines file, one row for each case and solver.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

HERE = Path(__file__).parent
OURS = "sparselens"
TWO = "sparselens, two processes"


@dataclass(frozen=True)
class Case:
    """One matrix and rows measured with it."""

    name: str
    A: np.ndarray
    X: Any  # CSR rows
    positive: bool = True
    peers: tuple[str, ...] | None = None  # None: all


def cases(names: list[str], seed: int) -> Iterator[Case]:
    """The problems of the table, by name."""
    import sparselens as sl

    def gaussian(m: int, d: int) -> np.ndarray:
        return np.random.default_rng(seed).standard_normal((m, d)) / np.sqrt(m)

    for name in names:
        if name == "synthetic":
            X = sl.load_dataset("synthetic1", random_state=seed).test
            for m in (30, 50, 70):
                yield Case(f"Synthetic1, Gaussian, m={m}", gaussian(m, 1000), X)
            signs = X.copy()
            signs.data *= np.random.default_rng(seed).choice([-1.0, 1.0], len(signs.data))
            yield Case("Synthetic1 signed, Gaussian, m=70", gaussian(70, 1000), signs, positive=False)
        elif name == "amazon":
            X = sl.load_dataset("amazon").test
            few = ("scipy HiGHS", "highspy, slack basis", "sklearn lars_path")
            yield Case("Amazon, Gaussian, m=120", gaussian(120, X.shape[1]), X, peers=few)
        elif name == "processes":
            X = sl.load_dataset("amazon").test
            yield Case("Amazon, Gaussian, m=120, all rows", gaussian(120, X.shape[1]), X, peers=(TWO,))
        elif name == "rcv1":
            X = sl.load_dataset("rcv1-mulan").test
            yield Case("RCV1 (Mulan subsets), Gaussian, m=1000", gaussian(1000, X.shape[1]), X[:400], peers=())
        elif name == "scaling":
            for d, m, n in _GROWTH:
                rng = np.random.default_rng(seed)
                X = _random_rows(n, d, 10, rng)
                yield Case(f"10 nonzeros, d={d}, m={m}, n={n}", gaussian(m, d), X, peers=("highspy, slack basis",))
        else:
            raise SystemExit(f"no case is called {name!r}: choose from synthetic, amazon, processes, rcv1, scaling")


_GROWTH = (
    *((d, 60, 500) for d in (500, 1000, 2000, 4000, 8000, 16000, 32000)),
    *((2000, m, 500) for m in (30, 60, 120, 240)),
    *((2000, 60, n) for n in (100, 1000, 10000)),
)


def _random_rows(n: int, d: int, k: int, rng: np.random.Generator) -> Any:
    import scipy.sparse as sp

    columns = np.array([rng.choice(d, k, replace=False) for _ in range(n)])
    values = rng.uniform(0, 1, (n, k))
    values /= np.linalg.norm(values, axis=1, keepdims=True)
    return sp.csr_array((values.ravel(), columns.ravel(), np.arange(0, n * k + 1, k)), shape=(n, d))


class Worker:
    """A solver in a process of its own."""

    def __init__(self, solver: str, threads: int) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs, solver, threads))
        self.process.start()

    def ask(self, *message: Any) -> Any:
        self.pipe.send(message)
        answer = self.pipe.recv()
        if isinstance(answer, Exception):
            raise answer
        return answer

    def close(self) -> None:
        self.pipe.send(("stop",))
        self.process.join(10)
        self.process.kill()


def _serve(pipe: Any, solver: str, threads: int) -> None:
    """Answer ("prepare", A, positive) and ("solve", Y) until ("stop",)."""
    import threadpoolctl

    threadpoolctl.threadpool_limits(threads)
    sys.path.insert(0, str(HERE))
    solve = None
    while True:
        kind, *arguments = pipe.recv()
        try:
            if kind == "stop":
                return
            if kind == "prepare":
                start = time.perf_counter()
                solve = _prepare(solver, threads, *arguments)
                pipe.send(time.perf_counter() - start)
            else:
                start = time.perf_counter()
                answer = solve(*arguments)
                seconds = time.perf_counter() - start
                peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
                pipe.send((answer, seconds, peak))
        except Exception as error:  # handed to the parent, which reports it in the table
            pipe.send(RuntimeError(f"{type(error).__name__}: {error}"))


def _prepare(solver: str, threads: int, A: np.ndarray, positive: bool) -> Any:
    if solver == OURS:
        from sparselens import L1Decoder

        return L1Decoder(positive=positive, n_jobs=threads if threads > 1 else None).bind(A).decode
    if solver == TWO:
        from sparselens import L1Decoder

        decode = L1Decoder(positive=positive, n_jobs=2).bind(A).decode
        return lambda Y: decode(Y).x
    from peers import PEERS

    return PEERS[solver](A, positive, threads)


def run_case(case: Case, solvers: list[str], *, turns: int, budget: float, threads: int) -> Iterator[dict[str, Any]]:
    """One result for each solver."""
    from sparselens.certificate import verify

    Y = np.ascontiguousarray(case.X @ np.ascontiguousarray(case.A.T))
    workers: dict[str, Worker] = {}
    results: dict[str, dict[str, Any]] = {}
    wanted = [OURS, *(s for s in solvers if (s != TWO if case.peers is None else s in case.peers))]
    rows: dict[str, int] = {}
    for solver in wanted:
        base = {"case": case.name, "solver": solver, "m": len(case.A), "d": case.A.shape[1], "threads": threads}
        results[solver] = base
        worker = Worker(solver, threads)
        try:
            base["prepare_seconds"] = worker.ask("prepare", case.A, case.positive)
            if solver == TWO:  # starts its processes, and is given all rows
                worker.ask("solve", Y)
                rows[solver] = len(Y)
            else:
                worker.ask("solve", Y[:1])  # warm up: imports, compilation
                _, seconds, _ = worker.ask("solve", Y[1:3])
                rows[solver] = int(np.clip(budget / max(seconds / 2, 1e-6), 1, len(Y)))
            workers[solver] = worker
        except RuntimeError as error:
            base["reason"] = str(error)
            worker.close()
    times: dict[str, list[float]] = {solver: [] for solver in workers}
    answers: dict[str, Any] = {}
    for _ in range(turns):
        for solver, worker in workers.items():
            answer, seconds, peak = worker.ask("solve", Y[: rows[solver]])
            times[solver].append(1e3 * seconds / rows[solver])
            answers[solver], results[solver]["peak_mb"] = answer, round(peak)
    for worker in workers.values():
        worker.close()
    ours = answers[OURS]
    for solver in wanted:
        result = results[solver]
        if solver in answers:
            n = rows[solver]
            found = ours.x if solver == OURS else answers[solver]
            error = _errors(found, case.X[:n])
            proof = verify(case.A, Y[:n], found, ours.dual[:n], positive=case.positive)
            result |= {
                "rows": n,
                "turns": turns,
                "ms_per_row": median(times[solver]),
                "ratio": median(a / b for a, b in zip(times[solver], times[OURS], strict=True)),
                "exact_1e10": float(np.mean(error <= 1e-10)),
                "exact_1e6": float(np.mean(error <= 1e-6)),
                "certified": float(np.mean(proof.optimal)),
            }
            if solver == OURS:
                result["steps"] = float(np.mean(ours.n_steps))
        yield result


def _errors(found: Any, truth: Any) -> np.ndarray:
    import scipy.sparse as sp

    from sparselens.metrics import row_errors

    return row_errors(truth, sp.csr_array(found))


def print_table(results: list[dict[str, Any]]) -> None:
    head = ("case", "solver", "rows", "ms/row", "ratio", "1e-10", "1e-6", "certified", "peak MB")
    lines = [
        (
            r["case"],
            r["solver"],
            *(
                (r["reason"], *[""] * 6)
                if "reason" in r
                else (
                    f"{r['rows']}",
                    f"{r['ms_per_row']:.3f}",
                    f"{r['ratio']:.1f}",
                    f"{r['exact_1e10']:.3f}",
                    f"{r['exact_1e6']:.3f}",
                    f"{r['certified']:.3f}",
                    f"{r['peak_mb']}",
                )
            ),
        )
        for r in results
    ]
    widths = [max(len(line[i]) for line in (head, *lines)) for i in range(len(head))]
    for line in (head, *lines):
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)))


def main() -> None:
    from facts import facts
    from peers import PEERS

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", default="synthetic", help="synthetic, amazon, processes, rcv1, scaling; with commas")
    parser.add_argument("--solvers", default=",".join(PEERS), help="peers to run, with ';' or ',' between them")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--budget", type=float, default=1.0, help="seconds a solver may use in one turn")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=HERE / "results" / "decode.jsonl")
    arguments = parser.parse_args()
    solvers = [TWO, *(name for name in PEERS if name in arguments.solvers)]
    where, results = facts(), []
    for case in cases(arguments.cases.split(","), arguments.seed):
        for result in run_case(
            case, solvers, turns=arguments.turns, budget=arguments.budget, threads=arguments.threads
        ):
            results.append(result)
            arguments.out.parent.mkdir(parents=True, exist_ok=True)
            with arguments.out.open("a") as file:
                file.write(json.dumps(result | where) + "\n")
        print(f"done: {case.name}", file=sys.stderr)
    print_table(results)


if __name__ == "__main__":
    sys.path.insert(0, str(HERE))
    main()
