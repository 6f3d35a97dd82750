"""Which variables the factors of a graph join: index arrays that all its tables share."""

from functools import cached_property
from typing import NamedTuple

import numpy as np

from skcrbm.energies._factors import AndFactors, OrFactors, TableFactors, logic_table
from skcrbm.utils.graphs import min_fill
from skcrbm.utils.pickling import Versioned


class TableGroup(NamedTuple):
    """All table factors of one number of variables k.

    Attributes
    ----------
    variables : ndarray of int64 (F, k)
    entries : ndarray of int64 (F,)
        Place of each table's first entry among all log-potentials.
    log_potentials : ndarray (F, 2**k)
        The first variable is the slowest digit: bit ``k - 1 - j`` of an entry's number is the
        value of variable j of the scope.
    """

    variables: np.ndarray
    entries: np.ndarray
    log_potentials: np.ndarray


class LogicGroup(NamedTuple):
    """All OR factors, or all AND factors.

    Attributes
    ----------
    start : ndarray of int64 (F + 1,)
        The inputs of factor f are ``inputs[start[f]:start[f + 1]]``; there is at least one.
    inputs : ndarray of int64 (start[F],)
    outputs : ndarray of int64 (F,)
    """

    start: np.ndarray
    inputs: np.ndarray
    outputs: np.ndarray


class BlockEdges(NamedTuple):
    """The edges of a block of variables in a group of factors, sorted by variable.

    Attributes
    ----------
    edge : ndarray of int64 (M,)
        ``f * k + j`` of tables; the place among inputs, then outputs, of OR and AND.
    first : ndarray of int64
        Where those of each variable begin that has any.
    where : ndarray of int64
        The places of these variables in the block.
    factor, bit : ndarray of int64 (M,)
        Of tables: the factor of each edge, and what its variable adds to the number of an entry.
    scopes : ndarray of int64 (M, k)
        Of tables: all variables of the factor.
    """

    edge: np.ndarray
    first: np.ndarray
    where: np.ndarray
    factor: np.ndarray | None = None
    bit: np.ndarray | None = None
    scopes: np.ndarray | None = None


class Adjacency(NamedTuple):
    """The factors of each variable; of the factors tables come first, then OR, then AND.

    Attributes
    ----------
    start : ndarray of int64 (n + 1,)
        The edges of variable i are ``start[i]`` to ``start[i + 1] - 1``, factors ascending.
    factor : ndarray of int64 (E,)
        In the order of `FactorGraph.lists`.
    weight : ndarray of int64 (E,)
        What the variable adds to the number of the entry of a table; 1 as an input of an OR, -1
        of an AND, 0 as an output.
    first_entry : ndarray of int64 (n_tables,)
        Place of each table's first entry among all log-potentials.
    at_zero : ndarray of int64 (F,)
        Sum of the weights to start from: 0, or the number of inputs of an AND.
    output : ndarray of int64 (F,)
        Of OR and AND; 0 of tables.
    """

    start: np.ndarray
    factor: np.ndarray
    weight: np.ndarray
    first_entry: np.ndarray
    at_zero: np.ndarray
    output: np.ndarray


class FactorGraph(Versioned):
    """The factors without their numbers; never changed, and shared by all energies made of it.

    Attributes
    ----------
    n_variables, n_entries : int
    groups : tuple of (class, scopes, slice)
        As given: the class of the factors, their value object, and which of all
        log-potentials are theirs.
    scopes : tuple of (variables, entries)
        Of the table factors by number of variables, ascending; as in `TableGroup`.
    ors, ands : LogicGroup
    """

    _saved = ("n_variables", "groups", "n_entries", "scopes", "ors", "ands", "_of_blocks")

    def __init__(self, factors, n_variables):
        self.n_variables = n_variables
        self._of_blocks = {}
        self.groups, first = [], 0
        for part in factors:
            size = part.log_potentials.size if isinstance(part, TableFactors) else 0
            self.groups.append((part, slice(first, first + size)))
            first += size
        self.groups = tuple(self.groups)
        self.n_entries = first
        self.scopes = self._scopes()
        self.ors = _joined([part for part in factors if isinstance(part, OrFactors)])
        self.ands = _joined([part for part in factors if isinstance(part, AndFactors)])

    def _scopes(self):
        by_arity = {}
        for part, where in self.groups:
            if isinstance(part, TableFactors) and len(part):
                k = part.variables.shape[1]
                entries = where.start + np.arange(len(part), dtype=np.int64) * 2**k
                by_arity.setdefault(k, []).append((part.variables, entries))
        return tuple(
            tuple(np.concatenate(arrays) for arrays in zip(*by_arity[k], strict=True))
            for k in sorted(by_arity)
        )

    def tables(self, flat):
        """Return a tuple of `TableGroup` of flat log-potentials (n_entries,)."""
        groups = []
        for variables, entries in self.scopes:
            size = 2 ** variables.shape[1]
            place = entries[:, None] + np.arange(size)
            groups.append(TableGroup(variables, entries, flat[place]))
        return tuple(groups)

    def lists(self):
        """Yield the variables of each factor, tables by number of variables, then OR, then AND."""
        for variables, _ in self.scopes:
            yield from variables
        for group in (self.ors, self.ands):
            for f, output in enumerate(group.outputs):
                inputs = group.inputs[group.start[f] : group.start[f + 1]]
                yield np.append(inputs, output)

    @cached_property
    def expanded(self):
        """The same graph of tables alone.

        An OR or AND of more than two inputs is a chain of such of two inputs, joined by
        further variables, which are numbered after the others.

        Returns
        -------
        scopes : list of tuple of int
            Of the tables, in the order of `tables`, then of the chains, output last.
        logic : list of ndarray (2**k,)
            Log-potentials of the chains.
        n_variables : int
            With the further ones.
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
    def elimination(self):
        """Order in which to eliminate the variables of `expanded`, none of which is held."""
        scopes, _, n = self.expanded
        return min_fill(scopes, range(n))

    @cached_property
    def blocks(self):
        """Tuple of index arrays: variables that share no factor, coloured in their order."""
        used, factors_of = [], [[] for _ in range(self.n_variables)]
        for scope in self.lists():
            if len(scope) > 1:
                used.append(set())
                for v in scope:
                    factors_of[v].append(used[-1])
        return colour_classes(factors_of)

    @cached_property
    def adjacency(self):
        """`Adjacency` of all variables."""
        none = np.empty(0, np.int64)
        variables, factor, weight, first_entry = [none], [none], [none], [none]
        at_zero, output, n_factors = [none], [none], 0
        for scopes, entries in self.scopes:
            n, k = scopes.shape
            variables.append(scopes.ravel())
            factor.append(np.repeat(n_factors + np.arange(n), k))
            weight.append(np.tile(2 ** np.arange(k - 1, -1, -1), n))
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
        """For each group of tables, then OR and AND: edges sorted by variable, and their starts."""
        logic = (np.concatenate([g.inputs, g.outputs]) for g in (self.ors, self.ands))
        every = (*(variables.reshape(-1) for variables, _ in self.scopes), *logic)
        return [self._sorted_edges(variables) for variables in every]

    def _sorted_edges(self, variables):
        start = np.zeros(self.n_variables + 1, np.int64)
        np.cumsum(np.bincount(variables, minlength=self.n_variables), out=start[1:])
        return np.argsort(variables, kind="stable"), start

    def edges_of(self, variables):
        """Return the edges of some variables, group after group as in `_edges`.

        Parameters
        ----------
        variables : ndarray of int64 (B,)

        Returns
        -------
        list of BlockEdges
        """
        key = variables.tobytes()
        if key not in self._of_blocks:  # of a sampler the same few, again and again
            blocks = [self._block(e, s, variables) for e, s in self._edges]
            for g, (scopes, _) in enumerate(self.scopes):
                k = scopes.shape[1]
                factor, slot = np.divmod(blocks[g].edge, k)
                blocks[g] = blocks[g]._replace(
                    factor=factor, bit=1 << (k - 1 - slot), scopes=scopes[factor]
                )
            self._of_blocks[key] = blocks
        return self._of_blocks[key]

    @staticmethod
    def _block(edges, start, variables):
        count = start[variables + 1] - start[variables]
        with_any = np.flatnonzero(count)
        place = np.repeat(np.arange(len(variables)), count)
        first = np.cumsum(count) - count
        within = np.arange(len(place)) - first[place]
        return BlockEdges(edges[start[variables][place] + within], first[with_any], with_any)


def colour_classes(factors_of):
    """Colour variables in their order, each with the first colour that is free.

    Parameters
    ----------
    factors_of : list of list of set
        Of each variable, the sets of its factors, empty at first: the colours used there.

    Returns
    -------
    tuple of ndarray of int64
        The variables of each colour.
    """
    colours = np.empty(len(factors_of), np.int64)
    for v, sets in enumerate(factors_of):
        taken = set().union(*sets)
        colour = 0
        while colour in taken:
            colour += 1
        colours[v] = colour
        for one in sets:
            one.add(colour)
    return tuple(np.flatnonzero(colours == c) for c in range(colours.max(initial=-1) + 1))


def _joined(parts):
    """One `LogicGroup` of several value objects."""
    start, shift = [np.zeros(1, np.int64)], 0
    for part in parts:
        start.append(part.start[1:] + shift)
        shift += len(part.inputs)
    none = np.empty(0, np.int64)
    return LogicGroup(
        np.concatenate(start),
        np.concatenate([none, *(part.inputs for part in parts)]),
        np.concatenate([none, *(part.outputs for part in parts)]),
    )
