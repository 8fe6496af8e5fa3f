"""The encoder contract: a scikit-learn transformer that learns a few measurements for sparse rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from sparselens._validation import (
    FloatArray,
    as_numbers,
    check_callback,
    check_n_components,
    check_positive_float,
    check_rows,
)
from sparselens.decoders.base import BaseDecoder
from sparselens.persist import Storable, rows_checksum


class BaseEncoder(Storable, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Base of all encoders, linear or not.

    A subclass keeps its hyper-parameters in ``__init__`` (``n_components`` first, no logic) and writes `_fit`,
    which sets the fitted attributes, `_encode`, which measures checked rows, and `decoder`. Linear encoders derive
    from `LinearEncoder` and write `_learn` alone. Fitted arrays, dictionaries of arrays, numbers and texts are
    saved and loaded without further work (`sparselens.persist.Storable`).

    Attributes
    ----------
    n_features_in_ : int
        The number d of columns that `fit` saw.
    positive_ : bool
        Whether the training rows have no negative entry.
    training_data_ : dict
        ``n_rows``, ``n_columns`` and ``sha256`` of the rows that `fit` saw.
    """

    n_components: int
    _nonnegative = False  # whether X must be nonnegative
    _linear = False  # whether transform is a product, which takes CSR rows in any order

    def fit(self, X: Any, y: Any = None, *, X_valid: Any = None, callback: Callable[..., None] | None = None) -> Self:
        """Learn the measurements from sparse rows.

        Parameters
        ----------
        X : array or sparse matrix of shape (n, d)
            Training rows; CSR is never made dense whole.
        y : ignored
        X_valid : array or sparse matrix of shape (n_valid, d), optional
            Rows for early stopping and for tuning; encoders that need none ignore them.
        callback : callable, optional
            Told about the progress of a long fit; encoders without a loop never call it.
        """
        check_callback(callback)
        X, X_valid, m = self._begin(X, X_valid)
        self._fit(X, X_valid, m, callback)
        self._end(X)
        return self

    def transform(self, X: Any) -> FloatArray:
        """Measure rows: return the float64 array Y of shape (n, m)."""
        check_is_fitted(self)
        return self._encode(self._check(X, reset=False))

    def inverse_transform(self, Y: Any) -> sp.csr_array:
        """Recover rows from measurements with this encoder's own decoder.

        Returns CSR rows (n, d). For certificates row by row use ``decoder().decode(Y)``.
        """
        return self.decoder().decode(Y).x

    def decoder(self) -> BaseDecoder:
        """This encoder's default decoder, bound to what was fitted."""
        raise NotImplementedError

    # ---- for subclasses -------------------------------------------------------------------------------------

    def _begin(self, X: Any, X_valid: Any) -> tuple[sp.csr_array, sp.csr_array | None, int]:
        """What comes before any training: checked rows and the number m of measurements."""
        self.__dict__.pop("training_data_", None)  # a fit that fails leaves an encoder that is not fitted
        X = self._check(X, reset=True)
        if X_valid is not None:
            X_valid = check_rows(X_valid, name="X_valid", nonnegative=self._nonnegative, n_features=self.n_features_in_)
        m = check_n_components(self.n_components, self.n_features_in_)
        self.positive_ = bool(X.nnz == 0 or X.data.min() >= 0)
        return X, X_valid, m

    def _end(self, X: sp.csr_array) -> None:
        """From here on the encoder is fitted."""
        self.training_data_ = {"n_rows": X.shape[0], "n_columns": X.shape[1], "sha256": rows_checksum(X)}

    def _fit(self, X: sp.csr_array, X_valid: sp.csr_array | None, m: int, callback: Callable[..., None] | None) -> None:
        """Set the fitted attributes; X is canonical float64 CSR."""
        raise NotImplementedError

    def _encode(self, X: sp.csr_array) -> FloatArray:
        """Measure canonical CSR rows."""
        raise NotImplementedError

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "training_data_")  # the last thing that fit sets

    def _check(self, X: Any, *, reset: bool) -> sp.csr_array:
        """scikit-learn's bookkeeping of names and column counts between our checks."""
        as_numbers(X, "X")  # first, because it says what to do about text, None and ragged lists
        X = validate_data(
            self, X, reset=reset, accept_sparse="csr", dtype=[np.float64, np.float32], ensure_all_finite=False
        )
        return check_rows(X, nonnegative=self._nonnegative, canonical=reset or not self._linear)

    def _restore(self, arrays: dict[str, np.ndarray], scalars: dict[str, Any]) -> None:
        super()._restore(arrays, scalars)
        for name, kind in (("n_features_in_", int), ("positive_", bool), ("training_data_", dict)):
            if type(getattr(self, name)) is not kind:
                raise ValueError(f"{name} must be of type {kind.__name__}, got {getattr(self, name)!r}")

    @property
    def _n_features_out(self) -> int:
        return int(self.n_components)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = self._nonnegative
        return tags


class LinearEncoder(BaseEncoder):
    """Base of all linear encoders ``Y = X Aᵀ``.

    A subclass keeps its hyper-parameters in ``__init__`` (``n_components`` first) and writes `_learn`, which
    returns the measurement matrix A.

    Attributes
    ----------
    components_ : float64 array of shape (m, d)
        The measurement matrix A, in Fortran order, so that `transform` multiplies by Aᵀ without a copy.
    """

    _linear = True

    def decoder(self) -> BaseDecoder:
        """This encoder's default decoder, bound to `components_`: ℓ1-min, with x ≥ 0 where the training rows had it."""
        from sparselens.decoders.l1 import L1Decoder

        check_is_fitted(self)
        return L1Decoder(positive=self.positive_).bind(self.components_)

    # ---- for subclasses -------------------------------------------------------------------------------------

    def _learn(
        self, X: sp.csr_array, X_valid: sp.csr_array | None, m: int, callback: Callable[..., None] | None
    ) -> FloatArray:
        """Return the measurement matrix (m, d)."""
        raise NotImplementedError

    def _fit(self, X: sp.csr_array, X_valid: sp.csr_array | None, m: int, callback: Callable[..., None] | None) -> None:
        self._set_matrix(self._learn(X, X_valid, m, callback))

    def _set_matrix(self, A: FloatArray) -> None:
        self.components_ = np.asfortranarray(A, dtype=np.float64)

    def _encode(self, X: sp.csr_array) -> FloatArray:
        return np.ascontiguousarray(X @ np.ascontiguousarray(self.components_.T))

    def _restore(self, arrays: dict[str, np.ndarray], scalars: dict[str, Any]) -> None:
        super()._restore(arrays, scalars)
        A = arrays["components_"]
        if A.dtype != np.float64 or A.ndim != 2 or A.shape[1] != self.n_features_in_ or not np.isfinite(A).all():
            raise ValueError(
                f"components_ must be a finite float64 matrix with {self.n_features_in_} columns, "
                f"got {A.dtype} of shape {A.shape}"
            )
        self.components_ = np.asfortranarray(A)

    @property
    def _n_features_out(self) -> int:
        return int(self.components_.shape[0])


def training_identity(encoder: BaseEncoder, X: sp.csr_array, X_valid: sp.csr_array | None) -> dict[str, Any]:
    """What a checkpoint must agree with to be resumed, beside the seed: class, parameters, rows."""
    elsewhere = ("checkpoint", "device", "random_state")  # the seed is one of the settings of the loop
    return {
        "class": type(encoder).__name__,
        "params": {name: value for name, value in encoder.get_params().items() if name not in elsewhere},
        "training rows": rows_checksum(X),
        "validation rows": None if X_valid is None else rows_checksum(X_valid),
    }


def hold_out(
    X: sp.csr_array, X_valid: sp.csr_array | None, *, fraction: float, rng: np.random.Generator
) -> tuple[sp.csr_array, sp.csr_array]:
    """Training and validation rows; without `X_valid` a random part of X, at least one row, is set aside.

    A single row trains and validates.

    Examples
    --------
    >>> X = sp.csr_array(np.eye(5))
    >>> [part.shape[0] for part in hold_out(X, None, fraction=0.2, rng=np.random.default_rng(0))]
    [4, 1]
    """
    fraction = check_positive_float(fraction, "validation_fraction")
    if fraction >= 1:
        raise ValueError(f"validation_fraction must be below 1, got {fraction}.")
    if X_valid is not None:
        return X, X_valid
    order = rng.permutation(X.shape[0])
    n_valid = max(1, round(fraction * len(order)))
    return (X[order[n_valid:]], X[order[:n_valid]]) if len(order) > n_valid else (X, X)
