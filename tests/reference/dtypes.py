"""Dtypes that most tests of kernels take."""

import numpy as np
import pytest

#: Every kernel is compiled once for each dtype: float32 runs with the deep tests.
DTYPES = [pytest.param(np.float32, marks=pytest.mark.deep), np.float64]
