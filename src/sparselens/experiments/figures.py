"""The paper's figures as functions of stored rows: colour is the matrix, line is the decoder, stars are the paper."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from sparselens.experiments.compare import Place, Summary, rows_of, summarise
from sparselens.experiments.paper import NAMES
from sparselens.experiments.plots import STYLE, THEMES, themed, tick_whole
from sparselens.experiments.spec import Experiment
from sparselens.experiments.store import Row

# The first word of an algorithm's label -> the name under which plots know its matrix.
_MATRIX = {
    "Certificate": "Certificate",
    "ℓ1-AE": "ℓ1-AE",
    "Gauss": "Gaussian",
    "LBCS": "LBCS",
    "PCA": "PCA",
    "Fourier": "Partial Fourier",
    "simple": "Simple AE",
    "4-layer": "4-layer AE",
    "ISTA-AE": "ISTA-AE",
}
_SPARE = ("#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#A6761D")
_MARKERS = "oDv^PX"
_HIGHEST = 1.2  # RMSE in the frame; an estimate of zeros has 1
_METRICS = {"exact": ("rows recovered exactly (%)", 100.0), "rmse": ("test RMSE", 1.0)}


def style(label: str, position: int) -> dict[str, Any]:
    """Colour and marker from the matrix, line from the decoder; other labels take a spare colour by their position."""
    matrix = _MATRIX.get(label.split()[0])
    if matrix is None:
        return {"color": _SPARE[position % 6], "marker": _MARKERS[position % 6], "linestyle": "-"}
    colour, marker = STYLE[matrix]
    decoder = label.partition(" + ")[2]
    line = "--" if "CoSaMP" in decoder else ":" if not decoder or decoder == "linear" else "-"
    if decoder in ("ℓ1-min", "CoSaMP"):  # without positivity
        line = "-."
    if "DCT" in label:
        colour, marker = "#66A61E", "d"
    return {
        "color": colour,
        "marker": marker,
        "markerfacecolor": "none" if "(fixed steps)" in label else colour,
        "linestyle": line,
        "zorder": 3 if matrix in ("Certificate", "ℓ1-AE") else 2,
    }


def curves(
    experiment: Experiment, rows: Sequence[Row], metric: str = "exact", *, quick: bool = False, theme: str = "light"
) -> Any:
    """One panel a data set: a metric against m, mean and standard deviation over seeds, the paper's values as stars."""
    summary = _shown(experiment, rows, metric, quick)
    sets = [
        name
        for name in dict.fromkeys(g.data for g in experiment.select(quick=quick))
        if any(p[0] == name for p in summary)
    ]
    n_columns = 2 if len(sets) == 4 else min(3, len(sets)) or 1
    n_lines = math.ceil(len(sets) / n_columns) or 1
    labels = [a.label for g in experiment.select(quick=quick) for a in g.algorithms]
    labels = [name for name in dict.fromkeys(labels) if any(place[1] == name for place in summary)]
    title, factor = _METRICS[metric]
    with themed(theme) as plt:
        n_entries = 3 if n_columns == 3 else 2  # of the legend, side by side
        size = (max(3.3 * n_columns, 5.4) + 0.4, 2.75 * n_lines + 0.3 + 0.24 * math.ceil(len(labels) / n_entries))
        figure, axes = plt.subplots(n_lines, n_columns, figsize=size, squeeze=False, layout="constrained")
        for axis in axes.flat[len(sets) :]:
            axis.set_visible(False)
        handles: dict[str, Any] = {}
        aside = _aside(summary, labels)
        for axis, data in zip(axes.flat, sets, strict=False):
            every = sorted({m for name, _, m in summary if name == data})
            step, ticks = (every[-1] - every[0] or 10) / 30, set(every)
            for position, label in enumerate(labels):
                points = {m: one for (name, other, m), one in summary.items() if (name, other) == (data, label)}
                shift = step * aside.get((data, label), 0.0)
                if points:
                    handles[label] = _line(axis, every, points, factor, style(label, position), shift)
                for one in experiment.published:
                    if (one.data, one.algorithm, one.metric) == (data, label, metric):
                        colour = style(label, position)["color"]
                        ticks.add(one.m)
                        at = one.m + (shift if one.m in points else 0.0)
                        handles["the paper"] = axis.plot(
                            at, factor * one.value, marker="*", markersize=13, linestyle="none",
                            markerfacecolor="none", markeredgecolor=colour, markeredgewidth=1.3, zorder=5,
                        )[0]  # fmt: skip
            tick_whole(axis, ticks)
            axis.set_title(NAMES.get(data, data), fontsize=10.5)
            axis.set(ylim=(-3, 103) if metric == "exact" else (-0.03, _HIGHEST))
        for line in axes:
            line[0].set_ylabel(title)
        for axis in axes.flat[max(0, len(sets) - n_columns) : len(sets)]:
            axis.set_xlabel("measurements m")
        figure.legend(
            list(handles.values()),
            list(handles),
            loc="outside lower center",
            ncols=min(n_entries, len(handles)) or 1,
            fontsize=9,
            handlelength=3.4,  # long enough to show dashes beside a marker
        )
        plt.close(figure)
        return figure


def _shown(experiment: Experiment, rows: Sequence[Row], metric: str, quick: bool) -> dict[Place, Summary]:
    summary = summarise(rows_of(experiment, rows, quick=quick), metric)
    return {place: one for place, one in summary.items() if shown(place[1], metric)}


def _aside(summary: dict[Place, Summary], labels: Sequence[str]) -> dict[tuple[str, str], float]:
    """(data set, algorithm) -> steps beside its m, for algorithms of a single m, which would hide each other."""
    ms: dict[tuple[str, str], list[int]] = {}
    for data, label, m in sorted(summary, key=lambda place: labels.index(place[1])):
        ms.setdefault((data, label), []).append(m)
    alone: dict[tuple[str, int], list[str]] = {}
    for (data, label), mine in ms.items():
        if len(mine) == 1:
            alone.setdefault((data, mine[0]), []).append(label)
    return {(data, label): i - (len(some) - 1) / 2 for (data, _), some in alone.items() for i, label in enumerate(some)}


def side_by_side(experiment: Experiment, rows: Sequence[Row], metric: str, *, quick: bool = False) -> bool:
    """Whether points of a plot stand beside their m."""
    summary = _shown(experiment, rows, metric, quick)
    return any(_aside(summary, [label for _, label, _ in summary]).values())


def shown(label: str, metric: str) -> bool:
    """The paper leaves out what can never be exact from plots of exact recovery."""
    return metric != "exact" or " + " in label or label.split()[0] not in _MATRIX


def out_of_frame(experiment: Experiment, rows: Sequence[Row], metric: str, *, quick: bool = False) -> str:
    """What a plot of RMSE cannot show: algorithms with the data set and the largest value, as text."""
    if metric != "rmse":
        return ""
    highest: dict[str, tuple[float, str]] = {}
    for (data, label, _), one in summarise(rows_of(experiment, rows, quick=quick), metric).items():
        if one.mean > _HIGHEST:
            highest[label] = max(highest.get(label, (0.0, "")), (one.mean, NAMES.get(data, data)))
    return "; ".join(f"{label} (up to {value:.1f}, {data})" for label, (value, data) in highest.items())


def _line(
    axis: Any, every: list[int], points: dict[int, Summary], factor: float, look: dict[str, Any], shift: float
) -> Any:
    """A line that breaks where an m was not measured."""
    x = [m for m in every if min(points) <= m <= max(points)]
    y = [factor * points[m].mean if m in points else math.nan for m in x]
    sd = [factor * (points[m].sd or 0.0) if m in points else 0.0 for m in x]
    at = [m + shift for m in x]
    axis.errorbar(at, y, yerr=sd, fmt="none", ecolor=look["color"], elinewidth=1.1, capsize=2.5, alpha=0.8)
    return axis.plot(at, y, **look)[0]


def toy(experiment: Experiment, rows: Sequence[Row], *, quick: bool = False, theme: str = "light") -> Any:
    """The learned matrix of the toy data set as a colour map, and the norms of its columns."""
    found = [row for _, row in rows_of(experiment, rows, quick=quick) if row.get("A")]
    with themed(theme) as plt:
        figure, (upper, lower) = plt.subplots(2, 1, figsize=(8.6, 3.6), sharex=True, layout="constrained")
        if found:
            A = found[0]["A"]
            largest = max(abs(v) for line in A for v in line)
            image = upper.imshow(A, aspect="auto", cmap="RdBu_r", vmin=-largest, vmax=largest, interpolation="nearest")
            figure.colorbar(image, ax=upper)
            norms = [math.sqrt(sum(line[j] ** 2 for line in A)) for j in range(len(A[0]))]
            lower.bar(range(len(norms)), norms, color=STYLE["ℓ1-AE"][0], width=0.8)
        upper.set_ylabel("measurement")
        upper.yaxis.get_major_locator().set_params(integer=True)
        upper.grid(False)
        lower.set_axisbelow(True)
        lower.set(xlabel="column", ylabel="column norm")
        lower.axvline(19.5, color=THEMES[theme], linewidth=0.8, linestyle=":")
        plt.close(figure)
        return figure
