"""Runs: what is stored is not run again, a kill at any point loses nothing, and no failure is lost."""

import contextlib
import multiprocessing
import os
import random
import signal
import sys
import time
import warnings
import weakref
from dataclasses import replace

import numpy as np
import pytest

from sparselens.experiments import measure as measuring
from sparselens.experiments import run as running
from sparselens.experiments.measure import Options, measure
from sparselens.experiments.run import plan, run, work
from sparselens.experiments.spec import Cell, as_params
from sparselens.experiments.store import DONE, FAILED, MISSING, NOT_APPLICABLE, Store, table
from sparselens.experiments.together import fit_stack, stacks_of

SIZES = (60, 20, 20)
SHORT = as_params({"max_epochs": 2, "n_steps": 2, "validation_interval": 1})
CELLS = [
    Cell("toy", encoder, m, decoder, seed=seed, params=params, sizes=SIZES)
    for seed in (0, 1)
    for m in (10, 15)
    for encoder, decoder, params in (
        ("gaussian", "l1-pos", ()),
        ("gaussian", "l1", ()),
        ("gaussian", "cosamp-pos", ()),
        ("pca", "transpose", ()),
        ("l1ae", "own", SHORT),
        ("l1ae", "l1-pos", SHORT),
    )
]


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    """The table of an uninterrupted run."""
    store = Store(tmp_path_factory.mktemp("reference") / "results.jsonl")
    assert run(CELLS, store, Options())
    return table(store.rows())


def test_every_cell_has_a_row_that_says_what_it_is(reference):
    assert {row["key"] for row in reference} == {cell.key for cell in CELLS}
    for row in reference:
        assert row["status"] == DONE
        assert Cell.from_row(row) in CELLS
        assert row["n_rows"] == SIZES[2]
        assert 0 <= row["exact"] <= row["exact_1e6"] <= 1
        assert {"version", "commit", "hardware", "torch", "made_by", "rmse", "certified"} <= set(row)
    assert {row["certified"] for row in reference if row["decoder"].startswith("l1")} == {1.0}
    assert {row["certified"] for row in reference if row["decoder"] in ("own", "transpose")} == {0.0}


def test_cells_that_share_a_fit_are_fitted_once(monkeypatch, tmp_path):
    fitted = []
    fit = measuring.fit
    monkeypatch.setattr(measuring, "fit", lambda cell, *rest: fitted.append(cell.fit_key) or fit(cell, *rest))
    run(CELLS[:6], Store(tmp_path / "results.jsonl"), Options())
    assert len(fitted) == len(set(fitted)) == 3


def test_what_is_stored_is_not_run_again(reference, tmp_path, monkeypatch):
    store = Store(tmp_path / "results.jsonl")
    for row in reference:
        store.append(row)
    monkeypatch.setattr(measuring, "fit", lambda *rest: pytest.fail("fitted again"))
    assert run(CELLS, store, Options())
    assert table(store.rows()) == reference


@pytest.mark.skipif(sys.platform == "win32", reason="needs fork and kill")
def test_killed_ten_times_at_random_the_table_is_that_of_an_uninterrupted_run(reference, tmp_path):
    store, options, rng = Store(tmp_path / "results.jsonl"), Options(models=tmp_path / "models"), random.Random(0)

    def size():
        return store.path.stat().st_size if store.path.exists() else 0

    for _ in range(10):
        enough = size() + rng.randrange(3000)  # a row has some 800 bytes
        child = _forked_run(store, options)
        while size() <= enough and os.waitpid(child, os.WNOHANG) == (0, 0):
            time.sleep(0.001)
        time.sleep(rng.uniform(0.0, 0.01))
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        # as if killed while writing: without the end of the last line
        os.truncate(store.path, max(0, size() - rng.randrange(1200)))
    assert run(CELLS, store, options)
    assert table(store.rows()) == reference


def _forked_run(store, options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # fork warns where threads exist; the child uses one
        child = os.fork()
    if child == 0:  # pragma: no cover - killed
        try:
            run(CELLS, store, options)
        finally:
            os._exit(0)
    return child


def test_processes_side_by_side_give_the_same_table(reference, tmp_path):
    store, seen = Store(tmp_path / "results.jsonl"), []
    assert run(CELLS, store, Options(), n_jobs=2, callback=seen.append)
    assert table(store.rows()) == reference
    assert [now.done for now in seen] == list(range(1, len(seen) + 1))
    assert seen[-1].total == len(plan(CELLS, set())) == len(seen)
    assert seen[-1].seconds_left == 0.0


def test_the_time_left_is_told_once_all_encoders_have_been_timed_and_by_their_own_times(tmp_path, monkeypatch):
    seconds = {"gaussian": 2.0, "l1ae": 100.0}
    monkeypatch.setattr(running, "work", lambda job, *given: seconds[job[0].encoder])
    cells = [Cell("toy", encoder, m, "l1-pos", sizes=SIZES) for m in (10, 11, 12) for encoder in seconds]
    seen = []
    run(cells, Store(tmp_path / "results.jsonl"), Options(), callback=seen.append)
    left = [now.seconds_left for now in seen if "under way" not in now.text]
    assert left == [None, 204.0, 202.0, 102.0, 100.0, 0.0]


def test_it_is_said_what_is_under_way_where_nothing_ends_for_long(tmp_path, monkeypatch):
    monkeypatch.setattr(running, "_ALIVE", 0.05)
    cell = Cell("toy", "l1ae", 10, "l1-pos", params=SHORT, sizes=SIZES)
    for n_jobs in (1, 2):
        seen = []
        run([cell], Store(tmp_path / f"{n_jobs}.jsonl"), Options(), n_jobs=n_jobs, callback=seen.append)
        assert (seen[0].text, seen[0].done) == (f"under way: {cell}", 0)
        assert (seen[-1].text, seen[-1].done) == (str(cell), 1)


def test_an_interrupted_run_does_not_wait_for_the_fits_under_way(tmp_path):
    endless = Cell("toy", "l1ae", 10, "l1-pos", params=as_params({"max_epochs": 10**7, "patience": 10**6}))
    quick = Cell("toy", "gaussian", 10, "l1-pos", sizes=SIZES)

    def interrupt(now):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run([quick, endless], Store(tmp_path / "results.jsonl"), Options(), n_jobs=2, callback=interrupt)
    assert [child for child in multiprocessing.active_children() if child.is_alive()] == []


def test_a_kept_model_gives_the_same_rows_as_a_new_fit(reference, tmp_path):
    options = Options(models=tmp_path / "models")
    cells = [cell for cell in CELLS if cell.encoder == "l1ae"][:2]
    for cell in cells:  # one after the other: the second takes the model of the first
        (row,) = measure([cell], options)
        assert table([row]) == [one for one in reference if one["key"] == cell.key]
    assert row["from_cache"]
    assert [path.name for path in (tmp_path / "models").iterdir()] == [cells[0].fit_key]


def test_a_time_limit_begins_no_other_fit(tmp_path):
    store = Store(tmp_path / "results.jsonl")
    assert not run(CELLS, store, Options(), time_limit=0.0)
    assert store.rows() == []


def test_a_limit_on_the_fit_is_said_in_the_row_and_the_model_is_not_kept(tmp_path):
    cell = Cell("toy", "l1ae", 10, "l1-pos", params=as_params({"max_epochs": 10_000}), sizes=SIZES)
    (row,) = measure([cell], Options(fit_seconds=0.0, models=tmp_path / "models"))
    assert (row["status"], row["stopped_by"]) == (DONE, "callback")
    assert not (tmp_path / "models").exists()


def test_a_decoder_that_does_not_apply_is_stored_with_the_reason():
    cells = [Cell("synthetic3", "gaussian", 10, decoder, sizes=SIZES) for decoder in ("cosamp-pos", "l1-pos")]
    first, second = measure(cells, Options())
    assert (first["status"], second["status"]) == (NOT_APPLICABLE, DONE)
    assert first["reason"] == "model-based CoSaMP needs a model of the supports, and none is known for synthetic3"


def test_data_that_is_not_there_is_stored_as_missing_without_naming_the_machine(monkeypatch, tmp_path):
    monkeypatch.setenv("SPARSELENS_DATA", str(tmp_path))
    (row,) = measure([Cell("rcv1-mulan", "gaussian", 10, "l1-pos")], Options())
    assert row["status"] == MISSING
    assert "needs the file" in row["reason"]
    assert str(tmp_path) not in row["reason"]


@pytest.mark.parametrize(
    ("cell", "reason"),
    [
        (Cell("toy", "pca", 99, "transpose", sizes=(30, 10, 10)), "ValueError: the training rows"),
        (Cell("toy", "gaussian", 101, "l1-pos", sizes=SIZES), "ValueError: n_components"),
        (Cell("toy", "gaussian", 10, "own", sizes=SIZES), "AttributeError"),
    ],
)
def test_a_cell_that_fails_is_stored_with_its_error(cell, reason):
    (row,) = measure([cell], Options())
    assert row["status"] == FAILED
    assert row["reason"].startswith(reason)


def test_a_process_that_dies_loses_no_cell(tmp_path, monkeypatch):
    store = Store(tmp_path / "results.jsonl")
    cells = [Cell("toy", "gaussian", m, "l1-pos", sizes=SIZES) for m in (10, 12)]
    deadly = Cell("toy", "dies", 11, "l1-pos", sizes=SIZES)
    monkeypatch.setattr(running, "work", _work)
    run([cells[0], deadly, cells[1]], store, Options(), n_jobs=2)
    status = {row["m"]: (row["status"], row.get("reason")) for row in store.rows()}
    assert status == {10: (DONE, None), 12: (DONE, None), 11: (FAILED, "the process died (out of memory?)")}


def test_a_process_that_dies_loses_no_cell_that_is_measured_again(tmp_path, monkeypatch):
    store = Store(tmp_path / "results.jsonl")
    cells = [Cell("toy", encoder, 10, "l1-pos", sizes=SIZES) for encoder in ("gaussian", "dies")]
    for cell in cells:
        store.append(cell.as_row() | {"status": DONE})
    monkeypatch.setattr(running, "work", _work)
    run(cells, store, Options(), n_jobs=2)
    assert [row["status"] for row in store.rows()] == [DONE, DONE]  # nothing was asked for
    run(cells, store, Options(), n_jobs=2, again=True)
    assert [(row["status"], "rmse" in row) for row in store.rows()] == [(DONE, True), (FAILED, False)]


def _work(job, path, options):
    if job[0].encoder == "dies":
        os._exit(9)
    return work(job, path, options)


def test_a_row_names_its_cell_by_a_key_that_depends_on_nothing_else():
    cell = Cell("synthetic1", "l1ae", 10, "l1-pos", params=as_params({"n_steps": 5, "n_hidden": [1, 2]}))
    again = Cell.from_row(cell.as_row())
    assert again == cell
    assert again.key == cell.key
    assert cell.fit_key == Cell.from_row(cell.as_row() | {"decoder": "own", "n_test": 5}).fit_key
    for other in ({"seed": 1}, {"m": 11}, {"sizes": [1, 2, 3]}, {"params": {}}):
        assert Cell.from_row(cell.as_row() | other).fit_key != cell.fit_key


# ---- trainings that are done at once ------------------------------------------------------------------------

TRAININGS = [
    *(cell for cell in CELLS if cell.encoder in ("gaussian", "l1ae")),
    *(Cell("toy", "simple", m, "l1-pos", params=as_params({"max_epochs": 3}), sizes=SIZES) for m in (10, 15)),
    Cell("toy", "deep", 10, "own", params=as_params({"max_epochs": 2, "n_hidden": 8}), sizes=SIZES),
]


def test_trainings_of_one_shape_are_done_at_once_and_give_the_same_rows(tmp_path, reference):
    options, seen = Options(models=tmp_path / "models"), []
    store = Store(tmp_path / "results.jsonl")
    assert run(TRAININGS, store, options, n_jobs=2, together=True, callback=seen.append)
    found = {row["key"]: row for row in store.rows()}
    assert set(found) == {cell.key for cell in TRAININGS}
    for cell in TRAININGS:
        row = found[cell.key]
        assert row["status"] == DONE
        assert row.get("together") == {"l1ae": 4, "simple": 2}.get(cell.encoder)  # the only deep one is alone
        assert not row["from_cache"]
    for row in reference:
        if row["key"] in found:
            assert found[row["key"]]["rmse"] == pytest.approx(row["rmse"], rel=1e-3)  # sums in another order
    assert not list((tmp_path / "stacked").iterdir())  # every model was taken over
    kept = {path.name for path in options.models.iterdir()}
    assert kept == {cell.fit_key for cell in TRAININGS if cell.encoder != "gaussian"}
    assert [now.done for now in seen if "at once" not in now.text] == list(range(1, 1 + len(plan(TRAININGS, set()))))
    assert any("trainings at once, epoch 1" in now.text for now in seen)


def test_models_that_a_killed_run_has_left_are_measured_and_not_trained_again(tmp_path, monkeypatch):
    cells = [cell for cell in TRAININGS if cell.encoder == "l1ae"]
    options = Options(stacked=tmp_path / "stacked")
    fit_stack(plan(cells, set()), options)  # as if killed before the first of them was measured
    monkeypatch.setattr(running, "fit_stack", lambda *given, **named: pytest.fail("trained again"))
    store = Store(tmp_path / "results.jsonl")
    assert run(cells, store, Options(), n_jobs=1, together=True)
    assert {row.get("together") for row in store.rows()} == {4}


def test_a_training_that_was_cut_and_left_begins_again(tmp_path):
    cells = [cell for cell in TRAININGS if cell.encoder == "l1ae"]
    fit_stack(plan(cells, set()), Options(stacked=tmp_path / "stacked", fit_seconds=0.0))
    store = Store(tmp_path / "results.jsonl")
    assert run(cells, store, Options(), n_jobs=1, together=True)
    assert {row["stopped_by"] for row in store.rows()} == {"max_epochs"}


def test_a_model_that_is_kept_is_not_trained_again_at_once_with_others(tmp_path, monkeypatch):
    cells = [cell for cell in TRAININGS if cell.encoder == "l1ae"]
    options = Options(models=tmp_path / "models")
    run(cells, Store(tmp_path / "first.jsonl"), options, n_jobs=1, together=True)
    monkeypatch.setattr(running, "fit_stack", lambda *given, **named: pytest.fail("trained again"))
    store = Store(tmp_path / "second.jsonl")
    assert run([replace(cell, n_test=5) for cell in cells], store, options, n_jobs=1, together=True)
    assert {row["from_cache"] for row in store.rows()} == {True}


def test_a_model_that_was_handed_over_stays_until_its_rows_are_stored(tmp_path, monkeypatch):
    cells = [cell for cell in TRAININGS if cell.encoder == "l1ae"]
    options = Options(stacked=tmp_path / "stacked")
    fit_stack(plan(cells, set()), options)
    job = plan(cells, set())[0]

    def kill(*given):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(measuring, "decode", kill)
        with pytest.raises(KeyboardInterrupt):
            list(measure(job, options))
    rows = list(measure(job, options))
    assert {row.get("together") for row in rows} == {4}
    assert not (tmp_path / "stacked" / job[0].fit_key).exists()


def test_trainings_that_fail_at_once_are_done_alone_and_disturb_no_other(tmp_path, monkeypatch, caplog):
    from sparselens.encoders import together as encoders

    def broken(*given, **named):
        raise RuntimeError("CUDA error: as if")

    monkeypatch.setattr(encoders, "fit_together", broken)
    store = Store(tmp_path / "results.jsonl")
    assert run(TRAININGS, store, Options(), n_jobs=1, together=True)
    assert {row["status"] for row in store.rows()} == {DONE}
    assert {row.get("together") for row in store.rows()} == {None}
    assert "4 trainings at once failed (RuntimeError: CUDA error: as if): each of them is done alone" in caplog.text


def test_an_interrupted_stack_leaves_those_that_had_ended_and_goes_on_with_the_others(tmp_path):
    ended = as_params({"max_epochs": 2000, "n_steps": 2, "validation_interval": 1, "patience": 0})
    cells = [Cell("toy", "l1ae", m, "l1-pos", seed=s, params=ended, sizes=SIZES) for m in (10, 15) for s in (0, 1, 2)]
    options, jobs = Options(stacked=tmp_path / "stacked"), plan(cells, set())
    fit_stack(jobs, options, callback=lambda event: event.progress >= 0.3)
    left = {path.name for path in (tmp_path / "stacked").iterdir() if (path / "manifest.json").exists()}
    assert 1 <= len(left) < len(jobs)
    store = Store(tmp_path / "results.jsonl")
    assert run(cells, store, Options(), n_jobs=1, together=True)
    assert {row["status"] for row in store.rows()} == {DONE}
    assert {row["stopped_by"] for row in store.rows()} <= {"patience", "max_epochs"}


def test_a_training_that_was_cut_and_left_serves_a_run_that_would_cut_it_as_soon(tmp_path, monkeypatch):
    cells = [cell for cell in TRAININGS if cell.encoder == "l1ae"]
    fit_stack(plan(cells, set()), Options(stacked=tmp_path / "stacked", fit_seconds=0.0))
    monkeypatch.setattr(running, "fit_stack", lambda *given, **named: pytest.fail("trained again"))
    store = Store(tmp_path / "results.jsonl")
    assert run(cells, store, Options(fit_seconds=0.0), n_jobs=1, together=True)
    assert {row["stopped_by"] for row in store.rows()} == {"callback"}


def test_a_training_that_diverges_at_once_with_others_is_stored_with_its_error(tmp_path):
    wild = as_params({"max_epochs": 2, "n_steps": 2, "orthogonality_penalty": 1e30})
    cells = [Cell("toy", "l1ae", m, "l1-pos", params=params, sizes=SIZES) for m in (10, 12) for params in (SHORT, wild)]
    store = Store(tmp_path / "results.jsonl")
    run(cells, store, Options(), n_jobs=1, together=True)
    for row in store.rows():
        if row["params"].get("orthogonality_penalty"):
            assert row["status"] == FAILED
            assert row["reason"].startswith("TrainingDivergedError")
        else:
            assert row["status"] == DONE


def test_what_does_not_fit_the_memory_of_a_gpu_is_done_in_halves(tmp_path, monkeypatch):
    import torch

    from sparselens.encoders import together as encoders

    sizes, whole, held = [], encoders.fit_together, []

    def small(given, *rest, **named):
        sizes.append(len(given))
        assert not any(one() is not None for one in held)  # what failed is not held beside its halves
        if len(given) > 2:
            large = np.zeros(1000)
            held.append(weakref.ref(large))
            raise torch.cuda.OutOfMemoryError("CUDA out of memory")
        return whole(given, *rest, **named)

    monkeypatch.setattr(encoders, "fit_together", small)
    cells = [cell for cell in TRAININGS if cell.encoder == "l1ae"]
    jobs = plan(cells, set())
    fit_stack(jobs, Options(stacked=tmp_path / "stacked"))
    assert sizes == [4, 2, 2]
    assert {path.name for path in (tmp_path / "stacked").iterdir()} == {job[0].fit_key for job in jobs}


def test_an_interrupted_run_ends_the_trainings_that_are_done_at_once(tmp_path):
    endless = as_params({"max_epochs": 10**7, "patience": 10**6})
    cells = [Cell("toy", "l1ae", m, "l1-pos", params=endless, sizes=SIZES) for m in (10, 12)]

    def interrupt(now):
        raise KeyboardInterrupt

    quick = Cell("toy", "gaussian", 10, "l1-pos", sizes=SIZES)
    with pytest.raises(KeyboardInterrupt):
        run([quick, *cells], Store(tmp_path / "results.jsonl"), Options(), n_jobs=1, together=True, callback=interrupt)
    assert [child for child in multiprocessing.active_children() if child.is_alive()] == []


def test_only_networks_of_one_shape_go_together():
    def stacks(*cells):
        return [[job[0].m for job in stack] for stack in stacks_of(plan(cells, set()), Options())]

    one = Cell("toy", "l1ae", 10, "l1-pos", params=SHORT, sizes=SIZES)
    other = Cell("toy", "l1ae", 12, "l1-pos", params=SHORT, sizes=SIZES)
    assert stacks(one, other) == [[10, 12]]
    assert stacks(one) == []
    assert stacks(one, replace(other, params=as_params({"n_steps": 3}))) == []
    assert stacks(one, replace(other, sizes=(50, 20, 20))) == []
    assert stacks(one, replace(other, encoder="simple", params=())) == []
    assert stacks(one, replace(other, data="wiki10-31k", sizes=None)) == []  # which is not there
    assert stacks(*(replace(one, encoder="certificate", m=m, params=()) for m in (10, 12))) == []
