"""Factor graphs as the flat arrays that kernels take."""

from typing import NamedTuple

import numpy as np

from skcrbm.kernels.arguments import FactorGraph
from skcrbm.kernels.factor_tables import TableGraph
from skcrbm.utils.limits import LOG_RANGE
from skcrbm.utils.validation import kernel_array

# Share of a dtype's range that one table may take: what a variable with the most extreme messages
# sends must not underflow beside the least entry.
_TABLE_SHARE = 0.75
# Messages of impossible values, in the kernel for them: this times the largest log-odds that
# fields and weights other than zero add up to, plus a margin that is nothing in any dtype.
_LIMIT_FACTOR, _LIMIT_MARGIN = 16.0, 2000.0


class FlatGraph(NamedTuple):
    """All factors: tables by number of variables, then OR, then AND.

    Attributes
    ----------
    variables : ndarray of int64 (E,)
        Of factor f ``variables[edge_start[f]:edge_start[f + 1]]``; the output of OR and AND last.
    edge_start : ndarray of int64 (F + 1,)
    logs : ndarray (n_entries,) float64
        Log-potentials, less the largest one of each table.
    table_start : ndarray of int64 (n_tables + 1,)
    shift : ndarray (F,) float64
        What was subtracted, 0 of OR and AND.
    place : ndarray of int64 (n_tables,)
        Where each table's entries are among the statistics.
    n_tables : int
    negated : ndarray of bool (F,)
        AND, which is OR of all variables negated.
    spread : ndarray (F,) float64
        Largest difference of a table's log-potentials that are not -inf.
    hard : bool
        Whether there are states of weight 0.
    """

    variables: np.ndarray
    edge_start: np.ndarray
    logs: np.ndarray
    table_start: np.ndarray
    shift: np.ndarray
    place: np.ndarray
    n_tables: int
    negated: np.ndarray
    spread: np.ndarray
    hard: bool

    @property
    def n_edges(self):
        """Number of messages."""
        return len(self.variables)

    @property
    def edge_factor(self):
        """Which factor each edge belongs to, (E,)."""
        return np.repeat(np.arange(len(self.edge_start) - 1), np.diff(self.edge_start))

    def norms(self, n_variables, rho=1.0):
        """Largest |log-odds| (n_variables,) that messages add up to, of weights other than 0."""
        each = np.broadcast_to(self.spread / np.minimum(rho, 1.0), self.spread.shape)
        return np.bincount(self.variables, each[self.edge_factor], n_variables)

    def tables(self, dtype):
        """Return the graph as the kernels of `factor_tables` take it."""
        start = self.edge_start[: self.n_tables + 1]
        weight = kernel_array(np.exp(self.logs), dtype)
        return TableGraph(self.variables[: start[-1]], start, weight, self.table_start)

    def factors(self, rho):
        """Return the graph as the kernels of `factor_logs` take it."""
        logs = self.logs / np.repeat(rho[: self.n_tables], np.diff(self.table_start))
        return FactorGraph(
            self.variables, self.edge_start, np.exp(logs), logs, self.table_start, self.n_tables,
            self.negated, rho,
        )  # fmt: skip


def flat_graph(energy):
    """Return the `FlatGraph` of a `FactorGraphEnergy`."""
    variables, arity, logs, sizes, place = [], [], [], [], []
    for group in energy.tables:
        n_factors, k = group.variables.shape
        variables.append(group.variables.reshape(-1))
        arity.append(np.full(n_factors, k))
        logs.append(group.log_potentials.astype(np.float64))
        sizes.append(np.full(n_factors, 2**k))
        place.append(group.entries)
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
    """Which models (N,) can have their messages as odds in a dtype, with room to spare.

    Each model is judged alone: its numbers must not depend on the rest of the batch. A kernel
    that multiplies more of them has a `share` of the room.
    """
    room = share * LOG_RANGE[np.dtype(dtype)]
    if graph.hard or graph.spread.max(initial=0.0) > _TABLE_SHARE * room:
        return np.zeros(len(field), bool)
    return (np.abs(field) + norms).max(axis=1, initial=0.0) <= room


def message_limits(norms, field):
    """Bounds (N,) of log-messages, beyond all that can add up without weights of zero."""
    largest = (np.abs(field) + norms).max(axis=1, initial=0.0)
    return _LIMIT_MARGIN + _LIMIT_FACTOR * largest.astype(np.float64)


def held_values(energy):
    """Values (N, n) of int8 of the held variables, -1 where free."""
    if energy.evidence is None:
        return np.full((energy.n_models, energy.n_variables), -1, np.int8)
    return np.where(np.isnan(energy.evidence), -1, np.nan_to_num(energy.evidence)).astype(np.int8)
