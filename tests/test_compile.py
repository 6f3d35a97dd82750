"""Compile kernels ahead of the first use: `skcrbm.compile`."""

import pickle
import subprocess
import sys

import numpy as np
import pytest

from skcrbm import LMBMClassifier
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
