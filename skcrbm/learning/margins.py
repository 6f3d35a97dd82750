"""Max-margin learning of conditional RBMs, with loss-augmented MAP as the negative phase."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from skcrbm.energies import RBMEnergy
from skcrbm.inference import InferenceMethod
from skcrbm.inference.base import resolve_method
from skcrbm.inference.choice import methods_for
from skcrbm.inference.running import run_inference
from skcrbm.learning.data import Batch
from skcrbm.learning.objectives import Contrast, share_of_errors
from skcrbm.learning.phases import Phase, clamp_visible, moments_of_states, one_model_per_row
from skcrbm.utils.options import Registry

#: Query with which `infer` finds the best visible state. The key is "marginal" if hidden units are
#: summed out, and "max" if they take their best values.
QUERIES = {"marginal": "marginal_map", "max": "map"}


def state_query(method: InferenceMethod, preferred: str) -> str:
    """Return a query for a best state that `method` can answer; `preferred` has priority.

    If the method cannot find any best state, a ValueError lists the methods that can.
    """
    for query in (preferred, "map", "marginal_map"):
        if query in method.answers:
            return query
    raise ValueError(
        f"inference={method.name!r} cannot find a best state, which max-margin learning needs; use "
        f"one of {', '.join(map(repr, state_methods()))}"
    )


def state_methods() -> Sequence[str]:
    """Return the names of the methods that find a best state of an RBM."""
    return methods_for(RBMEnergy, {"map"}, {"marginal_map"})


class BestState(Phase):
    """Base class of the phases that search for a best visible state.

    If `hidden` is "marginal", hidden units are summed out. If it is "max", they take their best
    values.
    """

    def __init__(
        self, inference: InferenceMethod, hidden: str = "marginal", n_jobs: int | None = None
    ):
        self.inference = inference
        self.hidden = hidden
        self.n_jobs = n_jobs

    def search(self, energy, epoch: int, clamp=None) -> tuple[np.ndarray, np.ndarray]:
        """Return the best visible states found (N, V) and whether inference converged (N,)."""
        method = self.inference.at_epoch(epoch)
        if energy.categorical:  # enumerate, because a single output has only a few classes
            method = resolve_method("exact")
        query = state_query(method, QUERIES[self.hidden])
        result = run_inference(energy, method, returns=query, clamp=clamp, n_jobs=self.n_jobs)
        return result.assignment[:, : energy.n_visible], result.converged


class Completed(BestState):
    """Positive phase: the moments of the labels, with missing labels at their best values."""

    def __call__(self, energy, batch, clock, state, positive=None):
        """Return the `Moments` of the completed labels, and the unchanged `state`."""
        energy = one_model_per_row(energy, len(batch))
        target = batch.visible.astype(energy.dtype, copy=True)
        converged = np.ones(len(batch), bool)
        rows = np.flatnonzero(np.isnan(target).any(axis=1))
        if len(rows):
            clamp = clamp_visible(target[rows], energy.n_hidden)
            target[rows], converged[rows] = self.search(energy.rows(rows), clock.epoch, clamp)
        return moments_of_states(energy, target, self.hidden, converged), state


class LossAugmented(BestState):
    """Negative phase that finds the loss-augmented MAP state, ``argmax_v D(v, y) + s(v)``.

    y are the labels of the row, s is the score of v, and D counts the wrong observed outputs. For a
    categorical output, D is 1 if the class is wrong. D is linear in v, so adding D only shifts the
    fields of the visible units.
    """

    def __call__(self, energy, batch, clock, state, positive=None):
        """Return the `Moments` of the state that was found, and the unchanged argument `state`.

        The field `log_weight` of the moments is the sum of D and the score.
        """
        energy = one_model_per_row(energy, len(batch))
        # A wrong class differs from the right class in two units, so each of these units counts one
        # half.
        unit = 0.5 if energy.categorical else 1.0
        shift = unit * np.nan_to_num(1 - 2 * batch.visible)  # missing labels (NaN) get the shift 0
        first, *others = energy.fields
        augmented = energy.with_fields(first + shift, *others)
        found, converged = self.search(augmented, clock.epoch)
        moments = moments_of_states(energy, found, self.hidden, converged)
        wrong = (found != batch.visible) & ~np.isnan(batch.visible)
        return moments._replace(log_weight=unit * wrong.sum(axis=1) + moments.log_weight), state


class MarginalHiddenMargin(Contrast):
    """Marginal structured SVM (Ping, Liu and Ihler 2014; Ping and Ihler 2017, section 4.2).

    With the score ``s(v) = log sum_h exp(-E(v, h))``, the loss of a row with outputs y is
    ``max_v [D(v, y) + s(v)] - s(y)``, where D counts the wrong outputs. The inference method looks
    for the maximiser v_hat, and the gradient of ``s(v_hat) - s(y)`` is a subgradient of the loss.
    If the method finds only a state v_hat with ``D(v_hat, y) + s(v_hat)`` below ``s(y)``, the loss
    of the row is 0.

    Missing outputs do not count in D and take their best values in y.
    """

    #: "marginal" sums hidden units out, "max" maximises over them, as in `RBMEnergy.log_weight`.
    hidden: ClassVar[str] = "marginal"
    #: Query of `infer` that finds the maximiser.
    query: ClassVar[str] = QUERIES["marginal"]
    negative: LossAugmented

    def __init__(self, inference: InferenceMethod, n_jobs: int | None = None):
        super().__init__(
            Completed(inference, self.hidden, n_jobs),
            LossAugmented(inference, self.hidden, n_jobs),
            only_violations=True,
            inference=inference,
            n_jobs=n_jobs,
            state_key=self.hidden,
        )

    def score(self, model, batch: Batch, epoch: int) -> float:
        """Predict by the inference method of training; return minus the share of wrong outputs."""
        return -share_of_errors(self.negative.search(model.energy(batch.X), epoch)[0], batch)


class MaxHiddenMargin(MarginalHiddenMargin):
    """Latent structural SVM (Yu and Joachims 2009): the score is ``s(v) = max_h -E(v, h)``."""

    hidden = "max"
    query = QUERIES["max"]


#: Objective for each value of `MSSVMCRBM(hidden=...)`.
MARGIN_OBJECTIVES = Registry(
    "hidden",
    {
        "marginal": "skcrbm.learning.margins:MarginalHiddenMargin",
        "max": "skcrbm.learning.margins:MaxHiddenMargin",
    },
)
