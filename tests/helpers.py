"""Every encoder and decoder, listed once with what it claims: the contract tests run over these lists."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from sparselens.data import load_dataset
from sparselens.decoders._essential import essential_columns
from sparselens.decoders.cosamp import CoSaMPDecoder
from sparselens.decoders.l1 import L1Decoder
from sparselens.decoders.linear import LinearDecoder
from sparselens.decoders.nnls import NNLSDecoder
from sparselens.decoders.omp import OMPDecoder
from sparselens.decoders.unrolled import UnrolledDecoder
from sparselens.encoders.autoencoders import DeepAE, SimpleAE
from sparselens.encoders.certificate import CertificateEncoder
from sparselens.encoders.l1ae import ISTAAE, L1AE
from sparselens.encoders.random import GaussianEncoder, PartialFourierEncoder
from sparselens.encoders.spectral import LBCSEncoder, PCAEncoder
from sparselens.sparsity import BlockSparse, OneHot, Sparse

# The problem of the decoder contract: rows of D columns with K nonzeros, M measurements. A decoder that needs a
# model of the data (groups, blocks) is listed with one of D columns.
D, M, K = 30, 15, 3


@dataclass(frozen=True)
class EncoderCase:
    """An encoder with what it claims.

    make(n_components, random_state) returns it unfitted, small enough to fit in a second or two.
    """

    make: Callable[[int, Any], Any]
    linear: bool = True  # transform is a product with components_
    nonnegative: bool = False  # refuses negative entries
    seeded: bool = True  # has random_state, and another seed gives another encoder
    exact: bool = True  # inverse_transform is ℓ1 and gives back what was measured well enough


# Enough training to run every line of it.
FAST = {"max_epochs": 6, "validation_interval": 2, "batch_size": 16, "device": "cpu"}

ENCODERS: dict[str, EncoderCase] = {
    "gaussian": EncoderCase(lambda m, seed: GaussianEncoder(m, random_state=seed)),
    "fourier": EncoderCase(lambda m, seed: PartialFourierEncoder(m, random_state=seed)),
    "pca": EncoderCase(lambda m, seed: PCAEncoder(m), seeded=False, exact=False),
    "lbcs-gaussian": EncoderCase(lambda m, seed: LBCSEncoder(m, basis="gaussian", random_state=seed)),
    "lbcs-dct": EncoderCase(lambda m, seed: LBCSEncoder(m, basis="dct"), seeded=False, exact=False),
    "l1ae": EncoderCase(lambda m, seed: L1AE(m, n_steps=3, random_state=seed, **FAST), nonnegative=True),
    "istaae": EncoderCase(lambda m, seed: ISTAAE(m, n_steps=3, random_state=seed, **FAST), nonnegative=True),
    "certificate": EncoderCase(
        lambda m, seed: CertificateEncoder(m, max_steps=16, batch_size=16, device="cpu", random_state=seed),
        nonnegative=True,
    ),
    "simple-ae": EncoderCase(lambda m, seed: SimpleAE(m, random_state=seed, **FAST), nonnegative=True),
    "deep-ae": EncoderCase(
        lambda m, seed: DeepAE(m, n_hidden=(4, 8), random_state=seed, **FAST),
        linear=False,
        nonnegative=True,
        exact=False,
    ),
}

# Decoders that solve the ℓ1 problem and prove it.
EXACT_DECODERS = {
    "l1-pos-path": lambda: L1Decoder(positive=True, method="path"),
    "l1-signed-path": lambda: L1Decoder(positive=False, method="path"),
    "l1-pos-highs": lambda: L1Decoder(positive=True, method="highs"),
    "l1-signed-highs": lambda: L1Decoder(positive=False, method="highs"),
}
# Decoders that estimate; they offer no proof.
ESTIMATING_DECODERS = {
    "linear-transpose": lambda: LinearDecoder("transpose"),
    "linear-pinv": lambda: LinearDecoder("pinv"),
    "unrolled-subgradient": lambda: UnrolledDecoder(n_steps=5),
    "unrolled-ista": lambda: UnrolledDecoder(algorithm="ista", n_steps=5),
    "cosamp-sparse": lambda: CoSaMPDecoder(Sparse(K)),
    "cosamp-blocks-signed": lambda: CoSaMPDecoder(BlockSparse(2, 5), positive=False),
    "cosamp-one-hot": lambda: CoSaMPDecoder(OneHot((7, 3, 20))),
    "nnls": lambda: NNLSDecoder(),
    "omp": lambda: OMPDecoder(K),
    "omp-signed": lambda: OMPDecoder(tol=1e-6, positive=False),
}
DECODERS = EXACT_DECODERS | ESTIMATING_DECODERS


def sparse_rows(n: int, d: int, k: int, seed: int, *, signed: bool = False) -> sp.csr_array:
    """n rows with k nonzeros each at random places, values uniform in (0.1, 1), random signs where signed."""
    rng = np.random.default_rng(seed)
    columns = np.argsort(rng.random((n, d)), axis=1)[:, :k]
    values = rng.uniform(0.1, 1.0, (n, k))
    if signed:
        values *= rng.choice([-1.0, 1.0], (n, k))
    X = np.zeros((n, d))
    np.put_along_axis(X, columns, values, axis=1)
    return sp.csr_array(X)


def gaussian(m: int, d: int, seed: int) -> np.ndarray:
    """A Gaussian measurement matrix with entries N(0, 1/m)."""
    return np.random.default_rng(seed).standard_normal((m, d)) / np.sqrt(m)


def real_data(*names: str) -> Path:
    """The data root, or a skip that says which file is missing."""
    root = os.environ.get("SPARSELENS_DATA")
    if not root:
        pytest.skip("SPARSELENS_DATA is not set: this test reads real data")
    for name in names:
        if not (Path(root) / name).exists():
            pytest.skip(f"{name} is not under SPARSELENS_DATA: this test reads it")
    return Path(root)


def principal_directions(m: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """PCA of the Amazon rows without the columns that no solution needs, and unit measurements of n test rows."""
    real_data("amazon_train.csv.gz")
    data = load_dataset("amazon")
    A = PCAEncoder(m).fit(data.train).components_
    kept = essential_columns(np.ascontiguousarray(A.T), positive=True)
    A = np.ascontiguousarray(A[:, kept])
    Y = data.test[:n][:, kept] @ A.T
    return A, Y / np.linalg.norm(Y, axis=1, keepdims=True)
