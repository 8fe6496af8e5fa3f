"""What is done to one block of a file, in whatever process it is; each function is made once in a process."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp

from sparselens._validation import check_rows
from sparselens.data.lossless_rows import KEPT
from sparselens.lossless import Packed, decode_lossless, encode_lossless

Arrays: TypeAlias = dict[str, np.ndarray]
Item: TypeAlias = tuple[int, Any]  # the number of the block's first row, and the block


def encoding(enc: Any) -> Callable[[Item], Arrays]:
    """Rows to measurements."""

    def encode(item: Item) -> Arrays:
        start, block = item
        rows = check_rows(block, nonnegative=enc._nonnegative, first_row=start, canonical=not enc._linear)
        return {"Y": enc._encode(rows)}

    return encode


def decoding(enc: Any) -> Callable[[Item], Arrays]:
    """Measurements to rows with their status."""
    decoder = enc.decoder()

    def decode(item: Item) -> Arrays:
        rec = decoder.decode(item[1], on_invalid="status", keep_dual=False)
        rec.x.sort_indices()
        return _csr_arrays(rec.x) | {"status": rec.status, "residual": rec.residual, "gap": rec.gap}

    return decode


def packing(enc: Any) -> Callable[[Item], tuple[Arrays, dict[str, int]]]:
    """Rows to the arrays of a lossless file, and the sizes to compare it with."""
    decoder = enc.decoder()

    def pack(item: Item) -> tuple[Arrays, dict[str, int]]:
        start, block = item
        rows = check_rows(block, nonnegative=enc._nonnegative, first_row=start)
        packed = encode_lossless(enc, rows, decoder=decoder)
        codes = np.full(packed.n_rows, KEPT, dtype=np.uint8)
        codes[packed.measured] = packed.codes
        arrays = {
            "codes": codes,
            "checks": _row_checks(rows, codes),
            "values": packed.values,
            "Y": packed.Y,
            "kept_counts": np.diff(packed.kept.indptr),
            "kept_indices": packed.kept.indices,
            "kept_data": packed.kept.data,
        }
        sizes = _other_sizes(rows) | {"rows_measured": len(packed.measured), "rows_kept": packed.kept.shape[0]}
        return arrays, sizes

    return pack


def unpacking(enc: Any) -> Callable[[Item], Arrays]:
    """A block of a lossless file to rows; ``back`` says whether each agrees with its checksum."""
    decoder = enc.decoder()

    def unpack(item: Item) -> Arrays:
        block, d = item[1], enc.n_features_in_
        codes = block["codes"]
        measured = np.flatnonzero(codes != KEPT)
        ends = np.concatenate(([0], np.cumsum(block["kept_counts"], dtype=np.int64)))
        kept = sp.csr_array((block["kept_data"], block["kept_indices"], ends), shape=(len(ends) - 1, d))
        packed = Packed(
            A=enc.components_,
            positive=decoder.positive,
            n_rows=len(codes),
            measured=measured,
            Y=block["Y"],
            codes=codes[measured],
            values=block["values"],
            kept=kept,
            n_bytes_sparse=0,
            n_bytes_dense=0,
        )
        x = decode_lossless(packed, decoder=decoder)
        x.sort_indices()
        return _csr_arrays(x) | {"back": _row_checks(x, codes) == block["checks"]}

    return unpack


def _csr_arrays(x: sp.csr_array) -> Arrays:
    return {"data": x.data, "indices": x.indices, "indptr": x.indptr.astype(np.int64)}


def _row_checks(X: sp.csr_array, codes: np.ndarray) -> np.ndarray:
    """CRC-32 of each row: of its columns, and of its values where they come back bit for bit (all codes but 2)."""
    indices, data = X.indices.astype("<i4").tobytes(), X.data.astype("<f8").tobytes()
    checks = np.empty(X.shape[0], dtype=np.uint32)
    for row, ((a, b), code) in enumerate(zip(pairwise(X.indptr.tolist()), codes.tolist(), strict=True)):
        check = zlib.crc32(indices[4 * a : 4 * b])
        checks[row] = check if code == 2 else zlib.crc32(data[8 * a : 8 * b], check)
    return checks


def _other_sizes(X: sp.csr_array) -> dict[str, int]:
    """Bytes of these rows as scipy's compressed npz and as gzipped XMC text, but for their headers."""
    arrays = (X.data, X.indices.astype(np.int32), X.indptr.astype(np.int32))
    npz = sum(len(zlib.compress(np.ascontiguousarray(array).tobytes(), 6)) for array in arrays)
    pairs = [f"{j}:{v:.17g}" for j, v in zip(X.indices.tolist(), X.data.tolist(), strict=True)]
    text = "\n".join(" ".join(pairs[a:b]) for a, b in pairwise(X.indptr.tolist()))
    return {"npz": npz, "gzip": len(zlib.compress(text.encode(), 6))}
