"""Factor graphs: how they are made, refused, changed, read and written."""

import itertools

import numpy as np
import pytest
from reference.factor_graphs import all_states, naive_score, random_graph

from skcrbm.energies import (
    AndFactors,
    FactorGraphEnergy,
    IsingEnergy,
    OneHotRBMEnergy,
    OrFactors,
    RBMEnergy,
    SparseIsingEnergy,
    TableFactors,
)

RNG = np.random.default_rng(0)


def scores(energy):
    """Scores (N, 2^n) of all states."""
    return energy.log_weight_of_sets(all_states(energy.n_variables))


def sparse_ising(seed=0, n_models=2, dtype=np.float64):
    rng = np.random.default_rng(seed)
    edges = [[3, 1], [0, 1], [2, 4], [4, 0]]
    weights, field = rng.normal(0, 1, 4), rng.normal(0, 1, (n_models, 5))
    return SparseIsingEnergy.from_edges(edges, weights.astype(dtype), field.astype(dtype))


# ------------------------------------------------------------------ being made


@pytest.mark.parametrize("seed", range(4))
def test_scores_are_those_of_plain_loops(seed):
    energy = random_graph(seed)
    found = scores(energy)
    for n in range(energy.n_models):
        naive = [naive_score(energy, n, s) for s in all_states(9)]
        np.testing.assert_allclose(found[n], naive, rtol=1e-12, atol=1e-12)
        part = energy.rows(np.full(512, n))
        np.testing.assert_allclose(part.score(all_states(9)), naive, rtol=1e-12, atol=1e-12)


def test_three_ways_to_give_tables():
    table = RNG.normal(size=(3, 4))
    scopes = [[0, 1], [1, 2], [2, 0]]
    one = TableFactors(scopes, table)
    np.testing.assert_array_equal(
        TableFactors(scopes, table.reshape(3, 2, 2)).log_potentials, table
    )
    for shared in (table[0], table[0].reshape(2, 2)):
        np.testing.assert_array_equal(
            TableFactors(scopes, shared).log_potentials, np.tile(table[0], (3, 1))
        )
    assert len(one) == 3
    assert not one.variables.flags.writeable
    assert not one.log_potentials.flags.writeable
    table[:] = 0
    assert one.log_potentials.any(), "the arrays are copies"
    # The first variable of a scope is the slowest digit.
    energy = FactorGraphEnergy([TableFactors([[2, 0]], [0.0, 1.0, 2.0, 3.0])])
    assert energy.score([[1, 0, 0]]) == 1
    assert energy.score([[0, 0, 1]]) == 2


def test_ragged_inputs():
    either = OrFactors([[0], [1, 2, 3]], [4, 5])
    np.testing.assert_array_equal(either.start, [0, 1, 4])
    np.testing.assert_array_equal(either.inputs, [0, 1, 2, 3])
    np.testing.assert_array_equal(AndFactors(np.array([[0, 1], [2, 3]]), [4, 5]).start, [0, 2, 4])


def test_logic_equals_tables_of_zeros():
    for k, (kind, decide) in itertools.product((1, 2, 4), ((OrFactors, any), (AndFactors, all))):
        table = [
            0.0 if s[-1] == decide(s[:-1]) else -np.inf
            for s in itertools.product((0, 1), repeat=k + 1)
        ]
        scope = [*range(1, k + 1), 0]
        one = FactorGraphEnergy([kind([scope[:-1]], [0])])
        two = FactorGraphEnergy([TableFactors([scope], table)])
        np.testing.assert_array_equal(scores(one), scores(two))
        chains = RNG.integers(0, 2, (1, 50, k + 1))
        for block in one.sampling_blocks:
            np.testing.assert_array_equal(
                one.conditional_log_odds(chains, block) > 0,
                two.conditional_log_odds(chains, block) > 0,
            )


def test_from_tables_groups_by_number_of_variables():
    scopes = [[0, 1, 2], [3], [1, 3], [2]]
    tables = [RNG.normal(size=(2,) * len(s)) for s in scopes]
    energy = FactorGraphEnergy.from_tables(scopes, tables, n_variables=6)
    assert energy.n_variables == 6
    assert [g.variables.tolist() for g in energy.tables] == [[[3], [2]], [[1, 3]], [[0, 1, 2]]]
    flat = np.concatenate([tables[i].ravel() for i in (1, 3, 2, 0)])
    np.testing.assert_array_equal(energy.log_potentials, flat)
    state = np.array([1, 0, 1, 1, 0, 0])
    expected = sum(t[tuple(state[s])] for s, t in zip(scopes, tables, strict=True))
    assert energy.score(state[None]) == pytest.approx(expected)


def test_entries_in_the_order_of_the_groups_as_given():
    groups = [
        TableFactors([[0, 1], [1, 2]], RNG.normal(size=(2, 4))),
        OrFactors([[0]], [3]),
        TableFactors([[2]], RNG.normal(size=(1, 2))),
        TableFactors([[3, 0]], RNG.normal(size=(1, 4))),
    ]
    energy = FactorGraphEnergy(groups)
    flat = np.concatenate([groups[i].log_potentials.ravel() for i in (0, 2, 3)])
    assert energy.n_entries == 14
    np.testing.assert_array_equal(energy.log_potentials, flat)
    assert [part.shape for part in energy.unflatten(flat)] == [(2, 2, 2), (1, 2), (1, 2, 2)]
    many = np.stack([flat, 2 * flat])
    assert [part.shape for part in energy.unflatten(many)] == [
        (2, 2, 2, 2),
        (2, 1, 2),
        (2, 1, 2, 2),
    ]
    for group in energy.tables:
        for f, first in enumerate(group.entries):
            size = group.log_potentials.shape[1]
            np.testing.assert_array_equal(group.log_potentials[f], flat[first : first + size])
    other = energy.with_log_potentials(-flat)
    np.testing.assert_allclose(
        scores(other), -np.where(np.isinf(scores(energy)), np.inf, scores(energy))
    )
    assert other.graph is energy.graph
    np.testing.assert_array_equal(other.factors[2].log_potentials, -groups[2].log_potentials)
    np.testing.assert_array_equal(energy.log_potentials, flat)


def test_statistics_are_frequencies_of_entries():
    energy = random_graph(1)
    states = RNG.integers(0, 2, (40, 9))
    found = energy.statistics(states)
    assert found.shape == (energy.n_entries,)
    parts = energy.unflatten(found)
    tables = [part for part in energy.factors if isinstance(part, TableFactors)]
    for part, group in zip(parts, tables, strict=True):
        for f, scope in enumerate(group.variables):
            for entry in np.ndindex(part.shape[1:]):
                share = (states[:, scope] == entry).all(axis=1).mean()
                assert part[f][entry] == pytest.approx(share)


def test_dtype_and_sizes():
    table = TableFactors([[0, 1]], np.zeros(4, np.float32))
    assert FactorGraphEnergy([table]).dtype == np.float32
    assert FactorGraphEnergy([table], np.zeros(2, np.float32)).dtype == np.float32
    assert FactorGraphEnergy([table], np.zeros(2)).dtype == np.float64
    assert FactorGraphEnergy([], np.zeros((3, 4))).n_models == 3
    assert FactorGraphEnergy([], n_variables=2).n_variables == 2
    assert FactorGraphEnergy([table], np.zeros((0, 2))).score(np.zeros((0, 2))).shape == (0,)


def test_blocks_share_no_factor():
    energy = random_graph(2, n=12, per_arity=1)
    for block in energy.sampling_blocks:
        for scope in energy.graph.lists():
            assert len(set(block) & set(scope)) <= 1
    lattice = SparseIsingEnergy.from_edges([[i, i + 1] for i in range(9)], 1.0, np.zeros(10))
    assert len(lattice.sampling_blocks) == 2


def test_where_no_value_is_possible_fewer_violations_are_more_probable():
    off = TableFactors([[0]], [0.0, -np.inf])
    copies = OrFactors([[1], [2]], [0, 0])
    log_odds = FactorGraphEnergy([off, copies]).conditional_log_odds(
        np.array([[[0, 1, 1], [0, 1, 0], [0, 0, 0]]]), np.array([0])
    )
    # "On" is forbidden by the table and for copies of a variable that is off; "off" is forbidden
    # for copies of a variable that is on.
    assert log_odds[0, 0, 0] == -log_odds[0, 1, 0] > 0
    assert log_odds[0, 2, 0] == -np.inf


# -------------------------------------------------------------- of other energies


def test_from_energy_has_the_same_scores():
    rng = np.random.default_rng(0)
    weights = rng.normal(size=(3, 2))
    weights[0, 1] = 0
    coupling = np.triu(rng.normal(size=(4, 4)), 1)
    for energy in (
        RBMEnergy(weights, rng.normal(size=(2, 3)), rng.normal(size=2)),
        IsingEnergy(coupling + coupling.T, rng.normal(size=(3, 4))),
        sparse_ising(),
    ):
        graph = FactorGraphEnergy.from_energy(energy)
        assert graph.n_models == energy.n_models
        states = all_states(energy.n_variables)
        for n in range(energy.n_models):
            rows = np.full(len(states), n)
            np.testing.assert_allclose(
                graph.rows(rows).score(states), energy.rows(rows).score(states), atol=1e-12
            )
        held = np.full(energy.n_variables, np.nan)
        held[1] = 1
        given = FactorGraphEnergy.from_energy(energy.condition(held))
        np.testing.assert_array_equal(given.evidence, energy.condition(held).evidence)
        # The constant follows the fields.
        other = energy.with_fields(*(2 * f for f in energy.fields))
        np.testing.assert_allclose(
            graph.with_fields(2 * graph.field).score(states[: graph.n_models]),
            other.score(states[: graph.n_models]),
        )
    assert (
        len(FactorGraphEnergy.from_energy(RBMEnergy(weights, np.zeros(3), np.zeros(2))).factors[0])
        == 5
    )


def test_sparse_ising_is_the_dense_one():
    energy = sparse_ising()
    dense = IsingEnergy(energy.coupling.toarray(), energy.field)
    states = all_states(5)
    np.testing.assert_allclose(energy.log_weight_of_sets(states), dense.log_weight_of_sets(states))
    again = SparseIsingEnergy(energy.coupling, energy.field)
    np.testing.assert_array_equal(again.edges, energy.edges)
    np.testing.assert_array_equal(again.edge_coupling, energy.edge_coupling)
    np.testing.assert_array_equal(energy.edges, [[0, 1], [0, 4], [1, 3], [2, 4]])
    held = np.array([1, np.nan, 0, np.nan, np.nan])
    fields, offset = energy.condition(held).fold_evidence()
    expected = dense.condition(held).fold_evidence()
    np.testing.assert_allclose(fields[0], expected[0][0])
    np.testing.assert_allclose(offset, expected[1])
    other = energy.with_edge_coupling(np.ones(4))
    assert other.coupling.sum() == 8


def test_neighbours_know_the_way_back():
    energy = sparse_ising()
    there = energy.neighbours
    source = np.repeat(np.arange(5), np.diff(there.start))
    np.testing.assert_array_equal(there.variables[there.reverse], source)
    np.testing.assert_array_equal(source[there.reverse], there.variables)
    np.testing.assert_array_equal(there.edge[there.reverse], there.edge)
    ends = np.sort(np.column_stack([source, there.variables]), axis=1)
    np.testing.assert_array_equal(ends, energy.edges[there.edge])
    none = SparseIsingEnergy.from_edges([], [], np.zeros(3))
    assert none.neighbours.start.tolist() == [0, 0, 0, 0]
    assert none.score(np.zeros((1, 3))) == 0


def test_a_sparse_coupling_keeps_edges_of_zero():
    energy = SparseIsingEnergy.from_edges([[0, 1], [1, 2]], [0.0, 1.0], np.zeros(3))
    assert len(SparseIsingEnergy(energy.coupling).edges) == 2
    assert len(SparseIsingEnergy(energy.coupling.toarray()).edges) == 1
    assert len(FactorGraphEnergy.from_energy(energy).factors[0]) == 2


# ---------------------------------------------------------------------- UAI text


def test_uai_text_of_a_known_model():
    text = """MARKOV
    3
    2 2 2
    2
    2 2 0
    1 1

    4
    1.0 2.5 0 4
    2
    .5 1e1
    """
    energy = FactorGraphEnergy.from_uai(text)
    assert energy.n_variables == 3
    assert np.exp(energy.score([[1, 1, 0]])) == pytest.approx(25)
    assert np.exp(energy.score([[0, 0, 1]])) == 0
    assert np.exp(energy.score([[1, 0, 1]])) == pytest.approx(2)


@pytest.mark.parametrize("seed", range(3))
def test_uai_there_and_back(seed):
    energy = random_graph(seed)
    for row in (0, 2, -1):
        again = FactorGraphEnergy.from_uai(energy.to_uai(row))
        np.testing.assert_allclose(scores(again)[0], scores(energy)[row], rtol=1e-12, atol=1e-12)
    held = np.full(9, np.nan)
    held[[0, 4]] = 1, 0
    given = energy.condition(held)
    again = FactorGraphEnergy.from_uai(given.to_uai())
    np.testing.assert_allclose(scores(again)[0], scores(given)[0], rtol=1e-12, atol=1e-12)
    ising = FactorGraphEnergy.from_energy(sparse_ising())
    again = FactorGraphEnergy.from_uai(ising.to_uai(1))
    np.testing.assert_allclose(scores(again)[0], scores(ising)[1], rtol=1e-12, atol=1e-12)


def test_uai_keeps_logic_of_many_inputs():
    energy = FactorGraphEnergy([OrFactors([range(8)], [8]), AndFactors([range(8)], [9])])
    again = FactorGraphEnergy.from_uai(energy.to_uai())
    assert [type(part) for part in again.factors] == [OrFactors, AndFactors]
    np.testing.assert_array_equal(scores(again), scores(energy))


GOOD = "MARKOV 2 2 2 2 2 0 1 1 1 4 1 2 3 4 2 5 6"


def test_cut_off_uai_text():
    FactorGraphEnergy.from_uai(GOOD)
    words = GOOD.split()
    for n in range(len(words)):
        with pytest.raises(ValueError, match=r"UAI text ends .*, but .* was expected"):
            FactorGraphEnergy.from_uai(" ".join(words[:n]))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("MARKOV", "MARKO", "must have 'MARKOV' or 'BAYES' as word 1 "),
        ("MARKOV 2", "MARKOV x", "the number of variables, an int"),
        ("MARKOV 2 2 2", "MARKOV 2 3 2", "have 6, the number of weights of table 0"),
        ("2 0 1", "2 0 7", "a variable of table 0, an integer from 0 to 1"),
        ("2 0 1", "2 1 1", "of table 0 that occurs only once, as word 8 "),
        ("4 1 2 3 4", "3 1 2 3", "have 4, the number of weights of table 0"),
        ("5 6", "5 -6", "number of at least 0"),
        ("5 6", "5 nan", "a finite number"),
        ("5 6", "5 six", "a finite number"),
        ("5 6", "5 6 7", "must end after the last table"),
    ],
)
def test_bad_uai_text(old, new, message):
    with pytest.raises(ValueError, match=message):
        FactorGraphEnergy.from_uai(GOOD.replace(old, new))


def test_uai_text_of_large_tables():
    head = "MARKOV 7 " + "2 " * 7 + "1 7 0 1 2 3 4 5 6 128 "
    weights = np.arange(1.0, 129)
    energy = FactorGraphEnergy.from_uai(head + " ".join(map(str, weights)))
    states = (np.arange(128)[:, None] >> np.arange(6, -1, -1)) & 1
    np.testing.assert_allclose(np.exp(energy.log_weight_of_sets(states))[0], weights)
    energy = FactorGraphEnergy.from_uai(head + "1 0 " + "0 1 " * 63)
    assert isinstance(energy.factors[0], OrFactors)
    with pytest.raises(
        ValueError, match="the number of variables of table 0, an integer from 0 to"
    ):
        FactorGraphEnergy.from_uai(
            "MARKOV 40 " + "2 " * 40 + "1 40 " + " ".join(map(str, range(40)))
        )
    with pytest.raises(ValueError, match="text must be a str"):
        FactorGraphEnergy.from_uai(b"MARKOV")


def test_what_cannot_be_written():
    with pytest.raises(ValueError, match="field of 800 cannot be written"):
        FactorGraphEnergy([], [800.0]).to_uai()
    with pytest.raises(ValueError, match="a log-potential of -900 cannot be written"):
        FactorGraphEnergy([TableFactors([[0]], [0, -900.0])]).to_uai()
    with pytest.raises(ValueError, match="an OR or AND of 16 inputs"):
        FactorGraphEnergy([OrFactors([range(16)], [16])]).to_uai()
    for row in (1, -2, 0.5):
        with pytest.raises(ValueError, match="row must be"):
            FactorGraphEnergy([], [1.0]).to_uai(row)


# ---------------------------------------------------------------------- bad input


def of_edges(edges, weights=1.0, n=3):
    return SparseIsingEnergy.from_edges(edges, weights, np.zeros(n))


tables, graph, from_tables = TableFactors, FactorGraphEnergy, FactorGraphEnergy.from_tables
pair = TableFactors([[0, 5]], np.zeros(4))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: tables([[0, 1, 0]], np.zeros(8)), r"in a scope; scope 0 is \[0, 1, 0\]"),
        (lambda: tables([[]], np.zeros(1)), "at least one variable per factor"),
        (lambda: tables([0, 1], np.zeros(4)), r"integers of shape \(F, m\)"),
        (lambda: tables([[0.5, 1]], np.zeros(4)), "variables must be integers"),
        (lambda: tables([[0, 1], [2]], np.zeros(4)), "variables must be integers"),
        (lambda: tables([[0, -1]], np.zeros(4)), "at least 0; got -1"),
        (lambda: tables([[0, 1]], np.zeros(5)), r"log_potentials must have shape \(1, k1, k2\)"),
        (lambda: tables([[0, 1]], np.zeros((3, 2, 2))), "log_potentials must have shape"),
        (lambda: tables([[0, 1]], np.zeros((2, 0))), "log_potentials must have shape"),
        (lambda: tables([[0]], [0, np.nan]), r"NaN or \+inf"),
        (lambda: tables([[0]], [0, np.inf]), r"NaN or \+inf"),
        (lambda: tables([[0]], ["a", "b"]), "log_potentials must be a real array"),
        (lambda: OrFactors([[0, 1]], [1]), "in a factor; factor 0 has variable 1 twice"),
        (lambda: OrFactors([[0, 0]], [1]), "in a factor; factor 0 has variable 0 twice"),
        (lambda: AndFactors([[0], [1]], [2]), "outputs must hold one variable for each of 2"),
        (lambda: OrFactors([[0], []], [1, 2]), "at least one variable per factor; factor 1"),
        (lambda: OrFactors([[0.5]], [1]), r"inputs\[0\] must be integers"),
        (lambda: OrFactors(3, [1]), "inputs must be"),
        (lambda: OrFactors([[0]], [-1]), "at least 0; got -1"),
        (lambda: graph([np.zeros(4)]), "factors must be a sequence.*of type ndarray"),
        (lambda: graph(3), "factors must be a sequence.*of type int"),
        (lambda: graph([pair], np.zeros(5)), "factors hold variable 5"),
        (lambda: graph([OrFactors([[5]], [0])], n_variables=5), "factors hold variable 5"),
        (lambda: graph([], np.zeros(3), n_variables=4), "field must have shape"),
        (lambda: graph([], [np.nan]), "field must be finite"),
        (lambda: graph([], n_variables=2.5), "n_variables must be an int"),
        (lambda: graph([pair], n_states=3), "n_states must fit the factors; variable 0"),
        (lambda: graph([], n_states=[2, 0]), "n_states must be an int of at least 1"),
        (lambda: graph([], n_variables=2, n_states=[3, 3, 3]), "an int for each of 2 variables"),
        (lambda: graph([pair, tables([[5]], np.zeros(3))]), "agree in the number of states.* 5"),
        (lambda: graph([OrFactors([[0]], [1])], n_states=[2, 3]), "n_states=3 and factors of 2"),
        (lambda: graph([], np.zeros((2, 3)), n_states=4), r"field must have shape \(2, 4\)"),
        (lambda: graph([], [[0, np.inf, 0]], n_states=3), "field must be finite"),
        (lambda: from_tables([[0, 1]], []), "one table for each of 1 scopes"),
        (lambda: from_tables([[]], [[0, 0]]), "its scope is empty"),
        (lambda: from_tables([[0], [1, 1]], [[0, 0], [0] * 4]), r"scopes\[1\] must not repeat"),
        (lambda: from_tables([[0], [1, 2]], [[0, 0], [0] * 3]), r"\[1\] must have shape"),
        (lambda: graph([], [0.0]).with_log_potentials([1.0]), r"must have shape \(0,\)"),
        (lambda: graph([pair]).with_log_potentials([0, 0, 0, np.nan]), "NaN"),
        (lambda: graph([pair]).unflatten(np.zeros(3)), "flat must have shape"),
        (lambda: graph.from_energy(OneHotRBMEnergy([[1.0]], [0.0], [0.0])), "OneHotRBMEnergy"),
        (lambda: graph.from_energy(3), "energy must be an RBMEnergy.*got int"),
        (lambda: of_edges([[0, 0]]), "different variables"),
        (lambda: of_edges([[0, 1], [1, 0]]), r"repeat a pair; \[0, 1\]"),
        (lambda: of_edges([[0, 3]]), "edges hold variable 3"),
        (lambda: of_edges([[0, 1, 2]]), r"edges must have shape \(E, 2\)"),
        (lambda: of_edges([[0, 1]], [1.0, 2.0]), r"weights must have shape \(1,\)"),
        (lambda: of_edges([[0, 1]], [np.inf]), "weights must be finite"),
        (lambda: of_edges([[0, 1]]).with_edge_coupling([1.0, 2.0]), "weights must have shape"),
        (lambda: SparseIsingEnergy(np.zeros((2, 3))), "coupling must have shape"),
        (lambda: SparseIsingEnergy([[1.0, 0], [0, 0]]), "zero diagonal"),
        (lambda: SparseIsingEnergy([[0.0, 1], [2, 0]]), "symmetric"),
        (lambda: SparseIsingEnergy([[0.0, 1], [1, 0]], [0.0]), "field must have shape"),
    ],
)  # fmt: skip
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_tilted_tables_of_an_ising_model():
    """The constant that goes with fields of -1/+1 variables follows the shift."""
    rng = np.random.RandomState(0)
    energy = SparseIsingEnergy.from_edges([[0, 1], [1, 2]], [0.5, -1.0], rng.normal(size=(2, 3)))
    states, shift = rng.randint(2, size=(2, 3)), rng.normal(size=(2, 3))
    for model in (energy, FactorGraphEnergy.from_energy(energy)):
        tilted, offset = model.tilted(shift)
        expected = energy.score(states) + (shift * states).sum(axis=1)
        np.testing.assert_allclose(tilted.score(states) + offset, expected)
