import os

import pytest
from hypothesis import settings

# The same examples in every run, and no time limit: the first call may compile.
settings.register_profile("reproducible", derandomize=True, deadline=None)
settings.load_profile("reproducible")

JIT_DISABLED = os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")


def pytest_collection_modifyitems(items):
    if not JIT_DISABLED:
        return
    skip = pytest.mark.skip(reason="needs compiled kernels, and NUMBA_DISABLE_JIT is set")
    for item in items:
        if "compiled" in item.keywords:
            item.add_marker(skip)
