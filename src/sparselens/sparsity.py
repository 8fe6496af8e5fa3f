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
    def support(self, Z: FloatArray, order: int = 1) -> np.ndarray:
        raise NotImplementedError

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

    def support(self, Z: FloatArray, order: int = 1) -> np.ndarray:
        return _largest(np.abs(Z), self.k * order)


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

    def support(self, Z: FloatArray, order: int = 1) -> np.ndarray:
        n, d = Z.shape
        if d % self.block_size:
            raise ValueError(
                f"Z has {d} columns, which blocks of {self.block_size} do not fill: choose another block_size."
            )
        energy = (Z.reshape(n, d // self.block_size, self.block_size) ** 2).sum(axis=2)
        return np.repeat(_largest(energy, self.n_blocks * order), self.block_size, axis=1)


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

    def support(self, Z: FloatArray, order: int = 1) -> np.ndarray:
        if Z.shape[1] != sum(self.groups):
            raise ValueError(
                f"Z has {Z.shape[1]} columns but the groups add up to {sum(self.groups)}: name every group once."
            )
        edges = np.cumsum((0, *self.groups))
        parts = [_largest(np.abs(Z[:, lo:hi]), order) for lo, hi in pairwise(edges)]
        return np.concatenate(parts, axis=1)


def _largest(scores: FloatArray, k: int) -> np.ndarray:
    """Mask of the k largest entries of each row; of equal ones, one is taken, never more."""
    n, d = scores.shape
    if k >= d:
        return np.ones((n, d), dtype=bool)
    mask = np.zeros((n, d), dtype=bool)
    np.put_along_axis(mask, np.argpartition(scores, d - k, axis=1)[:, d - k :], True, axis=1)
    return mask
