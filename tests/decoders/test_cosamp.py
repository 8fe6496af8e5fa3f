"""CoSaMP against the paper's algorithm written out for one row, and what it recovers."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from helpers import gaussian, sparse_rows
from sparselens.decoders._least_squares import batched_least_squares
from sparselens.decoders.cosamp import CoSaMPDecoder
from sparselens.recovery import Status
from sparselens.sparsity import BlockSparse, OneHot, Sparse

GROUPS = (20, 5, 11, 24)
MODELS = {
    "sparse": Sparse(4),
    "block": BlockSparse(2, 4),
    "one-hot": OneHot(GROUPS),
}


class OnlySupport:
    """A model that offers nothing but the protocol's one method."""

    def __init__(self, model):
        self.model = model

    def support(self, Z, order=1):
        return self.model.support(Z, order)


def rows_of(model, n: int, seed: int, *, signed: bool = False) -> sp.csr_array:
    rng = np.random.default_rng(seed)
    X = rng.uniform(0.2, 1.0, (n, 60))
    scores = rng.random((n, 60)) + 0.01
    X = np.where(model.support(scores), X, 0.0)
    return sp.csr_array(X * rng.choice([-1.0, 1.0], X.shape) if signed else X)


def paper_cosamp(A, y, model, positive, max_iter=50):
    """The algorithm of the paper's appendix, line by line; every iterate is returned."""
    x, r, iterates = np.zeros(A.shape[1]), y, []
    for _ in range(max_iter):
        e = A.T @ r
        omega = model.support(e[None], order=2)[0]
        T = np.flatnonzero(omega | (x != 0))
        b = np.zeros(A.shape[1])
        b[T] = np.linalg.pinv(A[:, T]) @ y
        if positive:
            b = np.maximum(0, b)
        x = np.where(model.support(b[None])[0], b, 0.0)
        r = y - A @ x
        iterates.append(x)
    return iterates


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("positive", [True, False])
@pytest.mark.parametrize("m", [8, 20, 40])
def test_the_answer_is_the_best_iterate_of_the_papers_algorithm(name, positive, m):
    model, A = MODELS[name], gaussian(m, 60, 5)
    X = rows_of(model, 12, 1, signed=not positive)
    Y = X @ A.T
    found = CoSaMPDecoder(model, positive=positive).bind(A).decode(Y)
    for y, x, residual in zip(Y, found.x.toarray(), found.residual, strict=True):
        iterates = paper_cosamp(A, y, model, positive)
        errors = [np.linalg.norm(y - A @ z) for z in iterates]
        least = min([*errors, np.linalg.norm(y)])
        # x̂ = 0, from which the algorithm starts, counts as an iterate
        assert residual * np.linalg.norm(y) == pytest.approx(least, rel=1e-6, abs=1e-9)
        if least < np.linalg.norm(y):
            np.testing.assert_allclose(x, iterates[int(np.argmin(errors))], atol=1e-8)


@pytest.mark.parametrize("name", MODELS)
def test_enough_measurements_give_every_row_back_exactly(name):
    model, A = MODELS[name], gaussian(45, 60, 0)
    X = rows_of(model, 40, 2)
    found = CoSaMPDecoder(model).bind(A).decode(Y := X @ A.T)
    assert abs(found.x - X).max() <= 1e-10
    assert (found.status == Status.ESTIMATE).all()
    assert (found.n_steps >= 1).all()
    np.testing.assert_allclose(found.residual, np.linalg.norm(found.x @ A.T - Y, axis=1), atol=1e-12)


def test_signed_rows_come_back_without_the_positivity_step_only():
    model, A = Sparse(3), gaussian(30, 60, 0)
    X = rows_of(model, 20, 3, signed=True)
    assert abs(CoSaMPDecoder(model, positive=False).bind(A).decode(X @ A.T).x - X).max() <= 1e-10
    assert CoSaMPDecoder(model, positive=True).bind(A).decode(X @ A.T).x.min() >= 0


@pytest.mark.parametrize("name", MODELS)
def test_answers_follow_the_model_at_any_number_of_measurements(name):
    model = MODELS[name]
    for m in (1, 5, 12, 60):
        A = gaussian(m, 60, m)
        found = CoSaMPDecoder(model).bind(A).decode(np.random.default_rng(m).standard_normal((15, m)))
        dense = found.x.toarray()
        np.testing.assert_array_equal(model.project(dense), dense)
        assert (dense >= 0).all()
        assert (found.residual <= 1 + 1e-12).all()


@pytest.mark.parametrize("name", MODELS)
def test_a_model_with_nothing_but_support_gives_the_same_rows(name):
    A = gaussian(18, 60, 1)
    Y = rows_of(MODELS[name], 15, 4) @ A.T
    full = CoSaMPDecoder(MODELS[name]).bind(A).decode(Y)
    bare = CoSaMPDecoder(OnlySupport(MODELS[name])).bind(A).decode(Y)
    assert abs(full.x - bare.x).max() <= 1e-12


def test_positivity_recovers_at_least_as_many_rows_near_the_limit():
    model, A = Sparse(5), gaussian(20, 60, 3)
    X = rows_of(model, 200, 5)
    exact = [
        (
            abs(CoSaMPDecoder(model, positive=positive).bind(A).decode(X @ A.T).x - X).max(axis=1).toarray() <= 1e-10
        ).sum()
        for positive in (True, False)
    ]
    assert exact[0] > exact[1] > 0


def test_dependent_columns_in_a_merged_support_do_no_harm():
    A = gaussian(12, 40, 0)
    A = np.hstack([A, A[:, :20]])
    X = sparse_rows(30, 40, 2, 1)
    found = CoSaMPDecoder(Sparse(2), max_iter=30).bind(A).decode(X @ A[:, :40].T)
    assert np.isfinite(found.x.data).all()
    assert (found.residual <= 1.0).all()


def test_a_model_that_does_not_fit_is_refused_at_bind():
    with pytest.raises(ValueError, match="the groups add up to 60"):
        CoSaMPDecoder(OneHot(GROUPS)).bind(gaussian(4, 50, 0))
    with pytest.raises(ValueError, match="blocks of 7 do not fill"):
        CoSaMPDecoder(BlockSparse(1, 7)).bind(gaussian(4, 50, 0))
    with pytest.raises(TypeError, match=r"sparsity must be a model such as Sparse\(k\)"):
        CoSaMPDecoder(4).bind(gaussian(4, 50, 0))
    with pytest.raises(ValueError, match="max_iter must be at least 1"):
        CoSaMPDecoder(Sparse(2), max_iter=0).bind(gaussian(4, 50, 0))


@pytest.mark.parametrize("t", [1, 5, 9, 10, 14])
def test_batched_least_squares_is_the_pseudo_inverse(t):
    rng = np.random.default_rng(t)
    columns = rng.standard_normal((30, 10))
    columns[7] = columns[3]  # dependent where a row picks both
    columns[8] = 0.0
    picks = np.argsort(rng.random((60, 30)), axis=1)[:, :t]
    used = rng.random((60, t)) < 0.8
    Y = rng.standard_normal((60, 10))
    found = batched_least_squares(columns, Y, picks, used)
    for y, T, use, b in zip(Y, picks, used, found, strict=True):
        assert (b[~use] == 0).all()
        np.testing.assert_allclose(b[use], np.linalg.pinv(columns[T[use]].T, rcond=1e-12) @ y, atol=1e-9)
