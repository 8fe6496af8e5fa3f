"""A table of categories through fit, encode, decode: another table with other rows, and the table again."""

from __future__ import annotations

import json

import numpy as np
import pytest

import sparselens as sl
from command_line import command


def table(path, rng, n, *, order=("colour", "size", "shop")):
    cells = {
        "colour": rng.choice(["red", "green", "blue", ""], n),
        "size": rng.integers(8, 13, n).astype(str),
        "shop": rng.choice(["a", "b"], n),
    }
    lines = [",".join(order), *(",".join(row) for row in zip(*(cells[name] for name in order), strict=True))]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def home(tmp_path):
    rng = np.random.default_rng(0)
    table(tmp_path / "train.csv", rng, 300)
    table(tmp_path / "new.csv", rng, 40, order=("shop", "size", "colour"))
    fitted = command("fit", tmp_path / "train.csv", "-m", 8, "-e", "gaussian", "-o", tmp_path / "model")
    assert fitted.code == 0, fitted.error
    return tmp_path


def test_another_table_comes_back_as_a_table(home):
    assert sl.load(home / "model").categories_["size"] == ["8", "9", "10", "11", "12"]
    assert command("encode", home / "model", home / "new.csv", "-o", home / "y.npz").code == 0
    ended = command("decode", home / "model", home / "y.npz", "-o", home / "back.csv", "--json")
    assert (ended.code, json.loads(ended.out)["n_certified"]) == (0, 40)
    expected = [line.split(",") for line in (home / "new.csv").read_text().splitlines()]
    back = [line.split(",") for line in (home / "back.csv").read_text().splitlines()]
    assert back == [[colour, size, shop] for shop, size, colour in expected]
    assert sorted(entry.name for entry in home.iterdir()) == ["back.csv", "model", "new.csv", "train.csv", "y.npz"]


def test_a_lossless_file_of_a_table_gives_the_table_back(home):
    assert command("encode", home / "model", home / "train.csv", "-o", home / "y.npz", "--lossless").code == 0
    assert command("decode", home / "model", home / "y.npz", "-o", home / "back.csv").code == 0
    assert (home / "back.csv").read_bytes() == (home / "train.csv").read_bytes()


def test_rows_that_are_no_rows_of_categories_are_counted_and_end_with_1(home):
    assert command("fit", home / "train.csv", "-m", 2, "-e", "gaussian", "-o", home / "poor").code == 0
    assert command("encode", home / "poor", home / "new.csv", "-o", home / "y.npz").code == 0
    ended = command("decode", home / "poor", home / "y.npz", "-o", home / "back.csv", "--json")
    lost = (home / "back.csv").read_text().splitlines().count(",,")
    assert ended.code == 1
    assert json.loads(ended.out)["status"]["NOT_ONE_HOT"] == lost > 0
    assert json.loads(ended.out)["n_certified"] == 40 - lost


def test_evaluate_and_inspect_read_another_table_by_the_models_categories(home):
    ended = command("evaluate", home / "model", home / "new.csv", "--json")
    assert json.loads(ended.out)["exact"] == 1.0
    assert command("inspect", home / "model", "--data", home / "new.csv").code == 0


def test_a_plan_of_a_table_keeps_its_categories_with_the_models(home):
    ended = command("plan", home / "train.csv", "--max-steps", 8, "-o", home / "plan", "--json")
    models = json.loads(ended.out)["models"]
    assert models, ended.error
    for folder in models.values():
        assert sl.load(folder).categories_["shop"] == ["a", "b"]


def test_an_unknown_category_ends_with_2_and_writes_nothing(home):
    (home / "odd.csv").write_text("shop,size,colour\na,9,red\na,9,pink\n")
    ended = command("encode", home / "model", home / "odd.csv", "-o", home / "y.npz")
    assert ended.code == 2
    assert "line 3: colour is 'pink', a category that the model does not know" in ended.error
    assert not (home / "y.npz").exists()


def test_a_model_of_other_rows_writes_no_table(home):
    X = sl.load_dataset("toy").train
    enc = sl.GaussianEncoder(30, random_state=0).fit(X)
    with pytest.raises(ValueError, match=r"was not fitted to a table of categories. Name an \.npz file"):
        sl.decode_file(enc, enc.transform(X[:2]), home / "x.csv")
