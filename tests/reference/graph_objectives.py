"""The objective with which a `GraphCRF` was trained, and checks of its gradients."""

import numpy as np
import pytest

from skcrbm.learning.lbfgs import RowsObjective
from skcrbm.learning.structured.penalty import structured_penalty


def objective_of(model, X, y, weight):
    """Return the objective of a fitted `GraphCRF(alpha=0.1)` on its training data."""
    batch = model._training_batch(X, y, weight, True)
    plan = model._plan(batch, model._solver(), np.random.RandomState(0), True)
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
