"""Functions compiled by the first prediction of a process, with and without a cache."""

import os
import pickle
import subprocess
import sys

import numpy as np
import pytest

from skcrbm import MSSVMCRBM, CRBMClassifier, LMBMClassifier
from skcrbm.compile import compile_kernels, main
from skcrbm.inference import BranchAndBound

COUNT = """
import pickle, sys
with open(sys.argv[1], "rb") as file:
    model, X = pickle.load(file)
model.predict(X[:2])
misses = hits = 0
for module in [m for name, m in sys.modules.items() if name.startswith("skcrbm.kernels.")]:
    for kernel in vars(module).values():
        stats = getattr(kernel, "stats", None)
        if stats is not None:
            misses += sum(stats.cache_misses.values())
            hits += sum(stats.cache_hits.values())
print(misses, hits)
"""

# Number of versions of functions that are compiled, with callees and with functions of Numba. The
# program skips the optimiser to save time.
COMPILED = """
import pickle, sys
from numba.core import codegen, event
codegen.CPUCodeLibrary._optimize_final_module = lambda library: None
functions = []
class Listener(event.Listener):
    def on_start(self, event):
        functions.append(event.data["dispatcher"].py_func)
    def on_end(self, event):
        pass
event.register("numba:compile", Listener())
with open(sys.argv[1], "rb") as file:
    model, X = pickle.load(file)
model.predict(X[:1])
print(len(functions))
"""


@pytest.mark.deep
@pytest.mark.compiled
@pytest.mark.parametrize(
    ("model", "n_compiled"),
    [
        (CRBMClassifier(n_hidden=2, alpha=0.1, alpha_hidden=0.1, max_iter=3), 0),
        (LMBMClassifier(C=1.0, pairwise_penalty=1.0), 0),
        # Message kernels are cut into pieces, each a function for the compiler.
        (MSSVMCRBM(n_hidden=2, max_iter=2, random_state=0), 35),
    ],
    ids=["CRBMClassifier", "LMBMClassifier", "MSSVMCRBM"],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_first_prediction_of_a_row_with_an_empty_cache(model, n_compiled, tmp_path):
    """The first prediction compiles at most `n_compiled` functions."""
    X = np.random.RandomState(1).standard_normal((30, 5))
    model.fit(X, (X[:, :3] > 0).astype(int))
    (tmp_path / "model.pkl").write_bytes(pickle.dumps((model, X)))
    run = subprocess.run(
        [sys.executable, "-c", COMPILED, tmp_path / "model.pkl"],
        capture_output=True,
        text=True,
        env=os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)},
    )
    assert run.returncode == 0, run.stderr
    assert int(run.stdout) <= n_compiled


ASKED = """
import sys
from collections import Counter
from numba.core import codegen, event
codegen.CPUCodeLibrary._optimize_final_module = lambda library: None
compiled = Counter()
class Listener(event.Listener):
    def on_start(self, event):
        compiled[event.data["dispatcher"].py_func] += 1
    def on_end(self, event):
        pass
event.register("numba:compile", Listener())
from skcrbm.energies import FactorGraphEnergy, TableFactors
from skcrbm.inference import infer
pairs = TableFactors([(0, 1), (1, 2)], [[[0.0, 1.0], [2.0, 0.0]]] * 2)
infer(FactorGraphEnergy([pairs], [[0.1, 0.2, 0.3]]), sys.argv[1], **eval(sys.argv[2]))
print(compiled.total(), max(compiled.values()))
"""


@pytest.mark.deep
@pytest.mark.compiled
@pytest.mark.parametrize(
    ("method", "options", "n_compiled"),
    [
        ("sum_product", {}, 28),
        ("max_product", {}, 28),
        ("perturb_and_max_product", {"returns": ("samples",), "random_state": 0}, 20),
    ],
    ids=["sum_product", "max_product", "perturb_and_max_product"],
)
def test_first_question_about_a_factor_graph(method, options, n_compiled, tmp_path):
    """The first question compiles at most `n_compiled` functions, each of them once."""
    run = subprocess.run(
        [sys.executable, "-c", ASKED, method, repr(options)],
        capture_output=True,
        text=True,
        env=os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)},
    )
    assert run.returncode == 0, run.stderr
    total, most = map(int, run.stdout.split())
    assert 0 < total <= n_compiled
    assert most == 1


@pytest.mark.compiled
def test_a_later_process_compiles_nothing(tmp_path, capsys):
    main(["--estimators", "LMBMClassifier", "--dtypes", "float64"])
    assert capsys.readouterr().out.startswith("LMBMClassifier: ")
    X = np.random.RandomState(1).standard_normal((30, 5))
    model = LMBMClassifier().fit(X, X[:, :3] > 0)
    # No search ends, so that all rows need the kernel of hard rows, too.
    model.set_params(inference=BranchAndBound(node_limit=1))
    (tmp_path / "model.pkl").write_bytes(pickle.dumps((model, X)))
    run = subprocess.run(
        [sys.executable, "-c", COUNT, tmp_path / "model.pkl"], capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    misses, hits = map(int, run.stdout.split())
    assert misses == 0
    assert hits > 0


@pytest.mark.deep
@pytest.mark.compiled
def test_rows_of_weights_are_moved_by_kernels_that_it_compiles():
    code = """
from skcrbm.compile import compile_kernels
from skcrbm.kernels import adam
compile_kernels(["LayeredGMClassifier"])
print(len(adam.step_rows.signatures), len(adam.bring_up_rows.signatures))
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert run.stdout.split() == ["2", "2"]  # float64 and float32


@pytest.mark.parametrize(
    "options", [{"estimators": ["LMBM"]}, {"dtypes": ["float16"]}, {"estimators": "MSSVMCRBM"}]
)
def test_unknown_names_are_refused(options):
    with pytest.raises(ValueError, match=f"{next(iter(options))} must be a list of names from"):
        compile_kernels(**options)
