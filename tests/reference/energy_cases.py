"""Kinds of energies with their scores by plain loops: the columns of the table of conformance."""

import numpy as np

from reference import categorical
from reference.conformance import Case
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


def make_rbm(seed, n_models, scale, dtype, kind=RBMEnergy, n_visible=3, n_hidden=2, edges=1):
    rng = np.random.default_rng(seed)
    parts = (
        rng.normal(0, scale, (n_visible, n_hidden)) * edges,
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


def make_ising(seed, n_models, scale, dtype, n_labels=4, edges=1):
    rng = np.random.default_rng(seed)
    coupling = np.triu(rng.normal(0, scale, (n_labels, n_labels)), 1) * edges
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


def make_sparse_ising(seed, n_models, scale, dtype, n_edges=4):
    rng = np.random.default_rng(seed)
    edges = [[0, 1], [2, 1], [3, 2], [3, 0]][:n_edges]
    weights, field = rng.normal(0, scale, n_edges), rng.normal(0, 1, (n_models, 5))
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


def make_factor_graph(seed, n_models, scale, dtype, more=(), zeros=0, n_variables=4, scopes=SCOPES):
    rng = np.random.default_rng(seed)
    tables = [rng.normal(0, scale, 2 ** len(scope)).astype(dtype) for scope in scopes]
    tables[-1][rng.integers(16, size=zeros)] = -np.inf
    groups = [TableFactors([s], t) for s, t in zip(scopes, tables, strict=True)]
    groups[2:2] = more  # logic in between, and tables not in the order of their sizes
    return FactorGraphEnergy(groups, rng.normal(0, 1, (n_models, n_variables)).astype(dtype))


def make_logic(seed, n_models, scale, dtype):
    more = [OrFactors([[0, 3, 1]], [4]), AndFactors([[4], [2, 0]], [1, 3])]
    return make_factor_graph(seed, n_models, scale, dtype, more, zeros=1, n_variables=5)


def make_states(seed, n_models, scale, dtype, counts=(3, 2, 4, 2), scopes=SCOPES, zeros=0):
    """Variables with any number of states."""
    rng = np.random.default_rng(seed)
    tables = [rng.normal(0, scale, [counts[v] for v in scope]).astype(dtype) for scope in scopes]
    tables[-1].reshape(-1)[rng.integers(tables[-1].size, size=zeros)] = -np.inf
    field = rng.normal(0, 1, (n_models, len(counts), max(counts))).astype(dtype)
    return FactorGraphEnergy.from_tables(scopes, tables, field, n_states=list(counts))


def states_statistics(energy, state):
    """1 for the entry of each table that belongs to the state."""
    parts = []
    for part in energy.factors:
        for scope in part.variables:
            table = np.zeros(part.shape)
            table[tuple(int(state[v]) for v in scope)] = 1
            parts.append(table.ravel())
    return (np.concatenate(parts),)


def states_score(energy, n, state):
    return categorical.naive_score(energy, n, [int(k) for k in state])


def with_options(make, **options):
    return lambda *args: make(*args, **options)


# Layers, shape of the input, number of outputs and of their states, and further connections.
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


LAYERED_TREES = {
    "layered, one hidden layer": ([Dense(1)], (2,), 2, 2),
    "layered, three states": ([Dense(1, 3)], (2,), 2, 3),
}


def make_layered(layers, shape, n_outputs, n_states, *skips):
    def make(seed, n_models, scale, dtype):
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


PATH_OF_FIVE = np.array([[1, 0], [1, 1], [0, 1]])
STAR = np.eye(4) + np.eye(4)[:1].T @ np.ones((1, 4)) > 0
TREE_SCOPES = [[2, 0], [0], [3, 1, 2]]

CASES = [
    Case(
        "RBM",
        make_rbm,
        rbm_score,
        rbm_statistics,
        tree=with_options(make_rbm, edges=PATH_OF_FIVE),
    ),
    Case(
        "RBM, more hidden units",
        with_options(make_rbm, n_visible=2, n_hidden=3),
        rbm_score,
        rbm_statistics,
        tree=with_options(
            make_rbm, n_visible=2, n_hidden=3, edges=np.array([[1, 1, 0], [0, 1, 1]])
        ),
        column=False,
    ),
    Case(
        "one-hot RBM",
        with_options(make_rbm, kind=OneHotRBMEnergy),
        one_hot_score,
        rbm_statistics,
        independent=False,
    ),
    Case(
        "grouped RBM",
        make_grouped,
        grouped_score,
        rbm_statistics,
        tree=with_options(make_grouped, n_hidden=1),
        independent=False,
    ),
    Case(
        "grouped RBM, few vectors",
        with_options(make_grouped, n_classes=(1, 3), n_hidden=3),
        grouped_score,
        rbm_statistics,
        independent=False,
        column=False,
    ),
    Case(
        "Ising",
        make_ising,
        ising_score,
        ising_statistics,
        tree=with_options(make_ising, edges=STAR),
    ),
    Case(
        "sparse Ising",
        make_sparse_ising,
        sparse_ising_score,
        sparse_ising_statistics,
        tree=with_options(make_sparse_ising, n_edges=3),
    ),
    Case(
        "factor graph",
        make_factor_graph,
        naive_score,
        naive_statistics,
        tree=with_options(make_factor_graph, scopes=TREE_SCOPES),
    ),
    Case(
        "zeros and logic",
        make_logic,
        naive_score,
        naive_statistics,
        connected=False,
        independent=False,
    ),
    Case(
        "states",
        make_states,
        states_score,
        states_statistics,
        tree=with_options(make_states, scopes=TREE_SCOPES),
    ),
    Case(
        "states with zeros",
        with_options(make_states, zeros=3),
        states_score,
        states_statistics,
        connected=False,
        independent=False,
        column=False,
    ),
    *(
        Case(
            name,
            make_layered(*structure),
            layered_score,
            layered_statistics,
            tree=make_layered(*LAYERED_TREES[name]) if name in LAYERED_TREES else None,
            column=name == "layered, three states",
        )
        for name, structure in LAYERED.items()
    ),
]
# Cases whose variables, or units, all have two states.
BINARY = [case for case in CASES if case.score is not states_score]
