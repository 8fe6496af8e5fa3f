"""The Amazon data set: a CSV file of categories, in the paper's parts."""

from __future__ import annotations

import numpy as np

from sparselens.data._dataset import Dataset, Entry, Request, make_dataset, random_split
from sparselens.data._locate import DataFile
from sparselens.data.onehot import read_onehot_csv
from sparselens.sparsity import OneHot

AMAZON_SIZES = (19661, 6554, 6554)
_AMAZON_SEED = 43  # the authors' seed; with it the parts are the paper's, row by row


def load_amazon(request: Request) -> Dataset:
    """Kaggle's Amazon Employee Access Challenge: nine categories a row, one-hot encoded, in the paper's parts."""
    path = request.locate(AMAZON_FILE)
    table = read_onehot_csv(path, columns=range(1, 10))
    n = table.matrix.shape[0]
    if request.split == "paper":
        parts = _paper_split(n)
        how = f"Split as in the paper (seed {_AMAZON_SEED}; random_state does not change it)"
    else:
        parts = random_split(n, AMAZON_SIZES, request)
        how = f"Split at random (random_state={request.random_state!r}) into parts of the paper's sizes"
    return make_dataset(
        request,
        table.matrix,
        parts,
        sparsity=OneHot(table.groups),
        feature_names=table.names,
        provenance=(
            "Amazon Employee Access Challenge (Kaggle), train.csv: columns 1 to 9 one-hot encoded over the whole file, "
            f"d = {table.matrix.shape[1]:,}, {len(table.groups)} ones a row. {how}; "
            "some categories occur in no training row."
        ),
    )


def _paper_split(n: int) -> list[np.ndarray]:
    from sklearn.model_selection import train_test_split  # takes a second to import: only where it is needed

    train, rest = train_test_split(np.arange(n), test_size=0.4, random_state=_AMAZON_SEED)
    test, valid = train_test_split(rest, test_size=0.5, random_state=_AMAZON_SEED)  # in this order, as the authors do
    return [train, valid, test]


AMAZON_FILE = DataFile(
    names=("amazon_train.csv", "amazon/train.csv", "amazon-employee-access-challenge/train.csv", "train.csv"),
    source="https://www.kaggle.com/c/amazon-employee-access-challenge/data (train.csv)",
    sha256="c50b119438fb8c8e84b2ddb9c0a28c76cb01afa3dc78b920cfea36eb506843a7",
)
ENTRIES = {
    "amazon": Entry(
        15626, AMAZON_SIZES, "Kaggle Amazon Employee Access: 9 one-hot categories", load_amazon, (AMAZON_FILE,)
    )
}
