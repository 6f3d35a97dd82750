"""The one way in which skcrbm compiles a function.

``jit`` is :func:`numba.njit` with the house flags and a disk cache that never
gets in the way: a cache that cannot be written, read or trusted costs a
compilation, never an error.
"""

import contextlib
import functools
import gc
import hashlib
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import numba
from numba.core.caching import FunctionCache, IndexDataCacheFile
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler

# A file is written under another name, then renamed. If it is older than this, its process was
# killed.
_SECONDS_TO_WRITE = 3600


@functools.cache
def _kernel_fingerprint():
    """Hash of every kernel source: a kernel compiled against an older callee is stale."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.name.encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


@functools.cache
def _clear_unfinished(folder):
    """Remove unfinished files of killed processes from a cache folder, once in a process."""
    with contextlib.suppress(OSError):
        for path in Path(folder).glob("*.nbc.tmp.*"):
            with contextlib.suppress(OSError):  # gone already, or not ours to remove
                if time.time() - path.stat().st_mtime > _SECONDS_TO_WRITE:
                    path.unlink()


class _CacheFile(IndexDataCacheFile):
    """A file per compiled version, named after everything that it depends on.

    Numba's own scheme numbers the files and keeps an index, which processes that
    compile at once overwrite for each other; without an index nothing can be swapped,
    stale or torn.

    Attributes
    ----------
    others : sequence of _CacheFile
        Other folders to look in.
    """

    others = ()

    def _name(self, key):
        """File name for `key`: argument types, processor, bytecode of the function."""
        digest = hashlib.sha256(repr((self._version, self._source_stamp, key)).encode())
        return f"{Path(self._index_name).stem}.{digest.hexdigest()[:24]}.nbc"

    def load(self, key):
        for file in (self, *self.others):
            with contextlib.suppress(FileNotFoundError):
                return file._load_data(self._name(key))
        return None

    def save(self, key, data):
        self._save_data(self._name(key), data)


def _read_only(locator):
    """Return a class like `locator` that takes a folder which can only be read."""

    def check_folder(self):
        os.listdir(self.get_cache_path())  # else an OSError: there is no such folder

    return type(locator.__name__, (locator,), {"ensure_cache_path": check_folder})


class _Implementation(FunctionCache._impl_class):
    """Folders of the cache: a folder that Numba can write to, or else a folder to read from.

    The second was filled when an image was built: NUMBA_CACHE_DIR, or beside the sources.
    """

    _filled = [_read_only(locator) for locator in FunctionCache._impl_class._locator_classes[:2]]
    _locator_classes = [*FunctionCache._impl_class._locator_classes, *_filled]

    def filled_folders(self, function):
        """Return the first filled folder that can be read, as a list."""
        path = function.__code__.co_filename
        found = (locator.from_function(function, path) for locator in self._filled)
        return [locator.get_cache_path() for locator in found if locator is not None][:1]


class _ForgivingCache(FunctionCache):
    """Numba's disk cache, keyed by all kernel sources and safe to fail."""

    _impl_class = _Implementation

    def __init__(self, py_func):
        super().__init__(py_func)
        folders = [self.cache_path, *self._impl.filled_folders(py_func)]
        self._cache_file, *self._cache_file.others = (
            _CacheFile(
                cache_path=folder,
                filename_base=self._impl.filename_base,
                source_stamp=_kernel_fingerprint(),
            )
            for folder in dict.fromkeys(folders)
        )
        _clear_unfinished(self.cache_path)

    def load_overload(self, sig, target_context):
        try:
            return super().load_overload(sig, target_context)
        except Exception:  # truncated, foreign or unreadable: compile again
            return None

    def save_overload(self, sig, data):
        with contextlib.suppress(OSError):  # disk full, read-only, or removed under us
            super().save_overload(sig, data)


class _Compiler(Compiler):
    """Numba's compiler without cyclic garbage collection, which would take a tenth of its time."""

    def compile_extra(self, func):
        if not gc.isenabled():  # as where the caller is being compiled
            return super().compile_extra(func)
        gc.disable()
        try:
            return super().compile_extra(func)
        finally:
            gc.enable()


class _InnerLibrary(JITCodeLibrary):
    """Code that other kernels include; it never runs by itself, so it needs no machine code."""

    def _finalize_final_module(self):
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        self._finalized = True

    def get_pointer_to_function(self, name):
        return 0

    @property
    def codegen(self):  # Numba asks for it only to call `set_env`
        return self

    def set_env(self, env_name, env):
        """Leave out the address of the globals, which kernels that include this code do not use."""


class _InnerCompiler(_Compiler):
    def compile_extra(self, func):
        self.state["library"] = _InnerLibrary(self.state.targetctx.codegen(), func.__qualname__)
        return super().compile_extra(func)


@contextlib.contextmanager
def _interrupts_later():
    """Delay Ctrl-C: if it left Numba's registries half read, all later compilations would fail."""
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield  # no handler of Python's, or it runs elsewhere
        return
    held = []
    signal.signal(signal.SIGINT, lambda *details: held.append(details))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if held:
            handler(*held[0])


def _compile_whole(dispatcher):
    """Return the method `compile` of a dispatcher, with Ctrl-C delayed until it ends."""
    compile_version = dispatcher.compile

    @functools.wraps(compile_version)
    def whole(sig):
        with _interrupts_later():
            return compile_version(sig)

    return whole


def _choose_by_precision(dispatcher, single, double):
    """Have kernels that call a dispatcher call one of two, by the type of the first array."""

    def chosen(args):
        return single if args[0].dtype == numba.float32 else double

    dispatcher.get_call_template = lambda args, kws: chosen(args).get_call_template(args, kws)
    dispatcher.get_overload = lambda args: chosen(args).get_overload(args)


def jit(function=None, *, fastmath=False, by_precision=None, allocates=True, inline=False) -> Any:
    """Compile `function` in nopython mode, without the GIL, cached on disk.

    Parameters
    ----------
    function : callable
    fastmath : False or set of str
        LLVM flags. Never ``nnan`` or ``ninf``: infinities carry meaning here.
    by_precision : pair of dispatchers or None
        Functions that other kernels call instead of `function`: the first if their first argument
        is an array of float32, the second if it is an array of float64. The body would compile
        both.
    allocates : bool
        False for a function that neither makes nor returns arrays. It counts no references to
        arrays, so it may take them in NamedTuples at no cost.
    inline : bool
        True for a part of a longer kernel that the compiler shall put into its caller.

    Returns
    -------
    dispatcher
    """
    if function is None:
        given = {"fastmath": fastmath, "by_precision": by_precision}
        return functools.partial(jit, **given, allocates=allocates, inline=inline)
    # Nobody calls a kernel from C.
    options = {
        "nogil": True,
        "error_model": "numpy",
        "fastmath": fastmath,
        "no_cfunc_wrapper": True,
        # Set for every kernel, else a callee takes these two from its first caller.
        "forceinline": inline,
        "_nrt": allocates,
    }
    dispatcher = numba.njit(pipeline_class=_Compiler, **options)(function)
    if hasattr(dispatcher, "py_func"):  # not so with NUMBA_DISABLE_JIT=1
        # Other kernels call a version without machine code and without the wrapper for Python,
        # which would take a third of the time of compilation.
        inner = numba.njit(pipeline_class=_InnerCompiler, no_cpython_wrapper=True, **options)(
            function
        )
        dispatcher.get_call_template = inner.get_call_template
        dispatcher.get_overload = inner.get_overload
        if by_precision is not None:
            _choose_by_precision(dispatcher, *by_precision)
        dispatcher.compile = _compile_whole(dispatcher)
        # RuntimeError, OSError: no folder can be written, so compile in memory.
        with contextlib.suppress(RuntimeError, OSError):
            dispatcher._cache = _ForgivingCache(function)
    return dispatcher
