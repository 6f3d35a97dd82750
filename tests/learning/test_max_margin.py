"""Max-margin learning of chains and graphs against quadratic programs of all constraints."""

import pickle
from itertools import pairwise, product

import numpy as np
import pytest
from reference.cases import deep
from scipy.optimize import minimize
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV

from skcrbm import ChainCRF, Graph, GraphCRF
from skcrbm.learning import Adam, FrankWolfe, MaxMargin
from skcrbm.learning.large_margin import structured_blocks
from skcrbm.learning.large_margin.frank_wolfe import fit_frank_wolfe
from skcrbm.learning.large_margin.structured_blocks import Blocks, dual_blocks
from skcrbm.learning.rules import resolve_rule

EXACTLY = FrankWolfe(tol=1e-6)
K = 3


def sequences(seed=0, n=6, d=2, longest=3):
    """Return short sequences, random labels that depend on the features, and weights."""
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(length, d)) for length in rng.integers(1, longest + 1, n)]
    y = [(x @ rng.normal(size=(d, K)) + rng.normal(size=(len(x), K))).argmax(1) for x in X]
    y[0][-1], y[1][-1], y[2][-1] = range(K)
    return X, y, rng.integers(1, 4, n).astype(float)


def graphs(seed=0, n=6, cycles=False):
    """Return graphs of two or three nodes with features of edges, labels, and weights."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n):
        size = int(rng.integers(2, 4))
        edges = [[0, 1], [1, 2], [2, 0]] if cycles and size == 3 else [[0, 1], [1, 2]][: size - 1]
        X.append(Graph(rng.normal(size=(size, 2)), edges, rng.normal(size=(len(edges), 1))))
        y.append(rng.integers(0, K, size))
    y[0][0], y[1][0], y[2][0] = range(K)
    return X, y, rng.integers(1, 4, n).astype(float)


def chain_features(x, path, pairs=False):
    """Return the feature sums of a label sequence, in the order of `chain_vector`."""
    d = x.shape[1]
    coef, first, last = np.zeros((K, d)), np.zeros(K), np.zeros(K)
    intercept, transition, pair_coef = np.zeros(K), np.zeros((K, K)), np.zeros((K * K, d))
    first[path[0]] += 1
    last[path[-1]] += 1
    for t, state in enumerate(path):
        coef[state] += x[t]
        intercept[state] += 1
        if t:
            transition[path[t - 1], state] += 1
            pair_coef[path[t - 1] * K + state] += x[t]
    parts = [coef, intercept, transition, first, last, *([pair_coef] if pairs else [])]
    return np.concatenate([part.ravel() for part in parts])


def chain_vector(model):
    parts = [model.coef_, model.intercept_, model.transition_, model.first_, model.last_]
    if model.transition_features:
        parts.append(model.transition_coef_)
    return np.concatenate([np.asarray(part).ravel() for part in parts])


def graph_features(directed):
    """Return a function like `chain_features` for graphs; undirected edges count both ways."""

    def features(graph, path):
        coef, intercept = np.zeros((K, 2)), np.zeros(K)
        pairs, pair_coef = np.zeros((K, K)), np.zeros((1, K, K))
        for x, state in zip(graph.nodes, path):
            coef[state] += x
            intercept[state] += 1
        for (i, j), z in zip(graph.edges, graph.edge_features):
            for a, b in [(path[i], path[j])] if directed else permuted(path[i], path[j]):
                pairs[a, b] += 1 if directed else 0.5
                pair_coef[:, a, b] += z if directed else 0.5 * z
        return np.concatenate([p.ravel() for p in (coef, intercept, pairs, pair_coef)])

    return features


def permuted(a, b):
    return (a, b), (b, a)


def graph_vector(model):
    parts = model.coef_, model.intercept_, model.pair_intercept_, model.pair_coef_
    return np.concatenate([np.asarray(part).ravel() for part in parts])


def constraints(features, X, y, allowed=lambda path: True):
    """Return, for each example, all feature differences and losses of its label vectors."""
    found = []
    for x, own in zip(X, y):
        paths = [p for p in product(range(K), repeat=len(own)) if allowed(p)]
        found.append(
            (
                np.array([features(x, own) - features(x, p) for p in paths]),
                np.array([(np.array(p) != own).sum() for p in paths], float),
            )
        )
    return found


def objective(found, weight, alpha, w):
    """Return the objective of weights, by enumeration."""
    losses = [(loss - rows @ w).max() for rows, loss in found]
    return weight @ losses / weight.sum() + 0.5 * alpha * w @ w


def least_objective(found, weight, alpha):
    """Solve the quadratic program with a slack for each example by SLSQP."""
    n, d = len(found), found[0][0].shape[1]
    rows = np.vstack([np.hstack([r, np.tile(np.eye(n)[i], (len(r), 1))]) for i, (r, _) in
                      enumerate(found)])  # fmt: skip
    losses = np.concatenate([loss for _, loss in found])
    share = weight / weight.sum()
    start = np.append(np.zeros(d), np.full(n, losses.max()))
    result = minimize(
        lambda z: 0.5 * alpha * z[:d] @ z[:d] + share @ z[d:],
        start,
        jac=lambda z: np.append(alpha * z[:d], share),
        method="SLSQP",
        constraints={"type": "ineq", "fun": lambda z: rows @ z - losses, "jac": lambda z: rows},
        options={"maxiter": 500, "ftol": 1e-13},
    )
    assert (rows @ result.x >= losses - 1e-8).all()
    return result.fun


def check_against_program(model, vector, found, weight):
    least = least_objective(found, weight, model.alpha_)
    own = objective(found, weight, model.alpha_, vector(model))
    assert model.objective_ == pytest.approx(own, rel=1e-9)
    assert least - 1e-7 <= own <= least + 1e-5 * least
    # The gap is true: no weights are better than the objective minus the gap.
    assert own - least <= model.duality_gap_ + 1e-7
    assert model.certified_


@pytest.mark.parametrize("alpha", [deep(1.0), 0.1])
@pytest.mark.parametrize("pairs", [False, True])
def test_chains_reach_the_optimum(alpha, pairs):
    X, y, weight = sequences()
    model = ChainCRF(alpha=alpha, learning="max_margin", solver=EXACTLY, max_iter=20000,
                     transition_features=pairs, random_state=0)  # fmt: skip
    model.fit(X, y, sample_weight=weight)
    found = constraints(lambda x, p: chain_features(x, p, pairs), X, y)
    check_against_program(model, chain_vector, found, weight)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("directed", [deep(False), True])
@pytest.mark.parametrize(("cycles", "inference"), [(False, "sum_product"), (True, "sum_product"),
                                                   (True, "exact")])  # fmt: skip
def test_graphs_reach_the_optimum(directed, cycles, inference):
    X, y, weight = graphs(cycles=cycles)
    model = GraphCRF(alpha=0.3, learning="max_margin", solver=EXACTLY, max_iter=5000,
                     directed=directed, inference=inference, random_state=0)  # fmt: skip
    model.fit(X, y, sample_weight=weight)
    found = constraints(graph_features(directed), X, y)
    check_against_program(model, graph_vector, found, weight)


@pytest.mark.parametrize("tol", [0.3, 0.05])
def test_a_rough_fit_reports_a_true_gap(tol):
    X, y, weight = sequences(1)
    model = ChainCRF(alpha=0.2, learning="max_margin", solver=FrankWolfe(tol), random_state=0)
    model.fit(X, y, sample_weight=weight)
    found = constraints(chain_features, X, y)
    own = objective(found, weight, 0.2, chain_vector(model))
    least = least_objective(found, weight, 0.2)
    assert 0 < own - least <= model.duality_gap_ <= tol * model.objective_


def test_forbidden_transitions():
    X, y, weight = sequences(2, n=10)
    keep = [i for i, labels in enumerate(y) if not ((labels[:-1] == 0) & (labels[1:] == 1)).any()]
    X, y, weight = [X[i] for i in keep], [y[i] for i in keep], weight[keep]
    model = ChainCRF(alpha=0.2, learning="max_margin", solver=EXACTLY, max_iter=20000,
                     forbidden=[(0, 1)], random_state=0)  # fmt: skip
    model.fit(X, y, sample_weight=weight)
    assert model.transition_[0, 1] == -np.inf
    found = constraints(chain_features, X, y, lambda p: (0, 1) not in pairwise(p))
    model.transition_ = model._model.params.transition  # without -inf, for the product
    check_against_program(model, chain_vector, found, weight)
    for labels in model.predict(X):
        assert (0, 1) not in pairwise(labels.tolist())


def test_a_chain_is_a_graph():
    """A constant feature is the intercept of a graph, whose intercept is penalised as well."""
    X, y, _ = sequences(3)
    one = [np.hstack([x, np.ones((len(x), 1))]) for x in X]
    paths = [Graph(x, [[t, t + 1] for t in range(len(x) - 1)]) for x in X]
    options = {"alpha": 0.2, "learning": "max_margin", "solver": EXACTLY, "random_state": 0}
    chain = ChainCRF(fit_intercept=False, max_iter=20000, **options).fit(one, y)
    graph = GraphCRF(directed=True, max_iter=5000, **options).fit(paths, y)
    assert chain.objective_ == pytest.approx(graph.objective_, rel=1e-5)
    np.testing.assert_allclose(chain.transition_, graph.pair_intercept_, atol=0.02)
    np.testing.assert_allclose(chain.coef_[:, :-1], graph.coef_, atol=0.02)
    assert not np.any(chain.intercept_)


def problem(**options):
    X, y, weight = sequences(4, n=12, longest=4)
    model = ChainCRF(learning="max_margin", random_state=0, **options)
    batch = model._training_batch(X, y, weight, False)
    return (*model._problem(batch, np.random.RandomState(0), False), batch)


def test_kernel_and_numpy_reach_the_same_weights():
    model, rule, batch = problem()
    kernel = dual_blocks(model, batch, rule, 2.0)
    assert type(kernel) is not Blocks
    slow = Blocks(model, batch, rule, 2.0)
    fits = [
        fit_frank_wolfe(blocks, tol=1e-7, max_iter=5000, rng=np.random.RandomState(0))
        for blocks in (kernel, slow)
    ]
    assert fits[0].objective == pytest.approx(fits[1].objective, rel=1e-6)
    for a, b in zip(fits[0].params, fits[1].params):
        np.testing.assert_allclose(a, b, atol=2e-3)


@pytest.mark.parametrize("slow", [False, True])
def test_duals_and_weights_agree(slow):
    model, rule, batch = problem()
    blocks = (Blocks if slow else dual_blocks)(model, batch, rule, 0.5)
    rng, values = np.random.RandomState(0), []
    for _ in range(30):
        blocks.visit(rng)
        values.append(blocks.dual())
    assert (np.diff(values) >= -1e-12).all()  # each line search raises the dual objective
    before = [part.copy() for part in blocks.params]
    blocks.rebuild()
    for old, new in zip(before, blocks.params):
        np.testing.assert_allclose(old, new, atol=1e-10)
    assert blocks.dual() <= blocks.primal(blocks.params)[0]
    blocks.rescale(2.0)
    scaled = [part.copy() for part in blocks.params]
    blocks.rebuild()
    for old, new in zip(scaled, blocks.params):
        np.testing.assert_allclose(old, new, atol=1e-10)


def test_room_for_labels_grows(monkeypatch):
    monkeypatch.setattr(structured_blocks, "_ATOMS", 1)
    model, rule, batch = problem()
    blocks = dual_blocks(model, batch, rule, 0.1)
    fitted = fit_frank_wolfe(blocks, tol=1e-3, max_iter=2000, rng=np.random.RandomState(0))
    assert fitted.reason == "tol"
    assert len(blocks.atoms.path) > 1
    np.testing.assert_allclose(blocks.atoms.value.sum(axis=1), 1, atol=1e-10)


def test_weights_are_copies_and_zero_weights_are_absent():
    X, y, _ = sequences(5)
    options = {"alpha": 0.2, "learning": "max_margin", "solver": EXACTLY, "max_iter": 20000,
               "random_state": 0}  # fmt: skip
    weight = np.array([2, 1, 1, 0, 1, 3.0])
    weighted = ChainCRF(**options).fit(X, y, sample_weight=weight)
    rows = np.repeat(np.arange(6), weight.astype(int))
    copies = ChainCRF(**options).fit([X[i] for i in rows], [y[i] for i in rows])
    assert weighted.objective_ == pytest.approx(copies.objective_, rel=1e-5)
    np.testing.assert_allclose(weighted.coef_, copies.coef_, atol=0.02)


def test_dense_sparse_and_names_of_classes():
    X, y, _ = sequences(6, n=20)
    options = {"alpha": 0.1, "learning": "max_margin", "random_state": 0, "features": "all"}
    dense = ChainCRF(**options).fit(X, y)
    sparse = ChainCRF(**options).fit([csr_matrix(x) for x in X], y)
    named = ChainCRF(**options).fit(X, [np.array(["u", "v", "w"])[v] for v in y])
    np.testing.assert_allclose(dense.coef_, sparse.coef_.toarray(), atol=1e-12)
    np.testing.assert_array_equal(dense.coef_, named.coef_)
    assert named.classes_.tolist() == ["u", "v", "w"]
    single = ChainCRF(**options).fit([x.astype(np.float32) for x in X], y)
    assert single.objective_ == pytest.approx(dense.objective_, rel=0.02)


def test_seeds_threads_and_copies():
    X, y, _ = sequences(7, n=30)
    fits = [
        ChainCRF(alpha=0.1, learning=MaxMargin(), random_state=3, n_jobs=n).fit(X, y)
        for n in (None, 2)
    ]
    np.testing.assert_array_equal(fits[0].coef_, fits[1].coef_)
    assert fits[0].duality_gap_ == fits[1].duality_gap_
    again = clone(fits[0]).fit(X, y)
    np.testing.assert_array_equal(fits[0].coef_, again.coef_)
    kept = pickle.loads(pickle.dumps(again))
    for a, b in zip(kept.predict(X), again.predict(X), strict=True):
        np.testing.assert_array_equal(a, b)


def made_sequences(seed, n=150):
    """Return sequences with noisy features and labels that stay the same for some positions."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for length in rng.integers(3, 12, n):
        change = rng.random(length) < 0.2
        labels = (np.cumsum(change) + rng.integers(K)) % K
        X.append(np.eye(K)[labels] + rng.normal(size=(length, K)))
        y.append(labels)
    return X, y


@pytest.mark.deep
def test_predictions_are_level_with_maximum_likelihood():
    X, y = made_sequences(0)
    test = made_sequences(1)
    likelihood = ChainCRF(random_state=0).fit(X, y)
    margin = ChainCRF(learning="max_margin", random_state=0).fit(X, y)
    alone = ChainCRF(forbidden=None).fit([x[:1] for x in X], [v[:1] for v in y])
    single = np.mean(np.concatenate([alone.predict([row[None] for row in x]) for x in test[0]])
                     == np.concatenate(test[1])[:, None])  # fmt: skip
    assert margin.score(*test) > likelihood.score(*test) - 0.01
    assert margin.score(*test) > single + 0.05
    assert margin.alpha_ > 0


def test_stochastic_solvers_and_streams():
    X, y, _ = sequences(8, n=20)
    options = {"alpha": 0.1, "learning": "max_margin", "random_state": 0}
    exact = ChainCRF(solver=FrankWolfe(1e-4), max_iter=3000, **options).fit(X, y)
    model = ChainCRF(solver=Adam(0.02, 5, average=True), max_iter=300, **options).fit(X, y)
    found = constraints(chain_features, X, y)
    value = objective(found, np.ones(20), 0.1, chain_vector(model))
    assert exact.objective_ - 1e-6 <= value <= 1.03 * exact.objective_
    assert not hasattr(model, "predict_proba")
    stream = ChainCRF(solver="adam", **options)
    for _ in range(5):
        stream.partial_fit(X, y, classes=range(K))
    assert stream.score(X, y) > 0.3
    graph = GraphCRF(solver=Adam(0.02, 5), max_iter=50, **options).fit(*graphs()[:2])
    assert len(graph.predict(graphs()[0])) == 6


def test_other_solvers_continue_without_the_gap():
    X, y, _ = sequences(8, n=20)
    model = ChainCRF(alpha=0.1, learning="max_margin", random_state=0).fit(X, y)
    model.set_params(solver="adam").partial_fit(X, y)
    assert not hasattr(model, "duality_gap_")
    graph = GraphCRF(alpha=0.1, learning="max_margin", random_state=0).fit(*graphs()[:2])
    assert graph.certified_
    graph.set_params(learning="mle", solver="lbfgs", warm_start=True, max_iter=2)
    graph.fit(*graphs()[:2])
    assert not hasattr(graph, "objective_")
    assert graph.predict_proba(graphs()[0])[0].shape[1] == K


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("factor", [deep(1e-9), 1 / 40, deep(100.0)])
def test_the_search_for_alpha_uses_ratios_of_weights_only(factor):
    X, y = made_sequences(3, 40)
    for learning in ("mle", "max_margin"):
        model = ChainCRF(learning=learning, random_state=0)
        plain = model.fit(X, y).alpha_
        assert model.fit(X, y, sample_weight=np.full(40, factor)).alpha_ == pytest.approx(plain)


def test_longer_sequences_of_a_single_class_converge():
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(30, 10)) for _ in range(12)]
    model = ChainCRF(learning="max_margin", alpha=0.1, random_state=0)
    assert model.fit(X, [np.zeros(30, int)] * 12).n_iter_ <= 10  # without a warning


def test_a_single_class_has_no_loss():
    model = ChainCRF(alpha=0.1, learning="max_margin").fit([np.ones((2, 1))], [["a", "a"]])
    assert model.objective_ == model.duality_gap_ == 0
    assert model.predict([np.ones((1, 1))])[0].tolist() == ["a"]


def test_answers_after_training():
    X, y, _ = sequences(9)
    model = ChainCRF(alpha=0.1, learning="max_margin", random_state=0).fit(X, y)
    for name in ("predict_proba", "sample", "score_samples"):
        assert not hasattr(model, name)
    with pytest.raises(AttributeError) as error:
        model.predict_proba(X)
    assert "use learning='mle'" in str(error.value.__cause__)
    top = model.predict_topk(X, 4)
    for x, labels, best in zip(X, model.predict(X), top, strict=True):
        np.testing.assert_array_equal(best.labels[0], labels)
        assert np.isnan(best.log_proba).all()
        scores = model.factor_graph(x).score(best.labels)
        assert (np.diff(scores) <= 1e-12).all()
    known = model.predict(X, [[1, *[None] * (len(x) - 1)] for x in X])
    assert all(labels[0] == 1 for labels in known)
    model.set_params(decode="marginal")
    with pytest.raises(ValueError, match="needs probabilities"):
        model.predict(X)
    assert hasattr(ChainCRF(), "predict_proba")
    assert not hasattr(GraphCRF(learning=MaxMargin()), "predict_proba")
    X, y, _ = graphs()
    graph = GraphCRF(alpha=0.1, learning="max_margin", random_state=0).fit(X, y)
    assert not hasattr(graph, "check_convergence")
    assert np.isnan(graph.predict_topk(X, 2)[0].log_proba).all()
    graph.set_params(learning="mle").fit(X, y)
    assert hasattr(graph, "predict_proba")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"solver": "lbfgs"}, "needs a smooth loss"),
        ({"l1_ratio": 0.5}, "needs an L2 penalty, l1_ratio=0"),
        ({"decode": "marginal"}, "needs probabilities"),
        ({"early_stopping": True}, "early_stopping is for stochastic solvers"),
        ({"alpha": 0.0}, "alpha must be positive"),
        ({"learning": "mle", "solver": "frank_wolfe"}, "is for learning='max_margin' only"),
        ({"solver": FrankWolfe(tol=0)}, "tol"),
    ],
)
@pytest.mark.parametrize("kind", [ChainCRF, GraphCRF])
def test_options_that_do_not_apply(kind, options, message):
    X, y, _ = sequences() if kind is ChainCRF else graphs()
    with pytest.raises(ValueError, match=message):
        kind(**{"alpha": 0.1, "learning": "max_margin", **options}).fit(X, y)


def test_missing_labels_and_streams_are_refused():
    X, y, _ = sequences()
    some = [[None, *labels[1:].tolist()] for labels in y]
    with pytest.raises(ValueError, match=r"'max_margin' needs complete.*'mle' supports them"):
        ChainCRF(alpha=0.1, learning="max_margin").fit(X, some)
    with pytest.raises(ValueError, match="partial_fit needs a stochastic solver"):
        ChainCRF(alpha=0.1, learning="max_margin").partial_fit(X, y)


def test_early_ends_warn_and_keep_the_weights(monkeypatch):
    X, y, _ = sequences(10, n=20)
    model = ChainCRF(alpha=1e-4, learning="max_margin", random_state=0, max_iter=3)
    with pytest.warns(ConvergenceWarning, match="max_iter=3 passes, with a relative duality gap"):
        model.fit(X, y)
    assert model.n_iter_ == 3
    original, calls = structured_blocks.ChainBlocks.visit, []

    def interrupt(self, rng):
        calls.append(1)
        if len(calls) == 5:
            raise KeyboardInterrupt
        return original(self, rng)

    monkeypatch.setattr(structured_blocks.ChainBlocks, "visit", interrupt)
    model.set_params(max_iter=100)
    with pytest.warns(UserWarning, match="Training interrupted in pass 5"):
        model.fit(X, y)
    assert model.n_iter_ == 4
    found = constraints(chain_features, X, y)
    own = objective(found, np.ones(20), 1e-4, chain_vector(model))
    assert own == pytest.approx(model.objective_, rel=1e-9)
    before = model.coef_
    calls[:] = [1] * 4
    with pytest.raises(KeyboardInterrupt):  # before the end of the first pass: nothing changes
        model.fit(X, y)
    assert model.coef_ is before


def test_an_interrupted_search_of_the_penalty_changes_nothing(monkeypatch):
    X, y, _ = sequences(10, n=20)
    original, calls = structured_blocks.ChainBlocks.visit, []

    def interrupt(self, rng):
        calls.append(1)
        if len(calls) == 5:
            raise KeyboardInterrupt
        return original(self, rng)

    monkeypatch.setattr(structured_blocks.ChainBlocks, "visit", interrupt)
    model = ChainCRF(learning="max_margin", random_state=0)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert not hasattr(model, "classes_")


def test_progress_is_printed(capsys):
    X, y, _ = sequences()
    ChainCRF(alpha=0.5, learning="max_margin", random_state=0, verbose=2).fit(X, y)
    assert "Pass 1  loss" in capsys.readouterr().out


def test_wide_graphs_are_not_certified():
    rng = np.random.default_rng(0)
    side, n_classes = 6, 8
    node = np.arange(side * side).reshape(side, side)
    edges = np.vstack([np.c_[node[:, :-1].ravel(), node[:, 1:].ravel()],
                       np.c_[node[:-1].ravel(), node[1:].ravel()]])  # fmt: skip
    y = [rng.integers(0, n_classes, side * side) for _ in range(4)]
    X = [Graph(np.eye(n_classes)[labels] + rng.normal(size=(side**2, n_classes)), edges)
         for labels in y]  # fmt: skip
    model = GraphCRF(alpha=1.0, learning="max_margin", random_state=0, max_iter=30)
    with pytest.warns(ConvergenceWarning, match="The duality gap is not a proven bound: for 100%"):
        model.fit(X, y)
    assert not model.certified_


def test_search_over_options():
    X, y = made_sequences(2, 40)
    search = GridSearchCV(
        ChainCRF(alpha=0.1, random_state=0),
        {"learning": ["mle", "max_margin"]},
        cv=2,
    ).fit(X, y)
    assert search.best_score_ > 0.5
    assert resolve_rule("max_margin", "graph").needs_complete
