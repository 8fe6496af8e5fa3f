"""load_dataset and list_datasets: names, arguments, and what a Dataset offers."""

import dataclasses

import numpy as np
import pytest
import scipy.sparse as sp

import sparselens as sl
from sparselens.data import Dataset, list_datasets, load_dataset
from sparselens.data.catalogue import DATASETS

PAPER = {
    "synthetic1": (1000, (6000, 2000, 2000)),
    "synthetic2": (1000, (6000, 2000, 2000)),
    "synthetic3": (1000, (6000, 2000, 2000)),
    "amazon": (15626, (19661, 6554, 6554)),
    "wiki10-31k": (30938, (14146, 3308, 3308)),
    "rcv1": (47236, (13889, 4630, 4630)),
}


def test_the_list_holds_the_papers_sets_with_the_papers_sizes():
    known = {info.name: (info.n_features, info.sizes) for info in list_datasets()}
    assert PAPER.items() <= known.items()
    assert {"toy", "unstructured", "eurlex-4k", "bibtex", "delicious", "rcv1-mulan", "rcv1-topics"} <= set(known)


def test_the_list_says_what_is_missing(tmp_path):
    infos = {info.name: info for info in list_datasets(root=tmp_path)}
    assert infos["toy"].available
    assert infos["toy"].files == ()
    assert not infos["amazon"].available
    assert "needs amazon_train.csv" in str(infos["amazon"])
    (tmp_path / "amazon_train.csv.gz").touch()
    assert {info.name: info for info in list_datasets(root=tmp_path)}["amazon"].available


def test_every_line_of_the_list_is_one_line():
    for info in list_datasets():
        assert "\n" not in str(info)
        assert info.name in str(info)


@pytest.mark.parametrize(
    ("typo", "meant"),
    [("synthtic1", "synthetic1"), ("Amazon", "amazon"), ("wiki10_31k", "wiki10-31k"), ("EURLex-4K", "eurlex-4k")],
)
def test_a_misspelt_name_brings_the_closest_ones(typo, meant):
    with pytest.raises(ValueError, match=f"there is no data set '{typo}': did you mean '{meant}'"):
        load_dataset(typo)


def test_a_name_that_resembles_none_brings_all():
    with pytest.raises(ValueError, match="there is no data set 'xyzzy': known are toy, synthetic1"):
        load_dataset("xyzzy")
    with pytest.raises(TypeError, match=r"name must be text, got None \(NoneType\)"):
        load_dataset(None)


@pytest.mark.parametrize("name", [name for name, entry in DATASETS.items() if entry.files and name != "rcv1"])
def test_every_set_that_needs_files_says_which_and_where_to_get_them(name, tmp_path):
    with pytest.raises(sl.recovery.DataNotFoundError, match=f"'{name}' needs the file ") as caught:
        load_dataset(name, root=tmp_path)
    assert str(tmp_path) in str(caught.value)
    assert "http" in str(caught.value)


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match=r"sizes must be three numbers \(train, valid, test\), got \(1, 2\)"):
        load_dataset("toy", sizes=(1, 2))
    with pytest.raises(ValueError, match="sizes must be three numbers"):
        load_dataset("toy", sizes=5)
    with pytest.raises(ValueError, match="the number of training rows must be at least 1, got 0"):
        load_dataset("toy", sizes=(0, 1, 1))
    with pytest.raises(ValueError, match="split must be one of 'paper', 'random'; got 'mine'"):
        load_dataset("toy", split="mine")
    with pytest.raises(ValueError, match="normalize must be one of True, False; got 'no'"):
        load_dataset("toy", normalize="no")
    with pytest.raises(TypeError, match="random_state must be a whole number, got 'a'"):
        load_dataset("toy", random_state="a")


def test_rows_are_scaled_unless_asked_otherwise():
    raw, scaled = (load_dataset("toy", normalize=normalize) for normalize in (False, True))
    norms = np.sqrt(np.asarray(raw.train.multiply(raw.train).sum(axis=1)).ravel())
    assert norms.max() > 1.2
    assert abs(sp.diags_array(1 / norms) @ raw.train - scaled.train).max() < 1e-15
    assert "not scaled" in raw.provenance
    assert "unit" in scaled.provenance


def test_a_dataset_cannot_be_changed_and_describes_itself():
    data = load_dataset("synthetic1", sizes=(30, 20, 10))
    with pytest.raises(dataclasses.FrozenInstanceError):
        data.name = "other"
    assert repr(data) == (
        "Dataset 'synthetic1': 30 / 20 / 10 rows (train / valid / test), d = 1,000, 10.0 nonzeros a row, "
        "BlockSparse(n_blocks=1, block_size=10)"
    )
    assert isinstance(data, Dataset)
    assert data.n_features == 1000


def test_a_set_without_labels_says_so():
    data = load_dataset("toy", sizes=(3, 2, 1))
    for name in ("features_train", "labels_test"):
        with pytest.raises(AttributeError, match="the data set 'toy' has no"):
            getattr(data, name)


def test_public_names_reach_the_data_module():
    assert sl.load_dataset is load_dataset
    assert sl.list_datasets is list_datasets
    assert sl.read_matrix is sl.data.read_matrix
