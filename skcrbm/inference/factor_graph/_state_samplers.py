"""Draw samples of variables with any number of states.

Chained belief propagation and perturb-and-max-product use the messages of `states`, in which a
sweep visits the variables in turn. If the graph has no cycles and messages are not damped, two
sweeps make the messages exact, so further sweeps are left out.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from skcrbm.inference.any_energy.perturb_and_max_product import StateNoise, answer_by_maxima
from skcrbm.inference.factor_graph._samplers import Chain, sample_in_chain
from skcrbm.inference.factor_graph._state_graph import StateGraph, forest_order
from skcrbm.inference.factor_graph.states import CLIMB_ROUNDS, MOST_REACH
from skcrbm.kernels.arguments import CategoricalAnswers, CategoricalModels, CategoricalOptions
from skcrbm.kernels.categorical_chain import chain_of_logs, chain_of_weights
from skcrbm.kernels.categorical_logs import improve, pass_logs
from skcrbm.kernels.categorical_weights import pass_weights
from skcrbm.kernels.scalar import MAX, SUM
from skcrbm.utils.limits import BLOCK_ENTRIES, CACHED_ENTRIES
from skcrbm.utils.parallel import ordered_map, row_chunks
from skcrbm.utils.validation import kernel_array

# Number of sweeps after which the messages of a forest are exact.
_FOREST_SWEEPS = 2
# A block has at least this many samples.
_MIN_BLOCK = 16
# The search for a perturbed maximum ends when a sweep changes no max-marginal by more than this.
_STILL = 1e-9


def solve_bp_chain(method, energy, query):
    """Answer a query about a `CategoricalGraphEnergy`; see `BPChain`."""
    return sample_in_chain(method, energy, query, _StateChain)


class _Start(NamedTuple):
    """Messages of R models, from which their samples start."""

    rows: np.ndarray  # (R,) indices of the models in the batch
    models: CategoricalModels
    beliefs: np.ndarray  # (R, S)
    in_logs: bool


class _StateChain(Chain):
    """Draws samples of a `CategoricalGraphEnergy`."""

    def __init__(self, method, energy, before, order, shape):
        super().__init__(method, energy, before, order, shape)
        self.has_zeros = energy.has_zeros
        self.graph = StateGraph(energy)
        self.logs, self.weights = self.graph.kernel_graph(True), self.graph.kernel_graph(False)
        self.exponentials = np.exp(self.logs.tables)
        self.fits = self.graph.reach <= MOST_REACH
        self.short = method.damping == 0 and _is_forest(self.graph)

    @property
    def n_iter(self):
        """Numbers of sweeps before the first variable and before each other variable."""
        first, later = super().n_iter
        limit = _FOREST_SWEEPS if self.short else max(first, later)
        return min(first, limit), min(later, limit)

    def run(self, n_jobs):
        """Draw all samples, block by block."""
        n_samples, n_messages = self.states.shape[1], max(1, self.graph.n_messages)
        size = max(1, CACHED_ENTRIES // n_messages)
        at_once = max(1, BLOCK_ENTRIES // (n_messages * size)) * size
        # The form of the messages depends on each model alone, not on the rest of the batch.
        for in_logs in (False, True):
            rows = np.flatnonzero(self.fits != in_logs)
            begin = partial(self._begin, in_logs=in_logs)
            for some in row_chunks(len(rows), at_once):
                chunks = [rows[some][part] for part in row_chunks(len(rows[some]), size)]
                blocks = [
                    (start, np.arange(part.start, part.stop))
                    for start in ordered_map(begin, chunks, n_jobs)
                    for part in row_chunks(len(start.rows) * n_samples, max(size, _MIN_BLOCK))
                ]
                for _ in ordered_map(self._draw, blocks, n_jobs):
                    pass

    def _begin(self, rows, in_logs):
        """Pass the messages of the models `rows` before the first variable is drawn."""
        graph, own = self.graph, self.graph.own[rows]
        n = len(rows)
        empty = np.zeros((n, graph.n_messages))
        models = CategoricalModels(kernel_array(~self.energy.free[rows]), own, empty, empty.copy())
        found = CategoricalAnswers(
            np.zeros(n, np.int64), np.zeros(n, bool), np.zeros(n, bool), np.empty((n, 0)),
            np.zeros(own.shape),
        )  # fmt: skip
        options = CategoricalOptions(self.n_iter[0], 0.0, 0.0, float(self.method.damping), SUM)
        start = np.empty((0, 0))
        if in_logs:
            states = np.zeros((n, self.energy.n_variables), np.int64), np.zeros(n)
            rho = np.ones(len(self.logs.kind))
            pass_logs(
                self.logs, self.exponentials, rho, graph.variables, models, start, options, found,
                states, graph.work(),
            )  # fmt: skip
        else:
            models = models._replace(own=np.exp(own), message=np.ones(empty.shape))
            pass_weights(self.weights, graph.variables, models, start, options, found, graph.work())
        return _Start(rows, models, found.belief, in_logs)

    def _draw(self, block):
        """Draw the samples `lane` of the models of a `_Start`.

        The samples of each model follow each other.
        """
        start, lane = block
        which, sample = np.divmod(lane, self.states.shape[1])
        models = start.rows[which]
        u = self.uniforms(models, sample)
        states = np.zeros((len(lane), self.energy.n_variables), np.int64)
        if self.energy.evidence is not None:
            states[...] = np.nan_to_num(self.energy.evidence[models])
        log_prob = np.zeros(len(lane))
        cold = self.method.warm_iter is None
        sweeps = cold, self.n_iter[1], float(self.method.damping)
        order, n_steps = self.order[start.rows], self.n_steps[start.rows]
        arguments = order, n_steps, sweeps
        if start.in_logs:
            chain_of_logs(
                self.logs, self.exponentials, start.models, start.beliefs, which, *arguments, u,
                states, log_prob, self.graph.work(),
            )  # fmt: skip
        else:
            good = np.zeros(len(lane), bool)
            chain_of_weights(
                self.weights, start.models, start.beliefs, which, *arguments, u, states, log_prob,
                good, self.graph.work(),
            )  # fmt: skip
            if not good.all():
                self._draw_in_logs(start, lane[~good])
                states, log_prob = states[good], log_prob[good]
                models, sample = models[good], sample[good]
        self.states[models, sample] = states
        self.log_prob[models, sample] = log_prob

    def _draw_in_logs(self, start, lane):
        """Draw samples again whose weights underflowed; see `_draw`."""
        number, sample = np.divmod(lane, self.states.shape[1])
        used, place = np.unique(number, return_inverse=True)
        again = self._begin(start.rows[used], True)
        self._draw((again, place.reshape(-1) * self.states.shape[1] + sample))


def _is_forest(graph):
    """Return True if a graph has no cycles."""
    factors = graph.factors
    arity = np.diff(factors.edge_start)
    return forest_order(factors.variables, arity, graph.energy.n_variables) is not None


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
    damping = 0.0 if _is_forest(graph) else float(method.damping)
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
            logs, logs.tables, rho, graph.variables, models, np.empty((0, 0)), options, found, best,
            work,
        )  # fmt: skip
        improve(logs, graph.variables, held, own, *best, CLIMB_ROUNDS, work)
        return states, models.message if keep else None

    size = max(_MIN_BLOCK, CACHED_ENTRIES // max(1, graph.n_messages))
    return answer_by_maxima(
        method, energy, query, maximise, (graph.n_messages,), noisy, size,
        StateNoise(energy.n_states),
    )  # fmt: skip
