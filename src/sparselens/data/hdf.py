"""Matrices in HDF5 files: AnnData's .h5ad, and MATLAB's .mat from version 7.3 on. Needs h5py, an extra."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from sparselens.data._locate import existing_file
from sparselens.data.npz import check_entries, check_real, check_shape, csr_of_dense
from sparselens.recovery import CorruptFileError, MissingLibraryError

_FORMS = {"csr_matrix": "csr", "csc_matrix": "csc", "csr": "csr", "csc": "csc"}
_INDPTR_AT_ONCE = 1 << 22


def read_h5ad(path: str | os.PathLike[str]) -> sp.csr_array:
    """Read X of an AnnData file: CSR, CSC or dense. Cells are rows, genes are columns."""
    path = existing_file(path)
    with opened(path) as file:
        matrix = _h5ad_matrix(file, path)
        if not isinstance(matrix, _Sparse):
            return csr_of_dense(matrix)
        if matrix.form == "csr":
            blocks = list(matrix.blocks(max(1, matrix.shape[0])))
            return blocks[0] if blocks else sp.csr_array(matrix.shape, dtype=np.float64)
        return matrix.whole_csc().tocsr()


class H5adRows:
    """Rows of an AnnData file in blocks; its X is CSR or dense (CSC has no rows to read in order)."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with opened(path) as file:
            matrix = _h5ad_matrix(file, path)
            self.shape: tuple[int, int] = tuple(matrix.shape)
            self.by_rows = not isinstance(matrix, _Sparse) or matrix.form == "csr"

    def blocks(self, size: int, *, start: int = 0) -> Iterator[Any]:
        with opened(self.path) as file:
            matrix = _h5ad_matrix(file, self.path)
            if isinstance(matrix, _Sparse):
                yield from matrix.blocks(size, start=start)
                return
            for row in range(start, self.shape[0], size):
                yield np.asarray(matrix[row : row + size], dtype=np.float64)


def read_mat_hdf(path: Path) -> dict[str, Any]:
    """The matrices of a MATLAB 7.3 file by name, each CSC or dense."""
    found: dict[str, Any] = {}
    with opened(path) as file:
        for name, item in file.items():
            if name.startswith("#"):  # MATLAB's own references
                continue
            if "MATLAB_sparse" in item.attrs:
                parts = {"data": item.get("data"), "indices": item.get("ir"), "indptr": item.get("jc")}
                if parts["data"] is None:  # a matrix without entries stores jc alone
                    parts["data"] = parts["indices"] = np.empty(0)
                    parts["indices"] = parts["indices"].astype(np.int64)
                n_rows, n_columns = int(item.attrs["MATLAB_sparse"]), _length(parts["indptr"], "jc", path) - 1
                found[name] = _Sparse("csc", (n_rows, n_columns), parts, path).whole_csc()
            elif getattr(item, "ndim", 0) == 2 and item.dtype.kind in "biuf" and "MATLAB_empty" not in item.attrs:
                found[name] = np.asarray(item).T  # MATLAB stores columns first
    return found


@contextmanager
def opened(path: Path) -> Iterator[Any]:
    """Open an HDF5 file for reading; every way in which that fails is a clear error."""
    try:
        import h5py
    except ImportError:
        raise MissingLibraryError(
            f"{path} is an HDF5 file, which needs h5py: pip install 'sparselens[hdf5]', or store the matrix as .npz."
        ) from None
    try:
        with h5py.File(path, "r") as file:
            yield file
    except CorruptFileError:
        raise
    except (OSError, RuntimeError, KeyError, ValueError, TypeError, AttributeError, OverflowError) as error:
        raise CorruptFileError(f"{path} is not a readable HDF5 file ({_first_line(error)}): write it again.") from None


class _Sparse:
    """A compressed sparse matrix whose three arrays lie in the file."""

    def __init__(self, form: str, shape: tuple[int, int], parts: dict[str, Any], path: Path) -> None:
        self.form, self.shape, self.path = form, shape, path
        self.data, self.indices, self.indptr = (parts[name] for name in ("data", "indices", "indptr"))
        n_data, n_indices = _length(self.data, "data", path), _length(self.indices, "indices", path)
        check_real(self.data.dtype, "data", path)
        for name, array in (("indices", self.indices), ("indptr", self.indptr)):
            if array.dtype.kind not in "iu":
                raise CorruptFileError(f"{path}: {name} must be a list of whole numbers, got {array.dtype}.")
        across = shape[0] if form == "csr" else shape[1]
        self.nnz = n_data
        if n_data != n_indices or _length(self.indptr, "indptr", path) != across + 1:
            raise self._does_not_fit()

    def blocks(self, size: int, *, start: int = 0) -> Iterator[sp.csr_array]:
        n, d = self.shape
        for row in range(start, n, size):
            ends = np.asarray(self.indptr[row : min(row + size, n) + 1]).astype(np.int64)
            self._check(ends, first=row == 0, last=row + size >= n)
            a, b = int(ends[0]), int(ends[-1])
            columns = np.asarray(self.indices[a:b])
            check_entries(columns, d, "indices", self.path, first=a)
            values = np.asarray(self.data[a:b]).astype(np.float64)
            yield sp.csr_array((values, columns.astype(np.int32), ends - a), shape=(len(ends) - 1, d))

    def whole_csc(self) -> sp.csc_array:
        ends = np.asarray(self.indptr[:]).astype(np.int64)
        self._check(ends, first=True, last=True)
        rows = np.asarray(self.indices[:]).astype(np.int64)
        check_entries(rows, self.shape[0], "indices", self.path)
        return sp.csc_array((np.asarray(self.data[:]).astype(np.float64), rows, ends), shape=self.shape)

    def _check(self, ends: np.ndarray, *, first: bool, last: bool) -> None:
        bad = (np.diff(ends) < 0).any() or ends[0] < 0 or ends[-1] > self.nnz
        if bad or (first and ends[0] != 0) or (last and ends[-1] != self.nnz):
            raise self._does_not_fit()

    def _does_not_fit(self) -> CorruptFileError:
        return CorruptFileError(
            f"{self.path}: indptr, indices and data do not fit to a matrix of shape {self.shape}: write the file again."
        )


def _h5ad_matrix(file: Any, path: Path) -> Any:
    """X: a `_Sparse`, or a dense two-dimensional data set."""
    X = file.get("X")
    if X is None:
        raise CorruptFileError(f"{path} holds no X: an AnnData file was expected, with its matrix under that name.")
    if hasattr(X, "keys"):
        form = X.attrs.get("encoding-type", X.attrs.get("h5sparse_format", ""))
        form = form.decode("ascii", "replace") if isinstance(form, bytes) else str(form)
        shape = X.attrs.get("shape", X.attrs.get("h5sparse_shape"))
        missing = [name for name in ("data", "indices", "indptr") if X.get(name) is None]
        if form not in _FORMS or shape is None or missing:
            raise CorruptFileError(
                f"{path}: X is stored as {form!r}, lacking {', '.join(missing) or 'nothing'}: a csr_matrix, a "
                "csc_matrix or a dense matrix was expected."
            )
        parts = {name: X[name] for name in ("data", "indices", "indptr")}
        return _Sparse(_FORMS[form], check_shape(np.asarray(shape), path), parts, path)
    if getattr(X, "ndim", 0) != 2:
        raise CorruptFileError(f"{path}: X is no matrix: two dimensions were expected.")
    check_real(X.dtype, "X", path)
    return X


def _length(array: Any, name: str, path: Path) -> int:
    if array is None or getattr(array, "ndim", 0) != 1:
        raise CorruptFileError(f"{path}: {name} must be a list of numbers.")
    return int(array.shape[0])


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]
