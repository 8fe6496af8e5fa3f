"""What the path solvers work on: the columns, whitened where that helps, and the arrays of the rows."""

from __future__ import annotations

import numpy as np

from sparselens._validation import FloatArray
from sparselens.decoders._engine import Candidates
from sparselens.decoders._path_common import padded
from sparselens.decoders._path_row import MOST_EVENTS, Problem, Row
from sparselens.decoders._spectrum import Spectrum

_WHITEN = 10.0  # condition number from which on the path is followed on a whitened matrix
_INNER = 192  # columns of a large working set that take part at a time
_ROUNDING = {np.float32: 1e-6, np.float64: 1e-12}
_OVERLOOKED = 512  # room for columns that send a row back before it gets past them


class Geometry:
    """The matrix on which the path is followed: A itself, or ``Σ⁻¹UᵀA`` of ``A = UΣVᵀ`` where A is badly conditioned.

    The ℓ1 problem is the same, ``Ax = y ⇔ Σ⁻¹UᵀAx = Σ⁻¹Uᵀy``, but the path of a badly conditioned matrix is long and
    hard to follow. Answers are polished on A itself.

    Parameters
    ----------
    A : float64 array of shape (m, d)
    columns : float64 array of shape (d, m), optional
        Aᵀ, where the caller has it already.
    spectrum : Spectrum, optional
        That of A, where the caller has it already.
    """

    def __init__(self, A: FloatArray, columns: FloatArray | None = None, spectrum: Spectrum | None = None) -> None:
        self.shape = A.shape
        self.true = padded(np.array(A.T, order="C") if columns is None else columns)
        self.columns, self.transform = self.true, None
        spectrum = spectrum or Spectrum(A)
        self.rank = max(spectrum.rank, 1)  # so many columns span all that A reaches
        if spectrum.rank < len(A) or spectrum.condition > _WHITEN:
            self.transform = spectrum.whitening()  # (m, rank)
            self.columns = padded(self.true[:, : len(A)] @ self.transform)

    def measurements(self, Y: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Y for the columns of the path, of unit norm; Y itself, in the same scale; and that scale."""
        if self.transform is None:
            Y = padded(Y)
            return Y, Y, np.ones((len(Y), 1))
        white = Y @ self.transform
        scale = np.linalg.norm(white, axis=1, keepdims=True)
        scale[scale == 0] = 1.0
        return padded(white / scale), padded(Y / scale), scale

    def refit(self, found: Candidates, Y: FloatArray) -> Candidates:
        """Candidates whose values, where y is not met to rounding, are fitted once more on A itself.

        On a whitened matrix least squares weigh the residual by Σ⁻¹, which costs accuracy on the matrix itself.
        """
        if self.transform is None:
            return found
        x, columns = found.x, self.true[:, : self.shape[0]]
        missing = np.linalg.norm(x @ columns - Y, axis=1)
        for i in np.flatnonzero((missing > 1e-13) & (missing < 1e-6)):
            part = slice(x.indptr[i], x.indptr[i + 1])
            B = columns[x.indices[part]].T
            values = np.linalg.lstsq(B, Y[i], rcond=None)[0]
            values += np.linalg.lstsq(B, Y[i] - B @ values, rcond=None)[0]
            if np.linalg.norm(B @ values - Y[i]) < missing[i] and (values * x.data[part] > 0).all():
                x.data[part] = values
        return found


def make_problem(geometry: Geometry, *, positive: bool, target: int) -> Problem:
    """The arrays that all rows share."""
    A, true = geometry.columns, geometry.true
    transform = np.zeros((1, 1))
    if geometry.transform is not None:
        transform = np.zeros((A.shape[1], true.shape[1]))
        transform[: geometry.rank, : geometry.shape[0]] = geometry.transform.T
    return Problem(
        A=A,
        fast=A.astype(np.float32),
        norms=np.sqrt(np.einsum("ij,ij->i", A, A)).astype(np.float32),
        true=true,
        whitening=transform,
        signed=not positive,
        whitened=geometry.transform is not None,
        target=min(target, len(A)),
        inner=_INNER if target > 2 * _INNER else len(A),
        first_events=8,
        last_step=1e-4,
        most=geometry.rank,
        max_steps=10 * geometry.rank + 100,
        careful=False,
        rounding=_ROUNDING[np.float32],
    )


def patient(problem: Problem) -> Problem:
    """The same problem with a larger working set, more looks, more steps, and in double precision throughout.

    Where columns differ in length by orders of magnitude, as principal directions of rare features do, the dual vector
    is long, and correlations in single precision are off by more than separates one column from the next.
    """
    return problem._replace(
        fast=problem.A,
        careful=True,
        rounding=_ROUNDING[np.float64],
        target=min(4 * problem.target, len(problem.A)),
        inner=len(problem.A),
        first_events=4,
        last_step=1e-8,
        max_steps=3 * problem.max_steps,
    )


def largest_room(problem: Problem) -> int:
    """Positions that a support can need: some stay occupied for a while after a column has left."""
    return problem.most + MOST_EVENTS + 1


def make_rows(problem: Problem, *, room: int, slots: int) -> Row:
    """The arrays of as many rows as there are slots, with room for supports of that size."""
    d, m = problem.A.shape
    true_m = problem.true.shape[1]
    q, kind, integer = MOST_EVENTS + 1, problem.fast.dtype, np.int64
    width = min(d, 2 * problem.target + _OVERLOOKED) + MOST_EVENTS
    return Row(
        n=np.zeros((slots, 9), dtype=integer),
        f=np.zeros((slots, 4)),
        y=np.zeros((slots, m)),
        true_y=np.zeros((slots, true_m)),
        M=np.zeros((slots, room, room)),
        S=np.zeros((slots, room), dtype=integer),
        sign=np.zeros((slots, room)),
        x=np.zeros((slots, room)),
        w=np.zeros((slots, room)),
        r=np.zeros((slots, m)),
        u=np.zeros((slots, m)),
        true_u=np.zeros((slots, true_m)),
        z=np.zeros((slots, m), dtype=kind),
        W=np.zeros((slots, width), dtype=integer),
        V=np.zeros((slots, _OVERLOOKED), dtype=integer),
        past_k=np.zeros((slots, q), dtype=integer),
        past_lam=np.zeros((slots, q)),
        past_support=np.zeros((slots, q, room), dtype=np.int32),
        past_sign=np.zeros((slots, q, room), dtype=np.int8),
        past_x=np.zeros((slots, q, room)),
        at=np.zeros(room, dtype=integer),
        w_fast=np.zeros(room, dtype=kind),
        move=np.zeros(m, dtype=kind),
        o=np.zeros(width, dtype=kind),
        near=np.zeros(width, dtype=integer),
        N=np.zeros((MOST_EVENTS, room)),
        factor=np.zeros(MOST_EVENTS),
        c=np.zeros(width, dtype=kind),
        g=np.zeros(width, dtype=kind),
        ratio=np.zeros(width, dtype=kind),
        closed=np.zeros(width, dtype=kind),
        rejected=np.zeros(width, dtype=integer),
        b=np.zeros(room),
        v=np.zeros(room),
        true_r=np.zeros(true_m),
        mark=np.zeros(d, dtype=integer),
    )


# The axes of the arrays of several rows that run over the support.
_SUPPORT_AXES: dict[str, tuple[int, ...]] = {
    "M": (1, 2),
    "N": (1,),
    **dict.fromkeys(("S", "sign", "x", "w"), (1,)),
    **dict.fromkeys(("past_support", "past_sign", "past_x"), (2,)),
    **dict.fromkeys(("at", "w_fast", "b", "v"), (0,)),
}


def grow_rows(rows: Row, problem: Problem, room: int) -> Row:
    """The same rows with room for a larger support, where they lack it: memory follows the supports, not m."""
    old, most = rows.M.shape[-1], largest_room(problem)
    if min(room, most) <= old:
        return rows
    room = min(max(room, 3 * old // 2), most)
    grown = {}
    for name, axes in _SUPPORT_AXES.items():
        value = getattr(rows, name)
        shape = tuple(room if axis in axes else size for axis, size in enumerate(value.shape))
        grown[name] = np.zeros(shape, dtype=value.dtype)
        grown[name][tuple(slice(size) for size in value.shape)] = value
    return rows._replace(**grown)
