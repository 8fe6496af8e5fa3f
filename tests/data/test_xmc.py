"""Multi-label sets, read from small files in exactly the official formats."""

import lzma

import numpy as np
import pytest
import scipy.sparse as sp

from sparselens.data import load_dataset
from sparselens.recovery import CorruptFileError, DataNotFoundError

N_TRAIN, N_TEST, P, L = 40, 21, 30, 12


def tables(seed=0):
    rng = np.random.default_rng(seed)
    X = sp.random_array((N_TRAIN + N_TEST, P), density=0.2, rng=rng, format="csr")
    Y = sp.csr_array((rng.random((N_TRAIN + N_TEST, L)) < 0.2).astype(float))
    return X, Y


def official_text(X, Y):
    lines = [f"{X.shape[0]} {X.shape[1]} {Y.shape[1]}"]
    for i in range(X.shape[0]):
        labels = ",".join(map(str, Y.indices[Y.indptr[i] : Y.indptr[i + 1]]))
        row = slice(X.indptr[i], X.indptr[i + 1])
        lines.append(
            labels
            + " "
            + " ".join(f"{c}:{v!r}" for c, v in zip(X.indices[row].tolist(), X.data[row].tolist(), strict=True))
        )
    return "\n".join(lines) + "\n"


def write_text(root, names=("train", "test"), folder="eurlex-4k"):
    X, Y = tables()
    (root / folder).mkdir(exist_ok=True)
    (root / folder / f"{names[0]}.txt").write_text(official_text(X[:N_TRAIN], Y[:N_TRAIN]))
    (root / folder / f"{names[1]}.txt").write_text(official_text(X[N_TRAIN:], Y[N_TRAIN:]))
    return X, Y


def same(X, Y):
    return X.shape == Y.shape and (X != Y).nnz == 0


@pytest.mark.parametrize(
    ("name", "folder", "names"),
    [
        ("eurlex-4k", "eurlex-4k", ("train", "test")),
        ("eurlex-4k", "Eurlex", ("eurlex_train", "eurlex_test")),
        ("wiki10-31k", "Wiki10", ("wiki10_train", "wiki10_test")),
        ("wiki10-31k", "Wiki10-31K", ("train", "test")),
    ],
)
def test_official_text_gives_label_vectors_with_their_features_beside(tmp_path, name, folder, names):
    X, Y = write_text(tmp_path, names, folder)
    data = load_dataset(name, root=tmp_path, verify=False)
    assert data.sizes == (N_TRAIN, N_TEST // 2, N_TEST - N_TEST // 2)
    assert data.n_features == L
    assert same(data.features, X)
    assert same(data.labels, Y)
    assert same(data.labels_train, Y[:N_TRAIN])
    assert same(data.features_train, X[:N_TRAIN])
    for part, labels in (
        (data.train, data.labels_train),
        (data.valid, data.labels_valid),
        (data.test, data.labels_test),
    ):
        assert same(part.astype(bool), labels.astype(bool))
        norms = np.sqrt(np.asarray(part.multiply(part).sum(axis=1)).ravel())
        np.testing.assert_allclose(norms, np.diff(part.indptr) > 0, rtol=1e-12)  # rows without labels stay empty


def test_the_halves_are_made_of_the_official_test_rows_and_nothing_else(tmp_path):
    write_text(tmp_path)
    first, again, other = (
        load_dataset("eurlex-4k", root=tmp_path, verify=False, random_state=seed) for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(first.rows_valid, again.rows_valid)
    assert not np.array_equal(first.rows_valid, other.rows_valid)
    for data in (first, other):
        np.testing.assert_array_equal(data.rows_train, np.arange(N_TRAIN))
        rest = np.sort(np.concatenate([data.rows_valid, data.rows_test]))
        np.testing.assert_array_equal(rest, np.arange(N_TRAIN, N_TRAIN + N_TEST))


def test_the_official_split_puts_the_halves_together_again(tmp_path):
    X, Y = write_text(tmp_path)
    data = load_dataset("eurlex-4k", root=tmp_path, verify=False)
    X_train, Y_train, X_test, Y_test = data.official_split()
    rows = np.concatenate([data.rows_valid, data.rows_test])
    assert same(X_train, X[:N_TRAIN])
    assert same(Y_train, Y[:N_TRAIN])
    assert same(X_test, X[rows])
    assert same(Y_test, Y[rows])


def test_a_random_split_has_the_official_sizes_and_other_rows(tmp_path):
    write_text(tmp_path)
    data = load_dataset("eurlex-4k", root=tmp_path, verify=False, split="random")
    rows = np.concatenate([data.rows_train, data.rows_valid, data.rows_test])
    np.testing.assert_array_equal(np.sort(rows), np.arange(N_TRAIN + N_TEST))
    assert not np.array_equal(np.sort(data.rows_train), np.arange(N_TRAIN))
    assert len(data.rows_train) == N_TRAIN


def test_npz_files_give_the_same_set_as_text(tmp_path):
    X, Y = write_text(tmp_path)
    text = load_dataset("eurlex-4k", root=tmp_path, verify=False)
    other = tmp_path / "arrays"
    (other / "eurlex-4k").mkdir(parents=True)
    for name, matrix in (
        ("X.trn", X[:N_TRAIN]),
        ("Y.trn", Y[:N_TRAIN]),
        ("X.tst", X[N_TRAIN:]),
        ("Y.tst", Y[N_TRAIN:]),
    ):
        sp.save_npz(other / "eurlex-4k" / f"{name}.npz", matrix)
    arrays = load_dataset("eurlex-4k", root=other, verify=False)
    for name in ("train", "valid", "test", "features", "labels"):
        assert same(getattr(text, name), getattr(arrays, name))


def test_smaller_parts_keep_features_and_labels_aligned(tmp_path):
    X, Y = write_text(tmp_path)
    data = load_dataset("eurlex-4k", root=tmp_path, verify=False, sizes=(10, 5, 4))
    assert data.sizes == (10, 5, 4)
    assert same(data.features_test, X[data.rows_test])
    assert same(data.labels_test, Y[data.rows_test])
    with pytest.raises(ValueError, match="sizes asks for 41 train rows but 'eurlex-4k' has 40"):
        load_dataset("eurlex-4k", root=tmp_path, verify=False, sizes=(41, 1, 1))


def test_a_file_of_another_shape_is_not_taken_for_the_published_set(tmp_path):
    write_text(tmp_path)
    with pytest.raises(
        CorruptFileError, match="has 40 rows, 30 features and 12 labels but EURLex-4K has 15,539, 5,000"
    ):
        load_dataset("eurlex-4k", root=tmp_path)


def test_training_and_test_files_must_belong_together(tmp_path):
    write_text(tmp_path)
    X, Y = tables()
    (tmp_path / "eurlex-4k" / "test.txt").write_text(official_text(X[:, :20], Y))
    with pytest.raises(CorruptFileError, match="training and test files differ in their columns, 30 and 20 features"):
        load_dataset("eurlex-4k", root=tmp_path, verify=False)


def test_features_and_labels_must_have_the_same_rows(tmp_path):
    X, Y = tables()
    (tmp_path / "eurlex-4k").mkdir()
    for name, matrix in (("X.trn", X[:N_TRAIN]), ("Y.trn", Y), ("X.tst", X), ("Y.tst", Y)):
        sp.save_npz(tmp_path / "eurlex-4k" / f"{name}.npz", matrix)
    with pytest.raises(CorruptFileError, match="40 rows of features but 61 of labels in the training files"):
        load_dataset("eurlex-4k", root=tmp_path, verify=False)


def test_a_missing_test_file_is_named(tmp_path):
    write_text(tmp_path)
    (tmp_path / "eurlex-4k" / "test.txt").unlink()
    with pytest.raises(DataNotFoundError, match=r"'eurlex-4k' needs the file eurlex-4k/test\.txt"):
        load_dataset("eurlex-4k", root=tmp_path, verify=False)


def test_a_label_file_alone_is_no_official_file(tmp_path):
    write_text(tmp_path)
    (tmp_path / "eurlex-4k" / "train.txt").write_text("2 5\n1:1\n2:1\n")
    with pytest.raises(CorruptFileError, match="line 1: a header 'rows features labels' was expected, got two numbers"):
        load_dataset("eurlex-4k", root=tmp_path, verify=False)


def test_a_labels_only_set_drops_empty_rows_and_has_no_features(tmp_path):
    (tmp_path / "xmc").mkdir()
    lines = ["", "0:1 3:1", "2:1", "", *[f"{i % 4}:1" for i in range(18)]]
    text = f"{len(lines)} 4\n" + "\n".join(lines) + "\n"
    (tmp_path / "xmc" / "eurlex4k_train_labels.txt.xz").write_bytes(lzma.compress(text.encode()))
    with pytest.raises(CorruptFileError, match="expected sha256"):
        load_dataset("eurlex-4k-labels", root=tmp_path)
    data = load_dataset("eurlex-4k-labels", root=tmp_path, verify=False)
    assert data.sizes == (12, 4, 4)
    rows = np.concatenate([data.rows_train, data.rows_valid, data.rows_test])
    np.testing.assert_array_equal(np.sort(rows), [1, 2, *range(4, 22)])
    assert data.features is None
    assert "2 rows without labels dropped" in data.provenance
    with pytest.raises(AttributeError, match="has no features"):
        data.official_split()


def test_a_stored_set_needs_as_many_features_as_labels(tmp_path):
    (tmp_path / "xmc").mkdir()
    sp.save_npz(tmp_path / "xmc" / "bibtex_labels_7395x159.npz", sp.eye_array(5, format="csr"))
    sp.save_npz(tmp_path / "xmc" / "bibtex_feats_7395x1836.npz", sp.eye_array(6, format="csr"))
    with pytest.raises(CorruptFileError, match="6 rows of features but 5 of labels"):
        load_dataset("bibtex", root=tmp_path, verify=False)
