r"""The exact ℓ1 path for many rows at once, as dense tensor operations: the form for a GPU.

Each row follows the minimiser of ``½‖y − Ax‖² + λ1ᵀx, x ≥ 0`` from λ = max Aᵀy down to 0, where it solves
``min 1ᵀx s.t. Ax = y, x ≥ 0`` (signed: ``‖x‖₁``). On a support S the direction is ``w = (A_SᵀA_S)⁻¹1``: x_S grows by
γw and the correlations ``c = Aᵀ(y − Ax)`` fall by ``γAᵀA_Sw``. The next event is the earlier of a join
``(λ − c_j)/(1 − g_j)`` and a drop ``−x_j/w_j``. All rows make one event a step; no lazy working sets.

What keeps a GPU busy:

* M = (A_SᵀA_S)⁻¹ changes by one rank-one update a step, for joins (+) and drops (−) alike, so all rows share one
  operation. A dropped column leaves a hole in its slot, which a later join fills: nothing is permuted.
* The host waits for the device once in _CHECK steps. Then finished rows are retired (the last live rows move into
  their places; buffers are allocated once and used by their first rows), and rows whose M has drifted are repaired
  by Newton's iteration for an inverse, which is two batched products.
* Columns that may not join (in the support, just dropped, or dependent on it) have correlation −∞, so the ratio
  test needs no mask and is one fused pass over n x d where torch.compile works.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

_PIVOT = 1e-13  # a column whose squared distance from the support's span is below this part of ‖a‖² is dependent
_DENOMINATOR = 1e-11  # 1 − g_j below this: c_j falls as fast as λ, so column j never joins
_DRIFT = 1e-9  # max |A_Sᵀu − 1| above which a row's inverse Gram matrix is repaired
_SHELF = 8  # columns of a row that are kept out of the ratio test: the one just dropped, and dependent ones
_CHECK = 16  # steps between two looks at the device
_COMPILE_ROWS = 64  # below this many rows a fused kernel gains nothing

Ratio = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor]]


class BatchedPath:
    """The path of a block of rows: state in buffers of which the first `n` rows and `width` slots are in use."""

    def __init__(
        self,
        A: torch.Tensor,
        Y: torch.Tensor,
        gram: torch.Tensor | None,
        *,
        positive: bool,
        last: float,
        ratio: Ratio,
        rank_one: Callable[..., Any],
    ) -> None:
        self.A, self.columns, self.gram = A, A.t().contiguous(), gram
        self.norms2 = (self.columns * self.columns).sum(dim=1)
        self.positive, self.last, self.ratio, self.rank_one = positive, last, ratio, rank_one
        m, d = A.shape
        n, device = len(Y), A.device
        self.n, self.m, self.d = n, m, d
        self.max_steps = 30 * m + 200
        self.capacity = 8 * math.ceil((m + 1) / 8)  # one slot always stays empty: writes that mean nothing go there

        def zeros(*shape: int) -> torch.Tensor:
            return torch.zeros(shape, dtype=torch.float64, device=device)

        k = self.capacity
        # one buffer for each piece of state, by name; the first self.n rows belong to live rows
        self.buffers = {
            "C": torch.empty((n, 8 * (d // 8 + 1)), dtype=torch.float64, device=device),  # column d takes idle writes
            "M": zeros(n, k, k),
            "AS": zeros(n, k, m),
            "w": zeros(n, k),
            "x": zeros(n, k),
            "sign": zeros(n, k),
            "idx": torch.full((n, k), -1, dtype=torch.int64, device=device),
            "count": torch.zeros(n, dtype=torch.int64, device=device),
            "shelf": torch.full((n, _SHELF), d, dtype=torch.int64, device=device),
            "shelf_C": zeros(n, _SHELF),
            "Y": Y.clone(),
            "lam": zeros(n),
            "lam0": zeros(n),
            "stalled": torch.zeros(n, dtype=torch.int64, device=device),
            "steps": torch.zeros(n, dtype=torch.int64, device=device),
            "live": torch.zeros(n, dtype=torch.bool, device=device),
            "row": torch.arange(n, device=device),
        }
        self.g_buffer = torch.empty((n, d), dtype=torch.float64, device=device)
        self.support = torch.full((n, k), -1, dtype=torch.int64, device=device)  # results, by original row
        self.signs = zeros(n, k)
        self.n_steps = torch.zeros(n, dtype=torch.int64, device=device)
        C = self.buffers["C"][:, :d]
        torch.mm(Y, A, out=self.g_buffer)
        C.copy_(self.g_buffer)
        lam = C.max(dim=1).values if positive else C.abs().max(dim=1).values
        self.buffers["lam"].copy_(lam)
        self.buffers["lam0"].copy_(lam)
        self.buffers["live"].copy_(lam > 1e-14 * self.norms2.max().sqrt())
        self._narrow(n, min(k, 32))

    def run(self) -> None:
        """Follow every row to λ = 0, a failure, or the cap on steps."""
        taken, most, drift = 0, 0, False
        while self._retire():
            if most + _CHECK + 1 > self.width:
                self._narrow(self.n, min(self.capacity, 32 * math.ceil((most + _CHECK + 1) / 32)))
            if drift:
                self._repair_drifted()
            for _ in range(_CHECK):
                self.step()
            taken += _CHECK
            most, drift = self._look()

    def _narrow(self, n: int, width: int) -> None:
        """Use the first n rows and `width` slots of the buffers."""
        self.n, self.width = n, width
        b = {name: buffer[:n] for name, buffer in self.buffers.items()}
        self.C_all, self.C, self.M, self.AS = b["C"], b["C"][:, : self.d], b["M"][:, :width, :width], b["AS"][:, :width]
        self.w, self.x, self.sign, self.idx = (b[name][:, :width] for name in ("w", "x", "sign", "idx"))
        self.count, self.shelf, self.shelf_C, self.Y = b["count"], b["shelf"], b["shelf_C"], b["Y"]
        self.lam, self.lam0, self.live, self.row = b["lam"], b["lam0"], b["live"], b["row"]
        self.stalled, self.steps = b["stalled"], b["steps"]
        self.g = self.g_buffer[:n]
        self.every = torch.arange(n, device=self.A.device)
        self.slots = torch.arange(width, device=self.A.device)

    def step(self) -> None:
        """One event for every live row; rows that have ended stay as they are."""
        U = torch.bmm(self.w[:, None, :], self.AS)[:, 0]
        torch.mm(U, self.A, out=self.g)
        to_join, j = self.ratio(self.C, self.g, self.lam) if self.n >= _COMPILE_ROWS else self._ratio_eager()
        to_join = torch.where(self.count >= self.m, math.inf, to_join)
        falling = self.w < -1e-14 * self.w.abs().amax(dim=1, keepdim=True)
        to_drop, p = torch.where(falling, (-self.x / self.w).clamp_min(0.0), math.inf).min(dim=1)
        step = torch.minimum(to_join, to_drop)
        last = step >= self.lam * (1.0 - self.last)
        step = torch.where(self.live, torch.where(last, self.lam, step), 0.0)
        sign_j = self._join_sign(j)

        self.x.addcmul_(step[:, None], self.w)
        self.C.addcmul_(step[:, None], self.g, value=-1.0)
        self.shelf_C.addcmul_(step[:, None], self.g.gather(1, self.shelf.clamp(max=self.d - 1)), value=-1.0)
        self.lam -= step
        self.steps += self.live
        self.stalled.copy_(torch.where(step <= 1e-15 * self.lam0, self.stalled + 1, 0))
        ended = last | (self.lam <= 1e-13 * self.lam0)
        self.live &= ~ended & (self.stalled <= 4 * self.m + 50) & (self.steps < self.max_steps)

        drop = self.live & (to_drop <= to_join)
        join = self.live & ~drop
        self._change_support(j, sign_j, join, p, drop)

    def _change_support(
        self, j: torch.Tensor, sign_j: torch.Tensor, join: torch.Tensor, p: torch.Tensor, drop: torch.Tensor
    ) -> None:
        """Add column j where `join`, remove the column in slot p where `drop`: one rank-one update of M for both."""
        every, nowhere, dummy = self.every, self.d, self.width - 1
        a_j = self.columns[j] * sign_j[:, None]
        unit_p = (self.slots == p[:, None]).to(torch.float64)
        right = torch.where(drop[:, None], unit_p, self._products(j, sign_j, a_j)) * (join | drop)[:, None]
        v = torch.bmm(self.M, right[:, :, None])[:, :, 0]
        distance2 = self.norms2[j] - (right * v).sum(dim=1)
        reject = join & ~(distance2 > _PIVOT * self.norms2[j])
        join = join & ~reject
        pivot = v.gather(1, p[:, None])[:, 0]
        broken = drop & ~(pivot > 0)
        drop = drop & ~broken
        self.live &= ~broken

        free = torch.where(self.idx < 0, self.slots, self.width).min(dim=1).values
        dropped = torch.where(drop, p, dummy)
        slot = torch.where(join, free, dropped)[:, None]
        v = torch.where((join | drop)[:, None], v, 0.0)
        v.scatter_(1, slot, torch.where(join[:, None], -1.0, v.gather(1, slot)))
        scale = torch.where(join, 1.0 / distance2, torch.where(drop, -1.0 / pivot, 0.0))
        self.w.addcmul_((scale * v.sum(dim=1))[:, None], v)
        if self.n >= _COMPILE_ROWS:
            self.rank_one(self.M, scale, v)
        else:
            rank_one_(self.M, scale, v)
        self.M[every, dropped] = 0.0
        self.M[every, :, dropped] = 0.0
        self.w.scatter_(1, dropped[:, None], 0.0)

        lost = self.idx.gather(1, dropped[:, None])[:, 0]
        lost_C = self.lam * self.sign.gather(1, dropped[:, None])[:, 0]
        self._shelve(j, reject, lost, lost_C, drop)
        self.C_all.scatter_(1, torch.where(join | reject, j, nowhere)[:, None], -math.inf)
        self.x.scatter_(1, slot, 0.0)
        self.idx.scatter_(1, slot, torch.where(join, j, -1)[:, None])
        self.sign.scatter_(1, slot, torch.where(join, sign_j, 0.0)[:, None])
        self.AS[every, slot[:, 0]] = torch.where(join[:, None], a_j, 0.0)
        self.count += join.to(torch.int64) - drop.to(torch.int64)

    def _products(self, j: torch.Tensor, sign_j: torch.Tensor, a_j: torch.Tensor) -> torch.Tensor:
        """A_Sᵀa_j with both signs, zero in empty slots."""
        if self.gram is None:
            return torch.bmm(self.AS, a_j[:, :, None])[:, :, 0]
        return self.gram[self.idx.clamp_min(0), j[:, None]] * self.sign * sign_j[:, None]

    def _shelve(
        self, j: torch.Tensor, reject: torch.Tensor, lost: torch.Tensor, lost_C: torch.Tensor, drop: torch.Tensor
    ) -> None:
        """Keep the column just dropped out for one step, and a dependent one until its row's next drop."""
        release = drop[:, None] | (torch.arange(_SHELF, device=self.A.device) == 0)
        self.C_all.scatter_(1, torch.where(release, self.shelf, self.d), self.shelf_C)
        self.shelf.copy_(torch.where(release, self.d, self.shelf))
        self.shelf[:, 0] = torch.where(drop, lost, self.d)
        self.shelf_C[:, 0] = torch.where(drop, lost_C, 0.0)
        place = (1 + self.steps % (_SHELF - 1))[:, None]
        C_j = self.C.gather(1, j[:, None])
        self.shelf.scatter_(1, place, torch.where(reject[:, None], j[:, None], self.shelf.gather(1, place)))
        self.shelf_C.scatter_(1, place, torch.where(reject[:, None], C_j, self.shelf_C.gather(1, place)))

    def _ratio_eager(self) -> tuple[torch.Tensor, torch.Tensor]:
        return (ratio_positive if self.positive else ratio_signed)(self.C, self.g, self.lam)

    def _join_sign(self, j: torch.Tensor) -> torch.Tensor:
        """The sign with which column j joins: that of the side whose correlation reaches λ first."""
        if self.positive:
            return torch.ones_like(self.lam)
        C, g = self.C.gather(1, j[:, None]), self.g.gather(1, j[:, None])
        up, down = ratio_one_side(C, g, self.lam), ratio_one_side(-C, -g, self.lam)
        return (1.0 - 2.0 * (up > down).to(torch.float64))[:, 0]

    def _look(self) -> tuple[int, bool]:
        """One wait for the device: the longest support, and whether an inverse has drifted."""
        self.drifted = (self._drift() > _DRIFT) & self.live
        most, drift = torch.stack([self.count.max(), self.drifted.any().to(torch.int64)]).tolist()
        return int(most), bool(drift)

    def _drift(self) -> torch.Tensor:
        """max |A_Sᵀu − 1| of each row, which an exact inverse would make zero."""
        U = torch.bmm(self.w[:, None, :], self.AS)
        return ((torch.bmm(self.AS, U.transpose(1, 2))[:, :, 0] - 1.0) * (self.idx >= 0)).abs().amax(dim=1)

    def _retire(self) -> int:
        """Store the rows that have ended; when they are many, close the gaps. Returns the number of live rows."""
        ended = torch.nonzero(~self.live)[:, 0]
        n_live = self.n - len(ended)
        if n_live > 0 and len(ended) < max(1, self.n // 8):
            return n_live
        where = self.row[ended]
        self.support[where, : self.width] = self.idx[ended]
        self.signs[where, : self.width] = self.sign[ended]
        self.n_steps[where] = self.steps[ended]
        holes = ended[ended < n_live]
        movers = n_live + torch.nonzero(self.live[n_live:])[:, 0]
        for lo in range(0, len(holes), 256):  # in pieces: a moved row is copied once more in between
            to, source = holes[lo : lo + 256], movers[lo : lo + 256]
            for name, buffer in self.buffers.items():
                if name == "M":
                    buffer[to, : self.width, : self.width] = buffer[source, : self.width, : self.width]
                elif name == "AS":
                    buffer[to, : self.width] = buffer[source, : self.width]
                else:
                    buffer[to] = buffer[source]
        self._narrow(n_live, self.width)
        return n_live

    def _repair_drifted(self) -> None:
        """Recompute M, w, x and c of the rows whose inverse has drifted, from their columns."""
        drifted = self.drifted[: self.n] if len(self.drifted) == self.n else (self._drift() > _DRIFT) & self.live
        for rows in torch.nonzero(drifted)[:, 0].split(512):
            B, used = self.AS[rows], (self.idx[rows] >= 0).to(torch.float64)
            G = torch.bmm(B, B.transpose(1, 2)) + torch.diag_embed(1.0 - used)
            M, good = _inverse(G, self.M[rows] + torch.diag_embed(1.0 - used))
            M = M * used[:, :, None] * used[:, None, :]
            target = torch.bmm(B, self.Y[rows][:, :, None])[:, :, 0] - self.lam[rows][:, None] * used
            w, x = _refined(M, G, used), _refined(M, G, target)
            self.M[rows], self.w[rows], self.x[rows] = M, w, x.clamp_min(0.0)
            residual = self.Y[rows] - torch.bmm(x[:, None, :], B)[:, 0]
            C = torch.full((len(rows), self.C_all.shape[1]), -math.inf, dtype=torch.float64, device=self.A.device)
            C[:, : self.d] = residual @ self.A
            C.scatter_(1, torch.where(used > 0, self.idx[rows], self.d), -math.inf)
            self.shelf[rows, 1:] = self.d
            C.scatter_(1, self.shelf[rows, :1], -math.inf)
            self.C_all[rows] = C
            self.live[rows] &= good


def ratio_one_side(C: torch.Tensor, g: torch.Tensor, lam: torch.Tensor) -> torch.Tensor:
    """(λ − c)/(1 − g): the step after which a correlation reaches λ; ∞ where it never does or may not join."""
    den = 1.0 - g
    return torch.where((den > _DENOMINATOR) & (C.abs() < math.inf), (lam[:, None] - C).clamp_min(0.0) / den, math.inf)


def ratio_positive(C: torch.Tensor, g: torch.Tensor, lam: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The first join of each row: (step, column)."""
    values, columns = ratio_one_side(C, g, lam).min(dim=1)
    return values, columns


def ratio_signed(C: torch.Tensor, g: torch.Tensor, lam: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The first join of each row at either sign: (step, column)."""
    both = torch.minimum(ratio_one_side(C, g, lam), ratio_one_side(-C, -g, lam))
    values, columns = both.min(dim=1)
    return values, columns


def rank_one_(M: torch.Tensor, scale: torch.Tensor, v: torch.Tensor) -> None:
    """M += scale v vᵀ for every row, in place."""
    M.addcmul_((scale[:, None] * v)[:, :, None], v[:, None, :])


def _inverse(G: torch.Tensor, M: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """G⁻¹ from an approximation M by Newton's iteration M(2I − GM), or afresh where M is too far; (G⁻¹, success)."""
    eye = torch.eye(G.shape[1], dtype=G.dtype, device=G.device)
    for _ in range(3):
        E = eye - torch.bmm(G, M)
        error = E.flatten(1).norm(dim=1)
        near = (error < 0.5)[:, None, None]
        M = torch.where(near, M + torch.bmm(M, E), M)
    M = 0.5 * (M + M.transpose(1, 2))
    good = error < 1e-4
    for i in torch.nonzero(~good)[:, 0].tolist():
        L, info = torch.linalg.cholesky_ex(G[i])
        if int(info) == 0:
            M[i] = torch.cholesky_inverse(L)
            good[i] = True
    return M, good


def _refined(M: torch.Tensor, G: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """G⁻¹b with two steps of refinement."""
    x = torch.bmm(M, b[:, :, None])
    for _ in range(2):
        x = x + torch.bmm(M, b[:, :, None] - torch.bmm(G, x))
    return x[:, :, 0]
