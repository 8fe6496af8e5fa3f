"""The code in the README and on the first pages of the docs runs as it stands."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = ("docs/start.md", "docs/decoding.md")  # the README has a test of its own


def python_blocks(page):
    return re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), flags=re.DOTALL)


@pytest.mark.parametrize("page", PAGES)
def test_the_code_of_a_page_runs(page, tmp_path, monkeypatch, capsys):
    import numpy as np

    import sparselens as sl

    monkeypatch.chdir(tmp_path)
    blocks = python_blocks(page)
    assert blocks
    A = sl.GaussianEncoder(n_components=8, random_state=0).fit(np.eye(20)).components_
    names = {"sl": sl, "A": A, "Y": A.T[:3]}  # what the pages about decoding take as given
    for block in blocks:
        exec(compile(block, page, "exec"), names)


def test_the_readme_promises_what_its_code_gives(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    exec(compile(python_blocks("README.md")[0], "README.md", "exec"), {})
    printed = capsys.readouterr().out
    assert "2,000 certified" in printed
    assert "100.00% exact (1e-10)" in printed
    assert (tmp_path / "model" / "manifest.json").exists()


def test_links_in_the_readme_lead_somewhere():
    for target in re.findall(r"\]\(((?!http)[^)#]+)", (ROOT / "README.md").read_text(encoding="utf-8")):
        assert (ROOT / target).exists(), target


def test_the_api_page_lists_every_public_name():
    import sparselens

    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    missing = [name for name in sparselens._PUBLIC if not re.search(rf"^\s+{name}$", page, flags=re.MULTILINE)]
    assert missing == []
