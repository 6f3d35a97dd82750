"""Find the k best states of a factor graph by elimination of variables.

An entry of a table contains k scores instead of a single score: the k largest scores over the
states of the variables that have been eliminated. The scores lie along the last axis of the table,
in descending order. The rank of a score is its index along this axis.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from skcrbm.energies import FactorGraphEnergy
from skcrbm.inference.base import ContradictionError
from skcrbm.inference.factor_graph._elimination import make_plan
from skcrbm.inference.factor_graph._exact import _Chunk, _Model, solved_together
from skcrbm.utils.limits import BLOCK_ENTRIES, MAX_ELIMINATED_ENTRIES
from skcrbm.utils.parallel import one_blas_thread, ordered_map, row_chunks


def k_best_states(
    energy: FactorGraphEnergy, k: int, max_entries: int = MAX_ELIMINATED_ENTRIES
) -> tuple[np.ndarray, np.ndarray]:
    """Return the k best states (m, n) of one model with n variables, and their scores (m,).

    The states are in descending order of the scores. The number m is k, or the number of states of
    positive weight if the model has fewer than k such states. A ValueError is raised if a table
    would have more than `max_entries` scores; each entry of a table has k scores.
    """
    states, scores = k_best_of_models(energy, k, max_entries)
    n_found = int(np.count_nonzero(scores[0] > -np.inf))
    if n_found == 0:
        raise ContradictionError(0)
    return states[0, :n_found], scores[0, :n_found]


def k_best_of_models(
    energy: FactorGraphEnergy,
    k: int,
    max_entries: int = MAX_ELIMINATED_ENTRIES,
    n_jobs: int | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the k best states (N, m, n) of each of N models, and their scores (N, m).

    The states are in descending order of the scores. The number m is k, or less if no model has k
    states. If a model has fewer than m states of positive weight, its last scores are -inf, and its
    last states have no meaning. See `k_best_states` for errors.
    """
    single = energy.graph.n_states == 1
    patterns, group = np.unique(~energy.free | single, axis=0, return_inverse=True)
    most_entries = max(1, max_entries // k)
    if len(patterns) > 1 and solved_together(energy, most_entries):
        patterns, group = single[None], np.zeros_like(group)
    chunks = []
    for number, held in enumerate(patterns):
        rows = np.flatnonzero(group.ravel() == number)
        plan = make_plan(energy.graph, held, most_entries)
        # `_best_sums` forms at most k (1 + log k) sums for each entry.
        entries = max(plan.entries, energy.n_entries, 1) * k * k.bit_length()
        parts = row_chunks(len(rows), max(1, BLOCK_ENTRIES // entries))
        chunks += [_Chunk(plan, rows[part]) for part in parts]
    with one_blas_thread():
        found = list(ordered_map(lambda chunk: _k_best(energy, chunk, k), chunks, n_jobs))
    most = max((part_scores.shape[1] for _, part_scores in found), default=0)
    states = np.zeros((energy.n_models, most, energy.n_variables), np.int64)
    scores = np.full((energy.n_models, most), -np.inf)
    for chunk, (part_states, part_scores) in zip(chunks, found):
        n_found = part_scores.shape[1]
        states[chunk.rows, :n_found] = part_states[..., : energy.n_variables]
        scores[chunk.rows, :n_found] = part_scores
    return states, scores


def _k_best(energy, chunk, k):
    """Return the best states (R, m, V) of R models with V variables, and their scores (R, m).

    The number m is `k`, or the number of states of a model if this is smaller. All tables have an
    axis for the models, followed by an axis for the ranks 1 to m.
    """
    plan = chunk.plan
    model = _Model(energy, chunk)
    messages: dict[int, np.ndarray] = {}
    back: list[tuple[list, np.ndarray]] = []
    for i, bucket in enumerate(plan.buckets):
        v, scope = bucket.scope[0], bucket.scope
        total = np.zeros((*(plan.counts[u] for u in scope), len(chunk.rows), 1))
        total += _spread(model.sides[v, : plan.counts[v], :, None], (v,), scope)
        for f in bucket.factors:
            total += _spread(model.tables[f][..., None], plan.axes[f], scope)
        steps = []
        for child in bucket.children:
            message = _spread(messages.pop(child), plan.buckets[child].scope[1:], scope)
            total, code = _best_sums(total, message, k)
            steps.append((child, code))
        several = np.moveaxis(total, 0, -2)
        several = several.reshape(*several.shape[:-2], -1)
        order = np.argsort(-several, axis=-1, kind="stable")[..., :k]
        messages[i] = np.take_along_axis(several, order, axis=-1)
        # An index in `order` encodes a state of v and a rank: state * number of ranks + rank.
        back.append((steps, np.stack(np.divmod(order, total.shape[-1]))))
    scores, joined = model.offset[:, None], []
    for root in [i for i, bucket in enumerate(plan.buckets) if bucket.parent < 0]:
        scores, code = _best_sums(scores, messages.pop(root), k)
        joined.append((root, code))
    states = np.repeat(model.values.T[:, None], scores.shape[1], axis=1)
    rows = np.arange(len(chunk.rows))[:, None]
    ranks: dict[int, np.ndarray] = {}
    _set_ranks(joined, (), rows, np.arange(scores.shape[1])[None], ranks)
    for i in reversed(range(len(plan.buckets))):
        steps, choice = back[i]
        v, *near = plan.buckets[i].scope
        place = tuple(states[..., u] for u in near)
        states[..., v], rank = choice[(slice(None), *place, rows, ranks[i])]
        _set_ranks(steps, (states[..., v], *place), rows, rank, ranks)
    return states, scores


def _spread(table, own, axes):
    """Insert axes of length 1 into `table` for the variables in `axes` that it lacks.

    The axes of `table` are the variables `own`, the models, and the ranks. The axes of the view are
    the variables `axes`, the models, and the ranks.
    """
    sizes = dict(zip(own, table.shape))
    return table.reshape(*(sizes.get(v, 1) for v in axes), *table.shape[-2:])


def _best_sums(scores, message, k) -> tuple[np.ndarray, Any]:
    """Add two tables of ranked scores, and keep the k largest sums of each entry.

    Return the sums (..., m) in descending order, and an array (2, ..., m) with the ranks of the two
    terms of each sum. The number m is k, or less if there are fewer sums.
    """
    # Form only the sums that can be among the k largest sums. The sum of the scores with ranks a
    # and b cannot be among the k largest if (a + 1) (b + 1) > k, because then k other pairs of
    # ranks up to a and b have sums at least as large.
    possible = np.minimum(k // np.arange(1, scores.shape[-1] + 1), message.shape[-1])
    a = np.repeat(np.arange(len(possible)), possible)
    b = np.arange(len(a)) - np.repeat(np.cumsum(possible) - possible, possible)
    sums = scores[..., a] + message[..., b]
    order = np.argsort(-sums, axis=-1, kind="stable")[..., :k]
    return np.take_along_axis(sums, order, axis=-1), np.stack([a[order], b[order]])


def _set_ranks(steps, place, rows, rank, ranks):
    """Find the rank of each term in the ranked sums of a table, and write the ranks to `ranks`.

    A table is the sum of the messages of its children in the elimination. `rank` (R, m) has the
    ranks of m sums for each of R models. `steps` lists the children in the order in which their
    messages were added, each with the ranks of the two terms of each sum. `place` holds the indices
    (R, m) of the entries of the table, and `rows` (R, 1) the indices of the models.
    """
    for child, code in reversed(steps):
        rank, ranks[child] = code[(slice(None), *place, rows, rank)]
