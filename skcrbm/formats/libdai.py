"""Reader and writer of networks in the .fg format of libDAI."""

from __future__ import annotations

import math
import os

import numpy as np

from skcrbm.formats.uai import Network
from skcrbm.formats.words import Words, joined
from skcrbm.utils.limits import MAX_FILE_ENTRIES, MAX_FILE_SCOPE

# Largest label of a variable, because labels are stored as int64. For a larger label a ValueError
# is raised.
_MAX_LABEL = 2**63 - 1


def read_libdai(source: str | os.PathLike) -> tuple[Network, np.ndarray]:
    """Read a network and the labels (n,) of its variables from a file or a text.

    The variables are numbered in ascending order of their labels. Lines that begin with "#" are
    comments. If the text is not in the format, a ValueError shows the wrong word and its line.
    """
    words = Words(source, "libDAI text", comments="#")
    states: dict[int, int] = {}
    named, shapes, contents, n_entries = [], [], [], 0
    for f in range(words.integer("the number of tables")):
        k = words.integer(f"the number of variables of table {f}", 0, MAX_FILE_SCOPE)
        labels = words.distinct(k, f"the label of a variable of table {f}", _MAX_LABEL)
        place = words.place
        expected = f"the number of states of a variable of table {f}"
        shape = tuple(words.integers(k, expected, 1, MAX_FILE_ENTRIES))
        for i, label in enumerate(labels):
            if states.setdefault(label, shape[i]) != shape[i]:
                expected = f"{states[label]}, the number of states of variable {label} so far,"
                raise words.error(expected, place + i)
        size = math.prod(shape)
        n_entries += size
        if n_entries > MAX_FILE_ENTRIES:
            raise ValueError(
                f"{words.name} has a table of {size} entries before {words.position(words.place)}; "
                f"the limit for all tables together is {MAX_FILE_ENTRIES} entries"
            )
        count = words.integer(f"the number of weights of table {f} that are not 0", 0, size)
        # The file numbers the entries of a table in Fortran order: the first variable changes
        # fastest. `_table` converts the order.
        places = words.take(2 * count, f"a weight of table {f}")
        entries = words.distinct_at(places[::2], f"the number of an entry of table {f}", size - 1)
        contents.append((entries, words.numbers_at(places[1::2], f"a weight of table {f}")))
        named.append(labels)
        shapes.append(shape)
    words.end("the last table")
    order = np.array(sorted(states), np.int64)
    n_states = np.array([states[label] for label in order.tolist()], np.int64)
    scopes = [np.searchsorted(order, np.array(labels, np.int64)) for labels in named]
    # Allocate the tables only now, after all sizes have been checked against the limit.
    tables = [_table(shape, *found) for shape, found in zip(shapes, contents, strict=True)]
    return Network("MARKOV", n_states, scopes, tables), order


def _table(shape, entries, weights):
    flat = np.zeros(math.prod(shape))
    flat[entries] = weights
    return np.array(flat.reshape(shape, order="F"), order="C")


def write_libdai(network: Network, labels: np.ndarray | None = None) -> str:
    """Return a network as text in the .fg format; `labels` (n,) are ascending nonnegative integers.

    The format has no list of variables. So a table of ones is written for a variable without a
    table.
    """
    scopes, tables = list(network.scopes), list(network.tables)
    seen = np.zeros(len(network.n_states), bool)
    for scope in scopes:
        seen[scope] = True
    for i in np.flatnonzero(~seen):
        scopes.append(np.array([i]))
        tables.append(np.ones(network.n_states[i]))
    names = np.arange(len(seen)) if labels is None else np.asarray(labels)
    lines = [str(len(scopes))]
    for scope, table in zip(scopes, tables, strict=True):
        flat = table.ravel(order="F")
        entries = np.flatnonzero(flat)
        lines += ["", str(len(scope)), joined(names[scope]), joined(table.shape), str(len(entries))]
        pairs = zip(entries.tolist(), flat[entries].tolist(), strict=True)
        lines += [f"{entry} {weight!r}" for entry, weight in pairs]
    return "\n".join(lines) + "\n"
