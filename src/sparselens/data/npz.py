"""Matrices in numpy's .npz and .npy files, read without pickle and without trusting what they declare."""

from __future__ import annotations

import os
import struct
import tokenize
import warnings
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
import scipy.sparse as sp

from sparselens.data._locate import existing_file, readable
from sparselens.recovery import CorruptFileError

_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
# What numpy raises for a header that is not one: it is a Python literal.
_BAD_HEADER = (ValueError, KeyError, TypeError, SyntaxError, OverflowError, EOFError, tokenize.TokenError)
_BOMB_BYTES, _BOMB_RATIO = 1 << 30, 500
_EMPTY_ROWS = 10_000_000  # rows that a file may declare without any entry in them
_DENSE_AT_ONCE = 1 << 22
_SKIPPED = 1 << 20


def read_npz(path: str | os.PathLike[str]) -> sp.csr_array:
    """Read a sparse matrix of `scipy.sparse.save_npz` (CSR, CSC or COO), or an .npz with one dense matrix.

    Examples
    --------
    >>> import tempfile, pathlib, scipy.sparse as sp
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "x.npz"
    >>> sp.save_npz(path, sp.csr_array([[0.0, 2.0]]))
    >>> read_npz(path).toarray()
    array([[0., 2.]])
    """
    path = existing_file(path)
    arrays = read_arrays(path)
    if "format" in arrays:
        return _sparse(arrays, path)
    matrices = [name for name, array in arrays.items() if array.ndim == 2]
    if len(arrays) != 1 or not matrices:
        raise CorruptFileError(
            f"{path} holds the arrays {', '.join(sorted(arrays)) or '(none)'}: expected one matrix, written by "
            "scipy.sparse.save_npz or numpy.savez."
        )
    return csr_of_dense(_real(arrays[matrices[0]], matrices[0], path))


def read_npy(path: str | os.PathLike[str]) -> sp.csr_array:
    """Read a dense two-dimensional array of `numpy.save` as CSR, some rows at a time."""
    path = existing_file(path)
    with open(path, "rb") as stream:
        array = ArrayStream(stream, path.stat().st_size, f"{path} is not a readable .npy array: it")
        if len(array.shape) != 2:
            raise CorruptFileError(
                f"{path} holds an array with {len(array.shape)} dimension(s): a matrix was expected."
            )
        check_real(array.dtype, "the array", path)
        n, d = array.shape
        if array.fortran_order or n == 0:
            return csr_of_dense(array.read_all())
        at_once = max(1, _DENSE_AT_ONCE // max(d, 1))
        blocks = [csr_of_dense(array.read(min(at_once, n - row))) for row in range(0, n, at_once)]
    return sp.vstack(blocks, format="csr")


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """Every array of an .npz file; object arrays (pickles) and lies about sizes are refused before they are read."""
    arrays = {}
    with readable(path), open_archive(path) as archive:
        members = archive.infolist()
        total, stored = sum(member.file_size for member in members), path.stat().st_size
        if total > _BOMB_BYTES and total > _BOMB_RATIO * stored:
            raise CorruptFileError(
                f"{path} has {stored:,} bytes but would unpack to {total:,}: refused as a likely zip bomb."
            )
        for member in members:
            name = member.filename.removesuffix(".npy")
            try:
                with archive.open(member) as stream:
                    arrays[name] = ArrayStream(stream, member.file_size, f"{path}: the array {name!r}").read_all()
            except (RuntimeError, NotImplementedError) as error:
                raise CorruptFileError(f"{path}: the array {name!r} cannot be unpacked ({error}).") from None
    return arrays


class ArrayStream:
    """An array that is read in order, some entries (rows, where it is a matrix) at a time.

    Parameters
    ----------
    stream : binary file
        At the beginning of a .npy file.
    size : int
        Bytes of that file.
    where : str
        What errors call the array.

    Attributes
    ----------
    shape, dtype, fortran_order, n_bytes
        What the header says.
    """

    def __init__(self, stream: IO[bytes], size: int, where: str) -> None:
        try:
            version = np.lib.format.read_magic(stream)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about how old the file is, which concerns nobody here
                self.shape, self.fortran_order, self.dtype = _HEADERS[version](stream)
        except _BAD_HEADER as error:
            raise CorruptFileError(f"{where} has no readable header ({error}).") from None
        if self.dtype.hasobject:
            raise CorruptFileError(f"{where} holds Python objects (a pickle), which are never loaded: store numbers.")
        expected = self.dtype.itemsize
        for length in self.shape:
            expected *= length
        if expected != size - stream.tell():
            raise CorruptFileError(
                f"{where} declares the shape {self.shape} ({expected:,} bytes) but {size - stream.tell():,} bytes "
                "follow."
            )
        self.stream, self.where, self.n_bytes = stream, where, expected

    def read(self, n: int) -> np.ndarray:
        """The next n entries or rows (of an array in C order)."""
        row = self.dtype.itemsize
        for length in self.shape[1:]:
            row *= length
        content = self._bytes(n * row)
        return np.frombuffer(content, dtype=self.dtype).reshape(n, *self.shape[1:])

    def skip(self, n: int) -> None:
        """Pass over n entries or rows."""
        while n > 0:
            n -= len(self.read(min(n, max(1, _SKIPPED // max(1, *self.shape[1:], 1)))))

    def read_all(self) -> np.ndarray:
        """The whole array."""
        array = np.frombuffer(self._bytes(self.n_bytes), dtype=self.dtype)
        return array.reshape(self.shape, order="F" if self.fortran_order else "C")

    def _bytes(self, n: int) -> bytes:
        content = self.stream.read(n)
        if len(content) != n:
            raise CorruptFileError(f"{self.where} ends too early: the file was cut short; write it again.")
        return content


@contextmanager
def open_archive(path: Path) -> Iterator[zipfile.ZipFile]:
    """Open an .npz file; what cannot be unpacked is a clear error."""
    if not zipfile.is_zipfile(path):
        raise CorruptFileError(f"{path} is not an .npz file (no zip archive): download or write it again.")
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive
    # Encrypted, packed in an unknown way, or a directory of members that is none.
    except (RuntimeError, NotImplementedError, struct.error, UnicodeError, OverflowError) as error:
        raise CorruptFileError(f"{path} cannot be unpacked ({error}).") from None


def open_member(archive: zipfile.ZipFile, name: str, path: Path, stack: ExitStack) -> ArrayStream:
    """One array of an .npz file, to be read in order; it is closed by the stack."""
    try:
        info = archive.getinfo(f"{name}.npy")
    except KeyError:
        raise CorruptFileError(f"{path} lacks the array(s) {name} of a sparse matrix in csr format.") from None
    return ArrayStream(stack.enter_context(archive.open(info)), info.file_size, f"{path}: the array {name!r}")


def _sparse(arrays: dict[str, np.ndarray], path: Path) -> sp.csr_array:
    kind = arrays["format"].item() if arrays["format"].size == 1 else None
    kind = kind.decode("ascii", "replace") if isinstance(kind, bytes) else kind
    needed = {"csr": ("indices", "indptr"), "csc": ("indices", "indptr"), "coo": ("row", "col")}.get(str(kind))
    if needed is None:
        raise CorruptFileError(f"{path} holds the sparse format {kind!r}: store it as CSR (matrix.tocsr()) first.")
    missing = [name for name in ("shape", "data", *needed) if name not in arrays]
    if missing:
        raise CorruptFileError(f"{path} lacks the array(s) {', '.join(missing)} of a sparse matrix in {kind} format.")
    n, d = check_shape(arrays["shape"], path)
    data = _real(arrays["data"], "data", path)
    first, second = (_integers(arrays[name], name, path) for name in needed)
    if data.ndim != 1 or len(first) != len(data):
        raise CorruptFileError(f"{path}: data has the shape {data.shape} but {needed[0]} has {len(first)} entries.")
    if kind == "coo":
        if len(second) != len(data):
            raise CorruptFileError(f"{path}: data has {len(data)} entries but col has {len(second)}.")
        check_entries(first, n, "row", path)
        check_entries(second, d, "col", path)
        _check_rows_declared(n, len(data), path)
        return sp.coo_array((data.astype(np.float64), (first, second)), shape=(n, d)).tocsr()
    across, along = (n, d) if kind == "csr" else (d, n)
    if len(second) != across + 1 or second[0] != 0 or second[-1] != len(data) or (np.diff(second) < 0).any():
        raise CorruptFileError(
            f"{path}: indptr does not fit: expected {across + 1:,} numbers that rise from 0 to {len(data):,}."
        )
    check_entries(first, along, "indices", path)
    if kind == "csr":
        return sp.csr_array((data.astype(np.float64), first, second), shape=(n, d))
    _check_rows_declared(n, len(data), path)
    return sp.csc_array((data.astype(np.float64), first, second), shape=(n, d)).tocsr()


def check_shape(shape: np.ndarray, path: Path) -> tuple[int, int]:
    """The two numbers of a stored shape."""
    if shape.shape != (2,) or shape.dtype.kind not in "iu" or min(shape.tolist()) < 0 or max(shape.tolist()) >= 2**31:
        raise CorruptFileError(
            f"{path} declares the shape {shape.tolist()}: two whole numbers below 2,147,483,648 were expected."
        )
    n, d = shape.tolist()
    return n, d


def _check_rows_declared(n: int, n_entries: int, path: Path) -> None:
    if n > max(_EMPTY_ROWS, 10 * n_entries):
        raise CorruptFileError(
            f"{path} declares {n:,} rows but holds {n_entries:,} entries: the declared shape is not believable."
        )


def check_entries(numbers: np.ndarray, limit: int, name: str, path: Path, *, first: int = 0) -> None:
    """Refuse numbers that are not from 0 to limit − 1; `first` is the place of the first of them in the file."""
    if not len(numbers) or (numbers.min() >= 0 and numbers.max() < limit):
        return
    bad = np.flatnonzero((numbers < 0) | (numbers >= limit))
    raise CorruptFileError(
        f"{path}: {name} holds {numbers[bad[0]]} at entry {first + bad[0]:,}: numbers from 0 to {limit - 1} were "
        "expected."
    )


def _integers(array: np.ndarray, name: str, path: Path) -> np.ndarray:
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise CorruptFileError(f"{path}: {name} must be a list of whole numbers, got {array.dtype} {array.shape}.")
    return array.astype(np.int64) if array.dtype.kind == "u" else array


def check_real(dtype: np.dtype, name: str, path: Path) -> None:
    """Refuse what is not a real number."""
    if dtype.kind not in "biuf":
        raise CorruptFileError(f"{path}: {name} must hold real numbers, got dtype {dtype}.")


def _real(array: np.ndarray, name: str, path: Path) -> np.ndarray:
    check_real(array.dtype, name, path)
    return array


def csr_of_dense(array: Any) -> sp.csr_array:
    """CSR float64 of a dense matrix, some rows at a time."""
    at_once = max(1, _DENSE_AT_ONCE // max(array.shape[1], 1))
    blocks = [
        sp.csr_array(np.asarray(array[row : row + at_once], dtype=np.float64))
        for row in range(0, array.shape[0], at_once)
    ]
    return sp.vstack(blocks, format="csr") if blocks else sp.csr_array(array.shape, dtype=np.float64)
