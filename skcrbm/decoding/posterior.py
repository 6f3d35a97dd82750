"""Describe the distribution of the outputs under a model or classifier, for decoding rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit

from skcrbm.energies import BaseEnergy
from skcrbm.energies.states import unchecked
from skcrbm.inference import InferenceMethod, sample
from skcrbm.inference.running import run_inference
from skcrbm.utils.parallel import ordered_map, row_chunks

# Log-probability for output values with the predicted probability 0. The number is lower than all
# other log-probabilities, but finite, so that label sets with fewer impossible outputs have a
# higher score.
_LOG_IMPOSSIBLE = -700.0
#: Score of a row that has neither true nor predicted labels, for rules with
#: ``zero_division="auto"``: the score that scikit-learn and `skcrbm.metrics.masked_score` give.
ZERO_DIVISION = 0.0


class Posterior(NamedTuple):
    """Distribution p(v, h | x) of each row under a model, given the known outputs.

    Parameters
    ----------
    energy : BaseEnergy
        Energies of the N rows, in which known outputs are not clamped yet.
    method : InferenceMethod
        Method that computes marginals.
    known : ndarray (N, V) or None
        Known outputs (0/1), with NaN for all other outputs. A rule returns the known outputs
        unchanged.
    label_sets : ndarray (K, V)
        Distinct output vectors seen in fit.
    n_jobs : int or None
        Number of threads over rows.
    hidden : {"marginal", "max"}
        Treatment of hidden units in scores of output vectors: "marginal" sums them out, "max"
        maximises over them.
    state_methods : dict
        Inference methods that were used in training, by query ("map", "marginal_map"). Rules that
        search for best states use these methods instead of their default methods.
    thresholds : ndarray (V,) or None
        Thresholds on the marginals, fitted by cross-validation.
    margin : float
        Margin of the hinge loss, for the rule `Hinge`.
    allow_empty : bool
        If False, a rule must predict at least one label for each row in which a label is possible.
    unseen_share : float
        Estimated share of new rows whose label set is not in `label_sets`.
    zero_division : float
        Score of a row without true and predicted labels, for rules with ``zero_division="auto"``.
    seed : int
        Seed of rules that draw samples.
    """

    energy: BaseEnergy
    method: InferenceMethod
    known: np.ndarray | None
    label_sets: np.ndarray
    n_jobs: int | None
    hidden: str = "marginal"
    state_methods: Mapping[str, InferenceMethod] = MappingProxyType({})
    thresholds: np.ndarray | None = None
    margin: float = 1.0
    allow_empty: bool = True
    unseen_share: float = 1.0
    zero_division: float = ZERO_DIVISION
    seed: int = 0

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of outputs."""
        return self.energy.n_models, self.energy.n_visible

    def rows(self, index) -> Posterior:
        """Return the posterior of the selected rows."""
        known = None if self.known is None else self.known[index]
        return self._replace(energy=self.energy.rows(index), known=known)

    def evidence(self) -> np.ndarray | None:
        """Return the value of each clamped variable (N, n_variables); NaN for free variables.

        The result is None if no output is known.
        """
        if self.known is None:
            return None
        free = np.full((len(self.known), self.energy.n_hidden), np.nan)
        return np.hstack([self.known, free])

    def infer(self, method=None, **options):
        """Call `skcrbm.inference.infer` with the known outputs clamped."""
        method = self.method if method is None else method
        return run_inference(
            self.energy, method, clamp=self.evidence(), n_jobs=self.n_jobs, **options
        )

    def log_odds(self) -> np.ndarray:
        """Return the log-odds (N, V) of the marginals of the outputs, given the known outputs."""
        log_odds = self.infer().log_odds
        assert log_odds is not None
        return log_odds[:, : self.energy.n_visible]

    def marginals(self) -> np.ndarray:
        """Return the probabilities P(v_i = 1 | x, known) (N, V)."""
        return expit(self.log_odds())

    def modes(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the most probable value of each output and its score, both (N, V)."""
        log_odds = self.log_odds()
        return self.energy.marginal_modes(log_odds), log_odds

    def log_weight_of_sets(self, rows, sets, hidden: str) -> np.ndarray:
        """Return the unnormalised log-probabilities (len(rows), K) of output vectors (K, V)."""
        return unchecked(self.energy.rows(rows).log_weight_of_sets)(sets, hidden)

    def draw(self, n_samples: int) -> np.ndarray:
        """Draw exact samples (N, n_samples, V) from p(v | x, known).

        All rows have the same random numbers, so that the samples of a row do not depend on the
        other rows of a call. A sampler derives the random numbers of a row from the seed and the
        index of the row in the call, so it is called for each row separately.
        """

        def draw(rows):
            part = self.rows(rows)
            options = {"clamp": part.evidence(), "random_state": self.seed}
            states = sample(part.energy, "exact", n_samples=n_samples, **options)
            return states[:, :, : self.energy.n_visible]

        parts = ordered_map(draw, row_chunks(self.energy.n_models, 1), self.n_jobs)
        return np.concatenate(list(parts))


class ClassifierPosterior(NamedTuple):
    """Predictions of any classifier, as input of decoding rules.

    Rules treat outputs as independent given x, unless they draw samples from a joint distribution
    of the classifier.

    Parameters
    ----------
    proba : ndarray (N, V)
        P(v_i = 1 | x), and 0 or 1 for known outputs.
    known : ndarray (N, V) or None
        Known outputs (0/1), with NaN for all other outputs.
    label_sets : ndarray (K, V)
        Distinct output vectors seen in fit.
    thresholds : ndarray (V,) or None
        Thresholds on the probabilities, fitted by cross-validation.
    allow_empty : bool
        If False, a rule must predict at least one label for each row in which a label is possible.
    zero_division : float
        Score of a row without true and predicted labels, for rules with ``zero_division="auto"``.
    sampler : callable or None
        Function ``sampler(n_samples)`` that returns samples (N, n_samples, V) from the joint
        distribution of the classifier.
    """

    proba: np.ndarray
    known: np.ndarray | None
    label_sets: np.ndarray
    thresholds: np.ndarray | None = None
    allow_empty: bool = True
    zero_division: float = ZERO_DIVISION
    sampler: Callable[[int], Any] | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of outputs."""
        n_rows, n_outputs = self.proba.shape
        return n_rows, n_outputs

    def marginals(self) -> np.ndarray:
        """Return the probabilities P(v_i = 1 | x, known) (N, V)."""
        return self.proba

    def modes(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the most probable value of each output and its score, both (N, V)."""
        score = np.where(self.proba > 0, self.proba, -np.inf)
        return (self.proba >= 0.5).astype(np.int64), score

    def log_weight_of_sets(self, rows, sets, hidden: str) -> np.ndarray:
        """Return the log-probabilities of K output vectors as if outputs were independent."""
        with np.errstate(divide="ignore"):
            on, off = np.log(self.proba[rows]), np.log1p(-self.proba[rows])
        on, off = np.maximum(on, _LOG_IMPOSSIBLE), np.maximum(off, _LOG_IMPOSSIBLE)
        return on @ sets.T.astype(float) + off @ (1.0 - sets.T)

    def draw(self, n_samples: int) -> np.ndarray:
        """Draw samples (N, n_samples, V) from the joint distribution of the classifier."""
        if self.sampler is None:
            raise ValueError(
                "n_samples needs a classifier that can draw samples from a joint distribution"
            )
        return self.sampler(n_samples)


class CertifiedLabels(NamedTuple):
    """Outputs of N rows, with a bound for each row on how far its objective is from the optimum."""

    labels: np.ndarray  # (N, V) of 0/1
    objective: np.ndarray  # (N,), value of the function that the rule minimises
    # Bound (N,) on the difference between `objective` and the minimum. The bound is 0 if the
    # outputs are proven to be optimal, and inf if there is no bound.
    gap: np.ndarray


def with_a_label(labels: np.ndarray, score: np.ndarray, allow_empty: bool) -> np.ndarray:
    """Switch on a label in each empty row, if a label is possible; return 0/1 labels (N, L).

    In each empty row, the label with the highest score is switched on. If several labels have this
    score, the first of them is switched on. `score` (N, L) is -inf for labels that cannot be on,
    such as labels known to be 0. A row in which no label can be on remains empty. If `allow_empty`
    is True, or there is a single label, `labels` is returned unchanged.
    """
    n_labels = labels.shape[1]
    if allow_empty or n_labels < 2:
        return labels
    best = score.argmax(axis=1)
    rows = np.flatnonzero(~labels.any(axis=1) & (score[np.arange(len(score)), best] > -np.inf))
    labels = labels.copy()
    labels[rows, best[rows]] = 1
    return labels


def check_zero_division(value: float) -> None:
    """Raise a ValueError unless `zero_division`, the value of a ratio 0 / 0, is 0 or 1."""
    if value not in (0, 1):
        raise ValueError(f"zero_division must be 0 or 1, got {value!r}")
