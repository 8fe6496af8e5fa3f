"""Seconds an epoch, seconds to the paper's quality, memory: the training of the encoders, case by case.

    python benchmarks/train.py                                        # one epoch against a plain autograd loop
    python benchmarks/train.py --cases synthetic1-m10,synthetic1-m20  # to early stop, with the exact decoder
    python benchmarks/train.py --cases baselines                      # ISTA-AE, simple AE, 4-layer AE at m = 10
    python benchmarks/train.py --cases depth,patience                 # m = 20, T = 30; early stopping on Synthetic2
    python benchmarks/train.py --device cuda --cases rcv1-epoch,amazon-m40,amazon-m80 --data FOLDER --out FILE
    python benchmarks/train.py --device cuda --cases together --data FOLDER   # many networks of one shape at once
    python benchmarks/train.py --cases growth                         # as n, d, m and T grow
    python benchmarks/train.py --cases rcv1-memory --data FOLDER      # peak memory of a fit on a CPU

Each case prints one line and appends one row of JSON to --out. A training ends at --seconds at the latest; the row
says what stopped it. Times are those of this machine as it is: compare within one run only.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from statistics import median
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

Row = dict[str, Any]


def epoch_against_a_plain_loop(options: argparse.Namespace) -> Iterator[Row]:
    """Synthetic1, m = 20, T = 10: our epoch and one of a loop as one writes it first, in turns."""
    import sparselens as sl
    from sparselens._batches import SparseRows
    from sparselens.encoders.autoencoders import Reconstruction
    from sparselens.train import Settings, choose_device, train
    from sparselens.unroll import UnrolledNetwork, truncated_normal

    device = choose_device(options.device)
    data = sl.load_dataset("synthetic1", random_state=options.seed)
    m, T, size = 20, 10, 128
    A = truncated_normal((m, data.train.shape[1]), seed=options.seed)
    task = Reconstruction(
        UnrolledNetwork(A, n_steps=T),
        SparseRows(data.train, device=device),
        SparseRows(data.valid[:1], device=device),
        learning_rate=0.01,
        batch_size=size,
    )
    plain = UnrolledNetwork(A, n_steps=T).to(device)
    optimizer = torch.optim.SGD(plain.parameters(), lr=0.01)
    X = torch.tensor(data.train.toarray(), dtype=torch.float32, device=device)

    def plain_epoch() -> None:
        order = torch.randperm(len(X), device=device)
        for start in range(0, len(X), size):
            x = X[order[start : start + size]]
            loss = (plain(x @ plain.A.t()) - x).square().sum(1).mean()
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()

    turn = iter(range(1, 1000))

    def our_epoch() -> None:
        train(task, Settings(batch_size=size, max_epochs=1, seed=next(turn)))

    plain_epoch(), our_epoch()  # compile and warm up
    ours, theirs = [], []
    for _ in range(options.repeat):
        theirs.append(_seconds(plain_epoch, device))
        ours.append(_seconds(our_epoch, device))
    ratios = sorted(a / b for a, b in zip(theirs, ours, strict=True))
    yield {
        "case": "epoch",
        "seconds_per_epoch": median(ours),
        "plain_seconds_per_epoch": median(theirs),
        "times_faster": median(ratios),
        "times_faster_range": [ratios[0], ratios[-1]],
    }


def quality(name: str, make: Callable[[], Any], dataset: str, options: argparse.Namespace) -> Row:
    """Train to early stop and decode the whole test set."""
    import sparselens as sl

    data = sl.load_dataset(dataset, random_state=options.seed) if dataset[:3] == "syn" else sl.load_dataset(dataset)
    encoder = make()
    began = time.perf_counter()
    encoder.fit(data.train, X_valid=data.valid, callback=lambda event: event.seconds > options.seconds)
    trained = time.perf_counter() - began
    row = {"case": name, "encoder": repr(encoder), "train_seconds": trained} | _course(encoder, trained)
    Y = encoder.transform(data.test)
    row["own_decoder_rmse"] = sl.metrics.rmse(data.test, encoder.decoder_.decode(Y).x)
    if hasattr(encoder, "components_"):
        began = time.perf_counter()
        recovery = sl.L1Decoder(method=options.method).bind(encoder.components_).decode(Y, keep_dual=False)
        row |= {"decode_seconds": time.perf_counter() - began}
        row |= sl.recovery_report(data.test, recovery).as_dict()
    return row


def synthetic(m: int, options: argparse.Namespace, **overrides: Any) -> Row:
    import sparselens as sl

    def make() -> Any:
        return sl.L1AE.preset("synthetic1", n_components=m, **_common(options), **overrides)

    return quality(f"synthetic1, l1-AE, m={m}, {overrides or 'T=10'}", make, "synthetic1", options)


def amazon(m: int, options: argparse.Namespace) -> Row:
    import sparselens as sl

    def make() -> Any:
        # the paper's patience of 1 stops on the noise of a validation at every epoch
        return sl.L1AE.preset("amazon", n_components=m, patience=5, **_common(options))

    return quality(f"amazon, l1-AE, m={m}, T=60, patience=5", make, "amazon", options)


def baselines(options: argparse.Namespace) -> Iterator[Row]:
    """The other autoencoders of the paper on Synthetic1 at m = 10."""
    import sparselens as sl

    for cls in (sl.ISTAAE, sl.SimpleAE, sl.DeepAE):
        yield quality(
            f"synthetic1, {cls.__name__}, m=10", lambda cls=cls: cls(10, **_common(options)), "synthetic1", options
        )


def patience(options: argparse.Namespace) -> Iterator[Row]:
    """Synthetic2 at m = 30: the paper's patience of 1 validation, and longer ones."""
    import sparselens as sl

    for wait in (1, 5, 20):
        yield quality(
            f"synthetic2, l1-AE, m=30, T=5, patience={wait}",
            lambda wait=wait: sl.L1AE.preset("synthetic2", n_components=30, patience=wait, **_common(options)),
            "synthetic2",
            options,
        )


def rcv1(options: argparse.Namespace, *, epochs: int = 4, name: str = "rcv1-epoch") -> Row:
    """Seconds an epoch of 13,889 RCV1 (Mulan subsets) rows, m = 400, T = 10, batch 256; the first epoch is dropped."""
    import sparselens as sl

    data = sl.load_dataset("rcv1-mulan")
    ends: list[float] = []
    encoder = sl.L1AE.preset("rcv1", n_components=400, **_common(options))
    encoder.set_params(max_epochs=epochs, validation_interval=epochs)

    def callback(event: Any) -> bool:
        ends.append(event.seconds)
        return event.seconds > options.seconds

    encoder.fit(data.train, X_valid=data.valid[:256], callback=callback)
    steady = np.diff(ends[:-1]) if len(ends) > 2 else np.diff([0.0, *ends])  # the last epoch is validated too
    row = {"case": name, "rows": data.train.shape[0], "seconds_per_epoch": float(np.median(steady))}
    row |= {"epoch_ends": ends, "train_loss": encoder.history_["train_loss"]}
    if torch.cuda.is_available():
        row["gpu_gigabytes"] = torch.cuda.max_memory_allocated() / 1e9
    return row


def growth(options: argparse.Namespace) -> Iterator[Row]:
    """Seconds an epoch and peak memory while one of n, d, m and T grows; each in a process of its own."""
    base = {"n": 2000, "d": 2000, "m": 40, "T": 10}
    values = {"n": (1000, 4000, 16000), "d": (1000, 4000, 16000), "m": (10, 40, 160), "T": (5, 10, 20)}
    for axis, sizes in values.items():
        for size in sizes:
            sizes_now = base | {axis: size}
            command = [sys.executable, __file__, "--one", json.dumps(sizes_now), "--device", options.device]
            found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            yield {"case": f"growth, {axis}={size}", **sizes_now, **found}


def one_size(sizes: dict[str, int], options: argparse.Namespace) -> Row:
    import sparselens as sl

    rng = np.random.default_rng(0)
    n, d = sizes["n"], sizes["d"]
    X = sp.csr_array((np.full(10 * n, 0.1**0.5), rng.integers(d, size=10 * n), 10 * np.arange(n + 1)), shape=(n, d))
    ends: list[float] = []
    encoder = sl.L1AE(sizes["m"], n_steps=sizes["T"], max_epochs=6, beta=0.1, random_state=0, device=options.device)
    encoder.set_params(learning_rate=1e-4, validation_interval=6)
    before = _peak_gigabytes()
    # processor time, where there is one thread: what else the machine does counts less
    now = time.process_time if options.device == "cpu" and options.threads == 1 else time.perf_counter
    encoder.fit(X, X_valid=X[:100], callback=lambda event: ends.append(now()))
    steady = np.diff(ends[:-1])  # the first epoch compiles, the last one is validated too
    peak = _peak_gigabytes()
    return {"seconds_per_epoch": median(steady), "peak_gigabytes": peak, "gigabytes_of_the_fit": peak - before}


def together(options: argparse.Namespace) -> Iterator[Row]:
    """An epoch of many networks at once against one of the largest of them alone."""
    yield together_on("synthetic1", (10, 20, 30, 40, 50, 60, 70), range(10), 30, options)
    yield together_on("synthetic1", (20,), range(10), 30, options)
    if "SPARSELENS_DATA" in os.environ:
        yield together_on("amazon", (20, 40, 60, 80, 100, 120), (0,), 4, options)
        yield together_on("rcv1", (200, 400, 600, 800, 1000, 1200), (0,), 3, options)


def together_on(name: str, ms: tuple[int, ...], seeds: Sequence[int], epochs: int, options: argparse.Namespace) -> Row:
    import sparselens as sl

    data = sl.load_dataset("rcv1-mulan" if name == "rcv1" else name, **({"random_state": 0} if "syn" in name else {}))
    ends: list[float] = []

    def callback(event: Any) -> bool:
        ends.append(event.seconds)
        return len(ends) > epochs

    def seconds_per_epoch(fit: Callable[..., Any], *given: Any) -> float:
        ends.clear()
        fit(*given, X_valid=data.valid, callback=callback)
        return median(b - a for a, b in pairwise(ends))

    def make(m: int, seed: int) -> Any:
        return sl.L1AE.preset(
            name, n_components=m, random_state=seed, device=options.device, matmul_precision=options.precision
        )

    many = [make(m, seed) for m in ms for seed in seeds]
    at_once = seconds_per_epoch(sl.fit_together, many, data.train)
    alone = seconds_per_epoch(make(max(ms), 0).fit, data.train)
    return {
        "case": "together",
        "data": name,
        "m": list(ms),
        "networks": len(many),
        "seconds_per_epoch": at_once,
        "seconds_per_epoch_alone": alone,
        "times_faster": len(many) * alone / at_once,
    }


CASES: dict[str, Callable[[argparse.Namespace], Any]] = {
    "epoch": epoch_against_a_plain_loop,
    "synthetic1-m10": lambda options: synthetic(10, options),
    "synthetic1-m20": lambda options: synthetic(20, options),
    "synthetic1-m30": lambda options: synthetic(30, options),
    "depth": lambda options: synthetic(20, options, n_steps=30),
    "baselines": baselines,
    "patience": patience,
    "amazon-m40": lambda options: amazon(40, options),
    "amazon-m80": lambda options: amazon(80, options),
    "rcv1-epoch": rcv1,
    "rcv1-memory": lambda options: rcv1(options, epochs=1, name="rcv1-memory"),
    "growth": growth,
    "together": together,
}


def _common(options: argparse.Namespace) -> Row:
    return {"random_state": options.seed, "device": options.device, "matmul_precision": options.precision}


def _course(encoder: Any, seconds: float) -> Row:
    history = encoder.history_
    return {
        "epochs": history["n_epochs"],
        "seconds_per_epoch": seconds / max(history["n_epochs"], 1),
        "stopped_by": history["stopped_by"],
        "valid_loss": history["best"],
    }


def _seconds(action: Callable[[], None], device: torch.device) -> float:
    began = time.perf_counter()
    action()
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - began


def _peak_gigabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9  # Linux counts in KiB


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", default="epoch", help=f"comma separated, from {', '.join(CASES)}")
    parser.add_argument("--device", default="cpu", help="cpu, cuda or auto")
    parser.add_argument("--data", help="the folder of the real data sets (SPARSELENS_DATA)")
    parser.add_argument("--out", help="append rows of JSON to this file")
    parser.add_argument("--seconds", type=float, default=900.0, help="longest training of one case")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--repeat", type=int, default=7, help="turns of the epoch case")
    parser.add_argument("--threads", type=int, default=1, help="threads of torch on the CPU")
    parser.add_argument("--precision", default="high", help="high (TF32 on a GPU) or highest")
    parser.add_argument("--method", default="auto", help="method of L1Decoder")
    parser.add_argument("--no-compile", action="store_true", help="leave the passes on a GPU to eager torch")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.data:
        os.environ["SPARSELENS_DATA"] = options.data
    if options.no_compile:
        from sparselens import _closed_form

        _closed_form.COMPILE = False
    if options.one:
        print(json.dumps(one_size(json.loads(options.one), options)))
        return
    from facts import facts

    unknown = [name for name in options.cases.split(",") if name not in CASES]
    if unknown:
        parser.error(f"no case is called {unknown[0]!r}: choose from {', '.join(CASES)}")
    for name in options.cases.split(","):
        found = CASES[name](options)
        for row in [found] if isinstance(found, dict) else found:
            row |= {"peak_gigabytes": row.get("peak_gigabytes", _peak_gigabytes())}
            row |= {"device": options.device, "precision": options.precision, "threads": options.threads}
            row |= {"torch": torch.__version__} | facts(options.device)
            print(json.dumps(row), flush=True)
            if options.out:
                with open(options.out, "a") as file:
                    file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
