"""Orthogonal matching pursuit as a decoder."""

from __future__ import annotations

from sparselens._validation import FloatArray, check_choice, check_count, check_positive_float
from sparselens.decoders._active_set_decoder import ActiveSetDecoder
from sparselens.recovery import Recovery

_EXPLAINED = 1e-12  # a residual at which y is explained, where no other tolerance was asked for


class OMPDecoder(ActiveSetDecoder):
    """Recover rows with few nonzeros greedily: one column a step, refitted after each.

    Each step adds the column with the largest correlation ``a_jᵀr/‖a_j‖`` (its absolute value where signed) and fits y
    on all columns chosen so far. With `positive` the fit is nonnegative, and a column whose coefficient falls to zero
    leaves again. It is not the linear program of `L1Decoder`, and it proves nothing: the status is ESTIMATE.

    Parameters
    ----------
    n_nonzero_coefs : int, optional
        Stop a row at so many columns; by default m.
    tol : float, optional
        Stop a row when ``‖y − Ax‖ ≤ tol ‖y‖``; by default 1e-12.
    positive : bool, default=True

    Examples
    --------
    >>> A = [[1.0, 0.0, 0.6], [0.0, 1.0, 0.8]]
    >>> OMPDecoder(n_nonzero_coefs=1).bind(A).decode([[1.2, 1.6]]).x.toarray()
    array([[0., 0., 2.]])
    """

    def __init__(self, n_nonzero_coefs: int | None = None, *, tol: float | None = None, positive: bool = True) -> None:
        self.n_nonzero_coefs = n_nonzero_coefs
        self.tol = tol
        self.positive = positive

    def _prepare(self) -> None:
        if self.n_nonzero_coefs is not None:
            check_count(self.n_nonzero_coefs, "n_nonzero_coefs")
        if self.tol is not None:
            check_positive_float(self.tol, "tol", allow_zero=True)
        check_choice(self.positive, "positive", (True, False))

    def _decode_block(self, Y: FloatArray) -> Recovery:
        return self._grow(
            Y,
            positive=self.positive,
            max_nonzeros=len(self.A_) if self.n_nonzero_coefs is None else self.n_nonzero_coefs,
            residual_tol=_EXPLAINED if self.tol is None else self.tol,
            gradient_tol=1e-14,
        )
