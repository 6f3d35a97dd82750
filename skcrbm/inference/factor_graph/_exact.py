"""Exact inference on factor graphs by variable elimination."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit

from skcrbm.energies import FactorGraphEnergy
from skcrbm.energies.states import log_odds_of_weights, strides_of
from skcrbm.inference.base import ContradictionError, empty_result
from skcrbm.inference.factor_graph._elimination import (
    LOG_MAX,
    LOG_SUM,
    SUM,
    Arithmetic,
    FlatPlan,
    OutOfRange,
    Plan,
    go_down,
    go_up,
    log_weights_of,
    make_large_plan,
    make_plan,
    reduce_to,
)
from skcrbm.inference.methods.exact import answer_in_parts, checked_variables
from skcrbm.inference.random_numbers import random_key, uniforms
from skcrbm.utils.limits import BLOCK_ENTRIES
from skcrbm.utils.parallel import one_blas_thread, ordered_map, row_chunks

# Number of samples of a model that are drawn in a single pass over the tables.
_SAMPLES = 4096
# If the largest table has at most this many entries, models with different clamped variables share
# a single plan, in which clamped variables keep their axes in the tables. For small tables this is
# faster than a separate plan for each set of clamped variables.
_TOGETHER = 2**10
# Log-odds beyond ±600 may be wrong because weights underflowed. Models with such log-odds are
# solved again with logarithms.
_EXTREME = 600.0


def solve(method, energy, query):
    """Answer any query by variable elimination.

    Models with the same clamped variables are solved together.
    """
    plain = cache(partial(_chunks, method, energy))
    log_weight = None

    def sums(method, energy, query):
        return _sums(energy, query, plain())

    def best(method, energy, query):
        nonlocal log_weight
        if "map" in query.returns:
            return _best_states(energy, query, plain())
        fields, log_weight = _marginal_map(method, energy, query)
        return fields

    def draw(method, energy, query):
        return _draw(energy, query, plain(), random_key(method.random_state))

    with one_blas_thread():
        fields = answer_in_parts(method, energy, query, sums=sums, best=best, draw=draw)
    if log_weight is not None and "map_bound" in query.returns:
        fields["map_bound"] = log_weight
    return fields


def solve_sparse_ising(method, energy, query):
    """Answer any query about a sparse Ising model, by a factor graph with a table for each edge."""
    answer = solve(method, FactorGraphEnergy.from_energy(energy), query)
    # The last of the four entries of an edge's table belongs to the state in which both variables
    # are 1.
    if "statistics" in query.returns:
        (entries,) = answer["statistics"]
        answer["statistics"] = (np.ascontiguousarray(entries[..., 3::4]),)
    return answer


class _Chunk(NamedTuple):
    """R models that are solved together, and the plan by which their variables are eliminated.

    If the plan is a `FlatPlan`, R is 1.
    """

    plan: Plan | FlatPlan
    rows: np.ndarray  # (R,): indices of the models in the batch


def solved_together(energy, max_entries):
    """Return True if models with different clamped variables share a plan; see `_TOGETHER`."""
    whole = energy.graph.elimination
    levels = int(energy.graph.n_states.max(initial=1))
    return whole.complete and levels ** (whole.width + 1) <= min(_TOGETHER, max_entries)


def _chunks(method, energy, last=frozenset()):
    """Split the batch into chunks of models, and plan the elimination for each chunk.

    The variables in `last` are eliminated after all other variables. A ValueError is raised if the
    tables of a plan are too large.
    """
    single = energy.graph.n_states == 1
    patterns, group = np.unique(~energy.free | single, axis=0, return_inverse=True)
    if len(patterns) > 1 and not last and solved_together(energy, method.max_entries):
        patterns, group = single[None], np.zeros_like(group)
    chunks = []
    for number, held in enumerate(patterns):
        rows = np.flatnonzero(group.ravel() == number)
        if last:
            plan = make_plan(energy.graph, held, method.max_entries, last)
        else:
            plan = make_large_plan(energy.graph, held, method.max_entries)
        size = max(1, BLOCK_ENTRIES // max(plan.entries, energy.n_entries, 1))
        if isinstance(plan, FlatPlan):
            size = 1
        chunks += [_Chunk(plan, rows[part]) for part in row_chunks(len(rows), size)]
    return chunks


class _Model:
    """The R models of a chunk given their evidence, as float64 arrays.

    A plan may leave out clamped variables or keep them as axes of tables.

    - `tables` are the log-potentials (..., R), with an axis for each variable that the plan keeps.
    - `sides` (n_variables, K, R) are the log-weights of up to K states of each variable. If the
      plan keeps a clamped variable, all states except the clamped state have weight 0.
    - `values` (n_variables, R) are the states of the variables that the plan leaves out, and 0
      for the other variables.
    - `offset` (R,) is the score of the variables that the plan leaves out.
    """

    def __init__(self, energy, chunk):
        self.energy, self.plan, self.rows = energy, chunk.plan, chunk.rows
        n, out = energy.n_variables, self.plan.held
        self.sides = np.zeros(
            (self.plan.n_variables, max(self.plan.counts, default=2), len(self.rows))
        )
        self.values = np.zeros((self.plan.n_variables, len(self.rows)), np.int64)
        evidence = None
        if energy.evidence is not None:
            evidence = energy.evidence[self.rows].T
            # The plan also leaves out variables that have the single state 0. The evidence of these
            # variables may be NaN.
            self.values[:n][out] = np.nan_to_num(evidence[out])
        own = energy.log_fields()[self.rows].transpose(1, 2, 0)
        self.sides[:n, : own.shape[1]] = own
        self.offset = energy.offset[self.rows].copy()
        held = np.take_along_axis(own[out], self.values[:n][out][:, None], axis=1)[:, 0]
        self.offset += held.sum(axis=0)
        self.read_tables()

    def read_tables(self):
        """Set `tables`; add to `offset` the tables whose variables are all clamped."""
        energy = self.energy
        _, logic, _ = energy.graph.expanded
        flat = [t for g in energy.tables for t in g.log_potentials.astype(np.float64)]
        self.tables = []
        for f, table in enumerate([*flat, *logic]):
            table = table[self.entries(f)]
            axes = self.plan.axes[f]
            if len(axes) == 0:
                self.offset += table[0]
            self.tables.append(table.reshape(*(self.plan.counts[v] for v in axes), -1))

    def entries(self, f):
        """Return the indices (n_entries, R) of the entries of table f that agree with the evidence.

        The entries are sorted such that the state of the variable that is eliminated first changes
        slowest. If the plan leaves out no variable of the table, the result has a single column,
        which all models share.
        """
        scope, counts = self.energy.graph.expanded[0][f], self.plan.counts
        step = dict(zip(scope, strides_of([counts[v] for v in scope]).tolist()))
        number = np.zeros((1, 1), np.int64)
        for v in self.plan.axes[f]:
            levels = step[v] * np.arange(counts[v])[:, None]
            number = (number[:, None] + levels).reshape(-1, 1)
        for v in scope:
            if v not in self.plan.axes[f]:
                number = number + step[v] * self.values[v]
        return number

    def code(self, values, scope):
        """Return the index of the joint state of ``scope[1:]``, given the states `values`."""
        number = np.zeros(values.shape[1:], np.int64)
        for v in scope[1:]:
            number = self.plan.counts[v] * number + values[v]
        return number

    def go_up(self, arithmetic, maximised=frozenset()):
        """Return log Z or the best score of each model, and the conditional table of each bucket.

        The first result (R,) is log Z if `arithmetic` computes sums, and the best score if it
        computes maxima. The variables in `maximised` are always eliminated by maxima.
        """
        total, conditionals = go_up(self.plan, self.tables, self.sides, arithmetic, maximised)
        total += self.offset
        if (total == -np.inf).any():
            row = self.rows[np.flatnonzero(total == -np.inf)[0]]
            raise ContradictionError(int(row))
        return total, conditionals

    def backwards(self, conditionals):
        """Yield the scope of each bucket and its conditional table, beginning with the last bucket.

        A table has the shape (k, K, R), for the k states of the bucket's variable and the K joint
        states of its neighbours.
        """
        for bucket, table in zip(reversed(self.plan.buckets), reversed(conditionals)):
            yield bucket.scope, table.reshape(len(table), -1, len(self.rows))

    def best_values(self, conditionals, maximised=None):
        """Return the best values (n_variables, R) of variables, given their conditional tables.

        If `maximised` is given, only the values of the variables in `maximised` are computed.
        """
        values, every = self.values.copy(), np.arange(len(self.rows))
        for scope, sides in self.backwards(conditionals):
            if maximised is not None and scope[0] not in maximised:
                break
            sides = sides[:, self.code(values, scope), every]
            values[scope[0]] = sides.argmax(axis=0)  # the first state if there are ties
        return values

    def beliefs(self, conditionals, arithmetic, wanted=False):
        """Return the log-odds of the variables, and the probabilities of all table entries.

        The log-odds have the shape `energy.belief_shape` with R models instead of N. The
        probabilities have the shape (n_entries, R), or are an empty array (0, R) if `wanted` is
        False.
        """
        plan, n = self.plan, self.energy.n_variables
        log_odds = self.held_log_odds()
        first = np.concatenate([np.empty(0, np.int64), *(g.entries for g in self.energy.tables)])
        every = np.arange(len(self.rows))
        found = np.zeros((self.energy.n_entries if wanted else 0, len(self.rows)))
        for i, belief in go_down(plan, conditionals, arithmetic):
            for v, place in plan.places[i]:
                if v < n:
                    sides = log_weights_of(belief, place, arithmetic)
                    self.set_log_odds(log_odds, v, sides, arithmetic is LOG_MAX)
            factors = [f for f in plan.buckets[i].factors if f < len(first)] if wanted else []
            if factors:
                probability = belief if arithmetic is SUM else np.exp(belief)
            for f in factors:
                part = reduce_to(probability, plan.buckets[i].scope, set(plan.axes[f]), np.add)
                found[first[f] + self.entries(f), every] = part.reshape(-1, len(every))
        for f in range(len(first) if wanted else 0):
            if len(plan.axes[f]) == 0:
                found[first[f] + self.entries(f), every] = 1.0
        return log_odds, found

    def held_log_odds(self):
        """Return an array for log-odds, filled in only for the variables that the plan leaves out.

        If variables have several states, the clamped state has the log-odds inf, and all other
        states have -inf. For 0/1 variables the log-odds are 0, because `infer` overwrites them
        later.
        """
        shape = self.energy.belief_shape[1:]
        if len(shape) == 1:
            return np.zeros((len(self.rows), *shape))
        log_odds = np.full((len(self.rows), *shape), -np.inf)
        states = self.values[: shape[0]].T
        np.put_along_axis(log_odds, states[..., None], np.inf, axis=2)
        return log_odds

    def set_log_odds(self, log_odds, v, sides, maximal):
        """Set the log-odds of variable v from `sides`, the log-weights (R,) of each state.

        If `maximal` is True and the energy is categorical, the log-odds of a state are its
        log-weight minus the largest log-weight of the other states.
        """
        if log_odds.ndim == 2:
            log_odds[:, v] = sides[1] - sides[0]
            return
        sides = np.array(sides)
        if maximal:
            for k in range(len(sides)):
                others = np.delete(sides, k, axis=0).max(axis=0, initial=-np.inf)
                log_odds[:, v, k] = _difference(sides[k], others)
        else:
            log_odds[:, v, : len(sides)] = log_odds_of_weights(sides.T, np.array(True))


class _LargeModel(_Model):
    """A single model with a `FlatPlan`, whose variables are eliminated by compiled code."""

    def read_tables(self):
        """Set `parts`, the arrays of the plan with the tables of the model.

        The largest entry is subtracted from each table, and added to `offset`.
        """
        energy, plan = self.energy, self.plan.buckets
        _, logic, _ = energy.graph.expanded
        start = [np.empty(0, np.int64), *(group.entries for group in energy.tables)]
        sizes = np.array([len(table) for table in logic], np.int64)
        start.append(energy.n_entries + np.cumsum(sizes) - sizes)
        logs = energy.log_potentials.astype(np.float64)
        for group in energy.tables:
            top = group.log_potentials.max(axis=1).astype(np.float64)
            top[top == -np.inf] = 0.0
            places = group.entries[:, None] + np.arange(group.log_potentials.shape[1])
            logs[places] -= top[:, None]
            self.offset += top.sum()
        tables = np.concatenate([logs, *logic])
        self.parts = plan._replace(table_start=np.concatenate(start), tables=tables)
        self.value = np.ascontiguousarray(self.values[:, 0])
        # indices of the tables whose variables are all clamped
        self.fixed = np.setdiff1d(np.arange(len(plan.edge_start) - 1), plan.factors)
        for f in self.fixed.tolist():
            self.offset += tables[self.parts.table_start[f] + self._place(f)]

    def _place(self, f):
        """Return the index of the entry of table f for the values of its clamped variables."""
        plan, number = self.plan.buckets, 0
        for v in plan.edges[plan.edge_start[f] : plan.edge_start[f + 1]]:
            number = self.plan.counts[v] * number + self.value[v]
        return number

    def go_up(self, arithmetic, maximised=frozenset()):
        """Return log Z or the best score, and the conditional tables as a flat array.

        The first result has the shape (1,), and the tables always hold logarithms.
        """
        from skcrbm.kernels.elimination import eliminate

        if arithmetic is SUM:
            raise OutOfRange
        fields = np.ascontiguousarray(self.sides[..., 0])
        # The largest field of each variable is subtracted, because a sum with large fields would
        # lose the digits of small terms.
        top = fields.max(axis=1)
        top[top == -np.inf] = 0.0
        top[: len(self.plan.held)][self.plan.held] = 0.0
        fields -= top[:, None]
        conditional = np.empty(self.plan.buckets.entry_start[-1])
        total = self.offset + top.sum()
        total += eliminate(arithmetic is LOG_MAX, self.parts, fields, self.value, conditional)
        if total[0] == -np.inf:
            raise ContradictionError(int(self.rows[0]))
        return total, conditional

    def backwards(self, conditionals):
        """See `_Model.backwards`."""
        plan = self.plan.buckets
        scopes, first, entry = plan.scopes.tolist(), plan.scope_start, plan.entry_start
        for i in reversed(range(len(plan.parent))):
            scope = scopes[first[i] : first[i + 1]]
            table = conditionals[entry[i] : entry[i + 1]]
            yield scope, table.reshape(self.plan.counts[scope[0]], -1, 1)

    def best_values(self, conditionals, maximised=None):
        """Return the best values (n_variables, 1) of all variables."""
        from skcrbm.kernels.elimination import best_states

        value = self.value.copy()
        best_states(self.parts, conditionals, value)
        return value[:, None]

    def beliefs(self, conditionals, arithmetic, wanted=False):
        """See `_Model.beliefs`."""
        from skcrbm.kernels.elimination import spread_beliefs

        n, out = self.energy.n_variables, self.plan.held
        weight = np.full(self.sides.shape[:2], -np.inf)
        found = np.zeros(len(self.parts.tables) if wanted else 0)
        spread_beliefs(arithmetic is LOG_MAX, self.parts, self.value, conditionals, weight, found)
        log_odds, free, weight = self.held_log_odds(), ~out[:n], weight[:n]
        if log_odds.ndim == 2:
            with np.errstate(invalid="ignore"):
                log_odds[0, free] = (weight[:, 1] - weight[:, 0])[free]
        elif arithmetic is LOG_MAX:
            for k in range(weight.shape[1]):
                others = np.delete(weight, k, axis=1).max(axis=1, initial=-np.inf)
                log_odds[0, free, k] = _difference(weight[:, k], others)[free]
        else:
            here = np.arange(weight.shape[1]) < self.energy.n_states[:, None]
            log_odds[0, free] = log_odds_of_weights(weight, here)[free]
        n_tables = sum(len(group.entries) for group in self.energy.tables)
        for f in self.fixed[self.fixed < n_tables].tolist() if wanted else ():
            found[self.parts.table_start[f] + self._place(f)] = 1.0
        return log_odds, found[: self.energy.n_entries, None] if wanted else found[:, None]


def _model_of(energy, chunk):
    """Return the models of a chunk, as a `_LargeModel` for a `FlatPlan`, else as a `_Model`."""
    kind = _LargeModel if isinstance(chunk.plan, FlatPlan) else _Model
    return kind(energy, chunk)


def _difference(above, below):
    """Return above - below, but -inf instead of NaN if both numbers are -inf."""
    return np.where(above == -np.inf, -np.inf, above - np.where(above == -np.inf, 0.0, below))


def _in_weights_or_logs(solve: Callable[[Arithmetic], Any]) -> Any:
    """Call ``solve(SUM)``, which computes with weights, and return the result.

    If weights are out of range, call ``solve(LOG_SUM)`` instead, which computes with logarithms.
    """
    try:
        return solve(SUM)
    except OutOfRange:
        return solve(LOG_SUM)


def _sums(energy, query, chunks):
    """Compute marginals, statistics and log Z."""
    fields = empty_result(energy, query)
    if "marginals" in query.returns:
        fields["log_odds"] = np.zeros(energy.belief_shape, energy.dtype)
    wanted = "statistics" in query.returns
    weight = np.ones(energy.n_models) if query.per_example else query.sample_weight
    total = np.zeros(energy.n_entries)

    def run(chunk):
        model = _model_of(energy, chunk)

        def solve(arithmetic: Arithmetic) -> tuple[Any, Any, Any]:
            log_z, conditionals = model.go_up(arithmetic)
            if not query.returns & {"marginals", "statistics"}:
                return log_z, None, None
            log_odds, probability = model.beliefs(conditionals, arithmetic, wanted)
            if arithmetic is SUM and _extreme(energy, chunk, log_odds).any():
                raise OutOfRange
            return log_z, log_odds, probability

        log_z, log_odds, probability = _in_weights_or_logs(solve)
        if "log_partition" in query.returns:
            fields["log_partition"][chunk.rows] = log_z
        if "marginals" in query.returns:
            fields["log_odds"][chunk.rows] = log_odds
        if wanted and query.per_example:
            fields["statistics"][0][chunk.rows] = probability.T
        return (probability * weight[chunk.rows]).sum(axis=1) if wanted else None

    for part in ordered_map(run, chunks, query.n_jobs):
        if part is not None:
            total += part
    if wanted and not query.per_example:
        fields["statistics"][0][:] = total
    return fields


def _extreme(energy, chunk, log_odds):
    """Return a mask of the log-odds that may be wrong because weights underflowed.

    The mask is False for variables that are clamped or have a single state.
    """
    if log_odds.ndim == 2:
        return (np.abs(log_odds) > _EXTREME) & energy.free[chunk.rows]
    several = energy.free[chunk.rows] & ~chunk.plan.held
    here = np.arange(energy.n_levels) < energy.n_states[:, None]
    return (np.abs(log_odds) > _EXTREME) & several[..., None] & here


def _best_states(energy, query, chunks):
    """Compute "map" and max-marginals."""
    fields = empty_result(energy, query)
    fields["log_odds"] = np.zeros(energy.belief_shape, energy.dtype)

    def run(chunk):
        model = _model_of(energy, chunk)
        _, conditionals = model.go_up(LOG_MAX)
        values = model.best_values(conditionals)
        fields["assignment"][chunk.rows] = values[: energy.n_variables].T
        fields["log_odds"][chunk.rows] = model.beliefs(conditionals, LOG_MAX)[0]

    for _ in ordered_map(run, chunks, query.n_jobs):
        pass
    return fields


def _marginal_map(method, energy, query):
    """Compute "marginal_map": maximise over `map_variables`, and sum over all other variables.

    All other variables then get their best values given the values of `map_variables`. Return the
    fields, and the log-weights (N,) of the values of `map_variables`.
    """
    chosen = checked_variables(method.map_variables, energy.n_variables)
    last = frozenset(chosen.tolist())
    held = np.full((energy.n_models, energy.n_variables), np.nan)
    log_weight = np.zeros(energy.n_models)

    def run(chunk):
        model = _model_of(energy, chunk)
        log_weight[chunk.rows], conditionals = model.go_up(LOG_SUM, last)
        values = model.best_values(conditionals, last)
        held[np.ix_(chunk.rows, chosen)] = values[chosen].T

    for _ in ordered_map(run, _chunks(method, energy, last), query.n_jobs):
        pass
    given = energy.condition(held)
    return _best_states(given, query, _chunks(method, given)), log_weight


def _draw(energy, query, chunks, key):
    """Draw independent samples.

    Variables are drawn in the reverse order of elimination, each given the variables drawn before.
    """
    shape = energy.n_models, query.n_samples
    fields = empty_result(energy, query)
    fields["samples"] = np.zeros((*shape, energy.n_variables), energy.state_dtype)
    log_prob = np.zeros(shape)
    if "sample_log_prob" in query.returns:
        fields["sample_log_prob"] = log_prob

    def run(chunk):
        model = _model_of(energy, chunk)
        arithmetic, conditionals = _in_weights_or_logs(lambda a: (a, model.go_up(a)[1]))
        for step, part in enumerate(row_chunks(query.n_samples, _SAMPLES)):
            for r, row in enumerate(chunk.rows):
                values, chance = _drawn(model, arithmetic, conditionals, r, key, step, part)
                fields["samples"][row, part] = values[: energy.n_variables].T
                log_prob[row, part] = chance

    for _ in ordered_map(run, chunks, query.n_jobs):
        pass
    return fields


def _drawn(model, arithmetic, conditionals, r, key, step, part):
    """Draw S samples of model r of a chunk; return the samples and their log-probabilities (S,).

    The samples are (n_variables, S). `part` is a slice of the samples, and `step` the index of the
    slice, which selects the random numbers.
    """
    plan, n_samples = model.plan, part.stop - part.start
    u = uniforms(key, [model.rows[r]], step, n_samples * plan.n_variables)
    u = u.reshape(n_samples, plan.n_variables)
    values = np.repeat(model.values[:, r, None], n_samples, axis=1)
    chance = np.zeros(n_samples)
    for scope, sides in model.backwards(conditionals):
        v = scope[0]
        sides = sides[:, model.code(values, scope), r]
        if arithmetic is SUM:
            with np.errstate(divide="ignore"):
                sides = np.log(sides)
        if len(sides) == 2:
            off, on = sides
            values[v] = u[:, v] < expit(on - off)
        else:
            edges = np.cumsum(np.exp(sides), axis=0)[:-1]
            values[v] = _drawn_states(u[:, v], edges, sides)
        chance += np.take_along_axis(sides, values[v][None], axis=0)[0]
    return values, chance


def _drawn_states(u, edges, sides):
    """Draw a state for each of S samples by uniform random numbers `u` (S,).

    `edges` (K - 1, S) are cumulative probabilities and `sides` (K, S) log-probabilities of the
    states. A state of probability 0 is never drawn, even if `u` is larger than all `edges` because
    of rounding.
    """
    found = (u >= edges).sum(axis=0)
    possible = sides > -np.inf
    last = len(sides) - 1 - possible[::-1].argmax(axis=0)
    return np.minimum(found, last)
