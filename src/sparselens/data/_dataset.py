"""What a data set is, and how rows are put into training, validation and test parts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from sparselens._random import derive_rng
from sparselens._validation import canonical_csr, unit_rows
from sparselens.data._locate import DataFile
from sparselens.sparsity import SparsityModel

PARTS = ("train", "valid", "test")
Sizes = tuple[int, int, int]


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """Sparse rows in three parts, with what is known about them.

    Attributes
    ----------
    name : str
    train, valid, test : csr_array of shape (n, n_features), float64
        Unit ℓ2 rows unless loaded with ``normalize=False``. In a multi-label set these are the label vectors.
    sparsity : model of `sparselens.sparsity` or None
        The structure that is known of every row.
    provenance : str
        The source, the split, and what exactly the rows are.
    features, labels : csr_array or None
        Multi-label sets only: the feature vectors (n, p) and the 0/1 label vectors (n, n_features) of all rows, as in
        the file. ``features_train``, ``labels_test`` and so on pick the rows of a part, in the order of that part.
    rows_train, rows_valid, rows_test : int array or None
        Which rows of the file each part holds; None for generated sets.
    feature_names : str array of shape (n_features,) or None

    Examples
    --------
    >>> from sparselens.data import load_dataset
    >>> load_dataset("toy")
    Dataset 'toy': 6,000 / 2,000 / 2,000 rows (train / valid / test), d = 100, 5.0 nonzeros a row, Sparse(k=5)
    """

    name: str
    train: sp.csr_array
    valid: sp.csr_array
    test: sp.csr_array
    sparsity: SparsityModel | None = None
    provenance: str = ""
    features: sp.csr_array | None = None
    labels: sp.csr_array | None = None
    rows_train: np.ndarray | None = None
    rows_valid: np.ndarray | None = None
    rows_test: np.ndarray | None = None
    feature_names: np.ndarray | None = None

    @property
    def n_features(self) -> int:
        """The number of columns, d."""
        return int(self.train.shape[1])

    @property
    def sizes(self) -> Sizes:
        """The numbers of training, validation and test rows."""
        return (int(self.train.shape[0]), int(self.valid.shape[0]), int(self.test.shape[0]))

    @property
    def features_train(self) -> sp.csr_array:
        """The feature vectors of the training rows (multi-label sets)."""
        return self._pick("features", "train")

    @property
    def features_valid(self) -> sp.csr_array:
        """The feature vectors of the validation rows (multi-label sets)."""
        return self._pick("features", "valid")

    @property
    def features_test(self) -> sp.csr_array:
        """The feature vectors of the test rows (multi-label sets)."""
        return self._pick("features", "test")

    @property
    def labels_train(self) -> sp.csr_array:
        """The 0/1 label vectors of the training rows (multi-label sets)."""
        return self._pick("labels", "train")

    @property
    def labels_valid(self) -> sp.csr_array:
        """The 0/1 label vectors of the validation rows (multi-label sets)."""
        return self._pick("labels", "valid")

    @property
    def labels_test(self) -> sp.csr_array:
        """The 0/1 label vectors of the test rows (multi-label sets)."""
        return self._pick("labels", "test")

    def official_split(self) -> tuple[sp.csr_array, sp.csr_array, sp.csr_array, sp.csr_array]:
        """Return X_train, Y_train, X_test, Y_test as multi-label scores are published on.

        The published test rows are halved into `valid` and `test` here, as the paper does; this puts them together
        again. Score on them only what was not tuned on `valid`.
        """
        return (
            self.features_train,
            self.labels_train,
            sp.vstack([self.features_valid, self.features_test], format="csr"),
            sp.vstack([self.labels_valid, self.labels_test], format="csr"),
        )

    def _pick(self, what: str, part: str) -> sp.csr_array:
        matrix, rows = getattr(self, what), getattr(self, f"rows_{part}")
        if matrix is None or rows is None:
            raise AttributeError(
                f"the data set {self.name!r} has no {what}: only multi-label sets that were stored with them do."
            )
        return matrix[rows]

    def __repr__(self) -> str:
        n = sum(self.sizes)
        nnz = sum(getattr(self, part).nnz for part in PARTS)
        model = repr(self.sparsity) if self.sparsity is not None else "no known structure"
        if len(model) > 60:
            model = f"{type(self.sparsity).__name__}(...)"
        text = (
            f"Dataset {self.name!r}: {' / '.join(f'{size:,}' for size in self.sizes)} rows (train / valid / test), "
            f"d = {self.n_features:,}, {nnz / max(n, 1):.1f} nonzeros a row, {model}"
        )
        return text if self.features is None else text + f", features with {self.features.shape[1]:,} columns"


@dataclass(frozen=True)
class DatasetInfo:
    """One line of `list_datasets`: what a set is and whether it can be loaded here.

    Attributes
    ----------
    name : str
    n_features : int
    sizes : tuple of int
        Training, validation and test rows.
    description : str
    available : bool
        False where a file is missing under the data root.
    files : tuple of str
        The files that it needs under the data root; empty for generated sets.
    """

    name: str
    n_features: int
    sizes: Sizes
    description: str
    available: bool
    files: tuple[str, ...] = ()

    def __str__(self) -> str:
        sizes = " / ".join(f"{size:,}" for size in self.sizes)
        missing = "" if self.available else f" [needs {', '.join(self.files)}]"
        return f"{self.name:<18} d = {self.n_features:>6,}  {sizes:>23}  {self.description}{missing}"


@dataclass(frozen=True)
class Request:
    """How a caller wants a set: the arguments of `load_dataset`, checked."""

    name: str
    random_state: Any
    root: Path
    normalize: bool
    sizes: Sizes | None
    split: str
    verify: bool

    def locate(self, file: DataFile) -> Path:
        """The path of a file of this set."""
        return file.locate(self.root, dataset=self.name, verify=self.verify)


@dataclass(frozen=True)
class Entry:
    """What the catalogue knows of a set before it is loaded."""

    n_features: int
    sizes: Sizes
    description: str
    load: Callable[[Request], Dataset]
    files: tuple[DataFile, ...] = ()
    # Says whether the set can be loaded where that is not just a matter of every file being there.
    present: Callable[[Path], bool] | None = None

    def available(self, root: Path) -> bool:
        """Whether the set can be loaded without getting anything first."""
        if self.present is not None:
            return self.present(root)
        return all(file.find(root) is not None for file in self.files)


def random_split(n: int, sizes: Sizes, request: Request) -> list[np.ndarray]:
    """Disjoint random rows for the three parts, drawn with the request's seed for this set alone."""
    if sum(sizes) > n:
        raise ValueError(f"{request.name!r} has {n:,} rows, too few for parts of {sizes}: ask for fewer.")
    order = derive_rng(request.random_state, dataset=request.name, role="split").permutation(n)
    return np.split(order[: sum(sizes)], np.cumsum(sizes)[:-1])


def sixty_twenty_twenty(n: int) -> Sizes:
    """60 / 20 / 20 per cent of n rows, for sets without a published split."""
    fifth = n // 5
    return (n - 2 * fifth, fifth, fifth)


def make_dataset(
    request: Request,
    rows: sp.csr_array,
    parts: list[np.ndarray],
    *,
    provenance: str,
    sparsity: SparsityModel | None = None,
    features: sp.csr_array | None = None,
    labels: sp.csr_array | None = None,
    feature_names: np.ndarray | None = None,
) -> Dataset:
    """A Dataset of the given rows in the given parts, cut to `request.sizes` and normalised where asked."""
    parts = cut_parts(request, parts)
    rows = canonical_csr(rows)
    if request.normalize:
        rows = unit_rows(rows)
    train, valid, test = (rows[part] for part in parts)
    return Dataset(
        name=request.name,
        train=train,
        valid=valid,
        test=test,
        sparsity=sparsity,
        provenance=provenance + (" Rows scaled to unit ℓ2 norm." if request.normalize else " Rows not scaled."),
        features=features,
        labels=labels,
        rows_train=parts[0],
        rows_valid=parts[1],
        rows_test=parts[2],
        feature_names=feature_names,
    )


def cut_parts(request: Request, parts: list[np.ndarray]) -> list[np.ndarray]:
    """The first rows of each part where the caller asked for smaller parts."""
    if request.sizes is None:
        return parts
    for part, rows, size in zip(PARTS, parts, request.sizes, strict=True):
        if size > len(rows):
            raise ValueError(
                f"sizes asks for {size:,} {part} rows but {request.name!r} has {len(rows):,}: ask for fewer."
            )
    return [rows[:size] for rows, size in zip(parts, request.sizes, strict=True)]
