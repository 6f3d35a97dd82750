"""The functions of the vector loops, against NumPy's in twice the precision."""

import numpy as np
import pytest
from reference.dtypes import DTYPES

from skcrbm.kernels import exponentials


def message(w, x):
    """``sp(w + x) - sp(x)``, in long double."""
    w, x = np.longdouble(w), np.longdouble(x)
    tail = np.log1p(np.exp(-abs(x)))
    on, off = w + np.minimum(x, 0) - tail, -np.maximum(x, 0) - tail
    return np.logaddexp(on, off)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("coupling", "field"), [(1e-6, 1), (0.1, 1), (1, 3), (5, 5), (50, 50), (50, 1e3), (1e3, 1e3)]
)
def test_messages(dtype, coupling, field):
    """To one eps of 1 + |w|: of a message, or of a number near 1 where it is small."""
    rng = np.random.default_rng(0)
    w = rng.normal(0, coupling, 5000).astype(dtype)
    x = rng.normal(0, field, 5000).astype(dtype)
    w[:4], x[:8] = 0, np.repeat([0, -field], 4)
    found = x.copy()
    exponentials.log_messages(w, found, len(found))
    error = np.abs(found - message(w, x))
    assert (error <= np.finfo(dtype).eps * (1 + np.abs(w))).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("coupling", "field"), [(0.1, 1), (3, 3), (50, 50), (50, 1e3)])
def test_messages_of_signs(dtype, coupling, field):
    rng = np.random.default_rng(0)
    w = rng.normal(0, coupling, 5000).astype(dtype)
    x = rng.normal(0, field, 5000).astype(dtype)
    w[:4], x[:8] = 0, np.repeat([0, -field], 4)
    found = x.copy()
    exponentials.sign_messages(w, found, len(found))
    high, low = np.longdouble(w), np.longdouble(x)
    error = np.abs(found - np.logaddexp(high + low, 0) + np.logaddexp(high, low))
    assert (error <= np.finfo(dtype).eps * (1 + np.abs(w))).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_messages_of_huge_fields(dtype):
    """A message ends at its coupling, and nothing overflows."""
    w = np.array([1e30, -1e30, 3, -3, 3, -3, 1e30], dtype)
    x = np.array([1e30, -1e30, 1e30, 1e30, -1e30, -1e30, -1e30], dtype)
    exponentials.log_messages(w, x, len(x))
    expected = np.array([1e30, 0, 3, -3, 0, 0, np.log(2)], dtype)
    np.testing.assert_allclose(x, expected, rtol=np.finfo(dtype).eps)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.compiled
def test_bits_do_not_depend_on_the_place(dtype):
    """Bits are equal for elements of full vectors and for elements left over at the end."""
    rng = np.random.default_rng(1)
    w, x = rng.normal(0, 2, (2, 67)).astype(dtype)
    whole = x.copy()
    exponentials.log_messages(w, whole, 67)
    for first in range(67):
        for count in (1, 5, 67 - first):
            part = x[first:].copy()
            exponentials.log_messages(w[first:].copy(), part, min(count, 67 - first))
            kept = min(count, 67 - first)
            np.testing.assert_array_equal(part[:kept], whole[first : first + kept])
            np.testing.assert_array_equal(part[kept:], x[first + kept :])


@pytest.mark.parametrize("dtype", DTYPES)
def test_beliefs(dtype):
    limit = 80 if dtype == np.float32 else 700
    theta = np.r_[np.linspace(-limit, limit, 101), 0.0, 1e30, -np.inf, np.inf, 3.0].astype(dtype)
    free = np.ones(len(theta), bool)
    free[-1] = False
    t, u = np.zeros((2, len(theta)), dtype)
    change = exponentials.beliefs(theta, free, t, u)
    exact = np.longdouble(theta[:-1])
    with np.errstate(over="ignore"):
        rtol = 4 * np.finfo(dtype).eps
        np.testing.assert_allclose(t[:-1], 1 / (1 + np.exp(-exact)), rtol=rtol)
        np.testing.assert_allclose(u[:-1], 1 / (1 + np.exp(exact)), rtol=rtol)
    assert change == t.max() == 1.0
    assert t[-1] == u[-1] == 0.0  # held: as it was
    theta[3] = 0.5
    assert exponentials.beliefs(theta, free, t, u) == pytest.approx(1 / (1 + np.exp(-0.5)))
    theta[5] = np.nan
    assert np.isnan(exponentials.beliefs(theta, free, t, u))  # which is below no tolerance
    assert np.isnan(t[5])
    assert np.isnan(u[5])
