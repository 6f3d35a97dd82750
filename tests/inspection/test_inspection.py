"""Displays: drawn curves and axes, refused arguments."""

import matplotlib
import numpy as np
import pytest
from reference.random_models import random_rbm

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from sklearn.exceptions import NotFittedError

from skcrbm import CRBMClassifier
from skcrbm.inference import SumProduct, infer
from skcrbm.inspection import ConvergenceDisplay


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def fitted():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4))
    y = (X[:, :3] + rng.normal(size=(60, 3)) > 0).astype(int)
    method = SumProduct(max_iter=3, tol=1e-4)
    options = {"solver": "adam", "alpha": 0.1, "max_iter": 8, "random_state": 0}
    model = CRBMClassifier(inference=method, **options)
    with pytest.warns(match="converge"):
        return model.fit(X, y)


def test_share_of_converged_inference_per_epoch():
    model = fitted()
    display = ConvergenceDisplay.from_estimator(model, color="C3")
    x, y = display.lines_[0].get_data()
    np.testing.assert_array_equal(x, np.arange(1, 9))
    np.testing.assert_array_equal(y, model.convergence_curve_)
    assert display.lines_[0].get_color() == "C3"
    assert display.ax_.get_xlabel() == "epoch"
    assert display.figure_ is display.ax_.figure


def test_residuals_of_a_result():
    energy = random_rbm(0, 6, 5, n_models=4, scale=1.0)
    result = infer(energy, "sum_product", max_iter=50, tol=1e-5, return_trace=True)
    _, ax = plt.subplots()
    display = ConvergenceDisplay.from_result(result, ax=ax)
    assert display.ax_ is ax
    assert ax.get_yscale() == "log"
    assert len(display.lines_) == 4
    for n, line in enumerate(display.lines_):
        y = line.get_ydata()
        assert len(y) == result.n_iter.max()
        np.testing.assert_array_equal(y, result.trace[n, : len(y)])


def test_what_cannot_be_drawn():
    energy = random_rbm(0, 3, 2)
    with pytest.raises(ValueError, match="return_trace=True"):
        ConvergenceDisplay.from_result(infer(energy))
    with pytest.raises(NotFittedError):
        ConvergenceDisplay.from_estimator(CRBMClassifier())
