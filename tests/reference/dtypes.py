"""Dtypes with which most tests of kernels run."""

import os

import numpy as np
import pytest

_COMPILED = os.environ.get("NUMBA_DISABLE_JIT", "0") in ("", "0")


def float32_test(test):
    """Mark a test that runs kernels for float32: deep, because it compiles them once more."""
    return pytest.mark.deep(test) if _COMPILED else test


DTYPES = [pytest.param(np.float32, marks=[pytest.mark.deep] if _COMPILED else []), np.float64]
