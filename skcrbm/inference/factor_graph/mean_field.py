"""Run mean field on factor graphs, for many models at once."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from skcrbm.energies import FactorGraphEnergy, PairwiseEnergy
from skcrbm.energies.states import is_categorical, log_odds_of_weights
from skcrbm.inference.base import Query, empty_result
from skcrbm.inference.factor_graph._state_graph import StateGraph
from skcrbm.inference.methods._messages import Beliefs
from skcrbm.kernels.arguments import OR, PAIR, POTTS, TABLE
from skcrbm.kernels.mean_field import (
    MeanFieldAnswers,
    MeanFieldGraph,
    MeanFieldModels,
    MeanFieldWork,
    mean_field,
)
from skcrbm.utils.limits import BLOCK_ENTRIES, ROWS_PER_CHUNK
from skcrbm.utils.parallel import ordered_map, row_chunks
from skcrbm.utils.validation import kernel_array

# Mean field replaces the log-weight -inf of an impossible entry by minus a finite penalty: _COST
# plus _COST_FACTOR times the largest log-ratio of weights (`StateGraph.reach`).
_COST, _COST_FACTOR = 2000.0, 16.0
# A model has not converged if the entries of weight 0 of a factor have this probability.
_MOST_IMPOSSIBLE = 1e-3
# Smaller probabilities count as this number in the probability that all inputs of an OR are 0.
_LEAST = 1e-300
# Number of states of all models of a block, if it has more than ROWS_PER_CHUNK models. With less
# work in a call of the kernel, the cost of the call itself would dominate.
_BLOCK_STATES = 2**13


def solve(method: Any, energy: Any, query: Query) -> dict[str, Any]:
    """Answer a query by mean field (coordinate ascent); see `MeanField`."""
    with_states = _with_states(energy)
    graph = StateGraph(with_states, logic="keep")
    arrays, own, constant, groups = _reduced(graph)
    n, n_states = own.shape
    answer = empty_result(energy, query)
    answer["converged"][:] = False
    trace = np.full((n, method.iterations if query.return_trace else 0), np.nan)
    cost = _COST + _COST_FACTOR * graph.reach
    start = None if query.start is None else query.start.log_odds
    total = _start(energy, with_states, graph, cost, start)
    belief, total = np.empty((n, n_states)), np.array(total)
    n_levels = graph.has_state.shape[1]
    n_logic = sum(len(part.scopes) for part in graph.logic)
    longest = int(arrays.arity[arrays.kind == TABLE].max(initial=0))
    general = None if (energy.state_counts == 2).all() else True

    def run(rows):
        models = MeanFieldModels(
            kernel_array(own[rows].T, np.float64), cost[rows].copy(), _settled(graph, own[rows]),
            np.zeros((n_states, len(own[rows]))), np.array(total[rows].T, order="C"),
            np.zeros(len(own[rows]), np.int64),
        )  # fmt: skip
        found = MeanFieldAnswers(answer["n_iter"][rows], answer["converged"][rows], trace[rows])
        n_lanes = len(models.order)
        work = MeanFieldWork(np.empty(n_levels * n_lanes), *(np.empty(n_lanes) for _ in range(3)))
        off = np.empty((n_logic, n_lanes)) if n_logic else None
        digits = np.zeros(longest, np.uintp) if longest else None
        mean_field(
            arrays, models, method.iterations, float(method.tolerance), found, work, off, digits,
            general,
        )  # fmt: skip
        belief[rows][models.order] = models.belief.T
        total[rows][models.order] = models.total.T

    size = max(ROWS_PER_CHUNK, _BLOCK_STATES // max(1, n_states))
    size = max(1, -(-n // max(1, -(-n // size))))  # blocks of nearly equal sizes
    for _ in ordered_map(run, row_chunks(n, size), query.n_jobs):
        pass
    if "log_partition" in query.returns or n_logic or np.isneginf(arrays.tables).any():
        log_z, impossible = _bound(groups, graph.logic, arrays.state_start, own, belief, cost)
        answer["converged"] &= impossible < _MOST_IMPOSSIBLE
    if is_categorical(energy):
        means = graph.as_table(belief, 0.0)
        with np.errstate(divide="ignore"):
            log_odds = log_odds_of_weights(graph.as_table(np.log(belief)), graph.has_state)
    else:
        width = energy.n_variables
        means = belief.reshape(n, width, 2)[..., 1]
        pairs = total.reshape(n, width, 2)
        log_odds = np.where(energy.free, pairs[..., 1] - pairs[..., 0], 0.0)
    answer["log_odds"] = log_odds.astype(energy.dtype)
    if "log_partition" in query.returns:
        answer["log_partition"] = log_z + graph.offset + constant
    if "statistics" in query.returns:
        answer["statistics"] = statistics_of_means(energy, query, means)
    if query.return_trace:
        answer["trace"] = trace
    if query.return_state:
        answer["state"] = Beliefs(answer["log_odds"].copy())
    return answer


def statistics_of_means(energy: Any, query: Query, means: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return the statistics of independent variables with means (N, n), or (N, n, K) of states."""
    if not query.per_example:
        return energy.sum_statistics(means, query.sample_weight)
    found = empty_result(energy, query)["statistics"]
    for m in range(len(means)):
        row = energy.sum_statistics(means[m : m + 1], np.ones(1))
        for part, values in zip(found, row, strict=True):
            part[m] = values
    return found


class _Group(NamedTuple):
    """Tables of the same kind and shape."""

    kind: int  # PAIR, POTTS or TABLE
    shape: tuple[int, ...]  # number of states of each variable of a scope
    scopes: np.ndarray  # (F, m): variables of each table
    values: np.ndarray  # (F, entries): log-weights, as in `MeanFieldGraph.tables`


def _bound(groups, logic, state_start, own, belief, cost):
    """Return the lower bounds (N,) of log Z, and probabilities (N,) of entries of weight 0.

    The latter are the largest of all factors of a model. `belief` (N, S) are probabilities of all
    states, and `own` (N, S) their log-weights.
    """
    n = len(belief)
    log_z, impossible = np.empty(n), np.zeros(n)
    sizes = [part.values.size + part.scopes.size for part in groups]
    at_once = max(
        1, BLOCK_ENTRIES // max([1, own.shape[1], *sizes, *(g.scopes.size for g in logic)])
    )
    for rows in row_chunks(n, at_once):
        b, positive = belief[rows], belief[rows] > 0
        terms = np.where(positive, own[rows], 0.0) - np.log(np.where(positive, b, 1.0))
        log_z[rows] = (b * terms).sum(axis=1)
        for group in groups:
            added, missed = _expected(group, state_start, b)
            log_z[rows] += added
            impossible[rows] = np.maximum(impossible[rows], missed.max(axis=1, initial=0.0))
            log_z[rows] -= cost[rows] * missed.sum(axis=1)
        for part in logic:
            on = b[:, state_start[part.scopes].astype(np.int64) + 1]
            on = on if part.kind == OR else 1.0 - on
            off = np.maximum(1.0 - on[..., :-1], _LEAST)
            p, out = np.exp(np.log(off).sum(axis=2)), on[..., -1]
            missed = out * p + (1.0 - out) * (1.0 - p)
            impossible[rows] = np.maximum(impossible[rows], missed.max(axis=1, initial=0.0))
            log_z[rows] -= cost[rows] * missed.sum(axis=1)
    return log_z, impossible


def _expected(group, state_start, belief):
    """Return the expected log-weights (N,) of a group of tables, and of each table (N, F or 0).

    The second array holds the probabilities of the entries of weight 0.
    """
    first = state_start[group.scopes].astype(np.int64)
    chances = [belief[:, first[:, j, None] + np.arange(k)] for j, k in enumerate(group.shape)]
    none = np.empty((len(belief), 0))
    if group.kind == POTTS:
        return np.einsum("nfa,nfa,f->n", *chances, group.values[:, 0]), none
    if group.kind == PAIR:
        inner = group.values.reshape(len(group.values), *(k - 1 for k in group.shape))
        return np.einsum("nfa,fab,nfb->n", chances[0][..., 1:], inner, chances[1][..., 1:]), none
    joint = np.ones((*chances[0].shape[:2], 1))
    for chance in chances:
        joint = (joint[..., None] * chance[:, :, None]).reshape(*joint.shape[:2], -1)
    zero = np.isneginf(group.values)
    missed = np.where(zero, joint, 0.0).sum(axis=2)
    return np.einsum("nfs,fs->n", joint, np.where(zero, 0.0, group.values)), missed


def _with_states(energy):
    """Return the energy as a factor graph whose fields have an axis of states."""
    if not isinstance(energy, FactorGraphEnergy):
        energy = FactorGraphEnergy.from_energy(energy)
    return energy.with_states()


def _start(energy, with_states, graph, cost, log_odds):
    """Return the log-weights (N, S) of all states with which the iterations begin.

    Without an earlier result (`log_odds` is None), 0/1 variables begin at their fields, without the
    tables of a single variable: of 15 networks of the UAI competitions on which the two starts end
    at different points, 11 then have the larger bound of log Z. The fields of an Ising model
    include the effect of clamped variables. Other variables begin at all their own log-weights.
    """
    if log_odds is None:
        if not (energy.state_counts == 2).all():
            return graph.own
        if isinstance(energy, PairwiseEnergy) and energy.evidence is not None:
            with_states = _with_states(energy.with_fields(*energy.fold_evidence()[0]))
        return with_states.log_fields()[:, graph.has_state]
    log_odds = log_odds.astype(np.float64)
    if not is_categorical(energy):
        log_odds = np.stack([-log_odds, log_odds], axis=2)
    start = -np.logaddexp(0.0, -log_odds)[:, graph.has_state]
    return np.where(graph.own == -np.inf, -np.inf, np.maximum(start, -cost[:, None]))


def _settled(graph, own):
    """Return a mask (n,) of the variables that have only one possible state in all models."""
    possible = np.add.reduceat(own > -np.inf, graph.edges[0]["state_start"][:-1], axis=1)
    return (possible == 1).all(axis=0)


def _reduced(graph):
    """Return the graph for the kernel, the log-weights (N, S) of all states, and a constant.

    Tables of two variables without entries of weight 0 lose the terms of states 0: these terms are
    added to the log-weights of the variables, and to the constant, which belongs to log Z. The last
    result is a list of `_Group`, the same tables for NumPy.
    """
    edges, factor = graph.edges
    state_start = edges["state_start"]
    extra, constant = np.zeros(state_start[-1]), 0.0
    kinds, starts, flat, size, groups = [], [], [np.empty(0)], 0, []
    for part in graph.tables:
        logs = part.logs - part.shift[:, None]
        kind = np.full(len(logs), TABLE)
        if len(part.shape) == 2:
            finite = np.isfinite(logs).all(axis=1)
            kind[finite] = PAIR
            kind[finite & part.is_potts] = POTTS
        place = np.empty(len(logs), np.int64)
        for chosen in (TABLE, PAIR, POTTS):
            some = np.flatnonzero(kind == chosen)
            if not len(some):
                continue
            values = logs[some]
            if chosen == PAIR:
                table = values.reshape(-1, *part.shape)
                first = table[:, :1, :1]
                constant += first.sum()
                for axis, own in enumerate((table[:, :, 0], table[:, 0])):
                    where = state_start[part.scopes[some, axis]][:, None] + np.arange(own.shape[1])
                    np.add.at(extra, where, own - first[:, 0])
                values = table[:, 1:, 1:] - table[:, :1, 1:] - table[:, 1:, :1] + first
                values = values.reshape(len(some), -1)
            elif chosen == POTTS:
                constant += values[:, 1].sum()
                values = values[:, :1] - values[:, 1:2]
            place[some] = size + values.shape[1] * np.arange(len(some))
            flat.append(values.ravel())
            size += values.size
            groups.append(_Group(chosen, part.shape, part.scopes[some], values))
        kinds.append(kind)
        starts.append(place)
    n_logic = 0
    for group in graph.logic:
        kinds.append(np.full(len(group.scopes), group.kind))
        starts.append(n_logic + np.arange(len(group.scopes)))
        n_logic += len(group.scopes)
    none = np.empty(0, np.int64)
    kind, start = np.concatenate([none, *kinds]), np.concatenate([none, *starts])
    reduced = MeanFieldGraph(
        kind=kind[factor].astype(np.int8), table=start[factor].astype(np.uintp),
        tables=np.concatenate(flat), **graph.places,
    )  # fmt: skip
    return reduced, graph.own + extra, constant, groups
