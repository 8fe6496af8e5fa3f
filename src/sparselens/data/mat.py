"""Matrices in MATLAB's .mat files.

Versions 4 and 5 (to 7) are parsed here: scipy.io.loadmat believes the sizes that a file declares, and a damaged one
ends the process. Version 7.3 is HDF5 and is read by `hdf`.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import scipy.sparse as sp

from sparselens.data._locate import existing_file
from sparselens.data.npz import check_entries, csr_of_dense
from sparselens.recovery import CorruptFileError

_HDF = b"MATLAB 7.3 MAT-file"
_KINDS = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}  # miINT8, ...
_MATRIX, _COMPRESSED = 14, 15
_SPARSE, _NUMERIC = 5, range(6, 16)  # mxSPARSE_CLASS; mxDOUBLE_CLASS to mxUINT64_CLASS
_COMPLEX = 0x08
_RATIO = 1100  # deflate packs 1,032 to one at most; more is a lie
_KINDS_4 = ("f8", "f4", "i4", "i2", "u2", "u1")


def read_mat(path: str | os.PathLike[str]) -> sp.csr_array:
    """Read the matrix of a MATLAB file: the only one, the only sparse one, or the one that is called X.

    Examples
    --------
    >>> import tempfile, scipy.io
    >>> path = Path(tempfile.mkdtemp()) / "x.mat"
    >>> scipy.io.savemat(path, {"X": sp.csc_array([[0.0, 2.0]])})
    >>> read_mat(path).toarray()
    array([[0., 2.]])
    """
    path = existing_file(path)
    with open(path, "rb") as file:
        start = file.read(128)
        if start.startswith(_HDF):
            return _from_hdf(path)
        try:
            if len(start) >= 4 and 0 in start[:4]:  # text never holds a zero byte: then it is version 4
                file.seek(0)
                found = {variable.name: variable for variable in _variables_4(file)}
            else:
                found = {variable.name: variable for variable in _variables_5(file, start)}
            chosen = _chosen({name: variable.is_sparse for name, variable in found.items()}, path)
            return found[chosen].matrix(path)
        except (_DamagedError, struct.error, zlib.error, OverflowError) as error:
            raise CorruptFileError(f"{path} is not a readable .mat file ({error}): write it again.") from None


class _DamagedError(Exception):
    """What is wrong with a file, before its name is known."""


@dataclass(frozen=True, eq=False)
class _Variable:
    """A real matrix: its arrays as they lie in the file, column after column."""

    name: str
    shape: tuple[int, int]
    arrays: tuple[np.ndarray, ...]  # the values; or rows, ends of columns, values
    is_sparse: bool

    def matrix(self, path: Path) -> sp.csr_array:
        n, d = self.shape
        if not self.is_sparse:
            (values,) = self.arrays
            if n < 0 or d < 0 or len(values) != n * d:
                raise _DamagedError(f"{self.name} declares the shape {self.shape} but holds {len(values):,} numbers")
            return csr_of_dense(values.reshape((n, d), order="F"))
        rows, ends, values = (np.asarray(array) for array in self.arrays)
        if rows.dtype.kind not in "iu" or ends.dtype.kind not in "iu" or n < 0 or d < 0:
            raise _DamagedError(f"{self.name} has row numbers that are not whole")
        ends = ends.astype(np.int64)
        if len(ends) != d + 1 or ends[0] != 0 or (np.diff(ends) < 0).any() or ends[-1] > min(len(rows), len(values)):
            raise _DamagedError(f"the columns of {self.name} do not fit to its shape {self.shape}")
        rows, values = (
            rows[: ends[-1]].astype(np.int64),
            values[: ends[-1]].astype(np.float64),
        )  # MATLAB keeps spare room
        check_entries(rows, n, f"the row numbers of {self.name}", path)
        _believable(n, len(rows))
        return sp.csr_array(sp.csc_array((values, rows, ends), shape=(n, d)))


def _believable(n: int, n_entries: int) -> None:
    if n > max(10_000_000, 10 * n_entries):
        raise _DamagedError(f"{n:,} rows are declared but {n_entries:,} entries follow")


# ---- version 5 --------------------------------------------------------------------------------------------------


def _variables_5(file: IO[bytes], header: bytes) -> Iterator[_Variable]:
    if len(header) < 128 or header[126:128] not in (b"IM", b"MI"):
        raise _DamagedError("no header of a MATLAB file")
    order = "<" if header[126:128] == b"IM" else ">"
    length = os.fstat(file.fileno()).st_size
    while tag := file.read(8):
        kind, size = struct.unpack(order + "II", tag)
        if size > length - file.tell():  # before memory is taken for it
            raise _DamagedError("it is cut short")
        content = file.read(size)
        if kind == _COMPRESSED:
            kind, content = _unpacked(content, order)
        if kind == _MATRIX:
            variable = _variable_5(content, order)
            if variable is not None:
                yield variable


def _unpacked(content: bytes, order: str) -> tuple[int, bytes]:
    """The one element in a compressed element; no more is unpacked than it declares."""
    stream = zlib.decompressobj()
    tag = stream.decompress(content, 8)
    kind, size = struct.unpack(order + "II", tag)
    if size > _RATIO * len(content):
        raise _DamagedError(f"{len(content):,} bytes would unpack to {size:,}")
    inside = stream.decompress(stream.unconsumed_tail, size) if size else b""
    if len(inside) != size:
        raise _DamagedError("a compressed matrix is cut short")
    return kind, inside


def _variable_5(content: bytes, order: str) -> _Variable | None:
    """A real matrix, or None for anything else that MATLAB stores (texts, cells, structures, complex numbers)."""
    elements = _elements(content, order)
    flags, shape, name = (next(elements, None) for _ in range(3))
    if flags is None or shape is None or name is None or len(flags) < 1 or flags.dtype.kind not in "iu":
        return None
    which, is_complex = int(flags[0]) & 0xFF, bool(int(flags[0]) >> 8 & _COMPLEX)
    if (which != _SPARSE and which not in _NUMERIC) or is_complex or len(shape) != 2 or shape.dtype.kind not in "iu":
        return None
    n_arrays = 3 if which == _SPARSE else 1
    arrays = tuple(array for array, _ in zip(elements, range(n_arrays), strict=False))
    if len(arrays) != n_arrays:
        raise _DamagedError("a matrix without its numbers")
    label = name.astype(np.uint8).tobytes().decode("latin-1") if name.dtype.kind in "iu" else ""
    return _Variable(label, (int(shape[0]), int(shape[1])), arrays, which == _SPARSE)


def _elements(content: bytes, order: str) -> Iterator[np.ndarray]:
    """The arrays of numbers in a matrix element, one after the other."""
    at = 0
    while at + 8 <= len(content):
        kind, size = struct.unpack_from(order + "II", content, at)
        if kind >> 16:  # a small element: its size, its kind and up to four bytes share one tag
            kind, size, start, step = kind & 0xFFFF, kind >> 16, at + 4, 8
        else:
            start, step = at + 8, 8 + -(-size // 8) * 8
        if kind not in _KINDS:
            return  # texts in Unicode, and what comes within cells
        dtype = np.dtype(order + _KINDS[kind])
        if start + size > len(content) or size % dtype.itemsize or (start == at + 4 and size > 4):
            raise _DamagedError("an array is longer than the matrix that holds it")
        yield np.frombuffer(content, dtype, size // dtype.itemsize, start)
        at += step


# ---- version 4 --------------------------------------------------------------------------------------------------


def _variables_4(file: IO[bytes]) -> Iterator[_Variable]:
    while head := file.read(20):
        if len(head) < 20:
            raise _DamagedError("it is cut short")
        order = "<" if struct.unpack("<i", head[:4])[0] < 5000 and struct.unpack("<i", head[:4])[0] >= 0 else ">"
        code, n, d, is_complex, n_name = struct.unpack(order + "5i", head)
        kind, form = code // 10 % 10, code % 10
        if not 0 <= code < 5000 or kind >= len(_KINDS_4) or form > 2 or min(n, d) < 0 or not 0 < n_name < 1000:
            raise _DamagedError("no header of a MATLAB file")
        dtype = np.dtype(order + _KINDS_4[kind])
        label = file.read(n_name).rstrip(b"\0").decode("latin-1")
        size = n * d * dtype.itemsize * (2 if is_complex else 1)
        if size > os.fstat(file.fileno()).st_size:
            raise _DamagedError(f"{label} declares the shape ({n}, {d}), which the file is too small for")
        content = file.read(size)
        if len(content) != size:
            raise _DamagedError("it is cut short")
        if form == 1 or is_complex:
            continue
        values = np.frombuffer(content, dtype)
        yield _sparse_4(label, values, n, d) if form == 2 else _Variable(label, (n, d), (values,), False)


def _sparse_4(label: str, values: np.ndarray, n: int, d: int) -> _Variable:
    """A sparse matrix: lines (row, column, value) counted from 1, and last its shape."""
    if d != 3 or n < 1:
        raise _DamagedError(f"{label} is sparse but has {d} columns of numbers instead of 3")
    rows, columns, numbers = values.reshape((n, 3), order="F").T.astype(np.float64)
    shape = (rows[-1], columns[-1])
    rows, columns = rows[:-1] - 1, columns[:-1] - 1
    whole = np.isfinite([*shape]).all() and all(0 <= length < 2**31 for length in shape)
    if not whole or not all((part == np.rint(part)).all() and (part >= 0).all() for part in (rows, columns)):
        raise _DamagedError(f"{label} has row or column numbers that are not whole")
    if (columns >= shape[1]).any() or (rows >= shape[0]).any():
        raise _DamagedError(f"{label} has a row or column number out of range")
    _believable(int(shape[1]), len(columns))
    order = np.lexsort((rows, columns))
    ends = np.concatenate(([0], np.cumsum(np.bincount(columns.astype(np.int64), minlength=int(shape[1])))))
    arrays = (rows[order].astype(np.int64), ends.astype(np.int64), numbers[:-1][order])
    return _Variable(label, (int(shape[0]), int(shape[1])), arrays, True)


# ---- which one --------------------------------------------------------------------------------------------------


def _from_hdf(path: Path) -> sp.csr_array:
    from sparselens.data.hdf import read_mat_hdf

    found: dict[str, Any] = read_mat_hdf(path)
    matrix = found[_chosen({name: sp.issparse(matrix) for name, matrix in found.items()}, path)]
    return sp.csr_array(matrix) if sp.issparse(matrix) else csr_of_dense(matrix)


def _chosen(kinds: dict[str, bool], path: Path) -> str:
    """The name of the matrix to read; `kinds` says which are sparse."""
    sparse = [name for name, is_sparse in kinds.items() if is_sparse]
    for names in (list(kinds), sparse, [name for name in kinds if name == "X"]):
        if len(names) == 1:
            return names[0]
    raise CorruptFileError(
        f"{path} holds the matrices {', '.join(sorted(kinds)) or '(none)'}: expected one, or one that is called X."
    )
