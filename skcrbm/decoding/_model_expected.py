"""Find the labels with the largest expected Jaccard index or F1 under a model of p(y | x)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import partial as bind

import numpy as np
from scipy.special import log_expit, softmax

from skcrbm.decoding._top_f1 import top_f1
from skcrbm.decoding.expected import (
    SIZES_AT_ONCE,
    best_but_empty,
    best_top_labels,
    f1_factors,
    first_k,
    independent_top_f1,
    independent_top_jaccard,
    inverse_nodes,
    jaccard,
    maximize_f1,
)
from skcrbm.decoding.posterior import Posterior
from skcrbm.energies.states import unchecked
from skcrbm.inference.rbm.mixture import LabelMixture, rows_of_small_mixtures
from skcrbm.inference.running import run_inference
from skcrbm.utils.limits import BLOCK_ENTRIES
from skcrbm.utils.parallel import one_blas_thread, ordered_map, row_chunks

# Constants of `_seen_factor`. Models typically give the label sets seen in fit a total probability
# of about 4/5 in a new row, which means odds of 4 : 1 (_MASS_ODDS). _MAX_FACTOR is the largest
# factor by which their probabilities are multiplied.
_MASS_ODDS, _MAX_FACTOR = 4.0, 4.0
# The candidates of `decode_expected_jaccard` are the _SEEN_CANDIDATES most probable label sets seen
# in fit and, for each s in _SIZES, the vector of the k + s most probable labels. Here k is the
# number of labels that would be best if labels were independent.
_SEEN_CANDIDATES, _SIZES = 16, (-1, 0, 1)
# If the factor of the label sets seen in fit is 1, the sets are candidates only if the array of all
# sets has at most this number of entries. For a larger array, their comparison would take most of
# the time of the rule.
_MOST_SEEN = 2**21
# Logarithms are clipped to this number before they are exponentiated, so that the exponential does
# not overflow. Larger logarithms occur only as rounding errors of log-weights beyond 1e15.
_LARGE = 700.0


def decode_expected_f1(posterior: Posterior, zero_division: float) -> np.ndarray:
    """Return the output vectors (N, V) with the largest expected F1 among all output vectors.

    If inference is exact, the expectation is under p(v | x), given the known outputs. With any
    other inference method the outputs are treated as independent, with the marginals that the
    method computes. The rule does not use an approximate joint distribution, because it would need
    exp(log Z), which amplifies the error of log Z. See `decode_marginals` for the accuracy.
    """
    n_labels = posterior.energy.n_visible

    def decide(model, allow_empty):
        return model.best_f1(zero_division, allow_empty)

    n_nodes = len(inverse_nodes(2 * n_labels)[0])
    return _by_rows(posterior, decide, n_labels * max(SIZES_AT_ONCE, n_nodes))


def decode_expected_jaccard(posterior: Posterior, zero_division: float) -> np.ndarray:
    """Return the candidates (N, V) with the largest expected Jaccard index.

    The candidates are:

    - the vectors of the k - 1, k and k + 1 most probable outputs, where k is the best number if
      outputs are independent;
    - the best of the 16 most probable label sets seen in fit, except if all sets have more than two
      million entries in total and the factor described below is 1;
    - the empty vector, if `allow_empty` is True.

    The expectation is the same as in `decode_expected_f1`, with one exception: the probabilities of
    label sets seen in fit are multiplied by a factor of up to four, see `_seen_factor`.
    """
    factor = _seen_factor(posterior.unseen_share)
    sets = posterior.label_sets
    if factor == 1.0 and sets.size > _MOST_SEEN:
        sets = sets[:0]
    sets = sets.astype(np.float64)
    n_labels = posterior.energy.n_visible

    def decide(model, allow_empty):
        seen, share = model.seen(sets, factor)
        order = np.argsort(-model.marginals, axis=1, kind="stable")
        by_rank = np.take_along_axis(model.marginals, order, axis=1)
        value = independent_top_jaccard(by_rank, zero_division)
        k = 1 + value[:, 1:].argmax(axis=1)
        candidates = [first_k(order, np.clip(k + d, 1, n_labels)) for d in _SIZES]
        if len(sets):
            candidates.append(_best_seen(sets, seen, zero_division))
        candidates = model.with_known(np.stack(candidates, axis=1).astype(np.float64))
        value = (1 - share[:, None]) * model.jaccard(candidates)
        if len(sets):
            value += share[:, None] * _expected(sets, seen, candidates, zero_division)
        empty = (1 - share) * model.empty + share * (seen @ ~sets.any(axis=1))
        candidates = np.concatenate([np.zeros_like(candidates[:, :1]), candidates], axis=1)
        value = np.column_stack([zero_division * empty, value])
        possible = model.marginals.any(axis=1)
        best = best_but_empty(value, ~candidates.any(axis=2), possible, allow_empty)
        return np.take_along_axis(candidates, best[:, None, None], axis=1)[:, 0]

    entries = _SEEN_CANDIDATES * max(n_labels, len(sets), len(inverse_nodes(n_labels)[0]))
    return _by_rows(posterior, decide, entries)


def _by_rows(posterior, decide, entries):
    """Return the labels that ``decide(model, allow_empty)`` chooses, computed in blocks of rows.

    `model` is the `_Model` of a block of rows, and the result is (N, V) for N rows and V outputs.
    `entries` is the number of array entries that a row needs; it determines the size of the blocks.
    """
    energy = posterior.energy
    result = np.empty((energy.n_models, energy.n_visible), np.int8)
    exact = posterior.method.name == "exact"
    small = rows_of_small_mixtures(energy) if exact else np.zeros(energy.n_models, bool)
    # `_Independent` and `_Joint` already use threads, in `infer`.
    kinds: list[tuple[type[_Model], np.ndarray, int | None]] = [
        (_Joint if exact else _Independent, np.flatnonzero(~small), None),
        (_Mixture, np.flatnonzero(small), posterior.n_jobs),
    ]
    for kind, rows, n_jobs in kinds:

        def run(part, kind=kind, rows=rows):
            model = kind(posterior.rows(rows[part]))
            result[rows[part]] = model.with_known(decide(model, posterior.allow_empty))

        chunks = row_chunks(len(rows), max(1, BLOCK_ENTRIES // entries))
        with one_blas_thread():
            for _ in ordered_map(run, chunks, n_jobs):
                pass
    return result


def _seen_factor(unseen_share):
    """Return the factor by which the probability of a label set seen in fit is multiplied.

    `unseen_share` is the Good-Turing estimate of the share of new rows whose label set was not seen
    in fit. Models typically give all seen sets together odds of 4 : 1. The factor raises these odds
    to the odds that follow from the estimate, for example to 9 : 1 if a tenth of the new rows have
    unseen sets.

    The factor is limited to [1, 4]. In experiments on splits of training rows, a larger factor did
    not help, and any factor above 1 hurt if a third of the label sets were new.
    """
    odds = (1 - unseen_share) / max(unseen_share, 1e-9)
    return min(max(odds / _MASS_ODDS, 1.0), _MAX_FACTOR)


def _expected(sets, weight, candidates, zero_division):
    """Return the expected Jaccard index (N, C) of C candidate label vectors for each of N rows.

    `candidates` is (N, C, L) for L labels. The true label vector of a row is one of the `sets` (K,
    L), with the probabilities `weight` (N, K).
    """
    return (jaccard(candidates, sets, zero_division) @ weight[:, :, None])[:, :, 0]


def _best_seen(sets, weight, zero_division):
    """Return, for each of N rows, the label set with the largest expected Jaccard index, (N, L).

    The true label vector of a row is one of the `sets` (K, L), with the probabilities `weight` (N,
    K). The `_SEEN_CANDIDATES` most probable sets are compared.
    """
    n_kept = min(_SEEN_CANDIDATES, len(sets))
    # Use a stable sort, so that the order of ties does not depend on the other rows of the batch.
    kept = np.argsort(-weight, axis=1, kind="stable")[:, :n_kept]
    value = _expected(sets, weight, sets[kept], zero_division)
    return sets[kept[np.arange(len(kept)), value.argmax(axis=1)]]


class _Model(ABC):
    """Base class of distributions over the label vectors of N rows, given the known outputs.

    There are L labels. The subclasses differ in the distribution: the joint distribution of the
    model, or a product of marginals.
    """

    marginals: np.ndarray  # (N, L), float64
    empty: np.ndarray  # (N,), probability of the label vector without a label

    def __init__(self, posterior):
        self.known = posterior.known
        evidence = posterior.evidence()
        energy = posterior.energy
        self.energy = energy if evidence is None else energy.condition(evidence)
        self.method, self.n_jobs = posterior.method, posterior.n_jobs

    @abstractmethod
    def best_f1(self, zero_division: float, allow_empty: bool) -> np.ndarray:
        """Return the label vectors (N, L) with the largest expected F1."""

    @abstractmethod
    def jaccard(self, candidates) -> np.ndarray:
        """Return the expected Jaccard index (N, C) of nonempty candidates (N, C, L)."""

    @abstractmethod
    def _mass(self, sets, log_weight) -> np.ndarray:
        """Return the total probability (N,), under the model, of all K label sets together.

        `sets` is (K, L), and `log_weight` (N, K) holds the logarithms of the unnormalised
        probabilities.
        """

    def with_known(self, labels):
        """Return `labels` (N, ..., L) with their entries replaced by the known outputs."""
        if self.known is None:
            return labels
        known = self.known.reshape(len(labels), *(1,) * (labels.ndim - 2), labels.shape[-1])
        return np.where(np.isnan(known), labels, known)

    def seen(self, sets, factor):
        """Return the probabilities (N, K) of K label sets, and a mixture weight w (N,) per row.

        `sets` (K, L) are the label sets seen in fit. If their probabilities are multiplied by
        `factor` and all probabilities are normalised, the result is a mixture: the distribution
        over the `sets` has the weight w, and the distribution of the model has the weight 1 - w.
        The returned probabilities of the `sets` add up to 1 in each row.
        """
        if not len(sets):
            return np.empty((len(self.marginals), 0)), np.zeros(len(self.marginals))
        log_weight = unchecked(self.energy.log_weight_of_sets)(sets)
        agrees = (log_weight > -np.inf).any(axis=1)
        log_weight[~agrees] = 0.0
        mass = agrees * self._mass(sets, log_weight) * (factor - 1)
        return softmax(log_weight, axis=1), mass / (1 + mass)


class _Joint(_Model):
    """Joint distribution of the model, computed by exact inference."""

    def __init__(self, posterior):
        super().__init__(posterior)
        result = self._infer(self.energy)
        self.marginals, self.log_partition = result
        all_off = np.zeros(self.marginals.shape)
        self.empty = np.exp(unchecked(self.energy.log_weight)(all_off) - self.log_partition)

    def _infer(self, energy):
        returns = ("marginals", "log_partition")
        result = run_inference(energy, self.method, returns=returns, n_jobs=self.n_jobs)
        assert result.marginals is not None
        assert result.log_partition is not None
        return result.marginals[:, : energy.n_visible].astype(np.float64), result.log_partition

    def best_f1(self, zero_division, allow_empty):
        """Return the label vectors (N, L) with the largest expected F1."""
        nodes, weight = inverse_nodes(2 * self.energy.n_visible)
        factors = bind(f1_factors, nodes=nodes, weight=weight)
        return maximize_f1(self.empty, self._on(nodes), factors, zero_division, allow_empty)

    def _on(self, nodes):
        """Return ``E[y_i t^|y|] / t`` for N rows, Q values t (`nodes`) and L labels i, (N, Q, L).

        |y| is the number of labels that are 1.
        """
        result = np.empty((len(self.marginals), len(nodes), self.marginals.shape[1]))
        for q, t in enumerate(nodes):
            tilted, offset = self.energy.tilted(np.log(t))
            on, log_partition = self._infer(tilted)
            log_mean = log_partition + offset - self.log_partition
            result[:, q] = on * np.exp(log_mean - np.log(t))[:, None]
        return result

    def jaccard(self, candidates):
        """Return the expected Jaccard index (N, C) of nonempty candidates (N, C, L).

        Let |y and A| be the number of labels of candidate A that are on in y, and |y - A| the
        number of labels outside of A that are on. The Jaccard index divides by the size of the
        union; quadrature (`inverse_nodes`) replaces the division by a sum over nodes t. For each t,
        ``E[|y and A| t^|y - A|]`` is computed from a model in which the fields of all labels
        outside of A are shifted by log t. The result is the expected number of labels of A that are
        on in the shifted model, times the ratio of the two partition functions.
        """
        n, n_candidates, n_labels = candidates.shape
        chosen = candidates.reshape(-1, n_labels)
        index = np.repeat(np.arange(n), n_candidates)
        energy, log_partition = self.energy.rows(index), self.log_partition[index]
        others, size = 1 - chosen, chosen.sum(axis=1)
        value = np.zeros(len(index))
        for t, weight in zip(*inverse_nodes(n_labels), strict=True):
            tilted, offset = energy.tilted(np.log(t) * others)
            on, log_z = self._infer(tilted)
            log_mean = log_z + offset - log_partition + (size - 1) * np.log(t)
            value += weight * np.exp(np.minimum(log_mean, _LARGE)) * (on * chosen).sum(axis=1)
        return value.reshape(n, n_candidates)

    def _mass(self, sets, log_weight):
        log_p = log_weight - self.log_partition[:, None]
        return np.exp(np.minimum(log_p, _LARGE)).sum(axis=1)


class _Mixture(_Joint):
    """Joint distribution of an RBM with few hidden units, which is a mixture of products.

    `best_f1` and `jaccard` give the results of `_Joint` up to rounding in much less time, because
    they skip hidden states with a negligible probability, and `best_f1` skips labels that cannot be
    among the best.
    """

    def _infer(self, energy):
        self._nodes, self._node_weights = inverse_nodes(2 * energy.n_visible)
        self._labels = LabelMixture(energy, self._nodes)
        return self._labels.marginals, self._labels.log_partition

    def best_f1(self, zero_division, allow_empty):
        """Return the label vectors (N, L) with the largest expected F1; see `top_f1`."""
        return top_f1(self._labels, self._node_weights, zero_division, allow_empty)

    def jaccard(self, candidates):
        """Return the expected Jaccard index (N, C) of nonempty candidates (N, C, L).

        Given the hidden units, the two factors of ``|y and A| t^|y - A|`` (see `_Joint.jaccard`)
        are independent. So the expectation of the product is a sum, over the hidden states, of
        products of two expectations.
        """
        size = candidates.sum(axis=2)
        overlap = self._labels.overlap(candidates)
        power = self._node_weights * self._nodes ** (size[:, :, None] - 1)
        return (power * overlap).sum(axis=2)


class _Independent(_Model):
    """Distribution of independent labels, with the marginals that inference computes."""

    def __init__(self, posterior):
        super().__init__(posterior)
        result = run_inference(self.energy, self.method, n_jobs=self.n_jobs)
        assert result.marginals is not None
        assert result.log_odds is not None
        n_labels = self.energy.n_visible
        self.marginals = result.marginals[:, :n_labels].astype(np.float64)
        self.empty = (1 - self.marginals).prod(axis=1)
        # Clip the infinite log-odds of labels with probability 0 or 1, because 0 * inf is NaN.
        self.log_odds = np.clip(result.log_odds[:, :n_labels].astype(np.float64), -700, 700)

    def best_f1(self, zero_division, allow_empty):
        """Return the label vectors (N, L) with the largest expected F1."""
        return best_top_labels(self.marginals, independent_top_f1, zero_division, allow_empty)

    def jaccard(self, candidates):
        """Return the expected Jaccard index (N, C) of nonempty candidates (N, C, L)."""
        hits = (candidates * self.marginals[:, None]).sum(axis=2)
        left_out = self.marginals[:, None] * (1 - candidates)
        size = candidates.sum(axis=2)
        value = np.zeros(hits.shape)
        for t, weight in zip(*inverse_nodes(candidates.shape[2]), strict=True):
            value += weight * t ** (size - 1) * (1 - left_out * (1 - t)).prod(axis=2)
        return value * hits

    def _mass(self, sets, log_weight):
        on, off = log_expit(self.log_odds), log_expit(-self.log_odds)
        return np.exp(on @ sets.T + off @ (1 - sets).T).sum(axis=1)
