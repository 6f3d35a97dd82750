"""Define distributions p(y | x) with methods for samples, probabilities and the best labels.

Classifiers call these methods in `sample`, `score_samples`, `predict_topk` and
`predict_pairwise_proba`. `LabelVectors` is used for a 2-D y, and `Classes` for a 1-D y.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit
from sklearn.utils import check_random_state

from skcrbm.decoding.best_states import weighted_label_sets
from skcrbm.decoding.posterior import Posterior
from skcrbm.energies import FactorGraphEnergy
from skcrbm.inference import Exact, available_methods, sample
from skcrbm.inference.base import resolve_method
from skcrbm.inference.exact.elimination import k_best_of_models
from skcrbm.inference.random_numbers import random_key, uniforms
from skcrbm.targets.distribution import TopLabelSets
from skcrbm.targets.indicator import indicator_by_name
from skcrbm.targets.kinds import Targets
from skcrbm.targets.label_sets import all_label_vectors, distinct_rows
from skcrbm.targets.multioutput import MultioutputTargets
from skcrbm.targets.names import is_frame
from skcrbm.utils.limits import AUTO_ALL_LABEL_SETS, BLOCK_ENTRIES, MAX_ALL_LABEL_SETS
from skcrbm.utils.options import is_auto
from skcrbm.utils.parallel import row_chunks
from skcrbm.utils.validation import as_float_array, check_count


class LabelVectors(NamedTuple):
    """Distribution p(y | x) of the label vectors of a 2-D y."""

    targets: Targets  # kind and encoding of the 2-D y
    posterior: Posterior

    @property
    def n_rows(self):
        """Number of rows."""
        return self.posterior.energy.n_models

    def sample(self, n_samples, method, burn_in, random_state):
        """Draw `n_samples` label vectors for each of the N rows: array (N, n_samples, L)."""
        states = sample(
            self.posterior.energy,
            method,
            n_samples=n_samples,
            burn_in=burn_in,
            clamp=self.posterior.evidence(),
            n_jobs=self.posterior.n_jobs,
            random_state=random_state,
        )
        return self.targets.decode(states[:, :, : self.posterior.energy.n_visible])

    def log_proba_of(self, visible, method, random_state):
        """Return log p(y | x), an array (N,), of the labels `visible` (N, L) of N rows.

        Labels that are NaN are summed out.
        """
        energy, known = self.posterior.energy, self.posterior.known
        seed = check_random_state(random_state).randint(2**31 - 1)
        known = np.full(visible.shape, np.nan) if known is None else known
        state = np.where(np.isnan(known), visible, known)
        partly = np.isnan(state).any(axis=1)
        log_p = np.empty(len(state))
        log_p[~partly] = energy.rows(~partly).log_weight(state[~partly])
        if partly.any():
            part = self.posterior._replace(energy=energy.rows(partly), known=state[partly])
            log_p[partly] = _log_partition(part, method, seed)
        log_p -= _log_partition(self.posterior, method, seed)
        wrong = ~np.isnan(visible) & ~np.isnan(known) & (visible != known)
        log_p[wrong.any(axis=1)] = -np.inf  # y contradicts a known label
        return log_p

    def log_proba_of_sets(self, label_sets, method, random_state):
        """Return the log-probability (N, K) of each of K label vectors in each of N rows."""
        n_labels = self.posterior.energy.n_visible
        sets = _as_label_vectors(label_sets, self.targets, n_labels, "label_sets")
        log_p = self.posterior.log_weight_of_sets(slice(None), sets, "marginal")
        known = self.posterior.known
        if known is not None:
            contradicts = (known == 1) @ (1.0 - sets).T + (known == 0) @ sets.T
            log_p[contradicts > 0] = -np.inf
        seed = check_random_state(random_state).randint(2**31 - 1)
        return log_p - _log_partition(self.posterior, method, seed)[:, None]

    def top(self, k, candidates, method, random_state):
        """Return the k most probable candidates of each row, as `TopLabelSets`."""
        if self._eliminates(candidates):
            labels, log_p = self._best_of_all(k, candidates)
            labels[np.isneginf(log_p)] = -1
            return self._top(labels, log_p, method, random_state)
        posterior = self.posterior._replace(label_sets=self._candidates(candidates))
        _check_enough(k, len(posterior.label_sets), "candidates")
        labels = np.full((self.n_rows, k, posterior.energy.n_visible), -1)
        log_p = np.full((self.n_rows, k), -np.inf)
        for rows, sets, log_weight in weighted_label_sets(posterior, "marginal"):
            top = min(k, len(sets))
            best = np.argpartition(-log_weight, top - 1, axis=1)[:, :top]
            best.sort(axis=1)  # keep the order of candidates with equal probabilities
            value = np.take_along_axis(log_weight, best, axis=1)
            order = np.argsort(-value, axis=1, kind="stable")
            value = np.take_along_axis(value, order, axis=1)
            found = sets[np.take_along_axis(best, order, axis=1)]
            log_p[rows, :top] = value
            labels[rows, :top] = np.where(np.isneginf(value)[:, :, None], -1, found)
        return self._top(labels, log_p, method, random_state)

    def _top(self, labels, log_weight, method, random_state):
        """Return `TopLabelSets` for label vectors (N, k, L) with log-weights (N, k)."""
        seed = check_random_state(random_state).randint(2**31 - 1)
        log_p = log_weight - _log_partition(self.posterior, method, seed)[:, None]
        return TopLabelSets(self.targets.decode(labels), np.exp(log_p))

    @property
    def _n_vectors(self) -> int:
        """Number of all label vectors."""
        return 2**self.posterior.energy.n_visible

    def _eliminates(self, candidates):
        """Return True if `top` finds the best label vectors by variable elimination."""
        everything = isinstance(candidates, str) and candidates in ("auto", "all")
        exact = isinstance(self.posterior.state_methods.get("map"), Exact)
        narrow = exact and isinstance(self.posterior.energy, FactorGraphEnergy)
        return everything and narrow and self._n_vectors > 2**AUTO_ALL_LABEL_SETS

    def _best_of_all(self, k, candidates):
        """Return the k best label vectors (N, k, L) of each row, and log-weights (N, k).

        If a row has fewer than k possible vectors, the last vectors have the log-weight -inf.
        """
        _check_enough(k, self._n_vectors, "candidates")
        energy: Any = self.posterior.energy
        evidence = self.posterior.evidence()
        if evidence is not None:
            energy = energy.condition(evidence)
        try:
            states, log_weight = k_best_of_models(energy, k, n_jobs=self.posterior.n_jobs)
        except ValueError as error:
            raise ValueError(
                f"k={k} is too large for candidates={candidates!r}, use a smaller k or "
                f"candidates='label_sets': {error}"
            ) from error
        few = k - log_weight.shape[1]
        log_weight = np.pad(log_weight, ((0, 0), (0, few)), constant_values=-np.inf)
        return np.pad(states, ((0, 0), (0, few), (0, 0))), log_weight

    def pairs(self):
        """Return P(y_i = 1, y_k = 1) of all pairs of labels, an array (N, L, L)."""
        posterior = self.posterior
        n_labels = posterior.energy.n_visible
        # If the energy has a coupling for each pair of labels, a single run of inference gives the
        # probabilities of all pairs.
        if posterior.energy.statistic_shapes == ((n_labels, n_labels),):
            return posterior.infer(returns="pairwise", pairwise="per_example").pairwise
        marginals = expit(posterior.log_odds())
        pairs = np.empty((*marginals.shape, n_labels), marginals.dtype)
        unknown = np.full(marginals.shape, np.nan)
        known = unknown if posterior.known is None else posterior.known
        for i in range(n_labels):
            given = known.copy()
            given[:, i] = 1
            conditional = posterior._replace(known=given).log_odds()
            pairs[:, i] = marginals[:, [i]] * expit(conditional)
        pairs += np.swapaxes(pairs, 1, 2).copy()
        return pairs / 2

    def _candidates(self, candidates):
        """Return the label vectors (K, L) for the argument `candidates` of `predict_topk`."""
        n_labels = self.posterior.energy.n_visible
        if is_auto(candidates):
            candidates = "all" if n_labels <= AUTO_ALL_LABEL_SETS else "label_sets"
        if not isinstance(candidates, str):
            return distinct_rows(
                _as_label_vectors(candidates, self.targets, n_labels, "candidates")
            )
        if candidates == "label_sets":
            return self.posterior.label_sets
        if candidates != "all":
            raise ValueError(
                "candidates must be 'auto', 'all', 'label_sets' or an array of label vectors, "
                f"got {candidates!r}"
            )
        if n_labels > MAX_ALL_LABEL_SETS:
            raise ValueError(
                f"candidates='all' would compare 2^{n_labels} label vectors; the limit is "
                f"{MAX_ALL_LABEL_SETS} outputs. Use 'label_sets' or an array of label vectors"
            )
        return all_label_vectors(n_labels)


class OutputVectors(LabelVectors):
    """Distribution p(y | x) of a 2-D y whose columns hold classes.

    The model represents the class of a column by an integer code, or by one 0/1 unit per class.
    """

    targets: MultioutputTargets

    def top(self, k, candidates, method, random_state):
        """Return the k most probable candidates of each row, as `TopLabelSets`."""
        if self._eliminates(candidates):
            states, log_p = self._best_of_all(k, candidates)
            _require_finite(k, log_p)
            return self._top(states, log_p, method, random_state)
        energy, known = self.posterior.energy, self.posterior.known
        sets = self._candidates(candidates)
        _check_enough(k, len(sets), "candidates")
        best = np.empty((self.n_rows, k), np.int64)
        log_p = np.empty((self.n_rows, k))
        for rows in row_chunks(self.n_rows, max(1, BLOCK_ENTRIES // len(sets))):
            value = energy.rows(rows).log_weight_of_sets(sets).astype(np.float64)
            if known is not None:
                for i, states in enumerate(sets.T):
                    given = known[rows][:, [i]]
                    value[~np.isnan(given) & (given != states)] = -np.inf
            best[rows] = np.argsort(-value, axis=1, kind="stable")[:, :k]
            log_p[rows] = np.take_along_axis(value, best[rows], axis=1)
        complete = len(sets) == self._n_vectors
        _require_finite(k, log_p, "" if complete else ", or candidates='all'")
        return self._top(sets[best], log_p, method, random_state)

    @property
    def _n_vectors(self) -> int:
        return math.prod(self.targets.n_classes.tolist())

    def _candidates(self, candidates):
        """Return the K candidates as integer codes (K, L), or as 0/1 units (K, V)."""
        n_classes = self.targets.n_classes
        n_all = self._n_vectors
        if is_auto(candidates):
            candidates = "all" if n_all <= 2**AUTO_ALL_LABEL_SETS else "label_sets"
        if not isinstance(candidates, str):
            states = self.targets.encode(candidates, name="candidates")
            if np.isnan(states).any():
                raise ValueError("candidates must hold vectors of classes without missing entries")
            return np.unique(states, axis=0).astype(int)
        if candidates == "label_sets":
            return self.posterior.label_sets
        if candidates != "all" or n_all > 2**MAX_ALL_LABEL_SETS:
            raise ValueError(
                "candidates must be 'auto', 'all' (if there are at most 2^20 vectors of classes), "
                f"'label_sets' or an array of vectors of classes, got {candidates!r}"
            )
        codes = np.stack([part.ravel() for part in np.indices(n_classes.tolist())], axis=1)
        return self.targets.states_of(codes)


class Classes(NamedTuple):
    """Distribution p(y | x) of the classes of a 1-D y.

    The methods have the same arguments as in `LabelVectors`. They ignore arguments such as `method`
    and `candidates`, because the exact probabilities of all classes are known.
    """

    targets: Targets  # kind and encoding of the 1-D y
    log_proba: np.ndarray  # (N, K) float64: log-probabilities of the K classes

    @property
    def n_rows(self):
        """Number of rows."""
        return len(self.log_proba)

    def sample(self, n_samples, method, burn_in, random_state):
        """Draw classes (N, n_samples) from the exact distribution."""
        index = draw_independent(self.log_proba[:, None], n_samples, random_state)
        return self.targets.classes[index[:, :, 0]]

    def log_proba_of(self, visible, method, random_state):
        """Return the log-probability (N,) of the class of each row, encoded in `visible` (N, V)."""
        index = np.searchsorted(self.targets.classes, self.targets.decode(visible))
        return self.log_proba[np.arange(len(index)), index]

    def top(self, k, candidates, method, random_state):
        """Return the k most probable classes of each row, as `TopLabelSets`."""
        _check_enough(k, self.log_proba.shape[1], "classes")
        best = np.argsort(-self.log_proba, axis=1, kind="stable")[:, :k]
        proba = np.exp(np.take_along_axis(self.log_proba, best, axis=1))
        return TopLabelSets(self.targets.classes[best], proba)


def draw_independent(log_proba: np.ndarray, n_samples: int, random_state: Any) -> np.ndarray:
    """Draw states (N, n_samples, L) of L independent variables with K states, for each of N rows.

    `log_proba` (N, L, K) holds the log-probabilities of the states.
    """
    n_samples = check_count("n_samples", n_samples)
    n_rows, n_variables, n_states = log_proba.shape
    mass = np.exp(log_proba).cumsum(axis=2)
    n_sites = n_samples * n_variables
    u = uniforms(random_key(random_state), np.arange(n_rows), 0, n_sites)
    u = u.reshape(n_rows, n_samples, n_variables) * mass[:, None, :, -1]
    index = np.zeros(u.shape, np.int64)
    for k in range(n_states - 1):  # a single array (N, n_samples, L, K) could be too large
        index += u > mass[:, None, :, k]
    return index


def _as_label_vectors(sets, targets, n_labels, name):
    """Validate an argument that holds K label vectors; return the vectors as floats (K, L).

    `name` is the name of the argument in error messages.
    """
    if is_frame(sets):
        sets = indicator_by_name(sets, targets.names, n_labels, name)
    sets = as_float_array(sets, name, f"(n_sets, {n_labels})")
    if sets.shape[1] != n_labels or not np.isin(sets, (0, 1)).all():
        raise ValueError(
            f"{name} must be 0/1 vectors of shape (n_sets, {n_labels}), got shape {sets.shape}"
        )
    return sets


def _log_partition(posterior, method, seed):
    """Return the log-partition functions (N,) of the models of N rows, given known labels."""
    method = resolve_method(
        method, "method", lambda: available_methods(posterior.energy, "log_partition")
    )
    if method.is_random and getattr(method, "random_state", None) is None:
        method = method.with_options(random_state=seed)
    return posterior.infer(method, returns="log_partition").log_partition


def _check_enough(k, n, candidates):
    if k > n:
        raise ValueError(f"k={k} is larger than the number of {candidates}, {n}")


def _require_finite(k, log_weight, advice=""):
    """Raise a ValueError if a row has fewer than k candidates with a finite log-weight."""
    few = np.flatnonzero(np.isneginf(log_weight[:, -1]))
    if len(few):
        raise ValueError(
            f"fewer than k={k} candidates agree with the known classes of row {few[0]}; use a "
            f"smaller k{advice}"
        )
