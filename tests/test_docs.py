"""Every code block of the README and the docs runs as it stands, and every command that they name exists."""

from __future__ import annotations

import ast
import re
import shlex
import warnings
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import typer.main

import sparselens as sl
from code_blocks import ROOT, Block, blocks, commands, pages, prints, run
from sparselens.recovery import DataNotFoundError

# Pages that promise figures train as long as they say; on the others training is cut short: what is tested is that
# the code runs.
IN_FULL = ("docs/start.md", "docs/idea.md")
SHORT = {"L1AE": {"max_epochs": 1}, "ISTAAE": {"max_epochs": 1}, "CertificateEncoder": {"max_steps": 24}}

# The blocks that are never run, with the number of them on each page: adding one is a decision.
NOT_RUN = {"docs/extend.md": 1}

WITH_CODE = [page for page in pages() if any(block.language == "python" for block in blocks(page))]
WITH_CODE.remove("README.md")  # which has a test of its own


def cut_short(monkeypatch, cls, limits):
    """Let `fit` see smaller limits than the page asks for, and put the page's own back."""
    learn = cls._learn

    def learn_a_little(self, *args):
        asked = {name: getattr(self, name) for name in limits}
        vars(self).update({name: min(value, limits[name]) for name, value in asked.items()})
        try:
            return learn(self, *args)
        finally:
            vars(self).update(asked)

    monkeypatch.setattr(cls, "_learn", learn_a_little)


def given():
    """What the pages about decoding take as given: the package, a matrix and measurements."""
    A = sl.GaussianEncoder(n_components=8, random_state=0).fit(np.eye(20)).components_
    return {"sl": sl, "A": A, "Y": A.T[:3].copy(), "__name__": "a_page"}


def write_files():
    """The files that the pages read: your own rows, and texts with labels."""
    two = np.random.default_rng(0).integers(0, 15, size=(300, 2))
    sp.save_npz("mine.npz", sp.csr_array(np.hstack([np.eye(15)[two[:, 0]], np.eye(15)[two[:, 1]]])))
    for name in ("train.txt", "test.txt"):
        lines = [f"{i % 6} {i % 6}:1 {6 + i % 5}:1" for i in range(60)]
        Path(name).write_text("\n".join(["60 11 6", *lines]) + "\n")


def lacking(block: Block) -> str | None:
    """Why a block cannot be run here."""
    if block.mark == "not run":
        return block.note
    if block.mark == "needs data":
        try:
            sl.load_dataset(block.note, sizes=(1, 1, 1))
        except DataNotFoundError:
            return f"the data set {block.note!r} is not under SPARSELENS_DATA"
    return None


@pytest.mark.parametrize("page", WITH_CODE)
def test_the_code_of_a_page_runs_and_prints_what_the_page_shows(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_files()
    if page not in IN_FULL:
        for name, limits in SHORT.items():
            cut_short(monkeypatch, getattr(sl, name), limits)
    names, printed = given(), None
    for block in blocks(page):
        if block.language == "python" and lacking(block) is None:
            printed = run(block, names)
        elif block.language == "text" and block.follows and printed is not None:
            assert prints(block.code, printed), f"{block} shows\n{block.code}\nbut the code prints\n{printed}"
            printed = None
        else:
            printed = None


MARKED = [block for page in pages() for block in blocks(page) if block.mark is not None]


@pytest.mark.parametrize("block", MARKED, ids=str)
def test_a_block_that_was_left_out_says_why(block):
    assert block.note
    assert block.language == "python"
    if reason := lacking(block):
        pytest.skip(reason)  # so that the summary of a run counts it


def test_no_block_is_left_out_unseen():
    found = {page: sum(b.mark == "not run" for b in blocks(page)) for page in pages()}
    assert {page: count for page, count in found.items() if count} == NOT_RUN


def test_the_check_sees_a_difference_and_a_mark(tmp_path, monkeypatch):
    monkeypatch.setattr("code_blocks.ROOT", tmp_path)
    (tmp_path / "page.md").write_text(
        "Text.\n\n```python\nprint(6 * 7, 0.5)\n```\n\n```text\n42 ...\n```\n\n"
        "<!-- not run: no time -->\n```python\n1 / 0\n```\n1. item\n\n   ```python\n   a = 1\n   ```\n"
    )
    first, shown, left_out, indented = blocks("page.md")
    assert prints(shown.code, run(first, {}))
    assert not prints("43 ...", run(first, {}))
    assert (left_out.mark, left_out.note) == ("not run", "no time")
    assert indented.code == "a = 1\n"
    assert str(first) == "page.md:3"
    assert (shown.follows, left_out.follows, indented.follows) == (True, True, False)


def test_the_readme_promises_what_its_code_gives(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = next(block for block in blocks("README.md") if block.language == "python")
    printed = run(code, {})
    assert "2,000 certified" in printed
    assert "100.00% exact (1e-10)" in printed
    assert (tmp_path / "model" / "manifest.json").exists()


# ---- commands -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def program():
    from sparselens.cli.main import app

    return typer.main.get_command(app)


def parse(command, node):
    """Fail where the program does not know the command or an option; no path need exist."""
    words = shlex.split(command)[1:]
    while hasattr(node, "commands"):
        known = [word for word in words if not word.startswith("-")]
        assert known, f"{command!r} ends before a command"
        assert known[0] in node.commands, f"{command!r}: there is no command {known[0]!r}"
        words = words[words.index(known[0]) + 1 :]
        node = node.commands[known[0]]
    options = {name for parameter in node.params for name in (*parameter.opts, *parameter.secondary_opts)}
    options |= {"-h", "--help"}
    for word in words:
        if word.startswith("-") and not re.fullmatch(r"-[\d.]+", word):
            assert word.split("=")[0] in options, f"{command!r}: there is no option {word}"


@pytest.mark.parametrize(("block", "command"), list(commands()), ids=lambda value: str(value)[:60])
def test_a_command_that_a_page_names_exists(block, command, program):
    first, *words = shlex.split(command)
    if first == "sparselens":
        parse(command, program)
    elif first == "make":
        targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
        assert {word for word in words if "=" not in word} <= set(targets), f"{block}: {command}"
    elif first in ("python", "torchrun") or first.endswith("python"):
        scripts = [word for word in words if word.endswith(".py") and "/" in word]
        assert all((ROOT / script).exists() for script in scripts), f"{block}: {command}"


def test_the_check_of_commands_refuses_what_is_not_there(program):
    parse("sparselens data info amazon", program)
    with pytest.raises(AssertionError, match="there is no command 'dta'"):
        parse("sparselens dta list", program)
    with pytest.raises(AssertionError, match="there is no option --rowz"):
        parse("sparselens demo --rowz 5", program)


# ---- links, names, examples ---------------------------------------------------------------------------------


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(((?!http)[^)#]+)", (ROOT / page).read_text(encoding="utf-8")):
        assert (ROOT / target).exists(), target


@pytest.mark.parametrize("page", [page for page in pages() if page.startswith("docs/")])
def test_no_formula_begins_with_an_exponent(page):
    """What MathML has no way to write ends the build of the site: the base belongs into the formula."""
    text = re.sub(r"```.*?```|`[^`\n]*`", "", (ROOT / page).read_text(encoding="utf-8"), flags=re.DOTALL)
    formulas = re.findall(r"(?<!\$)\$([^$\n]+)\$(?!\$)", text)
    assert [formula for formula in formulas if formula.lstrip()[0] in "^_"] == []


@pytest.mark.parametrize("page", [page for page in pages() if page.startswith("docs/")])
def test_every_picture_of_a_page_is_there(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    for target in re.findall(r"!\[[^]]*\]\(([^)]+)\)|```\{image\} (\S+)", text):
        path = next(filter(None, target))
        drawn = path.startswith("pictures/")  # by docs/_pictures.py when the site is built
        assert drawn or (ROOT / page).parent.joinpath(path).exists(), f"{page} shows {path}, which is not there"


def test_every_page_is_reached_from_the_index():
    text = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    trees = re.findall(r"```\{toctree\}\n(.*?)```", text, flags=re.DOTALL)
    listed = {line for tree in trees for line in tree.splitlines() if line and not line.startswith(":")}
    there = {Path(page).stem for page in pages() if page.startswith("docs/")} - {"index"}
    assert listed == there | {"gallery/index"}


def test_the_api_page_lists_every_public_name():
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    missing = [name for name in sl._PUBLIC if not re.search(rf"^\s+{name}$", page, flags=re.MULTILINE)]
    assert missing == []


def test_the_page_of_the_architecture_names_every_module_and_only_files_that_exist():
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    modules = {path.stem for path in (ROOT / "src" / "sparselens").iterdir() if not path.name.startswith("_")}
    assert [name for name in sorted(modules) if f"`{name}`" not in page] == []
    files = {path.name for path in ROOT.rglob("*.py") if ".venv" not in path.parts}
    named = {name.split("/")[-1] for name in re.findall(r"`([\w/]+\.py)`", page)}
    assert named - files == {"plot_NN_name.py"}


EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_of_the_gallery_is_drawn_and_uses_names_that_exist(path):
    """`make docs` runs the examples; here a renamed class or a forgotten picture is found in a second."""
    source = path.read_text(encoding="utf-8")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tree = ast.parse(source)
    assert path.name.startswith("plot_")  # or the gallery would not run it
    assert source.rstrip().endswith("plt.show()")
    title, line = ast.get_docstring(tree).splitlines()[:2]
    assert len(title) == len(line)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "sl":
            assert hasattr(sl, node.attr), f"sparselens has no {node.attr}"
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "sparselens":
            module = __import__(node.module, fromlist=["_"])
            assert all(hasattr(module, alias.name) for alias in node.names)
    for target in re.findall(r":doc:`(?:[^<`]*<)?(plot_\w+)", source):
        assert (path.parent / f"{target}.py").exists(), target


def test_the_gallery_has_its_dozen():
    assert 8 <= len(EXAMPLES) <= 12
