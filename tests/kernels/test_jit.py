"""How often the decorator of kernels compiles a function."""

from collections import Counter

import numpy as np
import pytest
from numba.core import event

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
