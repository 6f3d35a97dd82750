"""What a writer writes, its reader reads; constraint files; weights that are too small."""

import itertools
import warnings

import numpy as np
import pytest
from reference.energy_cases import make_factor_graph, make_logic, make_states

from skcrbm.energies import (
    FactorGraphEnergy,
    IsingEnergy,
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
    states = np.array(list(itertools.product(*map(range, energy.n_states))), int)
    states = states.reshape(len(states), energy.n_variables)
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
