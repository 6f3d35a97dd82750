"""Products of -1/+1 variables over cliques, as tables."""

import numpy as np

from skcrbm.energies._factor_graph import FactorGraphEnergy
from skcrbm.energies._factors import TableFactors


def clique_energy(cliques, weights, n_variables):
    """Return the energy of ``exp(sum_j w_j prod_{i in C_j} v_i)``, v in {-1, +1}.

    Parameters
    ----------
    cliques : sequence of tuples of int
        Up to six variables each. There are no tables for cliques of weight 0.
    weights : array-like (J,)
    n_variables : int

    Returns
    -------
    FactorGraphEnergy
    """
    by_size = {}
    for clique, weight in zip(cliques, weights, strict=True):
        if weight != 0:
            by_size.setdefault(len(clique), []).append((clique, weight))
    factors = []
    for k in sorted(by_size):
        scopes, values = zip(*by_size[k], strict=True)
        feature = np.ones(1)
        for _ in range(k):
            feature = np.concatenate([-feature, feature])
        factors.append(TableFactors(np.array(scopes), np.array(values)[:, None] * feature))
    return FactorGraphEnergy(factors, n_variables=n_variables)
