"""Draw samples from factor graphs by chained belief propagation.

A step draws a variable of each sample from its beliefs, clamps it, and passes messages again. The
samples of a block are the lanes of the kernels that pass the messages. If arrays have an axis of
states, the messages are those of `states.py`, in which a sweep visits the variables in turn. On
graphs without cycles, undamped messages of this kind are exact after two sweeps, and further sweeps
are skipped.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit

from skcrbm.energies import FactorGraphEnergy
from skcrbm.inference.any_energy._ais import fill_estimate
from skcrbm.inference.base import empty_result
from skcrbm.inference.factor_graph._flat_graph import flat_graph, has_large_tables
from skcrbm.inference.factor_graph._lanes import IsingLanes, Lanes
from skcrbm.inference.factor_graph._large_tables import solve_states
from skcrbm.inference.factor_graph._state_graph import StateGraph
from skcrbm.inference.factor_graph.states import MOST_REACH, pass_in_lanes
from skcrbm.inference.random_numbers import random_key, uniforms
from skcrbm.kernels.arguments import CategoricalAnswers, CategoricalModels, CategoricalOptions
from skcrbm.kernels.categorical_logs import pass_logs
from skcrbm.kernels.scalar import SUM
from skcrbm.utils.limits import BLOCK_ENTRIES, CACHED_ENTRIES
from skcrbm.utils.parallel import one_blas_thread, ordered_map, row_chunks
from skcrbm.utils.validation import kernel_array

# At least this many samples are drawn side by side, even if the arrays of their messages then have
# more than `BLOCK_ENTRIES` entries.
_MIN_LANES = 8
# If there are enough samples, at least this many of a graph with an axis of states are drawn side
# by side.
_MIN_BLOCK = 16
# Index of the stream of random numbers from which the order of the variables is drawn. Each model
# has its own stream for its samples, and the index of that stream is smaller.
_ORDER = 2**63
# Number of sweeps after which the messages of a forest are exact.
_FOREST_SWEEPS = 2


def solve(method, energy, query):
    """Answer a query about a factor graph; see `BPChain`."""
    if not energy.binary:
        return sample_in_chain(method, energy, query, _StateChain)
    if has_large_tables(energy):
        return solve_states(method, energy, query)
    return sample_in_chain(method, energy, query, _LaneChain)


def solve_rbm(method, energy, query):
    """Answer a query about an RBM, as a factor graph with a table for each pair of units."""
    return sample_in_chain(method, energy, query, _LaneChain)


def solve_ising(method, energy, query):
    """Answer a query about an Ising model, dense or sparse, as a factor graph."""
    return sample_in_chain(method, energy, query, _IsingChain)


class Draws(NamedTuple):
    """State of the sampler: the position in the random numbers at which a later call continues."""

    key: Any  # uint64, see `random_key`
    n_drawn: int  # number of samples of each model that were drawn so far


def sample_in_chain(method: Any, energy: Any, query: Any, kind: type[Chain]) -> dict[str, Any]:
    """Answer a query by chained belief propagation. `kind` is the subclass of `Chain` to use."""
    if "log_partition" in query.returns and query.n_samples < 2:
        raise ValueError(
            f"n_samples must be at least 2 for log_partition, got {query.n_samples}: the standard "
            "error is estimated from the variance of the samples"
        )
    before = _earlier(method, query)
    order = _check_order(method.order, energy.n_visible, before.key)
    fields = empty_result(energy, query)
    chain = kind(method, energy, before, order, (energy.n_models, query.n_samples))
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
    given = np.asarray(order)
    whole = given.shape == (n_visible,) and given.dtype.kind in "iu"
    if not whole or not np.array_equal(np.sort(given), np.arange(n_visible)):
        raise ValueError(
            "order must be 'index', 'random' or a permutation of the indices of the visible "
            f"variables, 0 to {n_visible - 1}; got {order!r}"
        )
    return given.astype(np.int64)


class Chain:
    """Base class: draws samples of N models. Subclasses define `run` and `has_zeros`.

    The argument `order` (V,) lists the visible variables in the order in which they are drawn. The
    attribute `order` (N, V) lists for each model first its free variables in this order, then its
    clamped variables.
    """

    #: True if the graph has entries of weight 0.
    has_zeros: bool

    def __init__(self, method, energy, before, order, shape):
        self.method, self.energy, self.before = method, energy, before
        self.states: np.ndarray = np.zeros((*shape, energy.n_variables), energy.state_dtype)
        self.log_prob: np.ndarray = np.zeros(shape)
        free = energy.free[:, order]
        self.order = order[np.argsort(~free, axis=1, kind="stable")]
        self.n_steps = free.sum(axis=1)

    def run(self, n_jobs: int | None) -> None:
        """Draw all samples, and write them to `states` and `log_prob`."""
        raise NotImplementedError

    @property
    def n_iter(self) -> tuple[int, int]:
        """Two numbers of iterations: before the first draw, and before each later draw."""
        first, later = self.method.max_iter, self.method.warm_iter
        return first, first if later is None else later

    def uniforms(self, models, sample):
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

    def scores(self):
        """Return the scores (N, S) of the S samples of each of N models."""
        n, n_samples, width = self.states.shape
        score = np.empty((n, n_samples))
        for rows in row_chunks(n, max(1, BLOCK_ENTRIES // max(1, n_samples * width))):
            size = rows.stop - rows.start
            models = self.energy.rows(np.repeat(np.arange(rows.start, rows.stop), n_samples))
            states = self.states[rows].reshape(size * n_samples, width)
            score[rows] = models.score(states).reshape(size, n_samples)
        return score


class _LaneChain(Chain):
    """Draws samples of a factor graph over 0/1 variables, with the samples as SIMD lanes."""

    #: Class that passes the messages.
    kind: type[Lanes] = Lanes

    def __init__(self, method, energy, before, order, shape):
        super().__init__(method, energy, before, order, shape)
        self.graph = energy
        if not isinstance(energy, FactorGraphEnergy):
            self.graph = FactorGraphEnergy.from_energy(energy)
        self.flat = flat_graph(self.graph)
        self.has_zeros = self.flat.hard

    def run(self, n_jobs):
        """Draw all samples, in groups of models whose messages have the same form."""
        if self.energy.n_models:
            for rows in self.kind.by_form(self.graph, self.method.damping):
                free = self.energy.free[rows].all(axis=1)
                self._run(rows[free], True, n_jobs)
                self._run(rows[~free], False, n_jobs)

    def _run(self, rows, free, n_jobs):
        """Draw all samples of the models `rows`, whose messages have the same form.

        `free` tells whether no variable of these models is clamped. All models then have the same
        clamped variables in each step.
        """
        n_samples, n_edges = self.states.shape[1], max(1, self.flat.n_edges)
        n_lanes = min(self.kind.n_lanes, max(_MIN_LANES, BLOCK_ENTRIES // n_edges))
        at_once = max(1, BLOCK_ENTRIES // (n_edges * n_lanes)) * n_lanes
        for some in row_chunks(len(rows), at_once):
            chunks = [rows[some][part] for part in row_chunks(len(rows[some]), n_lanes)]

            def begin(chunk):
                start = self.kind(self.graph.rows(chunk), SUM, self.method.damping, free)
                start.sweep(self.method.max_iter)
                return start

            starts = ordered_map(begin, chunks, n_jobs)
            blocks = [
                (start, chunk, np.arange(part.start, part.stop))
                for chunk, start in zip(chunks, starts)
                for part in row_chunks(len(chunk) * n_samples, n_lanes)
            ]
            for _ in ordered_map(self._draw, blocks, n_jobs):
                pass

    def _draw(self, block):
        """Draw the samples of a block (start, chunk, lane).

        `start` has the messages of the models `chunk` after the first `max_iter` iterations. `lane`
        has the indices of the samples to draw side by side, sorted by model.
        """
        start, chunk, lane = block
        which, sample = np.divmod(lane, self.states.shape[1])
        models = chunk[which]
        lanes = start.copies(which)
        u = self.uniforms(models, sample)
        every = np.arange(len(lane))
        log_prob = np.zeros(len(lane))
        for step in range(self.n_steps[models].max(initial=0)):
            if step and self.method.warm_iter is None:
                lanes.forget()
                lanes.sweep(self.method.max_iter)
            elif step:
                lanes.sweep(self.method.warm_iter)
            # If a model has fewer free variables than another model, its remaining steps draw
            # clamped variables, which keep their values with probability 1.
            variable = self.order[models, step]
            log_odds = lanes.log_odds(variable).astype(np.float64)
            on = u[every, variable] < expit(log_odds)
            log_prob -= np.logaddexp(0, np.where(on, -log_odds, log_odds))
            lanes.hold(variable, on)
        n_visible = self.energy.n_visible
        states = np.zeros((len(lane), self.energy.n_variables), np.int8)
        states[:, :n_visible] = lanes.held[:, :n_visible]
        if self.energy.n_hidden:
            hidden = slice(n_visible, self.energy.n_variables)
            part = self.energy.rows(models)
            log_odds = part.conditional_log_odds(states[:, None], hidden)[:, 0].astype(np.float64)
            on = u[:, hidden] < expit(log_odds)
            states[:, hidden] = on
            log_prob -= np.logaddexp(0, np.where(on, -log_odds, log_odds)).sum(axis=1)
        self.states[models, sample] = states
        self.log_prob[models, sample] = log_prob


class _IsingChain(_LaneChain):
    """Draws samples of an Ising model, dense or sparse."""

    kind = IsingLanes


class _StateMessages(NamedTuple):
    """Messages of B models or samples."""

    models: CategoricalModels
    beliefs: np.ndarray  # (B, S) probabilities of states, as logarithms if `in_logs`
    good: np.ndarray  # (B,) False if weights underflowed
    in_logs: bool

    def copies(self, index):
        """Return copies of some models, which may be repeated."""
        models = CategoricalModels(*(array[index] for array in self.models))
        return _StateMessages(models, self.beliefs[index], self.good[index], self.in_logs)


class _StateChain(Chain):
    """Draws samples of a factor graph whose arrays have an axis of states.

    A step passes the messages of all samples of a block, draws a variable of each sample, and
    clamps it.
    """

    def __init__(self, method, energy, before, order, shape):
        super().__init__(method, energy, before, order, shape)
        self.has_zeros = energy.has_zeros
        self.graph = StateGraph(energy)
        self.logs = self.graph.kernel_graph(True, sums=True)
        self.weights = self.graph.kernel_graph(False)
        self.fits = self.graph.reach <= MOST_REACH
        self.short = method.damping == 0 and self.graph.is_forest

    @property
    def n_iter(self):
        """Two numbers of sweeps: before the first variable is drawn, and before each later draw."""
        first, later = super().n_iter
        limit = _FOREST_SWEEPS if self.short else max(first, later)
        return min(first, limit), min(later, limit)

    def run(self, n_jobs):
        """Draw all samples, block by block."""
        n_samples, n_messages = self.states.shape[1], max(1, self.graph.n_messages)
        size = max(1, CACHED_ENTRIES // n_messages)
        at_once = max(1, BLOCK_ENTRIES // (n_messages * size)) * size
        # The form of a model's messages does not depend on the other models of the batch.
        for in_logs in (False, True):
            rows = np.flatnonzero(self.fits != in_logs)
            begin = partial(self._begin, in_logs=in_logs)
            for some in row_chunks(len(rows), at_once):
                chunks = [rows[some][part] for part in row_chunks(len(rows[some]), size)]
                blocks = [
                    (start, chunk, np.arange(part.start, part.stop))
                    for start, chunk in zip(ordered_map(begin, chunks, n_jobs), chunks)
                    for part in row_chunks(len(chunk) * n_samples, max(size, _MIN_BLOCK))
                ]
                for _ in ordered_map(self._draw, blocks, n_jobs):
                    pass

    def _begin(self, rows, in_logs):
        """Return the messages of the models `rows` before the first variable is drawn."""
        own = self.graph.own[rows]
        n, one = len(rows), 0.0 if in_logs else 1.0
        message = np.full((n, self.graph.n_messages), one)
        models = CategoricalModels(
            kernel_array(~self.energy.free[rows]), own if in_logs else np.exp(own), message,
            np.zeros(message.shape),
        )  # fmt: skip
        lanes = _StateMessages(models, np.zeros(own.shape), np.ones(n, bool), in_logs)
        self._sweep(lanes, self.n_iter[0])
        return lanes

    def _sweep(self, lanes, n_iter):
        """Pass messages in `n_iter` sweeps, of which the first sweep goes forward."""
        n, graph, found = len(lanes.good), self.graph, lanes.beliefs
        # A tolerance of 0 is never reached, so that the number of sweeps is fixed.
        options = CategoricalOptions(n_iter, 0.0, 0.0, float(self.method.damping), SUM)
        answers = CategoricalAnswers(
            np.zeros(n, np.int64), np.zeros(n, bool), np.ones(n, bool), np.empty((n, 0)), found
        )
        start = np.empty((0, 0))
        if lanes.in_logs:
            pass_logs(
                self.logs, np.ones(len(self.logs.kind)), graph.variables,
                lanes.models, start, options, answers, graph.work(),
            )  # fmt: skip
        else:
            pass_in_lanes(graph, self.weights, lanes.models, options, answers)
            lanes.good[...] &= answers.good

    def _draw(self, block):
        """Draw the samples of a block (start, rows, lane).

        `start` has the messages of the models `rows` before the first variable is drawn. `lane` has
        the indices of the samples to draw side by side, sorted by model.
        """
        start, rows, lane = block
        which, sample = np.divmod(lane, self.states.shape[1])
        models = rows[which]
        lanes = start.copies(which)
        u = self.uniforms(models, sample)
        states = np.zeros((len(lane), self.energy.n_variables), np.int64)
        if self.energy.evidence is not None:
            states[...] = np.nan_to_num(self.energy.evidence[models])
        log_prob, every = np.zeros(len(lane)), np.arange(len(lane))
        for step in range(self.n_steps[models].max(initial=0)):
            if step:
                if self.method.warm_iter is None:
                    lanes.models.message[...] = 0.0 if lanes.in_logs else 1.0
                self._sweep(lanes, self.n_iter[1])
            # If a model has fewer free variables than another model, its remaining steps draw
            # clamped variables, which keep their values with probability 1.
            variable = self.order[models, step]
            place, chance = self._chances(lanes, variable)
            state = _drawn(chance, u[every, variable])
            states[every, variable] = state
            with np.errstate(divide="ignore"):
                log_prob += np.log(chance[every, state])
            self._clamp(lanes, variable, place, state)
        redraw = ~lanes.good
        if redraw.any():
            used, again = np.unique(which[redraw], return_inverse=True)
            again = again.reshape(-1) * self.states.shape[1] + sample[redraw]
            self._draw((self._begin(rows[used], True), rows[used], again))
        good = lanes.good
        self.states[models[good], sample[good]] = states[good]
        self.log_prob[models[good], sample[good]] = log_prob[good]

    def _chances(self, lanes, variable):
        """Return the positions and the probabilities (B, K) of the K states of a variable.

        `variable` (B,) is the index of the variable in each of B samples. The positions are indices
        along the last axis of `lanes.beliefs`, and -1 for states that the variable does not have.
        """
        first, k = self._first_states[variable], self.energy.n_states[variable]
        levels = np.arange(self.energy.n_levels)
        place = np.where(levels < k[:, None], first[:, None] + levels, -1)
        beliefs = np.take_along_axis(lanes.beliefs, place, axis=1)
        chance = np.exp(beliefs) if lanes.in_logs else beliefs
        return place, np.where(place >= 0, chance, 0.0)

    @property
    def _first_states(self):
        """Position (n,) of the first state of each variable in arrays over all states."""
        counts = self.energy.n_states
        return np.cumsum(counts) - counts

    def _clamp(self, lanes, variable, place, state):
        """Clamp a variable of each sample to a state, and reset the messages to the variable."""
        zero, one = (-np.inf, 0.0) if lanes.in_logs else (0.0, 1.0)
        models, every = lanes.models, np.arange(len(variable))
        row, level = np.nonzero(place >= 0)
        weight = np.where(level == state[row], one, zero)
        models.own[row, place[row, level]] = weight
        lanes.beliefs[row, place[row, level]] = weight
        models.held[every, variable] = True
        edge_start, message_start = self.logs.edge_start, self.logs.message_start
        for v in np.unique(variable):
            part = slice(message_start[edge_start[v]], message_start[edge_start[v + 1]])
            models.message[variable == v, part] = one


def _drawn(chance, u):
    """Draw one of K states per sample from probabilities (B, K) and uniform numbers u (B,).

    The interval [0, 1) is divided into a part for each state, beginning with the last state. The
    length of a part is the probability of its state. The state whose part contains u is drawn. With
    two states, state 1 is drawn if u is less than its probability. A state of probability 0 is
    never drawn, unless all probabilities are 0.
    """
    tails = np.cumsum(chance[:, ::-1], axis=1)
    reversed_state = (u[:, None] >= tails).sum(axis=1)
    # Index, counted from the last state, of the lowest state with a positive probability.
    last = chance.shape[1] - 1 - (chance > 0).argmax(axis=1)
    return chance.shape[1] - 1 - np.minimum(reversed_state, last)
