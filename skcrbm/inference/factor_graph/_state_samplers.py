"""Draw samples of variables with any number of states.

Chained belief propagation and perturb-and-max-product pass the messages of `states.py`, in which a
sweep visits the variables in turn. If the graph has no cycles and messages are not damped, messages
are exact after two sweeps, and further sweeps are skipped.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from skcrbm.inference.any_energy.perturb_and_max_product import StateNoise, answer_by_maxima
from skcrbm.inference.factor_graph._samplers import Chain, sample_in_chain
from skcrbm.inference.factor_graph._state_graph import StateGraph
from skcrbm.inference.factor_graph.states import CLIMB_ROUNDS, MOST_REACH, pass_in_lanes
from skcrbm.kernels.arguments import CategoricalAnswers, CategoricalModels, CategoricalOptions
from skcrbm.kernels.categorical_logs import improve, pass_logs
from skcrbm.kernels.scalar import MAX, SUM
from skcrbm.utils.limits import BLOCK_ENTRIES, CACHED_ENTRIES
from skcrbm.utils.parallel import ordered_map, row_chunks
from skcrbm.utils.validation import kernel_array

# Number of sweeps after which the messages of a forest are exact.
_FOREST_SWEEPS = 2
# Messages of at least this number of samples are computed together, if there are enough samples.
_MIN_BLOCK = 16
# The search for a perturbed maximum ends if a sweep changes no max-marginal by more than this
# number.
_STILL = 1e-9


def solve_bp_chain(method, energy, query):
    """Answer a query about a `CategoricalGraphEnergy`; see `BPChain`."""
    return sample_in_chain(method, energy, query, _StateChain)


class _Lanes(NamedTuple):
    """Messages of B models or samples."""

    models: CategoricalModels
    beliefs: np.ndarray  # (B, S) probabilities of states, as logarithms if `in_logs`
    good: np.ndarray  # (B,) False if weights underflowed
    in_logs: bool

    def copies(self, index):
        """Return copies of some models, which may be repeated."""
        models = CategoricalModels(*(array[index] for array in self.models))
        return _Lanes(models, self.beliefs[index], self.good[index], self.in_logs)


class _StateChain(Chain):
    """Draws samples of a `CategoricalGraphEnergy`.

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
        lanes = _Lanes(models, np.zeros(own.shape), np.ones(n, bool), in_logs)
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
            states = np.zeros((n, self.energy.n_variables), np.int64), np.zeros(n)
            pass_logs(
                self.logs, np.ones(len(self.logs.kind)), graph.variables,
                lanes.models, start, options, answers, states, graph.work(),
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


def solve_perturb_and_max_product(method, energy, query):
    """Compute "samples" and "log_partition"; see `PerturbAndMaxProduct`.

    Outputs of OR and AND factors get no noise.
    """
    graph = StateGraph(energy)
    logs = graph.kernel_graph(True)
    rho = np.ones(len(logs.kind))
    noisy = np.ones(energy.n_variables, bool)
    noisy[energy.ors.outputs] = False
    noisy[energy.ands.outputs] = False
    damping = 0.0 if graph.is_forest else float(method.damping)
    options = CategoricalOptions(method.max_iter, _STILL, _STILL, damping, MAX)

    def maximise(rows, noise, message, keep):
        n = len(rows)
        own = kernel_array(graph.own[rows] + noise[:, graph.has_state])
        sent = np.zeros((n, graph.n_messages))
        given: Any = np.zeros(sent.shape) if message is None else message
        held = kernel_array(~energy.free[rows])
        models = CategoricalModels(held, own, kernel_array(given, np.float64), sent)
        found = CategoricalAnswers(
            np.zeros(n, np.int64), np.zeros(n, bool), np.zeros(n, bool), np.empty((n, 0)),
            np.zeros(own.shape),
        )  # fmt: skip
        states = np.zeros((n, energy.n_variables), np.int64)
        best, work = (states, np.full(n, -np.inf)), graph.work()
        pass_logs(
            logs, rho, graph.variables, models, np.empty((0, 0)), options, found, best,
            work,
        )  # fmt: skip
        improve(logs, graph.variables, held, own, *best, CLIMB_ROUNDS, work)
        return states, models.message if keep else None

    size = max(_MIN_BLOCK, CACHED_ENTRIES // max(1, graph.n_messages))
    return answer_by_maxima(
        method, energy, query, maximise, (graph.n_messages,), noisy, size,
        StateNoise(energy.n_states),
    )  # fmt: skip
