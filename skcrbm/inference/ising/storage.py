"""Choose the form of the couplings of an Ising model for a solver by their number.

The form in which the couplings are stored decides only the shape of the statistics.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from skcrbm.energies import IsingEnergy

# Couplings are taken as a matrix if there are at most _FEW_LABELS labels, or if at least this share
# of all pairs is coupled. Times of sum-product messages in ms, for ten iterations of N models with
# L labels, as a matrix and as edges, by the share of the pairs that is coupled:
#
#        L    N    matrix    .03    .1    .2    .3    .5     1
#       30  200    1.1-1.9         1.3   2.6                7.6
#      100    1      .5       .6    .7   1.1   1.7   2.3    4.8
#      100   16     2.8       .9   1.2   1.6   3.7   6.0    8.7
#      100  200      28      3.4   6.6    12    17    42     59
#      400   16      30            19          66           189
_FEW_LABELS, _SHARE = 40, 0.25


def is_dense(energy: IsingEnergy) -> bool:
    """Return True if a matrix of the couplings takes less time than a list of edges."""
    n = energy.n_variables
    return n <= _FEW_LABELS or 2 * energy.n_couplings >= _SHARE * n * n


def with_edges(energy: Any) -> Any:
    """Return an Ising model whose couplings are a list of edges; other energies do not change.

    Samplers that visit neighbours then find them without a search through a matrix in each sweep.
    """
    return energy.as_sparse() if isinstance(energy, IsingEnergy) else energy


def solve_as_matrix(solve: Callable, method: Any, energy: IsingEnergy, query: Any) -> dict:
    """Call a solver of models with a matrix of couplings, and return the answers for `energy`."""
    if not energy.couplings_are_sparse:
        return solve(method, energy, query)
    fields = solve(method, energy.as_dense(), query)
    if "statistics" in fields:
        i, k = energy.edges.T
        fields["statistics"] = (np.ascontiguousarray(fields["statistics"][0][..., i, k]),)
    return fields
