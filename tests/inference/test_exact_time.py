"""How long "exact" takes, as it is estimated beforehand, where evidence is given."""

import numpy as np
import pytest
from reference.random_models import random_rbm

from skcrbm.inference import exact_seconds


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
