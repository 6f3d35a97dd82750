"""MSSVMCRBM: the conditional RBM, trained for a large margin."""

from dataclasses import replace
from numbers import Real

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from skcrbm.decoding.rules import DecodingRule, decoder_constraint, decoders_for
from skcrbm.energies import RBMEnergy
from skcrbm.estimators._base_crbm import BaseCRBM
from skcrbm.estimators._penalty import PLAIN_ALPHA, is_auto
from skcrbm.inference.choice import marginal_method, method_constraint, methods_for, resolve_method
from skcrbm.learning import (
    MARGIN_OBJECTIVES,
    Design,
    crbm_penalty,
    max_margin_weights_scale,
    state_methods,
    state_query,
)
from skcrbm.utils.columns import Columns
from skcrbm.utils.limits import AUTO_EXACT_UNITS

# Of message passing chosen by name: undamped it runs into cycles, damped it takes longer.
_BY_NAME = {"damping": 0.5, "max_iter": 50}
# Penalty relative to the variance of the columns.
_RELATIVE_ALPHA = 2e-3


class MSSVMCRBM(BaseCRBM):
    """Conditional RBM trained as a marginal structured SVM or a latent structural SVM.

    The score of 0/1 outputs v is ``s(v) = log sum_h exp(-E(v, h, x))`` (MSSVM, [1]_) or
    ``max_h -E(v, h, x)`` (LSSVM, [2]_), with the energy of `CRBMClassifier`. Training lowers

    ``max_v [D(v, y) + s(v)] - s(y)``

    per row, where D counts the wrong outputs, by stochastic subgradients ([3]_, section 4.2):
    the outputs that are best after adding D are found by `inference`. No log-partition
    function is needed, and none is learned: the scores are made for decoding.

    y is as in `CRBMClassifier`: 2-D indicators with NaN where not observed (left out of D, and
    completed to their best values in each step), or 1-D classes, which are decoded exactly
    whatever `inference` says.

    Parameters
    ----------
    n_hidden : int, default=8
        Number of hidden units.
    hidden : {"marginal", "max"}, default="marginal"
        Sum the hidden units out (MSSVM), or take their best values (LSSVM).
    inference : str or object, default="mixed_product"
        Method that finds best states, in training and in prediction: "mixed_product",
        "max_product", "icm", "exact", or configured, as in ``MixedProduct(max_iter=30)``. The
        papers use mixed-product for the MSSVM and max-product for the LSSVM. Chosen by name
        these two are damped by 0.5, or they would oscillate as the couplings grow, and do
        up to 50 iterations; an object is taken as it is. Undamped, an iteration of mixed-product
        takes some fiftieth of the time, one of max-product as long as damped.
    decode : str or object, default="auto"
        How `predict` chooses outputs, by name or as a rule from `skcrbm.decoding`. "auto" takes
        the best state under `inference`: "marginal_map" or "map", as in training. "marginal",
        "label_set", "expected_jaccard" and "expected_f1" as in `CRBMClassifier`; the last two weigh
        label sets by the probabilities of `predict_proba`, which no training asked for.
        "threshold" likewise, with thresholds that make up for it.
    marginal_inference : str or object, default="auto"
        Method behind `predict_proba`: "exact" while the smaller layer has at most 10 units,
        "sum_product" beyond; or any that gives marginals.
    average : bool, default=True
        Keep a running average of the iterates, in which late ones count more.
    max_iter : int, default=200
        Epochs at most.
    batch_size : int or "auto", default="auto"
        Rows per step; "auto" takes all rows up to 200, else 20.
    solver : {"auto", "asgd", "adam", "sgd"}, default="auto"
        "asgd" as in `CRBMClassifier`. "auto" is "asgd" where both layers have more than 10 units,
        as on images; "adam" else, in `partial_fit`, and with a `learning_rate_init` that is given.
    learning_rate_init : float or "auto", default="auto"
        Step size; "auto" as in `CRBMClassifier`.
    momentum : float in [0, 1) or "auto", default="auto"
        For "sgd" and "asgd"; "auto" is 0.9 for "asgd", else 0.
    alpha : float or "auto", default="auto"
        L2 penalty: the objective is the mean loss of a row, plus
        ``alpha / 2 (|U|^2 + |S|^2)``. "auto" is 0.002 times the variance of the columns,
        brought to one scale as in `CRBMClassifier`, of which the coefficients are then
        penalised; in `partial_fit` it is 0.1, and columns stay as they are, as with a number:
        then scale them, as with `StandardScaler`.
    alpha_hidden : float, default=0.0
        L2 penalty on W, ``alpha_hidden / 2 |W|^2``.
    early_stopping : bool or "auto", default="auto"
        Hold out a validation part, keep the epoch with the fewest wrong outputs there.
        "auto": from 1000 rows on.
    refit : bool, default=True
        After early stopping, fit again on all rows for the best number of epochs.
    validation_fraction : float in (0, 1), default=0.15
    n_iter_no_change : int or "auto", default="auto"
        Stop after so many epochs in which neither the validation score nor, without
        early stopping, the training loss got better by more than `tol`. "auto" is 10 with
        "asgd", else 25.
    tol : float, default=0.0
    class_weight : "balanced", dict, list of dict or array-like, default=None
        Weights of the rows by their classes. 1-D y: a dict of class: weight, or "balanced",
        ``n_samples / (n_classes * count)``. 2-D y: "balanced" for each label, one dict of 0 and 1
        for each label, or the weights (n_outputs,) of the positive class; as the loss is one of
        whole rows, those of a row's labels are multiplied, as in scikit-learn's forests, so that
        with many labels few rows may count. Multiplied with `sample_weight`; the sum of all
        weights stays the same. Not "balanced" in `partial_fit`.
    warm_start : bool, default=False
        Start `fit` from the parameters of the previous one.
    n_jobs : int, default=None
        Threads over rows. The result does not depend on it.
    random_state : int, RandomState or None, default=None
        Decides the result: initial parameters, validation part, order of rows.
    verbose : bool or int, default=False
        1: one live line with rate, loss and what remains; 2: a line per epoch.

    Attributes
    ----------
    coef_ : ndarray (n_outputs, n_features)
        Weights U of the inputs on the outputs. One row for binary 1-D y, one per class for
        multiclass y.
    hidden_coef_ : ndarray (n_hidden, n_features)
        Weights S of the inputs on the hidden units.
    weights_ : ndarray (n_outputs, n_hidden)
        Couplings W of the outputs with the hidden units.
    intercept_, hidden_intercept_ : ndarray (n_outputs,), (n_hidden,)
        Biases b of the outputs and c of the hidden units.
    classes_ : ndarray (n_outputs, 2) or (n_classes,)
    label_names_ : ndarray of str (n_outputs,)
        Where y has names, as a data frame or a series, see `set_label_output`.
    label_sets_ : ndarray (n_sets, n_outputs)
        The distinct output vectors seen in fit, as in `CRBMClassifier`.
    allow_empty_, unseen_share_
        As in `CRBMClassifier`.
    thresholds_ : ndarray (n_outputs,)
        With ``decode="threshold"`` and 2-D y; 0.5 if an interrupt kept them from being found.
    hidden_ : {"marginal", "max"}
        `hidden` of the fit.
    alpha_ : float
        Penalty of the fit, on the coefficients of scaled columns if they were scaled.
    inference_ : str
        Name of the inference method in use.
    n_inference_iter_ : int or None
        Iterations at most in prediction: those of the kept epoch. None for "exact".
    loss_curve_, convergence_curve_ : list of float
        Training loss (with all labels observed, a lower bound where inference is
        approximate) and share of rows with converged inference, per epoch of the run that gave
        the parameters.
    validation_scores_ : list of float or None
        Per epoch of the run with early stopping.
    n_iter_ : int
        Number of epochs behind the parameters.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    `decision_function` of 2-D y gives, for each output, how much its being on adds to the
    score with the others at their decoded values: the sign agrees with `predict` wherever no
    single change would improve the prediction, and the size is the margin.

    `predict_proba` of 2-D y gives the marginals of ``p(v, h | x) ∝ exp(-E)`` with the learned
    energy, of 1-D y the sigmoid or softmax of the decision scores. They are not calibrated:
    nothing in the training asks for probabilities.

    `fit` warns (`ConvergenceWarning`) if inference converged for less than 90% of the rows in the
    last epoch.

    Changing `hidden`, `inference` or `marginal_inference` takes effect in the next fit.

    References
    ----------
    .. [1] Ping, Liu and Ihler (2014). Marginal structured SVM with hidden variables. ICML.
    .. [2] Yu and Joachims (2009). Learning structural SVMs with latent variables. ICML.
    .. [3] Ping and Ihler (2017). Belief propagation in conditional RBMs for structured
       prediction. AISTATS.

    Examples
    --------
    >>> from sklearn.datasets import make_multilabel_classification
    >>> from skcrbm import MSSVMCRBM
    >>> X, Y = make_multilabel_classification(n_samples=150, random_state=0)
    >>> model = MSSVMCRBM(random_state=0).fit(X, Y)
    >>> model.predict(X[:2]).shape
    (2, 5)
    """

    _parameter_constraints: dict = {
        **BaseCRBM._parameter_constraints,
        "hidden": [StrOptions(set(MARGIN_OBJECTIVES))],
        "inference": method_constraint(state_methods()),
        "decode": decoder_constraint(decoders_for(RBMEnergy), auto=True),
        "solver": [StrOptions({"auto", "asgd", "adam", "sgd"})],
        "alpha": [Interval(Real, 0, None, closed="left"), StrOptions({"auto"})],
        "marginal_inference": method_constraint(methods_for(RBMEnergy, {"marginals"}), auto=True),
    }
    _state = (*BaseCRBM._state, "_columns")
    _unconverged = (
        "loss-augmented inference may have missed the outputs that violate the margin most",
        "inference='exact' if a layer is small",
        "inference='icm', which converges soon",
    )

    def __init__(
        self,
        *,
        n_hidden=8,
        hidden="marginal",
        inference="mixed_product",
        decode="auto",
        marginal_inference="auto",
        average=True,
        max_iter=200,
        batch_size="auto",
        solver="auto",
        learning_rate_init="auto",
        momentum="auto",
        alpha="auto",
        alpha_hidden=0.0,
        early_stopping="auto",
        refit=True,
        validation_fraction=0.15,
        n_iter_no_change="auto",
        tol=0.0,
        class_weight=None,
        warm_start=False,
        n_jobs=None,
        random_state=None,
        verbose=False,
    ):
        self.n_hidden = n_hidden
        self.hidden = hidden
        self.inference = inference
        self.decode = decode
        self.marginal_inference = marginal_inference
        self.average = average
        self.max_iter = max_iter
        self.batch_size = batch_size
        self.solver = solver
        self.learning_rate_init = learning_rate_init
        self.momentum = momentum
        self.alpha = alpha
        self.alpha_hidden = alpha_hidden
        self.early_stopping = early_stopping
        self.refit = refit
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.tol = tol
        self.class_weight = class_weight
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _training_methods(self, n_visible):
        method = resolve_method(self.inference, valid_names=state_methods)
        shape = n_visible, self.n_hidden
        marginals = marginal_method(self.marginal_inference, *shape, "marginal_inference")
        if isinstance(self.inference, str) and "damping" in vars(method):
            method = method.set_params(**_BY_NAME)
        state_query(method, MARGIN_OBJECTIVES.get(self.hidden).query)
        # One output, as all classes of a 1-D y, is decoded exactly at no cost.
        return resolve_method("exact") if n_visible == 1 else method, marginals

    # ---------------------------------------------------- what "auto" stands for

    def _solver(self, partial):
        if self.solver != "auto":
            return self.solver
        # A given step size is one for Adam; of a first piece of the rows little is known. On few
        # labels Adam's uneven steps bring the couplings up, which gradient descent is slow to.
        n_units = min(self._targets.n_visible, self.n_hidden)
        of_adam = partial or self.learning_rate_init != "auto" or n_units <= AUTO_EXACT_UNITS
        return "adam" if of_adam else "asgd"

    def _penalty_factors(self):
        """Numbers to train with, before `_settle` has its say."""
        alpha = getattr(self, "alpha_", PLAIN_ALPHA) if is_auto(self.alpha) else self.alpha
        return alpha, self.alpha_hidden

    def _make_design(self, X, weight, training, go_on, partial):
        if partial:
            columns = self._columns if go_on else None
            return Design(X, columns and columns.serving(X))
        return Design(X, Columns(X, weight, centre=True) if is_auto(self.alpha) else None)

    def _settle(self, training, model, design, source, rng, go_on, partial):
        training, model, _ = super()._settle(training, model, design, source, rng, go_on, partial)
        alpha, alpha_hidden = self._penalty_factors()
        if design.columns is not None and not partial and design.columns.variance > 0:
            alpha = _RELATIVE_ALPHA * design.columns.variance
        training = replace(training, penalty=crbm_penalty(alpha, alpha_hidden))
        return training, model, {"alpha_": float(alpha), "_columns": design.columns}

    def _make_objective(self, visible):
        return MARGIN_OBJECTIVES.get(self.hidden)(self._method, self.n_jobs)

    def _initial_scales(self, n_visible, training):
        return {"weights_scale": max_margin_weights_scale(n_visible, self.n_hidden)}

    @property
    def _margin(self):
        """Learning rule of the fitted model: a new `hidden` takes effect in the next fit."""
        return MARGIN_OBJECTIVES.get(self.hidden_)

    def _decode_name(self):
        if isinstance(self.decode, DecodingRule) or self.decode != "auto":
            return self.decode
        return state_query(self._prediction_method, self._margin.query)

    def _fitted_attributes(self, model, epoch, X, visible):
        return {**super()._fitted_attributes(model, epoch, X, visible), "hidden_": self.hidden}

    def _posterior_options(self):
        query = state_query(self._prediction_method, self._margin.query)
        return {"hidden": self.hidden_, "state_methods": {query: self._prediction_method}}

    def _label_scores(self, posterior):
        """Local fields at the decoded outputs."""
        scores = posterior.energy.visible_log_odds(self._labels(posterior), self.hidden_)
        if posterior.known is not None:
            observed = ~np.isnan(posterior.known)
            scores[observed] = np.where(posterior.known[observed] == 1, np.inf, -np.inf)
        return scores

    def _binary_scores(self, posterior):
        """Log-odds of the one unit, which has no others to go by."""
        energy = posterior.energy
        return energy.visible_log_odds(np.zeros((energy.n_models, 1)), self.hidden_)

    def _class_scores(self, posterior):
        return posterior.energy.class_log_weights(self.hidden_)
