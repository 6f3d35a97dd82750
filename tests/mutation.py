"""Mutation testing: ``python -m tests.mutation [GROUP ...] --mutants N --seed S``.

One thing at a time is changed in a file (a comparison, an operator, a constant, a condition, a
statement), and the tests that are there for it are run, in a fork that has everything else
loaded. A mutant that no test kills is printed: it is equivalent, or a test is missing.
"""

import argparse
import ast
import copy
import importlib._bootstrap_external as loading
import os
import signal
import sys
import time
from pathlib import Path

import hypothesis  # noqa: F401  imports of the tests, loaded once for all forks
import numba  # noqa: F401
import numpy as np
import pandas  # noqa: F401
import pytest
import scipy.optimize  # noqa: F401
import sklearn.ensemble
import sklearn.linear_model

ROOT = Path(__file__).parents[1]
SECONDS = 900  # a mutant that takes longer counts as killed

# Tests through the estimators, for a mutant that the tests of its own file do not kill.
FURTHER = {
    "decoders": "estimators/test_decoded.py estimators/test_crbm.py decoding",
    "gate": "estimators/test_missing_labels.py estimators/test_crbm.py metrics/test_metrics.py",
    "references": "kernels/test_exact.py inference/test_inference.py inference/test_messages.py",
}
# File, and the tests that should notice a change of it.
GROUPS = {
    "decoders": {
        "skcrbm/decoding/expected.py": "decoding/test_expected_decoding.py",
        "skcrbm/decoding/posterior.py": (
            "decoding/test_expected_decoding.py decoding/test_decoding.py"
        ),
        "skcrbm/decoding/rules.py": "decoding/test_rules.py decoding/test_decoding.py",
        "skcrbm/decoding/best_states.py": "decoding/test_decoding.py inference/test_exact_map.py",
        "skcrbm/decoding/_model_expected.py": "decoding/test_model_expected.py",
        "skcrbm/decoding/thresholds.py": "decoding/test_thresholds.py",
    },
    "gate": {
        "skcrbm/targets/indicator.py": "targets decoding/test_decoding.py",
        "skcrbm/utils/validation.py": "energies/test_energies.py targets",
        "skcrbm/targets/kinds.py": "targets estimators/test_lmbm.py",
        "skcrbm/targets/weights.py": "estimators/test_class_weight.py",
        "skcrbm/datasets/_read.py": "datasets/test_damaged_files.py datasets/test_datasets.py",
    },
    "references": {
        "tests/reference/brute_force.py": "kernels/test_exact.py kernels/test_kernels.py "
        "inference/test_exact_map.py inference/test_messages.py",
        "tests/reference/brute_force_ising.py": "inference/test_ising.py",
        "tests/reference/naive_bp.py": "kernels/test_kernels.py inference/test_tree_reweighted.py",
        "tests/reference/naive_mean_field.py": "kernels/test_kernels.py",
        "tests/reference/naive_ising.py": "inference/test_ising.py",
        "tests/reference/naive_factor_graph.py": "inference/test_factor_graph_messages.py "
        "inference/test_graph_methods.py",
    },
}

COMPARISONS = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
OPERATORS = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.Pow: ast.Mult,
    ast.And: ast.Or,
    ast.Or: ast.And,
}


def changes(node):
    """Yield functions that change a node in place."""
    if isinstance(node, ast.Compare) and type(node.ops[0]) in COMPARISONS:
        yield lambda n: n.ops.__setitem__(0, COMPARISONS[type(n.ops[0])]())
    if isinstance(node, ast.BinOp | ast.BoolOp | ast.AugAssign) and type(node.op) in OPERATORS:
        yield lambda n: setattr(n, "op", OPERATORS[type(n.op)]())
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.Not | ast.Invert):
        yield lambda n: setattr(n, "op", ast.UAdd() if isinstance(n.op, ast.USub) else ast.USub())
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        yield lambda n: setattr(n, "value", n.value + 1)
    if isinstance(node, ast.Constant) and type(node.value) is bool:
        yield lambda n: setattr(n, "value", not n.value)
    if isinstance(node, ast.If | ast.IfExp | ast.While):
        yield lambda n: setattr(n, "test", ast.UnaryOp(ast.Not(), n.test))
    if isinstance(node, ast.Raise):
        yield lambda n: (setattr(n, "exc", ast.Name("ZeroDivisionError", ast.Load())),)
    if isinstance(node, ast.Assign | ast.AugAssign) and isinstance(
        node.targets[0] if isinstance(node, ast.Assign) else node.target, ast.Subscript
    ):
        yield lambda n: setattr(n, "value", ast.Constant(0))


def in_text(tree):
    """Nodes that are part of error messages, annotations or class attributes' descriptions."""
    skipped = set()
    for node in ast.walk(tree):
        parts = []
        if isinstance(node, ast.JoinedStr):
            parts = [node]
        elif isinstance(node, ast.Raise):
            parts = [node.exc] if node.exc else []
        elif isinstance(node, ast.FunctionDef):
            parts = [node.returns, *(a.annotation for a in node.args.args)]
        elif isinstance(node, ast.AnnAssign):
            parts = [node.annotation]
        skipped.update(id(n) for part in parts if part for n in ast.walk(part))
    return skipped


def mutants(source):
    """Yield (line, old text, new text, changed tree) for every change of a source."""
    tree = ast.parse(source)
    skipped = in_text(tree)
    for number, node in enumerate(ast.walk(tree)):
        if id(node) in skipped:
            continue
        for which, _ in enumerate(changes(node)):
            other = copy.deepcopy(tree)
            target = next(n for i, n in enumerate(ast.walk(other)) if i == number)
            before = ast.unparse(node).partition("\n")[0]
            list(changes(target))[which](target)
            ast.fix_missing_locations(other)
            after = ast.unparse(target).partition("\n")[0]
            yield node.lineno, before, after, other


def survives(path, tree, tests):
    """Whether the tests pass, in a fork of this process, with another tree for a file."""
    pid = os.fork()
    if pid == 0:
        os.setsid()
        signal.alarm(SECONDS)
        silence = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silence, 1)
        os.dup2(silence, 2)
        of_file = loading.SourceLoader.get_code

        def get_code(loader, name):
            place = loader.get_filename(name)
            return of_file(loader, name) if place != path else compile(tree, path, "exec")

        loading.SourceLoader.get_code = get_code
        places = [f"tests/{test}" for test in tests.split()]
        status = pytest.main(["-x", "-q", "-p", "no:cacheprovider", "-n", "0", *places])
        os._exit(int(status))
    return os.waitpid(pid, 0)[1] == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("groups", nargs="*", default=list(GROUPS), help="decoders, gate, ...")
    parser.add_argument("--mutants", type=int, default=100, help="how many of each group")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    os.chdir(ROOT)
    assert sklearn.ensemble
    n_all = n_survivors = 0
    for group in options.groups:
        every = []
        for name, tests in GROUPS[group].items():
            source = (ROOT / name).read_text(encoding="utf-8")
            every += [(name, tests, *mutant) for mutant in mutants(source)]
        for tests in sorted({FURTHER[group], *GROUPS[group].values()}):
            assert survives(None, None, tests), f"{tests} fail without a change"
        order = np.random.default_rng(options.seed).permutation(len(every))[: options.mutants]
        print(f"{group}: {len(order)} of {len(every)} mutants", flush=True)
        for i in sorted(order):
            name, tests, line, before, after, tree = every[i]
            began = time.monotonic()
            n_all += 1
            if all(survives(str(ROOT / name), tree, more) for more in (tests, FURTHER[group])):
                n_survivors += 1
                print(f"SURVIVED {name}:{line}: {before}  ->  {after}", flush=True)
            elif time.monotonic() - began > SECONDS - 1:
                print(f"timed out {name}:{line}: {before}  ->  {after}", flush=True)
    print(f"{n_all} mutants, {n_survivors} survivors")
    sys.exit(0)


if __name__ == "__main__":
    main()
