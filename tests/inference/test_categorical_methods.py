"""Every method that serves variables of any number of states: evidence, ranges, bounds, threads."""

import itertools
import warnings

import numpy as np
import pytest
from reference.cases import deep_except
from reference.categorical import Enumerated, random_graph, with_logic
from reference.conformance import methods_for

from skcrbm.energies import FactorGraphEnergy
from skcrbm.energies._categorical_graph import CategoricalGraphEnergy
from skcrbm.inference import Exact, available_methods, infer

CASES = {
    "two": lambda: CategoricalGraphEnergy.from_binary(two_states(1)),
    "three": lambda: random_graph(2, (3, 3, 3, 3), [(0, 1), (1, 2), (2, 0), (2, 3), (1,)]),
    "mixed": lambda: random_graph(3, (2, 3, 1, 4), [(0, 1, 3), (3, 2), (0, 3), (1,)], zeros=0.05),
    "five variables in a table": lambda: random_graph(
        4, (2, 3, 2, 2, 3), [(4, 2, 0, 3, 1), (0, 1)]
    ),
    "logic": lambda: with_logic(5),
}


def two_states(seed):
    """0/1 variables."""
    rng = np.random.default_rng(seed)
    scopes = [(0, 1), (1, 2), (2, 0), (3, 1, 0)]
    tables = [rng.normal(size=(2,) * len(scope)) for scope in scopes]
    return FactorGraphEnergy.from_tables(scopes, tables, rng.normal(size=(2, 4)))


def evidences(energy):
    """No evidence, each value of each variable held, and other variables in each row."""
    yield energy
    for v in range(energy.n_variables):
        for k in range(energy.n_states[v]):
            held = np.full((energy.n_models, energy.n_variables), np.nan)
            held[:, v] = k
            yield energy.condition(held)
    rng = np.random.default_rng(0)
    for share in (0.5, 1.0):
        held = rng.integers(energy.n_states, size=(energy.n_models, energy.n_variables))
        yield energy.condition(np.where(rng.random(held.shape) < share, held, np.nan))


def assert_same(one, two):
    for name in ("log_odds", "assignment", "log_partition", "samples", "pairwise", "map_bound"):
        first, second = getattr(one, name), getattr(two, name)
        assert (first is None) == (second is None)
        if first is not None:
            np.testing.assert_array_equal(first, second)


def check_answer(given, exact, name, method, query, found):
    held = ~given.free
    values = given.evidence[held] if held.any() else np.empty(0)
    top, log_z = (np.array([getattr(e, part) for e in exact]) for part in ("best", "log_z"))
    assert found.converged.shape == (given.n_models,)
    if query == "marginals":
        assert ((found.marginals >= 0) & (found.marginals <= 1)).all()
        np.testing.assert_allclose(found.marginals.sum(-1), 1, atol=1e-6)
        assert (found.marginals[held][np.arange(len(values)), values.astype(int)] == 1).all()
    if query == "statistics":
        parts = given.unflatten(found.statistics[0])
        for part in parts:
            sums = part.reshape(len(part), -1).sum(1)
            np.testing.assert_allclose(sums, given.n_models, atol=1e-6)
    if query == "map":
        np.testing.assert_array_equal(found.assignment[held], values)
        assert (given.score(found.assignment) <= top + 1e-9 * (1 + abs(top))).all()
    if query == "map_bound":
        assert (found.map_bound >= top - 1e-9 * (1 + abs(top))).all()
    if query == "sample_log_prob":
        assert (found.sample_log_prob <= 1e-9).all()
    if query == "marginal_map":
        chosen = method.map_variables
        for n, e in enumerate(exact):
            code = e.states[:, chosen] @ 10 ** np.arange(len(chosen))
            weights = [np.logaddexp.reduce(e.scores[code == c]) for c in np.unique(code)]
            own = code == found.assignment[n, chosen] @ 10 ** np.arange(len(chosen))
            assert np.logaddexp.reduce(e.scores[own]) == pytest.approx(max(weights))
    if query == "samples":
        np.testing.assert_array_equal(found.samples.swapaxes(1, 2)[held][:, 0], values)
    if query == "log_partition" and name == "mean_field":
        assert ((found.log_partition <= log_z + 1e-9 * (1 + abs(log_z))) | ~found.converged).all()
    if query == "log_partition" and name == "tree_reweighted":
        assert ((found.log_partition >= log_z - 1e-6 * (1 + abs(log_z))) | ~found.converged).all()


@pytest.mark.parametrize("kind", deep_except(["mixed"], CASES))
def test_methods(kind):
    for given in evidences(CASES[kind]()):
        with np.errstate(invalid="ignore"):
            exact = [Enumerated(given, n) for n in range(given.n_models)]
        if min(e.best for e in exact) == -np.inf:
            continue
        for name, method in [
            *methods_for(given), ("exact", Exact(map_variables=[2, 0], random_state=0))
        ]:  # fmt: skip
            for query in sorted(method.supports(given)):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", UserWarning)
                    one, two = (infer(given, method, returns=query, n_jobs=j) for j in (1, 2))
                assert_same(one, two)
                check_answer(given, exact, name, method, query, one)


def test_names_of_methods():
    """All methods of messages, searches, samplers and sums."""
    names = {name for name, _ in methods_for(CASES["three"]())}
    assert names >= {
        "exact", "sum_product", "tree_reweighted", "mean_field", "max_product", "icm", "gibbs",
        "simulated_annealing", "ais", "bp_chain", "perturb_and_max_product", "mplp",
        "linear_program", "map_search",
    }  # fmt: skip


@pytest.mark.parametrize("counts", [[3, 3, 3], [2, 3, 4]])
@pytest.mark.parametrize(
    ("name", "other"),
    [("branch_and_bound", "map_search"), ("milp", "map_search"), ("gibbs_with_gradients", "gibbs")],
)
def test_refusals_name_the_method_to_use(name, other, counts):
    rng = np.random.default_rng(0)
    scopes = [(0, 1), (1, 2), (0, 2)]
    tables = [rng.normal(size=[counts[v] for v in scope]) for scope in scopes]
    energy = FactorGraphEnergy.from_tables(scopes, tables, n_states=counts)
    with pytest.raises(ValueError, match=f"'{name}' .* is for 0/1 variables; use '{other}'"):
        infer(energy, name)
    answer = "map" if other == "map_search" else "marginals"
    assert other in available_methods(energy, answer)


@pytest.mark.parametrize("name", ["dual_decomposition", "mixed_product", "branch_and_bound"])
@pytest.mark.parametrize("counts", [[3, 3, 3], [2, 2, 2]])
def test_refusals_of_marginal_map_name_the_option_of_exact(name, counts):
    """No method answers without options, so the error says which option to give."""
    tables = [np.arange(counts[0] * counts[1]).reshape(counts[:2])]
    energy = FactorGraphEnergy.from_tables([(0, 1)], tables, n_states=counts)
    assert available_methods(energy, "marginal_map") == []
    advice = r"methods that \w+: 'exact' with an option: 'exact' needs map_variables"
    with pytest.raises(ValueError, match=advice) as info:
        infer(energy, name, returns="marginal_map")
    assert "map_search" not in str(info.value)  # it cannot answer this query
    found = infer(energy, "exact", returns="marginal_map", map_variables=[0])
    assert found.assignment[0, 0] == counts[0] - 1


def test_variables_with_one_state():
    """Every method takes a file with states 2, 1, 3 and 1, and a file of constants."""
    text = """MARKOV 4  2 1 3 1  4  1 0  2 0 2  1 3  2 1 2
              2 1.0 2.0  6 1 2 3 4 5 6  1 5  3 1 2 3"""
    for energy in (
        FactorGraphEnergy.from_uai(text),
        FactorGraphEnergy.from_uai("MARKOV 2  1 1  2  1 0  2 0 1  1 2.0  1 3.0"),
    ):
        exact = [Enumerated(energy)]
        held = np.where(energy.n_states == 1, 0, np.nan)
        for given in (energy, energy.condition(held)):
            for name, method in methods_for(given):
                for query in sorted(method.supports(given)):
                    found = infer(given, method, returns=query)
                    check_answer(given, exact, name, method, query, found)
        assert FactorGraphEnergy.from_uai(energy.to_uai()).n_states.tolist() == (
            energy.n_states.tolist()
        )


def test_a_single_table_is_exact():
    """Messages have nothing to lose if one table holds all variables."""
    states = (2, 3, 2, 4)
    for order in itertools.islice(itertools.permutations(range(4)), 0, 24, 5):
        energy = random_graph(7, states, [order, (order[2], order[0])])
        for method in ("sum_product", "tree_reweighted"):
            found = infer(energy, method, returns=("marginals", "statistics", "log_partition"))
            log_z = [Enumerated(energy, n).log_z for n in range(2)]
            np.testing.assert_allclose(found.log_partition, log_z)
            entries = sum(Enumerated(energy, n).entries for n in range(2))
            np.testing.assert_allclose(found.pairwise, entries, atol=1e-9)
