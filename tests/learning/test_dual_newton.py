"""Newton steps of the dual of large margin machines."""

import tracemalloc
from itertools import combinations

import numpy as np
import pytest
from scipy import sparse

from skcrbm.learning.large_margin._newton import NewtonSteps
from skcrbm.learning.large_margin.cliques import _newton_step, clique_problem
from skcrbm.learning.large_margin.dual_coordinate import LargeMarginProblem


@pytest.mark.deep
@pytest.mark.parametrize("penalty", [100.0, np.inf])
def test_many_labels_do_not_fill_the_memory(penalty):
    """A matrix of all pairs of labels for each label would take 400 MB here."""
    rng = np.random.default_rng(0)
    X, signs = rng.normal(size=(12, 5)), rng.choice([-1.0, 1.0], size=(12, 370))
    problem = LargeMarginProblem(X, signs, np.ones(signs.shape), 1.0, penalty)
    alpha = rng.uniform(0.0, 0.1, signs.shape)
    weights = problem.weights(alpha)
    before = problem.certificate(alpha, weights)[1]
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
    after = problem.certificate(alpha, weights)[1]
    assert after > before


@pytest.mark.parametrize("penalty", [5.0, np.inf])
@pytest.mark.parametrize("container", [np.asarray, sparse.csr_matrix])
def test_inputs_that_are_not_held(monkeypatch, penalty, container):
    """Inputs computed from X for each label give the same step, bit for bit."""
    rng = np.random.default_rng(0)
    X, signs = container(rng.normal(size=(60, 4))), rng.choice([-1.0, 1.0], size=(60, 3))
    problem = LargeMarginProblem(X, signs, np.ones(signs.shape), 1.0, penalty)
    start, free = rng.uniform(0.0, 1.0, signs.shape), np.ones(signs.shape, bool)
    free[3:, 2] = False  # that label has fewer variables than columns: products are held
    found = []
    for most in (10**6, 0):
        monkeypatch.setattr("skcrbm.learning.large_margin._newton._MAX_INPUTS", most)
        alpha = start.copy()
        weights = problem.weights(alpha)
        NewtonSteps(problem).step(alpha, weights, free)
        found.append((alpha, *weights))
    assert (found[0][0] != start).any()
    for held, worked_out in zip(*found, strict=True):
        np.testing.assert_array_equal(held, worked_out)


def test_many_cliques_do_not_fill_the_memory():
    """Features of all cliques for each free variable would take 200 MB, three times."""
    rng = np.random.default_rng(0)
    signs = rng.choice([-1.0, 1.0], size=(9, 64))
    cliques = list(combinations(range(64), 3))
    problem = clique_problem(
        LargeMarginProblem(np.zeros((9, 1)), signs, np.ones(signs.shape), 1.0, 9.0, cliques)
    )
    alpha = rng.uniform(0.1, 0.9, signs.shape)
    total, *weights = problem.weights(alpha)
    tracemalloc.start()
    try:
        _newton_step(problem, alpha, total, *weights)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2e8
