"""Estimate the flip rates of labels, for a fit of CRBMClassifier with `NoisyLikelihood`."""

from __future__ import annotations

from typing import Any

import numpy as np

from skcrbm.estimators._base import Rows
from skcrbm.estimators._thresholds import copy_for_folds, without_repeated_warnings
from skcrbm.inference.running import run_inference
from skcrbm.learning.label_noise import LEAST_RATE, MOST_RATE, LabelNoise, NoisyLikelihood
from skcrbm.model_selection import MultilabelStratifiedKFold
from skcrbm.model_selection.folds import out_of_fold
from skcrbm.targets.weights import (
    first_copies,
    folds_of_copies,
    label_weights,
)
from skcrbm.utils.limits import MIN_SEARCH_ROWS

# The search for a flip rate of all labels starts at _RATES[_FIRST]. It tries the next larger and
# the next smaller rates in _RATES as long as the score improves.
_RATES = [0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4]
_FIRST = 3
# Number of folds of the rows for the estimation of flip rates.
_N_FOLDS = 4


def with_flip_rates(estimator: Any, rule: NoisyLikelihood, rows: Rows, rng) -> NoisyLikelihood:
    """Return the learning rule with flip rates (V, 2), after estimating the rates if necessary."""
    if not rule.is_estimated:
        return with_given_rates(rule, rows.visible.shape[1])
    return NoisyLikelihood(_estimated_noise(estimator, rule, rows, rng).rates)


def with_given_rates(rule: NoisyLikelihood, n_visible: int) -> NoisyLikelihood:
    """Return the learning rule with flip rates (V, 2) for `partial_fit`.

    A ValueError is raised if the rates would have to be estimated.
    """
    if rule.is_estimated:
        raise ValueError(
            f"flip_rates={rule.flip_rates!r} cannot be estimated by partial_fit, which sees only a "
            "part of the rows; use fit, or give the rates as numbers"
        )
    return NoisyLikelihood(rule.noise(n_visible).rates)


def _estimated_noise(estimator, rule, rows, rng):
    """Return the estimated flip rates; see the Notes of `NoisyLikelihood`."""
    n_rows = np.count_nonzero(~np.isnan(rows.first.visible).all(axis=1))
    if n_rows < MIN_SEARCH_ROWS:
        raise ValueError(
            f"flip_rates={rule.flip_rates!r} needs at least {MIN_SEARCH_ROWS} rows with an "
            f"observed label, got {n_rows}; give the rates as numbers"
        )
    search = _RateSearch(estimator, rows, rng)
    n_visible = rows.visible.shape[1]
    rate = search.best_common_rate()
    noise = LabelNoise(np.full((n_visible, 2), rate))
    if rule.flip_rates == "symmetric":
        return noise
    for _ in range(rule.max_iter):
        on, _ = search.held_out(noise)
        rates = _mean_flips(on, rule.flip_rates, rows)
        # A step that is twice as long as the step of EM leads to the same rates in fewer
        # iterations.
        rates = np.clip(2 * rates - noise.rates, LEAST_RATE, MOST_RATE)
        change = np.abs(rates - noise.rates).max()
        noise = LabelNoise(rates)
        if change <= rule.tol:
            break
    return noise


class _RateSearch:
    """Fit copies of an estimator with given flip rates, to all rows and to parts of the rows."""

    def __init__(self, estimator, rows, rng):
        self.estimator, self.rows = estimator, rows
        self.multilabel = estimator._targets.multilabel
        seed = self.seed = rng.randint(np.iinfo(np.int32).max)
        splitter = MultilabelStratifiedKFold(_N_FOLDS, shuffle=True, random_state=seed)
        first = rows.visible[first_copies(rows.origin)]
        self.folds = folds_of_copies(splitter.split(first, first), rows.origin)
        self.weight = label_weights(rows.visible, rows.weight, rows.origin)

    def held_out(self, noise):
        """Return P(true label is 1) as an array (N, V), and the log-likelihood of all rows.

        The probabilities of a row are conditional on x and on the observed labels of the row. Both
        results come from a model that was not fitted on the row.
        """
        rows, first = self.rows, self.rows.first
        # The row weights already include the class weights.
        changes = {"learning": NoisyLikelihood(noise.rates), "class_weight": None}
        model = copy_for_folds(self.estimator, self.seed, **changes)
        with without_repeated_warnings():
            model.fit(first.X, self._labels(first.visible), sample_weight=self.weight)
            X, visible, found = model._fold_settings(rows)
            answers = out_of_fold(
                copy_for_folds(model, self.seed, **found),
                X,
                self._labels(visible),
                cv=self.folds,
                respond=_true_labels,
                fit_params={"sample_weight": rows.weight},
                beside=(visible,),
            )
        return answers[:, :-1], float(rows.weight @ answers[:, -1])

    def _labels(self, visible):
        """Return the y to which copies of the estimator are fitted.

        This is a matrix (N, V) of labels, or a vector (N,) for a 1-D y of two classes.
        """
        return visible if self.multilabel else visible[:, 0]

    def best_common_rate(self):
        """Find a flip rate, equal for all labels, that maximises the held-out log-likelihood."""
        n_visible = self.rows.visible.shape[1]
        found: dict[int, float] = {}

        def score(k):
            if k not in found:
                noise = LabelNoise(np.full((n_visible, 2), _RATES[k]))
                found[k] = self.held_out(noise)[1]
            return found[k]

        at = _FIRST
        for step in (1, -1):
            while 0 <= at + step < len(_RATES) and score(at + step) > score(at):
                at += step
        if not 0 < at < len(_RATES) - 1:
            return _RATES[at]
        # Fit a parabola to three scores as a function of log(rate), and return the rate at its
        # maximum.
        x = np.log(_RATES[at - 1 : at + 2])
        bend, slope, _ = np.polyfit(x - x[1], [score(at - 1), score(at), score(at + 1)], 2)
        if bend >= 0:
            return _RATES[at]
        return float(np.exp(np.clip(x[1] - 0.5 * slope / bend, x[0], x[2])))


def _true_labels(model, X, visible):
    """Return an array (n, V + 1) for n held-out rows.

    The first V columns hold P(true label is 1) of each label, and the last column holds the
    log-likelihood of each row.
    """
    noise = LabelNoise(model.flip_rates_)
    posterior = model._posterior(X)
    energy = noise.observe(posterior.energy, visible)
    answers = ("marginals", "log_partition")
    found = run_inference(energy, posterior.method, returns=answers, n_jobs=model.n_jobs)
    free = run_inference(
        posterior.energy, posterior.method, returns=answers[1:], n_jobs=model.n_jobs
    )
    log_p = found.log_partition + noise.log_weight_of_off(visible) - free.log_partition
    return np.column_stack([found.marginals[:, : visible.shape[1]], log_p]).astype(np.float64)


def _mean_flips(on, kind, rows):
    """Return flip rates (V, 2): the expected shares of wrong labels among true 0 and true 1.

    `on` (N, V) holds the probabilities that the true labels are 1. `kind` is an option of the
    parameter `flip_rates` of `NoisyLikelihood`, such as "symmetric".
    """
    weight = rows.weight[:, None] * ~np.isnan(rows.visible)
    true = np.stack([(weight * (1 - on)).sum(axis=0), (weight * on).sum(axis=0)], axis=1)
    wrong = np.stack(
        [
            (weight * (rows.visible == 1) * (1 - on)).sum(axis=0),
            (weight * (rows.visible == 0) * on).sum(axis=0),
        ],
        axis=1,
    )
    if kind == "symmetric":
        true, wrong = (part.sum(keepdims=True) for part in (true, wrong))
    elif kind == "per_label":
        true, wrong = (part.sum(axis=1, keepdims=True) for part in (true, wrong))
    rates = np.divide(wrong, true, out=np.full_like(wrong, LEAST_RATE), where=true > 0)
    return np.broadcast_to(rates, (on.shape[1], 2))
