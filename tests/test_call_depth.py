"""A reader of a fit or a prediction has few files to follow: see `tests.trace_calls`."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
# The numbers may fall and must not rise.
LIMITS = {
    "crbm_fit": {"files": 34, "climbs": 7, "hops": 10},
    "crbm_predict": {"files": 17},
    "mrf_fit": {"files": 28},
    "lmbm_fit": {"files": 27},
}


@pytest.fixture(scope="module")
def counts():
    """The table of the program, from a fresh process: modules and kernels load once."""
    run = subprocess.run(
        [sys.executable, "-m", "tests.trace_calls"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    head, *lines = (line.split() for line in run.stdout.splitlines())
    return {name: dict(zip(head[1:], map(int, values))) for name, *values in lines}


@pytest.mark.deep
@pytest.mark.compiled
@pytest.mark.parametrize("call", LIMITS)
def test_few_files_climbs_and_hops(counts, call):
    found = {kind: counts[call][kind] for kind in LIMITS[call]}
    assert all(found[kind] <= most for kind, most in LIMITS[call].items()), found
