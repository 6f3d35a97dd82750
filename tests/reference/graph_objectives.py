"""The objective with which a `GraphCRF` was trained, and checks of its gradients."""

import numpy as np
import pytest

from skcrbm.inference import Exact
from skcrbm.inference.random_numbers import random_key
from skcrbm.learning.data import Clock
from skcrbm.learning.graphs import GraphLikelihood
from skcrbm.learning.lbfgs import RowsObjective
from skcrbm.learning.structured import structured_penalty


def objective_of(model, X, y, weight):
    """Return the objective of a fitted `GraphCRF(alpha=0.1)` on its training data."""
    batch = model._training_graphs(X, y, weight, True)
    plan = model._plan(batch, np.random.RandomState(0), True)
    penalty = structured_penalty(model._model.params, 0.1, 0.0)
    return RowsObjective(model._model, batch, plan.objective, penalty)


def check_gradient(model, function, directions=lambda function, random: random):
    """Compare the gradient at the fitted parameters with finite differences.

    ``directions(function, random)`` turns a random vector into a valid direction. The value at the
    fitted parameters must be the last entry of the loss curve.
    """
    x = function.coordinates.vector(model._model.params)
    value, gradient, _ = function(x)
    assert value == pytest.approx(model.loss_curve_[-1])
    rng = np.random.default_rng(0)
    for _ in range(6):
        direction = directions(function, rng.normal(size=x.shape))
        ends = [function(x + step * direction)[0] for step in (1e-5, -1e-5)]
        assert gradient @ direction == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-5, abs=1e-7)


def check_mean_gradient(model, X, y, weight):
    """Compare the mean gradient of a rule that samples with the gradient of the likelihood.

    Return the largest standard error of the 150 steps, so that a test can bound it.
    """
    batch = model._training_graphs(X, y, weight, True)
    start, objective = model._problem(batch, np.random.RandomState(0), True)
    step, _ = GraphLikelihood(objective.trained, Exact()).step(start, batch, Clock(0, 0), None)
    key, found = random_key(0), []
    for t in range(150):
        result, _ = objective.step(start, batch, Clock(0, t, key), None)
        found.append(np.concatenate([part.ravel() for part in result.gradient]))
    found = np.array(found)
    error = found.std(axis=0, ddof=1) / np.sqrt(len(found))
    expected = np.concatenate([part.ravel() for part in step.gradient])
    assert (np.abs(found.mean(axis=0) - expected) <= 5 * error + 1e-9).all()
    return error.max()
