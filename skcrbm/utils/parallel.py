"""Process rows in blocks and threads; results do not depend on the number of threads."""

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

# Least number of rows in a block of a matrix product. Each product reads all coefficients, so small
# blocks would be slow.
_LEAST_ROWS = 64


class _Pool:
    """Up to `n_threads` threads that take tasks off a queue.

    This class replaces `concurrent.futures`, where an interrupt (Ctrl-C) of the caller can leave a
    lock locked, so that the caller and the threads wait for each other for ever. Here the caller
    never takes a lock that a thread needs.
    """

    def __init__(self, n_threads):
        self._tasks = SimpleQueue()
        self._n_threads, self._n_started = n_threads, 0

    def submit(self, task):
        if self._n_started < self._n_threads:
            with suppress(RuntimeError):  # if no thread can be started, the caller runs the task
                start_new_thread(_work, (self._tasks,))
                self._n_started += 1
        if self._n_started:  # if there is no thread, the task would stay in the queue for ever
            self._tasks.put(task)


def _work(tasks):
    while True:
        tasks.get().run()


@functools.cache
def _pool(n_threads):
    return _Pool(n_threads)


def row_chunks(n_rows: int, size: int) -> list[slice]:
    """Cut n_rows rows into slices of at most `size` rows, whatever the number of threads."""
    return [slice(start, min(start + size, n_rows)) for start in range(0, n_rows, size)]


def linear_fields(X: Any, coef: np.ndarray, intercept: np.ndarray) -> np.ndarray:
    """Return ``X coef' + intercept`` (N, K) for X (N, D), `coef` (K, D) and `intercept` (K,).

    `X` and `coef` may be sparse. If a dense X has another dtype than the result, blocks of rows are
    converted one after the other, to save memory.
    """
    dtype = np.result_type(X.dtype, coef.dtype)
    coef = coef.astype(dtype, copy=False)
    if issparse(X) or issparse(coef) or X.dtype == dtype:
        fields = np.asarray(safe_sparse_dot(X, coef.T, dense_output=True))
    else:
        fields = np.empty((len(X), len(coef)), dtype)
        for rows in row_chunks(len(X), max(_LEAST_ROWS, BLOCK_ENTRIES // max(1, X.shape[1]))):
            np.matmul(X[rows], coef.T, out=fields[rows])
    return fields + intercept


def ordered_map(function: Callable, items: Sequence, n_jobs: int | None) -> Iterator:
    """Yield ``function(item)`` in the order of items, computed by up to n_jobs threads.

    `function` should call compiled kernels that release the GIL. About n_jobs results are kept at
    any time, which bounds the memory. The calling thread also computes items and counts as one of
    the n_jobs threads, so that n_jobs processors suffice.
    """
    n_threads = min(effective_n_jobs(n_jobs), len(items)) if len(items) > 1 else 1
    if n_threads == 1:
        yield from map(function, items)
        return
    pool = _pool(n_threads - 1)
    waiting = deque()
    try:
        for item in items:
            waiting.append(_Task(function, item))
            pool.submit(waiting[-1])
            if len(waiting) >= n_threads + 1:
                yield _first_result(waiting)
        while waiting:
            yield _first_result(waiting)
    finally:  # after an interrupt, wait for running tasks: they write into arrays of the caller
        for task in waiting:
            if not task.claim(_CALLER):
                task.wait()


_CALLER, _POOL = "caller", "pool"


class _Task:
    """A function call that runs once, either in the caller or in a thread of the pool.

    The caller and the pool claim the task before they run it, and only the first claim succeeds.
    """

    def __init__(self, function, item):
        self.function, self.item = function, item
        self.result = self.error = None
        self._claimed, self._running = {}, threading.Lock()
        self._running.acquire()
        self.finished = False

    def claim(self, by):
        """Claim the call for `by`, `_CALLER` or `_POOL`, and return True if this succeeds.

        A repeated claim by the same side succeeds again, so an interrupted claim can be repeated.
        """
        return self._claimed.setdefault("by", by) == by  # setdefault is atomic

    def run(self):
        """Run the call in a thread of the pool, unless the caller has claimed it."""
        if self.claim(_POOL):
            self._call(BaseException)
            self._running.release()

    def make(self):
        """Run the call in the caller, which must have claimed it; store an error of the call."""
        if not self.finished:
            self._call(Exception)  # a KeyboardInterrupt is raised at once

    def _call(self, kept):
        try:
            self.result = self.function(self.item)
        except kept as error:
            self.error = error
        self.finished = True

    def wait(self):
        """Wait until the thread of the pool has finished the call; only the caller may wait."""
        if not self.finished:  # an interrupted earlier wait may have acquired the lock already
            self._running.acquire()


def _first_result(waiting):
    """Remove the first task and return its result, or raise its error.

    While a thread of the pool runs this task, the caller runs later tasks that no thread has
    claimed.
    """
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
    # Clear the task to free memory: the queue of the pool and the traceback of an error may keep a
    # reference to the task for long.
    result, error = task.result, task.error
    task.result = task.error = None
    try:
        if error is not None:
            raise error
        return result
    finally:
        del error  # breaks the reference cycle of the error and its traceback


@functools.cache
def _blas_libraries():
    return ThreadpoolController().select(user_api="blas").lib_controllers


_limit_lock = threading.Lock()
_inside = set()  # an object for each `with one_blas_thread()` block that is running
_to_restore = []  # pairs of a BLAS library and its number of threads before the limit


@contextmanager
def one_blas_thread():
    """Limit BLAS to a single thread, because rounding depends on the number of threads.

    The limit applies to the whole process. If several threads use this context manager, the last
    thread to leave restores the number of BLAS threads.
    """
    token = object()
    try:
        try:
            _limit(token)
            yield
        finally:
            _lift(token)
    finally:  # repeat the call, in case an interrupt stopped the first call
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
    """Reset the pools and the BLAS limit in a child process, where no thread of the parent runs."""
    global _limit_lock
    _pool.cache_clear()
    _limit_lock = threading.Lock()
    _inside.clear()
    _lift(None)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
