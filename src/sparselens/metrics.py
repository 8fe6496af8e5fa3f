"""How good a recovery or a ranking is: exact fraction, RMSE, support F1; P@k, nDCG@k, PSP@k. Everything stays sparse.

Rankings: the stored entries of a row of scores are its candidates (a stored zero too), ranked by score; of equal scores
the smaller label comes first. A row without true labels counts as 0, as in the published tables.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
import scipy.sparse as sp

from sparselens._validation import FloatArray, as_numbers, check_count, check_positive_float, check_rows
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
    rmse: float  # root of the mean of ‖x̂ − x‖²
    mean_error: float  # mean of ‖x̂ − x‖
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
        mean_error=float(np.mean(errors)),
        support_f1=support_f1(X, X_hat),
        certified=float(np.mean(recovery.certified)) if is_recovery else 0.0,
        unique=float(np.mean(recovery.unique)) if is_recovery else 0.0,
    )


def precision_at_k(Y_true: Any, scores: Any, *, k: int = 1) -> float:
    """P@k: the part of the k best-ranked labels that are true, averaged over rows.

    Parameters
    ----------
    Y_true : array or sparse matrix of shape (n, n_labels)
        The true labels: every nonzero is one.
    scores : array or sparse matrix of shape (n, n_labels)
        What `predict_topk` returns. Of a dense array every entry is a candidate.
    k : int
        Rows with fewer than k candidates are divided by k all the same.

    Examples
    --------
    >>> precision_at_k([[1, 0, 1], [0, 1, 0]], [[0.9, 0.1, 0.2], [0.3, 0.2, 0.1]], k=2)
    0.75
    """
    hits, _ = _ranked_hits(Y_true, scores, k)
    return float(hits.sum() / (k * hits.shape[0]))


def ndcg_at_k(Y_true: Any, scores: Any, *, k: int = 1) -> float:
    """nDCG@k: hits weighted by 1/log2(1 + rank), divided by the best that the row's labels allow, averaged over rows.

    Examples
    --------
    >>> round(ndcg_at_k([[1, 0, 1]], [[0.9, 0.5, 0.2]], k=3), 4)
    0.9197
    """
    hits, truth = _ranked_hits(Y_true, scores, k)
    discounts = 1.0 / np.log2(np.arange(2, k + 2))
    best = np.concatenate(([0.0], np.cumsum(discounts)))[np.minimum(np.diff(truth.indptr), k)]
    return float(np.mean(hits @ discounts / np.where(best > 0, best, 1.0)))


def psp_at_k(Y_true: Any, scores: Any, inverse_propensity: Any, *, k: int = 1) -> float:
    """PSP@k: precision in which a label counts 1/propensity, divided by the best achievable sum over all rows.

    Parameters
    ----------
    Y_true, scores : as in `precision_at_k`
    inverse_propensity : array of shape (n_labels,)
        `inverse_propensities` of the training labels.

    Examples
    --------
    >>> psp_at_k([[1, 1, 0]], [[0.9, 0.1, 0.2]], [1.0, 3.0, 3.0], k=1)
    0.3333...
    """
    truth = _truth(Y_true)
    inverse = np.asarray(inverse_propensity, dtype=np.float64)
    if inverse.shape != (truth.shape[1],):
        raise ValueError(
            f"inverse_propensity has the shape {inverse.shape} but Y_true has {truth.shape[1]} labels: "
            "pass inverse_propensities(Y_train)."
        )
    weighted = sp.csr_array((inverse[truth.indices], truth.indices, truth.indptr), shape=truth.shape)
    hits, _ = _ranked_hits(truth, scores, k, weights=inverse)
    best, _ = _ranked_hits(truth, weighted, k, weights=inverse)
    return float(hits.sum() / best.sum()) if best.any() else 0.0


def inverse_propensities(Y_train: Any, *, A: float = 0.55, B: float = 1.5) -> FloatArray:
    """1/p of each label by the model of Jain et al. (KDD 2016): ``1 + C (N_l + B)^−A``, ``C = (ln N − 1)(B + 1)^A``.

    N is the number of rows of Y_train (n, n_labels) and N_l how many of them have label l. A = 0.55 and B = 1.5 are
    the usual values; 0.5 and 0.4 are used for Wikipedia sets, 0.6 and 2.6 for Amazon's.

    Examples
    --------
    >>> inverse_propensities([[1, 0]] * 100).round(3)
    array([1.47 , 5.775])
    """
    truth = _truth(Y_train, name="Y_train")
    return jain_propensities(np.bincount(truth.indices, minlength=truth.shape[1]), truth.shape[0], A=A, B=B)


def jain_propensities(counts: Any, n_rows: int, *, A: float = 0.55, B: float = 1.5) -> FloatArray:
    """`inverse_propensities` where the number of training rows of each label is known already."""
    A, B = check_positive_float(A, "A"), check_positive_float(B, "B", allow_zero=True)
    C = (np.log(n_rows) - 1) * (B + 1) ** A
    return np.asarray(1 + C * (np.asarray(counts) + B) ** -A, dtype=np.float64)


def ranking_report(Y_true: Any, scores: Any, *, inverse_propensity: Any = None) -> dict[str, float]:
    """P@1, P@3, P@5, nDCG@1, 3, 5 and, with `inverse_propensity`, PSP@1, 3, 5 as a dict."""
    out = {f"P@{k}": precision_at_k(Y_true, scores, k=k) for k in (1, 3, 5)}
    out |= {f"nDCG@{k}": ndcg_at_k(Y_true, scores, k=k) for k in (1, 3, 5)}
    if inverse_propensity is not None:
        out |= {f"PSP@{k}": psp_at_k(Y_true, scores, inverse_propensity, k=k) for k in (1, 3, 5)}
    return out


def _ranked_hits(
    Y_true: Any, scores: Any, k: int, *, weights: FloatArray | None = None
) -> tuple[FloatArray, sp.csr_array]:
    """The weight (1 without `weights`) of the label at each rank, 0 where it is not true: (n, k); and the truth."""
    k = check_count(k, "k")
    truth = _truth(Y_true)
    candidates = _candidates(scores)
    if truth.shape != candidates.shape:
        raise ValueError(
            f"Y_true has the shape {truth.shape} but scores have {candidates.shape}: rank the labels of the same rows."
        )
    n, n_labels = truth.shape
    rows = np.repeat(np.arange(n), np.diff(candidates.indptr))
    order = np.lexsort((candidates.indices, -candidates.data, rows))
    rank = np.arange(len(order)) - np.repeat(candidates.indptr[:-1], np.diff(candidates.indptr))
    first = rank < k
    rows, labels, rank = rows[first], candidates.indices[order][first], rank[first]
    true_keys = np.repeat(np.arange(n), np.diff(truth.indptr)) * n_labels + truth.indices  # sorted: truth is canonical
    true = np.isin(rows * n_labels + labels, true_keys)
    hits = np.zeros((n, k))
    hits[rows[true], rank[true]] = 1.0 if weights is None else weights[labels[true]]
    return hits, truth


def _truth(Y: Any, name: str = "Y_true") -> sp.csr_array:
    out = check_rows(Y, name=name)
    return sp.csr_array((np.ones(out.nnz), out.indices.astype(np.int64), out.indptr.astype(np.int64)), shape=out.shape)


def _candidates(scores: Any) -> sp.csr_array:
    """Scores as CSR whose stored entries are the candidates; zeros that are stored stay."""
    if not sp.issparse(scores):
        dense = np.atleast_2d(as_numbers(scores, "scores")).astype(np.float64)
        n, n_labels = dense.shape
        indptr = np.arange(0, n * n_labels + 1, n_labels)
        scores = sp.csr_array((dense.ravel(), np.tile(np.arange(n_labels), n), indptr), shape=dense.shape)
    out = sp.csr_array(scores, dtype=np.float64)
    if not np.isfinite(out.data).all():
        raise ValueError("scores hold NaN or infinity: a ranking needs numbers.")
    if not out.has_canonical_format:
        out = out.copy()
        out.sum_duplicates()
    return sp.csr_array((out.data, out.indices.astype(np.int64), out.indptr.astype(np.int64)), shape=out.shape)


def _pair(X: Any, X_hat: Any) -> tuple[sp.csr_array, sp.csr_array]:
    X, X_hat = check_rows(X), check_rows(X_hat, name="X_hat")
    if X.shape != X_hat.shape:
        raise ValueError(f"X has shape {X.shape} but X_hat has shape {X_hat.shape}: compare the same rows.")
    return X, X_hat
