"""The batched path against HiGHS, alone against in a batch, fused against not; every step on a CPU."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from awkward import KINDS
from helpers import gaussian, sparse_rows
from sparselens._certificate_torch import TorchVerifier
from sparselens.certificate import Verifier
from sparselens.decoders import _path_batch
from sparselens.decoders._engine import Candidates
from sparselens.decoders._highs import HighsEngine
from sparselens.decoders._path_torch import TorchPathEngine


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def unit(Y: np.ndarray) -> np.ndarray:
    return Y / np.linalg.norm(Y, axis=1, keepdims=True)


def judged(A: np.ndarray, Y: np.ndarray, found: Candidates, positive: bool) -> tuple[np.ndarray, np.ndarray]:
    """(optimal and proved, infeasible and proved) of every row."""
    verifier = Verifier(A, positive=positive)
    optimal = verifier.optimal(Y, found.x, found.dual).optimal
    return optimal, found.infeasible & ~optimal & verifier.infeasible(Y, found.dual)


@pytest.mark.parametrize("kind", KINDS)
def test_whatever_highs_proves_the_path_proves_too_and_they_agree(kind):
    for seed in range(3):
        A, Y, positive = KINDS[kind](seed)
        ours = TorchPathEngine(A, positive=positive, device="cpu").solve(Y)
        theirs = HighsEngine(A, positive=positive).solve(Y)
        optimal, infeasible = judged(A, Y, ours, positive)
        optimal_highs, infeasible_highs = judged(A, Y, theirs, positive)
        assert not (optimal_highs & ~optimal).any()
        assert not (infeasible_highs & ~infeasible).any()
        both = optimal & optimal_highs
        # equal objectives; solutions may differ where they are not unique
        np.testing.assert_allclose(abs(ours.x).sum(axis=1)[both], abs(theirs.x).sum(axis=1)[both], rtol=1e-9)


@pytest.mark.parametrize("positive", [True, False])
def test_a_row_solved_alone_or_in_a_batch_agrees(positive):
    A = gaussian(24, 150, 0)
    Y = unit(sparse_rows(90, 150, 7, 1, signed=not positive) @ A.T)
    whole = TorchPathEngine(A, positive=positive, device="cpu").solve(Y)
    few = TorchPathEngine(A, positive=positive, device="cpu", max_rows=7).solve(Y)
    alone = TorchPathEngine(A, positive=positive, device="cpu").solve(Y[3:4])
    assert abs(whole.x - few.x).max() <= 1e-12
    assert abs(whole.x[[3]] - alone.x).max() <= 1e-12
    np.testing.assert_array_equal(whole.n_steps, few.n_steps)


def test_support_longer_than_the_first_bucket_and_without_a_gram_matrix(monkeypatch):
    A = gaussian(90, 400, 0)
    Y = unit(sparse_rows(10, 400, 70, 1) @ A.T)
    with_gram = TorchPathEngine(A, positive=True, device="cpu")
    monkeypatch.setattr(TorchPathEngine, "_gram", lambda self: None)
    without = TorchPathEngine(A, positive=True, device="cpu")
    assert with_gram.gram is not None
    assert without.gram is None
    first, second = with_gram.solve(Y), without.solve(Y)
    assert abs(first.x - second.x).max() <= 1e-11
    assert Verifier(A).optimal(Y, first.x, first.dual).optimal.all()
    assert first.n_steps.min() > 90


def test_drifted_inverses_are_repaired_on_the_way(monkeypatch):
    A = gaussian(40, 200, 0)
    Y = unit(sparse_rows(12, 200, 25, 1) @ A.T)
    right = TorchPathEngine(A, positive=True, device="cpu").solve(Y)
    calls = []
    step, repair = _path_batch.BatchedPath.step, _path_batch.BatchedPath._repair_drifted

    def spoiled(self):
        step(self)
        self.M.mul_(1.0 + 1e-7)  # a million times what rounding does in a step
        self.w.mul_(1.0 + 1e-9)

    def counted(self):
        calls.append(self.n)
        repair(self)

    monkeypatch.setattr(_path_batch.BatchedPath, "step", spoiled)
    monkeypatch.setattr(_path_batch.BatchedPath, "_repair_drifted", counted)
    found = TorchPathEngine(A, positive=True, device="cpu").solve(Y)
    assert calls
    assert Verifier(A).optimal(Y, found.x, found.dual).optimal.all()
    assert abs(found.x - right.x).max() <= 1e-10


def test_an_inverse_too_far_off_is_computed_afresh():
    B = torch.as_tensor(np.random.default_rng(0).standard_normal((3, 4, 9)))
    G = torch.bmm(B, B.transpose(1, 2))
    start = torch.linalg.inv(G)
    start[1] *= 40.0  # Newton's iteration would diverge
    inverse, good = _path_batch._inverse(G, start)
    assert good.all()
    assert (torch.bmm(G, inverse) - torch.eye(4)).abs().max() < 1e-10


def test_a_row_orthogonal_to_every_column_or_behind_them_is_infeasible():
    A = np.array([[1.0, 2.0, 0.5], [0.0, 0.0, 0.0]])
    Y = np.array([[0.0, 1.0], [-1.0, 0.0], [1.0, 0.0]])
    found = TorchPathEngine(A, positive=True, device="cpu").solve(Y)
    optimal, infeasible = judged(A, Y, found, True)
    assert optimal.tolist() == [False, False, True]
    assert infeasible.tolist() == [True, True, False]
    assert found.x[[2]].toarray().tolist() == [[0.0, 0.5, 0.0]]


def test_no_rows_give_no_candidates():
    found = TorchPathEngine(gaussian(3, 5, 0), positive=True, device="cpu").solve(np.zeros((0, 3)))
    assert found.x.shape == (0, 5)
    assert found.dual.shape == (0, 3)


def test_where_compilation_fails_the_operations_run_one_by_one(monkeypatch):
    def broken(function, **options):
        def fail(*args):
            raise RuntimeError("no compiler here")

        return fail

    monkeypatch.setattr(torch, "compile", broken)
    A = gaussian(12, 60, 0)
    Y = unit(sparse_rows(80, 60, 3, 1) @ A.T)
    engine = TorchPathEngine(A, positive=True, device="cpu", compile=True)
    found = engine.solve(Y)
    assert not engine.ratio.works()
    assert Verifier(A).optimal(Y, found.x, found.dual).optimal.all()


@pytest.mark.parametrize("positive", [True, False])
def test_the_verifier_on_a_device_says_what_the_one_on_the_host_says(positive):
    for kind in ("gaussian, long supports", "duplicate columns", "y outside the range", "binary", "zero columns"):
        A, Y, asked = KINDS[kind if positive or kind == "gaussian, long supports" else kind + " signed"](0)
        found = TorchPathEngine(A, positive=asked, device="cpu").solve(Y)
        wrong = Candidates(found.x * 1.001, found.dual * 1.001, found.infeasible, found.n_steps)
        dual = found.dual.copy()
        dual[0] = np.nan
        for x, u in ((found.x, found.dual), (wrong.x, found.dual), (found.x, wrong.dual), (found.x, dual)):
            host, device = Verifier(A, positive=asked), TorchVerifier(A, positive=asked, device="cpu")
            a, b = host.optimal(Y, x, u), device.optimal(Y, x, u)
            np.testing.assert_array_equal(a.optimal, b.optimal)
            np.testing.assert_array_equal(a.unique, b.unique)
            np.testing.assert_allclose(a.residual, b.residual, atol=1e-14)
            np.testing.assert_allclose(a.gap, b.gap, atol=1e-14)
            np.testing.assert_array_equal(host.infeasible(Y, u), device.infeasible(Y, u))
