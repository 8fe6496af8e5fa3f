"""Plots as functions of stored rows: one style, safe for colour-blind readers, on light and dark pages alike."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

# Okabe and Ito's palette, in an order that keeps neighbours apart; a marker each, so that grey print works too.
STYLE: dict[str, tuple[str, str]] = {
    "Certificate": ("#0072B2", "o"),
    "ℓ1-AE": ("#D55E00", "s"),
    "Gaussian": ("#8A8A8A", "^"),
    "LBCS": ("#009E73", "D"),
    "PCA": ("#CC79A7", "v"),
    "Partial Fourier": ("#E69F00", "P"),
    "Simple AE": ("#56B4E9", "X"),
    "4-layer AE": ("#A6761D", "h"),
    "ISTA-AE": ("#7A5195", "p"),
}
_SPARE = ("#F0E442", "*")
_INKED = ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color", "grid.color")
THEMES = {"light": "#1f2328", "dark": "#e6edf3"}  # the colour of text and axes


@contextmanager
def themed(theme: str = "light") -> Iterator[Any]:
    """matplotlib.pyplot with the house style, transparent ground, and text in the theme's colour."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    ink = THEMES[theme]
    settings: dict[Any, Any] = {
        "font.size": 11,
        "font.family": "DejaVu Sans",
        "svg.fonttype": "none",
        "svg.hashsalt": "sparselens",
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "grid.alpha": 0.25,
        "lines.linewidth": 1.8,
        "lines.markersize": 5.5,
        "legend.frameon": False,
        "savefig.transparent": True,
        **dict.fromkeys(_INKED, ink),
    }
    with plt.rc_context(settings):
        yield plt


def style_of(label: str) -> dict[str, Any]:
    """Colour and marker of an encoder, the same in every plot."""
    colour, marker = STYLE.get(label, _SPARE)
    return {"color": colour, "marker": marker, "zorder": 3 if label in ("Certificate", "ℓ1-AE") else 2}


def tick_whole(axis: Any, ms: Iterable[int]) -> None:
    """Ticks of an axis of m at whole numbers; a single m stands in the middle with the only tick."""
    if len(set(ms)) == 1:
        (m,) = set(ms)
        axis.set(xticks=[m], xlim=(m - 5, m + 5))
    else:
        axis.xaxis.get_major_locator().set_params(integer=True)


def recovery_curve(rows: Sequence[dict[str, Any]], *, theme: str = "light") -> Any:
    """Exact fraction (left) and RMSE (right) against the number of measurements m."""
    with themed(theme) as plt:
        figure, (left, right) = plt.subplots(1, 2, figsize=(9.6, 3.7), layout="constrained")
        for label in dict.fromkeys(row["encoder"] for row in rows):
            mine = sorted((row for row in rows if row["encoder"] == label), key=lambda row: row["m"])
            m = [row["m"] for row in mine]
            left.plot(m, [100 * row["exact"] for row in mine], label=label, **style_of(label))
            right.plot(m, [row["rmse"] for row in mine], label=label, **style_of(label))
        left.set(xlabel="measurements m", ylabel="rows recovered exactly (%)", ylim=(-3, 103))
        right.set(xlabel="measurements m", ylabel="RMSE", ylim=(-0.02, None))
        for axis in (left, right):
            tick_whole(axis, [row["m"] for row in rows])
        figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=5)  # no curve goes there
        plt.close(figure)
        return figure


def vectors(panels: Sequence[tuple[str, Sequence[tuple[int, float]]]], d: int, *, theme: str = "light") -> Any:
    """Sparse vectors as stems, one above the other: panels are (title, nonzeros as pairs of column and value)."""
    with themed(theme) as plt:
        figure, axes = plt.subplots(
            len(panels), 1, figsize=(9.6, 1.35 * len(panels) + 0.5), sharex=True, sharey=True, layout="constrained"
        )
        for axis, (title, pairs) in zip([axes] if len(panels) == 1 else axes, panels, strict=True):
            colour = STYLE.get(title.split(":")[0], (THEMES[theme], ""))[0]
            axis.vlines([j for j, _ in pairs], 0, [v for _, v in pairs], color=colour, linewidth=1.4)
            axis.axhline(0, color=THEMES[theme], linewidth=0.6)
            axis.set_title(title, fontsize=10, loc="left")
            axis.grid(False)
            axis.set(xlim=(-5, d + 5))
        axis.set_xlabel("column")
        plt.close(figure)
        return figure


def plan_curve(
    rows: Sequence[dict[str, Any]], target: float, answers: dict[str, int | None], *, theme: str = "light"
) -> Any:
    """Exact fraction with its confidence interval against m for each encoder, the target, and the answers."""
    with themed(theme) as plt:
        figure, axis = plt.subplots(figsize=(9.6, 4.2), layout="constrained")
        for label in dict.fromkeys(row["encoder"] for row in rows):
            mine = sorted((row for row in rows if row["encoder"] == label), key=lambda row: row["m"])
            m = [row["m"] for row in mine]
            style = style_of(label)
            name = "learned (certificate training)" if label == "Certificate" else label
            axis.plot(m, [100 * row["exact"] for row in mine], label=name, **style)
            low, high = ([100 * row[end] for row in mine] for end in ("low", "high"))
            axis.fill_between(m, low, high, color=style["color"], alpha=0.2, linewidth=0)
        axis.axhline(100 * target, color=THEMES[theme], linewidth=1, linestyle="--")
        for label, answer in answers.items():
            if answer is not None:
                axis.axvline(answer, color=style_of(label)["color"], linewidth=1, linestyle=":")
                axis.annotate(
                    f" m = {answer}", (answer, 40), rotation=90, ha="left", va="bottom", color=style_of(label)["color"]
                )
        axis.set(xlabel="measurements m", ylabel="held-out rows that come back (%)", ylim=(-3, 103))
        tick_whole(axis, [row["m"] for row in rows])
        axis.legend(loc="lower right")
        plt.close(figure)
        return figure


def matrix_picture(facts: dict[str, Any], *, theme: str = "light") -> Any:
    """A measurement matrix as in the paper's toy figure: its entries (above), the norms of its columns (below)."""
    with themed(theme) as plt:
        figure, (upper, lower) = plt.subplots(
            2, 1, figsize=(9.6, 4.4), layout="constrained", height_ratios=(3, 2), sharex=True
        )
        heat, d = facts["heat"], facts["d"]
        largest = max(abs(value) for row in heat for value in row) or 1.0
        image = upper.imshow(
            heat,
            aspect="auto",
            cmap="RdBu_r",
            vmin=-largest,
            vmax=largest,
            interpolation="nearest",
            extent=(0, d, facts["m"], 0),
        )
        upper.grid(False)
        upper.set_ylabel("measurement")
        figure.colorbar(image, ax=upper, pad=0.01)
        width = d / len(facts["norms"])
        lower.stairs(facts["norms"], [i * width for i in range(len(facts["norms"]) + 1)], color="#0072B2", fill=True)
        lower.set(xlabel="column", ylabel="norm of the column", ylim=(0, None))
        plt.close(figure)
        return figure


def spectrum(facts: dict[str, Any], *, theme: str = "light") -> Any:
    """The singular values of a measurement matrix."""
    with themed(theme) as plt:
        figure, axis = plt.subplots(figsize=(9.6, 2.8), layout="constrained")
        values = facts["singular_values"]
        axis.plot(range(1, len(values) + 1), values, color="#0072B2", marker="o", markersize=3)
        axis.set(xlabel="index", ylabel="singular value", ylim=(0, None))
        axis.xaxis.get_major_locator().set_params(integer=True)
        plt.close(figure)
        return figure


def training_curve(history: dict[str, Any], *, theme: str = "light") -> Any:
    """Training and validation loss over the epochs."""
    with themed(theme) as plt:
        figure, axis = plt.subplots(figsize=(9.6, 3.0), layout="constrained")
        axis.plot(history["epoch"], history["train_loss"], color="#8A8A8A", label="training")
        axis.plot(history["epoch"], history["valid_loss"], color="#D55E00", label="validation")
        axis.set(xlabel="epoch", ylabel="loss")
        axis.xaxis.get_major_locator().set_params(integer=True)
        if min([*history["train_loss"], *history["valid_loss"]]) > 0:
            axis.set_yscale("log")
        axis.legend()
        plt.close(figure)
        return figure


def svg(figure: Any) -> str:
    """The figure as an <svg> element that can stand inside a page."""
    buffer = io.StringIO()
    with themed():  # letters stay letters, and ids do not change from run to run
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    text = buffer.getvalue()
    return re.sub(r"^.*?(?=<svg)", "", text, flags=re.DOTALL)


def save(figure: Any, path: Path) -> None:
    """Write the figure as PNG or SVG, by the file's ending; PNG gets a white ground."""
    options = {"transparent": False, "facecolor": "white", "dpi": 160} if path.suffix == ".png" else {}
    figure.savefig(path, metadata=None if path.suffix == ".png" else {"Date": None}, **options)
