"""Results on another processor: rounding errors do not grow into differences that matter.

Another processor rounds matrix products differently, by about 1e-15. The tests move every entry of
X by a relative error of 1e-12, and run the fits with other kernels of OpenBLAS.
"""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from reference.cases import deep_except
from sklearn.datasets import load_iris
from threadpoolctl import threadpool_info

from skcrbm import (
    MSSVMCRBM,
    ChainCRF,
    CRBMClassifier,
    LabelGraphCRF,
    LayeredGMClassifier,
    LMBMClassifier,
)
from skcrbm.datasets import make_structured_labels

ROOT = Path(__file__).parents[2]
MODELS = {
    "crbm": (CRBMClassifier(random_state=0), 1e-8),
    "crbm_given": (CRBMClassifier(n_hidden=4, alpha=0.01, random_state=0), 1e-8),
    "crbm_sum_product": (
        CRBMClassifier(inference="sum_product", max_iter=10, random_state=0),
        1e-6,
    ),
    "lmbm": (LMBMClassifier(random_state=0), 1e-6),
    "mssvm": (MSSVMCRBM(max_iter=30, random_state=0), 1e-6),
    "label_graph": (LabelGraphCRF(random_state=0), 1e-8),
    "layered": (LayeredGMClassifier(max_iter=5, random_state=0), 1e-5),  # float32
}


def moved(X, seed):
    return X * (1 + 1e-12 * np.random.default_rng(seed).uniform(-1, 1, X.shape))


@pytest.mark.quick_cases(2)
@pytest.mark.compiled
@pytest.mark.parametrize("name", deep_except(("crbm_given", "lmbm", "layered"), MODELS))
def test_inputs_with_rounding_errors(name):
    model, tolerance = MODELS[name]
    X, Y = make_structured_labels(200, random_state=0)
    expected = model.fit(X, Y).predict_proba(X)
    for seed in range(2):
        found = model.fit(moved(X, seed), Y).predict_proba(X)
        np.testing.assert_allclose(found, expected, atol=tolerance)


@pytest.mark.deep
def test_one_hot_outputs_with_rounding_errors():
    X, y = load_iris(return_X_y=True)
    model = CRBMClassifier(random_state=0)
    expected = model.fit(X, y).predict_proba(X)
    np.testing.assert_allclose(model.fit(moved(X, 0), y).predict_proba(X), expected, atol=1e-8)


def test_sequences_with_rounding_errors():
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(6, 4)) for _ in range(60)]
    y = [(x @ [[1.0], [1], [0], [0]] + rng.normal(size=(6, 1)) > 0).ravel().astype(int) for x in X]
    model = ChainCRF(random_state=0)
    expected = np.concatenate(model.fit(X, y).predict_proba(X))
    model.fit([moved(x, i) for i, x in enumerate(X)], y)
    np.testing.assert_allclose(np.concatenate(model.predict_proba(X)), expected, atol=1e-8)


PROGRAM = """
import sys
import numpy as np
from skcrbm import CRBMClassifier, LMBMClassifier
from skcrbm.datasets import make_structured_labels

found = []
for n, seed in ((600, 1), (300, 0)):
    X, Y = make_structured_labels(n, random_state=seed)
    for model in (CRBMClassifier(random_state=0), LMBMClassifier(random_state=0)):
        found.append(model.fit(X, Y).predict_proba(X).ravel())
np.save(sys.argv[1], np.concatenate(found))
"""


@pytest.mark.deep
@pytest.mark.compiled
def test_kernels_of_another_processor(tmp_path):
    """Without the grid of L-BFGS, probabilities of the first set differ by 0.02."""
    names = [info.get("architecture") for info in threadpool_info() if "openblas" in str(info)]
    if not names:
        pytest.skip("OPENBLAS_CORETYPE changes the kernels of OpenBLAS only")
    arm = os.uname().machine in ("aarch64", "arm64")
    found = []
    for core in ("ARMV8", "NEOVERSEN1") if arm else ("Prescott", "Haswell"):
        path = tmp_path / f"{core}.npy"
        env = {**os.environ, "OPENBLAS_CORETYPE": core, "PYTHONPATH": str(ROOT)}
        subprocess.run([sys.executable, "-c", PROGRAM, str(path)], env=env, check=True, timeout=600)
        found.append(np.load(path))
    np.testing.assert_allclose(found[0], found[1], atol=1e-8)
