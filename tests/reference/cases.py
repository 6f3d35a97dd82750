"""Cases of a test that run with the slow tests only."""

import pytest


def deep(*values):
    """A case of a test that `.ci/run` and ``pytest -m deep`` run."""
    return pytest.param(*values, marks=pytest.mark.deep)


def deep_except(quick, cases):
    """All cases, each a single value; the cases in `quick` run with the quick tests."""
    return [case if case in quick else deep(case) for case in cases]
