"""Sphinx configuration: everything is built offline from the installed package."""

from sparselens._version import __version__

project = "sparselens"
author = "The sparselens developers"
copyright = author  # noqa: A001 - the name that Sphinx reads
release = version = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "numpydoc",
]
myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 3
autosummary_generate = True
autodoc_typehints = "none"
numpydoc_show_class_members = False
exclude_patterns = ["_build"]
templates_path: list[str] = []

html_theme = "furo"
html_title = "sparselens"
html_static_path: list[str] = []
