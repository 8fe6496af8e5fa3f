"""Which rows will come back: whoever encodes knows x, and can know before anything is sent."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from sparselens._validation import FloatArray, unit_rows
from sparselens.certificate import minimum_norm_dual
from sparselens.decoders.l1 import L1Decoder
from sparselens.metrics import EXACT

_SLACK = 1e-6  # a certificate that is closer to failing than this is left to the linear program
_RANGE = 1e-5  # so is a row whose smallest entry is below this part of its largest: decoders drop such entries


@dataclass(frozen=True, eq=False)
class Promise:
    """What is known of each row before it is sent.

    Attributes
    ----------
    exact : bool array of shape (n,)
        Whether the row is the only solution of its ℓ1 problem, so that the receiver recovers it.
    slack : float array of shape (n,)
        ``1 − max_{j∉S} a_jᵀu`` of the dual vector that proves it: how far the measurements are from not sufficing.
        NaN where nothing proves it.
    by : array of str
        "certificate": the minimum-norm dual vector proves it; "lp": the solved linear program does; "no": the row
        will not come back.
    """

    exact: np.ndarray
    slack: FloatArray
    by: np.ndarray

    def __len__(self) -> int:
        return len(self.exact)

    def summary(self) -> str:
        """One sentence for people."""
        counts = {how: int((self.by == how).sum()) for how in ("certificate", "lp", "no")}
        smallest = f", smallest slack {self.slack[self.exact].min():.2g}" if self.exact.any() else ""
        return (
            f"{len(self):,} row{'s' if len(self) != 1 else ''}: {int(self.exact.sum()):,} will come back "
            f"({counts['certificate']:,} by certificate, {counts['lp']:,} by linear program{smallest}), "
            f"{counts['no']:,} will not."
        )


def certify(A: FloatArray, X: sp.csr_array, *, positive: bool = True, decoder: L1Decoder | None = None) -> Promise:
    """Say for each row whether ℓ1 decoding of its measurements will give it back, and by what slack.

    The minimum-norm dual vector of the support is tried first; it needs no solver. Where it is silent, the linear
    program is solved and its own proof read.

    Parameters
    ----------
    A : float64 array of shape (m, d)
    X : csr_array of shape (n, d)
        Canonical rows.
    positive : bool
    decoder : L1Decoder, optional
        A decoder bound to A; made where it is needed.

    Examples
    --------
    >>> A = np.array([[1.0, 0.0, 0.4, 0.9], [0.0, 1.0, 0.4, 0.9]])
    >>> promise = certify(A, sp.csr_array([[2.0, 3.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0], [0.0, 0.0, 1.0, 0.0]]))
    >>> promise.by.tolist()
    ['no', 'certificate', 'no']
    >>> print(promise.summary())
    3 rows: 1 will come back (1 by certificate, 0 by linear program, smallest slack 0.44), 2 will not.
    """
    n, counts = X.shape[0], np.diff(X.indptr)
    _, slack = minimum_norm_dual(A, X, positive=positive)
    sure = (slack >= _SLACK) & (_smallest_part(X) >= _RANGE)
    by = np.where(sure, "certificate", "no")
    slack = np.where(sure, slack, np.nan)
    silent = np.flatnonzero(~sure & (counts <= len(A)))  # more nonzeros than measurements never come back
    if len(silent):
        decoder = L1Decoder(positive=positive).bind(A) if decoder is None else decoder
        part = unit_rows(X[silent])  # what comes back does not depend on the size of a row
        rec = decoder.decode(part @ np.ascontiguousarray(A.T))
        difference = rec.x - part
        error = np.sqrt(np.asarray(difference.multiply(difference).sum(axis=1)).ravel())
        good = rec.unique & (error <= EXACT)
        by[silent[good]] = "lp"
        assert rec.dual is not None
        slack[silent[good]] = _slack_of(A, part[good], rec.dual[good], positive)
    return Promise(exact=by != "no", slack=slack, by=by) if n else Promise(sure, slack, by)


def _smallest_part(X: sp.csr_array) -> FloatArray:
    """The smallest magnitude of each row over its largest; 1 for rows without nonzeros."""
    out = np.ones(X.shape[0])
    rows = np.flatnonzero(np.diff(X.indptr))
    if len(rows):
        size, starts = np.abs(X.data), X.indptr[rows]
        out[rows] = np.minimum.reduceat(size, starts) / np.maximum.reduceat(size, starts)
    return out


def _slack_of(A: FloatArray, X: sp.csr_array, U: FloatArray, positive: bool) -> FloatArray:
    """1 − max_{j∉S} a_jᵀu of each row, at least 0."""
    out = np.zeros(X.shape[0])
    for i, u in enumerate(U):
        p = u @ A if positive else np.abs(u @ A)
        p[X.indices[X.indptr[i] : X.indptr[i + 1]]] = -np.inf
        out[i] = max(0.0, 1.0 - p.max())
    return out
