"""What a matrix must be, and the text of every input error.

Defined meanings, so that nobody has to guess:

* a row without nonzeros is a legal vector: it encodes to zeros and decodes to zeros;
* duplicate CSR entries are summed, unsorted ones sorted, stored zeros dropped (on a copy: input is never changed);
* integers and booleans are numbers and become float64;
* a one-dimensional array is refused, because whether it is a row or a column cannot be known.
"""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

FloatArray: TypeAlias = npt.NDArray[np.float64]

_SHOWN = 3  # how many offending rows an error names


def check_rows(
    X: Any,
    *,
    name: str = "X",
    nonnegative: bool = False,
    n_features: int | None = None,
    min_rows: int = 1,
    first_row: int = 0,
    canonical: bool = True,
) -> sp.csr_array:
    """Return X as a canonical float64 CSR array of sparse rows, or raise an error that says what to mend.

    `first_row` is the number of X's first row in what the user passed, for the messages about a block of it.
    ``canonical=False`` hands rows that are canonical already through as they are, without a copy.

    Examples
    --------
    >>> check_rows([[0, 1], [2, 0]]).toarray()
    array([[0., 1.],
           [2., 0.]])
    >>> check_rows([[0.0, float("nan")]])
    Traceback (most recent call last):
    ...
    ValueError: X holds NaN or infinity in row 0: remove or replace these values first.
    """
    X = as_numbers(X, name)
    _check_two_dimensional(X, name)
    if X.shape[0] < min_rows or X.shape[1] == 0:
        raise ValueError(
            f"{name} is empty (0 sample(s) or 0 feature(s) (shape=({X.shape[0]}, {X.shape[1]})) while a minimum "
            f"of {max(min_rows, 1)} is required): pass at least one row and one column."
        )
    if n_features is not None and X.shape[1] != n_features:
        raise ValueError(
            f"{name} has {X.shape[1]} columns but {n_features} were expected: "
            "pass rows with the same columns as in fit."
        )
    if not canonical and _is_plain(X, nonnegative):
        return sp.csr_array(X)
    out = canonical_csr(X)
    bad = ~np.isfinite(out.data)
    if bad.any():
        raise ValueError(
            f"{name} holds NaN or infinity in {_rows_of(out, bad, first_row)}: remove or replace these values first."
        )
    if nonnegative:
        bad = out.data < 0
        if bad.any():
            raise ValueError(
                f"{name} holds negative values in {_rows_of(out, bad, first_row)} (smallest {out.data.min():.3g}) "
                "but must be nonnegative: Negative values in data passed to a nonnegative model cannot come back; "
                "use positive=False where the class offers it, or shift the data."
            )
    return out


def check_labels(Y: Any, *, n_rows: int | None = None, name: str = "Y") -> sp.csr_array:
    """Return Y as a canonical CSR array of ones, one where a label applies, or raise an error that says what to mend.

    Every nonzero is a label; a zero that is stored is none.

    Examples
    --------
    >>> check_labels([[0, 3], [0, 0]]).toarray()
    array([[0., 1.],
           [0., 0.]])
    >>> check_labels([[-1, 1]])
    Traceback (most recent call last):
    ...
    ValueError: Y holds negative values in row 0 (smallest -1): mark the labels of a row by 1 and leave out the others.
    """
    Y = check_rows(Y, name=name)
    negative = Y.data < 0
    if negative.any():
        raise ValueError(
            f"{name} holds negative values in {_rows_of(Y, negative, 0)} (smallest {Y.data.min():.3g}): "
            "mark the labels of a row by 1 and leave out the others."
        )
    if n_rows is not None and Y.shape[0] != n_rows:
        raise ValueError(f"X has {n_rows:,} rows but {name} has {Y.shape[0]:,}: pass the labels of the same rows.")
    Y.data[:] = 1.0
    return Y


def check_measurement_matrix(A: Any, *, name: str = "A") -> FloatArray:
    """Return A (m, d) as a C-contiguous float64 array, m ≤ d, finite, or raise an error that says what to mend.

    Examples
    --------
    >>> check_measurement_matrix([[1.0], [2.0]])
    Traceback (most recent call last):
    ...
    ValueError: A has 2 rows and 1 columns: a measurement matrix (m, d) has at most as many rows as columns; pass
    components_, not its transpose.
    """
    A = as_numbers(A, name)
    _check_two_dimensional(A, name)
    if 0 in A.shape:
        raise ValueError(f"{name} is empty (shape {tuple(A.shape)}): pass a matrix with rows and columns.")
    if A.shape[0] > A.shape[1]:
        raise ValueError(
            f"{name} has {A.shape[0]} rows and {A.shape[1]} columns: a measurement matrix (m, d) has at most as "
            "many rows as columns; pass components_, not its transpose."
        )
    dense = A.toarray() if sp.issparse(A) else A
    dense = np.array(dense, dtype=np.float64, order="C", copy=True)
    finite = np.isfinite(dense).all(axis=1)
    if not finite.all():
        raise ValueError(
            f"{name} holds NaN or infinity in {_name_rows(np.flatnonzero(~finite))}: "
            "fit the encoder again, or read the matrix from an undamaged file."
        )
    return dense


def check_measurements(Y: Any, n_measurements: int, *, name: str = "Y") -> FloatArray:
    """Return Y (n, m) as a C-contiguous float64 array with m columns; rows may still hold NaN or infinity."""
    Y = as_numbers(Y, name)
    _check_two_dimensional(Y, name)
    if Y.shape[1] != n_measurements:
        raise ValueError(
            f"{name} has {Y.shape[1]} columns but A has {n_measurements} rows: encode with the encoder that supplied A."
        )
    dense = Y.toarray() if sp.issparse(Y) else Y
    return np.ascontiguousarray(dense, dtype=np.float64)


def check_finite_rows(Y: FloatArray, *, name: str = "Y") -> None:
    """Raise an error that names the rows of Y with a NaN or an infinity."""
    finite = np.isfinite(Y).all(axis=1)
    if not finite.all():
        raise ValueError(
            f"{name} holds NaN or infinity in {_name_rows(np.flatnonzero(~finite))}: mend the measurements, or pass "
            "on_invalid='status' to decode the other rows and mark these INVALID."
        )


def check_n_components(n_components: Any, n_features: int) -> int:
    """Return the number of measurements m, which must be a positive integer of at most d."""
    m = check_count(n_components, "n_components")
    if m > n_features:
        raise ValueError(
            f"n_components={m} exceeds the number of columns (n_features={n_features}): "
            f"ask for at most {n_features} measurements."
        )
    return m


def check_count(value: Any, name: str, *, minimum: int = 1) -> int:
    """Return value as an int of at least `minimum`; booleans and fractions are refused."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, Integral):
        raise TypeError(f"{name} must be a whole number, got {value!r} ({type(value).__name__}).")
    if value < minimum:
        raise ValueError(f"{name} must be at least {minimum}, got {value}.")
    return int(value)


def check_positive_float(value: Any, name: str, *, allow_zero: bool = False) -> float:
    """Return value as a finite float above zero (or from zero on)."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number, got {value!r} ({type(value).__name__}).")
    out = float(value)
    if not np.isfinite(out) or out < 0 or (out == 0 and not allow_zero):
        raise ValueError(f"{name} must be a finite number {'of at least' if allow_zero else 'above'} 0, got {value}.")
    return out


def check_choice(value: Any, name: str, choices: tuple[Any, ...]) -> Any:
    """Return value when it is one of the choices; the error lists them."""
    if not any(value is c or (isinstance(c, str) and value == c) for c in choices):
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}; got {value!r}.")
    return value


def check_callback(callback: Any) -> None:
    """Refuse what cannot be called now, and not after the first epoch."""
    if callback is not None and not callable(callback):
        raise TypeError(f"callback must be a function that is told of the progress, or None; got {callback!r}.")


def canonical_csr(X: Any) -> sp.csr_array:
    """A float64 CSR copy of X with sorted, distinct column indices and no stored zeros."""
    out = sp.csr_array(X, dtype=np.float64, copy=True)
    out.sum_duplicates()
    out.eliminate_zeros()
    return out


def unit_rows(X: sp.csr_array) -> sp.csr_array:
    """Scale every row to unit ℓ2 norm; rows without nonzeros stay as they are.

    Examples
    --------
    >>> unit_rows(sp.csr_array([[3e200, 4e200], [0.0, 0.0]])).toarray()
    array([[0.6, 0.8],
           [0. , 0. ]])
    """
    out, norms, _ = _scaled(X)
    out.data /= np.repeat(np.where(norms > 0, norms, 1.0), np.diff(out.indptr))
    return out


def row_norms(X: sp.csr_array) -> FloatArray:
    """The ℓ2 norm of every row, also where its square is no float64."""
    _, norms, exponents = _scaled(X)
    return np.ldexp(norms, exponents)


def _scaled(X: sp.csr_array) -> tuple[sp.csr_array, FloatArray, np.ndarray]:
    """A copy with each row divided by a power of two near its largest entry, its norms, and the exponents."""
    out = sp.csr_array(X, dtype=np.float64, copy=True)
    counts = np.diff(out.indptr)
    exponents = np.zeros(out.shape[0], dtype=np.int64)
    if out.nnz:
        rows = np.flatnonzero(counts)
        exponents[rows] = np.frexp(np.maximum.reduceat(np.abs(out.data), out.indptr[rows]))[1]
    out.data = np.ldexp(out.data, -np.repeat(exponents, counts))
    return out, np.sqrt(np.asarray(out.multiply(out).sum(axis=1)).ravel()), exponents


def as_numbers(X: Any, name: str) -> Any:
    """X as a numeric array or sparse container, or a TypeError that names what arrived."""
    if sp.issparse(X):
        if np.issubdtype(X.dtype, np.complexfloating):
            raise ValueError(f"{name} holds complex numbers: Complex data not supported, pass real numbers.")
        return X
    if isinstance(X, (str, bytes)):
        raise TypeError(f"{name} must be a matrix of numbers, got the text {X!r}: read a file with read_matrix first.")
    if X is None:
        raise TypeError(f"{name} must be a matrix of numbers, got None.")
    try:
        array = np.asarray(X)
        if array.dtype == object:
            array = array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name} must be a matrix of numbers, got {type(X).__name__} ({error}).") from None
    if array.dtype.kind not in "biuf":
        kind = "complex numbers: Complex data not supported" if array.dtype.kind == "c" else f"dtype {array.dtype}"
        raise ValueError(f"{name} must hold real numbers, got {kind}: convert it first (one-hot encode categories).")
    return array


def _is_plain(X: Any, nonnegative: bool) -> bool:
    """Whether X is canonical CSR and its entries need no second look; a False means nothing yet."""
    if not (sp.issparse(X) and X.format == "csr" and X.dtype == np.float64 and X.has_canonical_format):
        return False
    with np.errstate(over="ignore", invalid="ignore"):
        finite = bool(np.isfinite(X.data.sum()))  # one sum tells that every entry is finite
    return finite and not (nonnegative and X.nnz and X.data.min() < 0)


def _check_two_dimensional(X: Any, name: str) -> None:
    if X.ndim != 2:
        raise ValueError(
            f"{name} must be two-dimensional (samples in rows), got {X.ndim} dimension(s): Reshape your data, "
            f"for one sample use {name}.reshape(1, -1)."
        )


def _rows_of(X: sp.csr_array, bad: np.ndarray, first_row: int) -> str:
    rows = np.unique(np.searchsorted(X.indptr, np.flatnonzero(bad), side="right") - 1)
    return _name_rows(rows + first_row)


def _name_rows(rows: np.ndarray) -> str:
    shown = ", ".join(str(int(row)) for row in rows[:_SHOWN])
    more = f" and {len(rows) - _SHOWN:,} more" if len(rows) > _SHOWN else ""
    return f"row{'s' if len(rows) > 1 else ''} {shown}{more}"
