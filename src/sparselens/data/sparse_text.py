"""Sparse rows written as text: the XMC format of multi-label repositories, and svmlight.

A file is read in pieces of some megabytes. A large piece goes through the compiled scanner of `_scan`; where anything
is out of the ordinary, and for small pieces, it is parsed line by line, which either accepts it (comments) or names
the line that is wrong. The two parsers agree on everything that the scanner accepts.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any, Literal, NoReturn

import numpy as np
import scipy.sparse as sp

from sparselens._validation import FloatArray, canonical_csr, check_choice, check_count
from sparselens.data._locate import existing_file, open_binary
from sparselens.recovery import CorruptFileError

MAX_COLUMNS = 2**31 - 1  # what 32-bit column indices can hold
_CHUNK = 1 << 22
_WORTH_COMPILING = 1 << 20  # below this the line parser is done before numba is loaded
_LONGEST_LINE = 1 << 26
_EXTRA_BLANK_LINES = 1000
_HEADER = re.compile(rb"^#?\s*(\d+)[,\s]+(\d+)(?:[,\s]+(\d+))?\s*$")

Kind = Literal["pairs", "xmc", "svmlight"]  # no label / optional whole-number labels / label needed


def read_xmc(path: str | os.PathLike[str]) -> tuple[sp.csr_array, sp.csr_array | None]:
    """Read an XMC text file, plain or compressed.

    The first line is ``n p L`` (rows, features, labels); then a row a line, ``l1,l2 f:v f:v``, everything counted from
    0; a row may lack labels, features or both. With a header of two numbers (``n d`` or ``# n, d``) lines hold
    ``column:value`` alone. A label that is named twice counts once; a feature that is named twice is summed.

    Returns
    -------
    features : csr_array of shape (n, p), float64
    labels : csr_array of shape (n, L) of ones, or None with a header of two numbers

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "train.txt"
    >>> _ = path.write_text("2 3 4\\n0,3 0:1.5 2:1\\n 1:2\\n")
    >>> features, labels = read_xmc(path)
    >>> features.toarray()
    array([[1.5, 0. , 1. ],
           [0. , 2. , 0. ]])
    >>> labels.toarray()
    array([[1., 0., 0., 1.],
           [0., 0., 0., 0.]])
    """
    path = existing_file(path)
    _, p, n_labels = xmc_header(path)
    rows = _Rows()
    for piece in _xmc_parsed(path):
        rows.append(piece)
    features = rows.pairs(p)
    if n_labels is None:
        return features, None
    labels = rows.labels(n_labels)
    labels.data[:] = 1.0
    return features, labels


def xmc_header(path: Path) -> tuple[int, int, int | None]:
    """Rows, features and labels (None with a header of two numbers) that an XMC file declares."""
    with open_binary(path) as stream:
        return _read_header(stream, path)


def xmc_pieces(path: Path) -> Iterator[sp.csr_array]:
    """The features of an XMC file, some megabytes of text at a time."""
    _, p, _ = xmc_header(path)
    for piece in _xmc_parsed(path):
        yield _Rows([piece]).pairs(p)


def _xmc_parsed(path: Path) -> Iterator[_Piece]:
    with open_binary(path) as stream:
        n, p, n_labels = _read_header(stream, path)
        parser = _Parser(path, "pairs" if n_labels is None else "xmc", p, n_labels if n_labels is not None else 0)
        seen = 0
        line = 2
        for text in line_pieces(stream, path):
            piece = parser.parse(text, line)
            line += len(piece.counts)
            if seen + len(piece.counts) > n:
                piece = piece.cut(n - seen, n, path)
            seen += len(piece.counts)
            yield piece
    if seen < n:
        raise CorruptFileError(
            f"{path}, line {seen + 1}: the file ends here; the header declares {n:,} rows but {seen:,} lines follow: "
            "was the file cut short?"
        )


def read_svmlight(
    path: str | os.PathLike[str],
    *,
    n_features: int | None = None,
    zero_based: bool | str = "auto",
    multilabel: bool = False,
) -> tuple[sp.csr_array, Any]:
    """Read an svmlight (libsvm) file, plain or compressed: ``label index:value index:value # comment``.

    Parameters
    ----------
    path : path
    n_features : int or None
        The number of columns; by default one more than the largest index.
    zero_based : bool or "auto"
        Whether columns are counted from 0. "auto" takes them from 0 where index 0 occurs, else from 1.
    multilabel : bool
        Labels are whole numbers from 0, ``3,17``, and may be missing.

    Returns
    -------
    features : csr_array of shape (n, d), float64
    labels : float array of shape (n,), or csr_array (n, L) of ones with ``multilabel=True``

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "a.svm"
    >>> _ = path.write_text("+1 1:0.5 3:2\\n-1 2:1 # a comment\\n")
    >>> features, labels = read_svmlight(path)
    >>> features.toarray(), labels
    (array([[0.5, 0. , 2. ],
           [0. , 1. , 0. ]]), array([ 1., -1.]))
    """
    path = existing_file(path)
    rows = _Rows()
    for piece in _svmlight_parsed(path, multilabel):
        rows.append(piece)
    first, width = _svmlight_columns(path, rows.n, rows.index_range(), n_features, zero_based)
    features = rows.pairs(width, first=first)
    if not multilabel:
        return features, np.concatenate(rows.label_values)
    labels = rows.labels(1 + int(max((part.max() for part in rows.label_values if len(part)), default=0)))
    labels.data[:] = 1.0
    return features, labels


def svmlight_range(path: Path, *, n_features: int | None = None) -> tuple[int, int, int]:
    """Rows of an svmlight file, the index of its first column (0 or 1) and its number of columns, read in pieces."""
    n, smallest, largest = 0, MAX_COLUMNS, -1
    for piece in _svmlight_parsed(path, False):
        n += len(piece.counts)
        if len(piece.indices):
            smallest, largest = min(smallest, int(piece.indices.min())), max(largest, int(piece.indices.max()))
    extent = (smallest, largest) if largest >= 0 else (0, -1)
    first, width = _svmlight_columns(path, n, extent, n_features, "auto")
    return n, first, width


def svmlight_pieces(path: Path, *, first: int, width: int) -> Iterator[sp.csr_array]:
    """The features of an svmlight file, some megabytes of text at a time; `svmlight_range` tells first and width."""
    for piece in _svmlight_parsed(path, False):
        yield _Rows([piece]).pairs(width, first=first)


def _svmlight_parsed(path: Path, multilabel: bool) -> Iterator[_Piece]:
    parser = _Parser(path, "xmc" if multilabel else "svmlight", MAX_COLUMNS, MAX_COLUMNS, skip_blank=True)
    line = 1
    with open_binary(path) as stream:
        for text in line_pieces(stream, path):
            yield parser.parse(text, line)
            line += text.count(b"\n")


def _svmlight_columns(
    path: Path, n: int, extent: tuple[int, int], n_features: int | None, zero_based: bool | str
) -> tuple[int, int]:
    """The index of the first column and the number of columns."""
    check_choice(zero_based, "zero_based", (True, False, "auto"))
    declared = None if n_features is None else check_count(n_features, "n_features")
    if n == 0:
        raise CorruptFileError(f"{path} holds no rows: svmlight lines 'label index:value ...' were expected.")
    smallest, largest = extent
    first = (0 if smallest == 0 else 1) if zero_based == "auto" else (0 if zero_based else 1)
    if smallest < first:
        raise CorruptFileError(f"{path} holds the index 0 but zero_based=False: pass zero_based='auto' or True.")
    width = max(largest + 1 - first, 1) if declared is None else declared
    if largest - first >= width:
        raise CorruptFileError(
            f"{path} holds the index {largest}, which does not fit into n_features={width} columns "
            f"counted from {first}."
        )
    return first, width


def line_pieces(stream: IO[bytes], path: Path) -> Iterator[bytes]:
    """Whole lines, some megabytes at a time, each piece ending in a newline; blanks of every kind become spaces."""
    blanks = bytes.maketrans(b"\r\t\v\f", b"    ")
    rest = b""
    while block := stream.read(_CHUNK):
        cut = block.rfind(b"\n") + 1
        if cut:
            yield (rest + block[:cut]).translate(blanks)
            rest = block[cut:]
        else:
            rest += block
        if len(rest) > _LONGEST_LINE:
            raise CorruptFileError(f"{path} has a line of more than {_LONGEST_LINE:,} bytes: this is no text file.")
    if rest:
        yield rest.translate(blanks) + b"\n"


def is_header(line: bytes) -> bool:
    """Whether a first line is one of an XMC file."""
    return _HEADER.match(line.strip()) is not None


def _read_header(stream: IO[bytes], path: Path) -> tuple[int, int, int | None]:
    line = stream.readline(_CHUNK)
    match = _HEADER.match(line.strip())
    if match is None:
        raise CorruptFileError(
            f"{path}, line 1: a header 'rows columns' or 'rows features labels' was expected, got {_shown(line)}."
            if line
            else f"{path} is empty: an XMC header 'rows features labels' was expected."
        )
    n, p, n_labels = (None if text is None else int(text) for text in match.groups())
    assert n is not None
    assert p is not None
    for value in (n, p, n_labels):
        if value is not None and not 1 <= value <= MAX_COLUMNS:
            raise CorruptFileError(
                f"{path}, line 1: the header declares a size of {value:,}: between 1 and {MAX_COLUMNS:,} was expected."
            )
    return n, p, n_labels


@dataclass
class _Piece:
    """Parsed lines: how many pairs and labels each has, and all of them in order."""

    counts: np.ndarray
    indices: np.ndarray
    values: FloatArray
    label_counts: np.ndarray
    labels: FloatArray

    def without_blank_lines(self) -> _Piece:
        kept = self.counts + self.label_counts > 0
        return replace(self, counts=self.counts[kept], label_counts=self.label_counts[kept])

    def cut(self, keep: int, n: int, path: Path) -> _Piece:
        """The first `keep` lines of the last piece; blank lines may follow the n declared rows, and nothing else."""
        extra = self.counts[keep:] + self.label_counts[keep:]
        if extra.any() or len(extra) > _EXTRA_BLANK_LINES:
            raise CorruptFileError(
                f"{path}, line {n + 2}: the header declares {n:,} rows but more follow: "
                "the header or the file is wrong."
            )
        return replace(self, counts=self.counts[:keep], label_counts=self.label_counts[:keep])


@dataclass
class _Rows:
    """All parsed rows of a file."""

    pieces: list[_Piece] = field(default_factory=list)

    def append(self, piece: _Piece) -> None:
        self.pieces.append(piece)

    @property
    def n(self) -> int:
        return sum(len(piece.counts) for piece in self.pieces)

    @property
    def label_values(self) -> list[FloatArray]:
        return [piece.labels for piece in self.pieces]

    def index_range(self) -> tuple[int, int]:
        parts = [piece.indices for piece in self.pieces if len(piece.indices)]
        if not parts:
            return 0, -1
        return int(min(part.min() for part in parts)), int(max(part.max() for part in parts))

    def pairs(self, width: int, *, first: int = 0) -> sp.csr_array:
        indices = _joined([piece.indices for piece in self.pieces], np.int32) - np.int32(first)
        values = _joined([piece.values for piece in self.pieces], np.float64)
        counts = _joined([piece.counts for piece in self.pieces], np.int64)
        return _csr(values, indices, counts, width)

    def labels(self, width: int) -> sp.csr_array:
        indices = _joined(self.label_values, np.float64).astype(np.int32)
        counts = _joined([piece.label_counts for piece in self.pieces], np.int64)
        return _csr(np.ones(len(indices)), indices, counts, width)


@dataclass
class _Parser:
    """Parses pieces of one file."""

    path: Path
    kind: Kind
    n_columns: int
    n_labels: int
    skip_blank: bool = False

    def parse(self, piece: bytes, first_line: int) -> _Piece:
        """The rows of whole lines, of which the first has the given number."""
        if len(piece) >= _WORTH_COMPILING:
            from sparselens.data._scan import scan

            arrays = scan(piece, self.kind, self.n_columns, self.n_labels)
            if arrays is not None:
                parsed = _Piece(*arrays)
                return parsed.without_blank_lines() if self.skip_blank else parsed
        return self.parse_lines(piece, first_line)

    def parse_lines(self, piece: bytes, first_line: int) -> _Piece:
        counts, indices, values, label_counts, labels = [], [], [], [], []
        for number, line in enumerate(piece.split(b"\n")[:-1], first_line):
            if self.skip_blank:
                line = line.split(b"#", 1)[0]
            tokens = line.split()
            if not tokens and self.skip_blank:
                continue
            own: list[float] = []
            if tokens and b":" not in tokens[0] and self.kind != "pairs":
                own = self._labels(tokens.pop(0), number)
            elif self.kind == "svmlight":
                self._fail(number, f"a label was expected first, got {_shown(tokens[0])}")
            n_pairs = 0
            for token in tokens:
                if self.skip_blank and token.startswith(b"qid:"):
                    continue
                index, value = self._pair(token, number)
                indices.append(index)
                values.append(value)
                n_pairs += 1
            counts.append(n_pairs)
            label_counts.append(len(own))
            labels += own
        return _Piece(
            np.array(counts, dtype=np.int64),
            np.array(indices, dtype=np.int32),
            np.array(values, dtype=np.float64),
            np.array(label_counts, dtype=np.int64),
            np.array(labels, dtype=np.float64),
        )

    def _labels(self, token: bytes, number: int) -> list[float]:
        if self.kind == "svmlight":
            value = _number(token)
            if value is None:
                self._fail(number, f"a number was expected as the label, got {_shown(token)}")
            return [value]
        out = []
        for text in token.split(b","):
            if not text.isdigit():
                self._fail(number, f"labels such as 3,17 were expected first, got {_shown(token)}")
            # The length is checked first: a number of a million digits takes minutes to convert.
            if len(text) > 18 or int(text) >= self.n_labels:
                self._fail(number, f"the label {_shown(text)} is out of range: labels go from 0 to {self.n_labels - 1}")
            out.append(float(int(text)))
        return out

    def _pair(self, token: bytes, number: int) -> tuple[int, float]:
        left, colon, right = token.partition(b":")
        value = _number(right)
        if not colon or not left.isdigit() or value is None:
            what = "has a negative index" if left.startswith(b"-") and left[1:].isdigit() else "is not index:value"
            hint = "; a file with labels needs a header 'rows features labels'" if self.kind == "pairs" else ""
            self._fail(number, f"{_shown(token)} {what}, a whole number from 0 and a finite number{hint}")
        if len(left) > 18 or int(left) >= self.n_columns:
            self._fail(number, f"the index {_shown(left)} is out of range: columns go from 0 to {self.n_columns - 1}")
        return int(left), value

    def _fail(self, number: int, what: str) -> NoReturn:
        raise CorruptFileError(f"{self.path}, line {number}: {what}.")


def _number(text: bytes) -> float | None:
    """A finite number, or None. Python's float also takes 1_000 and nan, which no other reader does."""
    if b"_" in text:
        return None
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _shown(text: bytes) -> str:
    """A short, printable form of what was found in a file."""
    short = text.strip()[:40].decode("ascii", "backslashreplace")
    return repr(short) + (" ..." if len(text.strip()) > 40 else "")


def _joined(parts: list[Any], dtype: Any) -> Any:
    return np.concatenate(parts).astype(dtype, copy=False) if parts else np.empty(0, dtype=dtype)


def _csr(values: FloatArray, indices: np.ndarray, counts: np.ndarray, width: int) -> sp.csr_array:
    indptr = np.concatenate(([0], np.cumsum(counts)))
    if indptr[-1] <= MAX_COLUMNS:
        indptr = indptr.astype(np.int32)
    return canonical_csr(sp.csr_array((values, indices, indptr), shape=(len(counts), width)))
