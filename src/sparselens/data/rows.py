"""Rows of a file, some at a time and in order, for files that do not fit into memory."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp

from sparselens._validation import as_numbers, check_choice
from sparselens.data._locate import COMPRESSED, existing_file, open_binary, readable
from sparselens.data.files import FORMATS, detect_format, read_matrix
from sparselens.data.npz import ArrayStream, check_entries, check_real, check_shape, open_archive, open_member
from sparselens.data.onehot import Categories
from sparselens.data.sparse_text import svmlight_pieces, svmlight_range, xmc_header, xmc_pieces
from sparselens.recovery import CorruptFileError


class Rows(Protocol):
    """Rows that can be read any number of times, block by block."""

    shape: tuple[int, int]

    def blocks(self, size: int, *, start: int = 0) -> Iterator[Any]:
        """Blocks of `size` rows from row `start` on; the last one may be smaller."""
        ...


def open_rows(
    path: str | os.PathLike[str],
    *,
    format: str | None = None,  # noqa: A002 - as in numpy
    n_features: int | None = None,
    categories: Categories | None = None,
) -> Rows:
    """Open a file of sparse rows to be read in blocks.

    CSR `.npz` files (also compressed ones), dense `.npy` and `.npz` files, `.h5ad` files, svmlight and XMC text are
    read in pieces; other formats are read whole first.

    Parameters
    ----------
    path : path
    format : str or None
        As in `read_matrix`.
    n_features : int or None
        Columns of an svmlight file, which does not say it itself; by default one more than its largest index.
    categories : dict or None
        Of a CSV file, as in `read_matrix`.

    Returns
    -------
    An object with ``shape`` and ``blocks(size, start=0)``, which yields CSR blocks. They are not checked for NaN.

    Examples
    --------
    >>> import tempfile, scipy.sparse as sp
    >>> path = Path(tempfile.mkdtemp()) / "x.npz"
    >>> sp.save_npz(path, sp.csr_array(np.eye(5)))
    >>> rows = open_rows(path)
    >>> rows.shape, [block.shape for block in rows.blocks(2, start=1)]
    ((5, 5), [(2, 5), (2, 5)])
    """
    path = existing_file(path)
    kind = detect_format(path) if format is None else check_choice(format, "format", FORMATS)
    if path.suffix.lower() not in COMPRESSED or kind in ("svmlight", "xmc"):
        if kind == "npz":
            opened = _open_npz(path)
            if opened is not None:
                return opened
        if kind == "npy":
            dense = DenseFile(path, None)
            if not dense.fortran_order:
                return dense
        if kind == "h5ad":
            from sparselens.data.hdf import H5adRows

            cells = H5adRows(path)
            if cells.by_rows:
                return cells
        if kind == "xmc":
            return XmcRows(path)
        if kind == "svmlight":
            return SvmlightRows(path, n_features)
    return MatrixRows(read_matrix(path, format=kind, categories=categories))


def open_measurements(path: str | os.PathLike[str]) -> Rows:
    """Open a file of measurements, one dense matrix in `.npz` or `.npy`, to be read in blocks of float64 rows."""
    path = existing_file(path)
    with open_binary(path) as stream:
        start = stream.read(6)
    if start.startswith(b"PK"):
        members = _headers(path)
        matrices = [name for name, (shape, _, _) in members.items() if len(shape) == 2]
        if "format" not in members and ("Y" in matrices or len(matrices) == 1):
            name = "Y" if "Y" in matrices else matrices[0]
            return _dense_or_whole(path, name)
        if "format" not in members:
            raise CorruptFileError(
                f"{path} holds the arrays {', '.join(sorted(members)) or '(none)'}: expected one matrix of "
                "measurements, as encode writes it."
            )
    elif start.startswith(b"\x93NUMPY"):
        return _dense_or_whole(path, None)
    return MatrixRows(read_matrix(path, format="csv-numeric" if path.suffix.lower() == ".csv" else None), dense=True)


class MatrixRows:
    """Rows of a matrix in memory."""

    def __init__(self, matrix: Any, *, dense: bool = False) -> None:
        self.matrix = matrix
        self.dense = dense
        self.shape: tuple[int, int] = matrix.shape

    def blocks(self, size: int, *, start: int = 0) -> Iterator[Any]:
        for row in range(start, self.shape[0], size):
            block = self.matrix[row : row + size]
            yield block.toarray() if self.dense and sp.issparse(block) else block


class DenseFile:
    """Rows of a dense matrix in a .npy file, or of the member `name` of an .npz file."""

    def __init__(self, path: Path, name: str | None) -> None:
        self.path, self.name = path, name
        with self._open() as array:
            if len(array.shape) != 2:
                raise CorruptFileError(
                    f"{path} holds an array with {len(array.shape)} dimension(s): a matrix was expected."
                )
            check_real(array.dtype, "the array", path)
            self.shape: tuple[int, int] = array.shape
            self.fortran_order = array.fortran_order

    def blocks(self, size: int, *, start: int = 0) -> Iterator[np.ndarray]:
        with self._open() as array:
            array.skip(start)
            for row in range(start, self.shape[0], size):
                yield array.read(min(size, self.shape[0] - row)).astype(np.float64)

    @contextmanager
    def _open(self) -> Iterator[ArrayStream]:
        with readable(self.path), ExitStack() as stack:
            if self.name is None:
                stream: Any = stack.enter_context(open(self.path, "rb"))
                size = self.path.stat().st_size
            else:
                archive = stack.enter_context(open_archive(self.path))
                stream = stack.enter_context(archive.open(f"{self.name}.npy"))
                size = archive.getinfo(f"{self.name}.npy").file_size
            yield ArrayStream(stream, size, f"{self.path}: the array {self.name!r}" if self.name else str(self.path))


class CsrFile:
    """Rows of a CSR matrix that `scipy.sparse.save_npz` wrote, compressed or not."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with readable(path), open_archive(path) as archive, ExitStack() as stack:
            self.shape = check_shape(open_member(archive, "shape", path, stack).read_all(), path)
            data, indices, indptr = (open_member(archive, name, path, stack) for name in ("data", "indices", "indptr"))
            check_real(data.dtype, "data", path)
            for name, array in (("indices", indices), ("indptr", indptr)):
                if len(array.shape) != 1 or array.dtype.kind not in "iu":
                    raise CorruptFileError(
                        f"{path}: {name} must be a list of whole numbers, got {array.dtype} {array.shape}."
                    )
            if len(data.shape) != 1 or data.shape != indices.shape:
                raise CorruptFileError(
                    f"{path}: data has the shape {data.shape} but indices has {indices.shape[0]} entries."
                )
            if indptr.shape[0] != self.shape[0] + 1:
                raise self._does_not_fit(data.shape[0])
            self.nnz = int(data.shape[0])

    def blocks(self, size: int, *, start: int = 0) -> Iterator[sp.csr_array]:
        n, d = self.shape
        with readable(self.path), open_archive(self.path) as archive, ExitStack() as stack:
            data, indices, indptr = (
                open_member(archive, name, self.path, stack) for name in ("data", "indices", "indptr")
            )
            end = int(indptr.read(1)[0])
            if end != 0:
                raise self._does_not_fit(self.nnz)
            if start:
                indptr.skip(start - 1)
                end = int(indptr.read(1)[0])
                self._check_rising(np.array([0, end]))
                data.skip(end)
                indices.skip(end)
            for row in range(start, n, size):
                ends = np.concatenate(([end], indptr.read(min(size, n - row)).astype(np.int64)))
                self._check_rising(ends)
                count = int(ends[-1] - ends[0])
                columns = indices.read(count)
                check_entries(columns, d, "indices", self.path, first=end)
                values = data.read(count).astype(np.float64)
                # 32-bit column numbers as scipy has them, and made once: they are checked, and d fits
                yield sp.csr_array((values, columns.astype(np.int32), ends - end), shape=(len(ends) - 1, d))
                end = int(ends[-1])
            if end != self.nnz:
                raise self._does_not_fit(self.nnz)

    def _check_rising(self, ends: np.ndarray) -> None:
        if (np.diff(ends) < 0).any() or ends[-1] > self.nnz:
            raise self._does_not_fit(self.nnz)

    def _does_not_fit(self, nnz: int) -> CorruptFileError:
        return CorruptFileError(
            f"{self.path}: indptr does not fit: expected {self.shape[0] + 1:,} numbers that rise from 0 to {nnz:,}."
        )


class XmcRows:
    """Features of an XMC text file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        n, d, _ = xmc_header(path)
        self.shape = (n, d)

    def blocks(self, size: int, *, start: int = 0) -> Iterator[sp.csr_array]:
        return regrouped(xmc_pieces(self.path), size, start)


class SvmlightRows:
    """Features of an svmlight file; it is read once before, for the number of rows and where columns begin."""

    def __init__(self, path: Path, n_features: int | None) -> None:
        self.path = path
        n, self.first, width = svmlight_range(path, n_features=n_features)
        self.shape = (n, width)

    def blocks(self, size: int, *, start: int = 0) -> Iterator[sp.csr_array]:
        return regrouped(svmlight_pieces(self.path, first=self.first, width=self.shape[1]), size, start)


def regrouped(pieces: Iterable[sp.csr_array], size: int, start: int) -> Iterator[sp.csr_array]:
    """CSR pieces of any length as blocks of `size` rows, from row `start` on.

    Examples
    --------
    >>> pieces = [sp.csr_array(np.eye(4)[:3]), sp.csr_array(np.eye(4)[3:])]
    >>> [block.shape[0] for block in regrouped(pieces, 2, 1)]
    [2, 1]
    """
    waiting: list[sp.csr_array] = []
    n = 0
    for piece in pieces:
        if start >= piece.shape[0]:
            start -= piece.shape[0]
            continue
        waiting.append(piece[start:])
        n, start = n + waiting[-1].shape[0], 0
        if n >= size:
            rows = sp.vstack(waiting, format="csr") if len(waiting) > 1 else waiting[0]
            whole = n - n % size
            for row in range(0, whole, size):
                yield rows[row : row + size]
            waiting, n = ([rows[whole:]] if whole < n else []), n - whole
    if waiting:
        yield sp.vstack(waiting, format="csr")


# ---- members of an archive ----------------------------------------------------------------------------------


def _headers(path: Path) -> dict[str, tuple[tuple[int, ...], bool, np.dtype]]:
    """Shape, order and dtype of every array of an .npz file."""
    found = {}
    with readable(path), open_archive(path) as archive:
        for info in archive.infolist():
            with archive.open(info) as stream:
                array = ArrayStream(stream, info.file_size, f"{path}: the array {info.filename!r}")
                found[info.filename.removesuffix(".npy")] = (array.shape, array.fortran_order, array.dtype)
    return found


def read_small(path: Path, name: str) -> np.ndarray | None:
    """One small array of an .npz file, or None where there is none of this name."""
    with readable(path), open_archive(path) as archive, ExitStack() as stack:
        if f"{name}.npy" not in archive.namelist():
            return None
        array = open_member(archive, name, path, stack)
        if array.n_bytes > _SMALL:
            raise CorruptFileError(f"{path}: the array {name!r} is not a small one: the file is damaged.")
        return array.read_all()


_SMALL = 1 << 16


def _open_npz(path: Path) -> Rows | None:
    """The rows of a CSR or dense C-ordered .npz file; None where it has to be read whole."""
    members = _headers(path)
    if "format" in members:
        form = read_small(path, "format")
        kind = form.item() if form is not None and form.size == 1 else None
        if kind in (b"csr", "csr"):
            return CsrFile(path)
        return None
    if len(members) != 1:
        return None
    (name, (shape, fortran_order, _)) = next(iter(members.items()))
    return DenseFile(path, name) if len(shape) == 2 and not fortran_order else None


def _dense_or_whole(path: Path, name: str | None) -> Rows:
    """A dense matrix in pieces, or whole where it lies column by column."""
    dense = DenseFile(path, name)
    if not dense.fortran_order:
        return dense
    with dense._open() as array:
        return MatrixRows(as_numbers(array.read_all(), str(path)).astype(np.float64))
