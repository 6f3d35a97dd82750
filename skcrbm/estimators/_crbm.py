"""CRBMClassifier: the conditional RBM."""

import warnings
from numbers import Integral, Real

import numpy as np
from scipy.special import expit, softmax
from sklearn.base import _fit_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from skcrbm.decoding import DECODERS, Decoding
from skcrbm.energies import ConditionalRBM, CRBMParams, OneHotRBMEnergy, RBMEnergy
from skcrbm.estimators._base import BaseStructuredClassifier
from skcrbm.estimators._callbacks import CallbackSupportMixin, EpochCallbacks, with_callbacks
from skcrbm.estimators._training import CRBMTraining, label_sets_of
from skcrbm.inference import resolve_method
from skcrbm.inference._registry import METHODS
from skcrbm.learning import OBJECTIVES
from skcrbm.utils._parallel import one_blas_thread
from skcrbm.utils._random import random_key

# Enumerating more units than this costs more than message passing.
_AUTO_EXACT_UNITS = 10
_FULL_BATCH_ROWS = 200
_EARLY_STOPPING_ROWS = 1000
# What a fit keeps besides its public attributes.
_STATE = ("_targets", "_method", "_prediction_method", "_optimizer", "_rng", "_epochs_seen")


class CRBMClassifier(CallbackSupportMixin, BaseStructuredClassifier):
    """Conditional restricted Boltzmann machine for multi-label and structured outputs.

    ``p(v, h | x) ∝ exp(v' W h + v' U x + h' S x + v' b + h' c)`` with 0/1 outputs v and
    0/1 hidden units h, which carry the dependence between the outputs [1]_, eq. 3.
    Without hidden units it is one logistic regression per output.

    y may be a 2-D indicator matrix of 0/1 (NaN = not observed), or 1-D with two or more
    classes (more than two: one categorical output, exact whatever `inference` says).

    Scale the columns of X, as with `StandardScaler`. Changing `inference` takes effect in
    the next fit, changing `decode` or `n_jobs` at once. For scores of 2-D y by
    `GridSearchCV` see `skcrbm.metrics.masked_scorer`: scikit-learn's "neg_log_loss" reads an
    indicator matrix as one multi-class target.

    Parameters
    ----------
    n_hidden : int, default=8
        Number of hidden units.
    learning : {"mle", "cd", "pcd", "cd_percloss"}, default="mle"
        Learning rule: maximum conditional likelihood with the marginals of `inference`;
        contrastive divergence, or persistent with one chain per training row; or
        CD-PercLoss, which steps only where its chain finds a state better than the labels.
        All but "mle" need every label observed and at most two classes in 1-D y;
        `inference` then serves prediction only.
    n_gibbs_steps : int, default=1
        Sweeps of the chains, for all rules but "mle"; "cd_percloss" wants some 10.
    inference : str or object, default="auto"
        Method behind training and prediction: "exact", "sum_product", "tree_reweighted",
        "mean_field", or configured, as in ``SumProduct(max_iter=30)``. "auto" is "exact"
        while the smaller layer has at most 10 units, "sum_product" beyond.
    decode : {"marginal", "label_set", "marginal_map", "map"}, default="marginal"
        How `predict` turns p(v | x) into labels: the mode of each marginal (best for
        Hamming loss), the most probable of the label sets seen in fit (best for subset
        accuracy and Jaccard), the most probable of all label vectors, or the label part
        of the most probable (v, h). The last two are exact for up to 10 labels, or units in
        the smaller layer, and else use mixed-product and max-product with restarts. 1-D y
        is always decoded to the most probable class.
    max_iter : int, default=200
        Epochs at most.
    batch_size : int or "auto", default="auto"
        Rows per gradient step; "auto" takes all rows up to 200, else 20.
    solver : {"adam", "sgd"}, default="adam"
    learning_rate_init : float or "auto", default="auto"
        Step size. "auto" is 0.001 for "adam" and 0.05 for "sgd", and up to 50 times that
        where an epoch has fewer than 60 steps.
    momentum : float in [0, 1), default=0.0
        For "sgd".
    alpha : float, default=0.1
        L2 penalty: the objective is the mean loss of a row, summed over its outputs,
        plus ``alpha / 2 (|U|^2 + |S|^2)``.
    alpha_hidden : float, default=0.0
        L2 penalty on W, ``alpha_hidden / 2 |W|^2``. W should be free to grow.
    early_stopping : bool or "auto", default="auto"
        Hold out a validation part, keep the best epoch. "auto": from 1000 rows on. The
        score is the exact conditional log-likelihood where the smaller layer has at most
        12 units, else minus the share of wrong outputs.
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
        Threads over rows. The result does not depend on it. Pays with belief propagation
        and in prediction; a batch of 20 rows is too little for exact inference.
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
        The distinct output vectors seen in fit; partly observed rows count with their
        most probable completion by marginals, rows with nothing observed not at all.
    inference_ : str
        Name of the inference method in use.
    n_inference_iter_ : int or None
        Iterations at most in prediction: those of the kept epoch. None for "exact".
    loss_curve_, convergence_curve_ : list of float
        Training loss (approximate where inference is) and share of rows with converged
        inference, per epoch, of the run that gave the parameters.
    validation_scores_ : list of float or None
        Per epoch of the run with early stopping.
    n_iter_ : int
        Number of epochs behind the parameters.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    References
    ----------
    .. [1] Ping and Ihler (2017). Belief propagation in conditional RBMs for structured
       prediction. AISTATS.

    Examples
    --------
    >>> from sklearn.datasets import make_multilabel_classification
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from skcrbm import CRBMClassifier
    >>> X, Y = make_multilabel_classification(n_samples=150, random_state=0)
    >>> model = make_pipeline(StandardScaler(), CRBMClassifier(random_state=0)).fit(X, Y)
    >>> model.predict(X[:2]).shape
    (2, 5)
    """

    _parameter_constraints: dict = {
        "n_hidden": [Interval(Integral, 0, None, closed="left")],
        "learning": [StrOptions(set(OBJECTIVES))],
        "n_gibbs_steps": [Interval(Integral, 1, None, closed="left")],
        "inference": [StrOptions({"auto", *METHODS}), HasMethods("solver_for")],
        "decode": [StrOptions(set(DECODERS))],
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

    def __init__(
        self,
        *,
        n_hidden=8,
        learning="mle",
        n_gibbs_steps=1,
        inference="auto",
        decode="marginal",
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
        self.learning = learning
        self.n_gibbs_steps = n_gibbs_steps
        self.inference = inference
        self.decode = decode
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
            If inference converged for less than 90% of the rows in the last epoch.
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
        self._epochs_seen = training.history.best.number + 1
        self.n_iter_ = self._epochs_seen - first_epoch
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
        number where the pieces are small.

        Returns
        -------
        self
        """
        if self.early_stopping is True:
            raise ValueError(
                "partial_fit does not support early_stopping=True; use 'auto' or False"
            )
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
        training.run_one_epoch(params, None if first else self._optimizer)
        self._optimizer = training.optimizer
        curves = None if first else (self.loss_curve_, self.convergence_curve_)
        sets = None if first else self.label_sets_
        self._store(training.history, None, X, visible)
        if not first:
            self.loss_curve_ = curves[0] + self.loss_curve_
            self.convergence_curve_ = curves[1] + self.convergence_curve_
            self.label_sets_ = np.unique(np.vstack([sets, self.label_sets_]), axis=0)
        self._epochs_seen = self.n_iter_ = seen + 1
        return self

    def _forget(self):
        """Drop what an earlier fit learned."""
        for name in [name for name in vars(self) if name.endswith("_") or name in _STATE]:
            delattr(self, name)

    def _check_same_hidden(self):
        if self.n_hidden != self.weights_.shape[1]:
            raise ValueError(
                f"n_hidden={self.n_hidden} differs from the {self.weights_.shape[1]} hidden units "
                "fitted so far; set warm_start=False, or keep n_hidden"
            )

    def _check_same_classes(self, classes):
        if classes is None:
            return
        if self._targets.kind == "multilabel" or not np.array_equal(
            np.unique(classes), self.classes_
        ):
            raise ValueError(
                f"classes={list(classes)} differs from the classes of the first call to "
                f"partial_fit: {self.classes_.tolist()}"
            )

    def _make_training(self, X, visible, weight, rng, first_epoch):
        """Resolve everything that says "auto" and hand the fit over."""
        multiclass = self._targets.kind == "multiclass"
        smaller = min(visible.shape[1], self.n_hidden)
        method = self.inference
        if isinstance(method, str) and method == "auto":
            method = "exact" if smaller <= _AUTO_EXACT_UNITS else "sum_product"
        method = resolve_method(method)  # checked even where it is not needed
        self._method = resolve_method("exact") if multiclass else method
        n = len(weight)
        batch_size = self.batch_size
        if batch_size == "auto":
            batch_size = n if n <= _FULL_BATCH_ROWS else 20
        early_stopping = self.early_stopping
        if early_stopping == "auto":
            early_stopping = n >= _EARLY_STOPPING_ROWS
        return CRBMTraining(
            X=X,
            visible=visible,
            weight=weight,
            energy_type=OneHotRBMEnergy if multiclass else RBMEnergy,
            stratify=self._targets.kind != "multilabel",
            objective=self._make_objective(visible, rng),
            solver=self.solver,
            learning_rate=self.learning_rate_init,
            momentum=self.momentum,
            penalty=CRBMParams(self.alpha_hidden, self.alpha, self.alpha, 0.0, 0.0),
            batch_size=min(batch_size, n),
            max_iter=self.max_iter,
            early_stopping=early_stopping,
            refit=self.refit,
            validation_fraction=self.validation_fraction,
            n_iter_no_change=self.n_iter_no_change,
            tol=self.tol,
            first_epoch=first_epoch,
            rng=rng,
            verbose=self.verbose,
        )

    def _make_objective(self, visible, rng):
        rule = OBJECTIVES.get(self.learning)
        if rule.needs_complete and np.isnan(visible).any():
            raise ValueError(
                f"y has entries that are not observed (NaN); learning={self.learning!r} needs them "
                "all, learning='mle' does not"
            )
        if rule.draws and self._targets.kind == "multiclass":
            raise ValueError(
                f"learning={self.learning!r} samples binary outputs, but y has more than two "
                "classes; use learning='mle', which is exact for them"
            )
        key = random_key(rng) if rule.draws else None
        return rule(self._method, self.n_jobs, self.n_gibbs_steps, key)

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
                "epoch; gradients and probabilities may be off. Use inference='exact' if a layer "
                "is small, more iterations or, for belief propagation, damping (an object such "
                "as SumProduct(max_iter=100, damping=0.5)), or a smaller learning rate.",
                ConvergenceWarning,
                stacklevel=2,
            )

    def _fitted_attributes(self, epoch, X, visible):
        """Fitted attributes of the model at the end of an epoch, as a dict."""
        method = self._method.at_epoch(epoch.number)
        return {
            "weights_": epoch.params.weights,
            "coef_": epoch.params.visible_coef,
            "hidden_coef_": epoch.params.hidden_coef,
            "intercept_": epoch.params.visible_intercept,
            "hidden_intercept_": epoch.params.hidden_intercept,
            "label_sets_": self._label_sets(epoch.params, method, X, visible),
            "inference_": method.name,
            "n_inference_iter_": getattr(method, "max_iter", None),
            "_prediction_method": method,
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
                Decoding(energy, method, visible[partly], sets, self.n_jobs)
            )
        return np.unique(np.vstack([sets, completed]).astype(np.int8), axis=0)

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
            model.energy(X), self._prediction_method, known, self.label_sets_, self.n_jobs
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
        rule = self.decode if self._targets.kind == "multilabel" else "marginal"
        with one_blas_thread():
            return self._targets.decode(DECODERS.get(rule)(self._prepare(X, y_known)))

    def decision_function(self, X, y_known=None):
        """Log-odds of each output's marginal; for multiclass y the unnormalised log p.

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
            if self._targets.kind == "multiclass":
                return decoding.energy.class_log_weights().astype(decoding.energy.dtype)
            log_odds = decoding.log_odds()
        return log_odds[:, 0] if self._targets.kind == "binary" else log_odds

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
        score = self.decision_function(X, y_known)
        if self._targets.kind == "multiclass":
            return softmax(score, axis=1)
        if self._targets.kind == "binary":
            return np.column_stack([expit(-score), expit(score)])
        return expit(score)
