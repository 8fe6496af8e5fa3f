"""What a decoder returns, what the state of a row means, and the errors of the library."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from enum import IntEnum
from typing import Any

import numpy as np
import scipy.sparse as sp

from sparselens._validation import FloatArray

__all__ = [
    "CheckpointError",
    "ClusterError",
    "ConditionWarning",
    "CorruptFileError",
    "DataNotFoundError",
    "MissingLibraryError",
    "NotBoundError",
    "OutputError",
    "Recovery",
    "SparselensError",
    "Status",
    "TrainingDivergedError",
]


class SparselensError(Exception):
    """Base of every error that is not plain bad input (bad input is a `ValueError` or a `TypeError`)."""


class NotBoundError(SparselensError, AttributeError):
    """A decoder was asked to decode before `bind` gave it a measurement matrix."""


class DataNotFoundError(SparselensError, FileNotFoundError):
    """A data set's file is not where it is looked for; the message says which file to put where."""

    # FileNotFoundError formats (errno, text); the message here is one sentence.
    __str__ = Exception.__str__


class CorruptFileError(SparselensError, ValueError):
    """A file exists but does not hold what its name and format promise."""


class OutputError(SparselensError):
    """A file could not be written to its end, for want of room; what was there before is untouched."""


class ClusterError(SparselensError):
    """A cluster did not answer, or processes died with rows that they were given."""


class MissingLibraryError(SparselensError, ImportError):
    """Something needs a library that is not installed; the message says how to install it."""


class CheckpointError(SparselensError):
    """A training checkpoint is damaged or belongs to another configuration."""


class TrainingDivergedError(SparselensError, FloatingPointError):
    """The training loss became infinite or NaN; the message names remedies."""


class ConditionWarning(UserWarning):
    """The measurement matrix is so ill-conditioned that 1e-10 accuracy cannot be promised."""


class Status(IntEnum):
    """The state of one decoded row; ``status.sentence`` says what it means and what to do."""

    sentence: str

    def __new__(cls, value: int, sentence: str) -> Status:
        member = int.__new__(cls, value)
        member._value_ = value
        member.sentence = sentence
        return member

    OPTIMAL_UNIQUE = (
        0,
        "The answer is proved to be the only solution: a dual certificate was checked. Nothing to do.",
    )
    OPTIMAL_NOT_UNIQUE = (
        1,
        "The answer is proved to be a solution, but another may exist: take more measurements "
        "if you need the one vector that was measured.",
    )
    INFEASIBLE = (
        2,
        "No vector of the asked kind has these measurements, and the row's dual vector proves it: check that "
        "they were made with this matrix, without noise, and that `positive` fits the data.",
    )
    UNCERTIFIED = (
        3,
        "The answer comes nearest to the measurements of those that were found, but no proof of it held: read `gap` "
        "and `residual` of the row, and check the condition number of the matrix.",
    )
    ESTIMATE = (
        4,
        "This decoder estimates and offers no proof: judge the row by its `residual`, "
        "or use L1Decoder for a certified answer.",
    )
    INVALID = (
        5,
        "The measurements of this row hold a NaN or an infinity, so nothing was solved: mend the row.",
    )


@dataclass(frozen=True, eq=False)
class Recovery:
    """Decoded rows with what is known about each of them.

    Attributes
    ----------
    x : csr_array of shape (n, d)
        The recovered rows; empty where `status` is INFEASIBLE or INVALID.
    status : uint8 array of shape (n,)
        A `Status` for each row.
    residual : float array of shape (n,)
        ``‖Ax − y‖ / ‖y‖`` (0 where y = 0).
    gap : float array of shape (n,)
        Relative duality gap ``(‖x‖₁ − yᵀu) / ‖x‖₁``; NaN where the decoder has no dual vector.
    n_steps : int array of shape (n,)
        Steps that the decoder took.
    dual : float array of shape (n, m) or None
        The dual vector u that proves a row optimal, or the Farkas vector that proves it infeasible.

    Examples
    --------
    >>> import numpy as np, scipy.sparse as sp
    >>> from sparselens.recovery import Recovery, Status
    >>> rec = Recovery(
    ...     x=sp.csr_array([[0.0, 2.0]]), status=np.array([0], dtype=np.uint8), residual=np.zeros(1),
    ...     gap=np.zeros(1), n_steps=np.ones(1, dtype=np.int64))
    >>> rec.certified
    array([ True])
    >>> print(rec.summary())
    1 row: 1 certified (1 unique).
    """

    x: sp.csr_array
    status: np.ndarray
    residual: FloatArray
    gap: FloatArray
    n_steps: np.ndarray
    dual: FloatArray | None = None

    def __post_init__(self) -> None:
        n = self.x.shape[0]
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name not in ("x",) and value is not None and len(value) != n:
                raise ValueError(f"Recovery.{field.name} has {len(value)} entries but x has {n} rows.")

    def __len__(self) -> int:
        return int(self.x.shape[0])

    def __getitem__(self, rows: Any) -> Recovery:
        """The rows of a slice, an index array or a boolean mask, as a Recovery."""
        if isinstance(rows, (int, np.integer)):
            rows = [int(rows)]
        return replace(
            self,
            x=self.x[rows],
            **{f.name: getattr(self, f.name)[rows] for f in fields(self)[1:] if getattr(self, f.name) is not None},
        )

    @property
    def certified(self) -> np.ndarray:
        """True where a certificate proves the row optimal."""
        return self.status <= Status.OPTIMAL_NOT_UNIQUE

    @property
    def unique(self) -> np.ndarray:
        """True where a certificate proves that the row has no other solution."""
        return self.status == Status.OPTIMAL_UNIQUE

    def counts(self) -> dict[Status, int]:
        """How many rows have each status, in the order of `Status`, without the zeros."""
        codes = np.bincount(self.status, minlength=len(Status))
        return {status: int(codes[status]) for status in Status if codes[status]}

    def summary(self) -> str:
        """One sentence for people: how many rows are certified, and how bad the others are."""
        n = len(self)
        text = f"{n:,} row{'s' if n != 1 else ''}: {int(self.certified.sum()):,} certified"
        text += f" ({int(self.unique.sum()):,} unique)"
        for status, count in self.counts().items():
            if status > Status.OPTIMAL_NOT_UNIQUE:
                text += f", {count:,} {status.name.lower()}"
        bad = self.status == Status.UNCERTIFIED
        if bad.any():
            text += f" (largest gap {np.nanmax(np.abs(self.gap[bad]), initial=0.0):.0e}"
            text += f", largest residual {np.nanmax(self.residual[bad], initial=0.0):.0e})"
        return text + "."

    @staticmethod
    def concatenate(parts: Sequence[Recovery] | Iterator[Recovery]) -> Recovery:
        """The rows of several recoveries, one after the other."""
        parts = list(parts)
        if not parts:
            raise ValueError("there is nothing to concatenate: pass at least one Recovery.")
        if len(parts) == 1:
            return parts[0]
        duals = [part.dual for part in parts]
        return Recovery(
            x=sp.vstack([part.x for part in parts], format="csr"),
            status=np.concatenate([part.status for part in parts]),
            residual=np.concatenate([part.residual for part in parts]),
            gap=np.concatenate([part.gap for part in parts]),
            n_steps=np.concatenate([part.n_steps for part in parts]),
            dual=None if any(u is None for u in duals) else np.concatenate([u for u in duals if u is not None]),
        )
