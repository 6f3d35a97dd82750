"""Run Gibbs sampling on any energy, by a compiled sweep or by drawing block after block."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np
from scipy.special import expit

from skcrbm.energies import BaseEnergy, IsingEnergy
from skcrbm.energies.states import (
    chain_dtype,
    independent_states,
    means_of_states,
    signs_of,
    unchecked,
    with_evidence,
)
from skcrbm.inference.base import Chains, empty_result, sum_statistics
from skcrbm.inference.ising.storage import with_edges
from skcrbm.inference.random_numbers import random_key, seeds, uniforms
from skcrbm.inference.registry import entry_for
from skcrbm.kernels.gibbs import FactorLists, sweep_categories, sweep_factors, sweep_ising
from skcrbm.kernels.sparse_sweeps import sweep_colours
from skcrbm.utils.limits import CHAIN_UNITS, FORBIDDEN_LOG_ODDS
from skcrbm.utils.parallel import one_blas_thread, ordered_map, row_chunks
from skcrbm.utils.validation import kernel_array

# Default number of chains per model: _CHAINS if the query is for marginals. If the query is for
# samples, it is the number of samples, but at most _MAX_CHAINS.
_CHAINS, _MAX_CHAINS = 10, 100
# If the standard deviation of the mean probabilities of the chains is at most this number, the
# chains count as converged, even if R-hat is large.
_TOLERATED_SPREAD = 1e-3
# A kernel processes at most this many chains side by side (by SIMD instructions), see
# `kernels/gibbs.py`.
_MAX_LANES = 64
# Largest number of variables that a kernel draws in a single call, which takes about a second. If
# there are more draws, they are split into several calls, because Ctrl-C is handled only between
# calls.
_DRAWS_PER_CALL = 2**27


def gibbs_sweep(
    energy: BaseEnergy,
    states: np.ndarray,
    key: Any,
    streams: np.ndarray,
    step: int,
    n_sweeps: int = 1,
) -> tuple[np.ndarray, np.ndarray]:
    """Run Gibbs sweeps; a sweep draws each block of variables in turn, given the other variables.

    The energies in the table `SWEEPS` (at the end of this file) have a compiled sweep, which draws
    the same states as `sweep_blocks`, up to rounding.

    Each of the N models has C chains with the `states` (N, C, n_variables). Clamped variables are
    set to their values. `streams`, of shape (C,) or (N * C,), are the random streams of the chains,
    and `key` is made by `random_key`. `step` is the index of the first sweep, which selects the
    random numbers in each stream; the next sweep has index ``step + 1``.

    Return the new states, in the dtype of `chain_dtype`, and the log-odds from which each variable
    was drawn in the last sweep. The log-odds have the shape of the states, or
    (N, C, n_variables, K) if the variables have up to K states.
    """
    return sweep_for(type(energy))(energy, states, key, streams, step, n_sweeps)


def sweep_for(energy_type: type[BaseEnergy]) -> Callable:
    """Return the function that runs Gibbs sweeps for a class of energies."""
    return SWEEPS[entry_for(SWEEPS, energy_type)]


def repeatable(sweep: Callable) -> Callable:
    """Decorate a function that runs a single sweep, to add the argument `n_sweeps`."""

    @wraps(sweep)
    def sweeps(energy, states, key, streams, step, n_sweeps=1):
        for t in range(step, step + n_sweeps - 1):
            states, _ = sweep(energy, states, key, streams, t)
        return sweep(energy, states, key, streams, step + n_sweeps - 1)

    return sweeps


@repeatable
def sweep_blocks(energy, states, key, streams, step):
    """Run a sweep in NumPy, block by block.

    `gibbs_sweep` calls this function for energies without a compiled sweep.
    """
    n, c, n_variables = states.shape
    u = uniforms(key, streams, step, n_variables)
    # The first axis of `u` has the length N or, if all models use the same random numbers, 1.
    u = u.reshape(len(streams) // c, c, n_variables)
    states = states.astype(chain_dtype(energy))
    log_odds = np.empty((n, c, *energy.belief_shape[1:]), energy.dtype)
    for block in energy.sampling_blocks:
        log_odds[:, :, block] = energy.conditional_log_odds(states, block)
        states[..., block] = energy.draw(log_odds[:, :, block], u[..., block], block)
    return states, log_odds


def start_chains(
    energy: BaseEnergy,
    n_chains: int,
    key: Any,
    streams: np.ndarray,
    beliefs: np.ndarray | None = None,
) -> np.ndarray:
    """Draw initial states (N, C, n_variables) from the marginals `beliefs`, or uniformly.

    Uniformly drawn states of different chains are far apart. If the model has hidden variables,
    only the hidden variables are drawn, because the first sweep draws the visible variables given
    the hidden variables.
    """
    first = energy.n_visible if energy.n_hidden else 0
    u = uniforms(key, streams, 0, energy.n_variables - first)
    u = u.reshape(len(streams) // n_chains, n_chains, energy.n_variables - first)
    states = np.zeros((energy.n_models, n_chains, energy.n_variables), chain_dtype(energy))
    states[..., first:] = independent_states(energy, u, beliefs, first)
    return with_evidence(energy, states)


def solve(method, energy, query):
    """Answer "marginals", "statistics" and "samples" from the states of Gibbs chains."""
    return solve_by_sweeps(method, energy, query, gibbs_sweep)


def solve_by_sweeps(method, energy, query, sweep):
    """Answer a query from Gibbs chains; `sweep` is `gibbs_sweep` or a similar function."""
    fields = empty_result(energy, query)
    with one_blas_thread():
        if query.returns & {"marginals", "statistics"}:
            _average(method, energy, query, fields, sweep)
        if "samples" in query.returns:
            _sample(method, with_edges(energy), query, fields, sweep)
    return fields


def _earlier_n_chains(query):
    """Return the number of chains per model in the result `init`, or None if it has no chains."""
    before = None if query.start is None else query.start.state
    return before.states.shape[1] if isinstance(before, Chains) else None


def _start_from(method, energy, query, n_chains):
    """Return the start of the chains as (key, step, earlier states, beliefs).

    The earlier states are None unless the query continues chains of an earlier call. The beliefs
    (probabilities from which to draw the first states) are None unless the query starts from the
    beliefs of an earlier result.
    """
    before = None if query.start is None else query.start.state
    if isinstance(before, Chains):
        shape = energy.n_models, n_chains, energy.n_variables
        if before.states.shape != shape:
            raise ValueError(
                f"init must contain {n_chains} chains for each of {energy.n_models} models, "
                f"got chains of shape {before.states.shape}"
            )
        return before.key, before.step, before.states, None
    beliefs = None
    if query.start is not None:
        if query.start.log_odds is None:
            raise ValueError(
                "init must contain chains of Gibbs sampling, or beliefs; got the state of another "
                f"method, {type(before).__name__}"
            )
        beliefs = expit(query.start.log_odds)
    return random_key(method.random_state), 0, None, beliefs


def _all_possible(energy, states):
    """Return a mask (N,) of the models whose chains all have states of positive weight."""
    n, n_chains, n_variables = states.shape
    models = energy.rows(np.repeat(np.arange(n), n_chains))
    score = models.score(states.reshape(n * n_chains, n_variables))
    return (score > -np.inf).reshape(n, n_chains).all(axis=1)


def _average(method, energy, query, fields, sweep):
    """Average log-odds and statistics over the sweeps after burn-in, and write them to `fields`."""
    n = energy.n_models
    n_chains = method.n_chains or _earlier_n_chains(query) or _CHAINS
    shape = energy.belief_shape
    key, step, before, beliefs = _start_from(method, energy, query, n_chains)
    burn_in = 0 if before is not None else method.burn_in
    states = np.empty((n, n_chains, energy.n_variables), chain_dtype(energy))
    weight = np.ones(n) if query.per_example else query.sample_weight
    done = step + burn_in + method.max_iter + (before is None)
    fields["state"] = Chains(states, key, done)
    fields["n_iter"][:] = burn_in + method.max_iter
    fields["log_odds"] = np.empty(shape, energy.dtype)
    visited = with_edges(energy)

    def run(rows, statistics):
        part = visited.rows(rows)
        streams = np.arange(n_chains)
        if before is None:
            chance = None if beliefs is None else beliefs[rows]
            state, first = start_chains(part, n_chains, key, streams, chance), 1
        else:
            state, first = with_evidence(part, before[rows]), step
        if burn_in:
            state, _ = sweep(part, state, key, streams, first, burn_in)
        wanted = None
        if "statistics" in query.returns:
            # The form of the couplings decides the shape of the statistics.
            wanted = statistics, unchecked(energy.rows(rows).sum_statistics)
        moments = _Moments(part, n_chains, method.max_iter, weight[rows], wanted)
        for t in range(first + burn_in, first + burn_in + method.max_iter):
            state, log_odds = sweep(part, state, key, streams, t)
            moments.add(state, log_odds)
        states[rows] = state
        fields["log_odds"][rows] = moments.log_odds()
        possible = _all_possible(part, state)
        fields["converged"][rows] = moments.converged(method.max_rhat) & possible

    size = max(1, CHAIN_UNITS // max(1, n_chains * math.prod(shape[1:])))
    sum_statistics(run, row_chunks(n, size), query, fields.get("statistics"))


def _sample(method, energy, query, fields, sweep):
    """Draw samples (N, n_samples, n_variables), and write them to `fields`."""
    n, n_samples, n_variables = energy.n_models, query.n_samples, energy.n_variables
    if method.n_chains is None:
        n_chains = _earlier_n_chains(query) or min(n_samples, _MAX_CHAINS)
    else:
        n_chains = min(n_samples, method.n_chains)
    key, step, before, beliefs = _start_from(method, energy, query, n_chains)
    rounds = -(-n_samples // n_chains)
    first_sweeps = method.thin if before is not None else method.burn_in + 1
    sweeps = first_sweeps + (rounds - 1) * method.thin
    out = np.empty((n, n_samples, n_variables), energy.state_dtype)
    states = np.empty((n, n_chains, n_variables), chain_dtype(energy))

    def run(rows):
        part = energy.rows(rows)
        streams = np.arange(rows.start * n_chains, rows.stop * n_chains)
        if before is None:
            chance = None if beliefs is None else beliefs[rows]
            state, t = start_chains(part, n_chains, key, streams, chance), 1
        else:
            state, t = with_evidence(part, before[rows]), step
        for first in range(0, n_samples, n_chains):
            n_sweeps = method.thin if first else first_sweeps
            state, _ = sweep(part, state, key, streams, t, n_sweeps)
            t += n_sweeps
            last = min(first + n_chains, n_samples)
            out[rows, first:last] = state[:, : last - first]
        states[rows] = state

    size = max(1, CHAIN_UNITS // max(1, n_chains * math.prod(energy.belief_shape[1:])))
    for _ in ordered_map(run, row_chunks(n, size), query.n_jobs):
        pass
    fields["samples"] = out
    if "state" not in fields:
        fields["state"] = Chains(states, key, (1 if before is None else step) + sweeps)
        fields["n_iter"][:] = sweeps


class _Moments:
    """Sums of probabilities over the sweeps after burn-in, for a block of N models.

    ``on`` and ``off`` (2, N, C, n_variables) are the sums of P(unit = 1) and P(unit = 0) in each of
    C chains, and ``squares`` the sums of P(unit = 1)^2. On the first axis, index 0 has the sums
    over the first half of the sweeps, and index 1 the sums over the second half. For categorical
    variables the arrays have a last axis (..., K) for the states.
    """

    def __init__(self, energy, n_chains, n_sweeps, weight, statistics):
        shape = (2, energy.n_models, n_chains, *energy.belief_shape[1:])
        self.on, self.off, self.squares = np.zeros(shape), np.zeros(shape), np.zeros(shape)
        self.half = n_sweeps // 2
        self.n_sweeps = n_sweeps
        self.energy = energy
        self.weight = np.repeat(weight / (n_sweeps * n_chains), n_chains)
        self.statistics = statistics  # arrays, and the function that computes them; or None
        self.done = 0

    def add(self, states, log_odds):
        part = 0 if self.done < self.half else 1
        self._add_probabilities(log_odds, self.on[part], self.off[part], self.squares[part])
        self.done += 1
        if self.statistics is not None:
            # Replace the states of the last block by the probabilities from which they were drawn.
            # This is valid because the other variables have not changed since that draw.
            means = means_of_states(self.energy, states)
            for last in self.energy.sampling_blocks[-1:]:
                means[:, :, last] = expit(log_odds[:, :, last])
            means = means.reshape(len(self.weight), *means.shape[2:])
            totals, sum_statistics_of = self.statistics
            for total, value in zip(totals, sum_statistics_of(means, self.weight), strict=True):
                total += value

    def _add_probabilities(self, log_odds, on, off, squares):
        # Use a kernel for Ising models, because they may have very many variables.
        if isinstance(self.energy, IsingEnergy):
            from skcrbm.kernels.sparse_sweeps import add_probabilities

            add_probabilities(log_odds.ravel(), on.ravel(), off.ravel(), squares.ravel())
            return
        probability = expit(log_odds)
        on += probability
        off += expit(-log_odds)
        squares += np.square(probability, dtype=np.float64)

    def log_odds(self):
        tiny = np.finfo(np.float64).tiny
        on, off = self.on.sum((0, 2)), self.off.sum((0, 2))
        log_odds = np.log(np.maximum(on, tiny)) - np.log(np.maximum(off, tiny))
        return log_odds if log_odds.ndim == 2 else np.where(on > 0, log_odds, -np.inf)

    def converged(self, max_rhat):
        if self.half < 2:  # too few sweeps to compute variances
            return np.zeros(self.on.shape[1], bool)
        lengths = np.array([self.half, self.n_sweeps - self.half])
        lengths = lengths.reshape(2, *(1,) * (self.on.ndim - 1))
        means = self.on / lengths
        within = (self.squares / lengths - means**2).clip(0).mean((0, 2))
        between = means.var((0, 2), ddof=1)
        # `within` is the variance within the half-chains, and `between` the variance of their
        # means. R-hat^2 is (within + between) / within, up to a factor near 1. So R-hat is at most
        # max_rhat if between <= (max_rhat^2 - 1) within.
        excess = between - _TOLERATED_SPREAD**2
        agree = excess <= (max_rhat**2 - 1) * within
        return agree.reshape(len(agree), math.prod(agree.shape[1:])).all(1)


def kernel_order(energy):
    """Return the indices of the variables in the order in which a sweep draws them."""
    variables = np.arange(energy.n_variables)
    return np.concatenate([variables[:0], *(variables[block] for block in energy.sampling_blocks)])


def kernel_chains(energy, states):
    """Return states, fields, clamped values and an array for log-odds, as kernels expect them.

    States and log-odds have the shape (R, L), with a row for each of the R = N C chains and a
    column for each of the L variables. Clamped values are -1 and +1, and 0 for free variables. The
    energy must have a single array of fields.
    """
    n, c, width = states.shape
    held = np.zeros((0, width), np.int8)
    if energy.evidence is not None:
        held = signs_of(energy.evidence)
    drawn = np.array(states.reshape(n * c, width), bool, order="C")
    return drawn, kernel_array(energy.field, np.float64), held, np.empty((n * c, width))


def sweep_chains(kernel, factors, energy, states, key, streams, step, n_sweeps):
    """Run the sweeps of `gibbs_sweep` by a kernel that processes several chains side by side.

    `factors` are the arrays of couplings or factors. The kernel is called as
    ``kernel(order, *factors, field, n_chains, held, seeds, state, log_odds)``.
    """
    drawn, field, held, log_odds = kernel_chains(energy, states)
    order = kernel_order(energy)
    with np.errstate(over="ignore"):  # integers overflow on purpose; NumPy warns if the JIT is off
        for t in range(step, step + n_sweeps):
            kernel(
                order, *factors, field, states.shape[1], kernel_array(held), seeds(key, streams, t),
                drawn, log_odds,
            )  # fmt: skip
    log_odds = log_odds.astype(energy.dtype, copy=False)
    return drawn.reshape(states.shape), log_odds.reshape(states.shape)


def sweep_ising_model(energy, states, key, streams, step, n_sweeps=1):
    """Draw the variables of an `IsingEnergy`; see `gibbs_sweep`.

    There are two kernels. The first processes several chains side by side. The second processes
    several variables side by side: variables of the same colour, which have no couplings with each
    other. The function calls the kernel that can process more items side by side. Couplings in a
    matrix are those of a step of training, in which most pairs are coupled.
    """
    n, c, width = states.shape
    n_chains, lanes = min(n * c, _MAX_LANES), None
    # A graph with 2 E entries of the L^2 in its matrix has at least L^2 / (L^2 - 2 E) colours.
    if energy.couplings_are_sparse:
        few = max(1, width**2 - 2 * energy.n_couplings)
        lanes = energy.lanes if n_chains * width < few else None
    if lanes is None or n_chains * (len(lanes.first) - 1) >= width:
        couplings = energy.coupling_lists()
        return sweep_chains(sweep_ising, couplings, energy, states, key, streams, step, n_sweeps)
    drawn, field, held, log_odds = kernel_chains(energy, states)
    coupling, (field, held) = lane_couplings(energy), by_place(lanes, field, held)
    for steps in sweeps_per_call(drawn.size, n_sweeps):
        parts = [seeds(key, streams, t) for t in range(step + steps.start, step + steps.stop)]
        with np.errstate(
            over="ignore"
        ):  # integers overflow on purpose; NumPy warns if the JIT is off
            sweep_colours(lanes, coupling, field, c, held, np.array(parts), drawn, log_odds)
    log_odds = log_odds.astype(energy.dtype, copy=False)
    return drawn.reshape(states.shape), log_odds.reshape(states.shape)


def lane_couplings(energy):
    """Return the coupling (float64) of each entry of `energy.lanes`; 0 for empty entries."""
    return np.append(energy.edge_coupling, 0).astype(np.float64)[energy.lanes.edge]


def by_place(lanes, *arrays):
    """Sort the columns of arrays (N, L) by the colours of the variables, as in `lanes.order`."""
    return tuple(np.ascontiguousarray(array[:, lanes.order]) for array in arrays)


def sweeps_per_call(n_variables, n_sweeps):
    """Split the sweeps into slices, so that no call of a kernel takes more than about a second."""
    return row_chunks(n_sweeps, max(1, _DRAWS_PER_CALL // max(1, n_variables)))


def sweep_factor_graph(energy, states, key, streams, step, n_sweeps=1):
    """Draw the variables of a `FactorGraphEnergy`; see `gibbs_sweep`."""
    if not energy.binary:
        return _sweep_states(energy, states, key, streams, step, n_sweeps)
    lists = _factor_lists(energy, FORBIDDEN_LOG_ODDS if energy.has_zeros else 0.0)
    return sweep_chains(sweep_factors, (lists,), energy, states, key, streams, step, n_sweeps)


def _sweep_states(energy, states, key, streams, step, n_sweeps):
    """Draw the variables of a factor graph whose arrays have an axis of states."""
    n, c, width = states.shape
    drawn = np.array(states.reshape(n * c, width), np.int32, order="C")
    log_odds = np.full((n * c, width, energy.n_levels), -np.inf)
    order, lists, fields = kernel_order(energy), _factor_lists(energy, 0.0), energy.log_fields()
    with np.errstate(over="ignore"):  # integers overflow on purpose; NumPy warns if the JIT is off
        for t in range(step, step + n_sweeps):
            sweep_categories(
                order, lists, energy.n_states, fields, c, seeds(key, streams, t), drawn, log_odds
            )
    log_odds = log_odds.reshape(n, c, width, energy.n_levels)
    return drawn.reshape(n, c, width).astype(energy.state_dtype), log_odds.astype(energy.dtype)


def _factor_lists(energy, forbidden):
    """Return the lists of the factors of each variable, as the named tuple that kernels take.

    Given the other variables, some factors may forbid the value 0 of a variable, and other factors
    the value 1. Each of these factors then changes the log-odds by `forbidden`, away from the value
    that it forbids; see `FORBIDDEN_LOG_ODDS`.
    """
    there = energy.graph.adjacency
    return FactorLists(
        there.start, there.factor, there.weight, there.first_entry,
        kernel_array(energy.log_potentials, np.float64), there.at_zero, there.output, forbidden,
    )  # fmt: skip


#: Maps a class of energies to its Gibbs sweep; see `gibbs_sweep`.
SWEEPS = {
    "BaseEnergy": sweep_blocks,
    "IsingEnergy": sweep_ising_model,
    "FactorGraphEnergy": sweep_factor_graph,
}
