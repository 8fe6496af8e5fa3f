"""How good a recovery is: exact fraction, RMSE, support F1. Everything stays sparse."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
import scipy.sparse as sp

from sparselens._validation import FloatArray, check_rows
from sparselens.recovery import Recovery

EXACT = 1e-10  # the paper's meaning of "recovered exactly": ‖x − x̂‖₂ ≤ 1e-10


def row_errors(X: Any, X_hat: Any) -> FloatArray:
    """``‖x − x̂‖₂`` for each row.

    Examples
    --------
    >>> row_errors([[3.0, 0.0]], [[0.0, 4.0]])
    array([5.])
    """
    X, X_hat = _pair(X, X_hat)
    difference = X - X_hat
    return np.sqrt(np.asarray(difference.multiply(difference).sum(axis=1), dtype=np.float64).ravel())


def exact_fraction(X: Any, X_hat: Any, *, tol: float = EXACT) -> float:
    """The fraction of rows with ``‖x − x̂‖₂ ≤ tol``."""
    return float(np.mean(row_errors(X, X_hat) <= tol))


def rmse(X: Any, X_hat: Any) -> float:
    """``sqrt(mean over rows of ‖x − x̂‖²)``, as in the paper; every row counts."""
    return float(np.sqrt(np.mean(row_errors(X, X_hat) ** 2)))


def support_f1(X: Any, X_hat: Any, *, tol: float = 1e-9) -> float:
    """Mean over rows of the F1 score of the recovered support; entries of magnitude ≤ tol count as zero.

    Examples
    --------
    >>> support_f1([[1.0, 1.0, 0.0]], [[1.0, 0.0, 0.0]])
    0.666...
    """
    X, X_hat = _pair(X, X_hat)
    truth, found = abs(X) > tol, abs(X_hat) > tol
    both = np.asarray(truth.multiply(found).sum(axis=1), dtype=np.float64).ravel()
    total = np.asarray(truth.sum(axis=1) + found.sum(axis=1), dtype=np.float64).ravel()
    return float(np.mean(np.where(total > 0, 2 * both / np.maximum(total, 1), 1.0)))


def wilson_interval(successes: int, n: int, *, confidence: float = 0.95) -> tuple[float, float]:
    """Wilson's confidence interval of a fraction: it holds near 0 and 1, where the usual one does not.

    Examples
    --------
    >>> low, high = wilson_interval(99, 100)
    >>> round(low, 3), round(high, 3)
    (0.946, 0.998)
    """
    if not 0 <= successes <= n or n < 1:
        raise ValueError(f"successes must lie between 0 and n, and n be at least 1, got {successes} of {n}.")
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    p, shrink = successes / n, 1.0 / (1.0 + z * z / n)
    centre = shrink * (p + z * z / (2 * n))
    half = shrink * z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    # The ends are 0 and 1 themselves where no row or every row counts; rounding must not say otherwise.
    return (0.0 if successes == 0 else centre - half), (1.0 if successes == n else centre + half)


@dataclass(frozen=True)
class RecoveryReport:
    """The figures of one recovery against the truth; `as_dict` for tables."""

    n_rows: int
    exact: float  # fraction of rows within 1e-10
    exact_1e6: float  # fraction of rows within 1e-6
    rmse: float
    support_f1: float
    certified: float
    unique: float

    def as_dict(self) -> dict[str, float]:
        return asdict(self)

    def __str__(self) -> str:
        return (
            f"{self.n_rows:,} rows: {self.exact:.2%} exact (1e-10), {self.exact_1e6:.2%} within 1e-6, "
            f"RMSE {self.rmse:.3g}, support F1 {self.support_f1:.4f}, certified {self.certified:.2%}"
        )


def recovery_report(X: Any, recovery: Any) -> RecoveryReport:
    """Compare the true rows with a `Recovery` (or with plain recovered rows, which count as not certified)."""
    is_recovery = isinstance(recovery, Recovery)
    X_hat = recovery.x if is_recovery else recovery
    errors = row_errors(X, X_hat)
    return RecoveryReport(
        n_rows=len(errors),
        exact=float(np.mean(errors <= EXACT)),
        exact_1e6=float(np.mean(errors <= 1e-6)),
        rmse=float(np.sqrt(np.mean(errors**2))),
        support_f1=support_f1(X, X_hat),
        certified=float(np.mean(recovery.certified)) if is_recovery else 0.0,
        unique=float(np.mean(recovery.unique)) if is_recovery else 0.0,
    )


def _pair(X: Any, X_hat: Any) -> tuple[sp.csr_array, sp.csr_array]:
    X, X_hat = check_rows(X), check_rows(X_hat, name="X_hat")
    if X.shape != X_hat.shape:
        raise ValueError(f"X has shape {X.shape} but X_hat has shape {X_hat.shape}: compare the same rows.")
    return X, X_hat
