"""The certificate's loss: against a slow, obvious implementation, finite differences, and an independent LP solver."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse as sp
import torch
from hypothesis import given
from hypothesis import strategies as st

from helpers import gaussian, sparse_rows
from sparselens._certificate_loss import LOSSES, Supports, certificate_loss, loss_and_gradient, minimum_norm_dual
from sparselens.decoders.l1 import L1Decoder
from sparselens.encoders._supports import padded_parts


def slow_loss(A, X, *, margin, loss, positive):
    """One row after the other, by least squares."""
    out = []
    for x in X.toarray():
        S = np.flatnonzero(x)
        u = np.linalg.lstsq(A[:, S].T, np.sign(x[S]), rcond=None)[0]  # the shortest solution
        off = np.delete(A.T @ u, S)
        if not positive:
            off = np.abs(off)
        length = sum(max(0.0, p - (1.0 - margin)) ** 2 for p in off)
        if loss == "softmax":
            out.append(margin * np.log(np.sum(np.exp(off / margin))))
        else:
            out.append({"hinge": length, "log": np.log1p(length), "ratio": length / (1 + length)}[loss])
    return np.mean(out)


def batch_of(X, max_parts=4, max_length=10**9):
    parts = padded_parts(X.indptr, X.indices, np.sign(X.data), max_length=max_length, max_parts=max_parts)
    return [Supports(torch.from_numpy(columns), torch.from_numpy(signs)) for columns, signs in parts]


def rows_of_many_lengths(seed, signed=False):
    return sp.csr_array(sp.vstack([sparse_rows(4, 25, k, seed + k, signed=signed) for k in (1, 2, 5, 9)]))


def columns_of(A):
    return torch.tensor(A.T.copy(), dtype=torch.float64)


@pytest.mark.parametrize("positive", [True, False])
@pytest.mark.parametrize("loss", LOSSES)
def test_the_loss_agrees_with_a_slow_one(loss, positive):
    A, X = gaussian(12, 25, seed=0), rows_of_many_lengths(1, signed=not positive)
    value = certificate_loss(columns_of(A), batch_of(X), margin=0.3, loss=loss, positive=positive, ridge=0.0)
    assert value.item() == pytest.approx(slow_loss(A, X, margin=0.3, loss=loss, positive=positive), rel=1e-9)


@pytest.mark.parametrize("positive", [True, False])
@pytest.mark.parametrize("loss", LOSSES)
def test_the_gradient_agrees_with_finite_differences(loss, positive):
    columns = columns_of(gaussian(12, 25, seed=2)).requires_grad_()
    batch = batch_of(rows_of_many_lengths(3, signed=not positive))

    def value(columns):
        return certificate_loss(columns, batch, margin=0.3, loss=loss, positive=positive, ridge=0.0)

    assert torch.autograd.gradcheck(value, (columns,), eps=1e-6, atol=1e-5)


def test_one_part_or_many_give_the_same_loss_and_gradient():
    columns, X = columns_of(gaussian(12, 25, seed=4)), rows_of_many_lengths(5)
    one = loss_and_gradient(columns, batch_of(X, max_parts=1), margin=0.5)
    many = loss_and_gradient(columns, batch_of(X, max_parts=4), margin=0.5)
    assert len(batch_of(X, max_parts=4)) > 1
    torch.testing.assert_close(one[0], many[0], rtol=1e-12, atol=0)
    torch.testing.assert_close(one[1], many[1], rtol=1e-9, atol=1e-12)


@given(st.integers(0, 10**6), st.floats(0.01, 100.0), st.sampled_from(LOSSES))
def test_scaling_A_and_rotating_its_rows_changes_nothing(seed, scale, loss):
    A, batch = gaussian(8, 20, seed), batch_of(sparse_rows(6, 20, 3, seed))
    Q = np.linalg.qr(np.random.default_rng(seed).standard_normal((8, 8)))[0]
    before = certificate_loss(columns_of(A), batch, margin=0.4, loss=loss)
    after = certificate_loss(columns_of(scale * Q @ A), batch, margin=0.4, loss=loss)
    assert after.item() == pytest.approx(before.item(), rel=1e-6, abs=1e-9)


def linprog(A, y, positive):
    """The ℓ1 problem as scipy solves it: nothing of ours in it."""
    split = A if positive else np.hstack([A, -A])
    z = scipy.optimize.linprog(np.ones(split.shape[1]), A_eq=split, b_eq=y).x
    return z if positive else z[: A.shape[1]] - z[A.shape[1] :]


@pytest.mark.parametrize("loss", ["hinge", "log", "ratio"])  # a soft maximum is never zero
@pytest.mark.parametrize("positive", [True, False])
def test_zero_loss_implies_that_an_independent_solver_recovers_the_row(positive, loss):
    tried = []

    @given(st.integers(0, 10**6), st.integers(1, 3), st.integers(8, 16), st.floats(0.01, 0.3))
    def check(seed, k, m, margin):
        A, X = gaussian(m, 18, seed), sparse_rows(1, 18, k, seed, signed=not positive)
        value = certificate_loss(columns_of(A), batch_of(X), margin=margin, loss=loss, positive=positive, ridge=0.0)
        if value.item() == 0.0:
            tried.append(k)
            x = X.toarray()[0]
            np.testing.assert_allclose(linprog(A, A @ x, positive), x, atol=1e-9)  # scipy's own tolerance is 1e-7
            rec = L1Decoder(positive=positive, method="highs").bind(A).decode(X @ A.T)
            assert rec.unique.all()
            np.testing.assert_allclose(rec.x.toarray()[0], x, atol=1e-10)

    check()
    assert len(tried) >= 10  # the property was tried
    assert len(set(tried)) > 1


def test_dependent_columns_have_no_dual_and_no_gradient():
    A = gaussian(5, 10, seed=6)
    A[:, 1] = A[:, 0]
    batch = [Supports(torch.tensor([[0, 1]]), torch.ones(1, 2))]
    value, gradient = loss_and_gradient(columns_of(A), batch, margin=0.5, ridge=0.0)
    assert torch.isfinite(value)
    assert torch.isfinite(gradient).all()


def test_the_dual_is_one_on_the_support_and_the_shortest_such_vector():
    A, X = gaussian(12, 25, seed=7), sparse_rows(5, 25, 4, seed=8)
    dual = minimum_norm_dual(columns_of(A), batch_of(X)[0], ridge=0.0)
    for x, u in zip(X.toarray(), dual.u.numpy(), strict=True):
        S = np.flatnonzero(x)
        np.testing.assert_allclose(A[:, S].T @ u, 1.0, atol=1e-10)
        np.testing.assert_allclose(A[:, S] @ np.linalg.lstsq(A[:, S], u, rcond=None)[0], u, atol=1e-10)
