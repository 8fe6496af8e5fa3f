"""The paper's lemmas as properties of this code."""

from __future__ import annotations

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from helpers import gaussian, sparse_rows
from sparselens.decoders.l1 import L1Decoder
from sparselens.sparsity import BlockSparse, OneHot, Sparse

models = st.sampled_from([Sparse(2), BlockSparse(2, 2), OneHot((3, 5))])
vectors = hnp.arrays(float, (1, 8), elements=st.floats(-10, 10))


@given(model=models, z=vectors, b=vectors)
def test_pruning_lemma_the_pruned_positive_part_is_within_twice_the_error(model, z, b):
    """‖x − M(max(b, 0))‖ ≤ 2 ‖x − b‖ for every x ≥ 0 of the model."""
    x = model.project(np.abs(z))
    pruned = model.project(np.maximum(b, 0.0))
    assert np.linalg.norm(x - pruned) <= 2 * np.linalg.norm(x - b) + 1e-12
    # and without the positivity step, for signed vectors of the model
    x = model.project(z)
    assert np.linalg.norm(x - model.project(b)) <= 2 * np.linalg.norm(x - b) + 1e-12


def whitened(A: np.ndarray) -> np.ndarray:
    """(AAᵀ)^(−1/2) A, from the singular value decomposition."""
    U, _, Vt = np.linalg.svd(A, full_matrices=False)
    return U @ Vt


problems = st.tuples(st.integers(0, 2**20), st.integers(3, 8), st.integers(1, 5), st.booleans())


@settings(max_examples=40)
@given(problem=problems, M_seed=st.integers(0, 2**20))
def test_lemma_1_multiplying_the_matrix_from_the_left_leaves_the_answer(problem, M_seed):
    seed, m, k, positive = problem
    d = 12
    A = gaussian(m, d, seed)
    X = sparse_rows(4, d, k, seed + 1, signed=not positive)
    M = np.random.default_rng(M_seed).standard_normal((m, m))
    assume(np.linalg.cond(M) < 1e4 and np.linalg.cond(A) < 1e4)
    decoder = L1Decoder(positive=positive, method="highs")
    plain, other = decoder.bind(A).decode(X @ A.T), decoder.bind(M @ A).decode(X @ (M @ A).T)
    assert plain.certified.all()
    assert other.certified.all()
    lengths = [np.abs(rec.x.toarray()).sum(axis=1) for rec in (plain, other)]
    np.testing.assert_allclose(*lengths, rtol=1e-8)
    both = plain.unique & other.unique
    # cond(M) cond(A) ≤ 1e8 digits may be lost of 1e-16
    np.testing.assert_allclose(plain.x.toarray()[both], other.x.toarray()[both], atol=1e-8)


@settings(max_examples=40)
@given(problem=problems)
def test_lemma_1_a_matrix_with_all_singular_values_one_gives_the_same_answer(problem):
    seed, m, k, positive = problem
    d = 12
    A = gaussian(m, d, seed)
    assume(np.linalg.cond(A) < 1e4)
    A_tilde = whitened(A)
    np.testing.assert_allclose(np.linalg.svd(A_tilde, compute_uv=False), 1.0, atol=1e-12)
    values, vectors = np.linalg.eigh(A @ A.T)
    root = vectors @ np.diag(values**-0.5) @ vectors.T
    np.testing.assert_allclose(A_tilde, root @ A, atol=1e-9)  # it is the lemma's matrix, with U = I
    X = sparse_rows(4, d, k, seed + 1, signed=not positive)
    decoder = L1Decoder(positive=positive, method="highs")
    plain, other = decoder.bind(A).decode(X @ A.T), decoder.bind(A_tilde).decode(X @ A_tilde.T)
    assert plain.certified.all()
    assert other.certified.all()
    both = plain.unique & other.unique
    np.testing.assert_allclose(plain.x.toarray()[both], other.x.toarray()[both], atol=1e-9)


@given(seed=st.integers(0, 2**20), m=st.integers(1, 8))
def test_lemma_1_its_projector_is_the_projector_onto_the_row_space(seed, m):
    """I − ÃᵀÃ of the projected subgradient step equals I − A⁺A."""
    A = gaussian(m, 10, seed)
    assume(np.linalg.cond(A) < 1e4)
    A_tilde = whitened(A)
    np.testing.assert_allclose(A_tilde.T @ A_tilde, np.linalg.pinv(A) @ A, atol=1e-9)
