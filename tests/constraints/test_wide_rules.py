"""Rules that are too wide for elimination: integer programs and draws, by enumeration."""

import copy
import pickle

import numpy as np
import pytest
from reference.label_rules import Given
from sklearn.frozen import FrozenEstimator

from skcrbm.calibration import ConformalLabelSets
from skcrbm.constraints import Allowed, Between, Clause, Constrained, Hierarchy
from skcrbm.constraints._wide import IntegerProgram, LabelTables, Wide, wide_rules

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
    """Return P, exact answers under the graph only, and the answers for wide rules."""
    P = np.random.default_rng(0).uniform(0.3, 0.9, (6, N_LABELS))
    for child in range(N_LABELS):  # probabilities that agree with the graph
        P[:, child] *= np.min([P[:, p] for p, c in EDGES if c == child] or [np.ones(6)], axis=0)
    exact = Constrained(Given(), [Hierarchy(EDGES)]).fit(P, ALLOWED)
    wide = Constrained(Given(), [Hierarchy(EDGES), *further]).fit(P, ALLOWED)
    wide._wide, wide._trees = wide_rules(wide._conditions), None
    return P, exact, wide


def ranked(wide, P, known):
    """Return all possible vectors of each row and their scores, by enumeration, the best first."""
    part = next(iter(wide._parts(P, known)))
    vectors = wide._conditions.enumerate()
    for i, weights in enumerate(part.log_odds):
        agrees = np.ones(len(vectors), bool)
        if known is not None:
            agrees = (np.isnan(known[i]) | (known[i] == vectors)).all(axis=1)
        order = np.argsort(-(vectors[agrees] @ weights), kind="stable")
        yield vectors[agrees][order], (vectors[agrees] @ weights)[order]


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
    P, _, wide = two(FURTHER[name])
    known = knowns()[known]
    labels, objective, gap = wide.predict_with_gap(P, known)
    top, proba = wide.predict_topk(P, 6, known)
    closest = wide.set_params(decode="marginal").predict(P, known)
    gain = 2 * wide.predict_proba(P, known) - 1
    assert wide.satisfies(closest).all()
    for i, (vectors, scores) in enumerate(ranked(wide, P, known)):
        np.testing.assert_array_equal(labels[i], vectors[0])
        assert objective[i] == pytest.approx(-scores[0])
        n = min(4, len(vectors))
        np.testing.assert_array_equal(top[i, :n], vectors[:n])
        assert (proba[i] > 0).sum() == min(6, len(vectors))
        np.testing.assert_allclose(np.diff(np.log(proba[i, :n])), np.diff(scores[:n]), atol=1e-6)
        assert closest[i] @ gain[i] == pytest.approx((vectors @ gain[i]).max(), abs=1e-9)
    np.testing.assert_allclose(gap, 0, atol=1e-6)
    assert (proba.sum(axis=1) <= 1 + 1e-9).all()


@pytest.mark.parametrize("known", [0, 1])
@pytest.mark.parametrize("name", FURTHER)
def test_estimates_agree_with_enumeration(name, known, monkeypatch):
    """Further conditions restrict the distribution under the graph."""
    monkeypatch.setattr("skcrbm.constraints._wide.N_DRAWS", 20_000)
    P, exact, wide = two(FURTHER[name])
    known = knowns()[known]
    vectors = wide._conditions.enumerate()
    weight = np.exp(exact.score_label_sets(P, vectors, known))
    expected = (weight @ vectors) / weight.sum(axis=1, keepdims=True)
    # Messages condition on known labels, and the graph has many loops for its size.
    allowed_error = 0.015 if known is None else 0.2
    np.testing.assert_allclose(wide.predict_proba(P, known), expected, atol=allowed_error)
    drawn = wide.sample(P, 4000, known, random_state=0)
    assert wide.satisfies(drawn.reshape(-1, N_LABELS)).all()
    np.testing.assert_allclose(drawn.mean(axis=1), expected, atol=allowed_error + 0.025)
    log_p = wide.score_label_sets(P, vectors, known)
    for i, (possible, _) in enumerate(ranked(wide, P, known)):  # -inf for known labels only
        assert (log_p[i] > -np.inf).sum() == len(possible)
    if known is None:
        scores = wide.score_samples(P, np.tile(vectors[0], (6, 1)))
        np.testing.assert_allclose(scores, log_p[:, 0])


def test_tables_have_the_given_marginals_and_the_largest_entropy():
    """Probabilities of two labels that are on together, against the exact distribution."""
    P, exact, wide = two([])
    vectors = wide._conditions.enumerate()
    weight = np.exp(exact.score_label_sets(P, vectors))
    tables = LabelTables(wide._conditions)
    for p, w in zip(P, weight):
        drawn = np.concatenate([tables.draw(p, 2001, seed) for seed in range(20)]).astype(float)
        assert wide._conditions.satisfied(drawn).all()
        np.testing.assert_allclose(drawn.mean(axis=0), p, atol=5e-4)
        together = drawn.T @ drawn / len(drawn)
        np.testing.assert_allclose(together, (vectors.T * w) @ vectors, atol=0.012)
    again = tables.draw(P[0], 100, 3), tables.draw(P[0], 100, 3), tables.draw(P[0], 100, 4)
    np.testing.assert_array_equal(again[0], again[1])
    assert (again[0] != again[2]).any()


def test_children_that_are_as_probable_as_their_parents():
    """A label and its parents are on in the same draws; labels of probability 0 and 1 are fixed."""
    _, _, wide = two([])
    tables = LabelTables(wide._conditions)
    drawn = tables.draw(np.array([1.0, 0.3, 0.3, 0.3, 0.3, 0.0, 0.5]), 1000, 0)
    assert drawn[:, 0].all()
    assert not drawn[:, 5].any()
    assert (drawn[:, 1:5].sum(axis=1) % 4 == 0).all()
    np.testing.assert_array_equal(drawn.sum(axis=0), [1000, 300, 300, 300, 300, 0, 500])


def test_vectors_are_in_order_if_a_search_misses_the_best_one(monkeypatch):
    """A search that ends at its limit of nodes may return a vector that is not the best."""
    P, _, wide = two(FURTHER["graph"])
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
    best = [vectors[0] for vectors, _ in ranked(wide, P, None)]
    np.testing.assert_array_equal(labels[:, 0], best)


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
    with pytest.raises(ValueError, match="none of 2000 draws satisfies them in row 0"):
        rare.predict_proba(np.full((1, n), 0.1))


@pytest.mark.deep
def test_a_wide_hierarchy_is_fitted_with_a_warning():
    rng = np.random.default_rng(0)
    n = 300
    edges = [(int(p), c) for c in range(1, n) for p in rng.integers(0, c, 2)]
    P = rng.uniform(0.05, 0.5, (12, n))
    model = Constrained(Given(), [Hierarchy(edges)], n_samples=50)
    with pytest.warns(UserWarning, match=r"estimates from draws \(is_exact_ is False\)"):
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
