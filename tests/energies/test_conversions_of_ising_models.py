"""Ising models from dicts, matrices, networkx and dimod, and back; advice about matrices."""

import pickle
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from skcrbm.energies import IsingEnergy, SparseIsingEnergy
from skcrbm.inference import infer

H = {"a": 0.5, ("b", 1): -1.0, 3: 0.0}
J = {("a", 3): 2.0, (("b", 1), "a"): -0.7, (3, "a"): 0.25, ("d", 3): 1.5}
STATES = (np.arange(16)[:, None] >> np.arange(4)) & 1


def energy_of(h, J, offset, spins):
    return (
        offset
        + sum(value * spins[label] for label, value in h.items())
        + sum(value * spins[i] * spins[k] for (i, k), value in J.items())
    )


def energies(energy, states):
    """Energy of each state: the offset minus the score."""
    return energy.offset - energy.rows(np.zeros(len(states), int)).score(states)


def test_the_sign_is_the_sign_of_an_energy_that_is_minimised():
    energy = SparseIsingEnergy.from_ising(H, J, 0.3)
    assert energy.labels == ("a", ("b", 1), 3, "d")
    expected = [
        energy_of(H, J, 0.3, dict(zip(energy.labels, 2 * state - 1, strict=True)))
        for state in STATES
    ]
    np.testing.assert_allclose(energies(energy, STATES), expected)
    best = infer(energy, "exact", returns="map").assignment
    assert energies(energy, best)[0] == pytest.approx(min(expected))


def test_labels_stay_with_the_energy():
    energy = SparseIsingEnergy.from_ising(H, J, 0.3)
    for other in (
        energy.condition([1, np.nan, np.nan, np.nan]),
        energy.rows([0, 0]),
        energy.scaled(0.5),
        energy.with_fields(energy.field + 1),
        pickle.loads(pickle.dumps(energy)),
    ):
        assert other.labels == energy.labels
        assert other.offset == 0.3
    assert SparseIsingEnergy.from_edges([[0, 1]], 1.0, [0, 0]).labels is None


def test_there_and_back():
    energy = SparseIsingEnergy.from_ising(H, J, 0.3)
    h, couplings, offset = energy.to_ising()
    assert h == H | {"d": 0.0}
    assert len(couplings) == 3
    again = SparseIsingEnergy.from_ising(h, couplings, offset)
    np.testing.assert_array_equal(again.edges, energy.edges)
    np.testing.assert_array_equal(again.edge_coupling, energy.edge_coupling)
    np.testing.assert_array_equal(again.field, energy.field)
    assert again.offset == energy.offset


def test_fields_as_an_array():
    energy = SparseIsingEnergy.from_ising([0.5, 0.0, -1.0], {(0, 2): 1.0})
    assert energy.labels == (0, 1, 2)
    np.testing.assert_array_equal(energy.field, [[-0.5, 0, 1]])
    empty = SparseIsingEnergy.from_ising({}, {})
    assert empty.labels == ()
    assert empty.n_variables == 0


@pytest.mark.parametrize(
    ("h", "couplings", "message"),
    [
        ({"a": np.nan}, {}, "h must be finite"),
        ({"a": "b"}, {}, "h must hold numbers"),
        ({}, {("a", "b"): np.inf}, "J must be finite"),
        ({}, {("a", "a"): 1.0}, "joins 'a' to itself"),
        ({}, {"ab": 1.0}, "pairs of labels as keys, got 'ab'"),
        ({}, [("a", "b")], "J must be a mapping"),
    ],
)
def test_errors_of_dicts(h, couplings, message):
    with pytest.raises(ValueError, match=message):
        SparseIsingEnergy.from_ising(h, couplings)


@pytest.mark.parametrize("kind", ["SPIN", "BINARY"])
def test_binary_quadratic_models_by_their_attributes(kind):
    bqm = SimpleNamespace(linear=H, quadratic=J, offset=0.3, vartype=SimpleNamespace(name=kind))
    energy = SparseIsingEnergy.from_bqm(bqm)
    for state, found in zip(STATES, energies(energy, STATES), strict=True):
        values = state if kind == "BINARY" else 2 * state - 1
        values = dict(zip(energy.labels, values.tolist(), strict=True))
        assert found == pytest.approx(energy_of(H, J, 0.3, values))
    bqm.vartype = "INTEGER"
    with pytest.raises(
        ValueError, match="vartype SPIN or BINARY, got SimpleNamespace with vartype"
    ):
        SparseIsingEnergy.from_bqm(bqm)


@pytest.mark.parametrize("kind", ["SPIN", "BINARY"])
def test_models_of_dimod(kind):
    dimod = pytest.importorskip("dimod")
    bqm = dimod.BinaryQuadraticModel(H, J, 0.3, kind)
    energy = SparseIsingEnergy.from_bqm(bqm)
    assert energy.labels == tuple(bqm.variables)
    samples = [
        dict(zip(energy.labels, (s if kind == "BINARY" else 2 * s - 1).tolist(), strict=True))
        for s in STATES
    ]
    np.testing.assert_allclose(energies(energy, STATES), [bqm.energy(s) for s in samples])
    back = dimod.BinaryQuadraticModel.from_ising(*energy.to_ising())
    spins = [dict(zip(energy.labels, (2 * s - 1).tolist(), strict=True)) for s in STATES]
    np.testing.assert_allclose(energies(energy, STATES), [back.energy(s) for s in spins])
    best = dimod.ExactSolver().sample(bqm).first.energy
    found = infer(energy, "exact", returns="map").assignment
    assert energies(energy, found)[0] == pytest.approx(best)


class Graph:
    """The part of networkx's interface that is used."""

    def __init__(self, nodes, edges, kind=""):
        self._nodes, self._edges, self.kind = nodes, edges, kind

    def is_directed(self):
        return self.kind == "directed"

    def is_multigraph(self):
        return self.kind == "multigraph"

    def nodes(self, data):
        return self._nodes

    def edges(self, data):
        return self._edges


def check_graph(graph):
    energy = SparseIsingEnergy.from_networkx(graph)
    assert energy.labels == ("x", "y", "z")
    np.testing.assert_array_equal(energy.edges, [[0, 2], [1, 2]])
    np.testing.assert_array_equal(energy.edge_coupling, [1.0, 0.7])
    np.testing.assert_array_equal(energy.field, [[0.0, 0.5, 0.0]])
    other = SparseIsingEnergy.from_networkx(graph, weight="strength", field="bias")
    np.testing.assert_array_equal(other.edge_coupling, [-2.0, 1.0])
    np.testing.assert_array_equal(other.field, [[3.0, 0.0, 0.0]])


NODES = [("x", {"bias": 3.0}), ("y", {"field": 0.5}), ("z", {})]
EDGES = [
    ("y", "z", {"weight": 0.7, "strength": 1.0}),
    ("z", "x", {"weight": 1.0, "strength": -2.0}),
]


def test_graphs_by_their_methods():
    check_graph(Graph(NODES, EDGES))
    for kind in ("directed", "multigraph"):
        with pytest.raises(ValueError, match="graph must be undirected, with at most one edge"):
            SparseIsingEnergy.from_networkx(Graph(NODES, EDGES, kind))
    loop = Graph(NODES, [("x", "x", {})])
    with pytest.raises(ValueError, match="joins 'x' to itself"):
        SparseIsingEnergy.from_networkx(loop)


def test_graphs_of_networkx():
    networkx = pytest.importorskip("networkx")
    graph = networkx.Graph()
    graph.add_nodes_from(NODES)
    graph.add_edges_from(EDGES)
    check_graph(graph)


# ---------------------------------------------------------------------- matrices

UPPER = np.array([[0, 0.5, 0], [0, 0, -1.2], [0, 0, 0]])
FIELD = np.array([0.1, 0.2, -0.3])


@pytest.mark.parametrize("as_matrix", [np.asarray, sparse.csr_array, sparse.coo_matrix])
@pytest.mark.parametrize("transpose", [False, True])
def test_triangles(as_matrix, transpose):
    triangle = as_matrix(UPPER.T if transpose else UPPER)
    energy = SparseIsingEnergy.from_triangle(triangle, FIELD)
    np.testing.assert_array_equal(energy.coupling.toarray(), UPPER + UPPER.T)
    y = np.array([1, -1, -1])
    expected = FIELD @ y + y @ UPPER @ y
    np.testing.assert_allclose(energy.score([(y + 1) // 2]), expected)


def test_errors_of_triangles():
    with pytest.raises(ValueError, match=r"hold each pair once, but both \(0, 1\) and \(1, 0\)"):
        SparseIsingEnergy.from_triangle(UPPER + UPPER.T)
    with pytest.raises(ValueError, match="zero diagonal"):
        SparseIsingEnergy.from_triangle(UPPER + np.eye(3))
    with pytest.raises(ValueError, match=r"shape \(L, L\)"):
        SparseIsingEnergy.from_triangle(UPPER[:2])


@pytest.mark.parametrize("kind", [IsingEnergy, SparseIsingEnergy])
def test_advice_about_a_coupling_that_is_not_symmetric(kind):
    """The advice gives the model that the matrix most likely stands for."""
    for name, matrix in (("an upper", UPPER), ("a lower", UPPER.T)):
        with pytest.raises(ValueError, match=rf"got {name} triangle.* pass coupling \+ coupling.T"):
            kind(matrix, FIELD)
    y = np.array([1, -1, -1])
    state = [(y + 1) // 2]
    np.testing.assert_allclose(kind(UPPER + UPPER.T, FIELD).score(state), FIELD @ y + y @ UPPER @ y)
    other = UPPER + 0.3 * UPPER.T
    with pytest.raises(ValueError, match=r"\(coupling \+ coupling.T\) / 2 for the score"):
        kind(other, FIELD)
    half, whole = kind((other + other.T) / 2, FIELD), kind(other + other.T, FIELD)
    np.testing.assert_allclose(half.score(state), FIELD @ y + y @ other @ y / 2)
    np.testing.assert_allclose(whole.score(state), FIELD @ y + y @ other @ y)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", [IsingEnergy, SparseIsingEnergy])
def test_rounding_does_not_break_symmetry(kind, dtype):
    rng = np.random.RandomState(0)
    factor = rng.normal(size=(20, 50)).astype(dtype)
    matrix = (factor @ factor.T).astype(dtype)
    np.fill_diagonal(matrix, 0)
    matrix[3, 4] = np.nextafter(matrix[4, 3], dtype(np.inf))
    given = matrix.copy()
    energy = kind(matrix, np.zeros(20, dtype))
    found = energy.coupling if kind is IsingEnergy else energy.coupling.toarray()
    np.testing.assert_array_equal(found, found.T)
    np.testing.assert_allclose(found, given, rtol=1e-6)
    np.testing.assert_array_equal(matrix, given)  # left as it is
    matrix[3, 4] *= 1.01
    with pytest.raises(ValueError, match="must be symmetric"):
        kind(matrix, np.zeros(20, dtype))


class _Items:
    """A mapping that has only `items`."""

    def __init__(self, pairs):
        self._pairs = pairs

    def items(self):
        return iter(self._pairs)


def test_anything_with_items_is_a_mapping():
    """Labels are read from the index of a Series, in any order."""
    h, J = {"b": 0.5, "a": -1.0}, {("a", "b"): 2.0, ("b", "c"): 1.0}
    expected = IsingEnergy.from_ising(h, J)
    pairs = pd.MultiIndex.from_tuples(list(J))
    for fields in (pd.Series(h), _Items(h.items()), h):
        for couplings in (pd.Series(list(J.values()), pairs), _Items(list(J.items())), J):
            found = IsingEnergy.from_ising(fields, couplings)
            assert found.labels == expected.labels == ("b", "a", "c")
            np.testing.assert_array_equal(found.field, expected.field)
            np.testing.assert_array_equal(found.coupling.toarray(), expected.coupling.toarray())
    numbered = IsingEnergy.from_ising(pd.Series([1.0, 2.0], index=[3, 7]), {(3, 7): 1.0})
    assert numbered.labels == (3, 7)
    with pytest.raises(ValueError, match="h must hold each label once, but it holds 'a' twice"):
        IsingEnergy.from_ising(pd.Series([1.0, 2.0], index=["a", "a"]), {})
    with pytest.raises(ValueError, match="J must have pairs of labels as keys"):
        IsingEnergy.from_ising(h, pd.Series([1.0], index=["ab"]))


def test_edges_without_the_named_attribute():
    networkx = pytest.importorskip("networkx")
    graph = networkx.path_graph(3)
    np.testing.assert_array_equal(IsingEnergy.from_networkx(graph).edge_coupling, [1, 1])
    with pytest.raises(ValueError, match=r"weight='J' must be an attribute of all edges; .*\(0, 1"):
        IsingEnergy.from_networkx(graph, weight="J")
    with pytest.raises(ValueError, match="field='h' must be an attribute of nodes"):
        IsingEnergy.from_networkx(graph, field="h")
    graph.edges[0, 1]["weight"] = 2.0
    with pytest.raises(ValueError, match=r"attribute of all edges; edge \(1, 2\) does not have it"):
        IsingEnergy.from_networkx(graph)
    graph.edges[1, 2]["weight"] = -1.0
    graph.nodes[1]["h"] = 0.5
    energy = IsingEnergy.from_networkx(graph, field="h")
    np.testing.assert_array_equal(energy.edge_coupling, [2, -1])
    np.testing.assert_array_equal(energy.field, [[0, 0.5, 0]])
