"""A promise made before a row is sent holds: an independent solver gives the row back."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from helpers import gaussian, sparse_rows
from sparselens.certificate import minimum_norm_dual, verify
from sparselens.decoders.certify import certify
from sparselens.decoders.l1 import L1Decoder


@pytest.mark.parametrize("positive", [True, False])
@pytest.mark.parametrize(("m", "k"), [(12, 2), (15, 4), (20, 6)])
def test_a_promised_row_comes_back_from_highs_and_another_does_not(m, k, positive):
    A, X = gaussian(m, 40, seed=m), sparse_rows(60, 40, k, seed=k, signed=not positive)
    promise = certify(A, X, positive=positive)
    rec = L1Decoder(positive=positive, method="highs").bind(A).decode(X @ A.T)
    error = np.abs((rec.x - X).toarray()).max(axis=1)
    assert (error[promise.exact] <= 1e-10).all()
    assert (error[~promise.exact] > 1e-10).all()
    assert (promise.slack[promise.exact] >= 0).all()
    assert np.isnan(promise.slack[~promise.exact]).all()
    np.testing.assert_array_equal(promise.by != "no", promise.exact)


def test_certificates_and_programs_both_have_their_say():
    A, X = gaussian(18, 40, seed=1), sparse_rows(200, 40, 4, seed=2)
    assert set(np.unique(certify(A, X).by)) == {"certificate", "lp", "no"}


def test_the_certificate_passes_the_check_that_shares_nothing_with_it():
    A, X = gaussian(20, 40, seed=3), sparse_rows(50, 40, 3, seed=4)
    U, slack = minimum_norm_dual(A, X)
    good = slack > 1e-6
    assert good.any()
    assert verify(A, (X @ A.T)[good], X[good], U[good]).unique.all()


def test_the_slack_does_not_depend_on_scale_or_rotation():
    A, X = gaussian(10, 30, seed=5), sparse_rows(20, 30, 3, seed=6)
    Q = np.linalg.qr(np.random.default_rng(0).standard_normal((10, 10)))[0]
    before, after = minimum_norm_dual(A, X)[1], minimum_norm_dual(7.0 * Q @ A, X)[1]
    np.testing.assert_allclose(after, before, atol=1e-9)


def test_rows_without_nonzeros_and_rows_that_are_full():
    A = gaussian(4, 6, seed=7)
    X = sp.csr_array(np.vstack([np.zeros(6), np.ones(6)]))
    promise = certify(A, X)
    assert promise.by.tolist() == ["certificate", "no"]  # zero is the only vector of length zero
    assert promise.slack[0] == 1.0


def test_every_row_comes_back_from_as_many_independent_measurements_as_columns():
    A = np.eye(3)
    promise = certify(A, sp.csr_array([[1.0, 2.0, 3.0], [0.0, 0.0, 4.0]]))
    assert promise.exact.all()


def test_dependent_columns_are_never_promised():
    A = gaussian(6, 12, seed=8)
    A[:, 1] = A[:, 0]
    assert certify(A, sp.csr_array(np.eye(12)[:2])).by.tolist() == ["no", "no"]


def test_a_tiny_entry_beside_a_large_one_is_promised_only_if_it_comes_back():
    A = gaussian(10, 30, seed=9)
    X = np.zeros((8, 30))
    X[:, 3], X[:, 7] = 1.0, 10.0 ** -np.arange(1, 9)
    promise = certify(A, sp.csr_array(X))
    rec = L1Decoder().bind(A).decode(X @ A.T)
    error = np.abs(rec.x.toarray() - X).max(axis=1)
    assert (error[promise.exact] <= 1e-10).all()


def test_no_rows_give_no_promises():
    assert len(certify(gaussian(3, 5, seed=10), sp.csr_array((0, 5)))) == 0
