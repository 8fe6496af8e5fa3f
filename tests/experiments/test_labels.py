"""The multi-label cells: one fit serves the three ways of predicting."""

import numpy as np
import pytest
import scipy.sparse as sp

from sparselens.data import Dataset
from sparselens.experiments import labels, measure, report
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


def test_the_papers_lines_are_among_the_algorithms_and_ours_stand_beside_them():
    published = {one.algorithm for one in find("table-xml")[0].published}
    lines = {algorithm.label for algorithm in labels.ALGORITHMS}
    assert len(published) == 12
    assert lines - published == {f"ℓ1-AE {i} (our settings), {labels.counted(n)}" for i in (1, 2, 3) for n in (1, 3, 5)}


def test_predictors_settings_and_sizes_share_a_fit(data, monkeypatch):
    monkeypatch.setattr(measure, "load_data", lambda cell: data)
    params = as_params({"n_models": 2, "max_epochs": 30, "learning_rate": 0.1, "clip_norm": 10.0})
    ways = [*(f"{way}, 1" for way in labels.NAMES), "average, 2"]
    cells = [Cell("bibtex", labels.EMBEDDING, 6, way, params=params) for way in ways]
    assert len({cell.fit_key for cell in cells}) == 1
    rows = list(measure.measure(cells, Options()))
    assert [row["status"] for row in rows] == ["done"] * 7
    assert len({row["fit_seconds"] for row in rows}) == 1
    for row in rows:
        assert row["n_rows"] == 40  # the published test rows: both halves
        assert 0 <= row["p5"] <= row["p3"] <= row["p1"] <= 1
        assert "decoder='own'" in row["made_by"]
    assert rows[0]["p1"] > 0.8  # neighbours of the same kind have the same labels
    assert rows[3]["p1"] > 0.9


def test_a_cell_has_the_papers_settings_or_ours(data):
    X, Y, _, _ = data.official_split()
    fitted = labels.make_classifier(
        labels.EMBEDDING, "bibtex", 6, seed=0, device="cpu", params={"n_models": 3, "max_epochs": 2}
    ).fit(X, Y)
    paper, ours = fitted.classifier("average, 1"), fitted.classifier("our decoder, 3")
    assert (paper.decoder, paper.metric, paper.bias, paper.alpha) == ("own", "euclidean", 0.0, 2.5)
    assert (ours.decoder, ours.metric, ours.bias, ours.alpha) == ("refit", "cosine", 1.0, 1.0)
    assert (paper.predictor, len(paper.parts_), ours.predictor, len(ours.parts_)) == ("average", 1, "decoder", 3)
    assert ours.parts_[0]["embedder"] is paper.parts_[0]["embedder"]
    assert fitted.as_in_paper.n_models == len(fitted.as_in_paper.parts_) == 3  # asking leaves the fit as it was


def test_rows_of_the_time_when_our_settings_passed_for_the_papers_are_not_taken():
    old = Cell("bibtex", "embedding", 100, "average", params=(("n_models", 1),))
    assert old.key not in {cell.key for quick in (False, True) for cell in cells_of(find("table-xml"), quick=quick)}


def test_a_set_without_features_is_stored_with_the_reason(data, monkeypatch):
    bare = Dataset("bibtex", data.train, data.valid, data.test)
    monkeypatch.setattr(measure, "load_data", lambda cell: bare)
    (row,) = measure.measure([Cell("bibtex", "sleec", 100, "neighbors")], Options())
    assert (row["status"], row["reason"]) == ("not applicable", "bibtex has no features here")


def test_every_cell_of_the_table_can_be_made():
    for cell in cells_of(find("table-xml")):
        model = labels.make_classifier(cell.encoder, cell.data, cell.m, seed=0, device="cpu", params=dict(cell.params))
        classifier = getattr(model, "as_in_paper", model)
        assert classifier.n_models == dict(cell.params)["n_models"]
        assert classifier.random_state == 0


def test_a_size_that_was_not_run_leaves_a_gap_and_moves_nothing():
    row = {"data": "bibtex", "m": 100, "seed": 0, "p1": 0.6, "p3": 0.4, "p5": 0.3, "fit_seconds": 1.0, "hardware": "x"}
    (table,) = report._precision_tables([("SLEEC, 5 models", row | {"n_rows": 9})])
    assert table.lines == [["SLEEC", "", "", "0.6000 / 0.4000 / 0.3000"]]
