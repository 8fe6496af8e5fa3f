"""The multi-label cells: one fit serves the three ways of predicting."""

import numpy as np
import pytest
import scipy.sparse as sp

from sparselens.data import Dataset
from sparselens.experiments import labels, measure
from sparselens.experiments.measure import Options
from sparselens.experiments.paper import cells_of, find
from sparselens.experiments.spec import Cell, as_params


@pytest.fixture
def data():
    """Rows of 12 kinds; the features tell the kind, and the kind has three labels."""
    rng = np.random.default_rng(0)
    kind = rng.integers(12, size=120)
    features = sp.csr_array(np.eye(12)[kind] + 0.05 * rng.random((120, 12)))
    own = sp.csr_array((np.eye(12) + np.roll(np.eye(12), 1, 1) + np.roll(np.eye(12), 5, 1))[kind])
    parts = np.split(np.arange(120), (80, 100))
    return Dataset("bibtex", *(own[p] for p in parts), None, "", features, own, *parts)


def test_the_papers_lines_are_the_algorithms():
    assert len(labels.ALGORITHMS) == 12
    published = {one.algorithm for one in find("table-xml")[0].published}
    assert published == {algorithm.label for algorithm in labels.ALGORITHMS}


def test_the_three_predictors_share_a_fit(data, monkeypatch):
    monkeypatch.setattr(measure, "_data", lambda cell: data)
    params = as_params({"n_models": 2, "max_epochs": 30, "learning_rate": 0.1, "clip_norm": 10.0})
    cells = [
        Cell("bibtex", "embedding", 6, predictor, params=params) for predictor in ("neighbors", "decoder", "average")
    ]
    assert len({cell.fit_key for cell in cells}) == 1
    rows = list(measure.measure(cells, Options()))
    assert [row["status"] for row in rows] == ["done"] * 3
    assert len({row["fit_seconds"] for row in rows}) == 1
    for row in rows:
        assert row["n_rows"] == 40  # the published test rows: both halves
        assert 0 <= row["p5"] <= row["p3"] <= row["p1"] <= 1
    assert rows[0]["p1"] > 0.9  # a neighbour of the same kind has the same labels


def test_a_set_without_features_is_stored_with_the_reason(data, monkeypatch):
    bare = Dataset("bibtex", data.train, data.valid, data.test)
    monkeypatch.setattr(measure, "_data", lambda cell: bare)
    (row,) = measure.measure([Cell("bibtex", "sleec", 100, "neighbors")], Options())
    assert (row["status"], row["reason"]) == ("not applicable", "bibtex has no features here")


def test_every_cell_of_the_table_can_be_made():
    for cell in cells_of(find("table-xml")):
        model = labels.make_classifier(cell.encoder, cell.data, cell.m, seed=0, device="cpu", params=dict(cell.params))
        assert model.n_models == dict(cell.params)["n_models"]
