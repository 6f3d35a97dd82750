"""The structural machine against quadratic programs of all constraints, and bounds of the fit."""

from itertools import product

import numpy as np
import pytest
from scipy.optimize import minimize

from skcrbm.inference.base import resolve_method
from skcrbm.learning.large_margin.label_blocks import (
    StructuralMarginProblem,
    fit_structural_margin,
)

N, D, L = 6, 2, 3
PAIRS = [(0, 1), (0, 2), (1, 2)]


def data(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, D))
    signs = np.where(rng.random((N, L)) < 0.5, -1.0, 1.0)
    return X, signs, 0.5 * rng.random(N) + 0.1


def problem(seed, method, penalty=2.5):
    X, signs, limit = data(seed)
    return StructuralMarginProblem(X, signs, limit, penalty, False, resolve_method(method))


def states(relaxed):
    """Yield all labels with their products; `relaxed` adds labels of 0 (one half) and products."""
    for y in product([-1, 0, 1] if relaxed else [-1, 1], repeat=L):
        free = [k for k, (i, j) in enumerate(PAIRS) if y[i] == y[j] == 0]
        for both in product([-1, 1], repeat=len(free)):
            pairs = np.array([y[i] * y[j] for i, j in PAIRS], float)
            pairs[free] = both
            yield np.array(y, float), pairs


def least_objective(seed, penalty, relaxed):
    """The quadratic program with a slack for each row and a constraint for each label vector."""
    X, signs, limit = data(seed)
    n_weights = L * (D + 1) + len(PAIRS)
    metric = np.append(np.ones(L * (D + 1)), np.full(len(PAIRS), penalty))

    def features(x, y, pairs):
        return np.concatenate([np.outer(y, np.append(x, 1)).ravel(), pairs])

    rows, losses = [], []
    for n, (x, own) in enumerate(zip(X, signs, strict=True)):
        mine = features(x, own, np.array([own[i] * own[j] for i, j in PAIRS]))
        for y, pairs in states(relaxed):
            rows.append(np.append(mine - features(x, y, pairs), np.eye(N)[n]))
            losses.append(0.5 * (1 - own * y).sum())
    rows, losses = np.array(rows), np.array(losses)

    def value(z):
        w, slack = z[:n_weights], z[n_weights:]
        return 0.5 * (metric * w**2).sum() + limit @ slack

    def slope(z):
        return np.append(metric * z[:n_weights], limit)

    start = np.append(np.zeros(n_weights), np.full(N, float(L)))
    inequality = {"type": "ineq", "fun": lambda z: rows @ z - losses, "jac": lambda z: rows}
    options = {"maxiter": 500, "ftol": 1e-13}
    found = minimize(
        value, start, jac=slope, method="SLSQP", constraints=inequality, options=options
    )
    # 8: rounding leaves no descent, which ends it as well; the value is compared to 1e-7.
    assert found.status in (0, 8), found.message
    assert (rows @ found.x >= losses - 1e-9).all()
    return found.fun


@pytest.mark.parametrize(
    ("method", "relaxed"), [("branch_and_bound", False), ("linear_program", True)]
)
@pytest.mark.parametrize(("seed", "penalty"), [(0, 2.5), (1, 0.1), (2, 1.0)])
def test_objective_of_the_quadratic_program(method, relaxed, seed, penalty):
    fitted = fit_structural_margin(problem(seed, method, penalty), tol=1e-10, max_iter=20_000)
    expected = least_objective(seed, penalty, relaxed)
    assert fitted.reason == "tol"
    assert fitted.gap <= 1e-8
    assert fitted.objective == pytest.approx(expected, rel=1e-7)


def test_relaxations_bound_the_objective():
    """More label vectors cost more, fewer less; on these data the two differ."""
    found = []
    for method in ("icm", "branch_and_bound", "linear_program"):
        fitted = fit_structural_margin(problem(1, method, 0.1), tol=1e-10, max_iter=20_000)
        found.append(fitted.objective)
    assert found[0] <= found[1] * (1 + 1e-8)
    assert found[2] > found[1] * (1 + 1e-4)


@pytest.mark.parametrize("method", ["branch_and_bound", "linear_program"])
def test_bounds_close_in(method):
    told = []

    def on_pass_end(number, gap, n_planes, now):
        fitted = now()
        told.append((gap, fitted.objective, fitted.objective * (1 - fitted.gap)))
        assert fitted.n_iter == number + 1
        assert 1 <= n_planes / N <= 2**L

    fitted = fit_structural_margin(
        problem(3, method), tol=1e-8, max_iter=20_000, on_pass_end=on_pass_end
    )
    gaps, objectives, lower = np.array(told).T
    assert len(gaps) > 5
    assert (np.diff(objectives) <= 1e-12).all()
    assert (np.diff(lower) >= -1e-12).all()
    assert (lower <= fitted.objective).all()
    assert gaps[0] > 0.1
    assert gaps[-1] <= 1e-8


def test_the_objective_is_that_of_the_weights():
    fitted = fit_structural_margin(problem(4, "branch_and_bound"), tol=1e-2, max_iter=1000)
    X, signs, limit = data(4)
    fields = X @ fitted.coef.T + fitted.intercept
    every = np.array(list(product([-1.0, 1.0], repeat=L)))

    def scores(y, f):
        return y @ f + 0.5 * ((y @ fitted.pairwise) * y).sum(axis=-1)

    risk = 0.0
    for f, own, weight in zip(fields, signs, limit, strict=True):
        wrong = (every != own).sum(axis=1)
        risk += weight * (wrong + scores(every, f) - scores(own, f)).max()
    norm = 0.5 * ((fitted.coef**2).sum() + (fitted.intercept**2).sum())
    norm += 2.5 * 0.25 * (fitted.pairwise**2).sum()
    assert fitted.objective == pytest.approx(norm + risk)


def test_a_callback_stops_the_fit():
    fitted = fit_structural_margin(
        problem(0, "icm"), tol=1e-10, max_iter=100, on_pass_end=lambda number, *rest: number == 2
    )
    assert (fitted.reason, fitted.n_iter) == ("callback", 3)


def test_planes_without_slope():
    """Labels that cancel, with columns of 0: all planes are level, and any weights but 0 lose."""
    signs = np.array([[-1.0, 1.0], [1.0, -1.0]])
    method = resolve_method("branch_and_bound")
    level = StructuralMarginProblem(np.zeros((2, 1)), signs, np.ones(2), 1.0, False, method)
    found = fit_structural_margin(level, tol=1e-6, max_iter=5)
    assert found.reason == "tol"
    assert found.objective == 4.0
    assert not found.coef.any()
    assert not found.pairwise.any()
