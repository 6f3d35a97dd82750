"""GraphDisplay, and tables of results."""

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from scipy import sparse

from skcrbm.energies import FactorGraphEnergy, IsingEnergy, RBMEnergy, SparseIsingEnergy
from skcrbm.inference import infer
from skcrbm.inspection import GraphDisplay

mpl.use("Agg")
TABLES = [((0, 1, 2), np.arange(8.0).reshape(2, 2, 2)), ((2, 3), np.eye(2))]


@pytest.fixture(autouse=True)
def closed_figures():
    yield
    plt.close("all")


def chain(k=3):
    rng = np.random.default_rng(0)
    tables = [((i, i + 1), rng.normal(size=(k, k))) for i in range(3)]
    return FactorGraphEnergy.from_tables(*zip(*tables), n_states=k)


def test_variables_of_a_factor_are_joined_and_coloured_by_their_marginals():
    energy = FactorGraphEnergy.from_tables(*zip(*TABLES))
    result = infer(energy, "exact")
    display = GraphDisplay.from_energy(energy, result, labels=list("abcd"))
    assert display.edges.tolist() == [[0, 1], [0, 2], [1, 2], [2, 3]]
    circles = [p for p in display.ax_.patches if isinstance(p, mpl.patches.Circle)]
    expected = mpl.colormaps["viridis"](result.marginals[0])
    np.testing.assert_allclose([c.get_facecolor() for c in circles], expected)
    assert [t.get_text() for t in display.ax_.texts] == list("abcd")
    assert len(display.ax_.lines) == 4
    assert display.positions_.min() >= -1e-9
    assert display.positions_.max() <= 1 + 1e-9
    near = np.linalg.norm(np.diff(display.positions_[[2, 3]], axis=0))
    assert near < np.linalg.norm(np.diff(display.positions_[[0, 3]], axis=0))


def test_pies_show_the_probability_of_each_state():
    energy = chain()
    result = infer(energy, "exact")
    display = GraphDisplay.from_energy(energy, result)
    pies = [p for p in display.ax_.patches if isinstance(p, mpl.patches.Wedge)]
    angles = np.array([p.theta2 - p.theta1 for p in pies]).reshape(4, 3)
    np.testing.assert_allclose(angles / 360, result.marginals[0], atol=1e-9)


@pytest.mark.parametrize(
    ("energy", "edges"),
    [
        (
            IsingEnergy(np.array([[0, 1.0, 0], [1, 0, 2], [0, 2, 0]]), np.zeros((1, 3))),
            [[0, 1], [1, 2]],
        ),
        (SparseIsingEnergy(sparse.csr_array([[0, 1.0], [1, 0]])), [[0, 1]]),
        (RBMEnergy(np.array([[1.0], [0.0]]), np.zeros((1, 2)), np.zeros((1, 1))), [[0, 2]]),
    ],
    ids=["ising", "sparse", "rbm"],
)
def test_edges_of_other_energies(energy, edges):
    assert np.asarray(GraphDisplay.from_energy(energy).edges).tolist() == edges


def test_positions_and_errors():
    energy = FactorGraphEnergy.from_tables(*zip(*TABLES))
    square = {"a": (0, 0), "b": (2, 0), "c": (2, 2), "d": (0, 2)}
    display = GraphDisplay.from_energy(energy, labels=list("abcd"), positions=square)
    np.testing.assert_allclose(display.positions_, [[0, 0], [1, 0], [1, 1], [0, 1]])
    with pytest.raises(ValueError, match="positions must have the shape"):
        GraphDisplay([[0, 1]], positions=np.zeros((3, 2))).plot()
    with pytest.raises(ValueError, match="labels must have 4 entries"):
        GraphDisplay.from_energy(energy, labels=["a"])
    with pytest.raises(ValueError, match="at most 300"):
        GraphDisplay.from_energy(SparseIsingEnergy(sparse.csr_array((301, 301))))
    with pytest.raises(ValueError, match="result must contain the marginals"):
        GraphDisplay.from_energy(energy, infer(energy, "exact", returns="map"))
    with pytest.raises(ValueError, match="energy must be a FactorGraphEnergy"):
        GraphDisplay.from_energy(type("Other", (), {"n_variables": 2})())


def test_a_result_becomes_a_table():
    energy = FactorGraphEnergy.from_tables(*zip(*TABLES))
    result = infer(energy, "exact", returns=("marginals", "map"))
    frame = result.to_frame(labels=list("abcd"))
    assert frame.index.tolist() == list("abcd")
    np.testing.assert_array_equal(frame["marginal"], result.marginals[0])
    np.testing.assert_array_equal(frame["assignment"], result.assignment[0])
    frame = infer(chain(), "exact").to_frame()
    assert frame.columns.tolist() == ["P(0)", "P(1)", "P(2)"]
    np.testing.assert_allclose(frame.sum(axis=1), 1)
    several = infer(SparseIsingEnergy(sparse.csr_array([[0, 1.0], [1, 0]]), np.eye(3, 2)), "exact")
    assert several.to_frame().loc[(2, 1), "marginal"] == several.marginals[2, 1]
    with pytest.raises(ValueError, match="labels must have 4 entries"):
        result.to_frame(labels=["a"])
    with pytest.raises(ValueError, match="needs a result with marginals"):
        infer(energy, "exact", returns="log_partition").to_frame()
