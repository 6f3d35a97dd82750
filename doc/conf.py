"""Sphinx configuration: ``sphinx-build -W -n doc doc/_build``.

Environment variables:

``SKCRBM_GALLERY``
    "all" (default) runs every example of the gallery; "quick" runs those that need neither data
    nor more than a few seconds, and shows the others as text.
``SKCRBM_INTERSPHINX``
    "online" takes the inventories of other projects from their sites. By default a build uses no
    network: the short lists in ``doc/inventories`` hold the names that our pages cite. A name that
    is missing there is a warning, and so an error of a build with ``-W -n``.

MathJax draws the formulas in the reader's browser.
"""

import importlib
import inspect
import os
import tempfile
import tomllib
import warnings
import zlib
from pathlib import Path

import matplotlib
from sphinx_gallery.sorting import ExplicitOrder

from skcrbm import __version__
from skcrbm.utils.options import Options

matplotlib.use("Agg")
HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
with (ROOT / "pyproject.toml").open("rb") as file:
    URLS = tomllib.load(file)["project"]["urls"]

project = "skcrbm"
author = "the skcrbm developers"
copyright = "2026, the skcrbm developers, BSD 3-Clause licence"
release = version = __version__
extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "sphinx.ext.mathjax",
    # Links to the lines of the public repository, if pyproject.toml names it; else to a copy of the
    # sources in the site.
    "sphinx.ext.linkcode" if "Source" in URLS else "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
# A line per parameter in long signatures, which the style sheet puts into a box that scrolls.
maximum_signature_line_length = 88
templates_path = ["_templates"]
# These tables are parts of pages.
exclude_patterns = [
    "_build",
    "inventories",
    "crbm_figures.md",
    "crbm_tables.md",
    "layered_tables.md",
    "lmbm_tables.md",
    "learning_rules_multilabel.md",
    "margin_settings.md",
    "persistent_messages.md",
    "pmp_tables.md",
    "rule_settings.md",
    "inference_in_learning.md",
]
nitpicky = True

# --- pages -------------------------------------------------------------------------------------

myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 3
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

# --- reference ---------------------------------------------------------------------------------

numpydoc_show_class_members = False  # doc/_templates/autosummary/class.rst lists them
# The docstrings describe the types, with shapes; annotations would repeat them.
autodoc_typehints = "none"
autosummary_generate = True
toc_object_entries_show_parents = "hide"
default_role = "literal"


def own_members(module, name, members):
    """Return the methods and properties of a class to document, without scikit-learn's members.

    Class attributes that are neither are internal settings. The methods of options objects are for
    the library; users read and set their options.
    """
    cls = getattr(importlib.import_module(module), name)
    if issubclass(cls, Options):
        return []
    found = []
    for member in members:
        home = next((c for c in cls.__mro__ if member in vars(c)), None)
        if home is None or not home.__module__.startswith("skcrbm.") or member == "__init__":
            continue
        if getattr(getattr(cls, member), "__doc__", None) and not isinstance(
            vars(home)[member], (str, int, frozenset, tuple)
        ):
            found.append(member)
    return found


autosummary_context = {"own_members": own_members}
suppress_warnings = ["config.cache"]  # the function above is not pickled


def linkcode_resolve(domain, info):
    """Return the address of an object in the public repository: file and lines at this version."""
    if domain != "py" or not info["module"]:
        return None
    found = importlib.import_module(info["module"])
    for name in info["fullname"].split("."):
        found = getattr(found, name, None)
    found = inspect.unwrap(getattr(found, "fget", found))
    try:
        path = Path(inspect.getsourcefile(found)).resolve()
        lines, first = inspect.getsourcelines(found)
    except (OSError, TypeError):
        return None  # not written in Python, or an attribute
    if not path.is_relative_to(ROOT):
        return None  # inherited from another project
    lines = f"#L{first}-L{first + len(lines) - 1}"
    version_there = "main" if "dev" in release else f"v{release}"
    return f"{URLS['Source']}/blob/{version_there}/{path.relative_to(ROOT)}{lines}"


# --- other projects ----------------------------------------------------------------------------

SITES = {
    "python": "https://docs.python.org/3/",
    "numpy": "https://numpy.org/doc/stable/",
    "sklearn": "https://scikit-learn.org/stable/",
}


def packed_inventory(name):
    """Pack a list of ``doc/inventories`` for Sphinx: "name domain:role priority address title"."""
    listed = (HERE / "inventories" / f"{name}.txt").read_text(encoding="utf-8")
    head = (
        f"# Sphinx inventory version 2\n# Project: {name}\n# Version: \n"
        "# The remainder of this file is compressed using zlib.\n"
    )
    path = Path(tempfile.gettempdir()) / f"skcrbm_{os.getpid()}_{name}.inv"
    path.write_bytes(head.encode() + zlib.compress(listed.encode()))
    return str(path)


def inventory(name):
    """Return the inventory of a project: None for its site, or the path of our list."""
    online = os.environ.get("SKCRBM_INTERSPHINX") == "online"
    return None if online else packed_inventory(name)


intersphinx_mapping = {name: (site, inventory(name)) for name, site in SITES.items()}

# --- gallery -----------------------------------------------------------------------------------

QUICK = r"plot_(which_labels|bounds_on_log_z|pictures_of_a_fit|segment_image|network_file)"
quick_gallery = os.environ.get("SKCRBM_GALLERY", "all") == "quick"
sphinx_gallery_conf = {
    "examples_dirs": "../examples/gallery",
    "gallery_dirs": "auto_examples",
    "filename_pattern": QUICK if quick_gallery else "plot_",
    "abort_on_example_error": True,
    "backreferences_dir": "generated/backreferences",
    "doc_module": ("skcrbm",),
    "reference_url": {"skcrbm": None},
    "default_thumb_file": str(HERE / "_static" / "logo.png"),
    "image_srcset": ["2x"],
    "remove_config_comments": True,
    "show_memory": False,
    "write_computation_times": False,
    "min_reported_time": 0,
    "within_subsection_order": ExplicitOrder(
        [
            "plot_denoise_digits.py",
            "plot_which_labels.py",
            "plot_known_labels.py",
            "plot_segment_image.py",
            "plot_transitions.py",
            "plot_label_dependency.py",
            "plot_pictures_of_a_fit.py",
            "plot_fill_in_digits.py",
            "plot_network_file.py",
            "plot_bounds_on_log_z.py",
            "plot_chained_samples.py",
            "plot_perturbed_samples.py",
            "*",
        ]
    ),
}
# Figures are drawn without a window; the examples save theirs.
warnings.filterwarnings("ignore", message="FigureCanvasAgg is non-interactive")

# --- looks -------------------------------------------------------------------------------------

html_theme = "pydata_sphinx_theme"
html_title = "skcrbm"
html_logo = "_static/logo.svg"
html_favicon = "_static/logo.svg"
html_static_path = ["_static"]
html_css_files = ["skcrbm.css"]
html_show_sourcelink = False
html_theme_options = {
    "logo": {"text": "skcrbm"},
    "header_links_before_dropdown": 5,
    "show_prev_next": True,
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": ["sphinx-version", "theme-version"],
}
html_sidebars = {"index": [], "getting_started": [], "whats_new": [], "citing": []}
