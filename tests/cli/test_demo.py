"""The demo: its table agrees with its page, and the page stands alone."""

import json
import re

import pytest

from sparselens.cli.demo import demo
from sparselens.experiments import demo as experiment


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("demo")
    patch = pytest.MonkeyPatch()
    few = {label: (make, (20, 70)) for label, (make, _) in experiment.ENCODERS.items() if label in ("Gaussian", "PCA")}
    patch.setattr(experiment, "ENCODERS", few)
    demo(out=out, rows=12, seed=3, as_json=False)
    patch.undo()
    return out


def test_the_demo_writes_a_page_a_table_and_a_picture(folder):
    assert sorted(path.name for path in folder.iterdir()) == ["index.html", "recovery.png", "table.json"]
    assert (folder / "recovery.png").read_bytes().startswith(b"\x89PNG")


def test_the_table_holds_what_was_measured(folder):
    rows = {(row["encoder"], row["m"]): row for row in json.loads((folder / "table.json").read_text())}
    assert set(rows) == {(label, m) for label in ("Gaussian", "PCA") for m in (20, 70)}
    # ten unknown values in 20 random measurements cannot be found by ℓ1; 70 are nearly always enough
    assert rows["Gaussian", 20]["exact"] < 0.2
    assert rows["Gaussian", 70]["exact"] > 0.7
    assert rows["Gaussian", 70]["certified"] == 1.0
    assert all(row["n_rows"] == 12 for row in rows.values())


def test_the_page_stands_alone_and_shows_both_figures(folder):
    page = (folder / "index.html").read_text(encoding="utf-8")
    assert page.count("<figure") == 2
    assert page.count("<svg") == 4  # each figure for a light and for a dark page
    assert not re.search(r"(src|href)=\"(?!#|data:)", page)  # no request leaves the page
    assert "<script" not in page
    ids = re.findall(r'id="([^"]+)"', page)
    dark = [i for i in ids if i.startswith("dark-")]
    assert dark
    assert not set(dark) & (set(ids) - set(dark))


def test_fewest_measurements_asks_for_every_larger_m_too():
    rows = [{"encoder": "a", "m": m, "exact": exact} for m, exact in ((10, 1.0), (20, 0.5), (30, 0.99), (40, 1.0))] + [
        {"encoder": "b", "m": 10, "exact": 0.2}
    ]
    assert experiment.fewest_measurements(rows) == {"a": 30, "b": None}
