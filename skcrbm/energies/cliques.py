"""Products of -1/+1 variables over cliques, as tables."""

from itertools import combinations

import numpy as np

from skcrbm.energies._factor_graph import FactorGraphEnergy
from skcrbm.energies._factors import TableFactors
from skcrbm.energies._ising import IsingEnergy


def clique_energy(cliques, weights, n_variables, field=None):
    """Return the energy of ``exp(sum_i f_i v_i + sum_j w_j prod_{i in C_j} v_i)``, v in {-1, +1}.

    Parameters
    ----------
    cliques : sequence of tuples of int
        Up to six variables each. There are no tables for cliques of weight 0.
    weights : array-like (J,)
    n_variables : int
    field : ndarray (N, n_variables), default=None
        f; None: one model, 0.

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
    if field is None:
        return FactorGraphEnergy(factors, n_variables=n_variables)
    energy = FactorGraphEnergy(factors, 2.0 * field)
    energy._centred = True
    return energy


def label_energy(coupling, field, cliques=(), weights=()):
    """Return the energy of pairs of labels in {-1, +1}, and of cliques of more.

    Parameters
    ----------
    coupling : ndarray (L, L)
        As of an `IsingEnergy`.
    field : ndarray (N, L)
    cliques : sequence of tuples of int
    weights : ndarray (J,)

    Returns
    -------
    IsingEnergy or FactorGraphEnergy
        The first without cliques.
    """
    if not len(cliques):
        return IsingEnergy(coupling, field)
    pairs = list(combinations(range(len(coupling)), 2))
    of_pairs = coupling[np.triu_indices(len(coupling), 1)]
    every = np.concatenate([of_pairs, weights])
    return clique_energy([*pairs, *cliques], every, len(coupling), field)
