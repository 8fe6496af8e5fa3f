"""The certificate's large products on a GPU. It shares its tolerances with `certificate`, and nothing with a solver.

The checks are those of `certificate.Verifier`, word for word: residual, sign, dual constraint, gap, x on the tight
columns, their linear independence, Farkas proofs. Only where they are computed differs.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import scipy.sparse as sp
import torch

from sparselens import certificate
from sparselens._validation import FloatArray
from sparselens.certificate import Certificate, Verifier, entries

_BYTES = 2**30  # memory of the largest array of a piece
_WELL = 1e-4  # a Cholesky factor of BBᵀ − this²·I proves that every singular value is at least this


class TorchVerifier(Verifier):
    """`certificate.Verifier` with its products in float64 on a torch device.

    Examples
    --------
    >>> import numpy as np, scipy.sparse as sp
    >>> check = TorchVerifier(np.array([[1.0, 2.0]]), device="cpu")
    >>> check.optimal(np.array([[4.0]]), sp.csr_array([[0.0, 2.0]]), np.array([[0.5]])).unique
    array([ True])
    """

    def __init__(self, A: FloatArray, *, positive: bool = True, device: str | torch.device = "cuda") -> None:
        super().__init__(A, positive=positive)
        self.device = torch.device(device)
        self._A = torch.as_tensor(np.array(A), device=self.device)
        self._columns = self._A.t().contiguous()
        self._norms = torch.as_tensor(self.norms, device=self.device)

    def optimal(self, Y: FloatArray, X: sp.csr_array, U: FloatArray) -> Certificate:
        """Check optimality and uniqueness of every row."""
        n = len(Y)
        size, length = np.linalg.norm(Y, axis=1), np.asarray(abs(X).sum(axis=1), dtype=np.float64).ravel()
        one_size, one_length = np.where(size > 0, size, 1.0), np.where(length > 0, length, 1.0)
        residual = self._misfit(Y, sp.csr_array(X)) / one_size
        negativity = np.zeros(n)
        if self.positive and X.nnz:
            negativity = -np.minimum(np.asarray(X.min(axis=1).toarray()).ravel(), 0.0) / one_length
        gap = (length - np.einsum("ij,ij->i", Y, U)) / one_length
        violation, full_rank, on_tight = np.full(n, np.inf), np.zeros(n, dtype=bool), np.ones(n, dtype=bool)
        least = self._least_sigma(Y, X, residual)
        for rows in self._pieces(np.flatnonzero(np.isfinite(U).all(axis=1)), 8 * self.A.shape[1]):
            P = torch.as_tensor(U[rows], device=self.device) @ self._A
            if not self.positive:
                P = P.abs()
            violation[rows] = P.amax(dim=1).cpu().numpy() - 1.0
            where = torch.nonzero(P >= 1.0 - certificate.EQUALITY_TOL).cpu().numpy()
            full_rank[rows] = self._independent(where, least[rows])
            place, columns = entries(X, rows)
            at = (torch.as_tensor(value.astype(np.int64), device=self.device) for value in (place, columns))
            loose = P[tuple(at)].cpu().numpy() < 1.0 - certificate.EQUALITY_TOL
            on_tight[rows[place[loose]]] = False
        good = (residual <= certificate.PRIMAL_TOL) & (negativity <= certificate.NEGATIVE_TOL)
        good &= (violation <= certificate.DUAL_TOL) & (np.abs(gap) <= certificate.GAP_TOL)
        unique = good & on_tight & (residual <= certificate.ROUNDING) & full_rank
        return Certificate(residual, negativity, violation, gap, good, unique)

    def infeasible(self, Y: FloatArray, R: FloatArray) -> np.ndarray:
        """True where r proves that no x has these measurements."""
        out = np.zeros(len(Y), dtype=bool)
        length, size = np.linalg.norm(R, axis=1), np.linalg.norm(Y, axis=1)
        usable = np.flatnonzero(np.isfinite(length) & (length > 0) & (size > 0))
        for rows in self._pieces(usable, 8 * self.A.shape[1]):
            unit = R[rows] / length[rows, None]
            P = torch.as_tensor(unit, device=self.device) @ self._A
            if not self.positive:
                P = P.abs()
            barred = (P <= certificate.FARKAS_DUAL_TOL * self._norms).all(dim=1).cpu().numpy()
            gain = np.einsum("ij,ij->i", Y[rows], unit) / size[rows]
            out[rows] = barred & (gain >= certificate.FARKAS_GAIN)
        return out

    def _misfit(self, Y: FloatArray, X: sp.csr_array) -> FloatArray:
        """‖Ax − y‖ of every row."""
        out = np.linalg.norm(Y, axis=1)
        counts = np.diff(X.indptr)
        for rows, width in self._by_count(counts):
            places = X.indptr[rows][:, None] + np.minimum(np.arange(width), counts[rows][:, None] - 1)
            inside = np.arange(width) < counts[rows][:, None]
            columns = torch.as_tensor(X.indices[places].astype(np.int64), device=self.device)
            values = torch.as_tensor(np.where(inside, X.data[places], 0.0), device=self.device)
            fit = torch.bmm(values[:, None, :], self._columns[columns])[:, 0]
            out[rows] = (fit - torch.as_tensor(Y[rows], device=self.device)).norm(dim=1).cpu().numpy()
        return out

    def _independent(self, where: np.ndarray, least: FloatArray) -> np.ndarray:
        """Whether the tight columns of each row, given as (row, column) pairs in row order, are independent."""
        counts = np.bincount(where[:, 0], minlength=len(least))
        start = np.concatenate(([0], np.cumsum(counts)))
        out = counts == 0
        for rows, width in self._by_count(np.where(counts <= len(self.A), counts, 0)):
            places = start[rows][:, None] + np.minimum(np.arange(width), counts[rows][:, None] - 1)
            inside = torch.as_tensor(np.arange(width) < counts[rows][:, None], device=self.device)
            picks = torch.as_tensor(where[places, 1], device=self.device)
            norms = self._norms[picks]
            B = self._columns[picks] * (inside / torch.where(norms > 0, norms, 1.0))[:, :, None]
            gram = torch.bmm(B, B.transpose(1, 2)) + torch.diag_embed(2.0 * ~inside - _WELL**2)
            well, enough = (torch.linalg.cholesky_ex(gram).info == 0).cpu().numpy(), least[rows] <= _WELL
            out[rows] = well & enough
            for i in np.flatnonzero(well != enough):  # what the factor leaves open
                values = np.linalg.svd(B[i, : counts[rows[i]]].cpu().numpy(), compute_uv=False)
                out[rows[i]] = values[-1] > least[rows[i]]
        return out

    def _by_count(self, counts: np.ndarray) -> Iterator[tuple[np.ndarray, int]]:
        """Rows with a count above zero in pieces of similar counts, each with its largest count."""
        order = np.argsort(counts, kind="stable")
        order = order[counts[order] > 0]
        while len(order):
            width = int(counts[order[-1]])
            size = max(1, _BYTES // (8 * width * (len(self.A) + width)))
            yield order[-size:], width
            order = order[:-size]

    def _pieces(self, rows: np.ndarray, row_bytes: int) -> Iterator[np.ndarray]:
        size = max(1, 2 * _BYTES // row_bytes)
        for lo in range(0, len(rows), size):
            yield rows[lo : lo + size]
