"""Models on disk: what comes back is what was saved, and anything else is refused with a reason."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import sparselens as sl
from helpers import sparse_rows
from sparselens import persist
from sparselens.persist import CLASSES, Storable, load, read_manifest, rows_checksum
from sparselens.recovery import CorruptFileError, DataNotFoundError, SparselensError

X = sparse_rows(20, 9, 3, seed=0)


def encoder(seed: int = 0) -> sl.GaussianEncoder:
    return sl.GaussianEncoder(4, random_state=seed).fit(X)


@pytest.fixture
def model(tmp_path):
    """A saved model."""
    return encoder().save(tmp_path / "model", metrics={"exact": 0.75})


def rewrite(folder, **changes) -> None:
    """Change the manifest and give it the right checksum, as someone with bad intentions could."""
    manifest = json.loads((folder / "manifest.json").read_text())
    for key, value in changes.items():
        manifest[key] = value
    manifest["sha256"] = persist._checksum(manifest)
    (folder / "manifest.json").write_text(json.dumps(manifest))


def arrays_file(folder):
    return next(folder.glob("arrays-*.safetensors"))


# ---- what is saved ------------------------------------------------------------------------------------------


def test_a_model_is_a_manifest_and_one_safetensors_file(model):
    assert sorted(p.suffix for p in model.iterdir()) == [".json", ".safetensors"]


def test_the_manifest_says_what_the_model_is(model):
    manifest = read_manifest(model)
    assert manifest["class"] == "GaussianEncoder"
    assert manifest["schema"] == 1
    assert manifest["version"] == sl.__version__
    assert manifest["params"] == {"n_components": 4, "random_state": 0}
    assert manifest["metrics"] == {"exact": 0.75}
    assert manifest["fitted"]["n_features_in_"] == 9
    assert manifest["fitted"]["training_data_"] == {"n_rows": 20, "n_columns": 9, "sha256": rows_checksum(X)}
    assert manifest["arrays"]["sha256"] == hashlib.sha256(arrays_file(model).read_bytes()).hexdigest()
    assert manifest["arrays"]["shapes"] == {"fitted:components_": ["float64", 4, 9]}


def test_saving_twice_gives_the_same_bytes(tmp_path):
    first, second = encoder().save(tmp_path / "a"), encoder().save(tmp_path / "b")
    assert {p.name: p.read_bytes() for p in first.iterdir()} == {p.name: p.read_bytes() for p in second.iterdir()}


def test_a_loaded_model_can_be_saved_and_trained_again(model, tmp_path):
    again = load(load(model).save(tmp_path / "copy"))
    np.testing.assert_array_equal(again.components_, encoder().components_)
    np.testing.assert_array_equal(again.fit(X).components_, encoder().components_)


def test_column_names_come_back(tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X.toarray(), columns=[f"ä{j}" for j in range(9)])
    enc = sl.GaussianEncoder(4, random_state=0).fit(frame)
    again = load(enc.save(tmp_path / "model"))
    assert list(again.feature_names_in_) == list(frame.columns)
    np.testing.assert_array_equal(again.transform(frame), enc.transform(frame))


def test_a_generator_is_not_saved_and_the_manifest_says_so(tmp_path):
    enc = sl.GaussianEncoder(4, random_state=np.random.RandomState(0)).fit(X)
    folder = enc.save(tmp_path / "model")
    assert read_manifest(folder)["unsaved_params"] == ["random_state"]
    again = load(folder)
    assert again.random_state is None
    np.testing.assert_array_equal(again.components_, enc.components_)


def test_numpy_numbers_as_parameters_come_back_as_numbers(tmp_path):
    enc = sl.GaussianEncoder(np.int64(4), random_state=np.int32(3)).fit(X)
    assert load(enc.save(tmp_path / "model")).get_params() == {"n_components": 4, "random_state": 3}


def test_an_encoder_of_signed_rows_comes_back_with_its_signed_decoder(tmp_path):
    signed = sparse_rows(20, 9, 2, seed=1, signed=True)
    again = load(sl.GaussianEncoder(8, random_state=0).fit(signed).save(tmp_path / "model"))
    assert again.decoder().positive is False


class Network(Storable):
    """A stand-in for a trained network: dictionaries of arrays, a history, an array as a parameter."""

    def __init__(self, init=None, sizes=(2, 3)):
        self.init = init
        self.sizes = sizes

    def get_params(self, deep=False):
        return {"init": self.init, "sizes": self.sizes}


@pytest.fixture
def network(monkeypatch):
    monkeypatch.setitem(CLASSES, "Network", __name__)
    monkeypatch.setitem(sys.modules, __name__, sys.modules.get(__name__) or type(sys)(__name__))
    monkeypatch.setattr(sys.modules[__name__], "Network", Network, raising=False)
    net = Network(init=np.arange(6.0).reshape(2, 3), sizes=(5, 7))
    net.weights_ = {"gamma": np.float32([1.5, np.nan]), "layers": np.arange(4), "empty": np.zeros((0, 3))}
    net.mask_ = np.array([True, False])
    net.history_ = [{"epoch": 1, "loss": float("inf")}, {"epoch": 2, "loss": 0.1 + 0.2}]
    net.shape_ = (3, 4)
    net.nothing_ = None
    net.step_ = np.float64(0.1)
    net._cache = object()
    return net


def test_a_network_with_dictionaries_of_arrays_comes_back_as_it_was(network, tmp_path):
    again = load(network.save(tmp_path / "model"))
    assert again.weights_.keys() == network.weights_.keys()
    for key, value in network.weights_.items():
        np.testing.assert_array_equal(again.weights_[key], value)
        assert again.weights_[key].dtype == value.dtype
    np.testing.assert_array_equal(again.mask_, network.mask_)
    np.testing.assert_array_equal(again.init, network.init)
    assert (again.history_, again.shape_, again.nothing_, again.step_) == (network.history_, (3, 4), None, 0.1)
    assert again.sizes == (5, 7)
    assert not hasattr(again, "_cache")
    again.weights_["gamma"][0] = 2.0  # what is loaded can be written to


@pytest.mark.parametrize("value", [object(), {1: 2}, {"$float": 1}, {"a": object()}, 1j, b"bytes", {1, 2}])
def test_what_cannot_be_saved_without_pickle_is_named(network, value, tmp_path):
    network.strange_ = value
    with pytest.raises(TypeError, match=r"Network\.strange_ is a .*, which cannot be saved"):
        network.save(tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_a_class_that_is_not_listed_is_not_saved(tmp_path):
    class GaussianEncoder(sl.GaussianEncoder):  # the name of a known class is not enough
        pass

    with pytest.raises(TypeError, match=r"GaussianEncoder cannot be saved: the classes that can be are .*PCAEncoder"):
        GaussianEncoder(2, random_state=0).fit(X).save(tmp_path / "model")


# ---- where it is saved --------------------------------------------------------------------------------------


def test_folders_on_the_way_are_made(tmp_path):
    assert load(encoder().save(tmp_path / "a" / "b" / "model")).n_components == 4


def test_a_model_is_replaced_and_leaves_nothing_of_the_old_one(model):
    encoder(seed=1).save(model)
    assert len(list(model.iterdir())) == 2
    np.testing.assert_array_equal(load(model).components_, encoder(seed=1).components_)


def test_a_damaged_model_can_be_replaced(model):
    arrays_file(model).write_bytes(b"")
    manifest = model / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"schema": 1', '"schema": 9'))
    encoder(seed=1).save(model)
    np.testing.assert_array_equal(load(model).components_, encoder(seed=1).components_)


def test_a_users_own_file_in_a_model_folder_stays(model):
    (model / "notes.txt").write_text("mine")
    encoder(seed=1).save(model)
    assert (model / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize("content", [{"notes.txt": "mine"}, {"manifest.json": "{}"}, {"manifest.json": "[1]"}])
def test_a_folder_that_is_no_model_is_left_alone(tmp_path, content):
    folder = tmp_path / "thesis"
    folder.mkdir()
    for name, text in content.items():
        (folder / name).write_text(text)
    with pytest.raises(FileExistsError, match=r"thesis exists and is not a sparselens model .*choose another folder"):
        encoder().save(folder)
    assert {p.name: p.read_text() for p in folder.iterdir()} == content


def test_a_file_in_the_place_of_the_folder_is_left_alone(tmp_path):
    (tmp_path / "model").write_text("mine")
    with pytest.raises(FileExistsError, match="model is a file: choose another folder"):
        encoder().save(tmp_path / "model")


def test_an_empty_folder_and_the_remains_of_a_killed_save_are_used(tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / ".manifest.json.x7.tmp.json").write_bytes(b"half")
    (folder / "arrays-0123456789abcdef.safetensors").write_bytes(b"half")
    assert load(encoder().save(folder)).n_components == 4


@pytest.mark.parametrize("fail_at", [1, 2])
@pytest.mark.parametrize("function", ["replace", "fsync"])
def test_a_save_that_fails_midway_leaves_the_old_model(model, monkeypatch, function, fail_at):
    """Once while the arrays and once while the manifest is written, as a full disk or a kill would do it."""
    real, calls = getattr(os, function), []

    def failing(*args):
        calls.append(args)
        if len(calls) == fail_at:
            raise OSError(28, "No space left on device")
        return real(*args)

    with monkeypatch.context() as patch:
        patch.setattr(os, function, failing)
        with pytest.raises(OSError, match="No space left"):
            encoder(seed=1).save(model)
    np.testing.assert_array_equal(load(model).components_, encoder().components_)
    assert not list(model.glob(".*"))
    encoder(seed=1).save(model)
    np.testing.assert_array_equal(load(model).components_, encoder(seed=1).components_)


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_folder_is_an_error_of_the_system(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(PermissionError):
        encoder().save(tmp_path / "model")


# ---- what is refused ----------------------------------------------------------------------------------------


def test_no_folder_at_all(tmp_path):
    with pytest.raises(DataNotFoundError, match=r"there is no model at .*nowhere: pass the folder that save wrote"):
        load(tmp_path / "nowhere")


def test_a_file_instead_of_a_folder(model):
    with pytest.raises(CorruptFileError, match=r"manifest\.json is a file, not a model folder"):
        load(model / "manifest.json")


def test_a_folder_without_a_manifest(tmp_path):
    with pytest.raises(CorruptFileError, match=r"has no manifest\.json: it is not a sparselens model, or saving was"):
        load(tmp_path)


@pytest.mark.parametrize("text", [b"", b"garbage", b"\xff\xfe\x00", b'{"format": ', b"[" * 100_000, b"1" * 5000])
def test_a_manifest_that_is_not_json(model, text):
    (model / "manifest.json").write_bytes(text)
    with pytest.raises(CorruptFileError, match=r"manifest\.json is not JSON \(.*\): the file is damaged"):
        load(model)


@pytest.mark.parametrize("text", ["{}", "[]", "3", "null", '"text"', '{"format": "other"}'])
def test_json_that_is_no_manifest(model, text):
    (model / "manifest.json").write_text(text)
    with pytest.raises(CorruptFileError, match="is not the manifest of a sparselens model"):
        load(model)


def test_a_manifest_beyond_any_size(model, monkeypatch):
    monkeypatch.setattr(persist, "_MANIFEST_BYTES", 100)
    with pytest.raises(CorruptFileError, match="is larger than any manifest"):
        load(model)


def test_an_edited_manifest(model):
    text = (model / "manifest.json").read_text()
    (model / "manifest.json").write_text(text.replace('"exact": 0.75', '"exact": 0.99'))
    with pytest.raises(CorruptFileError, match="was edited or damaged: its checksum does not match"):
        load(model)


def test_spaces_in_the_manifest_do_not_matter(model):
    manifest = json.loads((model / "manifest.json").read_text())
    (model / "manifest.json").write_text(json.dumps(manifest, indent=8, sort_keys=True))
    np.testing.assert_array_equal(load(model).components_, encoder().components_)


def test_a_newer_schema(model):
    rewrite(model, schema=2, version="9.0")
    with pytest.raises(CorruptFileError, match=r"newer sparselens \(schema 2, version '9.0'; .*\): upgrade sparselens"):
        load(model)


@pytest.mark.parametrize("schema", [0, -1, "1", None, 1.5])
def test_a_schema_that_never_existed(model, schema):
    rewrite(model, schema=schema)
    with pytest.raises(CorruptFileError, match="which never existed"):
        load(model)


@pytest.mark.parametrize("name", ["Pickle", "os.system", "sparselens.encoders.random.GaussianEncoder", None, "", ["a"]])
def test_an_unknown_class(model, name):
    rewrite(model, **{"class": name})
    with pytest.raises(
        CorruptFileError, match=r"a model of the unknown class .*: this version knows .*GaussianEncoder"
    ):
        load(model)


def test_missing_arrays(model):
    arrays_file(model).unlink()
    with pytest.raises(CorruptFileError, match=r"lacks the file arrays-.*\.safetensors: copy the whole folder"):
        load(model)


@pytest.mark.parametrize("keep", [0, 1, 100, -1])
def test_truncated_arrays(model, keep):
    path = arrays_file(model)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(CorruptFileError, match=r"safetensors is truncated or was edited: its sha256 does not match"):
        load(model)


def test_one_changed_bit_in_the_arrays(model):
    content = bytearray(arrays_file(model).read_bytes())
    content[-1] ^= 1
    arrays_file(model).write_bytes(content)
    with pytest.raises(CorruptFileError, match="is truncated or was edited"):
        load(model)


@pytest.mark.parametrize("name", ["../../secrets", "/etc/passwd", "manifest.json", "arrays-x.safetensors", None, 3])
def test_arrays_are_never_read_from_outside_the_folder(model, name):
    rewrite(model, arrays={"file": name, "sha256": "0"})
    with pytest.raises(CorruptFileError, match="names no arrays file"):
        load(model)


def test_a_description_of_the_arrays_that_is_none(model):
    rewrite(model, arrays=[])
    with pytest.raises(CorruptFileError, match="names no arrays file"):
        load(model)


def put_arrays(model, content: bytes) -> None:
    sha256 = hashlib.sha256(content).hexdigest()
    name = f"arrays-{sha256[:16]}.safetensors"
    (model / name).write_bytes(content)
    rewrite(model, arrays={"file": name, "sha256": sha256})


@pytest.mark.parametrize("content", [b"", b"\x80\x04K\x01.", b"\xff" * 64, b"\x02\x00\x00\x00\x00\x00\x00\x00{}extra"])
def test_arrays_that_are_not_safetensors_even_with_the_right_checksum(model, content):
    put_arrays(model, content)
    with pytest.raises(CorruptFileError, match="is not a safetensors file"):
        load(model)


@pytest.mark.parametrize(
    "A",
    [
        np.zeros((4, 8)),
        np.zeros((4, 9), dtype=np.float32),
        np.zeros(9),
        np.full((4, 9), np.nan),
    ],
    ids=["other width", "float32", "vector", "nan"],
)
def test_arrays_that_do_not_fit_the_class(model, A):
    from safetensors.numpy import save as to_bytes

    put_arrays(model, to_bytes({"fitted:components_": A}))
    with pytest.raises(
        CorruptFileError, match=r"does not hold a fitted GaussianEncoder .*components_ must be a finite"
    ):
        load(model)


def test_arrays_that_are_missing_a_part(model):
    from safetensors.numpy import save as to_bytes

    put_arrays(model, to_bytes({"fitted:other_": np.zeros(3)}))
    with pytest.raises(CorruptFileError, match="does not hold a fitted GaussianEncoder"):
        load(model)


@pytest.mark.parametrize("params", [{"n_components": 4, "surprise": 1}, [], None, {"n_components": {"$float": "x"}}])
def test_parameters_that_do_not_fit_the_class(model, params):
    rewrite(model, params=params)
    with pytest.raises(CorruptFileError, match="does not hold a fitted GaussianEncoder of version"):
        load(model)


@pytest.mark.parametrize("name", ["transform", "__class__", "_private_", "fit", "decoder", "__init__", "n_components"])
def test_only_fitted_attributes_are_restored(model, name):
    fitted = read_manifest(model)["fitted"]
    rewrite(model, fitted=fitted | {name: 1})
    with pytest.raises(CorruptFileError, match="is not the name of a fitted attribute"):
        load(model)


@pytest.mark.parametrize(("name", "value"), [("positive_", 1), ("n_features_in_", "9"), ("training_data_", None)])
def test_fitted_values_of_another_type_are_refused(model, name, value):
    rewrite(model, fitted=read_manifest(model)["fitted"] | {name: value})
    with pytest.raises(CorruptFileError, match=f"does not hold a fitted GaussianEncoder .*{name} must be of type"):
        load(model)


def test_loading_does_not_import_what_the_manifest_names(model):
    """In a new process: a class of another module, by any spelling, is refused before anything is imported."""
    rewrite(model, **{"class": "antigravity"})
    code = (
        "import sys, sparselens as sl\n"
        "try: sl.load(sys.argv[1])\n"
        "except ValueError: print('antigravity' in sys.modules)\n"
    )
    out = subprocess.run([sys.executable, "-c", code, str(model)], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "False"


def test_the_library_holds_no_pickle():
    root = Path(sl.__file__).parent
    found = [p.name for p in root.rglob("*.py") if "import pickle" in p.read_text()]
    assert found == []


# ---- checksums of rows --------------------------------------------------------------------------------------


def test_rows_have_the_same_checksum_in_any_integer_width_and_another_for_other_rows():
    wide = sp.csr_array((X.data, X.indices.astype(np.int64), X.indptr.astype(np.int64)), shape=X.shape)
    assert rows_checksum(wide) == rows_checksum(X)
    assert rows_checksum(X[::-1]) != rows_checksum(X)
    assert rows_checksum(X[:, :8]) != rows_checksum(X[:, :9])
    assert rows_checksum(sp.csr_array((2, 3))) != rows_checksum(sp.csr_array((3, 2)))


# ---- fuzzing ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    return encoder().save(tmp_path_factory.mktemp("fuzz") / "model")


mutations = st.lists(
    st.tuples(
        st.sampled_from(["flip", "cut", "insert", "repeat"]),
        st.integers(0, 2**16),
        st.one_of(st.binary(min_size=1, max_size=8), st.sampled_from([b'"', b"{", b"}", b"\x00", b"\n", b" ", b"1"])),
    ),
    min_size=1,
    max_size=4,
)


def mutate(content: bytes, steps) -> bytes:
    for kind, place, new in steps:
        i = place % (len(content) + 1)
        if kind == "flip":
            content = content[:i] + new + content[i + len(new) :]
        elif kind == "cut":
            content = content[:i] + content[i + len(new) * 7 :]
        elif kind == "insert":
            content = content[:i] + new + content[i:]
        else:
            content = content[:i] + content[max(0, i - 9) :]
    return content


def load_or_reason(folder):
    """The loaded encoder, or the text of the library's own error; any other error fails the test."""
    try:
        return load(folder)
    except SparselensError as error:
        return str(error)


@given(which=st.sampled_from(["manifest.json", "arrays"]), steps=mutations)
def test_mutated_bytes_give_a_clear_error_or_the_same_model(original, which, steps):
    with tempfile.TemporaryDirectory() as home:
        folder = shutil.copytree(original, Path(home) / "model")
        path = folder / which if which == "manifest.json" else arrays_file(folder)
        path.write_bytes(mutate(path.read_bytes(), steps))
        again = load_or_reason(folder)
    if isinstance(again, str):
        assert str(folder) in again
    else:
        np.testing.assert_array_equal(again.components_, encoder().components_)
        assert again.get_params() == encoder().get_params()


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=8).filter(lambda key: key[:1] != "$"), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(
    key=st.sampled_from(["params", "fitted", "class", "arrays", "schema", "version", "metrics", "format"]),
    value=json_values,
)
def test_any_value_in_the_manifest_gives_a_clear_error_or_the_same_matrix(original, key, value):
    """Even with the right checksum, as a hostile writer would make it."""
    with tempfile.TemporaryDirectory() as home:
        folder = shutil.copytree(original, Path(home) / "model")
        rewrite(folder, **{key: value})
        again = load_or_reason(folder)
    if isinstance(again, str):
        assert str(folder) in again
    else:
        np.testing.assert_array_equal(again.components_, encoder().components_)


@given(value=json_values)
def test_values_survive_the_manifest(value):
    text = json.dumps(persist._encode(value, "value"), allow_nan=False)
    assert repr(persist._decode(json.loads(text))) == repr(value)  # NaN equals NaN, 1 is not 1.0
