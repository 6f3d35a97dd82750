"""Search for the best states of factor graphs; see `MapSearch`.

Each of the four searches is needed for some of the MAP files of the UAI competition. With the
default limits, the log10 scores are as follows (of a single seed; means over four seeds for the
forest moves):

- Without the consistent search, Promedas_28 and Promedas_41 are not solved, and the score of
  Promedas_11 falls from -23.0 to -29.3.
- Without frontier sweeps, the scores of the grids fall: Grids_18 from 5656 to 5578, Grids_20 from
  4675 to 4628, Grids_26 from 1325 to 1309.
- Without forest moves, the mean score of wcsp_15 falls from -80 to -96, and that of
  ObjectDetection_11 from 4397 to 4330.
- Without mini-buckets, the bounds are worse: 7073 instead of 6129 for Grids_18, and 11047 instead
  of 9263 for ObjectDetection_11.
"""

from __future__ import annotations

import functools
import math
import time

import numpy as np

from skcrbm.energies import FactorGraphEnergy
from skcrbm.inference.base import ContradictionError, empty_result
from skcrbm.inference.random_numbers import random_key, seeds
from skcrbm.inference.search.buckets import (
    TreeSearch,
    can_eliminate,
    eliminate,
    elimination_order,
)
from skcrbm.inference.search.consistent import ConsistentSearch
from skcrbm.inference.search.moves import Moves
from skcrbm.inference.search.table_model import (
    Component,
    ImpossibleModelError,
    TableModel,
    tables_of,
)
from skcrbm.kernels.map_search import shift_tables
from skcrbm.utils.parallel import ordered_map, row_chunks
from skcrbm.utils.warnings import warn_user

# Limits of a kernel call: the kernel that computes the bound visits about _SWEEP_WORK table
# entries, and the kernel of the tree search at most _TREE_NODES nodes. A call takes a few
# hundredths of a second, so that the time limit, which is checked after each call, is kept.
_SWEEP_WORK, _TREE_NODES = 2**21, 100_000
# Limits for the number of entries of mini-bucket tables: _ALL_MINI_ENTRIES for all tables together,
# _MINI_SPEED for all tables together per second of time that is left, and _MINI_ENTRIES for a
# single table.
_ALL_MINI_ENTRIES, _MINI_SPEED, _MINI_ENTRIES = 2**27, 2**25, 2**18
# Shares of the node limit or time limit. The search makes forest moves until the share _FIRST of
# the limit is used, and then computes the bound until the share _BOUND is used.
_FIRST, _BOUND = 0.1, 0.2
# After the bound has been computed, the tree search `ConsistentSearch` works alone. It is stopped
# if it finds no better state within the share _TRIAL of the limit, or later if it finds no further
# better state within the share _PATIENCE.
_TRIAL, _PATIENCE = 0.05, 0.3
# Largest number of sweeps over all tables that compute the bound.
_MAX_SWEEPS = 1000
# Relative amounts of work for four methods: the two tree searches, the frontier sweeps and the
# forest moves. Each method gets a share of the nodes in proportion to its number. Nodes that were
# used to find a better state do not count towards the share.
_PREFERENCE = 3, 1, 6, 1


def solve_from_energy(method, energy, query):
    """Answer "map" and "map_bound" for a pairwise energy, by its factor graph."""
    return solve(method, FactorGraphEnergy.from_energy(energy), query)


def solve(method, energy, query):
    """Answer "map" and "map_bound" for a factor graph."""
    fields = empty_result(energy, query)
    tables, scopes, n_all = tables_of(energy)
    unary, n_states = energy.log_fields(), energy.state_counts
    start = seeds(random_key(method.random_state), np.zeros(energy.n_models, np.uint64), 0)
    gap = np.zeros(energy.n_models)
    if method.time_limit is not None:
        _compile()

    def run(rows):
        n = rows.start
        own = [unary[n, v, :k] for v, k in enumerate(n_states)]
        own += [np.zeros(2)] * (n_all - len(own))
        budget = Budget(method.max_nodes, method.time_limit)
        try:
            model = TableModel(own, scopes, tables)
            state, gap[n] = _search(method, model, budget, start[n : n + 1].copy())
        except ImpossibleModelError:
            raise ContradictionError(n) from None
        fields["n_iter"][n] = budget.used
        fields["assignment"][n] = state[: energy.n_variables]

    for _ in ordered_map(run, row_chunks(energy.n_models, 1), query.n_jobs):
        pass
    fields["converged"][:] = gap == 0
    if np.isinf(gap).any():
        first = int(np.isinf(gap).argmax())
        warn_user(
            f"'map_search' has found no state of positive weight for model {first}, but such a "
            "state may exist: increase time_limit or max_nodes"
        )
    if "map_bound" in query.returns:
        score = energy.score(fields["assignment"])
        fields["gap"] = gap
        fields["map_bound"] = np.where(gap < np.inf, score + gap, np.inf)
    return fields


@functools.cache
def _compile():
    """Compile all kernels or load them from the cache, so that no time limit includes this work."""
    part = Component([0, 1, 2], [2] * 3, [(0, 1, 2)], [np.zeros((2, 2, 2))], [np.zeros(2)] * 3)
    eliminate(part, elimination_order(part))
    moves = Moves(part, Budget(1, None), np.zeros(1, np.uint64))
    moves.forests()
    moves.frontiers()
    bound, shifted = _bound(moves, moves.budget)
    moves.visit(ConsistentSearch(part, shifted, bound + 1.0, moves.rounding), 1)
    moves.visit(TreeSearch(shifted, [0, 1, 2], 2, moves.rounding), 1)


class Budget:
    """The numbers of nodes and seconds that a search may use; None means no limit.

    Attributes
    ----------
    used : int
        Number of nodes used so far.
    """

    def __init__(self, nodes: float | None, seconds: float | None):
        self.used = 0
        self._nodes = math.inf if nodes is None else nodes
        self._seconds = math.inf if seconds is None else seconds
        self._start = time.monotonic()

    @property
    def progress(self) -> float:
        """Used share of the nodes or of the seconds, whichever share is larger.

        If it is 1 or more, the search must end.
        """
        spent = time.monotonic() - self._start
        return max(self.used / max(1, self._nodes), spent / max(1e-9, self._seconds))

    @property
    def step(self) -> float:
        """Number of nodes that a search may use before it must check `progress` again."""
        return self._nodes / 64 if self._nodes < math.inf else 2.0**40

    @property
    def seconds(self) -> float:
        """Number of seconds that are left."""
        return self._seconds - (time.monotonic() - self._start)

    def part(self, share: float) -> Budget:
        """Return a new budget with the given share of the remaining nodes and seconds."""
        nodes = max(1.0, share * (self._nodes - self.used))
        return Budget(nodes, max(0.0, share * self.seconds))


def _search(method, model, budget, seed):
    """Return the best state found for a `TableModel`, and the bound minus its score."""
    components = model.reduce()
    states, total_gap = [], 0.0
    size = [sum(t.size for t in part.tables) + 1 for part in components]
    for j, part in enumerate(components):
        own = budget.part(size[j] / sum(size[j:]))
        state, gap = _search_component(method, part, own, seed)
        budget.used += own.used
        states.append(state)
        total_gap += gap
    return model.complete(components, states), total_gap


def _search_component(method, part, budget, seed):
    """Return the best state found for a `Component`, and the bound minus its score."""
    if not part.scopes:
        return [int(row.argmax()) for row in part.unary], 0.0
    order = elimination_order(part)
    if can_eliminate(order, method.max_entries, budget.seconds):
        return eliminate(part, order), 0.0
    moves = Moves(part, budget, seed)
    while budget.progress < _FIRST:
        before = budget.used
        moves.forests()
        forests = budget.used
        while budget.progress < _FIRST and budget.used - forests < forests - before:
            moves.frontiers()
    bound, shifted = _bound(moves, budget)
    if moves.gap(bound) == 0:
        return moves.best, 0.0
    step = int(min(_TREE_NODES, 1 + budget.step))
    consistent = ConsistentSearch(part, shifted, bound, moves.rounding)
    end, value = budget.progress + _TRIAL, tuple(moves.best_value)
    while budget.progress < min(1.0, end) and not consistent.done:
        moves.visit(consistent, step)
        if tuple(moves.best_value) != value:
            end, value = budget.progress + _PATIENCE, tuple(moves.best_value)
    if consistent.done:
        return _proven(moves)
    bound = min(bound, consistent.bound)
    if budget.progress >= 1:
        return moves.best, moves.gap(bound)
    # Estimate the number of mini-buckets. In a dense model, a variable has several mini-buckets.
    n_buckets = max(2 * len(part.variables), len(part.scopes) // 4)
    entries = min(_ALL_MINI_ENTRIES, _MINI_SPEED * budget.seconds) / n_buckets
    entries = min(method.max_entries, _MINI_ENTRIES, max(2**10, int(entries)))
    tree = TreeSearch(shifted, order.variables, entries, moves.rounding)
    if tree.root == -np.inf:
        raise ImpossibleModelError
    bound = min(bound, tree.root + moves.rounding)
    searches = [
        lambda: moves.visit(consistent, step),
        lambda: moves.visit(tree, step),
        moves.frontiers,
        moves.forests,
    ]
    spent = [0.0] * len(searches)
    while budget.progress < 1 and moves.gap(bound) > 0:
        turn = int(np.argmin(spent))
        before, value = budget.used, tuple(moves.best_value)
        searches[turn]()
        if tuple(moves.best_value) == value:
            spent[turn] += (budget.used - before) / _PREFERENCE[turn]
        bound = min(bound, consistent.bound)
        if tree.done or consistent.done:
            return _proven(moves)
    return moves.best, moves.gap(bound)


def _proven(moves):
    """Return the best state and a gap of 0, after a search of all states has ended."""
    if moves.best_value[1] > 0:
        raise ImpossibleModelError
    return moves.best, 0.0


def _bound(moves, budget):
    """Compute an upper bound of the score by sweeps of MPLP.

    The sweeps shift log-weights between the tables of a component such that the bound falls. Return
    the bound and the component with the shifted tables. The score of each state stays the same. An
    ImpossibleModelError is raised if the bound shows that all states have weight 0.
    """
    graph = moves.graph
    belief, shifted = graph.unary.copy(), graph._replace(entries=graph.entries.copy())
    n_sweeps = max(1, min(20, _SWEEP_WORK // (1 + len(graph.entries))))
    bound, done = math.inf, 0
    while done < _MAX_SWEEPS:
        last = bound
        bound = shift_tables(shifted, belief, n_sweeps) + moves.rounding
        if bound == -np.inf:
            raise ImpossibleModelError
        done += n_sweeps
        budget.used += n_sweeps * len(graph.entries) // 16
        if moves.gap(bound) == 0 or last - bound < 1e-4 * n_sweeps * (bound - moves.value):
            break
        if budget.progress > _BOUND:
            break
    part = moves.part
    own = [belief[v, :k].copy() for v, k in enumerate(part.n_states)]
    tables = [
        shifted.entries[at : at + t.size].reshape(t.shape)
        for at, t in zip(graph.first, part.tables, strict=True)
    ]
    moves.improve(np.array([row.argmax() for row in own]))
    return bound, part._replace(tables=tables, unary=own)
