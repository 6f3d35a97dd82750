"""How good a model is on held-out rows, for early stopping."""

import numpy as np

from skcrbm.inference import infer
from skcrbm.inference.choice import resolve_method
from skcrbm.learning._phases import clamp_visible, one_model_per_row
from skcrbm.utils.limits import EXACT_VALIDATION_UNITS


def negative_log_likelihood(energy, batch, method, n_jobs=None):
    """Weighted sum over rows of ``-log p(observed outputs)``, in the method's approximation."""
    free = infer(energy, method, returns=("log_partition",), n_jobs=n_jobs)
    energy = one_model_per_row(energy, len(batch))
    log_weight = _observed_log_weight(energy, batch, method, n_jobs)
    return float(batch.weight @ (free.log_partition - log_weight))


def _observed_log_weight(energy, batch, method, n_jobs):
    """Log-weight (N,) of the observed outputs, the others summed out."""
    log_weight = energy.log_weight(np.nan_to_num(batch.visible))
    rows = np.flatnonzero(np.isnan(batch.visible).any(axis=1))
    if len(rows):
        clamp = clamp_visible(batch.visible[rows], energy.n_hidden)
        log_weight[rows] = infer(
            energy.rows(rows), method, clamp=clamp, returns=("log_partition",), n_jobs=n_jobs
        ).log_partition
    return log_weight


def row_scores(model, batch, method, n_jobs=None):
    """Both losses of each row: of the label vector, and of the marginals.

    Parameters
    ----------
    model : ConditionalRBM
    batch : Batch
    method : InferenceMethod
        Exact.
    n_jobs : int or None

    Returns
    -------
    ndarray (N, 2)
        ``-log p(observed outputs)``, and minus the sum of the log-probabilities of the single
        observed outputs; of a categorical output they are the same.
    """
    energy = model.energy(batch.X)
    free = infer(energy, method, returns=("marginals", "log_partition"), n_jobs=n_jobs)
    joint = free.log_partition - _observed_log_weight(energy, batch, method, n_jobs)
    if energy.categorical:
        return np.column_stack([joint, joint])
    log_odds = free.log_odds[:, : energy.n_visible].astype(np.float64)
    single = np.logaddexp(0, np.where(batch.visible == 1, -log_odds, log_odds))
    single[np.isnan(batch.visible)] = 0.0
    return np.column_stack([joint, single.sum(axis=1)])


def share_of_errors(visible, batch):
    """Weighted share of wrong outputs among those observed."""
    observed = ~np.isnan(batch.visible)
    wrong = (visible != batch.visible) & observed
    return float(batch.weight @ wrong.sum(1)) / float(batch.weight @ observed.sum(1))


def validation_score(model, batch, method, n_jobs=None):
    """Mean score of the rows, higher is better.

    The exact conditional log-likelihood where the smaller layer has at most
    `EXACT_VALIDATION_UNITS` units, whatever method is used in training: approximations to it
    may rise while it falls. Beyond that, minus the share of wrong outputs when each is read
    off its marginal (Ping and Ihler 2017).

    Parameters
    ----------
    model : ConditionalRBM
    batch : Batch
    method : InferenceMethod
        The method of training, used where the likelihood is out of reach.
    n_jobs : int or None

    Returns
    -------
    float
    """
    energy = model.energy(batch.X)
    if energy.n_enumerated() <= EXACT_VALIDATION_UNITS:
        exact = resolve_method("exact")
        return -negative_log_likelihood(energy, batch, exact, n_jobs) / batch.weight.sum()
    marginals = infer(energy, method, n_jobs=n_jobs).marginals[:, : energy.n_visible]
    return -share_of_errors(marginals >= 0.5, batch)
