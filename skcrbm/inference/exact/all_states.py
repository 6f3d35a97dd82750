"""Exact inference on any energy: compute the scores of all states of its free variables."""

from typing import Any

import numpy as np
from scipy.special import logsumexp

from skcrbm.energies.states import unchecked
from skcrbm.inference.base import ContradictionError, empty_result
from skcrbm.inference.exact.independent import largest
from skcrbm.inference.random_numbers import random_key, uniforms
from skcrbm.utils.limits import MAX_GENERIC_UNITS
from skcrbm.utils.parallel import one_blas_thread, ordered_map, row_chunks


def solve(method, energy, query):
    """Answer any query, one model after the other."""
    _check_size(method, energy)
    fields = empty_result(energy, query)
    shape = energy.n_models, energy.n_variables
    if query.returns & {"marginals", "map", "marginal_map"}:
        fields["log_odds"] = np.empty(shape, energy.dtype)
    if "map_bound" in query.returns:
        fields["map_bound"], fields["gap"] = np.empty(shape[0]), np.zeros(shape[0])
    if "samples" in query.returns:
        fields["samples"] = np.empty((shape[0], query.n_samples, shape[1]), np.int8)
    key = random_key(method.random_state) if "samples" in query.returns else None
    if "sample_log_prob" in query.returns:
        fields["sample_log_prob"] = np.empty((shape[0], query.n_samples))
    weight = np.ones(shape[0]) if query.per_example else query.sample_weight

    def run(rows):
        model = Enumerated(energy, rows.start)
        n = rows.start
        if "log_partition" in query.returns:
            fields["log_partition"][n] = model.log_z + model.offset
        if "map" in query.returns or "marginal_map" in query.returns:
            model.find_best(fields, n, "marginal_map" in query.returns)
        if "map_bound" in query.returns:
            fields["map_bound"][n] = model.score.max() + model.offset
        if "marginals" in query.returns:
            fields["log_odds"][n] = model.log_odds(logsumexp)
        if "samples" in query.returns:
            u = uniforms(key, [n], 0, query.n_samples)[0]
            drawn = model.draw(u)
            fields["samples"][n] = model.states[drawn]
            if "sample_log_prob" in query.returns:
                fields["sample_log_prob"][n] = model.score[drawn] - model.log_z
        if "statistics" in query.returns:
            return model.statistics()
        return ()

    with one_blas_thread():
        rows = row_chunks(shape[0], 1)
        for n, parts in enumerate(ordered_map(run, rows, query.n_jobs)):
            for total, part in zip(fields.get("statistics", ()), parts):
                if query.per_example:
                    total[n] = part
                else:
                    total += weight[n] * part
    return fields


def k_best(method, energy, query):
    """Return the k best states of each model, and their scores, as two lists."""
    _check_size(method, energy)

    def run(rows):
        model = Enumerated(energy, rows.start)
        best = largest(model.score, query.n_best)
        return model.states[best], model.score[best]

    with one_blas_thread():
        found = list(ordered_map(run, row_chunks(energy.n_models, 1), query.n_jobs))
    return [states for states, _ in found], [scores for _, scores in found]


def _check_size(method, energy):
    """Raise a ValueError if a model has too many free variables to enumerate their states."""
    limit = min(method.max_units, MAX_GENERIC_UNITS)
    n_free = int(energy.free.sum(axis=1).max(initial=0))
    if n_free > limit:
        raise ValueError(
            f"'exact' enumerates the free variables of a {type(energy).__name__}; there are "
            f"{n_free}, and the limit is {limit}. Use 'gibbs' instead"
        )


class Enumerated:
    """All states of model `n` that agree with the evidence, and their scores and probabilities."""

    def __init__(self, energy, n):
        part, offset = energy.rows([n]).without_held_fields()
        # The scores do not contain the fields of clamped variables; `offset` is the sum of these
        # fields.
        self.energy, self.offset = part, float(offset[0])
        free = np.flatnonzero(part.free[0])
        self.n_free_visible = int(np.count_nonzero(free < energy.n_visible))
        # All states (K, n_variables), in the order of binary numbers; the first variable changes
        # fastest.
        self.states = np.zeros((2 ** len(free), energy.n_variables), np.int8)
        self.states[:, free] = (np.arange(len(self.states))[:, None] >> np.arange(len(free))) & 1
        if part.evidence is not None:
            held = ~part.free[0]
            self.states[:, held] = part.evidence[0, held]
        self.score = unchecked(part.rows(np.zeros(len(self.states), int)).score)(self.states)
        log_z: Any = logsumexp(self.score)
        self.log_z = float(log_z)
        if self.log_z == -np.inf:
            raise ContradictionError(int(n))
        self.probability = np.exp(self.score - self.log_z)

    def log_odds(self, reduce, score=None):
        """Return the log-odds (n_variables,) of marginals or max-marginals.

        For each value of a variable, `reduce` combines the scores of all states with this value:
        logsumexp for marginals, max for max-marginals.
        """
        score = self.score if score is None else score
        log_odds = np.empty(self.states.shape[1])
        for i, on in enumerate(self.states.T == 1):
            above = reduce(score[on]) if on.any() else -np.inf
            below = reduce(score[~on]) if not on.all() else -np.inf
            log_odds[i] = above - below if above > -np.inf or below > -np.inf else 0.0
        return log_odds

    def find_best(self, fields, n, marginal):
        """Write the best state and the max-marginals of model n to `fields`.

        If `marginal` is True, the hidden variables are summed out.
        """
        score = self.score
        # bit i of the index of a state is the value of free variable i; the hidden variables are
        # last
        if marginal:
            n_visible_states = 1 << self.n_free_visible
            summed: Any = logsumexp(score.reshape(-1, n_visible_states), axis=0)
            score = np.tile(summed, len(score) // n_visible_states)
        best = np.flatnonzero(score == score.max())
        best = best[self.score[best].argmax()]
        fields["assignment"][n] = self.states[best]
        fields["log_odds"][n] = self.log_odds(np.max, score)

    def statistics(self):
        """Return the expected sufficient statistics."""
        return unchecked(self.energy.sum_statistics)(self.states, self.probability)

    def draw(self, u):
        """Draw S states with the uniform random numbers u (S,), and return their indices."""
        mass = np.cumsum(self.probability)
        return np.searchsorted(mass, u * mass[-1]).clip(0, len(mass) - 1)
