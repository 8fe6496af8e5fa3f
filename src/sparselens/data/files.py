"""A user's own matrix from a file, whatever common format it is in."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from sparselens._validation import check_choice, check_rows
from sparselens.data._locate import COMPRESSED, existing_file, open_binary
from sparselens.data.csv_text import csv_rows, is_number, table_blocks
from sparselens.data.npz import csr_of_dense, read_npy, read_npz
from sparselens.data.onehot import Categories, read_onehot_csv
from sparselens.data.sparse_text import is_header, read_svmlight, read_xmc
from sparselens.recovery import CorruptFileError

FORMATS = ("npz", "npy", "svmlight", "xmc", "csv", "csv-numeric", "h5ad", "mat")
_SUFFIXES = {
    ".npz": "npz",
    ".npy": "npy",
    ".svm": "svmlight",
    ".svmlight": "svmlight",
    ".libsvm": "svmlight",
    ".xmc": "xmc",
    ".csv": "csv",
    ".tsv": "csv",
    ".h5ad": "h5ad",
    ".mat": "mat",
}
_BINARY = ("npz", "npy", "h5ad", "mat")


def read_matrix(
    path: str | os.PathLike[str],
    *,
    format: str | None = None,  # noqa: A002 - as in numpy
    categories: Categories | None = None,
) -> sp.csr_array:
    """Read sparse rows from a file of your own.

    Parameters
    ----------
    path : path
        Text may be compressed (``.gz``, ``.xz``, ``.bz2``).
    format : str or None
        By default the name decides, or the first bytes where it says nothing (``.txt``, ``.dat``):

        * ``"npz"``: `scipy.sparse.save_npz` (CSR, CSC, COO) or one dense matrix; never a pickle;
        * ``"npy"``: one dense matrix;
        * ``"svmlight"``: ``label index:value ...``; labels are left out, see `read_svmlight`;
        * ``"xmc"``: a header ``n p L`` and lines ``l1,l2 f:v ...`` (the features are returned, see `read_xmc` for the
          labels), or a header ``n d`` and lines ``column:value ...``;
        * ``"csv"``: every column one-hot encoded as a group of its own, see `read_onehot_csv`;
        * ``"csv-numeric"``: numbers as they are; a first line that is not all numbers is a header;
        * ``"h5ad"``: X of an AnnData file (needs h5py: ``pip install 'sparselens[hdf5]'``);
        * ``"mat"``: the matrix of a MATLAB file (version 7.3 needs h5py).
    categories : dict or None
        Of a CSV file that is one-hot encoded: those of another table, see `read_onehot_csv`.

    Returns
    -------
    csr_array of shape (n, d), float64
        Finite, with sorted columns and no stored zeros; not scaled.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "rows.txt"
    >>> _ = path.write_text("1 1:2 3:4\\n0 2:1\\n")
    >>> read_matrix(path).toarray()
    array([[2., 0., 4.],
           [0., 1., 0.]])
    """
    path = existing_file(path)
    kind = detect_format(path) if format is None else check_choice(format, "format", FORMATS)
    if kind in _BINARY and path.suffix.lower() in COMPRESSED:
        raise ValueError(f"{path}: a compressed {kind} file is not read: unpack it first.")
    matrix = read_onehot_csv(path, categories=categories).matrix if kind == "csv" else _READERS[kind](path)
    return check_rows(matrix, name=str(path))


def detect_format(path: Path) -> str:
    """The format that the name, or else the first bytes, of a file tell."""
    name = Path(path.name)
    if name.suffix.lower() in COMPRESSED:
        name = name.with_suffix("")
    if kind := _SUFFIXES.get(name.suffix.lower()):
        return kind
    with open_binary(path) as stream:
        start = stream.read(1 << 16)
    if start.startswith(b"PK"):
        return "npz"
    if start.startswith(b"\x93NUMPY"):
        return "npy"
    if start.startswith(b"MATLAB "):
        return "mat"
    if not start.strip():
        raise CorruptFileError(f"{path} is empty: rows of numbers were expected.")
    first = start.lstrip().split(b"\n", 1)[0]
    if is_header(first):
        return "xmc"
    if b":" in first and b"\0" not in first:
        return "svmlight"
    raise ValueError(
        f"{path} is of no format that its name or its first line tells: pass format= (--format), one of "
        f"{', '.join(FORMATS)}."
    )


def _read_numeric_csv(path: Path) -> sp.csr_array:
    blocks = []
    with csv_rows(path) as lines:
        number, first = next(lines)
        rows = iter([] if not all(map(is_number, first)) else [(number, first)])
        for source in (rows, lines):
            for numbers, block in table_blocks(source, len(first), path):
                try:
                    dense = np.array(block, dtype=np.float64).T
                except ValueError:
                    column, row = next(
                        (c, r) for c, cells in enumerate(block) for r, cell in enumerate(cells) if not is_number(cell)
                    )
                    raise CorruptFileError(
                        f"{path}, line {numbers[row]}, column {column + 1}: a number was expected, got "
                        f"{block[column][row][:40]!r}; pass format='csv' to one-hot encode categories."
                    ) from None
                blocks.append(csr_of_dense(dense))
    if not blocks:
        raise CorruptFileError(f"{path} holds a header line and no rows: was it cut short?")
    return sp.vstack(blocks, format="csr")


def _read_h5ad(path: Path) -> sp.csr_array:
    from sparselens.data.hdf import read_h5ad  # rarely needed

    return read_h5ad(path)


def _read_mat(path: Path) -> sp.csr_array:
    from sparselens.data.mat import read_mat  # rarely needed

    return read_mat(path)


_READERS = {
    "npz": read_npz,
    "npy": read_npy,
    "svmlight": lambda path: read_svmlight(path)[0],
    "xmc": lambda path: read_xmc(path)[0],
    "csv-numeric": _read_numeric_csv,
    "h5ad": _read_h5ad,
    "mat": _read_mat,
}
