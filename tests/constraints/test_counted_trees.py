"""Trees of labels with counts: the method of its own against brute force and elimination."""

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference.label_rules import Given, check_random_rules, holds, random_trees
from scipy.special import logsumexp

from skcrbm.constraints import (
    Allowed,
    Between,
    Clause,
    Constrained,
    Excludes,
    Forbidden,
    Hierarchy,
    Implies,
)
from skcrbm.constraints._conditions import Conditions
from skcrbm.constraints._counted_trees import counted_trees
from skcrbm.constraints._distributions import Counted, Eliminated
from skcrbm.constraints._rules import LabelNumbers
from skcrbm.targets.label_sets import all_label_vectors


def conditions_of(rules, n):
    conditions = Conditions(n)
    for rule in rules:
        rule.add_to(conditions, LabelNumbers(n, None))
    return conditions


@pytest.mark.deep
@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_random_trees_with_counts_against_brute_force(seed):
    check_random_rules(np.random.default_rng(seed), 9, trees=True)


@pytest.mark.parametrize(
    ("rules", "is_tree"),
    [
        ([], True),
        ([Between(range(6), 2, 3)], True),
        ([Excludes([0, 1, 2]), Clause([3, 4], [5])], True),
        ([Excludes([0, 1, 2]), Clause([2, 3], [4])], False),
        ([Excludes([0, 1, 2]), Between([2, 3, 4], 0, 3)], True),  # the second rule is always true
        ([Hierarchy({1: 0, 2: 1}), Implies(3, 0), Between(range(6), 1)], True),
        ([Hierarchy([(0, 2), (1, 2)])], False),
        ([Implies(0, 1), Implies(1, 0)], False),
        ([Hierarchy({1: 0}), Excludes([0, 2]), Excludes([1, 3])], False),
        ([Forbidden({0: 1, 1: 1, 2: 0}), Forbidden({3: 1, 4: 1})], True),
        ([Allowed([0, 1], [[0, 0], [1, 1]])], False),
    ],
)
def test_rules_that_are_trees_with_counts(rules, is_tree):
    assert (counted_trees(conditions_of(rules, 6)) is not None) == is_tree


@pytest.mark.parametrize("seed", range(3))
def test_all_vectors_in_order_and_draws(seed):
    """The k best vectors are all allowed vectors, and draws have their probabilities."""
    n, rng = 5, np.random.default_rng(seed)
    rules = [Hierarchy([(0, 1), (0, 2), (2, 3)]), Between(range(5), 1, 3)]
    trees = counted_trees(conditions_of(rules, n))
    log_odds = rng.normal(size=(2, n))
    block = Counted(slice(0, 2), trees, log_odds, None)
    vectors = all_label_vectors(n)
    allowed = vectors[np.all([holds(rule, vectors.T) for rule in rules], axis=0)]
    score = log_odds @ allowed.T
    log_p = score - logsumexp(score, axis=1, keepdims=True)
    labels, found = block.top(40)
    for r in range(2):
        np.testing.assert_allclose(found[r, : len(allowed)], np.sort(log_p[r])[::-1], atol=1e-12)
        np.testing.assert_array_equal(
            labels[r, : len(allowed)], allowed[np.argsort(-score[r], kind="stable")]
        )
    assert (labels[:, len(allowed) :] == -1).all()
    assert (found[:, len(allowed) :] == -np.inf).all()
    drawn = block.draw(3000, np.random.RandomState(0))
    number = 1 << np.arange(n)
    share = (drawn @ number == (allowed @ number)[:, None, None]).mean(axis=2).T
    np.testing.assert_allclose(share, np.exp(log_p), atol=0.04)


@pytest.mark.quick_cases(5)
@pytest.mark.parametrize("seed", range(10))
def test_the_same_answers_as_elimination(seed):
    """Labels with extreme log-odds too, and known labels."""
    rng = np.random.default_rng(seed)
    conditions = conditions_of(random_trees(rng, 25), 25)
    trees = counted_trees(conditions)
    if trees is None:
        return
    log_odds = rng.normal(size=(4, 25)) * 10.0 ** rng.integers(0, 3)
    rows = slice(0, 4)
    best = Counted(rows, trees, log_odds, None).top(1)[0][:, 0]
    known = np.where(rng.random((4, 25)) < 0.2, best, np.nan)
    for held in (None, known):
        ours = Counted(rows, trees, log_odds, held)
        theirs = Eliminated(rows, conditions, log_odds, held)
        np.testing.assert_allclose(ours.marginals(), theirs.marginals(), atol=1e-7)
        np.testing.assert_array_equal(ours.best(), theirs.best())
        np.testing.assert_allclose(ours.log_proba(best), theirs.log_proba(best), atol=1e-7)
        np.testing.assert_allclose(ours.top(4)[1], theirs.top(4)[1], atol=1e-7)


def test_a_path_of_labels_with_a_count():
    """Exactly five labels of a path are its first five, however deep the path is."""
    n = 400
    rules = [Hierarchy([(i, i + 1) for i in range(n - 1)]), Between(range(n), 5, 5)]
    P = np.random.default_rng(0).random((3, n))
    expected = np.repeat((np.arange(n) < 5)[None], 3, axis=0)
    model = Constrained(Given(), rules).fit(P, expected.astype(int))
    np.testing.assert_allclose(model.predict_proba(P), expected, atol=1e-12)
    np.testing.assert_array_equal(model.predict(P), expected)
    np.testing.assert_allclose(model.score_samples(P, expected.astype(int)), 0, atol=1e-9)
    known = np.full((3, n), np.nan)
    known[2, 7] = 1
    with pytest.raises(ValueError, match="y_known contradicts the rules in row 2"):
        model.predict(P, known)


def test_counts_over_many_labels_take_linear_time():
    """A row of "at most k of L" and of a deep tree with a count takes a few ms."""
    rng = np.random.default_rng(0)
    P = rng.beta(1, 20, (40, 1000)) / 20
    tree = Hierarchy([(int(rng.integers(i)), i) for i in range(1, 1000)])
    for rules in ([Between(range(1000), 0, 5)], [tree, Between(range(1000), 0, 5)]):
        model = Constrained(Given(), rules).fit(P[:1], np.zeros((1, 1000), int))
        model.predict_proba(P[:2])
        start = time.process_time()
        proba = model.predict_proba(P)
        assert (time.process_time() - start) / 40 < 3e-2
        assert proba.sum(axis=1).max() <= 5 + 1e-9
