"""Eliminate the variables of small graphs by NumPy, many buckets at once.

The kernels of `kernels/elimination.py` go through the buckets one by one. They take more than a
second to compile, in which NumPy eliminates the variables of thousands of small graphs. Here a
level holds buckets that are computed together: they have the same number of earlier levels below
them, and tables of the same shapes. The arguments and results are those of the kernels.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from skcrbm.kernels.arguments import FIELD, MESSAGE, SHARED


class Limits(NamedTuple):
    """Largest number of levels, and of entries in the tables of all models, for NumPy."""

    levels: int
    entries: int


# With these limits, a call of `infer` takes 1.3 to 2.5 times as long as with the kernels: .35 ms
# instead of .27 ms for 6 levels of 38 entries, and .66 ms instead of .30 ms for 30 levels of 230
# entries.
QUICK = Limits(32, 2**13)
# For at most this number of entries, the function `logaddexp` is faster than three functions.
_FEW = 256
# Largest number of buckets of a graph for which levels are searched.
MOST_BUCKETS = 2**9


class _Level(NamedTuple):
    """G buckets with L links, whose tables have k states of the variable by W of the neighbours."""

    n_states: int  # k
    variables: np.ndarray  # (G,): the variables that are eliminated
    neighbours: np.ndarray  # (G, number of neighbours)
    strides: np.ndarray  # (number of neighbours,): stride of each neighbour in the W states
    entries: np.ndarray  # (G, k * W): places of the entries of each bucket in arrays of all entries
    sources: np.ndarray  # (L, G, k * W): entries of fields, messages, tables in a single array
    message: np.ndarray  # (G, W): entries of the messages in arrays of all messages
    # (G, W, s): the s entries of the parent whose sum is the belief about the neighbours; s is 0
    # for buckets without a parent
    parents: np.ndarray


class Levels:
    """Levels of the buckets of a plan of elimination, from the first to the last.

    Parameters
    ----------
    buckets : Buckets
        With the tables of the graph. The entries of the tables are not read.
    members : list of ndarray
        The buckets of each level.
    n_fields : int
        Number n * K of log-weights of the states of all variables.
    n_messages : int
        Number of entries of all messages and of the factors of kind `OWN`.
    """

    def __init__(self, buckets: Any, members: list, n_fields: int, n_messages: int):
        first_message = n_fields
        first_table = n_fields + n_messages
        own_statistics = len(buckets.tables) - int(buckets.message_start[-1])
        pulled: dict[int, np.ndarray] = {}  # entries of the parent for each entry of a message
        sums: dict[tuple, list] = {}  # pairs of targets and sources, by kind and shape
        found = []
        for own in reversed(members):
            start = buckets.scope_start[own]
            axes = np.arange(buckets.scope_start[own[0] + 1] - start[0])
            sizes = buckets.sizes[start[0] + axes]
            states = np.indices(sizes).reshape(len(axes), -1)
            size, width = states.shape[1], states.shape[1] // sizes[0]
            entries = buckets.entry_start[own][:, None] + np.arange(size)
            links = buckets.link_start[own]
            sources = []
            for link in np.arange(buckets.link_start[own[0] + 1] - links[0])[:, None] + links:
                kind, place = buckets.kind[link[0]], buckets.place[link]
                steps = buckets.steps[buckets.step_start[link][:, None] + axes]
                local = steps @ states
                first = first_table if kind == SHARED else 0 if kind == FIELD else first_message
                sources.append(first + place[:, None] + local)
                length = int(buckets.length[link[0]])
                order = np.argsort(local, axis=1, kind="stable").reshape(len(own), length, -1)
                order += entries[:, :1, None]
                if kind == MESSAGE:
                    pulled |= zip(place.tolist(), order)
                else:
                    target = place + (0 if kind in (FIELD, SHARED) else own_statistics)
                    target = target[:, None] + np.arange(length)
                    key = bool(kind == FIELD), order.shape[1:]
                    sums.setdefault(key, []).append((target, order))
            message = buckets.message_start[own][:, None] + np.arange(width)
            no_parent = np.zeros((width, 0), np.int64)
            found.append(
                _Level(
                    int(sizes[0]), buckets.scopes[start],
                    buckets.scopes[start[:, None] + axes[1:]], _strides(sizes[1:]), entries,
                    np.array(sources), first_message + message,
                    np.array([pulled.get(place, no_parent) for place in message[:, 0].tolist()]),
                )
            )  # fmt: skip
        self.levels = found[::-1]
        self._sums = [
            (is_field, *(np.concatenate(part) for part in zip(*pairs, strict=True)))
            for (is_field, _), pairs in sums.items()
        ]

    def go_up(self, maximal: bool, fields, message, tables, conditional, total) -> None:
        """Eliminate all variables; see `go_up` of the kernels.

        `fields`, `message` and `conditional` have an entry for each of R models on the last axis.
        """
        total[:] = 0.0
        shared = np.broadcast_to(tables[:, None], (len(tables), len(total)))
        pool = np.concatenate([fields, message, shared])
        for level in self.levels:
            table = np.add.reduce(pool.take(level.sources, axis=0))
            shape = table.shape
            table = table.reshape(shape[0], level.n_states, -1, shape[2])
            sums = _reduced(maximal, table, 1)
            table -= np.maximum(sums, -1e300)[:, None]
            top = np.maximum.reduce(sums, axis=1)
            total += np.add.reduce(top)
            pool[level.message] = sums - np.maximum(top, -1e300)[:, None]
            conditional[level.entries] = table.reshape(shape)

    def go_down(self, maximal: bool, conditional, weight, statistics) -> None:
        """Compute the log-weights of states and the probabilities of entries; see the kernels."""
        belief = conditional.copy()
        for level in reversed(self.levels):
            if level.parents.shape[2]:
                table = belief.take(level.entries, axis=0)
                shape = table.shape
                table = table.reshape(shape[0], level.n_states, -1, shape[2])
                table += _reduced(maximal, belief.take(level.parents, axis=0), 2)[:, None]
                belief[level.entries] = table.reshape(shape)
        power = None if maximal or not len(statistics) else np.exp(belief)
        for is_field, targets, sources in self._sums:
            if is_field:
                weight[targets] = _reduced(maximal, belief.take(sources, axis=0), 2)
            elif power is not None:
                statistics[targets] = np.add.reduce(power.take(sources, axis=0), axis=2)

    def best_states(self, conditional, value) -> None:
        """Write the best states of all variables to `value` (n, R); see the kernels."""
        models = np.arange(value.shape[1])
        for level in reversed(self.levels):
            steps = level.strides[:, None] * value.take(level.neighbours, axis=0)
            width = level.entries.shape[1] // level.n_states
            places = level.entries[:, ::width, None] + np.add.reduce(steps, axis=1)[:, None]
            value[level.variables] = conditional[places, models].argmax(axis=1)


def levels_of(
    plan: Any, buckets: Any, n_fields: int, n_models: int, n_messages: int, limits: Limits
) -> Any:
    """Return the levels of the buckets of a plan, or None if they exceed the limits.

    The levels are kept in the plan. See `Levels` for the parameters.
    """
    n_buckets, n_entries = len(buckets.parent), buckets.entry_start[-1]
    if not 0 < n_buckets <= MOST_BUCKETS or n_entries * n_models > limits.entries:
        return None
    if limits not in plan.levels:
        members = _members_of_levels(buckets)
        few = len(members) <= limits.levels
        plan.levels[limits] = Levels(buckets, members, n_fields, n_messages) if few else None
    return plan.levels[limits]


def _members_of_levels(buckets):
    """Return the buckets of each level, as a list of arrays."""
    parent, n = buckets.parent.tolist(), len(buckets.parent)
    scope_start, link_start = buckets.scope_start.tolist(), buckets.link_start.tolist()
    sizes, kinds = buckets.sizes.tolist(), buckets.kind.tolist()
    lengths, entries = buckets.length.tolist(), np.diff(buckets.entry_start).tolist()
    height, groups = [0] * n, {}
    for i in range(n):
        if parent[i] >= 0:
            height[parent[i]] = max(height[parent[i]], height[i] + 1)
        links = slice(link_start[i], link_start[i + 1])
        key = (
            height[i], *sizes[scope_start[i] : scope_start[i + 1]], -1, *kinds[links],
            *lengths[links], entries[parent[i]] if parent[i] >= 0 else 0,
        )  # fmt: skip
        groups.setdefault(key, []).append(i)
    return [np.array(groups[key]) for key in sorted(groups, key=lambda key: key[0])]


def _strides(sizes):
    """Return the strides of an array with these sizes in C order."""
    return np.append(np.cumprod(sizes[:0:-1])[::-1], np.ones(min(len(sizes), 1), np.int64))


def _reduced(maximal, logs, axis):
    """Return the logarithms of the sums or of the maxima of weights along an axis."""
    if not maximal and logs.size <= _FEW:
        return np.logaddexp.reduce(logs, axis=axis)
    top = np.maximum.reduce(logs, axis=axis, keepdims=True)
    if not maximal:
        shift = np.maximum(top, -1e300)
        with np.errstate(divide="ignore"):
            top = shift + np.log(np.add.reduce(np.exp(logs - shift), axis=axis, keepdims=True))
    return top.squeeze(axis)
