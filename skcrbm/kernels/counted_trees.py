"""Sum, maximise or sample label vectors that obey trees of labels and rules on counts.

A tree says that a label can be on (have the value 1) only if its parent is on. A rule limits the
number of labels that are on. The labels are numbered in depth-first order of their trees; the
number of a label is its position. A label without a tree is a tree of a single label. A label
vector corresponds to a walk over the positions. If the label at position i is on, the walk goes on
to position i + 1. If the label is off, all its descendants are off, too, and the walk jumps to the
first position after the descendants. On its way, the walk counts the labels that are on, or the
labels that are off if the rule counts negated labels. Dynamic programming over a table of positions
and counts then takes a time proportional to the size of the table.

The positions are divided into blocks. Each block has its own count, which begins at 0.
"""

import math
from typing import NamedTuple

import numpy as np

from skcrbm.kernels.jit import jit


class Walks(NamedTuple):
    """Structure of the trees and limits of the counts, as arrays over the L positions."""

    after: np.ndarray  # (L,) int64, first position after the descendants of a position
    on_step: np.ndarray  # (L,) int64, increase of the count if the label is on
    off_step: np.ndarray  # (L,) int64, increase if the label and its descendants are off
    low: np.ndarray  # (L,) int64, smallest allowed count at the end of the position's block
    top: np.ndarray  # (L,) int64, largest count in the position's block
    stops: np.ndarray  # (L,) bool, True if counts above `top` are allowed and replaced by `top`
    # (L + 1,) bool, True at the positions at which a block begins; the last entry is True
    begins: np.ndarray


@jit(allocates=False, inline=True)
def _next(walks, i, count, on):
    """Return the next position and count of a walk; the count is -1 if the step breaks a rule."""
    j = i + 1 if on else walks.after[i]
    count += walks.on_step[i] if on else walks.off_step[i]
    if count > walks.top[i]:
        if not walks.stops[i]:
            return j, -1
        count = walks.top[i]
    if walks.begins[j]:
        return j, 0 if count >= walks.low[i] else -1
    return j, count


@jit(allocates=False)
def _log_weight(walks, i, count, on, score, table):
    """Return the log-weight of the walks from position i with a count and label i on (or off)."""
    j, after = _next(walks, i, count, on)
    if after < 0:
        return -math.inf
    return table[j, after] + (score if on else 0.0)


@jit(allocates=False)
def _fill(walks, scores, may_on, may_off, maximal, table):
    """For each of L + 1 positions and K counts, write the log-weight of walks to `table`.

    The walks begin at the position, with the count. `scores` (L,) are the log-odds of the labels. A
    label may be on if `may_on` (L,) is True, and off if `may_off` (L,) is True. An entry is the
    log-weight of the best walk if `maximal`, else the log of the summed weights of all walks.
    """
    n = len(scores)
    table[n, 0] = 0.0
    for i in range(n - 1, -1, -1):
        for count in range(walks.top[i] + 1):
            on = off = -math.inf
            if may_on[i]:
                on = _log_weight(walks, i, count, True, scores[i], table)
            if may_off[i]:
                off = _log_weight(walks, i, count, False, scores[i], table)
            larger = max(on, off)
            if not maximal and min(on, off) > -math.inf:
                larger += math.log1p(math.exp(-abs(on - off)))
            table[i, count] = larger


@jit(allocates=False)
def _probability(walks, i, count, scores, may_on, table):
    """Return the probability that a label is on, given the position and count of a walk."""
    if not may_on[i] or table[i, count] == -math.inf:
        return 0.0
    on = _log_weight(walks, i, count, True, scores[i], table)
    return min(math.exp(on - table[i, count]), 1.0)


@jit
def sum_walks(walks, scores, may_on, may_off, log_z, proba):
    """Compute log Z (n,) and marginals (n, L) of rows of log-odds (n, L).

    The marginals are written to `proba`. If `proba` has no rows, they are not computed. If no label
    vector satisfies the rules for a row, the marginals of the row are not set.
    """
    n_rows, n = scores.shape
    table = np.empty((n + 1, walks.top.max() + 1))
    # probability that a walk reaches a position with a count
    share = np.empty((n + 1, walks.top.max() + 1))
    for r in range(n_rows):
        _fill(walks, scores[r], may_on[r], may_off[r], False, table)
        log_z[r] = table[0, 0]
        if len(proba) == 0 or table[0, 0] == -math.inf:
            continue
        share[:] = 0.0
        share[0, 0] = 1.0
        for i in range(n):
            total = 0.0
            for count in range(walks.top[i] + 1):
                here = share[i, count]
                if here > 0:
                    p = _probability(walks, i, count, scores[r], may_on[r], table)
                    total += here * p
                    if p > 0:
                        j, after = _next(walks, i, count, True)
                        share[j, after] += here * p
                    if p < 1:
                        j, after = _next(walks, i, count, False)
                        share[j, after] += here * (1 - p)
            proba[r, i] = total


@jit
def draw_walks(walks, scores, may_on, may_off, uniform, labels):
    """Draw S label vectors (S, L) for one row of log-odds (L,) from uniform numbers (S, L)."""
    n = len(scores)
    table = np.empty((n + 1, walks.top.max() + 1))
    _fill(walks, scores, may_on, may_off, False, table)
    chance = np.empty((n, walks.top.max() + 1))
    for i in range(n):
        for count in range(walks.top[i] + 1):
            chance[i, count] = _probability(walks, i, count, scores, may_on, table)
    for s in range(len(labels)):
        labels[s] = 0
        i, count = 0, 0
        while i < n:
            on = uniform[s, i] < chance[i, count]
            labels[s, i] = on
            i, count = _next(walks, i, count, on)
    return table[0, 0]


@jit
def best_walks(walks, scores, may_on, may_off, labels, values):
    """Find the k best label vectors (n, k, L) for n rows of log-odds, with log-weights (n, k).

    The next best vector agrees with an earlier vector up to some position, differs from it there,
    and continues in the best way. If fewer than k vectors are possible, the missing vectors are
    filled with -1, and have the log-weight -inf.
    """
    n_rows, k, n = labels.shape
    table = np.empty((n + 1, walks.top.max() + 1))
    # Candidates for the next vectors, in descending order of their log-weights: log-weight, index
    # of the earlier vector, and position at which the candidate differs from the earlier vector.
    weight, origin, leaves = np.empty(k), np.empty(k, np.int64), np.empty(k, np.int64)
    for r in range(n_rows):
        _fill(walks, scores[r], may_on[r], may_off[r], True, table)
        labels[r], values[r] = -1, -math.inf
        n_waiting = 0
        if table[0, 0] > -math.inf:
            weight[0], origin[0], leaves[0] = table[0, 0], 0, -1
            n_waiting = 1
        found = 0
        while n_waiting > 0:
            values[r, found], earlier, fork = weight[0], origin[0], leaves[0]
            n_waiting -= 1
            for w in range(n_waiting):
                weight[w], origin[w], leaves[w] = weight[w + 1], origin[w + 1], leaves[w + 1]
            best = labels[r, found]
            room = k - found - 1
            i, count, before = 0, 0, 0.0
            while i < n:
                j_on, count_on = _next(walks, i, count, True)
                j_off, count_off = _next(walks, i, count, False)
                on = off = -math.inf
                if may_on[r, i] and count_on >= 0:
                    on = scores[r, i] + table[j_on, count_on]
                if may_off[r, i] and count_off >= 0:
                    off = table[j_off, count_off]
                if i < fork:
                    take = labels[r, earlier, i] == 1
                elif i == fork:
                    take = labels[r, earlier, i] == 0
                else:
                    take = on > off
                    # Because of rounding, the candidate could seem better than the vector already
                    # found.
                    other = min(before + (off if take else on), values[r, found])
                    wanted = n_waiting < room or (room > 0 and other > weight[room - 1])
                    if other > -math.inf and wanted:
                        w = min(n_waiting, room - 1)
                        while w > 0 and weight[w - 1] < other:
                            weight[w], origin[w], leaves[w] = (
                                weight[w - 1],
                                origin[w - 1],
                                leaves[w - 1],
                            )
                            w -= 1
                        weight[w], origin[w], leaves[w] = other, found, i
                        n_waiting = min(n_waiting + 1, room)
                best[i] = take
                if take:
                    before += scores[r, i]
                    i, count = j_on, count_on
                else:
                    best[i:j_off] = 0
                    i, count = j_off, count_off
            found += 1
