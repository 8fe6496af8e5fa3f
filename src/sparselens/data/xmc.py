"""Multi-label sets: label vectors, with the feature vectors of the same rows where they are stored."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from sparselens._random import derive_rng
from sparselens.data._dataset import Dataset, Entry, Request, Sizes, make_dataset, random_split, sixty_twenty_twenty
from sparselens.data._locate import DataFile
from sparselens.data.npz import read_npz
from sparselens.data.sparse_text import read_xmc
from sparselens.recovery import CorruptFileError

_REPOSITORY = "the Extreme Classification Repository (http://manikvarma.org/downloads/XC/XMLRepository.html)"
_MLDR = "the mldr.datasets collection (https://github.com/fcharte/mldr.datasets), as CSR"


@dataclass(frozen=True)
class OfficialSet:
    """A set with official training and test files: XMC text, or features and labels as .npz."""

    title: str
    train: DataFile
    test: DataFile
    arrays: tuple[DataFile, DataFile, DataFile, DataFile]  # X and Y of training, X and Y of test
    n_features: int
    n_labels: int
    n_train: int
    n_test: int
    note: str

    def present(self, root: Path) -> bool:
        pair = all(file.find(root) is not None for file in (self.train, self.test))
        return pair or all(file.find(root) is not None for file in self.arrays)

    def read(self, request: Request) -> tuple[sp.csr_array, sp.csr_array, int]:
        """Features and labels of all rows, training rows first, and the number of training rows."""
        if self.train.find(request.root) is None and all(f.find(request.root) is not None for f in self.arrays):
            X_train, Y_train, X_test, Y_test = (read_npz(request.locate(file)) for file in self.arrays)
        else:
            X_train, Y_train = _with_labels(request.locate(self.train))
            X_test, Y_test = _with_labels(request.locate(self.test))
        self._check(request, X_train, Y_train, "training", self.n_train)
        self._check(request, X_test, Y_test, "test", self.n_test)
        if X_train.shape[1] != X_test.shape[1] or Y_train.shape[1] != Y_test.shape[1]:
            raise CorruptFileError(
                f"{request.name!r}: training and test files differ in their columns, {X_train.shape[1]} and "
                f"{X_test.shape[1]} features, {Y_train.shape[1]} and {Y_test.shape[1]} labels: "
                "they do not belong together."
            )
        features, labels = (
            sp.vstack(parts, format="csr", dtype=np.float64) for parts in ((X_train, X_test), (Y_train, Y_test))
        )
        return features, labels, X_train.shape[0]

    def _check(self, request: Request, X: sp.csr_array, Y: sp.csr_array, part: str, n: int) -> None:
        if X.shape[0] != Y.shape[0]:
            raise CorruptFileError(
                f"{request.name!r}: {X.shape[0]:,} rows of features but {Y.shape[0]:,} of labels in the {part} files."
            )
        expected = (n, self.n_features, self.n_labels)
        found = (X.shape[0], X.shape[1], Y.shape[1])
        if request.verify and found != expected:
            raise CorruptFileError(
                f"{request.name!r}: the {part} file has {found[0]:,} rows, {found[1]:,} features and {found[2]:,} "
                f"labels but {self.title} has {expected[0]:,}, {expected[1]:,} and {expected[2]:,}. {self.note} "
                "Pass verify=False to read it all the same."
            )

    def load(self, request: Request) -> Dataset:
        features, labels, n_train = self.read(request)
        n = labels.shape[0]
        half = (n - n_train) // 2
        if request.split == "paper":
            rng = derive_rng(request.random_state, dataset=request.name, role="halves")
            rest = n_train + rng.permutation(n - n_train)
            parts = [np.arange(n_train), rest[:half], rest[half:]]
            how = "The official training rows train; the official test rows are halved at random into valid and test"
        else:
            parts = random_split(n, (n_train, half, n - n_train - half), request)
            how = "All rows split at random into parts of the official sizes"
        return make_dataset(
            request,
            labels,
            parts,
            features=features,
            labels=labels,
            provenance=(
                f"{self.title} from {_REPOSITORY}: label vectors, d = {labels.shape[1]:,} counts every label that the "
                f"files declare. {how} (random_state={request.random_state!r})."
            ),
        )


@dataclass(frozen=True)
class StoredSet:
    """A set in one matrix of labels, with or without one of features, and no official split by row."""

    title: str
    labels: DataFile
    features: DataFile | None
    shape: tuple[int, int]
    n_train: int | None  # the size of the official training part, where there is one
    n_kept: int  # rows that are left without the empty ones, where these are dropped

    @property
    def sizes(self) -> Sizes:
        if self.n_train is None:
            return sixty_twenty_twenty(self.n_kept)
        half = (self.shape[0] - self.n_train) // 2
        return (self.n_train, half, self.shape[0] - self.n_train - half)

    def load(self, request: Request) -> Dataset:
        labels = _read(request.locate(self.labels))
        features = None if self.features is None else _read(request.locate(self.features))
        if request.verify and labels.shape != self.shape:
            raise CorruptFileError(
                f"{request.name!r}: the label matrix has the shape {tuple(labels.shape)}, expected {self.shape}."
            )
        if features is not None and features.shape[0] != labels.shape[0]:
            raise CorruptFileError(
                f"{request.name!r}: {features.shape[0]:,} rows of features but {labels.shape[0]:,} of labels."
            )
        if self.n_train is None:
            kept = np.flatnonzero(np.diff(labels.indptr))
            sizes = sixty_twenty_twenty(len(kept))
            how = f"{labels.shape[0] - len(kept):,} rows without labels dropped; the others split 60 / 20 / 20"
        else:
            kept, sizes = np.arange(labels.shape[0]), self.sizes
            how = "Split into the official numbers of training and test rows, the test rows halved into valid and test"
        parts = [kept[part] for part in random_split(len(kept), sizes, request)]
        return make_dataset(
            request,
            labels,
            parts,
            features=features,
            labels=labels,
            provenance=(
                f"{self.title}: label vectors, d = {labels.shape[1]:,}. {how}, at random "
                f"(random_state={request.random_state!r}); the rows are not those of an official split."
            ),
        )

    def entry(self, description: str) -> Entry:
        files = (self.labels,) if self.features is None else (self.labels, self.features)
        return Entry(self.shape[1], self.sizes, description, self.load, files)


def _with_labels(path: Path) -> tuple[sp.csr_array, sp.csr_array]:
    features, labels = read_xmc(path)
    if labels is None:
        raise CorruptFileError(f"{path}, line 1: a header 'rows features labels' was expected, got two numbers.")
    return features, labels


def _read(path: Path) -> sp.csr_array:
    matrix = read_npz(path) if path.suffix == ".npz" else read_xmc(path)[0]
    return sp.csr_array(matrix, dtype=np.float64)


def _official(folder: str, *names: str, title: str, sizes: tuple[int, int, int, int], note: str = "") -> OfficialSet:
    def text(part: str) -> DataFile:
        places = (f"{folder}/{part}.txt", *(name.format(part) for name in names))
        source = f"{_REPOSITORY}, {title}, bag-of-words features"
        return DataFile(places, f"{source} (X.trn.npz, Y.trn.npz, X.tst.npz and Y.tst.npz in {folder}/ do as well)")

    arrays = tuple(DataFile((f"{folder}/{name}.npz",), _REPOSITORY) for name in ("X.trn", "Y.trn", "X.tst", "Y.tst"))
    return OfficialSet(title, text("train"), text("test"), arrays, *sizes, note)  # type: ignore[arg-type]


EURLEX = _official(
    "eurlex-4k",
    "Eurlex/eurlex_{}.txt",
    "xmc/eurlex_{}.txt",
    "eurlex_{}.txt",
    title="EURLex-4K",
    sizes=(5000, 3993, 15539, 3809),
    note="The name is used for two data sets; this is the one with 5,000 features, as in the paper.",
)
WIKI10 = _official(
    "wiki10-31k",
    "Wiki10/wiki10_{}.txt",
    "Wiki10-31K/{}.txt",
    "xmc/wiki10_{}.txt",
    "wiki10_{}.txt",
    title="Wiki10-31K",
    sizes=(101938, 30938, 14146, 6616),
    note="The paper's first table prints d = 30,398, its second 30,938, the number of declared labels.",
)
BIBTEX = StoredSet(
    "Bibtex (Katakis et al. 2008)",
    DataFile(
        ("xmc/bibtex_labels_7395x159.npz",), _MLDR, "7b5e6698f8f2b5de8251d67a8c77acea728b5bce43265e8ebab9fced0139cbe7"
    ),
    DataFile(
        ("xmc/bibtex_feats_7395x1836.npz",), _MLDR, "a4f394bd9cdcd8f34c9e32dc3773b3f49ae954715a5be1abd155022a51281c4b"
    ),
    (7395, 159),
    n_train=4880,
    n_kept=7395,
)
DELICIOUS = StoredSet(
    "Delicious (Tsoumakas et al. 2008)",
    DataFile(
        ("xmc/delicious_labels_16105x983.npz",),
        _MLDR,
        "334d9c6aa18e01ba18f8f56f7affdf6e2c1bf5cc53ec636ce5afa67fe256a47e",
    ),
    DataFile(
        ("xmc/delicious_feats_16105x500.npz",),
        _MLDR,
        "ae7abae31730d533e96c1fbf5e089d80338fe24c0ec0f7917703832c1a0fbe47",
    ),
    (16105, 983),
    n_train=12920,
    n_kept=16105,
)
EURLEX_LABELS = StoredSet(
    "EURLex-4K, the labels of the official training rows alone",
    DataFile(
        ("xmc/eurlex4k_train_labels.txt",),
        "https://github.com/vihari-sunkara/MLAssignment2 (the label matrix of EURLex-4K's training rows)",
        "1de700411557191ae6aa1d84963f0fb2b1730fe0ac54f58af08e93c3ab9284b6",
    ),
    None,
    (15539, 3993),
    n_train=None,
    n_kept=15511,
)
WIKI10_LIKE = StoredSet(
    "A label matrix of 10,000 x 3,400 that is consistent with a subset of Wiki10-31K (its source does not say so)",
    DataFile(
        ("xmc/wiki10_like_labels_10000x3400.txt",),
        "https://github.com/vihari-sunkara/MLAssignment2",
        "0bf20bf9c99d98a10079d2b1eaafdd1d7182a8bee8f8a4e433386df6f9d84fb9",
    ),
    None,
    (10000, 3400),
    n_train=None,
    n_kept=10000,
)
CITEULIKE = StoredSet(
    "CiteULike-a item tags (Wang et al. 2013), a stand-in for the label vectors of Wiki10-31K",
    DataFile(
        ("xmc/citeulike_a_item_tags_16980x46391.npz",),
        "https://github.com/js05212/citeulike-a (the item-tag matrix, as CSR)",
        "9c46b1d9ec47c3b53f6c8b417fc2f08e58c5a6136b7050be758836d857f095fd",
    ),
    None,
    (16980, 46391),
    n_train=None,
    n_kept=13519,
)


def _official_entry(data: OfficialSet, description: str) -> Entry:
    half = data.n_test // 2
    sizes = (data.n_train, half, data.n_test - half)
    return Entry(data.n_labels, sizes, description, data.load, (data.train, data.test), data.present)


ENTRIES = {
    "wiki10-31k": _official_entry(WIKI10, "Wiki10-31K: label vectors and 101,938 features, as in the paper"),
    "eurlex-4k": _official_entry(EURLEX, "EURLex-4K: label vectors and 5,000 features, as in the paper"),
    "bibtex": BIBTEX.entry("Bibtex: label vectors and 1,836 features"),
    "delicious": DELICIOUS.entry("Delicious: label vectors and 500 features"),
    "eurlex-4k-labels": EURLEX_LABELS.entry("EURLex-4K, labels of the training rows only"),
    "wiki10-like-labels": WIKI10_LIKE.entry("label vectors that resemble a subset of Wiki10-31K"),
    "citeulike-a-tags": CITEULIKE.entry("CiteULike-a item tags, a stand-in for Wiki10-31K"),
}
