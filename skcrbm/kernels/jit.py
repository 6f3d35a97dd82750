"""The decorator with which skcrbm compiles all its kernels.

``jit`` is :func:`numba.njit` with the flags of this package, a compiler that is two to four times
faster (`kernels/compiler.py`), and a disk cache that raises no errors (`kernels/cache.py`).

The compiler and the cache use private names of Numba. If the installed version of Numba lacks a
name, or if the compiler fails, all kernels are compiled by plain ``numba.njit(cache=True)``. The
environment variable ``SKCRBM_PLAIN_JIT=1`` chooses plain Numba, for tests.
"""

import functools
import os
import warnings
from typing import Any

from skcrbm.kernels.interrupts import interrupts_later

with interrupts_later():  # a process cannot import Numba again if the import was cut off
    import numba


def _plain_dispatcher(function, by_precision, allocates, inline, **options):
    """Return a dispatcher of plain Numba, which takes no hints for the compiler."""
    try:
        return numba.njit(cache=True, **options)(function)
    except RuntimeError:  # no folder can be written
        return numba.njit(**options)(function)


def _choose_compiler():
    """Return the function that makes the dispatchers of kernels."""
    if os.environ.get("SKCRBM_PLAIN_JIT", "0") not in ("", "0"):
        return _plain_dispatcher
    try:
        with interrupts_later():
            from skcrbm.kernels.compiler import check_compiler, kernel_dispatcher

            check_compiler()
    except Exception as error:
        warnings.warn(
            f"skcrbm's compiler does not work with Numba {numba.__version__} "
            f"({type(error).__name__}: {error}). Kernels are compiled by plain Numba: the results "
            "are the same, but the first call of each kernel takes longer. Please report this "
            "message, or install an earlier version of Numba",
            RuntimeWarning,
            stacklevel=2,
        )
        return _plain_dispatcher
    return kernel_dispatcher


_make_dispatcher = None if numba.config.DISABLE_JIT else _choose_compiler()


def jit(function=None, *, fastmath=False, by_precision=None, allocates=True, inline=False) -> Any:
    """Compile `function` in nopython mode, without the GIL, cached on disk.

    With ``NUMBA_DISABLE_JIT=1`` the function is returned unchanged.

    Parameters
    ----------
    function : callable
    fastmath : False or set of str
        LLVM flags. ``nnan`` and ``ninf`` must not be used, because kernels compute with infinities.
    by_precision : pair of dispatchers or None
        Two functions that kernels call instead of `function`. They call the first function if the
        first argument is a float32 array, and the second function if it is a float64 array. (If
        `function` chose between the two in an `if` statement, Numba would compile both.)
    allocates : bool
        False for a function that neither makes nor returns arrays. The function is then compiled
        without reference counting, so that arrays in NamedTuples are as fast as other arguments.
    inline : bool
        True for a part of a longer kernel. The compiler must then inline the function into its
        caller.

    Returns
    -------
    dispatcher
    """
    hints = {"by_precision": by_precision, "allocates": allocates, "inline": inline}
    if function is None:
        return functools.partial(jit, fastmath=fastmath, **hints)
    if _make_dispatcher is None:
        return function
    return _make_dispatcher(function, nogil=True, error_model="numpy", fastmath=fastmath, **hints)
