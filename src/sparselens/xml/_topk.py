"""The k best labels of each row, and the walk over rows that keeps no dense n x n_labels array."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import scipy.sparse as sp

from sparselens._validation import FloatArray

_CELLS = 2**22  # entries of a dense block of scores (32 MB)


def row_blocks(n: int, width: int, *, cells: int | None = None) -> Iterator[slice]:
    """Consecutive rows, so many at a time that a dense block of `width` columns has at most `cells` entries
    (by default 2**22, 32 MB).

    Examples
    --------
    >>> list(row_blocks(5, 10, cells=20))
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    size = max(1, (_CELLS if cells is None else cells) // max(width, 1))
    for first in range(0, n, size):
        yield slice(first, min(first + size, n))


def top_k(scores: FloatArray, k: int) -> tuple[np.ndarray, FloatArray]:
    """Columns (n, k) and values (n, k) of the k largest entries of each row, best first.

    Of equal entries the one with the smaller column comes first, so that the answer does not depend on how rows are
    put into blocks.

    Examples
    --------
    >>> top_k(np.array([[0.0, 2.0, 1.0, 2.0]]), 3)
    (array([[1, 3, 2]]), array([[2., 2., 1.]]))
    """
    n, width = scores.shape
    k = min(k, width)
    if k == width:
        columns = np.broadcast_to(np.arange(width), (n, width))
    else:
        columns = np.argpartition(scores, width - k, axis=1)[:, width - k :]
        chosen = np.take_along_axis(scores, columns, axis=1)
        smallest = chosen.min(axis=1, keepdims=True)
        # argpartition picks any of equal entries: where some of them were left out, choose again.
        unclear = np.flatnonzero((scores == smallest).sum(axis=1) > (chosen == smallest).sum(axis=1))
        columns[unclear] = _leftmost(scores[unclear], smallest[unclear], k)
        columns.sort(axis=1)
    values = np.take_along_axis(scores, columns, axis=1)
    order = np.argsort(-values, axis=1, kind="stable")  # columns ascend, so that equal values keep that order
    return np.take_along_axis(columns, order, axis=1), np.take_along_axis(values, order, axis=1)


def _leftmost(scores: FloatArray, smallest: FloatArray, k: int) -> np.ndarray:
    """Everything above the k-th largest value, then entries equal to it from the left until there are k."""
    above = scores > smallest
    equal = scores == smallest
    missing = k - above.sum(axis=1)
    rows, at = np.nonzero(equal)
    place = np.arange(len(rows)) - np.searchsorted(rows, np.arange(len(scores)))[rows]
    surplus = place >= missing[rows]
    equal[rows[surplus], at[surplus]] = False
    return np.nonzero(above | equal)[1].reshape(len(scores), k)


def ranked_rows(columns: np.ndarray, values: FloatArray, width: int) -> sp.csr_array:
    """The answers of `top_k` as CSR rows with sorted columns; a score of 0 stays stored.

    Examples
    --------
    >>> ranked_rows(np.array([[2, 0]]), np.array([[0.5, 0.0]]), 3).indices
    array([0, 2])
    """
    n, k = columns.shape
    order = np.argsort(columns, axis=1)
    indices = np.take_along_axis(columns, order, axis=1).ravel()
    data = np.take_along_axis(values, order, axis=1).ravel()
    return sp.csr_array((data, indices, np.arange(0, n * k + 1, k)), shape=(n, width))
