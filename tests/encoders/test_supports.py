"""Supports to train on: atoms, one-hot groups, exchange of units, padding."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp

from helpers import sparse_rows
from sparselens.data import load_dataset
from sparselens.encoders._supports import SupportSampler, atoms, onehot_groups, padded_parts


def as_sets(indptr, columns):
    return [set(columns[a:b].tolist()) for a, b in pairwise(indptr)]


def draw(sampler, n, seed=0, *, swap=0.0, uniform=0.0, unseen=0.0, thin=0.0):
    rows = np.arange(n) % sampler.n
    return sampler(rows, np.random.default_rng(seed), swap=swap, uniform=uniform, unseen=unseen, thin=thin)


@pytest.fixture(scope="module")
def blocks():
    return load_dataset("synthetic2", sizes=(3000, 1, 1)).train


@pytest.fixture(scope="module")
def onehot():
    rng = np.random.default_rng(0)
    columns = np.stack([rng.integers(0, 5, 200), 5 + rng.integers(0, 7, 200), 12 + rng.integers(0, 3, 200)], axis=1)
    return sp.csr_array((np.ones(600), columns.ravel(), np.arange(0, 601, 3)), shape=(200, 20))


# ---- what is found in the data ------------------------------------------------------------------------------


def test_the_blocks_of_synthetic2_are_its_atoms(blocks):
    label = atoms(blocks, min_count=1)
    seen = np.unique(blocks.indices)
    assert len(np.unique(label[seen])) == len(np.unique(seen // 5))
    assert all(len(np.unique(label[seen[seen // 5 == b]])) == 1 for b in np.unique(seen // 5))


def test_columns_that_occur_independently_stay_alone():
    X = sparse_rows(400, 30, 6, seed=0)
    assert len(np.unique(atoms(X))) == 30


def test_columns_that_are_never_used_stay_alone():
    X = sp.csr_array((3, 4))
    assert len(np.unique(atoms(X))) == 4


def test_one_hot_data_is_recognised_with_its_groups(onehot):
    groups = onehot_groups(onehot)
    assert (groups[:5] == 0).all()
    assert (groups[5:12] == 1).all()
    assert (groups[12:] == 2).all()  # columns after the last group that were never seen belong to it


@pytest.mark.parametrize(
    "X",
    [sparse_rows(50, 20, 3, seed=1), sp.csr_array(np.tri(4)), sp.csr_array(np.eye(5)), sp.csr_array((3, 4))],
    ids=["overlapping", "lengths vary", "one nonzero", "empty"],
)
def test_other_data_is_not_taken_for_one_hot(X):
    assert onehot_groups(X) is None


# ---- what is drawn ------------------------------------------------------------------------------------------


def test_without_exchange_the_supports_are_those_of_the_rows():
    X = sparse_rows(40, 30, 4, seed=2, signed=True)
    indptr, columns, signs = draw(SupportSampler(X), 40, swap=0.0, uniform=0.0)
    np.testing.assert_array_equal(indptr, X.indptr)
    np.testing.assert_array_equal(columns, X.indices)
    np.testing.assert_array_equal(signs, np.sign(X.data))


def test_exchange_makes_new_supports_out_of_whole_blocks(blocks):
    indptr, columns, _ = draw(SupportSampler(blocks), 3000, swap=0.5, uniform=0.0)
    supports = as_sets(indptr, columns)
    assert all(len(s) in (5, 10) and all({5 * (c // 5) + i for i in range(5)} <= s for c in s) for s in supports)
    known = as_sets(blocks.indptr, blocks.indices)
    assert sum(s not in known for s in supports) > 500


def test_exchanged_one_hot_supports_keep_one_column_of_each_group(onehot):
    sampler = SupportSampler(onehot)
    groups = onehot_groups(onehot)
    indptr, columns, _ = draw(sampler, 200, swap=0.7, uniform=0.5)
    assert sampler.grouped
    for support in as_sets(indptr, columns):
        assert sorted(groups[list(support)]) == [0, 1, 2]


def test_columns_never_seen_are_drawn_only_by_a_uniform_exchange(onehot):
    unseen = set(range(20)) - set(onehot.indices.tolist())
    sampler = SupportSampler(onehot)
    assert unseen
    assert unseen <= set(draw(sampler, 400, swap=0.5, uniform=1.0)[1].tolist())
    assert not unseen & set(draw(sampler, 400, swap=0.5, uniform=0.0)[1].tolist())


def test_columns_that_no_row_uses_occur_as_often_as_those_that_one_row_uses():
    X = sp.csr_array((np.ones(300), (np.arange(300) // 2, np.arange(300) % 2 * np.arange(300))), shape=(150, 450))
    used = np.bincount(X.indices, minlength=450)  # column 0 in every row, 150 columns in one row each, the rest unused
    columns = draw(SupportSampler(X), 3000, unseen=0.5)[1]
    drawn = np.bincount(columns, minlength=450)
    assert drawn[0] == 3000
    assert drawn[used == 1].sum() == pytest.approx(1500, abs=150)
    assert drawn[used == 0].sum() == pytest.approx(1500, abs=150)


def test_columns_that_no_row_uses_take_the_place_of_a_column_of_their_group():
    X = sp.csr_array((np.ones(40), (np.arange(40) // 2, np.arange(40) % 2 * 30 + np.arange(40) // 2)), shape=(20, 60))
    groups = onehot_groups(X)
    indptr, columns, _ = draw(SupportSampler(X), 400, unseen=0.5)
    assert all(sorted(groups[list(support)]) == [0, 1] for support in as_sets(indptr, columns))
    assert (np.bincount(columns, minlength=60) > 0).all()


def test_where_every_column_is_used_nothing_takes_the_place_of_a_rare_one():
    X = sp.csr_array(np.eye(6))
    columns = draw(SupportSampler(X), 60, unseen=1.0)[1]
    np.testing.assert_array_equal(columns, np.arange(60) % 6)


def test_a_thinned_support_is_a_part_of_its_row_of_any_length():
    X = sparse_rows(500, 40, 8, seed=6)
    indptr, columns, _ = draw(SupportSampler(X), 500, thin=1.0)
    assert all(
        part <= whole for part, whole in zip(as_sets(indptr, columns), as_sets(X.indptr, X.indices), strict=True)
    )
    lengths = np.bincount(np.diff(indptr), minlength=9)
    np.testing.assert_allclose(lengths, 500 / 9, rtol=0.5)  # a uniform rate makes every length equally likely


def test_a_part_of_the_supports_is_thinned():
    X = sparse_rows(500, 40, 8, seed=6)
    lengths = np.diff(draw(SupportSampler(X), 500, thin=0.5)[0])
    assert np.mean(lengths == 8) == pytest.approx(0.5 + 0.5 / 9, abs=0.08)


def test_a_support_never_holds_a_column_twice():
    X = sparse_rows(300, 12, 5, seed=3)
    indptr, columns, _ = draw(SupportSampler(X), 300, swap=0.8, uniform=0.5)
    assert all(len(s) == n for s, n in zip(as_sets(indptr, columns), np.diff(indptr), strict=True))


def test_exchanged_columns_of_signed_data_have_either_sign():
    X = sparse_rows(200, 20, 3, seed=4, signed=True)
    signs = draw(SupportSampler(X), 200, swap=1.0, uniform=1.0)[2]
    assert set(np.unique(signs)) == {-1.0, 1.0}


def test_the_same_generator_gives_the_same_supports(blocks):
    sampler = SupportSampler(blocks)
    for a, b in zip(*(draw(sampler, 50, 7, swap=0.5, uniform=0.5) for _ in range(2)), strict=True):
        np.testing.assert_array_equal(a, b)


# ---- padding ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("max_parts", [1, 3])
def test_padded_parts_hold_every_support_that_fits_once(max_parts):
    lengths = np.array([0, 1, 3, 9, 20, 2, 40, 9])
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    columns = np.arange(indptr[-1])
    parts = padded_parts(indptr, columns, np.ones(len(columns)), max_length=20, max_parts=max_parts)
    assert len(parts) <= max_parts
    found = {}
    for padded, signs in parts:
        for support, sign in zip(padded, signs, strict=True):
            found[int(support[0])] = support[sign != 0]
            assert (support[sign == 0] == support[0]).all()
    assert sorted(found) == [indptr[row] for row in (1, 2, 3, 4, 5, 7)]  # neither the empty one nor the longest
    for row in (1, 2, 3, 4, 5, 7):
        np.testing.assert_array_equal(found[indptr[row]], columns[indptr[row] : indptr[row + 1]])


def test_supports_that_are_all_too_long_leave_nothing():
    assert padded_parts(np.array([0, 5]), np.arange(5), np.ones(5), max_length=4, max_parts=2) == []
