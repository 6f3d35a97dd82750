"""Compilers for kernels: Numba's compiler without the steps that kernels do not need.

A kernel is compiled as a whole. Functions that only other kernels call are translated, but not
optimised by themselves, because LLVM optimises their code together with the kernel that calls them.
"""

import contextlib
import dis
import functools
import gc
import operator

import numba
import numpy as np
from numba import types
from numba.extending import intrinsic

from skcrbm.kernels.cache import ForgivingCache
from skcrbm.kernels.interrupts import interrupts_later
from skcrbm.kernels.numba_private import (
    Compiler,
    Flags,
    FunctionPass,
    IRProcessing,
    JITCodeLibrary,
    ir,
    register_pass,
    rtsys,
)

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


def _selection(comparison):
    """Return a function that Numba compiles as `b if comparison(b, a) else a`, without a call."""

    @intrinsic
    def select(context, a, b):
        kind = context.unify_types(types.unliteral(a), types.unliteral(b))
        if not isinstance(kind, types.Number | types.Boolean):
            return None

        def codegen(context, builder, call, args):
            first, second = (
                context.cast(builder, value, given, kind)
                for value, given in zip(args, call.args, strict=True)
            )
            compare = context.get_function(comparison, types.boolean(kind, kind))
            return builder.select(compare(builder, (second, first)), second, first)

        return kind(a, b), codegen

    return select


# The keys are identities, because other globals, such as arrays, have no hash.
_REPLACEMENTS = {id(max): _selection(operator.gt), id(min): _selection(operator.lt)}


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


class _Flags(Flags):
    """Flags of the compiler, which are compared quickly.

    Numba compares flags at each call of a function of its library. Its own method `values` reads
    40 properties, which takes 6 % of the time of compilation.
    """

    _defaults = {name: option.default for name, option in Flags.options.items()}

    def values(self):
        """Return a dict of all flags."""
        return self._defaults | self._values


@contextlib.contextmanager
def _fast_compilation():
    """Compile in a `with` block without cyclic garbage collection, which saves a tenth of the time.

    Numba's lock of the compiler must be held. Blocks may be nested.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


class KernelCompiler(Compiler):
    """Compiler of kernels that Python calls."""

    def __init__(self, typing, target, library, args, return_type, flags, local_types):
        super().__init__(typing, target, library, args, return_type, _Flags(flags), local_types)

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
        passes.finalize()
        return [passes]

    def compile_extra(self, func):
        """Compile `func` quickly."""
        with _fast_compilation():
            return self._with_globals(super().compile_extra(func))

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
        plain = [types.int64 if isinstance(a, types.IntegerLiteral) else a for a in args]
        return dispatcher.get_call_template(plain, kws)

    return get_call_template


def _choose_by_precision(dispatcher, single, double):
    """Compile calls of `dispatcher` in kernels as calls of `single` (float32) or `double`.

    The dtype of the first argument decides.
    """

    def chosen(args):
        return single if args[0].dtype == types.float32 else double

    dispatcher.get_call_template = lambda args, kws: chosen(args).get_call_template(args, kws)
    dispatcher.get_overload = lambda args: chosen(args).get_overload(args)


def kernel_dispatcher(function, by_precision, allocates, inline, **options):
    """Return a dispatcher of `function`, with the parameters of `jit` and options of `numba.njit`.

    Kernels are never called from C, so they need no wrapper for C.
    """
    # Set both flags for every kernel. If a flag is not set, a called kernel takes the flag of the
    # first kernel that calls it.
    options |= {"no_cfunc_wrapper": True, "forceinline": inline, "_nrt": allocates}
    dispatcher = numba.njit(pipeline_class=KernelCompiler, **options)(function)
    # Kernels that call the function include a second version of it, without machine code and Python
    # wrapper. Generating these would take a third of the compile time.
    inner = numba.njit(pipeline_class=InnerCompiler, no_cpython_wrapper=True, **options)(function)
    dispatcher.get_call_template = _without_literals(inner)
    dispatcher.get_overload = inner.get_overload
    if by_precision is not None:
        _choose_by_precision(dispatcher, *by_precision)
    dispatcher.compile = _compile_whole(dispatcher)
    # If no folder can be written (RuntimeError, OSError), keep compiled code in memory only.
    with contextlib.suppress(RuntimeError, OSError):
        dispatcher._cache = ForgivingCache(function)
    return dispatcher


@functools.partial(kernel_dispatcher, by_precision=None, allocates=False, inline=False)
def _scale(x, factor, out):
    for i in range(x.shape[0]):
        out[i] = max(x[i], 0.0) * factor


@functools.partial(kernel_dispatcher, by_precision=None, allocates=False, inline=False)
def _scale_by(x, factor, out):
    _scale(x, 2 if factor is None else factor, out)


def check_compiler():
    """Raise an error unless the compiler can compile two kernels that call each other."""
    out = np.empty(2)
    _scale_by(np.array([3.0, -1.0]), None, out)
    if out.tolist() != [6.0, 0.0]:
        raise RuntimeError(f"a compiled test returned {out}")
