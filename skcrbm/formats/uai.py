"""Reader and writer of networks in the format of the UAI competitions."""

from __future__ import annotations

import math
import os
from typing import NamedTuple

import numpy as np

from skcrbm.formats.words import Words, joined
from skcrbm.utils.limits import MAX_FILE_ENTRIES, MAX_FILE_SCOPE


class Network(NamedTuple):
    """A graphical model as a file stores it: its variables and its tables of weights."""

    # "MARKOV" or "BAYES". In a Bayesian network, the last variable of a scope is the child.
    kind: str
    n_states: np.ndarray  # int64 (n,): number of states of each variable
    scopes: list[np.ndarray]  # int64 (m,) each: variables; m = 0 for a constant
    tables: list[np.ndarray]  # float64 (k1, ..., km) each: weights, not their logarithms


def read_network(source: str | os.PathLike) -> Network:
    """Read a network from a file or a text.

    If the text is not in the format, a ValueError shows the wrong word and its line.
    """
    words = Words(source, "UAI text")
    kind = words.name_of(("MARKOV", "BAYES"))
    n = words.integer("the number of variables")
    states = words.integers(n, "the number of states of a variable", 1, MAX_FILE_ENTRIES)
    scopes = []
    for f in range(words.integer("the number of tables")):
        k = words.integer(f"the number of variables of table {f}", 0, min(n, MAX_FILE_SCOPE))
        scopes.append(words.distinct(k, f"a variable of table {f}", n - 1))
    shapes = [tuple([states[i] for i in scope]) for scope in scopes]
    sizes = [math.prod(shape) for shape in shapes]
    places: list[int] = []
    for f, size in enumerate(sizes):
        words.exactly(size, f"the number of weights of table {f}")
        places += words.take(size, f"a weight of table {f}")
    words.end("the last table")
    # Convert the weights of all tables in one call, because many calls for small tables would be
    # slow.
    weights = words.numbers_at(places, "a weight")
    stop = np.cumsum(sizes, dtype=np.int64).tolist()
    tables = [
        weights[end - size : end].reshape(shape)
        for end, size, shape in zip(stop, sizes, shapes, strict=True)
    ]
    scopes = [np.array(scope, np.int64) for scope in scopes]
    return Network(kind, np.array(states, np.int64), scopes, tables)


def write_uai(network: Network) -> str:
    """Return a network as text in the UAI format. Floats are written with all digits."""
    lines = [network.kind, str(len(network.n_states)), joined(network.n_states)]
    lines.append(str(len(network.scopes)))
    lines += [joined([len(scope), *scope]) for scope in network.scopes]
    for table in network.tables:
        lines += ["", str(table.size), joined(table)]
    return "\n".join(lines) + "\n"
