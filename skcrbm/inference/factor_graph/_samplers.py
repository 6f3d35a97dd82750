"""Draw samples from factor graphs by chained belief propagation or perturb-and-max-product."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit

from skcrbm.energies import FactorGraphEnergy
from skcrbm.inference.any_energy._ais import fill_estimate
from skcrbm.inference.any_energy.perturb_and_max_product import answer_by_maxima
from skcrbm.inference.base import empty_result
from skcrbm.inference.factor_graph._flat_graph import (
    fits_odds,
    flat_graph,
    has_large_tables,
    held_values,
    message_limits,
)
from skcrbm.inference.factor_graph._lanes import IsingLanes, Lanes
from skcrbm.inference.factor_graph._large_tables import solve_states
from skcrbm.inference.random_numbers import random_key, uniforms
from skcrbm.kernels.perturbed_maxima import pass_factors, relay_order
from skcrbm.kernels.scalar import MAX, SUM
from skcrbm.utils.limits import BLOCK_ENTRIES
from skcrbm.utils.parallel import one_blas_thread, ordered_map, row_chunks
from skcrbm.utils.validation import kernel_array

# At least this many samples are drawn side by side, even if the arrays of their messages then have
# more than `BLOCK_ENTRIES` entries.
_MIN_LANES = 8
# Index of the stream of random numbers from which the order of the variables is drawn. Each model
# has its own stream for its samples, and the index of that stream is smaller.
_ORDER = 2**63


def solve_bp_chain(method, energy, query):
    """Answer a query about a factor graph; see `BPChain`."""
    if has_large_tables(energy):
        return solve_states(method, energy, query)
    return sample_in_chain(method, energy, query, _LaneChain)


def solve_bp_chain_rbm(method, energy, query):
    """Answer a query about an RBM, as a factor graph with a table for each pair of units."""
    return sample_in_chain(method, energy, query, _LaneChain)


def solve_bp_chain_ising(method, energy, query):
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


def solve_perturb_and_max_product(method, energy, query):
    """Compute "samples" and "log_partition"; see `PerturbAndMaxProduct`.

    Outputs of OR and AND factors get no noise. The messages of each sample are odds if they fit the
    dtype, else logarithms, independently of the other samples.
    """
    if has_large_tables(energy):
        return solve_states(method, energy, query)
    graph = flat_graph(energy)
    norms = graph.norms(energy.n_variables)
    factors = graph.factors
    relay, level = np.zeros(energy.n_variables, bool), np.zeros(0, np.int64)
    if graph.n_tables < len(graph.shift):  # skip the compiler if there are no OR and AND factors
        relay, level = relay_order(factors, energy.n_variables)
    order = graph.n_tables + np.argsort(level, kind="stable")
    noisy = np.ones(energy.n_variables, bool)
    noisy[energy.ors.outputs] = False
    noisy[energy.ands.outputs] = False

    def maximise(rows, noise, message, keep):
        part = energy.rows(rows)
        part = part.with_fields(kernel_array(part.field + noise, energy.dtype))
        states = np.empty(noise.shape, bool)
        sent: Any = np.empty((len(rows), graph.n_edges), energy.dtype) if keep else None
        odds = np.zeros(len(rows), bool)
        if method.damping in (0.0, 0.5):
            odds = fits_odds(graph, norms, part.field, energy.dtype)
        for where, run in ((np.flatnonzero(odds), _as_odds), (np.flatnonzero(~odds), _in_logs)):
            if len(where):
                start = None if message is None else message[where]
                found, after = run(part.rows(where), start)
                states[where] = found
                if keep:
                    sent[where] = after
        return states, sent

    def _as_odds(part, start):
        lanes = Lanes(part, MAX, method.damping)
        if start is not None:
            lanes.go_on_from(start)
        lanes.sweep(method.max_iter)
        return lanes.states, lanes.messages

    def _in_logs(part, start):
        message = np.zeros((part.n_models, graph.n_edges))
        if start is not None:
            message[...] = start
        held = held_values(part)
        belief = np.empty((part.n_models, part.n_variables))
        pass_factors(
            factors, order, relay, kernel_array(part.field, np.float64),
            held if (held >= 0).any() else np.empty((0, part.n_variables), np.int8),
            message_limits(norms, part.field), method.max_iter, float(method.damping), message,
            belief,
        )  # fmt: skip
        return np.where(held < 0, belief >= 0, held == 1), message

    size = Lanes.n_lanes
    return answer_by_maxima(method, energy, query, maximise, (graph.n_edges,), noisy, size)
