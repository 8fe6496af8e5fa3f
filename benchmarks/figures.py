"""Draw the pictures of the README and the docs from stored rows, and from nothing else.

python benchmarks/figures.py
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sparselens.experiments.plots import recovery_curve, save, themed
from tables import ROOT, stored

LABELS = {"certificate": "Certificate", "l1ae": "ℓ1-AE", "gaussian": "Gaussian", "pca": "PCA", "lbcs": "LBCS"}


def recovery_rows(data: str) -> list[dict[str, Any]]:
    """The stored recovery rows of a data set, with the labels of the plots, in their order."""
    rows = [row for row in stored("recovery", "data", "encoder", "m", "seed") if row["data"] == data]
    return [
        row | {"encoder": label}
        for key, label in LABELS.items()
        for row in rows
        if row["encoder"] == key and row["seed"] == 0
    ]


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
            column[1].set(xscale="log", xlabel=label, ylim=(0, None))
        axes[0, 0].set_ylabel("µs a row, one core")
        axes[1, 0].set_ylabel("peak memory, MB")
        axes[0, 0].legend()
        plt.close(figure)
        return figure


def main() -> None:
    folder = ROOT / "docs" / "images"
    folder.mkdir(exist_ok=True)
    for data, name in (("amazon", "amazon.png"),):
        save(recovery_curve(recovery_rows(data)), Path(folder / name))
    save(scaling_curves([r for r in stored("scaling", "case", "what") if r["case"] != "dask"]), folder / "scaling.png")


if __name__ == "__main__":
    main()
