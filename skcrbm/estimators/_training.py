"""One fit from rows to parameters: validation part, training run, refit, progress lines."""

import copy
import sys
import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split

from skcrbm.energies import ConditionalRBM, CRBMParams
from skcrbm.learning import Batch, History, Objective, make_optimizer, run_epochs, validation_score
from skcrbm.utils._indicator import distinct_rows

_LEARNING_RATE = {"adam": 0.001, "sgd": 0.05}
# Under Adam W moves faster than the other parameters, or the hidden units stay off.
_WEIGHTS_RATE = {"adam": 5.0, "sgd": 1.0}
_STEPS_PER_EPOCH = 60
_MAX_SPEEDUP = 50
_INTERRUPTED = "Training interrupted; keeping what was learned so far."


def label_sets_of(visible):
    """Distinct complete rows of visible (N, V), as int8; (0, V) if there is none."""
    return distinct_rows(visible[~np.isnan(visible).any(axis=1)])


@dataclass(kw_only=True)
class Training(ABC):
    """A fit whose every "auto" has been resolved.

    Attributes of the same name as a hyperparameter of `CRBMClassifier` mean the same.
    A subclass says what the model is.

    Attributes
    ----------
    X, visible, weight : training rows, as in `Batch`
    stratify : bool
        Whether the validation part keeps the share of each visible vector (1-D y).
    objective : Objective
    solver : {"adam", "sgd"}
    learning_rate : float or "auto"
    penalty : params of float
    rng : RandomState
    average : bool
        Whether to keep the average of the iterates.
    optimizer, history, validation_scores
        Set by the run.
    """

    X: Any
    visible: np.ndarray
    weight: np.ndarray
    stratify: bool
    objective: Objective
    solver: str
    learning_rate: float | str
    momentum: float
    penalty: Any
    batch_size: int
    max_iter: int
    early_stopping: bool
    refit: bool
    validation_fraction: float
    n_iter_no_change: int
    tol: float
    first_epoch: int
    rng: np.random.RandomState
    verbose: int
    average: bool = False
    optimizer: Any = None
    history: History | None = None
    validation_scores: list | None = None

    @abstractmethod
    def model(self, params):
        """Return the model with these parameters."""

    @abstractmethod
    def score(self, model, held_out, number):
        """Return how good a model is on held-out rows in epoch `number`, higher is better."""

    @abstractmethod
    def rates(self, rate):
        """Learning rate of each parameter array, given the common one."""

    def run(self, params, on_epoch_begin, on_epoch_end):
        """Train; with early stopping on a part of the rows first, then on all of them."""
        batch = Batch(self.X, self.visible, self.weight, np.arange(len(self.weight)))
        parts = self._split(batch) if self.early_stopping else None
        if parts is None:
            self.history = self._run(batch, params, self.max_iter, on_epoch_begin, on_epoch_end)
            return
        train, held_out = parts

        def validate(model, number):
            return self.score(model, held_out, number)

        self.history = self._run(
            train, params, self.max_iter, on_epoch_begin, on_epoch_end, validate=validate
        )
        self.validation_scores = [epoch.score for epoch in self.history.epochs]
        if self.history.best.number != self.first_epoch + len(self.history.epochs) - 1:
            self.optimizer = None  # its state belongs to a later epoch than the one kept
        if not self.refit or self.history.reason in ("callback", "interrupted"):
            return
        n_epochs = self.history.best.number + 1 - self.first_epoch
        self._say(f"Best epoch {n_epochs}; fitting again on all rows")
        try:
            # The number of epochs is settled: the training loss has no say in it.
            refitted = self._run(
                batch, params, n_epochs, on_epoch_begin, on_epoch_end, patience=False
            )
        except KeyboardInterrupt:  # in the first epoch: the run before it has done some
            self._warn(_INTERRUPTED)
            self.optimizer = None
            return
        # Cut short, the second run is worth less than what the first one found.
        if len(refitted.epochs) == n_epochs:
            self.history = refitted
        else:
            self.optimizer = None  # its state belongs to the run that is given up

    def run_one_epoch(self, params, optimizer):
        """Do one epoch on all rows, going on with an optimiser's state if it is of this kind."""
        # A copy: an epoch that fails must not leave traces.
        kept = optimizer is not None and optimizer.settings == self._settings
        optimizer = copy.deepcopy(optimizer) if kept else None
        batch = Batch(self.X, self.visible, self.weight, np.arange(len(self.weight)))
        nothing = lambda number: None  # noqa: E731
        self.history = self._run(
            batch, params, 1, nothing, lambda epoch: False, optimizer=optimizer
        )

    def _run(
        self,
        batch,
        params,
        max_iter,
        on_epoch_begin,
        on_epoch_end,
        validate=None,
        optimizer=None,
        patience=True,
    ):
        self.optimizer = optimizer or self._make_optimizer()
        self.objective.start(len(self.weight))
        # The difference that contrastive rules follow is no measure of progress.
        patience = patience and (validate is not None or self.objective.is_loss)

        def report(epoch):
            score = "" if epoch.score is None else f"  validation {epoch.score:.4f}"
            self._say(
                f"Epoch {epoch.number + 1}  loss {epoch.loss:.4f}{score}  "
                f"converged {epoch.converged:.1%}  {epoch.seconds:.2f} s"
            )
            return on_epoch_end(epoch)

        history = run_epochs(
            self.model(params),
            batch,
            self.objective,
            self.optimizer,
            self.penalty,
            batch_size=self.batch_size,
            max_iter=max_iter,
            rng=self.rng,
            validate=validate,
            n_iter_no_change=self.n_iter_no_change if patience else None,
            tol=self.tol,
            first_epoch=self.first_epoch,
            on_epoch_begin=on_epoch_begin,
            on_epoch_end=report,
        )
        if history.reason == "interrupted":
            self._warn(_INTERRUPTED)
        return history

    @property
    def _settings(self):
        return self.solver, self.learning_rate, self.momentum, self.average

    def _make_optimizer(self):
        rate = self.learning_rate
        if rate == "auto":
            # An epoch moves a parameter by about as much, however few steps it has. All rows
            # count, with a validation part held out too: a refit goes at the same pace.
            steps = -(-len(self.weight) // self.batch_size)
            rate = _LEARNING_RATE[self.solver]
            if self.solver == "adam":
                rate *= float(np.clip(_STEPS_PER_EPOCH / steps, 1, _MAX_SPEEDUP))
        optimizer = make_optimizer(self.solver, self.rates(rate), self.momentum, self.average)
        optimizer.settings = self._settings
        return optimizer

    def _split(self, batch):
        """Training part and held-out part; None, with a warning, if there can be none."""
        seed = self.rng.randint(np.iinfo(np.int32).max)
        strata = batch.visible.argmax(axis=1) if batch.visible.shape[1] > 1 else batch.visible[:, 0]
        options = {"test_size": self.validation_fraction, "random_state": seed}
        without = "training goes on without early stopping"
        try:
            parts = train_test_split(batch.index, **options)
        except ValueError as error:
            self._warn(f"early_stopping: no validation part ({error}); {without}")
            return None
        if self.stratify:
            try:
                parts = train_test_split(batch.index, stratify=strata, **options)
            except ValueError as error:
                self._warn(
                    f"early_stopping: no stratified validation part ({error}); "
                    "the rows are split without regard to classes"
                )
        train, held_out = (batch.rows(np.sort(part)) for part in parts)
        if np.isnan(held_out.visible).all():
            self._warn(f"early_stopping: the validation part has no observed output; {without}")
            return None
        return train, held_out

    def _warn(self, message):
        # The user is above this method, its caller, run, fit, and the two wrappers of fit.
        warnings.warn(message, stacklevel=7)

    def _say(self, line):
        if self.verbose:
            sys.stdout.write(line + "\n")
            sys.stdout.flush()


@dataclass(kw_only=True)
class CRBMTraining(Training):
    """A fit of a conditional RBM.

    Attributes
    ----------
    energy_type : type
    """

    energy_type: type

    def model(self, params):
        """Return the conditional RBM with these parameters."""
        return ConditionalRBM(params, self.energy_type)

    def score(self, model, held_out, number):
        """Return the `validation_score` of held-out rows."""
        method = self.objective.inference.at_epoch(number)
        return validation_score(model, held_out, method, self.objective.n_jobs)

    def rates(self, rate):
        """Learning rate of each parameter array, given the common one."""
        return CRBMParams(rate * _WEIGHTS_RATE[self.solver], rate, rate, rate, rate)

    def weights_scale(self, n_hidden):
        """Return the standard deviation of the initial W."""
        return 0.01

    def initial_params(self, n_hidden):
        """Draw W and S, set b to the labels' log-odds; none of it depends on the row count."""
        n_visible, n_features = self.visible.shape[1], self.X.shape[1]
        dtype = self.visible.dtype
        scale = self.weights_scale(n_hidden)
        weights = self.rng.normal(scale=scale, size=(n_visible, n_hidden))
        hidden_coef = self.rng.normal(scale=0.01, size=(n_hidden, n_features))
        observed = ~np.isnan(self.visible)
        mass = self.weight @ observed
        share = np.divide(
            self.weight @ np.nan_to_num(self.visible),
            mass,
            out=np.full(n_visible, 0.5),
            where=mass > 0,
        )
        share = np.clip(share, 0.005, 0.995)
        # Hidden units start half on: take their mean pull out of the intercept.
        intercept = np.log(share) - np.log1p(-share) - 0.5 * weights.sum(axis=1)
        return CRBMParams(
            weights.astype(dtype),
            np.zeros((n_visible, n_features), dtype),
            hidden_coef.astype(dtype),
            intercept.astype(dtype),
            np.zeros(n_hidden, dtype),
        )


class MaxMarginTraining(CRBMTraining):
    """A max-margin fit of a conditional RBM."""

    def score(self, model, held_out, number):
        """Return minus the share of wrong outputs, decoded as in training."""
        found = self.objective.decode(model.energy(held_out.X), number)
        observed = ~np.isnan(held_out.visible)
        wrong = (found != held_out.visible) & observed
        return -float(held_out.weight @ wrong.sum(1)) / float(held_out.weight @ observed.sum(1))

    def weights_scale(self, n_hidden):
        """Return the standard deviation of the initial W, by which best states differ."""
        return 2 / max(n_hidden, self.visible.shape[1]) ** 0.5
