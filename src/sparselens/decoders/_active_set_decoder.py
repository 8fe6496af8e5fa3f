"""What the decoders that grow a support have in common."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from sparselens._validation import FloatArray
from sparselens.decoders.base import BaseDecoder
from sparselens.recovery import Recovery


class ActiveSetDecoder(BaseDecoder):
    """Base of the decoders that run on `_active_set`; a subclass says how far by calling `_grow`."""

    def _block_size(self) -> int:
        m, d = self.A_.shape
        return int(np.clip(2**23 // max(d, m * m), 16, 4096))

    def _grow(
        self, Y: FloatArray, *, positive: bool, max_nonzeros: int, residual_tol: float, gradient_tol: float
    ) -> Recovery:
        """Fit each row of Y, scaled to unit norm and back, so that tolerances mean the same for every row."""
        from sparselens.decoders._active_set import active_set  # compiles, so it is imported when it is needed

        size = np.linalg.norm(Y, axis=1)
        x, n_steps, _ = active_set(
            self.A_,
            Y / np.where(size > 0, size, 1.0)[:, None],
            positive=positive,
            max_nonzeros=max_nonzeros,
            residual_tol=residual_tol,
            gradient_tol=gradient_tol,
        )
        return self._estimate(Y, sp.csr_array(x.multiply(size[:, None])), n_steps)
