"""Sets of label vectors under rules, with more labels than can be enumerated."""

import numpy as np
import pytest
from reference.cases import deep
from reference.label_rules import Given
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from skcrbm.calibration import ConformalLabelSets
from skcrbm.constraints import Constrained, Hierarchy, Implies
from skcrbm.targets.distribution import LabelDistribution
from skcrbm.targets.kinds import MultilabelTargets

N_LABELS = 6
# A tree has a table of its own; the clause of three labels needs elimination.
RULES = [[Hierarchy({3: 1, 4: 1, 5: 2})], [Hierarchy({3: 1}), Implies([0, 3], 5), Implies(2, 5)]]


def probabilities(n):
    """Return probabilities of labels (n, L), the inputs of `Given`."""
    return np.random.default_rng(0).uniform(0.05, 0.7, (n, N_LABELS))


def fitted(rules, P):
    """Return a fitted `Constrained`, and label vectors that it draws."""
    model = Constrained(Given(), rules).fit(P, np.zeros(P.shape, int))
    return model, model.sample(P, random_state=1)[:, 0]


@pytest.mark.parametrize("rule", ["mass", deep("probability")])
@pytest.mark.parametrize("rules", RULES)
def test_a_complete_list_gives_the_answers_of_enumeration(rule, rules, monkeypatch):
    P = probabilities(60)
    model, Y = fitted(rules, P)
    options = {"confidence": 0.6, "rule": rule, "n_draws": 20, "random_state": 0}
    exact = ConformalLabelSets(FrozenEstimator(model), **options).fit(P[:30], Y[:30])
    monkeypatch.setattr("skcrbm.targets.distribution.MAX_ALL_LABEL_SETS", 2)
    listed = ConformalLabelSets(FrozenEstimator(model), n_best=64, **options).fit(P[:30], Y[:30])
    assert listed.thresholds_[0] == pytest.approx(exact.thresholds_[0], abs=1e-9)
    for y in (Y[30:], 1 - Y[30:]):  # possible vectors, and vectors that may violate the rules
        np.testing.assert_array_equal(listed.contains(P[30:], y), exact.contains(P[30:], y))
    np.testing.assert_allclose(listed.set_sizes(P[30:]), exact.set_sizes(P[30:]), atol=1e-9)
    assert listed.summarize(P[30:]) == exact.summarize(P[30:])
    for one, other in zip(listed.predict_sets(P[30:]), exact.predict_sets(P[30:]), strict=True):
        np.testing.assert_array_equal(one, other)
    assert max(map(len, listed.predict_sets(P[30:], limit=3))) <= 3


def test_draws_estimate_the_rest(monkeypatch):
    """With a short list, masses and sizes are within the errors of the draws."""
    P = probabilities(40)
    model, Y = fitted(RULES[1], P)
    sets = ConformalLabelSets(
        FrozenEstimator(model), confidence=0.8, n_draws=4000, n_best=4, random_state=0
    ).fit(P, Y)
    exact = sets.set_sizes(P)
    monkeypatch.setattr("skcrbm.targets.distribution.MAX_ALL_LABEL_SETS", 2)
    assert sets.set_sizes(P).mean() == pytest.approx(exact.mean(), rel=0.05)
    threshold = sets.thresholds_[0]
    assert sets.fit(P, Y).thresholds_[0] == pytest.approx(threshold, abs=3 * 0.5 / 4000**0.5)


def test_many_labels_under_rules_have_small_sets():
    """A path of 24 labels has 25 possible vectors, although independence would need thousands."""
    n_labels = 24
    P = np.sort(np.random.default_rng(0).uniform(0, 1, (60, n_labels)), axis=1)[:, ::-1]
    path = Hierarchy({child: child - 1 for child in range(1, n_labels)})
    for rules in ([path], [path, Implies([0, 1, 2], 3)]):
        model, Y = fitted(rules, P)
        sets = ConformalLabelSets(FrozenEstimator(model), n_draws=50, n_best=30, random_state=0)
        sizes = sets.fit(P[:40], Y[:40]).set_sizes(P[40:])
        np.testing.assert_array_equal(sizes, np.round(sizes))
        assert 1 < sizes.mean() <= 25
        assert sets.contains(P[40:], Y[40:]).mean() >= 0.7
        found = sets.predict_sets(P[40:])
        assert [len(vectors) for vectors in found] == sizes.tolist()
        for vectors in found:
            assert model.satisfies(vectors).all()
        # A vector that violates the rules is in no set.
        wrong = np.zeros((20, n_labels), int)
        wrong[:, -1] = 1
        assert not sets.contains(P[40:], wrong).any()


@pytest.fixture
def drawn_sets(monkeypatch):
    """Set the limit of enumeration to 2 labels; return options with a short list of vectors."""
    monkeypatch.setattr("skcrbm.targets.distribution.MAX_ALL_LABEL_SETS", 2)
    return {"confidence": 0.6, "n_draws": 30, "n_best": 4, "random_state": 0}


def test_vectors_that_violate_the_rules_have_the_score_1(drawn_sets):
    """Although the estimate of the mass of all vectors is not exactly 1."""
    P = probabilities(40)
    model, Y = fitted(RULES[1], P)
    wrong = np.tile([0, 0, 0, 1, 0, 0], (40, 1))
    Y[:30] = wrong[:30]
    sets = ConformalLabelSets(FrozenEstimator(model), **drawn_sets).fit(P, Y)
    assert sets.thresholds_[0] == 1
    assert sets.contains(P, wrong).all()
    Y[:5] = model.sample(P[:5], random_state=2)[:, 0]
    sets.set_params(confidence=0.2).fit(P, Y)
    assert sets.thresholds_[0] < 1
    assert not sets.contains(P, wrong).any()


def test_sets_do_not_depend_on_the_sizes_of_blocks(drawn_sets, monkeypatch):
    P = probabilities(30)
    model, Y = fitted(RULES[1], P)
    sets = ConformalLabelSets(FrozenEstimator(model), **drawn_sets).fit(P, Y)
    expected = sets.predict_sets(P, limit=64)
    monkeypatch.setattr("skcrbm.calibration._label_sets.BLOCK_ENTRIES", 30 * N_LABELS * 30)
    for one, other in zip(sets.predict_sets(P, limit=64), expected, strict=True):
        np.testing.assert_array_equal(one, other)
    assert sets.set_sizes(P[:0]).shape == (0,)


@pytest.mark.parametrize("rule", ["mass", "probability"])
def test_pipelines_of_scikit_learn(drawn_sets, rule):
    """Their `score_samples` does not take y."""
    P = probabilities(30)
    model, Y = fitted(RULES[0], P)
    pipe = make_pipeline(FunctionTransformer(), model).fit(P, Y)
    options = {"rule": rule, **drawn_sets}
    found = ConformalLabelSets(FrozenEstimator(pipe), **options).fit(P, Y)
    expected = ConformalLabelSets(FrozenEstimator(model), **options).fit(P, Y)
    assert found.thresholds_ == expected.thresholds_
    np.testing.assert_array_equal(found.set_sizes(P), expected.set_sizes(P))


def test_probabilities_below_the_smallest_number():
    n_labels = 1200
    P = np.full((3, n_labels), 0.49)
    model = Constrained(Given(), [Implies(0, 1)]).fit(P, np.zeros(P.shape, int))
    labels, log_p = LabelDistribution(model, MultilabelTargets(n_labels)).most_probable(P, 2)
    for k in range(2):
        np.testing.assert_allclose(log_p[:, k], model.score_samples(P, labels[:, k]))
    assert log_p.max() < np.log(np.finfo(float).tiny)


@pytest.mark.parametrize("rules", RULES)
def test_log_probabilities_of_draws(rules):
    P = probabilities(4)
    model, _ = fitted(rules, P)
    drawn, log_p = model.sample(P, 5, random_state=0, return_log_proba=True)
    np.testing.assert_array_equal(drawn, model.sample(P, 5, random_state=0))
    for k in range(5):
        np.testing.assert_allclose(log_p[:, k], model.score_samples(P, drawn[:, k]), atol=1e-9)
