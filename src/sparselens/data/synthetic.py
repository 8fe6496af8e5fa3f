"""The paper's generated data sets, at any size, from a seed.

Every nonzero is uniform in (0, 1]; then rows are scaled to unit ℓ2 norm (unless ``normalize=False``).

* ``toy``: d = 100, 5 nonzeros at random places among the first 20 columns.
* ``synthetic1``: d = 1000, one block of 10 neighbouring columns (of 100 such blocks) is nonzero.
* ``synthetic2``: d = 1000, two distinct blocks of 5 (of 200) are nonzero.
* ``synthetic3``: d = 1000, column i (from 0) is nonzero with probability min(1, 10 c / (i + 1)), independently, where
  c makes the terms 10 c / (i + 1) add up to 10. The cap is applied last and nothing is scaled again, as in the
  authors' experiments: column 0 (1.336 before the cap) is always nonzero, the expected number of nonzeros is 9.66 and
  no row is empty. The paper's table rounds this to 10.
* ``unstructured``: d = 1000, 10 nonzeros at random places.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from sparselens._random import derive_rng
from sparselens._validation import FloatArray, check_choice, check_count, check_positive_float, unit_rows
from sparselens.data._dataset import PARTS, Dataset, Entry, Request, Sizes
from sparselens.sparsity import BlockSparse, Sparse, SparsityModel

PAPER_SIZES: Sizes = (6000, 2000, 2000)
_BLOCK_ENTRIES = 1 << 20  # random numbers that the power law holds at once


def random_subsets(n: int, n_items: int, k: int, rng: np.random.Generator) -> np.ndarray:
    """n uniformly random sets of k distinct numbers below n_items, as an int array (n, k), in ascending order.

    Floyd's method over all rows at once: memory n x k, whatever n_items is.
    """
    chosen = np.empty((n, k), dtype=np.int64)
    for column, largest in enumerate(range(n_items - k, n_items)):
        draw = rng.integers(0, largest + 1, size=n)
        taken = (chosen[:, :column] == draw[:, None]).any(axis=1)
        chosen[:, column] = np.where(taken, largest, draw)
    chosen.sort(axis=1)
    return chosen


def block_sparse_rows(
    n: int, n_features: int, n_blocks: int, block_size: int, rng: np.random.Generator, *, n_columns: int | None = None
) -> sp.csr_array:
    """n rows with `n_blocks` random nonzero blocks of `block_size` columns, among the first `n_columns` columns.

    Examples
    --------
    >>> import numpy as np
    >>> X = block_sparse_rows(3, 12, 1, 4, np.random.default_rng(0))
    >>> np.diff(X.indptr)
    array([4, 4, 4], dtype=int32)
    """
    n_columns = n_features if n_columns is None else n_columns
    if n_columns > n_features or n_columns % block_size or n_blocks * block_size > n_columns:
        raise ValueError(
            f"{n_blocks} blocks of {block_size} do not fit into {n_columns} of {n_features} columns: "
            "the block size must divide the number of columns."
        )
    blocks = random_subsets(n, n_columns // block_size, n_blocks, rng)
    columns = blocks[:, :, None] * block_size + np.arange(block_size)
    k = n_blocks * block_size
    return _csr(_uniform(rng, n * k), columns.ravel(), np.full(n, k), n_features)


def power_law_probabilities(
    n_features: int, mean_nonzeros: float, *, exponent: float = 1.0, bias: float = 1.0
) -> FloatArray:
    """The probability that column i is nonzero: c / (i + bias)^exponent with sum `mean_nonzeros`, then capped at 1.

    Examples
    --------
    >>> p = power_law_probabilities(1000, 10)
    >>> float(p[0]), round(float(p.sum()), 2)
    (1.0, 9.66)
    """
    weights = (np.arange(n_features) + check_positive_float(bias, "bias")) ** -check_positive_float(
        exponent, "exponent"
    )
    return np.minimum(weights / weights.sum() * check_positive_float(mean_nonzeros, "mean_nonzeros"), 1.0)


def power_law_rows(n: int, probabilities: FloatArray, rng: np.random.Generator) -> sp.csr_array:
    """n rows whose column i is nonzero with probability ``probabilities[i]``; rows without nonzeros are drawn again."""
    if not (np.asarray(probabilities) > 0).any():
        raise ValueError("every probability is 0: at least one column must be able to be nonzero.")
    d = len(probabilities)
    at_once = max(1, _BLOCK_ENTRIES // d)
    columns, counts, missing = [], [], n
    while missing:
        mask = rng.random((min(at_once, missing), d)) < probabilities
        mask = mask[mask.any(axis=1)]
        columns.append(np.nonzero(mask)[1])
        counts.append(mask.sum(axis=1))
        missing -= len(mask)
    all_columns = np.concatenate(columns) if columns else np.empty(0, dtype=np.int64)
    all_counts = np.concatenate(counts) if counts else np.empty(0, dtype=np.int64)
    return _csr(_uniform(rng, len(all_columns)), all_columns, all_counts, d)


@dataclass(frozen=True)
class Generator:
    """A generated set: how to draw n rows, and the structure they have."""

    n_features: int
    draw: Callable[[int, np.random.Generator], sp.csr_array]
    sparsity: SparsityModel | None
    description: str


# A plain table: add a generated set by adding a line.
GENERATORS: dict[str, Generator] = {
    "toy": Generator(
        100,
        lambda n, rng: block_sparse_rows(n, 100, 5, 1, rng, n_columns=20),
        Sparse(5),
        "5 nonzeros in the first 20 of 100 columns",
    ),
    "synthetic1": Generator(
        1000,
        lambda n, rng: block_sparse_rows(n, 1000, 1, 10, rng),
        BlockSparse(n_blocks=1, block_size=10),
        "one block of 10 nonzeros",
    ),
    "synthetic2": Generator(
        1000,
        lambda n, rng: block_sparse_rows(n, 1000, 2, 5, rng),
        BlockSparse(n_blocks=2, block_size=5),
        "two blocks of 5 nonzeros",
    ),
    "synthetic3": Generator(
        1000,
        lambda n, rng: power_law_rows(n, power_law_probabilities(1000, 10), rng),
        None,
        "power law: column i is nonzero with probability about 1.34 / (i + 1)",
    ),
    "unstructured": Generator(
        1000,
        lambda n, rng: block_sparse_rows(n, 1000, 10, 1, rng),
        Sparse(10),
        "10 nonzeros anywhere",
    ),
}


def sample(
    name: str, n: int, *, random_state: Any = 0, part: str | int = "sample", normalize: bool = True
) -> sp.csr_array:
    """Draw any number of fresh rows of a generated set.

    Parameters
    ----------
    name : str
        A generated set: toy, synthetic1, synthetic2, synthetic3 or unstructured.
    n : int
        The number of rows.
    random_state : int, RandomState or None
    part : str or int
        Rows of different parts are independent: ``sample(name, 128, part=step)`` is an endless stream of batches,
        and the parts "train", "valid" and "test" are those of `load_dataset`.
    normalize : bool
        Scale rows to unit ℓ2 norm.

    Returns
    -------
    csr_array of shape (n, d), float64

    Examples
    --------
    >>> sample("synthetic1", 4).shape
    (4, 1000)
    """
    generator = GENERATORS[check_choice(name, "name", tuple(GENERATORS))]
    n = check_count(n, "n", minimum=0)
    rows = generator.draw(n, derive_rng(random_state, dataset=name, role=part))
    return unit_rows(rows) if normalize else rows


def load_generated(request: Request) -> Dataset:
    """The three parts of a generated set; every part has its own seed, so that its size changes no other part."""
    generator = GENERATORS[request.name]
    sizes = request.sizes or PAPER_SIZES
    train, valid, test = (
        sample(request.name, size, random_state=request.random_state, part=part, normalize=request.normalize)
        for part, size in zip(PARTS, sizes, strict=True)
    )
    return Dataset(
        name=request.name,
        train=train,
        valid=valid,
        test=test,
        sparsity=generator.sparsity,
        provenance=(
            f"Generated by sparselens with random_state={request.random_state!r}: {generator.description}, values "
            f"uniform in (0, 1]. {'Rows scaled to unit ℓ2 norm.' if request.normalize else 'Rows not scaled.'}"
        ),
    )


def _uniform(rng: np.random.Generator, n: int) -> FloatArray:
    """Uniform in (0, 1]: a value of exactly 0 would not be a nonzero."""
    return 1.0 - rng.random(n)


def _csr(data: FloatArray, columns: np.ndarray, counts: np.ndarray, d: int) -> sp.csr_array:
    indptr = np.concatenate(([0], np.cumsum(counts)))
    return sp.csr_array((data, columns.astype(np.int32), indptr.astype(np.int32)), shape=(len(counts), d))


ENTRIES = {
    name: Entry(generator.n_features, PAPER_SIZES, generator.description, load_generated)
    for name, generator in GENERATORS.items()
}
