"""Data sets by name, and a user's own files."""

from sparselens.data._dataset import Dataset, DatasetInfo
from sparselens.data._locate import data_root
from sparselens.data.catalogue import list_datasets, load_dataset
from sparselens.data.files import read_matrix
from sparselens.data.multilabel import read_multilabel, write_ranking
from sparselens.data.onehot import OneHotTable, read_onehot_csv, write_onehot_csv
from sparselens.data.sparse_text import read_svmlight, read_xmc
from sparselens.data.synthetic import sample

__all__ = [
    "Dataset",
    "DatasetInfo",
    "OneHotTable",
    "data_root",
    "list_datasets",
    "load_dataset",
    "read_matrix",
    "read_multilabel",
    "read_onehot_csv",
    "read_svmlight",
    "read_xmc",
    "sample",
    "write_onehot_csv",
    "write_ranking",
]
