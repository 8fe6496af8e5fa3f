"""Sphinx configuration: everything is built offline from the installed package, on one thread."""

import os
import sys
from pathlib import Path

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")  # before numpy or torch is imported; the gallery trains small matrices

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))  # the two small extensions beside this file

from sparselens._version import __version__  # noqa: E402 - after the environment is set

project = "sparselens"
author = "The sparselens developers"
copyright = author  # noqa: A001 - the name that Sphinx reads
release = version = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
    "_mathml",
    "_pictures",
]
html_math_renderer = "mathml"
myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 3
autosummary_generate = True
autodoc_typehints = "none"
numpydoc_show_class_members = False
exclude_patterns = ["_build"]
templates_path = ["_templates"]
suppress_warnings = ["config.cache"]  # sphinx_gallery_conf holds a function; the build does not need that cache


def _one_thread(gallery_conf: dict, name: str) -> None:
    import torch

    torch.set_num_threads(1)


sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"plot_",
    "reset_modules": ("matplotlib", _one_thread),
    "abort_on_example_error": False,
    "only_warn_on_example_error": True,  # a warning, which `make docs` turns into an error after the whole build
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "plot_gallery": "True",
    "min_reported_time": 60,
    "write_computation_times": False,
    "remove_config_comments": True,
    "image_srcset": ["2x"],
    "doc_module": ("sparselens",),
    "backreferences_dir": "gallery/backreferences",
}

html_theme = "furo"
html_title = "sparselens"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_theme_options = {"navigation_with_keys": True}


def _only_ours(app: object, what: str, name: str, value: object, skip: bool, options: object) -> bool | None:
    """Leave out what scikit-learn and the standard library add to our classes (get_params, set_output, ...)."""
    module = getattr(value, "__module__", None) or getattr(getattr(value, "fget", None), "__module__", None) or ""
    return True if module.split(".")[0] in ("sklearn", "enum", "builtins") else None


def setup(app: object) -> None:
    app.connect("autodoc-skip-member", _only_ours)  # type: ignore[attr-defined]
