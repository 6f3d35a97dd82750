"""MSSVMCRBM: the conditional RBM, trained for a large margin."""

import numpy as np
from sklearn.utils._param_validation import HasMethods, StrOptions

from skcrbm.decoding import DECODERS
from skcrbm.estimators._base_crbm import BaseCRBM, marginal_method
from skcrbm.estimators._training import MaxMarginTraining
from skcrbm.inference import resolve_method
from skcrbm.inference._registry import METHODS
from skcrbm.learning import MARGIN_OBJECTIVES, state_query

# Of message passing chosen by name: undamped it runs into cycles, damped it takes longer.
_BY_NAME = {"damping": 0.5, "max_iter": 50}


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
        up to 50 iterations; an object is taken as it is, and undamped it is many times faster
        on large layers.
    decode : str, default="auto"
        How `predict` chooses outputs. "auto" takes the best state under `inference`:
        "marginal_map" or "map", as in training. "marginal", "label_set", "expected_jaccard"
        and "expected_f1" as in `CRBMClassifier`; the last two weigh label sets by the
        probabilities of `predict_proba`, which no training asked for. "threshold" likewise,
        with thresholds that make up for it.
    threshold_metric : str, default="f1_samples"
        As in `CRBMClassifier`.
    marginal_inference : str or object, default="auto"
        Method behind `predict_proba`: "exact" while the smaller layer has at most 10 units,
        "sum_product" beyond; or any that gives marginals.
    average : bool, default=True
        Keep a running average of the iterates, in which late ones count more.
    max_iter : int, default=200
        Epochs at most.
    batch_size : int or "auto", default="auto"
        Rows per step; "auto" takes all rows up to 200, else 20.
    solver : {"adam", "sgd"}, default="adam"
    learning_rate_init : float or "auto", default="auto"
        Step size. "auto" is 0.05 for "sgd", and 0.001 for "adam" with up to 50 times that
        where an epoch has fewer than 60 steps.
    momentum : float in [0, 1), default=0.0
        For "sgd".
    alpha : float, default=0.1
        L2 penalty: the objective is the mean loss of a row, plus
        ``alpha / 2 (|U|^2 + |S|^2)``.
    alpha_hidden : float, default=0.0
        L2 penalty on W, ``alpha_hidden / 2 |W|^2``.
    early_stopping : bool or "auto", default="auto"
        Hold out a validation part, keep the epoch with the fewest wrong outputs there.
        "auto": from 1000 rows on.
    refit : bool, default=True
        After early stopping, fit again on all rows for the best number of epochs.
    validation_fraction : float in (0, 1), default=0.15
    n_iter_no_change : int, default=25
        Stop after so many epochs in which neither the validation score nor, without
        early stopping, the training loss got better by more than `tol`.
    tol : float, default=0.0
    warm_start : bool, default=False
        Start `fit` from the parameters of the previous one.
    n_jobs : int, default=None
        Threads over rows. The result does not depend on it.
    random_state : int, RandomState or None, default=None
        Decides the result: initial parameters, validation part, order of rows.
    verbose : bool or int, default=False
        Print a line per epoch.

    Attributes
    ----------
    coef_ : ndarray (n_outputs, n_features)
        U. One row for binary 1-D y, one per class for multiclass y.
    hidden_coef_ : ndarray (n_hidden, n_features)
        S.
    weights_ : ndarray (n_outputs, n_hidden)
        W.
    intercept_, hidden_intercept_ : ndarray (n_outputs,), (n_hidden,)
        b, c.
    classes_ : ndarray (n_outputs, 2) or (n_classes,)
    label_sets_ : ndarray (n_sets, n_outputs)
        The distinct output vectors seen in fit, as in `CRBMClassifier`.
    thresholds_ : ndarray (n_outputs,)
        With ``decode="threshold"`` and 2-D y.
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
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from skcrbm import MSSVMCRBM
    >>> X, Y = make_multilabel_classification(n_samples=150, random_state=0)
    >>> model = make_pipeline(StandardScaler(), MSSVMCRBM(random_state=0)).fit(X, Y)
    >>> model.predict(X[:2]).shape
    (2, 5)
    """

    _parameter_constraints: dict = {
        **BaseCRBM._parameter_constraints,
        "hidden": [StrOptions(set(MARGIN_OBJECTIVES))],
        "inference": [StrOptions(set(METHODS)), HasMethods("solver_for")],
        "decode": [StrOptions({"auto", *DECODERS})],
        "marginal_inference": [StrOptions({"auto", *METHODS}), HasMethods("solver_for")],
    }
    _training_type = MaxMarginTraining
    _remedy = (
        "the competitors of the labels may not be the worst ones. Use inference='exact' if a "
        "layer is small, more iterations or damping (an object such as "
        "MixedProduct(max_iter=100, damping=0.5)), or 'icm', which converges soon."
    )

    def __init__(
        self,
        *,
        n_hidden=8,
        hidden="marginal",
        inference="mixed_product",
        decode="auto",
        threshold_metric="f1_samples",
        marginal_inference="auto",
        average=True,
        max_iter=200,
        batch_size="auto",
        solver="adam",
        learning_rate_init="auto",
        momentum=0.0,
        alpha=0.1,
        alpha_hidden=0.0,
        early_stopping="auto",
        refit=True,
        validation_fraction=0.15,
        n_iter_no_change=25,
        tol=0.0,
        warm_start=False,
        n_jobs=None,
        random_state=None,
        verbose=False,
    ):
        self.n_hidden = n_hidden
        self.hidden = hidden
        self.inference = inference
        self.decode = decode
        self.threshold_metric = threshold_metric
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
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _training_methods(self, n_visible):
        method = resolve_method(self.inference)
        shape = n_visible, self.n_hidden
        marginals = marginal_method(self.marginal_inference, *shape, "marginal_inference")
        if isinstance(self.inference, str) and "damping" in vars(method):
            method = method.set_params(**_BY_NAME)
        state_query(method, MARGIN_OBJECTIVES.get(self.hidden).query)
        # One output, as all classes of a 1-D y, is decoded exactly at no cost.
        return resolve_method("exact") if n_visible == 1 else method, marginals

    def _make_objective(self, visible, rng):
        return MARGIN_OBJECTIVES.get(self.hidden)(self._method, self.n_jobs)

    def _decode_name(self):
        if self.decode != "auto":
            return self.decode
        return state_query(self._prediction_method, self._rule.query)

    def _fitted_attributes(self, epoch, X, visible):
        # A new `hidden` takes effect in the next fit.
        rule = MARGIN_OBJECTIVES.get(self.hidden)
        return {**super()._fitted_attributes(epoch, X, visible), "_rule": rule}

    def _decoding_options(self):
        query = state_query(self._prediction_method, self._rule.query)
        return {
            "hidden": self._rule.hidden,
            "state_methods": {query: self._prediction_method},
        }

    def _scores(self, decoding):
        """Class scores, the log-odds of one unit, or local fields at the decoded outputs."""
        energy = decoding.energy
        if self._targets.kind == "multiclass":
            return energy.class_log_weights(self._rule.hidden)
        if self._targets.kind == "binary":  # one unit, which has no others to go by
            return energy.visible_log_odds(np.zeros((energy.n_models, 1)), self._rule.hidden)
        decoded = DECODERS.get(self._decode_name())(decoding)
        scores = energy.visible_log_odds(decoded, self._rule.hidden)
        if decoding.known is not None:
            observed = ~np.isnan(decoding.known)
            scores[observed] = np.where(decoding.known[observed] == 1, np.inf, -np.inf)
        return scores
