"""Models on disk: arrays in safetensors, everything else in a JSON manifest, and never a pickle.

A model is a folder with ``manifest.json`` and one ``arrays-*.safetensors`` file. The manifest names the class, its
parameters, its fitted scalars, the measured metrics and the sha256 of the arrays, and carries a checksum of itself,
so that a truncated or edited model is refused with the reason. Loading runs no code from the folder: the class is
looked up in `CLASSES`, a plain dict.

The manifest is put in place last, by one rename, so that a process killed while saving leaves the old model or the
new one, never half of each.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from sparselens._files import written_whole
from sparselens._version import __version__
from sparselens.recovery import CorruptFileError, DataNotFoundError

FORMAT = "sparselens model"
SCHEMA = 1

# The classes that a model may name -> the module that defines each. A name that is not here is refused.
CLASSES = {
    "GaussianEncoder": "sparselens.encoders.random",
    "PartialFourierEncoder": "sparselens.encoders.random",
    "PCAEncoder": "sparselens.encoders.spectral",
    "LBCSEncoder": "sparselens.encoders.spectral",
    "SimpleAE": "sparselens.encoders.autoencoders",
    "DeepAE": "sparselens.encoders.autoencoders",
    "L1AE": "sparselens.encoders.l1ae",
    "ISTAAE": "sparselens.encoders.l1ae",
    "CertificateEncoder": "sparselens.encoders.certificate",
    "RidgeMap": "sparselens.xml.linear_map",
    "SLEECClassifier": "sparselens.xml.sleec",
    "EmbeddingClassifier": "sparselens.xml.embedding",
    "RidgeOneVsAll": "sparselens.xml.one_vs_all",
    "BlendClassifier": "sparselens.xml.blend",
}

_MANIFEST = "manifest.json"
_MANIFEST_BYTES = 2**28  # a manifest beyond this is no manifest of ours
_ARRAYS_FILE = re.compile(r"arrays-[0-9a-f]{16}\.safetensors")
_FITTED_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*_")
_LEFT_OVER = re.compile(r"arrays-[0-9a-f]{16}\.safetensors|\.(manifest|arrays-).*\.tmp\.\w+")  # by a killed save


class Storable:
    """What a class needs to be saved: the defaults store every fitted attribute (``name_``) by its kind.

    Arrays and dictionaries of arrays go to safetensors; numbers, texts, lists, tuples and dictionaries of them to
    the manifest. Attributes that begin with an underscore are caches and are not stored: a class that needs them
    again extends `_restore`. Add the class to `CLASSES`.
    """

    def save(self, folder: str | os.PathLike[str], *, metrics: Mapping[str, Any] | None = None) -> Path:
        """Write the fitted model to a folder (safetensors and a JSON manifest); `sparselens.load` reads it.

        Parameters
        ----------
        folder : path
            Made where it does not exist. A model that is there already is replaced; a folder that holds something
            else is refused.
        metrics : dict, optional
            Figures to keep with the model, for example ``recovery_report(X, rec).as_dict()``.

        Returns
        -------
        The folder, as a `pathlib.Path`.
        """
        return save(self, folder, metrics=metrics)

    def _fitted_arrays(self) -> dict[str, np.ndarray]:
        """Every array that makes the fitted model, under its attribute's name (``name_/key`` for a dictionary)."""
        arrays: dict[str, np.ndarray] = {}
        for name, value in _fitted(self).items():
            if _is_numeric(value):
                arrays[name] = value
            elif isinstance(value, dict) and any(_is_numeric(entry) for entry in value.values()):
                arrays |= {f"{name}/{key}": np.asarray(entry) for key, entry in value.items()}
        return arrays

    def _fitted_scalars(self) -> dict[str, Any]:
        """Every fitted value that is not an array of numbers."""
        stored = {name.partition("/")[0] for name in self._fitted_arrays()}
        return {name: value for name, value in _fitted(self).items() if name not in stored}

    def _restore(self, arrays: dict[str, np.ndarray], scalars: dict[str, Any]) -> None:
        """Take back what `_fitted_arrays` and `_fitted_scalars` gave; raise a ValueError where it does not fit."""
        values: dict[str, Any] = dict(scalars)
        for name, value in arrays.items():
            attribute, is_entry, key = name.partition("/")
            if is_entry:
                values.setdefault(attribute, {})[key] = value
            else:
                values[attribute] = value
        for name, value in values.items():
            if not _FITTED_NAME.fullmatch(name) or hasattr(type(self), name):
                raise ValueError(f"{name!r} is not the name of a fitted attribute")
            setattr(self, name, value)


def save(model: Any, folder: str | os.PathLike[str], *, metrics: Mapping[str, Any] | None = None) -> Path:
    """Write a fitted model to a folder; see `Storable.save`.

    Examples
    --------
    >>> import tempfile, numpy as np, sparselens as sl
    >>> enc = sl.GaussianEncoder(n_components=2, random_state=0).fit(np.eye(5))
    >>> with tempfile.TemporaryDirectory() as home:
    ...     again = load(save(enc, home + "/model", metrics={"exact": 0.5}))
    >>> again
    GaussianEncoder(random_state=0)
    >>> bool((again.components_ == enc.components_).all())
    True
    """
    described, arrays = describe(model)
    manifest: dict[str, Any] = {"format": FORMAT, "schema": SCHEMA, "version": __version__, **described}
    manifest["metrics"] = {key: _encode(value, f"the metric {key}") for key, value in (metrics or {}).items()}
    target = _make_room(Path(folder))
    replaced = _arrays_file_of(target)
    manifest["arrays"] = _write_arrays(target, arrays)
    manifest["sha256"] = _checksum(manifest)
    text = json.dumps(manifest, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    with written_whole(target / _MANIFEST) as draft:
        draft.write_text(text, encoding="utf-8")
    if replaced is not None and replaced != manifest["arrays"]["file"]:
        (target / replaced).unlink(missing_ok=True)
    return target


def load(folder: str | os.PathLike[str]) -> Any:
    """Read a model that `save` wrote, or raise an error that says why it cannot be trusted.

    Raises
    ------
    DataNotFoundError
        There is no such folder.
    CorruptFileError
        The folder is not a model, or it is truncated, edited, or from a newer version of the library.
    """
    manifest = read_manifest(folder)
    where = Path(folder)
    name = manifest.get("class")
    if not isinstance(name, str) or name not in CLASSES:
        raise CorruptFileError(
            f"{where} holds a model of the unknown class {name!r}: this version knows {', '.join(sorted(CLASSES))}."
        )
    arrays = _read_arrays(where, manifest.get("arrays"))
    try:
        return rebuild(manifest, arrays)
    except (TypeError, ValueError, KeyError, AttributeError, OverflowError, RecursionError) as error:
        raise CorruptFileError(
            f"{where} does not hold a fitted {name} of version {__version__} (it says version "
            f"{manifest.get('version')!r}): {error}. Save the model again with this version."
        ) from error


def describe(model: Any) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """A fitted model as JSON (class, parameters, fitted scalars) and arrays; `rebuild` makes it again."""
    name = type(model).__name__
    if not _is_storable(model):
        known = ", ".join(sorted(CLASSES))
        raise TypeError(f"{type(model).__module__}.{name} cannot be saved: the classes that can be are {known}.")
    scalars = model._fitted_scalars()
    if not getattr(model, "__sklearn_is_fitted__", lambda: bool(scalars))():
        raise ValueError(f"this {name} is not fitted yet: call fit before save.")
    params, param_arrays, unsaved = _split_params(model.get_params(deep=False))
    arrays = {f"fitted:{key}": value for key, value in model._fitted_arrays().items()}
    arrays |= {f"param:{key}": value for key, value in param_arrays.items()}
    described: dict[str, Any] = {
        "class": name,
        "params": {key: _encode(value, f"the parameter {key}") for key, value in params.items()},
        "unsaved_params": unsaved,
        "fitted": {key: _encode(value, f"{name}.{key}") for key, value in scalars.items()},
    }
    return described, arrays


def rebuild(described: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Any:
    """The model that `describe` took apart; a ValueError where the pieces do not fit."""
    params = {key: _decode(value) for key, value in described["params"].items()}
    params |= {key[6:]: value for key, value in arrays.items() if key.startswith("param:")}
    model = _class_of(described["class"])(**params)
    model._restore(
        {key[7:]: value for key, value in arrays.items() if key.startswith("fitted:")},
        {key: _decode(value) for key, value in described["fitted"].items()},
    )
    return model


def read_manifest(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """The checked manifest of a model as a dict: class, version, params, fitted scalars, metrics, arrays."""
    where = Path(folder)
    if not where.exists():
        raise DataNotFoundError(f"there is no model at {where}: pass the folder that save wrote.")
    if not where.is_dir():
        raise CorruptFileError(f"{where} is a file, not a model folder: pass the folder that save wrote.")
    path = where / _MANIFEST
    if not path.is_file():
        raise CorruptFileError(f"{where} has no {_MANIFEST}: it is not a sparselens model, or saving was interrupted.")
    if path.stat().st_size > _MANIFEST_BYTES:
        raise CorruptFileError(f"{path} is larger than any manifest: it is not a sparselens model.")
    try:
        manifest = json.loads(path.read_bytes())
        checksum = _checksum(manifest) if isinstance(manifest, dict) else None
    except (ValueError, RecursionError) as error:
        raise CorruptFileError(f"{path} is not JSON ({error}): the file is damaged, save the model again.") from None
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise CorruptFileError(f"{path} is not the manifest of a sparselens model: pass the folder that save wrote.")
    schema = manifest.get("schema")
    if not isinstance(schema, int) or schema < 1:
        raise CorruptFileError(f"{path} has the schema {schema!r}, which never existed: the file is damaged.")
    if schema > SCHEMA:
        raise CorruptFileError(
            f"{where} was written by a newer sparselens (schema {schema}, version {manifest.get('version')!r}; this "
            f"is schema {SCHEMA}, version {__version__}): upgrade sparselens to read it."
        )
    if manifest.get("sha256") != checksum:
        raise CorruptFileError(f"{path} was edited or damaged: its checksum does not match; save the model again.")
    return manifest


def fingerprint(model: Any) -> str:
    """sha256 of a fitted model's arrays: the same in memory and after loading, whatever metrics were added to it."""
    digest = hashlib.sha256(type(model).__name__.encode())
    for name, value in sorted(model._fitted_arrays().items()):
        digest.update(f"{name} {value.dtype.str} {value.shape}".encode())
        digest.update(np.ascontiguousarray(value).data)
    return digest.hexdigest()


def rows_checksum(X: sp.csr_array) -> str:
    """sha256 of canonical CSR rows: the same for the same numbers, whatever container they came in."""
    digest = hashlib.sha256(np.array(X.shape, dtype="<i8").tobytes())
    for part, kind in ((X.indptr, "<i8"), (X.indices, "<i8"), (X.data, "<f8")):
        digest.update(np.ascontiguousarray(part, dtype=kind).data)
    return digest.hexdigest()


# ---- the folder ---------------------------------------------------------------------------------------------


def _make_room(target: Path) -> Path:
    """The folder, made where it is missing; refused where it holds something that is not a model of ours."""
    if target.exists() and not target.is_dir():
        raise FileExistsError(f"{target} is a file: choose another folder for the model.")
    target.mkdir(parents=True, exist_ok=True)
    names = {entry.name for entry in target.iterdir()}
    ours = {name for name in names if _LEFT_OVER.fullmatch(name)}
    if names - ours and not _is_model(target / _MANIFEST):
        raise FileExistsError(
            f"{target} exists and is not a sparselens model (it holds {sorted(names - ours)[0]!r}): "
            "choose another folder, so that nothing is lost."
        )
    return target


def _is_model(manifest: Path) -> bool:
    try:
        return bool(json.loads(manifest.read_bytes()).get("format") == FORMAT)
    except (OSError, ValueError, RecursionError, AttributeError):
        return False


def _arrays_file_of(target: Path) -> str | None:
    """The arrays file that the present manifest names, to be removed once the new one is in place."""
    try:
        name = json.loads((target / _MANIFEST).read_bytes())["arrays"]["file"]
    except (OSError, ValueError, RecursionError, KeyError, TypeError):
        return None
    return name if isinstance(name, str) and _ARRAYS_FILE.fullmatch(name) else None


def _write_arrays(target: Path, arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    """Write the safetensors file under the name of its content; return what the manifest says about it."""
    from safetensors.numpy import save as to_bytes

    # safetensors reads the buffer as it lies, so an array in Fortran order must be laid out anew.
    content = to_bytes({name: np.ascontiguousarray(value) for name, value in arrays.items()})
    sha256 = hashlib.sha256(content).hexdigest()
    name = f"arrays-{sha256[:16]}.safetensors"
    with written_whole(target / name) as draft:
        draft.write_bytes(content)
    shapes = {key: [str(value.dtype), *value.shape] for key, value in arrays.items()}
    return {"file": name, "sha256": sha256, "shapes": shapes}


def _read_arrays(where: Path, described: Any) -> dict[str, np.ndarray]:
    from safetensors import SafetensorError
    from safetensors.numpy import load as from_bytes

    name = described.get("file") if isinstance(described, dict) else None
    if not isinstance(name, str) or not _ARRAYS_FILE.fullmatch(name):
        raise CorruptFileError(f"{where / _MANIFEST} names no arrays file: the model is damaged, save it again.")
    try:
        content = (where / name).read_bytes()
    except FileNotFoundError:
        raise CorruptFileError(f"{where} lacks the file {name}: copy the whole folder, or save it again.") from None
    if hashlib.sha256(content).hexdigest() != described.get("sha256"):
        raise CorruptFileError(
            f"{where / name} is truncated or was edited: its sha256 does not match the manifest; save the model again."
        )
    try:
        arrays = from_bytes(content)
    except (SafetensorError, ValueError, KeyError) as error:
        raise CorruptFileError(f"{where / name} is not a safetensors file ({error}): save the model again.") from None
    return {key: value.copy() for key, value in arrays.items()}  # what was read is a read-only view


# ---- values as JSON -----------------------------------------------------------------------------------------


def _fitted(model: Any) -> dict[str, Any]:
    return {name: value for name, value in vars(model).items() if name.endswith("_") and not name.startswith("_")}


def _is_storable(model: Any) -> bool:
    return CLASSES.get(type(model).__name__) == type(model).__module__


def _class_of(name: Any) -> Any:
    if not isinstance(name, str) or name not in CLASSES:
        raise ValueError(f"the class {name!r} is unknown: this version knows {', '.join(sorted(CLASSES))}")
    return getattr(import_module(CLASSES[name]), name)


def _is_numeric(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind in "biuf"


def _split_params(params: dict[str, Any]) -> tuple[dict[str, Any], dict[str, np.ndarray], list[str]]:
    """Parameters for the manifest, arrays, and the names of those that are no data (a generator, a callback).

    The last come back as None: the matrix is drawn already, so that nothing depends on them.
    """
    kinds = (np.random.RandomState, np.random.Generator)
    unsaved = sorted(key for key, value in params.items() if isinstance(value, kinds) or callable(value))
    arrays = {key: value for key, value in params.items() if _is_numeric(value)}
    plain = {key: None if key in unsaved else value for key, value in params.items() if key not in arrays}
    return plain, arrays, unsaved


def _encode(value: Any, what: str) -> Any:
    """A value as JSON that comes back as it was: NaN, infinities, tuples and arrays of names included."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if np.isfinite(value) else {"$float": repr(value)}
    if isinstance(value, list):
        return [_encode(entry, what) for entry in value]
    if isinstance(value, tuple):
        return {"$tuple": [_encode(entry, what) for entry in value]}
    if isinstance(value, np.ndarray) and value.dtype.kind in "OU" and all(isinstance(s, str) for s in value.flat):
        return {"$names": value.tolist()}
    if isinstance(value, dict) and all(isinstance(key, str) and not key.startswith("$") for key in value):
        return {key: _encode(entry, what) for key, entry in value.items()}
    if _is_storable(value):  # an estimator as a parameter of another: its settings, not what it has learned
        params, arrays, _ = _split_params(value.get_params(deep=False))
        params |= {key: entry.tolist() for key, entry in arrays.items()}
        return {"$estimator": type(value).__name__, "params": {k: _encode(v, what) for k, v in params.items()}}
    raise TypeError(f"{what} is a {type(value).__name__}, which cannot be saved: use numbers, texts, lists or arrays.")


def _decode(value: Any) -> Any:
    if isinstance(value, list):
        return [_decode(entry) for entry in value]
    if not isinstance(value, dict):
        return value
    if "$float" in value:
        return float(value["$float"])
    if "$tuple" in value:
        return tuple(_decode(entry) for entry in value["$tuple"])
    if "$estimator" in value:
        return _class_of(value["$estimator"])(**{key: _decode(entry) for key, entry in value["params"].items()})
    if "$names" in value:
        return np.array(value["$names"], dtype=object)
    return {key: _decode(entry) for key, entry in value.items()}


def _checksum(manifest: dict[str, Any]) -> str:
    """sha256 of the manifest's content, its own checksum left out; spaces and the order of keys do not count."""
    body = {key: value for key, value in manifest.items() if key != "sha256"}
    return hashlib.sha256(json.dumps(body, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
