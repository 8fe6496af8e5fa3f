"""Random numbers that depend on what they are for, not on the order in which they are drawn."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from sparselens._validation import check_count


def derive_seed(random_state: int | None, /, **axes: Any) -> int:
    """Return a seed below 2**31 that depends on the seed and on every named axis.

    Two experiments that differ in one axis (data set, m, repetition, role) get unrelated seeds, and adding an
    experiment never changes the seed of another one.

    Examples
    --------
    >>> derive_seed(0, dataset="synthetic1", m=10) == derive_seed(0, m=10, dataset="synthetic1")
    True
    >>> derive_seed(0, role="train") == derive_seed(0, role="test")
    False
    """
    if random_state is None:
        return int(np.random.default_rng().integers(2**31))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    base = check_count(random_state, "random_state", minimum=0)
    text = repr((base, sorted((name, str(value)) for name, value in axes.items())))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") >> 1


def derive_rng(random_state: int | None, /, **axes: Any) -> np.random.Generator:
    """A numpy generator for `derive_seed(random_state, **axes)`."""
    return np.random.default_rng(derive_seed(random_state, **axes))
