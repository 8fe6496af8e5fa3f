"""`_closed_form` for many networks of one shape at once, in a form that fills a GPU.

Every tensor has one more axis in front, and the formulas are those of that module, block by block: with many networks
one block fills a GPU, and what belongs to it stays in its cache.

The d columns may be cut into c parts of w columns (`cut`, `joined`): each part is treated like a network of its own,
and only y, p_t and q_t, which are sums over columns, are added up over the parts. One wide network then gives as many
independent products as c narrow ones. Columns of zeros that fill the last part stay zeros.

`_closed_form_triton` does the same on a GPU with float16 and with kernels of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from sparselens._closed_form import Buffers, Gradients, fused


def cut(value: torch.Tensor, c: int) -> torch.Tensor:
    """(K, r, d) as (K·c, r, d/c)."""
    if c == 1:
        return value
    K, r, d = value.shape
    return value.view(K, r, c, d // c).transpose(1, 2).reshape(K * c, r, d // c)


def joined(value: torch.Tensor, c: int) -> torch.Tensor:
    """(K·c, r, w) as (K, r, c·w)."""
    if c == 1:
        return value
    Kc, r, w = value.shape
    return value.view(Kc // c, c, r, w).transpose(1, 2).reshape(Kc // c, r, c * w)


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
    X : tensor of shape (K·c, n, w)
        A batch for each of K networks, with d = c·w columns.
    A, B : tensors of shape (K·c, m, w)
    alpha : tensor of shape (K, T)
    g, b : tensors of shape (K·c, T, w)

    Returns
    -------
    losses : tensor of shape (K,)
    gradients : Gradients
        In the shapes of the arguments.
    """
    buffers = buffers or Buffers()
    (Kc, n, w), (m, (K, T)) = X.shape, (A.shape[1], alpha.shape)
    c = Kc // K
    y = gathered(torch.bmm(X, A.mT), c)
    S = _aligned(buffers, T, (Kc, n, w), A)
    P = buffers("projections", (T, Kc, n, m), A)
    G = _iterate(y, A, B, alpha, g, b, S, P)
    loss = losses_(G, X, K, final_relu)

    W = remaining(g)
    first = torch.bmm(spread(y, c).mT, G)
    dA, dB = torch.zeros_like(A), first * W[:, :1]
    differences = torch.empty_like(g)  # Σ (G∘(p_t B − s_t))
    q_first = spread(gathered(torch.bmm(G, (B * W[:, :1]).mT), c), c)
    step = alpha.repeat_interleave(c, 0)
    for t in range(T):
        v, a = W[:, t, None], step[:, t, None, None]
        PG = torch.bmm(P[t].mT, G)
        differences[:, t] = _fused(_difference, A)(B, PG, G, S[t])
        scaled = _fused(_add_weighted, A)(dB, PG, B, v, a)
        q = q_first if t == 0 else spread(gathered(torch.bmm(G, scaled.mT), c), c)
        dA.baddbmm_((q * a).mT, S[t])
    dA.baddbmm_(q_first.mT, X)
    return loss, gradients(dA, dB, B, alpha, g, b, W, G, first, differences)


def remaining(g: torch.Tensor) -> torch.Tensor:
    """w_t of every block, and 1 behind the last: (K·c, T + 1, w)."""
    W = g.new_ones(len(g), g.shape[1] + 1, g.shape[2])
    if g.shape[1]:
        W[:, :-1] = torch.cumprod(g.flip(1), 1).flip(1)
    return W


def gradients(
    dA: torch.Tensor,
    dB: torch.Tensor,
    B: torch.Tensor,
    alpha: torch.Tensor,
    g: torch.Tensor,
    b: torch.Tensor,
    W: torch.Tensor,
    G: torch.Tensor,
    first: torch.Tensor,
    differences: torch.Tensor,
) -> Gradients:
    """All of them, from those by A and B, yᵀG and Σ (G∘(p_t B − s_t)); G is half the gradient of the sum."""
    (K, T), n = alpha.shape, G.shape[1]
    c = len(g) // K
    step = alpha.repeat_interleave(c, 0)
    total = G.sum(1)
    running = (B * first).sum(1)  # Σ (G∘x_t), from t = 1 on
    dots = torch.empty_like(g)  # Σ (G∘z_t)
    for t in range(T):
        dots[:, t] = torch.addcmul(running, differences[:, t], step[:, t, None])
        running = torch.addcmul(b[:, t] * total, g[:, t], dots[:, t])
    by_alpha = (W[:, :T] * differences).sum(2).view(K, c, T).sum(1)
    by_g, by_b = W[:, 1:] * dots, W[:, 1:] * total[:, None]
    return Gradients(*(value.mul_(2.0 / n) for value in (dA, dB, by_alpha, by_g, by_b)))


@torch.no_grad()
def predict(
    X: torch.Tensor,
    A: torch.Tensor,
    B: torch.Tensor,
    alpha: torch.Tensor,
    g: torch.Tensor,
    b: torch.Tensor,
) -> torch.Tensor:
    """x_{T+1} (K·c, n, w) of the rows X."""
    return _iterate(gathered(torch.bmm(X, A.mT), len(A) // len(alpha)), A, B, alpha, g, b)


def _iterate(
    y: torch.Tensor,
    A: torch.Tensor,
    B: torch.Tensor,
    alpha: torch.Tensor,
    g: torch.Tensor,
    b: torch.Tensor,
    S: Sequence[torch.Tensor] | None = None,
    P: Sequence[torch.Tensor] | None = None,
) -> torch.Tensor:
    """x_{T+1} (K·c, n, w) for measurements y (K, n, m); the signs s_t are left in S and the p_t in P, where given."""
    (K, T), Kc = alpha.shape, len(A)
    c = Kc // K
    x = torch.bmm(spread(y, c), B)
    S = [torch.empty_like(x)] * T if S is None else S
    # Block t begins with the affine map that ends block t − 1: then one pass does all that is elementwise.
    g = torch.cat([torch.ones_like(x[:, :1]), g], 1)
    b = torch.cat([torch.zeros_like(x[:, :1]), b], 1)
    step = alpha.repeat_interleave(c, 0)
    for t in range(T):
        a = step[:, t, None, None]
        _fused(_shrink, A)(x, g[:, t, None], b[:, t, None], a, S[t])
        p = spread(gathered(torch.bmm(S[t], A.mT), c), c)
        if P is not None:
            P[t].copy_(p)
        x.baddbmm_(p * a, B)
    return torch.addcmul(b[:, T, None], x, g[:, T, None])


def gathered(p: torch.Tensor, c: int) -> torch.Tensor:
    """The sum over the parts of each network, (K·c, n, m) to (K, n, m)."""
    return p if c == 1 else p.view(-1, c, *p.shape[1:]).sum(1)


def spread(p: torch.Tensor, c: int) -> torch.Tensor:
    """The same for every part, (K, n, m) to (K·c, n, m)."""
    return p if c == 1 else p.repeat_interleave(c, 0)


def _fused(function: Callable[..., Any], x: torch.Tensor) -> Callable[..., Any]:
    return fused(function, x, dynamic=True)  # networks that have finished leave, and the shapes change


def _aligned(buffers: Buffers, T: int, shape: tuple[int, ...], like: torch.Tensor) -> list[torch.Tensor]:
    """T tensors in one piece of memory, each beginning on 16 bytes: compiled code would copy others."""
    size = math.prod(shape)
    flat = buffers("signs", (T, -(-size // 8) * 8), like)
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


def losses_(x: torch.Tensor, X: torch.Tensor, K: int, final_relu: bool) -> torch.Tensor:
    """Turn x_{T+1} into half the gradient of the sum by it, and return the mean of ‖x̂ − x‖² of each network."""
    return _fused(_residual_, x)(x, X, final_relu).view(K, -1).sum(1) / x.shape[1]


def _residual_(v: torch.Tensor, X: torch.Tensor, final_relu: bool) -> torch.Tensor:
    """Turn v into the gradient of ``‖x̂ − x‖²/2`` by v and return Σ ‖x̂ − x‖² of each network and part."""
    residual = torch.relu(v) - X if final_relu else v - X
    v.copy_(residual * (v > 0) if final_relu else residual)
    return residual.square().sum((1, 2))
