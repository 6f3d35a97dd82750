"""Names of Numba that do not belong to its public interface.

The compiler and the cache of kernels import these names from here. If a version of Numba lacks a
name, or if an object behaves differently, `jit` compiles all kernels by plain `numba.njit`.
"""

from numba.core import ir
from numba.core.caching import FunctionCache, IndexDataCacheFile
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler, Flags
from numba.core.compiler_machinery import FunctionPass, register_pass
from numba.core.runtime import rtsys
from numba.core.untyped_passes import IRProcessing

__all__ = [
    "Compiler",
    "Flags",
    "FunctionCache",
    "FunctionPass",
    "IRProcessing",
    "IndexDataCacheFile",
    "JITCodeLibrary",
    "ir",
    "register_pass",
    "rtsys",
]
