"""Memory that fits need beside the data, in bytes per row."""

import tracemalloc

import numpy as np
import pytest

from skcrbm import CRBMClassifier, LMBMClassifier
from skcrbm.learning import Adam

N_FEATURES, N_LABELS = 60, 10
FEW, MANY = 8192, 16384  # of which a warning about scales looks at as many rows


def data(n_rows):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_rows, N_FEATURES), dtype=np.float32)
    fields = X[:, :N_LABELS] + rng.standard_normal((n_rows, 1))
    return X, (fields + rng.standard_normal(fields.shape) > 0.5).astype(np.int8)


def peak(model, X, y):
    """Most bytes held in a fit."""
    tracemalloc.start()
    try:
        model.fit(X, y)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


GIVEN = {"inference": "exact", "alpha": 0.01, "n_hidden": 4}
# A row: y in the dtype of X takes 40 bytes, weights and places 8 each; dual variables 80, labels
# in the order of a row 20, their signs 10. A copy of X takes 240, in float64 480.
FITS = {
    "LMBM": (LMBMClassifier(C=0.01, pairwise_penalty=100, max_iter=3), 180),
    "LMBM, nothing set": (LMBMClassifier(max_iter=50), 560),
    "CRBM, all rows": (CRBMClassifier(solver="lbfgs", max_iter=5, **GIVEN), 80),
    "CRBM, batches": (
        CRBMClassifier(solver=Adam(batch_size=100), max_iter=1, early_stopping=False, **GIVEN),
        80,
    ),
    "CRBM, nothing set": (CRBMClassifier(n_hidden=2, max_iter=3), 185),
}


@pytest.mark.deep
@pytest.mark.parametrize("name", FITS)
def test_memory_beside_the_data(monkeypatch, name):
    blocks = "utils.columns", "targets.indicator", "utils.parallel"
    for module in (*blocks, "learning.large_margin.dual_coordinate"):
        monkeypatch.setattr(f"skcrbm.{module}.BLOCK_ENTRIES", 2**14)
    monkeypatch.setattr("skcrbm.learning.large_margin._newton._MAX_INPUTS", 2**14)
    model, most = FITS[name]
    model.set_params(random_state=0)
    model.fit(*data(200))  # compile
    few, many = (peak(model, *data(n_rows)) for n_rows in (FEW, MANY))
    assert many - few < most * (MANY - FEW)
