"""A short, honest benchmark of decoding: the same linear programs, one thread, solved in turns."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sparselens._random import derive_rng
from sparselens._validation import FloatArray, unit_rows
from sparselens.data import load_dataset
from sparselens.decoders.l1 import L1Decoder
from sparselens.encoders.random import gaussian_matrix
from sparselens.metrics import EXACT, row_errors

Progress = Callable[[float, float, str], None]

CASES = (("synthetic1", 30), ("synthetic1", 50), ("synthetic1", 70))


def run_bench(
    cases: Sequence[tuple[str, Any, int]],
    *,
    rows: int = 40,
    rounds: int = 3,
    random_state: int = 0,
    callback: Progress | None = None,
) -> list[dict[str, Any]]:
    """Time `L1Decoder` and scipy's HiGHS on identical linear programs ``min 1ᵀx s.t. Ax = y, x ≥ 0``.

    The two solve the same rows in turns, `rounds` times, and the fastest round of each counts, so that other work on
    the machine favours neither. Our time includes the certificate of every row; compiling, which happens once on a
    machine, is left out and reported.

    Parameters
    ----------
    cases : sequence of (name, csr_array, int)
        Rows (nonnegative) and m; A is Gaussian.
    rows : int
        Rows of a round.
    rounds : int
    random_state : int
    callback : callable, optional
        Called as ``callback(done, total, text)``.

    Returns
    -------
    list of dict
        ``data, m, d, n_rows, ours_ms, highs_ms, ratio, ours_exact, highs_exact, highs_exact_1e6, certified,
        compile_seconds``.
    """
    from threadpoolctl import threadpool_limits

    table = []
    with threadpool_limits(limits=1):
        for number, (name, X, m) in enumerate(cases):
            rng = derive_rng(random_state, role="bench", data=name, m=m)
            part = unit_rows(X[rng.permutation(X.shape[0])[:rows]])
            A = gaussian_matrix(m, X.shape[1], rng)
            Y = np.ascontiguousarray(part @ np.ascontiguousarray(A.T))
            decoder, began = L1Decoder(positive=True).bind(A), time.perf_counter()
            decoder.decode(Y[:1])
            compiled = time.perf_counter() - began
            ours, highs = [], []
            for turn in range(rounds):
                if callback is not None:
                    callback(number * rounds + turn, len(cases) * rounds, f"{name}, m = {m}")
                began = time.perf_counter()
                rec = decoder.decode(Y)
                ours.append(time.perf_counter() - began)
                began = time.perf_counter()
                found = highs_rows(A, Y)
                highs.append(time.perf_counter() - began)
            theirs = row_errors(part, found)
            table.append(
                {
                    "data": name,
                    "m": m,
                    "d": X.shape[1],
                    "n_rows": len(Y),
                    "ours_ms": 1e3 * min(ours) / len(Y),
                    "highs_ms": 1e3 * min(highs) / len(Y),
                    "ratio": min(highs) / min(ours),
                    "ours_exact": float(np.mean(row_errors(part, rec.x) <= EXACT)),
                    "highs_exact": float(np.mean(theirs <= EXACT)),
                    "highs_exact_1e6": float(np.mean(theirs <= 1e-6)),
                    "certified": float(rec.certified.mean()),
                    "compile_seconds": compiled,
                }
            )
    if callback is not None:
        callback(1.0, 1.0, "done")
    return table


def default_cases(random_state: int = 0) -> list[tuple[str, Any, int]]:
    """Synthetic1 at three m: below, at and above the number at which a Gaussian matrix begins to do."""
    return [(name, load_dataset(name, random_state=random_state).test, m) for name, m in CASES]


def highs_rows(A: FloatArray, Y: FloatArray) -> FloatArray:
    """The same programs by ``scipy.optimize.linprog(method="highs")``, one by one, with its default settings."""
    from scipy.optimize import linprog

    out = np.zeros((len(Y), A.shape[1]))
    for i, y in enumerate(Y):
        found = linprog(np.ones(A.shape[1]), A_eq=A, b_eq=y, bounds=(0, None), method="highs")
        if found.x is not None:
            out[i] = found.x
    return out
