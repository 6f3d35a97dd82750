"""The sets of a row do not depend on the other rows, with more labels than can be enumerated."""

import numpy as np
import pytest
from reference.cases import deep_except
from reference.label_rules import Given
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.multioutput import MultiOutputClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skcrbm import CRBMClassifier, LabelGraphCRF
from skcrbm.calibration import ConformalLabelSets
from skcrbm.constraints import Constrained, Hierarchy, Implies
from skcrbm.targets.distribution import LabelDistribution
from skcrbm.targets.kinds import MultilabelTargets

N_LABELS = 24
MODELS = {
    "few hidden units": CRBMClassifier(n_hidden=3, alpha=0.1, max_iter=20, random_state=0),
    "many hidden units": CRBMClassifier(n_hidden=12, alpha=0.1, max_iter=20, random_state=0),
    "graph": LabelGraphCRF(),
    "pipeline": make_pipeline(StandardScaler(), LabelGraphCRF()),
    "independent": MultiOutputClassifier(LogisticRegression()),
}


@pytest.fixture(scope="module")
def data():
    rng = np.random.RandomState(0)
    X = rng.randn(160, 4)
    Y = (X @ rng.randn(4, N_LABELS) + rng.logistic(size=(160, N_LABELS)) > 1.5).astype(int)
    Y[:, 1] |= Y[:, 0]
    return X, Y


def answers(sets, X, Y):
    """Return all answers about the rows of X, as lists with an entry for each row."""
    return sets.contains(X, Y).tolist(), sets.set_sizes(X), sets.summarize(X)


def check_rows(sets, X, Y):
    """Check that answers about a batch are the answers about each of its rows alone."""
    inside, sizes, summaries = answers(sets, X, Y)
    assert sum(inside) > 0
    for row in range(len(X)):
        alone = answers(sets, X[[row]], Y[[row]])
        assert alone[0] == inside[row : row + 1]
        assert alone[1][0] == pytest.approx(sizes[row], rel=1e-6)
        assert str(alone[2][0]) == str(summaries[row])


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("rule", deep_except(["mass"], ["mass", "probability"]))
@pytest.mark.parametrize("name", deep_except(["few hidden units", "many hidden units"], MODELS))
def test_answers_do_not_depend_on_the_batch(data, name, rule):
    X, Y = data
    model = FrozenEstimator(MODELS[name].fit(X[:100], Y[:100]))
    options = {"confidence": 0.7, "n_draws": 100, "rule": rule, "random_state": 0}
    sets = ConformalLabelSets(model, **options).fit(X[100:112], Y[100:112])
    some, labels = X[130:136].copy(), Y[130:136].copy()
    some[3], some[5] = some[1], 1e10 * some[5]  # a duplicate, and a row with huge fields
    labels[3] = labels[1]
    check_rows(sets, some, labels)
    inside, sizes, summaries = answers(sets, some, labels)
    assert inside[3] == inside[1]
    assert sizes[3] == pytest.approx(sizes[1], rel=1e-9)
    assert str(summaries[3]) == str(summaries[1])


@pytest.mark.parametrize(
    "rules", [[Hierarchy({3: 1, 4: 1, 5: 2})], [Hierarchy({3: 1}), Implies([0, 3], 5)]]
)
def test_answers_under_rules_do_not_depend_on_the_batch(rules):
    P = np.random.default_rng(0).uniform(0.05, 0.6, (40, N_LABELS))
    P[35], P[37] = P[33], P[37].round()  # a duplicate, and a certain row
    model = Constrained(Given(), rules).fit(P, np.zeros(P.shape, int))
    Y = model.sample(P, random_state=1)[:, 0]
    options = {"confidence": 0.7, "n_draws": 50, "n_best": 5, "random_state": 0}
    sets = ConformalLabelSets(FrozenEstimator(model), **options).fit(P[:30], Y[:30])
    check_rows(sets, P[30:38], Y[30:38])


@pytest.mark.deep
@pytest.mark.parametrize("name", ["few hidden units", "many hidden units", "graph"])
def test_draws_by_row_follow_the_distribution(data, name):
    """Log-probabilities belong to the draws, and the draws have the marginals of the model."""
    X, Y = data
    model = MODELS[name].fit(X[:100], Y[:100])
    distribution = LabelDistribution(model, MultilabelTargets(N_LABELS))
    draws, log_p = distribution.draw(X[:3], 1500, 0)
    assert draws.shape == (3, 1500, N_LABELS)
    proba = model.predict_proba(X[:3])
    error = np.sqrt(proba * (1 - proba) / 1500)
    assert (np.abs(draws.mean(axis=1) - proba) < 5 * error + 1e-3).all()
    for row in range(3):
        expected = model.score_samples(np.tile(X[row], (5, 1)), y=draws[row, :5])
        np.testing.assert_allclose(log_p[row, :5], expected, rtol=1e-6)
    own = distribution.drawn_log_proba(X[:3], 20, 0, Y[:3])[1]
    np.testing.assert_allclose(own, model.score_samples(X[:3], y=Y[:3]), rtol=1e-6)


def test_rows_with_huge_fields_have_certain_labels(data):
    """Draws of a row with huge fields are its only possible label vector, of probability 1."""
    X, Y = data
    model = MODELS["few hidden units"].fit(X[:100], Y[:100])
    distribution = LabelDistribution(model, MultilabelTargets(N_LABELS))
    huge = X[:4].copy()
    huge[2] *= 1e12
    best = model.predict(huge)
    drawn, own = distribution.drawn_log_proba(huge, 50, 0, best)
    # The sums of fields are near 1e13, where float64 has steps of 0.002.
    np.testing.assert_allclose(drawn[2], 0.0, atol=0.02)
    np.testing.assert_allclose(own[2], 0.0, atol=0.02)
    others = [0, 1, 3]
    alone, _ = distribution.drawn_log_proba(huge[others], 50, 0)
    np.testing.assert_allclose(drawn[others], alone, rtol=1e-9)
