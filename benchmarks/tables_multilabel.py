"""Tables of multi-label learning."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stored_rows import markdown, stored

_XML_NAMES = {
    "blend": "**blend (ours)**",
    "l1ae-3, 5": "ℓ1-AE 3, refitted decoder, 5 models (ours)",
    "l1ae-3, 1": "ℓ1-AE 3, refitted decoder, 1 model (ours)",
    "ridge one-vs-all": "ridge one-vs-all (ours)",
    "sleec": "SLEEC (ours)",
    "omikuji-parabel": "omikuji, as Parabel",
    "omikuji-bonsai": "omikuji, as Bonsai",
    "napkinxc-plt": "napkinXC PLT",
    "xr-linear": "PECOS XR-Linear",
    "xr-linear-ova": "PECOS one-vs-all",
}


def _xml_rows(data: str, methods: list[str]) -> dict[str, list[dict[str, Any]]]:
    """The rows of each method on the splits that all of them were run on: other means would not compare."""
    rows = [row for row in stored("xml", "data", "method", "split", "case") if row.get("data") == data and "P@1" in row]
    mine = {method: {row["split"]: row for row in rows if row["method"] == method} for method in methods}
    mine = {method: of_split for method, of_split in mine.items() if of_split}
    common = set.intersection(*(set(of_split) for of_split in mine.values())) if mine else set()
    return {method: [of_split[split] for split in sorted(common)] for method, of_split in mine.items()}


def _xml_sets() -> list[str]:
    return list(dict.fromkeys(row["data"] for row in stored("xml", "data", "method", "split", "case") if "data" in row))


def _percent(rows: list[dict[str, Any]], name: str) -> str:
    return " / ".join(f"{100 * sum(row[f'{name}@{k}'] for row in rows) / len(rows):.2f}" for k in (1, 3, 5))


def xml() -> str:
    """Every data set and method: the mean over splits of P@k and PSP@k, and what it cost."""
    lines = []
    for data in sorted(_xml_sets()):
        shown = _xml_rows(data, list(_XML_NAMES))
        for method, label in _XML_NAMES.items():
            if rows := shown.get(method):
                costs = [sum(row[cost] for row in rows) / len(rows) for cost in ("train_s", "predict_s")]
                peak, size = (max(row[cost] for row in rows) for cost in ("peak_mb", "model_mb"))
                figures = [_percent(rows, name) for name in ("P", "PSP")]
                lines.append(
                    [data, label, *figures, *(f"{c:.0f}" for c in costs), f"{peak:,}", f"{size:.1f}", str(len(rows))]
                )
    header = ["data set", "method", "P@1/3/5", "PSP@1/3/5", "train (s)", "predict (s)", "peak MB", "model MB", "splits"]
    return markdown(header, lines)


def xml_paper() -> str:
    """SLEEC and the ways to predict from ℓ1-AE's embedding, one to five models: the mean over splits of P@k."""
    kinds = {
        "SLEEC": "sleec",
        **{f"ℓ1-AE {i}, as in the paper": f"l1ae-{i} paper" for i in (1, 2, 3)},
        **{f"ℓ1-AE {i}, our settings": f"l1ae-{i}" for i in (1, 2, 3)},
    }
    names = ["sleec", *(f"{method}, {n}" for method in kinds.values() for n in (1, 3, 5))]
    lines = []
    for data in sorted(_xml_sets()):
        shown = _xml_rows(data, names)
        for label, method in kinds.items():
            cells = [shown.get(method if method == "sleec" else f"{method}, {n}", []) for n in (1, 3, 5)]
            if any(cells):
                figures = [_percent(rows, "P") if rows else "" for rows in cells]
                lines.append([data, label, *figures, str(max(map(len, cells)))])
    return markdown(["data set", "method", "1 model, P@1/3/5", "3 models", "5 models", "splits"], lines)


def xml_scale() -> str:
    """A synthetic problem of Wiki10-31K's size."""
    lines = [
        [
            row["method"],
            f"{row['train_s']:.0f}",
            f"{row['predict_s']:.0f}",
            f"{row['peak_mb']:,}",
            f"{100 * row['P@1']:.1f}",
            f"{100 * row['P@1 of the most frequent label']:.1f}",
        ]
        for row in stored("xml", "data", "method", "split", "case")
        if row.get("case") == "wiki10-31k size"
    ]
    header = ["method", "train (s)", "predict 6,616 rows (s)", "peak MB", "P@1", "P@1 of the most frequent label"]
    return markdown(header, lines)


TABLES: dict[str, Callable[[], str]] = {
    "xml": xml,
    "xml-paper": xml_paper,
    "xml-scale": xml_scale,
}
