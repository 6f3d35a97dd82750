"""The one `fit` and `partial_fit` of the classifiers that the training loop trains."""

from numbers import Real

from sklearn.base import _fit_context
from sklearn.utils._param_validation import Interval, StrOptions

from skcrbm.estimators._base import BaseStructuredClassifier
from skcrbm.learning import StochasticFit, Training, with_callbacks
from skcrbm.utils.columns import warn_of_scales
from skcrbm.utils.fitting import all_or_nothing, resolved, weighted_rows
from skcrbm.utils.parameters import Integer

_EARLY_STOPPING_ROWS, _AVERAGED_STOPPING_ROWS = 1000, 200
_PATIENCE = 25
# Averaged gradient descent: the validation scores of averaged iterates are smooth, and soon stop to
# rise; the training loss, that of iterates which are not averaged, says nothing.
_AVERAGED_MOMENTUM, _AVERAGED_PATIENCE = 0.9, 10


class BaseStochasticClassifier(StochasticFit, BaseStructuredClassifier):
    """Base of the models trained by stochastic gradients, epoch by epoch.

    A subclass says what is trained and what is kept of it.
    """

    #: With no more rows than these, ``batch_size="auto"`` is all of them.
    _full_batch_rows = 200
    #: What to do about columns of different scales; None: what `warn_of_scales` says.
    _remedy_of_scales = None

    _parameter_constraints: dict = {
        "max_iter": [Integer(1)],
        "batch_size": [Integer(1), StrOptions({"auto"})],
        "solver": [StrOptions({"adam", "sgd"})],
        "learning_rate_init": [Interval(Real, 0, None, closed="neither"), StrOptions({"auto"})],
        "momentum": [Interval(Real, 0, 1, closed="left")],
        "alpha": [Interval(Real, 0, None, closed="left")],
        "alpha_hidden": [Interval(Real, 0, None, closed="left")],
        "early_stopping": ["boolean", StrOptions({"auto"})],
        "refit": ["boolean"],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "n_iter_no_change": [Integer(1)],
        "tol": [Interval(Real, 0, None, closed="left")],
        "class_weight": [StrOptions({"balanced"}), dict, list, "array-like", None],
        "warm_start": ["boolean"],
        "n_jobs": [Integer(), None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    @all_or_nothing
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
        return self._fit(X, y, sample_weight)

    @all_or_nothing
    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X, y, classes=None, sample_weight=None):
        """Do one epoch on the given rows.

        Parameters
        ----------
        X, y, sample_weight
            As in `fit`.
        classes : array-like of shape (n_classes,), default=None
            All classes, for 1-D y; needed in the first call if `y` lacks some. Those of a 2-D y
            are 0 and 1.

        Returns
        -------
        self

        Notes
        -----
        ``learning_rate_init="auto"`` goes by the number of rows of the first call; set a
        number where the pieces are small.
        """
        return self._fit_one_epoch(X, y, sample_weight, classes=classes)

    def _start(self, X, visible, weight, rng, go_on, partial):
        started = super()._start(X, visible, weight, rng, go_on, partial)
        design = started[2]
        if design.columns is None and not go_on:
            warn_of_scales(X, weight, type(self).__name__, partial, self._remedy_of_scales)
        return started

    def _check_settings(self, partial):
        super()._check_settings(partial)
        if partial and isinstance(self.class_weight, str):
            raise ValueError(
                "partial_fit does not support class_weight='balanced', as it sees a part of the "
                "rows; give the weights of the classes"
            )

    def _check_training_data(self, X, y, sample_weight, **options):
        X, visible, weight = super()._check_training_data(X, y, sample_weight, **options)
        if self.class_weight is None:
            return X, visible, weight
        weight = self._targets.class_weighted(self.class_weight, visible, weight)
        (X, visible), weight = weighted_rows((X, visible), weight)
        return X, visible, weight

    def _training(self, n_rows, objective, penalty, rate_factors, average=False, solver=None):
        """Return the `Training`, with everything resolved that says "auto"."""
        solver = self.solver if solver is None else solver
        averaged = solver == "asgd"
        batch_size = self.batch_size
        if batch_size == "auto":
            batch_size = n_rows if n_rows <= self._full_batch_rows else 20
        early_stopping = self.early_stopping
        if early_stopping == "auto":
            early_stopping = n_rows >= (
                _AVERAGED_STOPPING_ROWS if averaged else _EARLY_STOPPING_ROWS
            )
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
