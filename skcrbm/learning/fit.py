"""Train estimators that learn epoch by epoch: what training needs is described by a `Plan`.

An estimator's `fit` consists of `begin_fit` (in `utils/fitting.py`), the validation of the rows, a
`Plan`, `train`, and warnings. Its `partial_fit` consists of `begin_partial_fit`, the validation, a
`Plan`, and `train_one_epoch`.

The function `fit` carries out a plan. With a stochastic solver it runs the loop of `loop.py`. If
rows are held out, the loop first trains without them to find the best number of epochs, and then
trains again on all rows (unless `refit` is False). With L-BFGS it iterates `lbfgs.descend`.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from skcrbm.inference.choice import convergence_advice
from skcrbm.learning.data import Batch, Design, Epoch, History, Source
from skcrbm.learning.lbfgs import descend, relative_tolerance
from skcrbm.learning.loop import INTERRUPTED, EpochLoop, has_converged, ignore, require_bounded
from skcrbm.learning.objectives import Objective
from skcrbm.learning.optimizers import AdamSteps, Optimizer
from skcrbm.learning.penalties import Penalty
from skcrbm.learning.solvers import (
    LBFGS,
    EarlyStopping,
    LossPlateau,
    Solver,
    StochasticSolver,
    refuse_held_out_rows,
)
from skcrbm.utils.fitting import EpochCallbacks, LiveLine, resume_fit, say
from skcrbm.utils.warm_start import note_structure
from skcrbm.utils.warnings import warn_user


class Progress(NamedTuple):
    """Progress of a training, which a warm start or the next `partial_fit` continues."""

    n_epochs: int = 0  # number of epochs after which the kept parameters were reached
    # number of batches visited so far, including batches after the epoch whose parameters were kept
    n_steps: int = 0
    optimizer: Optimizer | None = (
        None  # None if the state of the optimizer does not belong to the kept parameters
    )
    optimizer_key: tuple = ()
    objective_key: tuple = ()
    state: Any = None  # state of the objective
    n_indices: int = 0  # number of training rows, if `state` has an entry per row


#: Progress of a model that was not trained yet.
NO_PROGRESS = Progress()


def _no_attributes(model: Any, epoch: int) -> dict[str, Any]:
    return {}


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Everything that training needs except random numbers.

    Hyperparameters with the value "auto" have been replaced by the values that "auto" stands for.
    """

    # The field `model` holds the initial parameters, which apply to the transformed
    # inputs `design.X`.
    model: Any
    design: Design  # converts models between the inputs `design.X` and the X of the user
    rows: Source  # training rows; their inputs are `design.X` instead of the X of the user
    objective: Objective
    penalty: Penalty | None
    solver: Solver
    max_iter: int  # largest number of epochs, or of iterations of L-BFGS
    verbose: int
    # Progress of the earlier training that led to the initial parameters. If there was no earlier
    # training, no step has been made.
    progress: Progress = NO_PROGRESS
    # Function that returns the fitted attributes of a model. Its arguments are a model, which
    # applies to the X of the user, and the number of an epoch.
    attributes: Callable[[Any, int], dict[str, Any]] = _no_attributes
    # Only stochastic solvers use the following fields:
    stopping: LossPlateau = field(default_factory=LossPlateau)
    # Number of epochs after which training ends as soon as the loss has converged, see
    # `has_converged`; None to train until the stopping rule sees no improvement.
    enough_epochs: int | None = None
    batch_size: int = 1
    average: bool = False  # True: keep the average of the iterates instead of the last iterate
    # Relative learning rate of each parameter array: a named tuple of floats like `model.params`.
    rate_factors: Any = None
    first_rates: Any = ()  # rates of the first steps of Adam, one per array; see `AdamSteps`
    stratify: bool = False  # True: hold out the same share of each class (1-D y)
    mean_square: float = 0.0  # mean squared length of a row of X, for the step size of "asgd"
    max_speedup: int = 50  # limit of the factor by which Adam's automatic step size is raised
    # Function that fits a simpler model to a batch of rows, or None. If rows are held out, the
    # simpler model is kept unless some epoch has at least the same validation score.
    fallback: Callable[[Batch], Any] | None = None

    @property
    def holds_out(self) -> bool:
        """True if a part of the rows is held out for validation."""
        return self.solver.stochastic and isinstance(self.stopping, EarlyStopping)

    @property
    def n_epochs(self) -> int | None:
        """Largest number of epochs; None if a refit with an unknown number of epochs follows."""
        refits = isinstance(self.stopping, EarlyStopping) and self.stopping.refit
        return None if self.holds_out and refits else self.max_iter

    @property
    def optimizer_key(self) -> tuple:
        """Settings of the optimizer; a warm start with equal settings reuses its state."""
        settings = self.solver.settings if isinstance(self.solver, StochasticSolver) else ()
        return *settings, self.average

    @property
    def objective_key(self) -> tuple:
        """Type and `state_key` of the objective; a warm start with equal values keeps its state."""
        return type(self.objective), self.objective.state_key

    def attributes_of(self, params: Any, epoch: int) -> dict[str, Any]:
        """Return the fitted attributes for parameters that apply to the inputs `design.X`."""
        return self.attributes(self.design.outer(self.model._replace(params=params)), epoch)


class Fitted(NamedTuple):
    """Result of a fit."""

    model: Any  # model with the kept parameters, which apply to the X of the user
    epoch: int  # number of the epoch whose parameters are kept
    # Epochs of the run that gave the kept parameters. Their field `params` is None.
    epochs: list[Epoch]
    # Score of each epoch in the run with held-out rows; None if no rows were held out.
    validation_scores: list[float] | None
    progress: Progress
    n_iter: int  # number of epochs of this call that led to the kept parameters
    # "max_iter", "no_change", "callback" or "interrupted": why training ended; if rows were held
    # out, why the run without them ended
    reason: str

    @property
    def interrupted(self) -> bool:
        """True if the user has interrupted the training."""
        return self.reason == "interrupted"

    @property
    def attributes(self) -> dict[str, Any]:
        """Fitted attributes that all estimators share."""
        return {
            **self.curves,
            "validation_scores_": self.validation_scores,
            "n_iter_": self.n_iter,
            "_progress": self.progress,
        }

    @property
    def curves(self) -> dict[str, list]:
        """Fitted attributes with an entry per epoch."""
        found: dict[str, list] = {
            "loss_curve_": [epoch.loss for epoch in self.epochs],
            "convergence_curve_": [epoch.converged for epoch in self.epochs],
        }
        shares = [epoch.effective_share for epoch in self.epochs]
        if any(share is not None for share in shares):
            found["effective_sample_size_curve_"] = shares
        return found


# ------------------------------------------------------- frames of `fit` and `partial_fit`


def begin_partial_fit(estimator: Any) -> tuple[bool, np.random.RandomState]:
    """Begin a `partial_fit`: return True if it continues from a fitted model, and the generator.

    The generator of an earlier call is copied, so that a failed epoch does not change it.
    """
    resume = estimator.__sklearn_is_fitted__()
    if resume:
        estimator._validate_params()  # scikit-learn validates parameters in the first call only
        resume_fit(estimator)
    else:
        note_structure(estimator)
    refuse_held_out_rows(estimator.early_stopping)
    if resume and hasattr(estimator, "_rng"):
        return resume, copy.deepcopy(estimator._rng)
    return resume, check_random_state(estimator.random_state)


def train(
    estimator: Any, plan: Plan, rng: np.random.RandomState, callbacks: EpochCallbacks
) -> Fitted:
    """Train an estimator as the plan describes, and set its fitted attributes."""
    fitted = fit(plan, rng, callbacks)
    found = plan.attributes(fitted.model, fitted.epoch)
    vars(estimator).update({**found, **fitted.attributes, "_rng": rng})
    _warn_of_max_iter(plan, fitted)
    return fitted


def train_one_epoch(estimator: Any, plan: Plan, rng: np.random.RandomState) -> None:
    """Train an estimator for one epoch, set its fitted attributes, and extend its curves."""
    fitted = fit_one_epoch(plan, rng)
    # A curve may be missing, if `set_params` has changed the learning rule.
    curves = {name: getattr(estimator, name, []) + new for name, new in fitted.curves.items()}
    found = plan.attributes(fitted.model, fitted.epoch)
    vars(estimator).update({**found, **fitted.attributes, **curves, "_rng": rng})


def _warn_of_max_iter(plan: Plan, fitted: Fitted) -> None:
    """Warn if training ended at `max_iter`, although more epochs would change the model.

    L-BFGS has a criterion of convergence. A stochastic solver needs a loss or a validation score,
    whose last quarter must still have made a share of all progress. Rules without a loss, such as
    "cd", do a fixed number of epochs, unless rows are held out.
    """
    if fitted.reason != "max_iter":
        return
    if isinstance(plan.solver, LBFGS):
        text = "iterations of L-BFGS, before the objective had converged"
    elif fitted.validation_scores is not None:
        text = "epochs, while the validation score was still rising"
        if has_converged([-score for score in fitted.validation_scores]):
            return
    else:
        text = "epochs, while the training loss was still falling"
        if not plan.objective.is_loss or has_converged([e.loss for e in fitted.epochs]):
            return
    warn_user(
        f"Training ended after max_iter={plan.max_iter} {text}. The model may be far from the best "
        "one: raise max_iter",
        ConvergenceWarning,
    )


def warn_of_convergence(share: float, method, consequence: str, *remedies: str) -> None:
    """Warn if inference converged for less than 90% of the rows.

    `consequence` says how the result may suffer. `remedies` are further pieces of advice, which
    follow the advice on the options of the method.
    """
    if share < 0.9:
        advice = [part for part in (convergence_advice(method), *remedies) if part]
        warn_user(
            f"{method.name!r} inference converged for {share:.0%} of the rows in the last epoch: "
            f"{consequence}. Try {', or '.join(advice)}.",
            ConvergenceWarning,
        )


# ---------------------------------------------------------------------------- training


def fit(plan: Plan, rng: np.random.RandomState, callbacks: EpochCallbacks | None = None) -> Fitted:
    """Train a model as the plan describes.

    `callbacks` are called at each epoch.

    A FloatingPointError is raised if the parameters grow without bound, and a KeyboardInterrupt
    if the training is interrupted before the end of the first epoch. An interrupt after the first
    epoch ends the training and keeps the parameters found so far.
    """

    def end_epoch(epoch):
        if callbacks is None:
            return False
        return callbacks.end_epoch(lambda: plan.attributes_of(epoch.params, epoch.number))

    begin_epoch = ignore if callbacks is None else callbacks.begin_epoch
    if isinstance(plan.solver, LBFGS):
        return _fit_full_batch(plan, begin_epoch, end_epoch)
    return _fit_epochs(EpochLoop(plan, rng, begin_epoch, end_epoch))


def fit_one_epoch(plan: Plan, rng: np.random.RandomState) -> Fitted:
    """Train for one epoch on all rows.

    If the optimizer of the earlier training has the settings of the plan, training continues with
    a copy of this optimizer.
    """
    before, optimizer = plan.progress, None
    if before.n_steps and before.optimizer_key == plan.optimizer_key:
        # Copy the optimizer, so that a failed epoch does not change the earlier training.
        optimizer = copy.deepcopy(before.optimizer)
    elif before.n_steps:
        # Long first steps would destroy the coefficients that an earlier fit has found.
        plan = replace(plan, first_rates=())
    if isinstance(optimizer, AdamSteps):
        optimizer.lower_rates(plan.first_rates)
    loop = EpochLoop(plan, rng)
    optimizer = optimizer or loop.new_optimizer()
    fitted = _fitted_epochs(loop, loop.run(plan.rows, 1, optimizer), optimizer)
    return fitted._replace(n_iter=fitted.progress.n_epochs)  # counted over all calls


def _fit_epochs(loop: EpochLoop) -> Fitted:
    """Train on all rows; if rows are held out, train without the held-out rows first.

    There are two runs if rows are held out and `refit` is True. Both runs start from the parameters
    of the plan.
    """
    plan, parts, optimizer = loop.plan, None, loop.new_optimizer()
    stopping: Any = plan.stopping
    if plan.holds_out:
        parts = plan.rows.split(stopping.validation_fraction, loop.rng, plan.stratify)
    if parts is None:
        return _fitted_epochs(loop, loop.run(plan.rows, plan.max_iter, optimizer), optimizer)
    rest: Any
    rest, held_out = parts

    def validate(model, number):
        return plan.objective.score(model, held_out, number)

    history = loop.run(rest, plan.max_iter, optimizer, validate)
    scores = [epoch.score for epoch in history.epochs]
    stopped = history.reason in ("callback", "interrupted")
    if plan.fallback is not None and not stopped:
        try:
            simple = plan.fallback(rest.all)
            if validate(simple, loop.first_epoch) > history.best.score:
                return _keep_fallback(loop, simple, history, scores)
        except KeyboardInterrupt:
            warn_user(INTERRUPTED)
            return _fitted_epochs(loop, history, None, scores)
    if history.best.number != history.epochs[-1].number:
        # Drop the optimizer, because its state belongs to an epoch after the kept epoch.
        optimizer = None
    if not stopping.refit or stopped:
        return _fitted_epochs(loop, history, optimizer, scores)
    n_epochs = history.best.number + 1 - loop.first_epoch
    say(plan.verbose, f"Best epoch {n_epochs}; fitting again on all rows")
    new_optimizer = loop.new_optimizer()
    try:
        # The best number of epochs is known, so this run must not stop early at a plateau of
        # the loss.
        refitted = loop.run(plan.rows, n_epochs, new_optimizer, patience=False)
    except (
        KeyboardInterrupt
    ):  # the second run was interrupted in its first epoch: keep the result of the first run
        warn_user(INTERRUPTED)
        return _fitted_epochs(loop, history, None, scores)
    # Prefer the complete first run to a second run that was cut short.
    if len(refitted.epochs) < n_epochs:
        return _fitted_epochs(loop, history, None, scores)
    return _fitted_epochs(loop, refitted, new_optimizer, scores, history.reason)


def _keep_fallback(loop, simple, history, scores):
    """Replace the model of the best epoch in `history` by a simpler model."""
    plan = loop.plan
    say(plan.verbose, "No epoch improves on the simpler model, which is kept")
    if plan.stopping.refit:
        simple = plan.fallback(plan.rows.all)
    # The simpler model is trained without epochs, so the number of epochs does not grow.
    history.best = history.best._replace(number=loop.first_epoch - 1, params=simple.params)
    return _fitted_epochs(loop, history, None, scores)._replace(epoch=loop.first_epoch)


def _fitted_epochs(loop, history, optimizer, scores=None, reason=None):
    """Return the result of a loop, with the best parameters in `history`.

    `reason` replaces the reason why the run of `history` ended.
    """
    plan = loop.plan
    progress = Progress(
        n_epochs=history.best.number + 1,
        n_steps=next(loop.steps),
        optimizer=optimizer,
        optimizer_key=plan.optimizer_key,
        objective_key=plan.objective_key,
        state=history.state,
        n_indices=plan.rows.n_indices,
    )
    return _result(plan, history, scores, progress, reason)


def _fit_full_batch(plan, begin_epoch, end_epoch) -> Fitted:
    """Train on all rows by L-BFGS; each iteration is reported as an epoch."""
    (batch,) = plan.rows.batches(None, plan.rows.n_rows)
    history = History()
    number = plan.progress.n_epochs
    line = LiveLine(plan.verbose, "Iteration", plan.max_iter, number)
    share = relative_tolerance(plan.objective, plan.model, plan.rows.n_rows)
    steps = descend(
        plan.model, batch, plan.objective, plan.penalty, plan.max_iter, share, plan.solver.tol
    )
    try:
        while len(history.epochs) < plan.max_iter:
            begin_epoch(number)
            started = time.perf_counter()
            function, minimizer, converged = next(steps)
            epoch = Epoch(
                number,
                minimizer.value,
                None,
                minimizer.info / plan.rows.n_rows,
                time.perf_counter() - started,
                function.coordinates.params(minimizer.x),
            )
            history.add(epoch, epoch)
            line.step(number, epoch.summary, epoch.seconds)
            number += 1
            if end_epoch(epoch):
                history.reason = "callback"
                break
            if converged:
                history.reason = "no_change"
                break
    except KeyboardInterrupt:
        if history.best is None:
            raise
        history.reason = "interrupted"
        warn_user(INTERRUPTED)
    finally:
        line.end()
    require_bounded(history.best.params, plan.rows, history.best.number)
    progress = Progress(
        n_epochs=history.best.number + 1,
        n_steps=plan.progress.n_steps + len(history.epochs),
        objective_key=plan.objective_key,
        state=plan.objective.start(plan.rows.n_indices),
        n_indices=plan.rows.n_indices,
    )
    return _result(plan, history, None, progress)


def _result(plan, history, scores, progress, reason=None):
    return Fitted(
        model=plan.design.outer(plan.model._replace(params=history.best.params)),
        epoch=history.best.number,
        epochs=history.epochs,
        validation_scores=scores,
        progress=progress,
        n_iter=progress.n_epochs - plan.progress.n_epochs,
        reason=history.reason if reason is None else reason,
    )
