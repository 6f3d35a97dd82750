"""Rules that are too wide for elimination: integer programs and weighted draws, by enumeration."""

import copy
import pickle

import numpy as np
import pytest
from reference.label_rules import Given
from sklearn.frozen import FrozenEstimator

from skcrbm.calibration import ConformalLabelSets
from skcrbm.constraints import Allowed, Between, Clause, Constrained, Hierarchy
from skcrbm.constraints._wide import IntegerProgram, WeightedDraws, Wide, wide_rules

N_LABELS = 7
# A row that satisfies all rules below.
ALLOWED = np.tile([1, 1, 0, 0, 0, 0, 1], (6, 1))
EDGES = [(0, 2), (1, 2), (0, 3), (2, 4), (3, 4), (1, 5), (3, 5)]
FURTHER = {
    "graph": [],
    "count": [Between(range(N_LABELS), 1, 4), Clause(on=[6], off=[2, 3])],
    "tables": [
        Allowed([0, 1, 6], [[0, 0, 1], [1, 0, 0], [1, 1, 1]]),
        Allowed([2, 3], [[0, 0], [0, 1], [1, 1]]),
    ],
}


def two(further):
    """Return P, and the same rules with exact answers and with the answers for wide rules."""
    P = np.random.default_rng(0).uniform(0.3, 0.9, (6, N_LABELS))
    for child in range(N_LABELS):  # probabilities that agree with the first parents
        P[:, child] *= np.prod([P[:, p] for p, c in EDGES if c == child][:1], axis=0)
    rules = [Hierarchy(EDGES), *further]
    exact = Constrained(Given(), rules).fit(P, ALLOWED)
    wide = Constrained(Given(), rules).fit(P, ALLOWED)
    wide._wide, wide._trees = wide_rules(wide._conditions), None
    return P, exact, wide


def knowns():
    """Return no known labels, and rows of known labels that some vectors satisfy."""
    known = np.full((6, N_LABELS), np.nan)
    known[:3, 3] = 0
    known[2:, 0] = 1
    return [None, known]


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("known", [0, 1])
@pytest.mark.parametrize("name", FURTHER)
def test_best_vectors_equal_enumeration(name, known):
    P, exact, wide = two(FURTHER[name])
    known = knowns()[known]
    labels, objective, gap = wide.predict_with_gap(P, known)
    expected = exact.predict_with_gap(P, known)
    np.testing.assert_array_equal(labels, expected[0])
    np.testing.assert_allclose(objective, expected[1])
    np.testing.assert_allclose(gap, 0, atol=1e-6)
    np.testing.assert_array_equal(expected[2], 0)
    top, proba = wide.predict_topk(P, 6, known)
    expected, expected_proba = exact.predict_topk(P, 6, known)
    np.testing.assert_array_equal(top[:, :4], expected[:, :4])
    np.testing.assert_array_equal(proba > 0, expected_proba > 0)
    np.testing.assert_allclose(proba, expected_proba, rtol=0.15)
    assert (proba.sum(axis=1) <= 1 + 1e-9).all()
    gain = 2 * exact.predict_proba(P, known) - 1
    found = [m.set_params(decode="marginal").predict(P, known) for m in (wide, exact)]
    assert wide.satisfies(found[0]).all()
    values = [(gain * labels).sum(axis=1) for labels in found]
    np.testing.assert_allclose(values[0], values[1], atol=0.1)


@pytest.mark.parametrize("known", [0, 1])
@pytest.mark.parametrize("name", FURTHER)
def test_estimates_agree_with_enumeration(name, known, monkeypatch):
    monkeypatch.setattr("skcrbm.constraints._wide.N_WEIGHTED", 40_000)
    P, exact, wide = two(FURTHER[name])
    known = knowns()[known]
    expected = exact.predict_proba(P, known)
    np.testing.assert_allclose(wide.predict_proba(P, known), expected, atol=0.02)
    expected_score = exact.score_samples(P, ALLOWED)
    np.testing.assert_allclose(wide.score_samples(P, ALLOWED), expected_score, atol=0.06)
    drawn = wide.sample(P, 4000, known, random_state=0)
    assert wide.satisfies(drawn.reshape(-1, N_LABELS)).all()
    np.testing.assert_allclose(drawn.mean(axis=1), expected, atol=0.04)
    sets = np.array([[1, 1, 0, 0, 0, 0, 1], [1, 1, 0, 1, 0, 0, 1]])
    np.testing.assert_allclose(
        wide.score_label_sets(P, sets, known), exact.score_label_sets(P, sets, known), atol=0.06
    )


def test_the_mean_weight_is_unbiased_and_at_most_1():
    """Mean weights over many seeds, against the sum over all vectors."""
    P, exact, wide = two([])
    part = next(iter(wide._parts(P[:1], None)))
    on, off = part.wide.draws.given(part.log_odds)
    np.testing.assert_allclose(np.exp(on) + np.exp(off), 1)
    sampler = WeightedDraws(wide._conditions)
    uniform = np.random.RandomState(0).random_sample((N_LABELS, 200_000))
    _, log_weight, _ = sampler.draw(on[0], off[0], np.full(N_LABELS, np.nan), uniform)
    assert log_weight.max() <= 0
    log_z = np.log(np.exp(log_weight).mean()) - sampler.root_terms(off)[0]
    labels = ALLOWED[:1]
    weight = (labels * part.log_odds).sum()
    assert weight - log_z == pytest.approx(exact.score_samples(P[:1], labels)[0], abs=0.01)


def test_vectors_are_in_order_if_a_search_misses_the_best_one(monkeypatch):
    """A search that ends at its limit of nodes may return a vector that is not the best."""
    P, exact, wide = two(FURTHER["graph"])
    search = IntegerProgram.best

    def missed(self, weights, known=None):
        found = search(self, weights, known)
        if vars(self).setdefault("missed", False):
            return found
        self.missed, other = True, copy.deepcopy(self)
        other.exclude(np.arange(N_LABELS), found.labels)
        return search(other, weights, known)

    monkeypatch.setattr(IntegerProgram, "best", missed)
    labels, proba = wide.predict_topk(P, 4)
    assert (np.diff(proba, axis=1) <= 0).all()
    np.testing.assert_array_equal(labels[:, 0], exact.predict_topk(P, 1)[0][:, 0])


def test_no_probability_exceeds_1():
    """If a vector is nearly certain, the estimated sum over all vectors may be smaller."""
    _, _, wide = two([])
    P, labels = np.linspace(1e-4, 0.02, 40)[:, None] * np.ones(N_LABELS), np.zeros((40, N_LABELS))
    assert wide.score_samples(P, labels).max() <= 0
    assert wide.score_label_sets(P, labels[:1]).max() <= 0
    _, log_p = wide.sample(P, 5, random_state=0, return_log_proba=True)
    assert log_p.max() <= 0


def test_answers_do_not_depend_on_the_other_rows():
    P, _, wide = two(FURTHER["count"])
    for known in knowns():
        held = None if known is None else known[3:]
        np.testing.assert_array_equal(wide.predict(P, known)[3:], wide.predict(P[3:], held))
        np.testing.assert_array_equal(
            wide.predict_proba(P, known)[3:], wide.predict_proba(P[3:], held)
        )


def test_contradictions_and_rare_vectors():
    P, _, wide = two(FURTHER["count"])
    known = np.full((6, N_LABELS), np.nan)
    known[4, [0, 3]] = 0, 1
    for ask in (wide.predict, wide.predict_proba, wide.predict_with_gap):
        with pytest.raises(ValueError, match="y_known contradicts the rules in row 4: the labels"):
            ask(P, y_known=known)
    # Drawn label vectors hardly ever have all of the labels on; the best vector does.
    n = 40
    rare = Constrained(Given(), [Between(range(n), n, n)])
    rare.fit(np.full((1, n), 0.1), np.ones((1, n), int))
    rare._wide, rare._trees = wide_rules(rare._conditions), None
    assert rare.set_params(decode="map").predict(np.full((1, n), 0.1)).all()
    with pytest.raises(ValueError, match="hardly any of 2000 draws satisfies them in row 0"):
        rare.predict_proba(np.full((1, n), 0.1))


@pytest.mark.deep
def test_a_wide_hierarchy_is_fitted_with_a_warning():
    rng = np.random.default_rng(0)
    n = 300
    edges = [(int(p), c) for c in range(1, n) for p in rng.integers(0, c, 2)]
    P = rng.uniform(0.05, 0.5, (12, n))
    model = Constrained(Given(), [Hierarchy(edges)], n_samples=50)
    with pytest.warns(UserWarning, match=r"estimates from weighted draws \(is_exact_ is False\)"):
        model.fit(P, np.zeros((12, n), int))
    assert not model.is_exact_
    again = pickle.loads(pickle.dumps(model))
    labels = model.predict(P[:3])
    assert model.satisfies(labels).all()
    np.testing.assert_array_equal(again.predict(P[:3]), labels)
    proba = model.predict_proba(P[:3])
    parents, children = np.array(edges).T
    assert (proba[:, children] <= proba[:, parents] + 1e-12).all()
    assert isinstance(next(iter(model._parts(P[:1], None))), Wide)
    _, _, gap = model.predict_with_gap(P[:3])
    np.testing.assert_allclose(gap, 0, atol=1e-6)
    sets = ConformalLabelSets(FrozenEstimator(model), n_draws=100)
    sets.fit(P[:12], np.zeros((12, n), int))
    assert sets.contains(P[:3], np.zeros((3, n), int)).all()
