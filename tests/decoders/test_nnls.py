"""Nonnegative least squares against scipy's and against its conditions of optimality."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import nnls

from helpers import gaussian, sparse_rows
from sparselens.decoders.nnls import NNLSDecoder
from sparselens.recovery import Status


def problems() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(0)
    noise = rng.standard_normal((25, 20))
    A = gaussian(20, 80, 1)
    duplicates = np.hstack([A[:, :30], A[:, :30], np.zeros((20, 5))])
    return {
        "square": (gaussian(20, 20, 2), noise),
        "narrow cone": (gaussian(20, 30, 3), noise),
        "y in reach": (A, noise),
        "positive matrix": (np.abs(A), noise),
        "correlated": (np.abs(A) + 3.0, np.abs(noise) + 2.0),
        "binary": ((rng.random((20, 60)) < 0.3).astype(float), rng.random((25, 20))),
        "duplicate and zero columns": (duplicates, noise),
        "repeated rows": (np.vstack([A[:15], A[:5]]), noise),
        "column scales": (A * 10.0 ** rng.uniform(-4, 2, 80), noise),
        "scaled y": (gaussian(20, 30, 4), noise * 10.0 ** rng.uniform(-9, 9, (25, 1))),
    }


@pytest.mark.parametrize("name", problems())
def test_the_fit_is_as_good_as_scipys_and_optimal(name):
    A, Y = problems()[name]
    found = NNLSDecoder().bind(A).decode(Y)
    X, size = found.x.toarray(), np.linalg.norm(Y, axis=1)
    assert (X >= 0).all()
    theirs = np.array([nnls(A, y, maxiter=5000)[1] for y in Y])
    np.testing.assert_allclose(found.residual * size, theirs, rtol=1e-8, atol=1e-9 * size.max())
    # conditions of optimality, relative: no column improves the fit, and those in use are orthogonal to the residual
    norms = np.linalg.norm(A, axis=0)
    slope = (Y - X @ A.T) @ A / np.where(norms > 0, norms, 1.0) / size[:, None]
    assert slope.max() <= 1e-9
    assert np.abs(slope[X > 0]).max(initial=0.0) <= 1e-9


def test_where_the_solution_is_unique_it_is_scipys():
    A, Y = problems()["narrow cone"]
    found = NNLSDecoder().bind(A).decode(Y).x.toarray()
    for x, y in zip(found, Y, strict=True):
        np.testing.assert_allclose(x, nnls(A, y)[0], atol=1e-9)


def test_sparse_rows_come_back_exactly():
    A, X = gaussian(30, 100, 0), sparse_rows(50, 100, 4, 1)
    found = NNLSDecoder().bind(A).decode(X @ A.T)
    assert abs(found.x - X).max() <= 1e-10
    assert (found.status == Status.ESTIMATE).all()
    assert (np.diff(found.x.indptr) == 4).all()
    assert (found.n_steps >= 4).all()


def test_measurements_behind_every_column_give_zero():
    A = np.abs(gaussian(6, 12, 0))
    found = NNLSDecoder().bind(A).decode(-np.ones((2, 6)))
    assert found.x.nnz == 0
    np.testing.assert_allclose(found.residual, 1.0)


def test_a_tolerance_must_be_positive():
    with pytest.raises(ValueError, match="tol must be a finite number above 0, got 0"):
        NNLSDecoder(tol=0.0).bind(np.eye(2))
