"""DATA and MODEL as a person types them: a data set's name or a file, a folder that `fit` wrote."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparselens.cli.codes import did_you_mean

if TYPE_CHECKING:
    import scipy.sparse as sp

    from sparselens.data import Dataset
    from sparselens.data.onehot import Categories

PARTS = ("train", "valid", "test", "all")


@dataclass(frozen=True, eq=False)
class Source:
    """Rows that a person named: a known data set with its parts, or the rows of a file.

    Attributes
    ----------
    name : str
        The data set's name, or the file's name without its folder.
    dataset : Dataset or None
    rows : csr_array or None
    categories : dict or None
        Of a table: column -> its categories.
    """

    name: str
    dataset: Dataset | None = None
    rows: sp.csr_array | None = None
    categories: Categories | None = None

    def part(self, part: str | None) -> sp.csr_array:
        """The rows of a part; of a file, which has no parts, all rows."""
        import scipy.sparse as sp

        if self.dataset is None:
            if part not in (None, "all"):
                raise ValueError(f"{self.name} is a file and has no parts: leave out --part.")
            return self.rows
        check_word(part, "--part", PARTS)
        if part == "all":
            return sp.vstack([self.dataset.train, self.dataset.valid, self.dataset.test], format="csr")
        return getattr(self.dataset, str(part))

    def split(self, *, seed: int, fraction: float) -> tuple[sp.csr_array, sp.csr_array]:
        """Training and validation rows: the data set's own, or a seeded part of the file's rows held out."""
        from sparselens._random import derive_rng

        if self.dataset is not None:
            return self.dataset.train, self.dataset.valid
        assert self.rows is not None
        n = self.rows.shape[0]
        n_valid = max(1, round(fraction * n))
        if n <= n_valid:
            raise ValueError(f"{self.name} has {n} rows, too few to hold out some of them for validation: pass more.")
        order = derive_rng(seed, role="validation rows").permutation(n)
        return self.rows[order[n_valid:]], self.rows[order[:n_valid]]


def open_source(
    text: str,
    *,
    format: str | None = None,  # noqa: A002 - as in read_matrix
    seed: int = 0,
    categories: Categories | None = None,
) -> Source:
    """A known data set where the text is the name of one, else the rows of that file.

    A table (CSV) is one-hot encoded over `categories`, those of the table that a model was fitted on, or else over
    its own.
    """
    from sparselens.data import list_datasets, load_dataset, read_matrix, read_onehot_csv
    from sparselens.data.files import detect_format

    path = Path(text)
    if format is None and text in {info.name for info in list_datasets()}:
        return Source(text, dataset=load_dataset(text, random_state=seed))
    check_file(path, named=format is None)
    if path.is_file() and (format or detect_format(path)) == "csv":
        table = read_onehot_csv(path, categories=categories)
        return Source(path.name, rows=table.matrix, categories=table.categories)
    return Source(path.name, rows=read_matrix(path, format=format))


def check_file(path: Path, *, named: bool = False) -> None:
    """Raise the error of a mistyped file, or data set where one may be `named`; it says which ones are nearly that."""
    from sparselens.data import load_dataset

    if path.expanduser().exists():
        return
    if named and not path.suffix and len(path.parts) == 1:
        load_dataset(str(path))  # its error names the closest data sets
    beside = [str(path.with_name(other.name)) for other in path.parent.iterdir()] if path.parent.is_dir() else []
    hint = did_you_mean(str(path), beside)
    hint = hint if hint.startswith("did") else "check the path, or see `sparselens data list`."
    raise FileNotFoundError(f"there is no file {str(path)!r}: {hint}")


def open_encoder(folder: Path) -> Any:
    """The fitted encoder of a model folder; a model of another kind is refused."""
    from sparselens.encoders.base import BaseEncoder

    model = open_model(folder)
    if not isinstance(model, BaseEncoder):
        raise ValueError(
            f"{folder} holds a {type(model).__name__}, which ranks labels: `sparselens xml` has the commands for it."
        )
    return model


def open_model(folder: Path) -> Any:
    """The model of a folder; the error of a mistyped one names those beside it."""
    from sparselens.persist import load

    if not folder.exists():
        beside = [str(manifest.parent) for manifest in folder.parent.glob("*/manifest.json")]
        hint = did_you_mean(str(folder), beside) if beside else "pass a folder that `sparselens fit` wrote."
        raise FileNotFoundError(f"there is no model at {folder}: {hint}")
    if folder.is_file():
        raise ValueError(f"{folder} is a file, not a model: the model comes first, the data second.")
    return load(folder)


def check_columns(encoder: Any, X: sp.csr_array, name: str) -> None:
    """Raise an error where the rows have other columns than the model."""
    if X.shape[1] != encoder.n_features_in_:
        raise ValueError(
            f"{name} has {X.shape[1]:,} columns but the model was fitted on {encoder.n_features_in_:,}: "
            "pass rows with the same columns, in the same order, as in fit."
        )


def check_nonnegative(X: sp.csr_array, name: str, what: str) -> None:
    """Raise an error where rows hold a negative value and a command cannot take one."""
    if X.nnz and X.data.min() < 0:
        raise ValueError(f"{name} holds negative values: {what} solves the nonnegative problem.")


def check_word(word: Any, name: str, known: tuple[str, ...] | list[str]) -> str:
    """The word where it is known; the error names the closest ones."""
    if word not in known:
        listed = ", ".join(map(repr, known))
        hint = did_you_mean(str(word), known)
        more = f" D{hint[1:]}" if hint.startswith("did") else ""
        raise ValueError(f"{name} must be one of {listed}; got {word!r}.{more}")
    return str(word)


def counted(n: int, noun: str) -> str:
    """A number and its noun: ``counted(1, "row")`` is "1 row".

    Examples
    --------
    >>> counted(1, "row"), counted(2000, "row")
    ('1 row', '2,000 rows')
    """
    return f"{n:,} {noun}{'' if n == 1 else 's'}"
