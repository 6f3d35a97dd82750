"""Special kernels beside the general pieces that could replace them.

Each row of the table solves a problem twice: by a kernel for a class of models, and by the general
piece that solves the same problem as one of a larger class, often after a conversion, whose time
does not count. Both run in one process on a single thread, in turns, and the table has the least
processor time of each. A kernel is worth its code if the ratio is at least 1.5. If both give the
same numbers, the program checks this. Prints a Markdown table.

    python -m examples.speed.benchmark_special_kernels
    python -m examples.speed.benchmark_special_kernels --repeats 3 --only chains RBM
"""

import argparse
import time
import warnings
from functools import partial

import numpy as np
from threadpoolctl import threadpool_limits

from examples.speed.benchmark_rules import Given
from skcrbm import ChainCRF, Graph, GraphCRF, LMBMClassifier
from skcrbm.constraints import Allowed, Between, Constrained, Hierarchy
from skcrbm.energies import (
    FactorGraphEnergy,
    IsingEnergy,
    LayeredEnergy,
    LayeredStructure,
    RBMEnergy,
    SparseIsingEnergy,
    TableFactors,
)
from skcrbm.energies.chain import SecondOrderEnergies
from skcrbm.energies.grouped_rbm import GroupedRBMEnergy
from skcrbm.energies.image_model import ImageModel, ImageStructure, pair_steps
from skcrbm.inference import BranchAndBound, infer
from skcrbm.inference.chains import best_paths, chain_marginals
from skcrbm.inference.images import Network, Sheet
from skcrbm.inference.layered.methods import MessageNetwork as LayerMessages
from skcrbm.inference.layered.network import LayeredInput
from skcrbm.inference.rbm._group_messages import as_factor_graph
from skcrbm.inference.search import cliques
from skcrbm.inference.search.ising import find_labels
from skcrbm.inference.truncated_graphs import MeanFieldNetwork, MessageNetwork
from skcrbm.layers import Dense
from skcrbm.utils.categorical import OutputUnits


class AnyIsing(IsingEnergy):
    """An Ising model with a score of its own, so that only solvers for all energies answer."""

    def _score(self, states):
        return super()._score(states)


class AnyRBM(RBMEnergy):
    """An RBM with a score of its own, so that only solvers for all energies answer."""

    def _score(self, states):
        return super()._score(states)


def asked(method, answer, models, **options):
    """Return a function for each energy; it makes inference and returns the answer.

    The answer "score" stands for the scores of the best states, which the first energy computes.
    The answer "samples" is returned as None, because samples are not compared. The answer
    "marginal_map" is the state.
    """
    returns = "map" if answer == "score" else answer

    def run(energy):
        found = infer(energy, method, returns=returns, n_jobs=1, **options)
        if answer == "score":
            return models[0].score(found.assignment)
        if answer == "marginal_map":
            return found.assignment
        return None if answer == "samples" else getattr(found, answer)

    return [partial(run, energy) for energy in models]


def ising(n, n_models, scale, kind=IsingEnergy):
    """Draw dense couplings N(0, scale^2) and fields N(0, 1)."""
    rng = np.random.default_rng(0)
    coupling = np.triu(rng.normal(0, scale, (n, n)), 1)
    return kind(coupling + coupling.T, rng.normal(size=(n_models, n)))


def rbm(n_visible, n_hidden, n_models, scale, kind=RBMEnergy):
    """Draw weights N(0, scale^2) and biases N(0, 1)."""
    rng = np.random.default_rng(0)
    weights = rng.normal(0, scale, (n_visible, n_hidden))
    return kind(weights, rng.normal(size=(n_models, n_visible)), rng.normal(size=n_hidden))


def lattice(height, width, n_models, scale=0.4):
    """Draw couplings N(0, scale^2) of a lattice, and fields N(0, 1)."""
    rng, side = np.random.default_rng(0), np.arange(height * width).reshape(height, width)
    ends = (side[:, :-1], side[:, 1:]), (side[:-1], side[1:])
    edges = np.concatenate([np.column_stack([a.flat, b.flat]) for a, b in ends])
    field = rng.normal(size=(n_models, side.size))
    return SparseIsingEnergy.from_edges(edges, rng.normal(0, scale, len(edges)), field)


def with_three_states(graph):
    """Add a variable of three states, so that the kernel for any number of states answers."""
    n_models, n = graph.field.shape
    fields = np.zeros((n_models, n + 1, 3))
    fields[:, :n, 1] = graph.field
    scopes = [scope for group in graph.tables for scope in group.variables]
    tables = [row for group in graph.tables for row in group.log_potentials.reshape(-1, 2, 2)]
    return FactorGraphEnergy.from_tables(scopes, tables, fields, n_states=[2] * n + [3])


def messages():
    """Compare messages and mean field of RBMs, dense pairs and 0/1 tables with those of graphs."""
    model = rbm(60, 40, 64, 0.15)
    models = model, FactorGraphEnergy.from_energy(model)
    # The messages and states of different schedules are not equal.
    yield "RBM, sum_product", *asked("sum_product", "marginals", models), None
    yield "RBM, max_product", *asked("max_product", "score", models), None
    yield "RBM, mean_field", *asked("mean_field", "marginals", models), None
    model = ising(60, 100, 0.1)
    models = model, FactorGraphEnergy.from_energy(model)
    yield "dense pairs, sum_product", *asked("sum_product", "marginals", models, tol=1e-8), 1e-6
    model = ising(200, 2, 0.03)
    models = model, FactorGraphEnergy.from_energy(model)
    yield "dense pairs, mean_field", *asked("mean_field", "marginals", models, tol=1e-8), 1e-6
    yield "dense pairs, tree_reweighted", *asked("tree_reweighted", "marginals", models), 1e-2
    for name, model in (
        ("a lattice", lattice(30, 30, 1)),
        ("16 lattices", lattice(30, 30, 16)),
        ("2000 models of 6 variables", ising(6, 2000, 0.3)),
    ):
        graph = FactorGraphEnergy.from_energy(model)
        models = graph, with_three_states(graph)
        yield f"0/1 tables, {name}, mean_field", *asked("mean_field", "log_partition", models), None


def layers():
    """Compare truncated messages between layers, and their gradients, with messages on a graph."""
    rng, structure = (
        np.random.default_rng(0),
        LayeredStructure([Dense(40), Dense(30)], (1,), 2, 20, 2),
    )
    lower, upper = rng.normal(0, 0.15, (40, 30)), rng.normal(0, 0.15, (30, 20))
    fields = rng.normal(size=(64, 90))
    energy = LayeredEnergy(structure, [lower, upper], fields, np.zeros(90))
    network = LayerMessages(energy, "parallel", 5, reweighted=False, with_input=False)
    means = np.empty((64, 0))
    outputs, first, second = fields[:, :20], fields[:, 20:60], fields[:, 60:]
    inputs = LayeredInput(
        means, fields=[None, *(np.ascontiguousarray(f.T) for f in (first, second, outputs))]
    )
    coupling = np.zeros((90, 90))
    coupling[20:60, 60:], coupling[60:, :20] = lower, upper
    edges = np.argwhere(coupling)
    tables = np.tile(coupling[tuple(edges.T)][:, None, None] * np.outer([0, 1], [0, 1]), (64, 1, 1))
    edges = (90 * np.arange(64)[:, None, None] + edges).reshape(-1, 2)
    scores = np.zeros((64 * 90, 2))
    scores[:, 1] = fields.ravel()
    graph = MessageNetwork(scores, edges, tables, 5)

    def by_layers():
        trace = network.run(inputs, complete=True, keep=True)
        network.gradient(trace, np.ones((20, 64)))
        return trace.beliefs[-1][-1]

    def by_graph():
        trace = graph.run()
        graph.gradient(trace, np.tile([0.0, 1.0], (64 * 90, 1)))
        return (trace.logs[:, 1] - trace.logs[:, 0]).reshape(64, 90).T[:20]

    yield "layers, five iterations and their gradient", by_layers, by_graph, 1e-2


def images():
    """Compare mean field on images with mean field on their graphs."""
    rng = np.random.default_rng(0)
    structure = ImageStructure(4, 1, 1, 3, 0)
    params = structure.zeros()._replace(coef=rng.normal(size=(3, 1, 1, 1)))
    params.pair_coef[:] = rng.normal(0, 0.3, params.pair_coef.shape)
    model, sheet = ImageModel(params, structure, 10), Sheet.of(np.array([[64, 64]]), 1)
    X = rng.normal(size=(64, 64))
    scores = np.zeros((64 * 64, 4))
    scores[:, 1:] = X.reshape(-1, 1) * params.coef.ravel()
    side, edges, tables = np.pad(np.arange(64 * 64).reshape(64, 64), 1, constant_values=-1), [], []
    for (a, b), table in zip(pair_steps(3), model.pair_tables()):
        pair = np.stack([side[1:-1, 1:-1], side[1 + a : 65 + a, 1 + b : 65 + b]], -1).reshape(-1, 2)
        edges.append(pair[pair[:, 1] >= 0])
        tables.append(np.broadcast_to(table, (len(edges[-1]), 4, 4)))
    planes = Network(model, sheet)
    graph = MeanFieldNetwork(scores, np.concatenate(edges), np.concatenate(tables), 10)

    def by_graph():
        logs = graph.run().logs
        return (logs[:, 1:] - logs[:, :1]).T

    def by_planes():
        return planes.run(sheet.planes(X.reshape(1, -1))).log_odds[:, sheet.place]

    yield "images, mean field", by_planes, by_graph, 1e-9


def exact():
    """Compare enumeration, chains of order 2, and trees with counts with their general pieces."""
    for name, *models in (
        ("Ising", ising(12, 20, 0.5), ising(12, 20, 0.5, AnyIsing)),
        ("RBM", rbm(9, 6, 20, 0.5), rbm(9, 6, 20, 0.5, AnyRBM)),
    ):
        yield f"{name}, enumeration of sums", *asked("exact", "marginals", models), 1e-9
        yield f"{name}, enumeration of states", *asked("exact", "score", models), 1e-9
    rng = np.random.default_rng(0)
    fields = rng.normal(size=(64, 30)), rng.normal(size=10)
    model = GroupedRBMEnergy(rng.normal(size=(30, 10)), *fields, OutputUnits([6] * 5))
    models = model, as_factor_graph(model)
    yield "RBM over classes, enumeration", *asked("exact", "log_partition", models), 1e-9
    k, start, one = 20, np.arange(0, 1001, 20), np.ones(50)
    shapes = (1000, k * k), (k, k, k), k * k, k * k
    second = SecondOrderEnergies(start, *(rng.normal(size=shape) for shape in shapes))
    models = second, second.as_pairs()
    yield (
        "chains of order 2, sums",
        *(lambda e=e: chain_marginals(e, one).log_z for e in models),
        1e-9,
    )
    yield "chains of order 2, best paths", *(lambda e=e: best_paths(e)[1] for e in models), 1e-9
    P, functions = rng.beta(1, 3, (100, 60)), []
    rules = [Hierarchy([(child - 1, child) for child in range(1, 60)]), Between(range(60), 0, 6)]
    for more in ([], [Allowed([0], [[0], [1]])]):  # a table, even of both values, is no tree
        model = Constrained(Given(), [*rules, *more], decode="map")
        functions.append(partial(model.fit(P[:1], np.zeros((1, 60), int)).predict_proba, P))
    yield "trees with counts", *functions, 1e-9


def fit(model, X, y):
    """Fit a model; return nothing, because the models of a row have different attributes."""
    model.fit(X, y)


def chains():
    """Compare fits of linear chains with fits of graphs that are paths."""
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(20, 10)) for _ in range(100)]
    y = [rng.integers(0, 4, 20) for _ in X]
    path = np.column_stack([np.arange(19), np.arange(1, 20)])
    graphs = [Graph(x, path) for x in X]
    for learning, n_iter in (("mle", 10), ("max_margin", 30)):
        options = {"alpha": 0.01, "learning": learning, "max_iter": n_iter, "random_state": 0}
        graph_crf = GraphCRF(inference="exact", directed=True, **options)
        functions = partial(fit, ChainCRF(**options), X, y), partial(fit, graph_crf, graphs, y)
        yield f"chains, {learning}", *functions, None


def searches():
    """Compare searches for the best labels of Ising models, and bounds of pairs."""
    model, method = ising(30, 5, 0.1), BranchAndBound(node_limit=10**7)
    graph = FactorGraphEnergy.from_energy(model)
    for name, margin in (("highest score", None), ("least hinge loss", 1.0)):
        functions = (
            lambda find=find, e=e, m=margin: find(e, method, m, n_jobs=1).value
            for find, e in ((find_labels, model), (cliques.find_labels, graph))
        )
        yield f"Ising, search for the {name}", *functions, 1e-9
    triple = TableFactors([[0, 1, 2]], np.zeros((1, 2, 2, 2)))  # the graph is not pairwise any more
    models = graph, FactorGraphEnergy([*graph.factors, triple], graph.field)
    yield "pairs, MPLP", *asked("mplp", "map_bound", models, max_iter=100), None
    few = [energy.rows([0, 1]) for energy in models]
    yield "pairs, linear program", *asked("linear_program", "map_bound", few), None
    few = [energy.rows([0, 1]) for energy in (model, graph)]
    yield "Ising, linear program by flows", *asked("linear_program", "score", few), None
    model = FactorGraphEnergy.from_energy(lattice(16, 20, 1))
    functions = (
        asked("map_search", "score", [model], random_state=0)[0],
        asked("exact", "score", [model], max_entries=2**26)[0],
    )
    yield "best states of wide graphs, buckets", *functions, 1e-9
    models = [rbm(20, 30, 1, 0.3)]
    functions = (asked(m, "marginal_map", models)[0] for m in ("dual_decomposition", "exact"))
    yield "RBM, marginal MAP by dual decomposition", *functions, 0


def samplers():
    """Compare samplers of Ising models and RBMs with samplers of graphs."""
    methods = {
        "gibbs": {"burn_in": 50, "n_samples": 64},
        "gibbs_with_gradients": {"burn_in": 5, "n_samples": 1},
        "perturb_and_max_product": {"n_samples": 64},
    }
    for name, model in (("sparse Ising", lattice(30, 30, 1)), ("RBM", rbm(60, 40, 1, 0.15))):
        models = model, FactorGraphEnergy.from_energy(model)
        for method, draw in methods.items():
            functions = asked(method, "samples", models, random_state=0, **draw)
            yield f"{name}, {method}", *functions, None
    models = ising(30, 4, 0.3), ising(30, 4, 0.3, AnyIsing)
    functions = asked("simulated_annealing", "score", models, n_sweeps=200, random_state=0)
    yield "Ising, simulated annealing", *functions, None


def margins():
    """Compare dual steps for pairs of labels with steps for cliques of any size."""
    rng = np.random.default_rng(0)
    X, noise = rng.normal(size=(300, 20)), rng.normal(0, 2, (300, 12))
    y = (X @ rng.normal(size=(20, 12)) + noise > 0).astype(int)
    options = {"C": 0.1, "pairwise_penalty": 1.0, "max_iter": 30, "random_state": 0, "tol": 1e-9}
    models = LMBMClassifier(**options), LMBMClassifier(**options, cliques=[(0, 1, 2)])
    yield "pairs of labels, dual steps", *(partial(fit, m, X, y) for m in models), None


def measure(special, general, tol, repeats):
    """Return the least processor milliseconds of two functions, which run in turns."""
    found = special(), general()  # compiles
    if tol is not None:
        np.testing.assert_allclose(*found, rtol=tol, atol=tol)
    times = []
    for _ in range(repeats):
        for run in (special, general):
            start = time.process_time()
            run()
            times.append(1e3 * (time.process_time() - start))
    return min(times[::2]), min(times[1::2])


def main(argv=None):
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", nargs="+", default=[""], help="parts of names of rows")
    options = parser.parse_args(argv)
    warnings.simplefilter("ignore")
    print("| kernel | special, ms | general, ms | general / special |\n|---|---|---|---|")
    with threadpool_limits(1):
        for group in (messages, layers, images, exact, chains, searches, samplers, margins):
            for name, special, general, tol in group():
                if any(part in name for part in options.only):
                    a, b = measure(special, general, tol, options.repeats)
                    print(f"| {name} | {a:.2f} | {b:.2f} | {b / a:.1f} |", flush=True)


if __name__ == "__main__":
    main()
