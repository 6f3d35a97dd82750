"""Exact inference on Ising models: enumerate the states of the free labels, or eliminate labels."""

from dataclasses import replace

import numpy as np
from scipy.special import expit

from skcrbm.energies import FactorGraphEnergy
from skcrbm.inference.base import empty_result, sum_statistics, with_folded_evidence
from skcrbm.inference.exact import elimination
from skcrbm.inference.exact.independent import largest
from skcrbm.inference.exact.parts import answer_in_parts, check_time
from skcrbm.inference.ising.storage import solve_as_matrix
from skcrbm.inference.random_numbers import random_key, uniforms
from skcrbm.kernels.ising_exact import (
    PRODUCT_LIMIT,
    enumerate_ising,
)
from skcrbm.kernels.scalar import MAX, SUM
from skcrbm.utils.limits import MAX_MATRIX_ENTRIES
from skcrbm.utils.parallel import ordered_map, row_chunks
from skcrbm.utils.validation import kernel_array

# Target size of a chunk of models: the number of models times the number of states.
_CHUNK_STATES = 2**18
# The first free labels are called low units. The kernels read the scores of all joint states of the
# low units from a table. The number of low units is limited so that the table fits in the L1 cache.
_MAX_LOW = 10


def eliminates(method, energy):
    """Return True if labels are eliminated one by one, False if their states are enumerated."""
    n_free = int(energy.free.sum(axis=1).max(initial=0))
    if n_free <= method.max_units and energy.n_variables**2 <= MAX_MATRIX_ENTRIES:
        return energy.elimination_is_cheaper
    return energy.couplings_are_sparse or energy.is_eliminated


def solve(method, energy, query):
    """Answer a query of any kind by enumerating the states of the free labels.

    If it takes less time, or if there are too many states, the labels are eliminated one by one.
    """
    if eliminates(method, energy):
        return _eliminate(method, energy, query)
    _check_size(method, energy)
    return solve_as_matrix(_enumerate, method, energy, query)


def k_best(method, energy, query):
    """Return the k best states of each model, and their scores, as two lists.

    All states are enumerated, or the labels are eliminated, as in `solve`.
    """
    if eliminates(method, energy):
        return elimination.k_best(method, FactorGraphEnergy.from_energy(energy), query)
    _check_size(method, energy)
    check_time(energy, query)
    return _k_best_of_all(method, energy.as_dense(), query)


def _check_size(method, energy):
    n_free = int(energy.free.sum(axis=1).max(initial=0))
    if n_free > method.max_units:
        raise ValueError(
            f"'exact' enumerates the free labels; there are {n_free}, and the limit is "
            f"max_units={method.max_units}. Use 'tree_reweighted', 'sum_product', 'mean_field' "
            "or 'gibbs', or Exact(max_units=...) up to 30"
        )


def _enumerate(method, energy, query):
    return answer_in_parts(method, energy, query, sums=_sums, best=_best_states, draw=_draw)


def _eliminate(method, energy, query):
    """Answer a query by an elimination of the labels.

    The statistics of a matrix of couplings are those of all pairs of labels. The elimination is
    repeated with each label clamped to +1.
    """
    fields = elimination.solve_edges(method, energy.as_sparse(), query)
    if "statistics" not in query.returns or energy.couplings_are_sparse:
        return fields

    def means(given):
        asked = replace(query, returns=frozenset({"marginals"}))
        log_odds = elimination.solve_edges(method, given.as_sparse(), asked)["log_odds"]
        on = expit(log_odds.astype(np.float64))
        return on if given.evidence is None else np.where(given.free, on, given.evidence)

    on = means(energy)
    n, n_labels = on.shape
    pairs = np.zeros((n, n_labels, n_labels))
    for i in range(n_labels):
        held = np.full((n, n_labels), np.nan)
        possible = energy.free[:, i]
        held[possible, i] = 1.0
        pairs[:, i] = on[:, [i]] * means(energy.condition(held))
    pairs = (pairs + pairs.transpose(0, 2, 1)) / 2
    if not query.per_example:
        pairs = np.einsum("n,nik->ik", query.sample_weight.astype(np.float64), pairs)
    fields["statistics"] = (pairs.astype(energy.dtype),)
    return fields


@with_folded_evidence
def _sums(method, energy, query):
    """Compute marginals, statistics and log Z."""
    fields = empty_result(energy, query)
    # Statistics need log-odds, too, to compute the statistics of pairs with a clamped label.
    if query.returns & {"marginals", "statistics"}:
        fields["log_odds"] = np.zeros((energy.n_models, energy.n_variables), energy.dtype)
    for group in _groups(energy):
        group.add_sums(query, fields)
    return fields


@with_folded_evidence
def _best_states(method, energy, query):
    """Compute "map" and max-marginals."""
    fields = empty_result(energy, query)
    fields["log_odds"] = np.zeros((energy.n_models, energy.n_variables), energy.dtype)
    for group in _groups(energy):
        group.find_best(query, fields)
    return fields


def _groups(energy):
    """Yield an `_Enumeration` for each group of models that have the same free labels."""
    patterns, group = np.unique(~energy.free, axis=0, return_inverse=True)
    for number, held in enumerate(patterns):
        rows = np.flatnonzero(group.ravel() == number)
        yield _Enumeration(energy, rows, np.flatnonzero(~held))


class _Enumeration:
    """Models of an energy that have the same free labels, in the form that kernels take.

    `rows` (n,) are the indices of the models, and `free` (k,) the indices of the free labels.
    `base` (n,) is the score of the state in which all free labels are off. The other arrays are
    arguments of the kernels.
    """

    def __init__(self, energy, rows, free):
        self.energy, self.rows, self.free = energy, rows, free
        coupling = energy.coupling[np.ix_(free, free)].astype(np.float64)
        field = kernel_array(energy.field[rows][:, free], np.float64)
        n_low = _n_low(coupling)
        low = coupling[:n_low, :n_low]
        pull = 2 * coupling.sum(1)
        self.enumerated = kernel_array(2 * field - pull)
        self.low_field = kernel_array(self.enumerated[:, :n_low] + 2 * low.sum(1))
        self.coupling = kernel_array(4 * coupling[:, :n_low])
        self.high_score = _pair_scores(4 * coupling[n_low:, n_low:])
        # Compute the pair scores with values -1/+1, because their range is half of the range with
        # values 0/1.
        self.low_score = _pair_scores(4 * low)
        self.low_score -= _linear_scores(2 * low.sum(1))
        self.free_units = np.ones(field.shape, bool)
        self.base = coupling.sum() / 2 - field.sum(axis=1)

    def _chunks(self):
        n, k = self.enumerated.shape
        return row_chunks(n, max(1, min(64, _CHUNK_STATES >> k)))

    def find_best(self, query, fields):
        """Write the best states and the max-marginals of the models `self.rows` to `fields`."""
        n, k = self.enumerated.shape
        state, log_odds = np.zeros((n, k), np.int8), np.full((n, k), np.nan)

        def solve(rows):
            self._enumerate_in_logs(MAX, rows, state[rows], log_odds[rows])

        for _ in ordered_map(solve, self._chunks(), query.n_jobs):
            pass
        here = np.ix_(self.rows, self.free)
        fields["assignment"][here] = state
        fields["log_odds"][here] = log_odds

    def add_sums(self, query, fields):
        """Write log Z and log-odds of the models `self.rows` to `fields`, and add statistics."""
        n, k = self.enumerated.shape
        log_partition, log_odds = np.zeros(n), np.zeros((n, k))
        pairs, weight = None, np.ones(n)
        if "statistics" in query.returns:
            pairs = (np.zeros((n, k, k) if query.per_example else (k, k)),)
        if not query.per_example:
            weight = query.sample_weight[self.rows]
        shift = self.low_score.max()
        low_gain = np.exp(self.low_score - shift)

        def solve(rows, statistics):
            enumerate_ising(
                self.enumerated[rows], self.low_field[rows], self.coupling, low_gain,
                self.high_score, weight[rows], pairs is not None, log_partition[rows],
                log_odds[rows], *statistics,
            )  # fmt: skip

        sum_statistics(solve, self._chunks(), query, pairs)
        if "log_odds" in fields:
            self._recompute_log_odds(log_odds)
            fields["log_odds"][np.ix_(self.rows, self.free)] = log_odds
        if "log_partition" in query.returns:
            fields["log_partition"][self.rows] = self.base + shift + log_partition
        if pairs is not None and query.per_example:
            fields["statistics"][0][np.ix_(self.rows, self.free, self.free)] = pairs[0]
        elif pairs is not None:
            fields["statistics"][0][np.ix_(self.free, self.free)] += pairs[0]

    def _recompute_log_odds(self, log_odds):
        """Replace log-odds that are NaN by log-odds that are computed with log-sum-exp."""
        rows = np.flatnonzero(np.isnan(log_odds).any(1))
        if len(rows):
            found = log_odds[rows]
            self._enumerate_in_logs(SUM, rows, np.empty((0, 0), np.int8), found)
            log_odds[rows] = found

    def _enumerate_in_logs(self, outer, rows, state, log_odds):
        """Find the best states of some rows, and compute the log-odds that are NaN."""
        from skcrbm.kernels.arguments import enumeration_work
        from skcrbm.kernels.enumeration import enumerate_states  # imported on first use

        enumerated = self.enumerated[rows]
        (n, k), n_states = enumerated.shape, len(self.low_score)
        enumerate_states(
            MAX, outer, enumerated, self.low_field[rows], self.free_units[rows], self.coupling,
            np.empty((0, n_states)), self.low_score, self.high_score, np.ones(n),
            enumeration_work(k, 0, n_states), state, np.empty(n), log_odds, None,
        )  # fmt: skip


@with_folded_evidence
def _k_best_of_all(method, energy, query):
    """Find the k best states of each model among all its states; see `k_best`."""

    def run(rows):
        labels, score = _scores_of_row(energy, rows.start)
        best = largest(score, query.n_best)
        states = np.zeros((len(best), energy.n_variables), np.int8)
        states[:, labels] = (best[:, None] >> np.arange(len(labels))) & 1
        return states, score[best]

    found = list(ordered_map(run, row_chunks(energy.n_models, 1), query.n_jobs))
    return [states for states, _ in found], [scores for _, scores in found]


@with_folded_evidence
def _draw(method, energy, query):
    """Draw independent samples of each model from the probabilities of all its states."""
    n, n_labels = energy.field.shape
    key = random_key(method.random_state)
    fields = empty_result(energy, query)
    fields["samples"] = np.zeros((n, query.n_samples, n_labels), np.int8)
    if "sample_log_prob" in query.returns:
        fields["sample_log_prob"] = np.zeros((n, query.n_samples))
    for row in range(n):
        labels, score = _scores_of_row(energy, row)
        k = len(labels)
        highest = score.max()
        mass = np.cumsum(np.exp(score - highest))
        u = uniforms(key, [row], 0, query.n_samples)[0]
        number = np.searchsorted(mass, u * mass[-1]).clip(0, 2**k - 1)
        fields["samples"][row][:, labels] = (number[:, None] >> np.arange(k)) & 1
        if "sample_log_prob" in query.returns:
            fields["sample_log_prob"][row] = score[number] - highest - np.log(mass[-1])
    return fields


def _n_low(coupling):
    """Return the number of low units: the first free labels, whose scores are read from a table.

    The number is limited so that exponentials of the pair scores of low units are in range.
    """
    k = min(len(coupling), _MAX_LOW)
    norm = np.abs(np.triu(coupling[:k, :k])).sum(0).cumsum()
    return int(np.count_nonzero(norm <= PRODUCT_LIMIT))


def _linear_scores(field):
    """Return, for each of 2^k states, the sum of `field` (k,) over the units that are on.

    Bit i of the index of a state is the value of unit i.
    """
    scores = np.zeros(1)
    for value in field:
        scores = np.concatenate([scores, scores + value])
    return scores


def _pair_scores(coupling):
    """Return the coupling scores (2^k,) of all states: sums over the pairs of units that are on.

    `coupling` is (k, k). Bit i of the index of a state is the value of unit i.
    """
    scores = np.zeros(1)
    for i in range(len(coupling)):
        scores = np.concatenate([scores, scores + _linear_scores(coupling[i, :i])])
    return scores


def _scores_of_row(energy, row):
    """Return the free labels of a model, and the scores of all their joint states."""
    labels = np.flatnonzero(energy.free[row])
    coupling = energy.coupling[np.ix_(labels, labels)].astype(np.float64)
    return labels, _scores(coupling, energy.field[row, labels].astype(np.float64))


def _scores(coupling, field):
    """Return the scores (2^k,) of all states of -1/+1 labels.

    Bit i of the index of a state is 1 if label i is +1.
    """
    score = np.zeros(1)
    for i, f in enumerate(field):
        pull = np.full(1, f)
        for s in coupling[i, :i]:
            pull = np.concatenate([pull - s, pull + s])
        score = np.concatenate([score - pull, score + pull])
    return score
