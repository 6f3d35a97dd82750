"""The decorator with which skcrbm compiles all its kernels.

``jit`` is :func:`numba.njit` with the flags of this package and a fail-safe disk cache: if the
cache cannot be written, read or trusted, the function is compiled again without an error.
"""

import contextlib
import functools
import hashlib
import os
import re
import signal
import threading
import time
from pathlib import Path
from typing import Any


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


with interrupts_later():  # a process cannot import Numba again if the import was cut off
    import numba
    from numba.core.caching import FunctionCache, IndexDataCacheFile

    from skcrbm.kernels.compiler import InnerCompiler, KernelCompiler

# A cache file is written under a temporary name, then renamed. If a temporary file is older than
# this number of seconds, its process must have been killed, and the file is removed.
_SECONDS_TO_WRITE = 3600


_FOLDER = Path(__file__).parent
_IMPORT = re.compile(r"^\s*(?:from|import) skcrbm\.kernels((?:\.\w+)*)", re.MULTILINE)


@functools.cache
def _source(path):
    return path.read_bytes() if path.is_file() else b""


@functools.cache
def _imported_files(path):
    """Return a set of the files of kernels that a file imports; a package stands for its files."""
    modules = _IMPORT.findall(_source(path).decode())
    places = [_FOLDER.joinpath(*module.split(".")[1:]) for module in modules]
    return {
        file
        for place in places
        for file in (place.rglob("*.py") if place.is_dir() else [place.with_suffix(".py")])
    }


@functools.cache
def _sources_fingerprint(path):
    """Return a hash of a file of kernels and of all kernels that it imports, even indirectly.

    The compiled code of a kernel includes the kernels that it calls.
    """
    files = set()
    waiting = {path, Path(__file__)}
    while waiting:
        files |= waiting
        waiting = set().union(*map(_imported_files, waiting)) - files
    digest = hashlib.sha256()
    for file in sorted(files):
        digest.update(file.name.encode())
        digest.update(_source(file))
    return digest.hexdigest()


def _fields(kinds):
    """Return the field names of NamedTuples among types; Numba's names of the types lack them."""
    tuples = (kind for kind in kinds if isinstance(kind, numba.types.BaseTuple))
    return [(getattr(kind, "fields", ()), _fields(kind.types)) for kind in tuples]


@functools.cache
def _clear_unfinished(folder):
    """Remove temporary files of killed processes from a cache folder, once per process."""
    with contextlib.suppress(OSError):
        for path in Path(folder).glob("*.nbc.tmp.*"):
            # another process has removed the file, or this process must not remove it
            with contextlib.suppress(OSError):
                if time.time() - path.stat().st_mtime > _SECONDS_TO_WRITE:
                    path.unlink()


class _CacheFile(IndexDataCacheFile):
    """Cache with a file for each compiled version of a function.

    The name of a file is a hash of everything on which the compiled code depends. Numba's own cache
    numbers the files and lists them in an index file. If processes overwrite the index at the same
    time, it may name the wrong files. Without an index, no process can load a wrong, stale or
    incomplete version.

    Attributes
    ----------
    others : sequence of _CacheFile
        Other folders to search if a version is missing.
    """

    others = ()

    def _name(self, key):
        """Return the file name for a key, which contains argument types, processor and bytecode."""
        parts = self._version, self._source_stamp, key, _fields(key[0])
        digest = hashlib.sha256(repr(parts).encode())
        return f"{Path(self._index_name).stem}.{digest.hexdigest()[:24]}.nbc"

    def load(self, key):
        for file in (self, *self.others):
            with contextlib.suppress(FileNotFoundError):
                return file._load_data(self._name(key))
        return None

    def save(self, key, data):
        self._save_data(self._name(key), data)


def _read_only(locator):
    """Return a subclass of the locator that also accepts folders without write permission."""

    def check_folder(self):
        os.listdir(self.get_cache_path())  # OSError if the folder does not exist

    return type(locator.__name__, (locator,), {"ensure_cache_path": check_folder})


class _Implementation(FunctionCache._impl_class):
    """Choose the folder of the cache: a writable folder if there is one, else a read-only folder.

    A read-only folder was filled earlier, for example when a container image was built. It is the
    folder in NUMBA_CACHE_DIR or the `__pycache__` folder of the sources.
    """

    _filled = [_read_only(locator) for locator in FunctionCache._impl_class._locator_classes[:2]]
    _locator_classes = [*FunctionCache._impl_class._locator_classes, *_filled]

    def filled_folders(self, function):
        """Return a list with the first readable folder that holds cached code, or an empty list."""
        path = function.__code__.co_filename
        found = (locator.from_function(function, path) for locator in self._filled)
        return [locator.get_cache_path() for locator in found if locator is not None][:1]


class _ForgivingCache(FunctionCache):
    """Numba's disk cache, keyed by the kernel's sources; a failure of the cache raises no error."""

    _impl_class = _Implementation

    def __init__(self, py_func):
        super().__init__(py_func)
        folders = [self.cache_path, *self._impl.filled_folders(py_func)]
        self._cache_file, *self._cache_file.others = (
            _CacheFile(
                cache_path=folder,
                filename_base=self._impl.filename_base,
                source_stamp=_sources_fingerprint(Path(py_func.__code__.co_filename)),
            )
            for folder in dict.fromkeys(folders)
        )
        _clear_unfinished(self.cache_path)

    def load_overload(self, sig, target_context):
        try:
            return super().load_overload(sig, target_context)
        except Exception:  # the file is damaged or unreadable: compile again
            return None

    def save_overload(self, sig, data):
        with contextlib.suppress(OSError):  # the disk is full or read-only, or the folder is gone
            super().save_overload(sig, data)


def _compile_whole(dispatcher):
    """Return the `compile` method of a dispatcher, wrapped to delay Ctrl-C until it returns."""
    compile_version = dispatcher.compile

    @functools.wraps(compile_version)
    def whole(sig):
        with interrupts_later():  # else Numba would read its registries only in part
            return compile_version(sig)

    return whole


def _without_literals(dispatcher):
    """Return the `get_call_template` method of a dispatcher, wrapped to treat literals as int64.

    Numba gives the literal 0 in `f(0)` a special type, so it would compile f twice: for the literal
    0, and for integers. The compiler still uses the value of the literal if it inlines the call.
    """

    def get_call_template(args, kws):
        plain = [numba.int64 if isinstance(a, numba.types.IntegerLiteral) else a for a in args]
        return dispatcher.get_call_template(plain, kws)

    return get_call_template


def _choose_by_precision(dispatcher, single, double):
    """Compile calls of `dispatcher` in kernels as calls of `single` (float32) or `double`.

    The dtype of the first argument decides.
    """

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
    if function is None:
        given = {"fastmath": fastmath, "by_precision": by_precision}
        return functools.partial(jit, **given, allocates=allocates, inline=inline)
    # Kernels are never called from C, so they need no wrapper for C.
    options = {
        "nogil": True,
        "error_model": "numpy",
        "fastmath": fastmath,
        "no_cfunc_wrapper": True,
        # Set both flags for every kernel. If a flag is not set, a called kernel takes the flag of
        # the first kernel that calls it.
        "forceinline": inline,
        "_nrt": allocates,
    }
    dispatcher = numba.njit(pipeline_class=KernelCompiler, **options)(function)
    # With NUMBA_DISABLE_JIT=1 functions are plain Python and have no such attribute.
    if hasattr(dispatcher, "py_func"):
        # Kernels that call the function include a second version of it, without machine code and
        # Python wrapper. Generating these would take a third of the compile time.
        inner = numba.njit(pipeline_class=InnerCompiler, no_cpython_wrapper=True, **options)(
            function
        )
        dispatcher.get_call_template = _without_literals(inner)
        dispatcher.get_overload = inner.get_overload
        if by_precision is not None:
            _choose_by_precision(dispatcher, *by_precision)
        dispatcher.compile = _compile_whole(dispatcher)
        # If no folder can be written (RuntimeError, OSError), keep compiled code in memory only.
        with contextlib.suppress(RuntimeError, OSError):
            dispatcher._cache = _ForgivingCache(function)
    return dispatcher
