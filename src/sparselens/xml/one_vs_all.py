"""One ridge regression a label: the plain baseline, and the scores that every linear label embedding compresses."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import scipy.sparse as sp

from sparselens._validation import FloatArray, check_count, check_positive_float
from sparselens.xml._parts import Parts, PartsMixin
from sparselens.xml.base import MultilabelClassifier, Progress
from sparselens.xml.linear_map import ridge, with_constant

_DENSE = 2**28  # numbers (2 GB) up to which a matrix may stay dense


def check_fits(n: int, n_labels: int, what: str, remedy: str) -> None:
    """Raise an error where a dense matrix (n, n_labels) would not fit into memory."""
    if n * n_labels > _DENSE:
        size = n * n_labels * 8 / 1e9
        raise ValueError(f"{what} ({n:,} x {n_labels:,}) make a dense matrix of {size:.0f} GB: {remedy}.")


class RidgeOneVsAll(PartsMixin, MultilabelClassifier):
    """Rank labels by a ridge regression for each of them: ``scores = XW``.

    Ridge regression is linear in its targets, so that the predicted embedding of any linear label embedding A, with the
    same alpha and bias, is ``A`` times these scores: no embedding of them can know more.

    Parameters
    ----------
    alpha : float
        The weight of ``‖w‖²``.
    bias : float
        The value of a constant feature; 0 for none.
    label_block : int
        Labels that are fitted at a time.
    prune : float
        Weights of a smaller magnitude are dropped and the others stored sparse, as DiSMEC does with 0.01: needed where
        features times labels do not fit into memory.
    method, tol : as in `ridge`
    normalize : bool
        Scale the rows of X to unit ℓ2 norm.
    checkpoint : path, optional
        A folder in which finished blocks of labels are kept; `fit` goes on from those it finds there.

    Attributes
    ----------
    parts_ : list of arrays or csr_arrays
        The weights (p, b) of each block of labels, with one more row for the bias.

    Examples
    --------
    >>> X, Y = np.eye(3), np.array([[1, 0], [0, 1], [1, 1]])
    >>> RidgeOneVsAll(alpha=0.1).fit(X, Y).predict_topk(X, k=1).indices
    array([0, 1, 0])
    """

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        bias: float = 1.0,
        label_block: int = 1024,
        prune: float = 0.0,
        method: str = "auto",
        tol: float = 1e-4,
        normalize: bool = True,
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> None:
        self.alpha = alpha
        self.bias = bias
        self.label_block = label_block
        self.prune = prune
        self.method = method
        self.tol = tol
        self.normalize = normalize
        self.checkpoint = checkpoint

    _trees = ("parts_",)

    def _fit(self, X: sp.csr_array, Y: sp.csr_array, callback: Progress) -> None:
        size = check_count(self.label_block, "label_block")
        prune = check_positive_float(self.prune, "prune", allow_zero=True)
        bias = check_positive_float(self.bias, "bias", allow_zero=True)
        if prune == 0:
            remedy = "set prune (0.01, say) to store the weights sparse, or embed the labels"
            check_fits(X.shape[1], Y.shape[1], "features times labels", remedy)
        kept = Parts(self.checkpoint, self, X, Y)
        X, columns = with_constant(X, bias), sp.csc_array(Y)
        self.parts_: list[Any] = []
        for first in range(0, Y.shape[1], size):
            block = sp.csr_array(columns[:, first : first + size])

            def learn(block: sp.csr_array = block) -> Any:
                W = ridge(X, block, alpha=self.alpha, method=self.method, tol=self.tol)
                return sp.csr_array(np.where(np.abs(W) >= prune, W, 0.0)) if prune else W

            self.parts_.append(kept.get(f"labels{first}", learn))
            callback(min(first + size, Y.shape[1]), Y.shape[1], "labels")

    def _score_block(self, X: sp.csr_array) -> FloatArray:
        X = with_constant(X, self.bias)
        scores = [X @ W for W in self.parts_]
        return np.hstack([part.toarray() if sp.issparse(part) else part for part in scores])
