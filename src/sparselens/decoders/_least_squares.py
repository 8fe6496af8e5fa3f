"""Least squares on a different small set of columns for every row, in batches."""

from __future__ import annotations

import numpy as np

from sparselens._validation import FloatArray

_CELLS = 2**21  # entries of the gathered columns of a piece (16 MB: they stay near the cache)
_TILT = 1e-12  # |A_Tᵀ(y − A_T b)| that normal equations must reach for unit y and columns, else singular values decide


def batched_least_squares(columns: FloatArray, Y: FloatArray, picks: np.ndarray, used: np.ndarray) -> FloatArray:
    """The shortest least squares solution ``b = A_T⁺y`` of every row.

    Parameters
    ----------
    columns : array of shape (d, m)
        Aᵀ: row j is column a_j.
    Y : array of shape (n, m)
    picks, used : int and bool arrays of shape (n, t)
        The set T of each row, and which of its places are in use.

    Returns
    -------
    array of shape (n, t), zero in places that are not in use.

    Examples
    --------
    >>> A_T = np.array([[1.0, 0.0], [1.0, 1.0]])
    >>> batched_least_squares(A_T, np.array([[3.0, 2.0]]), np.array([[0, 1]]), np.array([[True, True]]))
    array([[1., 2.]])
    """
    n, m = Y.shape
    out = np.zeros(picks.shape)
    size = max(1, _CELLS // max(1, picks.shape[1] * m))
    for lo in range(0, n, size):
        rows = slice(lo, lo + size)
        out[rows] = _piece(columns[picks[rows]] * used[rows][:, :, None], Y[rows], used[rows])
    return out


def _piece(B: FloatArray, Y: FloatArray, used: np.ndarray) -> FloatArray:
    """Rows of at most m columns by the inverse of BBᵀ, longer ones (and y in their range) by that of BᵀB."""
    n, t, m = B.shape
    out = np.zeros((n, t))
    counts = used.sum(axis=1)
    tall = np.flatnonzero((counts <= m) & (counts > 0))
    wide = np.flatnonzero(counts > m)
    good = counts == 0
    if len(tall):
        C, y = B[tall], Y[tall][:, :, None]
        gram = C @ C.transpose(0, 2, 1)
        gram[:, np.arange(t), np.arange(t)] += ~used[tall]
        inverse = _inverse(gram)
        b = inverse @ (C @ y)
        b += inverse @ (C @ (y - C.transpose(0, 2, 1) @ b))
        tilt = np.abs(C @ (y - C.transpose(0, 2, 1) @ b)).max(axis=(1, 2))
        out[tall], good[tall] = b[:, :, 0], tilt <= _TILT * np.linalg.norm(C, axis=2).max(axis=1)
    if len(wide):
        C, y = B[wide], Y[wide][:, :, None]
        inverse = _inverse(C.transpose(0, 2, 1) @ C)
        b = C @ (inverse @ y)
        b += C @ (inverse @ (y - C.transpose(0, 2, 1) @ b))
        miss = np.linalg.norm(y - C.transpose(0, 2, 1) @ b, axis=(1, 2))
        out[wide], good[wide] = b[:, :, 0], miss <= _TILT
    for i in np.flatnonzero(~good):  # dependent or nearly dependent columns
        T = np.flatnonzero(used[i])
        out[i] = 0.0
        out[i, T] = np.linalg.lstsq(B[i, T].T, Y[i], rcond=1e-12)[0]
    return out


def _inverse(gram: FloatArray) -> FloatArray:
    """Inverses of a stack; NaN where a matrix is singular."""
    try:
        return np.asarray(np.linalg.inv(gram), dtype=np.float64)
    except np.linalg.LinAlgError:  # at least one: find them one by one
        out = np.full_like(gram, np.nan)
        for i, matrix in enumerate(gram):
            try:
                out[i] = np.linalg.inv(matrix)
            except np.linalg.LinAlgError:
                continue
        return out
