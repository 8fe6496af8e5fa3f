"""An experiment is data: data sets x algorithms x m x seeds, with what the paper published beside it.

A `Cell` is one point of a table or figure: one encoder, fitted with one seed on one data set, and one decoder. Cells
that differ in the decoder alone share a fit, and so do cells of different experiments: rows belong to no experiment.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

Params = tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class Cell:
    """What is measured once; every field is part of its identity.

    Attributes
    ----------
    data : str
        A name of `load_dataset`.
    encoder : str
        A name of `algorithms.ENCODERS`; "none" where nothing is fitted.
    m : int
    decoder : str
        A name of `algorithms.DECODERS`.
    seed : int
        Seeds the encoder, and a generated data set too.
    params : tuple of (name, value)
        What differs from the parameters that `algorithms.make_encoder` gives this encoder on this data set.
    sizes : (int, int, int) or None
        Smaller parts of the data set.
    n_test : int or None
        How many of the test rows are decoded; None: all.

    Examples
    --------
    >>> cell = Cell("synthetic1", "gaussian", 30, "l1-pos")
    >>> Cell.from_row(cell.as_row()) == cell
    True
    """

    data: str
    encoder: str
    m: int
    decoder: str
    seed: int = 0
    params: Params = ()
    sizes: tuple[int, int, int] | None = None
    n_test: int | None = None

    @property
    def key(self) -> str:
        """Twelve hexadecimal digits that name this cell in the store."""
        return _digest(asdict(self))

    @property
    def fit_key(self) -> str:
        """Names the fit: equal for cells that differ in the decoder and in the rows decoded alone."""
        return _digest(asdict(self) | {"decoder": "", "n_test": None})

    @property
    def point(self) -> tuple[Any, ...]:
        """What is compared between runs: everything but how many rows were used."""
        return (self.data, self.encoder, self.params, self.m, self.seed, self.decoder)

    def as_row(self) -> dict[str, Any]:
        """The fields as JSON values, with the key."""
        return {"key": self.key} | asdict(self) | {"params": dict(self.params)}

    @classmethod
    def from_row(cls, row: dict[str, Any]) -> Cell:
        """The cell that a stored row measured."""
        named = {name: row[name] for name in ("data", "encoder", "m", "decoder", "seed", "n_test")}
        sizes = None if row["sizes"] is None else tuple(row["sizes"])
        return cls(**named, params=as_params(row["params"]), sizes=sizes)

    def __str__(self) -> str:
        extra = "".join(f", {name}={value}" for name, value in self.params)
        return f"{self.data}, {self.encoder}{extra}, m = {self.m}, seed {self.seed}"


def as_params(params: dict[str, Any]) -> Params:
    """A dictionary as sorted pairs; lists become tuples, so that cells can be compared."""
    return tuple((k, tuple(v) if isinstance(v, list) else v) for k, v in sorted(params.items()))


def _digest(fields: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()[:12]


@dataclass(frozen=True)
class Algorithm:
    """An encoder with a decoder, and its name in tables and figures."""

    label: str
    encoder: str
    decoder: str
    params: Params = ()


@dataclass(frozen=True)
class Grid:
    """Every algorithm on one data set at every m.

    Attributes
    ----------
    data : str
    algorithms : tuple of Algorithm
    m : tuple of int
        The most telling first: a run that is cut short has those.
    seeds : int
        Repetitions: seeds 0, 1, ...
    sizes, n_test :
        As in `Cell`.
    fast : dict
        Encoder -> parameters that shorten its training, for quick forms.
    """

    data: str
    algorithms: tuple[Algorithm, ...]
    m: tuple[int, ...]
    seeds: int = 1
    sizes: tuple[int, int, int] | None = None
    n_test: int | None = None
    fast: dict[str, dict[str, Any]] = field(default_factory=dict)

    def cells(self) -> Iterator[Cell]:
        """All cells, the first seed first."""
        for seed in range(self.seeds):
            for m in self.m:
                for algorithm in self.algorithms:
                    params = dict(algorithm.params) | self.fast.get(algorithm.encoder, {})
                    yield Cell(
                        self.data,
                        algorithm.encoder,
                        m,
                        algorithm.decoder,
                        seed=seed,
                        params=as_params(params),
                        sizes=self.sizes,
                        n_test=self.n_test,
                    )

    def labels(self) -> dict[tuple[str, Params, str], str]:
        """(encoder, parameters, decoder) -> the name of the algorithm."""
        return {
            (a.encoder, as_params(dict(a.params) | self.fast.get(a.encoder, {})), a.decoder): a.label
            for a in self.algorithms
        }


@dataclass(frozen=True)
class Published:
    """A number that the paper prints; `data`, `algorithm` (a label) and `m` say where it belongs."""

    data: str
    algorithm: str
    m: int
    metric: str
    value: float
    sd: float | None = None


@dataclass(frozen=True)
class Claim:
    """What a figure shows: one algorithm is at least as good as others, at every data set and m that has both.

    `metric` is "exact", "p1" (more is better) or "rmse" (less is better); `slack` is how much worse still counts as
    equal.
    """

    text: str
    better: str
    than: tuple[str, ...]
    metric: str = "exact"
    slack: float = 0.01
    data: tuple[str, ...] = ()  # empty: all


@dataclass(frozen=True)
class Experiment:
    """One table or figure of the paper, or one of ours beside them.

    Attributes
    ----------
    id, title : str
    shows : str
        What the paper shows with it, or what it is about where it is ours.
    in_paper : bool
        False for one of ours.
    grids, quick : tuple of Grid
        The cells in full, and a form that ends in two minutes on two cores.
    view : str
        How it is shown: a name of `report.VIEWS`.
    published : tuple of Published
    tolerance : float
        A figure of ours agrees with the paper's when they differ by no more.
    why : str
        Why that tolerance.
    claims : tuple of Claim
    notes : tuple of str
        What the experiment has in another way than the paper: true of any rows. What we make of the rows that are
        stored with sparselens is in `findings`.
    """

    id: str
    title: str
    shows: str
    grids: tuple[Grid, ...]
    quick: tuple[Grid, ...] = ()
    view: str = "curves"
    in_paper: bool = True
    published: tuple[Published, ...] = ()
    tolerance: float = 0.05
    why: str = ""
    claims: tuple[Claim, ...] = ()
    notes: tuple[str, ...] = ()

    def select(
        self,
        *,
        quick: bool = False,
        seeds: int | None = None,
        m: Sequence[int] | None = None,
        data: Sequence[str] | None = None,
        n_test: int | None = None,
    ) -> list[Grid]:
        """The grids, cut to what was asked for; `m` may name numbers that the paper does not have."""
        out = []
        for grid in self.quick or self.grids if quick else self.grids:
            if data is not None and grid.data not in data:
                continue
            changed: dict[str, Any] = {}
            if seeds is not None and (quick or grid.seeds > 1) and grid.m != (0,):
                changed["seeds"] = seeds
            if m is not None and grid.m != (0,):
                changed["m"] = tuple(m)
            if n_test is not None:
                changed["n_test"] = n_test
            out.append(replace(grid, **changed))
        return out
