"""Pass messages on factor graphs whose variables have any number of states.

The kernels visit the variables in turn. Sum-product messages are computed as weights
(`categorical_weights`) or, if the weights of a model differ too much, as logarithms
(`categorical_logs`). The choice for a model does not depend on the other models of the batch.
Tree-reweighted and max-product messages are always logarithms.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from skcrbm.energies.states import log_odds_of_weights
from skcrbm.inference.base import empty_result
from skcrbm.inference.factor_graph._better_states import improve_states
from skcrbm.inference.factor_graph._state_graph import StateGraph
from skcrbm.inference.factor_graph.messages import factor_appearance
from skcrbm.inference.methods._messages import Messages, convergence_slack
from skcrbm.inference.random_numbers import best_of_restarts
from skcrbm.kernels.arguments import CategoricalAnswers, CategoricalModels, CategoricalOptions
from skcrbm.kernels.categorical_logs import agreement, improve, pass_logs, sum_logs
from skcrbm.kernels.categorical_weights import pass_weights
from skcrbm.kernels.scalar import MAX, SUM
from skcrbm.utils.limits import CACHED_ENTRIES
from skcrbm.utils.parallel import ordered_map, row_chunks
from skcrbm.utils.validation import kernel_array

# The messages of a model are computed as weights if the largest log-ratio of two weights (see
# `StateGraph.reach`) is at most this number. Otherwise weights could underflow, and messages are
# computed as logarithms.
MOST_REACH = 300.0
# Largest number of rounds of coordinate ascent from a state of max-product.
CLIMB_ROUNDS = 100
# A score counts as better than another score if it is larger by this number times (1 + |score|).
_BETTER = 1e-9


def solve_sum_product(method, energy, query):
    """Answer a query by sum-product messages; see `SumProduct`."""
    return _Run(method, energy, query, SUM).fields()


def solve_tree_reweighted(method, energy, query):
    """Answer a query by tree-reweighted messages; see `TreeReweighted`."""
    return _Run(method, energy, query, SUM, reweighted=True).fields()


def solve_max_product(method, energy, query):
    """Find a state by max-product messages; see `MaxProduct`."""

    def run(beliefs):
        fields = _Run(method, energy, query, MAX, start=beliefs).fields()
        if query.return_state:  # keep only the array, from which `best_of_restarts` selects rows
            fields["state"] = fields["state"].values
        return fields, energy.score(fields["assignment"])

    fields = best_of_restarts(run, energy, method.n_restarts, method.random_state)
    improve_states(method, energy, query, fields, StateGraph(energy).factors)
    if query.return_state:
        fields["state"] = Messages(method.name, fields["state"], fields["log_odds"].copy(), True)
    return fields


class _Run:
    """Passes messages for a batch of models; `kind` is SUM or MAX.

    If `start` (N, n, K) is given, message passing starts from these log-odds, instead of the start
    of the query.
    """

    def __init__(self, method, energy, query, kind, *, reweighted=False, start=None):
        self.method, self.energy, self.query, self.kind = method, energy, query, kind
        self.graph = StateGraph(energy)
        self.weighs = kind == SUM and not reweighted
        n_factors = len(self.graph.factors.edge_start) - 1
        rho = np.ones(n_factors)
        if reweighted:
            rho = factor_appearance(self.graph.factors, energy.n_variables)
        self.rho = rho[self.graph.edges[1]]
        self.logs = self.graph.kernel_graph(True, rho, sums=kind == SUM)
        self.weights = self.graph.kernel_graph(False) if self.weighs else None
        reach = self.graph.reach / rho.min(initial=1.0)
        self.slack = convergence_slack(method.tolerance, reach.max(initial=0.0), np.dtype(float))
        self.fits = reach <= MOST_REACH
        self.variables = self.graph.variables
        self.messages, self.start = self._earlier(start)

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
        beliefs = -np.logaddexp(0.0, -start.astype(np.float64))
        return None, beliefs[:, self.graph.has_state]

    def fields(self) -> dict[str, Any]:
        """Pass messages for all chunks of models. Return the fields of an `InferenceResult`."""
        energy, query = self.energy, self.query
        n = energy.n_models
        answer = empty_result(energy, query)
        answer["converged"][:] = False
        answer["log_odds"] = np.full(energy.belief_shape, -np.inf, energy.dtype)
        if query.return_trace:
            answer["trace"] = np.full((n, self.method.iterations), np.nan)
        kept = None
        if query.return_state:
            kept = np.zeros((n, self.graph.n_messages), energy.dtype)
        wanted = "statistics" in query.returns
        total = np.zeros(energy.n_entries if wanted else 0)
        size = max(1, CACHED_ENTRIES // max(1, self.graph.n_messages))
        chunks = row_chunks(n, size)

        def run(rows):
            return self._run(rows, answer, kept)

        for rows, statistics in zip(chunks, ordered_map(run, chunks, query.n_jobs), strict=True):
            if wanted and query.per_example:
                answer["statistics"][0][rows] = statistics
            elif wanted:
                total += statistics[0]
        if wanted and not query.per_example:
            answer["statistics"][0][...] = total
        if wanted:
            energy.graph.merging.spread(answer["statistics"][0])
        if kept is not None:
            answer["state"] = Messages(self.method.name, kept, answer["log_odds"].copy(), True)
        return answer

    def _run(self, rows, answer, kept):
        """Pass messages for the models `rows`, a slice of the batch, and return their statistics.

        All other results are written to `answer`. If `kept` is given, the last messages are written
        to it.
        """
        energy, query, graph = self.energy, self.query, self.graph
        own = graph.own[rows]
        n = len(own)
        models = CategoricalModels(
            kernel_array(~energy.free[rows]), own, np.zeros((n, graph.n_messages)),
            np.zeros((n, graph.n_messages)),
        )  # fmt: skip
        if self.messages is not None:
            models.message[...] = self.messages[rows]
        states = np.zeros((n, energy.n_variables), np.int64), np.full(n, -np.inf)
        trace = answer["trace"][rows] if query.return_trace else np.empty((n, 0))
        found = CategoricalAnswers(
            answer["n_iter"][rows], answer["converged"][rows], np.zeros(n, bool), trace,
            np.zeros(own.shape),
        )  # fmt: skip
        work = graph.work()
        left = np.ones(n, bool)
        if self.weighs:
            left = ~self._pass(np.flatnonzero(self.fits[rows]), rows, models, found, states, work)
        self._pass(np.flatnonzero(left), rows, models, found, states, work, in_logs=True)
        beliefs = graph.as_table(found.belief)
        if self.kind == MAX:
            self._store_states(rows, models, found, states, answer, work)
            log_odds = _gains(beliefs)
        else:
            log_odds = log_odds_of_weights(beliefs, graph.has_state)
        answer["log_odds"][rows] = log_odds
        if kept is not None:
            kept[rows] = models.message
        wanted = "statistics" in query.returns
        shape = (n if query.per_example else 1, energy.n_entries if wanted else 0)
        statistics = np.zeros(shape)
        if wanted or "log_partition" in query.returns:
            log_z = np.zeros(n)
            sum_logs(
                self.logs, self.rho, models, query.sample_weight[rows], wanted, query.per_example,
                log_z, statistics, work,
            )  # fmt: skip
            if wanted:
                weight = np.ones(n) if query.per_example else query.sample_weight[rows]
                graph.add_single(beliefs, weight, statistics)
            answer["converged"][rows] &= log_z > -np.inf
            if "log_partition" in query.returns:
                answer["log_partition"][rows] = log_z + graph.offset[rows]
        return statistics

    def _pass(self, some, rows, models, found, states, work, in_logs=False):
        """Pass messages, as weights or as logarithms, for the models `some` of a chunk.

        Return a mask (n,) of the models whose results are stored. The mask is False for models that
        are not in `some`, or whose weights underflowed.
        """
        good = np.zeros(len(found.n_iter), bool)
        if not len(some):
            return good
        method = self.method
        options = CategoricalOptions(
            method.iterations, float(method.tolerance), self.slack, float(method.damping), self.kind
        )
        start = np.empty((0, 0))
        if self.start is not None:
            start = self.start[rows][some]
        part = CategoricalModels(*(kernel_array(array[some]) for array in models))
        out = CategoricalAnswers(*(kernel_array(array[some]) for array in found))
        if in_logs:
            best = tuple(kernel_array(array[some]) for array in states)
            pass_logs(
                self.logs, self.rho, self.variables, part, start, options,
                out, best, work,
            )  # fmt: skip
            for whole, array in zip(states, best, strict=True):
                whole[some] = array
        else:
            weights = part._replace(own=np.exp(part.own), message=np.exp(part.message))
            out.belief[...] = 0.0
            pass_weights(self.weights, self.variables, weights, np.exp(start), options, out, work)
            with np.errstate(divide="ignore"):
                part = CategoricalModels(
                    part.held, part.own, np.log(weights.message), np.log(weights.sent)
                )
                out = out._replace(belief=np.log(out.belief))
        good[some] = True if in_logs else out.good
        kept = some[good[some]]
        for whole, array in zip((*models[2:], *found), (*part[2:], *out), strict=True):
            whole[kept] = array[good[some]]
        return good

    def _store_states(self, rows, models, found, states, answer, work):
        """Improve the states of max-product by coordinate ascent, and store the states.

        A model has converged if its messages have converged, coordinate ascent does not improve its
        state, and its beliefs and messages agree with the state.
        """
        state, score = states
        decoded = score.copy()
        held = kernel_array(~self.energy.free[rows])
        improve(self.logs, self.variables, held, models.own, state, score, CLIMB_ROUNDS, work)
        margin = _BETTER * (1.0 + np.abs(np.where(np.isfinite(decoded), decoded, 0.0)))
        better = score > decoded + margin
        flat = np.cumsum(self.energy.n_states) - self.energy.n_states + state
        agrees = np.take_along_axis(found.belief, flat, axis=1) >= -margin[:, None]
        agrees = agrees.all(axis=1) & ~better & (score > -np.inf) & answer["converged"][rows]
        agreement(self.logs, self.variables, models, state, margin, agrees, work)
        answer["assignment"][rows] = state
        answer["converged"][rows] = agrees


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
