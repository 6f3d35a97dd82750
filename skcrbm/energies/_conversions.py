"""Conversions of factor graphs: from other pairwise energies, from and to networks of files."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skcrbm.energies._factors import logic_table
from skcrbm.energies._ising import IsingEnergy
from skcrbm.energies._rbm import RBMEnergy
from skcrbm.energies._sparse_ising import SparseIsingEnergy
from skcrbm.energies._uai import Network
from skcrbm.energies.base import BaseEnergy
from skcrbm.utils.limits import MAX_TABLE_VARIABLES

# Largest number of inputs of an OR or AND that is written as a table, of 2^16 weights.
_MAX_LOGIC_INPUTS = 15
# Largest |log| of a weight that is written; a float holds larger weights, too.
_MAX_LOG = 700.0


class PairTables(NamedTuple):
    """A batch of pairwise models as tables."""

    variables: np.ndarray  # int64 (F, 2)
    log_potentials: np.ndarray  # (F, 4)
    field: np.ndarray  # (N, n): log-odds
    centred: bool  # True if the fields act on ``x - 1/2`` instead of x


def pair_tables(energy: BaseEnergy) -> PairTables:
    """Return the tables of an energy: a table for each coupling that is not 0, or for each edge.

    Raises
    ------
    ValueError
        If the energy has no pairs of units.
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


def as_network(energy, row: int) -> Network:
    """Return one model of a `FactorGraphEnergy` as a network of tables."""
    scopes: list[list[int]] = []
    weights = []
    for i in range(energy.n_variables):
        field = float(energy.field[row, i])
        pair = np.array([-field / 2, field / 2] if energy.offset[row] else [0.0, field])
        if energy.evidence is not None and not np.isnan(energy.evidence[row, i]):
            pair[1 - int(energy.evidence[row, i])] = -np.inf
        if pair.any():
            scopes.append([i])
            weights.append(_weights(pair, "field"))
    for group in energy.tables:
        for scope, table in zip(group.variables, group.log_potentials, strict=True):
            scopes.append(scope.tolist())
            weights.append(_weights(table.astype(np.float64), "a log-potential"))
    for group, kind in ((energy.ors, "or"), (energy.ands, "and")):
        for f, output in enumerate(group.outputs):
            inputs = group.inputs[group.start[f] : group.start[f + 1]].tolist()
            if len(inputs) > _MAX_LOGIC_INPUTS:
                raise ValueError(
                    f"an OR or AND of {len(inputs)} inputs would be a table of "
                    f"2^{len(inputs) + 1} weights; the limit is {_MAX_LOGIC_INPUTS} inputs"
                )
            scopes.append([*inputs, int(output)])
            weights.append(logic_table(len(inputs), kind))
    tables = [table.reshape((2,) * len(scope)) for scope, table in zip(scopes, weights)]
    n_states = np.full(energy.n_variables, 2)
    return Network("MARKOV", n_states, [np.array(scope, np.int64) for scope in scopes], tables)


def _weights(logs, name):
    if (np.abs(logs[logs > -np.inf]) > _MAX_LOG).any():
        worst = logs[logs > -np.inf]
        worst = worst[np.abs(worst).argmax()]
        raise ValueError(
            f"{name} of {worst:.4g} cannot be written: the format takes weights, and its exp is "
            f"no float; the limit is ±{_MAX_LOG:g}"
        )
    return np.exp(logs)


def split_logic(network: Network) -> tuple[list, list, list, list]:
    """Return the scopes and weights of a network's tables, and the scopes of its ORs and ANDs.

    An OR or AND is a table of more than six variables, given as inputs and then the output.
    """
    other = np.flatnonzero(network.n_states != 2)
    if len(other):
        raise ValueError(
            f"the network must be of binary variables; variable {other[0]} has "
            f"{network.n_states[other[0]]} states"
        )
    scopes, weights, ors, ands = [], [], [], []
    for f, (scope, table) in enumerate(zip(network.scopes, network.tables, strict=True)):
        k, flat = len(scope), table.ravel()
        if 1 <= k <= MAX_TABLE_VARIABLES:
            scopes.append(scope)
            weights.append(flat)
        elif 1 < k <= _MAX_LOGIC_INPUTS + 1 and np.array_equal(flat, logic_table(k - 1, "or")):
            ors.append(scope)
        elif 1 < k <= _MAX_LOGIC_INPUTS + 1 and np.array_equal(flat, logic_table(k - 1, "and")):
            ands.append(scope)
        else:
            raise ValueError(
                f"the network has {k} variables in table {f}; tables take 1 to "
                f"{MAX_TABLE_VARIABLES}, an OR or AND up to {_MAX_LOGIC_INPUTS} inputs and the "
                "output last"
            )
    return scopes, weights, ors, ands
