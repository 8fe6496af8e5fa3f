"""Whole files: the same answers as in memory, the same bytes after an interruption, and clear refusals."""

from __future__ import annotations

import os

import numpy as np
import pytest
import scipy.sparse as sp

import sparselens as sl
from helpers import sparse_rows
from sparselens import _parts
from sparselens.data import read_matrix
from sparselens.filejobs import decode_file, encode_file
from sparselens.recovery import CorruptFileError

X = sparse_rows(70, 30, 3, seed=0)


@pytest.fixture(scope="module")
def enc():
    return sl.GaussianEncoder(15, random_state=0).fit(X)


@pytest.fixture(scope="module")
def hard():
    """An encoder with too few measurements: some rows do not come back."""
    return sl.GaussianEncoder(7, random_state=0).fit(X)


@pytest.fixture
def home(tmp_path, enc):
    """A folder with the model and the rows."""
    enc.save(tmp_path / "model")
    sp.save_npz(tmp_path / "x.npz", X)
    return tmp_path


class Stop:
    """A callback that interrupts the run when this many rows are done."""

    def __init__(self, rows):
        self.rows = rows

    def __call__(self, done, total):
        if done >= self.rows:
            raise KeyboardInterrupt


def test_a_files_measurements_are_those_of_transform(home, enc):
    report = encode_file(home / "model", home / "x.npz", home / "y.npz", block_rows=16)
    with np.load(home / "y.npz") as archive:
        np.testing.assert_array_equal(archive["Y"], enc.transform(X))
    assert (report.n_rows, report.n_columns, report.n_measurements) == (70, 30, 15)
    assert report.n_bytes == (home / "y.npz").stat().st_size
    encode_file(home / "model", home / "x.npz", home / "y.npy", block_rows=16)
    np.testing.assert_array_equal(np.load(home / "y.npy"), enc.transform(X))


def test_a_files_rows_are_those_of_the_decoder(home, hard):
    Y = hard.transform(X)
    np.save(home / "y.npy", Y)
    report = decode_file(hard, home / "y.npy", home / "x_out.npz", block_rows=16)
    expected = hard.decoder().decode(Y)
    back = sp.load_npz(home / "x_out.npz")
    assert isinstance(back, sp.csr_array)
    np.testing.assert_allclose(back.toarray(), expected.x.toarray(), atol=1e-10)
    np.testing.assert_allclose(read_matrix(home / "x_out.npz").toarray(), back.toarray())
    assert report.n_certified == expected.certified.sum()
    assert report.status == {status.name: count for status, count in expected.counts().items()}
    with np.load(home / "x_out.npz") as archive:
        np.testing.assert_array_equal(archive["status"], expected.status)
        np.testing.assert_allclose(archive["residual"], expected.residual, atol=1e-12)
        assert archive["gap"].shape == (70,)


def test_two_processes_write_the_same_bytes_as_one(home):
    encode_file(home / "model", home / "x.npz", home / "y1.npz", block_rows=16)
    encode_file(home / "model", home / "x.npz", home / "y2.npz", block_rows=16, n_jobs=2)
    assert (home / "y1.npz").read_bytes() == (home / "y2.npz").read_bytes()
    decode_file(home / "model", home / "y1.npz", home / "a.npz", block_rows=16)
    decode_file(home / "model", home / "y1.npz", home / "b.npz", block_rows=16, n_jobs=2)
    assert (home / "a.npz").read_bytes() == (home / "b.npz").read_bytes()


@pytest.mark.parametrize("stop", [20, 64])
@pytest.mark.parametrize("lossless", [False, True])
def test_an_interrupted_run_goes_on_and_ends_with_the_same_bytes(home, hard, lossless, stop):
    options = {"block_rows": 10}
    for name, callback in (("whole.npz", None), ("y.npz", Stop(stop))):
        if callback is None:
            encode_file(hard, home / "x.npz", home / name, lossless=lossless, **options)
            continue
        with pytest.raises(KeyboardInterrupt):
            encode_file(hard, home / "x.npz", home / name, lossless=lossless, callback=callback, **options)
        assert not (home / name).exists()
        report = encode_file(hard, home / "x.npz", home / name, lossless=lossless, resume=True, **options)
        assert 0 < report.n_resumed <= 70
    assert (home / "y.npz").read_bytes() == (home / "whole.npz").read_bytes()
    first = decode_file(hard, home / "y.npz", home / "x1.npz", **options)
    with pytest.raises(KeyboardInterrupt):
        decode_file(hard, home / "y.npz", home / "x2.npz", callback=Stop(stop), **options)
    second = decode_file(hard, home / "y.npz", home / "x2.npz", resume=True, **options)
    assert second.n_resumed > 0
    assert second.status == first.status
    assert (home / "x2.npz").read_bytes() == (home / "x1.npz").read_bytes()
    assert not [name for name in os.listdir(home) if name.endswith(".parts")]


def test_a_run_that_was_killed_while_its_parts_were_joined_only_joins_them(home, monkeypatch):
    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(_parts.shutil, "copyfileobj", killed)
        with pytest.raises(KeyboardInterrupt):
            encode_file(home / "model", home / "x.npz", home / "y.npz", block_rows=16)
    report = encode_file(home / "model", home / "x.npz", home / "y.npz", block_rows=16, resume=True)
    assert report.n_resumed == 70
    with np.load(home / "y.npz") as archive:
        assert archive["Y"].shape == (70, 15)


def test_resume_where_nothing_was_interrupted_is_an_ordinary_run(home):
    assert encode_file(home / "model", home / "x.npz", home / "y.npz", resume=True).n_resumed == 0


def test_other_rows_another_model_or_other_blocks_are_not_resumed(home, hard):
    def interrupted(**options):
        return encode_file(home / "model", home / "x.npz", home / "y.npz", **({"block_rows": 10} | options))

    with pytest.raises(KeyboardInterrupt):
        interrupted(callback=Stop(20))
    with pytest.raises(ValueError, match=r"another run \(different: rows at once\)"):
        interrupted(resume=True, block_rows=20)
    with pytest.raises(ValueError, match=r"another run \(different: model\)"):
        encode_file(
            sl.GaussianEncoder(15, random_state=1).fit(X), home / "x.npz", home / "y.npz", resume=True, block_rows=10
        )
    sp.save_npz(home / "x.npz", 2 * X)
    with pytest.raises(ValueError, match=r"another run \(different: data\)"):
        interrupted(resume=True)


def test_measurements_of_another_model_are_refused(home, hard):
    encode_file(home / "model", home / "x.npz", home / "y.npz")
    other = sl.GaussianEncoder(15, random_state=1).fit(X)
    with pytest.raises(ValueError, match=r"y\.npz was encoded with another model: decode with that one"):
        decode_file(other, home / "y.npz", home / "z.npz")
    np.save(home / "y.npy", np.ones((3, 15)))
    with pytest.raises(ValueError, match="has 15 columns but the model makes 7 measurements a row"):
        decode_file(hard, home / "y.npy", home / "z.npz")


def test_rows_with_other_columns_are_refused_before_anything_is_written(home, enc):
    sp.save_npz(home / "wide.npz", sparse_rows(5, 31, 2, seed=1))
    with pytest.raises(ValueError, match=r"wide\.npz has 31 columns but the model was fitted to 30"):
        encode_file(enc, home / "wide.npz", home / "y.npz")
    assert sorted(os.listdir(home)) == ["model", "wide.npz", "x.npz"]


def test_a_nan_is_named_by_its_row_in_the_file(home, enc):
    Z = X.copy()
    Z.data[Z.indptr[45]] = np.nan
    sp.save_npz(home / "x.npz", Z)
    with pytest.raises(ValueError, match="holds NaN or infinity in row 45"):
        encode_file(enc, home / "x.npz", home / "y.npz", block_rows=16)


def test_measurements_with_a_nan_are_counted_and_the_others_decoded(home, enc):
    Y = enc.transform(X)
    Y[40, 2] = np.inf
    report = decode_file(enc, Y, home / "z.npz", block_rows=16)
    assert report.status["INVALID"] == 1
    assert report.n_certified == 69
    assert sp.load_npz(home / "z.npz")[[40]].nnz == 0


@pytest.mark.parametrize("name", ["y.txt", "y", "y.npz.gz"])
def test_an_ending_that_says_something_else_is_refused(home, enc, name):
    with pytest.raises(ValueError, match=r"does not end in \.npz or \.npy: name the file to write"):
        encode_file(enc, X, home / name)


def test_the_input_is_never_overwritten(home, enc):
    with pytest.raises(ValueError, match=r"x\.npz is the file to read: name another file"):
        encode_file(enc, home / "x.npz", home / "x.npz")


def test_rows_in_memory_are_encoded_too(home, enc):
    for rows in (X, X.toarray(), sp.csc_matrix(X)):
        encode_file(enc, rows, home / "y.npy")
        np.testing.assert_array_equal(np.load(home / "y.npy"), enc.transform(X))


def test_every_row_of_a_lossless_file_comes_back_and_is_checked(home, hard):
    ones = X.copy()
    ones.data[:] = 1.0
    rows = sp.csr_array(sp.vstack([X, ones, sp.csr_array((2, 30)), 7.0 * ones]))
    report = encode_file(hard, rows, home / "y.npz", lossless=True, block_rows=32)
    assert report.sizes["rows_measured"] + report.sizes["rows_kept"] == rows.shape[0]
    assert min(report.sizes.values()) > 0
    assert "as gzipped text" in report.summary()
    back = decode_file(hard, home / "y.npz", home / "z.npz", block_rows=20)
    assert back.status == {"GIVEN_BACK": rows.shape[0]}
    Z = sp.load_npz(home / "z.npz")
    assert (Z[70:].toarray() == rows[70:].toarray()).all()
    assert np.linalg.norm((Z - rows).toarray(), axis=1).max() <= 1e-10


def test_a_lossless_row_that_changed_is_counted(home, hard, monkeypatch):
    ones = X.copy()
    ones.data[:] = 1.0
    encode_file(hard, ones, home / "y.npz", lossless=True)
    with np.load(home / "y.npz") as archive:
        content = dict(archive)
    content["Y"] = content["Y"].copy()
    content["Y"][3] = content["Y"][4]
    np.savez(home / "y.npz", **content)
    report = decode_file(hard, home / "y.npz", home / "z.npz")
    assert report.status == {"GIVEN_BACK": 69, "DIFFERENT": 1}
    assert report.n_certified == 69


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("codes", np.full(70, 9, dtype=np.uint8)),
        ("codes", np.zeros(69, dtype=np.uint8)),
        ("kept_counts", np.full(70, -1, dtype=np.int32)),
        ("kept_indices", np.zeros(3)),
        ("Y", np.zeros(3)),
        ("Y", np.zeros((2, 7))),
        ("shape", np.array([70])),
    ],
)
def test_a_damaged_lossless_file_is_refused(home, hard, name, value):
    encode_file(hard, X, home / "y.npz", lossless=True)
    with np.load(home / "y.npz") as archive:
        content = dict(archive)
    np.savez(home / "y.npz", **content | {name: value})
    with pytest.raises(CorruptFileError, match=r"y\.npz"):
        decode_file(hard, home / "y.npz", home / "z.npz")
    assert not (home / "z.npz").exists()


def test_a_newer_lossless_file_is_refused(home, hard):
    encode_file(hard, X, home / "y.npz", lossless=True)
    with np.load(home / "y.npz") as archive:
        content = dict(archive)
    np.savez(home / "y.npz", **content | {"format": "sparselens lossless 2"})
    with pytest.raises(CorruptFileError, match="of a newer sparselens: upgrade"):
        decode_file(hard, home / "y.npz", home / "z.npz")


def test_the_summary_is_a_sentence(home, enc):
    report = encode_file(enc, X, home / "y.npz")
    assert report.summary().startswith(f"{home / 'y.npz'}: 70 rows, 15 measurements each (9.1 kB, ")
    report = decode_file(enc, home / "y.npz", home / "z.npz")
    assert f"70 rows, 30 columns, {report.n_certified} certified" in report.summary()
    assert report.as_dict()["n_certified"] == report.n_certified


def test_memory_does_not_grow_with_the_file(home, enc):
    """Ten times the rows: the traced peak stays where the blocks put it."""
    import tracemalloc

    peaks = []
    for repeat in (30, 300):
        sp.save_npz(home / "long.npz", sp.vstack([X] * repeat, format="csr"))
        tracemalloc.start()
        encode_file(enc, home / "long.npz", home / "y.npy", block_rows=256)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.5 * peaks[0]
