"""SLEEC's embedding and clusters."""

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp

from sparselens._validation import unit_rows
from sparselens.xml._clusters import dot_product_kmeans
from sparselens.xml._svp import _gradient, embed, near_pairs


@pytest.fixture
def labels():
    rng = np.random.default_rng(0)
    return unit_rows(sp.csr_array((rng.random((40, 8)) < 0.25).astype(float)))


def test_near_pairs_hold_the_largest_inner_products_of_each_row(labels):
    M = near_pairs(labels, 6)
    whole = (labels @ labels.T).toarray()
    assert (np.diff(M.indptr) == 6).all()
    for i in range(40):
        row = M.data[M.indptr[i] : M.indptr[i + 1]]
        np.testing.assert_allclose(np.sort(row), np.sort(whole[i])[-6:])


def test_the_gradient_is_that_of_the_squared_residual(labels):
    M = near_pairs(labels, 5)
    rng = np.random.default_rng(1)
    U, V = rng.standard_normal((40, 3)), rng.standard_normal((40, 3))
    gradient, squares = _gradient(U, V, M.indptr, M.indices, M.data)
    pattern = sp.csr_array((np.ones(M.nnz), M.indices, M.indptr), shape=M.shape).toarray()
    R = (U @ V.T - M.toarray()) * pattern
    np.testing.assert_allclose(gradient, R @ V, atol=1e-12)
    assert squares == pytest.approx((R**2).sum())


def test_the_fit_improves_until_it_stops(labels):
    points, course = embed(near_pairs(labels, 10), 5, seed=0)
    assert points.shape == (40, 5)
    assert len(course) > 2
    assert course[1] < course[0]
    assert all(b <= a for a, b in pairwise(course[:-1]))


def test_a_full_rank_embedding_of_all_pairs_is_exact(labels):
    M = near_pairs(labels, 40)
    _, course = embed(M, 12, seed=0)
    assert course[0] < 1e-6  # the labels have rank 8: the singular vectors are the answer


def test_a_cluster_smaller_than_its_embedding_is_filled_with_zeros():
    points, _ = embed(near_pairs(sp.csr_array(np.eye(3)), 3), 5, seed=0)
    assert points.shape == (3, 5)
    assert not points[:, 3:].any()


def test_a_cluster_without_labels_is_embedded_at_the_origin():
    points, course = embed(near_pairs(sp.csr_array((30, 8)), 5), 3, seed=0)
    np.testing.assert_array_equal(points, np.zeros((30, 3)))
    assert course == [0.0]


def test_clusters_depend_on_the_seed_and_on_nothing_else():
    X = unit_rows(sp.csr_array(np.random.default_rng(0).random((50, 6))))
    first, again, other = (dot_product_kmeans(X, 4, seed=seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first[1], again[1])
    assert (first[1] != other[1]).any()
    np.testing.assert_array_equal(first[1], np.argmax(X @ first[0].T, axis=1))


def test_more_clusters_than_rows_are_as_many_as_rows():
    assert len(dot_product_kmeans(sp.csr_array(np.eye(3)), 10, seed=0)[0]) == 3
