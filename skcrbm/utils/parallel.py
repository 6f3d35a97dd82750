"""Work over rows in threads, with results that do not depend on how many there are."""

import functools
import os
import threading
from _thread import start_new_thread
from collections import deque
from contextlib import contextmanager, suppress
from queue import SimpleQueue

from joblib import effective_n_jobs
from threadpoolctl import ThreadpoolController


class _Pool:
    """Up to n threads that take tasks off a queue.

    In `concurrent.futures` an interrupt of the caller can leave a lock locked for good, so that
    threads, and with them the caller, wait for ever. Here the caller takes no lock that a thread
    needs: all that it calls either happens or does not.
    """

    def __init__(self, n_threads):
        self._tasks = SimpleQueue()
        self._n_threads, self._n_started = n_threads, 0

    def submit(self, task):
        if self._n_started < self._n_threads:
            with suppress(RuntimeError):  # none can be started: the caller makes what is left
                start_new_thread(_work, (self._tasks,))
                self._n_started += 1
        if self._n_started:  # or nobody would take it off, nor what it holds
            self._tasks.put(task)


def _work(tasks):
    while True:
        tasks.get().run()


@functools.cache
def _pool(n_threads):
    return _Pool(n_threads)


def row_chunks(n_rows, size):
    """Slices of at most `size` rows. The cut depends on the data alone, never on threads."""
    return [slice(start, min(start + size, n_rows)) for start in range(0, n_rows, size)]


def ordered_map(function, items, n_jobs):
    """Yield ``function(item)`` in the order of items, computed by up to n_jobs threads.

    At most n_jobs results wait at any time, which bounds the memory. The functions
    are compiled kernels that release the GIL. One of the threads is the caller's: with one more
    than n_jobs, some wait for a processor while others sleep.
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
    finally:  # interrupted: nobody may write into arrays that are given up
        for task in waiting:
            if not task.claim(_CALLER):
                task.wait()


_CALLER, _POOL = "caller", "pool"


class _Task:
    """A call that is made once, by the first to claim it: the caller, or a thread of the pool."""

    def __init__(self, function, item):
        self.function, self.item = function, item
        self.result = self.error = None
        self._claimed, self._running = {}, threading.Lock()
        self._running.acquire()
        self.finished = False

    def claim(self, by):
        """Whether the call is theirs to make; they may ask again, as after an interrupt."""
        return self._claimed.setdefault("by", by) == by  # in one step

    def run(self):
        """Make the call in a thread of the pool, unless it has been claimed."""
        if self.claim(_POOL):
            self._call(BaseException)
            self._running.release()

    def make(self):
        """Make the call in the caller's thread, who has claimed it; an error is raised later."""
        if not self.finished:
            self._call(Exception)  # an interrupt is raised now

    def _call(self, kept):
        try:
            self.result = self.function(self.item)
        except kept as error:
            self.error = error
        self.finished = True

    def wait(self):
        """Wait for the thread that makes the call; in the caller's thread only."""
        if not self.finished:  # or an interrupt came just when it was
            self._running.acquire()


def _first_result(waiting):
    """Return the result of the first task; what nobody has begun is made here meanwhile."""
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
    # Nothing is left in the task: the pool's queue may hold it for long, and an error's traceback
    # holds it.
    result, error = task.result, task.error
    task.result = task.error = None
    try:
        if error is not None:
            raise error
        return result
    finally:
        del error  # or it and its traceback hold each other


@functools.cache
def _blas_libraries():
    return ThreadpoolController().select(user_api="blas").lib_controllers


_limit_lock = threading.Lock()
_inside = set()  # a token of each block that is being run
_to_restore = []  # each library and its number of threads, while they are limited


@contextmanager
def one_blas_thread():
    """Run matrix products in one thread: more of them may change the last bit.

    The limit is the process's, so the last of several threads to leave lifts it.
    """
    token = object()
    try:
        try:
            _limit(token)
            yield
        finally:
            _lift(token)
    finally:  # once more, to no effect unless an interrupt came before it was done
        _lift(token)


def _limit(token):
    with _limit_lock:
        _inside.add(token)
        if not _to_restore:
            # All is known before anything is changed, as it may end anywhere.
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
    """Forget the threads of the parent, which do not survive a fork, and what they had limited."""
    global _limit_lock
    _pool.cache_clear()
    _limit_lock = threading.Lock()
    _inside.clear()
    _lift(None)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
