"""The examples in docstrings run and print the shown output; each public object has an example."""

import doctest
import importlib
import inspect
import pkgutil
import re
from pathlib import Path

import numpy as np
import pytest

import skcrbm

MODULES = [m.name for m in pkgutil.walk_packages(skcrbm.__path__, "skcrbm.") if not m.ispkg]
REFERENCE = Path(__file__).parents[1] / "doc" / "api.md"
PUBLIC = re.findall(r"^ +(skcrbm\.[\w.]+)$", REFERENCE.read_text(encoding="utf-8"), re.MULTILINE)
# Results that users get from functions, which have the examples, and never construct.
RESULTS = {
    "skcrbm.energies.UAIProblem",
    "skcrbm.inference.InferenceResult",
    "skcrbm.metrics.MultilabelReport",
}


def documented(name):
    """Return the object of a name in the API reference."""
    module, _, attribute = name.rpartition(".")
    return getattr(importlib.import_module(module), attribute)


@pytest.mark.deep
@pytest.mark.parametrize("name", MODULES)
def test_examples(name):
    matplotlib = pytest.importorskip("matplotlib")  # drawn by some; in the tests extra
    matplotlib.use("Agg")
    module = importlib.import_module(name)
    with np.printoptions():
        result = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert result.failed == 0


@pytest.mark.parametrize("name", sorted(set(PUBLIC) - RESULTS))
def test_every_public_docstring_has_an_example(name):
    public = documented(name)
    # Found in the module, as `test_examples` has it: an example that is not found does not fail.
    tests = doctest.DocTestFinder().find(importlib.import_module(public.__module__))
    examples = {test.name: test.examples for test in tests}
    assert examples[f"{public.__module__}.{public.__qualname__}"]


def test_the_reference_was_read():
    assert {"skcrbm.CRBMClassifier", "skcrbm.inference.infer", *RESULTS} <= set(PUBLIC)
    for name in RESULTS:
        assert documented(name).__doc__


@pytest.mark.parametrize("name", sorted(set(PUBLIC)))
def test_no_description_is_taken_for_a_numbered_list(name):
    """A line "W." is number 23 of a list without text, of which a page shows nothing."""
    lines = inspect.getdoc(documented(name)).splitlines()
    assert [line for line in lines if re.match(r"\s*[A-Za-z]\.(\s|$)", line)] == []
