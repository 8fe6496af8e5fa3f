"""Data sets by name."""

from __future__ import annotations

import difflib
import os
from typing import Any

from sparselens._validation import check_choice, check_count
from sparselens.data import amazon, synthetic, text, xmc
from sparselens.data._dataset import Dataset, DatasetInfo, Entry, Request, Sizes
from sparselens.data._locate import data_root

# A plain table: add a data set by adding an Entry to the module that knows its format.
DATASETS: dict[str, Entry] = synthetic.ENTRIES | amazon.ENTRIES | text.ENTRIES | xmc.ENTRIES


def load_dataset(
    name: str,
    *,
    random_state: Any = 0,
    root: str | os.PathLike[str] | None = None,
    normalize: bool = True,
    sizes: Sizes | None = None,
    split: str = "paper",
    verify: bool = True,
) -> Dataset:
    """Load one of the paper's data sets, or another known one, in training, validation and test parts.

    Parameters
    ----------
    name : str
        See `list_datasets`.
    random_state : int, RandomState or None
        Seed of generated sets and of splits that are drawn. A published split does not depend on it.
    root : path or None
        Where the files of real sets lie; by default the environment variable SPARSELENS_DATA, else the user's cache
        folder.
    normalize : bool
        Scale every row to unit ℓ2 norm, as the paper does.
    sizes : (int, int, int) or None
        Other numbers of training, validation and test rows. Generated sets take any; of a real set the first rows of
        each part are kept.
    split : "paper" or "random"
        "paper" is the published split where there is one; "random" draws one of the same sizes with `random_state`.
    verify : bool
        Check files against known checksums and published shapes.

    Returns
    -------
    Dataset

    Examples
    --------
    >>> data = load_dataset("synthetic1", random_state=0)
    >>> data.train.shape, data.sparsity
    ((6000, 1000), BlockSparse(n_blocks=1, block_size=10))
    """
    entry = DATASETS[_known(name)]
    request = Request(
        name=name,
        random_state=random_state,
        root=data_root(root),
        normalize=bool(check_choice(normalize, "normalize", (True, False))),
        sizes=_check_sizes(sizes),
        split=check_choice(split, "split", ("paper", "random")),
        verify=bool(check_choice(verify, "verify", (True, False))),
    )
    return entry.load(request)


def list_datasets(*, root: str | os.PathLike[str] | None = None) -> list[DatasetInfo]:
    """Every known data set: name, number of columns, sizes, what it is, and whether its files are there.

    Examples
    --------
    >>> print(list_datasets()[1])
    synthetic1         d =  1,000    6,000 / 2,000 / 2,000  one block of 10 nonzeros
    """
    folder = data_root(root)
    return [
        DatasetInfo(
            name=name,
            n_features=entry.n_features,
            sizes=entry.sizes,
            description=entry.description,
            available=entry.available(folder),
            files=tuple(file.names[0] for file in entry.files),
        )
        for name, entry in DATASETS.items()
    ]


def _known(name: Any) -> str:
    if not isinstance(name, str):
        raise TypeError(f"name must be text, got {name!r} ({type(name).__name__}): see list_datasets().")
    if name not in DATASETS:
        # Upper case and underscores are the usual slips; they should not hide the nearest name.
        close = difflib.get_close_matches(name.lower().replace("_", "-"), DATASETS, n=3, cutoff=0.5)
        hint = f"did you mean {' or '.join(map(repr, close))}?" if close else f"known are {', '.join(DATASETS)}."
        raise ValueError(f"there is no data set {name!r}: {hint}")
    return name


def _check_sizes(sizes: Any) -> Sizes | None:
    if sizes is None:
        return None
    try:
        train, valid, test = sizes
    except (TypeError, ValueError):
        raise ValueError(f"sizes must be three numbers (train, valid, test), got {sizes!r}.") from None
    return (
        check_count(train, "the number of training rows"),
        check_count(valid, "the number of validation rows", minimum=0),
        check_count(test, "the number of test rows", minimum=0),
    )
