"""Sparsity models: which supports a vector may have, and the best approximation that has one.

A model is a union of subspaces; ``project(Z)`` is the exact best approximation of every row in ℓ2, and
``project(Z, order=B)`` the best approximation in the sum of B such vectors (𝕄_B in the paper's appendix).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol, runtime_checkable

import numpy as np
import scipy.sparse as sp

from sparselens._validation import FloatArray, check_count, check_rows


@runtime_checkable
class SparsityModel(Protocol):
    """What CoSaMP, the generators and the metrics need of a model; add one by writing this method."""

    def support(self, Z: FloatArray, order: int = 1) -> np.ndarray:
        """Boolean mask (n, d) of the entries that the best approximation keeps."""
        ...


class _Projection:
    """What the models share; each writes `columns` and `keep`."""

    def columns(self, Z: FloatArray, order: int = 1) -> np.ndarray:
        """Column numbers (n, k) of the entries that the best approximation keeps, k being the same for every row."""
        raise NotImplementedError

    def keep(self, columns: np.ndarray, values: FloatArray, d: int) -> np.ndarray:
        """Mask (n, t): which entries the best approximation keeps of rows given as (columns, values).

        Columns of a row are distinct where their values are not zero. It is `support` for rows whose few nonzeros
        are known, without an n x d array.
        """
        raise NotImplementedError

    def support(self, Z: FloatArray, order: int = 1) -> np.ndarray:
        """Boolean mask (n, d) of the entries that the best approximation keeps."""
        mask = np.zeros(Z.shape, dtype=bool)
        np.put_along_axis(mask, self.columns(Z, order), True, axis=1)
        return mask

    def project(self, Z: Any, *, order: int = 1) -> Any:
        """The best approximation of each row of Z; CSR in, CSR out, dense in, dense out."""
        rows = check_rows(Z, name="Z")
        order = check_count(order, "order")
        dense = rows.toarray()
        kept = np.where(self.support(dense, order), dense, 0.0)
        return sp.csr_array(kept) if sp.issparse(Z) else kept


@dataclass(frozen=True)
class Sparse(_Projection):
    """At most k nonzeros anywhere.

    Examples
    --------
    >>> Sparse(1).project([[1.0, -3.0, 2.0]])
    array([[ 0., -3.,  0.]])
    """

    k: int

    def __post_init__(self) -> None:
        check_count(self.k, "k")

    def columns(self, Z: FloatArray, order: int = 1) -> np.ndarray:
        return _largest(np.abs(Z), self.k * order)

    def keep(self, columns: np.ndarray, values: FloatArray, d: int) -> np.ndarray:
        mask = np.zeros(values.shape, dtype=bool)
        np.put_along_axis(mask, _largest(np.abs(values), self.k), True, axis=1)
        return mask


@dataclass(frozen=True)
class BlockSparse(_Projection):
    """At most n_blocks nonzero blocks of block_size neighbouring columns.

    Examples
    --------
    >>> BlockSparse(n_blocks=1, block_size=2).project([[1.0, 1.0, 0.0, 1.2]])
    array([[1., 1., 0., 0.]])
    """

    n_blocks: int
    block_size: int

    def __post_init__(self) -> None:
        check_count(self.n_blocks, "n_blocks")
        check_count(self.block_size, "block_size")

    def columns(self, Z: FloatArray, order: int = 1) -> np.ndarray:
        n, d = Z.shape
        energy = (Z.reshape(n, self._count(d), self.block_size) ** 2).sum(axis=2)
        blocks = _largest(energy, self.n_blocks * order)
        return (blocks[:, :, None] * self.block_size + np.arange(self.block_size)).reshape(n, -1)

    def keep(self, columns: np.ndarray, values: FloatArray, d: int) -> np.ndarray:
        n, count = len(columns), self._count(d)
        block = columns // self.block_size
        counted = np.bincount(
            (np.arange(n)[:, None] * count + block).ravel(), weights=(values**2).ravel(), minlength=n * count
        )
        energy = counted.reshape(n, count).astype(np.float64)  # bincount of nothing counts in integers
        best = np.zeros((n, count), dtype=bool)
        np.put_along_axis(best, _largest(energy, self.n_blocks), True, axis=1)
        return np.take_along_axis(best, block, axis=1)

    def _count(self, d: int) -> int:
        """How many blocks d columns hold."""
        if d % self.block_size:
            raise ValueError(
                f"Z has {d} columns, which blocks of {self.block_size} do not fill: choose another block_size."
            )
        return d // self.block_size


@dataclass(frozen=True)
class OneHot(_Projection):
    """One nonzero in each group of neighbouring columns (one-hot encoded categories).

    Parameters
    ----------
    groups : tuple of int
        The sizes of the groups, in column order.

    Examples
    --------
    >>> OneHot((2, 3)).project([[1.0, 2.0, 5.0, 4.0, 3.0]])
    array([[0., 2., 5., 0., 0.]])
    """

    groups: tuple[int, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "groups", tuple(check_count(g, "a group's size") for g in self.groups))
        if not self.groups:
            raise ValueError("groups is empty: name the size of at least one group of columns.")

    def columns(self, Z: FloatArray, order: int = 1) -> np.ndarray:
        edges, size = self._edges(Z.shape[1]), np.abs(Z)
        return np.concatenate([lo + _largest(size[:, lo:hi], order) for lo, hi in pairwise(edges)], axis=1)

    def keep(self, columns: np.ndarray, values: FloatArray, d: int) -> np.ndarray:
        n, t = values.shape
        group = np.searchsorted(self._edges(d), columns, side="right") - 1
        size, rows = np.abs(values), np.arange(n)
        best, place = np.full((n, len(self.groups)), -1.0), np.full((n, len(self.groups)), -1)
        for entry in range(t):  # one candidate of every row at a time; the first of equal ones stays
            g = group[:, entry]
            better = size[:, entry] > best[rows, g]
            best[rows[better], g[better]] = size[better, entry]
            place[rows[better], g[better]] = entry
        mask = np.zeros((n, t + 1), dtype=bool)
        np.put_along_axis(mask, place, True, axis=1)  # -1 marks the spare last column
        return mask[:, :t]

    def _edges(self, d: int) -> np.ndarray:
        """Where each group begins, and the end."""
        if d != sum(self.groups):
            raise ValueError(f"Z has {d} columns but the groups add up to {sum(self.groups)}: name every group once.")
        return np.cumsum((0, *self.groups))


def _largest(scores: FloatArray, k: int) -> np.ndarray:
    """Columns (n, k) of the k largest scores of each row; of equal ones, one is taken, never more."""
    n, d = scores.shape
    if k >= d:
        return np.broadcast_to(np.arange(d), (n, d))
    if k > 2:
        return np.argpartition(scores, d - k, axis=1)[:, d - k :]
    first = scores.argmax(axis=1)[:, None]  # a pass for each is much faster than a partition
    if k == 1:
        return first
    rest = scores.copy()
    np.put_along_axis(rest, first, -np.inf, axis=1)
    return np.concatenate([first, rest.argmax(axis=1)[:, None]], axis=1)
