"""Convert factor graphs of 0/1 variables to flat arrays for the kernels."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skcrbm.kernels.arguments import FactorGraph
from skcrbm.kernels.factor_tables import TableGraph
from skcrbm.utils.limits import LOG_RANGE, MAX_TABLE_VARIABLES
from skcrbm.utils.validation import kernel_array

# If the log-potentials of a table differ by more than this number times the log-range of the dtype,
# messages are stored as logarithms. With odds, the product of an extreme message and the smallest
# entry could underflow.
_TABLE_SHARE = 0.75
# A log-message about an impossible value is -inf in theory. The kernels use the finite number
# -(_LIMIT_MARGIN + _LIMIT_FACTOR * s) instead, where s is the largest sum of fields and finite
# messages. This number is smaller than any sum of other terms, and its exponential is 0 in every
# dtype.
_LIMIT_FACTOR, _LIMIT_MARGIN = 16.0, 2000.0


class FlatGraph(NamedTuple):
    """All factors of a factor graph over 0/1 variables, as flat arrays.

    There are F factors: first the tables, sorted by their number of variables, then the OR factors,
    and last the AND factors. An edge is a pair of a factor and one of its variables. There are E
    edges, and each edge has a message.
    """

    # int64 (E,): the variables of factor f are variables[edge_start[f]:edge_start[f + 1]]. The last
    # variable of an OR or AND factor is its output.
    variables: np.ndarray
    edge_start: np.ndarray  # int64 (F + 1,), first edge of each factor
    logs: np.ndarray  # float64 (n_entries,): log-potentials minus the largest value of the table
    table_start: np.ndarray  # int64 (n_tables + 1,), first entry of each table in `logs`
    shift: np.ndarray  # float64 (F,): largest log-potential of each table, 0 for OR and AND
    place: np.ndarray  # int64 (n_tables,): index of the first entry of each table in the statistics
    n_tables: int  # number of tables
    negated: np.ndarray  # bool (F,): True for AND, which is an OR of negated variables
    spread: np.ndarray  # float64 (F,): largest difference of finite log-potentials of a table
    hard: bool  # True if some states have weight 0

    @property
    def n_edges(self):
        """Number of edges. Each edge has one message from its factor to its variable."""
        return len(self.variables)

    @property
    def edge_factor(self):
        """Index of the factor of each edge, as an array (E,)."""
        return np.repeat(np.arange(len(self.edge_start) - 1), np.diff(self.edge_start))

    def norms(self, n_variables: int) -> np.ndarray:
        """Return a bound (n_variables,) of the sum of absolute log-messages to each variable.

        Messages about impossible values are not counted.
        """
        return np.bincount(self.variables, self.spread[self.edge_factor], n_variables)

    def tables(self, dtype):
        """Return the graph in the form that the kernels of `factor_tables` take."""
        start = self.edge_start[: self.n_tables + 1]
        weight = kernel_array(np.exp(self.logs), dtype)
        return TableGraph(self.variables[: start[-1]], start, weight, self.table_start)

    @property
    def factors(self):
        """The graph in the form that the kernels of `factor_logs` take."""
        return FactorGraph(
            self.variables, self.edge_start, np.exp(self.logs), self.logs, self.table_start,
            self.n_tables, self.negated,
        )  # fmt: skip


def has_large_tables(energy):
    """Return True if a table has too many variables for the kernels of 0/1 variables."""
    return energy.graph.max_arity > MAX_TABLE_VARIABLES


def flat_graph(energy):
    """Return the `FlatGraph` of a `FactorGraphEnergy` that has no large tables.

    A table is added to another table if the other table has all its variables; see `merging`.
    """
    variables, arity, logs, sizes, place = [], [], [], [], []
    merging = energy.graph.merging
    tables = energy.graph.tables(merging.add(energy.log_potentials.astype(np.float64)))
    for group, kept in zip(tables, merging.kept, strict=True):
        scopes = group.variables[kept]
        n_factors, k = scopes.shape
        variables.append(scopes.reshape(-1))
        arity.append(np.full(n_factors, k))
        logs.append(group.log_potentials[kept])
        sizes.append(np.full(n_factors, 2**k))
        place.append(group.entries[kept])
    n_tables = sum(map(len, arity))
    highest = [part.max(axis=1) for part in logs]
    hard = any((part == -np.inf).any() for part in logs)
    lowest = [np.where(part == -np.inf, np.inf, part).min(axis=1) for part in logs]
    shift = _joined([np.where(high == -np.inf, 0.0, high) for high in highest], np.float64)
    spread = np.maximum(shift - _joined(lowest, np.float64), 0.0)
    spread[~np.isfinite(spread)] = 0.0
    flat = _joined([part.reshape(-1) for part in logs], np.float64)
    sizes = _joined(sizes, np.int64)
    logic = [group for group in (energy.ors, energy.ands) if len(group.outputs)]
    for group in logic:
        variables.append(np.insert(group.inputs, group.start[1:], group.outputs))
        arity.append(np.diff(group.start) + 1)
    n_ors, n_ands = len(energy.ors.outputs), len(energy.ands.outputs)
    return FlatGraph(
        variables=kernel_array(_joined(variables, np.int64)),
        edge_start=_starts(_joined(arity, np.int64)),
        logs=flat - np.repeat(shift, sizes),
        table_start=_starts(sizes),
        shift=np.append(shift, np.zeros(n_ors + n_ands)),
        place=kernel_array(_joined(place, np.int64)),
        n_tables=n_tables,
        negated=np.arange(n_tables + n_ors + n_ands) >= n_tables + n_ors,
        spread=np.append(spread, np.zeros(n_ors + n_ands)),
        hard=hard or bool(logic),
    )


def _joined(parts, dtype):
    return np.concatenate([np.empty(0, dtype), *parts]).astype(dtype)


def _starts(sizes):
    start = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=start[1:])
    return start


def fits_odds(graph, norms, field, dtype, share=1.0):
    """Return a mask (N,): True for models whose messages can be stored as odds in a dtype.

    The result for a model does not depend on the other models of the batch, so that answers do not
    depend on the batch either. Messages fit if the logarithm of a product of messages uses at most
    the fraction `share` of the log-range of the dtype.
    """
    room = share * LOG_RANGE[np.dtype(dtype)]
    if graph.hard or graph.spread.max(initial=0.0) > _TABLE_SHARE * room:
        return np.zeros(len(field), bool)
    return (np.abs(field) + norms).max(axis=1, initial=0.0) <= room


def message_limits(norms, field):
    """Return the absolute value (N,) to which log-messages about impossible values are limited.

    This limit is larger than any sum of fields and other log-messages of the model.
    """
    largest = (np.abs(field) + norms).max(axis=1, initial=0.0)
    return _LIMIT_MARGIN + _LIMIT_FACTOR * largest.astype(np.float64)


def held_values(energy):
    """Return an int8 array (N, n): 0 or 1 for clamped variables, and -1 for free variables."""
    if energy.evidence is None:
        return np.full((energy.n_models, energy.n_variables), -1, np.int8)
    return np.where(np.isnan(energy.evidence), -1, np.nan_to_num(energy.evidence)).astype(np.int8)
