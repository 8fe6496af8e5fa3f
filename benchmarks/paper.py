"""Write docs/paper.md and its figures, and the README's figure, from the stored rows of the paper's cells.

    python benchmarks/paper.py                       # rewrite the page and the figures
    python benchmarks/paper.py --check               # exit with 1 where the page does not say what the rows say
    python benchmarks/paper.py --add FILE [FILE]     # first take the rows of other runs into the stored ones

A row that is there already is replaced by one that was measured on more test rows; on as many by one whose training
was not cut, or was cut later; and otherwise by one of later code. The rows are made by `sparselens reproduce ID -o
FOLDER`; those of certificate training by `benchmarks/recovery.py` are taken as well.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from sparselens.experiments.paper import EXPERIMENTS, cells_of, find
from sparselens.experiments.plots import save
from sparselens.experiments.report import build, pictures, to_markdown
from sparselens.experiments.spec import Cell
from sparselens.experiments.store import DONE, read_rows, was_cut

ROOT = Path(__file__).parent.parent
ROWS = ROOT / "benchmarks" / "results" / "paper.jsonl"
PAGE = ROOT / "docs" / "paper.md"
GENERATED = ("synthetic1", "synthetic2", "synthetic3", "unstructured")
IMAGES = ROOT / "docs" / "images" / "paper"


def render() -> str:
    """The page."""
    text = to_markdown(_sections(), images="images/paper")
    how = (
        "Rerun any of it: `sparselens reproduce fig2 --quick` takes minutes, `sparselens reproduce all --device cuda` "
        "a night, and `sparselens reproduce KEY --from benchmarks/results/paper.jsonl` the one cell whose row has that "
        "key. This page is written by `python benchmarks/paper.py` from `benchmarks/results/paper.jsonl`."
    )
    head, rest = text.split("\n\n|", 1)
    return f"{head}\n\n{how}\n\n|{rest}"


def draw() -> None:
    """The figures of the page, and the six panels of the README."""
    IMAGES.mkdir(parents=True, exist_ok=True)
    made = pictures(_sections())
    for old in IMAGES.glob("*.png"):
        if old.stem not in {picture.name for picture in made}:
            old.unlink()
    for picture in made:
        _save_small(picture.draw("light"), IMAGES / f"{picture.name}.png")


def _save_small(figure: Any, path: Path) -> None:
    """A PNG of 128 colours: a third of the size, and nobody sees the difference."""
    from PIL import Image

    save(figure, path)
    with Image.open(path) as image:
        small = image.convert("RGB").quantize(128)
    small.save(path, optimize=True)


def add(files: list[Path]) -> int:
    """Take rows of other runs; return how many were new or replaced another one."""
    wanted = {cell.point for cell in cells_of(find("all"))}
    stored = ((Cell.from_row(row).point, row) for row in read_rows([ROWS] if ROWS.exists() else []))
    kept: dict[Any, dict[str, Any]] = {point: row for point, row in stored if point in wanted}
    n, ages = 0, _ages()
    lines = (line for file in files for line in file.read_text(encoding="utf-8").splitlines())
    for row in filter(None, (_as_cell(json.loads(line)) for line in lines)):
        point = Cell.from_row(row).point
        old = kept.get(point)
        if point in wanted and (old is None or (old != row and _worth(row, ages) >= _worth(old, ages))):
            kept[point] = row
            n += 1
    ROWS.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in kept.values()), encoding="utf-8")
    return n


def _as_cell(row: dict[str, Any]) -> dict[str, Any] | None:
    """A row of `reproduce` as it is; one of certificate training by `recovery.py` in that form; None for others."""
    if "status" in row:
        return row
    if row["encoder"] != "certificate" or (row["seed"] and row["data"] in GENERATED):
        return None  # a cell of `reproduce` draws generated rows by its seed, `recovery.py` always by seed 0
    cell = Cell(row["data"], row["encoder"], row["m"], "l1-pos", row["seed"])
    measured = {"fit_seconds": row["train_s"], "decode_seconds": row["decode_s"], "n_rows": row["n_test"]}
    facts = ("exact", "rmse", "version", "commit", "date", "hardware")  # the first rows have no date
    measured |= {name: row[name] for name in facts if name in row}
    history = row["history_"]
    measured |= {"recipe": row["recipe_"], "n_steps": history["n_steps"], "stopped_by": history["stopped_by"]}
    return cell.as_row() | {"status": DONE, "measured_by": "benchmarks/recovery.py"} | measured


def _worth(row: dict[str, Any], ages: dict[str, int]) -> tuple[int, bool, int, int]:
    """How many test rows, how much of the training, and how late the code: the greater one is kept."""
    n_rows = row.get("n_rows", 1) if row["status"] == DONE else 0
    cut = was_cut(row)
    return n_rows, not cut, row.get("n_epochs", 0) if cut else 0, ages.get(row["commit"][:7], 0)


def _ages() -> dict[str, int]:
    """The commits by their first seven digits, with the second in which they were made."""
    asked = ["git", "log", "--format=%H %ct"]
    lines = subprocess.run(asked, capture_output=True, text=True, cwd=ROOT, check=True).stdout.splitlines()
    return {commit[:7]: int(second) for commit, second in map(str.split, lines)}


def _sections() -> list[Any]:
    return build(list(EXPERIMENTS.values()), read_rows([ROWS]))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--add", nargs="+", type=Path, default=[])
    options = parser.parse_args()
    if options.add:
        print(f"{add(options.add)} rows taken")
    text = render()
    if options.check:
        stale = not PAGE.exists() or PAGE.read_text(encoding="utf-8") != text
        print("stale: docs/paper.md" if stale else "docs/paper.md says what the rows say")
        return int(stale)
    PAGE.write_text(text, encoding="utf-8")
    draw()
    print(f"written: {PAGE.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
