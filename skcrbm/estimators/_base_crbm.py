"""What the learners of conditional RBMs share: training, fitted attributes, prediction."""

from abc import abstractmethod
from dataclasses import replace
from numbers import Real

import numpy as np
from scipy.sparse import issparse
from sklearn.utils._param_validation import Interval, StrOptions

from skcrbm.decoding.posterior import Posterior
from skcrbm.decoding.rules import Marginal, resolve_decoder, threshold_rule
from skcrbm.energies import OneHotRBMEnergy, RBMEnergy
from skcrbm.energies.models import ConditionalRBM, CRBMParams
from skcrbm.estimators._base_stochastic import BaseStochasticClassifier
from skcrbm.estimators._hidden_units import HiddenUnitsClassifier
from skcrbm.estimators._thresholds import update_thresholds
from skcrbm.inference import infer
from skcrbm.inference.choice import resolve_method, seeded_copy
from skcrbm.inference.methods.exact import exact_seconds
from skcrbm.learning import (
    INTERRUPTED,
    FullBatchTraining,
    crbm_params,
    crbm_penalty,
    crbm_rate_factors,
    mean_square,
    warn_of_convergence,
)
from skcrbm.utils.indicator import distinct_rows, label_sets_of
from skcrbm.utils.limits import LONG_EXACT_SECONDS, MAX_EXACT_SECONDS, MAX_MAGNITUDE
from skcrbm.utils.parallel import one_blas_thread
from skcrbm.utils.parameters import Integer
from skcrbm.utils.warnings import warn_user


class BaseCRBM(HiddenUnitsClassifier, BaseStochasticClassifier):
    """Base of the conditional RBMs.

    A subclass has the hyperparameters of its `__init__`, among them all that
    `_parameter_constraints` names here, and says which inference and objective train it and
    what a prediction goes by.
    """

    _saved = (
        *("n_features_in_", "classes_", "_targets", "n_iter_", "inference_", "label_sets_"),
        *("coef_", "hidden_coef_", "weights_", "intercept_", "hidden_intercept_"),
    )

    _parameter_constraints: dict = {
        **BaseStochasticClassifier._parameter_constraints,
        "n_hidden": [Integer(0)],
        "average": ["boolean", StrOptions({"auto"})],
        "momentum": [Interval(Real, 0, 1, closed="left"), StrOptions({"auto"})],
        "n_iter_no_change": [Integer(1), StrOptions({"auto"})],
    }
    _state = (
        "_targets",
        "_method",
        "_marginal_method",
        "_prediction_method",
        "_prediction_marginals",
        "_progress",
        "_rng",
        "_n_hidden",
    )

    #: What it means where inference did not converge, and what may help.
    _unconverged = ()

    @abstractmethod
    def _training_methods(self, n_visible):
        """Return the inference methods of training and of marginals, checked."""

    @abstractmethod
    def _make_objective(self, visible):
        """Return the learning rule."""

    def _initial_scales(self, n_visible, training):
        """Return options of `crbm_params` for the initial W and S."""
        return {}

    @abstractmethod
    def _decode_name(self):
        """Return the decoding rule for 2-D y, a name or an object."""

    def _posterior_options(self):
        """Return what decoding needs to know besides, as fields of `Posterior`."""
        return {}

    def __sklearn_is_fitted__(self):
        # classes_ is there already when a first fit fails or is interrupted.
        return hasattr(self, "coef_")

    # ---------------------------------------------------------------- fitting

    def _check_settings(self, partial):
        super()._check_settings(partial)
        if partial and threshold_rule(self.decode):
            raise ValueError(
                "partial_fit does not support decode='threshold', whose thresholds take a "
                "cross-validation over all rows; use fit, or skcrbm.decoding.fit_thresholds on "
                "rows that were kept apart"
            )

    def _check_same_model(self):
        if self.n_hidden != self._n_hidden:
            raise ValueError(
                f"n_hidden={self.n_hidden} differs from the {self._n_hidden} hidden units "
                "of the fit so far; set warm_start=False, or keep n_hidden"
            )

    def _make_training(self, visible, rng, partial):
        methods = self._training_methods(visible.shape[1])  # checked even where not needed
        if self._targets.one_hot:
            methods = (resolve_method("exact"),) * 2
        self._method, self._marginal_method = (seeded_copy(method, rng) for method in methods)
        objective = self._make_objective(visible)
        solver = self._solver(partial)
        if solver == "lbfgs":
            return FullBatchTraining(
                objective=objective, max_iter=self.max_iter, tol=self.tol, verbose=self.verbose
            )
        alpha, alpha_hidden = self._penalty_factors()
        return self._training(
            len(visible),
            objective,
            crbm_penalty(alpha, alpha_hidden),
            crbm_rate_factors(solver),
            self.average,
            solver,
        )

    def _solver(self, partial):
        """Return the solver to train with, "auto" resolved."""
        return self.solver

    def _penalty_factors(self):
        """Return alpha and alpha_hidden as numbers, for stochastic training."""
        return self.alpha, self.alpha_hidden

    def _settle(self, training, model, design, source, rng, go_on, partial):
        if not isinstance(training, FullBatchTraining) and training.solver == "asgd":
            square = mean_square(design.X, source.all.weight)
            training = replace(training, mean_square=square)
        return training, model, {}

    def _model(self, params):
        return ConditionalRBM(params, OneHotRBMEnergy if self._targets.one_hot else RBMEnergy)

    def _initial_model(self, X, visible, weight, rng, training):
        scale = self._initial_scales(visible.shape[1], training)
        return self._model(crbm_params(visible, weight, X.shape[1], self.n_hidden, rng, **scale))

    def _fitted_model(self, X):
        return self._model(self._params())

    def _params(self):
        return CRBMParams(
            self.weights_,
            self.coef_,
            self.hidden_coef_,
            self.intercept_,
            self.hidden_intercept_,
        )

    def _check_start(self, model, X):
        """Fail before the training, not after it, if marginals are out of reach; say if far."""
        row = X[:1] if issparse(X) else np.asarray(X[:1])
        infer(model.energy(row[:0]), self._marginal_method, returns="marginals")
        if self._method.name != "exact" or self._targets.one_hot:
            return
        energy, n_rows = model.energy(row), X.shape[0]
        seconds = self.max_iter * n_rows * exact_seconds(energy, ("statistics",))
        if seconds < LONG_EXACT_SECONDS:
            return
        message = (
            f"inference='exact' enumerates 2^{energy.n_enumerated()} states of each of "
            f"{n_rows} rows: {self.max_iter} iterations may take "
            f"{seconds / 3600:.1f} hours on one core. inference='sum_product', or a layer of at "
            "most 10 units, is faster"
        )
        if seconds > MAX_EXACT_SECONDS:
            raise ValueError(message)
        warn_user(message)

    def _fitted_attributes(self, model, epoch, X, visible):
        method = self._method.at_epoch(epoch)
        marginals = self._marginal_method.at_epoch(epoch)
        return {
            "weights_": model.params.weights,
            "coef_": model.params.visible_coef,
            "hidden_coef_": model.params.hidden_coef,
            "intercept_": model.params.visible_intercept,
            "hidden_intercept_": model.params.hidden_intercept,
            "n_hidden_": model.params.weights.shape[1],
            "_n_hidden": self.n_hidden,
            "label_sets_": self._label_sets(model, marginals, X, visible),
            "inference_": method.name,
            "n_inference_iter_": getattr(method, "max_iter", None),
            "_prediction_method": method,
            "_prediction_marginals": marginals,
        }

    def _label_sets(self, model, method, X, visible):
        sets = label_sets_of(visible)
        missing = np.isnan(visible)
        partly = missing.any(axis=1) & ~missing.all(axis=1)
        if not partly.any():
            return sets
        energy = model.energy(X[partly])
        with one_blas_thread():
            completed = Marginal().decode(
                Posterior(
                    energy,
                    method,
                    visible[partly],
                    sets,
                    self.n_jobs,
                    allow_empty=self.allow_empty_,
                    unseen_share=self.unseen_share_,
                )
            )
        return distinct_rows(np.vstack([sets, completed]))

    def _joined(self, new):
        sets = np.vstack([self.label_sets_, new["label_sets_"]])
        return {**super()._joined(new), "label_sets_": distinct_rows(sets)}

    def _publish(self, attributes):
        vars(self).pop("thresholds_", None)  # of the parameters until now
        super()._publish(attributes)
        method = self._prediction_method
        warn_of_convergence(self.convergence_curve_[-1], method, *self._unconverged)

    def _after_fit(self, X, visible, weight, rng, interrupted):
        try:
            self._check_fitted(X)
        except KeyboardInterrupt:  # training is done
            warn_user(INTERRUPTED)
            interrupted = True

        def settled():
            rows, changes = self._as_settled(X)
            return rows, visible, {**changes, "class_weight": None}  # it is in the weights

        update_thresholds(self, settled, weight, rng, interrupted)

    def _as_settled(self, X):
        """Return rows and changed hyperparameters with which the fit can be repeated on folds."""
        return X, {}

    def _check_fitted(self, X):
        """Warn if the model is not to be trusted."""

    # ------------------------------------------------------------- prediction

    def _posterior_of(self, X, known):
        energy = self._model(self._params()).energy(X)
        if max(np.abs(field).max(initial=0) for field in energy.fields) > MAX_MAGNITUDE:
            raise ValueError(
                "X times the coefficients is too large a number; scale the columns of X"
            )
        return Posterior(
            energy,
            self._prediction_marginals,
            known,
            self.label_sets_,
            self.n_jobs,
            thresholds=getattr(self, "thresholds_", None),
            allow_empty=self.allow_empty_,
            unseen_share=self.unseen_share_,
            **self._posterior_options(),
        )

    def _labels(self, posterior):
        return resolve_decoder(self._decode_name()).decode(posterior)
