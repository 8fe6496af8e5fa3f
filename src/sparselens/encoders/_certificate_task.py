"""Certificate training on the one loop: batches of supports, the loss, validation by the exact decoder."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import nn

from sparselens._certificate_loss import Supports, certificate_loss
from sparselens._validation import FloatArray, unit_rows
from sparselens.certificate import minimum_norm_dual
from sparselens.decoders._engine import Engine, path_engine
from sparselens.encoders._supports import UNSEEN, SupportSampler, padded_parts
from sparselens.metrics import EXACT
from sparselens.train import Task

_AT_ONCE = 8  # batches whose supports are drawn together: numpy's calls cost as much as their work
_SURE = 1e-3  # a certificate with this slack needs no linear program to say that a row comes back


@dataclass(frozen=True)
class Recipe:
    """What certificate training is free to choose."""

    loss: str = "hinge"
    margin: float = 0.3
    swap: float = 0.1
    uniform: float = 0.5
    thin: float = 0.0
    drop: float = 0.0
    learning_rate: float = 0.01

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Score:
    """How the validation rows come back: `errors` of rows of unit norm; `proved` where the shortest dual proves it."""

    errors: FloatArray
    proved: np.ndarray

    @property
    def exact(self) -> float:
        return float(np.mean(self.errors <= EXACT))

    @property
    def rmse(self) -> float:
        return float(np.sqrt(np.mean(self.errors**2)))

    @property
    def total(self) -> float:
        """What is minimised: the part of the rows that is lost plus the RMSE.

        Where every row comes back, the part that the shortest dual does not prove decides, and counts less than a row.
        """
        if self.exact < 1.0:
            return (1.0 - self.exact) + self.rmse
        return float(np.mean(~self.proved)) / (2 * max(1, len(self.errors)))


class Judge:
    """Decodes validation rows with the exact decoder.

    Parameters
    ----------
    X : csr_array of shape (n, d)
        Validation rows.
    positive : bool
    device : torch device
        Where to decode.
    """

    def __init__(self, X: sp.csr_array, *, positive: bool, device: torch.device) -> None:
        self.X, self.positive, self.device = unit_rows(X), positive, device

    def __call__(self, A: FloatArray) -> Score:
        errors = np.zeros(self.X.shape[0])
        proved = minimum_norm_dual(A, self.X, positive=self.positive)[1] >= _SURE
        open_ = np.flatnonzero(~proved)
        if len(open_):
            errors[open_] = decode_errors(A, self.X[open_], positive=self.positive, device=self.device)
        return Score(errors, proved)


def one_cycle(progress: float) -> float:
    """The factor of the learning rate: up within the first tenth, then down to nothing along a cosine."""
    if progress < 0.1:
        return 0.04 + 0.96 * (0.5 - 0.5 * math.cos(math.pi * progress / 0.1))
    return 0.5 + 0.5 * math.cos(math.pi * (progress - 0.1) / 0.9) + 1e-4


def decode_errors(A: FloatArray, X: sp.csr_array, *, positive: bool, device: torch.device) -> FloatArray:
    """‖x̂ − x‖ of each row, x̂ decoded from Ax. The truth is known, so that no certificate is needed."""
    Y = np.ascontiguousarray(X @ np.ascontiguousarray(A.T))
    size = np.linalg.norm(Y, axis=1)
    live = np.flatnonzero(size > 0)
    errors = np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel())
    if len(live):
        found = sp.csr_array(solver(A, positive, device).solve(Y[live] / size[live, None]).x.multiply(size[live, None]))
        if device.type == "cuda":
            torch.cuda.empty_cache()  # decoding takes gigabytes that training, or another process, does without
        difference = found - X[live]
        distance = np.sqrt(np.asarray(difference.multiply(difference).sum(axis=1)).ravel())
        # x itself has these measurements: what is longer than x is no solution, and x̂ = 0 stands for "none"
        solved = np.asarray(abs(found).sum(axis=1)).ravel() <= (1 + 1e-6) * np.asarray(abs(X[live]).sum(axis=1)).ravel()
        errors[live[solved]] = distance[solved]
    return errors


def solver(A: FloatArray, positive: bool, device: torch.device) -> Engine:
    """The solver that `L1Decoder` asks first, without its fallback: a row that it cannot solve counts as lost."""
    if device.type == "cuda":
        from sparselens.decoders._path_torch import TorchPathEngine

        return TorchPathEngine(A, positive=positive, device=device, compile=False)
    return path_engine(A, positive=positive)


class Columns(nn.Module):
    """The measurement matrix as a parameter, column by column: `columns` has shape (d, m)."""

    def __init__(self, A: FloatArray, device: torch.device) -> None:
        super().__init__()
        self.columns = nn.Parameter(torch.tensor(A.T, dtype=torch.float32, device=device).contiguous())

    def matrix(self) -> FloatArray:
        return self.columns.detach().t().cpu().double().numpy()


@dataclass(frozen=True)
class Batch:
    """Supports of a step, and the measurements that take part in it (None: all)."""

    supports: list[Supports]
    measurements: torch.Tensor | None = None


class CertificateTask(Task):
    """Train the columns of A on the certificate's loss of supports that `sampler` draws.

    An epoch of the loop is a stretch of `n_rows` supports between two validations, whatever the number of rows.
    """

    remedies = "lower learning_rate"

    def __init__(
        self,
        module: Columns,
        sampler: SupportSampler,
        judge: Judge,
        recipe: Recipe,
        *,
        n_rows: int,
        positive: bool,
        max_length: int,
    ) -> None:
        self.module, self.sampler, self.judge, self.recipe = module, sampler, judge, recipe
        self.n_rows, self.positive, self.max_length = n_rows, positive, max_length
        self.scores: list[Score] = []

    def batches(self, order: torch.Tensor, bounds: list[int], generator: torch.Generator) -> Iterable[Batch]:
        turn = torch.randperm(self.sampler.n, generator=generator).numpy()
        seed = int(torch.randint(2**31, (1,), generator=generator))
        rng = np.random.default_rng([seed, int(order[0]) if len(order) else 0])  # other draws in every process
        rows = turn[order.numpy() % self.sampler.n]
        for lo in range(0, len(bounds) - 1, _AT_ONCE):
            cuts = bounds[lo : lo + _AT_ONCE + 1]
            together = rows[cuts[0] : cuts[-1]]
            indptr, columns, signs = self.sampler(
                together,
                rng,
                swap=self.recipe.swap,
                uniform=self.recipe.uniform,
                unseen=UNSEEN,
                thin=self.recipe.thin,
            )
            for a, b in pairwise(cut - cuts[0] for cut in cuts):
                yield self._batch(indptr[a : b + 1], columns, signs, together[a:b], rng)

    def loss(self, batch: Batch) -> torch.Tensor:
        columns = self.module.columns
        if batch.measurements is not None:
            columns = columns.index_select(1, batch.measurements)
        return certificate_loss(
            columns, batch.supports, margin=self.recipe.margin, loss=self.recipe.loss, positive=self.positive
        )

    def validate(self) -> float:
        self.scores.append(self.judge(self.module.matrix()))
        return self.scores[-1].total

    def optimizer(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.module.parameters(), lr=self.recipe.learning_rate, fused=True)

    def rate(self, progress: float) -> float:
        return one_cycle(progress)

    def _batch(
        self,
        indptr: np.ndarray,
        columns: np.ndarray,
        signs: np.ndarray,
        rows: np.ndarray,
        rng: np.random.Generator,
    ) -> Batch:
        """Some measurements, and the supports that they can serve, on the device."""
        m, device = self.module.columns.shape[1], self.module.columns.device
        kept = np.flatnonzero(rng.random(m) >= self.recipe.drop) if self.recipe.drop > 0 else np.arange(m)
        max_parts = 4 if device.type == "cpu" or self.max_length > 64 else 1  # a launch costs more than some padding
        max_length = min(self.max_length, len(kept))
        parts = padded_parts(indptr, columns, signs, max_length=max_length, max_parts=max_parts)
        if not parts:  # every support has become too long, or empty: take them as they are, and every measurement
            kept = np.arange(m)
            plain = self.sampler(rows, np.random.default_rng(0), swap=0.0, uniform=0.0)
            parts = padded_parts(*plain, max_length=self.max_length, max_parts=max_parts)
        supports = [Supports(_to(torch.from_numpy(c), device), _to(torch.from_numpy(s), device)) for c, s in parts]
        return Batch(supports, _to(torch.from_numpy(kept), device) if len(kept) < m else None)


def _to(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    if device.type != "cuda":
        return tensor
    return tensor.pin_memory().to(device, non_blocking=True)
