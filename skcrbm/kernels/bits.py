"""The bits of floating-point numbers as integers of the same size, and back."""

import numpy as np
from numba import types
from numba.extending import lower_builtin, type_callable


def bits_of(number):
    """Return the bits of a float32 or float64 as an integer of the same size."""
    return number.view(np.dtype(f"i{number.itemsize}"))


def from_bits(number):
    """Return the float32 or float64 with the bits of an int32 or int64."""
    return number.view(np.dtype(f"f{number.itemsize}"))


def _compile_as_bitcast(function, results):
    """Compile calls of `function` as a cast of the bits, without a function call.

    Numba compiles `view` of a number as a function of its own for each pair of types.
    """

    @type_callable(function)
    def _result_type(context):
        return lambda kind: results.get(types.unliteral(kind))

    @lower_builtin(function, types.Number)
    def _cast(context, builder, signature, args):
        return builder.bitcast(args[0], context.get_value_type(signature.return_type))


_INTEGERS = {types.float32: types.int32, types.float64: types.int64}
_compile_as_bitcast(bits_of, _INTEGERS)
_compile_as_bitcast(from_bits, {integer: real for real, integer in _INTEGERS.items()})
