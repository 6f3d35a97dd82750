"""Bounds and warm starts of max-margin learning of chains and graphs, against enumeration."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from skcrbm import ChainCRF, GraphCRF
from skcrbm.learning import FrankWolfe

from .test_max_margin import (
    chain_features,
    chain_vector,
    constraints,
    graph_features,
    graph_vector,
    graphs,
    objective,
    sequences,
)

PRECISE = {"max_iter": 3000, "random_state": 0, "learning": "max_margin"}


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("kind", ["chain", "forest", "cycle"])
def test_the_gap_is_true(kind):
    """The optimum is inside the gap of a fit that stops early."""
    if kind == "chain":
        X, y, weight = sequences()
        make, features, vector = ChainCRF, chain_features, chain_vector
    else:
        X, y, weight = graphs(cycles=kind == "cycle")
        make, features, vector = GraphCRF, graph_features(False), graph_vector
    options = {"alpha": 0.3, **PRECISE}
    best = make(solver=FrankWolfe(tol=1e-7), **options).fit(X, y, weight)
    found = constraints(features, X, y)
    for tol in (0.2, 0.01, 1e-5):
        model = make(solver=FrankWolfe(tol=tol), **options).fit(X, y, weight)
        own = objective(found, weight, 0.3, vector(model))
        assert model.objective_ == pytest.approx(own, rel=1e-9)
        assert model.duality_gap_ <= tol * model.objective_
        lower = model.objective_ - model.duality_gap_
        assert lower <= best.objective_ * (1 + 1e-9)
        assert best.objective_ - best.duality_gap_ <= model.objective_
    np.testing.assert_allclose(vector(model), vector(best), atol=0.02)
    assert len(model.loss_curve_) == model.n_iter_
    assert model.certified_


@pytest.mark.parametrize("make", [ChainCRF, pytest.param(GraphCRF, marks=pytest.mark.deep)])
def test_warm_starts_save_passes_and_reach_the_same_optimum(make):
    X, y, weight = sequences(2, n=15) if make is ChainCRF else graphs(2, n=8)
    options = {"solver": FrankWolfe(tol=1e-4), **PRECISE}
    cold = make(alpha=0.2, **options).fit(X, y, weight)
    warm = make(alpha=0.22, warm_start=True, **options).fit(X, y, weight)
    warm.set_params(alpha=0.2).fit(X, y, weight)
    assert warm.objective_ == pytest.approx(cold.objective_, rel=2e-4)
    assert warm.duality_gap_ <= 1e-4 * warm.objective_
    assert warm._dual is not None
    warm.fit(X, y, weight)
    assert warm.n_iter_ <= min(cold.n_iter_ - 1, 10)
    # Other labels: the earlier dual variables do not apply, and training starts anew.
    other = [labels[::-1] for labels in y]
    moved = make(alpha=0.2, warm_start=True, **{**PRECISE, "solver": FrankWolfe(tol=1e-4)})
    moved.fit(X, y, weight).fit(X, other, weight)
    fresh = make(alpha=0.2, **{**PRECISE, "solver": FrankWolfe(tol=1e-4)}).fit(X, other, weight)
    assert moved.objective_ == pytest.approx(fresh.objective_, rel=2e-4)
    assert not hasattr(fresh, "_dual") or fresh._dual is None


def test_options_and_errors():
    X, y, _ = sequences(3)
    with pytest.warns(ConvergenceWarning, match="max_iter=2 passes.*FrankWolfe"):
        ChainCRF(alpha=1e-3, learning="max_margin", solver="frank_wolfe", max_iter=2).fit(X, y)
    with pytest.raises(ValueError, match="'frank_wolfe' is for learning='max_margin' only"):
        ChainCRF(solver="frank_wolfe").fit(X, y)
    with pytest.raises(ValueError, match="early_stopping is for stochastic solvers"):
        ChainCRF(learning="max_margin", early_stopping=True).fit(X, y)
    with pytest.raises(ValueError, match="alpha must be positive with solver='frank_wolfe'"):
        ChainCRF(learning="max_margin", alpha=0.0).fit(X, y)
