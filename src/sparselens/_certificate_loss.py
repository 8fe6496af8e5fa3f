r"""How far the minimum-norm dual certificate of a support is from holding, and the gradient of that by A.

x with support S and signs s is the only solution of its ℓ1 problem if and only if A_S has full column rank and some u
has ``A_Sᵀu = s`` and ``a_jᵀu < 1`` for j ∉ S (signed: ``|a_jᵀu| < 1``). The minimum-norm candidate
``u_S = A_S(A_SᵀA_S)⁻¹s`` is a smooth function of A, and the loss is how far it violates the condition:

* "hinge": ``ℓ = Σ_{j∉S} max(0, a_jᵀu_S − (1 − margin))²``;
* "log": ``log(1 + ℓ)``, and "ratio": ``ℓ/(1 + ℓ)``: rows that m measurements cannot serve do not dominate the others;
* "softmax": ``margin · log Σ_{j∉S} exp(a_jᵀu_S / margin)``: the largest violation, smoothed.

None changes when A is scaled or its rows are rotated. The gradient is written out: a Cholesky factor serves both
directions, and where few columns violate the condition only those enter the backward products.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

LOSSES = ("hinge", "log", "ratio", "softmax")
RIDGE = 1e-6  # added to A_SᵀA_S, relative to its mean diagonal: float32 needs it near |S| = m


@dataclass(frozen=True)
class Supports:
    """Supports of similar length, padded: what `certificate_loss` needs of a part of a batch.

    Attributes
    ----------
    columns : int64 tensor of shape (n, k)
        The columns of each support; a shorter one is padded with its own first column.
    signs : tensor of shape (n, k)
        The sign of x there: 1 (signed data: 1 or −1), and 0 in the padding.
    """

    columns: torch.Tensor
    signs: torch.Tensor


@dataclass
class Dual:
    """The minimum-norm dual of each support, with what its gradient needs."""

    B: torch.Tensor  # (n, k, m): the columns a_j of the support, zero in the padding
    factor: torch.Tensor  # (n, k, k): Cholesky factor of BBᵀ
    w: torch.Tensor  # (n, k): (A_SᵀA_S)⁻¹s
    u: torch.Tensor  # (n, m)

    def gradient(self, v: torch.Tensor) -> torch.Tensor:
        """The gradient (n, k, m) by the columns, given the gradient v (n, m) by u."""
        z = torch.cholesky_solve(torch.bmm(self.B, v[:, :, None]), self.factor)
        v = v - torch.bmm(z.transpose(1, 2), self.B)[:, 0]
        return self.w[:, :, None] * v[:, None, :] - z * self.u[:, None, :]


def minimum_norm_dual(columns: torch.Tensor, supports: Supports, *, ridge: float = RIDGE) -> Dual:
    """u_S = A_S(A_SᵀA_S + ρI)⁻¹s of every support, from the columns (d, m) of A.

    Examples
    --------
    >>> A = torch.tensor([[1.0, 0.0, 0.6], [0.0, 1.0, 0.6]])
    >>> dual = minimum_norm_dual(A.t(), Supports(torch.tensor([[0, 1]]), torch.ones(1, 2)), ridge=0.0)
    >>> dual.u
    tensor([[1., 1.]])
    """
    inside = (supports.signs != 0).to(columns.dtype)
    signs = supports.signs.to(columns.dtype)
    B = columns[supports.columns] * inside[:, :, None]
    gram = torch.bmm(B, B.transpose(1, 2))
    diagonal = gram.diagonal(dim1=1, dim2=2)
    scale = diagonal.sum(1, keepdim=True) / inside.sum(1, keepdim=True).clamp_min(1.0)
    scale = torch.where(scale > 0, scale, 1.0)
    diagonal += (1.0 - inside) * scale + ridge * scale
    factor, failed = torch.linalg.cholesky_ex(gram)
    # A support of dependent columns has no dual: u = 0 has no loss and no gradient.
    failed = (failed > 0)[:, None]
    factor = torch.where(failed[:, :, None], torch.eye(gram.shape[1], dtype=gram.dtype, device=gram.device), factor)
    B = torch.where(failed[:, :, None], 0.0, B)
    w = torch.cholesky_solve(torch.where(failed, 0.0, signs)[:, :, None], factor)[:, :, 0]
    return Dual(B, factor, w, torch.bmm(w[:, None, :], B)[:, 0])


def violation(P: torch.Tensor, loss: str, margin: float) -> tuple[torch.Tensor, torch.Tensor]:
    """The loss of each row of products P = UA (n, d), and its gradient by P.

    Columns of the support must hold −∞. P is overwritten.
    """
    if loss == "softmax":
        P /= margin
        total = torch.logsumexp(P, dim=1)
        return margin * total, P.sub_(total[:, None]).exp_()
    P.sub_(1.0 - margin).relu_()
    length = torch.linalg.vector_norm(P, dim=1).square()
    if loss == "hinge":
        return length, P.mul_(2.0)
    if loss == "log":
        return torch.log1p(length), P.mul_((2.0 / (1.0 + length))[:, None])
    return length / (1.0 + length), P.mul_((2.0 / (1.0 + length) ** 2)[:, None])


def loss_and_gradient(
    columns: torch.Tensor,
    batch: Sequence[Supports],
    *,
    margin: float,
    loss: str = "hinge",
    positive: bool = True,
    ridge: float = RIDGE,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The mean loss of the supports of a batch and its gradient (d, m) by the columns of A.

    Parameters
    ----------
    columns : tensor of shape (d, m)
        Aᵀ: row j is column a_j.
    batch : sequence of Supports
        A batch in parts of similar length, so that short supports are not padded to the longest.
    margin : float
        How far below 1 the products off the support are pushed; for "softmax" the temperature.
    loss : "hinge", "log", "ratio" or "softmax"
    positive : bool
        False asks for ``|a_jᵀu| < 1``.
    ridge : float

    Returns
    -------
    (tensor of one entry, tensor of shape (d, m))
    """
    duals = [minimum_norm_dual(columns, part, ridge=ridge) for part in batch]
    U = torch.cat([dual.u for dual in duals])
    P = (columns @ U.t()).t()  # half the time of U @ columns.t() on a CPU
    flip = None
    if not positive:
        flip = P < 0
        P.abs_()
    start = 0
    for part in batch:
        P[start : start + len(part.columns)].scatter_(1, part.columns, -torch.inf)
        start += len(part.columns)
    active = _active(P, loss, margin)
    if active is not None:
        P = P.t().index_select(0, active).t()
        flip = flip.t().index_select(0, active).t() if flip is not None else None
    losses, G = violation(P, loss, margin)
    G /= len(G)
    if flip is not None:
        G = torch.where(flip, -G, G)
    if active is None:
        V = G @ columns
        gradient = G.t() @ U
    else:
        V = G @ columns.index_select(0, active)
        gradient = torch.zeros_like(columns).index_copy_(0, active, G.t() @ U)
    start = 0
    for part, dual in zip(batch, duals, strict=True):
        by_columns = dual.gradient(V[start : start + len(part.columns)])
        gradient.index_add_(0, part.columns.reshape(-1), by_columns.reshape(-1, columns.shape[1]))
        start += len(part.columns)
    return losses.mean(), gradient


def _active(P: torch.Tensor, loss: str, margin: float) -> torch.Tensor | None:
    """The columns that violate the condition in some row where they are few; None for all of them.

    All, too, on a GPU, which would have to wait for the answer, and for "softmax", which every column enters.
    """
    if P.device.type != "cpu" or loss == "softmax":
        return None
    active = torch.nonzero(P.amax(dim=0) > 1.0 - margin)[:, 0]
    return active if 2 * len(active) < P.shape[1] else None


class _CertificateLoss(torch.autograd.Function):
    """`loss_and_gradient` for autograd: the gradient is made with the loss and handed out by backward."""

    @staticmethod
    def forward(ctx: Any, columns: torch.Tensor, batch: Sequence[Supports], options: dict[str, Any]) -> torch.Tensor:
        value, gradient = loss_and_gradient(columns, batch, **options)
        ctx.save_for_backward(gradient)
        return value

    @staticmethod
    def backward(ctx: Any, *grad_outputs: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        return ctx.saved_tensors[0] * grad_outputs[0], None, None


def certificate_loss(
    columns: torch.Tensor,
    batch: Sequence[Supports],
    *,
    margin: float,
    loss: str = "hinge",
    positive: bool = True,
    ridge: float = RIDGE,
) -> torch.Tensor:
    """The mean loss of `loss_and_gradient`, on which ``backward`` can be called.

    Examples
    --------
    >>> columns = torch.eye(4, 3, requires_grad=True)
    >>> loss = certificate_loss(columns, [Supports(torch.tensor([[0, 1]]), torch.ones(1, 2))], margin=0.5, ridge=0.0)
    >>> loss.item()  # column 2 is orthogonal to u and column 3 is zero: both are below 1 − 0.5
    0.0
    """
    options = {"margin": margin, "loss": loss, "positive": positive, "ridge": ridge}
    return _CertificateLoss.apply(columns, batch, options)
