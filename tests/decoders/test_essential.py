"""Columns that no solution needs: which they are, and that leaving them out changes no answer."""

from __future__ import annotations

import numpy as np
import pytest

from helpers import gaussian, sparse_rows
from sparselens.decoders._essential import essential_columns
from sparselens.decoders.l1 import L1Decoder
from sparselens.recovery import Status


def with_needless_columns(seed: int, m: int = 12, d: int = 60) -> np.ndarray:
    """Of 60 columns 20 are copies, shorter, longer or turned round, and 6 are zero."""
    rng = np.random.default_rng(seed)
    A = gaussian(m, d, seed)
    A[:, 30:50] = A[:, rng.integers(0, 30, 20)] * rng.choice([1.0, 0.5, 2.0, -1.0, -3.0], 20)
    A[:, 50:56] = 0.0
    return A[:, rng.permutation(d)]


def needed_by_definition(A: np.ndarray, positive: bool) -> np.ndarray:
    """Every pair of columns, one by one: of equals the first is kept."""
    kept = []
    for j, a in enumerate(A.T):
        needed = np.linalg.norm(a) > 0
        for k, b in enumerate(A.T):
            if j == k or not needed or not np.linalg.norm(b) > 0:
                continue
            t = a @ b / (b @ b)
            parallel = np.linalg.norm(a - t * b) <= 1e-12 * np.linalg.norm(a)
            enough = 0 < t if positive else True
            shorter = abs(t) < 1 - 1e-12 or (abs(t) <= 1 + 1e-12 and k < j)
            needed = not (parallel and enough and shorter)
        if needed:
            kept.append(j)
    return np.array(kept)


@pytest.mark.parametrize("positive", [True, False], ids=["positive", "signed"])
@pytest.mark.parametrize("seed", range(5))
def test_the_columns_are_those_of_the_definition(seed, positive):
    A = with_needless_columns(seed)
    kept = essential_columns(np.ascontiguousarray(A.T), positive=positive)
    np.testing.assert_array_equal(kept, needed_by_definition(A, positive))


def test_nothing_is_left_out_where_no_columns_are_parallel():
    A = gaussian(3, 2000, 0)  # three dimensions are crowded
    assert len(essential_columns(np.ascontiguousarray(A.T), positive=True)) == 2000


def test_of_columns_that_are_all_zero_one_stays():
    np.testing.assert_array_equal(essential_columns(np.zeros((5, 3)), positive=True), [0])
    rec = L1Decoder().bind(np.zeros((3, 5))).decode([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0]])
    assert rec.status.tolist() == [Status.OPTIMAL_UNIQUE, Status.INFEASIBLE]


@pytest.mark.parametrize("positive", [True, False], ids=["positive", "signed"])
@pytest.mark.parametrize("method", ["path", "highs"])
def test_answers_are_on_all_columns_and_proved_on_all_of_them(method, positive):
    A = with_needless_columns(0)
    X = sparse_rows(40, 60, 3, 1, signed=not positive)
    Y = X @ A.T
    rec = L1Decoder(positive, method=method).bind(A).decode(Y)
    assert rec.x.shape == X.shape
    assert rec.certified.all()  # by a verifier that knows nothing of columns that were left out
    np.testing.assert_allclose(rec.x @ A.T, Y, atol=1e-12)
    assert (abs(rec.x).sum(axis=1) <= abs(X).sum(axis=1) + 1e-9).all()
    if method == "path":  # HiGHS, the last resort, sees every column
        kept = essential_columns(np.ascontiguousarray(A.T), positive=positive)
        assert np.isin(rec.x.indices, kept).all()


def test_a_row_with_two_equally_good_columns_is_not_called_unique():
    A = np.array([[1.0, 0.0, 1.0], [0.0, 1.0, 0.0]])
    rec = L1Decoder().bind(A).decode([[2.0, 0.0], [0.0, 1.0]])
    assert rec.status.tolist() == [Status.OPTIMAL_NOT_UNIQUE, Status.OPTIMAL_UNIQUE]
