"""What an ℓ1 solver hands to the front: candidates, which count for nothing until their certificate is checked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp

from sparselens._validation import FloatArray
from sparselens.decoders._spectrum import Spectrum


@dataclass(frozen=True, eq=False)
class Candidates:
    """One candidate answer a row.

    Attributes
    ----------
    x : csr_array of shape (n, d)
    dual : float array of shape (n, m)
        The dual vector u, or a Farkas vector r where `infeasible` is claimed.
    infeasible : bool array of shape (n,)
    n_steps : int array of shape (n,)
    """

    x: sp.csr_array
    dual: FloatArray
    infeasible: np.ndarray
    n_steps: np.ndarray


@dataclass(frozen=True, eq=False)
class Answer:
    """What a solver of single rows found: support, values and dual vector, or a Farkas vector where infeasible."""

    support: np.ndarray
    values: FloatArray
    dual: FloatArray
    infeasible: bool
    steps: int


def gather(answers: list[Answer], shape: tuple[int, ...]) -> Candidates:
    """The answers to the rows, one after the other, as Candidates for a matrix of that shape (m, d)."""
    n, (m, d) = len(answers), shape
    counts = [len(answer.support) for answer in answers]
    x = sp.csr_array(
        (
            np.concatenate([np.zeros(0), *(answer.values for answer in answers)]),
            np.concatenate([np.zeros(0, dtype=np.int64), *(answer.support for answer in answers)]),
            np.concatenate(([0], np.cumsum(counts, dtype=np.int64))),
        ),
        shape=(n, d),
    )
    x.sum_duplicates()
    return Candidates(
        x=x,
        dual=np.array([answer.dual for answer in answers]).reshape(n, m),
        infeasible=np.array([answer.infeasible for answer in answers], dtype=bool),
        n_steps=np.array([answer.steps for answer in answers], dtype=np.int64),
    )


class Engine(Protocol):
    """A solver of ``min ‖x‖₁ s.t. Ax = y`` (x ≥ 0 where positive), prepared for one matrix."""

    def solve(self, Y: FloatArray) -> Candidates:
        """Solve for rows of unit norm."""
        ...


class WhenNeeded:
    """An engine that is made when the first row comes to it: a fallback that no row needs costs nothing."""

    def __init__(self, make: Callable[..., Engine], *arguments: Any) -> None:
        self.make, self.arguments = make, arguments
        self.engine: Engine | None = None

    def solve(self, Y: FloatArray) -> Candidates:
        if self.engine is None:
            self.engine = self.make(*self.arguments)
        return self.engine.solve(Y)


class PathEngine(Engine, Protocol):
    """An engine that follows the path, and can try again with more patience."""

    def patient(self) -> Engine:
        """An engine for rows that this one could not solve."""
        ...


_CACHED = 2**19  # entries of A up to which it stays in the cache in single precision (2 MB)


def path_engine(
    A: FloatArray, *, positive: bool, columns: FloatArray | None = None, spectrum: Spectrum | None = None
) -> PathEngine:
    """The compiled path that suits the size of A; numba is imported when it is first asked for.

    Parameters
    ----------
    A : float64 array of shape (m, d)
    positive : bool
    columns, spectrum : optional
        Aᵀ (d, m) and the `Spectrum` of A, where the caller has them already.
    """
    if A.size <= _CACHED:
        from sparselens.decoders._path_small import SmallPathEngine

        return SmallPathEngine(A, positive=positive, columns=columns, spectrum=spectrum)
    from sparselens.decoders._path_lazy import LazyPathEngine

    return LazyPathEngine(A, positive=positive, columns=columns, spectrum=spectrum)
