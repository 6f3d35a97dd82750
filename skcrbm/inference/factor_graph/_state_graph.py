"""Convert factor graphs of variables with any number of states to flat arrays for kernels."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from scipy.sparse.csgraph import breadth_first_order, connected_components

from skcrbm.inference.factor_graph.appearance import factor_appearance
from skcrbm.kernels.arguments import AND, OR, PAIR, POTTS, TABLE, CategoricalGraph, CategoricalWork
from skcrbm.kernels.categorical_receive import LaneWork
from skcrbm.utils.graphs import adjacency
from skcrbm.utils.validation import kernel_array

# Maps the structure of a graph, by `keep_logic`, to what `_of_structure` has computed from it.
_KEPT: WeakKeyDictionary[Any, dict] = WeakKeyDictionary()
# Largest number of entries of all tables, and of variables, of a structure for which it is kept.
_MOST_KEPT = 2**14
# Tables with at most this number of entries are reduced column by column, see `_by_row`.
_SHORT_ROW = 64


def _of_structure(compute):
    """Make a property of a `StateGraph` that does not depend on the log-weights.

    Small models are often solved again with other log-weights, so the value is kept with the
    structure of the graph.
    """

    @functools.wraps(compute)
    def value(self):
        if compute.__name__ not in self._kept:
            self._kept[compute.__name__] = compute(self)
        return self._kept[compute.__name__]

    return property(value)


class StateGraph:
    """A factor graph as arrays: tables of two or more variables, and weights of states.

    If the scope of a table is contained in the scope of another table, the two tables are added.
    Tables of one variable are added to the log-weights of the states of this variable. OR and AND
    factors are kept if `logic` is "keep". They are converted to a table each if it is "tables". If
    it is "chains", large factors become chains of tables, with auxiliary variables.

    Attributes
    ----------
    has_state : ndarray (n, K)
        Row i is True for the states that variable i has; n is the number of variables, K the
        largest number of states. S is the number of True entries. The last axis of flat arrays
        (..., S) lists the states of variable 0, then the states of variable 1, and so on.
    own : ndarray (N, S)
        Log-weights that the fields, the evidence and tables of one variable give to the states,
        shifted such that the largest log-weight of each variable is 0. Impossible states have -inf.
    offset : ndarray (N,)
        Sum of the terms of the score that are not in `own` or in the tables.
    tables : list of _Tables
        Tables of two or more variables, grouped by their shape.
    logic : list of LogicFactors
        OR and AND factors, if `logic` is "keep".
    n_variables, n_entries : int
        Number of variables n, and of entries in the statistics. If `logic` is "chains", both count
        what follows the variables and entries of the energy.
    merging : Merging
        The tables that are added to other tables.
    n_messages : int
        Length M of a flat array with all messages in one direction.
    """

    def __init__(self, energy: Any, logic: str = "tables"):
        self.energy = energy
        kept = {}
        if max(energy.n_entries, energy.n_variables) <= _MOST_KEPT:
            kept = _KEPT.setdefault(energy.graph, {})
        self._kept = kept.setdefault(logic, {})
        fields, self.n_states = energy.log_fields(), energy.n_states
        flat, parts, merging = energy.log_potentials, None, energy.graph.merging
        if logic == "chains":
            parts = energy.graph.message_tables
            flat, merging = np.append(flat, parts.logic), parts.merging
            more_variables = parts.n_variables - energy.n_variables
            if more_variables:
                self.n_states = np.append(self.n_states, np.full(more_variables, 2))
                fields = np.pad(fields, [(0, 0), (0, more_variables), (0, 0)])
                fields[:, energy.n_variables :, 2:] = -np.inf
        self._in_turn = np.arange(energy.n_variables) if parts is None else parts.order
        self.n_variables, self.n_entries, self.merging = len(self.n_states), len(flat), merging
        self.has_state = np.arange(fields.shape[2]) < self.n_states[:, None]
        tables = energy.graph.tables(merging.add(flat.astype(np.float64)), parts)
        self.tables = []
        # Tables of a single variable, grouped by their number k of entries. Each group of F tables
        # has two arrays: the variables (F,), and the positions (F, k) of the entries in the
        # statistics.
        self._single = []
        for group, kept in zip(tables, merging.kept, strict=True):
            if len(group.shape) == 1:
                single = np.zeros(self.has_state.shape)
                np.add.at(single[:, : group.shape[0]], group.variables[:, 0], group.log_potentials)
                fields += single
                positions = group.entries[:, None] + np.arange(group.shape[0])
                self._single.append((group.variables[:, 0], positions))
            elif kept.any():
                self.tables.append(
                    _Tables(
                        group.variables[kept], group.log_potentials[kept], group.shape,
                        group.entries[kept],
                    )
                )  # fmt: skip
        self.logic = self._logic if logic == "keep" else []
        for scope, table in energy.logic_tables() if logic == "tables" else []:
            none = np.full(1, -1)
            self.tables.append(_Tables(scope[None], table.reshape(1, -1), table.shape, none))
        top = _largest(fields)
        top[~np.isfinite(top)] = 0.0  # no shift if all states of a variable are impossible
        self.own = kernel_array((fields - top[..., None])[:, self.has_state])
        self.offset = energy.offset + top.sum(axis=1)
        self.offset += sum(part.shift.sum() for part in self.tables)
        self.spreads = self._spreads()

    def _spreads(self):
        """Return, for each of n variables, the sum of the spreads of all tables that contain it."""
        found = np.zeros(self.n_variables)
        for part in self.tables:
            for variables in part.scopes.T:
                found += np.bincount(variables, part.spread, self.n_variables)
        return found

    @property
    def table_spreads(self) -> np.ndarray:
        """Spread (F,) of each table, see `_Tables.spread`."""
        return np.concatenate([np.empty(0), *(part.spread for part in self.tables)])

    @functools.cached_property
    def reach(self) -> np.ndarray:
        """Upper bound (N,) of |log(w / w')| for positive weights w, w' of two states of a variable.

        The bound for a variable is the range of its log-weights in `own` plus the spreads of its
        tables. The largest bound of all variables is returned. Entries of weight 0 are ignored.
        """
        every = np.zeros((len(self.own), *self.has_state.shape))
        every[:, self.has_state] = np.where(self.own == -np.inf, 0.0, -self.own)
        return (_largest(every) + self.spreads).max(axis=1, initial=0.0)

    def work(self) -> CategoricalWork:
        """Allocate work arrays for the kernels."""
        size, arity = self._largest_table
        tables = [np.empty(size) for _ in range(3)]
        states = [np.empty(self.has_state.shape[1]) for _ in range(3)]
        return CategoricalWork._make([*tables, *states, np.zeros(arity, np.uintp)])

    def lanes(self, n_lanes: int, states: bool = False) -> LaneWork:
        """Allocate work arrays for a block of models that lie side by side.

        If `states` is True, the arrays for the states of max-product are included.
        """
        size, arity = self._largest_table
        n, n_levels = self.has_state.shape
        blocks = [np.empty((k, n_lanes)) for k in (size, size, n_levels, n_levels)]
        lanes = [np.empty(n_lanes) for _ in range(5)]
        return LaneWork._make(
            [
                *blocks, np.empty((self.own.shape[1], n_lanes)), *lanes, np.zeros(n, np.int64),
                np.ones(n_lanes, bool), np.zeros(arity, np.uintp), np.zeros(n_lanes, np.uintp),
                np.empty((n if states else 0, n_lanes), np.int64),
                np.empty((self.n_messages if states else 0, n_lanes)),
            ]
        )  # fmt: skip

    @property
    def _largest_table(self):
        """Largest number of entries of a table, and largest number of its variables."""
        shapes = [part.shape for part in self.tables]
        return max(map(math.prod, shapes), default=1), max(map(len, shapes), default=1)

    def as_table(self, flat: np.ndarray, missing: float = -np.inf) -> np.ndarray:
        """Convert flat values (R, S) of R models to (R, n, K), `missing` for missing states."""
        found = np.full((len(flat), *self.has_state.shape), missing)
        found[:, self.has_state] = flat
        return found

    def add_single(self, beliefs: np.ndarray, weight: np.ndarray, statistics: np.ndarray) -> None:
        """Write the probabilities of all entries of one-variable tables to `statistics`.

        `beliefs` (R, n, K) are log-probabilities of the states of each variable in R models. If
        `statistics` has the shape (1, n_entries), the sum over the models is written, weighted by
        `weight` (R,). If it has the shape (R, n_entries), each model gets a row.
        """
        for variables, positions in self._single:
            found = np.exp(beliefs[:, variables, : positions.shape[1]])
            if len(statistics) == 1:
                found = np.tensordot(weight, found, 1)[None]
            statistics[:, positions] = found

    @_of_structure
    def edges(self):
        """Return the edges as a dict of arrays, and an array (E,) with the factor of each edge.

        The dict has the arrays of `CategoricalGraph` that do not depend on the entries of tables,
        and "variables" (E,), the variable of each edge. Edges are sorted by variable.
        """
        n_states = self.n_states
        scopes = [part.scopes for part in (*self.tables, *self.logic)]
        variables = np.concatenate([np.empty(0, np.int64), *(part.ravel() for part in scopes)])
        arity = np.concatenate(
            [np.empty(0, np.int64), *(np.full(len(part), part.shape[1]) for part in scopes)]
        )
        first = np.cumsum(arity) - arity
        by_variable = np.argsort(variables, kind="stable")
        number = np.empty(len(variables), np.int64)
        number[by_variable] = np.arange(len(variables))
        factor = np.repeat(np.arange(len(arity)), arity)[by_variable]
        return {
            "state_start": _starts(n_states),
            "edge_start": _starts(np.bincount(variables, minlength=len(n_states))),
            "message_start": _starts(n_states[variables[by_variable]]),
            "slot": by_variable - first[factor],
            "scope": first[factor],
            "arity": arity[factor],
            "scopes": number,
            "variables": variables[by_variable],
        }, factor

    def kernel_graph(
        self, logs: bool, rho: np.ndarray | float = 1.0, sums: bool = False
    ) -> CategoricalGraph:
        """Return the graph with tables of weights or, if `logs`, of log-weights.

        The weights of factor f are raised to the power ``1 / rho[f]``. If `sums` is True, the graph
        contains the exponentials of the log-weights, too, so that the kernel `categorical_logs`
        computes sums faster.
        """
        _, factor = self.edges
        rho = np.broadcast_to(rho, factor.max(initial=-1) + 1)
        kinds, places, starts, flat, size, done = [], [], [], [], 0, 0
        for part in self.tables:
            n_factors = len(part.scopes)
            power = rho[done : done + n_factors, None]
            done += n_factors
            values = (part.logs - part.shift[:, None]) / power
            kind = np.full(n_factors, PAIR if len(part.shape) == 2 else TABLE)
            is_potts = part.is_potts
            kind[is_potts] = POTTS
            start = np.empty(n_factors, np.int64)
            for chosen, kept in ((~is_potts, values), (is_potts, values[:, :2][:, ::-1])):
                some = kept[chosen]
                if not len(some):
                    continue
                shared = len(some) > 1 and (some == some[0]).all()
                if shared:
                    some = some[:1]
                step = 0 if shared else some.shape[1]
                start[chosen] = size + step * np.arange(chosen.sum())
                flat.append(some.ravel())
                size += some.size
            kinds.append(kind)
            starts.append(start)
            places.append(part.place)
        tables = np.concatenate([np.empty(0), *flat])
        kinds, starts, places = (
            np.concatenate([np.empty(0, np.int64), *parts]) for parts in (kinds, starts, places)
        )
        return CategoricalGraph(
            kind=kinds[factor].astype(np.int8),
            table=starts[factor].astype(np.uintp),
            place=places[factor],
            tables=tables if logs else np.exp(tables),
            weights=np.exp(tables[: len(tables) if sums else 0]),
            order=self.order.astype(np.uintp),
            **self._index,
        )

    @_of_structure
    def _logic(self):
        return list(_logic_by_size(self.energy))

    @_of_structure
    def places(self) -> dict[str, np.ndarray]:
        """Return the arrays of a `MeanFieldGraph` that do not depend on log-weights, as uintp."""
        edges, _ = self.edges
        variables = edges["variables"][edges["scopes"]]
        names = "state_start", "edge_start", "slot", "scope", "arity"
        arrays = {name: edges[name] for name in names}
        arrays["first"] = edges["state_start"][variables]
        arrays["count"] = np.diff(edges["state_start"])[variables]
        return {name: array.astype(np.uintp) for name, array in arrays.items()}

    @_of_structure
    def _index(self):
        """Return the arrays in `edges` of a `CategoricalGraph`, as uintp."""
        arrays, _ = self.edges
        return {
            name: array.astype(np.uintp) for name, array in arrays.items() if name != "variables"
        }

    @_of_structure
    def _forest(self):
        scopes = self.factors
        arity = np.diff(scopes.edge_start)
        return forest_order(scopes.variables, arity, self.n_variables)

    @property
    def is_forest(self) -> bool:
        """Whether the graph has no cycles."""
        return self._forest is not None

    @property
    def order(self) -> np.ndarray:
        """Order (n,) in which sweeps visit the variables, so that messages travel far.

        In a forest the order goes from the leaves to the roots, so that messages are exact after a
        forward and a backward sweep. In other graphs variables are visited by ascending index, and
        auxiliary variables after their last input. Neighbours often have similar indices, so they
        are visited soon after each other and are close in memory.
        """
        return self._in_turn if self._forest is None else self._forest

    @property
    def variables(self) -> np.ndarray:
        """The variable of each edge, as an array (E,) of uintp."""
        return self.edges[0]["variables"].astype(np.uintp)

    @_of_structure
    def factors(self) -> FactorScopes:
        """Scopes of all tables: the variables of each table."""
        none = np.empty(0, np.int64)
        variables = np.concatenate([none, *(part.scopes.ravel() for part in self.tables)])
        sizes = [np.full(len(part.scopes), len(part.shape)) for part in self.tables]
        return FactorScopes(kernel_array(variables), _starts(np.concatenate([none, *sizes])))

    @_of_structure
    def appearance(self) -> np.ndarray:
        """Appearance probability (F,) of each table in random acyclic sets of tables."""
        return factor_appearance(self.factors, self.n_variables)

    @property
    def n_messages(self) -> int:
        """Length of a flat array with all messages in one direction."""
        return int(self.edges[0]["message_start"][-1])


class FactorScopes(NamedTuple):
    """Variables of all factors, for the argument `graph` of `factor_appearance`."""

    # int64 (E,): the variables of factor f are variables[edge_start[f]:edge_start[f + 1]].
    variables: np.ndarray
    edge_start: np.ndarray  # int64 (F + 1,), first edge of each factor

    @property
    def n_edges(self):
        """Number of edges."""
        return len(self.variables)


class LogicFactors(NamedTuple):
    """OR factors, or AND factors, with the same number of inputs."""

    scopes: np.ndarray  # (F, m): inputs of each factor, then its output
    kind: int  # OR or AND


def _logic_by_size(energy):
    """Yield the OR and AND factors of an energy, grouped by their number of inputs."""
    for group, kind in ((energy.ors, OR), (energy.ands, AND)):
        counts = np.diff(group.start)
        for count in np.unique(counts):
            some = np.flatnonzero(counts == count)
            inputs = group.inputs[group.start[some][:, None] + np.arange(count)]
            yield LogicFactors(np.column_stack([inputs, group.outputs[some]]), kind)


@dataclass(frozen=True)
class _Tables:
    """Tables that have the same shape."""

    scopes: np.ndarray  # (F, m): variables of each table
    logs: np.ndarray  # (F, size): log-weights of each table
    shape: tuple[int, ...]
    place: np.ndarray  # (F,): position of the first entry in the statistics, -1 for OR and AND

    @functools.cached_property
    def shift(self):
        """Largest log-weight of each table (F,), or 0 if all log-weights are -inf."""
        high = _by_row(np.maximum, self.logs)
        return np.where(high == -np.inf, 0.0, high)

    @functools.cached_property
    def spread(self):
        """Largest difference (F,) of the finite log-weights of each table."""
        low = _by_row(np.minimum, np.where(self.logs == -np.inf, np.inf, self.logs))
        return np.where(np.isfinite(low), self.shift - low, 0.0)

    @functools.cached_property
    def is_potts(self):
        """Mask (F,) of the Potts tables.

        In a Potts table, the log-weight depends only on whether the states of the two variables are
        equal. Tables of equal log-weights, with which a fit may begin, do not count.
        """
        k = self.shape[0]
        if len(self.shape) != 2 or k < 3 or self.shape[1] != k:
            return np.zeros(len(self.logs), bool)
        maybe = (self.logs[:, 0] == self.logs[:, k + 1]) & (self.logs[:, 0] != self.logs[:, 1])
        if not maybe.any():
            return maybe
        equal = np.eye(k, dtype=bool).ravel()
        on, off = self.logs[:, equal], self.logs[:, ~equal]
        same = (on == on[:, :1]).all(axis=1) & (off == off[:, :1]).all(axis=1)
        return same & (on[:, 0] != off[:, 0])


def forest_order(variables: np.ndarray, arity: np.ndarray, n_variables: int) -> np.ndarray | None:
    """Return the variables of a forest from the leaves to the roots; None if there are cycles.

    `variables` (E,) are the variables of all factors, factor by factor, and `arity` (F,) is the
    number of variables of each factor.
    """
    n_factors, n_edges = len(arity), len(variables)
    if n_edges > n_variables + n_factors - 1:  # too many edges, whatever the components are
        return None
    factor = n_variables + np.repeat(np.arange(n_factors), arity)
    size = n_variables + n_factors + 1
    joined = adjacency(variables, factor, size)
    n_components, component = connected_components(joined, directed=False)
    if n_edges != size - n_components:
        return None
    # Add a node that is joined to a variable of each component, so that a single breadth-first
    # search from this node visits all components.
    _, roots = np.unique(component[:n_variables], return_index=True)
    rows = np.append(variables, roots)
    columns = np.append(factor, np.full(len(roots), size - 1))
    joined = adjacency(rows, columns, size)
    found = breadth_first_order(joined, size - 1, directed=False, return_predecessors=False)
    return found[found < n_variables][::-1].astype(np.int64)


def _largest(values):
    """Return the maxima of `values` (N, n, K) over the last axis.

    For few states this takes a fraction of the time of ``values.max(axis=2)``.
    """
    return functools.reduce(np.maximum, values.transpose(2, 0, 1))


def _by_row(function, values):
    """Reduce each row of `values` (F, size) by `np.maximum` or `np.minimum`.

    For short rows this takes a fraction of the time of ``function.reduce(values, axis=1)``.
    """
    if values.shape[1] > _SHORT_ROW:
        return function.reduce(values, axis=1)
    return functools.reduce(function, values.T)


def _starts(sizes):
    start = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=start[1:])
    return start
