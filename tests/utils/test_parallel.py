"""Work over rows: blocks, order of threads, failed thread starts, interrupts."""

import contextlib
import gc
import os
import subprocess
import sys
import threading
import time
import tracemalloc
import weakref

import numpy as np
import pytest
from reference.interrupts import count_lines, interrupted_at
from scipy.sparse import csr_matrix, issparse

from skcrbm.energies import RBMEnergy
from skcrbm.inference import infer
from skcrbm.utils import parallel
from skcrbm.utils.parallel import linear_fields, ordered_map


@pytest.fixture(autouse=True)
def pools_of_this_test():
    parallel._pool.cache_clear()
    yield
    parallel._pool.cache_clear()


@pytest.fixture
def threads_to_start(monkeypatch):
    """Set how many threads can be started from now on; the next start fails."""
    started = parallel.start_new_thread

    def allow(n):
        left = [n]

        def start(function, arguments):
            if left[0] == 0:
                raise RuntimeError("can't start new thread")
            left[0] -= 1
            return started(function, arguments)

        monkeypatch.setattr(parallel, "start_new_thread", start)

    return allow


@pytest.mark.parametrize("n_threads", [0, 1, 2, 3])
def test_the_caller_works_where_no_thread_can_be_started(threads_to_start, n_threads):
    threads_to_start(n_threads)
    calls = []

    def square(i):
        calls.append(i)
        time.sleep(0.001)
        return i * i

    assert list(ordered_map(square, range(20), 3)) == [i * i for i in range(20)]
    assert sorted(calls) == list(range(20))  # each once


def test_inference_without_threads_has_the_same_bits(threads_to_start):
    rng = np.random.default_rng(0)
    energy = RBMEnergy(rng.normal(size=(4, 3)), rng.normal(size=(2000, 4)), np.zeros(3))
    expected = infer(energy, "mean_field", n_jobs=2).marginals
    parallel._pool.cache_clear()
    threads_to_start(0)
    np.testing.assert_array_equal(infer(energy, "mean_field", n_jobs=2).marginals, expected)


@pytest.mark.parametrize("n_threads", [0, 1, 2])
def test_an_error_reaches_the_caller(threads_to_start, n_threads):
    threads_to_start(n_threads)

    def fail(i):
        if i == 3:
            raise ZeroDivisionError("at 3")
        return i

    with pytest.raises(ZeroDivisionError, match="at 3"):
        list(ordered_map(fail, range(20), 2))


def test_nothing_runs_after_an_interrupt():
    """Tasks that have begun are waited for; tasks that have not begun are dropped."""
    running, finished = threading.Event(), []

    def work(i):
        running.set()
        time.sleep(0.05)
        finished.append(i)

    results = ordered_map(work, range(50), 2)
    next(results)
    with pytest.raises(KeyboardInterrupt):
        results.throw(KeyboardInterrupt)
    n_finished = len(finished)
    assert n_finished < 10
    time.sleep(0.2)
    assert len(finished) == n_finished


def test_nothing_runs_after_an_interrupt_at_any_line():
    begun = []

    def work(i):
        begun.append(i)
        time.sleep(0.001)

    def call():
        list(ordered_map(work, range(5), 2))

    here = parallel.__file__
    n_lines = count_lines(call, here)
    assert n_lines > 50
    for line in range(1, n_lines + 1):
        with contextlib.suppress(KeyboardInterrupt):
            interrupted_at(call, line, here)
        n_begun = len(begun)
        time.sleep(0.005)
        assert len(begun) == n_begun, line


def test_nothing_is_held_where_no_thread_can_be_started(threads_to_start):
    threads_to_start(0)
    item = threading.Event()
    held = weakref.ref(item)
    list(ordered_map(id, [item] * 3, 2))
    del item
    gc.collect()
    assert held() is None


def test_results_are_not_held_while_the_threads_are_busy(monkeypatch):
    # As with tasks of another thread of the user: all that is here stays in the queue.
    monkeypatch.setattr(parallel, "start_new_thread", lambda function, arguments: None)
    results = (weakref.ref(result) for result in ordered_map(np.zeros, range(1, 20), 2))
    held = list(results)
    assert len(held) == 19
    assert [result() for result in held[:-1]] == [None] * 18


@pytest.mark.deep
def test_interrupts_in_the_caller_never_hang():
    """Signals come at all moments of many short maps; each map ends, and the next map works."""
    code = """
import signal, sys
import numpy as np
from skcrbm.utils.parallel import ordered_map

def work(i):
    return i

rng = np.random.default_rng(0)
n_interrupts = 0
for delay in rng.uniform(1e-5, 3e-3, size=600):
    try:
        signal.setitimer(signal.ITIMER_REAL, delay)
        while True:
            assert list(ordered_map(work, range(8), 3)) == list(range(8))
    except KeyboardInterrupt:
        n_interrupts += 1
print(n_interrupts)
"""
    setup = "import signal; signal.signal(signal.SIGALRM, signal.default_int_handler)"
    # A tool that measures coverage has locks of its own, which an interrupt leaves locked.
    env = {k: v for k, v in os.environ.items() if not k.startswith("COVERAGE")}
    out = subprocess.run(
        [sys.executable, "-c", f"{setup}\n{code}"],
        capture_output=True,
        text=True,
        timeout=120,
        env=env,
    )
    assert (out.stdout, out.returncode) == ("600\n", 0), out.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_while_another_thread_limits_blas():
    code = """
import os, sys, threading, warnings
from threadpoolctl import threadpool_info, threadpool_limits
from skcrbm.utils import parallel

def blas_threads():
    return {info["num_threads"] for info in threadpool_info() if info["user_api"] == "blas"}

def limit():
    with parallel.one_blas_thread(), parallel._limit_lock:
        inside.set()
        leave.wait()

warnings.simplefilter("ignore")  # that of newer Pythons about threads
threadpool_limits(2, user_api="blas")
usual = blas_threads()
inside, leave = threading.Event(), threading.Event()
thread = threading.Thread(target=limit)
thread.start()
inside.wait()
pid = os.fork()
if pid == 0:
    before = blas_threads()
    with parallel.one_blas_thread():
        within = blas_threads()
    os._exit(0 if before == blas_threads() == usual and within <= {1} else 1)
_, status = os.waitpid(pid, 0)
leave.set()
thread.join()
assert blas_threads() == usual
sys.exit(status)
"""
    env = {k: v for k, v in os.environ.items() if not k.startswith("COVERAGE")}
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, env=env
    )
    assert out.returncode == 0, out.stderr


@pytest.mark.parametrize("coef_dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", [np.float32, np.float64, csr_matrix])
def test_linear_fields(kind, coef_dtype, monkeypatch):
    rng = np.random.default_rng(0)
    X = kind(rng.normal(size=(50, 6)))
    coef = rng.normal(size=(3, 6)).astype(coef_dtype)
    intercept = rng.normal(size=3).astype(coef_dtype)
    monkeypatch.setattr(parallel, "_LEAST_ROWS", 7)
    monkeypatch.setattr(parallel, "BLOCK_ENTRIES", 1)
    found = linear_fields(X, coef, intercept)
    assert found.dtype == np.result_type(X.dtype, coef_dtype)
    dense = X.toarray() if issparse(X) else X
    expected = dense.astype(np.float64) @ coef.astype(np.float64).T + intercept
    rtol = 1e-5 if found.dtype == np.float32 else 1e-12
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=rtol)


def test_linear_fields_take_no_copy_of_x():
    X = np.ones((200_000, 50), np.float32)
    tracemalloc.start()
    try:
        linear_fields(X, np.ones((2, 50)), np.ones(2))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < X.nbytes  # in float64 it takes twice as much
