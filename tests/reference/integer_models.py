"""Small models whose scores are integers, with many ties."""

import numpy as np

from skcrbm.energies import FactorGraphEnergy


def integer_model(seed):
    """A tree, or a graph with circles, of tables of -1, 0 and 1, and weights of 0 in some."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 8))
    n_states = [2, 2, 3, None][seed % 4]
    counts = rng.integers(1, 4, size=n) if n_states is None else np.full(n, n_states)
    is_tree = bool(rng.integers(2))
    scopes = [(int(rng.integers(v)), v) for v in range(1, n)]
    if not is_tree:
        sizes = rng.integers(1, min(n, 3) + 1, size=rng.integers(1, 2 * n))
        scopes = [tuple(rng.permutation(n)[:size].tolist()) for size in sizes]
    scopes = [tuple(rng.permutation(scope).tolist()) for scope in scopes]
    tables = [rng.integers(-1, 2, size=counts[list(scope)]).astype(float) for scope in scopes]
    if rng.integers(3) == 0:
        for table in tables:
            table[rng.random(table.shape) < 0.2] = -np.inf
    energy = FactorGraphEnergy.from_tables(scopes, tables, n_states=counts.tolist(), n_variables=n)
    return energy, is_tree
