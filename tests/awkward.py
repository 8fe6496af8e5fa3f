"""Small ℓ1 problems of every awkward kind, for tests that compare a solver with an independent one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from helpers import gaussian, sparse_rows

Problem = tuple[np.ndarray, np.ndarray, bool]  # A (m, d), Y (n, m) with rows of unit norm, positive?

_N, _M, _D = 12, 20, 120


def _rows(k: int, seed: int, *, d: int = _D, equal: bool = False, signed: bool = False) -> np.ndarray:
    X = sparse_rows(_N, d, k, seed, signed=signed).toarray()
    return np.sign(X) / 3 if equal else X


def _made(A: np.ndarray, X: np.ndarray, *, positive: bool = True) -> Problem:
    return _measured(A, X @ A.T, positive=positive)


def _measured(A: np.ndarray, Y: np.ndarray, *, positive: bool = True) -> Problem:
    Y = Y[np.linalg.norm(Y, axis=1) > 0]
    return np.ascontiguousarray(A, dtype=np.float64), Y / np.linalg.norm(Y, axis=1, keepdims=True), positive


def _noise(seed: int, m: int = _M) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((_N, m))


def _duplicated(seed: int, positive: bool = True) -> Problem:
    A = gaussian(_M, _D, seed)
    A[:, _D // 2 :] = A[:, : _D // 2]
    return _made(A, _rows(4, seed, signed=not positive), positive=positive)


def _zero_columns(seed: int, positive: bool = True) -> Problem:
    A = gaussian(_M, _D, seed)
    A[:, ::3] = 0
    return _made(A, _rows(8, seed, signed=not positive), positive=positive)


def _repeated_rows(seed: int, positive: bool = True) -> Problem:
    A = gaussian(_M - 6, _D, seed)
    return _made(np.vstack([A, A[:6]]), _rows(4, seed, signed=not positive), positive=positive)


def _mixed_rows(seed: int) -> Problem:
    A = gaussian(_M - 6, _D, seed)
    return _made(np.vstack([A, _noise(seed, _M - 6)[:6] @ A]), _rows(4, seed))


def _inconsistent(seed: int, positive: bool = True) -> Problem:
    A, Y, _ = _repeated_rows(seed, positive)
    Y[:, -1] += 0.1
    return _measured(A, Y, positive=positive)


def _binary(seed: int, k: int, positive: bool = True) -> Problem:
    A = (np.random.default_rng(seed).random((_M, _D)) < 0.25).astype(float)
    return _made(A, _rows(k, seed, equal=True, signed=not positive), positive=positive)


def _plus_minus(seed: int, k: int, positive: bool = True) -> Problem:
    A = np.random.default_rng(seed).choice([-1.0, 1.0], (_M, _D))
    return _made(A, _rows(k, seed, equal=True, signed=not positive), positive=positive)


def _integers(seed: int, k: int) -> Problem:
    return _made(np.random.default_rng(seed).integers(-2, 3, (_M, _D)), _rows(k, seed, equal=True))


def _scaled_columns(seed: int, positive: bool = True) -> Problem:
    A = gaussian(_M, _D, seed) * 10.0 ** np.random.default_rng(seed).uniform(-4, 2, _D)
    return _made(A, _rows(4, seed, signed=not positive), positive=positive)


def _conditioned(seed: int, exponent: float) -> Problem:
    U, _, V = np.linalg.svd(gaussian(_M, _D, seed), full_matrices=False)
    return _made((U * 10.0 ** np.linspace(0, -exponent, _M)) @ V, _rows(4, seed))


KINDS: dict[str, Callable[[int], Problem]] = {
    "gaussian": lambda s: _made(gaussian(_M, _D, s), _rows(4, s)),
    "gaussian, long supports": lambda s: _made(gaussian(_M, _D, s), _rows(15, s)),
    "gaussian signed": lambda s: _made(gaussian(_M, _D, s), _rows(4, s, signed=True), positive=False),
    "gaussian signed, long": lambda s: _made(gaussian(_M, _D, s), _rows(15, s, signed=True), positive=False),
    "y at random": lambda s: _measured(gaussian(_M, _D, s), _noise(s)),
    "y at random signed": lambda s: _measured(gaussian(_M, _D, s), _noise(s), positive=False),
    "y outside a narrow cone": lambda s: _measured(gaussian(_M, 28, s), _noise(s)),
    "y outside the positive cone": lambda s: _measured(np.abs(gaussian(_M, _D, s)), _noise(s)),
    "duplicate columns": _duplicated,
    "duplicate columns signed": lambda s: _duplicated(s, positive=False),
    "zero columns": _zero_columns,
    "zero columns signed": lambda s: _zero_columns(s, positive=False),
    "repeated rows": _repeated_rows,
    "repeated rows signed": lambda s: _repeated_rows(s, positive=False),
    "dependent rows": _mixed_rows,
    "y outside the range": _inconsistent,
    "y outside the range signed": lambda s: _inconsistent(s, positive=False),
    "binary": lambda s: _binary(s, 4),
    "binary, long supports": lambda s: _binary(s, 10),
    "binary signed": lambda s: _binary(s, 4, positive=False),
    "plus minus one": lambda s: _plus_minus(s, 3),
    "plus minus one, long supports": lambda s: _plus_minus(s, 10),
    "plus minus one signed": lambda s: _plus_minus(s, 3, positive=False),
    "integers": lambda s: _integers(s, 3),
    "integers, long supports": lambda s: _integers(s, 10),
    "column scales 1e-4 to 1e2": _scaled_columns,
    "column scales signed": lambda s: _scaled_columns(s, positive=False),
    "condition 1e3": lambda s: _conditioned(s, 3),
    "condition 1e6": lambda s: _conditioned(s, 6),
    "positive matrix": lambda s: _made(np.abs(gaussian(_M, _D, s)), _rows(4, s)),
    "correlated columns": lambda s: _made(np.abs(gaussian(_M, _D, s)) + 3.0, _rows(4, s)),
    "m = 1": lambda s: _made(gaussian(1, _D, s), _rows(2, s)),
    "m = 1 signed": lambda s: _made(gaussian(1, _D, s), _rows(2, s, signed=True), positive=False),
    "m = d": lambda s: _made(gaussian(_M, _M, s), _rows(5, s, d=_M)),
    "m = d signed": lambda s: _made(gaussian(_M, _M, s), _rows(12, s, d=_M, signed=True), positive=False),
    "m = d, y at random": lambda s: _measured(gaussian(_M, _M, s), _noise(s)),
}
