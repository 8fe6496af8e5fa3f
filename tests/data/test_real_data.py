"""Real data sets have the published sizes; skipped where the files are not under SPARSELENS_DATA."""

import numpy as np
import pytest

from helpers import real_data
from sparselens.data import list_datasets, load_dataset
from sparselens.data.catalogue import DATASETS
from sparselens.sparsity import OneHot

pytestmark = pytest.mark.real_data

MULAN = ("rcv1_mulan/X_30000x47236.npz", "rcv1_mulan/Y_30000x101.npz", "rcv1_mulan/meta.npz")


def row_keys(X):
    """The content of each row, as something that can be compared."""
    return [(X.indices[a:b].tobytes(), X.data[a:b].tobytes()) for a, b in zip(X.indptr[:-1], X.indptr[1:], strict=True)]


def test_amazon_is_the_papers_data_set():
    real_data("amazon_train.csv.gz")
    data = load_dataset("amazon")
    assert data.n_features == 15626
    assert data.sizes == (19661, 6554, 6554)
    assert data.sparsity == OneHot((7518, 4243, 128, 177, 449, 343, 2358, 67, 343))
    for part in (data.train, data.valid, data.test):
        np.testing.assert_allclose(part.data, 1 / 3, rtol=1e-15)
        group = np.searchsorted(np.cumsum(data.sparsity.groups), part.indices, side="right")
        np.testing.assert_array_equal(group.reshape(-1, 9), np.tile(np.arange(9), (part.shape[0], 1)))
    unseen = np.bincount(data.train.indices, minlength=15626) == 0
    assert unseen.sum() == 2700
    assert round(unseen[data.test.indices].reshape(-1, 9).any(axis=1).mean(), 3) == 0.228


def test_the_papers_amazon_split_depends_on_no_seed_unless_asked():
    real_data("amazon_train.csv.gz")
    paper, same, other = (
        load_dataset("amazon", random_state=seed, split=split)
        for seed, split in ((0, "paper"), (1, "paper"), (1, "random"))
    )
    np.testing.assert_array_equal(paper.rows_test, same.rows_test)
    assert not np.array_equal(paper.rows_test, other.rows_test)
    assert other.sizes == paper.sizes
    rows = np.concatenate([other.rows_train, other.rows_valid, other.rows_test])
    assert len(np.unique(rows)) == len(rows) == 32769


def test_amazon_agrees_with_scikit_learns_encoder_row_by_row():
    import gzip

    from sklearn.model_selection import train_test_split
    from sklearn.preprocessing import OneHotEncoder

    root = real_data("amazon_train.csv.gz")
    with gzip.open(root / "amazon_train.csv.gz") as stream:
        table = np.loadtxt(stream, delimiter=",", skiprows=1, usecols=range(1, 10), dtype=np.int64)
    encoded = OneHotEncoder().fit_transform(table)
    train, rest = train_test_split(encoded, test_size=0.4, random_state=43)
    test, valid = train_test_split(rest, test_size=0.5, random_state=43)
    data = load_dataset("amazon", normalize=False)
    for ours, theirs in ((data.train, train), (data.valid, valid), (data.test, test)):
        assert abs(ours - theirs).nnz == 0
    assert data.feature_names[0] == f"RESOURCE={table[:, 0].min()}"


def test_rcv1_mulan_has_the_papers_sizes_and_no_row_in_two_parts():
    real_data(*MULAN)
    data = load_dataset("rcv1-mulan")
    assert data.n_features == 47236
    assert data.sizes == (13889, 4630, 4630)
    keys = [key for part in (data.train, data.valid, data.test) for key in row_keys(part)]
    assert len(set(keys)) == len(keys)
    assert data.train.data.min() > 0


def test_rcv1_topics_holds_the_stories_of_rcv1_mulan():
    real_data(*MULAN)
    vectors, topics = load_dataset("rcv1-mulan", normalize=False), load_dataset("rcv1-topics")
    assert topics.n_features == 101
    assert (topics.features_test != vectors.test).nnz == 0
    assert set(topics.labels.data) == {1.0}


@pytest.mark.parametrize(
    ("name", "file", "n_train", "n_test", "n_labels", "n_features", "labels_a_row"),
    [
        ("bibtex", "xmc/bibtex_labels_7395x159.npz", 4880, 2515, 159, 1836, 2.40),
        ("delicious", "xmc/delicious_labels_16105x983.npz", 12920, 3185, 983, 500, 19.02),
    ],
)
def test_multi_label_sets_have_the_official_sizes(name, file, n_train, n_test, n_labels, n_features, labels_a_row):
    real_data(file)
    X_train, Y_train, X_test, Y_test = load_dataset(name).official_split()
    assert X_train.shape == (n_train, n_features)
    assert Y_train.shape == (n_train, n_labels)
    assert X_test.shape == (n_test, n_features)
    assert Y_test.shape == (n_test, n_labels)
    assert abs((Y_train.nnz + Y_test.nnz) / (n_train + n_test) - labels_a_row) < 0.01


@pytest.mark.parametrize(
    ("name", "file", "n", "d", "n_empty", "labels_a_row"),
    [
        ("eurlex-4k-labels", "xmc/eurlex4k_train_labels.txt.xz", 15539, 3993, 28, 5.31),
        ("wiki10-like-labels", "xmc/wiki10_like_labels_10000x3400.txt.xz", 10000, 3400, 0, 13.6),
        ("citeulike-a-tags", "xmc/citeulike_a_item_tags_16980x46391.npz", 16980, 46391, 3461, 14.1),
    ],
)
def test_labels_only_sets_drop_their_empty_rows(name, file, n, d, n_empty, labels_a_row):
    real_data(file)
    data = load_dataset(name)
    assert data.labels.shape == (n, d)
    assert sum(data.sizes) == n - n_empty
    assert abs(data.labels.nnz / n - labels_a_row) < 0.05
    for part in (data.train, data.valid, data.test):
        assert np.diff(part.indptr).min() > 0


def test_what_the_list_says_is_what_loads():
    real_data()
    for info in list_datasets():
        if info.available and DATASETS[info.name].files:
            data = load_dataset(info.name)
            assert (data.n_features, data.sizes) == (info.n_features, info.sizes)
