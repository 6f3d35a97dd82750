"""The one way in which estimators are trained: all of `fit` and `partial_fit` but their data."""

import copy
from abc import abstractmethod

from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from skcrbm.inference.choice import convergence_advice
from skcrbm.learning._callbacks import CallbackSupportMixin, EpochCallbacks
from skcrbm.learning._design import Design
from skcrbm.learning._source import ArraySource
from skcrbm.utils.warnings import warn_user


class StochasticFit(CallbackSupportMixin):
    """Base of the estimators trained epoch by epoch, with or without a y.

    A subclass says what is trained and what is kept of it. It has the public `fit` and
    `partial_fit`, `all_or_nothing`, which call `_fit` and `_fit_one_epoch`, and among
    its hyperparameters `max_iter`, `early_stopping`, `warm_start` and `random_state`. Its other
    base has ``_check_training_data(X, y, sample_weight, *, reset, **options)``, which returns X,
    visible and weight as a `Batch` has them, without rows of weight 0, and `_forget`, which
    drops what an earlier fit learned.
    """

    @abstractmethod
    def _make_training(self, visible, rng, partial):
        """Return the `Training`."""

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
        if partial and self.early_stopping is True:
            raise ValueError(
                "partial_fit does not support early_stopping=True, as it does one epoch on the "
                "rows that it is given"
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
        # A curve may begin here: what is learned by may have been changed by set_params.
        curves = {name: getattr(self, name, []) + new[name] for name in self._curves([])}
        return {**new, **curves}

    def _curves(self, epochs):
        """Curves over epochs, as a dict of fitted attributes."""
        return {
            "loss_curve_": [epoch.loss for epoch in epochs],
            "convergence_curve_": [epoch.converged for epoch in epochs],
        }

    def _after_fit(self, X, visible, weight, rng, interrupted):
        """Do what `fit` does once the model is trained, as long as that took its course."""

    def _fit(self, X, y, sample_weight):
        """Do what `fit` does, the check of single hyperparameters apart."""
        self._check_settings(partial=False)
        go_on = self.warm_start and self.__sklearn_is_fitted__()
        if go_on:
            self._check_same_model()
        else:
            self._forget()
        given = X  # callbacks score on what the user passed, with rows of weight 0
        X, visible, weight = self._check_training_data(X, y, sample_weight, reset=not go_on)
        rng = check_random_state(self.random_state)
        progress = self._progress if go_on else None
        training, model, design, source, settled = self._start(
            X, visible, weight, rng, go_on, partial=False
        )
        metadata = None if sample_weight is None else {"sample_weight": sample_weight}
        will_refit = training.early_stopping and training.refit
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

    def _fit_one_epoch(self, X, y, sample_weight, **options):
        """Do what `partial_fit` does; `options` go to `_check_training_data`."""
        go_on = self.__sklearn_is_fitted__()
        if go_on:  # scikit-learn leaves that to the first call
            self._validate_params()
        self._check_settings(partial=True)
        if go_on:
            self._check_same_model()
        X, visible, weight = self._check_training_data(
            X, y, sample_weight, reset=not go_on, **options
        )
        if go_on and hasattr(self, "_rng"):
            rng = copy.deepcopy(self._rng)  # an epoch that fails must not leave traces
        else:
            rng = check_random_state(self.random_state)
        progress = self._progress if go_on else None
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

    def _trained(self, result, model, design, n_iter, X, visible, rng):
        """Return what a training leaves behind, as a dict."""
        best, epochs = result.history.best, result.history.epochs
        best_model = design.outer(model._replace(params=best.params))
        return {
            **self._fitted_attributes(best_model, best.number, X, visible),
            **self._curves(epochs),
            "validation_scores_": result.validation_scores,
            "n_iter_": n_iter,
            "_progress": result.progress,
            "_rng": rng,
        }

    def _publish(self, attributes):
        """Set the fitted attributes, all at once."""
        vars(self).update(attributes)


def warn_of_convergence(share, method, consequence, *others):
    """Warn if inference converged for less than 90% of the rows.

    Parameters
    ----------
    share : float
        Of the rows.
    method : InferenceMethod
    consequence : str
        What that may mean.
    *others : str
        What may help, beside other options of the method.
    """
    if share < 0.9:
        remedies = [part for part in (convergence_advice(method), *others) if part]
        warn_user(
            f"{method.name!r} inference converged for {share:.0%} of the rows in the last epoch: "
            f"{consequence}. Try {', or '.join(remedies)}.",
            ConvergenceWarning,
        )
