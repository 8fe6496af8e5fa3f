"""The contract of the multi-label classifiers: CSR in, the k best labels of each row out, by blocks of rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from sparselens._validation import FloatArray, check_callback, check_count, check_labels, check_rows, unit_rows
from sparselens.metrics import jain_propensities, precision_at_k
from sparselens.persist import Storable, rows_checksum
from sparselens.xml._topk import ranked_rows, row_blocks, top_k

Progress = Callable[[int, int, str], None]  # called with (done, total, what)


class MultilabelClassifier(Storable, BaseEstimator):
    """Base of all classifiers from sparse features to sparse label vectors.

    A subclass keeps its hyper-parameters in ``__init__`` and writes `_fit` (X has unit rows unless `normalize` is
    False, Y holds ones) and `_score_block`. Defined meanings: a row without labels teaches that no label applies; a
    label without rows is never preferred; a row without features is legal and gets a ranking too.

    Attributes
    ----------
    n_features_in_, n_labels_ : int
    label_counts_ : int array of shape (n_labels,)
        In how many training rows each label occurs.
    training_data_ : dict
        ``n_rows``, ``n_features``, ``n_labels`` and the sha256 of both matrices.
    """

    normalize: bool

    def fit(self, X: Any, Y: Any, *, callback: Progress | None = None) -> Self:
        """Learn from features X (n, p) and labels Y (n, L); every nonzero of Y is a label.

        Parameters
        ----------
        X, Y : array or sparse matrix
        callback : callable, optional
            Told (done, total, what) as the work proceeds.
        """
        self.__dict__.pop("training_data_", None)  # a fit that fails leaves a classifier that is not fitted
        check_callback(callback)
        X = check_rows(X)
        Y = check_labels(Y, n_rows=X.shape[0])
        self.n_features_in_, self.n_labels_ = int(X.shape[1]), int(Y.shape[1])
        self.label_counts_ = np.bincount(Y.indices, minlength=self.n_labels_)
        self._fit(self._scaled(X), Y, callback if callback is not None else _silent)
        self.training_data_ = {
            "n_rows": X.shape[0],
            "n_features": X.shape[1],
            "n_labels": Y.shape[1],
            "sha256": [rows_checksum(X), rows_checksum(Y)],
        }
        return self

    def predict_topk(self, X: Any, *, k: int = 5, callback: Progress | None = None) -> sp.csr_array:
        """Rank the labels of each row and return the scores of the k best as CSR (n, n_labels).

        Every row holds ``min(k, n_labels)`` stored scores; of equal scores the smaller label is kept. Scores rank the
        labels of one row; they are no probabilities. Memory grows with a block of rows, never with n · n_labels.
        """
        check_is_fitted(self)
        k = check_count(k, "k")
        X = self._scaled(check_rows(X, n_features=self.n_features_in_, min_rows=0))
        parts = []
        for rows in row_blocks(X.shape[0], self._block_width()):
            columns, values = top_k(self._score_block(X[rows]), k)
            parts.append(ranked_rows(columns, values, self.n_labels_))
            if callback is not None:
                callback(rows.stop, X.shape[0], "rows")
        return sp.csr_array(sp.vstack(parts, format="csr")) if parts else sp.csr_array((0, self.n_labels_))

    def score(self, X: Any, Y: Any, *, k: int = 1) -> float:
        """P@k of the predictions for X against the labels Y."""
        X = check_rows(X)
        return precision_at_k(check_labels(Y, n_rows=X.shape[0]), self.predict_topk(X, k=k), k=k)

    def inverse_propensities(self, *, A: float = 0.55, B: float = 1.5) -> FloatArray:
        """1/propensity of each label by the training labels, for `sparselens.metrics.psp_at_k`."""
        check_is_fitted(self)
        return jain_propensities(self.label_counts_, self.training_data_["n_rows"], A=A, B=B)

    # ---- for subclasses -------------------------------------------------------------------------------------

    def _fit(self, X: sp.csr_array, Y: sp.csr_array, callback: Progress) -> None:
        """Set the fitted attributes."""
        raise NotImplementedError

    def _score_block(self, X: sp.csr_array) -> FloatArray:
        """Scores (b, n_labels) of a few rows, scaled as in fit."""
        raise NotImplementedError

    def _block_width(self) -> int:
        """Numbers that a row needs while it is scored: decides how many rows make a block."""
        return self.n_labels_

    def _scaled(self, X: sp.csr_array) -> sp.csr_array:
        return unit_rows(X) if self.normalize else X

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "training_data_")  # the last thing that fit sets

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.multi_output = True
        return tags


def _silent(done: int, total: int, what: str) -> None:
    """What is told to nobody."""


def standardised(scores: FloatArray) -> FloatArray:
    """Rows scaled to unit ℓ2 norm, so that two kinds of score can be added; rows of zeros stay."""
    size = np.linalg.norm(scores, axis=1, keepdims=True)
    return scores / np.where(size > 0, size, 1.0)
