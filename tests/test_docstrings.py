"""The examples in docstrings run and print what they say."""

import doctest
import importlib
import pkgutil

import numpy as np
import pytest

import skcrbm

MODULES = [m.name for m in pkgutil.walk_packages(skcrbm.__path__, "skcrbm.") if not m.ispkg]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name):
    matplotlib = pytest.importorskip("matplotlib")  # drawn by some; in the tests extra
    matplotlib.use("Agg")
    module = importlib.import_module(name)
    with np.printoptions():
        result = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert result.failed == 0
