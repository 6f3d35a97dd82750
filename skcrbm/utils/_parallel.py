"""Work over rows in threads, with results that do not depend on how many there are."""

import functools
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from joblib import effective_n_jobs
from threadpoolctl import ThreadpoolController


def row_chunks(n_rows, size):
    """Slices of at most `size` rows. The cut depends on the data alone, never on threads."""
    return [slice(start, min(start + size, n_rows)) for start in range(0, n_rows, size)]


def ordered_map(function, items, n_jobs):
    """Yield ``function(item)`` in the order of items, computed by up to n_jobs threads.

    At most n_jobs results wait at any time, which bounds the memory. The functions
    are compiled kernels that release the GIL.
    """
    n_jobs = min(effective_n_jobs(n_jobs), len(items))
    if n_jobs <= 1:
        yield from map(function, items)
        return
    with ThreadPoolExecutor(n_jobs) as pool:
        waiting = deque()
        for item in items:
            waiting.append(pool.submit(function, item))
            if len(waiting) >= n_jobs + 1:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


@functools.cache
def _controller():
    return ThreadpoolController()


@contextmanager
def one_blas_thread():
    """Run matrix products in one thread: more of them may change the last bit."""
    with _controller().limit(limits=1, user_api="blas"):
        yield
