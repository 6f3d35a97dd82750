"""Warnings of evidence that contradicts a factor graph, and of samples of weight 0."""

import warnings

import numpy as np
import pytest
from reference.categorical import Enumerated, random_graph, with_logic

from skcrbm.energies import AndFactors, FactorGraphEnergy, OrFactors, TableFactors
from skcrbm.energies.contradictions import contradicted_models, log_partition_range
from skcrbm.inference import Gibbs, available_methods, infer, sample

NOTHING = np.full((2, 2), -np.inf)


@pytest.mark.quick_cases(14)
@pytest.mark.parametrize("seed", range(15))
@pytest.mark.parametrize("kind", ["tables", "logic", "tree"])
def test_against_enumeration(seed, kind):
    """A model that is reported is impossible; on trees each impossible model is reported."""
    rng = np.random.default_rng(seed)
    if kind == "tables":
        energy = random_graph(seed, zeros=0.4, n_models=4)
    elif kind == "tree":
        energy = random_graph(seed, (2, 3, 4, 2), [(0, 1), (1, 2, 3), (3,)], 4, zeros=0.5)
    else:
        energy = with_logic(seed, 0.3).rows([0, 1, 0, 1])
    held = np.full((4, energy.n_variables), np.nan)
    for row in held:
        for v in rng.choice(energy.n_variables, 2, replace=False):
            row[v] = rng.integers(energy.n_states[v])
    energy = energy.condition(held)
    with np.errstate(invalid="ignore"):
        impossible = np.array([Enumerated(energy, n).best == -np.inf for n in range(4)])
    found = contradicted_models(energy)
    assert (impossible | ~found).all()
    if kind == "tree":
        np.testing.assert_array_equal(found, impossible)


@pytest.mark.parametrize("seed", range(10))
def test_binary_graphs(seed):
    """0/1 energies have the answer of the same graph with an axis of two states."""
    rng = np.random.default_rng(seed)
    tables = np.where(rng.random((4, 8)) < 0.3, -np.inf, 0)
    scopes = [[0, 1, 2], [2, 3, 4], [4, 5, 0], [1, 3, 5]]
    logic = OrFactors([[0, 1, 2], [6]], [6, 7]), AndFactors([[3, 7, 4]], [8])
    energy = FactorGraphEnergy([TableFactors(scopes, tables), *logic], np.zeros((3, 9)))
    held = np.where(rng.random((3, 9)) < 0.5, rng.integers(2, size=(3, 9)), np.nan)
    found = contradicted_models(energy.condition(held))
    both = energy.with_states().condition(held)
    np.testing.assert_array_equal(found, contradicted_models(both))


def test_logic_alone():
    """Inputs that are off force the output off through two ORs."""
    energy = FactorGraphEnergy([OrFactors([[0, 1], [2]], [2, 3])], np.zeros((2, 4)))
    held = np.array([[0, 0, np.nan, 1], [0, np.nan, np.nan, 1]])
    assert contradicted_models(energy.condition(held)).tolist() == [True, False]


@pytest.mark.parametrize("method", ["gibbs", "sum_product", "mean_field", "icm", "bp_chain"])
def test_contradicting_evidence(method):
    energy = FactorGraphEnergy([OrFactors([[0, 1]], [2])], np.zeros((2, 3)))
    clamp = [[0, 0, np.nan], [0, 0, 1]]
    with pytest.warns(UserWarning, match="clamp contradicts the factors of 1 of 2 models.*model 1"):
        found = infer(energy, method, clamp=clamp)
    assert not found.converged[1]


@pytest.mark.parametrize("returns", ["samples", "log_partition"])
def test_perturb_and_map_warns_once_and_counts_the_models_of_the_user(returns):
    """The method solves many copies of a model; earlier it warned about 64 of 64 models."""
    energy = FactorGraphEnergy([OrFactors([[0, 1]], [2])], np.zeros((2, 3)))
    clamp = [[0, 0, np.nan], [0, 0, 1]]
    with pytest.warns(UserWarning, match="clamp contradicts") as caught:
        found = infer(energy, "perturb_and_map", returns=returns, clamp=clamp, n_samples=100)
    assert len(caught) == 1
    assert "clamp contradicts the factors of 1 of 2 models" in str(caught[0].message)
    assert found.converged.tolist() == [True, False]
    if returns == "samples":
        assert (found.samples == [[[0, 0, 0]], [[0, 0, 1]]]).all()
    else:
        assert found.log_partition[1] == -np.inf


def _categories_that_are_equal():
    """A chain of three variables, in which neighbours have the same of three states."""
    return FactorGraphEnergy.from_tables([[0, 1], [1, 2]], [np.where(np.eye(3), 0, -np.inf)] * 2)


@pytest.mark.parametrize("method", available_methods(_categories_that_are_equal()))
def test_contradicting_evidence_of_categories(method):
    """Every method warns, or raises an error if it can prove that there is no state."""
    energy = _categories_that_are_equal()
    if method in ("exact", "map_search"):
        with pytest.raises(ValueError, match="no state of positive weight that agrees with clamp"):
            infer(energy, method, clamp=[1, 2, np.nan])
        return
    with pytest.warns(UserWarning, match="clamp contradicts the factors of 1 of 1 models"):
        found = infer(energy, method, clamp=[1, 2, np.nan])
    assert not found.converged[0]


@pytest.mark.parametrize("method", ["gibbs", "icm"])
def test_possible_evidence_of_categories(method):
    energy = FactorGraphEnergy.from_tables([[0, 1]], [np.where(np.eye(3), 0, -np.inf)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        infer(energy, method, clamp=[1, np.nan])


@pytest.mark.parametrize("n_states", [2, [2, 2, 3]])
def test_samples_of_weight_0(n_states):
    width = 2 if n_states == 2 else 3
    energy = FactorGraphEnergy(
        [TableFactors([[0, 1]], NOTHING)], n_variables=width, n_states=n_states
    )
    with pytest.warns(UserWarning, match="samples of 1 of 1 models .* have weight 0"):
        sample(energy, n_samples=3, random_state=0)
    with pytest.warns(UserWarning, match="samples of 1 of 1 models .* have weight 0"):
        found = infer(energy, Gibbs(max_iter=5), returns="marginals")
    assert not found.converged[0]


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("binary", [False, True])
def test_range_of_log_partition(seed, binary):
    """Log Z of a possible model is in its range, whatever the evidence."""
    rng = np.random.default_rng(seed)
    if binary:
        tables = np.where(rng.random((4, 8)) < 0.3, -np.inf, rng.normal(size=(4, 8)))
        scopes = [[0, 1, 2], [2, 3, 4], [4, 5, 0], [1, 3, 5]]
        logic = OrFactors([[0, 1, 2]], [6])
        energy = FactorGraphEnergy([TableFactors(scopes, tables), logic], rng.normal(size=(3, 7)))
    else:
        energy = random_graph(seed, zeros=0.2, n_models=3)
    held = np.full((3, energy.n_variables), np.nan)
    held[1, 0], held[2, 1] = 0, 1
    energy = energy.condition(held)
    low, high = log_partition_range(energy)
    for n in range(3):
        try:
            exact = infer(energy.rows([n]), "exact", returns="log_partition").log_partition[0]
        except ValueError:
            continue
        assert low[n] - 1e-9 <= exact <= high[n] + 1e-9


def test_impossible_log_partition_warns():
    """Parities of many loops have a Bethe log Z far below the log-weight of every state."""
    rng = np.random.default_rng(0)
    scopes = [rng.choice(30, 3, replace=False) for _ in range(40)]
    planted = rng.integers(2, size=30)
    parity = np.indices((2, 2, 2)).sum(axis=0) % 2
    tables = [np.where(parity == planted[scope].sum() % 2, 0, -np.inf) for scope in scopes]
    energy = FactorGraphEnergy([TableFactors(scopes, tables)])
    with pytest.warns(UserWarning, match=r"log_partition of 1 of 1 models .* is wrong"):
        found = infer(energy, "sum_product", returns="log_partition")
    exact = infer(energy, "exact", returns="log_partition")
    assert found.log_partition[0] < -1 < -1e-9 <= exact.log_partition[0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        infer(energy, "sum_product")  # marginals alone have no such range
        infer(energy, "mean_field", returns="log_partition")  # a valid lower bound
