"""Fits on arrays that are larger than the memory: only batches of rows are copied."""

import pickle
import subprocess
import sys

import numpy as np
import pytest

from skcrbm import CRBMClassifier
from skcrbm.learning import Adam, EarlyStopping

N, D = 40_000, 600
SETTINGS = {
    "n_hidden": 2,
    "alpha": 0.01,
    "solver": Adam(batch_size=500),
    "max_iter": 2,
    "random_state": 0,
    "early_stopping": EarlyStopping(refit=False),  # so that the rows are split, too
}
FIT = """
import pickle, re, resource, sys
import numpy as np
from skcrbm import CRBMClassifier
from skcrbm.learning import Adam, EarlyStopping

folder, n, d, settings = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), eval(sys.argv[4])
X = np.memmap(folder + "/X", np.float32, "r", shape=(n, d))
y = np.load(folder + "/y.npy")
model = CRBMClassifier(**settings)
model.fit(X[:2000], y[:2000]).predict(X[:2000])  # kernels and threads are there
with open("/proc/self/status") as file:
    data = int(re.search(r"VmData:\\s+(\\d+) kB", file.read())[1]) * 1024
limit = data + X.nbytes // 2
resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
try:
    np.array(X)
except MemoryError:
    pass
else:
    raise AssertionError("X as a whole fits into the memory")
model.fit(X, y)
with open(folder + "/model.pkl", "wb") as file:
    pickle.dump((model, model.predict_proba(X)), file)
"""


@pytest.mark.deep
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits of memory are Linux's")
def test_fit_on_a_memory_mapped_array_larger_than_the_memory(tmp_path):
    X = np.random.RandomState(0).random_sample((N // 40, D)).astype(np.float32)
    X = np.tile(X, (40, 1))
    y = (X[:, :3] + X[:, 3:6] > 1).astype(np.int8)
    X.tofile(tmp_path / "X")
    np.save(tmp_path / "y.npy", y)
    arguments = [str(tmp_path), str(N), str(D), repr(SETTINGS)]
    run = subprocess.run([sys.executable, "-c", FIT, *arguments], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    with open(tmp_path / "model.pkl", "rb") as file:
        model, proba = pickle.load(file)
    in_memory = CRBMClassifier(**SETTINGS).fit(X, y)
    np.testing.assert_array_equal(model.visible_coef_, in_memory.visible_coef_)
    np.testing.assert_array_equal(model.weights_, in_memory.weights_)
    np.testing.assert_array_equal(proba, in_memory.predict_proba(X))
