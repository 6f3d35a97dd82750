"""Random models of every kind, from harmless to extreme, small enough to enumerate."""

from dataclasses import dataclass
from typing import Any

import numpy as np

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
from skcrbm.layers import Conv2d, Dense, Local2d

COUPLINGS = (0.0, 0.1, 1.0, 1.0, 3.0, 10.0, 30.0, 60.0, 150.0, 500.0)
FIELDS = (0.0, 1.0, 1.0, 5.0, 50.0, 1e3, 1e6)
HUGE = (1e9, 1e16, 1e22, 1e29, 1e30)
BEYOND = (1.1e30, 1e33, 1e35)


@dataclass(frozen=True)
class Model:
    """A batch of models and facts about it.

    Attributes
    ----------
    energy : BaseEnergy
        Without evidence.
    arrays : tuple of ndarray
        From which `build` makes it.
    build : callable
    tree : bool
        Whether its graph has no loop.
    served : bool
        Whether all of its numbers are of a size that `infer` serves.
    """

    energy: Any
    arrays: tuple
    build: Any
    tree: bool
    served: bool


def draw_model(rng, n_models):
    """Draw a model of one of the kinds."""
    return KINDS[rng.integers(len(KINDS))](rng, n_models)


def _dtype(rng):
    return np.dtype(rng.choice([np.float32, np.float64]))


def _couplings(rng, shape):
    """Couplings of one scale, some of them 0, or all of one size."""
    scale = rng.choice(COUPLINGS)
    if rng.random() < 0.2:
        return scale * rng.choice([-1.0, 0.0, 1.0], shape)
    found = rng.normal(0, scale, shape).clip(-500, 500)
    if rng.random() < 0.3:
        found *= rng.random(shape) < 0.5
    return found


class _Fields:
    """Fields of one scale; a few are huge, or larger than the package accepts."""

    def __init__(self, rng):
        self.rng, self.served = rng, True
        self.scale = rng.choice(FIELDS)
        self.some = rng.random()

    def __call__(self, *shape):
        rng = self.rng
        field = rng.normal(0, self.scale, shape)
        if self.some > 0.8:  # equal fields, whose messages cancel
            field = min(self.scale, 5.0) * rng.choice([-1.0, 0.0, 1.0], shape)
        if field.size and self.some < 0.12:
            where = rng.random(shape) < 0.3
            field[where] = (rng.choice([-1.0, 1.0], shape) * rng.choice(HUGE, shape))[where]
        elif field.size and self.some < 0.15:
            field.flat[rng.integers(field.size)] = rng.choice(BEYOND) * rng.choice([-1, 1])
            self.served = False
        return field


def _model(rng, build, arrays, tree, served):
    dtype = _dtype(rng)
    arrays = tuple(array.astype(dtype) for array in arrays)
    return Model(build(*arrays), arrays, build, tree, served)


def _no_loop(n, edges):
    """Whether a graph of n nodes has no loop."""
    root = list(range(n))

    def find(i):
        while root[i] != i:
            i = root[i]
        return i

    for i, k in edges:
        a, b = find(i), find(k)
        if a == b:
            return False
        root[a] = b
    return True


def _tree_edges(rng, n):
    """Edges of a random tree, or a forest."""
    edges = [(i, int(rng.integers(i))) for i in range(1, n)]
    return [edge for edge in edges if rng.random() < 0.9]


def draw_rbm(rng, n_models, kind=RBMEnergy):
    v, h = int(rng.integers(1, 6)), int(rng.integers(0, 5))
    weights = _couplings(rng, (v, h))
    if rng.random() < 0.4:  # a tree
        order = rng.permutation(v + h)
        mask, joined = np.zeros((v, h), bool), []
        for edge in ((order[i], order[k]) for i in range(v + h) for k in range(i)):
            i, k = min(edge), max(edge)
            if i < v <= k and rng.random() < 0.8 and _no_loop(v + h, [*joined, (i, k)]):
                joined.append((i, k))
                mask[i, k - v] = True
        weights = weights * mask
    field = _Fields(rng)
    arrays = weights, field(n_models, v), field(n_models if rng.random() < 0.8 else 1, h)
    tree = _no_loop(v + h, [(i, v + j) for i, j in np.argwhere(weights)])
    return _model(rng, kind, arrays, tree, field.served)


def draw_one_hot(rng, n_models):
    return draw_rbm(rng, n_models, OneHotRBMEnergy)


def _ising_edges(rng, n):
    if rng.random() < 0.5:
        return _tree_edges(rng, n)
    share = rng.choice([0.4, 1.0])
    return [(i, k) for i in range(n) for k in range(i) if rng.random() < share]


def draw_ising(rng, n_models):
    n = int(rng.integers(1, 8))
    edges = _ising_edges(rng, n)
    coupling = np.zeros((n, n))
    for (i, k), s in zip(edges, _couplings(rng, len(edges))):
        coupling[i, k] = coupling[k, i] = s
    field = _Fields(rng)
    tree = _no_loop(n, np.argwhere(np.triu(coupling, 1)))
    return _model(rng, IsingEnergy, (coupling, field(n_models, n)), tree, field.served)


def draw_sparse_ising(rng, n_models):
    n = int(rng.integers(2, 9))
    edges = _ising_edges(rng, n)[:14]
    field = _Fields(rng)

    def build(weights, field):
        return SparseIsingEnergy.from_edges(np.reshape(edges, (-1, 2)), weights, field)

    arrays = _couplings(rng, len(edges)), field(n_models, n)
    return _model(rng, build, arrays, _no_loop(n, edges), field.served)


def draw_factor_graph(rng, n_models):
    """Tables of one to four variables; with weights of zero, ORs and ANDs some of the time."""
    n = int(rng.integers(2, 8))
    scopes, edges, hard = [], [], rng.random() < 0.3
    pairs = rng.random() < 0.4
    if rng.random() < 0.5:
        scopes = [[i, k] for i, k in _tree_edges(rng, n)] + [[i] for i in range(0, n, 2)]
        pairs, n_more = True, 0
    else:
        n_more = int(rng.integers(1, 6))
    for _ in range(n_more):
        k = int(rng.integers(1, 1 + min(n, 2 if pairs else 4)))
        scopes.append([int(i) for i in rng.permutation(n)[:k]])
    for number, scope in enumerate(scopes):
        edges += [(i, n + number) for i in scope]
    tables = [_couplings(rng, 2 ** len(scope)) for scope in scopes]
    for table in tables:
        if hard and len(table) > 2 and rng.random() < 0.5:
            table[rng.integers(len(table))] = -np.inf
    logic = []
    if hard and n > 3 and not pairs:
        for kind in (OrFactors, AndFactors):
            order = [int(i) for i in rng.permutation(n)]
            logic.append((kind, order[: n - 2], order[n - 1]))
            edges += [(i, n + len(scopes) + len(logic)) for i in (*order[: n - 2], order[n - 1])]
    field = _Fields(rng)

    def build(field, *tables):
        groups = [TableFactors([scope], [t]) for scope, t in zip(scopes, tables)]
        groups += [kind([inputs], [output]) for kind, inputs, output in logic]
        return FactorGraphEnergy(groups, field)

    tree = _no_loop(n + len(scopes) + len(logic) + 1, edges)
    return _model(rng, build, (field(n_models, n), *tables), tree, field.served)


_LAYERED = (
    ([Dense(2), Dense(1)], (2,), 2, 2),
    ([Dense(2)], (2,), 2, 2),
    ([Local2d(2, 1, 1), Local2d(2, (1, 2), 1)], (1, 2), 1, 2),
    ([Conv2d(2, 1, 1), Conv2d(2, 1, 1)], (1, 2), 1, 2),
    ([Dense(1, 3)], (2,), 1, 3),
    ([], (2,), 2, 3),
)


def draw_layered(rng, n_models):
    layers, shape, n_outputs, n_states = _LAYERED[rng.integers(len(_LAYERED))]
    structure = LayeredStructure(layers, shape, 2, n_outputs, n_states)
    scale = rng.choice([0.1, 1.0, 5.0])
    weights = [rng.normal(0, scale, c.n_weights) for c in structure.connections[1:]]
    n_units = sum(n * (k - 1) for n, k in zip(structure.n_nodes[1:], structure.n_states[1:]))
    field = _Fields(rng)
    field.scale = scale

    def build(field, *weights):
        return LayeredEnergy(structure, list(weights), field)

    return _model(rng, build, (field(n_models, n_units), *weights), False, field.served)


KINDS = (
    draw_rbm,
    draw_rbm,
    draw_one_hot,
    draw_ising,
    draw_ising,
    draw_sparse_ising,
    draw_factor_graph,
    draw_factor_graph,
    draw_layered,
)
