"""Draw the pictures of the docs from stored rows, and from nothing else; `paper.py` draws those of the paper.

python benchmarks/figures.py
"""

from __future__ import annotations

from typing import Any

from sparselens.experiments.plots import save, themed
from tables import ROOT, stored

_GROWTH = {"n": "rows n", "d": "columns d", "m": "measurements m"}
_WORK = {"encode": ("#0072B2", "o"), "decode": ("#D55E00", "s")}


def scaling_curves(rows: list[dict[str, Any]]) -> Any:
    """Time a row (above) and peak memory (below) over n, d and m."""
    with themed() as plt:
        figure, axes = plt.subplots(2, 3, figsize=(9.6, 5.0), sharex="col", sharey="row", layout="constrained")
        for column, (letter, label) in zip(axes.T, _GROWTH.items(), strict=True):
            for what, (colour, marker) in _WORK.items():
                mine = [row for row in rows if row["case"].startswith(letter) and row["what"] == what]
                mine.sort(key=lambda row, letter=letter: row[letter])
                x = [row[letter] for row in mine]
                style = {"color": colour, "marker": marker, "label": what}
                column[0].plot(x, [1e6 * row["cpu_s"] / row["n"] for row in mine], **style)
                column[1].plot(x, [row["peak_mb"] for row in mine], **style)
            column[0].set(xscale="log", yscale="log")
            column[1].set(xscale="log", xlabel=label)
            if letter == "m":  # less than a decade: the values themselves
                column[1].set_xticks(x, [str(value) for value in x])
                column[1].minorticks_off()
        axes[0, 0].set_ylabel("µs a row, one core")
        axes[1, 0].set_ylabel("peak memory, MB")
        axes[1, 0].set_ylim(bottom=0)
        axes[0, 0].legend()
        plt.close(figure)
        return figure


def main() -> None:
    folder = ROOT / "docs" / "images"
    folder.mkdir(exist_ok=True)
    save(scaling_curves([r for r in stored("scaling", "case", "what") if r["case"] != "dask"]), folder / "scaling.png")


if __name__ == "__main__":
    main()
