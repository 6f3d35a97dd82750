"""Simplify factor graphs of tables without changing the best score."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from skcrbm.energies import FactorGraphEnergy
from skcrbm.kernels.search_tables import SearchTables

# A variable is eliminated only if the new table has at most this many entries.
_SMALL_TABLE = 4096


class ImpossibleModelError(Exception):
    """No state of the model has a positive weight."""


class Component(NamedTuple):
    """A connected component of a model. Scopes contain positions in the list `variables`."""

    variables: list[int]  # indices of the variables in the model
    n_states: list[int]
    scopes: list[tuple[int, ...]]  # scopes of the tables, each of two or more variables
    tables: list[np.ndarray]  # tables of log-weights, with an axis for each variable of the scope
    unary: list[np.ndarray]  # finite log-weights of the states of each variable

    def graph(self) -> SearchTables:
        """Return the component as the flat arrays that kernels take."""
        unary = np.zeros((len(self.variables), max(self.n_states)))
        for v, row in enumerate(self.unary):
            unary[v, : len(row)] = row
        lengths = np.array([len(scope) for scope in self.scopes], np.int64)
        scope = np.array([v for part in self.scopes for v in part], np.int64)
        stride = np.array([s // 8 for t in self.tables for s in t.strides], np.int64)
        sizes = np.array([t.size for t in self.tables], np.int64)
        entries = np.concatenate([np.empty(0), *(t.ravel() for t in self.tables)])
        n_states = np.array(self.n_states, np.int64)
        return _flat(n_states, unary, lengths, scope, stride, sizes, entries)


def _flat(n_states, unary, lengths, scope, stride, sizes, entries):
    """Return `SearchTables` of F tables, given their numbers of variables and their sizes (F,)."""
    start = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    edge_start = np.zeros(len(n_states) + 1, np.int64)
    np.cumsum(np.bincount(scope, minlength=len(n_states)), out=edge_start[1:])
    return SearchTables(
        n_states, unary, start, scope, stride, np.repeat(np.arange(len(lengths)), lengths),
        edge_start, np.argsort(scope, kind="stable"), np.cumsum(sizes) - sizes, entries,
    )  # fmt: skip


class TableModel:
    """Tables of log-weights over variables. `reduce` removes states, variables and tables.

    Attributes
    ----------
    states : list of ndarray
        Remaining states of each variable. The tables contain only entries of remaining states.
    tables : dict of tuple -> ndarray
        Maps each scope, an ascending tuple of variables, to its table. Each remaining variable also
        has a table with itself as the only variable.
    constant : float
        Sum of the tables from which all variables have been eliminated.
    """

    def __init__(
        self,
        unary: Sequence[np.ndarray],
        scopes: Sequence[Sequence[int]],
        tables: Sequence[np.ndarray],
    ):
        self.states = [np.arange(len(row)) for row in unary]
        self.tables: dict[tuple[int, ...], np.ndarray] = {}
        self.scopes_of: list[set[tuple[int, ...]]] = [set() for _ in unary]
        self.constant = 0.0
        self._eliminated = []
        self._remaining = set(range(len(unary)))
        for v, row in enumerate(unary):
            self._add((v,), row)
        for scope, table in zip(scopes, tables, strict=True):
            order = np.argsort(scope)
            self._add(tuple(int(scope[j]) for j in order), table.transpose(order))

    def _add(self, scope, table):
        if not scope:
            if table == -np.inf:
                raise ImpossibleModelError
            self.constant += float(table)
            return
        if scope in self.tables:
            self.tables[scope] = self.tables[scope] + table
        else:
            self.tables[scope] = np.ascontiguousarray(table, np.float64)
            for v in scope:
                self.scopes_of[v].add(scope)

    def _take(self, scope):
        for v in scope:
            self.scopes_of[v].discard(scope)
        return self.tables.pop(scope)

    def reduce(self) -> list[Component]:
        """Remove states and variables, and return the connected components of the remaining model.

        An ImpossibleModelError is raised if all states of a variable are found to have weight 0.
        """
        changed = set(self.tables)
        while changed:
            self._propagate(changed)
            changed = (self._eliminate_small() | self._merge_contained()) & set(self.tables)
        return self._components()

    def replace(
        self, part: Component, tables: Sequence[np.ndarray], unary: Sequence[np.ndarray]
    ) -> None:
        """Replace the tables and log-weights of a component; `reduce` must be called again."""
        for scope, table in zip(part.scopes, tables, strict=True):
            self.tables[tuple(part.variables[v] for v in scope)] = table
        for v, row in zip(part.variables, unary, strict=True):
            self.tables[v,] = row

    def _propagate(self, waiting):
        """Remove all states for which a table has only entries of weight 0.

        `waiting` is the set of scopes to check. Tables that become smaller are checked again.
        """
        while waiting:
            scope = waiting.pop()
            if scope not in self.tables:
                continue
            for axis, v in enumerate(scope):
                possible = self.tables[scope] > -np.inf
                keep = possible.any(axis=tuple(j for j in range(len(scope)) if j != axis))
                if keep.all():
                    continue
                if not keep.any():
                    raise ImpossibleModelError
                self.states[v] = self.states[v][keep]
                for other in self.scopes_of[v]:
                    table = np.compress(keep, self.tables[other], axis=other.index(v))
                    self.tables[other] = np.ascontiguousarray(table)
                    waiting.add(other)

    def _eliminate_small(self):
        """Eliminate variables by maximisation if the new tables are small.

        A new table must have fewer variables than the largest table that it replaces, or at most
        two variables. Return the scopes of the new tables.
        """
        # A queue: a variable with many neighbours waits until the neighbours before it are done.
        changed, waiting = set(), deque(sorted(self._remaining))
        queued = set(waiting)
        while waiting:
            v = waiting.popleft()
            queued.discard(v)
            near = sorted(set().union(*self.scopes_of[v]) - {v})
            width = max(2, max(map(len, self.scopes_of[v])) - 1)
            if len(self.states[v]) > 1 and (
                len(near) > width or math.prod(len(self.states[u]) for u in near) > _SMALL_TABLE
            ):
                continue
            scope = tuple(near)
            if len(self.states[v]) == 1:  # Tables need not be joined: take a slice of each table.
                for old in sorted(self.scopes_of[v]):
                    rest = tuple(u for u in old if u != v)
                    self._add(rest, np.take(self._take(old), 0, axis=old.index(v)))
                    changed.add(rest)
                self._eliminated.append((v, (), [], np.array(self.states[v][0])))
            else:
                total = np.zeros([*(len(self.states[u]) for u in near), len(self.states[v])])
                axes = {u: axis for axis, u in enumerate([*near, v])}
                for old in sorted(self.scopes_of[v]):
                    table = self._take(old)
                    order = sorted(range(len(old)), key=lambda j: axes[old[j]])
                    shape = [1] * total.ndim
                    for u in old:
                        shape[axes[u]] = len(self.states[u])
                    total += table.transpose(order).reshape(shape)
                best = self.states[v][total.argmax(axis=-1)]
                self._eliminated.append((v, scope, [self.states[u] for u in near], best))
                self._add(scope, total.max(axis=-1))
                changed.add(scope)
            self._remaining.discard(v)
            for u in near:
                if u not in queued:
                    queued.add(u)
                    waiting.append(u)
        return changed

    def _merge_contained(self):
        """Add each table of two or more variables to a larger table that contains its scope.

        Return the scopes of the larger tables.
        """
        changed = set()
        for scope in sorted(self.tables, key=len):
            if len(scope) < 2:
                continue
            inside = set(scope)
            near = min((self.scopes_of[v] for v in scope), key=len)
            hosts = [s for s in near if len(s) > len(scope) and inside < set(s)]
            if hosts:
                host = min(hosts)
                shape = [len(self.states[u]) if u in inside else 1 for u in host]
                self.tables[host] = self.tables[host] + self._take(scope).reshape(shape)
                changed.add(host)
        return changed

    def _components(self):
        found, seen = [], set()
        for first in sorted(self._remaining):
            if first in seen:
                continue
            seen.add(first)
            stack, part = [first], []
            while stack:
                v = stack.pop()
                part.append(v)
                for u in set().union(*self.scopes_of[v]) - seen:
                    seen.add(u)
                    stack.append(u)
            part.sort()
            number = {v: j for j, v in enumerate(part)}
            scopes = sorted(set().union(*(self.scopes_of[v] for v in part)))
            large = [s for s in scopes if len(s) > 1]
            found.append(
                Component(
                    part,
                    [len(self.states[v]) for v in part],
                    [tuple(number[v] for v in s) for s in large],
                    [np.ascontiguousarray(self.tables[s]) for s in large],
                    [self.tables[v,] for v in part],
                )
            )
        return found

    def complete(self, components: list[Component], states: list[np.ndarray]) -> np.ndarray:
        """Return a best state of all variables of the model, given a best state per component.

        The values of the eliminated variables follow from the values of the other variables.
        """
        full = np.zeros(len(self.states), np.int64)
        for part, state in zip(components, states, strict=True):
            for v, k in zip(part.variables, state, strict=True):
                full[v] = self.states[v][k]
        for v, scope, states_then, best in reversed(self._eliminated):
            index = (int(np.searchsorted(s, full[u])) for u, s in zip(scope, states_then))
            full[v] = best[tuple(index)]
        return full


def tables_of(energy: FactorGraphEnergy) -> tuple[list[np.ndarray], Sequence[Sequence[int]], int]:
    """Return the tables and scopes of an energy, and the number of variables including auxiliaries.

    OR and AND factors with many inputs are cut into chains of tables over auxiliary variables.
    """
    scopes, logic, n_all = energy.graph.expanded
    tables = [
        table.reshape(group.shape)
        for group in energy.tables
        for table in group.log_potentials.astype(np.float64)
    ]
    rest = scopes[len(tables) :]
    tables += [table.reshape((2,) * len(s)) for s, table in zip(rest, logic, strict=True)]
    return tables, scopes, n_all


def flat_tables(energy: FactorGraphEnergy, n: int) -> SearchTables:
    """Return the tables of model n of an energy as flat arrays, with OR and AND as in `tables_of`.

    A state that the evidence excludes keeps its place and has the log-weight -inf.
    """
    has_logic = len(energy.ors.outputs) or len(energy.ands.outputs)
    scopes, logic, n_all = energy.graph.expanded if has_logic else ([], [], 0)
    groups = [(g.variables, g.shape, g.log_potentials.astype(np.float64)) for g in energy.tables]
    first = len(scopes) - len(logic)
    for k in sorted({len(scope) for scope in scopes[first:]}):
        own = [(s, t) for s, t in zip(scopes[first:], logic, strict=True) if len(s) == k]
        groups.append((np.array([s for s, _ in own]), (2,) * k, np.array([t for _, t in own])))
    fields = energy.log_fields()[n]
    unary = np.zeros((max(n_all, len(fields)), max(2, fields.shape[1])))
    n_states = np.full(len(unary), 2, np.int64)
    n_states[: len(fields)] = energy.state_counts
    unary[: len(fields), : fields.shape[1]] = fields
    unary[np.arange(unary.shape[1]) >= n_states[:, None]] = 0.0
    parts = []
    for variables, shape, entries in groups:
        if variables.shape[1] == 1:
            np.add.at(unary[:, : shape[0]], variables[:, 0], entries)
        if variables.shape[1] < 2:
            continue
        steps = np.cumprod([1, *shape[:0:-1]])[::-1]
        parts.append(
            (
                np.full(len(variables), len(shape)),
                variables.ravel(),
                np.tile(steps, len(variables)),
                np.full(len(variables), math.prod(shape)),
                entries.ravel(),
            )
        )
    empty = (*(np.empty(0, np.int64) for _ in range(4)), np.empty(0))
    lengths, scope, stride, sizes, entries = (
        np.concatenate(arrays) for arrays in zip(empty, *parts, strict=True)
    )
    return _flat(n_states, unary, lengths, scope, stride, sizes, entries)
