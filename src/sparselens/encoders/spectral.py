"""Measurement matrices from the second moments of the data: PCA, and LBCS, which picks rows of a fixed basis."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from sparselens._random import derive_rng, derive_seed
from sparselens._validation import FloatArray, check_choice
from sparselens.decoders.base import BaseDecoder
from sparselens.encoders.base import LinearEncoder

Progress = Callable[[int, int], None]  # called with (done, total)

# Rows of the Gaussian basis that share a seed. Part of what a seed means: another value gives other matrices.
_BASIS_BLOCK = 128
_NOISE = 1e-10  # of a vector's largest entry
_CELLS = 2**22  # entries of a dense block of rows held at once (32 MB)


def principal_directions(X: sp.csr_array, m: int) -> tuple[FloatArray, FloatArray]:
    """The top m right singular vectors (m, d) of X and their singular values, largest first.

    Nothing is centred, so that X stays sparse. Each vector's entry of largest magnitude is positive, and the
    iteration starts from a fixed vector: the same rows give the same bits.
    """
    smaller = min(X.shape)
    if m < smaller // 2:
        from scipy.sparse.linalg import svds

        start = np.random.default_rng(0).standard_normal(smaller)  # any fixed vector with all directions in it
        _, values, vectors = svds(X, k=m, v0=start, return_singular_vectors="vh", solver="arpack")
        order = np.argsort(-values, kind="stable")
        values, vectors = values[order], vectors[order]
    else:  # ARPACK would need as many Lanczos vectors as there are: take the smaller side's Gram matrix whole
        values, vectors = _directions_from_gram(X, m)
    pivots = np.take_along_axis(vectors, np.argmax(np.abs(vectors), axis=1)[:, None], axis=1)
    # Entries at rounding level are zeros: kept, they would turn rows that PCA does not see into measurements of noise.
    vectors = np.where(np.abs(vectors) > _NOISE * np.abs(pivots), vectors, 0.0)
    return vectors * np.where(pivots < 0, -1.0, 1.0), values


def _directions_from_gram(X: sp.csr_array, m: int) -> tuple[FloatArray, FloatArray]:
    n, d = X.shape
    if n >= d:
        _, basis = np.linalg.eigh((X.T @ X).toarray())
        vectors = basis[:, ::-1][:, :m].T
        return np.linalg.norm(X @ vectors.T, axis=0), vectors
    _, basis = np.linalg.eigh((X @ X.T).toarray())
    projected = np.asarray(X.T @ basis[:, ::-1][:, :m])  # (d, m), nearly orthogonal columns of length σ
    directions, triangle = np.linalg.qr(projected)  # makes them orthonormal to the last bit
    return np.abs(np.diag(triangle)), directions.T


def gaussian_basis(d: int, seed: int) -> Iterator[tuple[int, FloatArray]]:
    """The d x d Gaussian basis by blocks of rows: yields (first row, block), each block as columns (d, b).

    A block depends on the seed and its own number alone, so that any of them can be made again; no more than one
    exists at a time.
    """
    for first in range(0, d, _BASIS_BLOCK):
        rng = derive_rng(seed, basis_block=first // _BASIS_BLOCK)
        yield first, rng.standard_normal((d, min(_BASIS_BLOCK, d - first)))


def strongest_gaussian_rows(X: sp.csr_array, m: int, seed: int, callback: Progress | None = None) -> FloatArray:
    """The m rows g of the Gaussian basis with the largest energy ``‖X g‖²``, strongest first, scaled by 1/√m.

    Time grows with d · (d + nnz(X)), memory with d · (m + 128).
    """
    d = X.shape[1]
    kept = np.empty((d, m))
    energies = np.full(m, -1.0)  # below any energy: the first m rows enter
    for first, block in gaussian_basis(d, seed):
        products = X @ block
        strength = np.einsum("ij,ij->j", products, products)
        contenders = np.concatenate([energies, strength])
        best = np.argsort(-contenders, kind="stable")[:m]  # of equal ones, the earlier row stays
        entering = best[best >= m]
        leaving = np.setdiff1d(np.arange(m), best[best < m])
        kept[:, leaving] = block[:, entering - m]
        energies[leaving] = strength[entering - m]
        if callback is not None:
            callback(first + block.shape[1], d)
    order = np.argsort(-energies, kind="stable")
    return kept[:, order].T / np.sqrt(m)


def dct_energies(X: sp.csr_array, callback: Progress | None = None) -> FloatArray:
    """The energy ``Σ (c_i · x)²`` over the rows x of X for each row c_i of the orthonormal DCT-II, by fast transforms.

    Examples
    --------
    >>> dct_energies(sp.csr_array([[1.0, 1.0]])).round(12)
    array([2., 0.])
    """
    from scipy.fft import dct

    n, d = X.shape
    energies = np.zeros(d)
    size = max(1, _CELLS // d)
    for first in range(0, n, size):
        coefficients = dct(X[first : first + size].toarray(), type=2, norm="ortho", axis=1, overwrite_x=True)
        energies += np.einsum("ij,ij->j", coefficients, coefficients)
        if callback is not None:
            callback(min(first + size, n), n)
    return energies


def dct_rows(rows: np.ndarray, d: int) -> FloatArray:
    """Some rows of the orthonormal d x d DCT-II matrix.

    Examples
    --------
    >>> dct_rows(np.array([0, 1]), 2).round(4)
    array([[ 0.7071,  0.7071],
           [ 0.7071, -0.7071]])
    """
    # cos has period 4d in k(2j + 1) · π/2d; reduced as an integer, the angle keeps its last digits.
    phases = np.outer(rows.astype(np.int64), 2 * np.arange(d) + 1) % (4 * d)
    out: FloatArray = np.sqrt(2 / d) * np.cos(phases * (np.pi / (2 * d)))
    out[rows == 0] = np.sqrt(1 / d)
    return out


class PCAEncoder(LinearEncoder):
    """Measure along the top right singular vectors of the training rows: the best linear encoder for a linear decoder.

    A truncated singular value decomposition, as in the paper: nothing is centred, so that sparse rows stay sparse.
    Its own decoder is ``x̂ = AᵀA x`` (`LinearDecoder`), which `inverse_transform` uses; it is the best linear one but
    never exact. For PCA + ℓ1-min pos bind an `L1Decoder` to `components_`.

    Parameters
    ----------
    n_components : int, default=2
        The number m of measurements: at most the number of columns and at most the rank of the training rows.

    Attributes
    ----------
    components_ : float64 array of shape (m, d)
        Orthonormal rows, the strongest first; each one's entry of largest magnitude is positive.
    singular_values_ : float64 array of shape (m,)
        The singular values of the training rows.

    Examples
    --------
    >>> enc = PCAEncoder(n_components=1).fit([[2.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    >>> enc.components_.round(12) + 0.0
    array([[1., 0., 0.]])
    >>> enc.inverse_transform(enc.transform([[3.0, 5.0, 0.0]])).toarray().round(12) + 0.0
    array([[3., 0., 0.]])
    """

    def __init__(self, n_components: int = 2) -> None:
        self.n_components = n_components

    def decoder(self) -> BaseDecoder:
        """PCA's own decoder ``x̂ = Aᵀy``, bound to `components_`."""
        from sklearn.utils.validation import check_is_fitted

        from sparselens.decoders.linear import LinearDecoder

        check_is_fitted(self)
        return LinearDecoder("transpose").bind(self.components_)

    def _learn(
        self, X: sp.csr_array, X_valid: sp.csr_array | None, m: int, callback: Callable[..., None] | None
    ) -> FloatArray:
        n, d = X.shape
        rank = min(n, d)
        if m <= rank and X.nnz:
            A, self.singular_values_ = principal_directions(X, m)
            floor = max(n, d) * np.finfo(np.float64).eps * self.singular_values_[0]
            rank = int((self.singular_values_ > floor).sum())
        elif not X.nnz:
            rank = 0
        if rank < m:
            raise ValueError(
                f"the training rows (n_samples={n}) span at most {rank} dimensions, but n_components={m} directions "
                f"were asked for: pass more rows, or ask for at most {rank} components."
            )
        return A


class LBCSEncoder(LinearEncoder):
    """Measure along the rows of a fixed basis that hold the most energy of the training rows.

    Learning-based compressive subsampling: of the d rows of a basis, keep the m with the largest
    ``Σ (b_i · x)²`` over the training rows x. The basis is never held whole: a Gaussian one is drawn by blocks of
    rows, DCT energies come from fast transforms of batches.

    Parameters
    ----------
    n_components : int, default=2
        The number m of measurements, at most the number of columns.
    basis : "gaussian" or "dct"
        A d x d matrix with independent N(0, 1/m) entries, or the orthonormal DCT-II.
    random_state : int, RandomState or None
        Seeds the Gaussian basis: the same integer and the same rows give the same matrix, bit for bit.

    Attributes
    ----------
    components_ : float64 array of shape (m, d)
        The chosen rows, the strongest first.

    Notes
    -----
    `fit` calls ``callback(done, total)`` after each block. With the Gaussian basis, time grows with
    d · (d + nnz(X)) and memory with d · (m + 128).

    References
    ----------
    Baldassarre, Li, Scarlett, Gözcü, Bogunovic and Cevher, "Learning-based compressive subsampling", 2016.

    Examples
    --------
    >>> LBCSEncoder(n_components=1, basis="dct").fit([[1.0, 1.0, 1.0, 1.0]]).components_
    array([[0.5, 0.5, 0.5, 0.5]])
    """

    def __init__(self, n_components: int = 2, *, basis: str = "gaussian", random_state: Any = None) -> None:
        self.n_components = n_components
        self.basis = basis
        self.random_state = random_state

    def _learn(
        self, X: sp.csr_array, X_valid: sp.csr_array | None, m: int, callback: Callable[..., None] | None
    ) -> FloatArray:
        check_choice(self.basis, "basis", ("gaussian", "dct"))
        if self.basis == "gaussian":
            return strongest_gaussian_rows(X, m, derive_seed(self.random_state, encoder="lbcs"), callback)
        strongest = np.argsort(-dct_energies(X, callback), kind="stable")[:m]
        return dct_rows(strongest, X.shape[1])
