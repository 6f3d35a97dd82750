"""Sphinx configuration: ``sphinx-build doc doc/_build``."""

from skcrbm import __version__

project = "skcrbm"
author = "the skcrbm developers"
release = __version__
extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
]
numpydoc_show_class_members = False
autosummary_generate = True
myst_heading_anchors = 3
# The tables are parts of pages.
exclude_patterns = ["_build", "*_tables.md", "learning_rules_multilabel.md"]
html_theme = "alabaster"
