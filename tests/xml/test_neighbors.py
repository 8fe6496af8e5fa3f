"""The basis in which embeddings are compared, exact neighbours and their votes."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import cdist

from sparselens.xml.neighbors import half_whitening, nearest, votes


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_neighbours_are_those_of_a_full_distance_matrix(metric, monkeypatch):
    monkeypatch.setattr("sparselens.xml._topk._CELLS", 100)
    rng = np.random.default_rng(0)
    queries, points = rng.standard_normal((30, 6)), rng.standard_normal((50, 6))
    indices, cosines = nearest(queries, points, 7, metric=metric)
    np.testing.assert_array_equal(indices, np.argsort(cdist(queries, points, metric), axis=1)[:, :7])
    np.testing.assert_allclose(cosines, 1 - np.take_along_axis(cdist(queries, points, "cosine"), indices, axis=1))


def test_more_neighbours_than_points_are_all_points():
    assert nearest(np.ones((2, 3)), np.eye(3), 10)[0].shape == (2, 3)


def test_zero_vectors_have_neighbours_and_no_angle():
    indices, cosines = nearest(np.zeros((1, 2)), np.array([[1.0, 0.0], [0.0, 0.0]]), 2)
    np.testing.assert_array_equal(indices, [[1, 0]])
    np.testing.assert_array_equal(cosines, [[0.0, 0.0]])


def test_a_power_of_zero_counts_neighbours():
    labels = sp.csr_array(np.array([[1.0, 0, 1], [0, 1, 1], [1, 0, 0]]))
    counted = votes(np.array([[0, 1], [2, 0]]), np.array([[0.9, -0.5], [0.1, 0.2]]), labels)
    np.testing.assert_array_equal(counted.toarray(), [[1, 1, 2], [2, 0, 1]])


def test_neighbours_at_obtuse_angles_do_not_vote_where_angles_count():
    labels = sp.csr_array(np.eye(2))
    np.testing.assert_allclose(
        votes(np.array([[0, 1]]), np.array([[0.5, -0.5]]), labels, power=2).toarray(), [[0.25, 0.0]]
    )


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
