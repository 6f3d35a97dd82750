"""LMBMClassifier with cliques of more than two labels."""

import pickle
import warnings
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from reference.states import all_states
from scipy import sparse
from scipy.optimize import minimize
from scipy.special import logsumexp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from skcrbm import LMBMClassifier
from skcrbm.inference import ICM, BranchAndBound
from skcrbm.learning.large_margin.dual_coordinate import LargeMarginProblem, fit_large_margin

L = 4
VECTORS = all_states(L)
TRIPLES = list(combinations(range(L), 3))


@pytest.fixture(scope="module")
def data():
    """120 rows of four labels, the last of which is the parity of two others."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 3))
    Y = (X @ rng.normal(size=(3, L)) + 0.7 * rng.normal(size=(120, L)) > 0).astype(int)
    Y[:, 3] = (Y[:, 0] ^ Y[:, 1]) ^ (rng.random(120) < 0.1)
    return X, Y


def make(**options):
    settings = {"C": 0.1, "pairwise_penalty": 2.0, "cliques": 3, "random_state": 0, "tol": 1e-6}
    return LMBMClassifier(**{**settings, **options})


@pytest.fixture(scope="module")
def fitted(data):
    return make().fit(*data)


# ----------------------------------------------------------------- training


def products(signs, cliques):
    """Features (N, J); 0 where a label is not observed."""
    return np.column_stack([signs[:, list(c)].prod(axis=1) for c in cliques])


def quadratic_program(problem, cliques):
    """Coefficients, biases and weights of all cliques by a general solver, with slacks."""
    X, y = problem.X, problem.signs
    n_labels, d = y.shape[1], X.shape[1]
    size = n_labels * (d + 1)
    touches = np.array([[i in c for i in range(n_labels)] for c in cliques], float)
    f = products(y, cliques)

    def margins(v):
        ab = v[:size].reshape(n_labels, d + 1)
        linear = y * (X @ ab[:, :d].T + ab[:, d])
        return linear + ((f * v[size : size + len(cliques)]) @ touches) * (y != 0)

    def value(v):
        weights = v[size : size + len(cliques)]
        norm = 0.5 * (v[:size] ** 2).sum() + 0.5 * problem.penalty * (weights**2).sum()
        return norm + (problem.limit.ravel() * v[size + len(cliques) :]).sum()

    def constraint(v):
        return (margins(v) - problem.margin * (y != 0)).ravel() + v[n - y.size :]

    n = size + len(cliques) + y.size
    found = minimize(
        value,
        np.concatenate([np.zeros(n - y.size), np.full(y.size, problem.margin)]),
        method="SLSQP",
        bounds=[(None, None)] * (n - y.size) + [(0, None)] * y.size,
        constraints={"type": "ineq", "fun": constraint},
        options={"maxiter": 1000, "ftol": 1e-13},
    )
    assert found.status in (0, 8), found.message  # 8: rounding leaves no descent
    assert (constraint(found.x) >= -1e-9).all()
    ab = found.x[:size].reshape(n_labels, d + 1)
    return ab[:, :d], ab[:, d], found.x[size : size + len(cliques)], found.fun


@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix])
def test_the_optimum_is_that_of_a_general_solver(missing, kind):
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(9, 2)), rng.choice([-1.0, 1.0], size=(9, L))
    y[rng.random(y.shape) < missing] = 0
    cliques = [(0, 1, 2), (3, 1, 0), (0, 1, 2, 3)]
    limit = np.where(y != 0, rng.uniform(0.1, 1.0, y.shape), 0.0)
    problem = LargeMarginProblem(X, y, limit, 1.3, 2.0, cliques)
    every = [*combinations(range(L), 2), *cliques]
    coef, intercept, weights, value = quadratic_program(problem, every)
    fitted = fit_large_margin(
        LargeMarginProblem(kind(X), y, limit, 1.3, 2.0, cliques),
        tol=1e-10,
        max_iter=10_000,
        rng=np.random.RandomState(0),
    )
    assert fitted.reason == "tol"
    assert fitted.gap < 1e-8
    assert fitted.violation < 1e-9
    np.testing.assert_allclose(fitted.coef, coef, atol=2e-5)
    np.testing.assert_allclose(fitted.intercept, intercept, atol=2e-5)
    np.testing.assert_allclose(fitted.clique, weights[6:], atol=2e-5)
    pairs = fitted.pairwise[np.triu_indices(L, 1)]
    np.testing.assert_allclose(pairs, weights[:6], atol=2e-5)
    np.testing.assert_array_equal(fitted.pairwise, fitted.pairwise.T)
    # The least primal value equals the dual value, which is computed without the primal.
    norm = 0.5 * ((coef**2).sum() + (intercept**2).sum() + 2.0 * (weights**2).sum())
    assert 1.3 * fitted.dual.sum() - norm == pytest.approx(value, abs=1e-4)


def test_a_clique_that_is_never_observed_changes_nothing(data):
    X, Y = data
    Y = Y.astype(float)
    Y[::2, 0], Y[1::2, 1] = np.nan, np.nan
    pairs = make(cliques=None, tol=1e-10).fit(X, Y)
    model = make(cliques=[(2, 0, 1)], tol=1e-10).fit(X, Y)
    np.testing.assert_array_equal(model.clique_coef_, 0)
    np.testing.assert_allclose(model.visible_coef_, pairs.visible_coef_, atol=1e-7)
    np.testing.assert_allclose(model.pairwise_coef_, pairs.pairwise_coef_, atol=1e-7)


def test_parity_takes_a_clique_of_three():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    Y = np.zeros((300, 3), int)
    Y[:, :2] = X > 0
    Y[:, 2] = Y[:, 0] ^ Y[:, 1]
    settings = {"C": 1.0, "pairwise_penalty": 1.0, "random_state": 0}
    pairs = LMBMClassifier(**settings).fit(X[:200], Y[:200])
    model = LMBMClassifier(**settings, cliques=3).fit(X[:200], Y[:200])
    known = np.where([True, True, False], Y, np.nan)[200:]
    assert (pairs.predict(X[200:], y_known=known) != Y[200:]).any()
    np.testing.assert_array_equal(model.predict(X[200:], y_known=known), Y[200:])
    assert model.cliques_ == [(0, 1, 2)]
    assert model.clique_coef_[0] == pytest.approx(-1, abs=0.01)
    found = LMBMClassifier(cliques=3, random_state=0).fit(X[:200], Y[:200])
    assert np.isfinite(found.pairwise_penalty_)


def test_all_cliques_up_to_an_order(data, fitted):
    X, Y = data
    assert fitted.cliques_ == TRIPLES
    listed = make(cliques=TRIPLES).fit(X, Y)
    np.testing.assert_array_equal(listed.clique_coef_, fitted.clique_coef_)
    fourth = make(cliques=4).fit(X, Y)
    assert fourth.cliques_ == [*TRIPLES, (0, 1, 2, 3)]
    assert make(cliques=6).fit(X, Y).cliques_ == fourth.cliques_
    plain = make(cliques=2).fit(X, Y)
    assert plain.cliques_ == []
    assert plain.clique_coef_.shape == (0,)


def test_cliques_by_the_names_of_labels(data):
    X, Y = data
    frame = pd.DataFrame(Y, columns=["a", "b", "c", "d"])
    model = make(cliques=[("d", "a", "b")], decode="threshold").fit(X, frame)
    assert model.cliques_ == [(3, 0, 1)]
    by_number = make(cliques=[{0, 1, 3}]).fit(X, Y)
    np.testing.assert_allclose(model.clique_coef_, by_number.clique_coef_, atol=1e-6)
    with pytest.raises(ValueError, match="cliques contains the unknown label 'e'; labels are: 'a'"):
        make(cliques=[("d", "a", "e")]).fit(X, frame)


def test_without_pairs_there_are_no_cliques(data):
    X, Y = data
    model = make(pairwise_penalty=np.inf).fit(X, Y)
    assert model.cliques_ == []
    np.testing.assert_array_equal(
        model.visible_coef_, make(pairwise_penalty=np.inf, cliques=2).fit(X, Y).visible_coef_
    )
    for y in (Y[:, 0], Y[:, 0] + Y[:, 1]):  # nor are there labels to join
        assert make().fit(X, y).cliques_ == []


def test_passes_are_told_and_may_end_a_fit(data, capsys):
    X, Y = data
    model = make(verbose=2, tol=1e-2).fit(X, Y)
    assert capsys.readouterr().out.count("violation") == model.n_iter_
    with pytest.warns(ConvergenceWarning, match="max_iter=1 passes, with a largest violation"):
        model = make(max_iter=1).fit(X, Y)
    assert model.n_iter_ == 1


def test_warm_start(data):
    X, Y = data
    model = make(warm_start=True).fit(X, Y)
    cold, before = model.n_iter_, model.clique_coef_
    assert model.fit(X, Y).n_iter_ < cold
    np.testing.assert_allclose(model.clique_coef_, before, atol=1e-4)


# ----------------------------------------------------------------- prediction


def scores_and_losses(model, X, known=None):
    """Scores and hinge losses (N, 2**n_labels) of all label vectors, from the formulas."""
    fields = X @ model.visible_coef_.T + model.visible_intercept_
    n_labels = fields.shape[1]
    signs = 2.0 * all_states(n_labels) - 1
    cliques = [*combinations(range(n_labels), 2), *model.cliques_]
    weights = [*model.pairwise_coef_[np.triu_indices(n_labels, 1)], *model.clique_coef_]
    terms = products(signs, cliques) * weights
    touches = np.array([[i in c for i in range(n_labels)] for c in cliques], float)
    scores = fields @ signs.T + terms.sum(axis=1)
    margins = fields[:, None] * signs + terms @ touches
    losses = np.maximum(model.margin - margins, 0).sum(axis=2)
    if known is not None:
        agrees = (np.isnan(known[:, None]) | (known[:, None] == VECTORS)).all(axis=2)
        scores, losses = np.where(agrees, scores, -np.inf), np.where(agrees, losses, np.inf)
    return scores, losses


@pytest.fixture(scope="module")
def known(data):
    _, Y = data
    return np.where(np.random.default_rng(1).random(Y.shape) < 0.3, Y, np.nan)


@pytest.mark.parametrize("with_known", [False, True])
@pytest.mark.parametrize("decode", ["map", "hinge"])
def test_labels_are_the_best_of_all(decode, with_known, data, known, fitted):
    X, _ = data
    known = known if with_known else None
    model = clone(fitted).set_params(decode=decode).fit(*data)
    assert model.allow_empty_
    scores, losses = scores_and_losses(model, X, known)
    best = (losses if decode == "hinge" else -scores).min(axis=1)
    labels, objective, gap = model.predict_with_gap(X, known)
    np.testing.assert_allclose(objective, best, atol=1e-9)
    np.testing.assert_array_equal(gap, 0)
    np.testing.assert_array_equal(model.predict(X, known), labels)
    if known is not None:
        np.testing.assert_array_equal(labels[~np.isnan(known)], known[~np.isnan(known)])
    cut = model.set_params(inference=BranchAndBound(node_limit=1))
    with pytest.warns(ConvergenceWarning, match="Branch and bound reached node_limit=1 on"):
        cut.predict(X)
    labels, objective, gap = cut.predict_with_gap(X, known)
    assert (objective - gap <= best + 1e-9).all()
    assert (objective >= best - 1e-9).all()
    assert (gap > 0).any() or known is not None


@pytest.mark.parametrize("with_known", [False, True])
def test_probabilities_are_those_of_all_label_vectors(with_known, data, known, fitted):
    X, Y = data
    known = known if with_known else None
    joint = scores_and_losses(fitted, X, known)[0]
    joint -= logsumexp(joint, axis=1, keepdims=True)
    np.testing.assert_allclose(
        fitted.predict_proba(X, known), np.exp(joint) @ VECTORS, rtol=1e-9, atol=1e-12
    )
    log_p = fitted.score_samples(X, Y, y_known=known)
    np.testing.assert_allclose(log_p, joint[np.arange(len(Y)), Y @ [8, 4, 2, 1]], atol=1e-9)
    top = fitted.predict_topk(X, 2, y_known=known)
    np.testing.assert_allclose(top.proba, np.exp(-np.sort(-joint, axis=1)[:, :2]), atol=1e-9)
    pairs = np.einsum("nk,ki,kj->nij", np.exp(joint), VECTORS, VECTORS)
    found = fitted.predict_pairwise_proba(X, y_known=known)
    np.testing.assert_allclose(found, pairs, atol=1e-9)
    draws = fitted.sample(X[:3], 3000, y_known=None if known is None else known[:3], random_state=0)
    np.testing.assert_allclose(draws.mean(axis=1), (np.exp(joint) @ VECTORS)[:3], atol=0.05)


def test_scores_are_fields_at_the_predicted_labels(data, fitted):
    X, _ = data
    signs = 2.0 * fitted.predict(X) - 1
    pull = X @ fitted.visible_coef_.T + fitted.visible_intercept_ + signs @ fitted.pairwise_coef_
    for clique, weight in zip(fitted.cliques_, fitted.clique_coef_, strict=True):
        for i in clique:
            pull[:, i] += weight * signs[:, [k for k in clique if k != i]].prod(axis=1)
    np.testing.assert_allclose(fitted.decision_function(X), pull, atol=1e-12)


@pytest.mark.parametrize(
    "decode", ["marginal", "label_set", "expected_jaccard", "expected_f1", "threshold"]
)
def test_other_rules_take_the_probabilities(decode, data):
    X, Y = data
    model = make(decode=decode).fit(X, Y)
    labels = model.predict(X)
    if decode == "marginal":
        np.testing.assert_array_equal(labels, model.predict_proba(X) > 0.5)
    if decode == "label_set":
        scores = scores_and_losses(model, X)[0]
        seen = (VECTORS[:, None] == model.label_sets_).all(axis=2).any(axis=1)
        best = np.where(seen, scores, -np.inf).argmax(axis=1)
        np.testing.assert_array_equal(labels, VECTORS[best])
    assert (labels == Y).mean() > 0.75


@pytest.mark.deep
def test_other_marginals(data, fitted):
    X, _ = data
    model = clone(fitted).set_params(inference=["mean_field"]).fit(*data)
    np.testing.assert_allclose(model.predict_proba(X), fitted.predict_proba(X), atol=0.25)


def test_searches_that_take_cliques(data, fitted):
    X, Y = data
    scores = scores_and_losses(fitted, X)[0]
    by_flips = clone(fitted).set_params(inference=ICM(n_restarts=10, random_state=0)).fit(X, Y)
    labels = by_flips.predict(X)
    found = scores[np.arange(len(X)), labels @ [8, 4, 2, 1]]
    assert (found >= scores.max(axis=1) - 1e-9).mean() > 0.9
    searched = clone(fitted).set_params(inference=BranchAndBound(node_limit=10**6)).fit(X, Y)
    np.testing.assert_array_equal(searched.predict(X), fitted.predict(X))


def test_no_empty_prediction(data):
    X, Y = data
    model = make().fit(X[Y.any(axis=1)], Y[Y.any(axis=1)])
    model.visible_intercept_ = model.visible_intercept_ - 3.0
    assert not model.allow_empty_
    labels, objective, gap = model.predict_with_gap(X)
    assert labels.any(axis=1).all()
    best = (-scores_and_losses(model, X)[0][:, 1:]).min(axis=1)
    np.testing.assert_allclose(objective, best, atol=1e-9)
    np.testing.assert_array_equal(gap, 0)


def test_many_labels_are_searched_with_a_proof():
    """There are more label vectors than node_limit allows to visit."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 4))
    Y = (X @ rng.normal(size=(4, 18)) + rng.normal(size=(40, 18)) > 0).astype(int)
    model = make(C=0.003, pairwise_penalty=10.0, tol=1e-2).fit(X, Y)
    assert len(model.cliques_) == 18 * 17 * 16 // 6
    labels, _, gap = model.predict_with_gap(X)
    np.testing.assert_array_equal(gap, 0)
    energy = model._posterior(X).energy
    gain = np.where(labels > 0, -1, 1) * energy.visible_log_odds(labels)
    assert (gain <= 1e-9).all()  # no flip is better


@pytest.mark.parametrize("decode", ["map", "hinge"])
def test_cliques_of_more_than_six_labels(decode):
    """A model whose last label is the parity of the seven other labels, beside enumeration."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(150, 7))
    Y = (X > 0).astype(int)
    Y = np.column_stack([Y, Y.sum(axis=1) % 2])
    cliques = [tuple(range(8)), (6, 2, 0, 1, 3, 4, 5)]
    model = make(cliques=cliques, decode=decode).fit(X, Y)
    assert model.cliques_ == cliques
    assert abs(model.clique_coef_[0]) > 0.1
    assert make(cliques=20).fit(X[:30], Y[:30, :7]).cliques_[-1] == tuple(range(7))
    known = np.where(rng.random(Y.shape) < 0.2, Y, np.nan)
    scores, losses = scores_and_losses(model, X)
    best = (losses if decode == "hinge" else -scores).min(axis=1)
    labels, objective, gap = model.predict_with_gap(X)
    np.testing.assert_allclose(objective, best, atol=1e-9)
    np.testing.assert_array_equal(gap, 0)
    if decode == "map":
        assert (labels[:, 7] == labels[:, :7].sum(axis=1) % 2).mean() > 0.9
        vectors = all_states(8)
        scores = np.where(
            (np.isnan(known[:, None]) | (known[:, None] == vectors)).all(axis=2), scores, -np.inf
        )
        expected = np.exp(scores - logsumexp(scores, axis=1, keepdims=True)) @ vectors
        np.testing.assert_allclose(model.predict_proba(X, known), expected, atol=1e-9)


def test_cliques_with_too_large_tables_are_refused_before_the_fit():
    Y = np.random.default_rng(0).integers(0, 2, (4, 27))
    with pytest.raises(ValueError, match="tables of all cliques would have 134217728 entries"):
        make(cliques=[tuple(range(27))]).fit(np.eye(4), Y)


# ----------------------------------------------------------------- as an estimator


def test_copies_threads_and_pickles(data, fitted):
    X, Y = data
    again = clone(fitted).set_params(n_jobs=2).fit(X, Y)
    np.testing.assert_array_equal(again.clique_coef_, fitted.clique_coef_)
    loaded = pickle.loads(pickle.dumps(fitted))
    assert loaded.cliques_ == fitted.cliques_
    for ask in ("predict", "predict_proba", "decision_function"):
        expected = getattr(fitted, ask)(X)
        np.testing.assert_array_equal(getattr(again, ask)(X), expected)
        np.testing.assert_array_equal(getattr(loaded, ask)(X), expected)
        np.testing.assert_allclose(getattr(loaded, ask)(sparse.csr_matrix(X)), expected)
    hinge = clone(fitted).set_params(decode="hinge").fit(X, Y)
    one = hinge.predict(X)
    np.testing.assert_array_equal(hinge.set_params(n_jobs=2).predict(X), one)


def test_settings_found_do_not_depend_on_the_units(data):
    X, Y = data
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = LMBMClassifier(cliques=3, random_state=0).fit(X, Y)
        other = LMBMClassifier(cliques=3, random_state=0, n_jobs=2).fit(1000 * X, Y)
    assert set(model.path_) == {"C", "pairwise_penalty", "hamming", "jaccard"}
    np.testing.assert_allclose(
        other.visible_coef_, model.visible_coef_ / 1000, rtol=1e-6, atol=1e-9
    )
    np.testing.assert_array_equal(other.predict(1000 * X), model.predict(X))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cliques": 1}, "cliques must be None, an int of at least 2, or a list of sets.*; got 1"),
        ({"cliques": True}, "cliques must be None, an int of at least 2"),
        ({"cliques": 3.0}, "cliques must be None, an int of at least 2"),
        ({"cliques": [(0, 1)]}, r"all pairs have a weight in any case; cliques\[0\]"),
        ({"cliques": [(0, 1, 4)]}, "indices of labels, integers from 0 to 3"),
        ({"cliques": [(0, 1, 1)]}, "distinct sets without repeated labels"),
        ({"cliques": [(0, 1, 2), (2, 1, 0)]}, "distinct sets"),
        ({"cliques": []}, "cliques must hold at least one"),
        ({"cliques": [("a", "b", "c")]}, "unknown label 'a'"),
        ({"inference": "milp"}, "inference='milp' supports only pairs of labels; use"),
        (
            {"inference": "icm", "decode": "hinge"},
            "only pairs of labels with decode='hinge'; use",
        ),
        ({"C": 1e300, "margin": 1e300}, "training overflowed: X, C or 1 / pairwise_penalty"),
    ],
)
def test_bad_settings(options, message, data):
    with pytest.raises(ValueError, match=message):
        make(**options).fit(*data)


def test_searches_changed_after_the_fit(data, fitted):
    X, Y = data
    model = make(decode="hinge").fit(X, Y).set_params(inference="icm")
    with pytest.raises(ValueError, match=r"inference must be 'branch_and_bound' .*; got 'icm'"):
        model.predict(X)
    model = make().fit(X, Y).set_params(inference="milp")
    with pytest.raises(ValueError, match=r"'milp' does not work on FactorGraphEnergy.*branch_and"):
        model.predict(X)


def test_cliques_of_classes_are_refused(data):
    X, Y = data
    with pytest.raises(ValueError, match="cliques is for 2-D y"):
        make(cliques=[(0, 1, 2)]).fit(X, Y[:, 0])
    with pytest.raises(ValueError, match=r"cliques=6 makes .* cliques of labels, more than"):
        make(cliques=6).fit(np.zeros((3, 1)), np.tile([[0], [1], [0]], (1, 60)))


@pytest.mark.parametrize("kind", [list, set])
def test_sets_have_one_order(data, kind):
    """The order of a set of names differs from process to process."""
    X, Y = data
    frame = pd.DataFrame(Y, columns=["a", "b", "c", "d"])

    class Reversed(frozenset):
        def __iter__(self):
            return iter(sorted(super().__iter__(), reverse=True))

    model = make(cliques=kind([Reversed("acd"), Reversed("abc")])).fit(X, frame)
    expected = [(0, 2, 3), (0, 1, 2)]
    assert model.cliques_ == (expected if kind is list else sorted(expected))
