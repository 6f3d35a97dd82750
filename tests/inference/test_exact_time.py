"""How long "exact" takes, as it is estimated beforehand."""

import numpy as np
import pytest
from reference.random_models import random_rbm

from skcrbm.inference import Exact, infer
from skcrbm.inference.exact.parts import exact_seconds


@pytest.mark.parametrize("returns", ["log_partition", "samples", "statistics"])
def test_evidence_does_not_shorten_sums(returns):
    """Sums and samples of an RBM go through all states of a layer, whatever is held."""
    energy = random_rbm(0, 25, 26, n_models=3)
    held = np.full(51, np.nan)
    held[2:] = 0
    without = exact_seconds(energy, [returns])
    assert without > 1
    assert exact_seconds(energy.condition(held), [returns]) == without


@pytest.mark.parametrize(("returns", "n_visible"), [("map", 25), ("map", 60), ("marginal_map", 25)])
def test_evidence_shortens_the_search_for_the_best_state(returns, n_visible):
    energy = random_rbm(0, n_visible, 85 - n_visible, n_models=2)
    held = np.full(85, np.nan)
    layer = slice(1, 25) if n_visible == 25 else slice(61, 85)
    held[layer] = 0
    without = exact_seconds(energy, [returns])
    given = exact_seconds(energy.condition(held), [returns])
    np.testing.assert_allclose(given, without / 2**24)


@pytest.mark.parametrize("returns", ["marginals", "map", "samples"])
def test_exact_refuses_what_takes_days(returns):
    energy = random_rbm(0, 30, 30).rows(np.zeros(10_000, int))
    with pytest.raises(ValueError, match=r"2\^30 states of each of 10000 models, about \d+ hours"):
        infer(energy, Exact(max_units=30), returns=returns)


def test_exact_refuses_large_models():
    energy = random_rbm(0, 25, 22)
    with pytest.raises(ValueError, match=r"22 units; the limit is max_units=20.*'sum_product'"):
        infer(energy, "exact")
    with pytest.raises(ValueError, match="3 units; the limit is max_units=2"):
        infer(random_rbm(0, 3, 4), Exact(max_units=2))
    assert infer(random_rbm(0, 3, 4), Exact(max_units=3)).converged.all()
