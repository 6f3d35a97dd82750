"""What a writer writes, its reader reads; constraint files; weights that are too small."""

import itertools
import warnings

import numpy as np
import pytest
from reference.energy_cases import make_factor_graph, make_logic, make_states
from reference.states import all_states

from skcrbm.energies import (
    AndFactors,
    FactorGraphEnergy,
    IsingEnergy,
    OrFactors,
    read_uai_evidence,
    read_uai_query,
    read_uai_solution,
    write_uai_evidence,
    write_uai_query,
    write_uai_solution,
)
from skcrbm.inference import infer


def graphs():
    zero = FactorGraphEnergy([], np.zeros((1, 0)))
    constant = FactorGraphEnergy.from_tables([[]], [1.5])
    ising = IsingEnergy([[0, 1.0, 0], [1, 0, -0.5], [0, -0.5, 0]], [0.1, 0.2, -0.3])
    states = make_states(0, 1, 1.0, np.float64, zeros=3)
    yield from (zero, constant, zero.with_states(), FactorGraphEnergy.from_energy(ising))
    yield from (make_factor_graph(0, 1, 1.0, np.float64, zeros=2), states)
    yield from (make_logic(0, 1, 1.0, np.float64), make_states(1, 1, 200.0, np.float64))
    yield states.condition([np.nan, 1, np.nan, 0])


@pytest.mark.parametrize("form", ["uai", "fg"])
@pytest.mark.parametrize("energy", list(graphs()), ids=range(9))
def test_models(form, energy):
    """The scores of all states, after a model was written and read once and twice."""
    text = getattr(energy, f"to_{form}")()
    again = getattr(FactorGraphEnergy, f"from_{form}")(text)
    np.testing.assert_array_equal(again.n_states, energy.n_states)
    states = all_states(energy.n_states)
    plain = energy.rows(np.zeros(len(states), int))
    np.testing.assert_allclose(again.score(states), plain.score(states), atol=1e-12)
    twice = getattr(FactorGraphEnergy, f"from_{form}")(getattr(again, f"to_{form}")())
    np.testing.assert_allclose(twice.score(states), again.score(states), atol=1e-12)


def test_labels_of_fg_files():
    text = "1\n\n2\n30 7\n2 3\n2\n0 0.5\n5 2.0\n"
    energy = FactorGraphEnergy.from_fg(text)
    assert energy.labels == (7, 30)
    assert energy.n_states.tolist() == [3, 2]
    again = FactorGraphEnergy.from_fg(energy.to_fg())
    assert again.labels == energy.labels
    np.testing.assert_array_equal(again.score([[2, 1]]), energy.score([[2, 1]]))
    assert energy.rows([0]).labels == (7, 30)
    assert FactorGraphEnergy.from_uai(energy.to_uai()).labels is None


@pytest.mark.parametrize("n_models", [1, 2])
@pytest.mark.parametrize("as_list", [False, True])
def test_marginals_of_variables_with_fewer_states(n_models, as_list):
    energy = make_states(0, n_models, 1.0, np.float64)
    marginals = infer(energy, "exact").marginals
    assert (marginals[:, 1, 2:] == 0).all()
    value = list(marginals.swapaxes(0, 1)) if as_list else marginals
    text = write_uai_solution("MAR", value, energy.n_states)
    task, found = read_uai_solution(text, energy.n_states)
    assert task == "MAR"
    for i, k in enumerate(energy.n_states):
        np.testing.assert_array_equal(found[i], marginals[:, i, :k])
    assert write_uai_solution("MAR", marginals[0], energy.n_states) == write_uai_solution(
        "MAR", [row[:k] for row, k in zip(marginals[0], energy.n_states, strict=True)]
    )
    with pytest.raises(ValueError, match="0 for states that do not exist"):
        write_uai_solution("MAR", np.full((4, 4), 0.25), energy.n_states)
    with pytest.raises(ValueError, match="must hold 5 variables, got 4"):
        write_uai_solution("MAR", list(marginals[0]), [2] * 5)


def test_padding_is_not_written():
    """Without the numbers of states, zeros at the end of rows of equal lengths are refused."""
    energy = make_states(0, 1, 1.0, np.float64)
    marginals = infer(energy, "exact").marginals
    for value in (marginals, marginals[0], list(marginals[0]), marginals[0].tolist()):
        with pytest.raises(ValueError, match="padding of variables with fewer states; pass n_st"):
            write_uai_solution("MAR", value)
    full = make_states(0, 1, 1.0, np.float64, counts=(3,) * 4)
    marginals = infer(full, "exact").marginals[0]
    assert write_uai_solution("MAR", marginals) == write_uai_solution("MAR", marginals, [3] * 4)


def test_marginals_of_0_1_variables():
    energy = make_factor_graph(0, 3, 1.0, np.float64)
    marginals = infer(energy, "exact").marginals
    found = read_uai_solution(write_uai_solution("MAR", marginals, [2] * 4), [2] * 4)[1]
    np.testing.assert_allclose(np.array(found)[..., 1].T, marginals)
    with pytest.raises(ValueError, match="n_states is only valid for the task 'MAR'"):
        write_uai_solution("MAP", [0, 1], [2, 2])


def test_solutions_evidence_and_queries():
    n_states, rng = [3, 2, 4], np.random.default_rng(0)
    for n in (1, 2, 3):
        states = rng.integers(n_states, size=(n, 3))
        for task in ("MAP", "MPE"):
            again = read_uai_solution(write_uai_solution(task, states), n_states)
            np.testing.assert_array_equal(again[1], states)
        held = np.where(rng.random((n, 3)) < 0.5, states, np.nan)
        np.testing.assert_array_equal(read_uai_evidence(write_uai_evidence(held), n_states), held)
        again = read_uai_solution(write_uai_solution("MMAP", held), n_states)
        np.testing.assert_array_equal(again[1], held)
        log10 = rng.normal(size=n)
        again = read_uai_solution(write_uai_solution("PR", log10), n_states)
        np.testing.assert_array_equal(again[1], log10)
    np.testing.assert_array_equal(read_uai_query(write_uai_query([2, 0]), n_states), [2, 0])


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (FactorGraphEnergy.from_uai, "MARKOV\n1\n2\n1\n1 0\n\n2\n1e-400 1"),
        (FactorGraphEnergy.from_uai, "MARKOV\n1\n2\n1\n1 0\n\n2\n0.0001e-330 1"),
        (FactorGraphEnergy.from_fg, "1\n\n1\n0\n2\n\n2\n0 1e-999 1 2"),
    ],
)
def test_weights_that_are_too_small(read, text):
    with pytest.warns(UserWarning, match=r"has 1 numbers that are too small .*, word .* \(line"):
        energy = read(text)
    assert energy.score([[0]]) == -np.inf
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read(text.replace("1e-400", "0e-400").replace("0.0001e-330", "0.0").replace("1e-999", "0"))


WCSP = """problem_1 3 3 4 10
2 3 2
2 0 1 2 2
0 0 1
1 2 10
1 2 0 1
1 4
0 3 0
3 0 1 2 20 1
1 1 1 0
"""


def test_wcsp():
    energy = FactorGraphEnergy.from_wcsp(WCSP)
    assert energy.n_states.tolist() == [2, 3, 2]
    states = np.array(list(itertools.product(range(2), range(3), range(2))))
    cost = np.full(len(states), 3.0)
    for s, (a, b, c) in enumerate(states):
        cost[s] += {(0, 0): 1, (1, 2): np.inf}.get((a, b), 2) + 4 * c
        cost[s] += 0 if (a, b, c) == (1, 1, 1) else np.inf
    np.testing.assert_array_equal(energy.rows([0] * len(states)).score(states), -cost)
    best = infer(energy, "exact", returns="map").assignment
    np.testing.assert_array_equal(best, [[1, 1, 1]])


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("0 0 1\n", "0 3 1\n", r"a state of variable 1, an integer from 0 to 2, as word 15"),
        ("1 2 10", "0 0 10", "a tuple of cost function 0 that occurs only once"),
        ("2 0 1 2 2", "2 0 0 2 2", "that occurs only once"),
        ("1 2 0 1\n", "1 2 -1 1\n", "the default cost of cost function 1"),
        ("1 2 0 1\n1 4", "1 2 0 knapsack", "the number of tuples of cost function 1"),
        ("1 1 1 0\n", "1 1 1 0 7", "must end after the last cost function"),
        ("2 3 2\n", "2 4 2\n", "the number of states of a variable, an integer from 1 to 3"),
    ],
)
def test_bad_wcsp(old, new, message):
    with pytest.raises(ValueError, match=message):
        FactorGraphEnergy.from_wcsp(WCSP.replace(old, new, 1))


@pytest.mark.parametrize("seed", range(5))
def test_cnf(seed):
    """Clauses of one to nine literals; the best state of the further variables is 0."""
    rng = np.random.default_rng(seed)
    n, sizes = 9, rng.permutation([1, 2, 3, 3, 4, 7, 8, 9])
    clauses = [rng.permutation(n)[:size] + 1 for size in sizes]
    clauses = [clause * rng.choice([-1, 1], len(clause)) for clause in clauses]
    clauses.append(np.array([1, -1, 2]))  # always true
    lines = [f"{' '.join(map(str, c))} 0" for c in clauses]
    text = "c a comment, with_other characters\np cnf 9 9\n" + "\n".join(lines) + "\n%\n0\n"
    energy = FactorGraphEnergy.from_cnf(text)
    assert energy.binary
    n_true = 0
    for state in itertools.product((0, 1), repeat=n):
        true = all(any((state[abs(k) - 1] == 1) == (k > 0) for k in c) for c in clauses)
        n_true += true
    log_z = infer(energy, "exact", returns="log_partition").log_partition[0]
    assert np.exp(log_z) == pytest.approx(n_true)
    best = infer(energy, "map_search").assignment[0]
    assert all(any((best[abs(k) - 1] == 1) == (k > 0) for k in c) for c in clauses)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("p cnf 2 1\n1 3 0", "a literal of clause 0, .* an integer from -2 to 2, as word 6"),
        ("p cnf 2 2\n1 0", "ends after word 6 .*, but a literal of clause 1"),
        ("p cnf 2 1\n0", "a clause with at least one literal"),
        ("p wcnf 2 1\n1 1 0", "'CNF' as word 2"),
        ("p cnf 2 1\n1 0 2 0", "must end after the last clause"),
    ],
)
def test_bad_cnf(text, message):
    with pytest.raises(ValueError, match=message):
        FactorGraphEnergy.from_cnf(text)


def scores(energy, states):
    return energy.rows(np.zeros(len(states), int)).score(states)


@pytest.mark.parametrize("energy", list(graphs())[1:2] + list(graphs())[3:], ids=range(7))
def test_costs(energy):
    """Scores of all states up to rounding and a constant, which a second text keeps exactly."""
    scale = 1e6
    again = FactorGraphEnergy.from_wcsp(energy.to_wcsp(scale=scale))
    np.testing.assert_array_equal(again.n_states, energy.n_states)
    states = all_states(energy.n_states)
    given, found = scores(energy, states), scores(again, states)
    np.testing.assert_array_equal(np.isfinite(found), np.isfinite(given))
    possible = np.isfinite(given)
    apart = given[possible] - found[possible] / scale
    assert np.ptp(apart) < 20 / scale
    assert (apart >= -20 / scale).all()
    twice = FactorGraphEnergy.from_wcsp(again.to_wcsp())
    np.testing.assert_array_equal(scores(twice, states), found)


def test_costs_of_the_example():
    energy = FactorGraphEnergy.from_wcsp(WCSP)
    again = FactorGraphEnergy.from_wcsp(energy.to_wcsp())
    np.testing.assert_array_equal(
        scores(again, all_states(energy.n_states)), scores(energy, all_states(energy.n_states))
    )


def test_clauses():
    rng = np.random.default_rng(0)
    n = 5
    lines = []
    for _ in range(6):
        chosen = rng.choice(n, int(rng.integers(1, 4)), replace=False) + 1
        lines.append(" ".join(map(str, chosen * rng.choice([-1, 1], len(chosen)))) + " 0")
    text = f"p cnf {n} {len(lines)}\n" + "\n".join(lines)
    given = FactorGraphEnergy.from_cnf(text)
    for energy in (given, given.condition([1, *[np.nan] * (n - 1)])):
        again = FactorGraphEnergy.from_cnf(energy.to_cnf())
        assert again.n_variables == n
        states = all_states(energy.n_states)
        kept = states[:, 0] == 1 if energy.evidence is not None else np.ones(len(states), bool)
        np.testing.assert_array_equal(
            scores(again, states), np.where(kept, scores(given, states), -np.inf)
        )


@pytest.mark.parametrize("kind", [OrFactors, AndFactors])
def test_clauses_of_logic_factors(kind):
    energy = FactorGraphEnergy([kind([[0, 1, 2], [3]], [3, 4])])
    again = FactorGraphEnergy.from_cnf(energy.to_cnf())
    states = all_states(energy.n_states)
    np.testing.assert_array_equal(scores(again, states), scores(energy, states))


def test_long_clauses_have_the_same_possible_states():
    energy = FactorGraphEnergy.from_cnf("p cnf 8 1  1 -2 3 4 -5 6 7 8 0")
    again = FactorGraphEnergy.from_cnf(energy.to_cnf())
    two = [infer(e, "exact", returns="log_partition").log_partition[0] for e in (energy, again)]
    np.testing.assert_allclose(two, np.log(255))


@pytest.mark.parametrize(
    ("energy", "message"),
    [
        (FactorGraphEnergy([], [0.5]), "a score of 0 or -inf, but the energy has a field of 0.5"),
        (FactorGraphEnergy.from_tables([[0]], [[0.0, -2.0]]), "has a log-potential of -2"),
        (FactorGraphEnergy.from_tables([[0]], [[0.0] * 3]), "variable 0 has 3 states"),
    ],
)
def test_soft_models_are_no_clauses(energy, message):
    with pytest.raises(ValueError, match=message):
        energy.to_cnf()


def test_costs_that_cannot_be_written():
    energy = FactorGraphEnergy.from_tables([[0]], [[0.0, -2.5]])
    with pytest.raises(ValueError, match=r"a log-potential of -2.5 is no integer.*give scale"):
        energy.to_wcsp()
    with pytest.raises(ValueError, match="scale is too large"):
        energy.to_wcsp(scale=1e16)
    for scale in (0, -1.0, np.inf, np.nan, "auto"):
        with pytest.raises(ValueError, match="scale must be a positive number or None"):
            energy.to_wcsp(scale=scale)
    for write in (energy.to_wcsp, energy.to_cnf):
        with pytest.raises(ValueError, match="row must be"):
            write(row=1)
    with pytest.raises(ValueError, match="the limit is 15 inputs"):
        FactorGraphEnergy([OrFactors([range(16)], [16])]).to_wcsp()
