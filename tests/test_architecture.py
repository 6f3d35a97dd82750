"""The package's structure, read from its sources: who may import whom, house rules."""

import ast
import functools
import importlib
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

import skcrbm
from skcrbm.utils.advice import SUPPORT

ROOT = Path(skcrbm.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
COMPILATION = (
    "bits.py",
    "cache.py",
    "compiler.py",
    "interrupts.py",
    "jit.py",
    "numba_private.py",
)
# Circles of files that import each other. The list may only become shorter.
KNOWN_CIRCLES: list[set[str]] = []
# The only file that imports private names of a package.
PRIVATE_NAMES = {
    "sklearn": {"skcrbm/utils/sklearn_private.py"},
    "numba": {"skcrbm/kernels/numba_private.py"},
}
KERNELS = [p for p in sorted((ROOT / "kernels").rglob("*.py")) if p.name != "__init__.py"]

# Which parts of the package each part may import, itself apart.
MAY_IMPORT = {
    "kernels": set(),
    "utils": {"_version", "exceptions"},
    "layers": {"utils"},
    "formats": {"utils"},
    "energies": {"formats", "layers", "utils"},
    "inference": {"kernels", "energies", "exceptions", "utils"},
    "learning": {"kernels", "energies", "inference", "targets", "utils"},
    "decoding": {"energies", "inference", "metrics", "targets", "utils"},
    "datasets": {"energies", "exceptions", "utils"},
    "metrics": {"targets", "utils"},
    "targets": {"utils"},
    "inspection": {"targets", "utils"},
    "model_selection": {"metrics", "targets", "utils"},
    "ensemble": {"decoding", "estimators", "model_selection", "pipeline", "targets", "utils"},
    "annotation": {"decoding", "model_selection", "targets", "utils"},
    "calibration": {"model_selection", "targets", "utils"},
    "constraints": {"energies", "inference", "targets", "utils"},
    "estimators": {
        "decoding",
        "energies",
        "inference",
        "layers",
        "learning",
        "model_selection",
        "targets",
        "utils",
    },
    "density": {"energies", "inference", "learning", "targets", "utils"},
    "pipeline": {"targets", "utils"},
    "compile": {"__init__"},
    "exceptions": set(),
    "_version": set(),
    "__init__": {"_version", "estimators", "utils"},
}


def name_of(path):
    return str(path.relative_to(ROOT.parent))


def part_of(path):
    """The part of the package that a file belongs to: a folder or a top-level module."""
    first = path.relative_to(ROOT).parts[0]
    return first.removesuffix(".py")


@functools.cache
def imported_modules(path):
    package = [ROOT.name, *path.relative_to(ROOT).parts[:-1]]
    return list(imports_in(parsed(path), package))


def imports_in(tree, package):
    """Absolute names of everything that a parsed source imports, anywhere in it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            yield module
            # `from skcrbm import energies` imports a part by its name.
            yield from (f"{module}.{alias.name}" for alias in node.names)


@functools.cache
def parsed(path):
    return ast.parse(path.read_text(encoding="utf-8"))


def for_each(paths):
    """Run a test of a file for all files: a case of its own for each file would take longer."""

    def decorate(test):
        def test_of_all():
            for path in paths:
                try:
                    test(path)
                except AssertionError as error:
                    raise AssertionError(f"{name_of(path)}: {error}") from error

        test_of_all.__name__, test_of_all.__doc__ = test.__name__, test.__doc__
        return test_of_all

    return decorate


def test_imports_are_found_wherever_they_stand():
    source = """
import skcrbm.a
def function():
    from ..b import c
    from . import d
class Class:
    from skcrbm import e
"""
    found = set(imports_in(ast.parse(source), ["skcrbm", "energies"]))
    expected = {"skcrbm.a", "skcrbm.b", "skcrbm.b.c", "skcrbm.energies.d", "skcrbm.e"}
    assert expected <= found


@for_each(FILES)
def test_imports_go_one_way(path):
    part = part_of(path)
    assert part in MAY_IMPORT, f"{part} has no place in the layers"
    allowed = MAY_IMPORT[part] | {part}
    for module in imported_modules(path):
        head, _, rest = module.partition(".")
        if head != ROOT.name or not rest:
            continue
        other = rest.partition(".")[0]
        if other in MAY_IMPORT:
            assert other in allowed, f"{name_of(path)} imports {module}"


@for_each(FILES)
def test_no_part_reaches_into_another(path):
    """Modules that begin with an underscore are imported only within their own folder."""
    part = part_of(path)
    for module in imported_modules(path):
        head, *rest = module.split(".")
        if head == ROOT.name and rest and rest[0] not in (part, "_version"):
            private = [name for name in rest if name.startswith("_") and name != "__version__"]
            assert not private, f"{name_of(path)} imports {module}"


def module_of(path):
    return ".".join([ROOT.name, *path.relative_to(ROOT).with_suffix("").parts])


def circles(imports):
    """Sets of nodes of a directed graph, {node: nodes}, of which each leads to all others."""
    position = {node: i for i, node in enumerate(imports)}
    edges = np.zeros((len(imports), len(imports)), bool)
    for node, others in imports.items():
        edges[position[node], [position[other] for other in others]] = True
    n, labels = connected_components(csr_array(edges), connection="strong")
    found = [set() for _ in range(n)]
    for node, label in zip(imports, labels):
        found[label].add(node)
    return [nodes for nodes in found if len(nodes) > 1]


def test_circles_are_found():
    assert circles({"a": ["b"], "b": ["c"], "c": ["b"], "d": ["a", "b"]}) == [{"b", "c"}]


def test_no_files_import_each_other():
    modules = {module_of(path): path for path in FILES if path.name != "__init__.py"}
    imports = {
        module: set(imported_modules(path)) & set(modules) for module, path in modules.items()
    }
    assert imports["skcrbm.inference.registry"]
    found = sorted(circles(imports), key=sorted)
    assert found == KNOWN_CIRCLES


def private_names(path):
    """Pairs (package, name) of the private names of other packages that a file imports."""
    for module in imported_modules(path):
        head, *rest = module.split(".")
        private = any(part.startswith("_") for part in rest) or module.startswith("numba.core")
        if rest and private and head != ROOT.name:
            yield head, module


@for_each(FILES)
def test_private_names_of_other_packages_stand_in_one_file(path):
    for package, name in private_names(path):
        assert name_of(path) in PRIVATE_NAMES.get(package, ()), f"{name_of(path)} imports {name}"


@pytest.mark.parametrize("package", PRIVATE_NAMES)
def test_the_files_with_private_names_have_them(package):
    found = {name_of(path) for path in FILES if package in dict(private_names(path))}
    assert found == PRIVATE_NAMES[package]


# Parts whose messages name an estimator only through `supporting` of `utils/advice.py`.
KNOW_NO_ESTIMATOR = ("utils", "targets", "kernels", "energies", "inference", "metrics")


def messages_in(tree):
    """The string literals of a source, without its docstrings."""
    holders = ast.Module, ast.ClassDef, ast.FunctionDef
    first = [node.body[0] for node in ast.walk(tree) if isinstance(node, holders) and node.body]
    documentation = {id(node.value) for node in first if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        text = isinstance(node, ast.Constant) and isinstance(node.value, str)
        if text and id(node) not in documentation:
            yield node.value


@for_each([p for p in FILES if part_of(p) in KNOW_NO_ESTIMATOR])
def test_low_parts_know_no_estimator(path):
    names = re.compile(rf"\b({'|'.join({*skcrbm.__all__} - {'Graph', 'grid_graph'})})\b")
    for text in messages_in(parsed(path)):
        assert not names.search(text), f"{name_of(path)} names an estimator: {text!r}"


def test_messages_name_estimators_that_exist():
    for what, names in SUPPORT.items():
        for name in names:
            found = re.findall(r"[A-Z]\w+(?:Classifier|CRF|CRBM)|MSSVMCRBM", name)
            own = [n for n in found if n in skcrbm.__all__]
            assert own or name.endswith(tuple(skcrbm.ensemble.__all__)), (what, name)


def test_every_part_has_a_layer():
    parts = {part_of(p) for p in FILES}
    assert parts == set(MAY_IMPORT)


@for_each(KERNELS)
def test_kernels_import_arrays_and_kernels_only(path):
    for module in imported_modules(path):
        head = module.partition(".")[0]
        if head != ROOT.name:
            assert head in {"numpy", "numba", *sys.stdlib_module_names}, module
            assert head != "numba" or path.name in COMPILATION, "compile with the house decorator"


@for_each(KERNELS)
def test_kernels_import_by_full_names(path):
    """The cache of kernels searches for these names, to compile the callers of an edited kernel."""
    imports = [node for node in ast.walk(parsed(path)) if isinstance(node, ast.ImportFrom)]
    assert not any(node.level for node in imports)


# Plain Python functions that callers use to allocate the scratch arrays of a kernel. A kernel that
# allocates them itself takes longer to compile.
ALLOCATORS = ("work_arrays", "progress_arrays", "odds_work")


@for_each([p for p in KERNELS if p.name not in (*COMPILATION, "arguments.py")])
def test_every_kernel_has_the_house_decorator(path):
    tree = parsed(path)
    functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.Lambda)]
    assert functions
    for function in functions:
        if getattr(function, "name", None) in ALLOCATORS:
            continue
        assert isinstance(function, ast.FunctionDef), "a lambda compiles with its caller only"
        assert function in tree.body, f"{function.name} is nested: it cannot be cached"
        assert len(function.decorator_list) == 1, function.name
        decorator = function.decorator_list[0]
        call = decorator if isinstance(decorator, ast.Call) else None
        assert getattr(call.func if call else decorator, "id", None) == "jit", function.name
        if call and call.keywords[0].arg == "by_precision":
            single, double = (name.id for name in call.keywords[0].value.elts)
            assert single.endswith("_32"), function.name
            assert double.endswith("_64"), function.name
        elif call:
            given = {k.arg: ast.literal_eval(k.value) for k in call.keywords}
            assert set(given) <= {"fastmath", "allocates", "inline"}
            flags = given.get("fastmath", set())
            assert flags <= {"contract", "reassoc"}, f"{function.name}: infinities carry meaning"


def reorders_sums(function):
    """Whether a kernel's flags let the compiler reorder its sums."""
    return any('"reassoc"' in ast.unparse(d).replace("'", '"') for d in function.decorator_list)


def innermost_loops(function):
    for loop in ast.walk(function):
        if isinstance(loop, ast.For | ast.While):
            inner = [n for s in loop.body for n in ast.walk(s)]
            if not any(isinstance(n, ast.For | ast.While) for n in inner):
                yield inner


# Stores to rows at a fixed distance from all that is read, longer than a vector;
# `tests/kernels/test_memory_layout.py` checks that its bits do not depend on the layout.
STORES_APART = {"skcrbm.kernels.rbm_exact._divide"}


@for_each([p for p in KERNELS if p.name not in COMPILATION])
def test_reordered_sums_only_load(path):
    """A loop that stores too is vectorised or not by where its arrays lie in memory."""
    functions = parsed(path).body
    for function in filter(lambda n: isinstance(n, ast.FunctionDef), functions):
        name = f"skcrbm.kernels.{path.stem}.{function.name}"
        if reorders_sums(function) and name not in STORES_APART:
            for loop in innermost_loops(function):
                updates = [n.target for n in loop if isinstance(n, ast.AugAssign)]
                stores = [n for n in loop if isinstance(n, ast.Subscript)]
                stores = [n for n in stores if isinstance(n.ctx, ast.Store)]
                reduces = any(isinstance(t, ast.Name) for t in updates)
                assert not (reduces and stores), f"{function.name} stores in a loop that sums"


@for_each(FILES)
def test_no_raw_njit_no_global_random_numbers_no_print(path):
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Name):
            assert node.id != "print"
            assert node.id not in ("njit", "prange")
        if isinstance(node, ast.Attribute):
            base = node.value
            assert node.attr != "njit" or path.name in COMPILATION
            if isinstance(base, ast.Attribute) and base.attr == "random":
                # Generators and their types are fine; the module's global stream is not.
                assert getattr(base.value, "id", None) not in ("np", "numpy") or node.attr in {
                    "BitGenerator",
                    "Generator",
                    "Philox",
                    "RandomState",
                    "SeedSequence",
                    "default_rng",
                }, f"np.random.{node.attr}"


LOCATION = re.compile(r'"(skcrbm\.[\w.]+:\w+)"')


def test_registered_locations_exist():
    """Each "module:attribute" string names a thing of its own part, so that it keeps the layers."""
    found = set()
    for path in FILES:
        for location in LOCATION.findall(path.read_text(encoding="utf-8")):
            module, attribute = location.split(":")
            assert module.split(".")[1] == part_of(path), f"{name_of(path)} names {location}"
            assert hasattr(importlib.import_module(module), attribute), location
            found.add(part_of(path))
    assert {"decoding", "inference", "learning"} <= found


@pytest.mark.parametrize("name", ["outside", "outside_marginals"])
def test_the_worked_examples_are_those_that_are_tested(name):
    tests = Path(__file__).parent
    page = (tests.parent / "doc" / "extending.md").read_text(encoding="utf-8")
    code = (tests / "reference" / f"{name}.py").read_text(encoding="utf-8")
    assert f"\n```python\n{code}```\n" in page


@pytest.mark.parametrize(
    "package", sorted(p.parent for p in ROOT.glob("[a-z]*/__init__.py")), ids=lambda p: p.name
)
def test_public_names_exist(package):
    module = importlib.import_module(f"skcrbm.{package.name}")
    assert len(set(getattr(module, "__all__", []))) == len(getattr(module, "__all__", []))
    for name in getattr(module, "__all__", []):
        assert getattr(module, name) is not None
    with pytest.raises(AttributeError, match="no_such_name"):
        module.no_such_name  # noqa: B018
