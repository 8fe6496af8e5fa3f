"""A user's own multi-label files: features and labels of the same rows, and ranked labels as text."""

from __future__ import annotations

import os
from pathlib import Path
from typing import IO

import numpy as np
import scipy.sparse as sp

from sparselens._files import written_whole
from sparselens._validation import check_choice, check_count, check_labels, check_rows
from sparselens.data._locate import COMPRESSED, existing_file, open_binary
from sparselens.data.npz import read_npy, read_npz
from sparselens.data.sparse_text import is_header, read_svmlight, read_xmc
from sparselens.recovery import CorruptFileError

FORMATS = ("xmc", "svmlight", "npz")
_KINDS = {
    ".npz": "npz",
    ".npy": "npz",
    ".svm": "svmlight",
    ".svmlight": "svmlight",
    ".libsvm": "svmlight",
    ".xmc": "xmc",
}


def read_multilabel(
    path: str | os.PathLike[str],
    labels: str | os.PathLike[str] | None = None,
    *,
    format: str | None = None,  # noqa: A002 - as in read_matrix
    n_features: int | None = None,
    n_labels: int | None = None,
) -> tuple[sp.csr_array, sp.csr_array]:
    """Read features X (n, p) and labels Y (n, L) from a file of your own.

    Parameters
    ----------
    path : path
        One of

        * XMC text: a header ``n p L``, then ``l1,l2 f:v f:v`` a row, everything counted from 0;
        * svmlight, multi-label: ``l1,l2 f:v f:v`` without a header;
        * ``.npz``, the features as CSR, or ``.npy``; `labels` is then the ``.npz`` of the labels.

        Text may be compressed (``.gz``, ``.xz``, ``.bz2``). A row may lack labels, features or both (in svmlight an
        empty line is no row), a label may lack rows; every nonzero of a label matrix is a label. Svmlight is counted
        from 0 as well: in a file that counts features from 1, column 0 stays empty.
    labels : path, optional
        The labels beside a matrix of features: ``.npz``, or XMC text, with a header ``n L`` or ``n p L``.
    format : "xmc", "svmlight" or "npz", optional
        By default the ending decides, or the first line.
    n_features, n_labels : int, optional
        How many there are: widens what an svmlight file shows of them, and is checked otherwise.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "train.txt"
    >>> _ = path.write_text("2 3 4\\n0,3 0:1.5 2:1\\n 1:2\\n")
    >>> X, Y = read_multilabel(path)
    >>> X.shape, Y.toarray()
    ((2, 3), array([[1., 0., 0., 1.],
           [0., 0., 0., 0.]]))
    """
    path = existing_file(path)
    kind = _detect(path) if format is None else check_choice(format, "format", FORMATS)
    if labels is not None and kind != "npz":
        raise ValueError(f"{path} holds its own labels: a second file goes with a features .npz alone.")
    if labels is None and kind == "npz":
        raise ValueError(f"{path} holds features alone: name the file of the labels too (a .npz of the same rows).")
    X, Y = _read(path, kind)
    where = path
    if labels is not None:
        where = existing_file(labels)
        Y = _read_labels(where)
    if Y is None:
        raise CorruptFileError(f"{path}, line 1: a header 'rows features labels' was expected, got two numbers.")
    if X.shape[0] != Y.shape[0]:
        raise CorruptFileError(
            f"{path} has {X.shape[0]:,} rows of features but {labels} has {Y.shape[0]:,} rows of labels: "
            "they do not belong together."
        )
    return (
        _of_width(check_rows(X, name=str(path)), n_features, "features", path, kind),
        _of_width(check_labels(Y, name=str(where)), n_labels, "labels", where, kind),
    )


def read_features(path: str | os.PathLike[str], *, n_features: int | None = None) -> sp.csr_array:
    """The features (n, p) of a file that `read_multilabel` reads; its labels, if it has any, are left out.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "new.txt"
    >>> _ = path.write_text("2 3\\n0:1.5 2:1\\n1:2\\n")
    >>> read_features(path).toarray()
    array([[1.5, 0. , 1. ],
           [0. , 2. , 0. ]])
    """
    path = existing_file(path)
    kind = _detect(path)
    return _of_width(check_rows(_read(path, kind)[0], name=str(path)), n_features, "features", path, kind)


def write_ranking(path: str | os.PathLike[str], scores: sp.csr_array) -> None:
    """Write ranked labels as text: a header ``n L``, then ``label:score label:score`` a row, the best first.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "ranked.txt"
    >>> write_ranking(path, sp.csr_array([[0.25, 0.0, 0.5]]))
    >>> path.read_text()
    '1 3\\n2:0.5 0:0.25\\n'
    """
    with written_whole(Path(path)) as draft, draft.open("w", encoding="ascii") as out:
        _write_rows(out, sp.csr_array(scores))


def _write_rows(out: IO[str], scores: sp.csr_array) -> None:
    out.write(f"{scores.shape[0]} {scores.shape[1]}\n")
    for first, last in zip(scores.indptr[:-1], scores.indptr[1:], strict=True):
        labels, values = scores.indices[first:last], scores.data[first:last]
        order = np.lexsort((labels, -values))
        out.write(" ".join(f"{labels[i]}:{values[i]:.9g}" for i in order) + "\n")


def _detect(path: Path) -> str:
    name = Path(path.name)
    if name.suffix.lower() in COMPRESSED:
        name = name.with_suffix("")
    if kind := _KINDS.get(name.suffix.lower()):
        return kind
    with open_binary(path) as stream:
        first = stream.readline(1 << 16)
    if not first.strip():
        raise CorruptFileError(f"{path} is empty or begins with an empty line: an XMC header or a row was expected.")
    return "xmc" if is_header(first) else "svmlight"


def _read(path: Path, kind: str) -> tuple[sp.csr_array, sp.csr_array | None]:
    """Features and labels, None where the file has no place for them."""
    if kind == "npz":
        return _read_array(path), None
    if kind == "xmc":
        return read_xmc(path)
    # Not "auto": a file in which feature 0 does not happen to occur would be shifted by a column.
    return read_svmlight(path, multilabel=True, zero_based=True)


def _read_array(path: Path) -> sp.csr_array:
    return read_npy(path) if path.suffix == ".npy" else read_npz(path)


def _read_labels(path: Path) -> sp.csr_array:
    if path.suffix in (".npz", ".npy"):
        return _read_array(path)
    matrix, labels = read_xmc(path)
    return matrix if labels is None else labels


def _of_width(matrix: sp.csr_array, width: int | None, what: str, path: Path, kind: str) -> sp.csr_array:
    """The matrix with the declared number of columns."""
    if width is None or matrix.shape[1] == check_count(width, f"n_{what}"):
        return matrix
    # A header or a shape is a promise, the largest index that occurs is not.
    if matrix.shape[1] > width or kind != "svmlight":
        raise CorruptFileError(f"{path} has {matrix.shape[1]:,} {what} but {width:,} were expected.")
    return sp.csr_array((matrix.data, matrix.indices, matrix.indptr), shape=(matrix.shape[0], width))
