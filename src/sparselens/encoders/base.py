"""The encoder contract: a scikit-learn transformer that learns a measurement matrix."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from sparselens._validation import FloatArray, check_n_components, check_rows
from sparselens.decoders.base import BaseDecoder


class LinearEncoder(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Base of all linear encoders ``Y = X Aᵀ``.

    A subclass keeps its hyper-parameters in ``__init__`` (``n_components`` first) and writes `_learn`, which
    returns the measurement matrix A.

    Attributes
    ----------
    components_ : float64 array of shape (m, d)
        The measurement matrix A.
    n_features_in_ : int
        The number d of columns that `fit` saw.
    """

    n_components: int
    _nonnegative = False  # whether X must be nonnegative

    def fit(self, X: Any, y: Any = None, *, X_valid: Any = None) -> Self:
        """Learn the measurement matrix from sparse rows.

        Parameters
        ----------
        X : array or sparse matrix of shape (n, d)
            Training rows; CSR is used as it is, never made dense whole.
        y : ignored
        X_valid : array or sparse matrix of shape (n_valid, d), optional
            Rows for early stopping and for tuning; encoders that need none ignore them.
        """
        X = self._check(X, reset=True)
        if X_valid is not None:
            X_valid = check_rows(X_valid, name="X_valid", nonnegative=self._nonnegative, n_features=self.n_features_in_)
        m = check_n_components(self.n_components, self.n_features_in_)
        self.components_ = np.ascontiguousarray(self._learn(X, X_valid, m), dtype=np.float64)
        return self

    def transform(self, X: Any) -> FloatArray:
        """Measure rows: return the float64 array ``Y = X Aᵀ`` of shape (n, m)."""
        check_is_fitted(self)
        X = self._check(X, reset=False)
        return np.ascontiguousarray(X @ self._columns())

    def inverse_transform(self, Y: Any) -> sp.csr_array:
        """Recover rows from measurements with this encoder's own decoder.

        Returns CSR rows (n, d). For certificates row by row use ``decoder().decode(Y)``.
        """
        return self.decoder().decode(Y).x

    def decoder(self) -> BaseDecoder:
        """This encoder's default decoder, bound to `components_`: ℓ1-min, with x ≥ 0 where the data have it."""
        from sparselens.decoders.l1 import L1Decoder

        check_is_fitted(self)
        return L1Decoder(positive=True).bind(self.components_)

    def save(self, folder: Any) -> None:
        """Write the fitted encoder to a folder (safetensors and a JSON manifest); `sparselens.load` reads it."""
        from sparselens.persist import save

        save(self, folder)

    # ---- for subclasses -------------------------------------------------------------------------------------

    def _learn(self, X: sp.csr_array, X_valid: sp.csr_array | None, m: int) -> FloatArray:
        """Return the measurement matrix (m, d)."""
        raise NotImplementedError

    def _check(self, X: Any, *, reset: bool) -> sp.csr_array:
        """scikit-learn's bookkeeping of names and column counts, then our checks."""
        X = validate_data(
            self, X, reset=reset, accept_sparse="csr", dtype=[np.float64, np.float32], ensure_all_finite=False
        )
        return check_rows(X, nonnegative=self._nonnegative)

    def _columns(self) -> FloatArray:
        return np.ascontiguousarray(self.components_.T)

    @property
    def _n_features_out(self) -> int:
        return int(self.components_.shape[0])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = self._nonnegative
        return tags
