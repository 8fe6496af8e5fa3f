"""Measurement matrices drawn at random: they need no data, and every learned one must beat them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from sparselens._random import derive_rng
from sparselens._validation import FloatArray
from sparselens.encoders.base import LinearEncoder


def gaussian_matrix(m: int, d: int, rng: np.random.Generator) -> FloatArray:
    """An (m, d) matrix with independent N(0, 1/m) entries."""
    return rng.standard_normal((m, d)) / np.sqrt(m)


def partial_fourier_matrix(m: int, d: int, rng: np.random.Generator) -> FloatArray:
    """Rows of the d x d Fourier matrix at random frequencies, as m real rows.

    Draws h = ⌈m/2⌉ frequencies f uniformly with replacement; measurement i is ``cos(2π f_i j / d) / √(m/2)`` for
    i < h and ``sin(2π f_{i−h} j / d) / √(m/2)`` from h on. For odd m the last frequency gives its cosine alone.
    """
    half = (m + 1) // 2
    frequencies = rng.integers(d, size=half)
    # The phase is reduced as an integer: f·j reaches d², where a float64 angle would have lost its last digits.
    angles = (2 * np.pi / d) * (np.outer(frequencies, np.arange(d)) % d)
    rows = np.concatenate([np.cos(angles), np.sin(angles[: m - half])])
    return rows / np.sqrt(m / 2)


class _DrawnEncoder(LinearEncoder):
    """An encoder whose matrix is drawn from its seed alone: `fit` looks at the number of columns only."""

    _name: str  # of the stream of random numbers
    _draw: Callable[[int, int, np.random.Generator], FloatArray]

    def __init__(self, n_components: int = 2, *, random_state: Any = None) -> None:
        self.n_components = n_components
        self.random_state = random_state

    def _learn(
        self, X: sp.csr_array, X_valid: sp.csr_array | None, m: int, callback: Callable[..., None] | None
    ) -> FloatArray:
        return self._draw(m, X.shape[1], derive_rng(self.random_state, encoder=self._name))


class GaussianEncoder(_DrawnEncoder):
    """Measure with a random Gaussian matrix: the classical choice, which knows nothing about the data.

    Parameters
    ----------
    n_components : int, default=2
        The number m of measurements, at most the number of columns.
    random_state : int, RandomState or None
        The same integer gives the same matrix, bit for bit.

    Attributes
    ----------
    components_ : float64 array of shape (m, d)
        The measurement matrix A with independent N(0, 1/m) entries.

    Examples
    --------
    >>> import numpy as np
    >>> enc = GaussianEncoder(n_components=3, random_state=0).fit(np.eye(6))
    >>> Y = enc.transform([[0, 0, 2.0, 0, 0, 0]])
    >>> Y.shape
    (1, 3)
    >>> enc.inverse_transform(Y).toarray().round(10)
    array([[0., 0., 2., 0., 0., 0.]])
    """

    _name = "gaussian"
    _draw = staticmethod(gaussian_matrix)


class PartialFourierEncoder(_DrawnEncoder):
    """Measure with random rows of the Fourier matrix (the paper's appendix).

    Half of the m real measurements are cosines and half sines, of ⌈m/2⌉ frequencies drawn uniformly with
    replacement, scaled by 1/√(m/2). For odd m the last frequency gives its cosine alone. A frequency drawn twice,
    or 0 (whose sine is zero), makes the rows dependent: recovery varies more than with Gaussian rows, and a decoder
    sees at most the rank of A.

    Parameters
    ----------
    n_components : int, default=2
        The number m of measurements, at most the number of columns.
    random_state : int, RandomState or None
        The same integer gives the same matrix, bit for bit.

    Attributes
    ----------
    components_ : float64 array of shape (m, d)
        The measurement matrix A: cosine rows first, then sine rows.

    References
    ----------
    Haviv and Regev, "The restricted isometry property of subsampled Fourier matrices", 2015.

    Examples
    --------
    >>> import numpy as np
    >>> A = PartialFourierEncoder(n_components=4, random_state=0).fit(np.eye(8)).components_
    >>> np.hypot(A[:2], A[2:]).round(10)[:, :3]  # cos² + sin² = 1, over m/2 = 2
    array([[0.70710678, 0.70710678, 0.70710678],
           [0.70710678, 0.70710678, 0.70710678]])
    """

    _name = "fourier"
    _draw = staticmethod(partial_fourier_matrix)
