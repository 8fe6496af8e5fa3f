"""read_matrix: every format by name or by content, and no file that breaks it."""

import io
import zipfile

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sparselens.data import npz, read_matrix
from sparselens.recovery import CorruptFileError

DENSE = np.array([[0.0, 2.0, 0.0], [1.5, 0.0, -3.0]])


def csr_arrays(**changes):
    X = sp.csr_array(DENSE)
    arrays = {"format": b"csr", "shape": X.shape, "data": X.data, "indices": X.indices, "indptr": X.indptr}
    arrays.update(changes)
    return {name: value for name, value in arrays.items() if value is not None}


@pytest.mark.parametrize("form", ["csr", "csc", "coo"])
@pytest.mark.parametrize("container", [sp.csr_array, sp.csr_matrix])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int8])
def test_scipys_files_come_back(tmp_path, form, container, dtype):
    path = tmp_path / "x.npz"
    sp.save_npz(path, container(DENSE.astype(dtype)).asformat(form))
    X = read_matrix(path)
    np.testing.assert_array_equal(X.toarray(), DENSE.astype(dtype))
    assert X.dtype == np.float64
    assert X.format == "csr"


def test_a_dense_matrix_comes_back_from_npz_and_npy(tmp_path, monkeypatch):
    monkeypatch.setattr(npz, "_DENSE_AT_ONCE", 3)  # a row at a time
    np.savez_compressed(tmp_path / "x.npz", DENSE)
    np.save(tmp_path / "x.npy", np.asfortranarray(DENSE))
    for name in ("x.npz", "x.npy"):
        np.testing.assert_array_equal(read_matrix(tmp_path / name).toarray(), DENSE)


def test_the_content_decides_where_the_name_says_nothing(tmp_path):
    (tmp_path / "a.txt").write_text("2 3\n0:1\n2:1\n")
    (tmp_path / "b.txt").write_text("1 1:1\n0 3:1\n")
    np.savez(tmp_path / "c.npz", np.eye(2, 3))
    (tmp_path / "c.npz").rename(tmp_path / "c.dat")
    np.save(tmp_path / "d.npy", np.eye(2, 3))
    (tmp_path / "d.npy").rename(tmp_path / "d")
    for name in ("a.txt", "b.txt", "c.dat", "d"):
        assert read_matrix(tmp_path / name).shape == (2, 3)


def test_csv_is_one_hot_encoded_unless_numbers_are_asked_for(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("a,b\n1,0\n3,2.5\n")
    assert read_matrix(path).toarray().tolist() == [[1, 0, 1, 0], [0, 1, 0, 1]]
    assert read_matrix(path, format="csv-numeric").toarray().tolist() == [[1, 0], [3, 2.5]]
    path.write_text("1,0\n3,2.5\n")
    assert read_matrix(path, format="csv-numeric").toarray().tolist() == [[1, 0], [3, 2.5]]


def test_a_cell_that_is_no_number_is_named(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("a,b\n1,0\n3,red\n")
    with pytest.raises(CorruptFileError, match="line 3, column 2: a number was expected, got 'red'"):
        read_matrix(path, format="csv-numeric")
    path.write_text("a,b\n")
    with pytest.raises(CorruptFileError, match="a header line and no rows"):
        read_matrix(path, format="csv-numeric")


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        (csr_arrays(data=None), r"lacks the array\(s\) data of a sparse matrix in csr format"),
        (csr_arrays(format=b"dia"), "holds the sparse format 'dia': store it as CSR"),
        (csr_arrays(format=b"coo"), r"lacks the array\(s\) row, col"),
        (csr_arrays(shape=(2, 10**12)), r"declares the shape \[2, 1000000000000\]: two whole numbers below"),
        (csr_arrays(shape=(2, -3)), r"declares the shape \[2, -3\]"),
        (csr_arrays(shape=(2, 3, 4)), r"declares the shape \[2, 3, 4\]"),
        (csr_arrays(shape=(3, 3)), "indptr does not fit: expected 4 numbers that rise from 0 to 3"),
        (csr_arrays(indptr=np.array([0, 4, 3])), "indptr does not fit"),
        (csr_arrays(indptr=np.array([0, 1, 9])), "indptr does not fit"),
        (csr_arrays(indices=np.array([1, 0, 3])), "indices holds 3 at entry 2: numbers from 0 to 2 were expected"),
        (csr_arrays(indices=np.array([-1, 0, 2])), "indices holds -1 at entry 0"),
        (csr_arrays(indices=np.array([1.0, 0, 2])), "indices must be a list of whole numbers, got float64"),
        (csr_arrays(data=np.ones(2)), r"data has the shape \(2,\) but indices has 3 entries"),
        (csr_arrays(data=np.ones(3, dtype=complex)), "data must hold real numbers, got dtype complex128"),
        (csr_arrays(data=np.array(["a", "b", "c"])), "data must hold real numbers, got dtype <U1"),
        ({"a": np.eye(2), "b": np.eye(2)}, "holds the arrays a, b: expected one matrix"),
        ({"a": np.ones(3)}, "holds the arrays a: expected one matrix"),
        ({}, r"holds the arrays \(none\)"),
        (
            {"format": b"coo", "shape": (10**9, 2), "data": np.ones(1), "row": np.array([5]), "col": np.array([1])},
            "declares 1,000,000,000 rows but holds 1 entries: the declared shape is not believable",
        ),
        (
            {"format": b"coo", "shape": (2, 2), "data": np.ones(1), "row": np.array([5]), "col": np.array([1])},
            "row holds 5 at entry 0",
        ),
    ],
)
def test_an_npz_that_lies_about_itself_is_corrupt(tmp_path, arrays, message):
    path = tmp_path / "x.npz"
    np.savez(path, **arrays)
    with pytest.raises(CorruptFileError, match=message) as caught:
        read_matrix(path)
    assert str(path) in str(caught.value)


def test_a_pickle_in_an_npz_or_npy_is_never_loaded(tmp_path):
    np.savez(tmp_path / "x.npz", np.array([[{"a": 1}]], dtype=object))
    np.save(tmp_path / "x.npy", np.array([[{"a": 1}]], dtype=object))
    with pytest.raises(CorruptFileError, match=r"holds Python objects \(a pickle\), which are never loaded"):
        read_matrix(tmp_path / "x.npz")
    with pytest.raises(CorruptFileError, match=r"not a readable \.npy array"):
        read_matrix(tmp_path / "x.npy")


def test_a_header_that_declares_more_than_follows_is_refused_before_memory_is_taken(tmp_path):
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (10**7, 10**6)})
    path = tmp_path / "x.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("arr_0.npy", header.getvalue() + b"\0" * 80)
    with pytest.raises(CorruptFileError, match=r"declares the shape \(10000000, 1000000\) .* but 80 bytes follow"):
        read_matrix(path)
    (tmp_path / "x.npy").write_bytes(header.getvalue() + b"\0" * 80)
    with pytest.raises(CorruptFileError, match=r"not a readable \.npy array"):
        read_matrix(tmp_path / "x.npy")


def test_a_zip_bomb_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(npz, "_BOMB_BYTES", 1 << 20)
    np.savez_compressed(tmp_path / "x.npz", np.zeros((2000, 2000)))
    with pytest.raises(CorruptFileError, match=r"would unpack to .* refused as a likely zip bomb"):
        read_matrix(tmp_path / "x.npz")


def test_a_damaged_or_cut_npz_is_corrupt(tmp_path):
    path = tmp_path / "x.npz"
    sp.save_npz(path, sp.random_array((200, 200), density=0.3, rng=np.random.default_rng(0)))
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(CorruptFileError, match=r"is not an \.npz file"):
        read_matrix(path)
    middle = len(whole) // 2
    path.write_bytes(whole[:middle] + bytes(64) + whole[middle + 64 :])
    with pytest.raises(CorruptFileError, match="is damaged or cut short"):
        read_matrix(path)


def test_what_is_not_a_matrix_of_numbers_is_refused(tmp_path):
    np.save(tmp_path / "x.npy", np.arange(3.0))
    with pytest.raises(CorruptFileError, match=r"an array with 1 dimension\(s\): a matrix was expected"):
        read_matrix(tmp_path / "x.npy")
    np.save(tmp_path / "x.npy", np.array([["a"]]))
    with pytest.raises(CorruptFileError, match="must hold real numbers, got dtype <U1"):
        read_matrix(tmp_path / "x.npy")
    np.save(tmp_path / "x.npy", np.array([[1.0, np.nan]]))
    with pytest.raises(ValueError, match=r"x\.npy holds NaN or infinity in row 0"):
        read_matrix(tmp_path / "x.npy")
    np.save(tmp_path / "x.npy", np.ones((0, 4)))
    with pytest.raises(ValueError, match=r"x\.npy is empty"):
        read_matrix(tmp_path / "x.npy")
    np.savez(tmp_path / "y.npz", np.eye(2))
    (tmp_path / "y.npz").rename(tmp_path / "y.npy")
    with pytest.raises(CorruptFileError, match=r"not a readable \.npy array"):
        read_matrix(tmp_path / "y.npy")


def test_an_unknown_format_an_empty_file_and_a_compressed_npz_say_what_to_do(tmp_path):
    path = tmp_path / "x.dat"
    path.write_text("hello world\n")
    with pytest.raises(ValueError, match="is of no format that its name or its first line tells: pass format="):
        read_matrix(path)
    with pytest.raises(ValueError, match="format must be one of 'npz', 'npy', 'svmlight'"):
        read_matrix(path, format="parquet")
    path.write_text("")
    with pytest.raises(CorruptFileError, match="is empty: rows of numbers were expected"):
        read_matrix(path)
    packed = tmp_path / "x.npz.gz"
    packed.write_bytes(b"")
    with pytest.raises(ValueError, match="a compressed npz file is not read: unpack it first"):
        read_matrix(packed)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from(["x.npz", "x.npy", "x.svm", "x.xmc", "x.csv", "x.txt", "x", "x.txt.gz", "x.csv.xz", "x.svm.bz2"]),
    st.one_of(
        st.binary(max_size=200),
        st.text("0123456789:,. \n-e#a", max_size=80).map(str.encode),
        st.binary(max_size=60).map(lambda tail: b"PK\x03\x04" + tail),
        st.binary(max_size=60).map(lambda tail: b"\x93NUMPY\x01\x00" + tail),
    ),
)
def test_garbage_is_read_or_refused_clearly_but_never_crashes(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content)
    refusal, X = None, None
    try:
        X = read_matrix(path)
    except ValueError as error:
        refusal = str(error)
    if X is None:
        assert str(path) in refusal
    else:
        assert X.format == "csr"
        assert np.isfinite(X.data).all()
