"""Files in blocks: the same rows as read whole, from any row on, and the same refusals."""

from __future__ import annotations

import gzip
import io
import zipfile
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp

from helpers import sparse_rows
from sparselens.data import read_matrix, sparse_text
from sparselens.data.rows import CsrFile, DenseFile, MatrixRows, open_measurements, open_rows, regrouped
from sparselens.recovery import CorruptFileError

X = sparse_rows(23, 9, 3, seed=0)


def xmc_text():
    lines = [" ".join(f"{j}:{float(v)!r}" for j, v in zip(row.indices, row.data, strict=True)) for row in rows_of(X)]
    return "23 9\n" + "\n".join(lines) + "\n"


def rows_of(matrix):
    return [sp.csr_array(matrix[[i]]) for i in range(matrix.shape[0])]


def svmlight_text():
    lines = [
        "1 " + " ".join(f"{j + 1}:{float(v)!r}" for j, v in zip(row.indices, row.data, strict=True))
        for row in rows_of(X)
    ]
    return "# a comment\n" + "\n".join(lines) + "\n"


def compressed_csr(path):
    sp.save_npz(path, X)


def stored_csr(path):
    sp.save_npz(path, X, compressed=False)


def float32_csr_with_wide_indices(path):
    Z = sp.csr_array(X.astype(np.float32))
    arrays = {"format": b"csr", "shape": X.shape, "data": Z.data}
    np.savez(path, indices=Z.indices.astype(np.int64), indptr=Z.indptr.astype(np.uint64), **arrays)


FILES = {
    "a.npz": (compressed_csr, CsrFile),
    "b.npz": (stored_csr, CsrFile),
    "c.npz": (float32_csr_with_wide_indices, CsrFile),
    "d.npz": (lambda path: sp.save_npz(path, X.tocsc()), MatrixRows),
    "e.npz": (lambda path: np.savez_compressed(path, X.toarray()), DenseFile),
    "f.npz": (lambda path: np.savez(path, np.asfortranarray(X.toarray())), MatrixRows),
    "g.npy": (lambda path: np.save(path, X.toarray()), DenseFile),
    "h.npy": (lambda path: np.save(path, np.asfortranarray(X.toarray())), MatrixRows),
    "i.xmc": (lambda path: path.write_text(xmc_text()), None),
    "j.xmc.gz": (lambda path: path.write_bytes(gzip.compress(xmc_text().encode())), None),
    "k.svm": (lambda path: path.write_text(svmlight_text()), None),
    "l.txt": (lambda path: path.write_text(svmlight_text().split("\n", 1)[1]), None),
}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize(("size", "start"), [(5, 0), (5, 10), (7, 3), (100, 0), (1, 22), (4, 23)])
def test_blocks_are_the_rows_of_the_file(tmp_path, monkeypatch, name, size, start):
    monkeypatch.setattr(sparse_text, "_CHUNK", 100)  # some lines at a time
    write, kind = FILES[name]
    write(tmp_path / name)
    rows = open_rows(tmp_path / name)
    assert rows.shape == X.shape
    assert kind is None or type(rows) is kind
    blocks = [block if sp.issparse(block) else sp.csr_array(block) for block in rows.blocks(size, start=start)]
    assert [block.shape[0] for block in blocks] == [min(size, 23 - row) for row in range(start, 23, size)]
    whole = read_matrix(tmp_path / name)
    if blocks:
        np.testing.assert_array_equal(sp.vstack(blocks).toarray(), whole[start:].toarray())


def test_svmlight_takes_the_columns_of_the_model(tmp_path):
    (tmp_path / "x.svm").write_text("1 1:2\n0 3:1\n")
    assert open_rows(tmp_path / "x.svm").shape == (2, 3)
    assert open_rows(tmp_path / "x.svm", n_features=7).shape == (2, 7)
    with pytest.raises(CorruptFileError, match="the index 3, which does not fit into n_features=2 columns"):
        open_rows(tmp_path / "x.svm", n_features=2)


def test_svmlight_whose_index_0_comes_late_is_counted_from_0_throughout(tmp_path, monkeypatch):
    monkeypatch.setattr(sparse_text, "_CHUNK", 8)
    (tmp_path / "x.svm").write_text("1 1:2\n0 2:1\n1 0:5\n")
    blocks = list(open_rows(tmp_path / "x.svm").blocks(2))
    assert sp.vstack(blocks).toarray().tolist() == [[0, 2, 0], [0, 0, 1], [5, 0, 0]]


def arrays(**changes):
    Z = sp.csr_array([[0.0, 2.0, 0.0], [1.5, 0.0, -3.0]])
    all_of = {"format": b"csr", "shape": Z.shape, "data": Z.data, "indices": Z.indices, "indptr": Z.indptr}
    return {name: value for name, value in (all_of | changes).items() if value is not None}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (arrays(data=None), r"lacks the array\(s\) data"),
        (arrays(shape=(2, -3)), r"declares the shape \[2, -3\]"),
        (arrays(shape=(3, 3)), "indptr does not fit: expected 4 numbers that rise from 0 to 3"),
        (arrays(indptr=np.array([0, 4, 3])), "indptr does not fit"),
        (arrays(indptr=np.array([0, 1, 9])), "indptr does not fit"),
        (arrays(indptr=np.array([0, 1, 2])), "indptr does not fit"),
        (arrays(indptr=np.array([1, 1, 3])), "indptr does not fit"),
        (arrays(indptr=np.array([0, 2**63 + 5, 3], dtype=np.uint64)), "indptr does not fit"),
        (arrays(indices=np.array([1, 0, 3])), "indices holds 3 at entry 2: numbers from 0 to 2 were expected"),
        (arrays(indices=np.array([-1, 0, 2])), "indices holds -1 at entry 0"),
        (arrays(indices=np.array([1.0, 0, 2])), "indices must be a list of whole numbers, got float64"),
        (arrays(data=np.ones(2)), r"data has the shape \(2,\) but indices has 3 entries"),
        (arrays(data=np.ones(3, dtype=complex)), "data must hold real numbers, got dtype complex128"),
        (arrays(data=np.array([{}] * 3, dtype=object)), r"holds Python objects \(a pickle\)"),
    ],
)
def test_a_file_that_lies_is_refused_block_by_block_too(tmp_path, content, message):
    np.savez(tmp_path / "x.npz", **content)
    with pytest.raises(CorruptFileError, match=message) as caught:
        list(open_rows(tmp_path / "x.npz").blocks(1))
    assert str(tmp_path / "x.npz") in str(caught.value)


def test_damage_in_the_middle_is_noticed(tmp_path):
    sp.save_npz(tmp_path / "x.npz", sp.random_array((500, 90), density=0.2, rng=np.random.default_rng(0)).tocsr())
    whole = (tmp_path / "x.npz").read_bytes()
    (tmp_path / "x.npz").write_bytes(whole[:9000] + bytes(64) + whole[9064:])
    with pytest.raises(CorruptFileError, match=r"is damaged or cut short|does not fit|indices holds"):
        list(open_rows(tmp_path / "x.npz").blocks(10))


def test_a_file_that_is_cut_while_it_is_read_is_noticed(tmp_path):
    np.save(tmp_path / "x.npy", np.ones((100_000, 3)))
    blocks = open_rows(tmp_path / "x.npy").blocks(50_000)
    next(blocks)
    (tmp_path / "x.npy").write_bytes(b"")
    with pytest.raises(CorruptFileError, match="ends too early"):
        list(blocks)


def test_xmc_text_with_too_few_or_too_many_lines_is_refused(tmp_path):
    for text, message in (("3 2\n0:1\n", "declares 3 rows but 1 lines"), ("1 2\n0:1\n1:1\n", "but more follow")):
        (tmp_path / "x.xmc").write_text(text)
        with pytest.raises(CorruptFileError, match=message):
            list(open_rows(tmp_path / "x.xmc").blocks(1))


def test_measurements_come_as_dense_float64_rows(tmp_path):
    Y = np.random.default_rng(0).standard_normal((10, 4)).astype(np.float32)
    np.savez(tmp_path / "a.npz", Y=Y, model="x")
    np.savez(tmp_path / "b.npz", whatever=np.asfortranarray(Y))
    np.save(tmp_path / "c.npy", Y)
    sp.save_npz(tmp_path / "d.npz", sp.csr_array(Y))
    (tmp_path / "e.csv").write_text(
        "a,b,c,d\n" + "\n".join(",".join(map(repr, row)) for row in Y.astype(float).tolist())
    )
    for name in ("a.npz", "b.npz", "c.npy", "d.npz", "e.csv"):
        blocks = list(open_measurements(tmp_path / name).blocks(4))
        assert [type(block) for block in blocks] == [np.ndarray] * 3
        np.testing.assert_array_equal(np.vstack(blocks), Y.astype(np.float64))


def test_measurements_that_are_none_are_refused(tmp_path):
    np.savez(tmp_path / "a.npz", a=np.eye(2), b=np.eye(2))
    with pytest.raises(CorruptFileError, match="holds the arrays a, b: expected one matrix of measurements"):
        open_measurements(tmp_path / "a.npz")
    np.save(tmp_path / "b.npy", np.ones(3))
    with pytest.raises(CorruptFileError, match=r"1 dimension\(s\): a matrix was expected"):
        open_measurements(tmp_path / "b.npy")


def test_an_encrypted_or_odd_archive_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("readme.txt", "hello")
    with pytest.raises(CorruptFileError, match="has no readable header"):
        open_rows(tmp_path / "x.npz")


def test_memory_does_not_follow_what_a_header_declares(tmp_path):
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (10**9, 10**6)})
    (tmp_path / "x.npy").write_bytes(header.getvalue())
    with pytest.raises(CorruptFileError, match=r"declares the shape \(1000000000, 1000000\)"):
        open_rows(tmp_path / "x.npy")


def test_pieces_of_any_length_are_regrouped():
    rng = np.random.default_rng(1)
    cuts = [0, *sorted(rng.integers(0, 23, 6).tolist()), 23]
    pieces = [X[a:b] for a, b in pairwise(cuts)]
    for size in (1, 4, 23, 50):
        for start in (0, 2, 20):
            blocks = list(regrouped(iter(pieces), size, start))
            np.testing.assert_array_equal(sp.vstack(blocks).toarray(), X[start:].toarray())
            assert all(block.shape[0] == size for block in blocks[:-1])
