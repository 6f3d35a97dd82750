"""Random models for the tests."""

import numpy as np

from skcrbm.energies import IsingEnergy, RBMEnergy


def random_rbm(
    seed, n_visible, n_hidden, n_models=1, scale=1.0, bias_scale=1.0, dtype=np.float64, spread=1.0
):
    """Weights N(0, scale^2) times U[1 - spread, 1], biases N(0, bias_scale^2) per model."""
    rng = np.random.default_rng(seed)
    weights = rng.normal(0, scale, (n_visible, n_hidden))
    weights *= 1 - spread * rng.random(weights.shape)
    return RBMEnergy(
        weights.astype(dtype),
        rng.normal(0, bias_scale, (n_models, n_visible)).astype(dtype),
        rng.normal(0, bias_scale, (n_models, n_hidden)).astype(dtype),
    )


def random_clamp(rng, n_models, n_variables, share=0.4):
    """NaN = free, else 0 or 1."""
    clamp = rng.integers(0, 2, (n_models, n_variables)).astype(float)
    clamp[rng.random(clamp.shape) > share] = np.nan
    return clamp


def random_ising(seed, n_labels, n_models=1, scale=1.0, bias_scale=1.0, dtype=np.float64):
    """Couplings N(0, scale^2), fields N(0, bias_scale^2) per model."""
    rng = np.random.default_rng(seed)
    coupling = np.triu(rng.normal(0, scale, (n_labels, n_labels)), 1)
    field = rng.normal(0, bias_scale, (n_models, n_labels))
    return IsingEnergy((coupling + coupling.T).astype(dtype), field.astype(dtype))
