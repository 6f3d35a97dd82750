"""Objectives, which compute the gradient and the loss of a batch as a difference of two phases.

`rules.py` has the public learning rules (`Likelihood`, `ContrastiveDivergence`, ...), each of
which builds an objective from two phases of `phases.py`. This module also computes scores of models
on held-out rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from skcrbm.energies import BaseEnergy
from skcrbm.energies.states import is_categorical, unchecked
from skcrbm.inference import InferenceMethod
from skcrbm.inference.base import resolve_method
from skcrbm.inference.running import run_inference
from skcrbm.learning.data import Batch, Clock
from skcrbm.learning.phases import Phase, clamp_visible, one_model_per_row, weighted_total
from skcrbm.utils.limits import EXACT_VALIDATION_UNITS


class Step(NamedTuple):
    """Gradient and loss of a batch, as weighted sums over its rows."""

    # Gradient, a named tuple like `model.params` with arrays or `RowSparse` objects, which the
    # training loop may change in place.
    gradient: Any
    loss: float
    n_converged: int  # number of rows whose inference converged
    # effective sample size divided by the number of states; None if states have no weights
    effective_share: float | None = None

    @classmethod
    def total(cls, steps: Iterable[Step]) -> Step:
        """Add up the steps of all parts of a batch; `effective_share` of the sum is None.

        `steps` may be a generator, so that at most two gradients are in memory at a time.
        """
        steps = iter(steps)
        total = next(steps)
        for step in steps:
            parts = zip(total.gradient, step.gradient)
            gradient = type(total.gradient)(*(a + b for a, b in parts))
            loss, n_converged = total.loss + step.loss, total.n_converged + step.n_converged
            total = cls(gradient, loss, n_converged)
            del step, parts  # release the gradient before the next step is computed
        return total


class Objective(ABC):
    """Base class of the objectives, which evaluate a loss and its gradient on a batch.

    Some objectives have no loss and compute only a direction of descent. An objective stores only
    options. Data that must be kept between batches, such as Markov chains, is in a `state`: `start`
    returns the first state, and `step` takes a state and returns the next.

    A model is a named tuple with a field `params`, which is a named tuple of arrays, and two
    methods: ``energy(X)``, which returns one energy per row or a single energy for all rows, and
    ``gradient(X, unary, statistics)``, which `ConditionalRBM.gradient` describes.
    """

    #: True if every output must be observed.
    needs_complete: bool = False
    #: True if the objective draws random numbers.
    draws: bool = False
    #: True if training lowers the loss, so that training may stop when the loss stops falling.
    is_loss: bool = True
    #: True if the state has an entry for each training row, at the position in `Batch.index`.
    keeps_chains: bool = False
    #: Value that identifies the objective and its options. A later fit may continue from the state
    #: of an earlier fit if both fits have equal keys.
    state_key: Any = None
    #: `LabelNoise` of the observed labels, or None if all observed labels are taken to be true.
    noise: Any = None
    #: L-BFGS stops when ten iterations lower the objective by no more than this share of its value.
    #: If it is None, the share depends on the number of hidden units.
    share: float | None = None

    def coordinates(self, model, batch: Batch, penalty) -> Any:
        """Return the object that converts parameters to a vector for L-BFGS, and back.

        None stands for `CenteredCoordinates`, the conversion for conditional RBMs.
        """
        return None

    def start(self, n_rows: int) -> Any:
        """Return the state that `step` gets for the first batch, or None if there is no state.

        An example of a state is an array of Markov chains with a chain for each training row.
        `n_rows` is the number of training rows.
        """
        return None

    def rows_read(self, model, batch: Batch):
        """For each parameter array, return the rows that a step on the batch reads.

        The result has an entry for each array: the indices of the rows, or None for all rows. If
        the result itself is None, the step reads all rows of all arrays. Objectives with
        `RowSparse` gradients override this method, so that the optimizer can postpone the update of
        rows that are not read.
        """
        return None

    @abstractmethod
    def step(self, model, batch: Batch, clock: Clock, state) -> tuple[Step, Any]:
        """Return the `Step` of a batch and the new state; `state` may be changed in place."""

    @abstractmethod
    def score(self, model, batch: Batch, epoch: int) -> float:
        """Return the score of held-out rows; higher is better."""


class Contrast(Objective):
    """Objective whose gradient is the difference of the moments of two phases, negative - positive.

    The method `inference` computes the validation score. If `only_violations` is True, a row counts
    only if its log-weight is larger in the negative phase than in the positive phase, as in a hinge
    loss or a perceptron. Both phases must then give one state per row. `Objective` explains
    `needs_complete`, `is_loss` and `state_key`.
    """

    def __init__(
        self,
        positive: Phase,
        negative: Phase,
        *,
        inference,
        n_jobs: int | None = None,
        only_violations: bool = False,
        needs_complete: bool = False,
        is_loss: bool = True,
        state_key: Any = None,
        noise: Any = None,
    ):
        self.noise = noise
        self.positive = positive
        self.negative = negative
        self.only_violations = only_violations
        self.inference = inference
        self.n_jobs = n_jobs
        self.draws = positive.draws or negative.draws
        self.keeps_chains = positive.keeps_chains or negative.keeps_chains
        self.needs_complete = needs_complete
        self.is_loss = is_loss
        self.state_key = state_key

    def start(self, n_rows: int) -> tuple:
        """Return the states of the two phases."""
        return self.positive.start(n_rows), self.negative.start(n_rows)

    def step(self, model, batch: Batch, clock: Clock, state) -> tuple[Step, tuple]:
        """Return the `Step` of a batch and the states of the phases."""
        energy = model.energy(batch.X)
        positive, positive_state = self.positive(energy, batch, clock, state[0])
        negative, negative_state = self.negative(energy, batch, clock, state[1], positive)
        excess = negative.log_weight - positive.log_weight
        if self.only_violations:
            negative = self._where_violated(excess > 0, positive, negative)
            excess = np.maximum(excess, 0)
        weight = batch.weight
        statistics = (
            n - p
            for n, p in zip(
                _statistics(energy, negative, weight),
                _statistics(energy, positive, weight),
                strict=True,
            )
        )
        gradient = model.gradient(
            batch.X, _unary_difference(positive, negative, weight), tuple(statistics)
        )
        converged = np.broadcast_to(positive.converged & negative.converged, len(weight))
        loss = float(weight @ np.broadcast_to(excess, len(weight)))
        step = Step(gradient, loss, int(converged.sum()), negative.effective_share)
        return step, (positive_state, negative_state)

    @staticmethod
    def _where_violated(violated, positive, negative):
        """Return `negative`, but with the moments of `positive` in rows without a violation."""
        if positive.statistics is not None or negative.statistics is not None:
            raise TypeError("only_violations=True needs phases that give one state per row")
        unary = np.where(violated[:, None], negative.unary, positive.unary)
        return negative._replace(unary=unary)

    def loss(self, model, batch: Batch) -> float:
        """Return the negative log-likelihood of a batch without its gradient."""
        energy = model.energy(batch.X)
        return negative_log_likelihood(energy, batch, self.inference, self.n_jobs, self.noise)

    def score(self, model, batch: Batch, epoch: int) -> float:
        """Return the `validation_score` of held-out rows."""
        method = self.inference.at_epoch(epoch)
        return validation_score(model, batch, method, self.n_jobs, self.noise)


class DensityContrast(Contrast):
    """Objective of a density, which does not depend on X.

    The gradient is the moments of the model minus the moments of the data.
    """

    def score(self, model, batch: Batch, epoch: int) -> float:
        """Return the mean log-likelihood of held-out rows, or their pseudo-likelihood.

        The likelihood is computed by enumeration. If more than `EXACT_VALIDATION_UNITS` units would
        have to be enumerated, the score is the pseudo-likelihood of the rows without NaN.
        """
        energy = model.energy(batch.X)
        if energy_at_any_time(model, batch.X).n_enumerated() <= EXACT_VALIDATION_UNITS:
            exact = resolve_method("exact")
            return -negative_log_likelihood(energy, batch, exact, self.n_jobs) / batch.weight.sum()
        complete = np.flatnonzero(~np.isnan(batch.visible).any(axis=1))
        if len(complete) == 0:
            raise ValueError(
                "early_stopping needs rows without NaN to validate a model of this size, but "
                "each held-out row contains NaN; set early_stopping=False"
            )
        rows = batch.rows(complete)
        log_odds = unchecked(one_model_per_row(energy, len(rows)).visible_log_odds)(rows.visible)
        if is_categorical(energy):
            codes = rows.visible.astype(np.int64)[..., None]
            wrong = np.logaddexp(0, -np.take_along_axis(log_odds, codes, axis=2)[..., 0])
        else:
            wrong = np.logaddexp(0, np.where(rows.visible == 1, -log_odds, log_odds))
        return -float(rows.weight @ wrong.sum(axis=1, dtype=np.float64)) / rows.weight.sum()


def energy_at_any_time(model: Any, X: Any) -> BaseEnergy:
    """Return an energy of the same shape as the energy of a density, without parameters of 0.

    Its size is a limit for the whole training, while a model without couplings is small.
    """
    ones = type(model.params)(*(np.ones_like(part) for part in model.params))
    return model._replace(params=ones).energy(X)


def _statistics(energy, moments, weight):
    if moments.statistics is not None:
        return moments.statistics
    return unchecked(energy.sum_statistics)(moments.unary, weight)


def _unary_difference(positive, negative, weight):
    """Subtract the variables' means in the positive phase from their means in the negative phase.

    The difference is multiplied by the weights of the rows. It has one row for each row of the
    batch, or, if all rows share a single model, a single row with the sum over the batch.
    """
    dtype = negative.unary.dtype
    if len(positive.unary) == len(negative.unary) == len(weight):
        return weight[:, None].astype(dtype) * (negative.unary - positive.unary)
    return _total(negative.unary, weight) - _total(positive.unary, weight)


def _total(unary, weight):
    weight = weight.astype(unary.dtype)
    return unary * weight.sum() if len(unary) == 1 else weighted_total(unary, weight)


# ------------------------------------------------------- scores of held-out rows


def negative_log_likelihood(
    energy, batch: Batch, method: InferenceMethod, n_jobs: int | None = None, noise: Any = None
) -> float:
    """Return the weighted sum over rows of ``-log p(observed outputs)``.

    `noise` is the `LabelNoise` of the observed outputs, or None if they are the true outputs.
    `method` computes log Z; the result is approximate unless the method is exact.
    """
    free = run_inference(energy, method, returns=("log_partition",), n_jobs=n_jobs)
    energy = one_model_per_row(energy, len(batch))
    log_weight = _observed_log_weight(energy, batch, method, n_jobs, noise)
    return float(batch.weight @ (free.log_partition - log_weight))


def _observed_log_weight(energy, batch, method, n_jobs, noise):
    """Return the log-weight (N,) of the observed outputs, summed over the missing outputs."""
    if noise is not None:
        return noise.log_partition(energy, batch.visible, method, n_jobs)
    log_weight = unchecked(energy.log_weight)(np.nan_to_num(batch.visible))
    rows = np.flatnonzero(np.isnan(batch.visible).any(axis=1))
    if len(rows):
        clamp = clamp_visible(batch.visible[rows], energy.n_hidden)
        log_weight[rows] = run_inference(
            energy.rows(rows), method, clamp=clamp, returns=("log_partition",), n_jobs=n_jobs
        ).log_partition
    return log_weight


def row_scores(
    model, batch: Batch, method: InferenceMethod, n_jobs: int | None = None, noise: Any = None
) -> np.ndarray:
    """Return the joint and the marginal loss of each row (N, 2); `method` must be exact.

    The joint loss is ``-log p(observed outputs)``. The marginal loss is minus the sum of the
    marginal log-probabilities of the observed outputs. For a categorical output, both losses are
    equal. If a group of units encodes the classes of an output, exactly one unit of the group is
    on, and the marginal loss adds up only the log-probabilities of units that are on.
    """
    energy = model.energy(batch.X)
    free = run_inference(energy, method, returns=("marginals", "log_partition"), n_jobs=n_jobs)
    joint = free.log_partition - _observed_log_weight(energy, batch, method, n_jobs, noise)
    if energy.categorical:
        return np.column_stack([joint, joint])
    log_odds = free.log_odds[:, : energy.n_visible].astype(np.float64)
    log_odds = log_odds if noise is None else noise.observed_log_odds(log_odds)
    single = np.logaddexp(0, np.where(batch.visible == 1, -log_odds, log_odds))
    single[np.isnan(batch.visible) | (energy.exclusive & (batch.visible == 0))] = 0.0
    return np.column_stack([joint, single.sum(axis=1)])


def share_of_errors(visible: np.ndarray, batch: Batch) -> float:
    """Return the weighted share of wrong outputs among the observed outputs."""
    observed = ~np.isnan(batch.visible)
    wrong = (visible != batch.visible) & observed
    return float(batch.weight @ wrong.sum(1)) / float(batch.weight @ observed.sum(1))


def validation_score(
    model, batch: Batch, method: InferenceMethod, n_jobs: int | None = None, noise: Any = None
) -> float:
    """Return the mean score of held-out rows; higher is better.

    The score is the exact conditional log-likelihood if the smaller layer has at most
    `EXACT_VALIDATION_UNITS` units, even if `method` is approximate: an approximate likelihood may
    rise while the exact likelihood falls. For larger models the score is minus the share of wrong
    outputs. Each output is then predicted from the marginal that `method` computes (Ping and Ihler
    2017).
    """
    energy = model.energy(batch.X)
    if energy.n_enumerated() <= EXACT_VALIDATION_UNITS:
        exact = resolve_method("exact")
        return -negative_log_likelihood(energy, batch, exact, n_jobs, noise) / batch.weight.sum()
    log_odds = run_inference(energy, method, n_jobs=n_jobs).log_odds[:, : energy.n_visible]
    return -share_of_errors(energy.marginal_modes(log_odds), batch)
