"""The one `fit` and `partial_fit` of the models that the training loop trains."""

from abc import abstractmethod
from numbers import Integral, Real

from sklearn.base import _fit_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions

from skcrbm.estimators._base import BaseStructuredClassifier
from skcrbm.estimators._callbacks import CallbackSupportMixin, EpochCallbacks, with_callbacks
from skcrbm.learning import ArraySource, Design, Training
from skcrbm.utils.warnings import warn_user

_FULL_BATCH_ROWS = 200
_EARLY_STOPPING_ROWS = 1000
_PATIENCE = 25
# Averaged gradient descent: the validation scores of averaged iterates are smooth, and soon stop to
# rise; the training loss, that of iterates which are not averaged, says nothing.
_AVERAGED_MOMENTUM, _AVERAGED_PATIENCE = 0.9, 10


class BaseStochasticClassifier(CallbackSupportMixin, BaseStructuredClassifier):
    """Base of the models trained by stochastic gradients, epoch by epoch.

    A subclass says what is trained and what is kept of it; that is set in one step at the end.
    """

    _parameter_constraints: dict = {
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "batch_size": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
        "solver": [StrOptions({"adam", "sgd"})],
        "learning_rate_init": [Interval(Real, 0, None, closed="neither"), StrOptions({"auto"})],
        "momentum": [Interval(Real, 0, 1, closed="left")],
        "alpha": [Interval(Real, 0, None, closed="left")],
        "alpha_hidden": [Interval(Real, 0, None, closed="left")],
        "early_stopping": ["boolean", StrOptions({"auto"})],
        "refit": ["boolean"],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "n_iter_no_change": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "warm_start": ["boolean"],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    @abstractmethod
    def _make_training(self, visible, rng, partial):
        """Return the `Training`; see `_training`."""

    @abstractmethod
    def _initial_model(self, X, visible, weight, rng, training):
        """Return a new model with the parameters to start from."""

    @abstractmethod
    def _fitted_model(self, X):
        """Return the fitted model, to be trained on with X."""

    @abstractmethod
    def _fitted_attributes(self, model, epoch, X, visible):
        """Fitted attributes of the model at the end of an epoch, given its number, as a dict."""

    def _check_settings(self, partial):
        """Refuse hyperparameters that go beyond a constraint each."""
        if partial and self.early_stopping is True:  # it does one epoch on the rows it is given
            raise ValueError(
                "partial_fit does not support early_stopping=True; use 'auto' or False"
            )

    def _check_same_model(self):
        """Refuse hyperparameters with which the fitted model cannot be trained on."""

    def _check_start(self, model, X):
        """Fail before the training, not after it, if the model could not predict."""

    def _make_design(self, X, weight, training, go_on, partial):
        """Return the coordinates to train in; those of X as given unless a subclass knows better.

        Parameters
        ----------
        X, weight
            Of the rows.
        training : Training or FullBatchTraining
        go_on : bool
            Whether training goes on from a fitted model.
        partial : bool
            Whether it is one epoch on a part of the rows.
        """
        return Design(X)

    def _settle(self, training, model, design, source, rng, go_on, partial):
        """Decide what the rows have a say in before they are trained on.

        Parameters
        ----------
        training, go_on, partial
            As in `_make_design`.
        model
            To start from, for the rows of the design.
        design : Design
        source : Source
            Of the rows of the design.
        rng : RandomState

        Returns
        -------
        training, model
            To go on with.
        attributes : dict
            Fitted ones, of what was decided.
        """
        return training, model, {}

    def _joined(self, new):
        """Fitted attributes after one more epoch, from those of that epoch."""
        curves = ("loss_curve_", "convergence_curve_")
        return {**new, **{name: getattr(self, name) + new[name] for name in curves}}

    def _after_fit(self, X, visible, weight, rng, interrupted):
        """Do what `fit` does once the model is trained, as long as that took its course."""

    @with_callbacks
    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y, sample_weight=None):
        """Fit the model.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples, n_outputs) or (n_samples,)
            0/1 indicator matrix with NaN where not observed, or classes.
        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative; a weight k counts as k copies of the row.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            On an invalid X, y, weight or hyperparameter.
        FloatingPointError
            If the training diverges.

        Warns
        -----
        ConvergenceWarning
            If the model is not to be trusted; see the class for when that is.
        """
        self._check_settings(partial=False)
        go_on = self.warm_start and self.__sklearn_is_fitted__()
        if go_on:
            self._check_same_model()
        else:  # a fit that fails must not leave old parameters beside new classes
            self._forget()
        given = X  # callbacks score on what the user passed, with rows of weight 0
        X, visible, weight = self._check_training_data(X, y, sample_weight, reset=not go_on)
        rng = check_random_state(self.random_state)
        progress = self._progress if go_on else None
        training, model, design, source, settled = self._start(
            X, visible, weight, rng, go_on, partial=False
        )
        metadata = None if sample_weight is None else {"sample_weight": sample_weight}
        will_refit = training.early_stopping and self.refit
        callbacks = EpochCallbacks(self, None if will_refit else self.max_iter, given, y, metadata)

        def on_epoch_end(epoch):
            def attributes():
                now = design.outer(model._replace(params=epoch.params))
                return {**self._fitted_attributes(now, epoch.number, X, visible), **settled}

            return callbacks.end_epoch(attributes)

        result = training.run(model, source, rng, progress, callbacks.begin_epoch, on_epoch_end)
        n_iter = result.progress.n_epochs - (progress.n_epochs if go_on else 0)
        trained = self._trained(result, model, design, n_iter, X, visible, rng)
        self._publish({**trained, **settled})
        interrupted = result.history.reason == "interrupted"
        self._after_fit(X, visible, weight, rng, interrupted)
        callbacks.end()
        return self

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X, y, classes=None, sample_weight=None):
        """Do one epoch on the given rows.

        Parameters
        ----------
        X, y, sample_weight
            As in `fit`.
        classes : array-like of shape (n_classes,), default=None
            All classes, for 1-D y; needed in the first call if `y` lacks some.

        Returns
        -------
        self

        Notes
        -----
        ``learning_rate_init="auto"`` goes by the number of rows of the first call; set a
        number where the pieces are small.
        """
        self._check_settings(partial=True)
        go_on = self.__sklearn_is_fitted__()
        if go_on:
            self._check_same_model()
            self._targets.check_classes(classes)
        X, visible, weight = self._check_training_data(
            X, y, sample_weight, reset=not go_on, classes=classes
        )
        if not go_on or not hasattr(self, "_rng"):
            self._rng = check_random_state(self.random_state)
        progress = self._progress if go_on else None
        rng = self._rng
        training, model, design, source, settled = self._start(
            X, visible, weight, rng, go_on, partial=True
        )
        result = training.run_one_epoch(model, source, rng, progress)
        n_iter = result.progress.n_epochs
        new = {**self._trained(result, model, design, n_iter, X, visible, rng), **settled}
        self._publish(self._joined(new) if go_on else new)
        return self

    def _start(self, X, visible, weight, rng, go_on, partial):
        """Return all that a training begins with: see `_make_training`, `_settle`."""
        training = self._make_training(visible, rng, partial)
        design = self._make_design(X, weight, training, go_on, partial)
        if go_on:
            model = design.inner(self._fitted_model(X))
        else:
            model = self._initial_model(design.X, visible, weight, rng, training)
        self._check_start(model, design.X)
        source = ArraySource(design.X, visible, weight)
        training, model, settled = self._settle(
            training, model, design, source, rng, go_on, partial
        )
        return training, model, design, source, settled

    def _training(self, n_rows, objective, penalty, rate_factors, average=False, solver=None):
        """Return the `Training`, with everything resolved that says "auto"."""
        solver = self.solver if solver is None else solver
        averaged = solver == "asgd"
        batch_size = self.batch_size
        if batch_size == "auto":
            batch_size = n_rows if n_rows <= _FULL_BATCH_ROWS else 20
        early_stopping = self.early_stopping
        if early_stopping == "auto":
            early_stopping = n_rows >= (_FULL_BATCH_ROWS if averaged else _EARLY_STOPPING_ROWS)
        return Training(
            objective=objective,
            penalty=penalty,
            solver=solver,
            learning_rate=self.learning_rate_init,
            rate_factors=rate_factors,
            momentum=resolved(self.momentum, _AVERAGED_MOMENTUM if averaged else 0.0),
            average=resolved(average, averaged),
            batch_size=min(batch_size, n_rows),
            max_iter=self.max_iter,
            early_stopping=early_stopping,
            refit=self.refit,
            validation_fraction=self.validation_fraction,
            stratify=not self._targets.multilabel,
            n_iter_no_change=resolved(
                self.n_iter_no_change, _AVERAGED_PATIENCE if averaged else _PATIENCE
            ),
            tol=self.tol,
            verbose=self.verbose,
        )

    def _trained(self, result, model, design, n_iter, X, visible, rng):
        """Return what a training leaves behind, as a dict."""
        best, epochs = result.history.best, result.history.epochs
        best_model = design.outer(model._replace(params=best.params))
        return {
            **self._fitted_attributes(best_model, best.number, X, visible),
            "loss_curve_": [epoch.loss for epoch in epochs],
            "convergence_curve_": [epoch.converged for epoch in epochs],
            "validation_scores_": result.validation_scores,
            "n_iter_": n_iter,
            "_progress": result.progress,
            "_rng": rng,
        }

    def _publish(self, attributes):
        """Set the fitted attributes, all at once."""
        vars(self).update(attributes)


def resolved(value, automatic):
    """Return a hyperparameter, or what "auto" stands for in its place."""
    return automatic if isinstance(value, str) else value


def warn_of_convergence(share, method, remedy):
    """Warn if inference converged for less than 90% of the rows."""
    if share < 0.9:
        warn_user(
            f"{method!r} inference converged for {share:.0%} of the rows in the last epoch; "
            f"{remedy}",
            ConvergenceWarning,
        )
