"""The ℓ1 solver for a GPU: the batched path of `_path_batch`, retries for degenerate rows, and the polish."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from sparselens._validation import FloatArray
from sparselens.decoders._engine import Candidates
from sparselens.decoders._path_batch import BatchedPath, rank_one_, ratio_positive, ratio_signed
from sparselens.decoders._polish_torch import Polished, Whitening, candidates_from, polish

_ATTEMPTS = ((0.0, 1e-7), (1e-6, 1e-9), (1e-4, 1e-7), (1e-5, 1e-11))  # (perturbation of the costs, last step)


class TorchPathEngine:
    """Solve blocks of rows by the batched path on one device.

    Parameters
    ----------
    A : float64 array of shape (m, d)
    positive : bool
    device : str or torch.device
        Where to work: "cuda", "cuda:1", "cpu".
    compile : bool, optional
        Fuse the passes over n x d and over the inverse Gram matrices with torch.compile; by default on a GPU only.
        Where compilation fails the same operations run one by one.
    max_rows : int, optional
        Rows to solve at once; by default what fits in 70% of the device's free memory (a CPU: about 2 GB).
    """

    def __init__(
        self,
        A: FloatArray,
        *,
        positive: bool,
        device: str | torch.device = "cuda",
        compile: bool | None = None,  # noqa: A002 (torch's own word for it)
        max_rows: int | None = None,
    ) -> None:
        self.positive = positive
        self.device = torch.device(device)
        self.max_rows = max_rows
        self.A = torch.as_tensor(np.array(A, dtype=np.float64), device=self.device)
        self.columns = self.A.t().contiguous()  # (d, m): row j is column a_j
        self.whitening = _whitening(self.A)
        self.path_A = self.A if self.whitening is None else self.whitening.columns.t().contiguous()
        self.gram = self._gram()
        self.timings: list[tuple[int, float, float]] = []  # of each attempt: rows, seconds of path, seconds of polish
        fuse = self.device.type == "cuda" if compile is None else compile
        self.ratio = _fused(ratio_positive if positive else ratio_signed, fuse)
        self.rank_one = _fused(rank_one_, fuse)

    def solve(self, Y: FloatArray) -> Candidates:
        """Candidates for rows of unit norm; what is certified is for the caller to check."""
        rows = torch.as_tensor(np.array(Y, dtype=np.float64), device=self.device)
        n_chunks = math.ceil(len(rows) / self.rows_at_once())
        parts = [self._solve_chunk(part) for part in rows.tensor_split(n_chunks)] if len(rows) else []
        return candidates_from(parts, self.A.shape)

    def rows_at_once(self) -> int:
        """Rows that fit in memory: two (m, m) matrices and a few rows of length d each."""
        if self.max_rows is not None:
            return self.max_rows
        m, d = self.A.shape
        a_row = 8 * (2.3 * (m + 8) ** 2 + 5 * d)
        # fewer than 2³¹ entries in the largest array, so that 32-bit indices serve
        return int(np.clip(0.7 * _free_bytes(self.device, 3e9) / a_row, 1, (2**31 - 1) // max((m + 8) ** 2, d)))

    def _gram(self) -> torch.Tensor | None:
        """AᵀA where it takes a small part of the memory: a join then reads k numbers instead of a k x m matrix."""
        d = self.path_A.shape[1]
        if 8.0 * d * d > 0.25 * _free_bytes(self.device, 6e8):
            return None
        columns = self.path_A.t().contiguous()
        out = columns.new_empty(d, d)
        for lo in range(0, d, 4096):
            torch.mm(columns[lo : lo + 4096], self.path_A, out=out[lo : lo + 4096])
        return out

    def _solve_chunk(self, Y: torch.Tensor) -> Polished:
        best: Polished | None = None
        todo = torch.arange(len(Y), device=self.device)
        for attempt, (perturbation, last) in enumerate(_ATTEMPTS):
            part = Y[todo]
            if self.whitening is not None:
                part = part @ self.whitening.transform.t()
                part = part / part.norm(dim=1, keepdim=True).clamp_min(1e-300)
            A, gram = self.path_A, self.gram
            if perturbation:
                # Costs 1 + ε instead of 1 break the ties of a degenerate row; columns a_j / κ_j with cost 1 are the
                # same as columns a_j with cost κ_j. The polish and its check use the true costs.
                kappa = 1.0 + perturbation * _uniform(A.shape[1], attempt, self.device)
                A, gram = A / kappa, None
            begin = time.perf_counter()
            path = BatchedPath(
                A, part, gram, positive=self.positive, last=last, ratio=self.ratio, rank_one=self.rank_one
            )
            path.run()
            done = time.perf_counter()
            found = polish(
                self.A,
                self.columns,
                Y[todo],
                path.support,
                path.signs,
                path.n_steps,
                positive=self.positive,
                whitening=self.whitening,
            )
            self.timings.append((len(todo), done - begin, time.perf_counter() - done))
            best = found if best is None else best.updated(todo, found)
            todo = torch.nonzero(~best.good)[:, 0]
            if len(todo) == 0:
                break
        assert best is not None
        return best


def _whitening(A: torch.Tensor) -> Whitening | None:
    """Coordinates in which the rows of A are orthonormal, where A is ill-conditioned or of deficient rank.

    The linear program does not change under A → TA, y → Ty, but the path is far shorter where A is ill-conditioned
    (condition 1e5: 94 steps against 9), and rows that depend on others are gone.
    """
    values, vectors = torch.linalg.eigh(A @ A.t())  # ascending
    top = float(values[-1])
    if top <= 0 or float(values[0]) > 1e-2 * top:
        return None
    sigma = values.clamp_min(0.0).sqrt()
    if float(values[0]) <= 1e-12 * top:  # AAᵀ does not show singular values below 1e-8 of the largest
        vectors, sigma, _ = torch.linalg.svd(A, full_matrices=False)
    keep = sigma > 1e-12 * sigma.max() * math.sqrt(len(A))
    basis = vectors[:, keep].contiguous()
    transform = (basis / sigma[keep]).t().contiguous()
    return Whitening(transform, (transform @ A).t().contiguous(), basis)


def _free_bytes(device: torch.device, on_cpu: float) -> float:
    """Memory that a GPU can still give (what torch holds without using it counts as free), a fixed sum on a CPU."""
    if device.type != "cuda":
        return on_cpu
    held = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return float(torch.cuda.mem_get_info(device)[0] + held)


def _uniform(size: int, seed: int, device: torch.device) -> torch.Tensor:
    """The same numbers in (0, 1) on every device."""
    return torch.as_tensor(np.random.default_rng(seed).random(size), device=device)


def _fused(function: Callable[..., Any], enabled: bool) -> Callable[..., Any]:
    """`function` through torch.compile, or as it is where that is not wanted or fails."""
    if not enabled:
        return function
    compiled = torch.compile(function, dynamic=True)
    state = {"works": True}

    def call(*args: torch.Tensor) -> Any:
        if state["works"]:
            try:
                return compiled(*args)
            except Exception:  # a missing compiler or an unsupported device: the same operations one by one
                state["works"] = False
        return function(*args)

    call.works = lambda: state["works"]  # type: ignore[attr-defined]
    return call
