"""Energies of pairs as tables of two variables."""

from typing import NamedTuple

import numpy as np

from skcrbm.energies._ising import IsingEnergy
from skcrbm.energies._rbm import RBMEnergy
from skcrbm.energies._sparse_ising import SparseIsingEnergy


class PairTables(NamedTuple):
    """A batch of models as tables.

    Attributes
    ----------
    variables : ndarray of int64 (F, 2)
    log_potentials : ndarray (F, 4)
    field : ndarray (N, n)
        Log-odds.
    centred : bool
        Whether the fields act on ``x - 1/2`` in place of x.
    """

    variables: np.ndarray
    log_potentials: np.ndarray
    field: np.ndarray
    centred: bool


def pair_tables(energy):
    """Return the tables of an energy: of each coupling that is not 0, or of each edge.

    Raises
    ------
    ValueError
        On a kind of energy that is not one of pairs of independent units.
    """
    if isinstance(energy, RBMEnergy) and not energy.categorical:
        i, j = np.nonzero(energy.weights)
        tables = energy.weights[i, j][:, None] * np.array([0, 0, 0, 1], energy.dtype)
        field = np.hstack([energy.visible_bias, energy.hidden_bias])
        return PairTables(np.column_stack([i, j + energy.n_visible]), tables, field, False)
    if isinstance(energy, IsingEnergy):
        edges = np.argwhere(np.triu(energy.coupling))
        weights = energy.coupling[edges[:, 0], edges[:, 1]]
    elif isinstance(energy, SparseIsingEnergy):
        edges, weights = energy.edges, energy.edge_coupling
    else:
        raise ValueError(
            "energy must be an RBMEnergy, IsingEnergy or SparseIsingEnergy, got "
            f"{type(energy).__name__}"
        )
    tables = weights[:, None] * np.array([1, -1, -1, 1], energy.dtype)
    return PairTables(edges, tables, 2 * energy.field, True)
