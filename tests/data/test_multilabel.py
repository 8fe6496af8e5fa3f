"""Multi-label files: three formats that agree, odd rows that are legal, and files that lie."""

from __future__ import annotations

import gzip

import numpy as np
import pytest
import scipy.sparse as sp

from sparselens.data import load_dataset, read_matrix, read_multilabel, write_ranking
from sparselens.data.multilabel import read_features
from sparselens.recovery import CorruptFileError

X = sp.csr_array(np.array([[1.5, 0, 1, 0], [0, 2, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0.5]]))
Y = sp.csr_array(np.array([[1.0, 0, 1], [0, 0, 0], [0, 0, 1], [1, 0, 0]]))
XMC = "4 4 3\n0,2 0:1.5 2:1\n 1:2\n2\n0 3:0.5\n"


def check(pair):
    np.testing.assert_array_equal(pair[0].toarray(), X.toarray())
    np.testing.assert_array_equal(pair[1].toarray(), Y.toarray())


def test_the_three_formats_agree(tmp_path):
    (tmp_path / "a.txt").write_text(XMC)
    check(read_multilabel(tmp_path / "a.txt"))
    (tmp_path / "a.svm").write_text("0,2 0:1.5 2:1\n1:2\n2\n0 3:0.5\n")
    check(read_multilabel(tmp_path / "a.svm"))
    sp.save_npz(tmp_path / "X.npz", X)
    sp.save_npz(tmp_path / "Y.npz", 3 * Y)  # every nonzero is a label
    check(read_multilabel(tmp_path / "X.npz", tmp_path / "Y.npz"))


def test_text_without_an_ending_is_told_by_its_first_line_and_may_be_compressed(tmp_path):
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(XMC.encode()))
    check(read_multilabel(tmp_path / "a.txt.gz"))
    (tmp_path / "b.txt").write_text("0,2 0:1.5 2:1\n1:2\n2\n0 3:0.5\n")
    check(read_multilabel(tmp_path / "b.txt"))


def test_rows_without_labels_or_features_and_labels_without_rows_are_legal(tmp_path):
    (tmp_path / "a.txt").write_text(XMC)
    features, labels = read_multilabel(tmp_path / "a.txt")
    assert labels[1].nnz == 0  # a row without labels
    assert features[2].nnz == 0  # a row without features
    assert labels[:, 1].nnz == 0  # a label without rows


def test_svmlight_is_widened_to_what_the_caller_knows(tmp_path):
    (tmp_path / "a.svm").write_text("0 0:1\n")
    features, labels = read_multilabel(tmp_path / "a.svm", n_features=7, n_labels=5)
    assert (features.shape, labels.shape) == ((1, 7), (1, 5))
    (tmp_path / "wide.svm").write_text("9 0:1 8:1\n")
    with pytest.raises(CorruptFileError, match=r"wide.svm has 9 features but 7 were expected"):
        read_multilabel(tmp_path / "wide.svm", n_features=7)
    with pytest.raises(CorruptFileError, match=r"wide.svm has 10 labels but 5 were expected"):
        read_multilabel(tmp_path / "wide.svm", n_labels=5)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("2 4 3\n0 0:1\n3 1:1\n", r"line 3: the label '3' is out of range: labels go from 0 to 2"),
        ("2 4 3\n0 0:1\n0 4:1\n", r"line 3: the index '4' is out of range: columns go from 0 to 3"),
        ("3 4 3\n0 0:1\n0 1:1\n", r"line 3: the file ends here; .* 3 rows but 2 lines follow: was the file cut short"),
        ("1 4 3\n0 0:1\n0 1:1\n", r"line 3: the header declares 1 rows but more follow"),
        ("2 4\n0:1\n1:1\n", r"line 1: a header 'rows features labels' was expected, got two numbers"),
        ("2 4 3\n0 0:1\n0 1:\n", r"line 3: '1:' is not index:value"),
        ("2 4 3\n0 0:1\n-1 1:1\n", r"line 3: labels such as 3,17 were expected first, got '-1'"),
        ("2 4 0\n0 0:1\n0 1:1\n", r"line 1: the header declares a size of 0"),
        ("", r"is empty or begins with an empty line"),
    ],
)
def test_a_file_that_lies_is_refused_with_the_line(tmp_path, text, message):
    (tmp_path / "a.txt").write_text(text)
    with pytest.raises(CorruptFileError, match=message):
        read_multilabel(tmp_path / "a.txt")


def test_a_header_is_a_promise(tmp_path):
    (tmp_path / "a.txt").write_text(XMC)
    with pytest.raises(CorruptFileError, match="has 4 features but 5 were expected"):
        read_multilabel(tmp_path / "a.txt", n_features=5)
    with pytest.raises(CorruptFileError, match="has 3 labels but 2 were expected"):
        read_multilabel(tmp_path / "a.txt", n_labels=2)


def test_a_pair_that_does_not_belong_together_is_refused(tmp_path):
    sp.save_npz(tmp_path / "X.npz", X)
    sp.save_npz(tmp_path / "Y.npz", Y[:3])
    with pytest.raises(CorruptFileError, match=r"has 4 rows of features but .* has 3 rows of labels"):
        read_multilabel(tmp_path / "X.npz", tmp_path / "Y.npz")
    with pytest.raises(ValueError, match="holds features alone: name the file of the labels"):
        read_multilabel(tmp_path / "X.npz")
    sp.save_npz(tmp_path / "Y.npz", -Y)
    with pytest.raises(
        ValueError, match=r"Y.npz holds negative values in rows 0, 2, 3 \(smallest -1\): mark the labels"
    ):
        read_multilabel(tmp_path / "X.npz", tmp_path / "Y.npz")
    (tmp_path / "a.txt").write_text(XMC)
    with pytest.raises(ValueError, match=r"holds its own labels: a second file goes with a features .npz alone"):
        read_multilabel(tmp_path / "a.txt", tmp_path / "Y.npz")


def test_a_stored_zero_is_no_label_and_nan_is_refused(tmp_path):
    sp.save_npz(tmp_path / "X.npz", X)
    odd = Y.copy()
    odd.data[0] = 0.0
    sp.save_npz(tmp_path / "Y.npz", odd)
    labels = read_multilabel(tmp_path / "X.npz", tmp_path / "Y.npz")[1]
    np.testing.assert_array_equal(labels.toarray()[0], [0, 0, 1])
    odd.data[0] = np.nan
    sp.save_npz(tmp_path / "Y.npz", odd)
    with pytest.raises(ValueError, match=r"Y.npz holds NaN or infinity in row 0"):
        read_multilabel(tmp_path / "X.npz", tmp_path / "Y.npz")


def test_the_labels_beside_a_matrix_of_features_may_be_text_of_either_header(tmp_path):
    np.save(tmp_path / "X.npy", X.toarray())
    (tmp_path / "a.txt").write_text(XMC)
    check(read_multilabel(tmp_path / "X.npy", tmp_path / "a.txt"))  # its labels, not its features
    (tmp_path / "Y.txt").write_text("4 3\n0:1 2:1\n\n2:1\n0:1\n")
    check(read_multilabel(tmp_path / "X.npy", tmp_path / "Y.txt"))


def test_svmlight_is_counted_from_0_whether_feature_0_occurs_or_not(tmp_path):
    (tmp_path / "train.svm").write_text("0 0:1 2:1\n")
    (tmp_path / "test.svm").write_text("0 2:1\n")
    for name in ("train.svm", "test.svm"):
        assert read_multilabel(tmp_path / name, n_features=3)[0][:, [2]].toarray() == [[1.0]]


def test_the_shape_of_a_matrix_is_a_promise(tmp_path):
    sp.save_npz(tmp_path / "X.npz", X)
    sp.save_npz(tmp_path / "Y.npz", Y)
    with pytest.raises(CorruptFileError, match=r"X.npz has 4 features but 5 were expected"):
        read_multilabel(tmp_path / "X.npz", tmp_path / "Y.npz", n_features=5)
    with pytest.raises(CorruptFileError, match=r"Y.npz has 3 labels but 4 were expected"):
        read_multilabel(tmp_path / "X.npz", tmp_path / "Y.npz", n_labels=4)


def test_features_are_read_alone_with_labels_and_without(tmp_path):
    (tmp_path / "with.txt").write_text(XMC)
    (tmp_path / "without.txt").write_text("4 4\n0:1.5 2:1\n1:2\n\n3:0.5\n")
    (tmp_path / "plain.svm").write_text("0:1.5 2:1\n1:2\n7\n3:0.5\n")
    sp.save_npz(tmp_path / "X.npz", X)
    for name in ("with.txt", "without.txt", "plain.svm", "X.npz"):
        np.testing.assert_array_equal(read_features(tmp_path / name, n_features=4).toarray(), X.toarray())


def test_a_truncated_npz_is_refused(tmp_path):
    sp.save_npz(tmp_path / "X.npz", X)
    (tmp_path / "X.npz").write_bytes((tmp_path / "X.npz").read_bytes()[:-30])
    with pytest.raises(CorruptFileError, match=r"X.npz"):
        read_multilabel(tmp_path / "X.npz", tmp_path / "X.npz")


def test_a_ranking_is_written_best_first_and_can_be_read_again(tmp_path):
    scores = sp.csr_array((np.array([0.1, 0.7, 0.7]), np.array([0, 2, 3]), np.array([0, 3, 3])), shape=(2, 5))
    write_ranking(tmp_path / "r.txt", scores)
    assert (tmp_path / "r.txt").read_text() == "2 5\n2:0.7 3:0.7 0:0.1\n\n"
    np.testing.assert_array_equal(read_matrix(tmp_path / "r.txt").toarray(), scores.toarray())


@pytest.mark.parametrize(
    ("name", "folder", "files"),
    [
        ("eurlex-4k", "Eurlex", ("eurlex_train", "eurlex_test")),
        ("wiki10-31k", "Wiki10", ("wiki10_train", "wiki10_test")),
    ],
)
def test_official_files_of_the_repository_give_features_and_labels(tmp_path, name, folder, files):
    (tmp_path / folder).mkdir()
    (tmp_path / folder / f"{files[0]}.txt").write_text(XMC)
    (tmp_path / folder / f"{files[1]}.txt").write_text("2 4 3\n1 0:1\n2 1:1\n")
    data = load_dataset(name, root=tmp_path, verify=False)
    X_train, Y_train, X_test, Y_test = data.official_split()
    check((X_train, Y_train))
    assert (X_test.shape, Y_test.nnz) == ((2, 4), 2)
