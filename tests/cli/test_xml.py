"""`sparselens xml`: from a text file to ranked labels, and what is refused."""

from __future__ import annotations

import json

import numpy as np
import pytest
import scipy.sparse as sp

import sparselens as sl
from command_line import command
from sparselens.cli.xml import METHODS


def write(path, n, *, seed):
    """Rows of three topics: the words of a topic, and its label."""
    rng = np.random.default_rng(seed)
    lines = [f"{n} 30 5"]
    for topic in rng.integers(0, 3, n):
        words = np.sort(rng.choice(10, 4, replace=False)) + 10 * topic
        lines.append(f"{topic} " + " ".join(f"{word}:{rng.random() + 0.5:.3f}" for word in words))
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def files(tmp_path):
    return write(tmp_path / "train.txt", 90, seed=0), write(tmp_path / "test.txt", 20, seed=1)


def test_train_predict_and_evaluate_from_text(files, tmp_path):
    train, test = files
    ended = command("xml", "train", train, "-o", tmp_path / "model")
    assert ended.code == 0, ended.error
    assert "BlendClassifier, 90 rows, 30 features, 5 labels" in ended.out
    ended = command("xml", "predict", tmp_path / "model", test, "-o", tmp_path / "ranked.txt", "-k", 2)
    assert ended.code == 0, ended.error
    lines = (tmp_path / "ranked.txt").read_text().splitlines()
    assert lines[0] == "20 5"
    truth = [line.split(" ")[0] for line in test.read_text().splitlines()[1:]]
    assert [line.split(":")[0] for line in lines[1:]] == truth
    ended = command("xml", "evaluate", tmp_path / "model", test, "--json")
    figures = json.loads(ended.out)
    assert (figures["n_rows"], figures["P@1"], figures["PSP@1"]) == (20, 1.0, 1.0)
    assert "P@1/3/5" in command("xml", "evaluate", tmp_path / "model", test).out


@pytest.mark.parametrize("method", [m for m in METHODS if m not in ("blend", "certificate")])
def test_every_method_can_be_trained(method, files, tmp_path):
    more = {"l1ae": ("-m", 4, "--epochs", 3), "pca": ("-m", 3), "sleec": ("-m", 4, "--models", 2)}.get(method, ())
    ended = command("xml", "train", files[0], "-o", tmp_path / "model", "--method", method, *more)
    assert ended.code == 0, ended.error
    assert sl.load(tmp_path / "model").checkpoint is None
    ended = command("xml", "predict", tmp_path / "model", files[1], "-o", tmp_path / "ranked.npz")
    assert ended.code == 0, ended.error
    assert sp.load_npz(tmp_path / "ranked.npz").shape == (20, 5)


def test_features_and_labels_may_be_two_npz_files(files, tmp_path):
    X, Y = sl.data.read_xmc(files[0])
    sp.save_npz(tmp_path / "X.npz", X)
    sp.save_npz(tmp_path / "Y.npz", Y)
    where = ("-o", tmp_path / "m", "--method", "one-vs-all")
    ended = command("xml", "train", tmp_path / "X.npz", "-y", tmp_path / "Y.npz", *where)
    assert ended.code == 0, ended.error
    assert command("xml", "predict", tmp_path / "m", tmp_path / "X.npz", "-o", tmp_path / "r.txt").code == 0
    ended = command("xml", "train", tmp_path / "X.npz", "-o", tmp_path / "n")
    assert (ended.code, "name the file of the labels" in ended.error) == (2, True)


def test_a_checkpoint_keeps_finished_parts(files, tmp_path):
    arguments = ("xml", "train", files[0], "-o", tmp_path / "model", "--method", "sleec", "-m", 3)
    assert command(*arguments, "--checkpoint", tmp_path / "parts").code == 0
    assert [path.name for path in (tmp_path / "parts").glob("*.npz")] == ["model0-cluster0.npz"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--method", "slec"), "--method must be one of"),
        (("--method", "blend", "-m", 5), "--method blend takes no --components"),
        (("--predictor", "neighbors"), "--method blend takes no --predictor: leave it out"),
        (("--method", "sleec", "--epochs", 9), "--method sleec takes no --epochs: leave it out"),
        (("--method", "sleec", "--preset", "rcv1"), "there is no preset 'rcv1'"),
        (("--method", "l1ae", "--predictor", "knn", "-m", 3, "--epochs", 1), "predictor must be one of"),
    ],
)
def test_bad_options_are_refused(arguments, message, files, tmp_path):
    ended = command("xml", "train", files[0], "-o", tmp_path / "model", *arguments)
    assert ended.code == 2
    assert message in ended.error
    assert not (tmp_path / "model").exists()


def test_a_model_that_is_there_is_kept_unless_told_otherwise(files, tmp_path):
    arguments = ("xml", "train", files[0], "-o", tmp_path / "model", "--method", "one-vs-all")
    assert command(*arguments).code == 0
    ended = command(*arguments)
    assert (ended.code, "holds a model already" in ended.error) == (2, True)
    assert command(*arguments, "--overwrite").code == 0


def test_a_place_that_cannot_be_written_is_refused_before_anything_is_read(tmp_path):
    ended = command("xml", "train", tmp_path / "nosuch.txt", "-o", tmp_path)
    assert ended.code == 2
    assert "there is no file" in ended.error
    (tmp_path / "notes.txt").write_text("mine")
    ended = command("xml", "train", tmp_path / "nosuch.txt", "-o", tmp_path)
    assert "holds something else than a model ('notes.txt')" in ended.error
    ended = command("xml", "train", tmp_path / "nosuch.txt", "-o", tmp_path / "notes.txt")
    assert "is a file: name a folder for the model" in ended.error


def test_a_mistyped_data_set_or_file_brings_the_closest(files, tmp_path):
    ended = command("xml", "train", "bibtx", "-o", tmp_path / "model")
    assert (ended.code, "'bibtex'" in ended.error) == (2, True)
    ended = command("xml", "train", tmp_path / "trian.txt", "-o", tmp_path / "model")
    assert ended.code == 2
    assert f"did you mean '{files[0]}'" in ended.error
    assert command("xml", "train", files[0], "-o", tmp_path / "model", "--method", "one-vs-all").code == 0
    for name in ("predict", "evaluate"):
        ended = command(
            "xml", name, tmp_path / "model", tmp_path / "tst.txt", *(("-o", "r") if name == "predict" else ())
        )
        assert (ended.code, f"did you mean '{files[1]}'" in ended.error) == (2, True)


def test_rows_without_labels_are_ranked(files, tmp_path):
    assert command("xml", "train", files[0], "-o", tmp_path / "model", "--method", "one-vs-all").code == 0
    (tmp_path / "new.txt").write_text("2 30\n1:1 3:1\n25:2\n")
    ended = command("xml", "predict", tmp_path / "model", tmp_path / "new.txt", "-o", tmp_path / "ranked.txt", "-k", 1)
    assert ended.code == 0, ended.error
    assert [line[:2] for line in (tmp_path / "ranked.txt").read_text().splitlines()] == ["2 ", "0:", "2:"]


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 no zip", b"\x7fELF\x02\x01\x00\x00", b"once upon a time\n"])
def test_a_file_of_another_kind_is_refused(content, tmp_path):
    for name in ("train.txt", "train.svm", "train.npz", "train.txt.gz"):
        (tmp_path / name).write_bytes(content)
        labels = ("-y", tmp_path / name) if name.endswith(".npz") else ()
        ended = command("xml", "train", tmp_path / name, *labels, "-o", tmp_path / "model")
        assert ended.code == 2
        assert str(tmp_path / name) in ended.error
        assert not (tmp_path / "model").exists()


def test_a_damaged_file_is_refused_with_its_line(files, tmp_path):
    files[0].write_text(files[0].read_text().replace("\n1 ", "\n7 ", 1))
    ended = command("xml", "train", files[0], "-o", tmp_path / "model")
    assert ended.code == 2
    assert "line" in ended.error
    assert "the label '7' is out of range" in ended.error


def test_a_model_of_another_kind_and_other_features_are_refused(files, tmp_path):
    sl.GaussianEncoder(n_components=2, random_state=0).fit(np.eye(4)).save(tmp_path / "encoder")
    ended = command("xml", "evaluate", tmp_path / "encoder", files[1])
    assert (ended.code, "holds a GaussianEncoder" in ended.error) == (2, True)
    assert command("xml", "train", files[0], "-o", tmp_path / "model", "--method", "one-vs-all").code == 0
    (tmp_path / "other.txt").write_text("1 31 5\n0 3:1\n")
    ended = command("xml", "evaluate", tmp_path / "model", tmp_path / "other.txt")
    assert (ended.code, "has 31 features but 30 were expected" in ended.error) == (2, True)


def test_a_data_set_without_features_is_refused(tmp_path):
    ended = command("xml", "train", "synthetic1", "-o", tmp_path / "model")
    assert (ended.code, "has no features" in ended.error) == (2, True)
