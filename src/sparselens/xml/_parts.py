"""Fitted state that is more than arrays: trees of arrays, CSR matrices and fitted encoders, on disk and resumed.

A tree is an array, a CSR matrix, a fitted encoder or classifier, a number or text, or a list or dictionary of trees.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from sparselens._files import written_whole
from sparselens.data.npz import read_arrays
from sparselens.persist import Storable, describe, rebuild, rows_checksum
from sparselens.recovery import CheckpointError, CorruptFileError

Arrays = dict[str, np.ndarray]


def flatten(tree: Any, arrays: Arrays, at: str) -> Any:
    """Put the arrays of a tree into `arrays`, under names that begin with `at`; return the rest as JSON.

    Examples
    --------
    >>> arrays = {}
    >>> outline = flatten({"W": np.eye(2), "k": 3}, arrays, "t")
    >>> outline, list(arrays)
    ({'dict': {'W': {'array': 't.W'}, 'k': {'value': 3}}}, ['t.W'])
    >>> unflatten(outline, arrays)["k"]
    3
    """
    if isinstance(tree, np.ndarray):
        arrays[at] = tree
        return {"array": at}
    if sp.issparse(tree):
        tree = sp.csr_array(tree)
        arrays |= {f"{at}.{name}": getattr(tree, name) for name in ("data", "indices", "indptr")}
        return {"csr": at, "shape": list(map(int, tree.shape))}
    if isinstance(tree, Storable):
        described, own = describe(tree)
        arrays |= {f"{at}.{name}": value for name, value in own.items()}
        return {"model": at, "described": _quoted(described)}
    if isinstance(tree, dict):
        return {"dict": {key: flatten(value, arrays, f"{at}.{key}") for key, value in tree.items()}}
    if isinstance(tree, (list, tuple)):
        return {"list": [flatten(value, arrays, f"{at}.{i}") for i, value in enumerate(tree)]}
    return {"value": tree}


def unflatten(outline: Any, arrays: Arrays) -> Any:
    """The tree that `flatten` took apart; a ValueError or KeyError where the pieces do not fit."""
    if "array" in outline:
        return arrays[outline["array"]]
    if "csr" in outline:
        data, indices, indptr = (arrays[f"{outline['csr']}.{name}"] for name in ("data", "indices", "indptr"))
        matrix = sp.csr_array((data, indices, indptr), shape=tuple(outline["shape"]))
        matrix.check_format(full_check=True)
        return matrix
    if "model" in outline:
        prefix = f"{outline['model']}."
        own = {name[len(prefix) :]: value for name, value in arrays.items() if name.startswith(prefix)}
        return rebuild(json.loads(outline["described"]), own)
    if "dict" in outline:
        return {key: unflatten(value, arrays) for key, value in outline["dict"].items()}
    if "list" in outline:
        return [unflatten(value, arrays) for value in outline["list"]]
    return outline["value"]


def _quoted(described: dict[str, Any]) -> str:
    # As text, because the manifest gives keys such as "$tuple" a meaning of their own when it is read.
    return json.dumps(described, allow_nan=False)


class PartsMixin(Storable):
    """Stores fitted attributes that are trees (``_trees`` names them) beside those that `Storable` knows."""

    _trees: tuple[str, ...] = ("parts_", "labels_")

    def _fitted_arrays(self) -> Arrays:
        arrays = self._plain()._fitted_arrays()
        for name in self._own_trees():
            flatten(getattr(self, name), arrays, name)
        return arrays

    def _fitted_scalars(self) -> dict[str, Any]:
        outlines = {f"{name}outline_": flatten(getattr(self, name), {}, name) for name in self._own_trees()}
        return self._plain()._fitted_scalars() | outlines

    def _restore(self, arrays: Arrays, scalars: dict[str, Any]) -> None:
        outlines = {name: scalars[f"{name}outline_"] for name in self._trees if f"{name}outline_" in scalars}
        inside = tuple(f"{name}." for name in outlines)
        super()._restore(
            {k: v for k, v in arrays.items() if not k.startswith(inside) and k not in outlines},
            {k: v for k, v in scalars.items() if not k.endswith("_outline_")},
        )
        for name, outline in outlines.items():
            setattr(self, name, unflatten(outline, arrays))

    def _own_trees(self) -> list[str]:
        return [name for name in self._trees if hasattr(self, name)]

    def _plain(self) -> Storable:
        """What `Storable` stores by itself."""
        rest = Storable()
        rest.__dict__ |= {name: value for name, value in vars(self).items() if name not in self._trees}
        return rest


class Parts:
    """Finished pieces of a long fit in a folder, so that a killed fit goes on where it was.

    Parameters
    ----------
    folder : path or None
        None keeps nothing.
    model : estimator
        Its parameters must be the same when the fit goes on; so must the data X, Y.
    """

    def __init__(self, folder: str | os.PathLike[str] | None, model: Any, X: sp.csr_array, Y: sp.csr_array) -> None:
        self.folder = None if folder is None else Path(folder)
        if self.folder is None:
            return
        if getattr(model, "random_state", 0) is None:
            raise ValueError("a checkpoint needs random_state=: without a seed the parts of two runs do not fit.")
        params = {key: repr(value) for key, value in sorted(model.get_params().items()) if key != "checkpoint"}
        text = json.dumps([type(model).__name__, params, rows_checksum(X), rows_checksum(Y)])
        mark = hashlib.sha256(text.encode()).hexdigest()
        path = self.folder / "parts.json"
        if path.exists() and _mark_in(path) != mark:
            raise CheckpointError(
                f"{self.folder} holds the parts of another fit (other data or other parameters): "
                "choose an empty folder, or remove it."
            )
        with written_whole(path) as draft:
            draft.write_text(json.dumps({"format": "sparselens parts of a fit", "of": mark}))

    def get(self, name: str, learn: Callable[[], Any]) -> Any:
        """The piece of this name from the folder, or what `learn` returns, which is then kept."""
        if self.folder is None:
            return learn()
        path = self.folder / f"{name}.npz"
        if path.exists():
            return self._read(path)
        tree = learn()
        arrays: Arrays = {}
        outline = json.dumps(flatten(tree, arrays, "t"))
        stored: dict[str, Any] = {f"arrays:{key}": value for key, value in arrays.items()}
        stored["outline"] = np.frombuffer(outline.encode(), dtype=np.uint8)
        with written_whole(path) as draft:
            np.savez(draft, **stored)
        return tree

    @staticmethod
    def _read(path: Path) -> Any:
        try:
            stored = read_arrays(path)
            outline = json.loads(stored.pop("outline").tobytes())
            # Copies, because what was read cannot be written to.
            return unflatten(outline, {name.removeprefix("arrays:"): part.copy() for name, part in stored.items()})
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptFileError(f"{path} is damaged ({error}): remove it, and fit again from there.") from error


def _mark_in(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())["of"]
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptFileError(f"{path} is damaged ({error}): remove its folder, and fit again.") from error
