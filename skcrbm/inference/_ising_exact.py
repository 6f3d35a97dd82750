"""Exact inference on pairwise Boltzmann machines: tables, groups of rows, chunks."""

import numpy as np

from skcrbm._kernels.ising_exact import (
    PRODUCT_LIMIT,
    best_ising,
    enumerate_ising,
    ising_log_odds,
)
from skcrbm.energies._base import PINNED_OFF
from skcrbm.inference._base import add_pairwise, empty_result
from skcrbm.utils._parallel import ordered_map, row_chunks
from skcrbm.utils._validation import kernel_array

_CHUNK_STATES = 2**18
# Low units at most: a table of their states stays in the L1 cache.
_MAX_LOW = 10


def enumerate_states(energy, query, max_units):
    """Answer a query about an `IsingEnergy` by visiting the states of its free labels.

    Parameters
    ----------
    energy : IsingEnergy
    query : Query
    max_units : int
        Free labels at most.

    Returns
    -------
    dict of `InferenceResult` fields

    Raises
    ------
    ValueError
        If a model has more free labels.
    """
    fields = empty_result(energy, query)
    pinned = energy.field <= PINNED_OFF
    n_free = (~pinned).sum(1).max(initial=0)
    if n_free > max_units:
        raise ValueError(
            f"'exact' enumerates the free labels, of which there are {n_free}; the limit is "
            f"max_units={max_units}. Use 'tree_reweighted', 'sum_product' or 'mean_field', or "
            "Exact(max_units=...) up to 30"
        )
    fields["log_odds"][pinned] = -np.inf
    # Models with the same free labels are solved together, on those labels alone.
    patterns, group = np.unique(pinned, axis=0, return_inverse=True)
    for number, pattern in enumerate(patterns):
        rows = np.flatnonzero(group.ravel() == number)
        _Enumeration(energy, rows, np.flatnonzero(~pattern)).answer(query, fields)
    return fields


class _Enumeration:
    """The models `rows` of an energy, whose free labels are `free` (k,); the others are -1.

    Attributes
    ----------
    base : float
        Score of the couplings with all labels off.
    enumerated, low_field, coupling, low_score, high_score
        As in the kernels.
    """

    def __init__(self, energy, rows, free):
        self.energy, self.rows, self.free = energy, rows, free
        coupling = energy.coupling.astype(np.float64)
        field = 2 * energy.field[rows][:, free].astype(np.float64)
        inner = coupling[np.ix_(free, free)]
        n_low = _n_low(inner)
        low = inner[:n_low, :n_low]
        pull = 2 * coupling[free].sum(1)
        self.enumerated = kernel_array(field - pull)
        self.low_field = kernel_array(field[:, :n_low] - pull[:n_low] + 2 * low.sum(1))
        self.coupling = kernel_array(4 * inner[:, :n_low])
        self.high_score = _pair_scores(4 * inner[n_low:, n_low:])
        # Among low units in -1/+1, where the range of the table is half of that in 0/1.
        self.low_score = _pair_scores(4 * low)
        self.low_score -= _linear_scores(2 * low.sum(1))
        self.base = coupling.sum() / 2

    def answer(self, query, fields):
        """Fill the fields of these rows; add up pairwise beliefs."""
        states = "map" in query.returns
        if states:
            self._best_states(query, fields)
        if query.returns - {"map"}:
            self._sums(query, fields)

    def _chunks(self):
        n, k = self.enumerated.shape
        return row_chunks(n, max(1, min(64, _CHUNK_STATES >> k)))

    def _best_states(self, query, fields):
        n, k = self.enumerated.shape
        state, log_odds = np.empty((n, k), np.int8), np.empty((n, k))

        def solve(rows):
            best_ising(
                self.enumerated[rows], self.low_field[rows], self.coupling, self.low_score,
                self.high_score, state[rows], log_odds[rows],
            )  # fmt: skip

        for _ in ordered_map(solve, self._chunks(), query.n_jobs):
            pass
        here = np.ix_(self.rows, self.free)
        fields["assignment"][here] = state
        fields["log_odds"][here] = log_odds

    def _sums(self, query, fields):
        n, k = self.enumerated.shape
        log_partition, log_odds = np.empty(n), np.empty((n, k))
        pairs = None
        if "pairwise" in query.returns:
            pairs = np.zeros((n, k, k) if query.pairwise == "per_example" else (k, k))
        weight = np.ones(n)
        if query.pairwise == "sum":
            weight = query.sample_weight[self.rows]
        shift = self.low_score.max()
        low_gain = np.exp(self.low_score - shift)

        def solve(rows, pairwise_sum):
            enumerate_ising(
                self.enumerated[rows], self.low_field[rows], self.coupling, low_gain,
                self.high_score, weight[rows], pairs is not None, log_partition[rows],
                log_odds[rows], pairwise_sum,
            )  # fmt: skip

        add_pairwise(solve, self._chunks(), query, pairs)
        if query.returns & {"marginals", "pairwise"}:  # pairs with a clamped label need them
            self._extreme_log_odds(log_odds)
            fields["log_odds"][np.ix_(self.rows, self.free)] = log_odds
        if "log_partition" in query.returns:
            base = self.base + shift + self.energy.base_score()[self.rows]
            fields["log_partition"][self.rows] = base + log_partition
        if pairs is not None and query.pairwise == "per_example":
            fields["pairwise"][np.ix_(self.rows, self.free, self.free)] = pairs
        elif pairs is not None:
            fields["pairwise"][np.ix_(self.free, self.free)] += pairs

    def _extreme_log_odds(self, log_odds):
        """Compute again, in logs, the log-odds that are NaN."""
        for row in np.flatnonzero(np.isnan(log_odds).any(1)):
            units = np.flatnonzero(np.isnan(log_odds[row]))
            value = np.empty(len(units))
            ising_log_odds(
                units, self.enumerated[row], self.low_field[row], self.coupling,
                self.low_score, self.high_score, value,
            )  # fmt: skip
            log_odds[row, units] = value


def _n_low(coupling):
    """Choose the number of low units: the table of their pair scores must not range too widely."""
    k = min(len(coupling), _MAX_LOW)
    reach = np.abs(np.triu(coupling[:k, :k])).sum(0).cumsum()
    return int(np.count_nonzero(reach <= PRODUCT_LIMIT))


def _linear_scores(field):
    """Sum of field (k,) over the units on, for all states (2^k,), unit 0 fastest."""
    scores = np.zeros(1)
    for value in field:
        scores = np.concatenate([scores, scores + value])
    return scores


def _pair_scores(coupling):
    """Sum of coupling (k, k) over the pairs of units on, for all states (2^k,)."""
    scores = np.zeros(1)
    for i in range(len(coupling)):
        scores = np.concatenate([scores, scores + _linear_scores(coupling[i, :i])])
    return scores
