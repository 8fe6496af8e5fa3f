"""Turn supports that a path has found into accurate (x, u) pairs: batched least squares on the original columns."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
import scipy.sparse as sp
import torch

from sparselens._validation import FloatArray
from sparselens.decoders._engine import Candidates

_PRUNE = 1e-6  # entries below this part of the largest are dropped where the others alone explain y
_EXACT = 1e-11  # a residual that counts as zero (‖y‖ = 1)
_OUTSIDE = 1e-9  # a residual above this claims that y is out of reach
_DUAL = 1e-9  # how far max(Aᵀu) may exceed 1
_FARKAS = 1e-10  # how far max(a_jᵀr / ‖a_j‖) may exceed 0 for ‖r‖ = 1
_ROWS_BYTES = 2**31  # memory for the gathered columns of a piece


@dataclass
class Polished:
    """Answers of a block of rows: supports padded by −1, values, duals (or Farkas vectors), and what seems proved."""

    support: torch.Tensor
    values: torch.Tensor
    dual: torch.Tensor
    infeasible: torch.Tensor
    good: torch.Tensor
    n_steps: torch.Tensor

    def updated(self, rows: torch.Tensor, new: Polished) -> Polished:
        """These answers with the given rows replaced where the new ones are good; steps add up."""
        take = new.good
        steps = self.n_steps.clone()
        steps[rows] += new.n_steps
        out = {}
        for field in fields(self):
            value = getattr(self, field.name).clone()
            value[rows[take]] = getattr(new, field.name)[take]
            out[field.name] = value
        return Polished(**{**out, "n_steps": steps})


@dataclass(frozen=True)
class Whitening:
    """T with orthonormal rows of TA, the columns of TA as rows, and an orthonormal basis of A's range as columns."""

    transform: torch.Tensor
    columns: torch.Tensor
    basis: torch.Tensor


def polish(
    A: torch.Tensor,
    columns: torch.Tensor,
    Y: torch.Tensor,
    support: torch.Tensor,
    signs: torch.Tensor,
    n_steps: torch.Tensor,
    *,
    positive: bool,
    whitening: Whitening | None = None,
) -> Polished:
    """Fit x and u on each row's support and judge them.

    Parameters
    ----------
    A, columns : tensors of shape (m, d) and (d, m)
        The matrix and its transpose, both contiguous.
    Y : tensor of shape (n, m), rows of unit norm
    support, signs : tensors of shape (n, k)
        Column numbers (−1: empty) and their signs.
    whitening : Whitening, optional
        The coordinates in which the path ran. The dual vector that it proves its answer with is the shortest one in
        those coordinates, so u starts there and is corrected on the original columns.
    """
    n, m = Y.shape
    order = torch.argsort((support >= 0).sum(dim=1))
    counts = (support >= 0).sum(dim=1)[order].tolist()
    # used slots first, so that a piece of rows with short supports is narrow
    front = torch.argsort((support < 0).to(torch.int8), dim=1, stable=True)
    support, signs = support.gather(1, front), signs.gather(1, front)
    out = Polished(
        support=support,
        values=torch.zeros_like(signs),
        dual=torch.zeros_like(Y),
        infeasible=torch.zeros(n, dtype=torch.bool, device=Y.device),
        good=torch.zeros(n, dtype=torch.bool, device=Y.device),
        n_steps=n_steps,
    )
    norms = columns.norm(dim=1)
    high = n
    while high > 0:
        width = max(1, counts[high - 1])
        low = max(0, high - max(1, _ROWS_BYTES // (8 * width * (m + 3 * width))))
        rows = order[low:high]
        idx, sgn = support[rows, :width], signs[rows, :width]
        x, dual, residual, away = _fit(columns, Y[rows], idx, sgn, whitening)
        price = dual @ A
        if not positive:
            price = price.abs()
        proved = (residual <= _EXACT) & (price.amax(dim=1) <= 1.0 + _DUAL)
        proved &= x.amin(dim=1) >= -1e-12 * x.abs().sum(dim=1)
        barred = (price <= _FARKAS * dual.norm(dim=1)[:, None] * norms).all(dim=1)
        out.values[rows, :width] = x * sgn
        out.dual[rows], out.infeasible[rows] = dual, away & barred
        out.good[rows] = torch.where(away, barred, proved)
        high = low
    return out


def _fit(
    columns: torch.Tensor, Y: torch.Tensor, idx: torch.Tensor, signs: torch.Tensor, whitening: Whitening | None
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """(|x| on the support, u or a Farkas vector, ‖y − A_S x‖, y out of reach?), signs folded into the columns."""
    used = (idx >= 0).to(torch.float64)
    B, scale = _unit_rows(columns, idx, signs)
    target = used / scale
    start, out_of_reach = torch.zeros_like(Y), None
    if whitening is not None:
        start, out_of_reach = _whitened_start(whitening, Y, idx, signs)
    x, u, residual, L, good = _solve(B, Y, used, target, start)
    for i in torch.nonzero(~good)[:, 0].tolist():
        x[i], u[i], residual[i] = _fit_one(B[i], Y[i], used[i], target[i], start[i])
    farkas = residual if out_of_reach is None else out_of_reach
    away = farkas.norm(dim=1) > _OUTSIDE
    if out_of_reach is not None:  # orthogonal to the support on the original columns too
        for _ in range(2):
            tilt = torch.cholesky_solve(torch.bmm(B, farkas[:, :, None]), L) * used[:, :, None]
            farkas = torch.where(good[:, None], farkas - torch.bmm(tilt.transpose(1, 2), B)[:, 0], farkas)
    # the support's last columns may carry rounding only: refit without them, and keep that where it explains y
    kept = used * (x / scale > _PRUNE * (x / scale).amax(dim=1, keepdim=True))
    shorter = torch.nonzero((kept < used).any(dim=1) & ~away)[:, 0]
    if len(shorter):
        keep = kept[shorter]
        x2, _, residual2, _, good2 = _solve(B[shorter] * keep[:, :, None], Y[shorter], keep, keep, start[shorter] * 0.0)
        better = (good2 & (residual2.norm(dim=1) <= _EXACT))[:, None]
        x[shorter] = torch.where(better, x2, x[shorter])
        residual[shorter] = torch.where(better, residual2, residual[shorter])
    return x / scale, torch.where(away[:, None], farkas, u), residual.norm(dim=1), away


def _unit_rows(columns: torch.Tensor, idx: torch.Tensor, signs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The columns of each support as unit rows, and their norms: a fit depends on directions, not on scales."""
    B = columns[idx.clamp_min(0)] * (signs * (idx >= 0))[:, :, None]
    scale = B.norm(dim=2)
    scale = torch.where(scale > 0, scale, 1.0)
    return B / scale[:, :, None], scale


def _whitened_start(
    whitening: Whitening, Y: torch.Tensor, idx: torch.Tensor, signs: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """The dual vectors and the residuals of the whitened problem, both mapped back to the original coordinates."""
    T = whitening.transform
    outside = Y - (Y @ whitening.basis) @ whitening.basis.t()
    white = Y @ T.t()
    length = white.norm(dim=1, keepdim=True)
    white = white / torch.where(length > 0, length, 1.0)
    used = (idx >= 0).to(torch.float64)
    B, scale = _unit_rows(whitening.columns, idx, signs)
    _, u, residual, _, _ = _solve(B, white, used, used / scale, torch.zeros_like(white))
    back = residual @ T
    size = back.norm(dim=1, keepdim=True)
    # the size says whether y is out of reach, the direction proves it
    back = back * (residual.norm(dim=1, keepdim=True) / torch.where(size > 0, size, 1.0))
    return u @ T, torch.where(outside.norm(dim=1, keepdim=True) > _OUTSIDE, outside, back)


def _solve(
    B: torch.Tensor, Y: torch.Tensor, used: torch.Tensor, target: torch.Tensor, start: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Least squares x of y ≈ Bᵀx, the u with Bu = target nearest to `start`; also y − Bᵀx, the factor, success."""
    G = torch.bmm(B, B.transpose(1, 2)) + torch.diag_embed(1.0 - used)
    L, info = torch.linalg.cholesky_ex(G)
    L = torch.where((info == 0)[:, None, None], L, torch.eye(L.shape[1], dtype=L.dtype, device=L.device))
    x, u, residual = torch.zeros_like(used), start, Y
    missing = target - torch.bmm(B, u[:, :, None])[:, :, 0]
    for _ in range(4):
        right = torch.stack([torch.bmm(B, residual[:, :, None])[:, :, 0], missing], dim=2)
        change = torch.cholesky_solve(right, L) * used[:, :, None]
        x = x + change[:, :, 0]
        u = u + torch.bmm(change[:, None, :, 1], B)[:, 0]
        residual = Y - torch.bmm(x[:, None, :], B)[:, 0]
        missing = target - torch.bmm(B, u[:, :, None])[:, :, 0]
    tilt = torch.bmm(B, residual[:, :, None])[:, :, 0]
    size = target.abs().amax(dim=1).clamp_min(1e-300)
    good = (info == 0) & (missing.abs().amax(dim=1) <= 1e-11 * size) & (tilt.abs().amax(dim=1) <= 1e-12)
    return x, u, residual, L, good


def _fit_one(
    B: torch.Tensor, y: torch.Tensor, used: torch.Tensor, target: torch.Tensor, start: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The same for one ill-conditioned support, by singular values on the host."""
    S = torch.nonzero(used)[:, 0].cpu().numpy()
    columns, right, wanted = B.cpu().numpy()[S].T, y.cpu().numpy(), target.cpu().numpy()[S]
    x, u = np.zeros(len(S)), start.cpu().numpy().copy()
    for _ in range(2):
        x += np.linalg.lstsq(columns, right - columns @ x, rcond=None)[0]
        u += np.linalg.lstsq(columns.T, wanted - columns.T @ u, rcond=None)[0]
    padded = np.zeros(len(used))
    padded[S] = x
    return (
        torch.as_tensor(padded, device=B.device),
        torch.as_tensor(u, device=B.device),
        torch.as_tensor(right - columns @ x, device=B.device),
    )


def candidates_from(parts: list[Polished], shape: tuple[int, ...]) -> Candidates:
    """What the front takes: CSR rows and arrays on the host."""
    m, d = shape
    if not parts:
        return Candidates(sp.csr_array((0, d)), np.zeros((0, m)), np.zeros(0, dtype=bool), np.zeros(0, dtype=np.int64))
    blocks = [_csr(part, d) for part in parts]

    def gathered(name: str) -> FloatArray:
        return np.concatenate([getattr(part, name).cpu().numpy() for part in parts])

    return Candidates(
        x=sp.csr_array(sp.vstack(blocks, format="csr")),
        dual=gathered("dual"),
        infeasible=gathered("infeasible"),
        n_steps=gathered("n_steps"),
    )


def _csr(part: Polished, d: int) -> sp.csr_array:
    support, values = part.support.cpu().numpy(), part.values.cpu().numpy()
    mask = (support >= 0) & (values != 0)
    indptr = np.concatenate(([0], np.cumsum(mask.sum(axis=1))))
    out = sp.csr_array((values[mask], support[mask], indptr), shape=(len(support), d))
    out.sort_indices()
    return out
