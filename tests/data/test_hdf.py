"""AnnData's .h5ad and MATLAB's .mat: their matrices, and what is refused."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp

from helpers import sparse_rows
from sparselens.data import read_matrix
from sparselens.data.hdf import H5adRows
from sparselens.data.rows import open_rows
from sparselens.recovery import CorruptFileError, MissingLibraryError

X = sparse_rows(20, 9, 3, seed=0)


def write_h5ad(path, matrix=X, *, legacy=False, **changes):
    """X as AnnData stores it; changes replace or drop (None) an array or the shape."""
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w") as file:
        if not sp.issparse(matrix):
            file.create_dataset("X", data=matrix)
            return
        group = file.create_group("X")
        arrays = {"data": matrix.data, "indices": matrix.indices, "indptr": matrix.indptr} | changes
        for name in ("data", "indices", "indptr"):
            if arrays[name] is not None:
                group.create_dataset(name, data=arrays[name])
        form = changes.get("form", f"{matrix.format}_matrix")
        group.attrs["h5sparse_format" if legacy else "encoding-type"] = matrix.format if legacy else form
        group.attrs["h5sparse_shape" if legacy else "shape"] = changes.get("shape", matrix.shape)


@pytest.mark.parametrize("legacy", [False, True])
@pytest.mark.parametrize("form", ["csr", "csc"])
def test_a_sparse_h5ad_comes_back(tmp_path, form, legacy):
    write_h5ad(tmp_path / "x.h5ad", X.asformat(form).astype(np.float32), legacy=legacy)
    np.testing.assert_array_equal(read_matrix(tmp_path / "x.h5ad").toarray(), X.astype(np.float32).toarray())


def test_a_dense_h5ad_comes_back(tmp_path):
    write_h5ad(tmp_path / "x.h5ad", X.toarray())
    np.testing.assert_array_equal(read_matrix(tmp_path / "x.h5ad").toarray(), X.toarray())
    blocks = list(open_rows(tmp_path / "x.h5ad").blocks(6, start=6))
    np.testing.assert_array_equal(np.vstack(blocks), X.toarray()[6:])


@pytest.mark.parametrize("start", [0, 7, 20])
def test_an_h5ad_is_read_in_blocks(tmp_path, start):
    write_h5ad(tmp_path / "x.h5ad")
    rows = open_rows(tmp_path / "x.h5ad")
    assert isinstance(rows, H5adRows)
    blocks = [block.toarray() for block in rows.blocks(7, start=start)]
    np.testing.assert_array_equal(np.vstack([*blocks, np.empty((0, 9))]), X.toarray()[start:])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"data": None}, "lacking data: a csr_matrix, a csc_matrix or a dense matrix was expected"),
        ({"form": "dataframe"}, "X is stored as 'dataframe'"),
        ({"shape": (20, -1)}, r"declares the shape \[20, -1\]"),
        ({"shape": (19, 9)}, "do not fit to a matrix of shape"),
        ({"indptr": np.array([0, 5])}, "do not fit to a matrix of shape"),
        ({"indptr": np.r_[1, X.indptr[1:]]}, "do not fit to a matrix of shape"),
        ({"indptr": np.r_[X.indptr[:-1], 10**9]}, "do not fit to a matrix of shape"),
        ({"indices": X.indices + 1}, "indices holds 9 at entry"),
        ({"indices": X.indices.astype(float)}, "indices must be a list of whole numbers"),
        ({"data": X.data.astype(complex)}, "data must hold real numbers, got dtype complex128"),
        ({"data": X.data[:, None]}, "data must be a list of numbers"),
    ],
)
def test_an_h5ad_that_lies_is_refused(tmp_path, changes, message):
    write_h5ad(tmp_path / "x.h5ad", **changes)
    with pytest.raises(CorruptFileError, match=message):
        read_matrix(tmp_path / "x.h5ad")
    with pytest.raises(CorruptFileError, match=message):
        list(open_rows(tmp_path / "x.h5ad").blocks(3))


def test_a_file_without_x_or_of_another_kind_is_refused(tmp_path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "x.h5ad", "w") as file:
        file["Y"] = np.eye(2)
    with pytest.raises(CorruptFileError, match="holds no X: an AnnData file was expected"):
        read_matrix(tmp_path / "x.h5ad")
    (tmp_path / "x.h5ad").write_bytes(b"text")
    with pytest.raises(CorruptFileError, match="is not a readable HDF5 file"):
        read_matrix(tmp_path / "x.h5ad")


def test_without_h5py_the_remedy_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "h5py", None)
    (tmp_path / "x.h5ad").write_bytes(b"\x89HDF\r\n\x1a\n")
    with pytest.raises(MissingLibraryError, match=r"needs h5py: pip install 'sparselens\[hdf5\]', or store"):
        read_matrix(tmp_path / "x.h5ad")
    (tmp_path / "x.mat").write_bytes(b"MATLAB 7.3 MAT-file, Platform")
    with pytest.raises(MissingLibraryError, match="needs h5py"):
        read_matrix(tmp_path / "x.mat")


# ---- MATLAB -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("matrix", [sp.csc_array(X), X.toarray(), X.toarray().astype(np.float32), X.toarray() > 0])
def test_a_mat_file_comes_back(tmp_path, matrix, compressed):
    scipy.io.savemat(tmp_path / "x.mat", {"rows": matrix, "note": "text"}, do_compression=compressed)
    expected = matrix.toarray() if sp.issparse(matrix) else matrix
    np.testing.assert_array_equal(read_matrix(tmp_path / "x.mat").toarray(), expected)


def test_a_version_4_mat_file_comes_back(tmp_path):
    scipy.io.savemat(tmp_path / "x.mat", {"rows": X.toarray()}, format="4")
    np.testing.assert_array_equal(read_matrix(tmp_path / "x.mat").toarray(), X.toarray())


def test_the_only_sparse_one_or_x_is_taken_from_several(tmp_path):
    scipy.io.savemat(tmp_path / "a.mat", {"labels": np.eye(3), "A": sp.csc_array(X)})
    scipy.io.savemat(tmp_path / "b.mat", {"labels": np.eye(3), "X": X.toarray()})
    scipy.io.savemat(tmp_path / "c.mat", {"labels": np.eye(3), "other": np.eye(4)})
    for name in ("a.mat", "b.mat"):
        np.testing.assert_array_equal(read_matrix(tmp_path / name).toarray(), X.toarray())
    with pytest.raises(CorruptFileError, match="holds the matrices labels, other: expected one, or one that is called"):
        read_matrix(tmp_path / "c.mat")


def test_a_mat_file_of_version_7_3_comes_back(tmp_path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "x.mat", "w", userblock_size=512) as file:
        C = sp.csc_array(X)
        group = file.create_group("A")
        for name, array in (("data", C.data), ("ir", C.indices.astype(np.uint64)), ("jc", C.indptr.astype(np.uint64))):
            group[name] = array
        group.attrs["MATLAB_sparse"] = np.uint64(X.shape[0])
        file["labels"] = np.eye(3)
    with open(tmp_path / "x.mat", "r+b") as raw:
        raw.write(b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(128))
    np.testing.assert_array_equal(read_matrix(tmp_path / "x.mat").toarray(), X.toarray())


@pytest.mark.parametrize("content", [b"", b"MATLAB 5.0 MAT-file", b"\0" * 200, b"MATLAB 5.0".ljust(200, b"\xff")])
def test_what_is_no_mat_file_is_refused(tmp_path, content):
    (tmp_path / "x.mat").write_bytes(content)
    with pytest.raises(CorruptFileError, match=r"x\.mat (is not a readable \.mat file|holds the matrices)"):
        read_matrix(tmp_path / "x.mat")
