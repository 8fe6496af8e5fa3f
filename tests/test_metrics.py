"""Sparse metrics against the dense formulas."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import sparselens as sl
from helpers import gaussian, sparse_rows
from sparselens.metrics import exact_fraction, recovery_report, rmse, row_errors, support_f1, wilson_interval

values = st.sampled_from([0.0, 0.0, 1.0, -2.0, 0.5, 1e-12])
shapes = st.tuples(st.integers(1, 6), st.integers(1, 6))
pairs = shapes.flatmap(
    lambda s: st.tuples(hnp.arrays(float, s, elements=values), hnp.arrays(float, s, elements=values))
)


@given(pairs)
def test_errors_are_those_of_the_dense_formula(pair):
    X, X_hat = pair
    errors = np.linalg.norm(X - X_hat, axis=1)
    for container in (np.asarray, sp.csr_array):
        np.testing.assert_allclose(row_errors(container(X), container(X_hat)), errors, atol=1e-15)
        assert rmse(container(X), container(X_hat)) == pytest.approx(np.sqrt(np.mean(errors**2)))
        assert exact_fraction(container(X), container(X_hat)) == np.mean(errors <= 1e-10)
        assert exact_fraction(container(X), container(X_hat), tol=2.0) == np.mean(errors <= 2.0)


@given(pairs)
def test_support_f1_is_that_of_the_sets(pair):
    X, X_hat = pair
    scores = []
    for x, x_hat in zip(X, X_hat, strict=True):
        truth, found = set(np.flatnonzero(np.abs(x) > 1e-9)), set(np.flatnonzero(np.abs(x_hat) > 1e-9))
        scores.append(2 * len(truth & found) / (len(truth) + len(found)) if truth or found else 1.0)
    assert support_f1(X, X_hat) == pytest.approx(np.mean(scores))


def test_a_perfect_recovery_has_no_error():
    X = sparse_rows(5, 9, 3, seed=0)
    assert rmse(X, X) == 0.0
    assert exact_fraction(X, X) == 1.0
    assert support_f1(X, X) == 1.0


def test_every_row_counts_towards_the_rmse():
    X = np.zeros((4, 2))
    X_hat = np.array([[2.0, 0.0], [0.0, 0.0], [0.0, 0.0], [0.0, 0.0]])
    assert rmse(X, X_hat) == 1.0  # sqrt(4 / 4), not over the rows that went wrong


def test_an_error_of_exactly_the_tolerance_is_exact():
    assert exact_fraction([[1.0]], [[1.5]], tol=0.5) == 1.0


@pytest.mark.parametrize("metric", [row_errors, rmse, exact_fraction, support_f1])
def test_rows_of_another_shape_are_refused(metric):
    with pytest.raises(ValueError, match=r"X has shape \(1, 2\) but X_hat has shape \(1, 3\): compare the same rows"):
        metric([[1.0, 2.0]], [[1.0, 2.0, 3.0]])


@pytest.mark.parametrize("metric", [row_errors, rmse, exact_fraction, support_f1])
def test_a_nan_is_refused_and_the_error_says_on_which_side(metric):
    with pytest.raises(ValueError, match="X_hat holds NaN or infinity in row 0"):
        metric([[1.0]], [[np.nan]])
    with pytest.raises(ValueError, match=r"^X holds NaN or infinity in row 0"):
        metric([[np.nan]], [[1.0]])


# ---- the report ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def decoded():
    X = sparse_rows(20, 24, 3, seed=1)
    A = gaussian(9, 24, seed=2)  # enough for some rows and too few for others
    return X, sl.L1Decoder(method="highs").bind(A).decode(X @ A.T)


def test_a_report_holds_the_figures_of_the_single_metrics(decoded):
    X, rec = decoded
    report = recovery_report(X, rec)
    assert report.n_rows == 20
    assert 0 < report.exact < 1
    assert report.exact == exact_fraction(X, rec.x)
    assert report.exact_1e6 == exact_fraction(X, rec.x, tol=1e-6)
    assert report.rmse == pytest.approx(rmse(X, rec.x))
    assert report.support_f1 == support_f1(X, rec.x)
    assert report.mean_error == pytest.approx(np.mean(np.linalg.norm((X - rec.x).toarray(), axis=1)))
    assert report.certified == np.mean(rec.certified)
    assert report.unique == np.mean(rec.unique)


def test_plain_rows_count_as_not_certified(decoded):
    X, rec = decoded
    report = recovery_report(X, rec.x)
    assert report.certified == report.unique == 0.0
    assert report.rmse == recovery_report(X, rec).rmse


def test_a_report_can_be_a_row_of_a_table_or_a_sentence(decoded):
    report = recovery_report(*decoded)
    assert report.as_dict()["exact"] == report.exact
    assert str(report).startswith("20 rows: ")
    assert f"RMSE {report.rmse:.3g}" in str(report)


@pytest.mark.parametrize(("successes", "n"), [(0, 10), (7, 10), (10, 10), (991, 1000)])
def test_the_wilson_interval_is_scipys(successes, n):
    from scipy.stats import binomtest

    expected = binomtest(successes, n).proportion_ci(0.95, method="wilson")
    assert wilson_interval(successes, n) == pytest.approx((expected.low, expected.high), abs=1e-12)
    assert wilson_interval(successes, n, confidence=0.99)[0] <= expected.low


def test_a_fraction_of_nothing_has_no_interval():
    with pytest.raises(ValueError, match="n be at least 1, got 0 of 0"):
        wilson_interval(0, 0)
