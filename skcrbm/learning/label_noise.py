"""Maximum likelihood of labels that may be wrong.

The probability of observed labels is ``sum_v p(v | x) prod_i q_i(observed_i | v_i)``, where q_i is
given by the flip rates of label i, which say how often the label is wrong. Given the observed
labels, the factor q_i only adds a field to the true label i. Therefore the positive phase does not
clamp the labels, but runs inference with these additional fields.
"""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar, NamedTuple

import numpy as np

from skcrbm.inference import InferenceMethod
from skcrbm.inference.running import run_inference
from skcrbm.learning.objectives import Contrast, Objective
from skcrbm.learning.phases import MOMENTS, Expected, Moments, Phase, one_model_per_row
from skcrbm.learning.rules import Likelihood
from skcrbm.utils.options import Integer
from skcrbm.utils.sklearn_private import Interval
from skcrbm.utils.validation import as_real

# Names of the ways to estimate flip rates, as values of `NoisyLikelihood.flip_rates`.
ESTIMATED = ("symmetric", "per_label", "per_value")
# Smallest and largest flip rate. A label with a rate of 1/2 would carry no information.
LEAST_RATE, MOST_RATE = 1e-4, 0.45
FIRST_RATE = 0.1  # flip rate of every label before the rates are estimated


class LabelNoise(NamedTuple):
    """Flip rates of V labels."""

    rates: np.ndarray  # (V, 2): P(observed 1 | true 0) and P(observed 0 | true 1)

    def fields(self, visible: np.ndarray) -> np.ndarray:
        """Return log q(observed | 1) - log q(observed | 0) for each observed label (N, V).

        For missing labels the difference is 0.
        """
        off, on = self.rates.T
        fields = np.where(visible == 1, np.log1p(-on) - np.log(off), np.log(on) - np.log1p(-off))
        return np.where(np.isnan(visible), 0.0, fields)

    def log_weight_of_off(self, visible: np.ndarray) -> np.ndarray:
        """Return the sum (N,) of log q(observed | 0) over the observed labels of each row."""
        off = self.rates[:, 0]
        each = np.where(visible == 1, np.log(off), np.log1p(-off))
        return np.where(np.isnan(visible), 0.0, each).sum(axis=1)

    def observe(self, energy, visible: np.ndarray):
        """Return the energy of the true labels given observed labels (N, V), one model per row."""
        energy = one_model_per_row(energy, len(visible))
        own, *others = energy.fields
        return energy.with_fields((own + self.fields(visible)).astype(own.dtype), *others)

    def log_partition(self, energy, visible: np.ndarray, method, n_jobs=None) -> np.ndarray:
        """Return the log-weight (N,) of the observed labels, summed over the true labels."""
        observed = self.observe(energy, visible)
        found = run_inference(observed, method, returns=("log_partition",), n_jobs=n_jobs)
        return found.log_partition + self.log_weight_of_off(visible)

    def observed_log_odds(self, log_odds: np.ndarray) -> np.ndarray:
        """Convert log-odds of true labels to log-odds of observed labels (N, V)."""
        off, on = self.rates.T
        return np.logaddexp(np.log(off), np.log1p(-on) + log_odds) - np.logaddexp(
            np.log1p(-off), np.log(on) + log_odds
        )

    def of_outputs(self, chosen: np.ndarray) -> LabelNoise:
        """Return the noise of the labels with the indices `chosen`."""
        return LabelNoise(self.rates[chosen])


class Corrected(Phase):
    """Positive phase: moments of the true labels given the observed labels."""

    def __init__(self, noise: LabelNoise, inference, n_jobs=None):
        self.noise = noise
        self.inference = inference
        self.n_jobs = n_jobs

    def __call__(self, energy, batch, clock, state, positive=None):
        """Return the `Moments` of the true labels, and the unchanged `state`."""
        found = run_inference(
            self.noise.observe(energy, batch.visible),
            self.inference.at_epoch(clock.epoch),
            returns=MOMENTS,
            sample_weight=batch.weight,
            n_jobs=self.n_jobs,
        )
        log_weight = found.log_partition + self.noise.log_weight_of_off(batch.visible)
        return Moments(found.marginals, found.statistics, log_weight, found.converged), state


class NoisyLikelihood(Likelihood):
    """Maximum likelihood for labels that may be wrong (``learning="noisy_mle"``).

    Each observed label differs from the true label with a probability, its flip rate. The fit
    maximises the likelihood of the observed labels, in which the true labels are summed out:
    ``sum_v p(v | x) prod_i q_i(observed_i | v_i)``. The fitted model predicts the true labels. A
    joint model can recognise a wrong label by the other labels of its row, so that wrong labels do
    less harm. Missing labels are summed out, as in `Likelihood`.

    Parameters
    ----------
    flip_rates : {"symmetric", "per_label", "per_value"}, float or array-like, default="per_label"
        Flip rates, above 0 and below 1/2. A number is the rate of all labels, and an array
        (n_outputs,) holds a rate for each label. An array (n_outputs, 2) holds two rates for each
        label: the probability that a 0 is observed as 1, and the probability that a 1 is observed
        as 0. If `flip_rates` is a name, `fit` estimates the rates: "symmetric" means a single rate
        for all labels, "per_label" a rate for each label, and "per_value" two rates for each label.
        The attribute `flip_rates_` (n_outputs, 2) of a fitted `CRBMClassifier` holds the rates.
    max_iter : int, default=5
        Maximum number of iterations of the EM algorithm for "per_label" and "per_value".
    tol : float, default=0.01
        The estimation ends if no rate changes by more than `tol` in an iteration.

    Notes
    -----
    To estimate rates, `fit` first finds a common rate for all labels: the rate with the largest
    likelihood of held-out labels, among values from 0.01 to 0.4 and the optimum of a parabola
    through the best three. For "per_label" and "per_value" the EM algorithm then repeats two steps:
    it fits models with the current rates, and it sets each rate to the mean probability that an
    observed label is wrong, given x and the other observed labels of the row. The probabilities of
    a row come from a model that was not fitted to the row, because a model tends to reproduce the
    wrong labels that it was fitted to. Each rate that is tried, and each iteration, takes about as
    long as two to four fits.

    Rates are estimated from the shape of p(y | x), which is a strong assumption: a model that fits
    badly may explain its errors as wrong labels. The more flexible "per_value" needs many rows. If
    you know the rates, for example because some labels were checked by hand, pass them as
    `flip_rates`.

    `learning` of `CRBMClassifier` takes this rule. It needs a 2-D y, or a y of two classes. With
    `partial_fit`, `flip_rates` must be numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from skcrbm import CRBMClassifier
    >>> from skcrbm.datasets import make_structured_labels
    >>> from skcrbm.learning import NoisyLikelihood
    >>> X, Y = make_structured_labels(600, structure="groups", random_state=0)
    >>> wrong = np.random.RandomState(0).random_sample(Y.shape) < 0.2
    >>> noisy = np.where(wrong, 1 - Y, Y)
    >>> robust = CRBMClassifier(learning=NoisyLikelihood("symmetric"), random_state=0)
    >>> robust = robust.fit(X[:400], noisy[:400])
    >>> plain = CRBMClassifier(random_state=0).fit(X[:400], noisy[:400])
    >>> scores = [m.score_samples(X[400:], Y[400:]).mean() for m in (plain, robust)]
    >>> bool(scores[1] > scores[0] + 0.1)
    True
    """

    name = "noisy_mle"
    needs_binary = True
    _parameter_constraints: ClassVar = {
        "flip_rates": "no_validation",  # `noise` validates the rates
        "max_iter": [Integer(1)],
        "tol": [Interval(Real, 0, None, closed="left")],
    }

    def __init__(self, flip_rates: Any = "per_label", max_iter: int = 5, tol: float = 0.01):
        self.flip_rates = flip_rates
        self.max_iter = max_iter
        self.tol = tol

    @property
    def is_estimated(self) -> bool:
        """True if the rates must be estimated."""
        return isinstance(self.flip_rates, str)

    def check_conditional(self) -> None:
        """Raise a ValueError unless `flip_rates` is a name or holds numbers in (0, 1/2)."""
        wanted = (
            f"flip_rates must be one of {', '.join(map(repr, ESTIMATED))}, or numbers above 0 and "
            "below 1/2: a number, an array (n_outputs,) or an array (n_outputs, 2)"
        )
        if self.is_estimated:
            if self.flip_rates not in ESTIMATED:
                raise ValueError(f"{wanted}; got {self.flip_rates!r}")
            return
        rates = as_real(self.flip_rates, "flip_rates", "(), (n_outputs,) or (n_outputs, 2)")
        if rates.ndim > 2 or not ((rates > 0) & (rates < 0.5)).all():
            raise ValueError(f"{wanted}; got {self.flip_rates!r}")

    def noise(self, n_outputs: int) -> LabelNoise:
        """Return the `LabelNoise` of `flip_rates`; raise a ValueError if the shape is wrong."""
        rates = np.asarray(self.flip_rates, np.float64)
        rates = rates[:, None] if rates.ndim == 1 else rates
        try:
            return LabelNoise(np.broadcast_to(rates, (n_outputs, 2)).copy())
        except ValueError as error:
            raise ValueError(
                f"flip_rates must have shape (), ({n_outputs},) or ({n_outputs}, 2), got "
                f"{np.shape(self.flip_rates)}"
            ) from error

    def conditional(self, inference: InferenceMethod, n_jobs: int | None = None) -> Objective:
        """Return the `Objective` that trains a conditional model by this rule.

        `flip_rates` should be an array (V, 2) of numbers. If it is still a name, so that the rates
        have not been estimated yet, all rates are 0.1.
        """
        rates = [[FIRST_RATE, FIRST_RATE]] if self.is_estimated else self.flip_rates
        noise = LabelNoise(np.asarray(rates, np.float64))
        return Contrast(
            Corrected(noise, inference, n_jobs),
            Expected(inference, n_jobs),
            inference=inference,
            n_jobs=n_jobs,
            state_key=self.name,
            noise=noise,
        )

    def of_outputs(self, chosen: np.ndarray) -> NoisyLikelihood:
        """Return the rule for the outputs with the indices `chosen`, with their flip rates."""
        return NoisyLikelihood(np.asarray(self.flip_rates)[chosen])
