"""Draw the pictures of the README and the docs from stored rows, and from nothing else.

python benchmarks/figures.py
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sparselens.experiments.plots import recovery_curve, save
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


def main() -> None:
    folder = ROOT / "docs" / "images"
    folder.mkdir(exist_ok=True)
    for data, name in (("amazon", "amazon.png"),):
        save(recovery_curve(recovery_rows(data)), Path(folder / name))


if __name__ == "__main__":
    main()
