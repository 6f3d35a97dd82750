"""Small data and quick models for the tests of CRBMClassifier."""

import numpy as np

from reference.objects import objects
from reference.states import all_states
from skcrbm import CRBMClassifier

PARAMETERS = (
    "visible_coef_",
    "hidden_coef_",
    "weights_",
    "visible_intercept_",
    "hidden_intercept_",
)


def make_data(n=90, n_features=4, n_outputs=3, seed=0):
    """Two signals, in part in X; each output is a copy of one of them, with little noise."""
    rng = np.random.RandomState(seed)
    X = rng.randn(n, n_features)
    signal = X @ rng.randn(n_features, 2) + rng.randn(n, 2)
    Y = signal[:, np.arange(n_outputs) % 2] + 0.3 * rng.randn(n, n_outputs) > 0
    return X, Y.astype(int)


def quick(**options):
    """Few epochs of stochastic training, whatever the defaults are."""
    small = {"n_hidden": 2, "max_iter": 4, "solver": "adam", "alpha": 0.1, "random_state": 0}
    return CRBMClassifier(**objects(**{**small, **options}))


def assert_same_parameters(a, b, **tolerance):
    for name in PARAMETERS:
        if tolerance:
            np.testing.assert_allclose(getattr(a, name), getattr(b, name), **tolerance)
        else:
            np.testing.assert_array_equal(getattr(a, name), getattr(b, name))


def joint(model, x):
    """All label vectors v and -F(v | x) of each, from the fitted attributes alone."""
    states = all_states(len(model.visible_intercept_))
    b = model.visible_intercept_ + model.visible_coef_ @ x
    c = model.hidden_intercept_ + model.hidden_coef_ @ x
    return states, states @ b + np.logaddexp(0, states @ model.weights_ + c).sum(axis=1)
