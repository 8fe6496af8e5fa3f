r"""Proofs of optimality: check a dual certificate without trusting the solver that made it.

For ``min 1ᵀx s.t. Ax = y, x ≥ 0`` the dual is ``max yᵀu s.t. Aᵀu ≤ 1``; for signed vectors
``min ‖x‖₁ s.t. Ax = y`` it is ``max yᵀu s.t. ‖Aᵀu‖_∞ ≤ 1``. A pair (x, u) with Ax = y, a feasible u and equal
objectives proves that x is optimal (weak duality). It is the only solution where the columns
``E = {j : |a_jᵀu| ≥ 1 − 1e-7}`` are linearly independent: every solution lives on E, by complementary slackness.
Numbers of 64 bits ask for more: x is called unique where it lives on E itself, its residual is nothing but rounding
(an optimal x may leave out a short column that y needs a little of), and A_E, with unit columns, does not blow that
residual up beyond 1e-10. A vector r with ``Aᵀr ≤ 0`` (signed: ``Aᵀr = 0``) and ``yᵀr > 0`` proves that no solution
exists (Farkas).

Whoever encodes knows x, and can build a certificate without a solver: with the support S and the signs s of x,
``u = A_S(A_SᵀA_S)⁻¹s`` is the shortest u with ``A_Sᵀu = s``. Where it is below 1 off the support by some slack, x will
come back; where it is not, nothing is known (`minimum_norm_dual`).

Nothing here is shared with a solver, and no solver imports its helpers from here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from sparselens._validation import (
    FloatArray,
    check_finite_rows,
    check_measurement_matrix,
    check_measurements,
    check_rows,
)

PRIMAL_TOL = 1e-11  # ‖Ax − y‖ / ‖y‖
NEGATIVE_TOL = 1e-12  # most negative entry / ‖x‖₁
DUAL_TOL = 1e-9  # max(Aᵀu) − 1
GAP_TOL = 1e-9  # |1ᵀx − yᵀu| / 1ᵀx
EQUALITY_TOL = 1e-7  # a column belongs to E where a_jᵀu ≥ 1 − this
FARKAS_DUAL_TOL = 1e-10  # max(a_jᵀr / ‖a_j‖) for ‖r‖ = 1
FARKAS_GAIN = 1e-7  # yᵀr / ‖y‖ for ‖r‖ = 1: a thousand times the error that the line above allows
ROUNDING = 1e-13  # ‖Ax − y‖ / ‖y‖ that is nothing but rounding: more, and something may be missing from x
EXACT = 1e-10  # what the residual may become in x: ‖Ax − y‖ / σ, with the smallest singular value of A_E (unit columns)

_WELL = 1e-4  # singular values above it are well; a certificate that is built needs them
_CELLS = 2**22  # entries of a stack of matrices held at once (32 MB)
_CACHED = 2**18  # entries of a block of U A, or of a stack of tight columns: the next step finds them in the cache


@dataclass(frozen=True, eq=False)
class Certificate:
    """What was checked, row by row.

    Attributes
    ----------
    residual, negativity, dual_violation, gap : float arrays of shape (n,)
        ``‖Ax − y‖/‖y‖``, ``max(0, −min x)/‖x‖₁`` (0 for signed), ``max(Aᵀu) − 1`` (signed: ``‖Aᵀu‖_∞ − 1``),
        ``(‖x‖₁ − yᵀu)/‖x‖₁``.
    optimal, unique : bool arrays of shape (n,)
        Whether the pair proves that x is a solution, and that it is the only one.
    """

    residual: FloatArray
    negativity: FloatArray
    dual_violation: FloatArray
    gap: FloatArray
    optimal: np.ndarray
    unique: np.ndarray


def verify(A: Any, Y: Any, X: Any, U: Any, *, positive: bool = True) -> Certificate:
    """Check that each row of X solves its ℓ1 problem, given the dual vectors U.

    Parameters
    ----------
    A : array of shape (m, d)
    Y, U : arrays of shape (n, m)
        Measurements and dual vectors.
    X : array or sparse of shape (n, d)
        The rows that are claimed to be optimal.
    positive : bool
        Whether the problem has the constraint x ≥ 0.

    Examples
    --------
    >>> c = verify([[1.0, 2.0]], [[4.0]], [[0.0, 2.0]], [[0.5]])
    >>> bool(c.optimal[0]), bool(c.unique[0])
    (True, True)
    >>> bool(verify([[1.0, 2.0]], [[4.0]], [[4.0, 0.0]], [[0.5]]).optimal[0])  # feasible, but twice as long
    False
    """
    A = check_measurement_matrix(A)
    Y, U = check_measurements(Y, len(A)), check_measurements(U, len(A), name="U")
    check_finite_rows(Y)
    X = check_rows(X, n_features=A.shape[1], min_rows=0)
    if not len(Y) == len(U) == X.shape[0]:
        raise ValueError(f"Y, X and U must have equally many rows, got {len(Y)}, {X.shape[0]} and {len(U)}.")
    return Verifier(A, positive=positive).optimal(Y, X, U)


def minimum_norm_dual(A: FloatArray, X: sp.csr_array, *, positive: bool = True) -> tuple[FloatArray, FloatArray]:
    """The shortest u with ``A_Sᵀu = sign(x_S)`` for each row, and by how much it proves that x comes back.

    Parameters
    ----------
    A : float64 array of shape (m, d)
    X : csr_array of shape (n, d)
        Canonical rows; only their supports and signs matter.
    positive : bool

    Returns
    -------
    U : float64 array of shape (n, m)
        NaN where the columns of a support are dependent, or so nearly that 1e-10 could not be promised.
    slack : float64 array of shape (n,)
        ``1 − max_{j∉S} a_jᵀu`` (signed: of ``|a_jᵀu|``); above 0 the row is the only solution. −∞ where u is NaN.

    Examples
    --------
    >>> U, slack = minimum_norm_dual(np.array([[1.0, 0.0, 0.4], [0.0, 1.0, 0.4]]), sp.csr_array([[2.0, 3.0, 0.0]]))
    >>> U, slack.round(10)
    (array([[1., 1.]]), array([0.2]))
    """
    n, (m, d) = X.shape[0], A.shape
    columns = np.ascontiguousarray(A.T)
    counts = np.diff(X.indptr)
    signs = np.sign(X.data)
    U = np.full((n, m), np.nan)
    U[counts == 0] = 0.0
    for count in np.unique(counts[(counts > 0) & (counts <= m)]):
        rows = np.flatnonzero(counts == count)
        for chunk in np.array_split(rows, 1 + len(rows) * int(count) * m // _CELLS):
            places = X.indptr[chunk][:, None] + np.arange(count)
            U[chunk] = _shortest(columns[X.indices[places]], signs[places])
    slack = np.full(n, -np.inf)
    for block in _blocks(np.flatnonzero(np.isfinite(U).all(axis=1)), d):
        P = U[block] @ A
        if not positive:
            np.abs(P, out=P)
        place = np.repeat(np.arange(len(block)), counts[block])
        inside = np.concatenate([X.indices[X.indptr[i] : X.indptr[i + 1]] for i in block]) if len(block) else place
        P[place, inside] = -np.inf
        slack[block] = 1.0 - P.max(axis=1)
    return U, slack


def _shortest(B: FloatArray, s: FloatArray) -> FloatArray:
    """u = Bᵀ(BBᵀ)⁻¹s for a stack (b, k, m) of k rows each; NaN where they are nearly dependent."""
    norms = np.linalg.norm(B, axis=2)
    alive = (norms > 0).all(axis=1)
    norms = np.where(norms > 0, norms, 1.0)
    B = B / norms[:, :, None]
    good = alive & _independent_rows(B, np.full(len(B), _WELL))
    out = np.full((len(B), B.shape[2]), np.nan)
    if good.any():
        B, target = B[good], (s / norms)[good][:, :, None]
        gram = B @ B.transpose(0, 2, 1)
        w = np.linalg.solve(gram, target)
        w += np.linalg.solve(gram, target - gram @ w)
        out[good] = (w.transpose(0, 2, 1) @ B)[:, 0]
    return out


class Verifier:
    """`verify` for one matrix and many batches: what depends on A alone is done once.

    Arrays are taken as they are (float64, right shapes); `verify` is the checked front. `columns` is Aᵀ as an array of
    its own, where the caller has it already.
    """

    def __init__(self, A: FloatArray, *, positive: bool = True, columns: FloatArray | None = None) -> None:
        self.A = A
        self.positive = positive
        self.columns = np.ascontiguousarray(A.T) if columns is None else columns  # (d, m): row j is column a_j
        self.norms = np.sqrt(np.einsum("ij,ij->i", self.columns, self.columns))

    def optimal(self, Y: FloatArray, X: sp.csr_array, U: FloatArray) -> Certificate:
        """Check optimality and uniqueness of every row."""
        n = len(Y)
        residual = _relative(np.linalg.norm(X @ self.columns - Y, axis=1), np.linalg.norm(Y, axis=1))
        row_of = np.repeat(np.arange(n), np.diff(X.indptr))
        length = np.bincount(row_of, weights=np.abs(X.data), minlength=n).astype(np.float64)
        negativity = np.zeros(n)
        if self.positive:
            below = np.flatnonzero(X.data < 0)
            np.maximum.at(negativity, row_of[below], -X.data[below])
            negativity = _relative(negativity, length)
        gap = _relative(length - np.einsum("ij,ij->i", Y, U), length)
        violation = np.full(n, np.inf)
        tight = []  # the rows and the columns of E
        on_tight = np.ones(n, dtype=bool)
        finite = np.isfinite(U).all(axis=1)
        blocks = _blocks(np.flatnonzero(finite), self.A.shape[1])
        prices = np.empty((max(map(len, blocks), default=0), self.A.shape[1]))  # one array for all: new memory is slow
        for block in blocks:
            P = np.matmul(U[block], self.A, out=prices[: len(block)])
            if not self.positive:
                np.abs(P, out=P)
            violation[block] = P.max(axis=1) - 1.0
            rows, columns = np.divmod(np.flatnonzero(P >= 1.0 - EQUALITY_TOL), P.shape[1])
            tight.append((block[rows], columns))
            rows, columns = entries(X, block)
            on_tight[block[rows[P[rows, columns] < 1.0 - EQUALITY_TOL]]] = False
        full_rank = finite & self._tight_columns_independent(n, tight, self._least_sigma(Y, X, residual))
        good = (
            (residual <= PRIMAL_TOL) & (negativity <= NEGATIVE_TOL) & (violation <= DUAL_TOL) & (np.abs(gap) <= GAP_TOL)
        )
        unique = good & on_tight & (residual <= ROUNDING) & full_rank
        return Certificate(residual, negativity, violation, gap, good, unique)

    def infeasible(self, Y: FloatArray, R: FloatArray) -> np.ndarray:
        """True where r proves that no x has these measurements.

        With ‖r‖ = 1 the tolerances exclude every x with ``Σ ‖a_j‖ |x_j| ≤ 1000 ‖y‖``; longer vectors cannot be
        told from infeasibility in float64.
        """
        out = np.zeros(len(Y), dtype=bool)
        length, size = np.linalg.norm(R, axis=1), np.linalg.norm(Y, axis=1)
        usable = np.flatnonzero(np.isfinite(length) & (length > 0) & (size > 0))
        for block in _blocks(usable, self.A.shape[1]):
            unit = R[block] / length[block, None]
            P = unit @ self.A
            if not self.positive:
                np.abs(P, out=P)
            gain = np.einsum("ij,ij->i", Y[block], unit) / size[block]
            out[block] = np.all(P - FARKAS_DUAL_TOL * self.norms <= 0, axis=1) & (gain >= FARKAS_GAIN)
        return out

    def _least_sigma(self, Y: FloatArray, X: sp.csr_array, residual: FloatArray) -> FloatArray:
        """The smallest singular value of A_E with which the residual, or rounding, stays below `EXACT` in x."""
        row_of = np.repeat(np.arange(len(Y)), np.diff(X.indptr))
        weight = np.sqrt(np.bincount(row_of, weights=(X.data * self.norms[X.indices]) ** 2, minlength=len(Y)))
        missed = np.maximum(residual, np.finfo(np.float64).eps) * np.linalg.norm(Y, axis=1)
        return _relative(missed, weight) / EXACT

    def _tight_columns_independent(
        self, n: int, tight: list[tuple[np.ndarray, np.ndarray]], least: FloatArray
    ) -> np.ndarray:
        """Whether the columns that belong to each of n rows are linearly independent, by the margin of each row."""
        counts = np.zeros(n, dtype=np.int64)
        for rows, _ in tight:
            counts += np.bincount(rows, minlength=n)
        where = np.concatenate([columns for _, columns in tight]) if tight else np.zeros(0, dtype=np.int64)
        start = np.concatenate(([0], np.cumsum(counts)))
        out = counts == 0
        for count in np.unique(counts[(counts > 0) & (counts <= len(self.A))]):
            rows = np.flatnonzero(counts == count)
            for chunk in np.array_split(rows, 1 + len(rows) * int(count) * len(self.A) // _CACHED):
                picks = where[start[chunk][:, None] + np.arange(count)]
                out[chunk] = _independent_rows(self.columns[picks], least[chunk], self.norms[picks])
        return out


def entries(X: sp.csr_array, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where these rows of X are not zero: places in `rows`, and columns."""
    counts = np.diff(X.indptr)[rows]
    at = np.repeat(X.indptr[rows] + counts - np.cumsum(counts), counts) + np.arange(counts.sum())
    at, place = at[X.data[at] != 0], np.repeat(np.arange(len(rows)), counts)[X.data[at] != 0]
    return place, X.indices[at]


def _independent_rows(B: FloatArray, least: FloatArray, norms: FloatArray | None = None) -> np.ndarray:
    """For a stack (b, k, m) of k rows each: whether, made unit vectors, their singular values are above `least` (b)."""
    if norms is None:
        norms = np.linalg.norm(B, axis=2)
    scale = 1.0 / np.where(norms > 0, norms, 1.0)
    gram = B @ B.transpose(0, 2, 1)
    gram *= scale[:, :, None]
    gram *= scale[:, None, :]
    diagonal = np.arange(gram.shape[1])
    gram[:, diagonal, diagonal] -= _WELL**2  # a Cholesky factor then proves that every singular value is at least _WELL
    well = _positive_definite(gram)
    out = well & (least <= _WELL)
    for i in np.flatnonzero(well != (least <= _WELL)):  # what the factor leaves open
        out[i] = np.linalg.svd(B[i] * scale[i, :, None], compute_uv=False)[-1] > least[i]
    return out


def _positive_definite(gram: FloatArray) -> np.ndarray:
    """Which matrices of a stack have a Cholesky factor."""
    try:
        np.linalg.cholesky(gram)
    except np.linalg.LinAlgError:
        if len(gram) == 1:
            return np.zeros(1, dtype=bool)
        half = len(gram) // 2
        return np.concatenate([_positive_definite(gram[:half]), _positive_definite(gram[half:])])
    return np.ones(len(gram), dtype=bool)


def _relative(value: FloatArray, scale: FloatArray) -> FloatArray:
    """value / scale, and value itself where the scale is zero."""
    return value / np.where(scale > 0, scale, 1.0)


def _blocks(rows: np.ndarray, width: int) -> list[np.ndarray]:
    """Split row numbers into blocks whose product with A stays in the cache, but large enough for a quick product."""
    size = max(64, _CACHED // max(width, 1))
    return [rows[lo : lo + size] for lo in range(0, len(rows), size)]
