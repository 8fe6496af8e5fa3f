"""Encode rows so that nothing is lost: measurements for the rows that come back, the others as they are.

Every row that is sent as measurements was decoded before, and came back: bit for bit where a row holds one value or
whole numbers only (0/1 data, one-hot categories, counts), within 1e-10 (and 1e-10 of the row's own norm, where that is
below 1) otherwise. The rest is kept aside sparsely.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from sparselens._validation import FloatArray, check_rows, row_norms
from sparselens.decoders.l1 import L1Decoder
from sparselens.metrics import EXACT

_ONE_VALUE, _WHOLE, _ANY = 0, 1, 2  # how the values of a decoded row are made exact
_CODES = np.dtype(np.uint8)


@dataclass(frozen=True, eq=False)
class Packed:
    """Rows encoded without loss; `decode_lossless` gives them back.

    Attributes
    ----------
    A : float64 array of shape (m, d)
        The measurement matrix. It belongs to the model, and is not counted in `n_bytes`.
    positive : bool
    n_rows : int
    measured : int array
        The rows that are sent as measurements.
    Y : float64 array of shape (len(measured), m)
    codes : uint8 array
        How the values of each measured row are made exact: 0, all equal `values`; 1, whole numbers; 2, as decoded.
    values : float64 array
        The value of the rows with code 0, in their order.
    kept : csr_array of shape (n_rows − len(measured), d)
        The other rows.
    """

    A: FloatArray
    positive: bool
    n_rows: int
    measured: np.ndarray
    Y: FloatArray
    codes: np.ndarray
    values: FloatArray
    kept: sp.csr_array
    n_bytes_sparse: int
    n_bytes_dense: int

    @property
    def n_bytes(self) -> int:
        """What has to be sent or stored: measurements, values, one bit a row for its kind, and the kept rows."""
        values = self.values.nbytes if len(np.unique(self.values)) > 1 else min(self.values.nbytes, 8)
        codes = len(self.codes) // 4 if len(np.unique(self.codes)) > 1 else 0
        return self.Y.nbytes + values + codes + -(-self.n_rows // 8) + _sparse_bytes(self.kept)

    @property
    def ratio_dense(self) -> float:
        """Size over that of the dense float64 rows."""
        return self.n_bytes / self.n_bytes_dense

    @property
    def ratio_sparse(self) -> float:
        """Size over that of the sparse rows: 4 bytes an index, and 8 a value unless a row holds one value only."""
        return self.n_bytes / self.n_bytes_sparse

    def summary(self) -> str:
        """One sentence for people."""
        return (
            f"{self.n_rows:,} rows: {len(self.measured):,} as {self.Y.shape[1]} measurements each, "
            f"{self.kept.shape[0]:,} kept aside; {self.n_bytes:,} bytes, {self.ratio_dense:.3g} of the dense and "
            f"{self.ratio_sparse:.3g} of the sparse rows."
        )


def encode_lossless(enc: Any, X: Any, *, decoder: L1Decoder | None = None) -> Packed:
    """Encode every row so that `decode_lossless` gives back every one of them.

    Parameters
    ----------
    enc : fitted linear encoder
        Whose `decoder()` is ℓ1 minimisation.
    X : array or sparse matrix of shape (n, d)
    decoder : L1Decoder, optional
        What ``enc.decoder()`` gave, where many blocks of rows are encoded one after the other.

    Returns
    -------
    Packed

    Examples
    --------
    >>> import numpy as np, sparselens as sl
    >>> X = np.eye(12)[np.arange(30) % 12] + np.eye(12)[np.arange(30) % 5]
    >>> packed = encode_lossless(sl.GaussianEncoder(n_components=8, random_state=0).fit(X), X)
    >>> bool((decode_lossless(packed).toarray() == X).all())
    True
    """
    rows = check_rows(X)
    decoder = enc.decoder() if decoder is None else decoder
    if not isinstance(decoder, L1Decoder):
        raise TypeError(
            f"encode_lossless needs an encoder that decodes by ℓ1 minimisation, got {type(enc).__name__}: "
            "use CertificateEncoder, L1AE or a random encoder."
        )
    Y = enc.transform(rows)
    codes, values = _kinds(rows)
    back = _made_exact(decoder.decode(Y, keep_dual=False).x, codes, values)
    good = _came_back(rows, back, codes)
    measured, aside = np.flatnonzero(good), np.flatnonzero(~good)
    return Packed(
        A=enc.components_,
        positive=decoder.positive,
        n_rows=rows.shape[0],
        measured=measured,
        Y=np.ascontiguousarray(Y[measured]),
        codes=codes[measured],
        values=values[measured][codes[measured] == _ONE_VALUE],
        kept=rows[aside],
        n_bytes_sparse=_sparse_bytes(rows),
        n_bytes_dense=8 * rows.shape[0] * rows.shape[1],
    )


def decode_lossless(packed: Packed, *, decoder: L1Decoder | None = None) -> sp.csr_array:
    """The rows that were encoded, in their order, as CSR.

    `decoder` is one that is bound to ``packed.A`` already, where many blocks are decoded one after the other.
    """
    if decoder is None:
        decoder = L1Decoder(positive=packed.positive).bind(packed.A)
    values = np.zeros(len(packed.measured))
    values[packed.codes == _ONE_VALUE] = packed.values
    found = _made_exact(decoder.decode(packed.Y, keep_dual=False).x, packed.codes, values)
    order = np.empty(packed.n_rows, dtype=np.int64)
    aside = np.setdiff1d(np.arange(packed.n_rows), packed.measured)
    order[np.concatenate([packed.measured, aside])] = np.arange(packed.n_rows)
    return sp.csr_array(sp.vstack([found, packed.kept], format="csr")[order])


def _kinds(X: sp.csr_array) -> tuple[np.ndarray, FloatArray]:
    """The code of each row, and its value where it holds one value only."""
    n, counts = X.shape[0], np.diff(X.indptr)
    codes, values = np.full(n, _ONE_VALUE, dtype=_CODES), np.zeros(n)
    rows = np.flatnonzero(counts)
    if len(rows):
        starts = X.indptr[rows]
        low, high = np.minimum.reduceat(X.data, starts), np.maximum.reduceat(X.data, starts)
        whole = np.logical_and.reduceat(X.data == np.rint(X.data), starts)
        values[rows] = low
        codes[rows] = np.where(low == high, _ONE_VALUE, np.where(whole, _WHOLE, _ANY))
    return codes, values


def _made_exact(X: sp.csr_array, codes: np.ndarray, values: FloatArray) -> sp.csr_array:
    """Decoded rows with their values set as the code of the row says."""
    out = sp.csr_array(X, copy=True)
    counts = np.diff(out.indptr)
    code, value = np.repeat(codes, counts), np.repeat(values, counts)
    # An entry far below the row's one value is rounding, not an entry.
    one = np.where(np.abs(out.data - value) <= 0.5 * np.abs(value), value, 0.0)
    out.data = np.where(code == _ONE_VALUE, one, np.where(code == _WHOLE, np.rint(out.data), out.data))
    out.eliminate_zeros()
    out.sort_indices()
    return out


def _came_back(X: sp.csr_array, back: sp.csr_array, codes: np.ndarray) -> np.ndarray:
    """Whether each row is the same bit for bit, or within 1e-10, of itself too, where its values are of any kind."""
    error = row_norms(sp.csr_array(X - back))
    return np.where(codes == _ANY, error <= EXACT * np.minimum(1.0, row_norms(X)), error == 0.0)


def _sparse_bytes(X: sp.csr_array) -> int:
    """Bytes of CSR rows with 4-byte indices; a row that holds one value only stores it once."""
    codes, _ = _kinds(X)
    counts = np.diff(X.indptr)
    n_values = int(np.where(codes == _ONE_VALUE, np.minimum(counts, 1), counts).sum())
    if X.nnz and (X.data == X.data[0]).all():
        n_values = 1
    return 4 * X.nnz + 8 * n_values + 4 * (X.shape[0] + 1)
