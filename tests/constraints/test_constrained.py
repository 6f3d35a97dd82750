"""Rules between labels: against brute force, and the promises of Constrained."""

import pickle
import re
import time

import numpy as np
import pandas as pd
import pytest
from reference.label_rules import Given, check_random_rules, holds
from reference.states import all_states
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsRestClassifier

from skcrbm import CRBMClassifier, DecodedClassifier
from skcrbm.calibration import ConformalLabelSets
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
from skcrbm.datasets import make_structured_labels


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("first", range(0, 60, 20))
def test_random_rules_against_brute_force(first):
    for seed in range(first, first + 20):
        check_random_rules(np.random.default_rng(seed))


def test_a_tree_together_with_a_count_of_its_labels():
    """The tree and the count change no marginal if some distribution has the marginals."""
    n, top = 300, 4
    rng = np.random.default_rng(0)
    edges = {label: (label - 1) // 3 for label in range(1, n)}
    P = rng.uniform(0.05, 0.3, (3, n))  # P(label | parent on)
    for label, parent in edges.items():
        P[:, label] *= P[:, parent]
    P[:, 0] = 0.9
    rules = [Between(list(range(n)), 0, top), Hierarchy(edges)]
    model = Constrained(Given(), rules).fit(P, np.zeros((3, n), int))
    np.testing.assert_allclose(model.predict_proba(P), P, atol=2e-3)
    drawn = model.sample(P, 400, random_state=0)
    assert 1 < drawn.sum(axis=2).max() <= top
    assert model.satisfies(drawn.reshape(-1, n)).all()
    np.testing.assert_allclose(drawn.mean(axis=1), P, atol=0.1)


@pytest.mark.parametrize("n_parents", [1, 2, 4, 8])
def test_further_parents_do_not_lower_the_probability_of_a_child(n_parents):
    """Parents of probability .5 each, and a child of probability .4."""
    P = np.full((1, n_parents + 1), 0.5)
    P[0, -1] = 0.4
    rule = Hierarchy({n_parents: list(range(n_parents))})
    model = Constrained(Given(), [rule]).fit(P, np.zeros(P.shape, int))
    np.testing.assert_allclose(model.predict_proba(P), P, atol=1e-8)
    drawn = model.sample(P, 4000, random_state=0)[0]
    np.testing.assert_allclose(drawn.mean(axis=0), P[0], atol=0.04)  # five standard errors


def test_probabilities_that_rules_allow_are_kept():
    """Graphs with loops, exclusions, exact counts and clauses, for possible probabilities."""
    rng = np.random.default_rng(0)
    diamond = Hierarchy({1: 0, 2: 0, 3: [1, 2], 4: [2, 3], 5: [1, 4]})
    rules = [[diamond], [Excludes(range(4))], [Between(range(5), 2, 2)], [Clause([0, 1], [2])]]
    for part in rules:
        probe = Constrained(Given(), part).fit(np.ones((1, 6)), np.eye(1, 6, dtype=int) * 0)
        allowed = probe._conditions.enumerate()
        P = rng.dirichlet(np.ones(len(allowed)), 8) @ allowed
        np.testing.assert_allclose(probe.predict_proba(P), P, atol=5e-3)


def test_impossible_probabilities_move_as_little_as_possible():
    P = np.array([[0.5, 0.3, 0.2]])
    model = Constrained(Given(), [Implies(0, 1)]).fit(P, np.zeros((1, 3), int))
    np.testing.assert_allclose(model.predict_proba(P), [[0.4, 0.4, 0.2]], atol=1e-8)
    P = np.array([[0.9, 0.3, 0.1]])
    model = Constrained(Given(), [Excludes(range(3))]).fit(P, np.zeros((1, 3), int))
    variance = P * (1 - P)
    expected = P - (P.sum() - 1) * variance / variance.sum()
    np.testing.assert_allclose(model.predict_proba(P), expected, atol=0.01)


def test_probabilities_that_agree_with_a_tree_are_kept():
    rng = np.random.default_rng(0)
    parent = [-1, 0, 0, 1, 1, 2, -1, 6]
    P = rng.random((50, 8))
    for label, above in enumerate(parent):
        if above >= 0:
            P[:, label] *= P[:, above]
    edges = {label: above for label, above in enumerate(parent) if above >= 0}
    model = Constrained(Given(), [Hierarchy(edges)]).fit(P, np.zeros((50, 8), int))
    np.testing.assert_allclose(model.predict_proba(P), P, atol=1e-7)
    P[:, 3] = 0.9  # more probable than its parent: the parent decides
    assert (model.predict_proba(P)[:, 3] <= model.predict_proba(P)[:, 1] + 1e-9).all()


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("metric", ["expected_f1", "expected_jaccard"])
def test_expected_metrics(metric):
    rng = np.random.default_rng(0)
    P = rng.random((4, 5))
    rules = [Excludes([0, 1, 2]), Implies(3, 4)]
    vectors = all_states(5)
    allowed = vectors[[all(holds(rule, v) for rule in rules) for v in vectors]]
    model = Constrained(Given(), rules, decode=metric, n_samples=3000, random_state=0)
    labels = model.fit(P, allowed[:4]).predict(P)
    assert model.satisfies(labels).all()
    both = allowed @ allowed.T
    sizes = allowed.sum(axis=1)[:, None] + allowed.sum(axis=1)
    whole = sizes / 2 if metric == "expected_f1" else sizes - both
    value = np.divide(both, whole, out=np.zeros(both.shape), where=whole > 0)
    for log_p, v in zip(model.score_label_sets(P, allowed), labels):
        expected = value @ np.exp(log_p)
        mine = expected[(allowed == v).all(axis=1)][0]
        assert mine > expected.max() - 0.02


def test_joint_models_keep_their_distribution():
    X, Y = make_structured_labels(200, n_labels=5, random_state=0)
    Y[:, 1] |= Y[:, 0]
    joint = CRBMClassifier(n_hidden=3, alpha=0.01, max_iter=30, random_state=0).fit(X, Y)
    rules = [Implies(0, 1), Between(range(5), 1)]
    model = Constrained(FrozenEstimator(joint), rules, decode="map").fit(X, Y)
    assert model.is_joint_
    vectors = all_states(5, np.int8)
    allowed = (vectors[:, 0] <= vectors[:, 1]) & vectors.any(axis=1)
    log_p = joint.score_label_sets(X[:20], vectors)
    weight = np.exp(log_p) * allowed
    weight /= weight.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.predict_proba(X[:20]), weight @ vectors, atol=1e-8)
    np.testing.assert_array_equal(model.predict(X[:20]), vectors[weight.argmax(axis=1)])
    share = model.sample(X[:1], 4000, random_state=0)[0].mean(axis=0)
    np.testing.assert_allclose(share, weight[0] @ vectors, atol=0.04)
    np.testing.assert_allclose(np.exp(model.score_label_sets(X[:20], vectors)), weight, atol=1e-8)
    model.set_params(decode="marginal")
    n_right = np.where(allowed, (2 * weight @ vectors - 1) @ vectors.T, -np.inf)
    np.testing.assert_array_equal(model.predict(X[:20]), vectors[n_right.argmax(axis=1)])
    known = np.full((20, 5), np.nan)
    known[:, 0] = 1
    held = weight * vectors[:, 0]
    expected = held @ vectors / held.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.predict_proba(X[:20], known), expected, atol=1e-8)


def test_a_tree_of_a_thousand_labels_is_fast():
    rng = np.random.default_rng(0)
    parent = [max(0, (i - 1) // 4) for i in range(1, 1000)]
    rule = Hierarchy([(p, i + 1) for i, p in enumerate(parent)])
    P = rng.beta(1, 3, (500, 1000))
    model = Constrained(Given(), [rule], decode="map").fit(P[:1], np.zeros((1, 1000), int))
    model.predict_proba(P[:2])
    start = time.process_time()
    proba = model.predict_proba(P)
    assert (time.process_time() - start) / 500 < 5e-3  # 0.7 ms on an idle machine
    children = np.arange(1, 1000)
    assert (proba[:, children] <= proba[:, parent] + 1e-9).all()
    labels = model.predict(P[:20])
    assert (labels[:, children] <= labels[:, parent]).all()


def test_counts_of_many_labels():
    """Exactly 3 of 200 labels, against the recursion of the Poisson binomial distribution."""
    p = np.random.default_rng(0).random((1, 200)) * 0.1
    model = Constrained(Given(), [Between(range(200), 3, 3)], decode="map")
    model.fit(p, np.eye(1, 200, dtype=int))
    proba = model.predict_proba(p)
    assert proba.sum() == pytest.approx(3)
    odds = np.exp(next(iter(model._parts(p, None))).log_odds[0])

    def symmetric(values, k):
        e = np.zeros(k + 1)
        e[0] = 1
        for value in values:
            e[1:] += value * e[:-1]
        return e[k]

    total = symmetric(odds, 3)
    for i in (0, 57, 199):
        expected = odds[i] * symmetric(np.delete(odds, i), 2) / total
        assert proba[0, i] == pytest.approx(expected)
    assert model.predict(p).sum() == 3
    assert set(np.flatnonzero(model.predict(p)[0])) == set(np.argsort(-odds)[:3])


def test_the_best_vectors_of_a_joint_model():
    X, Y = make_structured_labels(80, n_labels=5, random_state=0)
    joint = CRBMClassifier(n_hidden=2, alpha=0.05, max_iter=3, random_state=0).fit(X, Y)
    model = Constrained(FrozenEstimator(joint), [Between(range(5), 1, 4)], decode="map")
    model.fit(X, Y)
    top = model.predict_topk(X[:4], 40)
    labels, proba = top.labels, top.proba
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    assert ((labels == -1).all(axis=2) == (proba == 0)).all()
    assert (np.diff(proba, axis=1) <= 0).all()
    assert (proba > 0).sum(axis=1).tolist() == [30] * 4
    np.testing.assert_array_equal(labels[:, 0], model.predict(X[:4]))


def test_best_vectors_in_a_data_frame():
    X, Y = make_structured_labels(60, n_labels=3, random_state=0)
    Y = pd.DataFrame(Y, columns=list("abc"))
    X = pd.DataFrame(X, index=np.arange(60) + 5).add_prefix("x")
    joint = CRBMClassifier(n_hidden=0, alpha=0.05, max_iter=3, random_state=0)
    model = Constrained(joint, [Implies("a", "b")]).fit(X, Y)
    top = model.predict_topk(X, 2)
    frames = model.set_label_output("pandas").predict_topk(X, 2)
    assert frames.labels.columns.tolist() == list("abc")
    assert frames.labels.index[:3].tolist() == [(5, 0), (5, 1), (6, 0)]
    np.testing.assert_array_equal(frames.labels, top.labels.reshape(120, 3))
    np.testing.assert_array_equal(frames.proba, top.proba.ravel())
    free = joint.fit(X, Y).set_label_output("pandas").predict_topk(X, 2)
    pd.testing.assert_index_equal(frames.labels.index, free.labels.index)


def test_contradictions_are_named():
    rules = [Implies("a", "b"), Clause(on=["a"]), Between(["b", "c"], 0, 1), Forbidden({"b": 1})]
    Y = pd.DataFrame(np.eye(3, dtype=int), columns=["a", "b", "c"])
    with pytest.raises(ValueError, match="no label vector satisfies") as error:
        Constrained(Given(), rules).fit(np.eye(3), Y)
    text = str(error.value)
    assert "Implies(given='a'" in text
    assert "Forbidden" in text
    assert "Between" not in text


def test_names_warnings_and_scikit_learn():
    X, Y = make_structured_labels(120, n_labels=4, random_state=0)
    Y = pd.DataFrame(Y, columns=list("abcd"))
    inner = OneVsRestClassifier(LogisticRegression())
    model = Constrained(inner, [Hierarchy({"b": "a", "c": "b"})])
    with pytest.warns(UserWarning, match="rows of y violate the rules by their known labels"):
        model.fit(X, Y)
    assert model.label_names_.tolist() == list("abcd")
    labels = model.set_label_output("pandas").predict(X)
    assert (labels.b <= labels.a).all()
    assert (labels.c <= labels.b).all()
    with pytest.raises(ValueError, match="y_known contradicts the rules in row 1"):
        model.predict(X[:2], pd.DataFrame({"a": [1, 0], "c": [1, 1]}))
    copy = pickle.loads(pickle.dumps(model))
    pd.testing.assert_frame_equal(copy.predict(X), labels)
    grid = GridSearchCV(clone(model), {"estimator__estimator__C": [0.1, 1.0]}, cv=2)
    with pytest.warns(UserWarning, match="violate"):
        grid.fit(X, Y)
    assert model.score(X, labels) == 1.0


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("a", "rules should hold rules of skcrbm.constraints"),
        (Implies("x", 1), "'x' is not a label"),
        (Implies(0, 29), "29 is not a label"),
        (Excludes("ab"), "whose labels should be a list"),
        (Excludes([1, 1]), "names a label twice"),
        (Between([0, 1], 3), "which is never true for 2 labels"),
        (Clause(), "a Clause without labels"),
        (Hierarchy([(0, 0)]), "a label is its own parent"),
        (Hierarchy([(0, 1, 2)]), "in place of a pair"),
        (Hierarchy([(0, [1])]), "in place of a pair"),
        (Hierarchy(3), "neither a list of pairs"),
        (Hierarchy([(0, 1), (1, 2), (2, 0)]), "with a cycle of the labels"),
        (Hierarchy(csr_array(np.eye(3))), r"shape should be \(20, 20\), a row and a column"),
        (Excludes([]), "which names no label"),
        (Between([], 0), "which names no label"),
        (Between([0, 1], 0, 1.5), "low should be an integer, and high an integer or None"),
        (Between([0, 1], "1"), "low should be an integer"),
        (Between([0, 1], None, 1), r"low=None, high=1\); low should be an integer"),
        (Implies([[0]], 1), r"\[0\] is not a label"),
        (
            Allowed([0, 1], [[1], [0, 1]]),
            r"Allowed of the labels \[0, 1\]; its rows should be a list",
        ),
        (Allowed([0, 1], []), "one or more rows with 2 entries of 0 and 1"),
        (Allowed([], []), "which names no label"),
        (Forbidden({0: 2}), "whose values should be 0 or 1"),
        (Forbidden([0]), "should be a dict"),
        (Allowed([0, 1], [[1, 0, 1]]), "one or more rows with 2 entries of 0 and 1"),
        (Allowed(range(17), np.ones((1, 17))), "the limit is 16"),
    ],
)
def test_bad_rules(rule, message):
    with pytest.raises(ValueError, match=message):
        Constrained(Given(), [rule]).fit(np.eye(20), np.eye(20, dtype=int))


def test_containers_of_labels():
    """Arrays and ranges are lists of labels; rules are compared by identity."""
    Y = np.ones((4, 4), int)
    rules = [Implies(np.array([0, 1]), 2), Implies(range(2), 3), Hierarchy(np.array([[2, 3]]))]
    model = Constrained(Given(), rules).fit(np.full((4, 4), 0.6), Y)
    assert model.satisfies([[1, 1, 0, 0], [1, 1, 1, 1], [0, 1, 0, 0]]).tolist() == [
        False,
        True,
        True,
    ]
    assert len(set(rules)) == 3
    model = Constrained(Given(), [Hierarchy(zip([0, 1], [1, 2]))])
    for _ in range(2):  # an iterator is read once, a rule at each fit
        model.fit(np.full((4, 4), 0.6), Y)
        assert not model.satisfies([[0, 1, 0, 0]])[0]
    with pytest.raises(ValueError, match="y must have shape"):
        model.satisfies([[1], [0]])
    with pytest.raises(ValueError, match="complete"):
        model.score_samples(np.full((1, 4), 0.6), [[1, np.nan, 0, 0]])
    with pytest.raises(ValueError, match="X has no rows"):
        model.predict(np.empty((0, 4)))


def test_forms_of_a_hierarchy():
    """Pairs, dicts with one or several parents, and adjacency matrices mean the same rule."""
    Y = pd.DataFrame(np.zeros((4, 4), int), columns=list("abcd"))
    edges = [("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")]
    matrix = csr_array(([1, 1, 1, 1], ([0, 0, 1, 2], [1, 2, 3, 3])), (4, 4))
    vectors = all_states(4)
    by_index = Hierarchy([(0, 1), (0, 2), (1, 3), (2, 3)])
    for form in (edges, {"d": ["b", "c"], "c": "a", "b": ("a",)}, matrix):
        model = Constrained(Given(), [Hierarchy(form)]).fit(np.full((4, 4), 0.5), Y)
        np.testing.assert_array_equal(model.satisfies(vectors), holds(by_index, vectors.T))
    with pytest.raises(ValueError, match=r"with a cycle of the labels \['"):
        Constrained(Given(), [Hierarchy({"a": "b", "b": "a"})]).fit(np.ones((4, 4)), Y)


def test_names_of_labels_may_be_tuples():
    """Every form of a `Hierarchy` takes the names of columns with two levels, which are tuples."""
    columns = pd.MultiIndex.from_tuples([("a", 1), ("a", 2), ("b", 1)])
    Y = pd.DataFrame(np.zeros((4, 3), int), columns=columns)
    vectors = all_states(3)
    by_index = Hierarchy([(0, 1), (0, 2)])
    root, first, second = columns
    forms = [[(root, first), [root, second]], {first: root, second: [root]}]
    for form in forms:
        model = Constrained(Given(), [Hierarchy(form)]).fit(np.full((4, 3), 0.5), Y)
        np.testing.assert_array_equal(model.satisfies(vectors), holds(by_index, vectors.T))
    for wrong in ([(root, (first, second))], [(root, [first])], [(root, ([], 1))]):
        with pytest.raises(ValueError, match=r"in place of a pair \(parent, child\)"):
            Constrained(Given(), [Hierarchy(wrong)]).fit(np.full((4, 3), 0.5), Y)


@pytest.mark.parametrize("shape", [(4, 1), (4,)])
@pytest.mark.parametrize("wrapper", [lambda m: Constrained(m, []), ConformalLabelSets])
def test_a_single_label_is_refused(wrapper, shape):
    y = np.array([0, 1, 0, 1]).reshape(shape)
    with pytest.raises(ValueError, match=r"with at least two columns, got a y of shape \(4,") as e:
        wrapper(Given()).fit(np.full((4, 1), 0.5), y)
    assert "fitted on" not in str(e.value)


def test_rules_of_the_same_meaning_have_the_same_answers():
    P = np.random.default_rng(0).random((5, 3))
    rules = [Hierarchy({0: 1}), Implies(0, 1), Forbidden({0: 1, 1: 0}), Clause(on=[1], off=[0])]
    answers = [Constrained(Given(), [r]).fit(P, np.ones((5, 3))).predict_proba(P) for r in rules]
    for answer in answers[1:]:
        np.testing.assert_array_equal(answer, answers[0])


def test_excludes_takes_a_list():
    with pytest.raises(TypeError, match=r"one list of labels, as in Excludes\(\[0, 1\]\)"):
        Excludes(0, 1)


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_a_hierarchy_that_is_too_wide():
    """The warning names a number of labels for which answers are exact."""
    rng = np.random.default_rng(0)
    n = 300
    edges = [(int(p), c) for c in range(1, n) for p in rng.integers(0, c, 2)]
    rule, Y = Hierarchy(edges), np.zeros((2, n), int)
    with pytest.warns(UserWarning, match=r"several parents\. Keep fewer labels of y") as found:
        assert not Constrained(Given(), [rule]).fit(Y, Y).is_exact_
    message = str(found[0].message)
    assert "Exact(" not in message
    kept = int(re.search(r"the (\d+) labels", message).group(1))
    assert 10 < kept < n
    inner = [edge for edge in edges if max(edge) < kept]
    assert Constrained(Given(), [Hierarchy(inner)]).fit(Y[:, :kept], Y[:, :kept]).is_exact_


@pytest.mark.deep
def test_rules_that_are_too_wide():
    """Counts of random large sets overlap too much for elimination; a cycle is refused."""
    rng = np.random.default_rng(0)
    rules = [Between(rng.permutation(60)[:30], 10, 20) for _ in range(12)]
    P = np.full((2, 60), 0.5)
    with pytest.warns(UserWarning, match="rules overlap too much for exact answers; leave out"):
        model = Constrained(Given(), rules, decode="map").fit(P, np.arange(60) % 2 + 0 * P)
    labels, _, gap = model.predict_with_gap(P)
    assert model.satisfies(labels).all()
    np.testing.assert_allclose(gap, 0, atol=1e-6)
    assert model.satisfies(model.sample(P, 5)[0]).all()
    cycle = [*rules, Implies(0, 1), Implies(1, 2), Implies(2, 0)]
    with pytest.raises(ValueError, match="implications form a cycle"):
        Constrained(Given(), cycle).fit(P, np.zeros((2, 60), int))
    with pytest.raises(ValueError, match=r"no label vector satisfies Between.*Between"):
        Constrained(Given(), [*rules, Between(range(60), 55, 60)]).fit(P, np.zeros((2, 60), int))


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("rules", [[Implies(0, 1)], [Clause([0, 1], [2]), Clause([2, 3], [0])]])
@pytest.mark.parametrize("kind", ["independent", "joint"])
def test_predictions_do_not_depend_on_the_other_rows(rules, kind):
    X, Y = make_structured_labels(120, n_labels=5, random_state=0)
    inner = OneVsRestClassifier(LogisticRegression())
    if kind == "joint":
        inner = CRBMClassifier(n_hidden=2, alpha=0.1, max_iter=5, random_state=0)
    model = Constrained(inner, rules, n_samples=50, random_state=0).fit(X, Y)
    for decode in ("expected_f1", "expected_jaccard"):
        model.set_params(decode=decode)
        whole = model.predict(X)
        np.testing.assert_array_equal(model.predict(X[::-1])[::-1], whole)
        np.testing.assert_array_equal(model.predict(X[50:60]), whole[50:60])


def test_another_decoder_outside_would_break_the_rules():
    X, Y = make_structured_labels(60, n_labels=5, random_state=0)
    ruled = Constrained(OneVsRestClassifier(LogisticRegression()), [Implies(0, 1)])
    with pytest.raises(ValueError, match="Constrained must be used without DecodedClassifier"):
        DecodedClassifier(ruled).fit(X, Y)


def test_probabilities_of_counted_trees_stay_in_their_range():
    X = np.random.RandomState(0).rand(400, 4)
    known = np.full(X.shape, np.nan)
    known[:, 3] = 1
    model = Constrained(Given(), [Between(range(4), 0, 3)]).fit(X, np.zeros(X.shape, int))
    assert 0 <= model.predict_proba(X).min() <= model.predict_proba(X).max() <= 1
    assert (model.predict_proba(X, y_known=known)[:, 3] == 1).all()
