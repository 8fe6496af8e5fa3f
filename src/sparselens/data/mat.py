"""Matrices in MATLAB's .mat files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from sparselens.data._locate import existing_file
from sparselens.data.npz import csr_of_dense
from sparselens.recovery import CorruptFileError

_NUMBERS = ("double", "single", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "logical")
_HDF = b"MATLAB 7.3 MAT-file"
_SMALLEST_RATIO = 2000  # zlib packs a thousand to one at most; more is a file that lies about a size


def read_mat(path: str | os.PathLike[str]) -> sp.csr_array:
    """Read the matrix of a MATLAB file: the only one, the only sparse one, or the one that is called X.

    Files of version 7.3 are HDF5 and need h5py.

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
        start = file.read(len(_HDF))
    matrix = _from_hdf(path) if start == _HDF else _from_scipy(path)
    if not sp.issparse(matrix):
        return csr_of_dense(matrix)
    _check_indices(matrix, path)
    return sp.csr_array(matrix)


def _from_hdf(path: Path) -> Any:
    from sparselens.data.hdf import read_mat_hdf

    found = read_mat_hdf(path)
    return found[_chosen({name: sp.issparse(matrix) for name, matrix in found.items()}, path)]


def _from_scipy(path: Path) -> Any:
    from scipy.io import loadmat, whosmat

    try:
        listed = whosmat(path)
        sizes = {name: shape for name, shape, kind in listed if len(shape) == 2 and kind in (*_NUMBERS, "sparse")}
        kinds = {name: kind == "sparse" for name, shape, kind in listed if name in sizes}
        chosen = _chosen(kinds, path)
        if not kinds[chosen] and np.prod(sizes[chosen], dtype=float) > _SMALLEST_RATIO * path.stat().st_size:
            raise CorruptFileError(
                f"{path}: {chosen} declares the shape {sizes[chosen]}, which the file is too small for."
            )
        matrix = loadmat(path, variable_names=[chosen], mat_dtype=False)[chosen]
    except CorruptFileError:
        raise
    except Exception as error:  # a damaged file can end in any of them within scipy; its MatReadError is a bare one
        raise _damaged(path, error) from None
    if matrix.ndim != 2 or matrix.dtype.kind not in "biuf":
        raise CorruptFileError(f"{path}: {chosen} must be a matrix of real numbers, got {matrix.dtype}.")
    return matrix


def _chosen(kinds: dict[str, bool], path: Path) -> str:
    """The name of the matrix to read; `kinds` says which are sparse."""
    sparse = [name for name, is_sparse in kinds.items() if is_sparse]
    for names in (list(kinds), sparse, [name for name in kinds if name == "X"]):
        if len(names) == 1:
            return names[0]
    raise CorruptFileError(
        f"{path} holds the matrices {', '.join(sorted(kinds)) or '(none)'}: expected one, or one that is called X."
    )


def _check_indices(matrix: Any, path: Path) -> None:
    """What scipy built from a file is not checked by it: an index out of range would be read from foreign memory."""
    matrix = matrix.tocsc() if matrix.format not in ("csr", "csc") else matrix
    along = matrix.shape[1] if matrix.format == "csr" else matrix.shape[0]
    ends, numbers = matrix.indptr, matrix.indices
    if ends[0] != 0 or (np.diff(ends) < 0).any() or ends[-1] != len(numbers) or len(numbers) != len(matrix.data):
        raise CorruptFileError(f"{path}: the column pointers of the sparse matrix do not fit: write the file again.")
    if len(numbers) and (numbers.min() < 0 or numbers.max() >= along):
        raise CorruptFileError(f"{path}: a row number of the sparse matrix is out of range: write the file again.")


def _damaged(path: Path, error: BaseException) -> CorruptFileError:
    text = (str(error).splitlines() or [""])[0][:200]
    return CorruptFileError(f"{path} is not a readable .mat file ({type(error).__name__}: {text}): write it again.")
