"""Train estimators that learn epoch by epoch: `fit` takes a `Plan` and returns a `Fitted`.

An estimator's `fit` method validates the data, builds a `Plan`, calls `fit` and sets attributes;
its `partial_fit` method calls `fit_one_epoch` instead. With a stochastic solver `fit` runs the loop
of `loop.py`. If rows are held out, the loop first trains without them to find the best number of
epochs, and then trains again on all rows (unless `refit` is False). With L-BFGS `fit` iterates
`lbfgs.descend`.
"""

from __future__ import annotations

import copy
import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from skcrbm.inference.choice import convergence_advice
from skcrbm.inference.random_numbers import random_key
from skcrbm.learning.data import Batch, Design, Epoch, History, Source
from skcrbm.learning.lbfgs import descend, relative_tolerance
from skcrbm.learning.loop import run_epochs
from skcrbm.learning.objectives import Objective
from skcrbm.learning.optimizers import AdamSteps, Optimizer
from skcrbm.learning.penalties import Penalty
from skcrbm.learning.solvers import (
    LBFGS,
    EarlyStopping,
    LossPlateau,
    Solver,
    StepScale,
    StochasticSolver,
)
from skcrbm.utils.fitting import EpochCallbacks, LiveLine, say
from skcrbm.utils.warnings import warn_user

INTERRUPTED = "Training interrupted; keeping what was learned so far."


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
    # Only stochastic solvers use the following fields:
    stopping: LossPlateau = field(default_factory=LossPlateau)
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
    interrupted: bool

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
        return {
            "loss_curve_": [epoch.loss for epoch in self.epochs],
            "convergence_curve_": [epoch.converged for epoch in self.epochs],
        }


def joined_curves(estimator, new: dict[str, list]) -> dict[str, list]:
    """Append the entries `new` of the next epoch to the curves of an estimator; return the curves.

    An estimator may lack a curve, if `set_params` has changed its learning rule.
    """
    return {name: getattr(estimator, name, []) + curve for name, curve in new.items()}


def fit(
    plan: Plan,
    rng: np.random.RandomState,
    progress: Progress | None = None,
    callbacks: EpochCallbacks | None = None,
    attributes: Callable[[Any, int], dict] | None = None,
) -> Fitted:
    """Train a model as the plan describes.

    `progress` is the progress of the earlier training that led to the initial parameters of the
    plan, or None if there was no earlier training. `callbacks` are called at each epoch.
    ``attributes(model, epoch)`` returns the fitted attributes of a model that applies to the X of
    the user. The function `attributes` is called only if a callback asks for a fitted estimator.

    A FloatingPointError is raised if the parameters grow without bound, and a KeyboardInterrupt
    if the training is interrupted before the end of the first epoch. An interrupt after the first
    epoch ends the training and keeps the parameters found so far.
    """
    progress = Progress() if progress is None else progress

    def end_epoch(epoch):
        if callbacks is None:
            return False

        def snapshot():
            model = plan.design.outer(plan.model._replace(params=epoch.params))
            return {} if attributes is None else attributes(model, epoch.number)

        return callbacks.end_epoch(snapshot)

    begin_epoch = _ignore if callbacks is None else callbacks.begin_epoch
    if isinstance(plan.solver, LBFGS):
        run = _FullBatchRun(plan, progress, begin_epoch, end_epoch)
        return run.fit()
    return _EpochsRun(plan, rng, progress, begin_epoch, end_epoch).fit()


def fit_one_epoch(
    plan: Plan, rng: np.random.RandomState, progress: Progress | None = None
) -> Fitted:
    """Train for one epoch on all rows.

    If the optimizer of `progress` has the settings of the plan, training continues with a copy of
    this optimizer.
    """
    optimizer = None
    if progress is None:
        progress = Progress()
    elif progress.optimizer_key == plan.optimizer_key:
        # Copy the optimizer, so that a failed epoch does not change `progress`.
        optimizer = copy.deepcopy(progress.optimizer)
    else:  # long first steps would destroy the coefficients that an earlier fit has found
        plan = replace(plan, first_rates=())
    if isinstance(optimizer, AdamSteps):
        optimizer.lower_rates(plan.first_rates)
    run = _EpochsRun(plan, rng, progress, _ignore, _ignore)
    history, optimizer = run.train(plan.rows, 1, optimizer=optimizer)
    fitted = run.fitted(history, optimizer)
    return fitted._replace(n_iter=fitted.progress.n_epochs)  # counted over all calls


def resumed_generator(estimator, resume: bool, seed) -> np.random.RandomState:
    """Return the random generator of `partial_fit`.

    If `resume` is True, the generator is a copy of the estimator's generator (if it has any), so
    that a failed epoch does not change the estimator. Otherwise the generator is made from `seed`.
    """
    if resume and hasattr(estimator, "_rng"):
        return copy.deepcopy(estimator._rng)
    return check_random_state(seed)


def _ignore(_) -> bool:
    return False


def _summary(epoch):
    """Return the text that the progress line shows for an epoch."""
    score = "" if epoch.score is None else f"  validation {epoch.score:.4f}"
    return f"loss {epoch.loss:.4f}{score}  converged {epoch.converged:.1%}"


class _EpochsRun:
    """Fit by a stochastic solver, which consists of one or two training runs.

    There are two runs if rows are held out and `refit` is True: one without the held-out rows, and
    one on all rows. Both runs start from the parameters of the plan. The second run continues the
    batch numbers of the first run.
    """

    def __init__(self, plan, rng, progress, begin_epoch, end_epoch):
        self.plan = plan
        self.rng = rng
        self.progress = progress
        self.begin_epoch = begin_epoch
        self.end_epoch = end_epoch
        self.steps = itertools.count(progress.n_steps)
        self.key = random_key(rng) if plan.objective.draws else None

    def fit(self):
        """Train on all rows; if rows are held out, train without the held-out rows first."""
        plan, parts = self.plan, None
        if plan.holds_out:
            stopping = plan.stopping
            parts = plan.rows.split(stopping.validation_fraction, self.rng, plan.stratify)
        if parts is None:
            return self.fitted(*self.train(plan.rows, plan.max_iter))
        rest, held_out = parts

        def validate(model, number):
            return plan.objective.score(model, held_out, number)

        history, optimizer = self.train(rest, plan.max_iter, validate)
        scores = [epoch.score for epoch in history.epochs]
        stopped = history.reason in ("callback", "interrupted")
        if plan.fallback is not None and not stopped:
            try:
                simple = plan.fallback(rest.all)
                if validate(simple, self.progress.n_epochs) > history.best.score:
                    return self._keep_fallback(simple, history, scores)
            except KeyboardInterrupt:
                warn_user(INTERRUPTED)
                return self.fitted(history, None, scores)
        if history.best.number != history.epochs[-1].number:
            # Drop the optimizer, because its state belongs to an epoch after the kept epoch.
            optimizer = None
        if not plan.stopping.refit or stopped:
            return self.fitted(history, optimizer, scores)
        n_epochs = history.best.number + 1 - self.progress.n_epochs
        say(plan.verbose, f"Best epoch {n_epochs}; fitting again on all rows")
        try:
            # The best number of epochs is known, so this run must not stop early at a plateau of
            # the loss.
            refitted, new_optimizer = self.train(plan.rows, n_epochs, patience=False)
        except (
            KeyboardInterrupt
        ):  # the second run was interrupted in its first epoch: keep the result of the first run
            warn_user(INTERRUPTED)
            return self.fitted(history, None, scores)
        # Prefer the complete first run to a second run that was cut short.
        if len(refitted.epochs) < n_epochs:
            return self.fitted(history, None, scores)
        return self.fitted(refitted, new_optimizer, scores)

    def _keep_fallback(self, simple, history, scores):
        """Replace the model of the best epoch in `history` by a simpler model."""
        plan = self.plan
        say(plan.verbose, "No epoch improves on the simpler model, which is kept")
        if plan.stopping.refit:
            simple = plan.fallback(plan.rows.all)
        # The simpler model is trained without epochs, so the number of epochs does not grow.
        history.best = history.best._replace(
            number=self.progress.n_epochs - 1, params=simple.params
        )
        return self.fitted(history, None, scores)._replace(epoch=self.progress.n_epochs)

    def train(self, source, max_iter, validate=None, patience=True, optimizer=None):
        """Train from the parameters of the plan; return the `History` and the optimizer."""
        plan = self.plan
        optimizer = optimizer or self._new_optimizer(plan.rows.n_originals)
        # Contrastive rules report the difference of two phases as their loss. This difference does
        # not measure progress, so it must not end the training.
        patience = patience and (validate is not None or plan.objective.is_loss)
        first = self.progress.n_epochs
        line = LiveLine(plan.verbose, "Epoch", max_iter, first)

        def report(epoch):
            line.step(epoch.number, _summary(epoch), epoch.seconds)
            return self.end_epoch(epoch)

        try:
            history = run_epochs(
                plan.model,
                source,
                plan.objective,
                optimizer,
                plan.penalty,
                batch_size=plan.batch_size,
                max_iter=max_iter,
                rng=self.rng,
                key=self.key,
                state=self._first_state(),
                steps=self.steps,
                validate=validate,
                n_iter_no_change=plan.stopping.patience(plan.solver) if patience else None,
                tol=plan.stopping.tol,
                first_epoch=first,
                on_epoch_begin=self.begin_epoch,
                on_epoch_end=report,
            )
        finally:
            line.end()
        if history.reason == "interrupted":
            warn_user(INTERRUPTED)
        return history, optimizer

    def _new_optimizer(self, n_rows):
        plan = self.plan
        scale = StepScale(
            # Count all rows, even if some are held out, so that a refit uses the same step size.
            n_steps=-(-n_rows // plan.batch_size),
            max_speedup=plan.max_speedup,
            mean_square=plan.mean_square,
            curvature=getattr(plan.penalty, "curvature", 0.0),
        )
        rate = plan.solver.step_size(scale)
        rates = type(plan.rate_factors)(*(rate * factor for factor in plan.rate_factors))
        optimizer = plan.solver.optimizer(rates, plan.average)
        if isinstance(optimizer, AdamSteps):
            optimizer.first_rates = plan.first_rates
        return optimizer

    def _first_state(self):
        """Return a copy of the state of earlier training if it can be used, else a new state."""
        before, objective = self.progress, self.plan.objective
        n_indices = self.plan.rows.n_indices
        same_rows = not objective.keeps_chains or before.n_indices == n_indices
        if before.objective_key == self.plan.objective_key and same_rows:
            return copy.deepcopy(before.state)
        return objective.start(n_indices)

    def fitted(self, history, optimizer, scores=None):
        """Return the result of the fit, with the best parameters in `history`."""
        progress = Progress(
            n_epochs=history.best.number + 1,
            n_steps=next(self.steps),
            optimizer=optimizer,
            optimizer_key=self.plan.optimizer_key,
            objective_key=self.plan.objective_key,
            state=history.state,
            n_indices=self.plan.rows.n_indices,
        )
        return _result(self.plan, history, scores, progress, self.progress)


class _FullBatchRun:
    """Fit by L-BFGS, in which each iteration is reported as an epoch."""

    def __init__(self, plan, progress, begin_epoch, end_epoch):
        self.plan = plan
        self.progress = progress
        self.begin_epoch = begin_epoch
        self.end_epoch = end_epoch

    def fit(self):
        """Train on all rows."""
        plan, progress = self.plan, self.progress
        (batch,) = plan.rows.batches(None, plan.rows.n_rows)
        history = History()
        number = progress.n_epochs
        line = LiveLine(plan.verbose, "Iteration", plan.max_iter, number)
        share = relative_tolerance(plan.objective, plan.model, plan.rows.n_rows)
        steps = descend(
            plan.model, batch, plan.objective, plan.penalty, plan.max_iter, share, plan.solver.tol
        )
        try:
            while len(history.epochs) < plan.max_iter:
                self.begin_epoch(number)
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
                line.step(number, _summary(epoch), epoch.seconds)
                number += 1
                if self.end_epoch(epoch):
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
        found = Progress(
            n_epochs=history.best.number + 1,
            n_steps=progress.n_steps + len(history.epochs),
            objective_key=plan.objective_key,
            state=plan.objective.start(plan.rows.n_indices),
            n_indices=plan.rows.n_indices,
        )
        return _result(plan, history, None, found, progress)


def _result(plan, history, scores, progress, before):
    return Fitted(
        model=plan.design.outer(plan.model._replace(params=history.best.params)),
        epoch=history.best.number,
        epochs=history.epochs,
        validation_scores=scores,
        progress=progress,
        n_iter=progress.n_epochs - before.n_epochs,
        interrupted=history.reason == "interrupted",
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
