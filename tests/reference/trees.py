"""Models without loops, on which belief propagation is exact, and their exact answers."""

import numpy as np

from reference.brute_force import brute_force
from skcrbm.energies import RBMEnergy

# Clamps of a tree's seven units.
CLAMPS = {
    "nothing": [np.nan] * 7,
    "all": [1, 0, 1, 1, 0, 1, 0],
    "visible": [1, 0, 1, 1, 1, np.nan, np.nan],
    "hidden": [np.nan] * 5 + [1, 1],
    "mixed": [1, np.nan, np.nan, 0, 1, np.nan, 1],
    "off": [0, np.nan, 0, np.nan, np.nan, 0, np.nan],
}


def tree(n_models=1, dtype=np.float64):
    """A path v0 - h0 - v1 - h1 - v2 with a branch h0 - v3, and v4 on its own."""
    rng = np.random.default_rng(0)
    weights = np.zeros((5, 2))
    for i, j in ((0, 0), (1, 0), (1, 1), (2, 1), (3, 0)):
        weights[i, j] = rng.normal(0, 2)
    b, c = rng.normal(0, 1, (n_models, 5)), rng.normal(0, 1, (n_models, 2))
    return RBMEnergy(weights.astype(dtype), b.astype(dtype), c.astype(dtype))


def assert_exact(energy, result, clamp=None, atol=1e-10, all_pairs=False):
    """Equal to brute force, per model; `result` has all answers, pairwise per model.

    Belief propagation on a tree is exact on the pairs with an edge; `all_pairs` asks for
    the others as well.
    """
    clamp = np.full((energy.n_models, energy.n_variables), np.nan) if clamp is None else clamp
    clamp = np.broadcast_to(clamp, (energy.n_models, energy.n_variables))
    for n, (b, c) in enumerate(zip(*energy.fields, strict=True)):
        expected = brute_force(energy.weights, b, c, clamp[n])
        np.testing.assert_allclose(result.marginals[n], expected.marginals, atol=atol)
        np.testing.assert_allclose(result.log_odds[n], expected.log_odds, rtol=atol, atol=atol)
        pairs = np.ones_like(energy.weights, bool)
        if not all_pairs:
            fixed = ~np.isnan(clamp[n])
            pairs = (energy.weights != 0) | fixed[: len(b), None] | fixed[len(b) :]
        np.testing.assert_allclose(result.pairwise[n][pairs], expected.pairwise[pairs], atol=atol)
        np.testing.assert_allclose(
            result.log_partition[n], expected.log_partition, rtol=atol, atol=atol
        )
