"""Compiled kernels: functions that take arrays and return or fill arrays.

A kernel module imports NumPy, `math`, the decorator of `jit.py` and other kernel modules, but no
other part of the package. These rules keep kernels correct, fast, and quick to compile:

**Bits do not depend on threads or on the memory layout.** Callers cut rows into chunks by the size
of the data alone, kernels work on chunks without the GIL, and sums over chunks are added in order.
``fastmath`` is "contract", and "reassoc" for sums and products that may be reordered. A loop with
"reassoc" must only read: if it also writes, the compiler adds a check for overlapping arrays, and
the result would round differently if the arrays lie close together
(`tests/kernels/test_memory_layout.py`). Infinities have a meaning, so "nnan" and "ninf" are never
set.

**Precision.** float32 input is computed in float32. Log Z, losses and sums over chunks are float64;
enumeration is always in float64.

**Vector code.** The innermost loop runs over rows, models or chains, as SIMD lanes. Where vector
code matters, write small functions over blocks of rows with unsigned indices: slices add reference
counting, and signed indices add a check for wrap-around that prevents vectorisation.

**Time of compilation.** The compiler takes about 25 ms for a loop over arrays, 50 ms for each kind
of array that a kernel allocates, and a second for an assignment to a slice. So:

- scratch arrays of large kernels are allocated in Python (`work_arrays`, `odds_work`);
- loops over a constant number of rows take the number from a shape, because LLVM unrolls loops of
  constant length;
- `min` and `max` of two numbers are selections, `bits_of` and `from_bits` take the place of `view`,
  `np.int64(x)` the place of `int(x)`, and `EPS_64` that of `np.finfo`: Numba would compile its own
  function for each pair of argument types, in about 35 ms;
- kernels never assign to slices.

A function that only kernels call is compiled without a wrapper for Python and is not cached by
itself. LLVM optimises such functions once, as parts of the kernel that Python calls. A function
with a loop that writes to an array and takes several arrays stays a function unless it is declared
with ``inline=True``; LLVM decides about the other functions. `jit` reads literal integers in calls
of kernels as int64; otherwise Numba would compile the called function once for each literal.

**The disk cache** of a kernel is keyed by the sources of its module and of all kernel modules that
it imports, so an edit of a called function recompiles its callers. If the cache fails, the kernel
is compiled again, and no error is raised (`jit.py`).
"""
