"""Compilers for kernels: Numba's compiler without the steps that kernels do not need.

A kernel is compiled as a whole. Functions that only other kernels call are translated, but not
optimised by themselves, because LLVM optimises their code together with the kernel that calls them.
"""

import dis
import functools
import gc
import operator

import numpy as np
from numba import types
from numba.core import ir, typing
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.compiler_machinery import FunctionPass, register_pass
from numba.core.lowering import Lower
from numba.core.runtime import rtsys
from numba.core.typed_passes import NativeLowering
from numba.core.untyped_passes import IRProcessing
from numba.extending import lower_builtin, type_callable

# Passes of Numba that do not change kernels, because kernels contain neither closures, `with`
# blocks, generators nor expressions of whole arrays. Numba analyses a function again after each
# pass, so that these passes take a tenth of the time of compilation.
_NEEDLESS_PASSES = {
    "AnnotateTypes",  # for `inspect_types`
    "DumpParforDiagnostics",
    "FindLiterallyCalls",
    "InlineClosureLikes",
    "InlineInlinables",
    "InlineOverloads",
    "LiteralPropagationSubPipelinePass",
    "LiteralUnroll",
    "MakeFunctionToJitFunction",
    "NoPythonSupportedFeatureValidation",
    "NopythonRewrites",
    "RewriteDynamicRaises",
    "WithLifting",
}
# Passes of Numba that remove dead code: branches of `if` statements that cannot be reached because
# an argument is None.
_PASSES_FOR_NONE = {"DeadBranchPrune", "RewriteSemanticConstants"}
_NONE = types.NoneType | types.Omitted | types.Optional


def _larger(a, b):
    """Return max(a, b), which the compiler turns into a comparison and a selection."""
    return max(a, b)


def _smaller(a, b):
    """Return min(a, b), which the compiler turns into a comparison and a selection."""
    return min(a, b)


def _compile_as_selection(function, comparison):
    """Compile `function(a, b)` as `b if comparison(b, a) else a`, without a function call."""

    @type_callable(function)
    def _result_type(context):
        def unify(a, b):
            if all(isinstance(kind, types.Number | types.Boolean) for kind in (a, b)):
                return context.unify_types(types.unliteral(a), types.unliteral(b))
            return None

        return unify

    @lower_builtin(function, types.Any, types.Any)
    def _select(context, builder, signature, args):
        kind = signature.return_type
        compare = context.get_function(comparison, typing.signature(types.boolean, kind, kind))
        a, b = (
            context.cast(builder, value, given, kind)
            for value, given in zip(args, signature.args, strict=True)
        )
        return builder.select(compare(builder, (b, a)), b, a)


_compile_as_selection(_larger, operator.gt)
_compile_as_selection(_smaller, operator.lt)
_REPLACEMENTS = {id(max): _larger, id(min): _smaller}  # globals such as arrays have no hash


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


@register_pass(mutates_CFG=False, analysis_only=False)
class _ReplaceMinMax(FunctionPass):
    """Replace `max` and `min` of two numbers, which Numba compiles as functions of their own.

    Numba needs 35 ms to compile such a function. It compiles the function again for every pair of
    types and every set of compiler flags.
    """

    _name = "skcrbm_replace_min_max"

    def __init__(self):
        FunctionPass.__init__(self)

    def run_pass(self, state):
        found = False
        for block in state.func_ir.blocks.values():
            for assignment in block.find_insts(ir.Assign):
                name = assignment.value
                if isinstance(name, ir.Global) and id(name.value) in _REPLACEMENTS:
                    name.value = _REPLACEMENTS[id(name.value)]
                    found = True
        return found


class _RememberingContext(typing.Context):
    """Numba's type inference, which here remembers signatures of operators and built-in functions.

    For each sum `a + b`, Numba tries about ten templates, which infer the type of a sum of numbers,
    arrays, strings, sets and so on. The inference takes an eighth of the time of compilation if it
    is repeated for each sum.

    Parameters
    ----------
    context : numba.core.typing.Context
        Numba's own context. This context shares its attributes.
    """

    def __init__(self, context):
        self.__dict__ = context.__dict__
        self._signatures = {}

    def resolve_function_type(self, func, args, kws):
        """Return the signature of a call of `func`."""
        known = func if isinstance(func, types.Type) else self._lookup_global(func)
        if kws or not isinstance(known, types.Function):
            return super().resolve_function_type(func, args, kws)
        return self._remember(super().resolve_function_type, known, args)

    def resolve_setitem(self, target, index, value):
        """Return the signature of ``target[index] = value``."""

        def resolve(func, args, kws):
            return func.get_call_type(self, args, kws)

        func = self.resolve_value_type(operator.setitem)
        return self._remember(resolve, func, (target, index, value))

    def _remember(self, resolve, func, args):
        """Return `resolve(func, args, {})`, which is called once for each `func` and `args`.

        Numba compiles some functions from Python code, with the flags of the caller. Their
        signatures are not remembered, because each caller needs its own version.
        """
        key = func, tuple(args)
        signature = self._signatures.get(key)
        if signature is None:
            signature = resolve(func, args, {})
            if signature is not None and func.get_impl_key(signature) is func.typing_key:
                self._signatures[key] = signature
        return signature


# Return the same remembering context for all calls with the same context, because Numba compares
# contexts by identity.
_remembering_context = functools.cache(_RememberingContext)


class _Operator(types.Callable):
    """Type of an operator such as `getitem`, which remembers the types of its calls.

    Parameters
    ----------
    function : numba.types.Function
        Numba's type of the operator.
    context : _RememberingContext
        Context with the memory.
    """

    def __init__(self, function, context):
        self.function, self.context = function, context
        super().__init__(f"remembered {function.name}")

    @property
    def key(self):
        return self.function.key

    def get_call_type(self, context, args, kws):
        """Return the signature of a call."""

        def resolve(func, args, kws):
            return func.get_call_type(context, args, kws)

        if kws:
            return resolve(self.function, args, kws)
        return self.context._remember(resolve, self.function, args)

    def get_call_signatures(self):
        return self.function.get_call_signatures()

    def get_impl_key(self, sig):
        """Return the key of the implementation for a signature."""
        return self.function.get_impl_key(sig)


class _LoweringContext(typing.Context):
    """Inference of the types of operators while Numba translates a function to LLVM's language.

    Numba then infers the type of each operation a second time. This context shares the memory of
    the first inference.

    Parameters
    ----------
    context : numba.core.typing.Context
        Context with which this context shares all other state.
    """

    def __init__(self, context):
        self.__dict__ = dict(context.__dict__)
        self._shared = context

    def resolve_value_type(self, value):
        """Return the type of an operator with its memory, or Numba's type of any other value."""
        found = super().resolve_value_type(value)
        if isinstance(found, types.Function) and getattr(value, "__module__", "") == "_operator":
            return _Operator(found, _remembering_context(self._shared))
        return found


class _Lower(Lower):
    """Translation of a function to LLVM's language, with a memory for the types of operators."""

    def __init__(self, context, *others, **options):
        super().__init__(context, *others, **options)
        # Numba has copied the context for this function, so no other code sees the change.
        self.context.typing_context = _LoweringContext(self.context.typing_context)


@register_pass(mutates_CFG=False, analysis_only=False)
class _KernelLowering(NativeLowering):
    """Translate a function to LLVM's language by `_Lower`.

    Numba registers its own pass with `mutates_CFG`, and therefore analyses the function once more
    after this pass, although no other pass needs the result.
    """

    _name = "skcrbm_lowering"

    @property
    def lowering_class(self):
        return _Lower


class KernelCompiler(Compiler):
    """Compiler of kernels that Python calls."""

    def __init__(self, typingctx, *others):
        super().__init__(typingctx, *others)
        self.state.typingctx = _remembering_context(typingctx)

    def define_pipelines(self):
        """Return Numba's passes without the needless passes."""
        self.state.type_annotation = ""
        [passes] = super().define_pipelines()
        has_none = any(isinstance(kind, _NONE) for kind in self.state.args)
        needless = _NEEDLESS_PASSES if has_none else _NEEDLESS_PASSES | _PASSES_FOR_NONE
        passes.passes = [
            (step, description)
            for step, description in passes.passes
            if step.__name__ not in needless
        ]
        passes.add_pass_after(_ReplaceMinMax, IRProcessing)
        passes.passes = [
            (_KernelLowering if step is NativeLowering else step, description)
            for step, description in passes.passes
        ]
        passes.finalize()
        return [passes]

    def compile_extra(self, func):
        """Compile `func` with cyclic garbage collection off, which saves a tenth of the time."""
        if not gc.isenabled():  # already off, for example while a caller is being compiled
            return self._with_globals(super().compile_extra(func))
        gc.disable()
        try:
            return self._with_globals(super().compile_extra(func))
        finally:
            gc.enable()

    def _with_globals(self, result):
        """Set the addresses of the globals of included functions, because `print` reads them."""
        for environment in result._find_referenced_environments():
            result.library.codegen.set_env(environment.env_name, environment)
        return result


def _n_arrays(kinds):
    """Return the number of arrays among the types of arguments, including arrays in tuples."""
    return sum(
        _n_arrays(kind.types)
        if isinstance(kind, types.BaseTuple)
        else isinstance(kind, types.Array)
        for kind in kinds
    )


def _grows_when_optimised(function, kinds):
    """Return True if a function takes several arrays and has a loop that writes to an array.

    LLVM compiles such a loop twice, with and without vectors, and checks whether arrays overlap. If
    several callers contained copies of the loop, compiling would take much time.
    """
    names = {instruction.opname for instruction in dis.get_instructions(function)}
    has_loop = any("JUMP_BACKWARD" in name for name in names)
    return has_loop and "STORE_SUBSCR" in names and _n_arrays(kinds) > 1


class _InnerLibrary(JITCodeLibrary):
    """Code that is included in kernels; it is not optimised or compiled on its own."""

    keep_calls = False  # True if callers call the function instead of copying its body

    def add_ir_module(self, ir_module):
        if self.keep_calls:
            # Add the attribute before LLVM parses the code. llvmlite 0.43, which belongs to Numba
            # 0.60, adds attributes of parsed code to the returned value, where this attribute is
            # invalid.
            for function in ir_module.functions:
                if not function.is_declaration and function.name.startswith("_ZN"):
                    function.attributes.add("noinline")
        super().add_ir_module(ir_module)

    def add_linking_library(self, library):
        if library is not rtsys.library:  # the kernel that Python calls includes Numba's runtime
            super().add_linking_library(library)

    def _optimize_final_module(self):
        """Do nothing, because the code is optimised as a part of the kernels that include it."""

    def _finalize_final_module(self):
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        self._finalized = True

    def get_pointer_to_function(self, name):
        return 0

    @property
    def codegen(self):  # Numba reads this attribute only to call `set_env`
        return self

    def set_env(self, env_name, env):
        """Do nothing: kernels that include this code do not use the address of its globals."""


class InnerCompiler(KernelCompiler):
    """Compiler of functions that only kernels call."""

    def compile_extra(self, func):
        """Compile `func` for inclusion in its callers."""
        library = _InnerLibrary(self.state.targetctx.codegen(), func.__qualname__)
        inline = self.state.flags.forceinline
        library.keep_calls = not inline and _grows_when_optimised(func, self.state.args)
        self.state["library"] = library
        return super().compile_extra(func)
