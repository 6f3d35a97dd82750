"""Replace OR and AND factors by tables, as message passing needs them.

A factor with few variables becomes a table. A larger factor becomes a chain of tables: auxiliary
variables hold the OR or AND of the inputs so far. Messages through a chain are exact, and take time
linear in the number of inputs.

Messages would circulate between two factors that share two or more variables. So the inputs of a
large factor that are in the same table are neighbours in the chain, and a table of a chain is
joined with the tables that share two or more of its variables, if the joint table is small. For
example, an AND factor of a and b, and a table over a, b and z, become one table over a, b, z and
the output of the AND.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from skcrbm.energies._factors import logic_table
from skcrbm.energies.merging import Merging, find_merging

# An OR or AND factor with at most this number of variables becomes a single table. The messages of
# a larger table take longer than those of a chain.
_WHOLE = 4
# Largest number of entries of a joint table.
_MOST_ENTRIES = 2**8
# Largest number of inputs of a factor that stay together because tables contain several of them.
_MOST_TOGETHER = 5


class MessageTables(NamedTuple):
    """The tables between which messages are passed.

    They are the tables of a `FactorGraph`, in the same positions of a flat array of log-potentials,
    and tables for OR and AND factors behind them.
    """

    scopes: tuple[tuple[np.ndarray, ...], ...]  # see `FactorGraph`
    shapes: tuple[tuple[int, ...], ...]  # shape of the tables of each group in `scopes`
    logic: np.ndarray  # (L,): log-potentials of the tables for OR and AND factors
    merging: Merging
    n_variables: int  # number of variables, including the auxiliary variables
    # (n_variables,): the order in which sweeps visit the variables, so that messages travel far:
    # an auxiliary variable follows the last input on which it depends
    order: np.ndarray


def message_tables(graph: Any) -> MessageTables:
    """Return the tables of a `FactorGraph` after the replacement of OR and AND factors."""
    pieces, last_inputs = _pieces(graph)
    n = graph.n_variables + len(last_inputs)
    order = np.argsort(np.append(np.arange(graph.n_variables), last_inputs), kind="stable")
    scopes, shapes, logic = list(graph.scopes), list(graph.shapes), [np.empty(0)]
    counts = np.append(graph.n_states, np.full(n - graph.n_variables, 2))
    given = [
        tuple(scope) for variables, _ in graph.scopes if variables.shape[1] > 1
        for scope in variables.tolist()
    ]  # fmt: skip
    by_shape: dict[tuple[int, ...], list] = {}
    for scope, members in _joint(pieces, given, counts):
        shape = tuple(counts[scope].tolist())
        table = sum(_expanded(scope, *member) for member in members)
        by_shape.setdefault(shape, []).append((scope, np.broadcast_to(table, shape).ravel()))
    first = graph.n_entries
    for shape, group in by_shape.items():
        size = math.prod(shape)
        entries = first + size * np.arange(len(group), dtype=np.int64)
        scopes.append((np.array([scope for scope, _ in group], np.int64), entries))
        shapes.append(shape)
        logic += [table for _, table in group]
        first += size * len(group)
    merging = find_merging([part[0] for part in scopes], [part[1] for part in scopes], shapes)
    logs = np.concatenate(logic)
    return MessageTables(tuple(scopes), tuple(shapes), logs, merging, n, order)


def _pieces(graph) -> tuple[list[tuple[list[int], np.ndarray]], np.ndarray]:
    """Return the tables of all OR and AND factors with their scopes, and the auxiliary variables.

    The output of a table is the last variable of its scope. For each auxiliary variable, the array
    has the largest index of the inputs on which it depends.
    """
    pieces, last_inputs = [], []
    tables = _tables_of(graph)
    for group, kind in ((graph.ors, "or"), (graph.ands, "and")):
        for f, output in enumerate(group.outputs.tolist()):
            inputs = group.inputs[group.start[f] : group.start[f + 1]].tolist()
            if len(inputs) < _WHOLE:
                parts = [inputs]
            else:
                parts = _together(inputs, output, tables)
            last: list[int] = []
            highest = -1
            for i, part in enumerate(parts):
                here = last + part
                highest = max(highest, *part)
                final = i == len(parts) - 1
                if len(here) == 1 and not final:
                    last = here
                    continue
                out = output
                if not final:
                    out = graph.n_variables + len(last_inputs)
                    last_inputs.append(highest)
                with np.errstate(divide="ignore"):
                    table = np.log(logic_table(len(here), kind))
                pieces.append(([*here, out], table.reshape((2,) * (len(here) + 1))))
                last = [out]
    return pieces, np.array(last_inputs, np.int64)


def _tables_of(graph) -> dict[int, list[tuple[int, ...]]]:
    """Return the scopes of the tables of two or more variables that contain each variable."""
    found: dict[int, list[tuple[int, ...]]] = {}
    for variables, _ in graph.scopes:
        if variables.shape[1] > 1:
            for scope in variables.tolist():
                for v in scope:
                    found.setdefault(v, []).append(tuple(scope))
    return found


def _together(inputs, output, tables) -> list[list[int]]:
    """Divide the inputs of a factor into groups: inputs that are in the same table stay together.

    A group has at most `_MOST_TOGETHER` inputs. The inputs that share a table with the output are
    in the last group. If several tables contain two or more variables of a factor with few inputs,
    they could form a loop with the chain, so all inputs are in one group.
    """
    members, own = set(inputs), {v: [v] for v in inputs}
    near = {scope for v in inputs for scope in tables.get(v, ())}
    several = [scope for scope in near if len(set(scope) & {*members, output}) > 1]
    if len(inputs) <= _MOST_TOGETHER and len(several) > 1:
        return [inputs]
    at_end = None
    for v in inputs:
        for scope in tables.get(v, ()):
            shared = [u for u in scope if u in members]
            if output in scope and at_end is None:
                at_end = v
            for u in shared:
                a, b = own[v], own[u]
                if a is not b and len(a) + len(b) <= _MOST_TOGETHER:
                    a += b
                    for w in b:
                        own[w] = a
    groups = list({id(own[v]): own[v] for v in inputs}.values())
    if at_end is not None:
        last = own[at_end]
        groups = [group for group in groups if group is not last] + [last]
    return groups


def _joint(pieces, given, counts) -> Iterator[tuple[list[int], list]]:
    """Join tables of OR and AND factors with each other, and extend them by given tables.

    Yield the scope of each joint table and its members: pairs of a scope and log-potentials. Scopes
    are joined if they share two or more variables and the joint table has few entries. The given
    tables are not members, because `find_merging` adds them.
    """
    scopes = [list(scope) for scope, _ in pieces]
    members = [[piece] for piece in pieces]
    where: dict[int, set[int]] = {}
    for p, scope in enumerate(scopes):
        for v in scope:
            where.setdefault(v, set()).add(p)

    def extend(p, scope):
        """Extend the scope of table p, if the table stays small; return True if it did."""
        more = [v for v in scope if v not in scopes[p]]
        if math.prod(counts[[*scopes[p], *more]].tolist()) > _MOST_ENTRIES:
            return False
        scopes[p] += more
        for v in more:
            where[v] = where.get(v, set()) | {p}
        return True

    def join_pieces():
        for p in range(len(scopes)):
            for q in _sharing(scopes[p], where):
                if q > p and members[p] and extend(p, scopes[q]):
                    members[p] += members[q]
                    for v in scopes[q]:
                        where[v].discard(q)
                    members[q] = []

    join_pieces()
    for scope in given:
        found = _sharing(scope, where)
        if found and not any(set(scope) <= set(scopes[p]) for p in found):
            any(extend(p, scope) for p in found)
    join_pieces()
    yield from ((scope, some) for scope, some in zip(scopes, members, strict=True) if some)


def _sharing(scope, where):
    """Return the tables that share two or more variables with a scope, in ascending order."""
    counts = Counter(p for v in scope for p in where.get(v, ()))
    return sorted(p for p, count in counts.items() if count > 1)


def _expanded(scope, part, logs):
    """Return the log-potentials of a table over `part` with an axis for each variable of `scope`.

    Axes of variables that are not in `part` have the length 1.
    """
    order = sorted(range(len(part)), key=lambda j: scope.index(part[j]))
    shape = [1] * len(scope)
    for j in order:
        shape[scope.index(part[j])] = logs.shape[j]
    return logs.transpose(order).reshape(shape)
