"""Encode and decode whole files, of any length, in bounded memory; an interrupted run goes on where it stopped.

Rows are read in blocks, worked on in this process, in several, or on a Dask cluster, and appended in order to arrays
beside the output (`_parts`), which takes its name when it is whole. Blocks begin at fixed rows, so that a run that was
interrupted and resumed ends with the same bytes as one that was not.
"""

from __future__ import annotations

import os
import time
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import scipy.sparse as sp

from sparselens._block_work import decoding, encoding, packing, unpacking
from sparselens._parts import Parts
from sparselens._validation import check_count
from sparselens._version import __version__
from sparselens.data._locate import existing_file
from sparselens.data.lossless_rows import ARRAYS, LOSSLESS, LosslessRows
from sparselens.data.onehot import Categories, write_onehot_csv
from sparselens.data.rows import MatrixRows, Rows, open_measurements, open_rows, read_small
from sparselens.parallel import call_in_worker, map_in_order
from sparselens.persist import fingerprint, load, rows_checksum
from sparselens.recovery import CorruptFileError, Status

Progress = Callable[[int, int], None]  # called with (rows done, rows in all)


@dataclass(frozen=True)
class FileReport:
    """What was written.

    Attributes
    ----------
    path : str
        The file.
    n_rows, n_columns, n_measurements : int
    n_resumed : int
        Rows that an earlier, interrupted run had left.
    n_bytes : int
        Size of the file.
    seconds : float
        Of this run.
    status : dict
        Of a decoded file: how many rows have each `Status`, by name; of a decoded lossless file GIVEN_BACK and
        DIFFERENT, by a checksum of each row.
    sizes : dict
        Of a lossless file, in bytes: ``npz`` (what `scipy.sparse.save_npz` writes, compressed) and ``gzip`` (XMC text)
        of the same rows, ``rows_measured`` and ``rows_kept``.
    """

    path: str
    n_rows: int
    n_columns: int
    n_measurements: int
    n_resumed: int
    n_bytes: int
    seconds: float
    status: dict[str, int] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)

    @property
    def n_certified(self) -> int:
        """Decoded rows that a certificate proves or, of a lossless file, that agree with their checksum."""
        return sum(self.status.get(name, 0) for name in _CERTIFIED)

    def as_dict(self) -> dict[str, Any]:
        """Everything, as JSON."""
        return asdict(self) | ({"n_certified": self.n_certified} if self.status else {})

    def summary(self) -> str:
        """One or two sentences for people."""
        text = f"{self.path}: {self.n_rows:,} rows, "
        if not self.status:
            text += f"{self.n_measurements} measurements each"
        else:
            word = "given back" if {"GIVEN_BACK", "DIFFERENT"} & self.status.keys() else "certified"
            text += f"{self.n_columns:,} columns, {self.n_certified:,} {word}"
            others = [f"{count:,} {name.lower()}" for name, count in self.status.items() if name not in _CERTIFIED]
            text += "".join(f", {other}" for other in others)
        text += f" ({_in_bytes(self.n_bytes)}, {self.seconds:.1f} s"
        text += f", {self.n_resumed:,} rows from an earlier run)." if self.n_resumed else ")."
        if self.sizes:
            text += (
                f" {self.sizes['rows_measured']:,} rows as measurements, {self.sizes['rows_kept']:,} as they are. The "
                f"same rows take {_in_bytes(self.sizes['npz'])} as compressed npz and {_in_bytes(self.sizes['gzip'])} "
                "as gzipped text."
            )
        return text


_CERTIFIED = (Status.OPTIMAL_UNIQUE.name, Status.OPTIMAL_NOT_UNIQUE.name, "GIVEN_BACK")
_TABLE_ROWS = 10_000  # rows of a table that are written at once
_CSR: dict[str, tuple[str, tuple[int, ...]]] = {"data": ("<f8", ()), "indices": ("<i4", ()), "indptr": ("<i8", ())}


def encode_file(
    model: Any,
    data: Any,
    out: str | os.PathLike[str],
    *,
    lossless: bool = False,
    format: str | None = None,  # noqa: A002 - as in numpy
    resume: bool = False,
    n_jobs: int | None = None,
    engine: str = "processes",
    scheduler: str | None = None,
    block_rows: int | None = None,
    callback: Progress | None = None,
) -> FileReport:
    """Measure every row of a file and write the measurements, in bounded memory.

    Parameters
    ----------
    model : path or fitted encoder
    data : path or matrix of shape (n, d)
        The rows; see `sparselens.data.rows.open_rows` for the formats that are read in pieces. A CSV file is one-hot
        encoded over the categories of the table that the model was fitted to, where it was fitted to one.
    out : path
        A `.npz` file with the float64 array ``Y`` (n, m), or a `.npy` file with that array alone.
    lossless : bool
        Write a file from which `decode_file` gives back every row, as `encode_lossless` does: `.npz` only.
    format : str or None
        Of `data`, as in `read_matrix`.
    resume : bool
        Go on where an interrupted run to the same `out` stopped; where none did, begin.
    n_jobs, engine, scheduler
        Processes of this machine, or ``engine="dask"`` with the address of a scheduler; see `parallel.map_in_order`.
    block_rows : int, optional
        Rows at once. Memory grows with it, and an interruption loses at most the blocks that are being worked on.
    callback : callable, optional
        Called as ``callback(rows_done, rows_total)``.

    Examples
    --------
    >>> import tempfile, sparselens as sl
    >>> folder = tempfile.mkdtemp()
    >>> X = sp.csr_array(np.eye(12)[[3, 5, 3]])
    >>> enc = sl.GaussianEncoder(n_components=6, random_state=0).fit(X)
    >>> encode_file(enc, X, folder + "/y.npz").n_rows
    3
    >>> decode_file(enc, folder + "/y.npz", folder + "/x.npz").n_certified
    3
    >>> bool(abs(sp.load_npz(folder + "/x.npz") - X).max() < 1e-12)
    True
    """
    started = time.perf_counter()
    enc, target = _model(model), Path(out)
    rows, source = _source(
        data, lambda path: open_rows(path, format=format, n_features=enc.n_features_in_, categories=_categories(enc))
    )
    n, d = rows.shape
    if d != enc.n_features_in_:
        raise ValueError(
            f"{_called(data)} has {d:,} columns but the model was fitted to {enc.n_features_in_:,}: encode rows with "
            "the same columns, or fit a model to these."
        )
    _check_target(target, data, (".npz",) if lossless else (".npz", ".npy"))
    m = int(enc._n_features_out)
    identity = fingerprint(enc)
    job = {
        "what": "lossless" if lossless else "encode",
        "model": identity,
        "data": source,
        "version": __version__,
        "rows at once": _block_rows(block_rows, 1 << 18 if lossless else 1 << 22, m, 4096 if lossless else 1 << 16),
    }
    make = partial(packing if lossless else encoding, enc)
    arrays: dict[str, tuple[str, tuple[int, ...]]] = {"Y": ("<f8", (m,))}
    if lossless:
        arrays |= {name: (dtype, ()) for name, dtype in ARRAYS.items()}
    run = _Run(rows, job, make, n_jobs, engine, scheduler, callback)
    with Parts(target, arrays, job=job, resume=resume) as parts:
        n_resumed = parts.n_rows
        for size, block in run.blocks(parts.n_rows):
            measured, sizes = block if lossless else (block, {})
            parts.append(size, measured, _added(parts.notes, sizes))
        sizes = parts.notes
        if target.suffix == ".npy":
            parts.become_npy("Y")
        elif lossless:
            small = {"format": LOSSLESS, "shape": np.array([n, d]), "model": identity}
            parts.become_npz(small, compressed=tuple(ARRAYS))
        else:
            parts.become_npz({"model": identity})
    return FileReport(str(out), n, d, m, n_resumed, target.stat().st_size, time.perf_counter() - started, sizes=sizes)


def decode_file(
    model: Any,
    measurements: Any,
    out: str | os.PathLike[str],
    *,
    resume: bool = False,
    n_jobs: int | None = None,
    engine: str = "processes",
    scheduler: str | None = None,
    block_rows: int | None = None,
    callback: Progress | None = None,
) -> FileReport:
    """Decode every row of measurements in a file and write the rows, in bounded memory.

    Parameters
    ----------
    model : path or fitted encoder
        The one that measured; a file that another one wrote is refused.
    measurements : path or array of shape (n, m)
        What `encode_file` wrote (lossless files too), or any `.npy` or `.npz` file with one matrix.
    out : path
        A `.npz` file as `scipy.sparse.save_npz` writes it (`scipy.sparse.load_npz` and `read_matrix` read it), with
        the arrays ``status``, ``residual`` and ``gap`` beside, one entry a row. Or, where the model was fitted to a
        table of categories, a `.csv` file: that table again. A row that is no row of categories is left empty there,
        and counted as NOT_ONE_HOT.
    resume, n_jobs, engine, scheduler, block_rows, callback
        As in `encode_file`.

    Returns
    -------
    FileReport
        Rows with a NaN or an infinity among their measurements are empty, and counted as INVALID.
    """
    started = time.perf_counter()
    enc, target = _model(model), Path(out)
    identity = fingerprint(enc)
    rows, source = _source(measurements, partial(_open_encoded, identity=identity))
    lossless = isinstance(rows, LosslessRows)
    m, d = int(enc._n_features_out), int(enc.n_features_in_)
    width = rows.n_measurements if isinstance(rows, LosslessRows) else rows.shape[1]
    if width != m:
        raise ValueError(
            f"{_called(measurements)} has {width} columns but the model makes {m} measurements a row: decode "
            "with the model that encoded it."
        )
    categories = _categories(enc)
    if target.suffix == ".csv" and categories is None:
        raise ValueError(
            f"{target} cannot be written: the model was not fitted to a table of categories. Name an .npz file."
        )
    _check_target(target, measurements, (".npz", ".csv"))
    job = {
        "what": "decode",
        "model": identity,
        "data": source,
        "version": __version__,
        "rows at once": _block_rows(block_rows, 1 << 20, m, 4096),
    }
    make = partial(unpacking if lossless else decoding, enc)
    judged = {} if lossless else {"status": ("|u1", ()), "residual": ("<f8", ()), "gap": ("<f8", ())}
    run = _Run(rows, job, make, n_jobs, engine, scheduler, callback)
    with Parts(target, _CSR | judged, job=job, resume=resume) as parts:
        n_resumed = parts.n_rows
        for size, block in run.blocks(parts.n_rows):
            ends = parts.length("data") + block["indptr"]
            counts = _back_counts(block.pop("back")) if lossless else _status_counts(block["status"])
            first = 1 if parts.n_rows else 0  # the 0 that indptr begins with stands there once
            parts.append(size, block | {"indptr": ends[first:]}, _added(parts.notes, counts))
        if rows.shape[0] == 0:
            parts.append(0, {"indptr": np.zeros(1)}, {})
        status = parts.notes
        if target.suffix == ".csv":
            assert categories is not None
            status |= parts.become(partial(_write_table, categories=categories))
        else:
            parts.become_npz({"format": b"csr", "shape": np.array([rows.shape[0], d]), "_is_array": True})
    status = {name: count for name, count in status.items() if count}
    seconds = time.perf_counter() - started
    return FileReport(str(out), rows.shape[0], d, m, n_resumed, target.stat().st_size, seconds, status)


@dataclass
class _Run:
    """Blocks of rows through a function, here or elsewhere."""

    rows: Rows
    job: dict[str, Any]
    make: Callable[[], Callable[[Any], Any]]
    n_jobs: int | None
    engine: str
    scheduler: str | None
    callback: Progress | None

    def blocks(self, start: int) -> Iterator[tuple[int, Any]]:
        """(rows, result) of each block from row `start` on."""
        size, n = self.job["rows at once"], self.rows.shape[0]
        work = partial(call_in_worker, uuid4().hex, self.make)
        blocks = self.rows.blocks(size, start=start)
        items = zip(range(start, n, size), blocks, strict=True)
        results = map_in_order(work, items, n_jobs=self.n_jobs, engine=self.engine, scheduler=self.scheduler)
        done = start
        if self.callback is not None:
            self.callback(done, n)
        for result in results:
            step = min(size, n - done)
            yield step, result
            done += step
            if self.callback is not None:
                self.callback(done, n)


def _write_table(path: Path, arrays: dict[str, np.ndarray], *, categories: Categories) -> dict[str, int]:
    """Write decoded rows as a table of categories; how many rows have each status then."""
    indptr, d = arrays["indptr"], sum(map(len, categories.values()))

    def blocks() -> Iterator[sp.csr_array]:
        for start in range(0, len(indptr) - 1, _TABLE_ROWS):
            ends = np.asarray(indptr[start : start + _TABLE_ROWS + 1])
            inside = slice(int(ends[0]), int(ends[-1]))
            parts = (np.asarray(arrays["data"][inside]), np.asarray(arrays["indices"][inside]), ends - ends[0])
            yield sp.csr_array(parts, shape=(len(ends) - 1, d))

    whole = write_onehot_csv(path, blocks(), categories)
    if "status" not in arrays:  # rows of a lossless file have a checksum each, which says more
        return {}
    return _status_counts(np.asarray(arrays["status"])[whole]) | {"NOT_ONE_HOT": int((~whole).sum())}


def _added(totals: dict[str, int], counts: dict[str, int]) -> dict[str, int]:
    return {name: totals.get(name, 0) + counts.get(name, 0) for name in totals | counts}


def _status_counts(status: np.ndarray) -> dict[str, int]:
    counts = np.bincount(status, minlength=len(Status))
    return {code.name: int(counts[code]) for code in Status}


def _back_counts(back: np.ndarray) -> dict[str, int]:
    return {"GIVEN_BACK": int(back.sum()), "DIFFERENT": int((~back).sum())}


# ---- what was passed ----------------------------------------------------------------------------------------


def _model(model: Any) -> Any:
    """A fitted encoder, loaded where a folder is named."""
    return load(model) if isinstance(model, (str, os.PathLike)) else model


def _categories(model: Any) -> Categories | None:
    """The categories of the table that a model was fitted to, where it was fitted to one."""
    return getattr(model, "categories_", None)


def _source(data: Any, open_file: Callable[[Path], Rows]) -> tuple[Rows, dict[str, Any]]:
    """The rows, and what tells them from other rows."""
    if not isinstance(data, (str, os.PathLike)):
        if sp.issparse(data):
            return MatrixRows(sp.csr_array(data)), {"rows": rows_checksum(sp.csr_array(data))}
        data = np.asarray(data)
        return MatrixRows(data), {"rows": sha256(np.ascontiguousarray(data).data).hexdigest()}
    path = existing_file(data)
    rows = open_file(path)
    facts = path.stat()
    with open(path, "rb") as file:
        ends = file.read(_ENDS)
        file.seek(max(0, facts.st_size - _ENDS))
        ends += file.read(_ENDS)
    return rows, {"size": facts.st_size, "changed": facts.st_mtime_ns, "ends": sha256(ends).hexdigest()}


_ENDS = 1 << 16  # bytes at either end of a file that are looked at to know it again


def _open_encoded(path: Path, *, identity: str) -> Rows:
    """Measurements, or a lossless file; refused where another model wrote them."""
    if zipfile.is_zipfile(path):
        written_by, marker = read_small(path, "model"), read_small(path, "format")
        if written_by is not None and written_by.dtype.kind == "U" and written_by.item() != identity:
            raise ValueError(
                f"{path} was encoded with another model: decode with that one (its fingerprint begins with "
                f"{written_by.item()[:12]}, that of this model with {identity[:12]})."
            )
        if marker is not None and marker.dtype.kind == "U" and marker.item().startswith("sparselens lossless"):
            if marker.item() != LOSSLESS:
                raise CorruptFileError(f"{path} is a {marker.item()!r} file of a newer sparselens: upgrade to read it.")
            return LosslessRows(path)
    return open_measurements(path)


def _check_target(target: Path, source: Any, suffixes: tuple[str, ...]) -> None:
    if target.suffix not in suffixes:
        raise ValueError(f"{target} does not end in {' or '.join(suffixes)}: name the file to write with that ending.")
    if isinstance(source, (str, os.PathLike)) and target.exists() and target.samefile(source):
        raise ValueError(f"{target} is the file to read: name another file to write.")


def _block_rows(asked: int | None, n_values: int, m: int, most: int) -> int:
    return int(np.clip(n_values // m, 64, most)) if asked is None else check_count(asked, "block_rows")


def _called(data: Any) -> str:
    return str(data) if isinstance(data, (str, os.PathLike)) else "the matrix"


def _in_bytes(n: int) -> str:
    """A size for people.

    Examples
    --------
    >>> _in_bytes(900), _in_bytes(1_234_567)
    ('900 bytes', '1.2 MB')
    """
    for power, unit in ((9, "GB"), (6, "MB"), (3, "kB")):
        if n >= 10**power:
            return f"{n / 10**power:.1f} {unit}"
    return f"{n} bytes"
