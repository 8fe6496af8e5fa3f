"""How well conditioned a measurement matrix is, found once and cheaply."""

from __future__ import annotations

import numpy as np

from sparselens._validation import FloatArray

_RANK = 1e-12  # singular values below this part of the largest count as zero
_SQUARES = 1e5  # condition number up to which AAᵀ tells it well enough: its eigenvalues are the squares


class Spectrum:
    """The singular values of A (m, d) that are not zero, and its left singular vectors.

    They come from AAᵀ, for m²d operations, unless it shows that A is badly conditioned or rank-deficient: squared
    singular values cannot tell the one from the other.

    Examples
    --------
    >>> spectrum = Spectrum(np.array([[3.0, 0.0], [0.0, 0.5]]))
    >>> round(spectrum.condition, 6), spectrum.rank
    (6.0, 2)
    """

    def __init__(self, A: FloatArray) -> None:
        squares, vectors = np.linalg.eigh(A @ A.T)
        if squares[0] * _SQUARES**2 > squares[-1]:
            self.values: FloatArray = np.sqrt(squares[::-1])
            self.vectors: FloatArray = vectors[:, ::-1]
            return
        U, values, _ = np.linalg.svd(A, full_matrices=False)
        keep = values > _RANK * values[0]
        self.values, self.vectors = values[keep], U[:, keep]

    @property
    def rank(self) -> int:
        return len(self.values)

    @property
    def condition(self) -> float:
        """The largest over the smallest singular value that is not zero; 1 for a matrix of zeros."""
        return float(self.values[0] / self.values[-1]) if self.rank else 1.0

    def whitening(self) -> FloatArray:
        """``UΣ⁻¹`` (m, rank): its transpose times A has orthonormal rows."""
        return np.ascontiguousarray(self.vectors / self.values)
