"""Newton steps of the dual of large margin machines."""

import tracemalloc

import numpy as np
import pytest

from skcrbm.learning import LargeMarginProblem
from skcrbm.learning._dual_newton import NewtonSteps


@pytest.mark.parametrize("penalty", [100.0, np.inf])
def test_many_labels_do_not_fill_the_memory(penalty):
    """A matrix of all pairs of labels for each label would take 400 MB here."""
    rng = np.random.default_rng(0)
    X, signs = rng.normal(size=(12, 5)), rng.choice([-1.0, 1.0], size=(12, 370))
    problem = LargeMarginProblem(X, signs, np.ones(signs.shape), 1.0, penalty)
    alpha = rng.uniform(0.0, 0.1, signs.shape)
    weights = problem.weights(alpha)
    before = problem.objectives(alpha, weights, problem.margins(weights))[1]
    newton, free = NewtonSteps(problem), np.zeros(signs.shape, bool)
    free[:, ::20] = True
    tracemalloc.start()
    try:
        newton.step(alpha, weights, free)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 3e7
    for found, expected in zip(weights, problem.weights(alpha), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-10)
    after = problem.objectives(alpha, weights, problem.margins(weights))[1]
    assert after > before
