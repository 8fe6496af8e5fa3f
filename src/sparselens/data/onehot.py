"""Categories from CSV files as one-hot rows, and the Amazon data set."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from sparselens._validation import check_count
from sparselens.data._dataset import Dataset, Entry, Request, make_dataset, random_split
from sparselens.data._locate import DataFile, existing_file, open_binary
from sparselens.recovery import CorruptFileError
from sparselens.sparsity import OneHot

_ROWS_AT_ONCE = 10_000
AMAZON_SIZES = (19661, 6554, 6554)
_AMAZON_SEED = 43  # the authors' seed; with it the parts are the paper's, row by row


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
    """

    matrix: sp.csr_array
    groups: tuple[int, ...]
    names: np.ndarray


def read_onehot_csv(path: str | os.PathLike[str], *, columns: Sequence[int] | None = None) -> OneHotTable:
    """Read a CSV file with a header line and one-hot encode its columns, each as one group.

    Categories are ordered as numbers where all of a column are whole numbers, else as text; an empty cell is a
    category of its own. The file is read in pieces and may be compressed (.gz, .xz, .bz2).

    Parameters
    ----------
    path : path
    columns : sequence of int or None
        Which columns to use, from 0; all of them by default.

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
    """
    path = existing_file(path)
    with csv_rows(path) as lines:
        _, header = next(lines)
        if all(is_number(cell) for cell in header):
            raise ValueError(f"{path}, line 1: the names of the columns were expected, got numbers: add a header line.")
        picked = _check_columns(columns, len(header), path)
        seen: list[dict[str, int]] = [{} for _ in picked]
        codes: list[list[np.ndarray]] = [[] for _ in picked]
        for _, block in table_blocks(lines, len(header), path):
            for slot, column in enumerate(picked):
                known = seen[slot]
                codes[slot].append(
                    np.fromiter((known.setdefault(cell, len(known)) for cell in block[column]), np.int64)
                )
    if not codes[0]:
        raise CorruptFileError(f"{path} holds a header line and no rows: was it cut short?")
    names, encoded, offset = [], [], 0
    for slot, column in enumerate(picked):
        order = sorted(seen[slot], key=_category_key(seen[slot]))
        rank = np.empty(len(order), dtype=np.int64)
        rank[[seen[slot][category] for category in order]] = np.arange(len(order))
        encoded.append(offset + rank[np.concatenate(codes[slot])])
        names += [f"{header[column]}={category}" for category in order]
        offset += len(order)
    indices = np.stack(encoded, axis=1)
    n, width = indices.shape
    matrix = sp.csr_array(
        (np.ones(n * width), indices.ravel(), np.arange(0, n * width + 1, width)), shape=(n, offset), dtype=np.float64
    )
    return OneHotTable(matrix, tuple(len(known) for known in seen), np.array(names))


@contextmanager
def csv_rows(path: Path) -> Iterator[Iterator[tuple[int, list[str]]]]:
    """The lines of a CSV file as (line number, cells), with every failure a clear error."""
    with open_binary(path) as stream, io.TextIOWrapper(stream, encoding="utf-8-sig", newline="") as text:
        yield _csv_lines(text, path)


def _csv_lines(text: io.TextIOWrapper, path: Path) -> Iterator[tuple[int, list[str]]]:
    line = 0
    try:
        first = text.readline()
        if not first.strip():
            raise CorruptFileError(f"{path} is empty or starts with an empty line: a header line was expected.")
        delimiter = next((mark for mark in ",;\t" if mark in first), ",")
        reader = csv.reader(chain([first], text), delimiter=delimiter, strict=True)
        for cells in reader:
            line = reader.line_num
            if cells:
                yield line, cells
    except UnicodeDecodeError as error:
        raise CorruptFileError(f"{path}, after line {line}: not UTF-8 text ({error.reason}).") from None
    except csv.Error as error:
        raise CorruptFileError(f"{path}, after line {line}: not CSV ({error}).") from None


def table_blocks(
    lines: Iterator[tuple[int, list[str]]], width: int, path: Path
) -> Iterator[tuple[list[int], list[tuple[str, ...]]]]:
    """Line numbers and columns of some thousand rows at a time."""
    while block := list(islice(lines, _ROWS_AT_ONCE)):
        for line, cells in block:
            if len(cells) != width:
                raise CorruptFileError(
                    f"{path}, line {line}: {width} cells were expected, as in the first line, got {len(cells)}."
                )
        yield [line for line, _ in block], list(zip(*(cells for _, cells in block), strict=True))


def _check_columns(columns: Sequence[int] | None, width: int, path: Path) -> list[int]:
    picked = (
        list(range(width)) if columns is None else [check_count(column, "a column", minimum=0) for column in columns]
    )
    if not picked or max(picked) >= width:
        raise ValueError(f"{path} has the columns 0 to {width - 1}, but columns={picked}: name some of those.")
    return picked


def _category_key(categories: dict[str, int]) -> Callable[[str], Any]:
    return int if all(category.lstrip("-").isdecimal() for category in categories) else str


def is_number(cell: str) -> bool:
    """Whether a cell holds a number."""
    try:
        float(cell)
    except ValueError:
        return False
    return True


def load_amazon(request: Request) -> Dataset:
    """Kaggle's Amazon Employee Access Challenge: nine categories a row, one-hot encoded, in the paper's parts."""
    path = request.locate(AMAZON_FILE)
    table = read_onehot_csv(path, columns=range(1, 10))
    n = table.matrix.shape[0]
    if request.split == "paper":
        parts = _paper_split(n)
        how = f"Split as in the paper (seed {_AMAZON_SEED}; random_state does not change it)"
    else:
        parts = random_split(n, AMAZON_SIZES, request)
        how = f"Split at random (random_state={request.random_state!r}) into parts of the paper's sizes"
    return make_dataset(
        request,
        table.matrix,
        parts,
        sparsity=OneHot(table.groups),
        feature_names=table.names,
        provenance=(
            "Amazon Employee Access Challenge (Kaggle), train.csv: columns 1 to 9 one-hot encoded over the whole file, "
            f"d = {table.matrix.shape[1]:,}, {len(table.groups)} ones a row. {how}; "
            "some categories occur in no training row."
        ),
    )


def _paper_split(n: int) -> list[np.ndarray]:
    from sklearn.model_selection import train_test_split  # takes a second to import: only where it is needed

    train, rest = train_test_split(np.arange(n), test_size=0.4, random_state=_AMAZON_SEED)
    test, valid = train_test_split(rest, test_size=0.5, random_state=_AMAZON_SEED)  # in this order, as the authors do
    return [train, valid, test]


AMAZON_FILE = DataFile(
    names=("amazon_train.csv", "amazon/train.csv", "amazon-employee-access-challenge/train.csv", "train.csv"),
    source="https://www.kaggle.com/c/amazon-employee-access-challenge/data (train.csv)",
    sha256="c50b119438fb8c8e84b2ddb9c0a28c76cb01afa3dc78b920cfea36eb506843a7",
)
ENTRIES = {
    "amazon": Entry(
        15626, AMAZON_SIZES, "Kaggle Amazon Employee Access: 9 one-hot categories", load_amazon, (AMAZON_FILE,)
    )
}
