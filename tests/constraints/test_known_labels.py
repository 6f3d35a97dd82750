"""Rules and known labels: conditional marginals, contradictory rows, wrong labels, suggestions."""

import warnings

import numpy as np
import pandas as pd
import pytest
from reference.label_rules import Given
from scipy.special import logsumexp
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import roc_auc_score

from skcrbm import CRBMClassifier
from skcrbm.annotation import find_label_issues, suggest_labels
from skcrbm.constraints import Between, Constrained, Excludes, Hierarchy, Implies
from skcrbm.datasets import make_structured_labels
from skcrbm.metrics import marginal_log_loss
from skcrbm.targets.label_sets import all_label_vectors


@pytest.fixture(scope="module")
def fifteen():
    """Return X, Y with 15 labels, a fitted joint model, and known labels of every second column."""
    X, Y = make_structured_labels(300, n_labels=12, structure="groups", random_state=0)
    flips = np.random.default_rng(0).random((300, 3)) < 0.05
    Y = np.hstack([Y, Y[:, :3] ^ flips])
    Y[:, 2] |= Y[:, 0]
    model = CRBMClassifier(n_hidden=3, alpha=0.02, max_iter=30, random_state=0)
    model.fit(X[:200], Y[:200])
    known = np.full((100, 15), np.nan)
    known[:, 1::2] = Y[200:, 1::2]
    return X, Y, model, known


def test_known_labels_reach_a_joint_model_with_many_labels(fifteen):
    X, Y, inner, known = fifteen
    X, Y = X[200:], Y[200:]
    free = Constrained(FrozenEstimator(inner), []).fit(X, Y)
    assert not free.is_joint_
    conditional = inner.predict_proba(X, y_known=known)
    np.testing.assert_allclose(free.predict_proba(X, known), conditional, atol=1e-7)

    proba = (
        Constrained(FrozenEstimator(inner), [Excludes([0, 2])]).fit(X, Y).predict_proba(X, known)
    )
    possible = conditional[:, [0, 2]].sum(axis=1) < 0.99
    assert 20 < possible.sum() < 100
    np.testing.assert_allclose(proba[possible], conditional[possible], atol=5e-3)
    assert (proba[:, [0, 2]].sum(axis=1) <= 1 + 1e-9).all()

    model = Constrained(FrozenEstimator(inner), [Implies(0, 2)]).fit(X, Y)
    proba = model.predict_proba(X, known)
    rest = np.where(np.isnan(known), Y, np.nan)
    losses = [
        marginal_log_loss(rest, np.clip(p, 1e-6, 1 - 1e-6))
        for p in (proba, conditional, model.predict_proba(X))
    ]
    assert losses[0] < losses[1] + 0.002
    assert losses[0] < losses[2] - 0.02

    vectors = all_label_vectors(15)  # the exact answer of the joint model under the rule
    log_p = inner.score_label_sets(X[:5], vectors, known[:5])
    log_p = np.where(vectors[:, 0] <= vectors[:, 2], log_p, -np.inf)
    exact = np.exp(log_p - logsumexp(log_p, axis=1, keepdims=True)) @ vectors
    errors = [np.abs(p[:5] - exact).mean() for p in (proba, model.predict_proba(X))]
    assert errors[0] < 0.01 < errors[1]


def test_known_labels_of_other_classifiers_act_through_the_rules():
    """The classifier `Given` does not take y_known."""
    P = np.full((1, 3), 0.3)
    model = Constrained(Given(), [Implies(0, 1)]).fit(P, np.zeros((1, 3), int))
    proba = model.predict_proba(P, [[1, np.nan, np.nan]])
    np.testing.assert_allclose(proba, [[1, 1, 0.3]], atol=1e-7)


def test_a_reversed_hierarchy_is_noticed_in_incomplete_rows():
    rng = np.random.default_rng(0)
    a = rng.random(200) < 0.5
    b = a & (rng.random(200) < 0.5)
    c = b & (rng.random(200) < 0.7)
    Y = pd.DataFrame(np.column_stack([a, b, c]).astype(float), columns=list("abc"))
    for i in range(200):  # no row is complete; a known grandchild tells about its grandparent
        Y.iloc[i, i % 3] = np.nan
    P = np.full((200, 3), 0.5)
    edges = [("a", "b"), ("b", "c")]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Constrained(Given(), [Hierarchy(edges)]).fit(P, Y)
    with pytest.warns(UserWarning, match="rows of y violate the rules by their known") as caught:
        Constrained(Given(), [Hierarchy([edge[::-1] for edge in edges])]).fit(P, Y)
    text = str(caught[0].message)
    known = Y.to_numpy()
    on, off = known == 1, known == 0
    wrong = (on[:, 0] & off[:, 1]) | (on[:, 1] & off[:, 2]) | (on[:, 0] & off[:, 2])
    assert text.startswith(f"{wrong.sum()} of 200 rows")
    assert f"in row {np.flatnonzero(wrong)[0]} of y the labels {{'a': 1, " in text
    assert "a pair (parent, child), or an entry {child: parent}" in text


def test_contradictory_rows_are_named_and_listed():
    Y = pd.DataFrame(np.zeros((2, 5), int), columns=list("abcde"))
    rules = [Hierarchy({"c": "b", "b": "a"}), Between(["d", "e"], 1, 1)]
    Y["d"] = 1
    model = Constrained(Given(), rules).fit(np.full((2, 5), 0.4), Y)
    known = np.full((4, 5), np.nan)
    known[1, [0, 2, 3]] = 0, 1, 0
    known[3, [0, 3, 4]] = 1, 1, 1
    assert model.satisfies(known).tolist() == [True, False, True, False]
    with pytest.raises(ValueError, match="row 1 and 1 other rows") as error:
        model.predict(np.full((4, 5), 0.4), known)
    assert "the labels {'a': 0, 'c': 1} contradict Hierarchy(" in str(error.value)
    assert "Between" not in str(error.value)
    with pytest.raises(ValueError, match=r"row 0: the labels {'d': 1, 'e': 1} contradict Between"):
        model.sample(np.full((1, 5), 0.4), y_known=known[3:])
    many = Constrained(Given(), [Between(range(20), 12)]).fit(np.ones((1, 20)), np.ones((1, 20)))
    with pytest.raises(ValueError, match=r"7: 0} and 1 more contradict Between"):
        many.predict(np.full((1, 20), 0.5), np.zeros((1, 20)))
    long = Constrained(Given(), [Hierarchy([(i, i + 1) for i in range(99)])])
    long.fit(np.full((1, 100), 0.5), np.zeros((1, 100), int))
    with pytest.raises(ValueError, match=r"labels \{0: 0, 99: 1\} contradict Hierarchy") as error:
        long.predict(np.full((1, 100), 0.5), [[0] + 98 * [np.nan] + [1]])
    assert len(str(error.value)) < 300


def test_wrong_labels_that_violate_rules_are_found():
    """The rules find flipped labels better than the classifier alone."""
    rng = np.random.default_rng(0)
    X, Y = make_structured_labels(300, n_labels=6, random_state=0)
    for child, parent in ((3, 1), (4, 1), (5, 2), (1, 0), (2, 0)):
        Y[:, parent] |= Y[:, child]
    wrong = rng.random(Y.shape) < 0.04
    given = np.where(wrong, 1 - Y, Y).astype(float)
    given[rng.random(Y.shape) < 0.1] = np.nan
    seen = ~np.isnan(given)
    inner = CRBMClassifier(alpha=0.05, n_hidden=0, max_iter=30, random_state=0)
    model = Constrained(inner, [Hierarchy({3: 1, 4: 1, 5: 2, 1: 0, 2: 0})])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # rows of y violate the rules
        found = find_label_issues(model, X, given, cv=3)
        plain = find_label_issues(inner, X, given, cv=3)
    scores = [roc_auc_score(wrong[seen], issue.entry_scores[seen]) for issue in (found, plain)]
    assert scores[0] > scores[1] + 0.01
    child_without_parent = (given[:, 3] == 1) & (given[:, 1] == 0)
    one_error = child_without_parent & (given[:, 0] != 0) & (given[:, 4] != 1)
    assert one_error.any()
    suspects = found.entry_scores[one_error][:, [1, 3]]
    assert (suspects >= 0.5).all()
    np.testing.assert_allclose(suspects.sum(axis=1), 1.5)


def test_entries_that_repair_a_row():
    """The odds of P(child) = .2 and P(parent) = .5 against the entries are 4 and 1."""
    P = np.tile([0.5, 0.2, 0.3], (4, 1))
    Y = np.array([[0, 1, 0], [1, 1, 0], [0, np.nan, 1], [0, 1, 1]])
    model = Constrained(Given(), [Hierarchy([(0, 1)])]).fit(P, np.zeros((4, 3), int))
    p = model.predict_proba(P)[0]  # the hierarchy keeps these probabilities
    np.testing.assert_allclose(p, P[0], atol=1e-6)
    found = find_label_issues(FrozenEstimator(model), P, Y, cv=2).entry_scores
    expected = [
        [0.5 + 0.5 * 1 / 5, 0.5 + 0.5 * 4 / 5, 0.3],
        [0, 1 - 0.2 / 0.5, 0.3],
        [0.5, np.nan, 0.7],
        [0.5 + 0.5 * 1 / 5, 0.5 + 0.5 * 4 / 5, 0.7],
    ]
    np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize("joint", [True, False])
def test_suggestions_under_rules(joint):
    """The gains equal the mutual information in a table of all label vectors."""
    X, Y = make_structured_labels(60, n_labels=4, random_state=0)
    Y[:, 1] |= Y[:, 0]
    inner = CRBMClassifier(n_hidden=2, alpha=0.05, max_iter=5, random_state=0) if joint else Given()
    X = X if joint else np.random.default_rng(0).random((60, 4))
    model = Constrained(inner, [Implies(0, 1)]).fit(X, Y)
    assert model.is_joint_ == joint
    vectors = all_label_vectors(4)
    p = np.exp(model.score_label_sets(X[:3], vectors))
    gains = suggest_labels(model, X[:3]).all_gains

    def entropy(q):
        return -np.sum(q[q > 0] * np.log(q[q > 0]))

    for i in range(4):
        on = vectors[:, i] == 1
        for row in range(3):
            own = np.array([p[row, on].sum(), p[row, ~on].sum()])
            expected = entropy(own) + entropy(p[row, on] + p[row, ~on]) - entropy(p[row])
            assert gains[row, i] == pytest.approx(expected, abs=1e-9)
    many = Constrained(Given(), []).fit(np.full((2, 21), 0.5), np.eye(2, 21, dtype=int))
    assert not hasattr(many, "score_label_sets")
    with pytest.raises(ValueError, match="enumerates all vectors of up to 20 labels, got 21"):
        suggest_labels(many, np.full((1, 21), 0.5))
