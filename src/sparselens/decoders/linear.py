"""Linear decoding: x̂ = Aᵀy (PCA's own decoder) or x̂ = A⁺y."""

from __future__ import annotations

import numpy as np

from sparselens._validation import FloatArray, check_choice
from sparselens.decoders.base import BaseDecoder
from sparselens.recovery import Recovery


class LinearDecoder(BaseDecoder):
    """Estimate rows by one matrix product.

    Parameters
    ----------
    method : "transpose" or "pinv"
        ``x̂ = Aᵀy``, which is PCA's own decoder where A has orthonormal rows, or ``x̂ = A⁺y``, the shortest
        vector with these measurements.

    Examples
    --------
    >>> LinearDecoder("pinv").bind([[1.0, 1.0]]).decode([[4.0]]).x.toarray()
    array([[2., 2.]])
    """

    def __init__(self, method: str = "transpose") -> None:
        self.method = method

    def _prepare(self) -> None:
        check_choice(self.method, "method", ("transpose", "pinv"))
        self._decoding_ = self.A_ if self.method == "transpose" else np.linalg.pinv(self.A_).T

    def _decode_block(self, Y: FloatArray) -> Recovery:
        return self._estimate(Y, Y @ self._decoding_)
