"""Factor graphs in which each clique contributes a weighted product of its -1/+1 variables."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from skcrbm.energies._factors import TableFactors
from skcrbm.energies.graph import FactorGraphEnergy
from skcrbm.utils.limits import MAX_CLIQUE_ENTRIES


def n_table_entries(cliques: Sequence[Sequence[int]], weights: ArrayLike) -> int:
    """Return the number of entries of all tables of `clique_energy`: 2^k for a clique of k columns.

    Cliques of weight 0 have no table.
    """
    kept = zip(cliques, np.asarray(weights), strict=True)
    return sum(2 ** len(clique) for clique, weight in kept if weight != 0)


def clique_energy(
    cliques: Sequence[Sequence[int]],
    weights: ArrayLike,
    n_variables: int,
    field: np.ndarray | None = None,
) -> FactorGraphEnergy:
    """Return the energy with weights ``exp(sum_i f_i v_i + sum_j w_j prod_{i in C_j} v_i)``.

    The variables v are -1/+1. Clique C_j has the weight w_j in `weights`. Cliques with w_j = 0 are
    left out. `field` (N, n_variables) holds f; None means a single model with fields of 0. A
    ValueError is raised if the tables of all cliques together have more than `MAX_CLIQUE_ENTRIES`
    entries.
    """
    n_entries = n_table_entries(cliques, weights)
    if n_entries > MAX_CLIQUE_ENTRIES:
        raise ValueError(
            f"the tables of the cliques would have {n_entries} entries, 2^k for a clique of k "
            f"variables, but the limit for all tables together is {MAX_CLIQUE_ENTRIES}"
        )
    by_size = {}
    for clique, weight in zip(cliques, np.asarray(weights), strict=True):
        if weight != 0:
            by_size.setdefault(len(clique), []).append((clique, weight))
    factors = []
    for k in sorted(by_size):
        scopes, values = zip(*by_size[k], strict=True)
        feature = np.ones(1)
        for _ in range(k):
            feature = np.concatenate([-feature, feature])
        factors.append(TableFactors(np.array(scopes), np.array(values)[:, None] * feature))
    if field is None:
        return FactorGraphEnergy(factors, n_variables=n_variables)
    energy = FactorGraphEnergy(factors, 2.0 * field)
    energy._centred = True
    return energy
