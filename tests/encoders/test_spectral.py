"""PCA against dense SVD; LBCS against a basis that is held whole."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.fft
import scipy.sparse as sp

from helpers import sparse_rows
from sparselens._random import derive_seed
from sparselens.decoders.linear import LinearDecoder
from sparselens.encoders import spectral
from sparselens.encoders.spectral import LBCSEncoder, PCAEncoder, dct_energies, dct_rows, gaussian_basis

# ---- PCA ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "d", "m"), [(60, 20, 5), (60, 20, 20), (20, 60, 5), (20, 60, 20), (30, 30, 29)])
def test_components_and_singular_values_are_those_of_a_dense_svd(n, d, m):
    X = sparse_rows(n, d, 6, seed=n + m, signed=True)
    enc = PCAEncoder(m).fit(X)
    _, values, vectors = np.linalg.svd(X.toarray(), full_matrices=False)
    # the Gram matrix squares the singular values, so that the smallest ones keep half of the digits
    np.testing.assert_allclose(enc.singular_values_, values[:m], rtol=1e-7, atol=1e-7)
    overlap = np.abs(np.einsum("ij,ij->i", enc.components_, vectors[:m]))
    np.testing.assert_allclose(overlap, 1.0, atol=1e-6)
    np.testing.assert_allclose(enc.components_ @ enc.components_.T, np.eye(m), atol=1e-12)


def test_each_components_largest_entry_is_positive():
    A = PCAEncoder(6).fit(sparse_rows(50, 20, 4, seed=1, signed=True)).components_
    assert (A[np.arange(6), np.abs(A).argmax(axis=1)] > 0).all()


def test_no_linear_map_of_the_same_size_has_a_smaller_squared_error():
    X = sparse_rows(80, 15, 4, seed=2)
    enc = PCAEncoder(5).fit(X)
    error = np.linalg.norm(enc.inverse_transform(enc.transform(X)).toarray() - X.toarray())
    rng = np.random.default_rng(0)
    for _ in range(20):
        Q = np.linalg.qr(enc.components_.T + 0.1 * rng.standard_normal((15, 5)))[0]
        assert error <= np.linalg.norm(X @ Q @ Q.T - X.toarray()) + 1e-12
    tail = np.linalg.svd(X.toarray(), compute_uv=False)[5:]
    assert error == pytest.approx(np.sqrt((tail**2).sum()))  # Eckart and Young


def test_its_own_decoder_is_the_transpose():
    X = sparse_rows(40, 12, 3, seed=3)
    enc = PCAEncoder(4).fit(X)
    assert isinstance(enc.decoder(), LinearDecoder)
    A = enc.components_
    np.testing.assert_allclose(enc.inverse_transform(enc.transform(X)).toarray(), X @ A.T @ A, atol=1e-12)


@pytest.mark.parametrize(
    ("X", "m", "rank"),
    [
        (np.ones((3, 8)), 2, 1),
        (np.random.default_rng(0).random((3, 8)), 4, 3),
        (np.zeros((5, 8)), 1, 0),
        (np.repeat(np.eye(4, 40), 10, axis=0), 6, 4),  # by Lanczos iteration
    ],
    ids=["equal rows", "fewer rows than components", "no nonzeros", "few distinct rows"],
)
def test_more_components_than_the_rows_span_are_refused(X, m, rank):
    message = (
        rf"\(n_samples={len(X)}\) span at most {rank} dimensions, but n_components={m} .* at most {rank} components"
    )
    with pytest.raises(ValueError, match=message):
        PCAEncoder(m).fit(X)


def test_equal_singular_values_give_the_same_bits_twice():
    X = sp.csr_array(np.eye(50))
    first, second = PCAEncoder(10).fit(X), PCAEncoder(10).fit(X)
    np.testing.assert_array_equal(first.components_, second.components_)
    np.testing.assert_allclose(first.components_ @ first.components_.T, np.eye(10), atol=1e-12)


# ---- LBCS, Gaussian basis -----------------------------------------------------------------------------------


def whole_basis(d: int, seed: int) -> np.ndarray:
    return np.vstack([block.T for _, block in gaussian_basis(d, seed)])


@pytest.mark.parametrize(("d", "m"), [(20, 5), (128, 128), (300, 7), (300, 150)])
def test_the_rows_are_those_of_the_basis_with_the_most_energy_in_order(d, m):
    X = sparse_rows(25, d, 5, seed=d)
    G = whole_basis(d, derive_seed(7, encoder="lbcs"))
    assert G.shape == (d, d)
    energy = ((X @ G.T) ** 2).sum(axis=0)
    expected = G[np.argsort(-energy)[:m]] / np.sqrt(m)
    enc = LBCSEncoder(m, random_state=7).fit(X)
    np.testing.assert_array_equal(enc.components_, expected)


def test_the_gaussian_basis_has_independent_standard_normal_entries():
    G = whole_basis(300, 5)
    assert abs(G.mean()) < 5 / 300
    assert G.var() == pytest.approx(1.0, abs=5 * np.sqrt(2) / 300)
    assert np.abs(np.corrcoef(G[:128].ravel(), G[128:256].ravel())[0, 1]) < 5 / np.sqrt(128 * 300)


def test_any_block_of_the_basis_can_be_made_again():
    blocks = dict(gaussian_basis(300, 1))
    assert list(blocks) == [0, 128, 256]
    for first, block in gaussian_basis(300, 1):
        np.testing.assert_array_equal(block, blocks[first])
    assert not np.array_equal(blocks[0], blocks[128])


def test_without_any_energy_the_first_rows_of_the_basis_are_taken():
    enc = LBCSEncoder(3, random_state=0).fit(sp.csr_array((2, 200)))
    np.testing.assert_array_equal(enc.components_, whole_basis(200, derive_seed(0, encoder="lbcs"))[:3] / np.sqrt(3))


# ---- LBCS, DCT basis ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("d", [1, 2, 7, 64])
def test_dct_rows_are_the_rows_of_the_orthonormal_transform(d):
    C = dct_rows(np.arange(d), d)
    np.testing.assert_allclose(C, scipy.fft.dct(np.eye(d), norm="ortho", axis=0), atol=1e-14)
    np.testing.assert_allclose(C @ C.T, np.eye(d), atol=1e-13)


def test_dct_rows_stay_accurate_at_large_d():
    d, k = 47_236, 47_235
    j = np.array([0, d // 2, d - 1])
    # cos(π − a) = −cos(a) turns the large angle into a small one: k = d − 1 leaves (2j + 1)π/2 − (2j + 1)π/2d
    small = (2 * j + 1) * np.pi / (2 * d)
    expected = np.sqrt(2 / d) * np.where(j % 2 == 0, 1.0, -1.0) * np.sin(small)
    np.testing.assert_allclose(dct_rows(np.array([k]), d)[0, j], expected, atol=1e-16)


def test_dct_energies_by_fast_transforms_are_those_of_the_dense_product(monkeypatch):
    X = sparse_rows(23, 40, 5, seed=4, signed=True)
    monkeypatch.setattr(spectral, "_CELLS", 40 * 7)  # several blocks, and a partial one
    expected = ((X @ dct_rows(np.arange(40), 40).T) ** 2).sum(axis=0)
    np.testing.assert_allclose(dct_energies(X), expected, rtol=1e-11, atol=1e-13)


def test_the_dct_rows_with_the_most_energy_are_taken_in_order():
    X = sparse_rows(23, 40, 5, seed=5)
    energy = ((X @ dct_rows(np.arange(40), 40).T) ** 2).sum(axis=0)
    enc = LBCSEncoder(6, basis="dct").fit(X)
    np.testing.assert_allclose(enc.components_, dct_rows(np.argsort(-energy)[:6], 40), atol=1e-15)


# ---- both ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("basis", "total"), [("gaussian", 300), ("dct", 25)])
def test_the_callback_hears_of_every_block_up_to_the_end(basis, total, monkeypatch):
    monkeypatch.setattr(spectral, "_CELLS", 300 * 10)
    calls: list[tuple[int, int]] = []
    X = sparse_rows(25, 300, 5, seed=6)
    LBCSEncoder(4, basis=basis, random_state=0).fit(X, callback=lambda done, n: calls.append((done, n)))
    done = [call[0] for call in calls]
    assert len(calls) > 1
    assert done == sorted(done)
    assert calls[-1] == (total, total)


def test_an_unknown_basis_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match="basis must be one of 'gaussian', 'dct'; got 'wavelet'"):
        LBCSEncoder(2, basis="wavelet").fit(np.eye(4))


def test_it_keeps_more_energy_than_the_average_row():
    X = sparse_rows(50, 60, 5, seed=8)
    for basis in ("gaussian", "dct"):
        enc = LBCSEncoder(5, basis=basis, random_state=1).fit(X)
        A = enc.components_ / np.linalg.norm(enc.components_, axis=1, keepdims=True)
        assert ((X @ A.T) ** 2).sum() / 5 > (X.data**2).sum() / 60


def test_rows_that_pca_does_not_see_measure_exactly_zero():
    # two blocks that never meet: the first principal directions live on the one with more rows
    rng = np.random.default_rng(0)
    X = np.zeros((60, 20))
    X[:50, :10] = rng.random((50, 10)) + 1.0
    X[50:, 10:] = rng.random((10, 10)) * 1e-3
    Y = PCAEncoder(n_components=3).fit(X).transform(X)
    assert np.all(Y[50:] == 0.0)
    assert np.all(np.linalg.norm(Y[:50], axis=1) > 0.1)
