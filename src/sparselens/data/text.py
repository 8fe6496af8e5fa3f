"""RCV1: news stories as TF-IDF vectors."""

from __future__ import annotations

import os
import socket
import warnings
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from sparselens.data._dataset import Dataset, Entry, Request, Sizes, make_dataset, random_split
from sparselens.data._locate import ENVIRONMENT_VARIABLE, DataFile
from sparselens.data.npz import read_arrays, read_npz
from sparselens.data.sparse_text import read_svmlight
from sparselens.recovery import CorruptFileError, DataNotFoundError

RCV1_SIZES: Sizes = (13889, 4630, 4630)  # the paper's parts of the 23,149 training stories
_N_STORIES, _N_TERMS = 23149, 47236
_PATIENCE = 30.0  # seconds without an answer after which a download is given up

RCV1_FILE = DataFile(
    names=("rcv1/lyrl2004_vectors_train.dat", "lyrl2004_vectors_train.dat"),
    source="https://ndownloader.figshare.com/files/5976057 (lyrl2004_vectors_train.dat.gz of RCV1-v2)",
    sha256_stored={".gz": "5468f656d0ba7a83afc7ad44841cf9a53048a5c083eedc005dcdb5cc768924ae"},
)
_MULAN = "the RCV1-v2 subsets 1-5 of Mulan (https://mulan.sourceforge.net/datasets-mlc.html), stacked as CSR"
MULAN_FEATURES = DataFile(
    ("rcv1_mulan/X_30000x47236.npz",), _MULAN, "a00b40bc8b83f07c18daf5d9f42f49e76e22f9c16c9ceeee4cd6fee272041ebf"
)
MULAN_LABELS = DataFile(
    ("rcv1_mulan/Y_30000x101.npz",), _MULAN, "c56047ab2277da17319549ad82f7934df5a3ee83edfe46a9e2dd4f6b8919d1dc"
)
MULAN_META = DataFile(
    ("rcv1_mulan/meta.npz",),
    f"{_MULAN}; a boolean array first_occurrence marks the rows to keep",
    "77b0d434c57ccc120645868cd3a952ed228a3de4afc2d8a195288f6ed91e4310",
)


def load_rcv1(request: Request) -> Dataset:
    """The training stories of RCV1-v2, as scikit-learn gives them, split at random into parts of the paper's sizes."""
    if RCV1_FILE.find(request.root) is not None:
        path = request.locate(RCV1_FILE)
        rows, _ = read_svmlight(path, n_features=_N_TERMS, zero_based=False)
        source = f"read from {path.name}"
    else:
        rows = sp.csr_array(_fetch(request))
        source = "fetched by scikit-learn"
    if request.verify and rows.shape != (_N_STORIES, _N_TERMS):
        raise CorruptFileError(
            f"RCV1's training stories have the shape {(_N_STORIES, _N_TERMS)}, got {tuple(rows.shape)} ({source}): "
            "get them again, or pass verify=False."
        )
    return make_dataset(
        request,
        rows,
        random_split(rows.shape[0], RCV1_SIZES, request),
        provenance=(
            f"RCV1-v2 (Lewis et al. 2004), the training stories, TF-IDF, {source}. Split at random "
            f"(random_state={request.random_state!r}) into parts of the paper's sizes; its own draw is not published."
        ),
    )


def load_rcv1_mulan(request: Request) -> Dataset:
    """RCV1 (Mulan subsets): the paper's feature space, other stories; duplicates are removed before the split."""
    rows = read_npz(request.locate(MULAN_FEATURES))
    kept = _distinct_rows(request, rows.shape[0])
    return make_dataset(
        request, rows, _mulan_split(request, kept), provenance=_mulan_provenance(request, kept, "TF-IDF vectors")
    )


def load_rcv1_topics(request: Request) -> Dataset:
    """RCV1 (Mulan subsets) as a multi-label set: topics as labels, TF-IDF vectors as features."""
    features = read_npz(request.locate(MULAN_FEATURES))
    labels = read_npz(request.locate(MULAN_LABELS))
    if labels.shape[0] != features.shape[0]:
        raise CorruptFileError(
            f"'rcv1-topics': there are {features.shape[0]:,} rows of features but {labels.shape[0]:,} of labels."
        )
    kept = _distinct_rows(request, features.shape[0])
    return make_dataset(
        request,
        labels,
        _mulan_split(request, kept),
        features=features,
        labels=labels,
        provenance=_mulan_provenance(request, kept, "topics (labels) and TF-IDF vectors (features)"),
    )


def _distinct_rows(request: Request, n: int) -> np.ndarray:
    """The rows that repeat no earlier one: with the others, training and test rows would overlap."""
    path = request.locate(MULAN_META)
    first = read_arrays(path).get("first_occurrence")
    if first is None or first.shape != (n,) or first.dtype != bool:
        raise CorruptFileError(f"{path} must hold a boolean array first_occurrence with {n:,} entries.")
    return np.flatnonzero(first)


def _mulan_split(request: Request, kept: np.ndarray) -> list[np.ndarray]:
    # Both sets draw under one name, so that a part holds the same stories in both.
    same = Request(**{**request.__dict__, "name": "rcv1-mulan"})
    return [kept[part] for part in random_split(len(kept), RCV1_SIZES, same)]


def _mulan_provenance(request: Request, kept: np.ndarray, what: str) -> str:
    return (
        f"RCV1 (Mulan subsets 1-5): {what}; the paper's feature space, not its stories. {len(kept):,} distinct rows, "
        f"of which {sum(RCV1_SIZES):,} are drawn (random_state={request.random_state!r}) into the paper's sizes."
    )


def _fetch(request: Request) -> sp.csr_array:
    from sklearn.datasets import fetch_rcv1  # takes a second to import: only where it is needed

    home = _scikit_learn_home(request.root)
    patience = socket.getdefaulttimeout()
    try:
        # scikit-learn sets no time limit of its own, and a dead network must not hang the caller.
        socket.setdefaulttimeout(_PATIENCE)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # its notes about tries; the last failure becomes an error below
            return fetch_rcv1(subset="train", data_home=str(home), n_retries=1, delay=0.1).data
    except (OSError, EOFError) as error:
        raise DataNotFoundError(
            f"'rcv1' is not under {request.root} and scikit-learn could not fetch it "
            f"({type(error).__name__}: {error}). "
            f"Get {RCV1_FILE.source}, put it there as {RCV1_FILE.names[0]}.gz, or point the environment variable "
            f"{ENVIRONMENT_VARIABLE} to the folder that holds it. 'rcv1-mulan' has the same columns."
        ) from error
    finally:
        socket.setdefaulttimeout(patience)


def _scikit_learn_home(root: Path) -> Path:
    """scikit-learn's cache where the user already has RCV1 in it, else one below the data root."""
    usual = Path(os.environ.get("SCIKIT_LEARN_DATA", "~/scikit_learn_data")).expanduser()
    return usual if _cached(usual) else root / "scikit_learn"


def _cached(home: Path) -> bool:
    return any((home / "RCV1").glob("samples*.pkl"))


def _rcv1_present(root: Path) -> bool:
    return RCV1_FILE.find(root) is not None or _cached(_scikit_learn_home(root))


ENTRIES = {
    "rcv1": Entry(
        _N_TERMS, RCV1_SIZES, "RCV1-v2 TF-IDF vectors, as in the paper", load_rcv1, (RCV1_FILE,), _rcv1_present
    ),
    "rcv1-mulan": Entry(
        _N_TERMS,
        RCV1_SIZES,
        "RCV1 (Mulan subsets): TF-IDF vectors, duplicates removed",
        load_rcv1_mulan,
        (MULAN_FEATURES, MULAN_META),
    ),
    "rcv1-topics": Entry(
        101,
        RCV1_SIZES,
        "RCV1 (Mulan subsets) as a multi-label set: 101 topics",
        load_rcv1_topics,
        (MULAN_FEATURES, MULAN_LABELS, MULAN_META),
    ),
}
