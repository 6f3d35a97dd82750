"""Draw samples from factor graphs by chained belief propagation.

A step draws a variable of each sample from its beliefs, clamps it, and passes messages again, as in
`states.py`: a sweep visits the variables in turn. RBMs, Ising models and graphs of 0/1 variables
are converted to graphs of variables with two states, which have only tables. On graphs without
cycles, undamped messages are exact after two sweeps, and further sweeps are skipped.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit

from skcrbm.energies import FactorGraphEnergy
from skcrbm.energies.two_states import two_states
from skcrbm.inference.any_energy._ais import fill_estimate
from skcrbm.inference.base import empty_result
from skcrbm.inference.factor_graph._state_graph import StateGraph
from skcrbm.inference.factor_graph.messages import MOST_REACH
from skcrbm.inference.random_numbers import random_key, uniforms
from skcrbm.kernels.arguments import PAIR, CategoricalOptions
from skcrbm.kernels.categorical_weights import SMALLEST
from skcrbm.kernels.chained_draws import (
    ChainGraph,
    ChainRows,
    draw_chain,
    draw_in_logs,
)
from skcrbm.kernels.scalar import SUM
from skcrbm.utils.limits import BLOCK_ENTRIES
from skcrbm.utils.parallel import one_blas_thread, ordered_map, row_chunks
from skcrbm.utils.validation import kernel_array

# Least and largest number of samples that are drawn side by side.
_LEAST_LANES, _MOST_LANES = 8, 128
# If models with the same clamped variables have at least this number of samples, blocks contain
# these samples only.
_OWN_GROUP = 64
# A call of a kernel computes about this number of messages, as weights or as logarithms, so that
# Ctrl-C need not wait long.
_MESSAGES_PER_CALL, _LOGS_PER_CALL = 2**27, 2**23
# Index of the stream of random numbers from which the order of the variables is drawn. Each model
# has its own stream for its samples, and the index of that stream is smaller.
_ORDER = 2**63
# Number of sweeps after which the messages of a forest are exact.
_FOREST_SWEEPS = 2


def solve(method: Any, energy: Any, query: Any) -> dict[str, Any]:
    """Answer a query about a factor graph, an RBM or an Ising model; see `BPChain`."""
    if "log_partition" in query.returns and query.n_samples < 2:
        raise ValueError(
            f"n_samples must be at least 2 for log_partition, got {query.n_samples}: the standard "
            "error is estimated from the variance of the samples"
        )
    before = _earlier(method, query)
    order = _check_order(method.order, energy.n_visible, before.key)
    fields = empty_result(energy, query)
    chain = _Chain(method, energy, before, order, (energy.n_models, query.n_samples))
    with one_blas_thread():
        chain.run(query.n_jobs)
        # Scores are also needed to find impossible samples if the graph has entries of weight 0.
        need = "log_partition" in query.returns or chain.has_zeros
        score = chain.scores() if need else None
    n_free = energy.free[:, : energy.n_visible].sum(axis=1)
    first, later = chain.n_iter
    fields["n_iter"][:] = np.where(n_free > 0, first + later * (n_free - 1), 0)
    if score is not None:
        fields["converged"][:] = (score > -np.inf).all(axis=1)
    if "samples" in query.returns:
        fields["samples"] = chain.states
    if "sample_log_prob" in query.returns:
        fields["sample_log_prob"] = chain.log_prob
    if "log_partition" in query.returns:
        fill_estimate(fields, score - chain.log_prob)
    fields["state"] = Draws(before.key, before.n_drawn + query.n_samples)
    return fields


class Draws(NamedTuple):
    """State of the sampler: the position in the random numbers at which a later call continues."""

    key: Any  # uint64, see `random_key`
    n_drawn: int  # number of samples of each model that were drawn so far


def _earlier(method, query):
    """Return the state of the earlier call from which the query continues, or a new state."""
    if query.start is None:
        return Draws(random_key(method.random_state), 0)
    if not isinstance(query.start.state, Draws):
        raise ValueError(
            "init must be the state of an earlier call of 'bp_chain', got "
            f"{type(query.start.state).__name__}"
        )
    return query.start.state


def _check_order(order, n_visible, key):
    """Check the option `order`, and return the order of the variables as an array of int (V,)."""
    if isinstance(order, str):
        if order == "index":
            return np.arange(n_visible)
        return np.argsort(uniforms(key, [_ORDER], 0, n_visible)[0], kind="stable")
    try:
        given = np.asarray(order)
    except ValueError:  # rows of different lengths
        given = np.zeros(0)
    whole = given.shape == (n_visible,) and given.dtype.kind in "iu"
    if not whole or not np.array_equal(np.sort(given), np.arange(n_visible)):
        raise ValueError(
            "order must be 'index', 'random' or a permutation of the indices of the visible "
            f"variables, 0 to {n_visible - 1}; got {order!r}"
        )
    return given.astype(np.int64)


class _Start(NamedTuple):
    """Messages of the models of a block before the first draw."""

    models: np.ndarray  # (K,) indices of the models
    chain: ChainGraph
    rows: ChainRows
    low: np.ndarray  # (K,) smallest scale of a product, see `draw_chain`


class _Chain:
    """Draws S samples of each of N models; `shape` is (N, S).

    The argument `order` (V,) lists the visible variables in the order in which they are drawn.
    """

    def __init__(self, method, energy, before, order, shape):
        self.method, self.energy, self.before, self.order = method, energy, before, order
        self.states: np.ndarray = np.zeros((*shape, energy.n_variables), energy.state_dtype)
        self.log_prob: np.ndarray = np.zeros(shape)
        graph = energy
        if not isinstance(energy, FactorGraphEnergy):
            graph = FactorGraphEnergy.from_energy(energy)
        #: True if the graph has entries of weight 0.
        self.has_zeros = graph.has_zeros
        # An OR or AND of many inputs becomes a chain of tables, and auxiliary variables follow the
        # given variables.
        graph = two_states(graph) if graph.binary else graph
        self.free = graph.free
        self.graph = StateGraph(graph)
        self.weights = self.graph.kernel_graph(False)
        self.short = method.damping == 0 and self.graph.is_forest

    @property
    def n_iter(self) -> tuple[int, int]:
        """Two numbers of sweeps: before the first draw, and before each later draw."""
        first, later = self.method.max_iter, self.method.warm_iter
        later = first if later is None else later
        limit = _FOREST_SWEEPS if self.short else max(first, later)
        return min(first, limit), min(later, limit)

    def run(self, n_jobs: int | None) -> None:
        """Draw all samples, and write them to `states` and `log_prob`."""
        n_samples = self.states.shape[1]
        fits = self.graph.reach <= MOST_REACH
        for rows in self._groups(fits):
            self._run(rows, n_jobs)
        left = np.divmod(np.flatnonzero(np.repeat(~fits, n_samples)), n_samples)
        for _ in ordered_map(self._draw_in_logs, list(zip(*left, strict=True)), n_jobs):
            pass

    def _groups(self, fits):
        """Return groups of the models in the mask `fits` (N,): a list of arrays of indices.

        The models of a group have the same clamped variables, so that sweeps leave them out. Only
        the last group consists of the models whose own group would have few samples.
        """
        patterns, pattern, sizes = np.unique(
            self.free, axis=0, return_inverse=True, return_counts=True
        )
        many = (sizes * self.states.shape[1] >= _OWN_GROUP) | patterns.all(axis=1)
        pattern = pattern.reshape(-1)
        groups = [np.flatnonzero((pattern == p) & fits) for p in np.flatnonzero(many)]
        return [*groups, np.flatnonzero(~many[pattern] & fits)]

    def _run(self, rows, n_jobs):
        """Draw all samples of the models `rows`."""
        n_samples, n_messages = self.states.shape[1], max(1, self.graph.n_messages)
        size = int(np.clip(BLOCK_ENTRIES // n_messages, _LEAST_LANES, _MOST_LANES))
        at_once = max(1, BLOCK_ENTRIES // (n_messages * size)) * size
        for some in row_chunks(len(rows), at_once):
            chunks = [rows[some][part] for part in row_chunks(len(rows[some]), size)]
            blocks = [
                (start, np.arange(part.start, part.stop))
                for start in ordered_map(self._begin, chunks, n_jobs)
                for part in row_chunks(len(start.models) * n_samples, size)
            ]
            for _ in ordered_map(self._draw, blocks, n_jobs):
                pass

    @property
    def _parts(self):
        """The arguments `damping` and `general` of `draw_chain`."""
        general = True if (self.weights.kind != PAIR).any() else None
        return float(self.method.damping) or None, general

    def _begin(self, models):
        """Pass the messages of some models before the first draw; return a `_Start`."""
        graph, weights = self.graph, self.weights
        own = np.exp(graph.own[models].T)
        n_edges, shape = len(weights.kind), (graph.n_messages, len(models))
        chain = ChainGraph(
            weights.order.copy(), np.array([len(weights.order)]),
            (~self.free[models]).sum(axis=0),
            np.bincount(weights.scope.astype(np.int64), minlength=n_edges),
            np.zeros(n_edges, bool), graph.variables,
        )  # fmt: skip
        rows = ChainRows(
            kernel_array(own), own.copy(order="C"), np.zeros(shape), np.zeros(shape),
            np.zeros(own.shape),
        )  # fmt: skip
        work = graph.lanes(len(models))
        work.low[...] = 1.0
        nothing, log_prob = np.empty((0, len(models))), np.empty(0)
        draw_chain(
            weights, True, False, nothing.astype(np.uintp), self.n_iter[0], False,
            *self._parts, chain, rows, nothing, nothing.astype(np.int64), log_prob, work,
        )  # fmt: skip
        return _Start(models, chain, rows, work.low)

    def _steps(self, free):
        """Return the variables that K samples draw in each step, as uintp (steps, K).

        `free` (K, n) are the free variables of each sample. If a sample has no variable left to
        draw, its entry is n.
        """
        drawn = free[:, self.order]
        order = np.argsort(~drawn, axis=1, kind="stable")
        steps = np.where(np.take_along_axis(drawn, order, 1), self.order[order], free.shape[1])
        return kernel_array(steps[:, : drawn.sum(axis=1).max()].T, np.uintp)

    def _draw(self, block):
        """Draw the samples of a block (start, numbers).

        Sample s of model i of `start` has the number ``i * n_samples + s``.
        """
        start, numbers = block
        which, sample = np.divmod(numbers, self.states.shape[1])
        models, n = start.models[which], len(numbers)
        rows = ChainRows(*(np.take(array, which, axis=1) for array in start.rows))
        chain = ChainGraph(*(array.copy() for array in start.chain))
        inside = chain.n_held >= 0
        chain.n_held[inside] = (~self.free[models]).sum(axis=0)[inside]
        work = self.graph.lanes(n)
        work.low[...] = start.low[which]
        u = self._uniforms(models, sample)
        state = np.zeros((self.free.shape[1], n), np.int64)
        if self.energy.evidence is not None:
            state[: u.shape[1]] = np.nan_to_num(self.energy.evidence[models]).T
        steps, log_prob, transposed = self._steps(self.free[models]), np.zeros(n), kernel_array(u.T)
        n_messages = max(1, self.n_iter[1] * self.graph.n_messages * n)
        for part in row_chunks(len(steps), max(1, _MESSAGES_PER_CALL // n_messages)):
            draw_chain(
                self.weights, False, part.start == 0, steps[part], self.n_iter[1],
                self.method.warm_iter is None, *self._parts, chain, rows, transposed, state,
                log_prob, work,
            )  # fmt: skip
        good = work.low > SMALLEST
        self._store(models[good], sample[good], u[good], state.T[good], log_prob[good])
        for again in zip(models[~good], sample[~good], strict=True):
            self._draw_in_logs(again)

    @cached_property
    def _logs(self):
        """The arrays of the graph with tables of log-weights."""
        return self.graph.kernel_graph(True, sums=True)

    def _draw_in_logs(self, number):
        """Draw a sample with messages as logarithms; `number` is its model and its index."""
        model, index = number
        graph, energy = self.graph, self.energy
        models, sample = np.array([model]), np.array([index])
        u = self._uniforms(models, sample)
        state = np.zeros(self.free.shape[1], np.int64)
        if energy.evidence is not None:
            state[: u.shape[1]] = np.nan_to_num(energy.evidence[model])
        own, steps = graph.own[model].copy(), self._steps(self.free[models])[:, 0].copy()
        held, message, sent = (
            ~self.free[model],
            np.zeros(graph.n_messages),
            np.zeros(graph.n_messages),
        )
        belief, work = np.zeros((2, len(own))), graph.work()
        options = CategoricalOptions(0, 0.0, 0.0, float(self.method.damping), SUM)
        rho, log_prob = np.ones(len(self._logs.kind)), 0.0
        n_messages = max(1, max(self.n_iter) * graph.n_messages)
        for part in row_chunks(len(steps), max(1, _LOGS_PER_CALL // n_messages)):
            log_prob += draw_in_logs(
                self._logs, rho, steps[part], part.start == 0, self.n_iter,
                self.method.warm_iter is None, options, held, own, message, sent, belief, u[0],
                state, work,
            )  # fmt: skip
        self._store(models, sample, u, state[None], np.array([log_prob]))

    def _store(self, models, sample, u, states, log_prob):
        """Draw the hidden units of K samples given the visible units, and store the samples.

        `models` and `sample` (K,) are the indices of the models, and of the samples of each model.
        """
        energy = self.energy
        drawn = states[:, : energy.n_variables].astype(energy.state_dtype)
        if energy.n_hidden:
            hidden = slice(energy.n_visible, energy.n_variables)
            part = energy.rows(models)
            drawn[:, hidden] = 0
            log_odds = part.conditional_log_odds(drawn[:, None], hidden)[:, 0].astype(np.float64)
            on = u[:, hidden] < expit(log_odds)
            drawn[:, hidden] = on
            log_prob = log_prob - np.logaddexp(0, np.where(on, -log_odds, log_odds)).sum(axis=1)
        self.states[models, sample] = drawn
        self.log_prob[models, sample] = log_prob

    def _uniforms(self, models, sample):
        """Draw uniform random numbers (K, n) for the K samples of a block and the n variables."""
        first = np.flatnonzero(np.append(True, models[1:] != models[:-1]))
        parts = np.split(np.arange(len(models)), first[1:])
        n_variables, drawn = self.energy.n_variables, self.before.n_drawn
        return np.concatenate(
            [
                uniforms(self.before.key, sample[part] + drawn, models[part[0]], n_variables)
                for part in parts
            ]
        )

    def scores(self) -> np.ndarray:
        """Return the scores (N, S) of the S samples of each of N models."""
        n, n_samples, width = self.states.shape
        score = np.empty((n, n_samples))
        for rows in row_chunks(n, max(1, BLOCK_ENTRIES // max(1, n_samples * width))):
            size = rows.stop - rows.start
            models = self.energy.rows(np.repeat(np.arange(rows.start, rows.stop), n_samples))
            states = self.states[rows].reshape(size * n_samples, width)
            score[rows] = models.score(states).reshape(size, n_samples)
        return score
