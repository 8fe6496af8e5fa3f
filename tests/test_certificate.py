"""The certificate: right answers pass, wrong ones of every kind do not, and nothing is shared with a solver."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import nnls

import sparselens.certificate as certificate
from helpers import gaussian, sparse_rows
from sparselens._certificate_torch import TorchVerifier
from sparselens.certificate import Verifier, verify
from sparselens.decoders.l1 import L1Decoder

M, D, N = 24, 120, 60


@pytest.fixture(scope="module", params=[True, False], ids=["positive", "signed"])
def solved(request):
    """A, Y, X, U of proved answers, where ℓ1 finds the truth in some rows and another vector in the others."""
    positive = request.param
    A = gaussian(M, D, 0)
    truth = sparse_rows(N, D, 6, 1, signed=not positive)
    Y = truth @ A.T
    rec = L1Decoder(positive).bind(A).decode(Y)
    assert rec.unique.all()
    return A, Y, rec.x, rec.dual, truth, positive


def accepted(A, Y, X, U, positive):
    return verify(A, Y, sp.csr_array(X), U, positive=positive).optimal


def test_right_answers_are_accepted(solved):
    A, Y, X, U, _, positive = solved
    proof = verify(A, Y, X, U, positive=positive)
    assert proof.optimal.all()
    assert proof.unique.all()
    assert proof.residual.max() <= 1e-13
    assert abs(proof.gap).max() <= 1e-12


def test_the_true_vector_is_refused_where_a_shorter_one_exists(solved):
    A, Y, X, U, truth, positive = solved
    other = np.asarray(abs(truth - X).sum(axis=1)).ravel() > 1e-6
    assert other.sum() >= 5
    assert not accepted(A, Y, truth, U, positive)[other].any()


def test_a_feasible_vector_that_is_not_the_shortest_is_refused(solved):
    A, Y, X, U, _, positive = solved
    if not positive:
        longer = np.array([np.linalg.lstsq(A, y, rcond=None)[0] for y in Y])
    else:
        longer = np.array([nnls(A, y, maxiter=5000)[0] for y in Y])
    differs = np.abs(longer - X.toarray()).max(axis=1) > 1e-6
    assert differs.sum() >= 5
    assert not accepted(A, Y, longer, U, positive)[differs].any()


def test_a_dropped_entry_is_noticed(solved):
    A, Y, X, U, _, positive = solved
    wrong = X.toarray()
    smallest = np.argmin(np.where(wrong != 0, np.abs(wrong), np.inf), axis=1)
    wrong[np.arange(N), smallest] = 0.0
    assert not accepted(A, Y, wrong, U, positive).any()


@pytest.mark.parametrize("shift", [1e-4, 1e-6, 1e-8])
def test_a_shifted_value_is_noticed(solved, shift):
    A, Y, X, U, _, positive = solved
    wrong = X.toarray()
    wrong[np.arange(N), np.argmax(np.abs(wrong), axis=1)] += shift
    assert not accepted(A, Y, wrong, U, positive).any()


def test_a_step_along_the_null_space_is_noticed(solved):
    A, Y, X, U, _, positive = solved
    null = np.linalg.svd(A)[2][-1]
    wrong = X.toarray() + 1e-5 * null / np.abs(null).max()
    assert not accepted(A, Y, wrong, U, positive).any()


def test_a_dual_vector_outside_its_set_is_refused(solved):
    A, Y, X, U, _, positive = solved
    assert not accepted(A, Y, X, U * (1 + 1e-7), positive).any()


def test_the_proof_of_another_row_is_refused(solved):
    A, Y, X, U, _, positive = solved
    assert not accepted(A, Y, X, np.roll(U, 1, axis=0), positive).any()


def test_a_small_negative_entry_is_refused_where_x_must_be_nonnegative():
    A = np.array([[1.0, 1.0, 1.0], [0.0, 1.0, 2.0]])
    x = np.array([[1.0, -1e-9, 0.0]])
    assert not verify(A, x @ A.T, x, [[1.0, 0.0]]).optimal[0]


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_dual_vector_that_is_no_number_proves_nothing(solved, bad):
    A, Y, X, U, _, positive = solved
    wrong = U.copy()
    wrong[:, 0] = bad
    assert not accepted(A, Y, X, wrong, positive).any()


def test_optimal_but_not_unique_is_told_apart():
    A = np.array([[1.0, 1.0]])
    proof = verify(A, [[2.0]], [[2.0, 0.0]], [[1.0]])
    assert proof.optimal[0]
    assert not proof.unique[0]


def test_dependent_tight_columns_that_are_not_equal_are_noticed():
    # three tight columns in two rows: every mixture has the same length
    A = np.array([[1.0, 0.0, 0.5], [0.0, 1.0, 0.5]])
    proof = verify(A, [[0.5, 0.5]], [[0.0, 0.0, 1.0]], [[1.0, 1.0]])
    assert proof.optimal[0]
    assert not proof.unique[0]


@pytest.fixture(params=["here", "on a device"])
def check(request):
    """A verifier of either kind."""
    return Verifier if request.param == "here" else lambda A: TorchVerifier(A, device="cpu")


def verdict(check, A, y, x, u):
    proof = check(np.array(A)).optimal(np.array([y]), sp.csr_array([x]), np.array([u]))
    return bool(proof.optimal[0]), bool(proof.unique[0])


def test_an_answer_outside_the_tight_columns_is_not_called_unique(check):
    # both pairs have a gap of 9e-10, and only one of the two answers can be the only one
    A, y, u = [[1.0, 0.0, 0.0], [0.0, 1.0, 1.0]], [1.0, 9e-10], [1.0, 0.0]
    assert verdict(check, A, y, [1.0, 9e-10, 0.0], u) == (True, False)
    assert verdict(check, A, y, [1.0, 0.0, 9e-10], u) == (True, False)


def test_an_answer_that_misses_more_than_rounding_is_not_called_unique(check):
    # 5e-12 of y are 5e-9 of a short column, which this answer leaves out
    A, u = [[1.0, 0.0, 0.3], [0.0, 1e-3, 2e-4]], [1.0, 0.0]
    assert verdict(check, A, [1.0, 5e-12], [1.0, 0.0, 0.0], u) == (True, False)
    assert verdict(check, A, [1.0, 0.0], [1.0, 0.0, 0.0], u) == (True, True)


@pytest.mark.parametrize(("apart", "unique"), [(1e-3, True), (1e-5, True), (1e-7, False), (1e-9, False)])
def test_columns_so_nearly_dependent_that_rounding_decides_are_not_called_unique(check, apart, unique):
    A = np.array([[1.0, 1.0], [0.0, apart], [0.0, 0.0]])
    y, u = A @ [0.6, 0.7], np.linalg.lstsq(A.T, np.ones(2), rcond=None)[0]
    assert verdict(check, A, y, [0.6, 0.7], u) == (True, unique)


def test_a_residual_counts_by_what_it_may_become_in_x(check):
    A = np.array([[1.0, 1.0], [0.0, 1e-3]])  # σ = 5e-4: a residual of 5e-14 may be 1e-10 in x
    u, x = np.array([1.0, 0.0]), np.array([0.6, 0.7])
    assert verdict(check, A, A @ x + [0, 1e-14], x, u) == (True, True)
    assert verdict(check, A, A @ x + [0, 9e-14], x, u) == (True, False)


def test_infeasibility_needs_a_separating_vector():
    A = np.abs(gaussian(6, 20, 0))
    y = -np.ones((1, 6))
    check = Verifier(A)
    assert check.infeasible(y, y)[0]
    assert not check.infeasible(y, -y)[0]  # yᵀr < 0
    assert not check.infeasible(y, np.eye(6)[:1])[0]  # Aᵀr > 0
    assert not check.infeasible(y, np.zeros((1, 6)))[0]
    assert not check.infeasible((A[:, :1] * 3).T, -np.ones((1, 6)))[0]  # a feasible y cannot be separated


def test_a_feasible_row_is_never_called_infeasible():
    rng = np.random.default_rng(0)
    A = gaussian(8, 30, 0)
    Y = sparse_rows(200, 30, 3, 1) @ A.T
    R = rng.standard_normal((200, 8))
    R -= A[:, :8].T.mean() * R  # any vectors at all
    assert not Verifier(A).infeasible(Y, R).any()


def test_the_certificate_on_a_device_says_the_same(solved):
    A, Y, X, U, truth, positive = solved
    U = U.copy()
    U[3], U[4, 0] = U[3] * 1.1, np.nan
    mixed = sp.vstack([X[:30], truth[30:]], format="csr")
    here = Verifier(A, positive=positive).optimal(Y, mixed, U)
    there = TorchVerifier(A, positive=positive, device="cpu").optimal(Y, mixed, U)
    assert (here.optimal == there.optimal).all()
    assert (here.unique == there.unique).all()
    np.testing.assert_allclose(here.residual, there.residual, atol=1e-14)


def test_the_certificate_imports_no_solver_and_no_solver_helper():
    for module in (certificate.__file__, Path(certificate.__file__).parent / "_certificate_torch.py"):
        tree = ast.parse(Path(module).read_text())
        names = {n.module for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) and n.module}
        assert not any("decoders" in name or "unroll" in name for name in names)
    for engine in (Path(certificate.__file__).parent / "decoders").glob("_*.py"):
        assert "certificate" not in {
            (n.module or "").rpartition(".")[2]
            for n in ast.walk(ast.parse(engine.read_text()))
            if isinstance(n, ast.ImportFrom)
        }, engine.name


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([[1.0, 2.0]], [[1.0]], [[1.0]], [[1.0]]), r"X has 1 columns but 2 were expected"),
        (([[1.0, 2.0]], [[1.0, 2.0]], [[1.0, 0.0]], [[1.0]]), r"Y has 2 columns but A has 1 rows"),
        (([[1.0, 2.0]], [[1.0]], [[1.0, 0.0]], [[1.0, 2.0]]), r"U has 2 columns but A has 1 rows"),
        (([[1.0, 2.0]], [[1.0]], [[1.0, 0.0]] * 2, [[1.0]]), r"must have equally many rows, got 1, 2 and 1"),
        (([[1.0, 2.0]], [[np.nan]], [[1.0, 0.0]], [[1.0]]), r"Y holds NaN or infinity in row 0"),
        (([[np.nan, 2.0]], [[1.0]], [[1.0, 0.0]], [[1.0]]), r"A holds NaN or infinity in row 0"),
    ],
)
def test_wrong_shapes_and_values_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        verify(*arguments)
