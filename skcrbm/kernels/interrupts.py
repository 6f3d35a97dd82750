"""Delay Ctrl-C while Numba is in a state from which it could not recover."""

import contextlib
import signal
import threading


@contextlib.contextmanager
def interrupts_later():
    """Delay Ctrl-C to the end of a `with` block.

    If Ctrl-C interrupted some steps of Numba, Numba could no longer compile in this process.
    """
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield  # nothing to delay: Python does not handle Ctrl-C, or handles it in another thread
        return
    held = []
    signal.signal(signal.SIGINT, lambda *details: held.append(details))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if held:
            handler(*held[0])
