"""The reference solver: one HiGHS linear program a row, polished. Slow, and independent of the path solvers."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.optimize import nnls

from sparselens._validation import FloatArray
from sparselens.decoders._engine import Answer, Candidates, gather

_KEEP = 1e-9  # entries below this part of the largest are rounding of the simplex method, refitted without them
_START = 4  # columns to start with, as a multiple of m
_PRICE = 1e-10  # a column pays where its price exceeds its cost by more than this
_FITS = 1e-12  # ‖Ax − y‖ of an answer that needs no more columns; y has norm 1


class HighsEngine:
    """Solve each row by HiGHS' dual simplex method from the slack basis, then refit on the support.

    HiGHS stops at tolerances of 1e-7, so its answers are refined on the original columns: least squares for x on
    the support, and for u on the columns whose dual constraint is tight. Rows are solved cold: warm starts between
    unrelated rows made HiGHS slower and less exact.
    """

    def __init__(self, A: FloatArray, *, positive: bool) -> None:
        self.A = A
        self.positive = positive
        self.columns = A if positive else np.hstack([A, -A])  # x = x⁺ − x⁻
        d = A.shape[1]
        self.origin = np.arange(self.columns.shape[1]) % d  # the column of A that each column of the program is
        self.sign = np.where(np.arange(self.columns.shape[1]) < d, 1.0, -1.0)
        self.model, self.highs = self._build()

    def _build(self) -> tuple[Any, Any]:
        import highspy

        m, n_columns = self.columns.shape
        matrix = sp.csc_array(self.columns)
        lp = highspy.HighsLp()
        lp.num_col_, lp.num_row_ = n_columns, m
        lp.col_cost_ = np.ones(n_columns)
        lp.col_lower_, lp.col_upper_ = np.zeros(n_columns), np.full(n_columns, highspy.kHighsInf)
        lp.row_lower_ = lp.row_upper_ = np.zeros(m)
        lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
        lp.a_matrix_.start_, lp.a_matrix_.index_, lp.a_matrix_.value_ = matrix.indptr, matrix.indices, matrix.data
        highs = highspy.Highs()
        for option, value in (
            ("output_flag", False),
            ("threads", 1),
            ("presolve", "off"),
            ("primal_feasibility_tolerance", 1e-10),
            ("dual_feasibility_tolerance", 1e-10),
        ):
            highs.setOptionValue(option, value)
        highs.passModel(lp)
        return highspy, highs

    def solve(self, Y: FloatArray) -> Candidates:
        """Candidates for rows of unit norm."""
        return gather([self._solve_row(y) for y in Y], self.A.shape)

    def _solve_row(self, y: FloatArray) -> Answer:
        m = len(self.A)
        self.highs.clearSolver()
        self.highs.changeRowsBounds(m, np.arange(m, dtype=np.int32), y, y)
        return self._run(y)

    def _run(self, y: FloatArray) -> Answer:
        """Solve from the present basis, and polish."""
        self.highs.run()
        steps = int(self.highs.getInfo().simplex_iteration_count)
        status, nothing = self.highs.getModelStatus(), (np.zeros(0, dtype=np.int64), np.zeros(0))
        if status == self.model.HighsModelStatus.kTimeLimit:
            return Answer(*nothing, np.zeros_like(y), False, steps)
        if status != self.model.HighsModelStatus.kOptimal:
            return Answer(*self._nearest(y), True, steps)
        x, u, basic = self._solution()
        S, values = self._refit(y, np.flatnonzero(x > _KEEP * x.max(initial=0.0)))
        if not self._fits(y, S, values):
            x, u, basic = self._zoom(y, x)
            S, values = self._refit(y, np.flatnonzero(basic))
            S, values = S[values > 0], values[values > 0]
            if self._missing(y, S, values) > self._missing(y, *(found := _positive(x))):
                S, values = found  # the columns are nearly dependent
        tight = self.columns[:, basic]
        for _ in range(2):
            u = u + np.linalg.lstsq(tight.T, 1.0 - tight.T @ u, rcond=None)[0]
        return Answer(self.origin[S], self.sign[S] * values, u, False, steps)

    def add(self, A: FloatArray) -> None:
        """Append columns to the program; the basis stays."""
        d = self.A.shape[1]
        new = A if self.positive else np.hstack([A, -A])
        m, n_new = new.shape
        self.highs.addCols(
            n_new,
            np.ones(n_new),
            np.zeros(n_new),
            np.full(n_new, self.model.kHighsInf),
            new.size,
            np.arange(0, new.size, m, dtype=np.int32),
            np.tile(np.arange(m, dtype=np.int32), n_new),
            new.T.ravel(),
        )
        self.A = np.hstack([self.A, A])
        self.columns = np.hstack([self.columns, new])
        self.origin = np.concatenate([self.origin, d + np.arange(n_new) % A.shape[1]])
        self.sign = np.concatenate([self.sign, np.where(np.arange(n_new) < A.shape[1], 1.0, -1.0)])

    def _solution(self) -> tuple[FloatArray, FloatArray, np.ndarray]:
        """(x, row duals, which columns are basic) of the last run."""
        solution = self.highs.getSolution()
        basic = self.model.HighsBasisStatus.kBasic
        return (
            np.array(solution.col_value),
            np.array(solution.row_dual),
            np.array([status == basic for status in self.highs.getBasis().col_status]),
        )

    def _zoom(self, y: FloatArray, x: FloatArray) -> tuple[FloatArray, FloatArray, np.ndarray]:
        """Solve for what is missing, enlarged: HiGHS' tolerances then apply to the enlarged problem. (x, u, basic).

        Measurements rounded to single precision have solutions with entries of 1e-8, which its tolerance of 1e-10
        would leave two digits. With x = x₀ + δz the constraint x ≥ 0 is z ≥ −x₀/δ (Gleixner's refinement).
        """
        m, n_columns = self.columns.shape
        rows, columns = np.arange(m, dtype=np.int32), np.arange(n_columns, dtype=np.int32)
        forever = np.full(n_columns, self.model.kHighsInf)
        answer = self._solution()
        for _ in range(2):
            x = np.maximum(x, 0.0)
            missing = y - self.columns @ x
            size = np.linalg.norm(missing)
            if size <= 1e-16:
                break
            self.highs.changeRowsBounds(m, rows, missing / size, missing / size)
            self.highs.changeColsBounds(n_columns, columns, -x / size, forever)
            self.highs.run()
            if self.highs.getModelStatus() != self.model.HighsModelStatus.kOptimal:
                break
            answer = self._solution()
            x = x + size * answer[0]
        self.highs.changeRowsBounds(m, rows, y, y)
        self.highs.changeColsBounds(n_columns, columns, np.zeros(n_columns), forever)
        return x, answer[1], answer[2]

    def _fits(self, y: FloatArray, S: np.ndarray, values: FloatArray) -> bool:
        return self._missing(y, S, values) <= _FITS and values.min(initial=0.0) >= 0

    def _missing(self, y: FloatArray, S: np.ndarray, values: FloatArray) -> float:
        return float(np.linalg.norm(self.columns[:, S] @ values - y))

    def _refit(self, y: FloatArray, S: np.ndarray) -> tuple[np.ndarray, FloatArray]:
        """Least squares on the columns S, refined once."""
        values = np.linalg.lstsq(self.columns[:, S], y, rcond=None)[0]
        return S, values + np.linalg.lstsq(self.columns[:, S], y - self.columns[:, S] @ values, rcond=None)[0]

    def _nearest(self, y: FloatArray) -> tuple[np.ndarray, FloatArray, FloatArray]:
        """The x ≥ 0 whose measurements are nearest to y (signed: nothing), and the residual as a Farkas vector r.

        Aᵀr ≤ 0 and yᵀr = ‖r‖² (signed: Aᵀr = 0). Where r proves nothing, x may be all that is to be had.
        """
        if self.positive:
            try:
                x = nnls(self.A, y, maxiter=30 * self.A.shape[1])[0]
            except RuntimeError:  # too many steps: this row has no answer, the others do
                x = np.zeros(self.A.shape[1])
            S = np.flatnonzero(x > 0)
            found = S, x[S]
        else:
            S = np.arange(self.A.shape[1])
            found = np.zeros(0, dtype=np.int64), np.zeros(0)
        # refit on the support: nnls leaves a residual that is orthogonal to it only to about 1e-10
        return *found, y - self.A[:, S] @ np.linalg.lstsq(self.A[:, S], y, rcond=None)[0]


class GeneratedHighsEngine:
    """HiGHS for a matrix with many columns: solve with some of them, price the others, add those that pay.

    Each row starts with the columns that lead towards y. Where the program with some columns is infeasible, its
    Farkas vector prices the others. A row that takes HiGHS longer than `seconds` is given up.
    """

    def __init__(self, A: FloatArray, *, positive: bool, seconds: float = 60.0) -> None:
        self.A = A
        self.positive = positive
        self.seconds = seconds
        self.norms = np.linalg.norm(A, axis=0)

    def solve(self, Y: FloatArray) -> Candidates:
        """Candidates for rows of unit norm."""
        return gather([self._solve_row(y) for y in Y], self.A.shape)

    def _solve_row(self, y: FloatArray) -> Answer:
        m, d = self.A.shape
        score = self._correlation(y) / np.where(self.norms > 0, self.norms, 1.0)
        chosen = _largest(score, min(d, _START * m))
        program = HighsEngine(np.ascontiguousarray(self.A[:, chosen]), positive=self.positive)
        program.highs.setOptionValue("time_limit", self.seconds)
        answer, steps = program._solve_row(y), 0
        while True:
            steps += answer.steps
            limit = _PRICE * self.norms * np.linalg.norm(answer.dual) if answer.infeasible else 1.0 + _PRICE
            excess = self._correlation(answer.dual) - limit
            excess[chosen] = -1.0
            new = _largest(excess, min(d, m))
            new = new[excess[new] > 0]
            if len(new) == 0:
                return Answer(chosen[answer.support], answer.values, answer.dual, answer.infeasible, steps)
            program.add(np.ascontiguousarray(self.A[:, new]))
            chosen = np.concatenate([chosen, new])
            answer = program._run(y)

    def _correlation(self, u: FloatArray) -> FloatArray:
        return u @ self.A if self.positive else np.abs(u @ self.A)


def _positive(x: FloatArray) -> tuple[np.ndarray, FloatArray]:
    """Where x > 0, and its values there."""
    S = np.flatnonzero(x > 0)
    return S, x[S]


def _largest(values: FloatArray, count: int) -> np.ndarray:
    """Where the `count` largest values are."""
    return np.argpartition(values, len(values) - count)[len(values) - count :]
