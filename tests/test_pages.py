"""Pages open in a real browser without a complaint, nothing cut off: phone and desktop, light and dark."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

import sparselens as sl
from browser import SCHEMES, SIZES, browsing, find_browser
from code_blocks import ROOT
from command_line import command
from helpers import sparse_rows
from sparselens.cli.demo import demo_page
from sparselens.experiments.demo import DemoResult
from sparselens.experiments.paper import EXPERIMENTS
from sparselens.experiments.plan import GAUSSIAN, LEARNED, Plan
from sparselens.experiments.plan_page import plan_page
from sparselens.experiments.report import build, to_html
from sparselens.experiments.store import read_rows

BROWSER = find_browser()
pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium or Chrome on the PATH (nor in SPARSELENS_BROWSER)")


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with browsing(BROWSER, tmp_path_factory.mktemp("profile")) as running:
        yield running


def look(browser, path, name):
    """Open a page in every size and colour scheme; keep the pictures where SPARSELENS_SCREENSHOTS asks for them."""
    visits = {}
    for size in SIZES:
        for scheme in SCHEMES:
            visit = browser.visit(path, size=size, scheme=scheme)
            visits[size, scheme] = visit
            if folder := os.environ.get("SPARSELENS_SCREENSHOTS"):
                Path(folder).mkdir(parents=True, exist_ok=True)
                (Path(folder) / f"{name}-{size}-{scheme}.png").write_bytes(visit.screenshot)
    return visits


def check(visits):
    """Nothing complained, nothing needs sideways scrolling, text is there, and dark is darker than light."""
    for (size, scheme), visit in visits.items():
        assert visit.complaints == [], f"{size}, {scheme}: {visit.complaints}"
        assert visit.width <= SIZES[size][0], f"{size}, {scheme}: the page is {visit.width} pixels wide"
        assert len(visit.text) > 100
    for size in SIZES:
        assert brightness(visits[size, "dark"]) < brightness(visits[size, "light"])


def brightness(visit):
    return sum(int(part) for part in re.findall(r"\d+", visit.background)[:3])


def write(folder, text):
    path = folder / "index.html"
    path.write_text(text, encoding="utf-8")
    return path


def test_the_demo_page_opens_without_a_complaint(browser, tmp_path):
    labels = ("Certificate", "ℓ1-AE", "LBCS", "Gaussian", "PCA")
    rows = [
        {"encoder": label, "m": m, "exact": min(1, i * m / 100), "rmse": 1 / (1 + i * m / 50), "n_rows": 500}
        for i, label in enumerate(labels)
        for m in (10, 20, 30, 40, 50, 60, 70)
    ]
    pairs = [(100 + j, 0.3) for j in range(10)]
    example = {"m": 20, "d": 1000, "truth": pairs, "recovered": dict.fromkeys(labels, pairs)}
    check(look(browser, write(tmp_path, demo_page(DemoResult(rows, example), seed=0)), "demo"))


def test_the_report_opens_without_a_complaint(browser, tmp_path):
    rows = read_rows([ROOT / "benchmarks" / "results" / "paper.jsonl"])
    sections = build([EXPERIMENTS[name] for name in ("fig2", "table2-left", "fig-toy")], rows)
    visits = look(browser, write(tmp_path, to_html(sections)), "report")
    check(visits)
    assert "Ten algorithms on six data sets" in visits["phone", "light"].text


def test_the_page_of_a_plan_opens_without_a_complaint(browser, tmp_path):
    points = [
        {"encoder": label, "m": m, "exact": exact, "low": exact - 0.01, "high": min(1, exact + 0.01)}
        | {"n_rows": 1200, "rmse": 1 - exact, "certified": 1.0, "seconds": 3.0}
        for label, curve in ((GAUSSIAN, ((40, 0.1), (57, 0.8), (74, 1.0))), (LEARNED, ((10, 1.0), (20, 1.0))))
        for m, exact in curve
    ]
    plan = Plan(
        target=0.99,
        answers={GAUSSIAN: 74, LEARNED: 10},
        factor=7.4,
        structure=True,
        verdict="structure found; learning is worth it: 10 measurements do what 74 random ones do.",
        rows=points,
        sizes={"train": 3600, "valid": 1200, "held_out": 1200, "columns": 1000},
        max_measurements=500,
    )
    check(look(browser, write(tmp_path, plan_page(plan, "rows.npz")), "plan"))


def test_the_page_of_a_model_opens_without_a_complaint(browser, tmp_path):
    X = sparse_rows(80, 60, 3, seed=0)
    enc = sl.L1AE(6, n_steps=3, max_epochs=4, validation_interval=1, device="cpu", random_state=0).fit(X)
    enc.save(tmp_path / "model")
    assert command("inspect", tmp_path / "model", "-o", tmp_path / "model.html").code == 0
    check(look(browser, tmp_path / "model.html", "model"))


SITE = ROOT / "docs" / "_build" / "html"


@pytest.mark.skipif(not (SITE / "index.html").exists(), reason="the site is not built: run `make docs` first")
@pytest.mark.parametrize("page", ["index", "start", "idea", "choose", "paper", "cli", "gallery/index"])
def test_a_page_of_the_site_opens_without_a_complaint(browser, page):
    check(look(browser, SITE / f"{page}.html", page.replace("/", "-")))


# ---- the check itself ---------------------------------------------------------------------------------------


def test_the_check_sees_what_a_page_does_wrong(browser, tmp_path):
    bad = {
        "console.error": "<script>console.error('this went wrong')</script>",
        "nosuch is not defined": "<script>nosuch()</script>",
        "ERR_FILE_NOT_FOUND": '<img src="missing.png">',
    }
    head = '<!doctype html><meta name="viewport" content="width=device-width, initial-scale=1">'
    for what, body in bad.items():
        visit = browser.visit(write(tmp_path, head + body), size="phone")
        assert visit.complaints, what
    wide = browser.visit(write(tmp_path, head + '<div style="width: 900px">wide</div>'), size="phone")
    assert wide.width >= 900
    assert browser.visit(write(tmp_path, head + "<p>well</p>"), size="phone").complaints == []
