"""Compute expectations of the number of positive labels, under RBMs with few hidden units.

Given the hidden units the labels are independent, so p(y | x) is a mixture of products: one product
for each state of the hidden units. The callers need the expectation of a fraction 1 / n, where n is
a number of labels, and compute it by numerical quadrature, see `decoding.expected`. If there are
many labels, unlikely states of the hidden units are left out. Their total probability is at most
`_LEFT_OUT`, which is less than the error of the quadratures. If there are few labels, the
quadratures are exact, and no state is left out.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, logsumexp

from skcrbm.energies import RBMEnergy
from skcrbm.inference.random_numbers import random_key, uniforms
from skcrbm.kernels.mixture_draws import draw_log_weights
from skcrbm.kernels.rbm_mixture import (
    MAX_LOG,
    add_log_weights,
    expected_overlap,
    sum_over_labels,
    sums_of_labels,
)
from skcrbm.utils.limits import AUTO_EXACT_UNITS, CACHED_ENTRIES, LARGE_FIELD
from skcrbm.utils.parallel import ordered_map, row_chunks
from skcrbm.utils.validation import kernel_array

# If there are more than _FEW_LABELS labels, the least probable states of the hidden units are left
# out, with a total probability of at most _LEFT_OUT in each row.
_LEFT_OUT, _FEW_LABELS = 1e-6, 24


def rows_of_small_mixtures(energy) -> np.ndarray:
    """Return a mask (N,): True for the rows for which `LabelMixture` is correct and fast."""
    return rows_with_few_products(energy) & (energy.n_hidden <= energy.n_visible)


def rows_with_few_products(energy) -> np.ndarray:
    """Return a mask (N,): True if p(y | x) of the row is a mixture of few distributions.

    Each state of the hidden units gives a distribution of the mixture, the product of the label
    probabilities. The mask is False for rows with large fields, because sums over the labels of
    such a row lose digits. Each row is checked alone, so that the method that is used for a row
    does not depend on the other rows.
    """
    if type(energy) is not RBMEnergy or energy.n_hidden > AUTO_EXACT_UNITS:
        return np.zeros(energy.n_models, bool)
    norm = np.abs(energy.weights).sum(axis=1, dtype=np.float64)
    found = np.full(energy.n_models, norm.max(initial=0.0) <= MAX_LOG)
    for field in energy.fields:
        found &= np.abs(field).max(axis=1, initial=0.0) <= LARGE_FIELD
    return found


class _Components(NamedTuple):
    """Products of N mixtures over L labels, with a product for each of S hidden states."""

    t: np.ndarray  # (N, L): sigmoid(field), or 0 for clamped labels
    u: np.ndarray  # (N, L): sigmoid(-field), or 1 for clamped labels
    gain: np.ndarray  # (S, L): factor by which a hidden state multiplies the odds of a label
    # (N, S): log-weights of the hidden states, without the terms log(1 + exp(field)) of free labels
    log_weight: np.ndarray


def _components(energy, fields, hidden_fields, free):
    """Return the `_Components` of an energy.

    The fields include the effect of the evidence. `free` (N, L) is False for clamped labels.
    """
    t, u = expit(fields), expit(-fields)
    states = (np.arange(2**energy.n_hidden)[:, None] >> np.arange(energy.n_hidden)) & 1
    weights = energy.weights.astype(np.float64)
    gain = np.exp(weights @ states.T)
    log_weight = np.ascontiguousarray(hidden_fields.astype(np.float64) @ states.T)
    norm = np.abs(weights).sum(axis=1)
    t, u = np.where(free, t, 0.0), np.where(free, u, 1.0)
    add_log_weights(t, u, gain, norm, log_weight)
    return _Components(t, u, np.ascontiguousarray(gain.T), log_weight)


def drawn_log_proba(energy: Any, n_draws: int, seed: int, n_jobs: int | None, labels=None):
    """Return the log-probabilities (N, n_draws) of draws from p(y | x) of each row.

    `rows_with_few_products` must hold for all rows of `energy`, which has no evidence. If `labels`
    (N, L) is given, the second result is the log-probabilities (N,) of these label vectors,
    otherwise None. All log-probabilities are computed in float64, so that they can be compared.

    The draws of a row do not depend on its position in the batch, because all rows use the same
    random numbers. Each hidden state gets a number of draws in proportion to its probability,
    rounded up or down at random. A mean over the draws is then an unbiased estimate, and the choice
    of the hidden states adds almost nothing to its variance.
    """
    key = random_key(seed)
    shift = uniforms(key, [0], 0, 1)[0, 0]
    uniform = uniforms(key, np.arange(n_draws), 1, energy.n_visible)
    weights = kernel_array(energy.weights, np.float64)
    size = max(1, CACHED_ENTRIES // max(n_draws, energy.n_visible, 2**energy.n_hidden))

    def of_rows(rows):
        part = energy.rows(rows)
        fields, hidden = (kernel_array(field, np.float64) for field in part.fields)
        t, u, gain, log_weight = _components(part, fields, hidden, np.ones(fields.shape, bool))
        total = np.asarray(logsumexp(log_weight, axis=1, keepdims=True))
        share = np.exp(log_weight - total).cumsum(axis=1)
        last = np.ceil(n_draws * share / share[:, -1:] - shift).clip(0, n_draws).astype(np.int64)
        last[:, -1] = n_draws
        drawn = np.empty((len(fields), n_draws))
        draw_log_weights(uniform, t, u, gain, last, fields, hidden, weights, drawn)
        log_z = total[:, 0] + np.logaddexp(0, fields).sum(axis=1)
        own = np.zeros(len(fields))
        if labels is not None:
            y = labels[rows].astype(np.float64)
            own = (fields * y).sum(axis=1) + np.logaddexp(0, hidden + y @ weights).sum(axis=1)
        return drawn - log_z[:, None], own - log_z

    chunks = row_chunks(energy.n_models, size)
    parts = list(ordered_map(of_rows, chunks, n_jobs))
    drawn = np.concatenate([part[0] for part in parts] or [np.empty((0, n_draws))])
    own = np.concatenate([part[1] for part in parts] or [np.empty(0)])
    return drawn, None if labels is None else own


class LabelMixture:
    """Distribution of the L labels in each of N rows: a mixture with a part per hidden state.

    In each part the labels are independent.

    `rows_of_small_mixtures` must hold for all rows of `energy`; its evidence may clamp labels.
    `nodes` (Q,) are ascending numbers x in (0, 1) at which the expectations are evaluated.
    """

    marginals: np.ndarray  # (N, L): P(y_i = 1) for each row and label i
    empty: np.ndarray  # (N,): P(|y| = 0), the probability that no label is positive
    log_partition: np.ndarray  # (N,)

    def __init__(self, energy: RBMEnergy, nodes: np.ndarray):
        (fields, hidden_fields), offset = energy.fold_evidence()
        free = energy.free[:, : energy.n_visible]
        fields = kernel_array(fields, np.float64)
        t, u, gain, log_weight = _components(energy, fields, hidden_fields, free)
        if energy.evidence is not None:
            held = energy.evidence[:, : energy.n_visible]
            t, u = np.where(free, t, held), np.where(free, u, 1.0 - held)
        total = np.asarray(logsumexp(log_weight, axis=1, keepdims=True))
        self.log_partition = offset + total[:, 0]
        self.log_partition += np.where(free, np.logaddexp(0, fields), 0.0).sum(axis=1)
        self._t, self._u = t, u
        self._gain = gain
        self._find_states(np.exp(log_weight - total))
        self.nodes = nodes
        self._left = np.concatenate([[1.0], 1.0 - nodes])  # 1 - x for x = 0 and all nodes
        self.marginals = np.zeros(t.shape)
        self._means = np.zeros(len(self._state))
        self._log_rest = np.empty((len(self._state), len(self._left)))
        answers = self.marginals, self._means, self._log_rest
        sum_over_labels(*self._rows, self._weight, self._left, *answers)
        if energy.evidence is not None:
            self.marginals = np.where(free, self.marginals, t)
        self._rest = self._weight[:, None] * np.exp(self._log_rest)
        self.empty = np.add.reduceat(self._rest[:, 0], self._start[:-1]) if len(t) else np.zeros(0)

    @property
    def largest_mean(self) -> np.ndarray:
        """Largest expected number (N,) of positive labels per row, over likely hidden states."""
        return np.maximum.reduceat(self._means, self._start[:-1])

    def inverse_of_fewest(self, share: np.ndarray, factors: np.ndarray) -> np.ndarray:
        """Return the mean (N, K) of f_k(|y|) over the hidden states with the largest expectations.

        Here |y| is the number of positive labels, and ``f_k(m) = sum_q factors[k, q] x_q^m`` for
        `factors` (K, Q) and the nodes x_q. In row n, the hidden states h are sorted by the
        expectation E[f_k(|y|) | h], the largest first, and the first states with a total
        probability of ``share[n]`` are kept. Only a part of the probability of the last kept state
        counts, so that the total is exact. The result is the mean of the expectations over the kept
        states, weighted by their probabilities.
        """
        value = np.exp(self._log_rest[:, 1:]) @ factors.T
        result = np.empty((len(share), len(factors)))
        for n, least in enumerate(share):
            states = slice(self._start[n], self._start[n + 1])
            order = np.argsort(-value[states], axis=0)
            weight = self._weight[states][order]
            part = np.clip(least - (weight.cumsum(axis=0) - weight), 0.0, weight)
            ranked = np.take_along_axis(value[states], order, axis=0)
            result[n] = (part * ranked).sum(axis=0) / part.sum(axis=0)
        return result

    def _find_states(self, proba):
        """Store the likely hidden states per row, given probabilities (N, S) of all S states."""
        order = np.argsort(-proba, axis=1, kind="stable")
        proba = np.take_along_axis(proba, order, axis=1)
        before = np.cumsum(proba, axis=1) - proba
        kept = before < 1.0 - (_LEFT_OUT if self._t.shape[1] > _FEW_LABELS else 0.0)
        kept[:, :1] = True
        self._start = np.concatenate([[0], kept.sum(axis=1).cumsum()])
        self._state = order[kept]
        proba = np.where(kept, proba, 0.0)
        self._weight = (proba / proba.sum(axis=1, keepdims=True))[kept]

    @property
    def _rows(self):
        return self._t, self._u, self._gain, self._start, self._state

    def on(self, labels: np.ndarray) -> np.ndarray:
        """Return ``E[y_i x^(|y| - 1)]`` (N, Q, C) at the Q nodes x, for labels i.

        `labels` (N, C) has the indices i of C labels per row. |y| is the number of positive labels.
        """
        result = np.zeros((*labels.shape, len(self.nodes)))
        rest = np.ascontiguousarray(self._rest[:, 1:])
        sums_of_labels(*self._rows, rest, self._left[1:].copy(), labels, result)
        return result.swapaxes(1, 2)

    def overlap(self, sets: np.ndarray) -> np.ndarray:
        """Return ``E[|y and A| x^|y - A|]`` (N, C, Q) at the Q nodes x, for label sets A.

        `sets` (N, C, L) has C sets A per row, as 0/1. |y and A| is the number of positive labels in
        A, and |y - A| the number of positive labels that are not in A.
        """
        n, n_sets, _ = sets.shape
        first = np.concatenate([[0], np.count_nonzero(sets, axis=2).ravel().cumsum()])
        labels = np.nonzero(sets)[2]
        value = np.zeros((n, n_sets, len(self.nodes)))
        log_rest = np.ascontiguousarray(self._log_rest[:, 1:])
        left = self._left[1:].copy()
        expected_overlap(*self._rows, self._weight, log_rest, left, first, labels, value)
        return value

    def rows(self, index: np.ndarray) -> LabelMixture:
        """Return the mixtures of the rows with the given indices."""
        part = object.__new__(LabelMixture)
        start = self._start.tolist()
        chosen = [np.arange(start[n], start[n + 1]) for n in index.tolist()]
        states = np.concatenate(chosen)
        part.nodes, part._left, part._gain = self.nodes, self._left, self._gain
        part._start = np.concatenate([[0], np.cumsum([len(c) for c in chosen])])
        for name in ("_state", "_weight", "_means", "_log_rest", "_rest"):
            setattr(part, name, getattr(self, name)[states])
        for name in ("_t", "_u", "marginals", "empty", "log_partition"):
            setattr(part, name, getattr(self, name)[index])
        return part
