"""What a measurement matrix looks like: spectrum, column norms, coherence, a heat map, and how it was trained."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparselens._random import derive_rng
from sparselens._validation import FloatArray, check_measurement_matrix

_PRODUCTS = 4e10  # multiplications that the coherence may cost; beyond it is taken over a sample of columns
_HEAT_ROWS, _HEAT_COLUMNS = 120, 400  # cells of the heat map


def matrix_facts(A: Any, *, random_state: int = 0) -> dict[str, Any]:
    """Figures of a measurement matrix that say how well it can do, and numbers to draw it from.

    Parameters
    ----------
    A : array of shape (m, d)
    random_state : int
        Seed of the sample of columns where d is too large to compare all pairs.

    Returns
    -------
    dict
        ``m, d, singular_values, condition, column_norms`` (smallest, mean, largest), ``n_zero_columns``,
        ``coherence`` (the largest cosine between two columns), ``coherence_columns`` (how many columns were compared
        with all others), ``welch_bound`` (no m x d matrix has a smaller coherence), ``heat`` and ``norms`` (the matrix
        and its column norms, by cells).

    Examples
    --------
    >>> facts = matrix_facts([[1.0, 0.0, 1.0], [0.0, 1.0, 1.0]])
    >>> round(facts["coherence"], 4), round(facts["condition"], 4)
    (0.7071, 1.7321)
    """
    A = check_measurement_matrix(A)
    m, d = A.shape
    values = np.linalg.svd(A @ A.T, compute_uv=False) ** 0.5 if m < d // 8 else np.linalg.svd(A, compute_uv=False)
    norms = np.linalg.norm(A, axis=0)
    coherence, n_compared = _coherence(A, norms, random_state)
    return {
        "m": m,
        "d": d,
        "singular_values": values.tolist(),
        "condition": float(values[0] / values[-1]) if values[-1] > 0 else float("inf"),
        "column_norms": {"smallest": float(norms.min()), "mean": float(norms.mean()), "largest": float(norms.max())},
        "n_zero_columns": int((norms == 0).sum()),
        "coherence": coherence,
        "coherence_columns": n_compared,
        "welch_bound": float(np.sqrt((d - m) / (m * (d - 1)))) if d > 1 else 0.0,
        "heat": _cells(A, _HEAT_ROWS, _HEAT_COLUMNS).tolist(),
        "norms": [float(part.mean()) for part in np.array_split(norms, min(d, _HEAT_COLUMNS))],
    }


def _coherence(A: FloatArray, norms: FloatArray, random_state: int) -> tuple[float, int]:
    """The largest |cosine| between two different columns, over all columns or a sample of them against all."""
    m, d = A.shape
    columns = (A / np.where(norms > 0, norms, 1.0)).astype(np.float32)
    n = int(min(d, max(256, _PRODUCTS // (m * d))))
    chosen = np.arange(d) if n == d else derive_rng(random_state, role="coherence").choice(d, n, replace=False)
    largest = 0.0
    for lo in range(0, n, 512):
        part = chosen[lo : lo + 512]
        cosines = np.abs(columns[:, part].T @ columns)
        cosines[np.arange(len(part)), part] = 0.0
        largest = max(largest, float(cosines.max(initial=0.0)))
    return min(largest, 1.0), n


def _cells(A: FloatArray, n_rows: int, n_columns: int) -> FloatArray:
    """A in at most n_rows x n_columns cells: the entry of largest size in each."""
    for axis, most in ((0, n_rows), (1, n_columns)):
        parts = np.array_split(A, min(A.shape[axis], most), axis=axis)
        picked = []
        for part in parts:
            where = np.abs(part).argmax(axis=axis)
            picked.append(np.take_along_axis(part, np.expand_dims(where, axis), axis=axis))
        A = np.concatenate(picked, axis=axis)
    return A


def training_table(history: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    """What was tried in a certificate training, or the validations of another one, as a table of texts.

    Examples
    --------
    >>> training_table({"epoch": [10, 20], "train_loss": [0.5, 0.25], "valid_loss": [0.6, 0.3]})
    (['epoch', 'training loss', 'validation loss'], [['10', '0.5', '0.6'], ['20', '0.25', '0.3']])
    """
    tried = history.get("tried")
    if isinstance(tried, list) and tried:
        keys = [key for key in tried[0] if all(key in entry for entry in tried)]
        keys = keys or ["loss"]
        return keys, [[_short(entry.get(key)) for key in keys] for entry in tried]
    if history.get("epoch"):
        columns = [history["epoch"], history["train_loss"], history["valid_loss"]]
        step = -(-len(columns[0]) // 20)  # at most some twenty lines, the last one among them
        lines = [[_short(value) for value in line] for line in zip(*columns, strict=True)]
        return ["epoch", "training loss", "validation loss"], [*lines[step - 1 :: step]]
    return [], []


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
