"""LayeredGMClassifier: layered graphical models trained through truncated inference."""

from numbers import Integral, Real

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from skcrbm.decoding.posterior import with_a_label
from skcrbm.energies import LayeredStructure
from skcrbm.energies.layered_model import InputCode, LayeredModel
from skcrbm.energies.layered_structure import LayeredParams
from skcrbm.estimators._base_stochastic import BaseStochasticClassifier
from skcrbm.inference.layered.methods import MaxProductNetwork
from skcrbm.inference.layered.network import LayeredInput, probabilities
from skcrbm.inference.layered.truncated import resolve_truncated, truncated_constraint
from skcrbm.layers import Dense
from skcrbm.layers.clamping import clamping_constraint, clamping_cuts
from skcrbm.layers.layers import Layer
from skcrbm.learning import L2, LAYERED_OBJECTIVES, layered_params
from skcrbm.targets import label_output
from skcrbm.utils.limits import LAYERED_CHUNK_ROWS
from skcrbm.utils.parallel import one_blas_thread, ordered_map, row_chunks

_DEFAULT_LAYERS = (Dense(100),)
# Iterations of max-product decoding: more than any path through the layers needs.
_MAP_ITERATIONS = 50


class LayeredGMClassifier(BaseStochasticClassifier):
    """Layered graphical model trained through truncated inference.

    Categorical nodes in layers, pairwise energies between the nodes of neighbouring
    layers: dense, local or convolutional [1]_. T iterations of approximate inference give
    the output's beliefs; training follows the exact gradient of ``-log belief(y)`` through
    these iterations, so the same T is used in prediction. The output layer follows from
    y: one categorical node for 1-D y, one binary node per column of 2-D y (NaN = not
    observed).

    Parameters
    ----------
    layers : tuple of layers, default=(Dense(100),)
        Hidden layers from the input to the output: `skcrbm.layers.Dense`, `Local2d`,
        `Conv2d`. An empty tuple is (multinomial) logistic regression.
    input_shape : tuple of int, default=None
        (height, width) or (height, width, channels) of the images in the rows of X, in C
        order, for local and convolutional layers. None: a plain vector.
    clamping : {"soft", "hard"} or HardClamping, default="soft"
        How features set the states of the input nodes. "soft": a feature is the mean of a binary
        node, any real number if it is never missing. "hard": a feature is in state 1 if it is at
        least 0.5; ``HardClamping(thresholds=...)`` has other thresholds, and more states.
    inference : {"tree_reweighted", "sum_product", "mean_field"} or TruncatedInference, \
            default="tree_reweighted"
        Method of inference in training and in prediction. A name stands for 5 iterations with
        the sequential schedule; ``TruncatedInference(method, schedule, n_iter)`` sets these.
    label_smoothing : float in [0, 1), default=0.0
        Share of each target that is spread evenly over all states.
    gradient : {"backprop", "analytic"}, default="backprop"
        Through the iterations, or as a difference of moments, which is not the gradient
        of anything on loopy graphs, or with one iteration too few, and trains worse.
    max_iter : int, default=200
        Epochs at most.
    batch_size : int or "auto", default="auto"
        Rows per gradient step; "auto" takes all rows up to 200, else 20.
    solver : {"adam", "sgd"}, default="adam"
    learning_rate_init : float or "auto", default="auto"
        Step size. "auto" is 0.001 for "adam" and 0.05 for "sgd", and up to 50 times that
        for Adam where an epoch has fewer than 60 steps.
    momentum : float in [0, 1), default=0.0
        For "sgd".
    alpha : float, default=0.0
        L2 penalty on the pairwise scores of the input, ``alpha / 2 |W|^2`` beside the mean
        loss of a row.
    alpha_hidden : float, default=0.0
        The same for all other pairwise scores.
    early_stopping : bool or "auto", default="auto"
        Hold out a validation part, keep the epoch with the lowest loss on it. "auto":
        from 1000 rows on.
    refit : bool, default=True
        After early stopping, fit again on all rows for the best number of epochs.
    validation_fraction : float in (0, 1), default=0.2
    n_iter_no_change : int, default=5
        Stop after so many epochs in which neither the validation loss nor, without early
        stopping, the training loss got better by more than `tol`.
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
        Threads over chunks of 64 rows. The result does not depend on it.
    random_state : int, RandomState or None, default=None
        Decides the result: initial parameters, validation part, order of rows.
    verbose : bool or int, default=False
        1: one live line with rate, loss and what remains; 2: a line per epoch.

    Attributes
    ----------
    layers_ : list of FittedLayer
        Hidden layers and the output layer: (layer, unary, pairwise) each.
    input_unary_ : ndarray (n_features, n_states - 1)
        Unary scores of the input nodes, which matter where a feature is not observed.
    classes_ : ndarray (n_outputs, 2) or (n_classes,)
    label_names_ : ndarray of str (n_outputs,)
        Where y has names, as a data frame or a series, see `set_label_output`.
    allow_empty_ : bool
        Whether no output may be predicted to be on, as in `CRBMClassifier`.
    unseen_share_ : float
        As in `CRBMClassifier`.
    n_inference_iter_ : int
        T of the fit, used in prediction.
    loss_curve_, convergence_curve_ : list of float
        Training loss, and share of rows whose output moved by less than 0.001 in the last
        iteration, per epoch, of the run that gave the parameters. Truncated inference
        need not converge.
    validation_scores_ : list of float or None
        Minus the validation loss, per epoch of the run with early stopping.
    n_iter_ : int
        Number of epochs behind the parameters.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    A feature that is NaN somewhere in X is a binary node with a unary score. Where observed
    it must lie in [0, 1] (an overshoot of 0.5 is let through, as scaled new rows have it);
    where it is not, its belief is an output, see `impute`.

    With soft clamping, a feature can become NaN in a later call to `partial_fit` if its values
    were in [0, 1] in all calls before.

    References
    ----------
    .. [1] Shen, Wu, Domokos and Cremers (2019). Probabilistic discriminative learning with
       layered graphical models. Section 3, algorithm 1.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skcrbm import LayeredGMClassifier
    >>> from skcrbm.layers import Conv2d, Dense
    >>> X, y = load_digits(return_X_y=True)
    >>> model = LayeredGMClassifier(
    ...     layers=(Conv2d(4, kernel_size=3, stride=2), Dense(10, n_states=3)),
    ...     input_shape=(8, 8), max_iter=3, early_stopping=False, random_state=0,
    ... ).fit(X / 16, y)
    >>> model.predict_proba(X[:2] / 16).shape
    (2, 10)
    """

    _saved = ("n_features_in_", "classes_", "_targets", "layers_", "input_unary_", "n_iter_")

    _parameter_constraints: dict = {
        **BaseStochasticClassifier._parameter_constraints,
        "layers": [tuple, list],
        "input_shape": [tuple, list, None],
        "clamping": clamping_constraint(),
        "inference": truncated_constraint(),
        "label_smoothing": [Interval(Real, 0, 1, closed="left")],
        "gradient": [StrOptions(set(LAYERED_OBJECTIVES))],
    }
    _allow_nan = True
    _state = (
        "_targets",
        "_model",
        "_inference",
        "_fitted_structure",
        "_progress",
        "_rng",
    )

    def __init__(
        self,
        *,
        layers=_DEFAULT_LAYERS,
        input_shape=None,
        clamping="soft",
        inference="tree_reweighted",
        label_smoothing=0.0,
        gradient="backprop",
        max_iter=200,
        batch_size="auto",
        solver="adam",
        learning_rate_init="auto",
        momentum=0.0,
        alpha=0.0,
        alpha_hidden=0.0,
        early_stopping="auto",
        refit=True,
        validation_fraction=0.2,
        n_iter_no_change=5,
        tol=0.0,
        class_weight=None,
        warm_start=False,
        n_jobs=None,
        random_state=None,
        verbose=False,
    ):
        self.layers = layers
        self.input_shape = input_shape
        self.clamping = clamping
        self.inference = inference
        self.label_smoothing = label_smoothing
        self.gradient = gradient
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

    _of_prediction = ("n_jobs",)

    def __sklearn_is_fitted__(self):
        return hasattr(self, "layers_")

    # ---------------------------------------------------------------- fitting

    def _check_settings(self, partial):
        super()._check_settings(partial)
        for layer in self.layers:
            if not isinstance(layer, Layer):
                raise ValueError(
                    f"layers must hold objects from skcrbm.layers such as Dense(100), got {layer!r}"
                )
        resolve_truncated(self.inference).check_depth(len(self.layers))

    def _make_training(self, visible, rng, partial):
        return self._training(
            len(visible),
            LAYERED_OBJECTIVES.get(self.gradient).from_options(**self.get_params(deep=False)),
            L2(LayeredParams(self.alpha, self.alpha_hidden, 0.0)),
            LayeredParams(1.0, 1.0, 1.0),
        )

    def _initial_model(self, X, visible, weight, rng, training):
        structure, code = self._new_structure(X, visible)
        with np.errstate(over="ignore", invalid="ignore"):  # the training will find it
            params = layered_params(structure, code.mean(X, weight), rng, visible.dtype)
        return LayeredModel(params, structure, code)

    def _fitted_model(self, X):
        return self._model._replace(code=self._model.code.with_rows(X))

    def _new_structure(self, X, visible):
        """Structure and input code of a first fit."""
        code = InputCode.from_training(X, clamping_cuts(self.clamping))
        shape = (X.shape[1],) if self.input_shape is None else tuple(self.input_shape)
        positive = all(isinstance(length, Integral) and length > 0 for length in shape)
        if not positive or len(shape) not in (1, 2, 3) or int(np.prod(shape)) != X.shape[1]:
            raise ValueError(
                f"input_shape={shape} must be (height, width) or (height, width, channels), "
                f"positive integers with the {X.shape[1]} features of X as their product"
            )
        n_visible = visible.shape[1]
        n_outputs, n_states = (1, n_visible) if self._targets.one_hot else (n_visible, 2)
        structure = LayeredStructure(self.layers, shape, code.n_states, n_outputs, n_states)
        return structure, code

    def _hyperstructure(self):
        """Hyperparameters that decide the shapes of all parameters."""
        cuts = clamping_cuts(self.clamping)
        shape = None if self.input_shape is None else tuple(self.input_shape)
        return tuple(self.layers), shape, None if cuts is None else tuple(cuts)

    def _check_same_model(self):
        if self._hyperstructure() != self._fitted_structure:
            raise ValueError(
                "layers, input_shape or clamping differ from those of the model fitted so far; set "
                "warm_start=False, or keep them"
            )

    def _fitted_attributes(self, model, epoch, X, visible):
        inference = clone(resolve_truncated(self.inference))
        return {
            "layers_": model.fitted_layers(),
            "input_unary_": model.structure.unaries(model.params)[0],
            "n_inference_iter_": inference.n_iter,
            "_model": model,
            "_inference": inference,
            "_fitted_structure": self._hyperstructure(),
        }

    # ------------------------------------------------------------- prediction

    def _runs(self, X, network, read, **options):
        """List of what `read` makes of the `Trace` of each chunk of rows.

        `network` is a function of the model.
        """
        X = self._check_predict_data(X)
        model = self._model._replace(code=self._model.code.for_rows(X))
        shared = network(model)

        def chunk(rows):
            # What overflows is NaN in the answer, and refused there.
            with np.errstate(over="ignore", invalid="ignore"):
                return read(shared.run(LayeredInput(*model.encode(X[rows])), **options))

        with one_blas_thread():
            chunks = row_chunks(X.shape[0], LAYERED_CHUNK_ROWS)
            return list(ordered_map(chunk, chunks, self.n_jobs))

    @label_output
    def decision_function(self, X):
        """Log-odds of the output's beliefs.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            NaN where not observed.

        Returns
        -------
        ndarray of shape (n_samples, n_outputs), (n_samples,) or (n_samples, n_classes)
            Per output; for multiclass y unnormalised log-probabilities, 0 for the first
            class.
        """
        return self._decision(self._output_scores(X))

    def _output_scores(self, X):
        """Scores (N, V or V - 1) of the output's states but the first."""
        check_is_fitted(self)

        def scores(trace):
            return trace.beliefs[-1][-1].reshape(-1, trace.n).T

        found = np.concatenate(self._runs(X, self._inference.network, scores))
        if not np.isfinite(found).all():
            raise ValueError("X times the weights is too large a number; scale the columns of X")
        return found

    def _label_scores(self, scores):
        return scores

    def _label_log_odds(self, scores):
        return scores

    def _labels(self, scores):
        return with_a_label(scores >= 0, scores, self.allow_empty_)

    def _binary_scores(self, scores):
        return scores

    def _class_scores(self, scores):
        return np.hstack([np.zeros((len(scores), 1), scores.dtype), scores])

    @label_output
    def predict_proba(self, X):
        """P(y_i = 1 | x) of each output, or the probability of each class.

        Parameters
        ----------
        X
            As in `decision_function`.

        Returns
        -------
        ndarray of shape (n_samples, n_outputs) or (n_samples, n_classes)
        """
        return self._proba(self._output_scores(X))

    @label_output
    def predict(self, X):
        """Predict the most probable class, or the labels with probability 0.5 or more.

        Where no row of fit was without a label, the most probable one is on in any case.

        Parameters
        ----------
        X
            As in `decision_function`.

        Returns
        -------
        ndarray of shape (n_samples, n_outputs) or (n_samples,)
        """
        return self._predict(self._output_scores(X))

    def map_states(self, X):
        """States of all hidden and output nodes by max-product decoding.

        They approximate the jointly most probable ones given X, exactly so for one
        hidden layer below one output node, where the graph is a tree.

        Parameters
        ----------
        X
            As in `decision_function`.

        Returns
        -------
        list of ndarray of shape (n_samples, n_nodes), int
            One per hidden layer, then the outputs: ``classes_[states[-1][:, 0]]`` for 1-D y.
        """
        check_is_fitted(self)

        def network(model):
            n_iter = max(_MAP_ITERATIONS, self.n_inference_iter_)
            return MaxProductNetwork(
                model, self._inference.schedule, n_iter, with_input=model.has_free_inputs
            )

        def states(trace):
            return [probabilities(b, trace.n).argmax(axis=1).T for b in trace.beliefs[-1][1:]]

        chunks = self._runs(X, network, states, complete=True)
        return [np.concatenate(layer) for layer in zip(*chunks)]

    def impute(self, X):
        """Fill in what is not observed by its belief.

        Parameters
        ----------
        X
            As in `decision_function`.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            X with each NaN replaced by the mean of its node's belief: P(feature = 1), or
            with more than two states the expectation of s / (n_states - 1).

        Raises
        ------
        ValueError
            If the model was fitted with one iteration of inference: in the first, the hidden
            nodes have not sent a message back to the input yet.
        """
        check_is_fitted(self)
        if self.n_inference_iter_ < 2:
            raise ValueError(
                "impute needs TruncatedInference(n_iter=2) or more; this model was fitted with 1"
            )
        filled = self._check_predict_data(X)
        filled = filled.toarray() if sparse.issparse(filled) else filled.copy()

        def means(trace):
            missing = trace.inputs.missing
            if missing is None:
                return trace.n, None, None
            p = probabilities(trace.beliefs[-1][0], trace.n)
            levels = np.linspace(0, 1, p.shape[1]).astype(p.dtype)
            return trace.n, missing, np.einsum("isn,s->ni", p, levels)[missing]

        start = 0
        for n_rows, missing, mean in self._runs(X, self._inference.network, means, complete=True):
            if missing is not None:
                filled[start : start + n_rows][missing] = mean
            start += n_rows
        return filled
