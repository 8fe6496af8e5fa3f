"""Pages open in a real browser without a complaint, nothing cut off: phone and desktop, light and dark."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from browser import SCHEMES, SIZES, browsing, find_browser
from code_blocks import ROOT
from sparselens.cli.demo import demo_page
from sparselens.experiments.demo import DemoResult

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


SITE = ROOT / "docs" / "_build" / "html"


@pytest.mark.skipif(not (SITE / "index.html").exists(), reason="the site is not built: run `make docs` first")
@pytest.mark.parametrize("page", ["index", "start", "idea", "choose", "certificate", "benchmarks", "gallery/index"])
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
