"""`_closed_form_many` with kernels of its own, for GPUs: products of float16, added up in float32.

The closed form is bound by memory: what is as large as a batch, x and the signs, should be read and written once a
block. These kernels see to that, and the products that are left are those of the vendor's library:

* `_step` takes one whole step: the product p_t B, the affine map, the sign and the shrinking, in one pass over x.
* `_projections` gives all q_t = (G∘w_t) Bᵀ: G is scaled on its way into the product and never written scaled.
* `_columns` gives p_tᵀG of a few columns for one t after the other, and adds up what is asked of it: ∂L/∂B and
  Σ (G∘(p_t B)). None of the matrices p_tᵀG is written.
* `_dots` gives Σ (G∘s_t), with the signs read once.

Float16 has ten bits of mantissa, as TF32 has, at twice the rate. Signs are exact in it, the entries of A, p_t and q_t
are far inside its range, and G is kept free of the factor 2/n.

Networks lie as in `_closed_form_many`: matrices as (K·c, rows, w), what is equal in all parts of a network as (K, ...).
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from sparselens._closed_form import Buffers, Gradients
from sparselens._closed_form_many import gathered, gradients, losses_, remaining, spread

# Sides of tiles, as they were the fastest on an H200.
_COLUMNS = 64
_ROWS, _FEWER, _DEPTH = 128, 64, 256  # of a batch: in most kernels, in `_step`, and that `_columns` holds at a time
_MOST, _LEAST = 128, 16  # of the rows of B; tensor cores multiply no fewer


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
    low: torch.dtype = torch.float16,
    buffers: Buffers | None = None,
) -> tuple[torch.Tensor, Gradients]:
    """As `_closed_form_many.losses_and_gradients`; `low` is the type of the factors of products."""
    buffers = buffers or Buffers()
    (Kc, n, w), (K, T), m = X.shape, alpha.shape, A.shape[1]
    c = Kc // K
    like = A.new_empty(0, dtype=low)
    A_low, X_low = A.to(low), X.to(low)
    B_low = A_low if B is A else B.to(low)
    y = gathered(_product(X_low, A_low.mT), c).to(low)
    S = buffers("signs", (Kc, T, n, w), like)
    P = buffers("projections", (K, T, n, m), like)
    G = _iterate(y, A_low, B_low, alpha, g, b, S, P, out=buffers("iterate", (Kc, n, w), A))
    loss = losses_(G, X, K, final_relu)
    G_low, W = G.to(low), remaining(g)

    first = _product(spread(y, c).mT, G_low)
    q = spread(gathered(_product(G_low, (B * W[:, :1]).to(low).mT), c).to(low), c)
    dA, dB, differences = _product(q.mT, X_low), first, torch.empty_like(g)
    if T:
        Q = buffers("backprojections", (K, T, n, m), like)
        side, depth = _side(m), min(_DEPTH, _power(n))
        grid = (_tiles(n, _ROWS) * _tiles(m, side), T, K)
        # w_t is a product of up to T gains: divided by its largest entry, G∘w_t has no more range than G.
        largest = W.view(K, c, T + 1, w).abs().amax((1, 3)).clamp_(min=torch.finfo(W.dtype).tiny)
        _projections[grid](G_low, B_low, W, largest, alpha, Q, n, c, T, m, w, ROWS=_ROWS, SIDE=side, COLUMNS=_COLUMNS)
        dB, parts_of = torch.empty_like(B), g.new_empty(_tiles(n, depth), _tiles(m, side), *g.shape)
        grid = (_tiles(w, _COLUMNS), _tiles(m, side), Kc)
        # One stage: with more of them Triton 3.6 has added up wrong sums in such loops (docs/research.md).
        _columns[grid](
            G_low, P, B, W, alpha, dB, parts_of, Kc, n, c, T, m, w, DEPTH=depth, SIDE=side, COLUMNS=_COLUMNS,
            num_stages=1,
        )  # fmt: skip
        _dots[_tiles(w, _COLUMNS), T, Kc](G_low, S, differences, n, T, w, ROWS=_ROWS, COLUMNS=_COLUMNS)
        torch.sub(parts_of.sum((0, 1)), differences, out=differences)
        dB.addcmul_(first, W[:, :1])
        Q, S = Q.view(K, T * n, m), S.view(K, c, T * n, w)
        if c == 1:
            dA += _product(Q.mT, S[:, 0])
        else:
            for k in range(K):
                dA[k * c : (k + 1) * c] += _product(Q[k].mT.expand(c, m, T * n), S[k])
    return loss, gradients(dA, dB, B, alpha, g, b, W, G, first, differences)


@torch.no_grad()
def predict(
    X: torch.Tensor,
    A: torch.Tensor,
    B: torch.Tensor,
    alpha: torch.Tensor,
    g: torch.Tensor,
    b: torch.Tensor,
    *,
    low: torch.dtype = torch.float16,
) -> torch.Tensor:
    """x_{T+1} (K·c, n, w) of the rows X."""
    A_low = A.to(low)
    y = gathered(_product(X.to(low), A_low.mT), len(A) // len(alpha)).to(low)
    return _iterate(y, A_low, A_low if B is A else B.to(low), alpha, g, b)


def _iterate(
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
    """x_{T+1} (K·c, n, w) for measurements y (K, n, m); y, A and B have the type in which products are taken.

    The signs s_t are left in S (K·c, T, n, w) and the p_t in P (K, T, n, m), where given.
    """
    (K, T), (Kc, m, w), n = alpha.shape, A.shape, y.shape[1]
    x = torch.empty(Kc, n, w, dtype=g.dtype, device=y.device) if out is None else out
    if not T:  # the kernel is given what it does not read
        alpha, g, b, S = alpha.new_zeros(K, 1), g.new_ones(Kc, 1, w), b.new_zeros(Kc, 1, w), None
    S = A.new_empty(Kc, 1, n, w).expand(Kc, max(T, 1), n, w) if S is None else S
    P = y.new_empty(K, 1, n, m).expand(K, T, n, m) if P is None else P
    grid = (_tiles(w, _COLUMNS), _tiles(n, _FEWER), Kc)
    p = y
    for t in range(T + 1):
        # Block t begins with the affine map that ends block t − 1: then one pass does all that is elementwise.
        before, now = max(t - 1, 0), min(t, max(T - 1, 0))
        _step[grid](
            x, S[:, now], p, B, g[:, before], b[:, before], alpha[:, before], alpha[:, now], n, Kc // K,
            p.stride(0), S.stride(0), g.stride(0), alpha.stride(0), m, w, FIRST=t == 0, LAST=t == T,
            ROWS=_FEWER, COLUMNS=_COLUMNS, SIDE=min(_FEWER, _side(m)),
        )  # fmt: skip
        if t < T:
            p = P[:, t]
            p.copy_(gathered(_product(S[:, t], A.mT), Kc // K))
    return x


def _product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Batched a·b, added up and returned in float32 where the factors are float16."""
    return torch.bmm(a, b, out_dtype=torch.float32) if a.dtype == torch.float16 else torch.bmm(a, b)


def _tiles(length: int, side: int) -> int:
    return -(-length // side)


def _side(m: int) -> int:
    """The rows of B in a tile."""
    return min(_MOST, _power(m))


def _power(length: int) -> int:
    """The power of two from `length` on with which tensor cores can work."""
    return max(_LEAST, 1 << (length - 1).bit_length())


@triton.jit
def _step(
    x, signs, p, B, g, b, alpha_before, alpha, n, c, p_stride, s_stride, g_stride, alpha_stride,
    m: tl.constexpr, w: tl.constexpr, FIRST: tl.constexpr, LAST: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, SIDE: tl.constexpr,
):  # fmt: skip
    """x ← x + αpB, the end of one step; v ← g∘x + b; signs ← sign(v); x ← v − α·sign(v), the beginning of the next.

    The first call has p = y and x ← pB in the place of the end, the last one ends with v.
    """
    part = tl.program_id(2).to(tl.int64)
    net = part // c
    rows = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    columns = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    there = (rows[:, None] < n) & (columns[None, :] < w)
    at = rows[:, None] * w + columns[None, :]
    v = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for start in range(0, m, SIDE):
        k = start + tl.arange(0, SIDE)
        left = tl.load(p + net * p_stride + rows[:, None] * m + k[None, :], (rows[:, None] < n) & (k[None, :] < m), 0.0)
        right = tl.load(
            B + part * m * w + k[:, None] * w + columns[None, :], (k[:, None] < m) & (columns[None, :] < w), 0.0
        )
        v = tl.dot(left, right, v)
    if not FIRST:
        v = tl.load(x + part * n * w + at, there, 0.0) + tl.load(alpha_before + net * alpha_stride) * v
        gain = tl.load(g + part * g_stride + columns, columns < w, 0.0)
        v = v * gain[None, :] + tl.load(b + part * g_stride + columns, columns < w, 0.0)[None, :]
    if not LAST:
        sign = tl.where(v > 0, 1.0, 0.0) - tl.where(v < 0, 1.0, 0.0)
        tl.store(signs + part * s_stride + at, sign.to(signs.dtype.element_ty), there)
        v = v - tl.load(alpha + net * alpha_stride) * sign
    tl.store(x + part * n * w + at, v, there)


@triton.jit
def _projections(
    G, B, W, largest, alpha, Q, n: tl.constexpr, c: tl.constexpr, T: tl.constexpr, m: tl.constexpr, w: tl.constexpr,
    ROWS: tl.constexpr, SIDE: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Q[k, t] ← α_t (G∘w_t) Bᵀ, summed over the parts of network k."""
    across: tl.constexpr = (m + SIDE - 1) // SIDE
    net, t = tl.program_id(2).to(tl.int64), tl.program_id(1)
    rows = tl.program_id(0) // across * ROWS + tl.arange(0, ROWS)
    k = tl.program_id(0) % across * SIDE + tl.arange(0, SIDE)
    size = tl.load(largest + net * (T + 1) + t)
    q = tl.zeros((ROWS, SIDE), dtype=tl.float32)
    for i in range(c):
        part = net * c + i
        for start in range(0, w, COLUMNS):
            columns = start + tl.arange(0, COLUMNS)
            some = columns[None, :] < w
            left = tl.load(G + part * n * w + rows[:, None] * w + columns[None, :], (rows[:, None] < n) & some, 0.0)
            right = tl.load(B + part * m * w + k[:, None] * w + columns[None, :], (k[:, None] < m) & some, 0.0)
            weight = tl.load(W + (part * (T + 1) + t) * w + columns, columns < w, 0.0) / size
            scaled = (left.to(tl.float32) * weight[None, :]).to(left.dtype)
            q = tl.dot(scaled, tl.trans(right), q)
    q = q * (tl.load(alpha + net * T + t) * size)
    at = ((net * T + t) * n + rows[:, None]) * m + k[None, :]
    tl.store(Q + at, q.to(Q.dtype.element_ty), (rows[:, None] < n) & (k[None, :] < m))


@triton.jit
def _columns(
    G, P, B, W, alpha, dB, differences, parts,
    n: tl.constexpr, c: tl.constexpr, T: tl.constexpr, m: tl.constexpr, w: tl.constexpr,
    DEPTH: tl.constexpr, SIDE: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """dB ← Σ_t α_t (p_tᵀG)∘w_t, and for every t what these rows of B and of G give to Σ (G∘(p_t B))."""
    part, tile = tl.program_id(2).to(tl.int64), tl.program_id(1)
    net = part // c
    columns = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    k = tile * SIDE + tl.arange(0, SIDE)
    some = columns < w
    there = (k[:, None] < m) & some[None, :]
    at = part * m * w + k[:, None] * w + columns[None, :]
    decoder = tl.load(B + at, there, 0.0)
    total = tl.zeros((SIDE, COLUMNS), dtype=tl.float32)
    for i in range((n + DEPTH - 1) // DEPTH):
        rows = i * DEPTH + tl.arange(0, DEPTH)
        batch = tl.load(
            G + part * n * w + rows[:, None] * w + columns[None, :], (rows[:, None] < n) & some[None, :], 0.0
        )
        out = differences + ((i * tl.num_programs(1) + tile) * parts + part) * T * w + columns
        for t in range(T):
            p = tl.load(
                P + ((net * T + t) * n + rows[:, None]) * m + k[None, :], (rows[:, None] < n) & (k[None, :] < m), 0.0
            )
            product = tl.dot(tl.trans(p), batch)
            weight = tl.load(W + (part * (T + 1) + t) * w + columns, some, 0.0)
            total += product * (tl.load(alpha + net * T + t) * weight)[None, :]
            tl.store(out + t * w, tl.sum(decoder * product, 0), some)
    tl.store(dB + at, total, there)


@triton.jit
def _dots(
    G, S, out, n: tl.constexpr, T: tl.constexpr, w: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):  # fmt: skip
    """out[:, t] ← Σ (G∘s_t)."""
    part, t = tl.program_id(2).to(tl.int64), tl.program_id(1)
    columns = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    dots = tl.zeros((COLUMNS,), dtype=tl.float32)
    for start in range(0, n, ROWS):
        rows = start + tl.arange(0, ROWS)
        there = (rows[:, None] < n) & (columns[None, :] < w)
        batch = tl.load(G + part * n * w + rows[:, None] * w + columns[None, :], there, 0.0)
        signs = tl.load(S + ((part * T + t) * n + rows[:, None]) * w + columns[None, :], there, 0.0)
        dots += tl.sum(batch.to(tl.float32) * signs.to(tl.float32), 0)
    tl.store(out + (part * T + t) * w + columns, dots, columns < w)
