"""Blocks of a lossless file, as `encode_file(..., lossless=True)` writes it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from zipfile import ZipFile

import numpy as np

from sparselens.data._locate import readable
from sparselens.data.npz import ArrayStream, check_entries, check_shape, open_archive, open_member
from sparselens.recovery import CorruptFileError

LOSSLESS = "sparselens lossless 1"  # the marker, with the version of the layout
KEPT = 3  # the code of a row that was kept as it is; 0 to 2 are those of `sparselens.lossless`

# Name -> dtype of each array that grows with the rows; Y, the measurements, is the sixth.
ARRAYS = {
    "codes": "|u1",
    "checks": "<u4",
    "values": "<f8",
    "kept_counts": "<i4",
    "kept_indices": "<i4",
    "kept_data": "<f8",
}


class LosslessRows:
    """A lossless file; each block is a dict with the entries of its arrays that belong to the block's rows.

    Attributes
    ----------
    shape : (n, d) of the rows
    n_measurements : int
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with readable(path), open_archive(path) as archive, ExitStack() as stack:
            self.shape = check_shape(open_member(archive, "shape", path, stack).read_all(), path)
            streams = self._streams(archive, stack)
            self.n_measurements = int(streams["Y"].shape[1])
            if streams["codes"].shape[0] != self.shape[0]:
                raise self._damaged("codes")

    def blocks(self, size: int, *, start: int = 0) -> Iterator[dict[str, np.ndarray]]:
        n, d = self.shape
        with readable(self.path), open_archive(self.path) as archive, ExitStack() as stack:
            streams = self._streams(archive, stack)
            for row in range(0, n, size):
                codes = streams["codes"].read(min(size, n - row))
                if (codes > KEPT).any():
                    raise self._damaged("codes")
                n_kept = int((codes == KEPT).sum())
                counts = streams["kept_counts"].read(n_kept)
                if (counts < 0).any():
                    raise self._damaged("kept_counts")
                n_entries = int(counts.sum(dtype=np.int64))
                block = {"codes": codes, "kept_counts": counts}
                for name, length in (
                    ("checks", len(codes)),
                    ("values", int((codes == 0).sum())),
                    ("Y", len(codes) - n_kept),
                    ("kept_indices", n_entries),
                    ("kept_data", n_entries),
                ):
                    block[name] = streams[name].read(length)
                check_entries(block["kept_indices"], d, "kept_indices", self.path)
                if row >= start:  # every array is passed over with the rows before
                    yield block

    def _streams(self, archive: ZipFile, stack: ExitStack) -> dict[str, ArrayStream]:
        streams = {name: open_member(archive, name, self.path, stack) for name in (*ARRAYS, "Y")}
        for name, stream in streams.items():
            wanted = (ARRAYS | {"Y": "<f8"})[name]
            if stream.dtype.str != wanted or len(stream.shape) != (2 if name == "Y" else 1) or stream.fortran_order:
                raise self._damaged(name)
        return streams

    def _damaged(self, name: str) -> CorruptFileError:
        return CorruptFileError(f"{self.path}: {name} is not what a lossless file holds: it is damaged, encode again.")
