"""Sparse rows on a device, handed out batch by batch: the data set is never made dense."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

from sparselens import _training_kernels as kernels


class SparseBatch:
    """A few CSR rows in the memory of the CPU; products with them cost as much as they have nonzeros.

    Parameters
    ----------
    indptr, columns, values : arrays
        The rows in CSR form.
    n_features : int
        The number d of columns.
    """

    def __init__(self, indptr: np.ndarray, columns: np.ndarray, values: np.ndarray, n_features: int) -> None:
        self.indptr, self.columns, self.values = indptr, columns, values
        self.n_features = n_features

    def __len__(self) -> int:
        return len(self.indptr) - 1

    def measure(self, A: torch.Tensor) -> torch.Tensor:
        """X Aᵀ, of shape (n, m); its gradient by A is a sparse product too."""
        return _SparseProduct.apply(A, self)

    def outer(self, Q: torch.Tensor) -> torch.Tensor:
        """Qᵀ X, of shape (m, d)."""
        out = np.zeros((self.n_features, Q.shape[1]), dtype=self.values.dtype)
        kernels.sparse_transposed_times(self.indptr, self.columns, self.values, Q.contiguous().numpy(), out)
        return torch.from_numpy(out).t()

    def residual_(self, v: torch.Tensor, final_relu: bool) -> torch.Tensor:
        """Turn v into the gradient of ``‖x̂ − x‖²/2`` by v, x̂ = relu(v) or v, and return Σ ‖x̂ − x‖²."""
        loss = kernels.residual(
            v.numpy(), final_relu, self.values.dtype.type(0), self.indptr, self.columns, self.values
        )
        return torch.tensor(loss, dtype=v.dtype)

    def dense(self) -> torch.Tensor:
        """The rows as a dense tensor (n, d)."""
        X = sp.csr_array((self.values, self.columns, self.indptr), shape=(len(self), self.n_features))
        return torch.from_numpy(X.toarray())


class _SparseProduct(torch.autograd.Function):
    """``X Aᵀ`` as a node of autograd."""

    @staticmethod
    def forward(ctx: Any, A: torch.Tensor, batch: SparseBatch) -> torch.Tensor:
        ctx.batch = batch
        y = np.zeros((len(batch), len(A)), dtype=batch.values.dtype)
        kernels.sparse_times(batch.indptr, batch.columns, batch.values, A.detach().t().contiguous().numpy(), y)
        return torch.from_numpy(y)

    @staticmethod
    def backward(ctx: Any, *upstream: torch.Tensor) -> tuple[torch.Tensor, None]:
        return ctx.batch.outer(upstream[0]), None


class DenseBatch:
    """The same rows as a dense tensor: on a GPU, where a dense product of one batch is cheaper than a gather.

    Its shape does not depend on the number of nonzeros, so that a step can be captured as a CUDA graph.
    """

    def __init__(self, X: torch.Tensor) -> None:
        self.X = X

    def __len__(self) -> int:
        return len(self.X)

    def measure(self, A: torch.Tensor) -> torch.Tensor:
        return self.X @ A.t()

    def outer(self, Q: torch.Tensor) -> torch.Tensor:
        return Q.t() @ self.X

    def residual_(self, v: torch.Tensor, final_relu: bool) -> torch.Tensor:
        if not final_relu:
            v.sub_(self.X)
            return v.square().sum()
        active = v > 0
        v.relu_().sub_(self.X)
        loss = v.square().sum()
        v.mul_(active)
        return loss

    def dense(self) -> torch.Tensor:
        return self.X


Batch = SparseBatch | DenseBatch


class SparseRows:
    """CSR rows that live on one device and come as batches in any order.

    Parameters
    ----------
    X : csr_array of shape (n, d)
    device : torch device
        On the CPU batches are sparse; elsewhere each batch, and nothing larger, is made dense.

    Examples
    --------
    >>> rows = SparseRows(sp.csr_array([[1.0, 0.0], [0.0, 2.0], [3.0, 0.0]]))
    >>> [batch.dense().tolist() for batch in rows.batches(torch.tensor([2, 0, 1]), [0, 2, 3])]
    [[[3.0, 0.0], [1.0, 0.0]], [[0.0, 2.0]]]
    """

    def __init__(self, X: Any, *, device: Any = "cpu", dtype: torch.dtype = torch.float32) -> None:
        self.n_rows, self.n_features = X.shape
        self.device = torch.device(device)
        self._indptr = torch.as_tensor(X.indptr.astype(np.int64), device=self.device)
        self._columns = torch.as_tensor(X.indices.astype(np.int64), device=self.device)
        self._values = torch.as_tensor(X.data, dtype=dtype, device=self.device)

    def largest(self) -> float:
        """The largest magnitude of an entry."""
        return float(self._values.abs().max()) if len(self._values) else 0.0

    def batches(
        self,
        order: torch.Tensor,
        bounds: Sequence[int],
        zeros: Callable[[int], torch.Tensor] | None = None,
    ) -> Iterator[Batch]:
        """The rows ``order[bounds[i]:bounds[i + 1]]`` for each i; dense ones in the zeros (n, d) that are given."""
        # One gather for the whole epoch: the batches are then slices of it, and the GPU is asked to wait once.
        order = order.to(self.device)
        counts = torch.diff(self._indptr)[order]
        ends = torch.zeros(len(order) + 1, dtype=torch.int64, device=self.device)
        torch.cumsum(counts, 0, out=ends[1:])
        total = int(ends[-1])
        shift = torch.repeat_interleave(self._indptr[order] - ends[:-1], counts, output_size=total)
        take = torch.arange(total, device=self.device) + shift
        columns, values = self._columns[take], self._values[take]
        if self.device.type == "cpu":
            indptr, columns, values = ends.numpy(), columns.numpy(), values.numpy()
            for a, b in pairwise(bounds):
                part = slice(indptr[a], indptr[b])
                yield SparseBatch(indptr[a : b + 1] - indptr[a], columns[part], values[part], self.n_features)
            return
        rows = torch.repeat_interleave(torch.arange(len(order), device=self.device), counts, output_size=total)
        cuts = ends[torch.as_tensor(bounds, device=self.device)].tolist()
        for (a, b), (start, end) in zip(pairwise(bounds), pairwise(cuts), strict=True):
            X = values.new_zeros(b - a, self.n_features) if zeros is None else zeros(b - a)
            X[rows[start:end] - a, columns[start:end]] = values[start:end]
            yield DenseBatch(X)

    def in_order(self, batch_size: int) -> Iterator[Batch]:
        """All rows in their own order, for validation; the last batch may be smaller."""
        yield from self.batches(torch.arange(self.n_rows), cuts(self.n_rows, batch_size))


def cuts(n: int, size: int) -> list[int]:
    """Where to cut n rows into batches; the last partial batch is kept.

    Examples
    --------
    >>> cuts(7, 3)
    [0, 3, 6, 7]
    """
    return [*range(0, n, size), n]
