"""The generated data sets have the structure that the paper describes."""

import numpy as np
import pytest

from sparselens.data import load_dataset, sample
from sparselens.data.synthetic import (
    GENERATORS,
    block_sparse_rows,
    power_law_probabilities,
    power_law_rows,
    random_subsets,
)

NAMES = tuple(GENERATORS)


def norms(X):
    return np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel())


@pytest.mark.parametrize("name", NAMES)
def test_a_generated_set_has_the_papers_sizes_and_unit_nonnegative_rows(name):
    data = load_dataset(name)
    assert data.sizes == (6000, 2000, 2000)
    assert data.n_features == GENERATORS[name].n_features
    for part in (data.train, data.valid, data.test):
        assert part.dtype == np.float64
        assert part.format == "csr"
        assert part.has_canonical_format
        assert part.data.min() > 0
        np.testing.assert_allclose(norms(part), 1.0, rtol=1e-12)


@pytest.mark.parametrize("name", [name for name in NAMES if GENERATORS[name].sparsity is not None])
def test_every_row_lies_in_the_sets_sparsity_model(name):
    X = sample(name, 300)
    model = GENERATORS[name].sparsity
    assert abs(model.project(X) - X).max() == 0


@pytest.mark.parametrize("name", NAMES)
def test_the_same_seed_gives_the_same_bits_and_another_seed_other_rows(name):
    first, again, other = (sample(name, 50, random_state=seed) for seed in (3, 3, 4))
    assert (first != again).nnz == 0
    assert (first != other).nnz > 0


def test_the_parts_of_a_set_and_different_sets_share_no_rows():
    data = load_dataset("synthetic1", sizes=(100, 100, 100))
    assert (data.train != data.valid).nnz > 0
    assert (data.valid != data.test).nnz > 0
    assert (sample("synthetic1", 10, part=0) != sample("synthetic1", 10, part=1)).nnz > 0


def test_the_size_of_one_part_leaves_the_others_alone():
    small = load_dataset("synthetic2", sizes=(10, 20, 30))
    large = load_dataset("synthetic2", sizes=(500, 20, 30))
    assert (small.test != large.test).nnz == 0


def test_a_part_of_load_dataset_can_be_drawn_with_sample():
    assert (load_dataset("toy", random_state=5).valid != sample("toy", 2000, random_state=5, part="valid")).nnz == 0


def test_synthetic1_is_one_whole_block_and_every_block_occurs():
    X = sample("synthetic1", 3000)
    columns = X.indices.reshape(3000, 10)
    assert (columns[:, 0] % 10 == 0).all()
    assert (np.diff(columns, axis=1) == 1).all()
    counts = np.bincount(columns[:, 0] // 10, minlength=100)
    # 30 expected in each, standard deviation 5.4; six of those bound a fair draw for any seed worth keeping.
    assert counts.min() > 0
    assert counts.max() < 30 + 6 * 5.5


def test_synthetic2_has_two_distinct_blocks():
    columns = sample("synthetic2", 3000).indices.reshape(3000, 2, 5)
    assert (columns[:, :, 0] % 5 == 0).all()
    assert (np.diff(columns, axis=2) == 1).all()
    assert (columns[:, 1, 0] > columns[:, 0, 0]).all()


def test_the_toy_set_lives_in_the_first_twenty_columns():
    X = sample("toy", 2000)
    assert X.indices.max() == 19
    assert (np.diff(X.indptr) == 5).all()


def test_the_power_law_is_capped_last_so_that_column_0_is_always_there():
    p = power_law_probabilities(1000, 10)
    assert p[0] == 1.0
    np.testing.assert_allclose(p[1:] * np.arange(2, 1001), p[1] * 2)  # proportional to 1 / (i + 1) below the cap
    X = sample("synthetic3", 8000)
    frequency = np.bincount(X.indices, minlength=1000) / 8000
    # Five standard deviations of a frequency over 8,000 draws, over 1,000 columns.
    assert np.all(np.abs(frequency - p) <= 5 * np.sqrt(p * (1 - p) / 8000) + 1e-12)
    assert abs(np.diff(X.indptr).mean() - 9.664) < 0.15


def test_a_power_law_row_without_nonzeros_is_drawn_again():
    X = power_law_rows(500, np.full(20, 0.02), np.random.default_rng(0))
    assert X.shape == (500, 20)
    assert np.diff(X.indptr).min() >= 1


def test_a_power_law_that_could_never_end_is_refused():
    with pytest.raises(ValueError, match="every probability is 0"):
        power_law_rows(5, np.zeros(20), np.random.default_rng(0))


def test_random_subsets_are_distinct_and_uniform():
    chosen = random_subsets(20_000, 6, 3, np.random.default_rng(1))
    assert (np.diff(chosen, axis=1) > 0).all()
    counts = np.bincount((2**chosen).sum(axis=1), minlength=64)
    counts = counts[counts > 0]
    assert len(counts) == 20  # 6 choose 3
    assert np.abs(counts - 1000).max() < 5 * np.sqrt(1000)


def test_all_items_can_be_chosen():
    assert (random_subsets(4, 5, 5, np.random.default_rng(0)) == np.arange(5)).all()


def test_values_are_uniform_before_scaling():
    values = sample("unstructured", 5000, normalize=False).data
    assert values.max() <= 1
    assert abs(values.mean() - 0.5) < 5 * np.sqrt(1 / 12 / len(values))


def test_no_rows_can_be_asked_for():
    assert all(sample(name, 0).shape == (0, GENERATORS[name].n_features) for name in NAMES)


def test_bad_arguments_of_sample_are_named():
    with pytest.raises(ValueError, match="name must be one of 'toy'"):
        sample("amazon", 5)
    with pytest.raises(ValueError, match="n must be at least 0, got -1"):
        sample("toy", -1)
    with pytest.raises(TypeError, match=r"n must be a whole number, got 2\.5"):
        sample("toy", 2.5)
    with pytest.raises(ValueError, match="random_state must be at least 0"):
        sample("toy", 5, random_state=-1)


def test_blocks_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="2 blocks of 3 do not fit into 10 of 10 columns"):
        block_sparse_rows(1, 10, 2, 3, np.random.default_rng(0))
