"""Stars and fans with more than a thousand neighbours, whose table would have 2**1030 entries."""

import numpy as np
import pytest
from reference.budgets import short

from skcrbm.energies import FactorGraphEnergy, IsingEnergy, RBMEnergy, TableFactors
from skcrbm.inference import available_methods, infer
from skcrbm.inference.registry import METHODS

N = 1030
STAR = [[0, i] for i in range(1, N)]
FAN = STAR + [[i, i + 1] for i in range(1, N - 1)]
SLOW = ("gibbs_with_gradients", "milp", "branch_and_bound", "bp_chain", "linear_program")


def make(kind, scopes):
    rng = np.random.default_rng(0)
    if kind == "RBM":
        return RBMEnergy(rng.normal(0, 0.1, (N, 1)), rng.normal(size=N), [0.3])
    if kind == "Ising":
        return IsingEnergy.from_edges(scopes, rng.normal(0, 0.2, len(scopes)), rng.normal(size=N))
    k = 3 if kind == "states" else 2
    field = rng.normal(size=(1, N, k) if kind == "states" else (1, N))
    tables = rng.normal(0, 0.2, (len(scopes), k, k))
    return FactorGraphEnergy([TableFactors(scopes, tables)], field)


@pytest.mark.parametrize("kind", ["binary", "states", "Ising"])
def test_best_states(kind):
    for scopes in (STAR, FAN):
        energy = make(kind, scopes)
        best = energy.score(infer(energy, "exact", returns="map").assignment)
        found = infer(energy, "map_search", returns=("map", "map_bound"))
        np.testing.assert_allclose(energy.score(found.assignment), best)
        np.testing.assert_allclose(found.map_bound, best)


@pytest.mark.parametrize("kind", ["binary", "states", "Ising", "RBM"])
def test_marginals_of_stars(kind):
    energy = make(kind, STAR)
    exact = infer(energy, "exact", returns=("marginals", "log_partition"))
    found = infer(energy, "sum_product", returns=("marginals", "log_partition"))
    np.testing.assert_allclose(found.marginals, exact.marginals, atol=1e-5)
    np.testing.assert_allclose(found.log_partition, exact.log_partition, atol=1e-3)


@pytest.mark.deep
@pytest.mark.parametrize("scopes", [STAR, FAN], ids=["star", "fan"])
@pytest.mark.parametrize("kind", ["binary", "states", "Ising", "RBM"])
def test_every_method_answers(kind, scopes):
    energy = make(kind, scopes)
    for method in available_methods(energy):
        answers = METHODS.get(method)().supports(energy) - {"statistics", "sample_log_prob"}
        for answer in sorted(answers - {"best_states"})[: 1 if method in SLOW else None]:
            try:
                found = infer(energy, method, returns=answer, **short(method, answer))
            except ValueError as error:  # too many states to enumerate
                if "the limit is" not in str(error):
                    raise
            else:
                assert found.converged.shape == (1,)


def test_dense_models_have_a_clear_error():
    coupling = np.ones((N, N)) - np.eye(N)
    with pytest.raises(ValueError, match="enumerates the free labels; there are 1030"):
        infer(IsingEnergy(coupling), "exact")
