"""Merge tables whose scope is equal to, or contained in, the scope of another table.

Messages between two tables that share several variables circulate in a loop. Before message
passing, a table is therefore added to another table that contains all its variables, if there is
such a table. For example, a network may have the tables p(a), p(b | a) and p(c | a, b). If the
second table is added to the third, no loop remains, and the messages are exact.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from skcrbm.energies.states import strides_of


class Merging(NamedTuple):
    """Plan to add tables to other tables: pairs of entries, given by int64 positions."""

    kept: tuple[np.ndarray, ...]  # a bool (F,) per group: False for added tables
    # (M,): positions of entries of kept tables in the array of the log-potentials of all tables
    source: np.ndarray
    # (M,): positions of the entries of added tables. The log-potential at `target[i]` is added to
    # the log-potential at `source[i]`; both belong to the same states of the variables of the added
    # table. Probabilities are copied in the opposite direction, from `source` to `target`.
    target: np.ndarray

    def add(self, flat: np.ndarray) -> np.ndarray:
        """Return the log-potentials (n_entries,) of all tables, after adding tables to others."""
        if len(self.source):
            flat = flat.copy()
            np.add.at(flat, self.source, flat[self.target])
        return flat

    def spread(self, statistics: np.ndarray) -> None:
        """Sum the probabilities of kept tables to obtain the probabilities of the added tables.

        `statistics` (..., n_entries) holds the probabilities of the entries of all tables. It is
        changed in place.
        """
        if len(self.source):
            found = statistics.swapaxes(0, -1)
            found[np.unique(self.target)] = 0
            np.add.at(found, self.target, found[self.source])


def find_merging(
    scopes: list[np.ndarray], entries: list[np.ndarray], shapes: list[tuple[int, ...]]
) -> Merging:
    """Find the tables over two or more variables that can be added to other tables.

    A table is added to a kept table with more variables, or to the first table over the same
    variables. Tables over a single variable are kept, because they cannot be part of a loop. The F
    tables of a group have the same number m of variables and the same shape. The lists hold for
    each group the variables (F, m) of the tables, the position (F,) of the first entry of each
    table, and the shape.
    """
    kept = tuple(np.ones(len(group), bool) for group in scopes)
    arities = {group.shape[1] for group in scopes if group.shape[1] > 1 and len(group)}
    groups = sorted(range(len(scopes)), key=lambda g: -scopes[g].shape[1])
    ordered = [np.sort(group, axis=1) for group in scopes]
    rows = [np.arange(len(group)) for group in scopes]
    if len(arities) == 1:  # sets of equal size contain each other only if they are equal
        rows = _repeated(ordered, arities.pop())
    # set of variables -> kept table (group, row) that contains these variables
    hosts: dict[Any, tuple[int, int]] = {}
    # dict from (group of kept tables, group of added tables, axes) to pairs of rows (kept, added)
    found: dict[Any, list[tuple[int, int]]] = {}
    for g in groups:
        m = scopes[g].shape[1]
        if m == 1:
            continue
        for f in rows[g].tolist():
            key = tuple(ordered[g][f].tolist())
            host = hosts.get(key)
            if host is None:
                for size in (m, *(size for size in arities if size < m)):
                    for part in combinations(key, size):
                        hosts.setdefault(part, (g, f))
                continue
            kept[g][f] = False
            place = {v: axis for axis, v in enumerate(scopes[host[0]][host[1]].tolist())}
            axes = tuple(place[v] for v in scopes[g][f].tolist())
            found.setdefault((host[0], g, axes), []).append((host[1], f))
    source, target = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for (h, g, axes), pairs in found.items():
        step = np.zeros(len(shapes[h]), np.int64)
        step[list(axes)] = strides_of(shapes[g])
        within = np.tensordot(step, np.indices(shapes[h]), 1).ravel()
        host, added = np.array(pairs).T
        source.append((entries[h][host][:, None] + np.arange(len(within))).ravel())
        target.append((entries[g][added][:, None] + within).ravel())
    return Merging(kept, np.concatenate(source), np.concatenate(target))


def _repeated(ordered, m):
    """Find sets of m variables that have several tables; return the tables' indices per group."""
    width = 1 + max(group.max(initial=0) for group in ordered)
    if width**m < 2**62:
        keys = [group @ width ** np.arange(group.shape[1]) for group in ordered]
    else:
        every = np.concatenate([group for group in ordered if group.shape[1] == m])
        keys, left = [], np.unique(every, axis=0, return_inverse=True)[1].ravel()
        for group in ordered:
            size = len(group) if group.shape[1] == m else 0
            keys.append(left[:size])
            left = left[size:]
    same = [key if group.shape[1] == m else key[:0] for key, group in zip(keys, ordered)]
    in_order = np.sort(np.concatenate(same))
    twice = in_order[1:][in_order[1:] == in_order[:-1]]
    if not len(twice):
        return [np.empty(0, np.int64)] * len(same)
    return [np.flatnonzero(np.isin(key, twice)) for key in same]
