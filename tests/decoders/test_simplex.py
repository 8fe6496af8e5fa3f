"""The dual simplex engine: going back, inverting afresh, giving up, and the rows for which it is there."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

import sparselens as sl
from helpers import gaussian, principal_directions, sparse_rows
from sparselens.certificate import Verifier
from sparselens.decoders import _simplex, l1
from sparselens.decoders._essential import essential_columns
from sparselens.decoders._simplex import DualSimplexEngine
from sparselens.decoders.l1 import L1Decoder

M, D = 20, 600


def one_hot_rows(n, seed):
    """Rows of three one-hot groups whose values are frequent and rare, as 1, 1/2, 1/3, ..."""
    rng = np.random.default_rng(seed)
    weights = 1.0 / np.arange(1, D // 3 + 1)
    columns = rng.choice(D // 3, size=(n, 3), p=weights / weights.sum()) + np.arange(3) * (D // 3)
    return sp.csr_array((np.ones(3 * n), (np.repeat(np.arange(n), 3), columns.ravel())), shape=(n, D))


@pytest.fixture(scope="module")
def problem():
    """Principal directions of one-hot rows, without the columns that no solution needs, and unit measurements."""
    A = sl.PCAEncoder(M).fit(one_hot_rows(1000, 0)).components_
    kept = essential_columns(np.ascontiguousarray(A.T), positive=True)
    Y = one_hot_rows(30, 1) @ A.T
    lengths = np.linalg.norm(A[:, kept], axis=0)
    assert lengths.max() > 100 * lengths.min()
    return np.ascontiguousarray(A[:, kept]), Y / np.linalg.norm(Y, axis=1, keepdims=True)


def proved(A, Y, found, positive=True):
    return Verifier(A, positive=positive).optimal(Y, found.x, found.dual)


def test_every_row_is_proved_and_met_to_rounding(problem):
    A, Y = problem
    proof = proved(A, Y, DualSimplexEngine(A, positive=True).solve(Y))
    assert proof.optimal.all()
    assert proof.residual.max() <= 1e-14


@pytest.mark.parametrize("width", [M + 1, 2 * M], ids=["one to spare", "few"])
def test_a_row_that_passed_a_column_unseen_goes_back_and_ends_where_it_should(problem, width):
    A, Y = problem
    expected = DualSimplexEngine(A, positive=True)
    expected.width = A.shape[1]  # sees every column at every pivot
    engine = DualSimplexEngine(A, positive=True)
    engine.width = width
    found, wanted = engine.solve(Y), expected.solve(Y)
    assert found.n_steps.sum() > wanted.n_steps.sum()  # it has gone back
    proof = proved(A, Y, found)
    assert proof.optimal.all()
    unique = proof.unique & proved(A, Y, wanted).unique
    assert unique.sum() >= 10
    assert abs(found.x - wanted.x)[np.flatnonzero(unique)].max() <= 1e-10 * abs(wanted.x).max()


def test_a_basis_that_counts_as_worn_out_at_every_pivot_is_inverted_at_every_pivot(problem, monkeypatch):
    A, Y = problem
    monkeypatch.setattr(_simplex, "_AGREE", -1.0)
    assert proved(A, Y[:5], DualSimplexEngine(A, positive=True).solve(Y[:5])).optimal.all()


def test_a_row_goes_back_to_the_last_good_inverse_where_one_was_lost(problem, monkeypatch):
    A, Y = problem
    afresh, lost = DualSimplexEngine._afresh, []

    def lose_the_first(self, columns, y):
        basis = afresh(self, columns, y)
        lost.append(len(lost) == 0)
        return basis._replace(u=basis.u * 1e3) if lost[-1] else basis

    monkeypatch.setattr(DualSimplexEngine, "_afresh", lose_the_first)
    found = DualSimplexEngine(A, positive=True).solve(Y[:1])
    assert len(lost) > 1
    assert proved(A, Y[:1], found).optimal.all()


@pytest.mark.parametrize("why", ["too many pivots", "no inverse holds"])
def test_a_row_that_is_given_up_is_zero_and_claims_nothing(problem, monkeypatch, why):
    A, Y = problem
    engine = DualSimplexEngine(A, positive=True)
    if why == "too many pivots":
        engine.most = 3
    else:
        monkeypatch.setattr(np.linalg, "inv", lambda B: (_ for _ in ()).throw(np.linalg.LinAlgError))
    found = engine.solve(Y[:2])
    assert found.x.nnz == 0
    assert not found.dual.any()
    assert not found.infeasible.any()


def test_no_solution_is_claimed_only_after_all_columns_were_looked_at():
    """y is reached by the last column alone, whose constraint is so far away that others are worked on first."""
    away, y = -np.abs(gaussian(5, 200, 0)), np.full((1, 5), 1 / np.sqrt(5))
    A = np.hstack([away, np.full((5, 1), 1e-3)])
    engine = DualSimplexEngine(A, positive=True)
    engine.width = 5
    assert proved(A, y, engine.solve(y)).unique.all()

    found = DualSimplexEngine(away, positive=True).solve(y)
    assert found.infeasible.all()
    assert Verifier(away).infeasible(y, found.dual).all()


def test_what_no_path_proves_is_proved_without_highspy(problem, monkeypatch):
    monkeypatch.setattr(l1, "find_spec", lambda name: None)
    A, Y = problem
    decoder = L1Decoder().bind(A)
    path, simplex, _ = decoder._engines_
    for engine in decoder._engines_:
        if engine is not simplex:
            monkeypatch.setattr(engine, "solve", without_proof(engine.solve))
    assert path.solve(Y).n_steps.any()
    assert decoder.decode(Y).certified.all()


def without_proof(solve):
    """The same answers, all without a proof."""

    def careless(Y):
        return replace(solve(Y), dual=np.zeros_like(Y))

    return careless


@pytest.mark.parametrize("positive", [True, False])
def test_sparse_rows_come_back(positive):
    A = gaussian(15, 200, 0)
    X = sparse_rows(20, 200, 3, 0)
    if not positive:
        X.data *= np.where(np.arange(X.nnz) % 2, -1.0, 1.0)
    Y = X @ A.T
    size = np.linalg.norm(Y, axis=1, keepdims=True)
    found = DualSimplexEngine(A, positive=positive).solve(Y / size)
    proof = proved(A, Y / size, found, positive)
    reference = L1Decoder(positive, method="highs").bind(A).decode(Y)
    unique = np.flatnonzero(proof.unique & reference.unique)
    assert len(unique) >= 15
    assert abs(found.x.multiply(size).tocsr() - reference.x)[unique].max() <= 1e-10


def test_principal_directions_of_rare_features_are_proved_row_by_row():
    """Columns 1e-3 times as long as others: of these rows the path proves about half, and the patient one 31."""
    A, Y = principal_directions(60, 40)
    proof = proved(A, Y, DualSimplexEngine(A, positive=True).solve(Y))
    assert proof.optimal.all()
    assert proof.residual.max() <= 1e-14


@pytest.mark.parametrize("small", [1e-7, 1e-8, 1e-9])
def test_a_row_on_which_arithmetic_fails_does_not_end_the_others(small):
    rng = np.random.default_rng(0)
    A = np.hstack([-np.abs(rng.standard_normal((5, 50))), np.full((5, 1), small)])
    Y = np.ones((1, 5)) + 1e-3 * rng.random((3, 5))
    assert len(DualSimplexEngine(A, positive=True).solve(Y / np.linalg.norm(Y, axis=1, keepdims=True)).dual) == 3
    assert L1Decoder().bind(A).decode(np.vstack([Y, A[:, :1].T])).certified[-1]
