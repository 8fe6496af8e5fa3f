"""The first minute: measure Synthetic1 with a few matrices, decode it, and see who recovers what."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sparselens.data import load_dataset
from sparselens.decoders.l1 import L1Decoder
from sparselens.encoders.base import LinearEncoder
from sparselens.encoders.certificate import CertificateEncoder
from sparselens.encoders.l1ae import L1AE
from sparselens.encoders.random import GaussianEncoder
from sparselens.encoders.spectral import LBCSEncoder, PCAEncoder
from sparselens.metrics import recovery_report

Progress = Callable[[int, int, str], None]  # called with (cells done, cells in all, what comes next)

MEASUREMENTS = (10, 20, 30, 40, 50, 60, 70)
DEMO_EPOCHS = 30  # of ℓ1-AE: the paper trains for hundreds
# Label -> (factory of an encoder with m measurements and a seed, the m it is shown at).
ENCODERS: dict[str, tuple[Callable[[int, int], LinearEncoder], tuple[int, ...]]] = {
    "Certificate": (lambda m, seed: CertificateEncoder(m, random_state=seed), MEASUREMENTS),
    "ℓ1-AE": (
        lambda m, seed: L1AE.preset("synthetic1", n_components=m, max_epochs=DEMO_EPOCHS, random_state=seed),
        (10, 20, 30),
    ),
    "LBCS": (lambda m, seed: LBCSEncoder(m, random_state=seed), MEASUREMENTS),
    "Gaussian": (lambda m, seed: GaussianEncoder(m, random_state=seed), MEASUREMENTS),
    "PCA": (lambda m, seed: PCAEncoder(m), MEASUREMENTS),
}
EXAMPLE_M = 20


@dataclass(frozen=True)
class DemoResult:
    """The rows of the demo's table and one test vector before and after.

    Attributes
    ----------
    rows : list of dict
        One for each encoder and m: ``encoder, m, exact, rmse, certified, n_rows, fit_seconds, decode_ms``.
    example : dict
        ``m``, ``truth`` (nonzeros as pairs of column and value) and ``recovered``: encoder -> pairs.
    """

    rows: list[dict[str, Any]]
    example: dict[str, Any]


def run_demo(*, n_test: int = 500, random_state: int = 0, callback: Progress | None = None) -> DemoResult:
    """Encode and decode `n_test` test rows of Synthetic1 with each encoder of ENCODERS over m."""
    data = load_dataset("synthetic1", random_state=random_state)
    X = data.test[:n_test]
    cells = [(label, m) for label, (_, ms) in ENCODERS.items() for m in ms]
    rows, recovered = [], {}
    for done, (label, m) in enumerate(cells):
        if callback is not None:
            callback(done, len(cells), f"{label}, m = {m}")
        start = time.perf_counter()
        encoder = ENCODERS[label][0](m, random_state).fit(data.train, X_valid=data.valid)
        fitted = time.perf_counter()
        rec = L1Decoder(positive=True).bind(encoder.components_).decode(encoder.transform(X))
        decoded = time.perf_counter()
        report = recovery_report(X, rec)
        rows.append(
            {
                "encoder": label,
                "m": m,
                "exact": report.exact,
                "rmse": report.rmse,
                "certified": report.certified,
                "n_rows": report.n_rows,
                "fit_seconds": fitted - start,
                "decode_ms": 1e3 * (decoded - fitted) / report.n_rows,
            }
        )
        if m == EXAMPLE_M:
            recovered[label] = rec.x[[0]]
    if callback is not None:
        callback(len(cells), len(cells), "done")
    example = {
        "m": EXAMPLE_M,
        "d": data.train.shape[1],
        "truth": _nonzeros(X[[0]]),
        "recovered": {label: _nonzeros(x) for label, x in recovered.items()},
    }
    return DemoResult(rows, example)


def _nonzeros(x: Any) -> list[tuple[int, float]]:
    x = x.tocsr()
    return [(int(j), float(v)) for j, v in zip(x.indices, x.data, strict=True) if abs(v) > 1e-12]


def fewest_measurements(rows: Sequence[dict[str, Any]], target: float = 0.99) -> dict[str, int | None]:
    """For each encoder the smallest m from which on every larger m recovers the target fraction exactly."""
    out: dict[str, int | None] = {}
    for label in dict.fromkeys(row["encoder"] for row in rows):
        mine = sorted((row["m"], row["exact"]) for row in rows if row["encoder"] == label)
        good = [m for i, (m, _) in enumerate(mine) if all(exact >= target for _, exact in mine[i:])]
        out[label] = min(good) if good else None
    return out
