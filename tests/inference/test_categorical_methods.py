"""Every method that serves variables of any number of states: evidence, ranges, bounds, threads."""

import itertools

import numpy as np
import pytest
from reference.categorical import Enumerated, random_graph
from reference.conformance import methods_for

from skcrbm.energies import FactorGraphEnergy
from skcrbm.inference import available_methods, infer


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
