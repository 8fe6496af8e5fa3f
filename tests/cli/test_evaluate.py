"""`sparselens evaluate`: the figures are those of the library, and the exit code says whether all is proved."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
import scipy.sparse as sp

import sparselens as sl
from command_line import command
from helpers import sparse_rows
from sparselens.cli import codes, evaluate
from sparselens.recovery import Status


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A Gaussian model with 12 measurements, and rows of which it brings back some."""
    home = tmp_path_factory.mktemp("evaluate")
    X = sparse_rows(90, 30, 4, seed=0)
    sl.GaussianEncoder(12, random_state=0).fit(X).save(home / "model")
    sp.save_npz(home / "seen.npz", sp.csr_matrix(X))
    sp.save_npz(home / "rows.npz", sp.csr_matrix(5 * sparse_rows(90, 30, 4, seed=1)))
    return home


def figures(folder, *arguments, data="rows.npz"):
    ended = command("evaluate", folder / "model", folder / data, "--json", *arguments)
    assert ended.code == 0, ended.error
    return json.loads(ended.out)


def test_the_figures_are_those_of_the_library_chunk_by_chunk(folder, monkeypatch):
    monkeypatch.setattr(evaluate, "_CHUNK", 40)
    found = figures(folder)
    enc = sl.load(folder / "model")
    X = sl.read_matrix(folder / "rows.npz")
    X = sp.csr_array(X / np.sqrt(X.multiply(X).sum(axis=1))[:, None])
    report = sl.recovery_report(X, enc.decoder().decode(enc.transform(X))).as_dict()
    assert 0 < report["exact"] < 1
    for name, value in report.items():
        assert found[name] == pytest.approx(value), name
    low, high = found["exact_interval"]
    assert low < found["exact"] < high


def test_the_text_says_what_the_json_says(folder):
    found = figures(folder)
    text = command("evaluate", folder / "model", folder / "rows.npz").out
    assert "GaussianEncoder, m = 12, L1Decoder" in text
    assert "rows.npz: 90 rows" in text
    assert float(re.search(r"recovered exactly \(1e-10\) +([\d.]+)%", text)[1]) == pytest.approx(
        100 * found["exact"], abs=0.005
    )


def test_rows_of_the_training_are_recognised(folder):
    assert figures(folder, data="seen.npz")["seen_in_training"] is True
    assert figures(folder)["seen_in_training"] is False
    assert "rows that the model was fitted on" in command("evaluate", folder / "model", folder / "seen.npz").out


@pytest.mark.parametrize("decoder", [d for d in evaluate.DECODERS if d != "network"])
def test_every_decoder_can_be_asked_for(folder, decoder):
    found = figures(folder, "--decoder", decoder, "--rows", 20)
    assert found["n_rows"] == 20
    assert found["certified"] == (1.0 if decoder in ("default", "l1", "l1-signed", "highs") else 0.0)


def test_a_model_without_a_network_says_so(folder):
    ended = command("evaluate", folder / "model", folder / "rows.npz", "--decoder", "network")
    assert ended.code == codes.BAD_INPUT
    assert "GaussianEncoder has no network of its own" in ended.error


def test_rows_without_a_proof_end_with_code_1(folder, monkeypatch):
    def unproved(self, Y, **options):
        rec = decode(self, Y, **options)
        rec.status[:3] = Status.UNCERTIFIED
        return rec

    decode = sl.L1Decoder.decode
    monkeypatch.setattr(sl.L1Decoder, "decode", unproved)
    ended = command("evaluate", folder / "model", folder / "rows.npz")
    assert ended.code == codes.UNCERTIFIED
    assert "96.67%" in ended.out  # 87 of 90 rows are certified


def test_a_part_of_a_data_set_is_taken_and_test_is_the_default(tmp_path):
    data = sl.load_dataset("toy")
    sl.PCAEncoder(10).fit(data.train).save(tmp_path / "model")
    found = json.loads(command("evaluate", tmp_path / "model", "toy", "--rows", 5, "--json").out)
    assert found["part"] == "test"
    ended = command("evaluate", tmp_path / "model", "toy", "--part", "tst")
    assert "--part must be one of 'train', 'valid', 'test', 'all'; got 'tst'. Did you mean 'test'?" in ended.error


def test_slips_are_named(folder, tmp_path):
    ended = command("evaluate", folder / "modle", folder / "rows.npz")
    assert (ended.code, f"did you mean '{folder / 'model'}'?" in ended.error) == (codes.BAD_INPUT, True)
    ended = command("evaluate", folder / "rows.npz", folder / "model")
    assert "is a file, not a model: the model comes first, the data second" in ended.error
    ended = command("evaluate", folder / "model", "toy")
    assert "toy has 100 columns but the model was fitted on 30" in ended.error
    ended = command("evaluate", folder / "model", folder / "rows.npz", "--part", "test")
    assert "rows.npz is a file and has no parts: leave out --part" in ended.error
    ended = command("evaluate", folder / "model", folder / "rows.npz", "--decoder", "cosmp")
    assert "Did you mean 'cosamp'" in ended.error
