"""Parse plain sparse text at some hundred megabytes a second; anything unusual is left to the line parser.

Imported only for large files: numba takes a second to load.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

_EXACT, _LONG, _BAD = 0, 1, -1
_POWERS = 10.0 ** np.arange(23)  # these are exact in float64


def _compiled(function: Callable[..., Any]) -> Any:
    try:
        return njit(cache=True)(function)
    except RuntimeError:  # there is no folder in which the machine code could be kept
        return njit(function)


@_compiled
def _number(b, i):  # type: ignore[no-untyped-def]
    """The number that starts at b[i]: value, first place after it, and how the value is to be taken.

    A mantissa below 2**53 times or over a power of ten up to 1e22 is one rounding of exact numbers, and so the nearest
    double (Clinger's fast path). Longer numbers are left to Python's float.
    """
    negative = b[i] == 45
    if negative or b[i] == 43:
        i += 1
    mantissa, power, n_digits, long = np.int64(0), 0, 0, False
    point = False
    while 48 <= b[i] <= 57 or (b[i] == 46 and not point):
        if b[i] == 46:
            point = True
        else:
            n_digits += 1
            if mantissa < 100_000_000_000_000_000:
                mantissa = mantissa * 10 + (b[i] - 48)
                power -= point
            else:
                long = True
        i += 1
    if n_digits == 0:
        return 0.0, i, _BAD
    if b[i] == 69 or b[i] == 101:
        i += 1
        down = b[i] == 45
        if down or b[i] == 43:
            i += 1
        exponent, n_digits = 0, 0
        while 48 <= b[i] <= 57:
            exponent = min(exponent * 10 + (b[i] - 48), 10_000)
            n_digits += 1
            i += 1
        if n_digits == 0:
            return 0.0, i, _BAD
        power += -exponent if down else exponent
    if long or mantissa >= 9_007_199_254_740_992 or power > 22 or power < -22:
        return 0.0, i, _LONG
    value = mantissa / _POWERS[-power] if power < 0 else mantissa * _POWERS[power]
    return (-value if negative else value), i, _EXACT


@_compiled
def _scan(b, labelled, fractional, n_columns, n_labels, counts, indices, values, label_counts, labels, long):  # type: ignore[no-untyped-def]
    """Fill the arrays from whole lines; the number of long values, or -1 where a line is not of the plainest form."""
    i, line, n_pairs, n_own, n_long = 0, 0, 0, 0, 0
    first = True
    while i < len(b):
        if b[i] == 32:
            i += 1
            continue
        if b[i] == 10:
            line += 1
            i += 1
            first = True
            continue
        start = i
        index, n_digits = np.int64(0), 0
        while 48 <= b[i] <= 57 and n_digits < 18:
            index = index * 10 + (b[i] - 48)
            n_digits += 1
            i += 1
        if n_digits > 0 and b[i] == 58:  # index:value
            if index >= n_columns or (first and labelled and fractional):
                return -1
            start = i + 1
            value, i, state = _number(b, start)
            if state == _BAD or (b[i] != 32 and b[i] != 10):
                return -1
            if state == _LONG:
                long[n_long, 0], long[n_long, 1], long[n_long, 2] = n_pairs, start, i
                n_long += 1
            indices[n_pairs] = index
            values[n_pairs] = value
            counts[line] += 1
            n_pairs += 1
        elif not first or not labelled:
            return -1
        elif fractional:  # one label, any number
            value, i, state = _number(b, start)
            if state != _EXACT or (b[i] != 32 and b[i] != 10):
                return -1
            labels[n_own] = value
            label_counts[line] = 1
            n_own += 1
        else:  # l1,l2,l3
            while True:
                if n_digits == 0 or index >= n_labels:
                    return -1
                labels[n_own] = index
                label_counts[line] += 1
                n_own += 1
                if b[i] != 44:
                    break
                i += 1
                index, n_digits = np.int64(0), 0
                while 48 <= b[i] <= 57 and n_digits < 18:
                    index = index * 10 + (b[i] - 48)
                    n_digits += 1
                    i += 1
            if b[i] != 32 and b[i] != 10:
                return -1
        first = False
    return n_long


def scan(piece: bytes, kind: str, n_columns: int, n_labels: int) -> tuple[np.ndarray, ...] | None:
    """Counts, indices, values, label counts and labels of whole lines that end in a newline; None if unusual."""
    n_lines, n_pairs = piece.count(b"\n"), piece.count(b":")
    counts, label_counts = np.zeros(n_lines, dtype=np.int64), np.zeros(n_lines, dtype=np.int64)
    indices, values = np.empty(n_pairs, dtype=np.int32), np.empty(n_pairs)
    labels = np.empty(n_lines + piece.count(b","))
    long = np.empty((n_pairs, 3), dtype=np.int64)
    n_long = _scan(
        np.frombuffer(piece, dtype=np.uint8),
        kind != "pairs",
        kind == "svmlight",
        n_columns,
        n_labels,
        counts,
        indices,
        values,
        label_counts,
        labels,
        long,
    )
    if n_long < 0:
        return None
    for at, start, end in long[:n_long].tolist():
        values[at] = float(piece[start:end])
    if not np.isfinite(values[long[:n_long, 0]]).all():
        return None
    return counts, indices[: counts.sum()], values[: counts.sum()], label_counts, labels[: label_counts.sum()]
