"""GraphCRF with forbidden classes of nodes and forbidden pairs: enumeration, gradients, errors."""

import pickle
from itertools import combinations, product

import numpy as np
import pandas as pd
import pytest
from reference.graph_objectives import check_gradient, objective_of
from scipy.special import logsumexp

from skcrbm import Graph, GraphCRF
from skcrbm.inference import SumProduct
from skcrbm.learning.structured.constraints import (
    _labelled_greedily,
    closed_classes,
    forbidden_pairs,
    require_possible,
)
from skcrbm.learning.structured.graph import GraphBatch
from skcrbm.targets.codes import LabelCoder
from skcrbm.targets.graphs import GraphRows

PAIRS = [("a", "c"), ("b", "b")]


def make_graphs(seed=0, n_graphs=10, cycles=False, directed=False, types=False, closed=True):
    """Return graphs with constraints, and labels that agree with the constraints."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    while len(X) < n_graphs:
        n = int(rng.integers(2, 6))
        edges = [[int(rng.integers(v)), v] for v in range(1, n)]
        if cycles and n > 2:
            edges.append([0, n - 1] if [0, n - 1] not in edges else [1, n - 1])
        kinds = ["uv"[int(v)] for v in rng.integers(0, 2, n)] if types else None
        where = np.flatnonzero(rng.random(n) < 0.5) if closed else ()
        pairs = [(int(v), "abc"[int(rng.integers(3))]) for v in where]
        graph = Graph(
            rng.normal(size=(n, 2)), edges, rng.normal(size=(len(edges), 1)), kinds, None, pairs
        )
        possible = [s for s in product("abc", repeat=n) if agrees(graph, s, directed)]
        if possible:
            X.append(graph)
            y.append(list(possible[int(rng.integers(len(possible)))]))
    return X, y


def agrees(graph, labels, directed, pairs=PAIRS):
    """Return True if labels of a graph agree with all constraints, by plain loops."""
    both = set(pairs) if directed else {*pairs, *((b, a) for a, b in pairs)}
    return not any(labels[v] == name for v, name in graph.forbidden) and not any(
        (labels[i], labels[j]) in both for i, j in graph.edges
    )


def enumerated(model, graph):
    """Return the possible labels of a graph as indices of classes, and their log-weights.

    Latent states are summed out.
    """
    n, latent = len(graph.nodes), model.n_latent_states
    k = len(model.classes_)
    own = [range(k)] * n
    if graph.node_types is not None:
        own = [np.flatnonzero(model.class_types_ == t) for t in graph.node_types]
    classes, found = [], []
    for state in product(*own):
        if not agrees(graph, model.classes_[list(state)], model.directed):
            continue
        weights = []
        for hidden in product(range(latent), repeat=n):
            s = [c * latent + h for c, h in zip(state, hidden)]
            total = sum(model.coef_[c] @ x + model.intercept_[c] for c, x in zip(s, graph.nodes))
            for (i, j), z in zip(graph.edges, graph.edge_features):
                total += model.pair_intercept_[s[i], s[j]] + z @ model.pair_coef_[:, s[i], s[j]]
            weights.append(total)
        classes.append(state)
        found.append(logsumexp(weights))
    return np.array(classes), np.array(found)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(
    ("cycles", "inference", "options"),
    [
        (False, "sum_product", {}),
        (True, "exact", {"directed": True}),
        (True, "exact", {"types": True}),
        (False, "sum_product", {"latent": 2}),
        (True, "exact", {"types": True, "latent": 2}),
    ],
)
def test_answers_are_those_of_enumeration(cycles, inference, options):
    latent = options.get("latent", 1)
    of_data = {name: value for name, value in options.items() if name != "latent"}
    X, y = make_graphs(cycles=cycles, **of_data)
    directed = options.get("directed", False)
    model = GraphCRF(
        alpha=0.05, inference=inference, directed=directed, forbidden=PAIRS, max_iter=15,
        n_latent_states=latent, random_state=0,
    ).fit(X, y)  # fmt: skip
    known = [[labels[0], *[None] * (len(labels) - 1)] for labels in y]
    proba, given = model.predict_proba(X), model.predict_proba(X, known)
    likelihood, part = model.score_samples(X, y), model.score_samples(X, known)
    drawn, best = model.sample(X, 30, random_state=0), model.predict(X)
    top = [None] * len(X) if latent > 1 else model.predict_topk(X, 3)
    for c, graph in enumerate(X):
        states, weight = enumerated(model, graph)
        p = np.exp(weight - logsumexp(weight))
        labels = model.classes_[states]
        one_hot = np.eye(len(model.classes_))[states]
        np.testing.assert_allclose(proba[c], np.tensordot(p, one_hot, 1), atol=1e-7)
        where = (labels == np.array(y[c])).all(axis=1)
        first = labels[:, 0] == y[c][0]
        assert likelihood[c] == pytest.approx(np.log(p[where].sum()), abs=1e-6)
        assert part[c] == pytest.approx(np.log(p[first].sum()), abs=1e-6)
        q = p * first / p[first].sum()
        np.testing.assert_allclose(given[c], np.tensordot(q, one_hot, 1), atol=1e-7)
        assert all(agrees(graph, row, directed) for row in [*drawn[c], best[c]])
        if latent == 1:
            order = np.argsort(-p)[:3]
            np.testing.assert_array_equal(best[c], labels[order[0]])
            np.testing.assert_array_equal(top[c].labels, labels[order])
            np.testing.assert_allclose(top[c].log_proba, np.log(p[order]), atol=1e-7)
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_allclose(copy.predict_proba(X[:1])[0], proba[0], atol=1e-12)
    assert model.score(X, y) > 0.5
    assert np.isneginf(model.pair_intercept_).sum() > 0


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize(
    ("learning", "missing", "types", "latent"),
    [
        ("mle", False, False, 1),
        ("mle", True, False, 1),
        ("mle", True, True, 2),
        ("pseudo_likelihood", False, False, 1),
        pytest.param("pseudo_likelihood", False, True, 1, marks=pytest.mark.deep),
    ],
)
def test_gradient_by_finite_differences(learning, missing, types, latent):
    X, y = make_graphs(1, n_graphs=25, types=types, directed=True)
    if missing:
        y = [[None, *labels[1:]] for labels in y]
    weight = np.arange(len(X)) % 3 + 1.0
    model = GraphCRF(
        learning=learning, inference=SumProduct(tol=1e-12), directed=True, forbidden=PAIRS,
        alpha=0.1, max_iter=2, n_latent_states=latent, random_state=0,
    )  # fmt: skip
    model.fit(X, y, sample_weight=weight)
    check_gradient(model, objective_of(model, X, y, weight))


def test_the_loss_is_that_of_possible_labels():
    X, y = make_graphs(2, cycles=True)
    y[0] = [None, *y[0][1:]]
    model = GraphCRF(alpha=0.0, inference="exact", forbidden=PAIRS, max_iter=5).fit(X, y)
    losses = []
    for graph, labels in zip(X, y):
        states, weight = enumerated(model, graph)
        known = np.array([label is not None for label in labels])
        names = np.array([label or "" for label in labels])
        right = ((model.classes_[states] == names) | ~known).all(axis=1)
        losses.append(logsumexp(weight) - logsumexp(weight[right]))
    assert model.loss_curve_[-1] == pytest.approx(np.mean(losses), abs=1e-7)


def test_max_margin_searches_among_possible_labels():
    X, y = make_graphs(3)
    model = GraphCRF(learning="max_margin", alpha=0.1, forbidden=PAIRS).fit(X, y)
    losses = []
    for graph, labels in zip(X, y):
        states, weight = enumerated(model, graph)
        wrong = (model.classes_[states] != labels).sum(axis=1)
        losses.append((weight + wrong).max() - weight[wrong == 0][0])
    p = model._model.params
    penalty = 0.05 * sum((part**2).sum() for part in p)
    assert model.objective_ == pytest.approx(np.mean(losses) + penalty, rel=1e-6)
    assert model.duality_gap_ <= 0.02 * model.objective_
    for graph, labels in zip(X, model.predict(X)):
        assert agrees(graph, labels, False)


def test_wide_graphs_are_never_labelled_with_a_forbidden_pair():
    rng = np.random.default_rng(0)
    side = 24
    number = np.arange(side * side).reshape(side, side)
    edges = np.concatenate(
        [
            np.stack([number[:, :-1].ravel(), number[:, 1:].ravel()], 1),
            np.stack([number[:-1].ravel(), number[1:].ravel()], 1),
        ]
    )
    X = [Graph(rng.normal(size=(side * side, 1)), edges, forbidden=[(7, 0), (8, 1)])]
    y = [np.ones(side * side, int)]
    y[0][8], y[0][:7] = 2, 2
    model = GraphCRF(alpha=0.1, forbidden=[(0, 2)], max_iter=3)
    model.fit([X[0], Graph([[0.0]], [])], [y[0], [0]])
    labels = model.predict(X)[0]
    ends = labels[edges]
    assert labels[7] != 0
    assert labels[8] != 1
    assert not ((ends == [0, 2]) | (ends == [2, 0])).all(axis=1).any()


def test_errors():
    graph = Graph([[0.0], [1.0]], [[0, 1]])
    X, y = [graph] * 4, [["a", "b"], ["b", "a"], ["a", "a"], ["b", "b"]]
    with pytest.raises(ValueError, match=r"graph 3 of X has no labels that agree with `forbidden`"):
        GraphCRF(forbidden=[("b", "b")]).fit(X, y, sample_weight=[0, 1, 1, 1])
    with pytest.raises(ValueError, match="`forbidden` holds the label 'z', which is not a class"):
        GraphCRF(forbidden=[("z", "b")]).fit(X, y)
    with pytest.raises(ValueError, match="`forbidden` should hold pairs of classes, got 'ab'"):
        GraphCRF(forbidden=["ab"]).fit(X, y)
    with pytest.raises(ValueError, match="`forbidden` needs a learning rule other than 'backprop'"):
        GraphCRF(forbidden=[("b", "b")], learning="backprop").fit(X[:3], y[:3])
    for pairs in ([(2, "a")], [(0, "a", 1)], ["a"], [(0, None)], [5]):
        with pytest.raises(ValueError, match="forbidden of graph 1 of X should hold pairs"):
            GraphCRF().fit([graph, graph._replace(forbidden=pairs)], y[:2])
    model = GraphCRF(alpha=0.1, forbidden=[("b", "b")]).fit(X[:3], y[:3])
    with pytest.raises(
        ValueError, match=r"graph 1 of X has no labels .* with its labels in y_known"
    ):
        model.predict(X[:2], y_known=[None, ["b", "b"]])
    with pytest.raises(ValueError, match="forbidden holds the label 'q'"):
        model.predict([graph._replace(forbidden=[(0, "q")])])
    with pytest.raises(ValueError, match="graph 0 of X has no labels"):
        model.predict([graph._replace(forbidden=[(0, "a"), (0, "b")])])
    assert model.score(X, y) < 1  # labels that break a constraint are wrong predictions


def random_batch(seed):
    """Return three random graphs with constraints and known labels as a batch, and its problem.

    The problem has the forbidden pairs, the classes as a `LabelCoder`, and True if edges have a
    direction.
    """
    rng = np.random.default_rng(seed)
    names = "abc"[: int(rng.integers(2, 4))]
    directed, types = bool(rng.random() < 0.3), bool(rng.random() < 0.3)
    pairs = [p for p in product(names, repeat=2) if rng.random() < (0.8 if p[0] == p[1] else 0.1)]
    X, labels = [], []
    for _ in range(3):
        n = int(rng.integers(3, 6))
        edges = [e for e in combinations(range(n), 2) if rng.random() < 0.7]
        kinds = ["uv"[int(v)] for v in rng.integers(0, 2, n)] if types else None
        closed = [(v, names[int(rng.integers(len(names)))]) for v in range(n) if rng.random() < 0.1]
        X.append(Graph(np.zeros((n, 1)), edges, None, kinds, None, closed))
        known = rng.random(n) < 0.1
        labels += [names[int(rng.integers(len(names)))] if k else None for k in known]
    arrays = GraphRows(directed).fit_transform(X, ["u", "v"] if types else None)
    first = np.array([0, len(names), 2 * len(names)]) if types else None
    type_names = np.array(["u", "v"]) if types else None
    classes = LabelCoder(np.array(list(names) * (2 if types else 1)), first, type_names)
    closed = closed_classes(arrays, classes)
    batch = GraphBatch(
        arrays, classes.codes(labels, arrays.types), np.ones(3), np.arange(3), closed
    )
    return X, labels, batch, pairs, classes, directed


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("part_entries", [2**17, 20])
def test_the_check_finds_every_contradiction(monkeypatch, part_entries):
    """Small graphs with cycles, known labels and types, held against enumeration."""
    monkeypatch.setattr("skcrbm.learning.structured.graph._PART_ENTRIES", part_entries)
    n_wide = n_possible = n_labelled = 0
    for seed in range(150):
        X, labels, batch, pairs, classes, directed = random_batch(seed)
        table = forbidden_pairs(pairs, classes.classes, directed)
        names, start = sorted(set(classes.classes.tolist())), batch.start
        possible = [
            any(
                agrees(graph, state, directed, pairs)
                for state in product(*(names if v is None else [v] for v in labels[a:b]))
            )
            for graph, a, b in zip(X, start, start[1:])
        ]
        arguments = table, classes.first, len(classes.classes), "y"
        excluded = np.zeros((len(classes.classes),) * 2, bool) if table is None else table
        labelled = _labelled_greedily(batch, excluded, classes.first)
        n_labelled += labelled.sum()
        assert not (labelled & ~np.array(possible)).any()
        if all(possible):
            n_possible += 1
            require_possible(batch, *arguments)
            continue
        c = possible.index(False)
        with pytest.raises(ValueError, match=f"graph {c} of X has no labels that agree with"):
            require_possible(batch, *arguments)
        with monkeypatch.context() as patch:
            kind = "skcrbm.learning.structured.constraints.kind_of_graphs"
            patch.setattr(kind, lambda *_: "wide")
            with pytest.raises(ValueError, match=f"graph {c} of X"):
                require_possible(batch, *arguments)
        n_wide += 1
    assert n_possible > 20
    assert n_labelled > 20
    assert n_wide > 20


ALTERNATE = {"forbidden": [("a", "a"), ("b", "b")], "alpha": 0.1, "max_iter": 3}
PATH = Graph(np.zeros((6, 1)), [[v, v + 1] for v in range(5)])
TRIANGLE = Graph(np.zeros((3, 1)), [[0, 1], [1, 2], [2, 0]])
LADDER = [*"ababab"]


@pytest.mark.parametrize("inference", ["sum_product", "exact"])
def test_every_answer_names_the_graph_without_possible_labels(inference):
    model = GraphCRF(inference=inference, **ALTERNATE).fit([PATH], [LADDER])
    message = "graph 1 of X has no labels that agree with `forbidden`"
    X = [PATH, TRIANGLE]
    for name in ("predict", "predict_proba", "check_convergence", "sample", "predict_with_gap"):
        with pytest.raises(ValueError, match=f"{message}$"):
            getattr(model, name)(X)
    with pytest.raises(ValueError, match=f"{message}$"):
        model.predict_topk(X, 2)
    with pytest.raises(ValueError, match=f"{message} and with its labels in y_known$"):
        model.predict(X, y_known=[None, ["a", None, None]])
    with pytest.raises(ValueError, match=f"{message}$"):
        model.score_samples(X, [LADDER, ["a", None, None]])
    with pytest.raises(ValueError, match=f"{message}$"):
        GraphCRF(inference=inference, **ALTERNATE).fit(X, [LADDER, None])
    with pytest.raises(ValueError, match=f"{message} and with its labels in y$"):
        GraphCRF(inference=inference, **ALTERNATE).fit(X, [LADDER, ["a", None, None]])


def test_graphs_of_weight_0_need_no_possible_labels():
    X, y = [TRIANGLE, PATH, PATH, PATH], [[*"aab"], LADDER, [*"bababa"], ["a", "a", *"baba"]]
    weights = [0, 1, 2, 0]
    model = GraphCRF(**ALTERNATE).fit(X, y, sample_weight=weights)
    alone = GraphCRF(**ALTERNATE).fit(X[1:3], y[1:3], sample_weight=[1, 2])
    np.testing.assert_array_equal(model.coef_, alone.coef_)
    np.testing.assert_array_equal(model.intercept_, alone.intercept_)
    with pytest.raises(ValueError, match="graph 3 of X has no labels"):
        GraphCRF(**ALTERNATE).fit(X, y, sample_weight=[0, 1, 2, 1])


QUESTIONS = "predict", "predict_proba", "sample", "check_convergence", "predict_with_gap"


def test_a_contradiction_of_a_wide_graph_names_the_graph():
    """Elimination of a clique of 17 nodes would make a table of more than 2**16 entries."""
    clique = Graph(np.zeros((17, 1)), list(combinations(range(17), 2)))
    model = GraphCRF(**ALTERNATE).fit([PATH], [LADDER])
    X, message = [PATH, clique], "graph 1 of X has no labels that agree with `forbidden`$"
    for name in QUESTIONS:
        with pytest.raises(ValueError, match=message):
            getattr(model, name)(X)
    with pytest.raises(ValueError, match=message):
        GraphCRF(**ALTERNATE).fit([PATH, clique, PATH], [LADDER, None, LADDER])
    with pytest.raises(ValueError, match=f"{message[:-1]} and with its labels in y"):
        GraphCRF(**ALTERNATE).fit(X, [LADDER, ["a"] + [None] * 16])


UNDECIDED = "ended without a result for graph 1 of X: it found neither labels nor a proof"


@pytest.mark.filterwarnings("ignore:the factors of 1 of 1 models:UserWarning")
def test_graphs_that_the_check_cannot_decide_are_named(monkeypatch):
    """The search has no steps, so that it decides nothing."""
    monkeypatch.setattr("skcrbm.learning.structured.constraint_search._MOST_STEPS", 0)
    monkeypatch.setattr("skcrbm.learning.structured.constraint_search._STEPS_PER_ARC", 0)
    clique = Graph(np.zeros((17, 1)), list(combinations(range(17), 2)))
    model = GraphCRF(decode="marginal", **ALTERNATE).fit([PATH], [LADDER])
    X = [PATH, clique]
    for name in ("predict_proba", "check_convergence"):
        with pytest.warns(UserWarning, match=UNDECIDED):
            getattr(model, name)(X)
    with (
        pytest.warns(UserWarning, match=UNDECIDED),
        pytest.warns(
            UserWarning,
            match="pairs of classes in `forbidden` at .* of 2 graphs, first in graph 0 of X",
        ),
    ):
        model.predict(X)
    model.set_params(decode="map")
    with (
        pytest.warns(UserWarning, match=UNDECIDED),
        pytest.raises(ValueError, match="max-product found no labels of graph 1 of X that agree"),
    ):
        model.predict(X)
    with (
        pytest.warns(UserWarning, match=UNDECIDED),
        pytest.raises(ValueError, match="graph 1 of X"),
    ):
        model.predict_with_gap(X)
    with (
        pytest.warns(UserWarning, match="for graph 3 of X"),
        pytest.raises(ValueError, match="inference='exact' found no labels of graph 3 of X that"),
    ):
        GraphCRF(inference="exact", **ALTERNATE).fit(
            [clique, PATH, PATH, clique], [None, LADDER, LADDER, None], [0, 1, 2, 1]
        )


@pytest.mark.filterwarnings("ignore:the factors of 1 of 1 models:UserWarning")
def test_every_answer_for_wide_graphs_agrees_with_the_constraints_or_is_announced():
    """Random grids with forbidden pairs and nodes, some of them without possible labels."""
    side, outcomes = 8, {"right": 0, "error": 0}
    edges = [[v, v + 1] for v in range(side**2) if (v + 1) % side]
    edges += [[v, v + side] for v in range(side**2 - side)]
    pairs = [("a", "a"), ("b", "b"), ("c", "c"), ("b", "d"), ("c", "d")]
    plain = Graph(np.zeros((5, 1)), [[0, 1], [1, 2], [2, 3], [3, 4]])
    model = GraphCRF(forbidden=pairs, alpha=0.1, max_iter=2)
    model.fit([plain], [["d", "d", "a", "b", "c"]])
    for seed in range(12):
        rng = np.random.default_rng(seed)
        nodes = np.flatnonzero(rng.random(side**2) < 0.25 + 0.05 * (seed % 4))
        closed = [(int(v), "d") for v in nodes] + [(int(v), "abc"[rng.integers(3)]) for v in nodes]
        extra = [e for e in rng.integers(0, side**2, (12, 2)).tolist() if e[1] - e[0] > side]
        joined = np.unique([*edges, *extra], axis=0)
        graph = Graph(rng.normal(size=(side**2, 1)), joined, forbidden=closed)
        labels, message = None, "graph 1 of X"
        try:
            labels = model.predict([plain, graph])[1]
        except ValueError as error:
            message = str(error)
        assert "graph 1 of X" in message
        assert labels is None or agrees(graph, labels.tolist(), False, pairs)
        outcomes["error" if labels is None else "right"] += 1
    assert min(outcomes.values()) > 0, outcomes


@pytest.mark.parametrize(
    "pairs", [5, "ab", {0: "a"}, iter([(0, "a")]), pd.DataFrame({"node": [0], "class": ["a"]})]
)
def test_forbidden_of_a_graph_should_be_a_list(pairs):
    kind = type(pairs).__name__
    with pytest.raises(
        ValueError, match=rf"graph 1 of X should be a list of pairs \(node, class\), got {kind}"
    ):
        GraphCRF().fit([PATH, PATH._replace(forbidden=pairs)], [LADDER] * 2)


def test_backprop_respects_forbidden_classes_of_nodes():
    X, y = make_graphs(5)
    model = GraphCRF(learning="backprop", alpha=0.1, max_iter=5).fit(X, y)
    for graph, proba in zip(X, model.predict_proba(X)):
        for node, name in graph.forbidden:
            assert proba[node, "abc".index(name)] < 1e-12


@pytest.mark.parametrize(
    ("edges", "directed", "message"),
    [
        ([[0, 1], [1, 2], [0, 1]], True, r"edges 0 and 2 of graph 1 of X both join the nodes"),
        ([[0, 1], [1, 2], [2, 1]], False, r"edges 1 and 2 of graph 1 of X both join the nodes"),
        ([[0, 1], [1, 2], [2, 1]], True, None),
    ],
)
def test_a_repeated_edge_is_an_error(edges, directed, message):
    nodes = np.eye(3)
    X, y = [Graph(nodes, [[0, 1]]), Graph(nodes, edges)], [[0, 1, 0], [1, 0, 1]]
    model = GraphCRF(alpha=0.1, directed=directed, max_iter=2, inference="exact")
    if message is None:
        model.fit(X, y)
        return
    with pytest.raises(ValueError, match=message):
        model.fit(X, y)
    with pytest.raises(ValueError, match=message):
        model.fit(X[:1], y[:1]).predict(X)


def test_a_repeated_clique_is_an_error():
    X = [Graph(np.eye(3), [], cliques=[[0, 1, 2], [2, 1, 0], [0, 1, 2]])]
    with pytest.raises(ValueError, match=r"cliques 0 and 2 of graph 0 of X both hold the nodes"):
        GraphCRF(alpha=0.1).fit(X, [[0, 1, 0]])
    rotated = X[0]._replace(cliques=[[0, 1, 2], [2, 1, 0]])  # another order of the table's axes
    GraphCRF(alpha=0.1, inference="exact", max_iter=2).fit([rotated], [[0, 1, 0]])
