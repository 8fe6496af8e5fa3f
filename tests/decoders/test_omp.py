"""Orthogonal matching pursuit against scikit-learn's, and its positive form against its definition."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import nnls
from sklearn.linear_model import orthogonal_mp

from helpers import gaussian, sparse_rows
from sparselens.decoders.omp import OMPDecoder


def unit_columns(m: int, d: int, seed: int) -> np.ndarray:
    A = gaussian(m, d, seed)
    return A / np.linalg.norm(A, axis=0)  # scikit-learn's OMP takes columns as they are, ours divides by their norms


@pytest.mark.parametrize("k", [1, 3, 8, 12])
def test_signed_pursuit_is_scikit_learns(k):
    A = unit_columns(20, 60, 0)
    Y = np.random.default_rng(k).standard_normal((15, 20))
    found = OMPDecoder(k, positive=False).bind(A).decode(Y)
    np.testing.assert_allclose(found.x.toarray(), orthogonal_mp(A, Y.T, n_nonzero_coefs=k).T, atol=1e-9)
    assert (found.n_steps == k).all()


def test_a_tolerance_stops_where_scikit_learn_stops():
    A = unit_columns(20, 60, 1)
    Y = np.random.default_rng(1).standard_normal((15, 20))
    Y /= np.linalg.norm(Y, axis=1, keepdims=True)
    found = OMPDecoder(tol=0.3, positive=False).bind(A).decode(Y)
    np.testing.assert_allclose(found.x.toarray(), orthogonal_mp(A, Y.T, tol=0.09).T, atol=1e-9)  # theirs is squared
    assert (found.residual <= 0.3).all()


def test_column_norms_do_not_change_which_columns_are_chosen():
    A = unit_columns(20, 60, 2)
    scale = 10.0 ** np.random.default_rng(2).uniform(-3, 3, 60)
    Y = np.random.default_rng(2).standard_normal((10, 20))
    for positive in (True, False):
        plain = OMPDecoder(5, positive=positive).bind(A).decode(Y).x.toarray()
        scaled = OMPDecoder(5, positive=positive).bind(A * scale).decode(Y).x.toarray()
        np.testing.assert_allclose(scaled * scale, plain, atol=1e-9)


@pytest.mark.parametrize("k", [1, 4, 10])
def test_a_positive_pursuit_is_a_nonnegative_fit_on_its_support(k):
    A = gaussian(20, 60, 3)
    Y = np.random.default_rng(k).standard_normal((20, 20))
    found = OMPDecoder(k).bind(A).decode(Y)
    for x, y in zip(found.x.toarray(), Y, strict=True):
        S = np.flatnonzero(x)
        assert 1 <= len(S) <= k
        assert (x >= 0).all()
        np.testing.assert_allclose(nnls(A[:, S], y)[0], x[S], atol=1e-9)


@pytest.mark.parametrize("positive", [True, False])
def test_sparse_rows_come_back_exactly_without_a_level_or_a_tolerance(positive):
    A, X = gaussian(40, 100, 0), sparse_rows(50, 100, 4, 1, signed=not positive)
    found = OMPDecoder(positive=positive).bind(A).decode(X @ A.T)
    assert abs(found.x - X).max() <= 1e-10
    assert found.residual.max() <= 1e-12


def test_dependent_columns_are_passed_over():
    A = gaussian(4, 6, 0)
    A = np.hstack([A, A, np.zeros((4, 2))])
    Y = np.random.default_rng(0).standard_normal((5, 4))
    found = OMPDecoder(positive=False).bind(A).decode(Y)
    assert (np.diff(found.x.indptr) == 4).all()
    assert found.residual.max() <= 1e-12


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"n_nonzero_coefs": 0}, ValueError, "n_nonzero_coefs must be at least 1, got 0"),
        ({"n_nonzero_coefs": 2.5}, TypeError, "n_nonzero_coefs must be a whole number, got 2.5"),
        ({"tol": -1.0}, ValueError, "tol must be a finite number of at least 0, got -1.0"),
        ({"positive": "yes"}, ValueError, "positive must be one of True, False; got 'yes'"),
    ],
)
def test_bad_parameters_are_refused_at_bind(options, error, message):
    with pytest.raises(error, match=message):
        OMPDecoder(**options).bind(np.eye(2))
