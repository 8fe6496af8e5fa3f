"""Nothing is lost: every row of every kind of data comes back from its packed form."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import sparselens as sl
from helpers import sparse_rows


def pack(X, m, seed=0):
    enc = sl.GaussianEncoder(m, random_state=seed).fit(X)
    return sl.encode_lossless(enc, X)


def binary_rows(n=80, d=30, seed=1):
    X = sparse_rows(n, d, 3, seed)
    X.data[:] = 1.0
    return sp.csr_array(sp.vstack([X, sparse_rows(n, d, 9, seed + 1).sign()]))


def same_bits(a, b):
    a, b = sp.csr_array(a), sp.csr_array(b)
    return a.shape == b.shape and (a.toarray() == b.toarray()).all()


@pytest.mark.parametrize("m", [4, 12, 20])
def test_binary_rows_come_back_bit_for_bit(m):
    X = binary_rows()
    assert same_bits(sl.decode_lossless(pack(X, m)), X)


def test_binary_rows_of_unit_norm_come_back_bit_for_bit():
    X = binary_rows()
    X = sp.csr_array(X / np.sqrt(np.asarray(X.sum(axis=1))).reshape(-1, 1))
    packed = pack(X, 14)
    assert 0 < len(packed.measured) < X.shape[0]
    assert same_bits(sl.decode_lossless(packed), X)


def test_counts_come_back_bit_for_bit():
    X = sparse_rows(60, 30, 4, seed=3)
    X.data = np.ceil(20 * X.data)
    packed = pack(X, 16)
    assert len(packed.measured)
    assert same_bits(sl.decode_lossless(packed), X)


def test_other_values_come_back_within_1e_10_and_rows_kept_aside_bit_for_bit():
    X = sparse_rows(80, 30, 5, seed=4)
    packed = pack(X, 14)
    back = sl.decode_lossless(packed)
    aside = np.setdiff1d(np.arange(80), packed.measured)
    assert 0 < len(aside) < 80
    assert same_bits(back[aside], X[aside])
    assert np.linalg.norm((back - X).toarray(), axis=1).max() <= 1e-10


@pytest.mark.parametrize("size", [1e-200, 1e-12, 1e12, 1e200])
def test_rows_of_any_size_lose_nothing(size):
    X = size * sparse_rows(80, 30, 5, seed=4)
    packed = pack(X, 14)
    error = (sl.decode_lossless(packed) - X).toarray()
    assert np.linalg.norm(error / size, axis=1).max() <= 1e-10
    assert len(packed.measured) < 80  # 14 measurements do not bring back all of them


def test_signed_rows_come_back():
    X = sparse_rows(60, 30, 3, seed=5, signed=True)
    packed = pack(X, 15)
    assert packed.positive is False
    assert len(packed.measured)
    assert np.linalg.norm((sl.decode_lossless(packed) - X).toarray(), axis=1).max() <= 1e-10


def test_empty_full_duplicate_and_single_rows_come_back():
    full, empty = np.ones((1, 12)), np.zeros((2, 12))
    X = np.vstack([empty, full, np.eye(12)[[3, 3, 3]]])
    assert same_bits(sl.decode_lossless(pack(X, 6)), X)
    assert same_bits(sl.decode_lossless(pack(X[:1], 6)), X[:1])


def test_one_column_comes_back():
    X = np.array([[2.0], [0.0], [3.5]])
    assert same_bits(sl.decode_lossless(pack(X, 1)), X)


def test_rows_with_columns_that_fit_never_saw_come_back():
    seen = sp.hstack([binary_rows(d=20), sp.csr_array((160, 10))], format="csr")
    fresh = sp.csr_array(np.eye(30)[[20, 25, 29]] + np.eye(30)[[0, 21, 28]])
    enc = sl.CertificateEncoder(12, max_steps=16, random_state=0, device="cpu").fit(seen)
    packed = sl.encode_lossless(enc, sp.csr_array(sp.vstack([seen[:10], fresh])))
    assert set(packed.measured) & {10, 11, 12}
    assert same_bits(sl.decode_lossless(packed)[10:], fresh)


def test_the_sizes_are_those_of_what_is_sent():
    X = sparse_rows(100, 200, 8, seed=6)
    packed = pack(X, 60)
    assert packed.n_bytes_dense == 100 * 200 * 8
    assert packed.n_bytes_sparse == 12 * X.nnz + 4 * 101
    assert packed.n_bytes >= packed.Y.nbytes
    assert packed.ratio_dense == packed.n_bytes / packed.n_bytes_dense
    assert "100 rows" in packed.summary()
    assert f"{packed.ratio_sparse:.3g} of the sparse rows" in packed.summary()


def test_an_encoder_without_l1_decoding_is_refused():
    X = sparse_rows(20, 12, 2, seed=7)
    enc = sl.DeepAE(3, n_hidden=4, max_epochs=1, device="cpu", random_state=0).fit(X)
    with pytest.raises(TypeError, match="needs an encoder that decodes by ℓ1 minimisation, got DeepAE"):
        sl.encode_lossless(enc, X)
