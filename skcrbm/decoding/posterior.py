"""The input of a decoding rule: the outputs' distribution under a model or any classifier."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit

from skcrbm.energies import BaseEnergy
from skcrbm.energies.states import unchecked
from skcrbm.inference import InferenceMethod, infer, sample

# Log-probability of an output that a classifier takes for impossible: far below all others, but
# finite, so that an impossible label set with fewer such outputs is better.
_LOG_IMPOSSIBLE = -700.0


class Posterior(NamedTuple):
    """p(v, h | x) of each row of a batch under a model, given the outputs known beforehand.

    Parameters
    ----------
    energy : BaseEnergy
        Energies of the N rows, without the known outputs.
    method : InferenceMethod
        Method that computes marginals.
    known : ndarray (N, V) or None
        Outputs known beforehand (0/1), NaN elsewhere. A rule returns them as given.
    label_sets : ndarray (K, V)
        Distinct output vectors seen in fit.
    n_jobs : int or None
        Threads over rows.
    hidden : {"marginal", "max"}
        Whether a score sums the hidden units out or takes their best values.
    state_methods : dict
        Query ("map", "marginal_map") -> method that the model was trained with; the rules that
        search best states use it in place of their default.
    thresholds : ndarray (V,) or None
        Thresholds on the marginals, fitted by cross-validation.
    margin : float
        Margin of the hinge loss, for the rule `Hinge`.
    allow_empty : bool
        Whether a rule may predict no label for a row in which labels are possible.
    unseen_share : float
        Estimated share of new rows whose label set is not in `label_sets`.
    zero_division : float
        Score of a row without true and predicted labels, for rules that leave it at "auto".
    seed : int
        Seed of the rules that draw samples.
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
    zero_division: float = 1.0
    seed: int = 0

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of outputs."""
        return self.energy.n_models, self.energy.n_visible

    def rows(self, index) -> Posterior:
        """Return the posterior of some rows."""
        known = None if self.known is None else self.known[index]
        return self._replace(energy=self.energy.rows(index), known=known)

    def evidence(self) -> np.ndarray | None:
        """Return the known values of all variables (N, n_variables), NaN where free, or None."""
        if self.known is None:
            return None
        free = np.full((len(self.known), self.energy.n_hidden), np.nan)
        return np.hstack([self.known, free])

    def infer(self, method=None, **options):
        """Call `skcrbm.inference.infer` with the known outputs clamped."""
        method = self.method if method is None else method
        return infer(self.energy, method, clamp=self.evidence(), n_jobs=self.n_jobs, **options)

    def log_odds(self) -> np.ndarray:
        """Return the log-odds (N, V) of the outputs' marginals given the known outputs."""
        log_odds = self.infer().log_odds
        assert log_odds is not None
        return log_odds[:, : self.energy.n_visible]

    def marginals(self) -> np.ndarray:
        """Return P(v_i = 1 | x, known), (N, V)."""
        return expit(self.log_odds())

    def modes(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the mode of each marginal and a score that ranks the outputs, both (N, V)."""
        log_odds = self.log_odds()
        return self.energy.marginal_modes(log_odds), log_odds

    def log_weight_of_sets(self, rows, sets, hidden: str) -> np.ndarray:
        """Return the unnormalised log-probabilities (len(rows), K) of output vectors (K, V)."""
        return unchecked(self.energy.rows(rows).log_weight_of_sets)(sets, hidden)

    def draw(self, n_samples: int) -> np.ndarray:
        """Return exact samples (N, n_samples, V) from p(v | x, known)."""
        states = sample(
            self.energy,
            "exact",
            n_samples=n_samples,
            clamp=self.evidence(),
            n_jobs=self.n_jobs,
            random_state=self.seed,
        )
        return states[:, :, : self.energy.n_visible]


class ClassifierPosterior(NamedTuple):
    """Predictions of any classifier, in the form that decoding rules take.

    Outputs are independent given x, unless the classifier has a joint distribution to draw from.

    Parameters
    ----------
    proba : ndarray (N, V)
        P(v_i = 1 | x) given the known outputs, which have probability 0 or 1.
    known : ndarray (N, V) or None
        Outputs known beforehand (0/1), NaN elsewhere.
    label_sets : ndarray (K, V)
        Distinct output vectors seen in fit.
    thresholds : ndarray (V,) or None
        Thresholds on the probabilities, fitted by cross-validation.
    allow_empty : bool
        Whether a rule may predict no label for a row in which labels are possible.
    zero_division : float
        Score of a row without true and predicted labels, for rules that leave it at "auto".
    sampler : callable or None
        Function of a number of samples that returns draws (N, n_samples, V) from the classifier's
        joint distribution.
    """

    proba: np.ndarray
    known: np.ndarray | None
    label_sets: np.ndarray
    thresholds: np.ndarray | None = None
    allow_empty: bool = True
    zero_division: float = 0.0
    sampler: Callable[[int], Any] | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of outputs."""
        n_rows, n_outputs = self.proba.shape
        return n_rows, n_outputs

    def marginals(self) -> np.ndarray:
        """Return P(v_i = 1 | x, known), (N, V)."""
        return self.proba

    def modes(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the mode of each marginal and a score that ranks the outputs, both (N, V)."""
        score = np.where(self.proba > 0, self.proba, -np.inf)
        return (self.proba >= 0.5).astype(np.int64), score

    def log_weight_of_sets(self, rows, sets, hidden: str) -> np.ndarray:
        """Return log-probabilities (len(rows), K) of output vectors (K, V), as if independent."""
        with np.errstate(divide="ignore"):
            on, off = np.log(self.proba[rows]), np.log1p(-self.proba[rows])
        on, off = np.maximum(on, _LOG_IMPOSSIBLE), np.maximum(off, _LOG_IMPOSSIBLE)
        return on @ sets.T.astype(float) + off @ (1.0 - sets.T)

    def draw(self, n_samples: int) -> np.ndarray:
        """Return samples (N, n_samples, V) from the classifier's joint distribution."""
        if self.sampler is None:
            raise ValueError("n_samples needs a classifier with a joint distribution to draw from")
        return self.sampler(n_samples)


class CertifiedLabels(NamedTuple):
    """Outputs of N rows, with a bound on their distance from the best outputs."""

    labels: np.ndarray  # (N, V) of 0/1
    objective: np.ndarray  # (N,), the value that the rule minimises, at these outputs
    gap: np.ndarray  # (N,), how much lower the minimum may be: 0 if proven, inf if unknown


def with_a_label(labels: np.ndarray, score: np.ndarray, allow_empty: bool) -> np.ndarray:
    """Switch on, in each row without a label on, the label with the highest score.

    `labels` (N, L) of 0/1 is not changed in place. `score` (N, L) is -inf for a label that cannot
    be on, such as a label known to be off; a row in which no label can be on stays empty. Among
    equal scores the first label is taken. With `allow_empty`, or a single label, `labels` is
    returned as it is.
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
    """Raise a ValueError unless the value of a ratio 0 / 0 is 0 or 1."""
    if value not in (0, 1):
        raise ValueError(f"zero_division must be 0 or 1, got {value!r}")
