import os

if "PYTEST_XDIST_WORKER" in os.environ:  # before NumPy is imported
    # Each worker gets its share of the processors: more threads would wait for each other.
    share = max(1, (os.cpu_count() or 1) // int(os.environ["PYTEST_XDIST_WORKER_COUNT"]))
    os.environ.setdefault("OMP_NUM_THREADS", str(share))

import numpy as np
import pytest
from hypothesis import settings

# The same examples in every run, and no time limit: the first call may compile.
settings.register_profile("reproducible", derandomize=True, deadline=None)
settings.load_profile("reproducible")

JIT_DISABLED = os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")


@pytest.fixture(autouse=True)
def same_draws_in_every_run():
    """Models without `random_state` draw from NumPy's global generator."""
    np.random.seed(0)  # noqa: NPY002


def pytest_collection_modifyitems(items):
    if not JIT_DISABLED:
        return
    skip = pytest.mark.skip(reason="needs compiled kernels, and NUMBA_DISABLE_JIT is set")
    for item in items:
        if "compiled" in item.keywords:
            item.add_marker(skip)
