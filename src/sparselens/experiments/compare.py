"""The stored rows of an experiment, averaged over seeds, against what the paper prints and claims."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from statistics import fmean, stdev

from sparselens.experiments.spec import Cell, Claim, Experiment, Published
from sparselens.experiments.store import DONE, Row, was_cut

EXACTLY = 1e-10  # an RMSE below this means that every row came back
AGREES, BETTER, DIFFERS, NOT_RUN = "agrees", "better", "differs", "not run"
Place = tuple[str, str, int]  # data set, algorithm, m


@dataclass(frozen=True)
class Summary:
    """One figure of one algorithm on one data set at one m, over seeds."""

    mean: float
    sd: float | None  # None with a single seed
    n_seeds: int
    n_rows: int | None  # test rows of a seed
    seconds: float | None  # mean seconds of the fit
    hardware: tuple[str, ...]
    n_cut: int  # trainings that a time limit ended
    n_together: int = 0  # trainings that were done at once, in the largest of their stacks

    def __str__(self) -> str:
        return number(self.mean) + (f" ± {number(self.sd)}" if self.sd is not None else "")


def rows_of(experiment: Experiment, rows: Iterable[Row], *, quick: bool = False) -> list[tuple[str, Row]]:
    """The experiment's finished rows with their algorithm's label; of two runs of a cell the one with more rows."""
    best: dict[tuple[object, ...], tuple[str, Row]] = {}
    for label, row in own_rows(experiment, rows, quick=quick):
        if row["status"] != DONE:
            continue
        point = Cell.from_row(row).point
        known = best.get(point)
        if known is None or row.get("n_rows", 0) >= known[1].get("n_rows", 0):
            best[point] = (label, row)
    found = list(best.values())
    if experiment.view == "curves":  # a curve shows every m that was measured, a table those of the paper
        return found
    printed = {(grid.data, m) for grid in experiment.select(quick=quick) for m in grid.m}
    return [pair for pair in found if (pair[1]["data"], pair[1]["m"]) in printed] or found


def own_rows(experiment: Experiment, rows: Iterable[Row], *, quick: bool = False) -> list[tuple[str, Row]]:
    """Every row of the experiment with its algorithm's label, whatever its m and its status."""
    labels = _labels_of(experiment, quick)
    cells = ((Cell.from_row(row), row) for row in rows)
    pairs = ((labels.get(_made_of(cell)), row) for cell, row in cells)
    return [(label, row) for label, row in pairs if label is not None]


def _labels_of(experiment: Experiment, quick: bool) -> dict[tuple[object, ...], str]:
    """What a row of the experiment is made of -> the name of its algorithm."""
    return {
        (grid.data, grid.sizes, *key): label
        for grid in experiment.select(quick=quick)
        for key, label in grid.labels().items()
    }


def _made_of(cell: Cell) -> tuple[object, ...]:
    return cell.data, cell.sizes, cell.encoder, cell.params, cell.decoder


def summarise(found: Iterable[tuple[str, Row]], metric: str) -> dict[Place, Summary]:
    """Mean and standard deviation over seeds of one metric, at each place, sorted by m."""
    groups: dict[Place, list[Row]] = {}
    for label, row in found:
        if row.get(metric) is not None:
            groups.setdefault((row["data"], label, row["m"]), []).append(row)
    return {place: _summary(groups[place], metric) for place in sorted(groups, key=lambda place: place[2])}


def _summary(rows: list[Row], metric: str) -> Summary:
    values = [row[metric] for row in rows]
    seconds = [row["fit_seconds"] for row in rows if row.get("fit_seconds") is not None]
    return Summary(
        mean=fmean(values),
        sd=stdev(values) if len(values) > 1 else None,
        n_seeds=len({row["seed"] for row in rows}),
        n_rows=rows[0].get("n_rows"),
        seconds=fmean(seconds) if seconds else None,
        hardware=tuple(sorted({row["hardware"] for row in rows})),
        n_cut=sum(map(was_cut, rows)),
        n_together=max(row.get("together") or 0 for row in rows),
    )


def verdict(published: Published, ours: Summary | None, tolerance: float) -> str:
    """Whether a figure of ours agrees with the paper's.

    Examples
    --------
    >>> ours = Summary(0.3, None, 1, 2000, 1.0, (), 0)
    >>> verdict(Published("amazon", "ℓ1-AE", 40, "rmse", 0.34), ours, 0.05)
    'agrees'
    >>> verdict(Published("amazon", "ℓ1-AE", 40, "rmse", 1e-15), ours, 0.05)
    'differs'
    """
    if ours is None:
        return NOT_RUN
    if published.metric == "rmse" and (published.value < EXACTLY or ours.mean < EXACTLY):
        if published.value < EXACTLY:
            return AGREES if ours.mean < EXACTLY else DIFFERS
        return AGREES if published.value <= tolerance else BETTER
    if abs(ours.mean - published.value) <= tolerance:
        return AGREES
    less_is_better = published.metric in ("rmse", "mean_error")
    more_is_better = published.metric in ("p1", "p3", "p5", "exact")
    if (less_is_better and ours.mean < published.value) or (more_is_better and ours.mean > published.value):
        return BETTER
    return DIFFERS


@dataclass(frozen=True)
class Tested:
    """A claim on our rows: how many places have it, at how many the best of the others is level, where it fails."""

    claim: Claim
    n_places: int
    exceptions: tuple[str, ...]
    n_level: int = 0  # places at which the best of the others is no further away than the slack

    @property
    def holds(self) -> bool:
        return self.n_places > 0 and not self.exceptions


def check_claim(claim: Claim, found: Iterable[tuple[str, Row]]) -> Tested:
    """Look at every data set and m that has the better one and at least one of the others."""
    summary = summarise(found, claim.metric)
    sign = -1.0 if claim.metric == "rmse" else 1.0
    n_places, n_level, exceptions = 0, 0, []
    for (data, label, m), mine in summary.items():
        if label != claim.better or (claim.data and data not in claim.data):
            continue
        others = {other: summary[data, other, m] for other in claim.than if (data, other, m) in summary}
        if not others:
            continue
        n_places += 1
        name, best = max(others.items(), key=lambda pair: sign * pair[1].mean)
        n_level += abs(best.mean - mine.mean) <= claim.slack
        if sign * (best.mean - mine.mean) > claim.slack:
            exceptions.append(f"{data}, m = {m}: {name} {number(best.mean)}, {claim.better} {number(mine.mean)}")
    return Tested(claim, n_places, tuple(exceptions), n_level)


def spectrum(found: Iterable[tuple[str, Row]], metric: str) -> dict[Place, Summary]:
    """Mean and standard deviation over m, as the paper prints singular values; seeds are averaged first."""
    by_m: dict[tuple[str, str], list[Summary]] = {}
    for (data, label, _), one in summarise(found, metric).items():
        by_m.setdefault((data, label), []).append(one)
    out = {}
    for (data, label), some in by_m.items():
        values = [one.mean for one in some]
        out[data, label, 0] = Summary(
            fmean(values),
            stdev(values) if len(values) > 1 else None,
            min(one.n_seeds for one in some),
            some[0].n_rows,
            fmean([one.seconds or 0.0 for one in some]),
            tuple(sorted({machine for one in some for machine in one.hardware})),
            sum(one.n_cut for one in some),
            max(one.n_together for one in some),
        )
    return out


def unmeasured(experiment: Experiment, rows: Iterable[Row], *, quick: bool = False) -> Iterator[tuple[str, int]]:
    """Why cells that were tried have no figure, and how many: what does not apply, fails or is missing.

    Cells at other numbers of measurements than the experiment's are its own too.
    """
    own = [(Cell.from_row(row).point, row) for _, row in own_rows(experiment, rows, quick=quick)]
    done = {point for point, row in own if row["status"] == DONE}
    last = dict(own)  # of several runs of a cell
    reasons = Counter(f"{row['status']}: {_short(row['reason'])}" for point, row in last.items() if point not in done)
    yield from sorted(reasons.items())


def not_run(experiment: Experiment, rows: Iterable[Row], *, quick: bool = False) -> str:
    """The cells that have no row of any seed, in one line; empty where there are none."""
    tried = {replace(Cell.from_row(row), seed=0).point for _, row in own_rows(experiment, rows, quick=quick)}
    cells = {cell.point: cell for grid in experiment.select(quick=quick) for cell in grid.cells() if cell.seed == 0}
    left = [cell for point, cell in cells.items() if point not in tried]
    labels = _labels_of(experiment, quick)
    ms: dict[tuple[str, str], list[int]] = {}
    for cell in left:
        ms.setdefault((cell.data, labels[_made_of(cell)]), []).append(cell.m)
    places: dict[str, list[str]] = {}
    for (data, label), some in ms.items():
        numbers = "" if some == [0] else f" (m = {', '.join(map(str, sorted(some)))})"
        places.setdefault(f"on {data}{numbers}", []).append(label)
    told = "; ".join(f"{', '.join(some)} {where}" for where, some in places.items())
    return f"Not run ({len(left)} cell{'s' if len(left) > 1 else ''}): {told}." if left else ""


def _short(reason: str, most: int = 160) -> str:
    """The beginning of a long reason; the stored row has the whole."""
    return reason if len(reason) <= most else reason[:most].rsplit(" ", 1)[0] + " …"


def number(value: float) -> str:
    """Three digits; what is below 1e-10 is zero up to rounding.

    Examples
    --------
    >>> number(0.35712), number(2e-15), number(1.0), number(15626)
    ('0.357', '0', '1.000', '15,626')
    """
    if abs(value) < EXACTLY:
        return "0"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3f}" if abs(value) >= 0.0005 else f"{value:.0e}"
