"""Pass messages on factor graphs whose variables have any number of states.

The kernels visit the variables in turn. Sum-product and tree-reweighted messages are computed as
weights of several models side by side (`categorical_weights`) or, if the weights of a model differ
too much, as logarithms (`categorical_logs`). The choice for a model does not depend on the other
models of the batch. Max-product messages are logarithms of models side by side. OR and AND factors
become tables and chains of tables (`logic_chains`).
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from skcrbm.energies.states import best_states, log_odds_of_weights
from skcrbm.inference.any_energy.ascent import ascend_from
from skcrbm.inference.base import empty_result
from skcrbm.inference.contradictions import log_partition_range
from skcrbm.inference.factor_graph._state_graph import StateGraph
from skcrbm.inference.methods._messages import Messages, convergence_slack
from skcrbm.inference.random_numbers import best_of_restarts
from skcrbm.kernels.arguments import (
    PAIR,
    CategoricalAnswers,
    CategoricalModels,
    CategoricalOptions,
    GraphSums,
)
from skcrbm.kernels.categorical_logs import pass_logs, sum_logs
from skcrbm.kernels.categorical_states import FoundStates
from skcrbm.kernels.categorical_weights import (
    LaneAnswers,
    LaneRows,
    TreePowers,
    pass_lanes,
    sum_weights,
)
from skcrbm.kernels.scalar import MAX, SUM
from skcrbm.utils.limits import CACHED_ENTRIES
from skcrbm.utils.parallel import ordered_map, row_chunks
from skcrbm.utils.validation import kernel_array

# The messages of a model are computed as weights if the largest log-ratio of two weights (see
# `StateGraph.reach`) is at most this number. Otherwise weights could underflow, and messages are
# computed as logarithms.
MOST_REACH = 300.0
# Tree-reweighted messages of a variable are multiplied before a power of the product, below 1, is
# taken. The log-ratio of two weights of the product is at most this number, so that the smaller
# weight stays above 1e-261, and so is the log-ratio of a table.
_MOST_PRODUCT = 600.0
# Largest number of messages after which such a product is scaled.
_MOST_IN_PIECE = 16
# Number of entries of the messages of a block of models, in one direction, which stay in the cache.
_LANE_ENTRIES = 2 * CACHED_ENTRIES
# A smaller number of models is processed in turn, because loops over few lanes take longer.
_FEW_LANES = 4
# Least and largest number of models in a block.
_LEAST_LANES, _MOST_LANES = 32, 512
# Relative difference of appearance probabilities that is only a rounding error.
_SAME_RHO = 1e-9
# The messages of max-product have converged if no log-weight changes by more than this number times
# the tolerance times the largest possible difference of log-weights. A small change of a message
# may decide between two states, so the tolerance is smaller than for probabilities.
_SLACK_OF_MAXIMA = 1e-3


def solve_sum_product(method, energy, query):
    """Answer a query by sum-product messages; see `SumProduct`."""
    return _Run(method, energy, query, SUM).fields()


def solve_tree_reweighted(method, energy, query):
    """Answer a query by tree-reweighted messages; see `TreeReweighted`.

    Messages to a variable with thousands of neighbours overshoot, and their bound may be above the
    bound of each factor by itself. The lower of the two bounds is returned.
    """
    fields = _Run(method, energy, query, SUM, reweighted=True).fields()
    if "log_partition" in fields:
        _, high = log_partition_range(energy)
        fields["log_partition"] = np.minimum(fields["log_partition"], high)
    return fields


def solve_max_product(method, energy, query):
    """Find a state by max-product messages; see `MaxProduct`."""

    def run(beliefs):
        fields = _Run(method, energy, query, MAX, start=beliefs).fields()
        if query.return_state:  # keep only the array, from which `best_of_restarts` selects rows
            fields["state"] = fields["state"].values
        return fields, energy.score(fields["assignment"])

    fields = best_of_restarts(run, energy, method.n_restarts, method.random_state)
    if energy.graph.message_tables.n_variables > energy.n_variables:
        # Coordinate ascent has changed single variables of the graph with chains. In a chain, an
        # input can change only together with auxiliary variables. So climb in the given graph, too,
        # unless the state is known to be the best.
        exact = StateGraph(energy, logic="chains").is_forest & fields["converged"]
        left = np.flatnonzero(~exact)
        if len(left):
            state, better = ascend_from(energy.rows(left), query, fields["assignment"][left])
            fields["assignment"][left] = state
            fields["converged"][left[better]] = False
    if query.return_state:
        fields["state"] = Messages(method.name, fields["state"], fields["log_odds"].copy(), True)
    return fields


def pass_in_lanes(
    graph, arrays, models, options, answers, *, start=None, rho=None, bounds=False, sums=None,
    states=None,
):  # fmt: skip
    """Pass messages for N models, in blocks of models that lie side by side.

    Sums are computed from weights; max-product adds logarithms. So all numbers of the arguments are
    weights or, if ``options.kind`` is MAX, logarithms.

    Parameters
    ----------
    graph : StateGraph
    arrays : CategoricalGraph
        Arrays of the graph, with tables of weights or logarithms.
    models : CategoricalModels
        Their `message` and `sent` are overwritten. Arrays (N, 0) in their place mean that the first
        messages are constant, and that the last messages are not needed.
    options : CategoricalOptions
    answers : CategoricalAnswers
        Output, see `pass_lanes`.
    start : ndarray (N, S), default=None
        Beliefs that the variables send first. If it is None, they send their own weights times the
        messages.
    rho : tuple of (ndarray, TreePowers), default=None
        Weights of tree-reweighted messages by edge and by variable, see `pass_lanes`.
    bounds : bool, default=False
        Whether log Z is an upper bound, which needs tree-reweighted messages.
    sums : GraphSums, default=None
        If given, log Z and the statistics of the models without underflow are added to its arrays.
    states : FoundStates, default=None
        Output of max-product, which must be given for MAX.
    """
    edge_rho, powers = (None, None) if rho is None else rho
    alternates = rho is None or graph.is_forest
    general = True if (arrays.kind != PAIR).any() else None
    coupled = np.diff(arrays.edge_start) > 0
    uniform = powers is None or (powers.rho[coupled] < 1.0).all()
    mixed_rho = None if uniform else edge_rho
    simple, undamped = uniform and general is None, options.damping == 0
    two_states = (graph.n_states == 2).all()
    maxima = True if options.kind == MAX else None
    positive = (arrays.tables > (-np.inf if maxima else 0)).all() and np.isfinite(
        models.message
    ).all()
    divides = rho is not None or (positive and (two_states or maxima is not None))
    products = None if divides else True

    def as_lanes(array, rows):
        return np.array(array[rows].T, order="C")

    for rows in row_chunks(len(models.own), _n_lanes(graph, len(models.own))):
        n = len(models.own[rows])
        order, empty = np.zeros(n, np.int64), np.empty((graph.own.shape[1], 0))
        if models.message.shape[1]:
            message = as_lanes(models.message, rows)
        else:
            message = np.full((graph.n_messages, n), 1.0 if maxima is None else 0.0)
        block = LaneRows(
            as_lanes(models.own, rows), as_lanes(models.held, rows), message,
            np.empty((graph.n_messages, n)),
            np.zeros((graph.own.shape[1], n)), order,
        )  # fmt: skip
        found = LaneAnswers(
            answers.n_iter[rows], answers.converged[rows], answers.good[rows], answers.trace[rows]
        )
        first = empty if start is None else as_lanes(start, rows)
        work = graph.lanes(n, states=maxima is not None)
        best = None if states is None else FoundStates(states.state[rows], states.score[rows])
        # Other kernels for a single model are at most 1.2 times as fast as those for several.
        # Messages to clamped variables change no belief, but max-product looks at them.
        short = two_states and undamped and simple and (maxima is None or not block.held.any())
        single, several = (True, None) if n == 1 and rho is None and not short else (None, True)
        # Without the parts for damping, tree-reweighted messages take 20 % less time.
        damping = options.damping if rho is None else options.damping or None
        direct = short or (simple and single is not None)
        pass_lanes(
            maxima, arrays, mixed_rho, powers, products, graph.variables, block, first,
            options, damping, single, several, None if direct else True, general,
            alternates, found, best, work,
        )  # fmt: skip
        for array, lanes in (
            (models.message, block.message), (models.sent, block.sent),
            (answers.belief, block.belief),
        ):  # fmt: skip
            if array.shape[1]:
                array[rows][order] = lanes.T
        if sums is not None and (sums.want_log_partition or sums.want_statistics):
            statistics = sums.statistics[rows] if sums.each else sums.statistics
            excess = np.empty((len(graph.variables), n)) if bounds else None
            sum_weights(
                arrays, edge_rho, block, found.good, sums.weight[rows], sums.want_log_partition,
                sums.want_statistics, sums.each, general, excess, sums.log_partition[rows],
                statistics, work,
            )  # fmt: skip


def _n_lanes(graph, n):
    """Return the number of models in a block, such that N models fill blocks of equal sizes."""
    if n < _FEW_LANES:
        return 1
    most = int(np.clip(_LANE_ENTRIES // max(1, graph.n_messages), _LEAST_LANES, _MOST_LANES))
    return max(1, -(-n // max(1, -(-n // most))))


class _Run:
    """Passes messages for a batch of models; `kind` is SUM or MAX.

    If `start` (N, n, K) is given, message passing starts from these log-odds, instead of the start
    of the query.
    """

    def __init__(self, method, energy, query, kind, *, reweighted=False, start=None):
        self.method, self.energy, self.query, self.kind = method, energy, query, kind
        self.graph = StateGraph(energy, logic="chains")
        n_factors = len(self.graph.factors.edge_start) - 1
        rho = np.ones(n_factors)
        if reweighted:
            rho = self.graph.appearance
        self.rho = rho[self.graph.edges[1]]
        step = (self.graph.table_spreads / rho).max(initial=0.0)
        self.powers = (self.rho, self._powers(step)) if (rho < 1).any() else None
        self.bounds = reweighted
        self.factor_rho = rho
        reach = self.graph.reach / rho.min(initial=1.0)
        self.slack = convergence_slack(method.tolerance, reach.max(initial=0.0), np.dtype(float))
        if kind == MAX:
            spread = 1.0 + self.graph.spreads.max(initial=0.0)
            tol = _SLACK_OF_MAXIMA * method.tolerance * spread
            self.slack = convergence_slack(0.0, spread, np.dtype(float)) + tol
        self.fits = (self.graph.reach <= MOST_REACH) & (step <= _MOST_PRODUCT)
        self.variables = self.graph.variables
        self.messages, self.start = self._earlier(start)

    def _powers(self, step):
        """Return the powers of products of messages, whose log-ratios are at most `step`."""
        starts = self.graph.edges[0]["edge_start"]
        found = np.ones(len(starts) - 1)
        some = np.flatnonzero(np.diff(starts))
        low, high = (f.reduceat(self.rho, starts[some]) for f in (np.minimum, np.maximum))
        found[some] = np.where(high - low <= _SAME_RHO * low, low, 1.0)
        piece = int(np.clip(_MOST_PRODUCT / 2 / max(step, 1.0), 1, _MOST_IN_PIECE))
        floor = np.exp(min(piece * step - _MOST_PRODUCT, 0.0))
        return TreePowers(found, np.uintp(piece), float(floor))

    @cached_property
    def logs(self):
        """The arrays of the graph with tables of log-weights."""
        return self.graph.kernel_graph(True, self.factor_rho, sums=self.kind == SUM)

    @cached_property
    def weights(self):
        """The arrays of the graph with tables of weights."""
        return self.graph.kernel_graph(False, self.factor_rho)

    def _earlier(self, start):
        """Return the initial messages (N, M) and the initial beliefs (N, S), as logarithms.

        At most one of the two is given, and the other is None. Both are None if the query has no
        `init`. See `StateGraph` for M and S.
        """
        given = self.query.start
        if start is None and given is not None:
            state = given.state
            shape = self.energy.n_models, self.graph.n_messages
            if (
                isinstance(state, Messages)
                and state.method == self.method.name
                and state.values.shape == shape
                and state.log_odds.shape == self.energy.belief_shape
            ):
                return state.values.astype(np.float64), None
            if given.log_odds is None:
                raise ValueError(
                    f"init has no log_odds, and its state does not contain messages of "
                    f"{self.method.name!r} with shape {shape}"
                )
            start = given.log_odds
        if start is None:
            return None, None
        start = start.astype(np.float64)
        if self.energy.binary:
            start = np.stack([-start, start], axis=2)
        more = self.graph.n_variables - self.energy.n_variables
        beliefs = -np.logaddexp(0.0, -np.pad(start, [(0, 0), (0, more), (0, 0)]))
        return None, beliefs[:, self.graph.has_state]

    def fields(self) -> dict[str, Any]:
        """Pass messages for all chunks of models. Return the fields of an `InferenceResult`."""
        energy, query = self.energy, self.query
        n = energy.n_models
        answer = empty_result(energy, query)
        answer["converged"][:] = False
        answer["log_odds"] = np.zeros(energy.belief_shape, energy.dtype)
        if query.return_trace:
            answer["trace"] = np.full((n, self.method.iterations), np.nan)
        kept = None
        if query.return_state:
            kept = np.zeros((n, self.graph.n_messages), energy.dtype)
        wanted = "statistics" in query.returns
        total = np.zeros(self.graph.n_entries if wanted else 0)
        each = np.zeros((n if wanted and query.per_example else 0, len(total)))
        chunks = row_chunks(n, max(_LEAST_LANES, _n_lanes(self.graph, n)))

        def run(rows):
            return self._run(rows, answer, kept)

        for rows, statistics in zip(chunks, ordered_map(run, chunks, query.n_jobs), strict=True):
            if wanted and query.per_example:
                each[rows] = statistics
            elif wanted:
                total += statistics[0]
        if wanted:
            entries = each if query.per_example else total
            self.graph.merging.spread(entries)
            answer["statistics"][0][...] = entries[..., : energy.n_entries]
        if kept is not None:
            answer["state"] = Messages(self.method.name, kept, answer["log_odds"].copy(), True)
        return answer

    def _run(self, rows, answer, kept):
        """Pass messages for the models `rows`, a slice of the batch, and return their statistics.

        All other results are written to `answer`. If `kept` is given, the last messages are written
        to it.
        """
        query, graph = self.query, self.graph
        own = graph.own[rows]
        n = len(own)
        size = graph.n_messages if kept is not None or self.messages is not None else 0
        models = CategoricalModels(self._held(rows), own, np.zeros((n, size)), np.empty((n, 0)))
        if self.messages is not None:
            models.message[...] = self.messages[rows]
        trace = answer["trace"][rows] if query.return_trace else np.empty((n, 0))
        found = CategoricalAnswers(
            answer["n_iter"][rows], answer["converged"][rows], np.zeros(n, bool), trace,
            np.zeros(own.shape),
        )  # fmt: skip
        wanted = "statistics" in query.returns
        shape = (n if query.per_example else 1, graph.n_entries if wanted else 0)
        sums = GraphSums(
            query.sample_weight[rows].astype(float), "log_partition" in query.returns, wanted,
            query.per_example, np.zeros(n), np.zeros(shape),
        )  # fmt: skip
        if self.kind == MAX:
            beliefs = self._pass_maxima(rows, models, found, answer)
            self._store(answer, rows, _gains(beliefs))
        else:
            beliefs = self._pass_sums(rows, models, found, sums)
            self._store(answer, rows, log_odds_of_weights(beliefs, graph.has_state))
            answer["converged"][rows] &= sums.log_partition > -np.inf
        if kept is not None:
            kept[rows] = models.message
        if wanted:
            weight = np.ones(n) if query.per_example else sums.weight
            graph.add_single(beliefs, weight, sums.statistics)
        if "log_partition" in query.returns:
            answer["log_partition"][rows] = sums.log_partition + graph.offset[rows]
        return sums.statistics

    def _held(self, rows):
        """Return a mask (R, n) of the clamped variables of the models `rows`."""
        more = self.graph.n_variables - self.energy.n_variables
        return np.pad(~self.energy.free[rows], [(0, 0), (0, more)])

    def _store(self, answer, rows, log_odds):
        """Store the log-odds (R, n, K) of all states in the shape of the beliefs of the energy."""
        log_odds = log_odds[:, : self.energy.n_variables]
        answer["log_odds"][rows] = log_odds[..., 1] if self.energy.binary else log_odds

    def _pass_maxima(self, rows, models, found, answer):
        """Pass max-product messages for the models `rows`; return log-max-marginals (R, n, K)."""
        n = len(models.own)
        first = np.zeros((n, self.graph.n_variables), np.int64)
        first[:, : self.energy.n_variables] = best_states(self.energy, self.energy.field[rows])
        states = FoundStates(first, np.full(n, -np.inf))
        start = None if self.start is None else self.start[rows]
        pass_in_lanes(
            self.graph, self.logs, models, self._options(), found, start=start, states=states
        )
        answer["assignment"][rows] = states.state[:, : self.energy.n_variables]
        return self.graph.as_table(found.belief)

    def _pass_sums(self, rows, models, found, sums):
        """Pass messages for the models `rows`, a slice; return log-probabilities (R, n, K)."""
        some = np.flatnonzero(self.fits[rows])
        if len(some):
            self._pass_weights(some, rows, models, found, sums)
        left = np.flatnonzero(~found.good)
        if len(left):
            self._pass_logs(left, rows, models, found, sums)
        return self.graph.as_table(found.belief)

    def _options(self):
        method = self.method
        return CategoricalOptions(
            method.iterations, float(method.tolerance), self.slack, float(method.damping),
            self.kind, self.graph.is_forest and method.damping == 0,
        )  # fmt: skip

    def _pass_weights(self, some, rows, models, found, sums):
        """Pass messages as weights for the models `some` of a chunk.

        Results are stored for the models whose weights did not underflow: they get ``found.good``.
        """
        start = None if self.start is None else np.exp(self.start[rows][some])
        part = CategoricalModels(
            models.held[some], np.exp(models.own[some]), np.exp(models.message[some]),
            models.sent[some],
        )  # fmt: skip
        out = CategoricalAnswers(*(array[some] for array in found))
        here = sums._replace(
            weight=sums.weight[some], log_partition=sums.log_partition[some],
            statistics=sums.statistics[some] if sums.each else sums.statistics,
        )  # fmt: skip
        pass_in_lanes(
            self.graph, self.weights, part, self._options(), out, start=start, rho=self.powers,
            bounds=self.bounds, sums=here,
        )  # fmt: skip
        good = out.good
        kept = some[good]
        with np.errstate(divide="ignore"):
            part = part._replace(message=np.log(part.message))
            out = out._replace(belief=np.log(out.belief))
        for whole, array in zip((models.message, *found), (part.message, *out), strict=True):
            whole[kept] = array[good]
        sums.log_partition[kept] = here.log_partition[good]
        if sums.each:
            sums.statistics[kept] = here.statistics[good]

    def _pass_logs(self, some, rows, models, found, sums):
        """Pass messages as logarithms for the models `some` of a chunk."""
        start = np.empty((0, 0)) if self.start is None else self.start[rows][some]
        work = self.graph.work()
        size = len(some), self.graph.n_messages
        message = models.message[some] if models.message.shape[1] else np.zeros(size)
        part = CategoricalModels(
            kernel_array(models.held[some]), kernel_array(models.own[some]),
            kernel_array(message), np.zeros(size),
        )  # fmt: skip
        out = CategoricalAnswers(*(kernel_array(array[some]) for array in found))
        alternates = self.powers is None or self.graph.is_forest
        pass_logs(
            self.logs, self.rho, self.variables, part, start, self._options(), alternates, out, work
        )
        for whole, array in zip(found, out, strict=True):
            whole[some] = array
        if models.message.shape[1]:
            models.message[some] = part.message
        log_z = np.zeros(len(some))
        statistics = (
            np.zeros((len(some), sums.statistics.shape[1])) if sums.each else sums.statistics
        )
        sum_logs(
            self.logs, self.rho, self.bounds, part, sums.weight[some], sums.want_statistics,
            sums.each, log_z, statistics, work,
        )  # fmt: skip
        sums.log_partition[some] = log_z
        if sums.each:
            sums.statistics[some] = statistics


def _gains(scores):
    """Subtract from the max-marginal of each state the largest max-marginal of the other states.

    `scores` and the result are (R, n, K). The result is -inf for impossible states.
    """
    found = np.empty_like(scores)
    for k in range(scores.shape[2]):
        others = np.delete(scores, k, axis=2).max(axis=2, initial=-np.inf)
        with np.errstate(invalid="ignore"):
            found[..., k] = np.where(scores[..., k] == -np.inf, -np.inf, scores[..., k] - others)
    return found
