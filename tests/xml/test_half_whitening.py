"""The geometry in which embeddings of labels are compared."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

import sparselens as sl
from sparselens.xml import EmbeddingClassifier
from sparselens.xml.embedding import half_whitening


def cosines(Z):
    Z = Z / np.linalg.norm(Z, axis=1, keepdims=True)
    return Z @ Z.T


def test_another_basis_of_the_same_measurements_changes_no_angle():
    rng = np.random.default_rng(0)
    Y = rng.random((40, 12)) * (rng.random((40, 12)) < 0.5)
    A, M = rng.standard_normal((5, 12)), rng.standard_normal((5, 5))
    Z, other = Y @ A.T, Y @ (M @ A).T
    same = cosines(other @ half_whitening(other.T @ other, M @ A))
    np.testing.assert_allclose(same, cosines(Z @ half_whitening(Z.T @ Z, A)), atol=1e-9)


def test_the_spread_of_directions_becomes_its_square_root():
    Z = np.random.default_rng(1).standard_normal((50, 4)) * [8.0, 4.0, 2.0, 1.0]
    moment = Z.T @ Z
    basis = half_whitening(moment)
    np.testing.assert_allclose(basis.T @ moment @ basis, np.diag(np.sqrt(np.linalg.eigvalsh(moment))), atol=1e-9)


def test_directions_that_never_occur_are_left_out():
    Z = np.random.default_rng(2).standard_normal((20, 3)) @ np.random.default_rng(3).standard_normal((3, 6))
    basis = half_whitening(Z.T @ Z)
    assert basis.shape == (6, 3)
    assert np.isfinite(basis).all()


def test_many_labels_without_an_embedder_are_compared_as_they_are(problem, monkeypatch):
    X, Y, _, _ = problem
    assert EmbeddingClassifier(predictor="neighbors").fit(X, Y).parts_[0]["basis"].shape[0] == 24
    monkeypatch.setattr("sparselens.xml.embedding._WHITENED_LABELS", 23)
    assert "basis" not in EmbeddingClassifier(predictor="neighbors").fit(X, Y).parts_[0]
    assert "basis" in EmbeddingClassifier(sl.PCAEncoder(n_components=8)).fit(X, Y).parts_[0]


def test_labels_that_never_occur_leave_a_classifier_that_answers(problem):
    X, _, X_test, _ = problem
    nothing = sp.csr_array((X.shape[0], 5))
    assert np.isfinite(EmbeddingClassifier(predictor="neighbors").fit(X, nothing).predict_topk(X_test).data).all()
