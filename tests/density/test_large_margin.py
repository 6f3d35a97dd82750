"""Large margin Markov networks: the optimum, clauses as cliques, completion of rows."""

import itertools
import pickle
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference.states import all_states
from scipy import sparse
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from skcrbm import LMBMClassifier
from skcrbm.density import LargeMarginMarkovNetwork, from_clauses
from skcrbm.energies.cliques import clique_energy
from skcrbm.inference import SumProduct, infer

TRIPLES = [[0], [1], [2], [3], [0, 1], [2, 1], [3, 0], [0, 1, 2], [3, 1, 2], [0, 1, 2, 3]]
GROUPS = [0, 1, 0, 1, 2, 2, 2, 3, 4, 4]


def products(cliques, X):
    """Features (N, J) of 0/1 rows, 0 where a column is not observed."""
    signs = np.nan_to_num(2 * np.asarray(X, float) - 1)
    return np.column_stack([signs[:, list(c)].prod(axis=1) for c in cliques])


def margins_of(cliques, weights, X):
    """Margins (N, V), 0 where a column is not observed."""
    touches = np.array([[i in c for i in range(X.shape[1])] for c in cliques], float)
    return (products(cliques, X) * weights) @ touches * ~np.isnan(X)


@pytest.fixture(scope="module")
def X():
    """60 rows of four columns that depend on each other, also in threes."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (60, 4)).astype(float)
    X[:, 3] = (X[:, 0] != X[:, 1]) ^ (rng.random(60) < 0.2)
    X[:, 2] = X[:, 1] != (rng.random(60) < 0.3)
    return X


@pytest.fixture(scope="module")
def gaps(X):
    return np.where(np.random.default_rng(1).random(X.shape) < 0.2, np.nan, X)


# ----------------------------------------------------------------- the optimum


def least_objective(X, cliques, mixing, inputs, C, margin, alpha_l1):
    """Group weights of the quadratic program, by a general solver."""
    outputs = [i for i in range(X.shape[1]) if i not in inputs]
    terms = []
    for row in X:
        f = products(cliques, row[None])[0]
        terms += [
            mixing.T @ (f * [i in c for c in cliques]) for i in outputs if not np.isnan(row[i])
        ]
    terms, counts = np.unique(terms, axis=0, return_counts=True)
    n_outputs = np.array([sum(i in outputs for i in c) for c in cliques])
    penalty = alpha_l1 * abs(mixing).T @ (n_outputs * (n_outputs - 1) / 2)
    m, t = len(terms), mixing.shape[1]

    def objective(z):
        w = z[:t] - z[t : 2 * t]
        gradient = np.concatenate([w + penalty, penalty - w, C * counts])
        return 0.5 * w @ w + penalty @ (z[:t] + z[t : 2 * t]) + C * counts @ z[2 * t :], gradient

    matrix = np.hstack([terms, -terms, np.eye(m)])
    constraint = {"type": "ineq", "fun": lambda z: matrix @ z - margin, "jac": lambda z: matrix}
    start = np.concatenate([np.zeros(2 * t), np.full(m, margin)])
    found = minimize(
        objective,
        start,
        jac=True,
        method="SLSQP",
        bounds=[(0, None)] * len(start),
        constraints=[constraint],
        options={"maxiter": 500, "ftol": 1e-12},
    )
    assert found.status in (0, 8), found.message  # 8: rounding leaves no descent
    assert (matrix @ found.x >= margin - 1e-9).all()
    return found.x[:t] - found.x[t : 2 * t]


@pytest.mark.parametrize("alpha_l1", [0.0, 0.3])
@pytest.mark.parametrize("kind", ["plain", "tied", "mixed", "inputs", "gaps"])
def test_the_optimum_is_that_of_a_general_solver(kind, alpha_l1, X, gaps):
    data = gaps[:25] if kind == "gaps" else X
    inputs = [2] if kind == "inputs" else []
    ties, mixing = None, np.eye(len(TRIPLES))
    if kind == "tied":
        ties, mixing = GROUPS, np.eye(5)[GROUPS]
    elif kind == "mixed":
        ties = mixing = np.random.default_rng(2).normal(size=(len(TRIPLES), 4)).round(2)
    model = LargeMarginMarkovNetwork(
        TRIPLES, ties=ties, inputs=inputs, C=0.03, margin=1.3, alpha_l1=alpha_l1, tol=1e-10
    ).fit(data)
    weights = least_objective(data, TRIPLES, mixing, inputs, 0.03, 1.3, alpha_l1)
    np.testing.assert_allclose(model.group_weights_, weights, atol=2e-5)
    np.testing.assert_allclose(model.weights_, mixing @ model.group_weights_, atol=1e-12)
    assert model.dual_gap_ <= 1e-10
    if alpha_l1 and kind != "mixed":
        assert (model.group_weights_ == 0).any()
        assert model.energy_.n_entries < sum(2 ** len(c) for c in TRIPLES)


def test_pairs_are_those_of_the_classifier_without_inputs(X):
    classifier = LMBMClassifier(C=0.05, pairwise_penalty=1.0, tol=1e-10)
    classifier.fit(np.zeros((len(X), 1)), X.astype(int))
    model = LargeMarginMarkovNetwork(C=0.05, tol=1e-10).fit(X)
    np.testing.assert_allclose(model.weights_[:4], classifier.visible_intercept_, atol=1e-6)
    pairs = classifier.pairwise_coef_[np.triu_indices(4, 1)]
    np.testing.assert_allclose(model.weights_[4:], pairs, atol=1e-6)


def test_the_loss_bounds_the_likelihood(X):
    """Theorem 3.2, with a clique's weight counted once for each pair of its columns."""
    rng = np.random.default_rng(0)
    model = LargeMarginMarkovNetwork(TRIPLES).fit(X)
    n_pairs = np.array([len(c) * (len(c) - 1) / 2 for c in TRIPLES])
    states, tightest = all_states(4, float), np.inf
    for scale in (0.1, 0.5, 1, 3):
        for _ in range(20):
            weights = scale * rng.normal(size=len(TRIPLES))
            scores = products(TRIPLES, states) @ weights
            log_p = scores - np.logaddexp.reduce(scores)
            slack = np.maximum(model.margin - margins_of(TRIPLES, weights, states), 0).sum(axis=1)
            bound = 2 * slack + 4 * np.log1p(np.exp(-2)) + 4 * n_pairs @ np.abs(weights)
            tightest = min(tightest, (log_p + bound).min())
    assert tightest >= 0


def test_the_bound_itself_is_highest_without_cliques_of_several_columns(X):
    X = np.repeat(X[:, :1], 3, axis=1)
    cliques = [[0], [1], [2], [0, 1], [1, 2], [0, 1, 2]]
    model = LargeMarginMarkovNetwork(cliques, C=0.1, tol=1e-10)
    assert not model.set_params(alpha_l1=2 * 0.1 * len(X)).fit(X).weights_[3:].any()
    assert model.set_params(alpha_l1=0.5 * 0.1 * len(X)).fit(X).weights_[3:5].all()


def test_rows_with_gaps_have_fewer_cliques():
    model = LargeMarginMarkovNetwork([[0], [0, 1]], tol=1e-8)
    seen = model.fit([[1, np.nan]] * 3)
    assert seen.weights_[0] == pytest.approx(1)
    assert seen.weights_[1] == 0


def test_weights_of_rows_are_copies(gaps):
    model = LargeMarginMarkovNetwork(TRIPLES, random_state=0)
    weight = np.random.default_rng(0).integers(0, 3, len(gaps))
    weighted = clone(model).fit(gaps, sample_weight=weight)
    copied = clone(model).fit(np.repeat(gaps, weight, axis=0)[::-1])
    np.testing.assert_array_equal(weighted.weights_, copied.weights_)


@pytest.mark.deep
def test_a_fit_is_determined_and_can_be_copied(gaps):
    model = LargeMarginMarkovNetwork(3, random_state=0).fit(gaps)
    again = clone(model).fit(sparse.csr_matrix(np.nan_to_num(gaps, nan=0.0)))
    assert not np.array_equal(model.weights_, again.weights_)
    again = clone(model).fit(gaps)
    np.testing.assert_array_equal(model.weights_, again.weights_)
    loaded = pickle.loads(pickle.dumps(model))
    for rule in ("hinge", "map"):
        filled = model.impute(gaps, rule)
        np.testing.assert_array_equal(loaded.impute(gaps, rule), filled)
        np.testing.assert_array_equal(
            clone(model).set_params(n_jobs=2).fit(gaps).impute(gaps, rule), filled
        )


def test_a_warm_start_goes_on_from_the_dual_variables(X):
    model = LargeMarginMarkovNetwork(3, warm_start=True, tol=1e-8).fit(X)
    assert model.fit(X).n_iter_ == 0
    other = model.set_params(C=0.5).fit(X).weights_
    cold = LargeMarginMarkovNetwork(3, tol=1e-8, C=0.5).fit(X).weights_
    np.testing.assert_allclose(other, cold, atol=1e-4)
    assert model.fit(X[:20]).n_iter_ > 0


def test_too_few_passes_warn(X):
    with pytest.warns(ConvergenceWarning, match=r"max_iter=1 passes, with a relative duality gap"):
        model = LargeMarginMarkovNetwork(max_iter=1).fit(X)
    assert model.n_iter_ == 1
    assert model.dual_gap_ > 1e-3


def test_newton_steps_end_what_passes_leave(monkeypatch):
    X = np.random.default_rng(0).integers(0, 2, (100, 5))
    model = LargeMarginMarkovNetwork(3, alpha_l1=0.5, tol=1e-12, random_state=0).fit(X)
    monkeypatch.setattr("skcrbm.learning.large_margin.cliques._FEW_FREE", 0)
    without = clone(model).fit(X)
    assert model.n_iter_ < 0.8 * without.n_iter_
    np.testing.assert_allclose(model.weights_, without.weights_, atol=1e-5)


def test_passes_are_reported(X, capsys):
    model = LargeMarginMarkovNetwork(verbose=2).fit(X)
    assert capsys.readouterr().out.count("violation") == model.n_iter_


# ----------------------------------------------------------------- clauses

literals = st.integers(1, 6).flatmap(lambda i: st.sampled_from([i, -i]))
formula = st.lists(
    st.tuples(st.lists(literals, min_size=1, max_size=5), st.floats(-5, 5)), min_size=1, max_size=4
)


def truth(clause, states):
    """Whether a clause is true in 0/1 states (N, V)."""
    return np.any([(states[:, abs(i) - 1] == 1) == (i > 0) for i in clause], axis=0)


@settings(max_examples=60, deadline=None)
@given(formula)
def test_clauses_are_what_their_truth_tables_say(formula):
    clauses, weights = zip(*formula, strict=True)
    found = from_clauses(clauses, weights, n_variables=6)
    states = all_states(6, float)
    expected = sum(w * truth(c, states) for c, w in formula)
    scores = (
        found.constant + products(found.cliques, states) @ found.weights
        if found.cliques
        else (np.full(len(states), found.constant))
    )
    np.testing.assert_allclose(scores, expected, atol=1e-12)
    energy = found.energy().rows(np.zeros(len(states), int))
    np.testing.assert_allclose(energy.score(states) + found.constant, expected, atol=1e-12)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5])
def test_a_clause_of_every_sign(size):
    for signs in itertools.product((-1, 1), repeat=size):
        clause = [s * (i + 1) for i, s in enumerate(signs)]
        found = from_clauses([clause], [2.0])
        assert len(found.cliques) == 2**size - 1
        scores = products(found.cliques, all_states(size, float)) @ found.weights + found.constant
        np.testing.assert_allclose(scores, 2.0 * truth(clause, all_states(size, float)), atol=1e-13)


def test_groundings_share_the_weight_of_their_formula():
    clauses, formulas = [[-1, 2], [-2, 3], [1], [2], [3]], [0, 0, 1, 1, 1]
    found = from_clauses(clauses, [3.0, -1.0], formulas=formulas)
    alone = from_clauses(clauses, [3.0, 3.0, -1.0, -1.0, -1.0])
    np.testing.assert_allclose(found.weights, alone.weights)
    assert found.constant == pytest.approx(alone.constant)
    assert found.ties.shape == (5, 2)
    X = infer(found.energy(), "exact", returns="samples", n_samples=300, random_state=0).samples[0]
    model = LargeMarginMarkovNetwork(found.cliques, ties=found.ties, C=1.0).fit(X)
    assert model.group_weights_.shape == (2,)
    assert model.group_weights_[0] > 1 > -0.2 > model.group_weights_[1]
    np.testing.assert_allclose(model.weights_, found.ties @ model.group_weights_)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([[1, 0]], [1.0]), r"clauses\[0\] must hold nonzero ints; got 0"),
        (([[1.5]], [1.0]), r"clauses\[0\] must hold nonzero ints; got 1.5"),
        (([[1], []], [1.0, 2.0]), r"clauses\[1\] must hold 1 to 16 literals"),
        (([[1], 2], [1.0, 2.0]), r"clauses must be a sequence of sequences of ints; clauses\[1\]"),
        ((None, [1.0]), "clauses must be a sequence of sequences of ints; got None"),
        (([[1], [2]], [1.0], None, [[0], [1, 2]]), "formulas must be 2 ints"),
        (([[1]], [1.0, 2.0]), "weights must hold 1 finite"),
        (([[1]], [np.inf]), "weights must hold 1 finite"),
        (([[1, 9]], [1.0], 3), "clauses name variable 9, but n_variables is 3"),
        (([[1]], [1.0], 1.5), "n_variables must be an int"),
        (([[1], [2]], [1.0], 2, [0]), "formulas must be 2 ints"),
        (([[1], [2]], [1.0], 2, [0, -1]), "formulas must be numbered from 0"),
    ],
)
def test_bad_clauses(arguments, message):
    with pytest.raises(ValueError, match=message):
        from_clauses(*arguments)


# ----------------------------------------------------------------- questions


def brute_force(model, row, rule):
    """Return the best completion of a row, by enumeration, and whether no other is as good."""
    missing = np.flatnonzero(np.isnan(row))
    full = np.repeat(row[None], 2 ** len(missing), axis=0)
    full[:, missing] = all_states(len(missing), float)
    scores = products(model.cliques_, full) @ model.weights_
    loss = -scores
    if rule == "hinge":
        hinges = np.maximum(model.margin - margins_of(model.cliques_, model.weights_, full), 0)
        loss = hinges[:, model._is_output].sum(axis=1)
    order = np.lexsort((np.arange(len(full)), -scores.round(9), loss.round(9)))
    return full[order[0]]


@pytest.mark.parametrize("inputs", [None, [1]])
@pytest.mark.parametrize("cliques", ["pairwise", 3, 5])
@pytest.mark.parametrize("rule", ["hinge", "map"])
def test_what_is_filled_in_is_the_best(rule, cliques, inputs):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (80, 6)).astype(float)
    X[:, 5] = X[:, 0] != X[:, 4]
    model = LargeMarginMarkovNetwork(cliques, inputs=inputs, C=0.05, random_state=0).fit(X)
    holes = np.where(rng.random(X.shape) < 0.6, np.nan, X)
    if inputs:
        holes[:, inputs] = X[:, inputs]
    filled = model.impute(holes, rule)
    observed = ~np.isnan(holes)
    np.testing.assert_array_equal(filled[observed], holes[observed])
    np.testing.assert_array_equal(filled, [brute_force(model, row, rule) for row in holes])


def test_searches_of_pairs_agree(X):
    """The pairwise search agrees with the search over cliques of any size, ties included."""
    rng = np.random.default_rng(3)
    X = rng.integers(0, 2, (40, 7)).astype(float)
    model = LargeMarginMarkovNetwork(C=0.02).fit(X)
    holes = np.where(rng.random(X.shape) < 0.7, np.nan, X)
    np.testing.assert_array_equal(model._search_pairs(holes), model._search_cliques(holes))


def test_probabilities_add_up_to_one(X):
    states = all_states(4, float)
    model = LargeMarginMarkovNetwork(3, C=0.1).fit(X)
    assert np.exp(model.score_samples(states)).sum() == pytest.approx(1)
    given = LargeMarginMarkovNetwork(3, C=0.1, inputs=[0, 2]).fit(X)
    p = np.exp(given.score_samples(states)).reshape(2, 2, 2, 2)
    np.testing.assert_allclose(p.sum(axis=(1, 3)), 1)
    some = np.where([[False, True, False, False]], np.nan, states)
    expected = np.broadcast_to(p.sum(axis=1, keepdims=True), p.shape).ravel()
    np.testing.assert_allclose(np.exp(given.score_samples(some)), expected)
    drawn = given.sample(4000, given=[1, np.nan, 0, np.nan], random_state=0)
    assert (drawn[:, [0, 2]] == [1, 0]).all()
    assert (drawn[:, 1] * drawn[:, 3]).mean() == pytest.approx(p[1, 1, 0, 1], abs=0.03)


@pytest.fixture(scope="module")
def large_cliques():
    """A model with cliques of seven and eight columns, and all states with their probabilities."""
    rng = np.random.default_rng(0)
    X = all_states(8, float)
    X = X[(X[:, :7].sum(axis=1) % 2 == 1) ^ (rng.random(len(X)) < 0.1)]
    X[:, 7] = X[:, 0] != (rng.random(len(X)) < 0.2)
    cliques = [[i] for i in range(8)] + [[0, 7], range(7), [7, 1, 2, 3, 4, 5, 6], range(8)]
    model = LargeMarginMarkovNetwork(cliques, C=0.02, random_state=0).fit(X)
    assert (model.weights_[-4:] != 0).all()
    scores = products(model.cliques_, all_states(8, float)) @ model.weights_
    return model, all_states(8, float), np.exp(scores - np.logaddexp.reduce(scores))


def test_answers_with_cliques_of_more_than_six_columns(large_cliques):
    model, states, p = large_cliques
    np.testing.assert_allclose(np.exp(model.score_samples(states)), p)
    holes = np.where(np.random.default_rng(1).random((20, 8)) < 0.6, np.nan, states[::13])
    for row, marginals, score in zip(
        holes, model.marginals(holes), model.score_samples(holes), strict=True
    ):
        allowed = ((states == row) | np.isnan(row)).all(axis=1)
        np.testing.assert_allclose(marginals, p[allowed] @ states[allowed] / p[allowed].sum())
        assert score == pytest.approx(np.log(p[allowed].sum()))
    for rule in ("hinge", "map"):
        filled = model.impute(holes, rule)
        np.testing.assert_array_equal(filled, [brute_force(model, row, rule) for row in holes])
    drawn = model.sample(5000, random_state=0)
    share = np.bincount(drawn @ 2 ** np.arange(7, -1, -1), minlength=256) / len(drawn)
    np.testing.assert_allclose(share, p, atol=5 * np.sqrt(p.max() / len(drawn)))


@pytest.mark.deep
def test_a_single_large_clique_has_exact_messages():
    """All subsets of a clique are merged into its table, so that the graph has no cycle."""
    X = np.random.default_rng(0).integers(0, 2, (50, 7)).astype(float)
    model = LargeMarginMarkovNetwork(7, C=0.02, inference="sum_product").fit(X)
    p = np.exp(model.score_samples(all_states(7, float)))
    assert p.sum() == pytest.approx(1)
    np.testing.assert_allclose(
        model.marginals(np.full((1, 7), np.nan))[0], p @ all_states(7, float)
    )


def test_clauses_of_more_than_six_literals():
    clause = [1, -2, 3, 4, -5, 6, 7, -8]
    found = from_clauses([clause], [2.0])
    energy = found.energy().rows(np.zeros(256, int))
    expected = 2.0 * truth(clause, all_states(8, float)) - found.constant
    np.testing.assert_allclose(energy.score(all_states(8, float)), expected, atol=1e-12)


def test_cliques_whose_tables_are_too_large():
    X = np.random.default_rng(0).integers(0, 2, (20, 27)).astype(float)
    X[:, 26] = X[:, :26].sum(axis=1) % 2
    model = LargeMarginMarkovNetwork([range(27)], tol=1e-10).fit(X)
    assert model.energy_ is None
    holes = np.where(np.eye(27)[np.arange(len(X))] == 1, np.nan, X)
    np.testing.assert_array_equal(model.impute(holes), X)
    message = "would have 134217728 entries.*limited to 67108864; choose smaller cliques"
    for ask in (model.score, model.marginals, lambda X: model.impute(X, "map")):
        with pytest.raises(ValueError, match=message):
            ask(X)
    with pytest.raises(ValueError, match=message):
        model.sample()
    with pytest.raises(ValueError, match="tables of the cliques would have 134217728 entries"):
        clique_energy([range(27)], [1.0], 27)
    # The L1 penalty removes the clique, and inference becomes possible.
    model.set_params(cliques=[[0], range(27)], alpha_l1=10.0).fit(X)
    assert model.weights_[1] == 0
    assert np.isfinite(model.score(X))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"cliques": "pairs"}, "cliques must be 'pairwise', an int"),
        ({"cliques": 0}, "cliques must be 'pairwise', an int"),
        ({"cliques": []}, "cliques must hold at least one"),
        ({"cliques": [[0], [4]]}, r"cliques\[1\] must hold indices of columns"),
        ({"cliques": [[0], []]}, r"cliques\[1\] must hold indices of columns"),
        ({"cliques": [[0, 1], [1, 0]]}, "distinct sets"),
        ({"cliques": [[0, 0]]}, "without repeated columns of X"),
        ({"cliques": 1, "ties": [0, 1]}, "ties must be None, numbers of groups"),
        ({"cliques": 1, "ties": [0, 1, 2, 10**9]}, "ties must be None, numbers of groups"),
        ({"cliques": 1, "ties": np.ones((3, 2))}, "ties must be None.*a matrix of 4 rows"),
        ({"cliques": 1, "ties": np.full((4, 2), np.nan)}, "ties must be finite"),
        ({"inputs": [0, 1, 2, 3]}, "inputs must be distinct columns of X"),
        ({"inputs": [4]}, "inputs must be numbers of columns"),
        ({"inputs": [1, 1]}, "inputs must be distinct columns"),
        ({"C": 0.0}, "'C' parameter"),
        ({"alpha_l1": -1.0}, "'alpha_l1' parameter"),
        ({"inference": "exactly"}, "'inference' parameter"),
        ({"inference": SumProduct(max_iter=0)}, "'max_iter' parameter"),
        ({"C": 1e300, "margin": 1e300}, "training overflowed"),
    ],
)
def test_bad_settings(settings, message, X):
    with pytest.raises(ValueError, match=message):
        LargeMarginMarkovNetwork(**settings).fit(X)


def test_bad_data(X):
    with pytest.raises(ValueError, match="X holds no observed entry of an output"):
        LargeMarginMarkovNetwork(inputs=[0]).fit([[1, np.nan], [0, np.nan]])
    model = LargeMarginMarkovNetwork(inputs=[0]).fit(X)
    for ask in (model.score, model.impute):
        with pytest.raises(ValueError, match="X contains NaN in columns that are inputs"):
            ask([[np.nan, 1, 1, 1]])
    for given_values in (None, [np.nan, 1, 1, np.nan]):
        with pytest.raises(ValueError, match="given must hold 0 or 1 in the columns that are"):
            model.sample(given=given_values)
    with pytest.raises(ValueError, match="rule must be 'hinge' or 'map'"):
        model.impute(X, rule="best")


def test_large_models_are_refused_or_named_methods():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (30, 40)).astype(float)
    # The search of an empty row takes some thirty million nodes, far more than its limit.
    model = LargeMarginMarkovNetwork(C=0.01, random_state=0).fit(X)
    empty = np.full((1, 40), np.nan)
    with pytest.raises(ValueError, match=r"impute with inference='auto'.*'max_product' or 'icm'"):
        model.impute(empty, "map")
    model.set_params(inference="icm")
    assert np.isin(model.impute(empty, "map"), (0, 1)).all()
    with pytest.raises(ValueError, match=r"inference='icm' cannot compute marginals"):
        model.marginals(X)
    with pytest.warns(ConvergenceWarning, match="search was cut short on 1 of 1 rows"):
        assert not np.isnan(model.impute(empty)).any()
    model = LargeMarginMarkovNetwork([[0, 1, 2], [3]], random_state=0).fit(X)
    with pytest.raises(ValueError, match="supports at most 20; use rule='map'"):
        model.impute(empty)


def test_data_of_the_user_are_not_changed(X):
    holes = np.where(np.eye(4)[np.arange(len(X)) % 4] == 1, np.nan, X)
    before = holes.copy()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = LargeMarginMarkovNetwork(binarize=None).fit(holes)
        for rule in ("hinge", "map"):
            model.impute(holes, rule)
    np.testing.assert_array_equal(holes, before)
