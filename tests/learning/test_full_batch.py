"""L-BFGS on all rows: the minimiser, the coordinates it works in, and the designs."""

import weakref
from dataclasses import replace

import numpy as np
import pytest
from reference.cases import deep
from scipy import sparse
from scipy.optimize import minimize, rosen, rosen_der
from sklearn.base import clone
from sklearn.datasets import make_multilabel_classification

import skcrbm.utils.columns
from skcrbm import CRBMClassifier
from skcrbm.energies import OneHotRBMEnergy, RBMEnergy
from skcrbm.energies.rbm import ConditionalRBM, CRBMParams
from skcrbm.inference.base import resolve_method
from skcrbm.learning.data import Batch, Design, RowSpace, crbm_params
from skcrbm.learning.lbfgs import CenteredCoordinates, Minimizer, RowsObjective, fit_rows
from skcrbm.learning.penalties import crbm_penalty
from skcrbm.learning.rules import Likelihood
from skcrbm.utils.columns import Columns, LazyRows


def objective():
    return Likelihood().conditional(resolve_method("exact"))


def problem(n=30, d=5, n_visible=4, n_hidden=2, energy=RBMEnergy, missing=False, seed=0):
    """Model with parameters in general position, rows, penalty on everything."""
    rng = np.random.RandomState(seed)
    X = rng.randn(n, d) * np.arange(1, d + 1) + 3
    X[:, 0] = X[:, 0] > 3
    if energy is OneHotRBMEnergy:
        visible = np.eye(n_visible)[rng.randint(0, n_visible, n)]
    else:
        visible = (rng.rand(n, n_visible) < 0.4).astype(float)
        if missing:
            visible[rng.rand(*visible.shape) < 0.2] = np.nan
    params = CRBMParams(
        *(
            rng.normal(scale=0.5, size=size)
            for size in (
                (n_visible, n_hidden), (n_visible, d), (n_hidden, d), n_visible, n_hidden
            )
        )
    )  # fmt: skip
    batch = Batch(X, visible, rng.uniform(0.5, 2, n), np.arange(n))
    penalty = crbm_penalty(0.1, 0.03, rng.rand(n_visible), 0.02, rng.randn(n_visible))
    return ConditionalRBM(params, energy), batch, penalty


# ----------------------------------------------------------------------- the minimiser


def test_a_quadratic_in_few_steps():
    rng = np.random.RandomState(0)
    A = rng.randn(8, 8)
    A = A @ A.T + np.eye(8)
    b = rng.randn(8)
    minimiser = Minimizer(lambda x: (0.5 * x @ A @ x - b @ x, A @ x - b, None), np.zeros(8))
    values = [minimiser.value]
    for _ in range(60):
        moved = minimiser.iterate()
        values.append(minimiser.value)
        if not moved:
            break
    np.testing.assert_allclose(minimiser.x, np.linalg.solve(A, b), atol=1e-6)
    assert (np.diff(values) <= 0).all()


def test_rosenbrock_as_fast_as_scipy():
    calls = []

    def evaluate(x):
        calls.append(1)
        return rosen(x), rosen_der(x), None

    start = np.full(20, -1.2)
    minimiser = Minimizer(evaluate, start)
    while minimiser.value > 1e-10 and minimiser.iterate():
        pass
    assert minimiser.value <= 1e-10
    theirs = minimize(rosen, start, jac=rosen_der, method="L-BFGS-B", options={"maxiter": 1000})
    assert len(calls) < 2 * theirs.nfev


def test_a_wall_is_stepped_back_from():
    """If the value is infinite or NaN, the line search shortens the step."""

    def evaluate(x):
        with np.errstate(invalid="ignore", divide="ignore"):
            return x[0] - np.log(x[0]), np.array([1 - 1 / x[0]]), None

    minimiser = Minimizer(evaluate, np.array([30.0]))
    for _ in range(40):
        minimiser.iterate()
    assert minimiser.x[0] == pytest.approx(1, abs=1e-6)


def test_at_a_minimum_it_stays():
    minimiser = Minimizer(lambda x: (x @ x, 2 * x, None), np.zeros(3))
    assert not minimiser.iterate()
    assert (minimiser.x == 0).all()


# -------------------------------------------------------------- objective, coordinates


@pytest.mark.parametrize("energy", [RBMEnergy, OneHotRBMEnergy])
@pytest.mark.parametrize("n_hidden", [0, 2])
@pytest.mark.parametrize("container", [np.asarray, sparse.csr_matrix])
def test_gradient_by_finite_differences(energy, n_hidden, container):
    model, batch, penalty = problem(n_hidden=n_hidden, energy=energy, missing=True)
    batch = Batch(container(batch.X), batch.visible, batch.weight, batch.index)
    function = RowsObjective(model, batch, objective(), penalty)
    vector = function.coordinates.vector(model.params)
    value, gradient, _ = function(vector)
    assert gradient.shape == vector.shape
    step = 1e-5
    for i in range(len(vector)):
        ends = []
        for sign in (-1, 1):
            moved = vector.copy()
            moved[i] += sign * step
            ends.append(function(moved)[0])
        assert gradient[i] == pytest.approx((ends[1] - ends[0]) / (2 * step), rel=1e-5, abs=1e-7)
    # The value is the mean loss of a row plus the penalties.
    p = model.params
    mean = objective().loss(model, batch) / batch.weight.sum()
    u, w = (p.visible_coef**2).sum() + (p.hidden_coef**2).sum(), (p.weights**2).sum()
    b, c = p.visible_intercept - penalty.centres.visible_intercept, p.hidden_intercept
    rest = penalty.factors.visible_intercept @ b**2 + 0.02 * c @ c
    assert value == pytest.approx(mean + 0.5 * (0.1 * u + 0.03 * w + rest), rel=1e-12)


def test_coordinates_there_and_back():
    model, batch, penalty = problem()
    coordinates = CenteredCoordinates(model, batch, penalty)
    back = coordinates.params(coordinates.vector(model.params))
    for a, b in zip(back, model.params, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-12)


@pytest.mark.parametrize("size", [1e300, 1e100, 1e35])
def test_parameters_too_large_are_infinitely_bad(size):
    model, batch, penalty = problem()
    function = RowsObjective(model, batch, objective(), penalty)
    assert function(np.full(len(function.coordinates.vector(model.params)), size))[0] == np.inf


# ------------------------------------------------------------------------------ designs


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_matrix])
@pytest.mark.parametrize("scale", [False, True])
@pytest.mark.parametrize("rotate", [False, True])
def test_parameters_of_a_design_say_the_same_of_x(container, scale, rotate):
    model, batch, _ = problem(n=12, d=20)
    X = batch.X.copy()
    X[:, 3] = 2.5
    X[:, 5] = X[:, 6]  # fewer directions than columns
    X = container(X)
    columns = Columns(X, batch.weight) if scale else None
    design = Design(X, columns, double=True, rotate=rotate)
    assert (design.X.shape[1] < 20) == rotate
    inner = design.inner(model)
    outer = design.outer(inner)
    for one, rows in ((inner, design.X), (outer, X)):
        energy, given = one.energy(rows), model.energy(X)
        if scale:  # a constant column has no coefficients: its part may not be lost
            constant = X[:, [3]].toarray() if sparse.issparse(X) else X[:, [3]]
            lost = constant @ model.params.visible_coef[:, [3]].T if sparse.issparse(X) else 0
            np.testing.assert_allclose(energy.visible_bias, given.visible_bias - lost, atol=1e-8)
        else:
            np.testing.assert_allclose(energy.visible_bias, given.visible_bias, atol=1e-8)
            np.testing.assert_allclose(energy.hidden_bias, given.hidden_bias, atol=1e-8)


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_matrix])
def test_row_space_keeps_angles(container):
    rng = np.random.RandomState(0)
    Z = rng.randn(15, 40)
    Z[4] = Z[5]
    space = RowSpace(container(Z))
    assert space.X.shape == (15, 14)
    np.testing.assert_allclose(space.X @ space.X.T, Z @ Z.T, atol=1e-10)


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_matrix])
def test_fits_in_the_row_space_are_the_same(container):
    """The convex problem has one solution."""
    model, batch, _ = problem(n=25, d=60, n_hidden=0)
    penalty = crbm_penalty(0.1, 0.0, 0.01, 0.0, np.zeros(4))
    X = container(batch.X / batch.X.std(axis=0))
    found = []
    for rotate in (False, True):
        design = Design(X, double=True, rotate=rotate)
        rows = Batch(design.X, batch.visible, batch.weight, batch.index)
        start = crbm_params(
            batch.visible, batch.weight, design.X.shape[1], 0, np.random.RandomState(0)
        )
        fitted = fit_rows(model._replace(params=start), rows, objective(), penalty, 500, 1e-13)
        found.append(design.outer(fitted).params)
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)


# ------------------------------------------------------------------ rows in blocks


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("scaled", [True, False])
def test_blocks_of_rows_worked_out_when_asked_for(monkeypatch, scaled, dtype):
    model, batch, penalty = problem(n=50, missing=True)
    X = batch.X.astype(dtype)
    columns = Columns(X, batch.weight) if scaled else None

    def evaluate():
        design = Design(X, columns, double=True)
        rows = replace(batch, X=design.X)
        function = RowsObjective(model, rows, objective(), penalty)
        return design, function, function(function.coordinates.vector(model.params))

    whole = evaluate()
    monkeypatch.setattr(skcrbm.utils.columns, "BLOCK_ENTRIES", 70)
    design, function, parts = evaluate()
    assert whole[1].blocks[0].X is whole[0].X
    assert len(function.blocks) == 8  # of 7 rows with 5 columns and 4 outputs, and 1 more
    assert isinstance(design.X, LazyRows) == (scaled or dtype == np.float32)
    np.testing.assert_array_equal(np.asarray(design.X), whole[0].X)
    assert parts[0] == pytest.approx(whole[2][0], rel=1e-13)
    np.testing.assert_allclose(parts[1], whole[2][1], rtol=1e-10, atol=1e-13)
    assert parts[2] == whole[2][2] == 50


def test_gradients_of_blocks_are_added_as_they_come(monkeypatch):
    model, batch, penalty = problem(n=50, missing=True)
    monkeypatch.setattr(skcrbm.utils.columns, "BLOCK_ENTRIES", 70)
    rule, gradients, n_held = objective(), [], []

    def step(*args):
        n_held.append(sum(gradient() is not None for gradient in gradients))
        made = type(rule).step(rule, *args)
        gradients.append(weakref.ref(made[0].gradient.visible_coef))
        return made

    monkeypatch.setattr(rule, "step", step)
    function = RowsObjective(model, batch, rule, penalty)
    function(function.coordinates.vector(model.params))
    assert len(n_held) == 8
    assert max(n_held) <= 1  # of the steps' own, the sum apart


@pytest.mark.parametrize("solver", [deep("lbfgs"), "asgd"])
def test_a_fit_does_not_depend_on_the_blocks(monkeypatch, solver):
    X, Y = make_multilabel_classification(120, 6, n_classes=3, random_state=0)
    X = X.astype(np.float32)
    model = CRBMClassifier(n_hidden=2, solver=solver, max_iter=20, random_state=0)
    whole = clone(model).fit(X, Y)
    monkeypatch.setattr(skcrbm.utils.columns, "BLOCK_ENTRIES", 100)
    parts = clone(model).fit(X, Y)
    assert parts.alpha_ == pytest.approx(whole.alpha_, rel=1e-4)
    for name in ("visible_coef_", "weights_", "visible_intercept_"):
        np.testing.assert_allclose(getattr(parts, name), getattr(whole, name), rtol=2e-3, atol=1e-3)


def test_blocks_of_a_sparse_matrix_with_many_outputs(monkeypatch):
    model, batch, penalty = problem(n=60, n_visible=7)
    batch = replace(batch, X=sparse.csr_matrix(batch.X))
    whole = RowsObjective(model, batch, objective(), penalty)
    monkeypatch.setattr("skcrbm.learning.data.LARGE_CONVEX_LABELS", 100)
    monkeypatch.setattr("skcrbm.learning.data.BLOCK_ENTRIES", 7 * 11)
    blocks = RowsObjective(model, batch, objective(), penalty)
    assert [len(block) for block in blocks.blocks] == [11] * 5 + [5]
    vector = whole.coordinates.vector(model.params)
    for one, other in zip(whole(vector), blocks(vector), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-14)
