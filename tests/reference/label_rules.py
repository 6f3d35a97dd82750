"""Random rules between labels, against brute force over all label vectors."""

from itertools import product

import numpy as np
import pytest
from scipy.optimize import nnls
from sklearn.base import BaseEstimator, ClassifierMixin, clone

from reference.states import all_states
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
from skcrbm.constraints._rules import LabelNumbers


class Given(ClassifierMixin, BaseEstimator):
    """A classifier whose probabilities are the columns of X."""

    def fit(self, X, y):
        self.classes_ = np.arange(y.shape[1])
        return self

    def predict_proba(self, X):
        return np.asarray(X)


def holds(rule, v):
    """Return whether a label vector satisfies a rule, from the words of its docstring.

    With v (L, M) in place of a label vector, the result is (M,) for M label vectors.
    """
    v = np.asarray(v)
    if isinstance(rule, Implies):
        given = rule.given if isinstance(rule.given, list) else [rule.given]
        then = rule.then if isinstance(rule.then, list) else [rule.then]
        return ~v[given].all(axis=0) | v[then].all(axis=0)
    if isinstance(rule, Clause):
        on, off = list(rule.on), list(rule.off)
        return v[on].any(axis=0) | (v[off] == 0).any(axis=0)
    if isinstance(rule, Between):
        high = len(rule.labels) if rule.high is None else rule.high
        n_on = v[list(rule.labels)].sum(axis=0)
        return (rule.low <= n_on) & (n_on <= high)
    if isinstance(rule, Excludes):
        return v[list(rule.labels)].sum(axis=0) <= 1
    if isinstance(rule, Hierarchy):
        return np.all([(v[child] == 0) | (v[parent] == 1) for parent, child in rule.edges], axis=0)
    if isinstance(rule, Forbidden):
        return np.any([v[i] != value for i, value in rule.values.items()], axis=0)
    same = [np.all([v[i] == x for i, x in zip(rule.labels, row)], axis=0) for row in rule.rows]
    return np.any(same, axis=0)


def random_rule(rng, n, kinds=range(7)):
    """Draw a rule over n labels, of a kind among `kinds`."""

    def some(least=1, most=None):
        size = int(rng.integers(least, min(n, most or n) + 1))
        return [int(i) for i in rng.permutation(n)[:size]]

    kind = rng.choice(kinds)
    if kind == 0:
        labels = some(2)
        cut = int(rng.integers(1, len(labels)))
        return Implies(labels[:cut], labels[cut:])
    if kind == 1:
        labels = some(1)
        cut = int(rng.integers(0, len(labels) + 1))
        return Clause(labels[:cut], labels[cut:])
    if kind == 2:
        labels = some(1)
        low = int(rng.integers(0, len(labels) + 1))
        high = int(rng.integers(low, len(labels) + 1))
        return Between(labels, low, high if rng.random() < 0.8 else None)
    if kind == 3:
        return Excludes(some(1))
    if kind == 4:
        order = some(2)
        edges = [(order[int(rng.integers(k))], order[k]) for k in range(1, len(order))]
        return Hierarchy(edges)
    if kind == 5:
        return Forbidden({i: int(rng.integers(2)) for i in some(1)})
    labels = some(1, 4)
    rows = [r for r in product((0, 1), repeat=len(labels)) if rng.random() < 0.7]
    return Allowed(labels, [list(r) for r in rows] or [[1] * len(labels)])


def nearest_marginals(p, vectors, scale):
    """Return the marginals, of a distribution over `vectors`, with the least squared distance to p.

    The distance of each label is divided by its `scale`. Least squares with a heavy row for the sum
    of the probabilities of the vectors.
    """
    heavy = 1e4
    table = np.vstack([vectors.T / scale[:, None], np.full((1, len(vectors)), heavy)])
    weight = nnls(table, np.append(p / scale, heavy))[0]
    return weight @ vectors / weight.sum()


def check_marginals(p, marginals, rules, vectors, allowed):
    """Compare the marginals of a row with the nearest marginals that the rules allow.

    Implications act first, in the sense of least squares; other rules act in the sense of least
    squares in units of the standard deviation of each label.
    """
    kinds = [rule for rule in rules if is_implication(rule)]
    edges = np.all([holds(rule, vectors.T) for rule in kinds], axis=0) | np.zeros(
        len(vectors), bool
    )
    ordered = nearest_marginals(p, vectors[edges], np.ones(len(p)))
    ordered = np.clip(ordered, 1e-9, 1 - 1e-9)
    deviation = np.sqrt(ordered * (1 - ordered))
    best = nearest_marginals(ordered, vectors[allowed], deviation)
    least, found = (np.sqrt((((m - ordered) / deviation) ** 2).sum()) for m in (best, marginals))
    assert found <= 1.1 * least + 0.06  # the search ends before it is exact


def is_implication(rule):
    """Return whether a rule consists of implications between two labels."""
    if isinstance(rule, Implies):
        return not isinstance(rule.given, list) or len(rule.given) == 1
    if isinstance(rule, Clause):
        return len(set(rule.on)) == len(set(rule.off)) == 1
    if isinstance(rule, Forbidden):
        return sorted(rule.values.values()) == [0, 1]
    return isinstance(rule, Hierarchy)


def random_trees(rng, n):
    """Draw trees of n labels and counts over the labels of some trees, each tree in one count."""
    order = rng.permutation(n).tolist()
    tree, edges = np.empty(n, int), []
    for k, label in enumerate(order):
        if k == 0 or rng.random() < 0.3:
            tree[label] = label
        else:
            above = order[int(rng.integers(k))]
            tree[label] = tree[above]
            edges.append((above, label))
    cut = int(rng.integers(len(edges) + 1))
    rules = [Hierarchy(edges[:cut])] if cut else []
    rules += [Implies(child, parent) for parent, child in edges[cut:]]
    block = rng.integers(0, 3, n)[tree]  # trees of block 2 have no count
    for number in (0, 1):
        labels = [int(i) for i in np.flatnonzero(block == number) if rng.random() < 0.8]
        rule = random_rule(rng, len(labels), (1, 2, 3, 5)) if labels else None
        if rule is not None:
            rules.append(_renamed(rule, labels))
    return [rules[i] for i in rng.permutation(len(rules))]


def _renamed(rule, names):
    """Return a Clause, Between, Excludes or Forbidden with names[i] in place of label i."""
    if isinstance(rule, Clause):
        return Clause([names[i] for i in rule.on], [names[i] for i in rule.off])
    if isinstance(rule, Between):
        return Between([names[i] for i in rule.labels], rule.low, rule.high)
    if isinstance(rule, Excludes):
        return Excludes([names[i] for i in rule.labels])
    return Forbidden({names[i]: value for i, value in rule.values.items()})


def check_random_rules(rng, most=8, trees=False):
    """Compare all answers of `Constrained` under random rules of up to `most` labels.

    The rules are trees with counts if `trees`, for which there is a method of its own.
    """
    n = int(rng.integers(2, most + 1))
    if trees:
        check_rules(rng, random_trees(rng, n), n)
    else:
        check_rules(rng, [random_rule(rng, n) for _ in range(int(rng.integers(1, 5)))], n)


def check_rules(rng, rules, n):
    """Compare all answers of `Constrained` under rules of n labels with brute force."""
    vectors = all_states(n)
    allowed = np.all([holds(rule, vectors.T) for rule in rules], axis=0) | np.zeros(2**n, bool)
    conditions = Conditions(n)
    for rule in rules:
        rule.add_to(conditions, LabelNumbers(n, None))
    np.testing.assert_array_equal(conditions.satisfied(vectors), allowed)
    P = rng.random((3, n))
    model = Constrained(Given(), rules, decode="map", random_state=0)
    if not allowed.any():
        with pytest.raises(ValueError, match="rules contradict each other"):
            model.fit(P, np.ones((3, n), int))
        return
    Y = vectors[allowed][rng.integers(allowed.sum(), size=3)]
    model.fit(P, Y)
    labels, proba = model.predict(P), model.predict_proba(P)
    drawn, scores = model.sample(P, 5, random_state=0), model.score_samples(P, Y)
    known = np.where(rng.random((3, n)) < 0.3, Y, np.nan)
    given = model.predict_proba(P, known)
    top, top_proba = model.predict_topk(P, 3, known)
    free_log_p = model.score_label_sets(P, vectors)
    terms = np.hstack([vectors, np.ones((2**n, 1))])[allowed]
    for r in range(3):
        weight = np.exp(free_log_p[r])
        assert weight.sum() == pytest.approx(1)
        assert (weight[~allowed] == 0).all()
        # The log-probability is a sum of terms of the labels that are on: no distribution with
        # these marginals has a larger entropy.
        linear = terms @ np.linalg.lstsq(terms, free_log_p[r][allowed], rcond=None)[0]
        np.testing.assert_allclose(linear, free_log_p[r][allowed], atol=1e-6, rtol=1e-9)
        check_marginals(P[r], weight @ vectors, rules, vectors, allowed)
        np.testing.assert_allclose(proba[r], weight @ vectors / weight.sum(), atol=1e-8)
        best = (vectors == labels[r]).all(axis=1)
        assert weight[best][0] == pytest.approx(weight.max())
        assert allowed[drawn[r].astype(int) @ (1 << np.arange(n)[::-1])].all()
        mine = free_log_p[r][(vectors == Y[r]).all(axis=1)][0]
        assert scores[r] == pytest.approx(mine, abs=1e-7)
        agrees = weight * (np.isnan(known[r]) | (vectors == known[r])).all(axis=1)
        np.testing.assert_allclose(given[r], agrees @ vectors / agrees.sum(), atol=1e-8)
        ranked = np.sort(agrees)[::-1][:3] / agrees.sum()
        np.testing.assert_allclose(top_proba[r], np.pad(ranked, (0, 3 - len(ranked))), atol=1e-8)
        for vector, share in zip(top[r], top_proba[r]):
            if share > 0:
                same = (vectors == vector).all(axis=1)
                assert agrees[same][0] / agrees.sum() == pytest.approx(share, abs=1e-8)
            elif (
                vector >= 0
            ).all():  # a possible vector, whose probability is too small for a float
                assert allowed[(vectors == vector).all(axis=1)][0]
        assert (
            len({tuple(labels) for labels in top[r][top_proba[r] > 0]}) == (top_proba[r] > 0).sum()
        )
    partial = np.where(rng.random((6, n)) < 0.6, vectors[rng.integers(2**n, size=6)], np.nan)
    agree = (np.isnan(partial[:, None]) | (partial[:, None] == vectors)).all(axis=2)
    np.testing.assert_array_equal(model.satisfies(partial), (agree & allowed).any(axis=1))
    log_p = model.score_label_sets(P, vectors, known)
    closest = clone(model).set_params(decode="marginal").fit(P, Y).predict(P, known)
    for r in range(3):
        agrees = (np.isnan(known[r]) | (vectors == known[r])).all(axis=1)
        weight = np.exp(free_log_p[r]) * agrees
        np.testing.assert_allclose(np.exp(log_p[r]), weight / weight.sum(), atol=1e-8)
        n_right = vectors @ (2 * given[r] - 1)
        assert (allowed & agrees)[(vectors == closest[r]).all(axis=1)][0]
        assert closest[r] @ (2 * given[r] - 1) == pytest.approx(n_right[weight > 0].max())
    if not allowed.all():
        assert model.score_samples(P[:1], vectors[~allowed][:1])[0] == -np.inf
