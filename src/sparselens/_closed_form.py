"""The loss of the sign network and its whole gradient, written down instead of traced.

The network is, with s_t = sign(x_t), p_t = s_t Aᵀ and rows as samples,

    x_1 = y B,    z_t = x_t − α_t (s_t − p_t B),    x_{t+1} = g_t∘z_t + b_t,    x̂ = relu(x_{T+1}),

B = A where the matrices are tied. The sign passes no gradient, so the gradient that reaches block t is the last one,
G = ∂L/∂x_{T+1}, times a vector: ∂L/∂x_t = G∘w_t with w_t = g_t∘g_{t+1}∘…∘g_T. Everything follows from G alone:

    ∂L/∂b_t = w_{t+1}∘Σ G                      ∂L/∂g_t = w_{t+1}∘Σ (G∘z_t)          (Σ: over the rows)
    ∂L/∂α_t = w_t·Σ (G∘(p_t B − s_t))          ∂L/∂B  = (yᵀG)∘w_1 + Σ_t α_t (p_tᵀG)∘w_t
    ∂L/∂A  = q_1ᵀX + Σ_t α_t q_tᵀ s_t          q_t = (G∘w_t) Bᵀ

The sums Σ (G∘z_t) come from a recursion over vectors, because Σ (G∘(p_t B)) = Σ over the m rows of B∘(p_tᵀG), which
costs m·d in place of n·d. So neither x_t nor z_t is kept, only the signs, and the products over all T blocks are one
matrix product each.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, NamedTuple

import torch

from sparselens import _training_kernels as kernels
from sparselens._batches import Batch

COMPILE = True  # fuse the elementwise passes on a GPU with torch.compile, where Triton is there
_CHUNK = 2**25  # entries of the stacked (blocks · m, d) matrices that are held at a time


class Gradients(NamedTuple):
    """∂L by each parameter; A counts its use as the encoder and in s_t Aᵀ, B its use as the decoder."""

    A: torch.Tensor
    B: torch.Tensor
    alpha: torch.Tensor
    g: torch.Tensor
    b: torch.Tensor


class Buffers:
    """Memory that is used again by the next batch: fresh pages cost as much as the arithmetic."""

    def __init__(self) -> None:
        self._flat: dict[str, torch.Tensor] = {}

    def __call__(self, name: str, shape: tuple[int, ...], like: torch.Tensor) -> torch.Tensor:
        size = 1
        for length in shape:
            size *= length
        flat = self._flat.get(name)
        if flat is None or flat.numel() < size or flat.dtype != like.dtype or flat.device != like.device:
            flat = self._flat[name] = torch.empty(size, dtype=like.dtype, device=like.device)
        return flat[:size].view(shape)


@torch.no_grad()
def loss_and_gradients(
    batch: Batch,
    A: torch.Tensor,
    B: torch.Tensor,
    alpha: torch.Tensor,
    g: torch.Tensor,
    b: torch.Tensor,
    *,
    final_relu: bool = True,
    buffers: Buffers | None = None,
) -> tuple[torch.Tensor, Gradients]:
    """The mean over the batch of ‖x̂ − x‖² and its gradient by every parameter.

    Parameters
    ----------
    batch : rows x, n of them
    A, B : tensors of shape (m, d)
    alpha : tensor of shape (T,)
    g, b : tensors of shape (T, d)
    """
    buffers = buffers or Buffers()
    n, (m, d), T = len(batch), A.shape, len(alpha)
    y = batch.measure(A)
    S = buffers("signs", (T, n, d), A)
    P = buffers("projections", (n, T, m), A)
    G = iterate(y, A, B, alpha, g, b, S, P, out=buffers("iterate", (n, d), A))
    loss = batch.residual_(G, final_relu) / n
    G.mul_(2.0 / n)

    W = torch.ones(T + 1, d, dtype=A.dtype, device=A.device)
    if T:
        torch.cumprod(g.flip(0), 0, out=W[:T])
        W[:T] = W[:T].flip(0)
    first = y.t() @ G
    dA, dB = torch.zeros_like(A), first * W[0]
    differences = torch.empty_like(g)  # Σ (G∘(p_t B − s_t))
    column_dots(G, S, differences)
    differences.neg_()
    weights = alpha[:, None] * W[:T]
    chunk = max(1, _CHUNK // (m * d))
    q_first = None
    for start in range(0, T, chunk):
        steps = slice(start, min(start + chunk, T))
        k = steps.stop - start
        PG = torch.mm(P[:, steps].reshape(n, k * m).t(), G, out=buffers("PG", (k * m, d), A)).view(k, m, d)
        scaled = torch.mul(B, W[steps, None], out=buffers("scaled", (k, m, d), A))
        q = (G @ scaled.view(k * m, d).t()).view(n, k, m)
        if start == 0:
            q_first = q[:, 0]
        q = (q * alpha[steps, None]).transpose(0, 1).reshape(k * n, m)
        dA.addmm_(q.t(), S[steps].view(k * n, d))
        for i in range(k):
            dB.addcmul_(PG[i], weights[start + i])
        differences[steps] += PG.mul_(B).sum(1)
    if q_first is None:
        q_first = G @ B.t()
    dA += batch.outer(q_first)

    total = G.sum(0)
    running = (B * first).sum(0)  # Σ (G∘x_t), from t = 1 on
    dots = torch.empty_like(g)  # Σ (G∘z_t)
    for t in range(T):
        torch.addcmul(running, differences[t], alpha[t], out=dots[t])
        running = torch.addcmul(b[t] * total, g[t], dots[t])
    return loss, Gradients(dA, dB, (W[:T] * differences).sum(1), W[1:] * dots, W[1:] * total)


@torch.no_grad()
def iterate(
    y: torch.Tensor,
    A: torch.Tensor,
    B: torch.Tensor,
    alpha: torch.Tensor,
    g: torch.Tensor,
    b: torch.Tensor,
    S: torch.Tensor | None = None,
    P: torch.Tensor | None = None,
    *,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """x_{T+1} for measurements y (n, m); the signs are left in S (T, n, d) and the p_t in P (n, T, m), where given."""
    n, (m, d), T = len(y), A.shape, len(alpha)
    x = torch.mm(y, B, out=out)
    S = x.new_empty(1, n, d).expand(T, n, d) if S is None else S
    P = y.new_empty(n, 1, m).expand(n, T, m) if P is None else P
    # Block t begins with the affine map that ends block t − 1: then one pass does all that is elementwise.
    g, b = torch.cat([g.new_ones(1, d), g]), torch.cat([b.new_zeros(1, d), b])
    for t in range(T):
        shrink(x, g[t], b[t], alpha[t], S[t])
        torch.mm(S[t], A.t(), out=P[:, t])
        x.addmm_(P[:, t] * alpha[t], B)
    return torch.addcmul(b[T], x, g[T], out=x)


def shrink(x: torch.Tensor, g: torch.Tensor, b: torch.Tensor, alpha: torch.Tensor, s: torch.Tensor) -> None:
    """x ← g∘x + b; s ← sign(x); x ← x − αs, in place."""
    if x.device.type == "cpu":
        step = alpha.numpy()[()]
        kernels.shrink(x.numpy(), g.numpy(), b.numpy(), step, type(step)(1), s.numpy())
    elif s.data_ptr() % 16 == 0:
        fused(_shrink, x)(x, g, b, alpha, s)
    else:  # compiled code would copy what does not lie on 16 bytes
        _shrink(x, g, b, alpha, s)


def column_dots(G: torch.Tensor, S: torch.Tensor, out: torch.Tensor) -> None:
    """out[t] ← Σ over rows of G∘S[t]."""
    if G.device.type == "cpu":
        kernels.column_dots(G.numpy(), S.numpy(), out.numpy())
    else:
        for t in range(len(S)):
            out[t] = fused(_column_dot, G)(G, S[t])


def _shrink(x: torch.Tensor, g: torch.Tensor, b: torch.Tensor, alpha: torch.Tensor, s: torch.Tensor) -> None:
    v = g * x + b
    sign = torch.sign(v)
    s.copy_(sign)
    x.copy_(v - alpha * sign)


def _column_dot(G: torch.Tensor, s: torch.Tensor) -> torch.Tensor:
    return (G * s).sum(0)


def fused(function: Callable[..., Any], x: torch.Tensor, *, dynamic: bool = False) -> Callable[..., Any]:
    """The function as one kernel where `x` lies on a GPU and Triton is there; `dynamic`: for shapes that change."""
    return _compiled(function, dynamic) if COMPILE and x.device.type == "cuda" and has_triton() else function


@functools.cache
def has_triton() -> bool:
    """Whether kernels can be compiled for a GPU."""
    return find_spec("triton") is not None


@functools.cache
def _compiled(function: Callable[..., Any], dynamic: bool) -> Callable[..., Any]:
    return torch.compile(function, dynamic=dynamic)
