"""Scores that differ by rounding errors are ties."""

import numpy as np
import pytest

from skcrbm.utils.fitting import is_better


@pytest.mark.parametrize("reference", [0.0, 1e-3, -0.7, 250.0, -1e6])
def test_rounding_errors_are_ties(reference):
    size = max(1.0, abs(reference))
    for noise in (0.0, 1e-15, 1e-12):
        assert not is_better(reference + noise * size, reference)
        assert not is_better(reference - noise * size, reference)
    assert is_better(reference + 1e-6 * size, reference)
    assert not is_better(reference - 1e-6 * size, reference)


def test_infinite_scores_and_nan():
    assert is_better(-1e300, -np.inf)
    assert not is_better(-np.inf, -np.inf)
    assert not is_better(-np.inf, 3.0)
    assert not is_better(np.nan, 3.0)
