"""Categories from CSV files as one-hot rows, and back."""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from sparselens._validation import check_count
from sparselens.data._locate import existing_file
from sparselens.data.csv_text import csv_rows, is_number, table_blocks
from sparselens.recovery import CorruptFileError

Categories = dict[str, list[str]]  # column of a table -> its categories, in the order of the one-hot columns
_ONE = 1e-6  # a decoded entry that is as near to 1 is a 1


@dataclass(frozen=True, eq=False)
class OneHotTable:
    """A table of categories as one-hot rows.

    Attributes
    ----------
    matrix : csr_array of shape (n, d)
        Ones; one in each group of columns.
    groups : tuple of int
        How many categories each column of the table has, in order.
    names : str array of shape (d,)
        ``column=category``.
    categories : dict
        Column of the table -> its categories, in order: what another table needs to be encoded in the same way.
    """

    matrix: sp.csr_array
    groups: tuple[int, ...]
    names: np.ndarray
    categories: Categories


def read_onehot_csv(
    path: str | os.PathLike[str],
    *,
    columns: Sequence[int] | None = None,
    categories: Categories | None = None,
) -> OneHotTable:
    """Read a CSV file with a header line and one-hot encode its columns, each as one group.

    Categories are ordered as numbers where all of a column are whole numbers, else as text; an empty cell is a
    category of its own. The file is read in pieces and may be compressed (.gz, .xz, .bz2).

    Parameters
    ----------
    path : path
    columns : sequence of int or None
        Which columns to use, from 0; all of them by default.
    categories : dict or None
        Those of another table, so that both have the same one-hot columns. The file must have the same columns, in
        any order, and a category that is not among them is an error that names its line.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "shirts.csv"
    >>> _ = path.write_text("colour,size\\nred,10\\nblue,9\\n")
    >>> table = read_onehot_csv(path)
    >>> table.names.tolist(), table.groups
    (['colour=blue', 'colour=red', 'size=9', 'size=10'], (2, 2))
    >>> table.matrix.toarray()
    array([[0., 1., 0., 1.],
           [1., 0., 1., 0.]])
    >>> _ = path.write_text("size,colour\\n10,blue\\n")
    >>> read_onehot_csv(path, categories=table.categories).matrix.toarray()
    array([[1., 0., 0., 1.]])
    """
    path = existing_file(path)
    with csv_rows(path) as lines:
        _, header = next(lines)
        if all(is_number(cell) for cell in header):
            raise ValueError(f"{path}, line 1: the names of the columns were expected, got numbers: add a header line.")
        if categories is None:
            picked = _check_columns(columns, header, path)
            categories, codes = _learn_categories(lines, header, picked, path)
        else:
            codes = _look_up_categories(lines, header, categories, path)
    if not codes[0]:
        raise CorruptFileError(f"{path} holds a header line and no rows: was it cut short?")
    groups = tuple(len(known) for known in categories.values())
    starts = np.cumsum((0, *groups))
    indices = np.stack([start + np.concatenate(parts) for start, parts in zip(starts[:-1], codes, strict=True)], axis=1)
    n, width = indices.shape
    matrix = sp.csr_array(
        (np.ones(n * width), indices.ravel(), np.arange(0, n * width + 1, width)),
        shape=(n, starts[-1]),
        dtype=np.float64,
    )
    names = [f"{column}={category}" for column, known in categories.items() for category in known]
    return OneHotTable(matrix, groups, np.array(names), categories)


def _learn_categories(
    lines: Iterator[tuple[int, list[str]]], header: list[str], picked: list[int], path: Path
) -> tuple[Categories, list[list[np.ndarray]]]:
    """The categories of the picked columns in order, and the rank of each cell's, block by block."""
    seen: list[dict[str, int]] = [{} for _ in picked]
    codes: list[list[np.ndarray]] = [[] for _ in picked]
    for _, block in table_blocks(lines, len(header), path):
        for known, column, parts in zip(seen, picked, codes, strict=True):
            parts.append(np.fromiter((known.setdefault(cell, len(known)) for cell in block[column]), np.int64))
    categories: Categories = {}
    for slot, column in enumerate(picked):
        order = sorted(seen[slot], key=_category_key(seen[slot]))
        rank = np.empty(len(order), dtype=np.int64)
        rank[[seen[slot][category] for category in order]] = np.arange(len(order))
        codes[slot] = [rank[part] for part in codes[slot]]
        categories[header[column]] = order
    return categories, codes


def _look_up_categories(
    lines: Iterator[tuple[int, list[str]]], header: list[str], categories: Categories, path: Path
) -> list[list[np.ndarray]]:
    """The rank of each cell among the categories of its column, block by block."""
    if sorted(header) != sorted(categories):
        other = sorted(set(header) ^ set(categories)) or [name for name in set(header) if header.count(name) > 1]
        raise ValueError(
            f"{path} has the columns {_listed(header)}, but {_listed(list(categories))} were expected (different: "
            f"{_listed(other)}): pass a table with the columns that the model was fitted on."
        )
    picked = [header.index(column) for column in categories]
    ranks = [{category: rank for rank, category in enumerate(known)} for known in categories.values()]
    codes: list[list[np.ndarray]] = [[] for _ in picked]
    for numbers, block in table_blocks(lines, len(header), path):
        for known, column, parts in zip(ranks, picked, codes, strict=True):
            part = np.fromiter((known.get(cell, -1) for cell in block[column]), np.int64)
            if part.min() < 0:
                row = int(np.argmin(part))
                raise ValueError(
                    f"{path}, line {numbers[row]}: {header[column]} is {block[column][row][:40]!r}, a category that "
                    "the model does not know: leave the row out, or fit a model to a table that holds it."
                )
            parts.append(part)
    return codes


def _listed(names: list[str]) -> str:
    shown = ", ".join(map(repr, names[:6]))
    return f"{shown}, ..." if len(names) > 6 else shown


def write_onehot_csv(
    path: str | os.PathLike[str], blocks: Iterable[sp.csr_array], categories: Categories
) -> np.ndarray:
    """Write one-hot rows as the table of categories that they stand for, the way back from `read_onehot_csv`.

    A row that does not hold a one (to 1e-6) in each group and nothing else is no row of categories: its cells are left
    empty.

    Parameters
    ----------
    path : path
    blocks : iterable of csr_array of shape (n, d)
    categories : dict
        Column of the table -> its categories.

    Returns
    -------
    bool array
        Which rows are rows of categories, of all blocks.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "shirts.csv"
    >>> rows = sp.csr_array([[0.0, 1, 1, 0], [1, 0, 0.3, 0]])
    >>> write_onehot_csv(path, [rows], {"colour": ["blue", "red"], "size": ["9", "10"]}).tolist()
    [True, False]
    >>> path.read_text().splitlines()
    ['colour,size', 'red,9', ',']
    """
    sizes = [len(known) for known in categories.values()]
    group = np.repeat(np.arange(len(sizes)), sizes)
    names = np.array([category for known in categories.values() for category in known], dtype=object)
    whole = [np.zeros(0, dtype=bool)]
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(categories)
        for block in blocks:
            n = block.shape[0]
            row = np.repeat(np.arange(n), np.diff(block.indptr))
            counts = np.bincount(row * len(sizes) + group[block.indices], minlength=n * len(sizes))
            bad = np.zeros(n, dtype=bool)
            bad[row[np.abs(block.data - 1.0) > _ONE]] = True
            good = ~bad & (counts.reshape(n, len(sizes)) == 1).all(1)
            cells = np.full((n, len(sizes)), "", dtype=object)
            mine = good[row]
            cells[row[mine], group[block.indices[mine]]] = names[block.indices[mine]]
            writer.writerows(cells.tolist())
            whole.append(good)
    return np.concatenate(whole)


def _check_columns(columns: Sequence[int] | None, header: list[str], path: Path) -> list[int]:
    width = len(header)
    picked = (
        list(range(width)) if columns is None else [check_count(column, "a column", minimum=0) for column in columns]
    )
    if not picked or max(picked) >= width:
        raise ValueError(f"{path} has the columns 0 to {width - 1}, but columns={picked}: name some of those.")
    names = [header[column] for column in picked]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ValueError(f"{path}, line 1: two columns are called {twice!r}: rename one of them.")
    return picked


def _category_key(categories: dict[str, int]) -> Callable[[str], Any]:
    return int if all(category.lstrip("-").isdecimal() for category in categories) else str
