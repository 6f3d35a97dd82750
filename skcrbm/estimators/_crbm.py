"""CRBMClassifier: the conditional RBM."""

import warnings
from numbers import Integral

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions

from skcrbm.decoding import DECODERS
from skcrbm.energies import ConditionalRBM
from skcrbm.estimators._base_crbm import BaseCRBM, marginal_method
from skcrbm.estimators._coupling_check import checked_rows, exact_visible_marginals
from skcrbm.inference import infer
from skcrbm.inference._registry import METHODS
from skcrbm.learning import OBJECTIVES
from skcrbm.utils._random import random_key

_TRUSTED_ERROR = 0.1


class CRBMClassifier(BaseCRBM):
    """Conditional restricted Boltzmann machine for multi-label and structured outputs.

    ``p(v, h | x) ∝ exp(v' W h + v' U x + h' S x + v' b + h' c)`` with 0/1 outputs v and
    0/1 hidden units h, which carry the dependence between the outputs [1]_, eq. 3.
    Without hidden units it is one logistic regression per output.

    y may be a 2-D indicator matrix of 0/1 (NaN = not observed), or 1-D with two or more
    classes (more than two: one categorical output, exact whatever `inference` says).

    `decision_function` of 2-D y gives the log-odds of each output's marginal.

    Scale the columns of X, as with `StandardScaler`. Changing `inference` takes effect in
    the next fit, changing `decode` (to all but "threshold") or `n_jobs` at once. For scores
    of 2-D y by `GridSearchCV` see `skcrbm.metrics.masked_scorer`: scikit-learn's
    "neg_log_loss" reads an indicator matrix as one multi-class target.

    Parameters
    ----------
    n_hidden : int, default=8
        Number of hidden units.
    learning : {"mle", "cd", "pcd", "cd_percloss"}, default="mle"
        Learning rule: maximum conditional likelihood with the marginals of `inference`;
        contrastive divergence, or persistent with one chain per training row (not in
        `partial_fit`; a warm start begins new chains); or
        CD-PercLoss, which steps only where its chain finds a state better than the labels.
        All but "mle" need every label observed and at most two classes in 1-D y;
        `inference` then serves prediction only.
    n_gibbs_steps : int, default=1
        Sweeps of the chains, for all rules but "mle"; "cd_percloss" wants some 10.
    inference : str or object, default="auto"
        Method behind training and prediction: "exact", "sum_product", "tree_reweighted",
        "mean_field", or configured, as in ``SumProduct(max_iter=30)``. "auto" is "exact"
        while the smaller layer has at most 10 units, "sum_product" beyond.
    decode : str, default="marginal"
        How `predict` turns p(v | x) into labels. Each rule serves a metric:

        - "marginal": the mode of each marginal (Hamming loss);
        - "label_set": the most probable of the label sets seen in fit (subset accuracy);
        - "expected_jaccard": of the label sets seen in fit the one of the largest expected
          Jaccard index (Jaccard, micro-F1, the best all-rounder);
        - "expected_f1": of all label vectors that of the largest expected F1 (F1 averaged
          over rows). Both expectations are over the label sets seen in fit, weighted by
          p(v | x); no label where none is true counts as 1;
        - "threshold": one threshold for all marginals, or one for each label, the best for
          `threshold_metric` on the training rows;
        - "marginal_map", "map": the most probable of all label vectors, or the label part of
          the most probable (v, h); exact for up to 10 labels, or units in the smaller layer,
          else by mixed-product and max-product with restarts and, with up to 4096 couplings,
          by flips of single labels of what these find and of the best label set.

        1-D y is always decoded to the most probable class.
    threshold_metric : str, default="f1_samples"
        What the thresholds of ``decode="threshold"`` are best for: "f1_samples",
        "jaccard_samples", "f1_micro", "hamming", one threshold each, or "f1_macro", a
        threshold for each label. `fit` then does five more fits, each without a fifth
        of the rows, from new parameters whatever `warm_start` says, and searches all
        cut points of their marginals, see `skcrbm.decoding.fit_thresholds`.
    max_iter : int, default=200
        Epochs at most.
    batch_size : int or "auto", default="auto"
        Rows per gradient step; "auto" takes all rows up to 200, else 20.
    solver : {"adam", "sgd"}, default="adam"
    learning_rate_init : float or "auto", default="auto"
        Step size. "auto" is 0.05 for "sgd", and 0.001 for "adam" with up to 50 times that
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
        14 units, else minus the share of wrong outputs.
    refit : bool, default=True
        After early stopping, fit again on all rows for the best number of epochs.
    validation_fraction : float in (0, 1), default=0.15
    n_iter_no_change : int, default=25
        Stop after so many epochs in which neither the validation score nor, without
        early stopping, the training loss got better by more than `tol`. "cd" and "pcd" have no
        loss to go by and then do all epochs.
    tol : float, default=0.0
    average : bool, default=False
        Keep a running average of the iterates, in which late ones count more. "cd_percloss"
        gains by it: a perceptron's steps do not become small.
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
    thresholds_ : ndarray (n_outputs,)
        With ``decode="threshold"`` and 2-D y.
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
        **BaseCRBM._parameter_constraints,
        "learning": [StrOptions(set(OBJECTIVES))],
        "n_gibbs_steps": [Interval(Integral, 1, None, closed="left")],
        "inference": [StrOptions({"auto", *METHODS}), HasMethods("solver_for")],
        "decode": [StrOptions(set(DECODERS))],
    }
    _remedy = (
        "gradients and probabilities may be off. Use inference='exact' if a layer is small, more "
        "iterations or, for belief propagation, damping (an object such as "
        "SumProduct(max_iter=100, damping=0.5)), or a smaller learning rate."
    )

    def __init__(
        self,
        *,
        n_hidden=8,
        learning="mle",
        n_gibbs_steps=1,
        inference="auto",
        decode="marginal",
        threshold_metric="f1_samples",
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
        average=False,
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
        self.threshold_metric = threshold_metric
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
        self.average = average
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _training_methods(self, n_visible):
        return (marginal_method(self.inference, n_visible, self.n_hidden),) * 2

    def _check_partial_fit(self):
        super()._check_partial_fit()
        if OBJECTIVES.get(self.learning).keeps_chains:
            raise ValueError(
                f"learning={self.learning!r} keeps a chain for each training row, and partial_fit "
                "cannot tell which rows are the same; use fit, or learning='cd'"
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
                f"learning={self.learning!r} needs two classes in 1-D y, got "
                f"{len(self.classes_)}; learning='mle' takes any number, exactly"
            )
        key = random_key(rng) if rule.draws else None
        return rule(self._method, self.n_jobs, self.n_gibbs_steps, key)

    def _check_fitted(self, X):
        """Warn if W has grown past where belief propagation gives the marginals."""
        if self.learning != "mle" or self.inference_ != "sum_product":
            return
        rows = checked_rows(self.weights_.shape, X.shape[0])
        if len(rows) == 0:
            return
        energy = ConditionalRBM(self._params()).energy(X[rows])
        found = infer(energy, self._prediction_marginals).marginals[:, : energy.n_visible]
        error = float(np.abs(found - exact_visible_marginals(energy)).mean(axis=0).max())
        if error > _TRUSTED_ERROR:
            warnings.warn(
                f"couplings have grown past where belief propagation can be trusted: its "
                f"probabilities of an output are off by {error:.2f} on average (max|weights_| is "
                f"{np.abs(self.weights_).max():.1f}). Use inference='exact', as the smaller layer "
                f"has only {min(self.weights_.shape)} units, or a positive alpha_hidden",
                ConvergenceWarning,
                stacklevel=2,
            )

    def _decode_name(self):
        return self.decode

    def _scores(self, decoding):
        if self._targets.kind == "multiclass":
            return decoding.energy.class_log_weights()
        return decoding.log_odds()
