"""encode and decode as a person meets them: exit codes, Ctrl-C, --resume."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import warnings

import numpy as np
import pytest
import scipy.sparse as sp

import sparselens as sl
from helpers import sparse_rows
from sparselens._parts import Parts
from sparselens.cli.main import main

X = sparse_rows(60, 30, 3, seed=0)


def command(*arguments, cwd):
    return subprocess.run(
        [sys.executable, "-m", "sparselens", *map(str, arguments)], capture_output=True, text=True, cwd=cwd, check=False
    )


@pytest.fixture
def home(tmp_path):
    sl.GaussianEncoder(18, random_state=0).fit(X).save(tmp_path / "model")
    sl.GaussianEncoder(6, random_state=0).fit(X).save(tmp_path / "poor")
    sp.save_npz(tmp_path / "x.npz", X)
    return tmp_path


def test_a_file_comes_back(home):
    result = command("encode", "model", "x.npz", "-o", "y.npz", cwd=home)
    assert (result.returncode, result.stderr) == (0, "")
    assert "y.npz: 60 rows, 18 measurements each" in result.stdout
    result = command("decode", "model", "y.npz", "-o", "back.npz", "--json", cwd=home)
    assert result.returncode == 0
    assert json.loads(result.stdout)["n_certified"] == 60
    assert abs(sp.load_npz(home / "back.npz") - X).max() < 1e-10
    assert sorted(os.listdir(home)) == ["back.npz", "model", "poor", "x.npz", "y.npz"]


def test_rows_without_a_proof_end_with_1_and_the_file_is_written_all_the_same(home):
    assert command("encode", "poor", "x.npz", "-o", "y.npz", cwd=home).returncode == 0
    Y = np.load(home / "y.npz")["Y"]
    Y[5, 0] = np.nan
    np.save(home / "y.npy", Y)
    result = command("decode", "poor", "y.npy", "-o", "back.npz", cwd=home)
    assert result.returncode == 1
    assert "59 certified, 1 invalid" in result.stdout
    assert sp.load_npz(home / "back.npz").shape == (60, 30)


def test_a_lossless_file_reports_its_size_against_others(home):
    result = command("encode", "poor", "x.npz", "-o", "y.npz", "--lossless", cwd=home)
    assert result.returncode == 0
    assert "as compressed npz" in result.stdout
    result = command("decode", "poor", "y.npz", "-o", "back.npz", cwd=home)
    assert result.returncode == 0
    assert "60 given back" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("encode", "modl", "x.npz", "-o", "y.npz"), "there is no model at modl"),
        (("encode", "model", "y.npz", "-o", "z.npz"), "there is no file 'y.npz': did you mean 'x.npz'?"),
        (("encode", "model", "amazn", "-o", "y.npz"), "amazon"),
        (("encode", "model", "x.npz", "-o", "y.txt"), "does not end in .npz or .npy"),
        (("encode", "model", "x.npz", "-o", "y.npz", "--engine", "spark"), "engine must be one of 'processes', 'dask'"),
        (("encode", "model", "x.npz", "-o", "y.npz", "--engine", "dask"), "engine='dask' needs scheduler="),
        (("encode", "model", "x.npz", "-o", "y.npz", "--part", "test"), "is a file and has no parts"),
        (("encode", "model", "toy", "-o", "y.npz"), "has 100 columns but the model was fitted to 30"),
        (("decode", "model", "model/manifest.json", "-o", "x2.npz"), "manifest.json"),
        (("decode", "model", "x.npz", "-o", "x.npz"), "30 columns but the model makes 18 measurements"),
    ],
)
def test_bad_input_ends_with_2_one_message_and_no_file(home, monkeypatch, capsys, arguments, message):
    before = sorted(os.listdir(home))
    monkeypatch.chdir(home)
    monkeypatch.setattr(sys, "argv", ["sparselens", *arguments])
    monkeypatch.setattr(signal, "signal", lambda *_: None)  # what main does to its process, it must not do to this one
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
    with pytest.raises(SystemExit) as ended:
        main()
    said = capsys.readouterr()
    assert ended.value.code == 2
    assert said.out == ""
    assert message in said.err
    assert len(said.err.splitlines()) == 1
    assert sorted(os.listdir(home)) == before


@pytest.mark.skipif(os.name != "posix", reason="signals of a POSIX system")
def test_ctrl_c_keeps_the_rows_and_resume_goes_on(home):
    Y = np.tile(sl.load(home / "model").transform(X), (400, 1))
    np.save(home / "y.npy", Y)
    arguments = ["decode", "model", "y.npy", "-o", "back.npz", "--block-rows", "20"]
    running = subprocess.Popen(
        [sys.executable, "-m", "sparselens", *arguments], cwd=home, stderr=subprocess.PIPE, text=True
    )
    manifest = home / ".back.npz.parts" / "manifest.json"
    while running.poll() is None and not manifest.exists():
        time.sleep(0.01)
    running.send_signal(signal.SIGINT)
    _, said = running.communicate()
    assert running.returncode == 130, said
    assert not (home / "back.npz").exists()
    assert "the same command with --resume goes on from there" in said
    result = command(*arguments, "--resume", "--json", cwd=home)
    assert result.returncode == 0
    report = json.loads(result.stdout)
    assert 0 < report["n_resumed"] < 24_000
    assert report["n_certified"] == 24_000
    assert command(*arguments[:4], "whole.npz", "--block-rows", "20", cwd=home).returncode == 0
    assert (home / "back.npz").read_bytes() == (home / "whole.npz").read_bytes()


def test_a_second_writer_is_not_told_that_the_rows_of_the_first_are_its_own(home):
    assert command("encode", "model", "x.npz", "-o", "y.npz", cwd=home).returncode == 0
    with Parts(home / "back.npz", {"a": ("<f8", ())}, job={}, resume=False) as first:
        first.append(1, {"a": np.zeros(1)}, {})
        result = command("decode", "model", "y.npz", "-o", "back.npz", cwd=home)
    assert result.returncode == 2
    assert "another process is writing back.npz: wait for it, or choose another name" in result.stderr
    assert "--resume" not in result.stderr
