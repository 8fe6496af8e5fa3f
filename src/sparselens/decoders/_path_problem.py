"""What the path solvers work on: the columns, whitened where that helps, and the arrays of the rows."""

from __future__ import annotations

import numpy as np

from sparselens._validation import FloatArray
from sparselens.decoders._path_common import padded
from sparselens.decoders._path_steps import MOST_EVENTS, Problem, Row

_WHITEN = 10.0  # condition number from which on the path is followed on a whitened matrix
_RANK = 1e-12  # singular values below this part of the largest count as zero
_OVERLOOKED = 512  # room for columns that send a row back before it gets past them


class Geometry:
    """The matrix on which the path is followed: A itself, or Vᵀ of ``A = UΣVᵀ`` where A is not well conditioned.

    The ℓ1 problem is the same, ``Ax = y ⇔ Vᵀx = Σ⁻¹Uᵀy``, but the path of an ill-conditioned matrix is long and hard
    to follow. Answers are polished on A itself.
    """

    def __init__(self, A: FloatArray) -> None:
        self.shape = A.shape
        self.true = padded(np.ascontiguousarray(A.T))
        self.columns, self.transform = self.true, None
        values = np.linalg.eigvalsh(A @ A.T)
        if values[0] * _WHITEN**2 < values[-1]:
            U, sizes, Vt = np.linalg.svd(A, full_matrices=False)
            keep = sizes > _RANK * sizes[0]
            self.columns = padded(np.ascontiguousarray(Vt[keep].T))
            self.transform = U[:, keep] / sizes[keep]  # (m, rank)

    def measurements(self, Y: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Y for the columns of the path, of unit norm; Y itself, in the same scale; and that scale."""
        if self.transform is None:
            return padded(Y), padded(Y), np.ones((len(Y), 1))
        white = Y @ self.transform
        scale = np.linalg.norm(white, axis=1, keepdims=True)
        scale[scale == 0] = 1.0
        return padded(white / scale), padded(Y / scale), scale


def make_problem(geometry: Geometry, *, positive: bool, target: int, first_events: int) -> Problem:
    """The arrays that all rows share."""
    A, true = geometry.columns, geometry.true
    whitening = np.zeros((1, 1))
    if geometry.transform is not None:
        whitening = np.zeros((A.shape[1], true.shape[1]))
        whitening[: geometry.transform.shape[1], : geometry.shape[0]] = geometry.transform.T
    rank = geometry.shape[0] if geometry.transform is None else geometry.transform.shape[1]
    return Problem(
        A=A,
        A32=A.astype(np.float32),
        norms=np.sqrt(np.einsum("ij,ij->i", A, A)).astype(np.float32),
        true=true,
        whitening=whitening,
        signed=not positive,
        whitened=geometry.transform is not None,
        target=min(target, len(A)),
        first_events=first_events,
        most=rank,
        max_steps=10 * rank + 100,
    )


def largest_room(problem: Problem) -> int:
    """Positions that a support can need: some stay occupied for a while after a column has left."""
    return problem.most + MOST_EVENTS + 1


def make_rows(problem: Problem, *, room: int, slots: int | None = None) -> Row:
    """The arrays of one row with room for a support of that size, or of as many rows as there are slots."""
    d, m = problem.A.shape
    q, single, integer = MOST_EVENTS + 1, np.float32, np.int64
    width = min(d, 2 * problem.target + _OVERLOOKED) + MOST_EVENTS
    true_m = problem.true.shape[1]
    each = () if slots is None else (slots,)
    return Row(
        n=np.zeros((*each, 8), dtype=integer),
        f=np.zeros((*each, 3)),
        y=np.zeros((*each, m)),
        true_y=np.zeros((*each, true_m)),
        M=np.zeros((*each, room, room)),
        S=np.zeros((*each, room), dtype=integer),
        sign=np.zeros((*each, room)),
        x=np.zeros((*each, room)),
        w=np.zeros((*each, room)),
        r=np.zeros((*each, m)),
        u=np.zeros((*each, m)),
        true_u=np.zeros((*each, true_m)),
        z=np.zeros((*each, m), dtype=single),
        W=np.zeros((*each, width), dtype=integer),
        V=np.zeros((*each, _OVERLOOKED), dtype=integer),
        past_k=np.zeros((*each, q), dtype=integer),
        past_lam=np.zeros((*each, q)),
        past_support=np.zeros((*each, q, room), dtype=integer),
        past_sign=np.zeros((*each, q, room)),
        past_x=np.zeros((*each, q, room)),
        past_r=np.zeros((q, m)),
        at=np.zeros(room, dtype=integer),
        w32=np.zeros(room, dtype=single),
        move32=np.zeros(m, dtype=single),
        N=np.zeros((MOST_EVENTS, room)),
        factor=np.zeros(MOST_EVENTS),
        c=np.zeros(width, dtype=single),
        g=np.zeros(width, dtype=single),
        ratio=np.zeros(width, dtype=single),
        closed=np.zeros(width, dtype=single),
        rejected=np.zeros(width, dtype=integer),
        b=np.zeros(room),
        v=np.zeros(room),
        true_r=np.zeros(true_m),
        mark=np.zeros(d, dtype=integer),
    )


def grow_rows(rows: Row, problem: Problem, room: int) -> Row:
    """The same rows with room for a larger support, where they lack it: memory follows the supports, not m."""
    old = rows.M.shape[-1]
    most = largest_room(problem)
    if min(room, most) <= old:
        return rows
    room = min(max(room, 3 * old // 2), most)
    grown = {}
    for name, value in rows._asdict().items():
        axes = _SUPPORT_AXES.get(name, ())
        shape = tuple(room if axis in axes else size for axis, size in enumerate(value.shape))
        if shape == value.shape:
            continue
        grown[name] = np.zeros(shape, dtype=value.dtype)
        grown[name][tuple(slice(size) for size in value.shape)] = value
    return rows._replace(**grown)


# The axes of the arrays of several rows that run over the support.
_SUPPORT_AXES: dict[str, tuple[int, ...]] = {
    "M": (1, 2),
    **dict.fromkeys(("S", "sign", "x", "w"), (1,)),
    **dict.fromkeys(("past_support", "past_sign", "past_x"), (2,)),
    **dict.fromkeys(("at", "w32", "b", "v"), (0,)),
    "N": (1,),
}
