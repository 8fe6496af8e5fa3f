"""The plan: its answer, its verdict, and that no point is measured twice."""

from __future__ import annotations

import json
import re
import shutil
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp

import sparselens as sl
from command_line import command
from helpers import sparse_rows
from sparselens.cli import codes
from sparselens.encoders.certificate import CertificateEncoder
from sparselens.experiments import plan as module
from sparselens.experiments.plan import GAUSSIAN, LEARNED, plan
from sparselens.experiments.survey import Survey

FAST = {"target": 0.95, "max_steps": 120, "device": "cpu"}


def blocks(n, seed):
    """Rows with one block of three nonzeros out of ten: three measurements could do."""
    rng = np.random.default_rng(seed)
    return sp.csr_array(np.kron(np.eye(10)[rng.integers(10, size=n)], np.ones(3)) * rng.uniform(0.1, 1.0, (n, 30)))


@pytest.fixture(scope="module")
def planned(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plan")
    return plan(blocks(600, seed=0), folder=folder, **FAST), folder


def forbid_training(monkeypatch):
    def fit(self, X, **options):
        raise AssertionError("a point was measured again")

    monkeypatch.setattr(CertificateEncoder, "fit", fit)


# ---- the answer ---------------------------------------------------------------------------------------------


def test_structure_is_found_and_the_answer_holds_on_new_rows(planned):
    answer, _ = planned
    learned, gaussian = answer.answers[LEARNED], answer.answers[GAUSSIAN]
    assert answer.structure
    assert learned < gaussian
    assert answer.factor == gaussian / learned
    assert answer.verdict.startswith(
        f"structure found; learning is worth it: {learned} measurements do what {gaussian}"
    )
    enc = sl.load(answer.models[learned])
    X = blocks(500, seed=1)
    assert sl.metrics.exact_fraction(X, enc.inverse_transform(enc.transform(X))) >= answer.target


def test_the_curve_has_both_matrices_at_every_trained_m_with_intervals(planned):
    answer, _ = planned
    cells = {(row["encoder"], row["m"]): row for row in answer.rows}
    for (encoder, m), row in cells.items():
        assert row["low"] <= row["exact"] <= row["high"]
        assert row["certified"] == 1.0
        if encoder == LEARNED:
            assert cells[GAUSSIAN, m]["n_rows"] == row["n_rows"] == answer.sizes["held_out"] == 120
    assert answer.sizes == {"train": 360, "valid": 120, "held_out": 120, "columns": 30}


def test_the_answer_is_the_smallest_m_tried_that_reaches_the_target(planned):
    answer, _ = planned
    for encoder, m in answer.answers.items():
        reached = [row["m"] for row in answer.rows if row["encoder"] == encoder and row["low"] >= answer.target]
        assert m == min(reached)


def test_gaussian_matrices_are_nested_so_that_more_measurements_lose_no_row():
    X = sparse_rows(40, 30, 3, seed=0)
    survey = Survey(X, X, X, seed=0)
    flags = [survey._decoded(survey._gaussian_matrix(m), None)[0] for m in range(4, 20, 3)]
    for fewer, more in pairwise(flags):
        assert not (fewer & ~more).any()


def test_without_structure_the_verdict_says_so():
    answer = plan(sparse_rows(500, 40, 4, seed=0), **FAST)
    assert not answer.structure
    assert answer.verdict.startswith("no structure found")
    assert answer.answers[GAUSSIAN] is not None


def test_where_learning_is_no_better_training_ends_and_gaussian_is_advised(monkeypatch):
    def nothing_learned(self, X, **options):
        A = sl.GaussianEncoder(self.n_components, random_state=5).fit(X).components_
        self.components_, self.recipe_, self.structure_found_ = A, {"loss": "hinge"}, False
        return self

    monkeypatch.setattr(CertificateEncoder, "fit", nothing_learned)
    answer = plan(sparse_rows(500, 40, 4, seed=0), **FAST)
    assert answer.verdict == (
        "no structure found: learning does not beat a Gaussian matrix beyond noise. Use GaussianEncoder."
    )
    assert "Training ended where it was no better than a Gaussian matrix." in answer.summary()


def test_too_few_rows_to_confirm_the_target_are_said(monkeypatch):
    answer = plan(blocks(100, seed=0), target=0.99, max_steps=60, device="cpu")
    assert "20 held-out rows are too few to confirm 99%" in answer.summary()


def test_a_target_out_of_reach_is_said():
    X = sp.csr_array(np.ones((200, 6)))  # six unknown values and at most four measurements
    answer = plan(X, max_measurements=4, **FAST)
    assert answer.answers == {GAUSSIAN: None, LEARNED: None}
    assert "more than 4 measurements" in answer.summary()
    assert "not reached up to m = 4" in answer.summary()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"target": 1.0}, "target must be below 1"),
        ({"target": -0.5}, "target must be a finite number above 0"),
        ({"X_valid": np.ones((3, 5))}, "X_valid has 5 columns but 30 were expected"),
        ({"max_rows": 0}, "max_rows must be at least 1"),
        ({"precision": -1.0}, "precision must be a finite number of at least 0"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        plan(blocks(20, seed=0), **arguments)


def test_rows_too_few_to_split_are_refused():
    with pytest.raises(ValueError, match="X has 4 rows, too few to hold some of them out: pass at least 5"):
        plan(blocks(4, seed=0))


# ---- bisection ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("answer", [3, 17, 40, 63, 64])
def test_bisection_finds_the_smallest_m_within_its_precision(answer):
    asked = []

    def reaches(m):
        asked.append(m)
        return m >= answer

    assert module._bisect(reaches, 2, 64, 0.0) == answer
    assert len(asked) == len(set(asked)) <= 8
    assert answer <= module._bisect(lambda m: m >= answer, 2, 64, 0.1) <= 1.12 * answer + 1


# ---- the folder ---------------------------------------------------------------------------------------------


def test_points_that_are_there_are_not_measured_again(planned, monkeypatch):
    answer, folder = planned
    forbid_training(monkeypatch)
    again = plan(blocks(600, seed=0), folder=folder, **FAST)
    assert again.as_dict() == answer.as_dict()


def test_a_plan_that_was_moved_names_its_models_where_they_are(planned, tmp_path, monkeypatch):
    answer, folder = planned
    shutil.copytree(folder, tmp_path / "moved")
    forbid_training(monkeypatch)
    again = plan(blocks(600, seed=0), folder=tmp_path / "moved", **FAST)
    assert again.models == {m: str(tmp_path / "moved" / "models" / f"m-{m}") for m in answer.models}
    assert all(sl.load(where).n_components == m for m, where in again.models.items())


def test_a_killed_plan_goes_on_and_ends_with_the_same_answer(planned, tmp_path):
    answer, _ = planned
    trained = []

    def kill(done, total, text):
        if text.startswith("training") and text not in trained:
            trained.append(text)
        if len(trained) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        plan(blocks(600, seed=0), folder=tmp_path, callback=kill, **FAST)
    kept = json.loads((tmp_path / "points.json").read_text())["points"]
    assert [point["encoder"] for point in kept].count(LEARNED) == 1
    again = plan(blocks(600, seed=0), folder=tmp_path, **FAST)
    assert again.answers == answer.answers
    assert [row["exact"] for row in again.rows] == [row["exact"] for row in answer.rows]
    assert not list(tmp_path.glob("unfinished-*"))


def test_a_damaged_checkpoint_is_left_behind(tmp_path):
    X = blocks(60, seed=0)
    survey = Survey(X, X, X, seed=0, max_steps=40, device="cpu", folder=tmp_path)
    (tmp_path / "unfinished-4" / "stage-0").mkdir(parents=True)
    (tmp_path / "unfinished-4" / "stage-0" / "checkpoint.json").write_text("{")
    assert survey.learned(4)["m"] == 4
    assert sorted(path.name for path in tmp_path.iterdir()) == ["models", "points.json"]


def test_points_of_other_rows_are_refused(planned):
    _, folder = planned
    with pytest.raises(ValueError, match="holds a plan of other train rows, valid rows, held_out rows"):
        plan(blocks(600, seed=2), folder=folder, **FAST)


def test_a_damaged_file_of_points_is_refused(tmp_path):
    (tmp_path / "points.json").write_text('{"request": {}')
    with pytest.raises(ValueError, match=r"points.json is damaged .* delete it to start anew"):
        plan(blocks(20, seed=0), folder=tmp_path)


# ---- the command --------------------------------------------------------------------------------------------


@pytest.fixture
def rows(tmp_path):
    sp.save_npz(tmp_path / "rows.npz", sp.csr_matrix(blocks(600, seed=0)))
    return tmp_path / "rows.npz"


def test_the_command_writes_a_page_a_picture_and_the_plan(rows, tmp_path):
    out = tmp_path / "out"
    arguments = ("plan", rows, "-t", 0.95, "-o", out, "--max-steps", 120, "--device", "cpu")
    ended = command(*arguments)
    assert ended.code == 0, ended.error
    assert "rows.npz: 360 training rows, 120 validation rows, 120 held-out rows, 30 columns" in ended.out
    assert "Verdict: structure found" in ended.out
    assert sorted(path.name for path in out.iterdir()) == [
        "curve.png", "index.html", "models", "plan.json", "points.json"
    ]  # fmt: skip
    stored = json.loads((out / "plan.json").read_text())
    assert f"Model of the answer: {out / 'models' / ('m-' + str(stored['answers'][LEARNED]))}" in ended.out
    page = (out / "index.html").read_text(encoding="utf-8")
    assert page.count("<figure") == 1
    assert not re.search(r"(src|href)=\"(?!#|data:)", page)
    assert json.loads(command(*arguments, "--json").out) == stored  # from the stored points
    ended = command("plan", "toy", "-o", out)
    assert "holds a plan of other" in ended.error


def test_a_folder_with_something_else_is_refused_and_a_slip_makes_none(rows, tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").write_text("mine")
    ended = command("plan", rows, "-o", tmp_path / "full")
    assert ended.code == codes.BAD_INPUT
    assert "holds something else than a plan ('notes.txt')" in ended.error
    ended = command("plan", tmp_path / "row.npz", "-o", tmp_path / "new")
    assert "did you mean" in ended.error
    assert not (tmp_path / "new").exists()
    assert "is a file: name a folder for the plan" in command("plan", rows, "-o", rows).error


def test_the_test_rows_of_a_data_set_stay_untouched():
    from sparselens.cli.plan import rows_of
    from sparselens.cli.sources import open_source

    data = open_source("toy")
    X, X_valid, X_held_out = rows_of(data)
    assert (X != data.dataset.train).nnz == 0
    assert X_valid.shape[0] + X_held_out.shape[0] == data.dataset.valid.shape[0]
    stacked = sp.vstack([X_valid, X_held_out])
    assert stacked.sum() == pytest.approx(data.dataset.valid.sum())


# ---- where to train next ------------------------------------------------------------------------------------


def searched(curve, *, most, low=9, n=3277, target=0.99):
    """The answer of the search, and the m that it trained at, where `curve(m)` is the part of the rows that is lost."""

    class Stub:
        held_out = np.zeros((n, 1))

        def __init__(self):
            self.points = {}

        def expect(self, n_trainings):
            pass

        def learned(self, m):
            lost = round(min(1.0, curve(m)) * n)
            point = {"m": m, "exact": 1 - lost / n, "n_rows": n, "low": sl.metrics.wilson_interval(n - lost, n)[0]}
            self.points[LEARNED, m] = point | {"learned_only": n, "gaussian_only": 0}
            self.points[GAUSSIAN, m] = {"exact": 0.0}
            return self.points[LEARNED, m]

        def reached(self, point, target):
            return point["low"] >= target

    stub = Stub()
    answer = module._search_learned(stub, target, low, most, 0.04)
    return answer, [m for encoder, m in stub.points if encoder == LEARNED]


@pytest.mark.parametrize(
    ("curve", "most"),
    [
        (lambda m: 0.0046 * (56 / m) ** 6.1, 113),
        (lambda m: 0.0068 * (56 / m) ** 6.1, 113),
        (lambda m: 0.15 * (56 / m) ** 6.1, 113),
        (lambda m: np.exp(-(m - 20) / 4), 113),
        (lambda m: 0.0 if m >= 12 else 0.3, 74),
        (lambda m: 0.0 if m >= 100 else 1.0, 113),
    ],
)
def test_few_trainings_find_the_smallest_m_within_the_precision(curve, most):
    answer, asked = searched(curve, most=most)
    smallest = next(m for m in range(9, most + 1) if searched_low(curve, m) >= 0.99)
    assert smallest <= answer <= 1.05 * smallest + 1
    assert len(asked) == len(set(asked)) <= 6


def searched_low(curve, m, n=3277):
    return sl.metrics.wilson_interval(n - round(min(1.0, curve(m)) * n), n)[0]


def test_a_target_that_no_m_reaches_ends_the_search():
    assert searched(lambda m: 1.0, most=113) == (None, [56, 113])
