"""Exact neighbours and their votes."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import cdist

from sparselens.xml.neighbors import nearest, votes


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
