"""Compiled loops of the training step on a CPU: each does in one pass what torch does in three or four."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit


@njit(cache=True)
def shrink(x: Any, g: Any, b: Any, alpha: Any, one: Any, s: Any) -> None:
    """x ← g∘x + b; s ← sign(x); x ← x − αs. `one` is 1 in the type of x: a literal would widen the arithmetic."""
    zero = one - one
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            v = g[j] * x[i, j] + b[j]
            sign = one if v > 0 else (-one if v < 0 else zero)
            s[i, j] = sign
            x[i, j] = v - alpha * sign


@njit(cache=True)
def column_dots(G: Any, S: Any, out: Any) -> None:
    """out[t] ← Σ over rows of G∘S[t]."""
    out[:] = 0
    for t in range(S.shape[0]):
        for i in range(G.shape[0]):
            for j in range(G.shape[1]):
                out[t, j] += G[i, j] * S[t, i, j]


@njit(cache=True)
def residual(v: Any, final_relu: bool, zero: Any, indptr: Any, columns: Any, values: Any) -> Any:
    """v ← (x̂ − x)∘[v > 0] with x̂ = relu(v) (or v ← v − x); return Σ (x̂ − x)² before the mask."""
    n, d = v.shape
    loss = 0.0
    for i in range(n):
        if final_relu:
            for j in range(d):
                v[i, j] = zero if v[i, j] < 0 else v[i, j]  # NaN stays NaN, to be noticed
        for k in range(indptr[i], indptr[i + 1]):
            j = columns[k]
            if final_relu and v[i, j] == 0:
                loss += np.float64(values[k]) ** 2  # counted, but a dead entry passes no gradient
            else:
                v[i, j] -= values[k]
        row = zero
        for j in range(d):
            row += v[i, j] * v[i, j]
        loss += np.float64(row)
    return loss


@njit(cache=True)
def sparse_times(indptr: Any, columns: Any, values: Any, dense: Any, out: Any) -> None:
    """out ← out + X·dense for CSR rows X."""
    for i in range(len(indptr) - 1):
        for k in range(indptr[i], indptr[i + 1]):
            for c in range(dense.shape[1]):
                out[i, c] += values[k] * dense[columns[k], c]


@njit(cache=True)
def sparse_transposed_times(indptr: Any, columns: Any, values: Any, dense: Any, out: Any) -> None:
    """out ← out + Xᵀ·dense for CSR rows X."""
    for i in range(len(indptr) - 1):
        for k in range(indptr[i], indptr[i + 1]):
            for c in range(dense.shape[1]):
                out[columns[k], c] += values[k] * dense[i, c]
