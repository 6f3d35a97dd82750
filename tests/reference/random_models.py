"""Random models for the tests."""

import numpy as np

from skcrbm.energies import AndFactors, FactorGraphEnergy, IsingEnergy, OrFactors, RBMEnergy


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


def random_graph(
    seed, n_variables, n_factors, n_models=1, scale=1.0, arity=6, zeros=0, logic=False, dtype=float
):
    """Tables N(0, scale^2) over 1 to `arity` variables, the first `zeros` with a 0; OR and AND."""
    rng = np.random.default_rng(seed)
    scopes, tables = [], []
    for a in range(n_factors):
        k = rng.integers(1, arity + 1)
        scopes.append(rng.choice(n_variables, k, replace=False))
        tables.append(rng.normal(0, scale, 2**k).astype(dtype))
        if a < zeros:
            tables[-1][rng.integers(2**k)] = -np.inf
    field = rng.normal(0, 1, (n_models, n_variables)).astype(dtype)
    energy = FactorGraphEnergy.from_tables(scopes, tables, field)
    if logic:
        more = [OrFactors([[0, 1, 2], [4, 0]], [3, 5]), AndFactors([[4, 5]], [1])]
        energy = FactorGraphEnergy([*energy.factors, *more], field)
    return energy


def random_tree_of_tables(seed, n_factors, n_models=1, scale=1.0, dtype=float):
    """Tables of 1 to 6 variables, each with a variable of an earlier table; a free variable."""
    rng = np.random.default_rng(seed)
    scopes, n_variables = [], 1
    for _ in range(n_factors):
        k = rng.integers(1, 7)
        scope = [rng.integers(n_variables), *range(n_variables, n_variables + k - 1)]
        scopes.append(rng.permutation(scope))
        n_variables += k - 1
    tables = [rng.normal(0, scale, 2 ** len(scope)).astype(dtype) for scope in scopes]
    field = rng.normal(0, 1, (n_models, n_variables + 1)).astype(dtype)
    return FactorGraphEnergy.from_tables(scopes, tables, field)
