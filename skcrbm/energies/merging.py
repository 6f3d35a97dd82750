"""Tables whose scopes are equal to, or contained in, the scope of another table.

Messages between such tables would go in a circle, so message passing adds each of them to a table
that holds all its variables. For example, a network of three variables may state p(a), p(b | a)
and p(c | a, b): with the second table added to the third, no circle is left and messages are exact.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from skcrbm.energies.states import strides_of


class Merging(NamedTuple):
    """Which tables of a factor graph are added to which others; arrays of int64."""

    kept: tuple[np.ndarray, ...]  # bool (F,) for each group of tables: False for added tables
    # (M,) each: entry `source` of a table that stays, and entry `target` of a table added to it,
    # for the same states. Positions are those of all log-potentials.
    source: np.ndarray
    target: np.ndarray

    def add(self, flat: np.ndarray) -> np.ndarray:
        """Return log-potentials (n_entries,) in which the tables that stay hold the others."""
        if len(self.source):
            flat = flat.copy()
            np.add.at(flat, self.source, flat[self.target])
        return flat

    def spread(self, statistics: np.ndarray) -> None:
        """Fill in the statistics (..., n_entries) of added tables, from the tables that stay."""
        if len(self.source):
            found = statistics.swapaxes(0, -1)
            found[np.unique(self.target)] = 0
            np.add.at(found, self.target, found[self.source])


def find_merging(
    scopes: list[np.ndarray], entries: list[np.ndarray], shapes: list[tuple[int, ...]]
) -> Merging:
    """Return the merging of tables of two or more variables.

    A table is added to the first table of the same variables, or to a table with more variables
    that stays. Tables of one variable stay: they close no circle.

    Parameters
    ----------
    scopes : list of ndarray (F, m)
        Variables of the tables of each group.
    entries : list of ndarray (F,)
        Position of the first entry of each table.
    shapes : list of tuple
        Shape of the tables of each group.
    """
    kept = tuple(np.ones(len(group), bool) for group in scopes)
    arities = {group.shape[1] for group in scopes if group.shape[1] > 1 and len(group)}
    groups = sorted(range(len(scopes)), key=lambda g: -scopes[g].shape[1])
    ordered = [np.sort(group, axis=1) for group in scopes]
    rows = [np.arange(len(group)) for group in scopes]
    if len(arities) == 1:  # only equal scopes can be found
        rows = _repeated(ordered, arities.pop())
    hosts: dict[Any, tuple[int, int]] = {}  # scope -> the table that holds it
    found: dict[Any, list[tuple[int, int]]] = {}  # (groups, axes) -> tables (host, added)
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
    """Return the numbers of the rows of m variables that occur more than once, by group."""
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
