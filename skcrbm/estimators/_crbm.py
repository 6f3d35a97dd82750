"""CRBMClassifier: the conditional RBM."""

from dataclasses import replace
from numbers import Real

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval, StrOptions

from skcrbm.decoding.rules import decoder_constraint, decoders_for
from skcrbm.energies import RBMEnergy
from skcrbm.energies.models import ConditionalRBM
from skcrbm.estimators._base_crbm import BaseCRBM
from skcrbm.estimators._penalty import (
    PLAIN_ALPHA,
    choose_solver,
    is_auto,
    make_penalty,
    path_record,
    search_convex,
    search_penalty,
)
from skcrbm.inference.accuracy import checked_rows, marginal_error
from skcrbm.inference.choice import marginal_method, method_constraint, methods_for
from skcrbm.learning import OBJECTIVES, Design, FullBatchTraining, crbm_penalty
from skcrbm.utils.columns import Columns
from skcrbm.utils.parameters import Integer
from skcrbm.utils.warnings import warn_user

_TRUSTED_ERROR = 0.1
# What training by the likelihood asks of inference.
_OF_LIKELIHOOD = ("log_partition", "marginals", "statistics")


class CRBMClassifier(BaseCRBM):
    """Conditional restricted Boltzmann machine for multi-label and structured outputs.

    ``p(v, h | x) ∝ exp(v' W h + v' U x + h' S x + v' b + h' c)`` with 0/1 outputs v and
    0/1 hidden units h, which carry the dependence between the outputs [1]_, eq. 3.
    Without hidden units it is one logistic regression per output.

    y may be a 2-D indicator matrix of 0/1 (NaN = not observed), or 1-D with two or more
    classes (more than two: one categorical output, exact whatever `inference` says).

    `decision_function` gives the log-odds of each output's marginal; for 1-D y the log-odds of
    the second class or, of more than two classes, unnormalised log-probabilities.

    For binary images, whose many outputs depend on each other, take `ImageCRBM`: this model with
    defaults that suit them, which has X and y as arrays (n_samples, height, width).

    With nothing set, `fit` finds the penalty by validation inside the rows that it gets, whatever
    the scale of the columns, decides whether hidden units help, and fits all rows by L-BFGS; see
    `alpha` and Notes. With a number for `alpha`, scale the columns of X, as with
    `StandardScaler`, and of each column as much is learned as its scale allows.

    Changing `inference` takes effect in
    the next fit, changing `decode` (to all but "threshold") or `n_jobs` at once. For scores
    of 2-D y by `GridSearchCV` see `skcrbm.metrics.masked_scorer`: scikit-learn's
    "neg_log_loss" reads an indicator matrix as one multi-class target.

    Parameters
    ----------
    n_hidden : int, default=8
        Number of hidden units. With ``alpha="auto"`` and L-BFGS, none are kept where they do not
        improve the validation likelihood beyond its noise: see `n_hidden_`.
    learning : {"mle", "cd", "pcd", "cd_percloss", "pmp"}, default="mle"
        Learning rule: maximum conditional likelihood with the marginals of `inference`;
        contrastive divergence, or persistent with one chain per training row (not in
        `partial_fit`; a warm start on as many rows goes on with the chains);
        CD-PercLoss, which steps only where its chain finds a state better than the labels; or
        perturb-and-max-product [2]_, with a new sample of each row in each step. The weights that
        "pmp" learns belong to that sampler and are no parameters of the Gibbs distribution:
        predictions, which are that distribution's by `inference`, are off where couplings are
        strong. All but "mle" need every label observed and at most two classes in 1-D y;
        `inference` then serves prediction only.
    n_gibbs_steps : int, default=1
        Sweeps of the chains of "cd", "pcd" and "cd_percloss", which wants some 10.
    n_pmp_steps : int, default=50
        Sweeps of max-product for each sample of "pmp".
    inference : str or object, default="auto"
        Method behind training and prediction: "exact", "sum_product", "tree_reweighted",
        "mean_field", or configured, as in ``SumProduct(max_iter=30)``. "auto" is "exact"
        while the smaller layer has at most 10 units, "sum_product" beyond.
    decode : str or object, default="marginal"
        How `predict` turns p(v | x) into labels: the name of a rule, or a rule with options from
        `skcrbm.decoding`, such as ``Threshold("f1_macro")``. Each rule serves a metric:

        - "marginal": the mode of each marginal (Hamming loss);
        - "label_set": the most probable of the label sets seen in fit (subset accuracy);
        - "expected_jaccard": of some numbers of most probable labels and the best label set seen
          in fit that of the largest expected Jaccard index (Jaccard, micro-F1);
        - "expected_f1": of all label vectors that of the largest expected F1 (F1 averaged
          over rows). Both expectations are over all label vectors, under p(v | x) with
          "exact" inference, else as if labels were independent given x; no label where none
          is true counts as 1;
        - "threshold": thresholds on the marginals that are best for a metric on the training
          rows, by default one for all labels and F1 averaged over rows. `fit` then does five
          more fits, each without a fifth of the rows, from new parameters whatever `warm_start`
          says; see `skcrbm.decoding.Threshold`;
        - "marginal_map", "map": the most probable of all label vectors, or the label part of
          the most probable (v, h); exact for up to 10 labels, or units in the smaller layer,
          else by mixed-product and max-product with restarts and, with up to 4096 couplings,
          by flips of single labels of what these find and of the best label set.

        Where no row of fit was without a label (`allow_empty_`), no rule predicts that.
        1-D y is always decoded to the most probable class.
    max_iter : int, default=200
        Iterations of L-BFGS at most, in any one fit; epochs at most of the other solvers.
    batch_size : int or "auto", default="auto"
        Rows per gradient step of "adam" and "sgd"; "auto" takes all rows up to 200, else 20.
    solver : {"auto", "lbfgs", "asgd", "adam", "sgd"}, default="auto"
        "lbfgs" goes down the exact likelihood of all rows at once, and takes an iteration for
        an epoch. It serves `fit` with ``learning="mle"`` and exact inference. "auto" takes it
        there, unless a setting asks for what only mini-batches have: ``early_stopping=True``,
        ``average=True``, or a number for `batch_size`, `learning_rate_init` or `momentum`.
        Where inference is approximate, it takes "asgd" for ``learning="mle"``: gradient descent
        with momentum whose iterates are averaged, good for hundreds of outputs and images.
        Otherwise, in `partial_fit`, and with a number for `learning_rate_init`, it is "adam".
    learning_rate_init : float or "auto", default="auto"
        Step size. "auto" is 0.05 for "sgd", and 0.001 for "adam" with up to 50 times that
        where an epoch has fewer than 60 steps. For "asgd" it is 2 / (1 + the mean square length
        of a row of X), after columns were brought to one scale and mean 0, if they were.
    momentum : float in [0, 1) or "auto", default="auto"
        For "sgd" and "asgd"; "auto" is 0.9 for "asgd", else 0.
    alpha : float or "auto", default="auto"
        L2 penalty: the objective is the mean loss of a row, summed over its outputs,
        plus ``alpha / 2 (|U|^2 + |S|^2)``. A number is the penalty of the coefficients of the
        columns as given. "auto" finds one by validation, for columns that are brought to one
        scale inside: two-valued ones to 0 and 1, others to mean 0 and standard deviation
        1/2; those of a sparse X are divided by the root mean square of their non-zero entries.
        `alpha_` is in these units, `coef_` in those of the columns as given. With fewer than 40
        rows it is 0.003 times the total variance of the scaled columns. Where another
        solver trains, it is that of the model without hidden units, searched on up to 32 of
        the outputs, and at least 1 / n_samples; in a first `partial_fit` 0.1 for the columns as
        given.
    alpha_hidden : float or "auto", default="auto"
        L2 penalty on W, ``alpha_hidden / 2 |W|^2``. W should be free to grow. "auto" is 0.1
        divided by the number of rows (by 40 at least) with L-BFGS, else 0.
    early_stopping : bool or "auto", default="auto"
        Of stochastic solvers: hold out a validation part, keep the best epoch. "auto": from 1000
        rows on, with "asgd" from 200. The score is the exact conditional log-likelihood where
        the smaller layer has at most 14 units, else minus the share of wrong outputs.
    refit : bool, default=True
        After early stopping, fit again on all rows for the best number of epochs.
    validation_fraction : float in (0, 1), default=0.15
    n_iter_no_change : int or "auto", default="auto"
        Of stochastic solvers: stop after so many epochs in which neither the validation score
        nor, without early stopping, the training loss got better by more than `tol`. "cd",
        "pcd" and "pmp" have no loss to go by and then do all epochs. "auto" is 10 with "asgd",
        else 25.
    tol : float, default=0.0
        L-BFGS stops when ten iterations have lowered the objective by no more than this, or by no
        more than 5e-4 of itself (1e-8 without hidden units).
    average : bool or "auto", default="auto"
        Keep a running average of the iterates, in which late ones count more. "cd_percloss"
        gains by it: a perceptron's steps do not become small. "auto" is True with "asgd".
    class_weight : "balanced", dict, list of dict or array-like, default=None
        Weights of the rows by their classes. 1-D y: a dict of class: weight, or "balanced",
        ``n_samples / (n_classes * count)``. 2-D y: "balanced" for each label, one dict of 0 and 1
        for each label, or the weights (n_outputs,) of the positive class; as the loss is one of
        whole rows, those of a row's labels are multiplied, as in scikit-learn's forests, so that
        with many labels few rows may count. Multiplied with `sample_weight`; the sum of all
        weights stays the same. Not "balanced" in `partial_fit`.
    warm_start : bool, default=False
        Start `fit` from the parameters of the previous one. A penalty found there is kept, and
        so is the decision about hidden units.
    n_jobs : int, default=None
        Threads over rows. The result does not depend on it. Pays with belief propagation
        and in prediction; a batch of 20 rows is too little for exact inference.
    random_state : int, RandomState or None, default=None
        Decides the result: initial parameters, validation part, order of rows.
    verbose : bool or int, default=False
        1: one live line with rate, loss, validation score and what remains; 2: a line per epoch or
        iteration, and one per penalty tried.

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
        The distinct output vectors seen in fit; partly observed rows count with their
        most probable completion by marginals, rows with nothing observed not at all.
    allow_empty_ : bool
        Whether a row may be predicted to have no label: not if rows of fit had a label on and
        no complete one had none. Rows with an entry that is not observed and no label on decide
        nothing. Where `y_known` holds all labels off, none is on in any case.
    unseen_share_ : float
        Good and Turing's share of new rows with a label set that is not in `label_sets_`.
    alpha_ : float
        Penalty of the fit; of columns brought to one scale if `alpha` is "auto".
    alpha_path_ : dict of ndarray
        What was tried to find it, in this order: "n_hidden", "alpha", and the mean
        "log_likelihood" of the label vectors and "log_loss" of the marginals, summed over the
        outputs, of the validation rows. Empty arrays if nothing was searched.
    n_hidden_ : int
        Number of hidden units kept: `n_hidden`, or 0 where they did not help.
    thresholds_ : ndarray (n_outputs,)
        With ``decode="threshold"`` and 2-D y; 0.5 if an interrupt kept them from being found.
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

    Notes
    -----
    The penalty is searched on folds of rows: as many of five as give some 3000 validation rows
    without, 1500 with hidden units, but at least one. The score is the mean of log p(y | x)
    over validation rows, weighted, of the labels observed. From 0.001 times the total variance of
    the columns on, alpha changes by a factor of sqrt(10) while the score gets better, and each
    fit begins at its neighbour's parameters; a parabola through the best three scores gives
    the value. Then the hidden units come in, around twice that penalty. They are kept if the
    score gains more than its standard error over the rows, and the log loss of the marginals
    loses no more than its own, 1 %, or a tenth of what the score gains. `alpha_` goes with all
    rows: a fold's penalty is larger in proportion to the rows that it lacks.

    L-BFGS also pulls intercepts weakly, as much as a tenth of a row would, to the log-odds of
    the labels' smoothed shares: all of them with ``alpha="auto"``, with a number only those
    of labels that are always or never on, which nothing else holds. Data with more columns than
    rows, up to 3000 rows, are fitted in the space that the rows span.

    `fit` warns (`ConvergenceWarning`) if inference converged for less than 90% of the rows in the
    last epoch, or if belief propagation is off by more than 0.1 on average for an output. That
    is held against exact marginals of up to 32 rows, where the smaller layer has at most 14
    units and they take less than a second; `partial_fit` does without.

    References
    ----------
    .. [1] Ping and Ihler (2017). Belief propagation in conditional RBMs for structured
       prediction. AISTATS.
    .. [2] Lazaro-Gredilla, Dedieu and George (2021). Perturb-and-max-product: sampling and
       learning in discrete energy-based models. NeurIPS.

    Examples
    --------
    >>> from sklearn.datasets import make_multilabel_classification
    >>> from skcrbm import CRBMClassifier
    >>> X, Y = make_multilabel_classification(n_samples=150, random_state=0)
    >>> model = CRBMClassifier(random_state=0).fit(X, Y)
    >>> model.predict(X[:2]).shape
    (2, 5)
    """

    _parameter_constraints: dict = {
        **BaseCRBM._parameter_constraints,
        "learning": [StrOptions(set(OBJECTIVES))],
        "n_gibbs_steps": [Integer(1)],
        "n_pmp_steps": [Integer(1)],
        "inference": method_constraint(
            methods_for(RBMEnergy, _OF_LIKELIHOOD),
            auto=True,
            also=methods_for(RBMEnergy, {"marginals"}),
        ),
        "decode": decoder_constraint(decoders_for(RBMEnergy)),
        "solver": [StrOptions({"auto", "lbfgs", "asgd", "adam", "sgd"})],
        "alpha": [Interval(Real, 0, None, closed="left"), StrOptions({"auto"})],
        "alpha_hidden": [Interval(Real, 0, None, closed="left"), StrOptions({"auto"})],
    }
    _state = (*BaseCRBM._state, "_columns")
    _unconverged = (
        "gradients and probabilities may be off",
        "inference='exact' if a layer is small",
        "a smaller learning_rate_init",
    )

    def __init__(
        self,
        *,
        n_hidden=8,
        learning="mle",
        n_gibbs_steps=1,
        n_pmp_steps=50,
        inference="auto",
        decode="marginal",
        max_iter=200,
        batch_size="auto",
        solver="auto",
        learning_rate_init="auto",
        momentum="auto",
        alpha="auto",
        alpha_hidden="auto",
        early_stopping="auto",
        refit=True,
        validation_fraction=0.15,
        n_iter_no_change="auto",
        tol=0.0,
        average="auto",
        class_weight=None,
        warm_start=False,
        n_jobs=None,
        random_state=None,
        verbose=False,
    ):
        self.n_hidden = n_hidden
        self.learning = learning
        self.n_gibbs_steps = n_gibbs_steps
        self.n_pmp_steps = n_pmp_steps
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
        self.average = average
        self.class_weight = class_weight
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _training_methods(self, n_visible):
        needs = _OF_LIKELIHOOD if self.learning == "mle" else {"marginals"}
        return (marginal_method(self.inference, n_visible, self.n_hidden, needs=needs),) * 2

    # ---------------------------------------------------- what "auto" stands for

    def _solver(self, partial):
        return choose_solver(self, self._method, partial)

    def _penalty_factors(self):
        """Numbers for stochastic training, before `_settle` has its say."""
        alpha = getattr(self, "alpha_", PLAIN_ALPHA) if is_auto(self.alpha) else self.alpha
        return alpha, 0.0 if is_auto(self.alpha_hidden) else self.alpha_hidden

    def _initial_scales(self, n_visible, training):
        if isinstance(training, FullBatchTraining):
            return {"weights_scale": 1.0, "hidden_scale": 0.0}
        return {}

    def _make_design(self, X, weight, training, go_on, partial):
        if partial:
            columns = self._columns if go_on else None
            return Design(X, columns and columns.serving(X))
        full = isinstance(training, FullBatchTraining)
        centre = not full and training.solver == "asgd"
        columns = Columns(X, weight, centre) if is_auto(self.alpha) else None
        return Design(X, columns, double=full, rotate=full)

    def _settle(self, training, model, design, source, rng, go_on, partial):
        auto = is_auto(self.alpha)
        # A model to go on with has a penalty, if it is one of columns brought to one scale.
        search = auto and design.columns is not None and not partial
        search = search and not (go_on and self._columns is not None)
        alpha, alpha_hidden = self._penalty_factors()
        points, batch = [], source.all
        if isinstance(training, FullBatchTraining):
            penalty = make_penalty(
                self.alpha_hidden,
                batch.visible,
                batch.weight,
                categorical=self._targets.one_hot,
                every_intercept=auto,
            )
            if search:
                alpha, model, points = search_penalty(
                    self, penalty, model, batch, design.columns.variance
                )
            training = replace(training, penalty=penalty(alpha))
        else:
            if search:
                alpha, points = search_convex(self, model, batch, design.columns.variance)
            training, model, _ = super()._settle(
                training, model, design, source, rng, go_on, partial
            )
            training = replace(training, penalty=crbm_penalty(alpha, alpha_hidden))
        attributes = {
            "alpha_": float(alpha),
            "alpha_path_": path_record(points),
            "_columns": design.columns,
        }
        return training, model, attributes

    def _as_settled(self, X):
        if self._columns is None:
            return X, {}
        # What alpha_ and n_hidden_ were found for.
        changes = {"alpha": self.alpha_, "n_hidden": self.n_hidden_}
        return self._columns.serving(X).transform(X), changes

    def _check_settings(self, partial):
        super()._check_settings(partial)
        if partial and OBJECTIVES.get(self.learning).keeps_chains:
            raise ValueError(
                f"learning={self.learning!r} keeps a chain for each training row, and partial_fit "
                "cannot tell which rows are the same; use fit, or learning='cd'"
            )

    def _make_objective(self, visible):
        rule = OBJECTIVES.get(self.learning)
        if rule.needs_complete and np.isnan(visible).any():
            raise ValueError(
                f"y has entries that are not observed (NaN); learning={self.learning!r} needs them "
                "all, learning='mle' does not"
            )
        if rule.draws and self._targets.one_hot:
            raise ValueError(
                f"learning={self.learning!r} needs two classes in 1-D y, got "
                f"{len(self.classes_)}; learning='mle' takes any number, exactly"
            )
        options = self.get_params(deep=False)
        return rule.from_options(**{**options, "inference": self._method})

    def _check_fitted(self, X):
        """Warn if W has grown past where belief propagation gives the marginals."""
        if self.learning != "mle" or self.inference_ != "sum_product":
            return
        rows = checked_rows(self.weights_.shape, X.shape[0])
        if len(rows) == 0:
            return
        energy = ConditionalRBM(self._params()).energy(X[rows])
        error = marginal_error(energy, self._prediction_marginals)
        if error > _TRUSTED_ERROR:
            warn_user(
                "the couplings are too strong for belief propagation to be trusted: its "
                f"probabilities of one output are off by {error:.2f} on average (max|weights_| is "
                f"{np.abs(self.weights_).max():.1f}). Use inference='exact', as the smaller layer "
                f"has only {min(self.weights_.shape)} units, or a positive alpha_hidden",
                ConvergenceWarning,
            )

    def _decode_name(self):
        return self.decode

    def _label_scores(self, posterior):
        return posterior.log_odds()

    def _binary_scores(self, posterior):
        return posterior.log_odds()

    def _class_scores(self, posterior):
        return posterior.energy.class_log_weights()
