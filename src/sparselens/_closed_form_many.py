"""`_closed_form` for many networks of one shape at once: every tensor has one more axis in front, that of the networks.

The formulas are those of that module, block by block: with many networks one block fills a GPU, and what belongs to it
stays in its cache.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from sparselens._closed_form import Buffers, Gradients, fused


@torch.no_grad()
def losses_and_gradients(
    X: torch.Tensor,
    A: torch.Tensor,
    B: torch.Tensor,
    alpha: torch.Tensor,
    g: torch.Tensor,
    b: torch.Tensor,
    *,
    final_relu: bool = True,
    buffers: Buffers | None = None,
) -> tuple[torch.Tensor, Gradients]:
    """The mean over each network's batch of ‖x̂ − x‖², and its gradient by that network's parameters.

    Parameters
    ----------
    X : tensor of shape (K, n, d)
        A batch for each of K networks.
    A, B : tensors of shape (K, m, d)
    alpha : tensor of shape (K, T)
    g, b : tensors of shape (K, T, d)
    """
    buffers = buffers or Buffers()
    (K, n, d), (m, T) = X.shape, (A.shape[1], alpha.shape[1])
    y = torch.bmm(X, A.mT)
    S = _aligned(buffers, T, (K, n, d), A)
    P = buffers("projections", (T, K, n, m), A)
    G = iterate(y, A, B, alpha, g, b, S, P)
    loss = _residual_(G, X, final_relu) / n
    G.mul_(2.0 / n)

    W = torch.ones(K, T + 1, d, dtype=A.dtype, device=A.device)
    if T:
        W[:, :T] = torch.cumprod(g.flip(1), 1).flip(1)
    first = torch.bmm(y.mT, G)
    dA, dB = torch.zeros_like(A), first * W[:, :1]
    differences = torch.empty_like(g)  # Σ (G∘(p_t B − s_t))
    q_first = torch.bmm(G, (B * W[:, :1]).mT)
    for t in range(T):
        w, a = W[:, t, None], alpha[:, t, None, None]
        PG = torch.bmm(P[t].mT, G)
        differences[:, t] = _fused(_difference, A)(B, PG, G, S[t])
        scaled = _fused(_add_weighted, A)(dB, PG, B, w, a)
        q = q_first if t == 0 else torch.bmm(G, scaled.mT)
        dA.baddbmm_((q * a).mT, S[t])
    dA.baddbmm_(q_first.mT, X)

    total = G.sum(1)
    running = (B * first).sum(1)  # Σ (G∘x_t), from t = 1 on
    dots = torch.empty_like(g)  # Σ (G∘z_t)
    for t in range(T):
        dots[:, t] = torch.addcmul(running, differences[:, t], alpha[:, t, None])
        running = torch.addcmul(b[:, t] * total, g[:, t], dots[:, t])
    return loss, Gradients(dA, dB, (W[:, :T] * differences).sum(2), W[:, 1:] * dots, W[:, 1:] * total[:, None])


@torch.no_grad()
def iterate(
    y: torch.Tensor,
    A: torch.Tensor,
    B: torch.Tensor,
    alpha: torch.Tensor,
    g: torch.Tensor,
    b: torch.Tensor,
    S: Sequence[torch.Tensor] | None = None,
    P: Sequence[torch.Tensor] | None = None,
) -> torch.Tensor:
    """x_{T+1} for measurements y (K, n, m); the signs s_t are left in S and the p_t in P, where given."""
    K, T = alpha.shape
    x = torch.bmm(y, B)
    S = [torch.empty_like(x)] * T if S is None else S
    P = [torch.empty_like(y)] * T if P is None else P
    # Block t begins with the affine map that ends block t − 1: then one pass does all that is elementwise.
    g = torch.cat([g.new_ones(K, 1, x.shape[2]), g], 1)
    b = torch.cat([b.new_zeros(K, 1, x.shape[2]), b], 1)
    for t in range(T):
        _fused(_shrink, A)(x, g[:, t, None], b[:, t, None], alpha[:, t, None, None], S[t])
        torch.bmm(S[t], A.mT, out=P[t])
        x.baddbmm_(P[t] * alpha[:, t, None, None], B)
    return torch.addcmul(b[:, T, None], x, g[:, T, None])


def _fused(function: Callable[..., Any], x: torch.Tensor) -> Callable[..., Any]:
    return fused(function, x, dynamic=True)  # networks that have finished leave, and the shapes change


def _aligned(buffers: Buffers, T: int, shape: tuple[int, ...], like: torch.Tensor) -> list[torch.Tensor]:
    """T tensors in one piece of memory, each beginning on 16 bytes: compiled code would copy others."""
    size = math.prod(shape)
    flat = buffers("signs", (T, -(-size // 4) * 4), like)
    return [flat[t, :size].view(shape) for t in range(T)]


def _shrink(x: torch.Tensor, g: torch.Tensor, b: torch.Tensor, alpha: torch.Tensor, s: torch.Tensor) -> None:
    """x ← g∘x + b; s ← sign(x); x ← x − αs, in place."""
    v = g * x + b
    sign = torch.sign(v)
    s.copy_(sign)
    x.copy_(v - alpha * sign)


def _difference(B: torch.Tensor, PG: torch.Tensor, G: torch.Tensor, s: torch.Tensor) -> torch.Tensor:
    """Σ (G∘(pB − s)) over the rows, by the recursion over m rows."""
    return (B * PG).sum(1) - (G * s).sum(1)


def _add_weighted(
    dB: torch.Tensor, PG: torch.Tensor, B: torch.Tensor, w: torch.Tensor, alpha: torch.Tensor
) -> torch.Tensor:
    """dB ← dB + α PG∘w, in place; B∘w."""
    dB.copy_(dB + alpha * w * PG)
    return B * w


def _residual_(v: torch.Tensor, X: torch.Tensor, final_relu: bool) -> torch.Tensor:
    """Turn v into the gradient of ``‖x̂ − x‖²/2`` by v and return Σ ‖x̂ − x‖² of each network."""
    active = v > 0
    if final_relu:
        v.relu_()
    v.sub_(X)
    loss = v.square().sum((1, 2))
    if final_relu:
        v.mul_(active)
    return loss
