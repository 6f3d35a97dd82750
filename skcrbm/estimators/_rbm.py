"""The conditional RBM as a fitted model: predictions and the attributes that hold the parameters.

`CRBMClassifier`, `MSSVMCRBM` and `ImageCRBM` train it, each in its own `fit`; the functions below
the class are the steps that these fits share.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import issparse
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning

from skcrbm.decoding.posterior import Posterior
from skcrbm.decoding.rules import Marginal, resolve_decoder
from skcrbm.energies import OneHotRBMEnergy, RBMEnergy
from skcrbm.energies.rbm import ConditionalRBM, CRBMParams
from skcrbm.estimators._base import JointClassifier, Rows
from skcrbm.inference import InferenceMethod, infer
from skcrbm.inference.accuracy import checked_rows, marginal_error
from skcrbm.inference.methods.exact import exact_seconds
from skcrbm.learning.fit import INTERRUPTED, Fitted, Plan, Progress, joined_curves
from skcrbm.learning.solvers import StochasticSolver
from skcrbm.utils.fitting import CallbackSupportMixin
from skcrbm.utils.labels import distinct_rows, label_sets_of
from skcrbm.utils.limits import LONG_EXACT_SECONDS, MAX_EXACT_SECONDS, MAX_MAGNITUDE
from skcrbm.utils.options import option_name
from skcrbm.utils.parallel import one_blas_thread
from skcrbm.utils.warnings import warn_user

# Error of a marginal beyond which belief propagation is not trusted.
_TRUSTED_ERROR = 0.1
# With no more rows than this, a step reads all rows; else it reads a mini-batch.
_FULL_BATCH_ROWS, _BATCH_ROWS = 200, 20
# From this number of rows on, early_stopping="auto" holds rows out. Validation scores of averaged
# iterates are smooth, so few rows suffice.
_EARLY_STOPPING_ROWS, _AVERAGED_STOPPING_ROWS = 1000, 200


class CRBMPlan(NamedTuple):
    """A fit of a conditional RBM."""

    training: Plan
    data: Rows  # for X as given
    method: InferenceMethod  # of training
    marginal_method: InferenceMethod  # of probabilities
    attributes: dict[str, Any]  # fitted attributes that are known before training


class RBMClassifier(
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, CallbackSupportMixin, JointClassifier
):
    """Base of the classifiers that are a conditional RBM: everything but `fit`."""

    n_hidden: int
    decode: Any
    n_jobs: int | None

    visible_coef_: np.ndarray
    hidden_coef_: np.ndarray
    weights_: np.ndarray
    visible_intercept_: np.ndarray
    hidden_intercept_: np.ndarray
    n_hidden_: int
    n_features_in_: int
    alpha_: float
    inference_: str
    label_sets_: Any
    convergence_curve_: list[float]
    _n_hidden: int
    _columns: Any
    _progress: Progress
    _prediction_method: Any
    _prediction_marginals: Any

    _saved = (
        *("n_features_in_", "classes_", "_targets", "n_iter_", "inference_", "label_sets_"),
        *("visible_coef_", "hidden_coef_", "weights_", "visible_intercept_", "hidden_intercept_"),
    )
    _state = (
        *("_targets", "_prediction_method", "_prediction_marginals", "_columns"),
        *("_progress", "_rng", "_n_hidden"),
    )

    def __sklearn_is_fitted__(self):
        # classes_ is there already when a first fit fails or is interrupted.
        return hasattr(self, "visible_coef_")

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    @property
    def _n_features_out(self):
        return self.weights_.shape[1]

    @property
    def coef_(self) -> np.ndarray:
        """Weights of the inputs on the outputs of a model without hidden units."""
        return self._of_linear_model("coef_")

    @property
    def intercept_(self) -> np.ndarray:
        """Biases of the outputs of a model without hidden units."""
        return self._of_linear_model("intercept_")

    def _of_linear_model(self, name):
        """Return an attribute by which other libraries recognise a linear model."""
        if not self.__sklearn_is_fitted__():
            raise AttributeError(f"this {type(self).__name__} has no {name} before it is fitted")
        if self.weights_.shape[1]:
            raise AttributeError(
                f"this {type(self).__name__} has hidden units, so that it is not linear in X and "
                f"has no {name}; visible_{name} belongs to the outputs, hidden_{name} to the "
                "hidden units"
            )
        return getattr(self, f"visible_{name}")

    def _model(self, params: CRBMParams) -> ConditionalRBM:
        return ConditionalRBM(params, OneHotRBMEnergy if self._targets.one_hot else RBMEnergy)

    def _fitted_model(self) -> ConditionalRBM:
        return self._model(
            CRBMParams(
                self.weights_,
                self.visible_coef_,
                self.hidden_coef_,
                self.visible_intercept_,
                self.hidden_intercept_,
            )
        )

    def _decoding_rule(self):
        """Return the decoding rule for 2-D y, a name or an object."""
        return self.decode

    def _posterior_options(self) -> dict[str, Any]:
        """Return further fields of the `Posterior`."""
        return {}

    def _posterior_of(self, X, known):
        energy = self._fitted_model().energy(X)
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
        return resolve_decoder(self._decoding_rule()).decode(posterior)

    def transform(self, X, y_known=None):
        """Return P(h_j = 1 | x) of the hidden units, by the inference method of `predict_proba`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y_known : array-like of shape (n_samples, n_outputs), default=None
            Labels known beforehand, NaN elsewhere; the answer is then P(h_j = 1 | x, y_known).

        Returns
        -------
        ndarray of shape (n_samples, n_hidden)
        """
        with one_blas_thread():
            posterior = self._posterior(X, y_known)
            return posterior.infer().marginals[:, posterior.energy.n_visible :]

    # ------------------------------------------------------------- steps of a fit

    def _check_same_model(self) -> None:
        """Raise a ValueError if the fitted model cannot be trained further."""
        if self.n_hidden != self._n_hidden:
            raise ValueError(
                f"n_hidden={self.n_hidden} differs from the {self._n_hidden} hidden units "
                "of the fit so far; set warm_start=False, or keep n_hidden"
            )

    def _model_attributes(
        self, model: ConditionalRBM, epoch: int, plan: CRBMPlan
    ) -> dict[str, Any]:
        """Return the fitted attributes of a model for X as given at the end of an epoch."""
        params = model.params
        method, marginals = (m.at_epoch(epoch) for m in (plan.method, plan.marginal_method))
        return {
            "weights_": params.weights,
            "visible_coef_": params.visible_coef,
            "hidden_coef_": params.hidden_coef,
            "visible_intercept_": params.visible_intercept,
            "hidden_intercept_": params.hidden_intercept,
            "n_hidden_": params.weights.shape[1],
            "_n_hidden": self.n_hidden,
            "label_sets_": self._label_sets(model, marginals, plan.data),
            "inference_": method.name,
            "n_inference_iter_": getattr(method, "max_iter", None),
            "_prediction_method": method,
            "_prediction_marginals": marginals,
            **plan.attributes,
        }

    def _label_sets(self, model, method, rows: Rows):
        """Return the distinct label vectors, missing labels of partly observed rows completed."""
        sets = label_sets_of(rows.visible)
        missing = np.isnan(rows.visible)
        partly = missing.any(axis=1) & ~missing.all(axis=1)
        if not partly.any():
            return sets
        with one_blas_thread():
            posterior = Posterior(
                model.energy(rows.X[partly]),
                method,
                rows.visible[partly],
                sets,
                self.n_jobs,
                allow_empty=self.allow_empty_,
                unseen_share=self.unseen_share_,
            )
            completed = Marginal().decode(posterior)
        return distinct_rows(np.vstack([sets, completed]))

    def _warn_of_strong_couplings(self, rows: Rows) -> bool:
        """Warn if W is too large for belief propagation.

        Returns True if the check was interrupted, which does not harm the trained model.
        """
        if self.inference_ != "sum_product":
            return False
        some = checked_rows(self.weights_.shape, rows.X.shape[0])
        if len(some) == 0:
            return False
        try:
            energy = self._fitted_model().energy(rows.X[some])
            error = marginal_error(energy, self._prediction_marginals)
        except KeyboardInterrupt:
            warn_user(INTERRUPTED)
            return True
        if error > _TRUSTED_ERROR:
            warn_user(
                "the couplings are too strong for belief propagation to be trusted: its "
                f"probabilities of one output are off by {error:.2f} on average (max|weights_| is "
                f"{np.abs(self.weights_).max():.1f}). Use inference='exact', because the smaller "
                f"layer has only {min(self.weights_.shape)} units, or a positive alpha_hidden",
                ConvergenceWarning,
            )
        return False

    def _joined_attributes(self, new: dict[str, Any], fitted: Fitted) -> dict[str, Any]:
        """Return the attributes after a further epoch, with earlier curves and label sets."""
        sets = np.vstack([self.label_sets_, new["label_sets_"]])
        return {
            **new,
            **joined_curves(self, fitted.curves),
            "label_sets_": distinct_rows(sets),
        }


def check_inference_cost(
    model, X, method: InferenceMethod, marginals: InferenceMethod, max_iter: int
) -> None:
    """Fail before training, not after it, if inference is out of reach; warn if it takes long."""
    row = X[:1] if issparse(X) else np.asarray(X[:1])
    infer(model.energy(row[:0]), marginals, returns="marginals")
    if method.name != "exact" or model.energy_type is OneHotRBMEnergy:
        return
    energy, n_rows = model.energy(row), X.shape[0]
    seconds = max_iter * n_rows * exact_seconds(energy, ("statistics",))
    if seconds < LONG_EXACT_SECONDS:
        return
    message = (
        f"inference='exact' enumerates 2^{energy.n_enumerated()} states of each of "
        f"{n_rows} rows: {max_iter} iterations may take "
        f"{seconds / 3600:.1f} hours on one core. inference='sum_product', or a layer of at "
        "most 10 units, is faster"
    )
    if seconds > MAX_EXACT_SECONDS:
        raise ValueError(message)
    warn_user(message)


def automatic_batch_size(
    n_rows: int, full_batch_rows: int = _FULL_BATCH_ROWS, partial: bool = False
) -> int:
    """Return the number of rows per step that ``batch_size="auto"`` stands for.

    `partial_fit` takes mini-batches of few rows, too: it makes a single pass over them.
    """
    return n_rows if n_rows <= full_batch_rows and not partial else _BATCH_ROWS


def holds_out_automatically(n_rows: int, solver: StochasticSolver) -> bool:
    """Return True if ``early_stopping="auto"`` holds rows out."""
    return n_rows >= (_AVERAGED_STOPPING_ROWS if solver.averaged else _EARLY_STOPPING_ROWS)


def refuse_thresholds(decode) -> None:
    """Raise a ValueError if `partial_fit` is asked for thresholds."""
    if option_name(decode) == "threshold":
        raise ValueError(
            "partial_fit does not support decode='threshold', whose thresholds take a "
            "cross-validation over all rows; use fit, or skcrbm.decoding.fit_thresholds on "
            "held-out rows"
        )
