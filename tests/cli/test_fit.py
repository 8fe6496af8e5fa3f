"""`sparselens fit`: what it writes, what it refuses, and what a kill leaves behind."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import scipy.sparse as sp

import sparselens as sl
from command_line import command
from helpers import sparse_rows
from sparselens.cli import codes, fit
from sparselens.cli.fit import ENCODERS

FAST = ("--set", "max_steps=48", "--set", "batch_size=16", "--device", "cpu")


@pytest.fixture
def rows(tmp_path):
    path = tmp_path / "rows.npz"
    sp.save_npz(path, sp.csr_matrix(sparse_rows(120, 30, 4, seed=0)))
    return path


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_the_default_writes_a_certificate_encoder_and_nothing_else(rows, tmp_path):
    ended = command("fit", rows, "-m", 8, "-o", tmp_path / "model", *FAST)
    assert ended.code == 0, ended.error
    assert "rows.npz: 96 training rows, 24 validation rows, 30 columns, 4 nonzeros a row" in ended.out
    assert names(tmp_path) == ["model", "rows.npz"]
    enc = sl.load(tmp_path / "model")
    assert type(enc).__name__ == "CertificateEncoder"
    assert enc.components_.shape == (8, 30)
    assert enc.checkpoint is None  # the folder of an unfinished fit is nobody's business later


@pytest.mark.parametrize("name", ["gaussian", "fourier", "lbcs", "lbcs-dct", "pca"])
def test_encoders_are_chosen_by_name(rows, tmp_path, name):
    ended = command("fit", rows, "-m", 8, "-o", tmp_path / "model", "--encoder", name, "--json")
    assert ended.code == 0, ended.error
    facts = json.loads(ended.out)
    assert facts["encoder"] == ENCODERS[name][0]
    assert facts["n_rows"] + facts["n_validation"] == 120
    assert 0 <= facts["validation"]["exact"] <= 1


def test_every_encoder_has_a_name_to_type():
    from sparselens.persist import CLASSES

    encoders = {name for name, module in CLASSES.items() if module.startswith("sparselens.encoders")}
    assert {cls for cls, _ in ENCODERS.values()} == encoders


def test_a_trained_network_takes_its_parameters(rows, tmp_path):
    ended = command(
        "fit", rows, "-m", 8, "-o", tmp_path / "model", "-e", "l1ae", "--set", "max_epochs=2", "--set", "n_steps=2",
        "--set", "validation_interval=1", "--device", "cpu",
    )  # fmt: skip
    assert ended.code == 0, ended.error
    assert sl.load(tmp_path / "model").get_params()["max_epochs"] == 2


def test_the_split_depends_on_the_seed_alone(rows, tmp_path):
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        command("fit", rows, "-m", 8, "-o", tmp_path / name, "-e", "pca", "--seed", seed)
    data = {name: sl.load(tmp_path / name).training_data_["sha256"] for name in "abc"}
    assert data["a"] == data["b"] != data["c"]


def test_validation_rows_may_be_given(rows, tmp_path):
    valid = tmp_path / "valid.npz"
    sp.save_npz(valid, sp.csr_matrix(sparse_rows(10, 30, 4, seed=1)))
    ended = command("fit", rows, "-m", 8, "-o", tmp_path / "model", "-e", "gaussian", "--validation", valid, "--json")
    facts = json.loads(ended.out)
    assert (facts["n_rows"], facts["n_validation"]) == (120, 10)


def test_signed_rows_are_told_by_themselves(tmp_path):
    path = tmp_path / "signed.npz"
    sp.save_npz(path, sp.csr_matrix(sparse_rows(60, 20, 3, seed=0, signed=True)))
    ended = command("fit", path, "-m", 8, "-o", tmp_path / "model", *FAST)
    assert ended.code == 0, ended.error
    assert sl.load(tmp_path / "model").positive is False


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("-e", "gausian"), "Did you mean 'gaussian'?"),
        (("--set", "max_step=3"), "CertificateEncoder has no parameter 'max_step': did you mean 'max_steps'"),
        (("--set", "max_steps"), "--set takes NAME=VALUE, got 'max_steps'"),
        (("--set", "n_components=3"), "has no parameter 'n_components'"),
        (("-e", "gaussian", "-m", "31"), "n_components=31 exceeds the number of columns (n_features=30)"),
        (("--validation", "vald.npz"), "there is no file 'vald.npz'"),
        (("--device", "gpu", *FAST[:4]), "device must be 'auto', 'cpu', 'cuda' or 'cuda:N', got 'gpu'"),
    ],
)
def test_a_slip_ends_with_code_2_and_writes_nothing(rows, tmp_path, arguments, message):
    ended = command("fit", rows, "-m", 8, "-o", tmp_path / "model", *arguments)
    assert ended.code == codes.BAD_INPUT
    assert message in ended.error
    assert names(tmp_path) == ["rows.npz"]


def test_a_mistyped_file_names_the_one_beside_it(rows, tmp_path):
    ended = command("fit", tmp_path / "row.npz", "-m", 8, "-o", tmp_path / "new" / "model")
    assert ended.code == codes.BAD_INPUT
    assert f"did you mean '{rows}'?" in ended.error
    assert names(tmp_path) == ["rows.npz"]


def test_a_folder_that_holds_something_else_is_refused_before_any_work(rows, tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").write_text("mine")
    ended = command("fit", rows, "-m", 8, "-o", tmp_path / "full", "-e", "gaussian")
    assert ended.code == codes.BAD_INPUT
    assert "holds something else than a model ('notes.txt')" in ended.error
    ended = command("fit", rows, "-m", 8, "-o", rows, "-e", "gaussian")
    assert "is a file: name a folder for the model" in ended.error


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_folder_is_refused_before_any_work(rows, tmp_path):
    (tmp_path / "locked").mkdir(mode=0o500)
    ended = command("fit", rows, "-m", 8, "-o", tmp_path / "locked" / "model", *FAST)
    assert ended.code == codes.BAD_INPUT
    assert "permission denied: choose a place that you may write to" in ended.error


def test_a_model_is_replaced_only_when_asked(rows, tmp_path):
    out = tmp_path / "model"
    command("fit", rows, "-m", 8, "-o", out, "-e", "gaussian")
    ended = command("fit", rows, "-m", 9, "-o", out, "-e", "gaussian")
    assert ended.code == codes.BAD_INPUT
    assert "holds a model already: choose another folder, or replace it by --overwrite" in ended.error
    assert sl.load(out).n_components == 8
    assert command("fit", rows, "-m", 9, "-o", out, "-e", "gaussian", "--overwrite").code == 0
    assert sl.load(out).n_components == 9


def test_of_two_fits_to_one_folder_neither_is_lost(rows, tmp_path, monkeypatch):
    out = tmp_path / "model"
    X = sparse_rows(20, 30, 4, seed=3)

    def another_process_was_faster(model, X_valid, update):
        if not out.exists():
            sl.PCAEncoder(5).fit(X).save(out)
        return validated(model, X_valid, update)

    validated = fit._validation
    monkeypatch.setattr(fit, "_validation", another_process_was_faster)
    ended = command("fit", rows, "-m", 8, "-o", out, "-e", "gaussian")
    assert ended.code == codes.BAD_INPUT
    assert f"another process has written {out} meanwhile: this model is in {tmp_path / 'model-2'}" in ended.error
    assert type(sl.load(out)).__name__ == "PCAEncoder"
    assert type(sl.load(tmp_path / "model-2")).__name__ == "GaussianEncoder"
    assert names(tmp_path) == ["model", "model-2", "rows.npz"]


def test_a_full_disk_leaves_no_model_and_says_so(rows, tmp_path, monkeypatch):
    def full(path):
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    monkeypatch.setattr("sparselens.persist.written_whole", full)
    ended = command("fit", rows, "-m", 8, "-o", tmp_path / "model", *FAST)
    assert ended.code == codes.FAILED
    assert "no space left on device: make room and run the command again" in ended.error
    assert "the same command with --resume goes on" in ended.error  # and the training is not done again
    assert names(tmp_path) == ["model.unfinished", "rows.npz"]


def test_a_disk_that_is_full_from_the_start_leaves_nothing(rows, tmp_path, monkeypatch):
    def full(path):
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    monkeypatch.setattr("sparselens._checkpoint.written_whole", full)
    ended = command("fit", rows, "-m", 8, "-o", tmp_path / "model", *FAST)
    assert ended.code == codes.FAILED
    assert "--resume" not in ended.error
    assert names(tmp_path) == ["rows.npz"]


def test_resuming_a_finished_fit_does_nothing(rows, tmp_path):
    out = tmp_path / "model"
    command("fit", rows, "-m", 8, "-o", out, "-e", "gaussian")
    before = (out / "manifest.json").stat().st_mtime_ns
    ended = command("fit", rows, "-m", 8, "-o", out, "-e", "gaussian", "--resume")
    assert (ended.code, ended.out.strip()) == (0, f"{out} is finished already.")
    assert (out / "manifest.json").stat().st_mtime_ns == before
    ended = command("fit", rows, "-m", 9, "-o", out, "-e", "gaussian", "--resume")
    assert "holds a finished model of other parameters or rows" in ended.error


def test_a_stopped_fit_leaves_its_state_and_resume_ends_with_the_same_bits(rows, tmp_path, monkeypatch):
    arguments = ("fit", rows, "-m", 8, *FAST)
    assert command(*arguments, "-o", tmp_path / "whole").code == 0

    def stop_at_the_third(update, *, text=""):
        events = []

        def told(event):
            events.append(event)
            if len(events) == 3:
                raise codes.Interrupted(codes.INTERRUPTED)

        return told

    with monkeypatch.context() as patch:
        patch.setattr("sparselens.cli.progress.training", stop_at_the_third)
        with pytest.raises(codes.Interrupted):
            command(*arguments, "-o", tmp_path / "model")
    assert names(tmp_path) == ["model.unfinished", "rows.npz", "whole"]
    assert command(*arguments, "-o", tmp_path / "model", "--resume").code == 0
    assert names(tmp_path) == ["model", "rows.npz", "whole"]
    np.testing.assert_array_equal(sl.load(tmp_path / "model").components_, sl.load(tmp_path / "whole").components_)


def test_control_c_ends_a_process_with_130_and_no_half_written_model(rows, tmp_path):
    state = tmp_path / "model.unfinished"
    process = subprocess.Popen(
        [sys.executable, "-m", "sparselens", "fit", rows, "-m", "8", "-o", tmp_path / "model", "--device", "cpu",
         "--set", "max_steps=4000"],
        stderr=subprocess.PIPE, text=True, env=os.environ | {"PYTHONFAULTHANDLER": ""},
    )  # fmt: skip
    while not any(state.rglob("*.json")) and process.poll() is None:  # the first stage of the search has been kept
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    said = process.communicate()[1]
    assert process.returncode == codes.INTERRUPTED, said
    assert "what was learned is kept: the same command with --resume goes on" in said
    assert "stopped before the end" in said
    assert "Traceback" not in said
    assert names(tmp_path) == ["model.unfinished", "rows.npz"]
