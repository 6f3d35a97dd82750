"""Random models of twenty families, on which searches for the best state are compared.

`FAMILIES` maps a name to a function of a random generator and of the size, which returns an energy.
The size 1 takes a search some seconds; the size .3 is for tests.
"""

import itertools

import numpy as np

from skcrbm.energies import (
    AndFactors,
    FactorGraphEnergy,
    IsingEnergy,
    OrFactors,
    SparseIsingEnergy,
    TableFactors,
)


def _side(size, full):
    return max(4, round(full * size**0.5))


def _lattice(shape):
    """Return the edges of a lattice with periodic boundaries."""
    site = np.arange(np.prod(shape)).reshape(shape)
    ends = [(site, np.roll(site, -1, axis)) for axis in range(len(shape))]
    return np.concatenate([np.column_stack([a.ravel(), b.ravel()]) for a, b in ends])


def _grid(side):
    """Return the edges of a square grid without periodic boundaries."""
    site = np.arange(side * side).reshape(side, side)
    ends = [(site[:, :-1], site[:, 1:]), (site[:-1], site[1:])]
    return np.concatenate([np.column_stack([a.ravel(), b.ravel()]) for a, b in ends])


def _graph(rng, n, n_edges):
    """Return the distinct edges of a random graph."""
    found = np.sort(rng.integers(n, size=(2 * n_edges, 2)), axis=1)
    found = np.unique(found[found[:, 0] < found[:, 1]], axis=0)
    return found[np.sort(rng.permutation(len(found))[:n_edges])]


def _scopes(rng, n, m, count):
    return np.array([rng.choice(n, m, replace=False) for _ in range(count)])


def spin_glass(rng, size):
    """Couplings of +1 and -1 on a torus."""
    side = _side(size, 60)
    edges = _lattice((side, side))
    return SparseIsingEnergy.from_edges(
        edges, rng.choice([-1.0, 1.0], len(edges)), np.zeros(side**2)
    )


def gaussian_glass(rng, size):
    """Draw normal couplings and fields on a torus."""
    side = _side(size, 60)
    edges = _lattice((side, side))
    return SparseIsingEnergy.from_edges(
        edges, rng.normal(size=len(edges)), 0.3 * rng.normal(size=side**2)
    )


def cubic_glass(rng, size):
    """Couplings of +1 and -1 on a cubic lattice."""
    side = max(4, round(10 * size ** (1 / 3)))
    edges = _lattice((side,) * 3)
    return SparseIsingEnergy.from_edges(
        edges, rng.choice([-1.0, 1.0], len(edges)), np.zeros(side**3)
    )


def dense_glass(rng, size):
    """Draw normal couplings between all spins."""
    n = max(20, round(150 * size))
    coupling = np.triu(rng.normal(size=(n, n)), 1) / n**0.5
    return IsingEnergy(coupling + coupling.T, np.zeros(n))


def sparse_glass(rng, size):
    """Couplings of +1 and -1 on a random graph."""
    n = round(2000 * size)
    edges = _graph(rng, n, 2 * n)
    return SparseIsingEnergy.from_edges(edges, rng.choice([-1.0, 1.0], len(edges)), np.zeros(n))


def random_fields(rng, size):
    """Ferromagnet in random fields."""
    side = _side(size, 60)
    edges = _lattice((side, side))
    return SparseIsingEnergy.from_edges(edges, np.ones(len(edges)), rng.normal(0, 1.5, side**2))


def maximum_cut(rng, size):
    """Maximum cut with weights."""
    n = max(20, round(300 * size))
    edges = _graph(rng, n, 6 * n)
    return SparseIsingEnergy.from_edges(edges, -rng.integers(1, 10, len(edges)), np.zeros(n))


def segmentation(rng, size):
    """Potts model of an image with noise."""
    side, k = _side(size, 40), 5
    truth = np.kron(rng.integers(k, size=(-(-side // 8),) * 2), np.ones((8, 8), int))[:side, :side]
    field = rng.normal(size=(side * side, k)) + 1.2 * (truth.reshape(-1, 1) == np.arange(k))
    return FactorGraphEnergy([TableFactors(_grid(side), 0.8 * np.eye(k))], field[None])


def stereo(rng, size):
    """Differences of labels cost up to a limit."""
    side, k = _side(size, 30), 8
    cost = np.minimum(np.abs(np.subtract.outer(np.arange(k), np.arange(k))), 3.0)
    return FactorGraphEnergy(
        [TableFactors(_grid(side), -0.7 * cost)], 1.5 * rng.normal(size=(1, side * side, k))
    )


def potts_glass(rng, size):
    """Random tables of three states on a grid."""
    side = _side(size, 25)
    edges = _grid(side)
    return FactorGraphEnergy([TableFactors(edges, rng.normal(size=(len(edges), 3, 3)))])


def colouring(rng, size):
    """Colour a random graph with few conflicts."""
    n, k = max(20, round(200 * size)), 4
    edges = _graph(rng, n, round(4.5 * n))
    return FactorGraphEnergy([TableFactors(edges, -np.eye(k))], 0.01 * rng.normal(size=(1, n, k)))


def scheduling(rng, size):
    """Assign jobs to times: some pairs of jobs exclude each other, the rest has preferences."""
    n, k = max(12, round(80 * size)), 12
    edges = _graph(rng, n, 3 * n)
    clash = np.where(np.eye(k) > 0, -np.inf, 0.0)
    near = -0.2 * np.abs(np.subtract.outer(np.arange(k), np.arange(k)))
    order = _graph(rng, n, 2 * n)
    return FactorGraphEnergy(
        [TableFactors(edges, clash), TableFactors(order, near)], rng.gumbel(size=(1, n, k))
    )


def independent_set(rng, size):
    """Seek the heaviest set of nodes without an edge."""
    n = max(30, round(400 * size))
    forbid = np.array([[0.0, 0.0], [0.0, -np.inf]])
    return FactorGraphEnergy(
        [TableFactors(_graph(rng, n, 4 * n), forbid)], rng.uniform(0.5, 1.5, (1, n))
    )


def satisfiability(rng, size):
    """As many satisfied clauses of three literals as possible."""
    n = max(20, round(200 * size))
    scopes = _scopes(rng, n, 3, round(5.5 * n))
    tables = np.zeros((len(scopes), 8))
    tables[np.arange(len(scopes)), rng.integers(8, size=len(scopes))] = -1.0
    return FactorGraphEnergy([TableFactors(scopes, tables.reshape(-1, 2, 2, 2))])


def triples(rng, size):
    """Random tables of three variables with three states."""
    n = max(12, round(80 * size))
    scopes = _scopes(rng, n, 3, 2 * n)
    return FactorGraphEnergy([TableFactors(scopes, rng.normal(size=(len(scopes), 3, 3, 3)))])


def pedigree(rng, size):
    """Genes of children are copies of the genes of their parents; some genes are observed."""
    n, k = max(30, round(250 * size)), 4
    scopes = [[*rng.choice(range(max(0, v - 30), v), 2, replace=False), v] for v in range(8, n)]
    table = np.zeros((k, k, k))
    for a, b in itertools.product(range(k), repeat=2):
        table[a, b, a] += 0.5
        table[a, b, b] += 0.5
    with np.errstate(divide="ignore"):
        table = np.log(table)
    field = np.log(rng.dirichlet(np.ones(k), n))
    state = np.zeros(n, int)
    state[:8] = rng.integers(k, size=8)
    for a, b, v in scopes:
        state[v] = state[rng.choice([a, b])]
    seen = rng.choice(n, n // 4, replace=False)
    field[seen, state[seen]] += 6.0
    return FactorGraphEnergy([TableFactors(np.array(scopes), table)], field[None])


def diagnosis(rng, size):
    """Explain findings by the OR of diseases, as in medical networks."""
    n, m = max(10, round(60 * size)), max(15, round(120 * size))
    causes = [rng.choice(n, rng.integers(2, 5), replace=False) for _ in range(m)]
    logic = OrFactors(causes, n + np.arange(m))
    field = np.concatenate([rng.normal(-2.0, 0.5, n), rng.choice([3.0, -3.0], m, p=[0.4, 0.6])])
    return FactorGraphEnergy([logic], field[None])


def circuit(rng, size):
    """Gates whose inputs and outputs have preferences."""
    n, m = max(10, round(80 * size)), max(20, round(160 * size))
    ors, ands = ([], []), ([], [])
    for out in range(n, n + m):
        kind = ors if rng.random() < 0.5 else ands
        kind[0].append(rng.choice(out, 3, replace=False))
        kind[1].append(out)
    field = rng.normal(size=n + m)
    return FactorGraphEnergy([OrFactors(*ors), AndFactors(*ands)], field[None])


def detection(rng, size):
    """All pairs of parts have random tables."""
    n, k = max(8, round(35 * size)), 10
    pairs = list(itertools.combinations(range(n), 2))
    return FactorGraphEnergy(
        [TableFactors(pairs, rng.normal(size=(len(pairs), k, k)))], rng.normal(size=(1, n, k))
    )


def matching(rng, size):
    """Match points to points, without two points in one place."""
    n = max(6, round(16 * size**0.5))
    pairs = list(itertools.combinations(range(n), 2))
    tables = rng.gamma(1.0, 1.0, (len(pairs), n, n))
    tables[:, np.arange(n), np.arange(n)] = -np.inf
    return FactorGraphEnergy([TableFactors(pairs, tables)], rng.normal(size=(1, n, n)))


def side_chains(rng, size):
    """Variables with many states in a geometric graph, as in protein folding."""
    n = max(10, round(60 * size))
    place = rng.random((n, 2))
    far = np.square(place[:, None] - place).sum(axis=2)
    edges = np.argwhere(np.triu(far < np.sort(far.ravel())[n + 7 * n], 1))
    counts = rng.integers(2, 20, n)
    scopes = [*edges.tolist(), *([v] for v in range(n))]
    tables = [-rng.gamma(0.3, 3.0, [counts[v] for v in scope]) for scope in scopes]
    return FactorGraphEnergy.from_tables(scopes, tables, n_states=counts.tolist())


def tree(rng, size):
    """Make a large tree, on which max-product is exact."""
    n, k = round(3000 * size), 4
    edges = np.array([[rng.integers(max(0, v - 50), v), v] for v in range(1, n)])
    return FactorGraphEnergy(
        [TableFactors(edges, rng.normal(size=(n - 1, k, k)))], rng.normal(size=(1, n, k))
    )


FAMILIES = {
    made.__name__: made
    for made in (
        spin_glass, gaussian_glass, cubic_glass, dense_glass, sparse_glass, random_fields,
        maximum_cut, segmentation, stereo, potts_glass, colouring, scheduling, independent_set,
        satisfiability, triples, pedigree, diagnosis, circuit, detection, matching, side_chains,
        tree,
    )
}  # fmt: skip
