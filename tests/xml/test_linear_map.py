"""Ridge regression: both methods, and the identity that ties it to one-vs-all."""

import numpy as np
import pytest
import scipy.sparse as sp

import sparselens as sl
from sparselens.recovery import SparselensError
from sparselens.xml import RidgeMap, RidgeOneVsAll
from sparselens.xml.linear_map import ridge, with_constant


@pytest.fixture
def pair():
    rng = np.random.default_rng(0)
    X = sp.csr_array(rng.random((40, 15)) * (rng.random((40, 15)) < 0.4))
    return X, rng.standard_normal((40, 3))


@pytest.mark.parametrize("method", ["cholesky", "cg"])
def test_the_gradient_vanishes(pair, method):
    X, Z = pair
    W = ridge(X, Z, alpha=0.3, method=method, tol=1e-12)
    np.testing.assert_allclose(X.T @ (X @ W - Z) + 0.3 * W, 0.0, atol=1e-9)


def test_both_methods_agree_where_features_outnumber_rows():
    rng = np.random.default_rng(1)
    X = sp.csr_array(rng.random((20, 90)) * (rng.random((20, 90)) < 0.3))
    Y = sp.csr_array((rng.random((20, 5)) < 0.3).astype(float))
    np.testing.assert_allclose(
        ridge(X, Y, alpha=0.5, method="cg", tol=1e-12), ridge(X, Y, alpha=0.5, method="cholesky"), atol=1e-9
    )


def test_a_column_of_zeros_is_fitted_by_zeros(pair):
    X, Z = pair
    Z[:, 1] = 0.0
    np.testing.assert_array_equal(ridge(X, Z, method="cg")[:, 1], 0.0)


def test_an_ill_posed_problem_says_what_to_do(monkeypatch, pair):
    monkeypatch.setattr("sparselens.xml.linear_map._MAX_ITERATIONS", 2)
    with pytest.raises(SparselensError, match=r"did not converge in 2 steps .* raise alpha \(now 1e-06\)"):
        ridge(*pair, alpha=1e-6, method="cg")


def test_the_map_of_any_linear_embedding_compresses_one_vs_all_scores(problem):
    """xW = A · (scores of one-vs-all), with one alpha and bias and no thresholds: the fact behind the design."""
    X, Y, X_test, _ = problem
    A = sl.GaussianEncoder(n_components=7, random_state=0).fit(Y).components_
    scores = RidgeOneVsAll(alpha=0.7, bias=0.5, normalize=False).fit(X, Y)._score_block(X_test)
    embedded = RidgeMap(alpha=0.7, bias=0.5).fit(X, Y @ A.T).transform(X_test)
    np.testing.assert_allclose(embedded, scores @ A.T, atol=1e-9)


def test_a_constant_feature_of_zero_adds_no_column(pair):
    assert with_constant(pair[0], 0.0) is pair[0]


def test_a_map_comes_back_from_disk(pair, tmp_path):
    X, Z = pair
    first = RidgeMap(alpha=2.0, bias=1.0).fit(X, Z)
    again = sl.load(first.save(tmp_path / "map"))
    np.testing.assert_array_equal(again.transform(X), first.transform(X))


def test_embeddings_of_other_rows_are_refused(pair):
    with pytest.raises(ValueError, match=r"X has 40 rows but Z has the shape \(39, 3\)"):
        RidgeMap().fit(pair[0], pair[1][1:])


def test_a_blend_solves_a_shared_regression_once(problem, monkeypatch):
    from sparselens.xml import BlendClassifier, linear_map

    solved = []
    solve = linear_map._by_cholesky
    monkeypatch.setattr(linear_map, "_by_cholesky", lambda *args: solved.append(1) or solve(*args))
    BlendClassifier(random_state=0).fit(*problem[:2])
    assert len(solved) == 2  # held out and whole, though three classifiers need it each time
    ridge(problem[0], problem[1])
    ridge(problem[0], problem[1])
    assert len(solved) == 4  # outside of a blend nothing is remembered
