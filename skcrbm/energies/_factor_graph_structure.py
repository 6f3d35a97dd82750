"""Structure of a factor graph: the variables of each factor, and the factors of each variable."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from skcrbm.energies._factors import AndFactors, Factors, OrFactors, TableFactors, logic_table
from skcrbm.energies.logic_chains import MessageTables, message_tables
from skcrbm.energies.merging import Merging, find_merging
from skcrbm.energies.states import strides_of
from skcrbm.utils.graphs import min_fill
from skcrbm.utils.pickling import Versioned


class TableGroup(NamedTuple):
    """All table factors of the same shape.

    In the flat array of all log-potentials, the entries of a table are contiguous.
    """

    variables: np.ndarray  # int64 (F, m): scope of each table
    entries: np.ndarray  # int64 (F,): position of the first entry of each table in the flat array
    log_potentials: np.ndarray  # (F, k1 * ... * km): entries of each table in C order
    shape: tuple[int, ...]  # number of states (k1, ..., km) of the variables of a scope

    @property
    def strides(self) -> np.ndarray:
        """Number of table entries to skip if the state of a variable increases by 1, (m,)."""
        return strides_of(self.shape)


class LogicGroup(NamedTuple):
    """All OR factors, or all AND factors; the arrays are int64."""

    start: np.ndarray  # (F + 1,): factor f has the inputs inputs[start[f]:start[f + 1]]
    inputs: np.ndarray  # (start[F],): input variables of all factors
    outputs: np.ndarray  # (F,): output variable of each factor


class BlockEdges(NamedTuple):
    """The edges between the variables of a block and the factors of a group, sorted by variable.

    There is an edge for each pair of a variable and a factor that contains the variable, in total M
    edges. All arrays are int64. `factor`, `bit` and `scopes` are defined only for groups of tables.
    """

    # (M,): index of each edge. In a group of tables with k variables, the edge to variable j of
    # table f has the index f * k + j. For OR and AND, the index is a position in the concatenation
    # of inputs and outputs.
    edge: np.ndarray
    first: np.ndarray  # for each variable with edges, the position of its first edge in `edge`
    where: np.ndarray  # for each variable with edges, its position in the block
    factor: Any = None  # (M,): factor of each edge
    bit: Any = None  # (M,): stride of the variable of each edge in the table
    scopes: Any = None  # (M, k): all variables of the factor


class Adjacency(NamedTuple):
    """The factors of each variable, as a list of E edges: pairs of a variable and a factor.

    All arrays are int64. There are n variables and F factors, in the order of `FactorGraph.lists`.
    A Gibbs sweep keeps a sum for each factor: `at_zero` plus the weight of each variable times its
    state. For a table, the sum is the index of the table entry that belongs to the current state.
    """

    start: np.ndarray  # (n + 1,): variable i has the edges start[i] to start[i + 1] - 1
    factor: np.ndarray  # (E,): factor of each edge
    # (E,): weight of the variable in the sum of the factor: the stride of the variable for a table,
    # 1 for an input of an OR, -1 for an input of an AND, and 0 for an output.
    weight: np.ndarray
    first_entry: np.ndarray  # (n_tables,): position of the first entry in all log-potentials
    at_zero: np.ndarray  # (F,): initial value of the sum: number of inputs for an AND, otherwise 0
    output: np.ndarray  # (F,): output variable of OR and AND, 0 for tables


class FactorGraph(Versioned):
    """Structure of the factors, without log-potentials; energies with the same factors share it.

    Attributes
    ----------
    groups : tuple of (factors, slice)
        The given factors, each with a slice that selects its entries from the array of all
        log-potentials.
    scopes : tuple of (variables, entries)
        Table factors grouped by shape, sorted by the number of variables; the two arrays are
        defined in `TableGroup`.
    shapes : tuple of tuple of int
        Shape of the tables in each group of `scopes`.
    n_states : ndarray of int64 (n_variables,)
        Number of states of each variable.
    """

    _warns_of_version = False

    _saved = (
        "n_variables", "n_states", "groups", "n_entries", "scopes", "shapes", "ors", "ands",
        "_block_edges",
    )  # fmt: skip

    def __init__(self, factors: Sequence[Factors], n_states: np.ndarray):
        self.n_variables = len(n_states)
        self.n_states = n_states
        self._block_edges = {}
        groups, first = [], 0
        for part in factors:
            size = part.log_potentials.size if isinstance(part, TableFactors) else 0
            groups.append((part, slice(first, first + size)))
            first += size
        self.groups = tuple(groups)
        self.n_entries = first
        self.scopes, self.shapes = self._scopes()
        self.ors = _joined([part for part in factors if isinstance(part, OrFactors)])
        self.ands = _joined([part for part in factors if isinstance(part, AndFactors)])

    def _scopes(self):
        by_shape = {}
        for part, where in self.groups:
            if isinstance(part, TableFactors) and len(part):
                entries = where.start + np.arange(len(part), dtype=np.int64) * math.prod(part.shape)
                by_shape.setdefault(part.shape, []).append((part.variables, entries))
        shapes = tuple(sorted(by_shape, key=lambda shape: (len(shape), shape)))
        scopes = tuple(
            tuple(np.concatenate(arrays) for arrays in zip(*by_shape[shape], strict=True))
            for shape in shapes
        )
        return scopes, shapes

    def tables(
        self, flat: np.ndarray, parts: MessageTables | None = None
    ) -> tuple[TableGroup, ...]:
        """Return the groups of tables, filled with the log-potentials `flat` (n_entries,).

        If `parts` is given, return its groups instead of those of the graph.
        """
        where: Any = self if parts is None else parts
        groups = []
        for (variables, entries), shape in zip(where.scopes, where.shapes, strict=True):
            position = entries[:, None] + np.arange(math.prod(shape))
            groups.append(TableGroup(variables, entries, flat[position], shape))
        return tuple(groups)

    def lists(self) -> Iterator[np.ndarray]:
        """Yield the variables of each factor.

        The order is: tables in the order of `scopes`, then OR factors, then AND factors.
        """
        for variables, _ in self.scopes:
            yield from variables
        for group in (self.ors, self.ands):
            for f, output in enumerate(group.outputs):
                inputs = group.inputs[group.start[f] : group.start[f + 1]]
                yield np.append(inputs, output)

    @cached_property
    def expanded(self) -> tuple[list[tuple[int, ...]], list[np.ndarray], int]:
        """Equivalent graph that has only tables.

        An OR or AND of more than two inputs becomes a chain of tables with two inputs each.
        Auxiliary variables connect the tables of a chain; their numbers follow the numbers of the
        given variables.

        Returns
        -------
        scopes : list of tuple
            Scopes of the given tables in the order of `tables`, then scopes of the tables of all
            chains. The last variable of a scope in a chain is the output of this table.
        logic : list of ndarray (2**k,)
            Flat log-potentials of the tables of all chains, over k = 2 or 3 variables each.
        n : int
            Number of variables, including the auxiliary variables.
        """
        scopes = [tuple(scope) for variables, _ in self.scopes for scope in variables.tolist()]
        logic, n = [], self.n_variables
        with np.errstate(divide="ignore"):
            for group, kind in ((self.ors, "or"), (self.ands, "and")):
                copy, join = (np.log(logic_table(k, kind)) for k in (1, 2))
                for f, output in enumerate(group.outputs.tolist()):
                    inputs = group.inputs[group.start[f] : group.start[f + 1]].tolist()
                    last = inputs[0]
                    for v in inputs[1:-1]:
                        scopes.append((last, v, n))
                        logic.append(join)
                        last, n = n, n + 1
                    scopes.append((last, *inputs[1:][-1:], output))
                    logic.append(join if len(inputs) > 1 else copy)
        return scopes, logic, n

    @cached_property
    def merging(self) -> Merging:
        """The tables that message passing merges into tables with the same or a larger scope."""
        scopes, entries = zip(*self.scopes, strict=True) if self.scopes else ((), ())
        return find_merging(list(scopes), list(entries), list(self.shapes))

    @cached_property
    def message_tables(self) -> MessageTables:
        """The tables between which messages are passed, with tables for OR and AND factors."""
        if len(self.ors.outputs) + len(self.ands.outputs):
            return message_tables(self)
        none = np.empty(0)
        n, order = self.n_variables, np.arange(self.n_variables)
        return MessageTables(self.scopes, self.shapes, none, self.merging, n, order)

    @cached_property
    def elimination(self):
        """Order in which variable elimination removes the variables of the graph `expanded`."""
        scopes, _, n = self.expanded
        counts = [*self.n_states.tolist(), *(2,) * (n - self.n_variables)]
        return min_fill(scopes, range(n), counts)

    @cached_property
    def blocks(self):
        """Tuple of blocks (index arrays). Variables of the same block share no factor."""
        factors_of: list[list[set]] = [[] for _ in range(self.n_variables)]
        for scope in self.lists():
            if len(scope) > 1:
                colours: set[int] = set()
                for v in scope:
                    factors_of[v].append(colours)
        return colour_classes(factors_of)

    @cached_property
    def adjacency(self) -> Adjacency:
        """The factors of all variables."""
        empty = np.empty(0, np.int64)
        variables, factor, weight, first_entry = [empty], [empty], [empty], [empty]
        at_zero, output, n_factors = [empty], [empty], 0
        for (scopes, entries), shape in zip(self.scopes, self.shapes, strict=True):
            n, k = scopes.shape
            variables.append(scopes.ravel())
            factor.append(np.repeat(n_factors + np.arange(n), k))
            weight.append(np.tile(strides_of(shape), n))
            first_entry.append(entries)
            at_zero.append(np.zeros(n, np.int64))
            output.append(np.zeros(n, np.int64))
            n_factors += n
        for group, sign in ((self.ors, 1), (self.ands, -1)):
            n, count = len(group.outputs), np.diff(group.start)
            every = n_factors + np.arange(n)
            variables += [group.inputs, group.outputs]
            factor += [np.repeat(every, count), every]
            weight += [np.full(len(group.inputs), sign), np.zeros(n, np.int64)]
            at_zero.append(count if sign < 0 else np.zeros(n, np.int64))
            output.append(group.outputs)
            n_factors += n
        variables, factor, weight, first_entry, at_zero, output = (
            np.concatenate(parts).astype(np.int64)
            for parts in (variables, factor, weight, first_entry, at_zero, output)
        )
        order, start = self._sorted_edges(variables)
        return Adjacency(start, factor[order], weight[order], first_entry, at_zero, output)

    @cached_property
    def _edges(self):
        """List of pairs (edges, start) of arrays: the edges of each group of factors.

        An edge is a pair of a factor and a variable of the factor. The array `edges` holds indices
        of edges, sorted by variable; the edges of variable i are ``edges[start[i]:start[i + 1]]``.
        The groups are: the tables of each shape, then all OR factors, then all AND factors.
        """
        logic = (np.concatenate([g.inputs, g.outputs]) for g in (self.ors, self.ands))
        every = (*(variables.reshape(-1) for variables, _ in self.scopes), *logic)
        return [self._sorted_edges(variables) for variables in every]

    def _sorted_edges(self, variables):
        start = np.zeros(self.n_variables + 1, np.int64)
        np.cumsum(np.bincount(variables, minlength=self.n_variables), out=start[1:])
        return np.argsort(variables, kind="stable"), start

    def edges_of(self, variables: np.ndarray) -> list[BlockEdges]:
        """Return, for each group of `_edges`, the edges of the given variables (B,)."""
        key = variables.tobytes()
        if (
            key not in self._block_edges
        ):  # cached, because a sampler uses the same blocks repeatedly
            blocks = [self._block(e, s, variables) for e, s in self._edges]
            for g, (scopes, _) in enumerate(self.scopes):
                factor, slot = np.divmod(blocks[g].edge, scopes.shape[1])
                bit = strides_of(self.shapes[g])[slot]
                blocks[g] = blocks[g]._replace(factor=factor, bit=bit, scopes=scopes[factor])
            self._block_edges[key] = blocks
        return self._block_edges[key]

    @staticmethod
    def _block(edges, start, variables):
        count = start[variables + 1] - start[variables]
        with_edges = np.flatnonzero(count)
        place = np.repeat(np.arange(len(variables)), count)
        first = np.cumsum(count) - count
        within = np.arange(len(place)) - first[place]
        edge = edges[start[variables][place] + within]
        return BlockEdges(edge, first[with_edges], with_edges)


def codes_of(states: np.ndarray, variables: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    """Return the index (S, F) of the entry that each of S states selects in each of F tables.

    `states` (S, n) holds integers or bools, `variables` (F, m) the scopes of the tables, and
    `shape` (m,) the number of states of each variable of a scope.
    """
    code = np.zeros((len(states), len(variables)), np.int64)
    for column, k in zip(variables.T, shape, strict=True):
        code *= k
        code += states[:, column]
    return code


def products_of(chances: np.ndarray, variables: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    """Return the probability of each entry of F tables if variables are independent, (S, F, size).

    Each of the S rows of `chances` (S, n, K) holds the probability of each of K states of n
    variables. `variables` (F, m) holds the scopes of the tables, and `shape` (m,) the number of
    states of each variable of a scope.
    """
    found = np.ones((len(chances), len(variables), 1))
    for column, k in zip(variables.T, shape, strict=True):
        found = found[..., None] * chances[:, column, None, :k]
        found = found.reshape(len(chances), len(variables), -1)
    return found


def colour_classes(factors_of: list[list[set]]) -> tuple[np.ndarray, ...]:
    """Colour variables such that neighbours differ; return the list of variables of each colour.

    Two variables of the same factor are neighbours. The colouring is greedy: each variable in turn
    gets the first colour that no neighbour has. Each factor has a set of the colours that its
    variables use. `factors_of` holds, for each variable, the list of the sets of its factors, so
    the variables of a factor share the same set object. The sets must be empty at first; the
    function adds colours to the sets.
    """
    colours = np.empty(len(factors_of), np.int64)
    for v, sets in enumerate(factors_of):
        taken = set().union(*sets)
        colour = 0
        while colour in taken:
            colour += 1
        colours[v] = colour
        for used in sets:
            used.add(colour)
    return tuple(np.flatnonzero(colours == c) for c in range(colours.max(initial=-1) + 1))


def _joined(parts):
    """Concatenate a list of OrFactors, or of AndFactors, to a `LogicGroup`."""
    start, shift = [np.zeros(1, np.int64)], 0
    for part in parts:
        start.append(part.start[1:] + shift)
        shift += len(part.inputs)
    empty = np.empty(0, np.int64)
    return LogicGroup(
        np.concatenate(start),
        np.concatenate([empty, *(part.inputs for part in parts)]),
        np.concatenate([empty, *(part.outputs for part in parts)]),
    )
