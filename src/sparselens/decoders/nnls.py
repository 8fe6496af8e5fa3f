"""Nonnegative least squares as a decoder."""

from __future__ import annotations

from sparselens._validation import FloatArray, check_positive_float
from sparselens.decoders._active_set_decoder import ActiveSetDecoder
from sparselens.recovery import Recovery


class NNLSDecoder(ActiveSetDecoder):
    """Recover nonnegative rows by least squares alone, with no penalty and no sparsity level to choose.

    Solves ``min ‖Ax − y‖ s.t. x ≥ 0`` by Lawson and Hanson's active set method [1]_ for all rows of a block at once. It
    is not the linear program of `L1Decoder`: where several x fit y exactly (m is small), it returns the one that its
    greedy order of columns reaches, which for Gaussian matrices is the true one rather more often than the shortest
    in ℓ1. Nothing is proved about being the measured vector, so the status is ESTIMATE.

    Parameters
    ----------
    tol : float, default=1e-10
        Stop a row when ``a_jᵀ(y − Ax) ≤ tol ‖a_j‖ ‖y‖`` for every column: the conditions of optimality.

    References
    ----------
    .. [1] Lawson, Hanson (1974). Solving least squares problems, chapter 23.

    Examples
    --------
    >>> rec = NNLSDecoder().bind([[1.0, 0.0, 1.0], [0.0, 1.0, 1.0]]).decode([[2.0, 2.0], [-1.0, 2.0]])
    >>> rec.x.toarray().round(12)
    array([[0., 0., 2.],
           [0., 2., 0.]])
    >>> rec.residual.round(3)
    array([0.   , 0.447])
    """

    def __init__(self, *, tol: float = 1e-10) -> None:
        self.tol = tol

    def _prepare(self) -> None:
        check_positive_float(self.tol, "tol")

    def _decode_block(self, Y: FloatArray) -> Recovery:
        return self._grow(
            Y,
            positive=True,
            max_nonzeros=len(self.A_),
            residual_tol=1e-15,
            gradient_tol=self.tol,
        )
