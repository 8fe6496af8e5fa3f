"""The decoder contract: bind a matrix once, decode any number of batches."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator

from sparselens._validation import (
    FloatArray,
    check_choice,
    check_finite_rows,
    check_measurement_matrix,
    check_measurements,
)
from sparselens.recovery import NotBoundError, Recovery, Status

Progress = Callable[[int, int], None]  # called with (rows done, rows in all)


class BaseDecoder(BaseEstimator):
    """Base of all decoders.

    A subclass keeps its hyper-parameters in ``__init__`` and writes two methods: `_prepare`, which does what
    depends on A alone (``self.A_`` is there), and `_decode_block`, which decodes a block of finite rows.
    """

    def bind(self, A: Any) -> Self:
        """Return a copy of this decoder that decodes measurements made with A.

        Parameters
        ----------
        A : array of shape (m, d), m ≤ d

        Returns
        -------
        A new decoder; this one is unchanged and can be bound to other matrices.
        """
        bound = copy.copy(self)
        bound.__dict__.pop("_columns_", None)  # belongs to the matrix of an earlier bind
        bound.A_ = check_measurement_matrix(A)
        bound.A_.flags.writeable = False
        bound._prepare()
        return bound

    def decode(
        self, Y: Any, *, on_invalid: str = "raise", callback: Progress | None = None, keep_dual: bool = True
    ) -> Recovery:
        """Recover one sparse row for each row of measurements.

        Parameters
        ----------
        Y : array of shape (n, m)
            Measurements ``Y = X Aᵀ``.
        on_invalid : "raise" or "status"
            What to do with a NaN or an infinity: refuse the batch before solving, or mark the row INVALID.
        callback : callable, optional
            Called as ``callback(rows_done, rows_total)`` after each block.
        keep_dual : bool
            False drops the dual vectors of a long batch (they are as large as Y) after they were checked.
        """
        Y = check_measurements(Y, len(self._bound_matrix()))
        check_choice(on_invalid, "on_invalid", ("raise", "status"))
        if on_invalid == "raise":
            check_finite_rows(Y)
        if len(Y) == 0:
            return self._nothing(0, Status.ESTIMATE, keep_dual)
        blocks = self._decode_blocks(Y, callback)
        return Recovery.concatenate(part if keep_dual else _without_dual(part) for part in blocks)

    def decode_batches(self, batches: Iterable[Any], **options: Any) -> Iterator[Recovery]:
        """Decode a stream of batches one by one: memory grows with the batch, not with the stream.

        A long file is decoded so that a kill loses nothing: write each batch's Recovery before asking for the
        next one, and skip the batches that are already written when you start again.
        """
        for Y in batches:
            yield self.decode(Y, **options)

    # ---- for subclasses -------------------------------------------------------------------------------------

    def _prepare(self) -> None:
        """Do what depends on ``self.A_`` alone."""

    def _decode_block(self, Y: FloatArray) -> Recovery:
        """Decode a block of finite rows."""
        raise NotImplementedError

    def _block_size(self) -> int:
        """Rows to decode at once; the default keeps a block's n x d array near 64 MB."""
        return int(np.clip(2**23 // self._bound_matrix().shape[1], 16, 4096))

    def _decode_blocks(self, Y: FloatArray, callback: Progress | None) -> Iterator[Recovery]:
        size = self._block_size()
        for start in range(0, len(Y), size):
            yield self._decode_checked(Y[start : start + size])
            if callback is not None:
                callback(min(start + size, len(Y)), len(Y))

    def _decode_checked(self, Y: FloatArray) -> Recovery:
        """Decode the finite rows of a block and put INVALID rows in the place of the others."""
        finite = np.isfinite(Y).all(axis=1)
        if finite.all():
            return self._decode_block(Y)
        if not finite.any():
            return self._nothing(len(Y), Status.INVALID, keep_dual=True)
        solved = self._decode_block(np.ascontiguousarray(Y[finite]))
        both = Recovery.concatenate(
            [solved, self._nothing(int((~finite).sum()), Status.INVALID, keep_dual=solved.dual is not None)]
        )
        order = np.empty(len(Y), dtype=np.int64)
        order[np.concatenate([np.flatnonzero(finite), np.flatnonzero(~finite)])] = np.arange(len(Y))
        return both[order]

    def _nothing(self, n: int, status: Status, keep_dual: bool) -> Recovery:
        """n rows without an answer."""
        m, d = self._bound_matrix().shape
        return Recovery(
            x=sp.csr_array((n, d), dtype=np.float64),
            status=np.full(n, status, dtype=np.uint8),
            residual=np.full(n, np.nan),
            gap=np.full(n, np.nan),
            n_steps=np.zeros(n, dtype=np.int64),
            dual=np.full((n, m), np.nan) if keep_dual else None,
        )

    def _bound_matrix(self) -> FloatArray:
        if not hasattr(self, "A_"):
            raise NotBoundError(
                f"this {type(self).__name__} has no measurement matrix yet: "
                "call decoder.bind(A).decode(Y), with A = encoder.components_."
            )
        return self.A_

    def _estimate(self, Y: FloatArray, X: Any, n_steps: np.ndarray | int = 1) -> Recovery:
        """A Recovery with status ESTIMATE: for decoders that offer no proof."""
        X = sp.csr_array(X)
        size = np.linalg.norm(Y, axis=1)
        error = np.linalg.norm(X @ self._columns - Y, axis=1)
        return Recovery(
            x=X,
            status=np.full(len(Y), Status.ESTIMATE, dtype=np.uint8),
            residual=error / np.where(size > 0, size, 1.0),
            gap=np.full(len(Y), np.nan),
            n_steps=np.broadcast_to(np.asarray(n_steps, dtype=np.int64), (len(Y),)).copy(),
        )

    @property
    def _columns(self) -> FloatArray:
        """Aᵀ, C-contiguous (d, m), made once for each bound matrix."""
        if not hasattr(self, "_columns_"):
            self._columns_ = np.ascontiguousarray(self._bound_matrix().T)
        return self._columns_


def _without_dual(part: Recovery) -> Recovery:
    return Recovery(part.x, part.status, part.residual, part.gap, part.n_steps)
