"""Phases that are best states: completions of the labels and loss-augmented MAP."""

import numpy as np

from skcrbm.energies import RBMEnergy
from skcrbm.inference import infer
from skcrbm.inference.choice import methods_for, resolve_method
from skcrbm.learning._phases import Phase, clamp_visible, moments_of_states, one_model_per_row

#: The query for the best visible state, by what becomes of the hidden units.
QUERIES = {"marginal": "marginal_map", "max": "map"}


def state_query(method, preferred):
    """Return the query for a best state that `method` answers, `preferred` if it can choose.

    Raises
    ------
    ValueError
        If it answers none, naming the methods that do.
    """
    for query in (preferred, "map", "marginal_map"):
        if query in method.answers:
            return query
    raise ValueError(
        f"inference={method.name!r} finds no best state, which max-margin learning needs; methods "
        f"that do: {', '.join(map(repr, state_methods()))}"
    )


def state_methods():
    """Names of the methods that find a best state of an RBM."""
    return methods_for(RBMEnergy, {"map"}, {"marginal_map"})


class BestState(Phase):
    """Base of the phases that search for a best visible state.

    Parameters
    ----------
    inference : InferenceMethod
    hidden : {"marginal", "max"}
        Whether hidden units are summed out or take their best values.
    n_jobs : int or None
    """

    def __init__(self, inference, hidden="marginal", n_jobs=None):
        self.inference = inference
        self.hidden = hidden
        self.n_jobs = n_jobs

    def search(self, energy, epoch, clamp=None):
        """Best visible states (N, V) that inference finds, and whether it converged (N,)."""
        method = self.inference.at_epoch(epoch)
        if energy.categorical:  # few classes: enumerated, whatever the method
            method = resolve_method("exact")
        query = state_query(method, QUERIES[self.hidden])
        result = infer(energy, method, returns=query, clamp=clamp, n_jobs=self.n_jobs)
        return result.assignment[:, : energy.n_visible], result.converged


class Completed(BestState):
    """Positive phase: the labels, those not observed at their best."""

    def __call__(self, energy, batch, clock, state, positive=None):
        """Return the `Moments` of the completed labels; nothing is kept."""
        energy = one_model_per_row(energy, len(batch))
        target = batch.visible.astype(energy.dtype, copy=True)
        converged = np.ones(len(batch), bool)
        rows = np.flatnonzero(np.isnan(target).any(axis=1))
        if len(rows):
            clamp = clamp_visible(target[rows], energy.n_hidden)
            target[rows], converged[rows] = self.search(energy.rows(rows), clock.epoch, clamp)
        return moments_of_states(energy, target, self.hidden, converged), state


class LossAugmented(BestState):
    """Negative phase: loss-augmented MAP, ``argmax_v D(v, y) + s(v)``, and that maximum.

    D counts the wrong outputs among those observed (of a categorical output: whether the class
    is wrong). It is linear in v, a shift of the visible fields.
    """

    def __call__(self, energy, batch, clock, state, positive=None):
        """Return the `Moments` of the maximiser, its loss in `log_weight`; nothing is kept."""
        energy = one_model_per_row(energy, len(batch))
        # A wrong class is two wrong units.
        unit = 0.5 if energy.categorical else 1.0
        shift = unit * np.nan_to_num(1 - 2 * batch.visible)  # NaN: not observed, no loss
        first, *others = energy.fields
        augmented = energy.with_fields(first + shift, *others)
        found, converged = self.search(augmented, clock.epoch)
        moments = moments_of_states(energy, found, self.hidden, converged)
        wrong = (found != batch.visible) & ~np.isnan(batch.visible)
        return moments._replace(log_weight=unit * wrong.sum(axis=1) + moments.log_weight), state
