import os
from collections import Counter, defaultdict

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


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Give each worker a contiguous part of the tests; a worker without work takes from another.

    Workers that share the tests of a file would compile the same kernels at the same time, and
    each of them would compute the fixtures of the file.
    """
    from xdist.scheduler import WorkStealingScheduling

    return WorkStealingScheduling(config, log) if config.getvalue("dist") == "load" else None


def pytest_addoption(parser):
    parser.addoption(
        "--every",
        type=int,
        default=1,
        metavar="N",
        help="run the first case of each test function, and every N-th case after it",
    )


def _mark_deep_cases(items):
    """Mark the cases that `quick_cases` leaves out of the quick tests as deep."""
    cases = defaultdict(list)
    for item in items:
        if item.get_closest_marker("quick_cases"):
            cases[item.nodeid.split("[")[0]].append(item)
    for same_function in cases.values():
        (n_quick,) = same_function[0].get_closest_marker("quick_cases").args
        step = max(1, len(same_function) / n_quick)
        quick = {int(i * step) for i in range(n_quick)}
        for i, item in enumerate(same_function):
            if i not in quick:
                item.add_marker(pytest.mark.deep)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(config, items):
    _mark_deep_cases(items)
    yield  # pytest leaves out the tests that `-m` does not select
    every = config.getoption("--every")
    if every > 1:
        n_cases = Counter()
        kept, left_out = [], []
        for item in items:
            function = item.nodeid.split("[")[0]
            (left_out if n_cases[function] % every else kept).append(item)
            n_cases[function] += 1
        items[:] = kept
        config.hook.pytest_deselected(items=left_out)
    if not JIT_DISABLED:
        return
    skip = pytest.mark.skip(reason="needs compiled kernels, and NUMBA_DISABLE_JIT is set")
    for item in items:
        if "compiled" in item.keywords:
            item.add_marker(skip)
