"""Series, data frames and mappings are read by the labels of the variables, in any order."""

import itertools

import numpy as np
import pandas as pd
import polars as pl
import pytest

from skcrbm.energies import (
    FactorGraphEnergy,
    IsingEnergy,
    LayeredEnergy,
    LayeredStructure,
    OneHotRBMEnergy,
    RBMEnergy,
    SparseIsingEnergy,
    TableFactors,
    write_uai_evidence,
    write_uai_solution,
)
from skcrbm.inference import estimate_log_partition, infer, sample
from skcrbm.layers import Dense

NAMES, HIDDEN = ["a", "b", "c"], ["h", "k"]
ORDER = ["c", "a", "b"]
S = np.array([[0, 1, 0.5], [1, 0, -1], [0.5, -1, 0]])
F, G = np.array([0.1, 0.7, -0.4]), np.array([0.3, -0.2])
W = np.array([[1.0, -1.0], [0.5, 2.0], [0.3, 0.1]])
EDGES, J = [[0, 1], [1, 2]], [1.0, -2.0]
LAYERS = LayeredStructure([Dense(1)], (2,), 2, 1, 3)
TABLES = np.arange(8.0).reshape(2, 2, 2) % 3
STATES = np.arange(9.0).reshape(3, 3) % 4
FRAME = pd.DataFrame(S, NAMES, NAMES)
SERIES = pd.Series(F, NAMES)


def graph(field):
    return FactorGraphEnergy([TableFactors(EDGES, TABLES)], field)


def graph_of_states(field):
    return FactorGraphEnergy([TableFactors(EDGES, STATES)], field)


# Name: the energy of arrays, the same energy with the labels of NAMES, and forms of its arguments
# in another order.
ISING = IsingEnergy(S, F)
PAIRS = pd.Series(J, pd.MultiIndex.from_tuples([(0, 1), (1, 2)]))
MAKE = {
    "Ising": (ISING, lambda: IsingEnergy(FRAME, SERIES[ORDER])),
    "Ising, frame": (ISING, lambda: IsingEnergy(FRAME, SERIES[ORDER].to_frame().T)),
    "Ising, columns": (ISING, lambda: IsingEnergy(FRAME[ORDER], SERIES[ORDER])),
    "Ising, mapping": (ISING, lambda: IsingEnergy(FRAME[ORDER], SERIES[ORDER].to_dict())),
    "Ising, positions": (ISING, lambda: IsingEnergy(S, SERIES)),
    "Ising, polars": (ISING, lambda: IsingEnergy(FRAME, pl.DataFrame(SERIES[ORDER].to_dict()))),
    "sparse": (SparseIsingEnergy(S, F), lambda: SparseIsingEnergy(FRAME[ORDER], SERIES[ORDER])),
    "triangle": (
        IsingEnergy.from_triangle(np.triu(S), F),
        lambda: IsingEnergy.from_triangle(pd.DataFrame(np.triu(S), NAMES, NAMES)[ORDER], SERIES),
    ),
    "edges": (
        IsingEnergy.from_edges(EDGES, J, F),
        lambda: IsingEnergy.from_edges(EDGES, PAIRS[::-1], SERIES),
    ),
    "from_ising": (
        IsingEnergy.from_edges(EDGES, J, F),
        lambda: IsingEnergy.from_ising(-SERIES, {("b", "a"): -1, ("b", "c"): 2}),
    ),
    "graph": (graph(F), lambda: graph(SERIES)),
    "graph of an Ising model": (
        FactorGraphEnergy.from_energy(ISING),
        lambda: FactorGraphEnergy.from_energy(IsingEnergy(FRAME, SERIES[ORDER])),
    ),
    "states": (graph_of_states(S), lambda: graph_of_states(pd.DataFrame(S, NAMES))),
    "layered": (
        LayeredEnergy(LAYERS, [[1.0, 2.0]], F, G[:1].repeat(3)),
        lambda: LayeredEnergy(LAYERS, [[1.0, 2.0]], SERIES, dict.fromkeys(ORDER, 0.3)),
    ),
}
KINDS = {"RBM": RBMEnergy, "one-hot RBM": OneHotRBMEnergy}
for name, kind in KINDS.items():
    MAKE[name] = (
        kind(W, F, G),
        lambda kind=kind: kind(
            pd.DataFrame(W, NAMES, HIDDEN), SERIES[ORDER], pd.Series(G, HIDDEN)[::-1]
        ),
    )
    MAKE[f"{name}, visible"] = kind(W, F, G), lambda kind=kind: kind(W, SERIES, G)


def labels_of(energy):
    return [*NAMES, *HIDDEN][: energy.n_variables] if energy.labels[-1] != 4 else [*NAMES, 3, 4]


@pytest.mark.parametrize("name", MAKE)
def test_arguments_with_labels(name):
    plain, make = MAKE[name]
    energy = make()
    assert plain.labels is None
    labels = labels_of(energy)
    assert energy.labels == tuple(labels)
    for one, two in zip(
        [*plain.fields, *plain.couplings], [*energy.fields, *energy.couplings], strict=True
    ):
        np.testing.assert_array_equal(one, two)
    n = energy.n_variables
    order = np.random.default_rng(0).permutation(n)
    values = np.where(np.arange(n) < 1, 0.0, np.nan)
    expected = infer(plain, "exact", clamp=values).marginals
    series = pd.Series(values[order], [labels[i] for i in order])
    forms = [series, series.dropna(), series.dropna().to_dict(), series.to_frame().T]
    for clamp in forms:
        np.testing.assert_array_equal(infer(energy, "exact", clamp=clamp).marginals, expected)
    for changed in (energy.tempered(0.5), energy.rows([0]), energy.condition(forms[0])):
        assert changed.labels == energy.labels
    states = np.zeros((3, n), int)
    states[:, :3] = np.eye(3)
    frame = pd.DataFrame(states[:, order], columns=[labels[i] for i in order])
    np.testing.assert_array_equal(energy.score(frame), plain.score(states))
    np.testing.assert_array_equal(plain.score(pd.DataFrame(states)), plain.score(states))
    for one, two in zip(energy.statistics(frame), plain.statistics(states), strict=True):
        np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("name", MAKE)
def test_labels_that_do_not_match(name):
    plain, make = MAKE[name]
    energy = make()
    n = energy.n_variables
    for where, label in ((energy, "z"), (plain, "a"), (plain, n)):
        series = pd.Series([1.0], [label])
        for ask in (
            lambda s, where=where: infer(where, clamp=s),
            lambda s, where=where: sample(where, clamp=s),
            lambda s, where=where: estimate_log_partition(where, clamp=s),
        ):
            with pytest.raises(ValueError, match="clamp has the label"):
                ask(series)
        frame = pd.DataFrame(np.zeros((2, n), int), columns=[label, *range(n - 1)])
        with pytest.raises(ValueError, match="has the label"):
            where.score(frame)
    lacking = pd.DataFrame(np.zeros((2, n - 1), int), columns=labels_of(energy)[1:])
    with pytest.raises(ValueError, match="must have an entry for each variable, but 'a'"):
        energy.score(lacking)
    twice = pd.DataFrame(np.zeros((2, 2)), columns=["a", "a"])
    with pytest.raises(ValueError, match="must hold each label once, but it holds 'a' twice"):
        infer(energy, clamp=twice)


@pytest.mark.parametrize("name", [name for name in MAKE if name != "states"])
def test_fields_with_labels(name):
    plain, make = MAKE[name]
    energy = make()
    new = [field + 1 for field in plain.fields]
    parts, start = [], 0
    for field in new:
        labels = list(energy.labels[start : start + field.shape[1]])
        labels = [0, 1] if labels == [3, 4] else labels  # hidden units have no labels
        parts.append(pd.DataFrame(field, columns=labels)[labels[::-1]])
        start += field.shape[1]
    for one, two in zip(plain.with_fields(*new).fields, energy.with_fields(*parts).fields):
        np.testing.assert_array_equal(one, two)
    indices = [pd.DataFrame(f)[list(range(f.shape[1]))[::-1]] for f in new]
    for one, two in zip(plain.with_fields(*new).fields, plain.with_fields(*indices).fields):
        np.testing.assert_array_equal(one, two)
    with pytest.raises(ValueError, match="fields has the label 'z'"):
        energy.with_fields(*(part.rename(columns={labels[0]: "z"}) for part in parts))


def test_indices_are_labels():
    """Without labels, a permuted index holds the indices of the variables."""
    order = [2, 0, 1]
    series = pd.Series(F[order], order)
    rbm = RBMEnergy(pd.DataFrame(W[order], order), series, G)
    np.testing.assert_array_equal(rbm.weights, W)
    frame = pd.DataFrame(S[np.ix_(order, order)], order, order)
    for energy in (
        IsingEnergy(frame, series), IsingEnergy(S, series), rbm, graph(series),
        IsingEnergy.from_edges(EDGES, J, series),
    ):  # fmt: skip
        np.testing.assert_array_equal(energy.fields[0][0], F)
        assert energy.labels is None
    np.testing.assert_array_equal(IsingEnergy(frame, series).coupling, S)
    states = graph_of_states(pd.DataFrame(S[order], order)[[2, 1, 0]])
    np.testing.assert_array_equal(states.field[0], S)


def test_instance_of_a_clamped_series():
    """The first variable is clamped to 0 and the second to 1, whatever the order."""
    energy = IsingEnergy.from_ising({"a": 0.0, "b": 0.0, "c": 0.0}, {("a", "c"): -1.0})
    for order in itertools.permutations("ab"):
        clamp = pd.Series({"b": 1.0, "a": 0.0})[list(order)]
        np.testing.assert_array_equal(infer(energy, clamp=clamp).marginals[0, :2], [0, 1])
        assert infer(energy, clamp=clamp).marginals[0, 2] < 0.5


def test_refused_labels():
    with pytest.raises(ValueError, match="field must have the labels 0 to 2 if"):
        IsingEnergy.from_edges(EDGES, J, pd.Series(F, [5, 7, 9]))
    with pytest.raises(ValueError, match="coupling has the label 'z'"):
        IsingEnergy(pd.DataFrame(S, NAMES, ["a", "b", "z"]))
    with pytest.raises(ValueError, match="same labels for its rows and its columns"):
        IsingEnergy(pd.DataFrame(S, [2, 0, 1], NAMES))
    with pytest.raises(ValueError, match="field has the label 'z'"):
        IsingEnergy(FRAME, SERIES.rename({"a": "z"}))
    with pytest.raises(ValueError, match="different labels for visible and hidden"):
        RBMEnergy(pd.DataFrame(W, NAMES, ["a", "h"]), F, G)
    with pytest.raises(ValueError, match="weights has the label"):
        IsingEnergy.from_edges(EDGES, pd.Series(J, [1, 0]), F)
    with pytest.raises(ValueError, match="labels of each other in another order"):
        IsingEnergy.from_edges(pd.DataFrame(EDGES), pd.Series(J, [1, 0]), F)
    edges = IsingEnergy.from_edges(EDGES, J, F)
    with pytest.raises(ValueError, match="weights has the label"):
        edges.with_edge_coupling(pd.Series(J, [1, 0]))
    np.testing.assert_array_equal(edges.with_edge_coupling(PAIRS[::-1]).edge_coupling, J)


def test_labels_of_written_files():
    """Files hold the indices of variables."""
    states = pd.DataFrame([[0, 1, 2]])[[2, 0, 1]]
    assert write_uai_solution("MAP", states) == "MAP\n3 0 1 2\n"
    assert write_uai_evidence(states) == write_uai_evidence([0, 1, 2])
    assert write_uai_evidence(pd.Series({2: 1.0})) == "1 2 1\n"
    named = states.rename(columns={0: "a"})
    for write in (lambda v: write_uai_solution("MAP", v), write_uai_evidence):
        with pytest.raises(ValueError, match="label 'a'"):
            write(named)
    with pytest.raises(ValueError, match="value must be arrays"):
        write_uai_solution("MAR", pd.DataFrame([[0.5], [0.5]]))


def test_labels_of_numbers_of_states():
    tables = [np.arange(6.0).reshape(2, 3), np.arange(3.0)]
    plain = FactorGraphEnergy.from_tables([[0, 1], [1]], tables, n_states=[2, 3, 4])
    counts = pd.Series([2, 3, 4], NAMES)
    field = pd.DataFrame(np.arange(12.0).reshape(3, 4), NAMES)
    for n_states in (counts, counts.to_dict()):
        energy = FactorGraphEnergy.from_tables([[0, 1], [1]], tables, n_states=n_states)
        assert energy.labels == tuple(NAMES)
        np.testing.assert_array_equal(energy.n_states, plain.n_states)
    energy = FactorGraphEnergy.from_tables([[0, 1], [1]], tables, field.loc[ORDER], n_states=counts)
    np.testing.assert_array_equal(energy.field[0], np.where(energy._has_state, field, 0))
    with pytest.raises(ValueError, match="field has the label 'z'"):
        FactorGraphEnergy.from_tables([[0, 1], [1]], tables, field.rename({"a": "z"}),
                                      n_states=counts)  # fmt: skip
    indices = pd.Series([4, 2, 3], [2, 0, 1])
    energy = FactorGraphEnergy.from_tables([[0, 1], [1]], tables, n_states=indices)
    np.testing.assert_array_equal(energy.n_states, [2, 3, 4])


def test_missing_values_of_a_clamp():
    """NaN, None and pandas' NA mean that a unit is free, in every container."""
    energy = IsingEnergy([[0, 1.0], [1.0, 0]], [0, 0.1])
    expected = infer(energy, "exact", clamp=[np.nan, 1]).log_partition
    values = [pd.NA, 1]
    frame = pd.DataFrame([values], columns=[0, 1], dtype="Int64")
    for clamp in (values, tuple(values), [values], np.array(values, object), [None, 1], frame,
                  pd.Series(values, [0, 1]), pd.Series(values, dtype="Int64")):  # fmt: skip
        np.testing.assert_array_equal(infer(energy, "exact", clamp=clamp).log_partition, expected)
