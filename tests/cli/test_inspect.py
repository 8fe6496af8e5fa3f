"""`sparselens inspect`: figures, a page that stands alone, a picture, and a promise for the rows of a file."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
import scipy.sparse as sp

import sparselens as sl
from command_line import command
from helpers import FAST, sparse_rows
from sparselens.cli import codes


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    home = tmp_path_factory.mktemp("inspect")
    X = sparse_rows(90, 30, 4, seed=0)
    sl.CertificateEncoder(10, max_steps=48, batch_size=16, device="cpu", random_state=0).fit(X).save(home / "model")
    sl.DeepAE(4, n_hidden=(4, 8), random_state=0, **FAST).fit(X).save(home / "deep")
    sp.save_npz(home / "rows.npz", sp.csr_matrix(X))
    return home


def test_the_figures_are_those_of_the_matrix(folder):
    facts = json.loads(command("inspect", folder / "model", "--json").out)
    A = sl.load(folder / "model").components_
    values = np.linalg.svd(A, compute_uv=False)
    np.testing.assert_allclose(facts["matrix"]["singular_values"], values, rtol=1e-8)
    assert facts["n_measurements"] == 10
    assert facts["recipe"] == sl.load(folder / "model").recipe_


def test_the_text_names_them_and_the_training(folder):
    text = command("inspect", folder / "model").out
    for part in ("singular values", "column norms", "coherence", "Welch", "Training:", "n_steps"):
        assert part in text


def test_the_promise_for_a_file_agrees_with_certify(folder):
    facts = json.loads(command("inspect", folder / "model", "--data", folder / "rows.npz", "--json").out)
    enc = sl.load(folder / "model")
    expected = enc.certify(sl.read_matrix(folder / "rows.npz"))
    assert facts["promise"]["certified"] == pytest.approx(expected.exact.mean())
    assert facts["promise"]["not"] == int((~expected.exact).sum())


def test_the_page_stands_alone(folder, tmp_path):
    ended = command("inspect", folder / "model", "-o", tmp_path / "a.html")
    assert f"Page: {tmp_path / 'a.html'}" in ended.out
    page = (tmp_path / "a.html").read_text(encoding="utf-8")
    assert page.count("<figure") == 2
    assert not re.search(r"(src|href)=\"(?!#|data:)", page)  # no request leaves the page
    assert "<script" not in page


def test_the_picture_is_a_png(folder, tmp_path):
    assert command("inspect", folder / "model", "-o", tmp_path / "a.png").code == 0
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_a_model_without_a_matrix_shows_its_training(folder, tmp_path):
    ended = command("inspect", folder / "deep", "-o", tmp_path / "a.html")
    assert ended.code == 0, ended.error
    assert "validation loss" in ended.out
    assert (tmp_path / "a.html").read_text().count("<figure") == 1
    ended = command("inspect", folder / "deep", "-o", tmp_path / "b.png")
    assert "DeepAE has no measurement matrix to draw" in ended.error
    ended = command("inspect", folder / "deep", "--data", folder / "rows.npz")
    assert "DeepAE has no measurement matrix: leave out --data" in ended.error


def test_another_ending_is_refused(folder, tmp_path):
    ended = command("inspect", folder / "model", "-o", tmp_path / "a.pdf")
    assert ended.code == codes.BAD_INPUT
    assert "must end in .html (a page) or .png" in ended.error
