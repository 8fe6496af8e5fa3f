"""RCV1 from its published file, from scikit-learn, and the Mulan subsets."""

import socket
import urllib.error

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn.datasets
from sklearn.utils import Bunch

from sparselens.data import list_datasets, load_dataset
from sparselens.recovery import CorruptFileError, DataNotFoundError

N, D = 23149, 47236


@pytest.fixture
def no_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("SCIKIT_LEARN_DATA", str(tmp_path / "no such cache"))
    return tmp_path


def stories(n=N):
    columns = (np.arange(n * 3) * 7919) % D
    return sp.csr_array((np.ones(n * 3), columns, np.arange(0, 3 * n + 1, 3)), shape=(n, D))


def test_rcv1_is_fetched_below_the_data_root_and_split_in_the_papers_sizes(no_cache, monkeypatch):
    asked = {}

    def fetch(**arguments):
        asked.update(arguments)
        return Bunch(data=stories())

    monkeypatch.setattr(sklearn.datasets, "fetch_rcv1", fetch)
    data = load_dataset("rcv1", root=no_cache)
    assert asked["subset"] == "train"
    assert asked["data_home"].startswith(str(no_cache))
    assert data.sizes == (13889, 4630, 4630)
    assert data.n_features == D
    rows = np.concatenate([data.rows_train, data.rows_valid, data.rows_test])
    np.testing.assert_array_equal(np.sort(rows), np.arange(N))


def test_the_published_file_alone_is_enough(no_cache):
    (no_cache / "rcv1").mkdir()
    X = stories()
    lines = (
        f"{2286 + i}  " + " ".join(f"{c + 1}:1.0" for c in sorted(X.indices[3 * i : 3 * i + 3].tolist()))
        for i in range(N)
    )
    (no_cache / "rcv1" / "lyrl2004_vectors_train.dat").write_text("\n".join(lines) + "\n")
    assert {info.name: info.available for info in list_datasets(root=no_cache)}["rcv1"]
    data = load_dataset("rcv1", root=no_cache, normalize=False)
    assert data.sizes == (13889, 4630, 4630)
    assert (data.train != X[data.rows_train]).nnz == 0


def test_without_a_network_the_error_says_which_file_to_put_where(no_cache, monkeypatch):
    def fetch(**_):
        raise urllib.error.URLError("no route to host")

    monkeypatch.setattr(sklearn.datasets, "fetch_rcv1", fetch)
    before = socket.getdefaulttimeout()
    with pytest.raises(DataNotFoundError, match=r"scikit-learn could not fetch it.*no route to host") as caught:
        load_dataset("rcv1", root=no_cache)
    for part in (str(no_cache), "rcv1/lyrl2004_vectors_train.dat.gz", "figshare", "SPARSELENS_DATA", "rcv1-mulan"):
        assert part in str(caught.value)
    assert socket.getdefaulttimeout() == before
    assert not {info.name: info.available for info in list_datasets(root=no_cache)}["rcv1"]


def test_stories_of_another_shape_are_refused(no_cache, monkeypatch):
    monkeypatch.setattr(sklearn.datasets, "fetch_rcv1", lambda **_: Bunch(data=stories(100)))
    with pytest.raises(CorruptFileError, match=r"have the shape \(23149, 47236\), got \(100, 47236\)"):
        load_dataset("rcv1", root=no_cache)


def write_mulan(root, n=24000, first=None):
    folder = root / "rcv1_mulan"
    folder.mkdir()
    X = stories(n)
    sp.save_npz(folder / "X_30000x47236.npz", X)
    sp.save_npz(folder / "Y_30000x101.npz", sp.csr_array(X[:, :101]))
    np.savez(folder / "meta.npz", first_occurrence=np.arange(n) % 100 > 0 if first is None else first)
    return X


def test_mulan_duplicates_are_left_out_and_topics_share_the_split(tmp_path):
    X = write_mulan(tmp_path)
    vectors, topics = (load_dataset(name, root=tmp_path, verify=False) for name in ("rcv1-mulan", "rcv1-topics"))
    for part in ("train", "valid", "test"):
        rows = getattr(vectors, f"rows_{part}")
        assert (rows % 100 > 0).all()
        np.testing.assert_array_equal(rows, getattr(topics, f"rows_{part}"))
        assert (getattr(topics, f"features_{part}") != X[rows]).nnz == 0
    assert vectors.sizes == topics.sizes == (13889, 4630, 4630)
    assert topics.n_features == 101


@pytest.mark.parametrize("first", [np.ones(5, dtype=bool), np.ones(24000)], ids=["too short", "not boolean"])
def test_mulan_needs_the_marks_of_first_occurrences(tmp_path, first):
    write_mulan(tmp_path, first=first)
    with pytest.raises(CorruptFileError, match="must hold a boolean array first_occurrence with 24,000 entries"):
        load_dataset("rcv1-mulan", root=tmp_path, verify=False)


def test_too_few_distinct_rows_are_refused(tmp_path):
    write_mulan(tmp_path, first=np.arange(24000) < 1000)
    with pytest.raises(ValueError, match="has 1,000 rows, too few for parts of"):
        load_dataset("rcv1-mulan", root=tmp_path, verify=False)
