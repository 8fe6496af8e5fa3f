"""Fit many trained encoders at once: other seeds, other numbers of measurements, other rows of the same size."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import scipy.sparse as sp

from sparselens._batches import SparseRows
from sparselens._checkpoint import Checkpoint
from sparselens._validation import check_callback, check_positive_float
from sparselens.encoders.autoencoders import Trained, TrainedEncoder
from sparselens.encoders.base import training_identity
from sparselens.recovery import TrainingDivergedError
from sparselens.train import Event, check_seeded, choose_device
from sparselens.train_together import Member, train_together

# What the encoders of one call may differ in.
FREE = ("n_components", "random_state", "orthogonality_penalty")
_KEEP = 120.0  # seconds between two states that are kept: those of a large stack take seconds to write


def fit_together(
    encoders: Sequence[TrainedEncoder],
    X: Any,
    *,
    X_valid: Any = None,
    callback: Callable[..., Any] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
) -> list[TrainedEncoder]:
    """Fit encoders that differ in their seed, their number of measurements or their rows, all at once.

    Each ends with what its own `fit` gives, up to rounding. On a GPU dozens of small networks take about as long as
    one; nothing is gained on a CPU.

    Parameters
    ----------
    encoders : sequence of L1AE, ISTAAE, SimpleAE or DeepAE
        Of one class, and equal but for `n_components`, `random_state` and `orthogonality_penalty`; without
        `checkpoint`, `clip_norm`, ``norm="batch"`` and ``n_steps="auto"``. They are fitted in place.
    X, X_valid : matrix (n, d), or a list with one for each encoder
        As in `fit`. Matrices of a list have the same shape.
    callback : callable, optional
        Called with an `Event` after every epoch; a true answer ends all trainings with their best weights.
    checkpoint : path, optional
        A folder to keep the state of all of them in; another call goes on from the state it finds there.

    Returns
    -------
    The encoders. ``history_`` has two more entries: ``together``, how many there were, and ``seconds``, from the
    beginning to the end of this training. Where a training diverges the others go on, and a `TrainingDivergedError` at
    the end says which did.

    Examples
    --------
    >>> import numpy as np
    >>> import sparselens as sl
    >>> X = np.eye(8)[np.arange(40) % 8]
    >>> encoders = [sl.L1AE(m, n_steps=2, max_epochs=20, random_state=s, device="cpu") for m in (3, 4) for s in (0, 1)]
    >>> [encoder.components_.shape for encoder in sl.fit_together(encoders, X)]
    [(3, 8), (3, 8), (4, 8), (4, 8)]
    """
    encoders = list(encoders)
    check_callback(callback)
    _check_alike(encoders)
    given = _one_each(X, "X", len(encoders))
    given_valid = _one_each(X_valid, "X_valid", len(encoders))

    checked, sets, members_of = [], _Sets(), []
    identities: list[dict[str, Any]] = []
    for encoder, rows, held_out in zip(encoders, given, given_valid, strict=True):
        own, own_valid, m = encoder._begin(rows, held_out)
        check_positive_float(encoder.learning_rate, "learning_rate")
        check_positive_float(getattr(encoder, "orthogonality_penalty", 0.0), "orthogonality_penalty", allow_zero=True)
        checked.append(own)
        variants, seed = encoder._variants(m, own.shape[1]), encoder._seed()
        # Without X_valid the held-out part depends on the seed.
        key = (id(rows), id(held_out), seed if held_out is None else None)
        if key not in sets:
            sets.add(key, *encoder._split(own, own_valid, seed))
        members_of.append((variants, seed, sets.index(key)))
        if checkpoint is not None:
            check_seeded(encoder.random_state, checkpoint)
            identities.append(training_identity(encoder, own, own_valid) | {"seed": seed})

    first = encoders[0]
    device = choose_device(first.device)
    rows, held_out = (SparseRows(part, device=device) for part in sets.joined())
    values = members_of[0][0].values
    tried: list[list[Trained]] = [[] for _ in encoders]
    seconds, began = [0.0] * len(encoders), time.perf_counter()
    errors: dict[int, TrainingDivergedError] = {}
    stopped = False

    def told(event: Event) -> bool:
        """The callback hears of the whole fit."""
        nonlocal stopped
        seconds = time.perf_counter() - began
        part = (i + event.progress) / len(values)
        stopped = bool(callback is not None and callback(replace(event, progress=part, seconds=seconds)))
        return stopped

    for i, value in enumerate(values):
        if stopped:
            break
        before = time.perf_counter() - began
        members = [
            Member(variants.make(value), seed, data, getattr(encoder, "orthogonality_penalty", 0.0))
            for encoder, (variants, seed, data) in zip(encoders, members_of, strict=True)
        ]
        train_together(
            members,
            rows,
            held_out,
            first._settings(0),
            learning_rate=first.learning_rate,
            method=first._method,
            remedies=first._remedies(value),
            callback=told,
            checkpoint=None if checkpoint is None else Checkpoint(os.path.join(checkpoint, str(i)), seconds=_KEEP),
            identity={"encoders": identities},
        )
        for k, member in enumerate(members):
            seconds[k] = before + member.seconds
            if member.error is not None:
                errors[k] = member.error
            else:
                tried[k].append(Trained(value, member.network, member.history))
    for k, encoder in enumerate(encoders):
        if k not in errors:
            encoder._take(tried[k])
            encoder.history_ |= {"together": len(encoders), "seconds": seconds[k]}
            encoder._end(checked[k])
    if errors:
        k, error = next(iter(errors.items()))
        which = ", ".join(map(str, errors))
        raise TrainingDivergedError(
            f"{len(errors)} of {len(encoders)} trainings diverged (encoders {which}; the others are fitted). "
            f"Encoder {k}: {error}"
        ) from error
    return encoders


def why_not_together(encoder: Any) -> str | None:
    """The reason for which an encoder cannot be fitted together with others, or None."""
    if not isinstance(encoder, TrainedEncoder):
        return f"{type(encoder).__name__} is not trained by gradient steps on a network"
    params = encoder.get_params(deep=False)
    if params["checkpoint"] is not None:
        return "checkpoint is set: give the folder to fit_together, which keeps the state of all"
    if params["clip_norm"] is not None:
        return "clip_norm is set: each training would need a norm of its own"
    if params.get("norm") == "batch":
        return "norm='batch' keeps statistics that are no parameters"
    if params.get("n_steps") == "auto":
        return "n_steps='auto' trains one depth after the other"
    return None


class _Sets:
    """Pairs of training and validation rows, each once."""

    def __init__(self) -> None:
        self._keys: list[Any] = []
        self._rows: list[sp.csr_array] = []
        self._held_out: list[sp.csr_array] = []

    def __contains__(self, key: Any) -> bool:
        return key in self._keys

    def index(self, key: Any) -> int:
        return self._keys.index(key)

    def add(self, key: Any, rows: sp.csr_array, held_out: sp.csr_array) -> None:
        for name, part, known in (("X", rows, self._rows), ("X_valid", held_out, self._held_out)):
            if known and part.shape != known[0].shape:
                raise ValueError(
                    f"encoders that are fitted together need rows of one shape: {name} has {part.shape} after "
                    f"{known[0].shape}. Fit those of each shape together."
                )
        self._keys.append(key)
        self._rows.append(rows)
        self._held_out.append(held_out)

    def joined(self) -> tuple[sp.csr_array, sp.csr_array]:
        return sp.csr_array(sp.vstack(self._rows)), sp.csr_array(sp.vstack(self._held_out))


def _check_alike(encoders: Sequence[Any]) -> None:
    if not encoders:
        raise ValueError("there is no encoder to fit: pass a list of at least one.")
    if len({id(encoder) for encoder in encoders}) < len(encoders):
        raise ValueError("an encoder is in the list twice: make a copy of it with sklearn.base.clone.")
    for encoder in encoders:
        if (reason := why_not_together(encoder)) is not None:
            raise ValueError(f"{reason}. Fit it alone with fit(X).")
    first = encoders[0]
    fixed = {name: value for name, value in first.get_params(deep=False).items() if name not in FREE}
    for encoder in encoders[1:]:
        if type(encoder) is not type(first):
            raise ValueError(
                f"encoders that are fitted together must be of one class, got {type(first).__name__} and "
                f"{type(encoder).__name__}."
            )
        params = encoder.get_params(deep=False)
        for name, value in fixed.items():
            if repr(params[name]) != repr(value):
                raise ValueError(
                    f"encoders that are fitted together may differ in {', '.join(FREE)} alone, got {name}={value!r} "
                    f"and {name}={params[name]!r}."
                )


def _one_each(value: Any, name: str, n: int) -> list[Any]:
    """A matrix for each encoder: those of a list of matrices, or the one that was given for all of them."""
    several = isinstance(value, (list, tuple)) and any(sp.issparse(part) or hasattr(part, "shape") for part in value)
    if not several:
        return [value] * n
    if len(value) != n:
        raise ValueError(
            f"{name} is a list of {len(value)} matrices for {n} encoders: pass one matrix, or one for each."
        )
    return list(value)
