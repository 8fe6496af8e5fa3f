"""A linear map from features to embeddings: ridge regression by Cholesky, or by conjugate gradients in the dual."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from sparselens._validation import FloatArray, check_choice, check_positive_float, check_rows
from sparselens.persist import Storable, rows_checksum
from sparselens.recovery import SparselensError
from sparselens.xml._topk import row_blocks

_CHOLESKY_FEATURES = 6000  # up to here the Gram matrix of the features takes 0.3 GB and some seconds
_MAX_ITERATIONS = 1000
_CELLS = 2**24  # right-hand sides that are solved for at a time (128 MB, and three more such arrays)


def ridge(
    X: sp.csr_array,
    Z: Any,
    *,
    alpha: float = 1.0,
    method: str = "auto",
    tol: float = 1e-6,
) -> FloatArray:
    """The matrix W (p, m) that minimises ``‖XW − Z‖_F² + alpha ‖W‖_F²``.

    Parameters
    ----------
    X : csr_array of shape (n, p)
    Z : array or sparse matrix of shape (n, m)
    alpha : float
        liblinear's C for the same problem is ``1/(2 alpha)``.
    method : "auto", "cholesky" or "cg"
        The normal equations ``(XᵀX + alpha I) W = XᵀZ`` by Cholesky, in p² memory; or ``(XXᵀ + alpha I) U = Z`` by
        conjugate gradients and ``W = XᵀU``, which needs nothing but products with X. "auto" takes the first up to
        6,000 features.
    tol : float
        "cg" stops when the residual of every column is below `tol` times its right-hand side.

    Examples
    --------
    >>> X = sp.csr_array([[1.0, 0.0], [0.0, 2.0]])
    >>> ridge(X, np.array([[2.0], [5.0]]), alpha=1.0)
    array([[1.],
           [2.]])
    """
    check_choice(method, "method", ("auto", "cholesky", "cg"))
    alpha, tol = check_positive_float(alpha, "alpha"), check_positive_float(tol, "tol")
    cholesky = method == "cholesky" or (method == "auto" and X.shape[1] <= _CHOLESKY_FEATURES)
    known = _SOLUTIONS.get()
    key = None
    if known is not None and sp.issparse(Z):
        key = (rows_checksum(X), rows_checksum(sp.csr_array(Z)), alpha, cholesky, tol)
        if key in known:
            return known[key]
    W = _by_cholesky(X, Z, alpha) if cholesky else _by_conjugate_gradients(X, Z, alpha, tol)
    if known is not None and key is not None:
        known[key] = W
    return W


_SOLUTIONS: ContextVar[dict[Any, FloatArray] | None] = ContextVar("solutions", default=None)


@contextmanager
def shared_solutions() -> Iterator[None]:
    """Inside, a regression on label rows that was solved before is not solved again: parts of a blend share them."""
    token = _SOLUTIONS.set({})
    try:
        yield
    finally:
        _SOLUTIONS.reset(token)


def _by_cholesky(X: sp.csr_array, Z: Any, alpha: float) -> FloatArray:
    from scipy.linalg import cho_factor, cho_solve

    gram = (X.T @ X).toarray()
    gram[np.diag_indices_from(gram)] += alpha
    target = X.T @ Z
    target = target.toarray() if sp.issparse(target) else np.asarray(target)
    return np.asarray(cho_solve(cho_factor(gram, overwrite_a=True), target, overwrite_b=True), dtype=np.float64)


def _by_conjugate_gradients(X: sp.csr_array, Z: Any, alpha: float, tol: float) -> FloatArray:
    """Every column is a problem of its own with its own step lengths; they share the products with X."""
    X_t = sp.csr_array(X.T)  # CSR both ways: a product with a CSC matrix scatters
    if not sp.issparse(Z):
        return _descend(X, X_t, np.array(Z, dtype=np.float64), alpha, tol)
    Z = sp.csc_array(Z)
    W = np.empty((X.shape[1], Z.shape[1]))
    for columns in row_blocks(Z.shape[1], Z.shape[0], cells=_CELLS):  # rows times labels are never held
        W[:, columns] = _descend(X, X_t, Z[:, columns].toarray(order="C"), alpha, tol)
    return W


def _descend(X: sp.csr_array, X_t: sp.csr_array, R: FloatArray, alpha: float, tol: float) -> FloatArray:
    """The solution for the right-hand sides R, which are used up."""
    size = np.linalg.norm(R, axis=0)
    size[size == 0] = 1.0
    U = np.zeros_like(R)
    P = R.copy()
    squared = np.einsum("ij,ij->j", R, R)
    for _ in range(_MAX_ITERATIONS):
        worst = float((np.sqrt(squared) / size).max(initial=0.0))
        if worst <= tol:
            return np.asarray(X_t @ U)
        Q = X @ (X_t @ P) + alpha * P
        step = squared / np.maximum(np.einsum("ij,ij->j", P, Q), np.finfo(float).tiny)
        U += step * P
        R -= step * Q
        before, squared = squared, np.einsum("ij,ij->j", R, R)
        P *= squared / np.maximum(before, np.finfo(float).tiny)
        P += R
    raise SparselensError(
        f"ridge regression did not converge in {_MAX_ITERATIONS} steps of conjugate gradients (relative residual "
        f"{worst:.1e}, asked for {tol:.1e}): raise alpha (now {alpha}) or scale the features to unit rows."
    )


def with_constant(X: sp.csr_array, value: float) -> sp.csr_array:
    """X with one more column that holds `value` in every row; X itself for 0.

    Examples
    --------
    >>> with_constant(sp.csr_array([[1.0, 0.0]]), 0.5).toarray()
    array([[1. , 0. , 0.5]])
    """
    if value == 0:
        return X
    return sp.csr_array(sp.hstack([X, np.full((X.shape[0], 1), float(value))], format="csr"))


class RidgeMap(Storable, BaseEstimator):
    """Map sparse features to embeddings by ridge regression: ``Z ≈ XW``.

    Parameters
    ----------
    alpha : float
        The weight of ``‖W‖²``; 1/(2C) in SLEEC's terms.
    bias : float
        The value of a constant feature that is added to every row (and regularised, as in liblinear); 0 for none.
    method, tol : as in `ridge`

    Attributes
    ----------
    coef_ : float64 array of shape (p, m), or (p + 1, m) with a bias
        W.

    Examples
    --------
    >>> X, Z = [[1.0, 0.0], [0.0, 2.0]], [[2.0], [5.0]]
    >>> RidgeMap(alpha=1.0).fit(X, Z).transform(X)
    array([[1.],
           [4.]])
    """

    def __init__(self, alpha: float = 1.0, *, bias: float = 0.0, method: str = "auto", tol: float = 1e-6) -> None:
        self.alpha = alpha
        self.bias = bias
        self.method = method
        self.tol = tol

    def fit(self, X: Any, Z: Any) -> Self:
        """Learn W from features X (n, p) and embeddings Z (n, m), dense or sparse."""
        X = check_rows(X)
        check_positive_float(self.bias, "bias", allow_zero=True)
        Z = check_rows(Z, name="Z") if sp.issparse(Z) else np.asarray(Z, dtype=np.float64)
        if Z.ndim != 2 or Z.shape[0] != X.shape[0]:
            raise ValueError(f"X has {X.shape[0]} rows but Z has the shape {Z.shape}: pass an embedding for each row.")
        self.n_features_in_ = X.shape[1]
        self.coef_ = ridge(with_constant(X, self.bias), Z, alpha=self.alpha, method=self.method, tol=self.tol)
        return self

    def transform(self, X: Any) -> FloatArray:
        """XW, the predicted embeddings (n, m)."""
        check_is_fitted(self)
        X = check_rows(X, n_features=self.n_features_in_, min_rows=0)
        return np.ascontiguousarray(with_constant(X, self.bias) @ self.coef_)
