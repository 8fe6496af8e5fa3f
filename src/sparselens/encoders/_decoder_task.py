r"""A last phase of training on the decoder's own answers, for rows that m measurements cannot bring back.

Where x does not come back, the certificate says nothing about how far x̂ is from x. The decoder does: on the support T
of x̂ the answer is ``x̂_T = A_T⁺Ax``, so that ``‖x̂ − x‖²`` has, by A, the gradient ``−2 p eᵀ`` with ``e = x̂ − x`` and
``p = A_T(A_TᵀA_T)⁻¹e_T``: one term of rank one a row, exact as long as T does not change. Alone it trades rows that
come back for smaller errors of the others; with the bounded certificate loss ``ℓ/(1 + ℓ)`` beside it, it does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

from sparselens._certificate_loss import RIDGE, Supports, certificate_loss, minimum_norm_dual
from sparselens._validation import FloatArray
from sparselens.encoders._certificate_task import Columns, Judge, Score, one_cycle, solver
from sparselens.encoders._supports import padded_parts
from sparselens.train import Task

_MARGIN = 0.5  # of the certificate loss that keeps rows from being traded
_LONGEST = 3.0  # half the norm of a row's gradient: near a dependent support it has no bound


def decoded_loss_and_gradient(
    columns: torch.Tensor, X: sp.csr_array, X_hat: sp.csr_array, *, longest: float = _LONGEST, ridge: float = RIDGE
) -> tuple[torch.Tensor, torch.Tensor]:
    """The mean of ``‖x̂ − x‖²`` and its gradient (d, m) by the columns of A, the supports of X_hat held fixed.

    A row's gradient is cut to the norm `longest`, and ``A_TᵀA_T`` is regularised by `ridge`.
    """
    error = sp.csr_array(X_hat - X)
    n, d = X.shape
    loss = torch.tensor(float(error.data @ error.data) / n, dtype=columns.dtype, device=columns.device)
    on_support = sp.csr_array((np.ones(X_hat.nnz), X_hat.indices, X_hat.indptr), shape=(n, d)).multiply(error)
    on_support = sp.csr_array(on_support)
    on_support.sort_indices()
    gradient = torch.zeros_like(columns)
    parts, rows = padded_parts(
        on_support.indptr, on_support.indices, on_support.data, max_length=columns.shape[1], max_parts=4
    )
    for (support, values), which in zip(parts, rows, strict=True):
        dual = minimum_norm_dual(columns, Supports(_on(support, columns), _on(values, columns)), ridge=ridge)
        e = _on(error[which].toarray(), columns)
        length = torch.linalg.vector_norm(dual.u, dim=1) * torch.linalg.vector_norm(e, dim=1)
        p = dual.u * (-2.0 / n * (longest / length.clamp_min(1e-12)).clamp_max(1.0))[:, None]
        gradient += e.t() @ p
    return loss, gradient


def _on(array: np.ndarray, like: torch.Tensor) -> torch.Tensor:
    tensor = torch.from_numpy(np.ascontiguousarray(array))
    return tensor.to(like.device, tensor.dtype if tensor.dtype == torch.int64 else like.dtype)


class _DecodedLoss(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, columns: torch.Tensor, X: sp.csr_array, decode: Callable[[FloatArray], Any]) -> torch.Tensor:
        A = columns.t().cpu().double().numpy()
        loss, gradient = decoded_loss_and_gradient(columns, X, decode(A))
        ctx.save_for_backward(gradient)
        return loss

    @staticmethod
    def backward(ctx: Any, *grad_outputs: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        return ctx.saved_tensors[0] * grad_outputs[0], None, None


class DecoderTask(Task):
    """Train the columns of A on ``‖x̂ − x‖² + ℓ/(1 + ℓ)`` of rows that the exact decoder decodes in every step."""

    remedies = "lower learning_rate"

    def __init__(
        self, module: Columns, X: sp.csr_array, judge: Judge, *, n_rows: int, learning_rate: float, positive: bool
    ) -> None:
        self.module, self.X, self.judge = module, X, judge
        self.n_rows, self.learning_rate, self.positive = n_rows, learning_rate, positive
        self.scores: list[Score] = []

    def batches(self, order: torch.Tensor, bounds: list[int], generator: torch.Generator) -> Iterable[sp.csr_array]:
        turn = torch.randperm(self.X.shape[0], generator=generator).numpy()
        rows = turn[order.numpy() % self.X.shape[0]]
        for a, b in pairwise(bounds):
            yield self.X[rows[a:b]]

    def loss(self, batch: sp.csr_array) -> torch.Tensor:
        def decode(A: FloatArray) -> sp.csr_array:
            Y = np.ascontiguousarray(batch @ np.ascontiguousarray(A.T))
            size = np.linalg.norm(Y, axis=1)
            scale = np.where(size > 0, size, 1.0)[:, None]
            return sp.csr_array(solver(A, self.positive, self.judge.device).solve(Y / scale).x.multiply(scale))

        loss = _DecodedLoss.apply(self.module.columns, batch, decode)
        columns = self.module.columns
        max_length = min(columns.shape[1], columns.shape[0] - 1)
        signs = np.sign(batch.data).astype(np.float32)
        parts, _ = padded_parts(batch.indptr, batch.indices, signs, max_length=max_length, max_parts=4)
        if parts:
            supports = [Supports(_on(support, columns), _on(sign, columns)) for support, sign in parts]
            loss = loss + certificate_loss(columns, supports, margin=_MARGIN, loss="ratio", positive=self.positive)
        return loss

    def validate(self) -> float:
        self.scores.append(self.judge(self.module.matrix()))
        return self.scores[-1].total

    def optimizer(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.module.parameters(), lr=self.learning_rate, fused=True)

    def rate(self, progress: float) -> float:
        return one_cycle(progress)
