"""A user's own multi-label files: features and labels of the same rows, and ranked labels as text."""

from __future__ import annotations

import os
from pathlib import Path
from typing import IO

import numpy as np
import scipy.sparse as sp

from sparselens._files import written_whole
from sparselens._validation import check_choice, check_count
from sparselens.data._locate import COMPRESSED, existing_file, open_binary
from sparselens.data.npz import read_npz
from sparselens.data.sparse_text import is_header, read_svmlight, read_xmc
from sparselens.recovery import CorruptFileError

FORMATS = ("xmc", "svmlight", "npz")


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
        * ``.npz``, the features as CSR; `labels` is then the ``.npz`` of the labels.

        Text may be compressed (``.gz``, ``.xz``, ``.bz2``). A row may lack labels, features or both, a label may lack
        rows; every nonzero of a label matrix is a label.
    labels : path, optional
        The labels beside a features ``.npz``: ``.npz``, or XMC text with a header ``n L``.
    format : "xmc", "svmlight" or "npz", optional
        By default the ending decides, or the first line.
    n_features, n_labels : int, optional
        How many there are: widens what an svmlight file or a matrix shows of them, and is checked otherwise.

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
    if kind == "npz":
        if labels is None:
            raise ValueError(f"{path} holds features alone: name the file of the labels too (a .npz of the same rows).")
        X, Y = read_npz(path), _read_labels(existing_file(labels))
    elif kind == "xmc":
        X, Y = _read_xmc(path)
    else:
        X, Y = read_svmlight(path, multilabel=True)
    if X.shape[0] != Y.shape[0]:
        raise CorruptFileError(
            f"{path} has {X.shape[0]:,} rows of features but {labels} has {Y.shape[0]:,} rows of labels: "
            "they do not belong together."
        )
    Y = sp.csr_array(Y, dtype=np.float64)
    if Y.nnz and Y.data.min() < 0:
        raise CorruptFileError(
            f"{labels}: a label matrix holds nonnegative entries, the smallest is {Y.data.min():.3g}."
        )
    Y.data[:] = 1.0
    wide = kind != "xmc"  # a header is a promise, the largest index that occurs is not
    return (
        _of_width(sp.csr_array(X, dtype=np.float64), n_features, "features", path, wide),
        _of_width(Y, n_labels, "labels", path if labels is None else labels, wide),
    )


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
    known = {".npz": "npz", ".svm": "svmlight", ".svmlight": "svmlight", ".libsvm": "svmlight", ".xmc": "xmc"}
    if kind := known.get(name.suffix.lower()):
        return kind
    with open_binary(path) as stream:
        first = stream.readline(1 << 16)
    if not first.strip():
        raise CorruptFileError(f"{path} is empty or begins with an empty line: an XMC header or a row was expected.")
    return "xmc" if is_header(first) else "svmlight"


def _read_xmc(path: Path) -> tuple[sp.csr_array, sp.csr_array]:
    X, Y = read_xmc(path)
    if Y is None:
        raise CorruptFileError(f"{path}, line 1: a header 'rows features labels' was expected, got two numbers.")
    return X, Y


def _read_labels(path: Path) -> sp.csr_array:
    return read_npz(path) if path.suffix == ".npz" else read_xmc(path)[0]


def _of_width(matrix: sp.csr_array, width: int | None, what: str, path: object, may_widen: bool) -> sp.csr_array:
    """The matrix with the declared number of columns."""
    if width is None or matrix.shape[1] == check_count(width, f"n_{what}"):
        return matrix
    if matrix.shape[1] > width or not may_widen:
        raise CorruptFileError(f"{path} has {matrix.shape[1]:,} {what} but {width:,} were expected.")
    return sp.csr_array((matrix.data, matrix.indices, matrix.indptr), shape=(matrix.shape[0], width))
