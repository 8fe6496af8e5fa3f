"""Unrolled decoders: one step each as a pure function, and the trainable networks that repeat it.

Rows are samples: x (n, d), y (n, m), A (m, d). No d x d matrix is ever made: ``(I − AᵀA)s`` is two thin products.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Self

import numpy as np
import torch
from torch import nn

from sparselens._batches import Batch
from sparselens._closed_form import Buffers, iterate, loss_and_gradients
from sparselens._validation import check_choice, check_count, check_positive_float

# TensorFlow's batch normalisation with frozen statistics (mean 0, variance 1) divides by sqrt(1 + 1e-3).
_EPS = 1e-3
BATCH_SCALE = 1.0 / math.sqrt(1.0 + _EPS)
_MOMENTUM = 0.01

NONLINEARITIES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {"sign": torch.sign, "tanh": torch.tanh}


def subgradient_step(
    x: torch.Tensor, A: torch.Tensor, alpha: Any, *, B: torch.Tensor | None = None, nonlinearity: str = "sign"
) -> torch.Tensor:
    """One projected-subgradient step of ℓ1 minimisation, ``x − α (I − BᵀA) sign(x)`` (the paper's block).

    Parameters
    ----------
    x : tensor of shape (n, d)
    A : tensor of shape (m, d)
    alpha : number or tensor of one entry
        The step size.
    B : tensor of shape (m, d), optional
        A trained matrix in the place of Aᵀ; A itself where left out.
    nonlinearity : "sign" or "tanh"

    Examples
    --------
    >>> A = torch.tensor([[0.6, 0.8]])
    >>> subgradient_step(torch.tensor([[1.0, 2.0]]), A, 0.5)
    tensor([[0.9200, 2.0600]])
    """
    s = NONLINEARITIES[nonlinearity](x)
    return x - alpha * (s - (s @ A.t()) @ (A if B is None else B))


def ista_step(x: torch.Tensor, y: torch.Tensor, A: torch.Tensor, *, step: Any, threshold: Any) -> torch.Tensor:
    """One ISTA step of the LASSO, ``soft(x + step · Aᵀ(y − Ax), threshold)``.

    Examples
    --------
    >>> A = torch.tensor([[1.0, 0.0]])
    >>> ista_step(torch.zeros(1, 2), torch.tensor([[2.0]]), A, step=0.5, threshold=0.25)
    tensor([[0.7500, 0.0000]])
    """
    z = x + step * ((y - x @ A.t()) @ A)
    # clamp, because sign(z)·relu(|z| − θ) has no gradient by θ through a negative θ's dead zone
    return z - torch.clamp(z, min=-threshold, max=threshold)


def direction(step: torch.Tensor) -> torch.Tensor:
    """1, or -1 where a step size is negative: also its slope, so that a step which starts at zero can leave it.

    Examples
    --------
    >>> direction(torch.tensor([0.5, 0.0, -0.5]))
    tensor([ 1.,  1., -1.])
    """
    return torch.where(step < 0, -1.0, 1.0).to(step.dtype)


def truncated_normal(shape: tuple[int, int], seed: int) -> torch.Tensor:
    """A normal draw of standard deviation 1/√d cut at two of them: where A starts, in the paper's code.

    Examples
    --------
    >>> bool((truncated_normal((5, 100), seed=0).abs() <= 0.2).all())
    True
    """
    rng = np.random.default_rng(seed)
    draw = rng.standard_normal(shape)
    while (far := np.abs(draw) > 2).any():
        draw[far] = rng.standard_normal(int(far.sum()))
    return torch.from_numpy(draw / math.sqrt(shape[1])).to(torch.float32)


class _Network(nn.Module):
    """A network that decodes the measurements of its matrix A."""

    A: nn.Parameter

    @property
    def first_matrix(self) -> torch.Tensor:
        """The matrix that meets the sparse rows."""
        return self.A

    @classmethod
    def from_weights(cls, A: np.ndarray, weights: Mapping[str, np.ndarray], **options: Any) -> Self:
        """The network with the weights that `weights` returned, in the precision of A, ready to decode."""
        start = torch.from_numpy(np.array(A))
        if "B" in weights:
            options["B"] = torch.from_numpy(np.array(weights["B"])).to(start.dtype)
        network = cls(start, **options)
        network.load_state_dict({"A": start} | {name: torch.from_numpy(np.array(w)) for name, w in weights.items()})
        return network.eval()

    def weights(self) -> dict[str, np.ndarray]:
        """Everything trained but A, as arrays."""
        return {k: v.detach().cpu().numpy().copy() for k, v in self.state_dict().items() if k != "A"}


class UnrolledNetwork(_Network):
    """The autoencoder of the paper: ``y = Ax``, then T projected-subgradient blocks and a ReLU.

    Parameters
    ----------
    A : tensor of shape (m, d)
        Where the measurement matrix starts.
    n_steps : int
        The number T of blocks; 0 leaves ``relu(Bᵀy)``.
    B : tensor of shape (m, d), optional
        Where a decoder matrix of its own starts; without it the decoder uses Aᵀ.
    step_rule : "beta/t", "free" or "fixed"
        One trained β with steps β/t, T trained steps that start there, or steps β/t that stay as they are.
    norm : "affine", "batch" or "none"
        What ends a block: a trained map γ∘x/√1.001 + b (what the authors' code computes), true batch
        normalisation, or nothing.
    nonlinearity : "sign" or "tanh"
    final_relu : bool
    beta : float
        Where β starts.

    Examples
    --------
    >>> network = UnrolledNetwork(truncated_normal((4, 20), seed=0), n_steps=3)
    >>> network(torch.ones(2, 4)).shape
    torch.Size([2, 20])
    """

    def __init__(
        self,
        A: torch.Tensor,
        *,
        n_steps: int = 10,
        B: torch.Tensor | None = None,
        step_rule: str = "beta/t",
        norm: str = "affine",
        nonlinearity: str = "sign",
        final_relu: bool = True,
        beta: float = 1.0,
    ) -> None:
        super().__init__()
        self.n_steps = check_count(n_steps, "n_steps", minimum=0)
        self.step_rule = check_choice(step_rule, "step_rule", ("beta/t", "free", "fixed"))
        self.norm = check_choice(norm, "norm", ("affine", "batch", "none"))
        self.nonlinearity = check_choice(nonlinearity, "nonlinearity", tuple(NONLINEARITIES))
        self.final_relu = bool(check_choice(final_relu, "final_relu", (True, False)))
        beta = check_positive_float(beta, "beta", allow_zero=True)
        d = A.shape[1]
        self.A = nn.Parameter(A.clone())
        self.B = nn.Parameter(B.clone()) if B is not None else None
        index = torch.arange(1, self.n_steps + 1, dtype=A.dtype)
        self.register_buffer("_index", index, persistent=False)
        if self.n_steps:
            step = beta / index if step_rule == "free" else torch.full((1,), beta, dtype=A.dtype)
            if step_rule == "fixed":
                self.register_buffer("step", step)
            else:
                self.step = nn.Parameter(step)
            if self.norm != "none":
                self.scale = nn.Parameter(torch.ones(self.n_steps, d, dtype=A.dtype))
                self.shift = nn.Parameter(torch.zeros(self.n_steps, d, dtype=A.dtype))
            if self.norm == "batch":
                self.register_buffer("running_mean", torch.zeros(self.n_steps, d, dtype=A.dtype))
                self.register_buffer("running_var", torch.ones(self.n_steps, d, dtype=A.dtype))
        self._buffers_of_steps = Buffers()

    @property
    def alpha(self) -> torch.Tensor:
        """The T step sizes. A step counts by its magnitude.

        Below zero the signs would reinforce each other from block to block: the loss then grows with d·(β Σ 1/t)², and
        with tens of thousands of columns one step of SGD throws β far away.
        """
        step = self.step * direction(self.step)
        return step if self.step_rule == "free" else step / self._index

    def forward(self, y: torch.Tensor) -> torch.Tensor:
        """Decode measurements y (n, m) to x̂ (n, d)."""
        B = self.A if self.B is None else self.B
        if self.has_closed_form and not torch.is_grad_enabled():
            x = iterate(y, self.A, B, *self._steps())
        else:
            x = y @ B
            for t in range(self.n_steps):
                x = subgradient_step(x, self.A, self.alpha[t], B=B, nonlinearity=self.nonlinearity)
                x = self._normalise(x, t)
        return torch.relu(x) if self.final_relu else x

    def loss(self, batch: Batch) -> torch.Tensor:
        """The mean over the batch of ‖x̂ − x‖², ready for ``backward``."""
        if not self.has_closed_form:
            return traced_loss(self, batch)
        return _ClosedForm.apply(batch, self.final_relu, self._buffers_of_steps, self.A, self.B, *self._steps())

    @property
    def has_closed_form(self) -> bool:
        return self.nonlinearity == "sign" and self.norm != "batch"

    def _steps(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """α (T,), g (T, d) and b (T, d) of the affine maps."""
        T, d = self.n_steps, self.A.shape[1]
        alpha = self.alpha if T else self.A.new_zeros(0)
        if self.norm == "none" or not T:
            return alpha, self.A.new_ones(T, d), self.A.new_zeros(T, d)
        return alpha, self.scale * BATCH_SCALE, self.shift

    def _normalise(self, x: torch.Tensor, t: int) -> torch.Tensor:
        if self.norm == "none":
            return x
        if self.norm == "affine":
            return x * (self.scale[t] * BATCH_SCALE) + self.shift[t]
        return nn.functional.batch_norm(
            x,
            self.running_mean[t],
            self.running_var[t],
            self.scale[t],
            self.shift[t],
            training=self.training and len(x) > 1,  # one row has no variance
            momentum=_MOMENTUM,
            eps=_EPS,
        )


class ISTANetwork(_Network):
    """An autoencoder with T unrolled ISTA steps: ``y = Ax``, then trained steps and thresholds, then a ReLU.

    Parameters
    ----------
    A : tensor of shape (m, d)
    n_steps : int
    step, threshold : float
        Where the T step sizes and the T thresholds start. A threshold counts by its magnitude, so that one which passes
        zero goes on learning; one that is larger than all of Aᵀy at first leaves nothing to learn from.

    Examples
    --------
    >>> ISTANetwork(truncated_normal((4, 20), seed=0), n_steps=3)(torch.ones(2, 4)).shape
    torch.Size([2, 20])
    """

    def __init__(
        self, A: torch.Tensor, *, n_steps: int = 10, step: float = 1.0, threshold: float = 1e-3, final_relu: bool = True
    ) -> None:
        super().__init__()
        self.n_steps = check_count(n_steps, "n_steps")
        self.final_relu = bool(check_choice(final_relu, "final_relu", (True, False)))
        step = check_positive_float(step, "step")
        threshold = check_positive_float(threshold, "threshold", allow_zero=True)
        self.A = nn.Parameter(A.clone())
        self.step = nn.Parameter(torch.full((n_steps,), step, dtype=A.dtype))
        self.threshold = nn.Parameter(torch.full((n_steps,), threshold, dtype=A.dtype))

    def forward(self, y: torch.Tensor) -> torch.Tensor:
        """Decode measurements y (n, m) to x̂ (n, d)."""
        x = y.new_zeros(len(y), self.A.shape[1])
        for t in range(self.n_steps):
            x = ista_step(x, y, self.A, step=self.step[t], threshold=self.threshold[t].abs())
        return torch.relu(x) if self.final_relu else x

    def loss(self, batch: Batch) -> torch.Tensor:
        """The mean over the batch of ‖x̂ − x‖², ready for ``backward``."""
        return traced_loss(self, batch)


def traced_loss(network: Any, batch: Batch) -> torch.Tensor:
    """The mean over the batch of ‖x̂ − x‖² through autograd, for any network with a matrix A and a forward pass."""
    return (network(batch.measure(network.A)) - batch.dense()).square().sum(1).mean()


class _ClosedForm(torch.autograd.Function):
    """`loss_and_gradients` as a node of autograd: the gradient is there before it is asked for."""

    @staticmethod
    def forward(
        ctx: Any,
        batch: Batch,
        final_relu: bool,
        buffers: Buffers,
        A: torch.Tensor,
        B: torch.Tensor | None,
        alpha: torch.Tensor,
        g: torch.Tensor,
        b: torch.Tensor,
    ) -> torch.Tensor:
        loss, grads = loss_and_gradients(
            batch, A, A if B is None else B, alpha, g, b, final_relu=final_relu, buffers=buffers
        )
        if B is None:
            ctx.gradients = (grads.A.add_(grads.B), None, grads.alpha, grads.g, grads.b)
        else:
            ctx.gradients = tuple(grads)
        return loss

    @staticmethod
    def backward(ctx: Any, *upstream: torch.Tensor) -> Any:
        (factor,) = upstream
        scaled = (None if gradient is None else gradient * factor for gradient in ctx.gradients)
        return (None, None, None, *scaled)
