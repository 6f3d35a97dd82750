"""Constraint problems: files .wcsp of weighted constraints, and .cnf of clauses (DIMACS)."""

from __future__ import annotations

import math
import os
from typing import NamedTuple

import numpy as np

from skcrbm.formats.words import Words, joined
from skcrbm.utils.limits import MAX_FILE_ENTRIES, MAX_FILE_SCOPE


class CostNetwork(NamedTuple):
    """Tables of log-weights, -inf for forbidden entries, over n variables."""

    n_states: np.ndarray  # int64 (n,): number of states of each variable
    scopes: list[np.ndarray]  # int64 (m,) each: variables; m = 0 for a constant
    tables: list[np.ndarray]  # float64 (k1, ..., km) each


class Clauses(NamedTuple):
    """Clauses over 0/1 variables: in each clause at least one literal is true."""

    n_variables: int
    # For each clause the distinct variables of its positive and of its negated literals. Clauses
    # that hold in every state are left out.
    literals: list[tuple[list[int], list[int]]]


def read_wcsp(source: str | os.PathLike) -> CostNetwork:
    """Read a problem in the .wcsp format from a file or a text; log-weights are minus the costs.

    If the text is not in the format, a ValueError shows the wrong word and its line.
    """
    words = Words(source, "wcsp text", n_names=1)
    words.take(1, "the name of the problem")
    n = words.integer("the number of variables")
    largest = words.integer("the largest number of states", 0, MAX_FILE_ENTRIES)
    n_functions = words.integer("the number of cost functions")
    top = words.integer("the upper bound of the cost")
    states = words.integers(n, "the number of states of a variable", 1, largest)
    scopes, tables, n_entries = [], [], 0
    for f in range(n_functions):
        here = f"of cost function {f}"
        m = words.integer(f"the number of variables {here}", 0, min(n, MAX_FILE_SCOPE))
        scope = words.distinct(m, f"a variable {here}", n - 1)
        default = words.integer(f"the default cost {here}")
        shape = tuple(states[v] for v in scope)
        size = math.prod(shape)
        n_entries += size
        if n_entries > MAX_FILE_ENTRIES:
            raise ValueError(
                f"{words.name} has a cost function of {size} entries before "
                f"{words.position(words.place)}; the limit for all together is {MAX_FILE_ENTRIES}"
            )
        count = words.integer(f"the number of tuples {here}", 0, size)
        table = np.full(shape, float(default))
        table[table >= top] = np.inf
        places = words.take(count * (m + 1), f"a tuple {here} and its cost")
        seen = set()
        for first in range(0, len(places), m + 1):
            place = places[first : first + m + 1]
            entry = tuple(
                words.integers_at(place[j : j + 1], f"a state of variable {v}", 0, states[v] - 1)[0]
                for j, v in enumerate(scope)
            )
            cost = words.integers_at(place[m:], f"a cost {here}")[0]
            if entry in seen:
                raise words.error(f"a tuple {here} that occurs only once", place[0])
            seen.add(entry)
            table[entry] = np.inf if cost >= top else cost
        scopes.append(np.array(scope, np.int64))
        tables.append(-table)
    words.end("the last cost function")
    return CostNetwork(np.array(states, np.int64), scopes, tables)


def write_wcsp(network: CostNetwork) -> str:
    """Return a problem as text; all log-weights must be nonpositive integers or -inf.

    The most frequent cost of a table becomes its default cost. The upper bound of the cost is above
    the cost of every possible state.
    """
    largest = [-table.min(where=table > -np.inf, initial=0.0) for table in network.tables]
    top = 1 + int(sum(largest))
    lines = []
    for scope, table in zip(network.scopes, network.tables, strict=True):
        costs = np.where(table > -np.inf, -table, float(top)).astype(np.int64)
        values, counts = np.unique(costs, return_counts=True)
        default = values[counts.argmax()]
        others = np.argwhere(costs != default).tolist()
        lines.append(f"{joined([len(scope), *scope])} {default} {len(others)}")
        lines += [joined([*entry, costs[tuple(entry)]]) for entry in others]
    counts = network.n_states
    lines.insert(0, f"skcrbm {len(counts)} {counts.max(initial=0)} {len(network.scopes)} {top}")
    lines.insert(1, joined(counts))
    return "\n".join(lines) + "\n"


def write_cnf(clauses: Clauses) -> str:
    """Return clauses as text in the DIMACS format."""
    lines = [f"p cnf {clauses.n_variables} {len(clauses.literals)}"]
    for positive, negated in clauses.literals:
        lines.append(joined([*(v + 1 for v in positive), *(-v - 1 for v in negated), 0]))
    return "\n".join(lines) + "\n"


def read_cnf(source: str | os.PathLike) -> Clauses:
    """Read clauses in the DIMACS format from a file or a text.

    Lines that begin with "c" are comments, and a line "%" ends the clauses. If the text is not in
    the format, a ValueError shows the wrong word and its line.
    """
    words = Words(source, "cnf text", comments="c")
    words.name_of(("P",))
    words.name_of(("CNF",))
    n = words.integer("the number of variables")
    n_clauses = words.integer("the number of clauses")
    clauses: list[tuple[list[int], list[int]]] = []
    for c in range(n_clauses):
        literals: set[int] = set()
        first = words.place
        while True:
            expected = f"a literal of clause {c}, or 0 after the last literal,"
            places = words.take(1, expected)
            literal = words.integers_at(places, expected, -n, n)[0]
            if literal == 0:
                break
            literals.add(literal)
        if not literals:
            raise words.error("a clause with at least one literal (no state agrees with 0)", first)
        if not any(-literal in literals for literal in literals):
            clauses.append(
                (
                    sorted(v - 1 for v in literals if v > 0),
                    sorted(-v - 1 for v in literals if v < 0),
                )
            )
    if words.n_left and words.words[words.place] == "%":  # the end of files of SATLIB
        words.place = len(words.words)
    words.end("the last clause")
    return Clauses(n, clauses)
