"""Find the k best states of a factor graph by elimination of variables.

An entry of an eliminated table contains k scores instead of one: the k largest scores that states
of the eliminated variables reach. They lie along the last axis of the table, in descending order.
The rank of a score is its index along this axis.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from skcrbm.energies import FactorGraphEnergy
from skcrbm.inference.base import ContradictionError
from skcrbm.inference.factor_graph._elimination import make_plan
from skcrbm.inference.factor_graph._exact import _Chunk, _Model
from skcrbm.utils.limits import MAX_ELIMINATED_ENTRIES


def k_best_states(
    energy: FactorGraphEnergy, k: int, max_entries: int = MAX_ELIMINATED_ENTRIES
) -> tuple[np.ndarray, np.ndarray]:
    """Return the k best states of a single model (k', n), and their scores (k',).

    The states are in descending order of the scores. k' is k, or the number of states of positive
    weight if the model has fewer than k of them.

    Raises
    ------
    ValueError
        If a table would have more than ``max_entries`` scores, which are k for each entry.
    """
    single = energy.graph.n_states == 1
    held = ~energy.free[0] | single
    plan = make_plan(energy.graph, held, max(1, max_entries // k))
    model = _Model(energy, _Chunk(plan, np.arange(1)))
    messages: dict[int, np.ndarray] = {}
    back: list[tuple[list, np.ndarray]] = []
    for i, bucket in enumerate(plan.buckets):
        v, scope = bucket.scope[0], bucket.scope
        total = np.zeros((*(plan.counts[u] for u in scope), 1))
        total += _spread(model.sides[v, : plan.counts[v]], (v,), scope)
        for f in bucket.factors:
            total += _spread(model.tables[f], plan.axes[f], scope)
        steps = []
        for child in bucket.children:
            message = _spread(messages.pop(child), plan.buckets[child].scope[1:], scope)
            total, code = _best_sums(total, message, k)
            steps.append((child, code))
        several = np.moveaxis(total, 0, -2)
        several = several.reshape(*several.shape[:-2], -1)
        order = np.argsort(-several, axis=-1, kind="stable")[..., :k]
        messages[i] = np.take_along_axis(several, order, axis=-1)
        # An index in `order` is the state of v, times the number of ranks, plus the rank.
        back.append((steps, np.stack(np.divmod(order, total.shape[-1]))))
    score, joined = model.offset, []
    for root in [i for i, bucket in enumerate(plan.buckets) if bucket.parent < 0]:
        score, code = _best_sums(score, messages.pop(root), k)
        joined.append((root, code))
    n_found = int(np.count_nonzero(score > -np.inf))
    if n_found == 0:
        raise ContradictionError(0)
    states = np.repeat(model.values.T, n_found, axis=0)
    for row, state in enumerate(states):
        ranks: dict[int, int] = {}
        _set_ranks(joined, (), row, ranks)
        for i in reversed(range(len(plan.buckets))):
            steps, choice = back[i]
            scope = plan.buckets[i].scope
            near = tuple(state[list(scope[1:])])
            state[scope[0]], rank = choice[(slice(None), *near, ranks[i])]
            _set_ranks(steps, (state[scope[0]], *near), rank, ranks)
    return states[:, : energy.n_variables], score[:n_found]


def _spread(table, own, axes):
    """Return a view of `table` with an axis for each variable in `axes`, and the axis of ranks.

    The axes of `table` are the variables `own`, and the axis of ranks.
    """
    sizes = dict(zip(own, table.shape))
    return table.reshape(*(sizes.get(v, 1) for v in axes), table.shape[-1])


def _best_sums(scores, message, k) -> tuple[np.ndarray, Any]:
    """Add two tables of ranked scores, and keep the k largest sums of each entry.

    Return the sums in descending order, and an array (2, ..., k') with the ranks of the two terms
    of each sum.
    """
    # Form only the sums that can be among the k largest. The sum of ranks a and b cannot if
    # (a + 1) (b + 1) > k, because k other pairs of ranks up to a and b have sums at least as large.
    possible = np.minimum(k // np.arange(1, scores.shape[-1] + 1), message.shape[-1])
    a = np.repeat(np.arange(len(possible)), possible)
    b = np.arange(len(a)) - np.repeat(np.cumsum(possible) - possible, possible)
    sums = scores[..., a] + message[..., b]
    order = np.argsort(-sums, axis=-1, kind="stable")[..., :k]
    return np.take_along_axis(sums, order, axis=-1), np.stack([a[order], b[order]])


def _set_ranks(steps, place, rank, ranks):
    """Write the rank of each child in a sum to `ranks`, given the rank of the sum.

    `place` is the index of the entry of the table. `steps` are the children with the ranks of the
    terms of each sum, in the order in which they were added.
    """
    for child, code in reversed(steps):
        rank, ranks[child] = code[(slice(None), *place, rank)]
