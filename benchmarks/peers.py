"""Other solvers of ``min 1ᵀx s.t. Ax = y, x ≥ 0`` (or of the signed problem), each with the same small interface.

A peer is prepared with ``make(A, positive, threads)`` and then called with rows Y; it returns dense rows (n, d).
What it may keep between rows is part of its name. A peer that is not installed, or whose licence does not cover
the size, says so through `UnavailableError`, and the table shows the reason.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

Solve = Callable[[np.ndarray], np.ndarray]


class UnavailableError(Exception):
    """Why a peer does not run in this case."""


def _need(module: str) -> Any:
    import importlib

    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise UnavailableError(f"{module} is not installed") from error


def _split(A: np.ndarray, positive: bool) -> np.ndarray:
    return A if positive else np.hstack([A, -A])


def _join(z: np.ndarray, d: int) -> np.ndarray:
    return z if len(z) == d else z[:d] - z[d:]


def scipy_highs(A: np.ndarray, positive: bool, threads: int) -> Solve:
    from scipy.optimize import linprog

    B, d = _split(A, positive), A.shape[1]

    def solve(Y: np.ndarray) -> np.ndarray:
        out = np.zeros((len(Y), d))
        for i, y in enumerate(Y):
            result = linprog(np.ones(B.shape[1]), A_eq=B, b_eq=y, bounds=(0, None), method="highs")
            if result.x is not None:
                out[i] = _join(result.x, d)
        return out

    return solve


def highspy_slack(A: np.ndarray, positive: bool, threads: int) -> Solve:
    """One model kept, the right-hand side changed, every row solved cold from the slack basis, presolve off."""
    highspy = _need("highspy")
    B, (m, d) = _split(A, positive), A.shape
    matrix = sp.csc_array(B)
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = B.shape[1], m
    lp.col_cost_, lp.col_lower_ = np.ones(B.shape[1]), np.zeros(B.shape[1])
    lp.col_upper_ = np.full(B.shape[1], highspy.kHighsInf)
    lp.row_lower_ = lp.row_upper_ = np.zeros(m)
    lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    lp.a_matrix_.start_, lp.a_matrix_.index_, lp.a_matrix_.value_ = matrix.indptr, matrix.indices, matrix.data
    highs = highspy.Highs()
    for name, value in (("output_flag", False), ("threads", threads), ("presolve", "off")):
        highs.setOptionValue(name, value)
    highs.passModel(lp)
    index = np.arange(m, dtype=np.int32)

    def solve(Y: np.ndarray) -> np.ndarray:
        out = np.zeros((len(Y), d))
        for i, y in enumerate(Y):
            highs.clearSolver()
            highs.changeRowsBounds(m, index, y, y)
            highs.run()
            out[i] = _join(np.array(highs.getSolution().col_value), d)
        return out

    return solve


def _gurobi_env(size: int, threads: int) -> Any:
    gurobipy = _need("gurobipy")
    if size > 2000:
        raise UnavailableError("Gurobi's free licence covers 2,000 variables")
    env = gurobipy.Env(empty=True)
    env.setParam("OutputFlag", 0)
    env.start()
    env.setParam("Threads", threads)
    return gurobipy, env


def gurobi_rebuilt(A: np.ndarray, positive: bool, threads: int) -> Solve:
    """A new model for each row with default parameters, as in the paper's experiments."""
    B, d = _split(A, positive), A.shape[1]
    gurobipy, env = _gurobi_env(B.shape[1], threads)

    def solve(Y: np.ndarray) -> np.ndarray:
        out = np.zeros((len(Y), d))
        for i, y in enumerate(Y):
            with gurobipy.Model(env=env) as model:
                x = model.addMVar(B.shape[1], lb=0.0, obj=1.0)
                model.addConstr(B @ x == y)
                model.optimize()
                if model.SolCount:
                    out[i] = _join(x.X, d)
        return out

    return solve


def gurobi_lean(A: np.ndarray, positive: bool, threads: int) -> Solve:
    """One model kept, the right-hand side changed, cold dual simplex, presolve off: the leanest that we found."""
    B, d = _split(A, positive), A.shape[1]
    gurobipy, env = _gurobi_env(B.shape[1], threads)
    model = gurobipy.Model(env=env)
    x = model.addMVar(B.shape[1], lb=0.0, obj=1.0)
    rows = model.addConstr(B @ x == np.zeros(len(B)))
    model.Params.Method = 1
    model.Params.Presolve = 0
    model.update()

    def solve(Y: np.ndarray) -> np.ndarray:
        out = np.zeros((len(Y), d))
        for i, y in enumerate(Y):
            rows.RHS = y
            model.reset()
            model.optimize()
            if model.SolCount:
                out[i] = _join(x.X, d)
        return out

    return solve


def _ortools(A: np.ndarray, positive: bool, name: str, parameters: str) -> Solve:
    _need("ortools")
    from ortools.linear_solver.python import model_builder

    B, d = _split(A, positive), A.shape[1]
    matrix = sp.csr_matrix(B)
    n_columns = B.shape[1]

    def solve(Y: np.ndarray) -> np.ndarray:
        out = np.zeros((len(Y), d))
        for i, y in enumerate(Y):
            model = model_builder.Model()
            model.helper.fill_model_from_sparse_data(
                np.zeros(n_columns), np.full(n_columns, np.inf), np.ones(n_columns), y, y, matrix
            )
            solver = model_builder.Solver(name)
            if parameters:
                solver.set_solver_specific_parameters(parameters)
            if solver.solve(model) in (model_builder.SolveStatus.OPTIMAL, model_builder.SolveStatus.FEASIBLE):
                out[i] = _join(np.asarray(solver.values(model.get_variables())), d)
        return out

    return solve


def ortools_glop(A: np.ndarray, positive: bool, threads: int) -> Solve:
    return _ortools(A, positive, "glop", "")


def ortools_pdlp(A: np.ndarray, positive: bool, threads: int) -> Solve:
    """PDLP to 1e-10; it is stopped after 20,000 iterations."""
    criteria = "termination_criteria { simple_optimality_criteria { eps_optimal_absolute: 1e-10 "
    criteria += "eps_optimal_relative: 1e-10 } iteration_limit: 20000 }"
    return _ortools(A, positive, "pdlp", f"{criteria} num_threads: {threads}")


def sklearn_lars(A: np.ndarray, positive: bool, threads: int) -> Solve:
    """scikit-learn's LASSO path down to zero."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import lars_path

    gram = A.T @ A if A.shape[1] <= 3000 else False

    def solve(Y: np.ndarray) -> np.ndarray:
        out = np.zeros((len(Y), A.shape[1]))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            for i, y in enumerate(Y):
                out[i] = lars_path(
                    A,
                    y,
                    Xy=A.T @ y,
                    Gram=gram,
                    method="lasso",
                    positive=positive,
                    alpha_min=0,
                    max_iter=20 * len(A),
                    return_path=False,
                    copy_X=True,
                )[2]
        return out

    return solve


def spgl1_bp(A: np.ndarray, positive: bool, threads: int) -> Solve:
    """spgl1's basis pursuit (signed problems only)."""
    spgl1 = _need("spgl1")
    if positive:
        raise UnavailableError("spgl1 is measured on the signed problem")

    def solve(Y: np.ndarray) -> np.ndarray:
        return np.array([spgl1.spg_bp(A, y, bp_tol=1e-9, opt_tol=1e-9, iter_lim=5000, verbosity=0)[0] for y in Y])

    return solve


PEERS: dict[str, Callable[[np.ndarray, bool, int], Solve]] = {
    "scipy HiGHS": scipy_highs,
    "highspy, slack basis": highspy_slack,
    "Gurobi, rebuilt": gurobi_rebuilt,
    "Gurobi, leanest": gurobi_lean,
    "OR-tools GLOP": ortools_glop,
    "OR-tools PDLP": ortools_pdlp,
    "sklearn lars_path": sklearn_lars,
    "spgl1": spgl1_bp,
}
