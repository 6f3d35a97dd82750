"""Exact inference on factor graphs by variable elimination."""

from __future__ import annotations

from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit

from skcrbm.energies import BaseEnergy, FactorGraphEnergy
from skcrbm.energies.states import log_odds_of_weights
from skcrbm.inference.base import ContradictionError, empty_result
from skcrbm.inference.exact.levels import MOST_BUCKETS, QUICK, Limits, levels_of
from skcrbm.inference.exact.parts import answer_in_parts
from skcrbm.inference.exact.plans import Plan, make_plan
from skcrbm.inference.random_numbers import random_key, uniforms
from skcrbm.kernels.arguments import SHARED, EliminationWork
from skcrbm.utils.limits import BLOCK_ENTRIES, MAX_ELIMINATED_ENTRIES
from skcrbm.utils.parallel import one_blas_thread, ordered_map, row_chunks

# Number of samples of a model that are drawn in a single pass over the tables.
_SAMPLES = 4096
# If the largest table has at most this many entries, models with different clamped variables share
# a single plan, in which clamped variables keep their axes in the tables. For small tables this is
# faster than a separate plan for each set of clamped variables.
_TOGETHER = 2**10
# With these limits, `log_odds_of_narrow` takes some 5 ms at most for a graph that it has met.
_NARROW = Limits(2**9, 2**16)


def solve(method, energy, query):
    """Answer any query by variable elimination.

    Models with the same clamped variables are solved together.
    """
    plain = cache(partial(chunks_of, energy, method.max_entries))
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


def solve_edges(method, energy, query):
    """Answer any query about an `IsingEnergy`, by a factor graph with a table for each edge."""
    answer = solve(method, FactorGraphEnergy.from_energy(energy), query)
    # The last of the four entries of an edge's table belongs to the state in which both variables
    # are 1.
    if "statistics" in query.returns:
        (entries,) = answer["statistics"]
        answer["statistics"] = (np.ascontiguousarray(entries[..., 3::4]),)
    return answer


def k_best(method, energy, query):
    """Return the k best states of factor graphs, and their scores."""
    return k_best_of_models(energy, query.n_best, method.max_entries, query.n_jobs)


def k_best_of_models(
    energy: Any, k: int, max_entries: int = MAX_ELIMINATED_ENTRIES, n_jobs: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the k best states (N, m, n) of each model of a factor graph, and their scores (N, m).

    The states are in descending order of the scores. The number m is k, or less if no model has k
    states of positive weight. If a model has fewer than m such states, its last scores are -inf,
    and its last states are copies of its best state. A ValueError is raised if a table, or the list
    of the states of a model, would have more than `max_entries` entries.
    """
    check_number_of_states(energy, k, max_entries)
    states = np.zeros((energy.n_models, k, energy.n_variables), np.int64)
    scores = np.full((energy.n_models, k), -np.inf)

    def run(chunk):
        model = Model(energy, chunk)
        top, conditional, _ = model.eliminate(True)
        found, losses = model.k_best(conditional, k)
        states[chunk.rows] = found[..., : energy.n_variables]
        scores[chunk.rows] = top[:, None] + losses

    with one_blas_thread():
        for _ in ordered_map(run, chunks_of(energy, max_entries), n_jobs):
            pass
    most = int((scores > -np.inf).sum(axis=1).max(initial=0))
    return states[:, :most], scores[:, :most]


def check_number_of_states(energy: Any, k: int, max_entries: int) -> None:
    """Raise a ValueError if k states of a model have more than `max_entries` entries."""
    if k * energy.n_variables > max_entries:
        raise ValueError(
            f"{k} best states of {energy.n_variables} variables are more than {max_entries} "
            "entries; lower the number of states (n_best of infer, k of predict_topk)"
        )


def log_odds_of_narrow(energy: FactorGraphEnergy) -> np.ndarray | None:
    """Return the exact log-odds of a single model, or None if its tables exceed `_NARROW`.

    NumPy computes them, so that no kernel is compiled.
    """
    if energy.n_variables > MOST_BUCKETS:
        return None
    try:
        [chunk] = chunks_of(energy, _NARROW.entries)
    except ValueError:  # the tables are too large
        return None
    model = Model(energy, chunk, _NARROW)
    if model.levels is None:
        return None
    _, _, beliefs = model.eliminate(False, beliefs=True)
    assert beliefs is not None
    return beliefs[0]


def _checked_variables(variables: Any, n_variables: int) -> np.ndarray:
    """Return the option `map_variables` as an array of int, or raise a ValueError."""
    try:
        given = np.asarray(variables)
    except ValueError:  # lists of different lengths
        given = np.array(variables, object)
    if given.shape == (0,):
        return np.empty(0, np.int64)
    whole = given.ndim == 1 and given.dtype.kind in "iu"
    if not whole or given.min() < 0 or given.max() >= n_variables:
        raise ValueError(
            "map_variables must hold indices of variables, integers from 0 to "
            f"{n_variables - 1}; got {variables!r}"
        )
    return np.unique(given).astype(np.int64)


def map_variables_of(method: Any, energy: BaseEnergy) -> frozenset:
    """Return the variables over which "marginal_map" maximises; raise a ValueError if invalid."""
    return frozenset(_checked_variables(method.map_variables, energy.n_variables).tolist())


class Chunk(NamedTuple):
    """R models that are solved together, and the plan by which their variables are eliminated."""

    plan: Plan
    rows: np.ndarray  # (R,): indices of the models in the batch


def chunks_of(energy, max_entries, last=frozenset()):
    """Split the batch into chunks of models, and plan the elimination for each chunk.

    The variables in `last` are eliminated after all other variables. A ValueError is raised if the
    tables of a plan are too large.
    """
    single = energy.graph.n_states == 1
    patterns, group = _unique_rows(~energy.free | single)
    if len(patterns) > 1 and not last and _solved_together(energy, max_entries):
        patterns, group = single[None], np.zeros_like(group)
    chunks = []
    for number, held in enumerate(patterns):
        rows = np.flatnonzero(group == number)
        plan = make_plan(energy.graph, held, max_entries, last)
        # All tables of a model stay in memory.
        entries = max(int(plan.buckets.entry_start[-1]), energy.n_entries, 1)
        parts = row_chunks(len(rows), max(1, BLOCK_ENTRIES // entries))
        chunks += [Chunk(plan, rows[part]) for part in parts]
    return chunks


def _unique_rows(mask):
    """Return the distinct rows of a bool array (N, n), sorted, and the index (N,) of each row."""
    if (mask == mask[:1]).all():
        return mask[:1], np.zeros(len(mask), np.int64)
    packed = np.packbits(mask, axis=1)
    whole = packed.view(np.dtype((np.void, packed.shape[1])))[:, 0]
    _, first, group = np.unique(whole, return_index=True, return_inverse=True)
    return mask[first], group


def _solved_together(energy, max_entries):
    """Return True if models with different clamped variables share a plan; see `_TOGETHER`."""
    whole = energy.graph.elimination
    levels = int(energy.graph.n_states.max(initial=1))
    return whole.complete and levels ** (whole.width + 1) <= min(_TOGETHER, max_entries)


class Model:
    """The R models of a chunk given their evidence, as float64 arrays.

    A plan may leave out clamped variables or keep them as axes of tables. The largest entry is
    subtracted from each table, and the largest field from the fields of each variable, because a
    sum with large numbers would lose the digits of small terms.

    - `buckets` are the arrays of the plan with the tables of the models.
    - `fields` (n_variables, K, R) are the log-weights of up to K states of each variable. If the
      plan keeps a clamped variable, all states except the clamped state have weight 0.
    - `values` (n_variables, R) are the states of the variables that the plan leaves out, and 0
      for the other variables.
    - `offset` (R,) is the score of the variables that the plan leaves out, plus all subtracted
      numbers.

    NumPy eliminates the variables if their levels do not exceed `limits`, otherwise kernels do.
    """

    def __init__(self, energy, chunk, limits=QUICK):
        self.energy, self.plan, self.rows = energy, chunk.plan, chunk.rows
        n, out, n_models = energy.n_variables, self.plan.held, len(chunk.rows)
        counts = self.plan.buckets.counts
        self.fields = np.zeros((len(counts), int(counts.max(initial=2)), n_models))
        self.values = np.zeros((len(counts), n_models), np.int64)
        if energy.evidence is not None:
            # The plan also leaves out variables that have the single state 0. The evidence of these
            # variables may be NaN.
            self.values[:n][out] = np.nan_to_num(energy.evidence[self.rows].T[out])
        own = energy.log_fields()[self.rows].transpose(1, 2, 0)
        self.fields[:n, : own.shape[1]] = own
        self.offset = energy.offset[self.rows].copy()
        held = np.take_along_axis(own[out], self.values[:n][out][:, None], axis=1)[:, 0]
        self.offset += held.sum(axis=0)
        top = _finite(self.fields.max(axis=1))
        top[:n][out] = 0.0
        self.fields -= top[:, None]
        self.offset += top.sum(axis=0)
        self._read_tables()
        self._work(limits)

    def _read_tables(self):
        energy, plan = self.energy, self.plan.buckets
        _, logic, _ = energy.graph.expanded
        start = [np.empty(0, np.int64), *(group.entries for group in energy.tables)]
        sizes = np.array([len(table) for table in logic], np.int64)
        start.append(energy.n_entries + np.cumsum(sizes) - sizes)
        logs = energy.log_potentials.astype(np.float64)
        for group in energy.tables:
            top = _finite(group.log_potentials.max(axis=1).astype(np.float64))
            places = group.entries[:, None] + np.arange(group.log_potentials.shape[1])
            logs[places] -= top[:, None]
            self.offset += top.sum()
        tables, table_start = np.concatenate([logs, *logic]), np.concatenate(start)
        factors, place = self.plan.factors, plan.place.copy()
        shared = plan.kind == SHARED
        place[shared] = table_start[factors.linked[shared]]
        self.buckets = plan._replace(place=place, tables=tables)
        # place (F, R) of the entry of each factor in which the clamped variables have their values,
        # and all other variables are in state 0
        moved = factors.edge_step[:, None] * self.values[factors.edges]
        moved = np.concatenate([np.zeros((1, len(self.rows)), np.int64), np.cumsum(moved, axis=0)])
        held = table_start[:, None] + np.diff(moved[factors.edge_start], axis=0)
        self.fixed = held[factors.fixed]  # (factors whose variables are all clamped, R)
        self.own = held[factors.own_factor] + factors.own_entry[:, None]
        for weights in tables[self.fixed]:
            self.offset += weights

    def _work(self, limits):
        buckets, n_models = self.buckets, len(self.rows)
        size = max(np.diff(buckets.entry_start).max(initial=1), self.fields.shape[1]) * n_models
        belief, power, part, total = np.empty((4, size))
        digits = np.empty(np.diff(buckets.scope_start).max(initial=1), np.int64)
        n_messages = buckets.message_start[-1]
        message = np.empty((n_messages + len(self.own), n_models))
        message[n_messages:] = buckets.tables[self.own]
        self.work = EliminationWork(message.reshape(-1), belief, power, part, total, digits)
        n_fields = self.fields.shape[0] * self.fields.shape[1]
        self.levels = levels_of(self.plan, buckets, n_fields, n_models, len(message), limits)

    def eliminate(self, maximal, maximised=0, beliefs=False, wanted=False):
        """Return log Z or the best score of each model, the conditional tables, and the beliefs.

        The first result (R,) is log Z, or the best score if `maximal` is True. The last `maximised`
        variables are always eliminated by maxima. The tables hold logarithms of the conditional
        probabilities of each variable given the variables that are eliminated after it, in a flat
        array. See `_beliefs` for the third result, which is None if `beliefs` is False.
        """
        buckets, n_models = self.buckets, len(self.rows)
        levels = None if maximised else self.levels
        conditional = np.empty(buckets.entry_start[-1] * n_models)
        total = np.empty(n_models)
        if levels is None:
            self._go_up(maximal, maximised, conditional, total)
        else:
            fields, message, found = (
                array.reshape(-1, n_models)
                for array in (self.fields, self.work.message, conditional)
            )
            levels.go_up(maximal, fields, message, buckets.tables, found, total)
        total += self.offset
        if (total == -np.inf).any():
            raise ContradictionError(int(self.rows[np.flatnonzero(total == -np.inf)[0]]))
        if not beliefs:
            return total, conditional, None
        weight = np.full((self.fields.size // n_models, n_models), -np.inf)
        found = np.zeros((len(buckets.tables) + len(self.own) if wanted else 0, n_models))
        if levels is None:
            self._go_down(maximal, conditional, weight, found)
        else:
            levels.go_down(maximal, conditional.reshape(-1, n_models), weight, found)
        return total, conditional, self._beliefs(maximal, weight, found)

    def _go_up(self, maximal, maximised, conditional, total):
        from skcrbm.kernels.elimination import go_up

        n_buckets = len(self.buckets.parent)
        kinds = np.full(n_buckets, maximal)
        kinds[n_buckets - maximised :] |= maximised > 0
        go_up(kinds, self.buckets, self.fields.reshape(-1), self.work, conditional, total)

    def _go_down(self, maximal, conditional, weight, found):
        from skcrbm.kernels.elimination import go_down

        go_down(
            maximal, self.buckets, self.work, len(self.rows), conditional, weight.reshape(-1),
            found.reshape(-1),
        )  # fmt: skip

    def backwards(self, conditional):
        """Yield the scope of each bucket and its conditional table, beginning with the last bucket.

        A table has the shape (k, K, R), for the k states of the bucket's variable and the K joint
        states of its neighbours.
        """
        buckets, n_models = self.buckets, len(self.rows)
        scopes, first, entry = buckets.scopes.tolist(), buckets.scope_start, buckets.entry_start
        for i in reversed(range(len(buckets.parent))):
            scope = scopes[first[i] : first[i + 1]]
            table = conditional[entry[i] * n_models : entry[i + 1] * n_models]
            yield scope, table.reshape(buckets.counts[scope[0]], -1, n_models)

    def code(self, values, scope):
        """Return the index of the joint state of ``scope[1:]``, given the states `values`."""
        number = np.zeros(values.shape[1:], np.int64)
        for v in scope[1:]:
            number = self.buckets.counts[v] * number + values[v]
        return number

    def best_values(self, conditional, n_last=None):
        """Return the best values (n_variables, R) of all variables.

        If `n_last` is given, only the last `n_last` variables of the elimination get their values.
        """
        values = self.values.copy()
        if self.levels is not None and n_last is None:
            self.levels.best_states(conditional.reshape(-1, len(self.rows)), values)
            return values
        from skcrbm.kernels.elimination import best_states

        until = 0 if n_last is None else len(self.buckets.parent) - n_last
        best_states(self.buckets, conditional, until, values)
        return values

    def k_best(self, conditional, k):
        """Return the k best states (R, k, n_variables), and their losses (R, k).

        The loss of a state is its score minus the best score; see `k_best_states` in
        `kernels.elimination`.
        """
        from skcrbm.kernels.elimination import k_best_states

        n_models = len(self.rows)
        states = np.empty((n_models, k, self.plan.n_variables), np.int64)
        losses = np.empty((n_models, k))
        k_best_states(self.buckets, conditional, self.values.copy(), states, losses)
        return states, losses

    def _beliefs(self, maximal, weight, found):
        """Return the log-odds of the variables, and the probabilities of all table entries.

        The log-odds have the shape `energy.belief_shape` with R models instead of N. The
        probabilities have the shape (n_entries, R), or are an empty array (0, R) if `found` is
        empty. `weight` and `found` are outputs of the kernel.
        """
        energy, n_models = self.energy, len(self.rows)
        # (R, n, K) for the free variables
        free = ~self.plan.held
        weight = weight.reshape(self.fields.shape)[: energy.n_variables][free].transpose(2, 0, 1)
        log_odds: Any = self._held_log_odds()
        if log_odds.ndim == 2:
            with np.errstate(invalid="ignore"):
                log_odds[:, free] = weight[..., 1] - weight[..., 0]
        elif maximal:
            for a in range(log_odds.shape[2]):
                others = np.delete(weight, a, axis=2).max(axis=2, initial=-np.inf)
                log_odds[:, free, a] = _difference(weight[..., a], others)
        else:
            levels = log_odds.shape[2]
            here = np.arange(levels) < energy.graph.n_states[free][:, None]
            log_odds[:, free] = log_odds_of_weights(weight[..., :levels], here)
        if len(found):
            models = np.arange(n_models)
            found[self.own, models] = found[len(self.buckets.tables) :]
            found[self.fixed, models] = 1.0
        return log_odds, found[: energy.n_entries]

    def _held_log_odds(self):
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


def _finite(top):
    """Replace -inf by 0 in an array of maxima."""
    return np.where(top == -np.inf, 0.0, top)


def _difference(above, below):
    """Return above - below, but -inf instead of NaN if both numbers are -inf."""
    return np.where(above == -np.inf, -np.inf, above - np.where(above == -np.inf, 0.0, below))


def _sums(energy, query, chunks):
    """Compute marginals, statistics and log Z."""
    fields = empty_result(energy, query)
    if "marginals" in query.returns:
        fields["log_odds"] = np.zeros(energy.belief_shape, energy.dtype)
    wanted = "statistics" in query.returns
    weight = np.ones(energy.n_models) if query.per_example else query.sample_weight
    total = np.zeros(energy.n_entries)

    def run(chunk):
        model = Model(energy, chunk)
        needed = bool(query.returns & {"marginals", "statistics"})
        log_z, _, beliefs = model.eliminate(False, beliefs=needed, wanted=wanted)
        if "log_partition" in query.returns:
            fields["log_partition"][chunk.rows] = log_z
        if beliefs is None:
            return None
        log_odds, probability = beliefs
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


def _best_states(energy, query, chunks):
    """Compute "map" and max-marginals."""
    fields = empty_result(energy, query)
    fields["log_odds"] = np.zeros(energy.belief_shape, energy.dtype)

    def run(chunk):
        model = Model(energy, chunk)
        _, conditional, beliefs = model.eliminate(True, beliefs=True)
        assert beliefs is not None
        values = model.best_values(conditional)
        fields["assignment"][chunk.rows] = values[: energy.n_variables].T
        fields["log_odds"][chunk.rows] = beliefs[0]

    for _ in ordered_map(run, chunks, query.n_jobs):
        pass
    return fields


def _marginal_map(method, energy, query):
    """Compute "marginal_map": maximise over `map_variables`, and sum over all other variables.

    All other variables then get their best values given the values of `map_variables`. Return the
    fields, and the log-weights (N,) of the values of `map_variables`.
    """
    last = map_variables_of(method, energy)
    chosen = np.array(sorted(last), np.int64)
    held = np.full((energy.n_models, energy.n_variables), np.nan)
    log_weight = np.zeros(energy.n_models)

    def run(chunk):
        model, n_last = Model(energy, chunk), chunk.plan.n_last
        log_weight[chunk.rows], conditional, _ = model.eliminate(False, n_last)
        values = model.best_values(conditional, n_last)
        held[np.ix_(chunk.rows, chosen)] = values[chosen].T

    for _ in ordered_map(run, chunks_of(energy, method.max_entries, last), query.n_jobs):
        pass
    given = energy.condition(held)
    return _best_states(given, query, chunks_of(given, method.max_entries)), log_weight


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
        model = Model(energy, chunk)
        _, conditional, _ = model.eliminate(False)
        for step, part in enumerate(row_chunks(query.n_samples, _SAMPLES)):
            for r, row in enumerate(chunk.rows):
                values, chance = _drawn(model, conditional, r, key, step, part)
                fields["samples"][row, part] = values[: energy.n_variables].T
                log_prob[row, part] = chance

    for _ in ordered_map(run, chunks, query.n_jobs):
        pass
    return fields


def _drawn(model, conditional, r, key, step, part):
    """Draw S samples of model r of a chunk; return the samples and their log-probabilities (S,).

    The samples are (n_variables, S). `part` is a slice of the samples, and `step` the index of the
    slice, which selects the random numbers.
    """
    plan, n_samples = model.plan, part.stop - part.start
    u = uniforms(key, [model.rows[r]], step, n_samples * plan.n_variables)
    u = u.reshape(n_samples, plan.n_variables)
    values = np.repeat(model.values[:, r, None], n_samples, axis=1)
    chance = np.zeros(n_samples)
    for scope, sides in model.backwards(conditional):
        v = scope[0]
        sides = sides[:, model.code(values, scope), r]
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
