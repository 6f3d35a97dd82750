"""How often the decorator of kernels compiles a function."""

import re
from collections import Counter

import numba
import numpy as np
import pytest
from numba.core import event

from skcrbm.kernels.bits import bits_of, from_bits
from skcrbm.kernels.jit import jit

pytestmark = pytest.mark.compiled


@jit
def power(x, k):
    result = 1.0
    for _ in range(k):
        result *= x
    return result


@jit
def powers(x):
    total = power(x[0], 0) + power(x[1], 1)
    k = 2
    while k < x.shape[0]:
        total += power(x[k], k)
        k += 1
    return total


class Listener(event.Listener):
    def __init__(self):
        self.compiled = Counter()

    def on_start(self, event):
        self.compiled[event.data["dispatcher"].py_func] += 1

    def on_end(self, event):
        pass


def test_a_function_is_compiled_once_for_literals_and_other_integers(monkeypatch):
    monkeypatch.setattr(powers._cache, "load_overload", lambda *_: None)
    listener = Listener()
    with event.install_listener("numba:compile", listener):
        assert powers(np.arange(2.0, 6.0)) == 1 + 3 + 4**2 + 5**3
    assert listener.compiled[power.py_func] == 1
    assert listener.compiled[powers.py_func] == 1


HALVES = np.array([0.5, 1.5])


@jit
def least_and_largest(x, out):
    for i in range(x.shape[0]):
        low = x[i]
        high = x[i]
        for k in range(HALVES.shape[0]):
            value = HALVES[k]
            low = min(low, value)
            high = max(value, high)
        out[i, 0] = low
        out[i, 1] = high
        out[i, 2] = max(i, 1) + min(x[i], high)


def test_min_and_max_are_no_functions_of_their_own(monkeypatch):
    """They keep Python's rule for NaN: max(a, b) is a unless b > a."""
    monkeypatch.setattr(least_and_largest._cache, "load_overload", lambda *_: None)
    x = np.array([0.0, 1.0, 2.0, np.nan, -np.inf])
    found, expected = np.empty((5, 3)), np.empty((5, 3))
    listener = Listener()
    with event.install_listener("numba:compile", listener):
        least_and_largest(x, found)
    assert set(listener.compiled) == {least_and_largest.py_func}
    least_and_largest.py_func(x, expected)
    np.testing.assert_array_equal(found, expected)


@jit
def there_and_back(x, out):
    for i in range(x.shape[0]):
        out[i] = bits_of(x[i])
        x[i] = from_bits(out[i])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_bits_of_numbers(dtype):
    x = np.array([0.0, -0.0, 1.5, np.nan, np.inf, -3e-40], dtype)
    again = x.copy()
    bits = np.empty(6, f"i{x.itemsize}")
    there_and_back(again, bits)
    np.testing.assert_array_equal(bits, x.view(bits.dtype))
    np.testing.assert_array_equal(bits, [bits_of(number) for number in x])
    np.testing.assert_array_equal(again.view(bits.dtype), bits)
    np.testing.assert_array_equal([from_bits(number) for number in bits], x)


@jit
def add_up(x, y):
    total = 0.0
    for i in range(x.shape[0]):
        total += x[i]
    if y is not None:
        for i in range(y.shape[0]):
            total += y[i]
    return total


def test_an_argument_may_be_none():
    x = np.arange(4.0)
    assert add_up(x, None) == 6.0
    assert add_up(x, x) == 12.0


@jit
def double(x, out):
    for i in range(x.shape[0]):
        out[i] = 2 * x[i]


@jit
def double_twice(x, out):
    double(x, out)
    double(out, out)


def test_a_function_that_fills_an_array_from_others_stays_a_function(monkeypatch):
    """A copy of its body in each caller would have to be compiled, too."""
    monkeypatch.setattr(double_twice._cache, "load_overload", lambda *_: None)
    x, out = np.arange(4.0), np.empty(4)
    double_twice(x, out)
    np.testing.assert_array_equal(out, 4 * x)
    [code] = double_twice.inspect_llvm().values()
    assert re.search(r"define [^\n]*6double\w*\(", code)


@numba.njit
def sum_of_powers(x):
    return power(x[0], 2) + powers(x)


def test_functions_of_users_may_call_kernels():
    assert sum_of_powers(np.arange(2.0, 6.0)) == 4 + 1 + 3 + 4**2 + 5**3
