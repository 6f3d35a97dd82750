"""Training that ends at `max_iter` says so, and training that diverges is an error."""

import warnings

import numpy as np
import pytest
from reference.every_estimator import MODELS, data_of, model_of, public_estimators
from sklearn.exceptions import ConvergenceWarning

from skcrbm import MSSVMCRBM, ChainCRF, CRBMClassifier, GraphCRF, LayeredGMClassifier
from skcrbm.density import RBM, IsingModel, MarkovRandomField
from skcrbm.learning import SGD, Adam, AveragedSGD, EarlyStopping, loop

WITH_MAX_ITER = [name for name in MODELS if "max_iter" in model_of(name).get_params(deep=False)]
# Rules without a loss do a fixed number of epochs; these are the default rules of densities.
FIXED = {"RBM", "IsingModel", "MarkovRandomField"}


def warnings_of(model, X, y):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X) if y is None else model.fit(X, y)
    return [str(w.message) for w in caught if issubclass(w.category, ConvergenceWarning)]


@pytest.mark.parametrize("name", WITH_MAX_ITER)
def test_two_iterations_are_too_few(name):
    X, y = data_of(name, 60)
    model = model_of(name).set_params(max_iter=2)
    if name == "LMBMClassifier":
        model.set_params(max_iter=1)
    if name in FIXED:
        assert not warnings_of(model, X, y)
        model.set_params(learning="mle")
    found = warnings_of(model, X, y)
    assert len([text for text in found if text.startswith("Training ended after max_iter=")]) == 1


@pytest.mark.parametrize(
    "name", ["CRBMClassifier", "LabelGraphCRF", "ChainCRF", "GraphCRF", "GridCRF", "SSVMClassifier"]
)
def test_defaults_converge(name):
    kind = public_estimators()[name]
    X, y = data_of(name, 60)
    options = {"n_hidden": 0} if name == "CRBMClassifier" else {}
    options |= {"alpha": 0.1} if name in ("ChainCRF", "GraphCRF") else {}
    assert not warnings_of(kind(random_state=0, **options), X, y)


@pytest.mark.parametrize("early_stopping", [False, True])
@pytest.mark.parametrize("solver", ["adam", "sgd", "asgd"])
def test_stochastic_solvers(solver, early_stopping):
    X, y = data_of("CRBMClassifier", 60)
    options = {"solver": solver, "early_stopping": early_stopping, "random_state": 0}
    model = CRBMClassifier(n_hidden=0, alpha=0.1, **options)
    text = "validation score was still rising" if early_stopping else "loss was still falling"
    (found,) = warnings_of(model.set_params(max_iter=2), X, y)
    assert f"max_iter=2 epochs, while the {'training ' * (not early_stopping)}{text}" in found
    assert not warnings_of(model.set_params(max_iter=400), X, y)
    assert not warnings_of(model.set_params(max_iter=2, learning="cd", early_stopping=False), X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        model.set_params(learning="mle").partial_fit(X, y)


def test_a_few_iterations_cost_likelihood():
    X, y = data_of("CRBMClassifier", 400)
    model = CRBMClassifier(alpha=0.02, max_iter=2, random_state=0)
    with pytest.warns(ConvergenceWarning, match="after max_iter=2 iterations of L-BFGS"):
        early = model.fit(X[:200], y[:200]).score_samples(X[200:], y[200:]).mean()
    late = model.set_params(max_iter=200).fit(X[:200], y[:200])
    assert late.score_samples(X[200:], y[200:]).mean() > early + 0.2


# ------------------------------------------------------------------------------- divergence

X5, Y5 = np.array([[1.0], [0], [0], [1], [0]]), np.array([0, 1, 0, 1, 0])


@pytest.mark.parametrize(
    "solver", [SGD(batch_size=1), AveragedSGD(batch_size=1, learning_rate=1.0)]
)
@pytest.mark.parametrize("learning", ["mle", "cd", "pcd", "cd_percloss", "pmp"])
def test_a_penalty_that_is_too_large_for_the_steps(learning, solver):
    model = CRBMClassifier(
        n_hidden=3, max_iter=4, alpha=1e3, learning=learning, solver=solver, random_state=0
    )
    for y in (Y5, np.column_stack([Y5, 1 - Y5])):
        with pytest.raises(FloatingPointError, match=r"^training diverged in epoch \d"):
            model.fit(X5, y)
        assert not hasattr(model, "coef_")


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    "model",
    [
        MSSVMCRBM(n_hidden=2, alpha=1e3, solver=SGD(batch_size=1), max_iter=20),
        LayeredGMClassifier(alpha=1e3, solver=SGD(learning_rate=1.0, batch_size=4), max_iter=20),
        RBM(n_hidden=2, alpha=1e3, learning="cd", solver=SGD(learning_rate=1.0, batch_size=4)),
        IsingModel(alpha=1e3, learning="pcd", solver=SGD(learning_rate=1.0)),
        MarkovRandomField(alpha=1e3, learning="pcd", solver=SGD(learning_rate=1.0)),
        ChainCRF(alpha=1e3, solver=SGD(learning_rate=1.0, batch_size=4), max_iter=20),
        GraphCRF(alpha=1e3, solver=SGD(learning_rate=1.0, batch_size=4), max_iter=20),
    ],
    ids=lambda model: type(model).__name__,
)
def test_every_estimator_notices(model):
    X, y = data_of(type(model).__name__, 24)
    with pytest.raises(FloatingPointError, match=r"^training diverged in epoch \d"):
        model.fit(X) if y is None else model.fit(X, y)


@pytest.mark.filterwarnings(
    "ignore:.*standard deviations", "ignore::sklearn.exceptions.ConvergenceWarning"
)
def test_large_coefficients_of_a_tiny_unit_are_no_divergence():
    X, y = data_of("CRBMClassifier", 60)
    plain = CRBMClassifier(n_hidden=0, alpha=1e-3, max_iter=100).fit(X, y)
    tiny = CRBMClassifier(n_hidden=0, alpha=1e-3 * 1e-24, max_iter=100).fit(X * 1e-12, y)
    assert np.abs(tiny.coef_).max() > 1e11
    np.testing.assert_allclose(tiny.coef_ * 1e-12, plain.coef_, rtol=0.05)
    mixed = X * [1.0, 1e-12, 1e12]
    stopping = EarlyStopping(validation_fraction=0.2)
    model = CRBMClassifier(n_hidden=0, alpha=0.0, solver=Adam(), early_stopping=stopping)
    model.fit(mixed / [1.0, 1e-12, 1e12], y)


def test_a_long_fit_is_announced(monkeypatch):
    """The expected time is known after a few batches; `verbose` and `partial_fit` do without it."""
    monkeypatch.setattr(loop, "_TRIAL_SECONDS", 0.0)
    monkeypatch.setattr(loop, "_LONG_SECONDS", 0.0)
    X, y = data_of("CRBMClassifier", 40)
    model = CRBMClassifier(n_hidden=2, alpha=0.1, learning="cd", max_iter=3, random_state=0)
    with pytest.warns(UserWarning, match="max_iter=3 epochs may take about 0 minutes") as record:
        model.fit(X, y)
    assert len(record) == 1
    monkeypatch.setattr(loop, "_LONG_SECONDS", 60.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(X, y).partial_fit(X, y)
