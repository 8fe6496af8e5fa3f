"""Supports to train on: those of the rows, with some of their parts exchanged for parts of other rows.

The training supports alone are few, and a matrix that serves them need not serve the next row. So the support of a
row is cut into *units*, and a unit is replaced, with probability `swap`, by another one: drawn from the units of all
rows (as often as it occurs), or, with probability `uniform`, from all units that there could be. A unit is the part of
a row that lies in one *atom*: a set of columns that nearly always occur together; most atoms are single columns. In
one-hot data (every row has one nonzero in each group) a unit is only exchanged for units of the same groups.

Columns that no row has used need more. How often the next row will hold one of them is known (Good and Turing): as
often as a row holds a column that no other row uses. So such a column is replaced, half of the time, by one that no
row uses.

Where m is too small for most rows, the best that a decoder can do is to get the larger part of a row right. So a
support may be thinned, too: each unit stays with a probability that is drawn for the row.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

TOGETHER = 0.8  # columns i, j belong to one atom where both occur in this part of the rows of the more frequent one
MIN_COUNT = 5  # columns that occur less often than this stay alone: their co-occurrence is chance
UNSEEN = 0.5  # how often a column that one row uses is replaced by one that no row uses: both then occur as often
_BLOCK = 1024  # columns whose co-occurrence is held at once


def atoms(X: sp.csr_array, *, together: float = TOGETHER, min_count: int = MIN_COUNT) -> np.ndarray:
    """The number of the atom of each column: connected sets of columns that nearly always occur together.

    Examples
    --------
    >>> atoms(sp.csr_array([[1, 1, 0], [1, 1, 1], [0, 0, 1]]), min_count=1)
    array([0, 0, 1], dtype=int32)
    """
    X = sp.csc_array(X)
    n, d = X.shape
    occurs = sp.csc_array((np.ones(X.nnz, dtype=np.float32), X.indices, X.indptr), shape=(n, d))
    counts = np.diff(X.indptr)
    live = np.flatnonzero(counts >= min_count)
    live = live[np.argsort(counts[live], kind="stable")]
    by_row = sp.csr_array(occurs[:, live])
    left, right = [], []
    for lo in range(0, len(live), _BLOCK):
        block = live[lo : lo + _BLOCK]
        # Partners have similar counts: sorted by count, only a window of columns can be partners of a block.
        end = lo + int(np.searchsorted(counts[live[lo:]], counts[block[-1]] / together, side="right"))
        both = sp.coo_array(sp.csr_array(occurs[:, block].T) @ by_row[:, lo:end])
        i, j = block[both.row], live[lo + both.col]
        keep = (both.data >= together * np.maximum(counts[i], counts[j])) & (i != j)
        left.append(i[keep])
        right.append(j[keep])
    i = np.concatenate([*left, np.zeros(0, dtype=np.int64)])
    j = np.concatenate([*right, np.zeros(0, dtype=np.int64)])
    return connected_components(sp.coo_array((np.ones(len(i)), (i, j)), shape=(d, d)), directed=False)[1]


def onehot_groups(X: sp.csr_array) -> np.ndarray | None:
    """The group of each column where X is one-hot data (the r-th nonzeros of all rows lie in a range of their own).

    Examples
    --------
    >>> onehot_groups(sp.csr_array([[1, 0, 0, 1], [0, 1, 0, 1]]))
    array([0, 0, 1, 1])
    """
    counts = np.diff(X.indptr)
    if len(counts) == 0 or counts.min() != counts.max() or counts[0] < 2:
        return None
    columns = X.indices.reshape(-1, counts[0])
    low, high = columns.min(axis=0), columns.max(axis=0)
    if not (high[:-1] < low[1:]).all():
        return None
    starts = (high[:-1] + low[1:] + 1) // 2  # a column between two groups, never seen, goes to the nearer one
    return np.searchsorted(starts, np.arange(X.shape[1]), side="right")


@dataclass(frozen=True)
class _Pool:
    """Units by kind: what may take the place of a unit of that kind."""

    units: np.ndarray
    start: np.ndarray

    @classmethod
    def of(cls, kinds: np.ndarray, units: np.ndarray, n_kinds: int) -> _Pool:
        order = np.argsort(kinds, kind="stable")
        return cls(units[order], np.searchsorted(kinds[order], np.arange(n_kinds + 1)))

    def draw(self, kinds: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """A unit of each kind; −1 where there is none."""
        if len(self.units) == 0:
            return np.full(len(kinds), -1)
        first, count = self.start[kinds], np.diff(self.start)[kinds]
        pick = np.minimum(first + (rng.random(len(kinds)) * count).astype(np.int64), len(self.units) - 1)
        return np.where(count > 0, self.units[pick], -1)


class SupportSampler:
    """Supports and signs of rows, with units exchanged.

    Parameters
    ----------
    X : csr_array of shape (n, d)
        Canonical rows, each with at least one nonzero.

    Attributes
    ----------
    n_atoms : int
        Atoms of more than one column.
    grouped : bool
        Whether X is one-hot data.
    """

    def __init__(self, X: sp.csr_array) -> None:
        n, self.d = X.shape
        label, groups = atoms(X), onehot_groups(X)
        self.n, self.grouped = n, groups is not None
        self.n_atoms = int((np.bincount(label) > 1).sum())
        row, column = np.repeat(np.arange(n), np.diff(X.indptr)), X.indices.astype(np.int64)
        order = np.lexsort((column, label[column], row))
        row, column, atom = row[order], column[order], label[column[order]]
        unit_start = np.flatnonzero(np.r_[True, (np.diff(row) != 0) | (np.diff(atom) != 0)])
        # after the units of the rows: every atom whole, columns that no row uses among them
        atom_columns = np.argsort(label, kind="stable")
        atom_start = np.flatnonzero(np.r_[True, np.diff(label[atom_columns]) != 0])
        self._column = np.concatenate([column, atom_columns])
        self._sign = np.concatenate([np.sign(X.data[order]), np.zeros(self.d)]).astype(np.float32)  # 0: either
        self._signed = bool((X.data < 0).any())
        self._start = np.concatenate([unit_start, len(column) + atom_start, [len(column) + self.d]])
        self._rows = np.searchsorted(row[unit_start], np.arange(n + 1))  # units of row i: _rows[i] to _rows[i + 1]
        self._kind = self._kinds(groups)
        n_kinds, n_units = int(self._kind.max()) + 1, len(unit_start)
        self._seen = _Pool.of(self._kind[:n_units], np.arange(n_units), n_kinds)
        self._possible = _Pool.of(self._kind[n_units:], np.arange(n_units, len(self._kind)), n_kinds)
        count = np.bincount(column, minlength=self.d)[self._column[self._start[:-1]]]  # 0 and 1 are single columns
        unseen = n_units + np.flatnonzero(count[n_units:] == 0)
        self._once = count[:n_units] == 1
        self._unseen = _Pool.of(self._kind[unseen], unseen, n_kinds)

    def _kinds(self, groups: np.ndarray | None) -> np.ndarray:
        """The kind of each unit: one for all, or the set of its groups in one-hot data."""
        if groups is None:
            return np.zeros(len(self._start) - 1, dtype=np.int64)
        code = np.random.default_rng(0).integers(1, 2**48, groups.max() + 1)  # a sum of codes names a set of groups
        return np.unique(np.add.reduceat(code[groups[self._column]], self._start[:-1]), return_inverse=True)[1]

    def __call__(
        self,
        rows: np.ndarray,
        rng: np.random.Generator,
        *,
        swap: float,
        uniform: float,
        unseen: float = 0.0,
        thin: float = 0.0,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(indptr, columns, signs) of one support for each of `rows`, with units exchanged and left out.

        A support is thinned with probability `thin`; nothing may be left of it.
        """
        n_units = self._rows[rows + 1] - self._rows[rows]
        unit = _ranges(self._rows[rows], n_units)
        owner = np.repeat(np.arange(len(rows)), n_units)
        if unseen > 0:
            chosen = np.flatnonzero(self._once[unit])
            chosen = chosen[rng.random(len(chosen)) < unseen]
            new = self._unseen.draw(self._kind[unit[chosen]], rng)
            unit[chosen] = np.where(new >= 0, new, unit[chosen])
        if swap > 0:
            chosen = np.flatnonzero(rng.random(len(unit)) < swap)
            kinds = self._kind[unit[chosen]]
            new = self._seen.draw(kinds, rng)
            anything = np.flatnonzero(rng.random(len(chosen)) < uniform)
            new[anything] = self._possible.draw(kinds[anything], rng)
            unit[chosen] = np.where(new >= 0, new, unit[chosen])
        if thin > 0:
            stays = np.where(rng.random(len(rows)) < thin, rng.random(len(rows)), 1.0)
            kept = np.flatnonzero(rng.random(len(unit)) < stays[owner])
            unit, owner = unit[kept], owner[kept]
        length = self._start[unit + 1] - self._start[unit]
        place = _ranges(self._start[unit], length)
        # a row may now hold a column twice: the first one stays
        key, first = np.unique(np.repeat(owner, length) * self.d + self._column[place], return_index=True)
        signs = self._sign[place[first]]
        free = np.flatnonzero(signs == 0)
        signs[free] = rng.choice(np.array([-1, 1], dtype=np.float32), len(free)) if self._signed else 1.0
        indptr = np.searchsorted(key, np.arange(len(rows) + 1) * self.d)
        return indptr, key % self.d, signs


def padded_parts(
    indptr: np.ndarray, columns: np.ndarray, signs: np.ndarray, *, max_length: int, max_parts: int
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Supports in parts of similar length, as padded (columns, signs).

    Supports without a column and those longer than `max_length` are left out.

    Examples
    --------
    >>> parts = padded_parts(
    ...     np.array([0, 1, 4, 6]), np.array([5, 1, 2, 3, 7, 8]), np.ones(6), max_length=2, max_parts=1)
    >>> [columns.tolist() for columns, _ in parts]
    [[[5, 5], [7, 8]]]
    """
    count = np.diff(indptr)
    rows = np.flatnonzero((count > 0) & (count <= max_length))
    rows = rows[np.argsort(count[rows], kind="stable")]
    parts = []
    for part in _similar(rows, count[rows], max_parts):
        k = count[part]
        place = np.arange(k.max())
        inside = place < k[:, None]
        take = indptr[part][:, None] + np.where(inside, place, 0)
        parts.append((columns[take].astype(np.int64, copy=False), np.where(inside, signs[take], signs.dtype.type(0))))
    return parts


def _similar(rows: np.ndarray, count: np.ndarray, max_parts: int) -> list[np.ndarray]:
    """Rows in order of length, cut from the longest down: a part is at most half as long again as its shortest."""
    if len(rows) == 0:
        return []
    cuts = [len(rows)]
    while len(cuts) < max_parts and count[cuts[-1] - 1] > 8:
        cut = int(np.searchsorted(count, count[cuts[-1] - 1] / 1.5, side="left"))
        if cut == 0:
            break
        cuts.append(cut)
    return np.split(rows, cuts[:0:-1])


def _ranges(start: np.ndarray, length: np.ndarray) -> np.ndarray:
    """start[0], ..., start[0] + length[0] − 1, start[1], ...: all of them one after the other."""
    total = int(length.sum())
    return np.arange(total) + np.repeat(start - (np.cumsum(length) - length), length)
