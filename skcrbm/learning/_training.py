"""One fit from rows to parameters: validation part, training run, refit, progress lines."""

import copy
import itertools
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from skcrbm.learning._base import Objective
from skcrbm.learning._loop import History, run_epochs
from skcrbm.learning._optimizers import make_optimizer
from skcrbm.learning._penalty import Penalty
from skcrbm.utils.progress import LiveLine, say
from skcrbm.utils.random import random_key
from skcrbm.utils.warnings import warn_user

# Step sizes at which the models of the guides train well: Adam's usual one, and for gradient
# descent one that moves parameters of this scale about as fast.
_LEARNING_RATE = {"adam": 0.001, "sgd": 0.05}
# Of averaged gradient descent, over 1 + the mean square length of a row of X: at momentum 0.9 a
# seventh of where full gradients of a logistic regression would begin to diverge.
_AVERAGED_RATE = 2.0
# With fewer steps in an epoch than this, Adam's rate is raised in proportion, as an epoch should
# move a parameter by about as much; beyond `Training.max_speedup` times its steps no longer are
# small.
_STEPS_PER_EPOCH = 60
INTERRUPTED = "Training interrupted; keeping what was learned so far."


class Progress(NamedTuple):
    """What training has come to, for a later call to go on from.

    Attributes
    ----------
    n_epochs : int
        Epochs behind the parameters that are kept.
    n_steps : int
        Batches visited so far, those of parameters that were given up included.
    optimizer : Optimizer or None
        None if its state belongs to other parameters than those kept.
    settings : tuple
        What the optimiser was made for.
    rule : type or None
        The objective whose state it is.
    state : object
    n_indices : int
        Number of rows that `state` tells apart, if it does.
    """

    n_epochs: int = 0
    n_steps: int = 0
    optimizer: Any = None
    settings: tuple = ()
    rule: type | None = None
    state: Any = None
    n_indices: int = 0


class TrainingResult(NamedTuple):
    """What a `Training` found.

    Attributes
    ----------
    history : History
        Of the run that gave the parameters, which are in ``history.best``.
    validation_scores : list of float or None
        Per epoch of the run with a validation part.
    progress : Progress
    """

    history: History
    validation_scores: list | None
    progress: Progress


def told(epoch):
    """Return what a line of progress says of an epoch."""
    score = "" if epoch.score is None else f"  validation {epoch.score:.4f}"
    return f"loss {epoch.loss:.4f}{score}  converged {epoch.converged:.1%}"


def nothing(epoch):
    """Go on."""
    return False


@dataclass(frozen=True, kw_only=True)
class Training:
    """How models are fitted; holds options only.

    Attributes of the same name as a hyperparameter of `CRBMClassifier` mean the same.

    Attributes
    ----------
    objective : Objective
    penalty : Penalty or None
    solver : {"adam", "sgd", "asgd"}
    learning_rate : float or "auto"
    rate_factors : params of float
        How much faster than that each parameter array moves.
    average : bool
        Whether to keep the average of the iterates.
    stratify : bool
        Whether the validation part keeps the share of each visible vector (1-D y).
    mean_square : float
        Mean square length of a row of X, by which "asgd" chooses its step size.
    max_speedup : int
        How many times its usual step size the automatic one of "adam" may be.
    """

    objective: Objective
    penalty: Penalty | None
    solver: str
    learning_rate: float | str
    rate_factors: Any
    momentum: float
    average: bool
    batch_size: int
    max_iter: int
    early_stopping: bool
    refit: bool
    validation_fraction: float
    stratify: bool
    n_iter_no_change: int
    tol: float
    verbose: int
    mean_square: float = 0.0
    max_speedup: int = 50

    def run(self, model, source, rng, progress=None, on_epoch_begin=nothing, on_epoch_end=nothing):
        """Train; with early stopping on a part of the rows first, then on all of them.

        Parameters
        ----------
        model : named tuple with a `params` field
            Its parameters are those to start from.
        source : Source
        rng : RandomState
        progress : Progress or None
            Of an earlier run that led to these parameters.
        on_epoch_begin, on_epoch_end : callable
            As in `run_epochs`.

        Returns
        -------
        TrainingResult
        """
        run = _Run(self, model, source, rng, progress, on_epoch_begin, on_epoch_end)
        parts = None
        if self.early_stopping:
            parts = source.split(self.validation_fraction, rng, self.stratify)
        if parts is None:
            history, optimizer = run.train(source, self.max_iter)
            return run.result(history, optimizer)
        rest, held_out = parts

        def validate(model, number):
            return self.objective.score(model, held_out, number)

        history, optimizer = run.train(rest, self.max_iter, validate)
        scores = [epoch.score for epoch in history.epochs]
        if history.best.number != history.epochs[-1].number:
            optimizer = None  # its state belongs to a later epoch than the one kept
        if not self.refit or history.reason in ("callback", "interrupted"):
            return run.result(history, optimizer, scores)
        n_epochs = history.best.number + 1 - run.progress.n_epochs
        say(self.verbose, f"Best epoch {n_epochs}; fitting again on all rows")
        try:
            # The number of epochs is settled: the training loss has no say in it.
            refitted, new_optimizer = run.train(source, n_epochs, patience=False)
        except KeyboardInterrupt:  # in the first epoch: the run before it has done some
            warn_user(INTERRUPTED)
            return run.result(history, None, scores)
        # Cut short, the second run is worth less than what the first one found.
        if len(refitted.epochs) < n_epochs:
            return run.result(history, None, scores)
        return run.result(refitted, new_optimizer, scores)

    def run_one_epoch(self, model, source, rng, progress=None):
        """Do one epoch on all rows, going on with the optimiser too if it is of this kind.

        Returns
        -------
        TrainingResult
        """
        run = _Run(self, model, source, rng, progress, nothing, nothing)
        optimizer = None
        if run.progress.settings == self._settings:
            # A copy: an epoch that fails must not leave traces.
            optimizer = copy.deepcopy(run.progress.optimizer)
        return run.result(*run.train(source, 1, optimizer=optimizer))

    @property
    def _settings(self):
        return self.solver, self.learning_rate, self.momentum, self.average

    def _make_optimizer(self, n_rows):
        rate = self.learning_rate
        if rate == "auto" and self.solver == "asgd":
            # A quarter of the first is the curvature of a logistic regression.
            steepest = 0.0 if self.penalty is None else 4 * self.penalty.curvature
            rate = _AVERAGED_RATE / max(1 + self.mean_square, steepest)
        elif rate == "auto":
            # All rows count, with a validation part held out too: a refit goes at the same pace.
            steps = -(-n_rows // self.batch_size)
            rate = _LEARNING_RATE[self.solver]
            if self.solver == "adam":
                rate *= float(np.clip(_STEPS_PER_EPOCH / steps, 1, self.max_speedup))
        rates = type(self.rate_factors)(*(rate * factor for factor in self.rate_factors))
        return make_optimizer(self.solver, rates, self.momentum, self.average)


class _Run:
    """What the runs of one fit share: where they start, and the count of batches."""

    def __init__(self, training, model, source, rng, progress, on_epoch_begin, on_epoch_end):
        self.training = training
        self.model = model
        self.source = source
        self.rng = rng
        self.progress = Progress() if progress is None else progress
        self.on_epoch_begin = on_epoch_begin
        self.on_epoch_end = on_epoch_end
        self.steps = itertools.count(self.progress.n_steps)
        self.key = random_key(rng) if training.objective.draws else None

    def train(self, source, max_iter, validate=None, patience=True, optimizer=None):
        """Train from the start; returns the `History` and the optimiser."""
        training = self.training
        optimizer = optimizer or training._make_optimizer(self.source.n_rows)
        # The difference that contrastive rules follow is no measure of progress.
        patience = patience and (validate is not None or training.objective.is_loss)

        first = self.progress.n_epochs
        line = LiveLine(training.verbose, "Epoch", max_iter, first)

        def report(epoch):
            line.step(epoch.number, told(epoch), epoch.seconds)
            return self.on_epoch_end(epoch)

        try:
            history = run_epochs(
                self.model,
                source,
                training.objective,
                optimizer,
                training.penalty,
                batch_size=training.batch_size,
                max_iter=max_iter,
                rng=self.rng,
                key=self.key,
                state=self._first_state(),
                steps=self.steps,
                validate=validate,
                n_iter_no_change=training.n_iter_no_change if patience else None,
                tol=training.tol,
                first_epoch=first,
                on_epoch_begin=self.on_epoch_begin,
                on_epoch_end=report,
            )
        finally:
            line.end()
        if history.reason == "interrupted":
            warn_user(INTERRUPTED)
        return history, optimizer

    def result(self, history, optimizer, scores=None):
        """Return the `TrainingResult` with the parameters of `history`."""
        progress = Progress(
            n_epochs=history.best.number + 1,
            n_steps=next(self.steps),
            optimizer=optimizer,
            settings=self.training._settings,
            rule=rule_of(self.training.objective),
            state=history.state,
            n_indices=self.source.n_indices,
        )
        return TrainingResult(history, scores, progress)

    def _first_state(self):
        """Copy of the state so far where it fits the objective and the rows, else a new one."""
        before, objective = self.progress, self.training.objective
        same_rows = not objective.keeps_chains or before.n_indices == self.source.n_indices
        if before.rule == rule_of(objective) and same_rows:
            return copy.deepcopy(before.state)
        return objective.start(self.source.n_indices)


def rule_of(objective):
    """Return what a state belongs to: the rule, and what else its form depends on."""
    return type(objective), objective.state_key
