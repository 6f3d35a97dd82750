"""Convert binary factor graphs to graphs with an axis of states, which have only tables."""

from __future__ import annotations

import numpy as np

from skcrbm.energies._factors import TableFactors
from skcrbm.energies.graph import FactorGraphEnergy


def two_states(energy: FactorGraphEnergy, chains: bool = True) -> FactorGraphEnergy:
    """Convert a binary factor graph to a graph with an axis of states.

    If `chains` is True, the new graph has only tables, because an OR or AND factor with many inputs
    becomes a chain of tables. Auxiliary variables connect the tables; their indices follow the
    indices of the given variables. If `chains` is False, OR and AND factors are kept.
    """
    same = energy.with_states()
    if not chains or not len(energy.ors.outputs) + len(energy.ands.outputs):
        return same
    scopes, logic, n = energy.graph.expanded
    tables = [part for part in energy.factors if isinstance(part, TableFactors)]
    tables_of_chains = scopes[len(scopes) - len(logic) :]
    for kind in {table.tobytes() for table in logic}:
        some = [i for i, table in enumerate(logic) if table.tobytes() == kind]
        variables = np.array([tables_of_chains[i] for i in some])
        shape = (2,) * variables.shape[1]
        tables.append(TableFactors(variables, logic[some[0]].reshape(shape)))
    more = n - energy.n_variables
    field = np.pad(same.field, ((0, 0), (0, more), (0, 0)))
    other = FactorGraphEnergy(tables, field)
    other.constant = same.constant
    if energy.evidence is not None:
        other = other.condition(
            np.pad(energy.evidence, ((0, 0), (0, more)), constant_values=np.nan)
        )
    return other
