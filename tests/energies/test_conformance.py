"""Every kind of energy, held against enumeration: see `reference.conformance`."""

import numpy as np
import pytest
from reference import conformance
from reference.conformance import Case
from reference.dtypes import DTYPES
from reference.factor_graphs import naive_score, naive_statistics

from skcrbm.energies import (
    AndFactors,
    FactorGraphEnergy,
    IsingEnergy,
    LayeredEnergy,
    LayeredStructure,
    OneHotRBMEnergy,
    OrFactors,
    RBMEnergy,
    SparseIsingEnergy,
    TableFactors,
)
from skcrbm.energies.grouped_rbm import GroupedRBMEnergy
from skcrbm.layers import Conv2d, Dense, Local2d
from skcrbm.utils.categorical import OutputUnits


def make_rbm(seed, n_models, scale, dtype, kind=RBMEnergy, n_visible=3, n_hidden=2):
    rng = np.random.default_rng(seed)
    parts = (
        rng.normal(0, scale, (n_visible, n_hidden)),
        rng.normal(0, 1, (n_models, n_visible)),
        rng.normal(0, 1, (n_models, n_hidden)),
    )
    return kind(*(part.astype(dtype) for part in parts))


def rbm_score(energy, n, state):
    v, h = state[: energy.n_visible], state[energy.n_visible :]
    score = 0.0
    for i in range(len(v)):
        score += v[i] * float(energy.visible_bias[n, i])
        for j in range(len(h)):
            score += v[i] * h[j] * float(energy.weights[i, j])
    return score + sum(h[j] * float(energy.hidden_bias[n, j]) for j in range(len(h)))


def one_hot_score(energy, n, state):
    if state[: energy.n_visible].sum() != 1:
        return -np.inf
    return rbm_score(energy, n, state)


def make_grouped(seed, n_models, scale, dtype, n_classes=(3, 2), n_hidden=2):
    units = OutputUnits(n_classes)
    plain = make_rbm(seed, n_models, scale, dtype, n_visible=units.n_units, n_hidden=n_hidden)
    return GroupedRBMEnergy(plain.weights, *plain.fields, units)


def grouped_score(energy, n, state):
    for group in energy.units.groups:
        if state[group].sum() != 1:
            return -np.inf
    return rbm_score(energy, n, state)


def rbm_statistics(energy, state):
    return (np.outer(state[: energy.n_visible], state[energy.n_visible :]),)


def make_ising(seed, n_models, scale, dtype, n_labels=4):
    rng = np.random.default_rng(seed)
    coupling = np.triu(rng.normal(0, scale, (n_labels, n_labels)), 1)
    field = rng.normal(0, 1, (n_models, n_labels))
    return IsingEnergy((coupling + coupling.T).astype(dtype), field.astype(dtype))


def ising_score(energy, n, state):
    y = 2 * state - 1
    score = sum(y[i] * float(energy.field[n, i]) for i in range(len(y)))
    for i in range(len(y)):
        for k in range(i):
            score += y[i] * y[k] * float(energy.coupling[i, k])
    return score


def ising_statistics(energy, state):
    return (np.outer(state, state),)


def make_sparse_ising(seed, n_models, scale, dtype):
    rng = np.random.default_rng(seed)
    edges = [[0, 1], [2, 1], [3, 2], [3, 0]]
    weights, field = rng.normal(0, scale, 4), rng.normal(0, 1, (n_models, 5))
    return SparseIsingEnergy.from_edges(edges, weights.astype(dtype), field.astype(dtype))


def sparse_ising_score(energy, n, state):
    y = 2 * state - 1
    score = sum(y[i] * float(energy.field[n, i]) for i in range(len(y)))
    for (i, k), weight in zip(energy.edges, energy.edge_coupling, strict=True):
        score += y[i] * y[k] * float(weight)
    return score


def sparse_ising_statistics(energy, state):
    return (np.array([state[i] * state[k] for i, k in energy.edges]),)


SCOPES = [[2, 0], [0], [3, 1, 2], [1, 3], [0, 1, 3, 2]]


def make_factor_graph(seed, n_models, scale, dtype, more=(), zeros=0, n_variables=4):
    rng = np.random.default_rng(seed)
    tables = [rng.normal(0, scale, 2 ** len(scope)).astype(dtype) for scope in SCOPES]
    tables[-1][rng.integers(16, size=zeros)] = -np.inf
    groups = [TableFactors([s], t) for s, t in zip(SCOPES, tables, strict=True)]
    groups[2:2] = more  # logic in between, and tables not in the order of their sizes
    return FactorGraphEnergy(groups, rng.normal(0, 1, (n_models, n_variables)).astype(dtype))


def make_logic(seed, n_models, scale, dtype):
    more = [OrFactors([[0, 3, 1]], [4]), AndFactors([[4], [2, 0]], [1, 3])]
    return make_factor_graph(seed, n_models, scale, dtype, more, zeros=1, n_variables=5)


def wide(seed, n_models, scale, dtype):
    return make_rbm(seed, n_models, scale, dtype, n_visible=2, n_hidden=3)


LAYERED = {
    "layered": ([Dense(2), Dense(1)], (2,), 2, 2),
    "layered, one hidden layer": ([Dense(2)], (2,), 2, 2),
    "layered, local": ([Local2d(2, 1, 1), Local2d(2, (1, 2), 1)], (1, 2), 1, 2),
    "layered, tied": ([Conv2d(2, 1, 1), Conv2d(2, 1, 1)], (1, 2), 1, 2),
    "layered, three states": ([Dense(1, 3)], (2,), 1, 3),
    "layered, three states, two layers": ([Dense(1, 3), Dense(1)], (2,), 1, 3),
    "layered, no hidden layer": ([], (2,), 2, 3),
    "layered, skips": ([Dense(2), Dense(1)], (2,), 1, 3, ((0, 2), (1, 3))),
}


def make_layered(name):
    def make(seed, n_models, scale, dtype):
        layers, shape, n_outputs, n_states, *skips = LAYERED[name]
        structure = LayeredStructure(layers, shape, 2, n_outputs, n_states, *skips)
        rng = np.random.default_rng(seed)
        connections = [c for c in structure.connections if c.source > 0]
        weights = [rng.normal(0, scale, c.n_weights) for c in connections]
        n_units = sum(n * (k - 1) for n, k in zip(structure.n_nodes[1:], structure.n_states[1:]))
        field = rng.normal(0, 1, (n_models, n_units)).astype(dtype)
        return LayeredEnergy(structure, [w.astype(dtype) for w in weights], field)

    return make


def nodes_of(energy, state):
    """State of each node, (layer, node) -> number of its unit that is on or 0; None if two are."""
    structure, found, start = energy.structure, {}, 0
    depth = structure.depth
    for layer in (depth, *range(1, depth)):
        k = structure.n_states[layer]
        for node in range(structure.n_nodes[layer]):
            on = [x + 1 for x in range(k - 1) if state[start + x]]
            if len(on) > 1:
                return None
            found[layer, node] = on[0] if on else 0
            start += k - 1
    return found


def edges_of(connection):
    """(left, right, table) of the edges of a connection, by the layer's own account."""
    edges = connection.layer.edges(connection.below)
    return zip(edges.left, edges.right, edges.table, strict=True)


def layered_score(energy, n, state):
    at = nodes_of(energy, state)
    if at is None:
        return -np.inf
    total = sum(float(energy.field[n, i]) * state[i] for i in range(len(state)))
    connections = [c for c in energy.structure.connections if c.source > 0]
    for connection, weights in zip(connections, energy.weights, strict=True):
        l, k = connection.n_left_states, connection.n_right_states
        weights = weights.astype(float)
        for i, j, table in edges_of(connection):
            x, y = at[connection.source, i], at[connection.target, j]
            if x == 0 or y == 0:
                continue
            if connection.dense:  # the matrix of a linear map
                place = (i * (l - 1) + x - 1) * connection.n_right * (k - 1) + j * (k - 1) + y - 1
            else:
                place = (table * (l - 1) + x - 1) * (k - 1) + y - 1
            total += weights[place]
    return total


def layered_statistics(energy, state):
    """Units of pairs of nodes; two units of one node may be on here, as in a mean."""
    structure, start, units = energy.structure, 0, {}
    depth = structure.depth
    for layer in (depth, *range(1, depth)):
        for node in range(structure.n_nodes[layer]):
            stop = start + structure.n_states[layer] - 1
            units[layer, node] = state[start:stop]
            start = stop
    parts = []
    for connection in structure.connections:
        if connection.source == 0:
            continue
        n_left, n_right = connection.n_left_states - 1, connection.n_right_states - 1
        total = np.zeros((connection.n_tables, n_left, n_right))
        for i, j, table in edges_of(connection):
            total[table] += np.outer(units[connection.source, i], units[connection.target, j])
        parts.append(total)
    return tuple(parts)


CASES = [
    Case("RBM", make_rbm, rbm_score, rbm_statistics),
    Case("RBM, more hidden units", wide, rbm_score, rbm_statistics),
    Case(
        "one-hot RBM",
        lambda *args: make_rbm(*args, kind=OneHotRBMEnergy),
        one_hot_score,
        rbm_statistics,
    ),
    Case("grouped RBM", make_grouped, grouped_score, rbm_statistics),
    Case(
        "grouped RBM, few vectors",
        lambda *args: make_grouped(*args, n_classes=(1, 3), n_hidden=3),
        grouped_score,
        rbm_statistics,
    ),
    Case("Ising", make_ising, ising_score, ising_statistics),
    Case("sparse Ising", make_sparse_ising, sparse_ising_score, sparse_ising_statistics),
    Case("factor graph", make_factor_graph, naive_score, naive_statistics),
    Case(
        "factor graph, zeros and logic",
        make_logic,
        naive_score,
        naive_statistics,
        connected=False,
    ),
    *(Case(name, make_layered(name), layered_score, layered_statistics) for name in LAYERED),
]
EXCLUSIVE = ("one-hot RBM", "grouped RBM", "grouped RBM, few vectors")
each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


@pytest.mark.quick_cases(33)
@each_case
@pytest.mark.parametrize(
    "check",
    [
        conformance.check_shapes,
        conformance.check_weights,
        conformance.check_conditionals,
        conformance.check_draws,
        conformance.check_statistics,
        conformance.check_evidence,
        conformance.check_scaled,
        conformance.check_tempered,
        conformance.check_best_states,
        conformance.check_samples,
        conformance.check_tilted,
    ],
    ids=lambda check: check.__name__,
)
def test_members(case, check):
    check(case)


@pytest.mark.quick_cases(32)
@each_case
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("scale", [1.0, pytest.param(30.0, marks=pytest.mark.deep)])
def test_exact(case, dtype, scale):
    conformance.check_exact(case, dtype, scale)


@pytest.mark.quick_cases(4)
@each_case
@pytest.mark.parametrize("dtype", DTYPES)
def test_methods(case, dtype):
    conformance.check_methods(case, dtype)


@pytest.mark.deep
@each_case
def test_nothing_is_left_unfilled(case, monkeypatch):
    conformance.check_nothing_unfilled(case, monkeypatch)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "case",
    # Units of one-hot and grouped RBMs exclude each other, and so do states of factors with zeros.
    [c for c in CASES if c.name not in EXCLUSIVE and c.connected],
    ids=lambda case: case.name,
)
def test_without_couplings_every_method_is_exact(case, dtype):
    def make_independent(seed, n_models, dtype):
        return case.make(seed, n_models, 0.0, dtype)

    conformance.check_independent(case, make_independent, dtype)
