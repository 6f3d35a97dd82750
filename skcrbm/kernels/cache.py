"""A disk cache of compiled kernels that never raises an error.

If the cache cannot be written, read or trusted, the kernel is compiled again.
"""

import contextlib
import functools
import hashlib
import os
import re
import time
from pathlib import Path

from numba import types

from skcrbm.kernels.numba_private import FunctionCache, IndexDataCacheFile

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
    waiting = {path, _FOLDER / "jit.py"}
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
    tuples = (kind for kind in kinds if isinstance(kind, types.BaseTuple))
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

    def _identity(self, key):
        """Return the file name and the hash of a kernel's name and of all that its code depends on.

        The key contains argument types, processor and bytecode.
        """
        kernel = Path(self._index_name).stem
        parts = kernel, self._version, self._source_stamp, key, _fields(key[0])
        digest = hashlib.sha256(repr(parts).encode()).hexdigest()
        return f"{kernel}.{digest[:24]}.nbc", digest

    def load(self, key):
        """Return the stored version, or None if there is none or the file holds another version."""
        name, digest = self._identity(key)
        for file in (self, *self.others):
            with contextlib.suppress(FileNotFoundError, TypeError, ValueError):
                found, data = file._load_data(name)
                if found == digest:  # else somebody has renamed or exchanged files
                    return data
        return None

    def save(self, key, data):
        """Store a version together with the hash that tells which version it is."""
        name, digest = self._identity(key)
        self._save_data(name, (digest, data))


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


class ForgivingCache(FunctionCache):
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
        """Return the compiled version for a signature, or None if it cannot be read."""
        try:
            return super().load_overload(sig, target_context)
        except Exception:  # the file is damaged or unreadable: compile again
            return None

    def save_overload(self, sig, data):
        """Store a compiled version if that is possible."""
        with contextlib.suppress(OSError):  # the disk is full or read-only, or the folder is gone
            super().save_overload(sig, data)
