r"""The dual simplex method, for rows whose path is long and hard to follow.

Where columns differ in length by orders of magnitude, as principal directions of rare features do, dual vectors are
long and optimal supports nearly dependent: a path makes thousands of events, and loses its way. The simplex method on
``min 1ᵀx s.t. Ax = y, x ≥ 0`` takes a few hundred pivots for the same row. A basis B of m columns gives ``x = B⁻¹y``
and u with ``Bᵀu = c``; u stays feasible (``Aᵀu ≤ 1``), and each pivot raises yᵀu until x ≥ 0 as well:

* the *leaving* position p is the facet that y is farthest beyond, ``|x_p| / ‖e_pᵀB⁻¹‖`` (dual steepest edge: the norms
  of the rows of B⁻¹ are at hand, because B⁻¹ itself is kept, of a few hundred rows at most);
* u moves along ``±e_pᵀB⁻¹`` until a column becomes tight, which *enters*.

The first basis is the identity: unit vectors that have no cost, must be zero, and never come back. As on the path, only
the columns whose constraints lie nearest to u are worked on between two looks at all of them; a column that has been
passed unseen sends the row back to the last basis where it had not.
"""

from __future__ import annotations

from contextlib import suppress
from typing import NamedTuple

import numpy as np

from sparselens._validation import FloatArray
from sparselens.decoders._engine import Answer, Candidates, gather

_WIDTH = 8  # columns to work on, as a multiple of m
_SEGMENT = 32  # pivots between two looks at all columns, at most
_LEAST = 4  # the same after columns were passed unseen
_CELLS = 2**22  # entries of the bases that are remembered for going back (32 MB)
_FRESH = 50  # pivots until B is inverted afresh
_BEYOND = 1e-14  # how far y may lie beyond a facet: rounding, for a y of norm 1
_SLACK = 1e-10  # what a_jᵀu may exceed 1 by, so that of nearly equal steps the one with the best pivot can be chosen
_PIVOT = 1e-9  # of ‖a_j‖ ‖e_pᵀB⁻¹‖: below that, a pivot is taken for zero
_AGREE = 1e-7  # relative difference of a pivot computed by row and by column, from which on B⁻¹ counts as worn out
_FITS = 1e-13  # ‖Ax − y‖ that is nothing but rounding


class _Basis(NamedTuple):
    """A basis, and what follows from it; arrays are never changed in place, so that an earlier basis is at hand."""

    inverse: FloatArray  # (m, m)
    columns: np.ndarray  # (m,) the column at each position; −1: the unit vector of that position
    x: FloatArray  # (m,)
    u: FloatArray  # (m,)
    age: int  # pivots since B was inverted


class _Nearby(NamedTuple):
    """The columns that are worked on."""

    chosen: np.ndarray  # (w,) their indices
    rows: FloatArray  # (w, m) these columns
    norms: FloatArray  # (w,)
    place: np.ndarray  # (d,) where each column of A is among them, or −1


class DualSimplexEngine:
    """Solve each row by the dual simplex method, from the basis of unit vectors.

    Parameters
    ----------
    A : float64 array of shape (m, d)
    positive : bool
    columns : float64 array of shape (d, m), optional
        Aᵀ, where the caller has it already.
    """

    def __init__(self, A: FloatArray, *, positive: bool, columns: FloatArray | None = None) -> None:
        self.shape = A.shape
        columns = np.ascontiguousarray(A.T) if columns is None else columns
        self.columns = columns if positive else np.vstack([columns, -columns])  # x = x⁺ − x⁻
        self.norms = np.sqrt(np.einsum("ij,ij->i", self.columns, self.columns))
        self.reach = np.where(self.norms > 0, self.norms, np.finfo(np.float64).tiny)  # a zero column is never near
        m = len(A)
        self.width = min(_WIDTH * m, len(self.columns))
        self.segment = int(np.clip(_CELLS // m**2, 1, _SEGMENT))
        self.most = 10 * m + 500  # pivots of a row, before it is left to another solver

    def solve(self, Y: FloatArray) -> Candidates:
        """Candidates for rows of unit norm."""
        return gather([self._attempt(y) for y in Y], self.shape)

    def _attempt(self, y: FloatArray) -> Answer:
        """The answer to a row; a row on which arithmetic fails is given up."""
        with np.errstate(all="ignore"):  # the certificate looks at what comes of it
            try:
                return self._solve_row(y)
            except np.linalg.LinAlgError:
                return Answer(*_NOTHING, np.zeros_like(y), False, 0)

    def _solve_row(self, y: FloatArray) -> Answer:
        m = len(y)
        basis = anchor = _Basis(np.eye(m), np.full(m, -1), y, np.zeros(m), 0)
        near, segment, steps, fresh = self._near(basis, np.zeros(len(self.columns))), self.segment, 0, _FRESH
        while steps <= self.most and fresh > 0:
            history, ended, farkas = self._follow(basis, near, min(segment, fresh))
            steps += len(history) - 1
            basis = history[-1]
            prices = self.columns @ basis.u
            unseen = np.flatnonzero((prices > 1.0 + 2.0 * _SLACK) & (near.place < 0))
            if len(unseen):
                basis, first = self._last_valid(history, unseen)
                near = self._with(near, np.union1d(first, self._worst(unseen, prices)))
                segment = min(self.segment, max(_LEAST, segment // 2))
                continue
            if farkas is not None:
                rates = self.columns @ farkas
                unseen = np.flatnonzero((rates > _PIVOT * np.linalg.norm(farkas) * self.norms) & (near.place < 0))
                if len(unseen):
                    near = self._with(near, self._worst(unseen, rates))
                    continue
            segment = min(2 * segment, self.segment)
            if basis.age > 0 and (ended or basis.age >= fresh):
                basis = self._afresh(basis.columns, y)
                prices = self.columns @ basis.u
                if prices.max() <= 1.0 + 10.0 * _SLACK:
                    anchor = basis
                else:  # B⁻¹ had worn out: back to the last one that had not, and invert more often
                    basis, fresh = anchor, fresh // 2
                    prices = self.columns @ basis.u
            elif farkas is not None:
                return Answer(*_NOTHING, farkas, True, steps)
            elif ended:
                return self._answer(basis, y, steps)
            near = self._near(basis, prices)
        return Answer(*_NOTHING, np.zeros(m), False, steps)

    def _near(self, basis: _Basis, prices: FloatArray) -> _Nearby:
        """The basis, and the columns whose constraints are nearest to u."""
        distance = (1.0 - prices) / self.reach
        distance[basis.columns[basis.columns >= 0]] = -np.inf
        return self._work_on(np.argpartition(distance, self.width - 1)[: self.width])

    def _with(self, near: _Nearby, more: np.ndarray) -> _Nearby:
        return self._work_on(np.concatenate([near.chosen, more]))

    def _worst(self, unseen: np.ndarray, values: FloatArray) -> np.ndarray:
        """Those with the largest values, where they are too many: the next look finds the others."""
        return unseen[np.argsort(-values[unseen], kind="stable")[: self.width]]

    def _work_on(self, index: np.ndarray) -> _Nearby:
        place = np.full(len(self.columns), -1)
        place[index] = np.arange(len(index))
        return _Nearby(index, self.columns[index], self.norms[index], place)

    def _follow(self, basis: _Basis, near: _Nearby, count: int) -> tuple[list[_Basis], bool, FloatArray | None]:
        """Pivot on these columns up to `count` times: all bases; whether that is the end; a Farkas vector, or None.

        Where B⁻¹ is worn out the end is claimed early: the caller inverts B then, and goes on.
        """
        history = [basis]
        inverse, columns, x, u, age = basis
        slack = np.maximum(1.0 - near.rows @ u, 0.0)
        inside = np.zeros(len(slack), dtype=bool)
        inside[near.place[columns[columns >= 0]]] = True
        for _ in range(count):
            lengths = np.sqrt(np.einsum("ij,ij->i", inverse, inverse))
            beyond = np.where(columns < 0, x, np.minimum(x, 0.0))
            far = np.abs(beyond) / lengths
            p = int(far.argmax())
            if far[p] <= _BEYOND:
                return history, True, None
            direction = inverse[p] if beyond[p] > 0 else -inverse[p]
            rates = near.rows @ direction
            rates[inside] = 0.0
            open_ = np.flatnonzero(rates > (_PIVOT * lengths[p]) * near.norms)
            if len(open_) == 0:
                return history, True, direction
            q = _entering(open_, slack, rates, near.norms)
            if q is None:
                return history, True, None
            ftran = inverse @ near.rows[q]
            if age > 0 and abs(abs(ftran[p]) - rates[q]) > _AGREE * rates[q]:
                return history, True, None
            step = slack[q] / rates[q]
            slack = np.maximum(slack - step * rates, -_SLACK)
            u = u + step * direction
            if columns[p] >= 0:
                place = near.place[columns[p]]
                inside[place], slack[place] = False, step
            inside[q] = True
            row, t = inverse[p] / ftran[p], x[p] / ftran[p]
            change = np.outer(ftran, row)
            inverse = np.subtract(inverse, change, out=change)  # one new array, not two
            x, columns, age = x - t * ftran, columns.copy(), age + 1
            inverse[p], x[p], columns[p] = row, t, near.chosen[q]
            history.append(_Basis(inverse, columns, x, u, age))
        return history, False, None

    def _last_valid(self, history: list[_Basis], missed: np.ndarray) -> tuple[_Basis, np.ndarray]:
        """The last basis before one of the missed columns was passed, and the columns that were passed first."""
        passed = self.columns[missed] @ np.array([basis.u for basis in history]).T > 1.0 + 2.0 * _SLACK
        first = int(passed.any(axis=0).argmax())
        return history[max(first - 1, 0)], missed[passed[:, first]]

    def _afresh(self, columns: np.ndarray, y: FloatArray) -> _Basis:
        """The same basis, with everything computed from its columns."""
        used = columns >= 0
        B = np.eye(len(y))
        B[:, used] = self.columns[columns[used]].T
        inverse = np.full_like(B, np.nan)  # of a singular basis: counts as worn out
        with suppress(np.linalg.LinAlgError):
            inverse[:] = np.linalg.inv(B)
        x, u = inverse @ y, used @ inverse
        x += inverse @ (y - B @ x)
        u += (used - u @ B) @ inverse
        return _Basis(inverse, columns, x, u, 0)

    def _answer(self, basis: _Basis, y: FloatArray, steps: int) -> Answer:
        """The optimal x without what is zero but for rounding, where the others reach y as well without it."""
        S, x = basis.columns[basis.columns >= 0], basis.x[basis.columns >= 0]
        lengths = np.linalg.norm(basis.inverse[basis.columns >= 0], axis=1)
        large = x > _BEYOND * lengths
        if not large.all():
            B = self.columns[S[large]].T
            values = np.linalg.lstsq(B, y, rcond=None)[0]
            values += np.linalg.lstsq(B, y - B @ values, rcond=None)[0]
            if np.linalg.norm(B @ values - y) <= _FITS and (values > 0).all():
                S, x = S[large], values
        d = self.shape[1]
        return Answer(S % d, np.where(S < d, x, -x), basis.u, False, steps)


_NOTHING = np.zeros(0, dtype=np.int64), np.zeros(0)


def _entering(open_: np.ndarray, slack: FloatArray, rates: FloatArray, norms: FloatArray) -> int | None:
    """Of the columns that become tight first, give or take `_SLACK`, the one with the best pivot (Harris).

    None where numbers have overflown.
    """
    room, rate = slack[open_], rates[open_]
    ties = open_[room / rate <= ((room + _SLACK) / rate).min()]
    return int(ties[(rates[ties] / norms[ties]).argmax()]) if len(ties) else None
