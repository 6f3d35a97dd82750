"""How good a model is on held-out rows, for early stopping."""

import numpy as np

from skcrbm.energies import OneHotRBMEnergy
from skcrbm.inference import infer, resolve_method
from skcrbm.learning._likelihood import Likelihood

# Enumerating 2^14 states of some hundred held-out rows takes tenths of a second an epoch.
_EXACT_UNITS = 14


def validation_score(model, batch, method, n_jobs=None):
    """Mean score of the rows, higher is better.

    The exact conditional log-likelihood where the smaller layer has at most 14 units,
    whatever method is used in training: approximations to it may rise while it falls.
    Beyond that, minus the share of wrong outputs when each is read off its marginal
    (Ping and Ihler 2017).

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
    total = batch.weight.sum()
    smaller = min(model.params.weights.shape)
    if model.energy_type is OneHotRBMEnergy or smaller <= _EXACT_UNITS:
        return -Likelihood(resolve_method("exact"), n_jobs).loss(model, batch) / total
    marginals = infer(model.energy(batch.X), method, n_jobs=n_jobs).marginals[
        :, : batch.visible.shape[1]
    ]
    wrong = np.where(np.isnan(batch.visible), 0, (marginals >= 0.5) != batch.visible)
    observed = (~np.isnan(batch.visible)).sum(1)
    return -float(batch.weight @ wrong.sum(1)) / float(batch.weight @ observed)
