"""Work over rows, in blocks and threads; results do not depend on the number of threads."""

from __future__ import annotations

import functools
import os
import threading
from _thread import start_new_thread
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from queue import SimpleQueue
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from scipy.sparse import issparse
from sklearn.utils.extmath import safe_sparse_dot
from threadpoolctl import ThreadpoolController

from skcrbm.utils.limits import BLOCK_ENTRIES

_LEAST_ROWS = 64  # rows of a matrix product, because each product reads all coefficients


class _Pool:
    """Up to n threads that take tasks off a queue.

    In `concurrent.futures` an interrupt of the caller can leave a lock locked for ever, and then
    threads and the caller deadlock. Here the caller takes no lock that a thread needs.
    """

    def __init__(self, n_threads):
        self._tasks = SimpleQueue()
        self._n_threads, self._n_started = n_threads, 0

    def submit(self, task):
        if self._n_started < self._n_threads:
            with suppress(RuntimeError):  # without a new thread the caller runs the task
                start_new_thread(_work, (self._tasks,))
                self._n_started += 1
        if self._n_started:  # else no thread would ever take the task
            self._tasks.put(task)


def _work(tasks):
    while True:
        tasks.get().run()


@functools.cache
def _pool(n_threads):
    return _Pool(n_threads)


def row_chunks(n_rows: int, size: int) -> list[slice]:
    """Return slices of at most `size` rows, independent of the number of threads."""
    return [slice(start, min(start + size, n_rows)) for start in range(0, n_rows, size)]


def linear_fields(X: Any, coef: np.ndarray, intercept: np.ndarray) -> np.ndarray:
    """Return ``X coef' + intercept`` (N, K) without a copy of a dense X in another dtype."""
    dtype = np.result_type(X.dtype, coef)
    coef = coef.astype(dtype, copy=False)
    if issparse(X) or X.dtype == dtype:
        fields = np.asarray(safe_sparse_dot(X, coef.T))
    else:
        fields = np.empty((len(X), len(coef)), dtype)
        for rows in row_chunks(len(X), max(_LEAST_ROWS, BLOCK_ENTRIES // max(1, X.shape[1]))):
            np.matmul(X[rows], coef.T, out=fields[rows])
    return fields + intercept


def ordered_map(function: Callable, items: Sequence, n_jobs: int | None) -> Iterator:
    """Yield ``function(item)`` in the order of items, computed by up to n_jobs threads.

    At most n_jobs results wait at any time, which bounds the memory. The functions are compiled
    kernels that release the GIL. The caller is one of the n_jobs threads: an additional thread
    would compete with the others for a processor.
    """
    n_jobs = min(effective_n_jobs(n_jobs), len(items))
    if n_jobs <= 1:
        yield from map(function, items)
        return
    pool = _pool(n_jobs - 1)
    waiting = deque()
    try:
        for item in items:
            waiting.append(_Task(function, item))
            pool.submit(waiting[-1])
            if len(waiting) >= n_jobs + 1:
                yield _first_result(waiting)
        while waiting:
            yield _first_result(waiting)
    finally:  # after an interrupt no thread may write into abandoned arrays
        for task in waiting:
            if not task.claim(_CALLER):
                task.wait()


_CALLER, _POOL = "caller", "pool"


class _Task:
    """A call that runs once, in the caller or a thread of the pool, whichever claims it first."""

    def __init__(self, function, item):
        self.function, self.item = function, item
        self.result = self.error = None
        self._claimed, self._running = {}, threading.Lock()
        self._running.acquire()
        self.finished = False

    def claim(self, by):
        """Return True if `by` claimed the call first; asking again is safe after an interrupt."""
        return self._claimed.setdefault("by", by) == by  # in a single step

    def run(self):
        """Run the call in a thread of the pool, unless the caller has claimed it."""
        if self.claim(_POOL):
            self._call(BaseException)
            self._running.release()

    def make(self):
        """Run the call in the caller, which has claimed it; errors are raised later."""
        if not self.finished:
            self._call(Exception)  # an interrupt is raised at once

    def _call(self, kept):
        try:
            self.result = self.function(self.item)
        except kept as error:
            self.error = error
        self.finished = True

    def wait(self):
        """Wait for the thread that runs the call; only the caller waits."""
        if not self.finished:  # an interrupt may have come when it finished
            self._running.acquire()


def _first_result(waiting):
    """Return the result of the first task; while waiting, the caller runs unclaimed tasks."""
    task = waiting[0]
    if task.claim(_CALLER):
        task.make()
    else:
        for later in waiting:
            if task.finished:
                break
            if later is not task and later.claim(_CALLER):
                later.make()
        task.wait()
    waiting.popleft()
    # Empty the task, because the queue of the pool may hold it for long, and the traceback of an
    # error holds it, too.
    result, error = task.result, task.error
    task.result = task.error = None
    try:
        if error is not None:
            raise error
        return result
    finally:
        del error  # else the error and its traceback would hold each other


@functools.cache
def _blas_libraries():
    return ThreadpoolController().select(user_api="blas").lib_controllers


_limit_lock = threading.Lock()
_inside = set()  # a token of each block that is running
_to_restore = []  # each library and its number of threads, while limited


@contextmanager
def one_blas_thread():
    """Run matrix products in a single thread, because more threads may change the last bit.

    The limit applies to the whole process, so the last of several threads to leave lifts it.
    """
    token = object()
    try:
        try:
            _limit(token)
            yield
        finally:
            _lift(token)
    finally:  # again, in case an interrupt came before
        _lift(token)


def _limit(token):
    with _limit_lock:
        _inside.add(token)
        if not _to_restore:
            # Read all numbers before any change, because an interrupt may come at any point.
            _to_restore[:] = [(library, library.num_threads) for library in _blas_libraries()]
            for library, _ in _to_restore:
                library.set_num_threads(1)


def _lift(token):
    with _limit_lock:
        _inside.discard(token)
        if not _inside and _to_restore:
            for library, n_threads in _to_restore:
                library.set_num_threads(n_threads)
            _to_restore.clear()


def _after_fork():
    """Forget the threads of the parent, which do not survive a fork, and their limits."""
    global _limit_lock
    _pool.cache_clear()
    _limit_lock = threading.Lock()
    _inside.clear()
    _lift(None)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
