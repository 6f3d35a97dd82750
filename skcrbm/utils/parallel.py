"""Work over rows in threads, with results that do not depend on how many there are."""

import functools
import os
import threading
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager

from joblib import effective_n_jobs
from threadpoolctl import ThreadpoolController


@functools.cache
def _pool(n_threads):
    return ThreadPoolExecutor(n_threads, thread_name_prefix="skcrbm")


if hasattr(os, "register_at_fork"):  # threads do not survive a fork, the cache would
    os.register_at_fork(after_in_child=_pool.cache_clear)


def row_chunks(n_rows, size):
    """Slices of at most `size` rows. The cut depends on the data alone, never on threads."""
    return [slice(start, min(start + size, n_rows)) for start in range(0, n_rows, size)]


def ordered_map(function, items, n_jobs):
    """Yield ``function(item)`` in the order of items, computed by up to n_jobs threads.

    At most n_jobs results wait at any time, which bounds the memory. The functions
    are compiled kernels that release the GIL. Where no thread can be started, the caller's
    does the work.
    """
    n_jobs = min(effective_n_jobs(n_jobs), len(items))
    if n_jobs <= 1:
        yield from map(function, items)
        return
    pool = _pool(n_jobs)
    waiting = deque()
    try:
        for item in items:
            task = _Task(function, item)
            waiting.append(task)
            try:
                pool.submit(task.run)
            except RuntimeError:  # no thread could be started
                waiting.pop()
                if task.claim():
                    result = function(item)
                    while waiting:
                        yield _first_result(waiting)
                    yield result
                    continue
                waiting.append(task)  # an older thread has taken it
            if len(waiting) >= n_jobs + 1:
                yield _first_result(waiting)
        while waiting:
            yield _first_result(waiting)
    finally:  # interrupted: nobody may write into arrays that are given up
        wait([task.future for task in waiting if not task.claim()])


class _Task:
    """A call that is made once, by the first thread that claims it."""

    def __init__(self, function, item):
        self.function, self.item = function, item
        self.future = Future()
        self._claimed = threading.Lock()

    def claim(self):
        """Whether the call was still to be made; whoever gets True has it."""
        return self._claimed.acquire(blocking=False)

    def run(self):
        """Make the call, unless another thread has claimed it."""
        if not self.claim():
            return
        try:
            self.future.set_result(self.function(self.item))
        except BaseException as error:
            self.future.set_exception(error)
            self = None  # or the error and its traceback hold each other


def _first_result(waiting):
    result = waiting[0].future.result()  # taken off the queue only once it has run
    waiting.popleft()
    return result


@functools.cache
def _controller():
    return ThreadpoolController()


_limit_lock = threading.Lock()
_limits = []  # one entry per block inside; the first holds what to restore


@contextmanager
def one_blas_thread():
    """Run matrix products in one thread: more of them may change the last bit.

    The limit is the process's, so the last of several threads to leave lifts it.
    """
    with _limit_lock:
        _limits.append(_limits[0] if _limits else _controller().limit(limits=1, user_api="blas"))
    try:
        yield
    finally:
        with _limit_lock:
            limiter = _limits.pop()
            if not _limits:
                limiter.restore_original_limits()
