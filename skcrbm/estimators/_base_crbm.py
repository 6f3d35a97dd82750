"""What the learners of conditional RBMs share: training, fitted attributes, prediction."""

import warnings
from abc import abstractmethod
from numbers import Integral

import numpy as np
from scipy.special import expit, softmax
from sklearn.base import _fit_context, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from skcrbm.decoding import DECODERS, Decoding
from skcrbm.decoding._threshold import THRESHOLD_METRICS
from skcrbm.energies import ConditionalRBM, CRBMParams, OneHotRBMEnergy, RBMEnergy
from skcrbm.estimators._base import BaseStructuredClassifier
from skcrbm.estimators._callbacks import EpochCallbacks, with_callbacks
from skcrbm.estimators._joint import HiddenUnitsMixin, JointQueriesMixin
from skcrbm.estimators._thresholds import cross_validated_thresholds
from skcrbm.estimators._trained import TrainedMixin
from skcrbm.estimators._training import CRBMTraining, label_sets_of
from skcrbm.inference import available_methods, infer, resolve_method
from skcrbm.utils._indicator import distinct_rows
from skcrbm.utils._parallel import one_blas_thread

# Enumerating more units than this costs more than message passing.
_AUTO_EXACT_UNITS = 10


def marginal_method(inference, n_visible, n_hidden, name="inference"):
    """Return the method of a name or object; "auto" enumerates where a layer is small."""
    if isinstance(inference, str) and inference == "auto":
        small = min(n_visible, n_hidden) <= _AUTO_EXACT_UNITS
        inference = "exact" if small else "sum_product"
    method = resolve_method(inference, name)
    if "marginals" not in method.answers:
        able = ", ".join(map(repr, available_methods(returns=["marginals"])))
        raise ValueError(f"{name}={method.name!r} gives no marginals; methods that do: {able}")
    return method


def own_method(method, rng):
    """Copy of a method that later changes of the user's object, or chance, do not reach."""
    method = clone(method)
    options = vars(method)
    draws = "random_state" in options and options.get("n_restarts") != 1
    if draws and method.random_state is None:
        method.set_params(random_state=rng.randint(np.iinfo(np.int32).max))
    return method


class BaseCRBM(HiddenUnitsMixin, JointQueriesMixin, TrainedMixin, BaseStructuredClassifier):
    """Base of the conditional RBMs.

    A subclass has the hyperparameters of its `__init__`, among them all that
    `_parameter_constraints` names here, and says which inference and objective train it and
    what a prediction goes by.
    """

    _parameter_constraints: dict = {
        **TrainedMixin._parameter_constraints,
        "n_hidden": [Interval(Integral, 0, None, closed="left")],
        "threshold_metric": [StrOptions(set(THRESHOLD_METRICS))],
        "average": ["boolean"],
    }
    _state = (
        "_targets",
        "_method",
        "_marginal_method",
        "_prediction_method",
        "_prediction_marginals",
        "_rule",
        "_optimizer",
        "_rng",
        "_epochs_seen",
    )
    #: How a fit is run.
    _training_type = CRBMTraining

    @abstractmethod
    def _training_methods(self, n_visible):
        """Return the inference methods of training and of marginals, checked."""

    @abstractmethod
    def _make_objective(self, visible, rng):
        """Return the learning rule."""

    @abstractmethod
    def _decode_name(self):
        """Return the name of the decoding rule for 2-D y."""

    def _decoding_options(self):
        """Return what decoding needs to know besides, as fields of `Decoding`."""
        return {}

    @abstractmethod
    def _scores(self, decoding):
        """Return decision scores (N, V)."""

    def __sklearn_is_fitted__(self):
        # classes_ is there already when a first fit fails or is interrupted.
        return hasattr(self, "coef_")

    # ---------------------------------------------------------------- fitting

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
            If inference converged for less than 90% of the rows in the last epoch, or if
            belief propagation is off by more than 0.1 on average for an output. That is held
            against exact marginals of up to 32 rows, where the smaller layer has at most 14
            units and they take less than a second.
        """
        warm = self.warm_start and hasattr(self, "coef_")
        if warm:
            self._check_same_hidden()
        else:  # a fit that fails must not leave old parameters beside new classes
            self._forget()
        given = X  # callbacks score on what the user passed, with rows of weight 0
        X, visible, weight = self._check_training_data(X, y, sample_weight, reset=not warm)
        rng = check_random_state(self.random_state)
        first_epoch = self._epochs_seen if warm else 0
        training = self._make_training(X, visible, weight, rng, first_epoch)
        params = self._params() if warm else training.initial_params(self.n_hidden)
        self._check_marginals(training.model(params), X)
        metadata = None if sample_weight is None else {"sample_weight": sample_weight}
        will_refit = training.early_stopping and self.refit
        n_epochs = None if will_refit else self.max_iter
        callbacks = EpochCallbacks(self, n_epochs, given, y, metadata)

        def on_epoch_end(epoch):
            return callbacks.end_epoch(lambda: self._fitted_attributes(epoch, X, visible))

        training.run(params, callbacks.begin_epoch, on_epoch_end)
        self._optimizer = training.optimizer
        self._rng = rng
        self._store(training.history, training.validation_scores, X, visible)
        self._check_fitted(X)
        self._epochs_seen = training.history.best.number + 1
        self.n_iter_ = self._epochs_seen - first_epoch
        vars(self).pop("thresholds_", None)  # of the fit that this one goes on from
        if self.decode == "threshold" and self._targets.kind == "multilabel":
            self.thresholds_ = cross_validated_thresholds(self, X, visible, weight, rng)
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

        Notes
        -----
        ``learning_rate_init="auto"`` goes by the number of rows of the first call; set a
        number where the pieces are small. Belief propagation is not held against exact
        marginals as in `fit`, which may take longer than an epoch.

        Returns
        -------
        self
        """
        self._check_partial_fit()
        first = not hasattr(self, "coef_")
        if not first:
            self._check_same_hidden()
            self._check_same_classes(classes)
        X, visible, weight = self._check_training_data(
            X, y, sample_weight, reset=first, classes=classes
        )
        if first or not hasattr(self, "_rng"):
            self._rng = check_random_state(self.random_state)
        seen = 0 if first else self._epochs_seen
        training = self._make_training(X, visible, weight, self._rng, seen)
        params = training.initial_params(self.n_hidden) if first else self._params()
        self._check_marginals(training.model(params), X)
        training.run_one_epoch(params, None if first else self._optimizer)
        self._optimizer = training.optimizer
        curves = None if first else (self.loss_curve_, self.convergence_curve_)
        sets = None if first else self.label_sets_
        self._store(training.history, None, X, visible)
        if not first:
            self.loss_curve_ = curves[0] + self.loss_curve_
            self.convergence_curve_ = curves[1] + self.convergence_curve_
            self.label_sets_ = distinct_rows(np.vstack([sets, self.label_sets_]))
        vars(self).pop("thresholds_", None)  # of the parameters until now
        self._epochs_seen = self.n_iter_ = seen + 1
        return self

    def _check_partial_fit(self):
        self._check_no_early_stopping()
        if self.decode == "threshold":
            raise ValueError(
                "partial_fit does not support decode='threshold', whose thresholds take a "
                "cross-validation over all rows; use fit, or skcrbm.decoding.fit_thresholds on "
                "rows that were kept apart"
            )

    def _check_marginals(self, model, X):
        """Fail before the training, not after it, if marginals are out of reach."""
        infer(model.energy(X[:0]), self._marginal_method)

    def _check_same_hidden(self):
        if self.n_hidden != self.weights_.shape[1]:
            raise ValueError(
                f"n_hidden={self.n_hidden} differs from the {self.weights_.shape[1]} hidden units "
                "fitted so far; set warm_start=False, or keep n_hidden"
            )

    def _make_training(self, X, visible, weight, rng, first_epoch):
        """Settle the inference methods and hand the fit over."""
        multiclass = self._targets.kind == "multiclass"
        methods = self._training_methods(visible.shape[1])  # checked even where not needed
        if multiclass:
            methods = (resolve_method("exact"),) * 2
        self._method, self._marginal_method = (own_method(method, rng) for method in methods)
        return self._training_type(
            **self._training_options(X, visible, weight, rng, first_epoch),
            energy_type=OneHotRBMEnergy if multiclass else RBMEnergy,
            objective=self._make_objective(visible, rng),
            average=self.average,
            penalty=CRBMParams(self.alpha_hidden, self.alpha, self.alpha, 0.0, 0.0),
        )

    def _store(self, history, validation_scores, X, visible):
        """Set the fitted attributes; warn once if inference did not converge."""
        for name, value in self._fitted_attributes(history.best, X, visible).items():
            setattr(self, name, value)
        self.loss_curve_ = [epoch.loss for epoch in history.epochs]
        self.convergence_curve_ = [epoch.converged for epoch in history.epochs]
        self.validation_scores_ = validation_scores
        share = self.convergence_curve_[-1]
        if share < 0.9:
            warnings.warn(
                f"{self.inference_!r} inference converged for {share:.0%} of the rows in the last "
                f"epoch; {self._remedy}",
                ConvergenceWarning,
                stacklevel=2,
            )

    def _check_fitted(self, X):
        """Warn, at the end of `fit`, if the model is not to be trusted."""

    def _fitted_attributes(self, epoch, X, visible):
        """Fitted attributes of the model at the end of an epoch, as a dict."""
        method = self._method.at_epoch(epoch.number)
        marginals = self._marginal_method.at_epoch(epoch.number)
        return {
            "weights_": epoch.params.weights,
            "coef_": epoch.params.visible_coef,
            "hidden_coef_": epoch.params.hidden_coef,
            "intercept_": epoch.params.visible_intercept,
            "hidden_intercept_": epoch.params.hidden_intercept,
            "label_sets_": self._label_sets(epoch.params, marginals, X, visible),
            "inference_": method.name,
            "n_inference_iter_": getattr(method, "max_iter", None),
            "_prediction_method": method,
            "_prediction_marginals": marginals,
        }

    def _label_sets(self, params, method, X, visible):
        sets = label_sets_of(visible)
        missing = np.isnan(visible)
        partly = missing.any(axis=1) & ~missing.all(axis=1)
        if not partly.any():
            return sets
        energy = ConditionalRBM(params).energy(X[partly])
        with one_blas_thread():
            completed = DECODERS.get("marginal")(
                Decoding(
                    energy,
                    method,
                    visible[partly],
                    sets,
                    self.n_jobs,
                )
            )
        return distinct_rows(np.vstack([sets, completed]))

    def _params(self):
        return CRBMParams(
            self.weights_,
            self.coef_,
            self.hidden_coef_,
            self.intercept_,
            self.hidden_intercept_,
        )

    # ------------------------------------------------------------- prediction

    def _decoding(self, X, known):
        multiclass = self._targets.kind == "multiclass"
        model = ConditionalRBM(self._params(), OneHotRBMEnergy if multiclass else RBMEnergy)
        return Decoding(
            model.energy(X),
            self._prediction_marginals,
            known,
            self.label_sets_,
            self.n_jobs,
            thresholds=getattr(self, "thresholds_", None),
            **self._decoding_options(),
        )

    def _prepare(self, X, y_known=None):
        X = self._check_predict_data(X)
        return self._decoding(X, self._check_known(y_known, X.shape[0]))

    def predict(self, X, y_known=None):
        """Predict labels by the rule `decode`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y_known : array-like of shape (n_samples, n_outputs), default=None
            Labels known beforehand, NaN elsewhere: the others are predicted given them.

        Returns
        -------
        ndarray of shape (n_samples, n_outputs) or (n_samples,)
        """
        check_is_fitted(self)
        with one_blas_thread():
            decoding = self._prepare(X, y_known)
            if self._targets.kind == "multilabel":
                visible = DECODERS.get(self._decode_name())(decoding)
            else:
                visible = decoding.energy.marginal_modes(self._scores(decoding))
            return self._targets.decode(visible)

    def decision_function(self, X, y_known=None):
        """Score of each output, or of each class; positive where a binary output is on.

        For 1-D y it is the log-odds, or for more than two classes the unnormalised log p, of
        which `predict_proba` is the sigmoid or softmax. For 2-D y see the class.

        Parameters
        ----------
        X, y_known
            As in `predict`.

        Returns
        -------
        ndarray of shape (n_samples, n_outputs), (n_samples,) or (n_samples, n_classes)
        """
        with one_blas_thread():
            decoding = self._prepare(X, y_known)
            score = self._scores(decoding).astype(decoding.energy.dtype, copy=False)
        return score[:, 0] if self._targets.kind == "binary" else score

    def predict_proba(self, X, y_known=None):
        """P(y_i = 1 | x) of each output, or the probability of each class.

        Parameters
        ----------
        X, y_known
            As in `predict`.

        Returns
        -------
        ndarray of shape (n_samples, n_outputs) or (n_samples, n_classes)
        """
        check_is_fitted(self)
        if self._targets.kind == "multilabel":
            with one_blas_thread():
                return expit(self._prepare(X, y_known).log_odds())
        score = self.decision_function(X, y_known)
        if self._targets.kind == "multiclass":
            return softmax(score, axis=1)
        return np.column_stack([expit(-score), expit(score)])
