"""What several commands have in common: an example, --json, and an error before any work is done."""

from __future__ import annotations

import json

import numpy as np
import pytest
import scipy.sparse as sp
import typer

import sparselens as sl
from command_line import command
from helpers import sparse_rows
from sparselens.cli import codes
from sparselens.cli.main import app
from sparselens.cli.reference import _walk
from sparselens.xml import RidgeOneVsAll

COMMANDS = dict(_walk(typer.main.get_command(app), ()))


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X = sparse_rows(60, 30, 3, seed=0)
    sl.GaussianEncoder(18, random_state=0).fit(X).save("model")
    RidgeOneVsAll().fit(X, sp.csr_array(np.eye(60)[:, :4])).save("ranker")
    sp.save_npz("rows.npz", X)
    sp.save_npz("labels.npz", sp.csr_array(np.eye(60)[:, :4]))
    sp.save_npz("signed.npz", -X)
    np.save("y.npy", sl.load("model").transform(X))
    return tmp_path


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_command_has_an_example_and_speaks_json(words):
    assert f"Example: sparselens {' '.join(words)}" in COMMANDS[words].help
    assert "--json" in [name for option in COMMANDS[words].params for name in option.opts]


@pytest.mark.parametrize(
    "arguments",
    [
        ("data", "convert", "rows.npz", "-o", "copy.npz"),
        ("data", "info", "rows.npz"),
        ("data", "info", "toy"),
        ("xml", "train", "rows.npz", "-y", "labels.npz", "--method", "one-vs-all", "-o", "new"),
        ("xml", "predict", "ranker", "rows.npz", "-o", "ranked.txt"),
        ("reproduce", "--list"),
    ],
    ids=" ".join,
)
def test_json_is_one_value_and_nothing_else(home, arguments):
    ended = command(*arguments, "--json")
    assert ended.code == 0, ended.error
    assert json.loads(ended.out)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("decode", "model", "y.npyy", "-o", "x.npz"), "there is no file 'y.npyy': did you mean 'y.npy'"),
        (("decode", "model", "y.npy", "-o", "x.npz", "--jobs", "0"), "n_jobs must be at least 1, got 0"),
        (("encode", "model", "rows.npz", "-o", "y.npz", "--jobs", "0"), "n_jobs must be at least 1, got 0"),
        (("xml", "train", "bibtx", "-o", "new"), "there is no data set 'bibtx': did you mean 'bibtex'?"),
        (("xml", "train", "rows.npzz", "-o", "new"), "there is no file 'rows.npzz': did you mean 'rows.npz'"),
        (("plan", "signed.npz", "-o", "new"), "signed.npz holds negative values: a plan solves the nonnegative"),
        (("encode", "ranker", "rows.npz", "-o", "y.npz"), "ranker holds a RidgeOneVsAll, which ranks labels"),
        (("decode", "ranker", "y.npy", "-o", "x.npz"), "ranker holds a RidgeOneVsAll, which ranks labels"),
        (("evaluate", "ranker", "rows.npz"), "ranker holds a RidgeOneVsAll, which ranks labels"),
        (("inspect", "ranker"), "ranker holds a RidgeOneVsAll, which ranks labels"),
        (
            ("xml", "train", "rows.npz", "-y", "labels.npz", "--method", "one-vs-all", "-o", "model"),
            "model holds a model already: choose another folder, or replace it by --overwrite",
        ),
    ],
)
def test_a_slip_ends_with_2_says_what_to_do_and_writes_nothing(home, arguments, message):
    before = sorted(home.rglob("*"))
    ended = command(*arguments)
    assert ended.code == codes.BAD_INPUT
    assert message in ended.error
    if arguments[0] != "plan":  # whose folder is made, and tried, before the rows are looked at
        assert sorted(home.rglob("*")) == before


@pytest.mark.parametrize(
    ("arguments", "work"),
    [
        (("demo", "-o"), "sparselens.experiments.demo.run_demo"),
        (("inspect", "model", "--data", "rows.npz", "-o"), "sparselens.cli.inspect.promise"),
        (("data", "convert", "rows.npz", "-o"), "sparselens.cli.data.open_source"),
        (("xml", "train", "rows.npz", "-y", "labels.npz", "-o"), "sparselens.xml.BlendClassifier.fit"),
        (("xml", "predict", "ranker", "rows.npz", "-o"), "sparselens.xml.RidgeOneVsAll.predict_topk"),
        (("plan", "rows.npz", "-o"), "sparselens.experiments.plan.plan"),
        (("fit", "rows.npz", "-m", "9", "-o"), "sparselens.encoders.certificate.CertificateEncoder.fit"),
    ],
    ids=lambda words: words[0] if isinstance(words, tuple) else "",
)
def test_a_place_that_cannot_be_written_is_refused_before_any_work(home, monkeypatch, arguments, work):
    def never(*_, **__):
        raise AssertionError("the work was begun")

    monkeypatch.setattr(work, never)
    out = "rows.npz/new.html" if arguments[0] == "inspect" else "rows.npz/new.npz"  # no folder can be made in a file
    ended = command(*arguments, out)
    assert ended.code == codes.BAD_INPUT
    assert "rows.npz" in ended.error


def test_a_ranker_is_replaced_when_asked(home):
    ended = command("xml", "train", "rows.npz", "-y", "labels.npz", "--method", "one-vs-all", "-o", "ranker")
    assert ended.code == codes.BAD_INPUT
    before = (home / "ranker" / "manifest.json").read_bytes()
    ended = command(
        "xml", "train", "rows.npz", "-y", "labels.npz", "--method", "neighbors", "-o", "ranker", "--overwrite"
    )
    assert ended.code == 0, ended.error
    assert (home / "ranker" / "manifest.json").read_bytes() != before


def test_a_file_with_a_name_that_says_nothing_is_read_by_its_format(home):
    (home / "rows.data").write_text("# labels and values\n1 1:0.5 3:2\n0 2:1\n")
    assert "pass format= (--format), one of npz" in command("data", "info", "rows.data").error
    ended = command("data", "info", "rows.data", "--format", "svmlight", "--json")
    assert (ended.code, json.loads(ended.out)["columns"]) == (0, 3)
    assert command("data", "convert", "rows.data", "--format", "svmlight", "-o", "copy.npz").code == 0
    assert sp.load_npz("copy.npz").nnz == 3


def test_the_parts_of_a_data_set_are_counted_in_words(home):
    assert "6,000 train, 2,000 valid, 2,000 test" in command("data", "info", "toy").out
