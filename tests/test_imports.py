"""Imports go downwards only, and ``import sparselens`` is light."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import sparselens as sl

ROOT = Path(sl.__file__).parent

# From the bottom to the top. A module may import from its own layer and from those above it in this list, which lie
# below it in the architecture; a new module is added to the lowest layer that has what it needs.
LAYERS: list[set[str]] = [
    {
        "_version",
        "_validation",
        "_random",
        "_files",
        "_parts",
        "recovery",
        "certificate",
        "_certificate_torch",
        "metrics",
        "sparsity",
    },
    {
        "data",
        "unroll",
        "train",
        "parallel",
        "persist",
        "_batches",
        "_checkpoint",
        "_closed_form",
        "_closed_form_many",
        "_closed_form_triton",
        "train_together",
        "_certificate_loss",
        "_training_kernels",
    },
    {"decoders", "lossless", "_block_work", "filejobs"},
    {"encoders"},
    {"xml"},
    {"experiments"},
    {"cli"},
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
TOP = len(LAYERS)  # the package itself, which hands out every public name

# Too slow, too large or too rarely needed to be loaded by everyone who imports the package.
HEAVY = ["torch", "numba", "sklearn", "scipy.optimize", "matplotlib", "highspy", "pandas", "typer", "dask", "triton"]


def module_names() -> dict[str, Path]:
    """Dotted name below the package -> file."""
    names = {}
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        names[".".join(part for part in parts if part != "__init__")] = path
    return names


def imported(source: str, name: str, *, is_package: bool = False) -> set[str]:
    """The modules of the package that a module imports, at any depth of its code: "" stands for the package."""
    own = ["sparselens", *filter(None, name.split("."))]
    package = own if is_package else own[:-1]
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *filter(None, [node.module])])
            if module == "sparselens":  # from sparselens import metrics: a module, or a public name of the package
                found |= {f"sparselens.{a.name}" if a.name in LEVEL else "sparselens" for a in node.names}
            else:
                found.add(module)
    return {m.removeprefix("sparselens").removeprefix(".") for m in found if m.split(".")[0] == "sparselens"}


def level_of(name: str) -> int:
    top = name.split(".")[0]
    if not top or top == "__main__":
        return TOP
    assert top in LEVEL, f"sparselens.{top} has no layer: add it to LAYERS in tests/test_imports.py"
    return LEVEL[top]


@pytest.mark.parametrize("name", module_names())
def test_imports_go_downwards_only(name):
    path = module_names()[name]
    for other in imported(path.read_text(), name, is_package=path.name == "__init__.py"):
        assert level_of(other) <= level_of(name), f"sparselens.{name} imports sparselens.{other}, which lies above it"


@pytest.mark.parametrize(
    ("source", "name", "expected"),
    [
        ("import sparselens.encoders.base", "decoders.l1", {"encoders.base"}),
        ("from sparselens.encoders import random", "decoders.l1", {"encoders"}),
        ("def f():\n    from sparselens.cli.main import app", "metrics", {"cli.main"}),
        ("if True:\n    import sparselens", "metrics", {""}),
        ("from sparselens import L1AE", "metrics", {""}),
        ("from sparselens import metrics, sparsity", "data.synthetic", {"metrics", "sparsity"}),
        ("from .base import BaseDecoder", "decoders.l1", {"decoders.base"}),
        ("from ..encoders.base import LinearEncoder", "decoders.l1", {"encoders.base"}),
        ("import numpy, sparselens_extra", "metrics", set()),
    ],
)
def test_the_check_sees_every_way_to_import(source, name, expected):
    assert imported(source, name) == expected


def test_the_check_refuses_an_import_from_above():
    assert level_of("encoders.base") > level_of("decoders.l1")
    assert level_of("") > level_of("cli.main")
    with pytest.raises(AssertionError, match="has no layer: add it to LAYERS"):
        level_of("utils")


# ---- the package --------------------------------------------------------------------------------------------


def run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_importing_the_package_loads_nothing_heavy(capsys):
    code = (
        "import sys, time; start = time.perf_counter(); import sparselens; took = time.perf_counter() - start\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules]); print(took)"
    )
    loaded, seconds = run(code).splitlines()
    with capsys.disabled():  # for information: a busy machine must not fail a test
        print(f" [import sparselens: {float(seconds):.3f} s]", end="")
    assert loaded == "[]"


@pytest.mark.parametrize(
    ("statement", "absent"),
    [
        ("sl.Status, sl.Recovery, sl.Sparse, sl.recovery_report", ["torch", "numba", "sklearn", "matplotlib"]),
        ("sl.GaussianEncoder, sl.PCAEncoder, sl.L1Decoder, sl.LinearDecoder", ["torch", "matplotlib", "highspy"]),
        ("sl.load", ["torch", "numba", "sklearn", "matplotlib"]),
    ],
)
def test_a_name_loads_only_what_it_needs(statement, absent):
    code = f"import sys, sparselens as sl; {statement}; print([name for name in {absent!r} if name in sys.modules])"
    assert run(code).strip() == "[]"


def test_dir_lists_every_public_name_once():
    names = dir(sl)
    assert names == sorted(set(names))
    assert {"GaussianEncoder", "L1Decoder", "load", "metrics", "__version__"} <= set(names)
    assert set(sl.__all__) == set(names)


@pytest.mark.parametrize("name", sl._PUBLIC)
def test_every_public_name_is_there_and_documented(name):
    value = getattr(sl, name)
    assert value is getattr(import_module(sl._PUBLIC[name]), name)
    assert value.__doc__


@pytest.mark.parametrize("name", sl._MODULES)
def test_every_public_module_is_there_and_documented(name):
    assert getattr(sl, name).__doc__


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'sparselens' has no attribute 'Gausian'"):
        sl.Gausian  # noqa: B018 - the look-up is what is tested
