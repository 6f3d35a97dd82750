"""ImageCRBM: conditional RBM whose outputs are the pixels of an image."""

from __future__ import annotations

import copy
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from skcrbm.energies import RBMEnergy
from skcrbm.estimators._base import Rows, training_rows
from skcrbm.estimators._crbm_auto import PenaltySettings, search_convex_penalty
from skcrbm.estimators._grid_crf import GridCRF
from skcrbm.estimators._rbm import (
    RBMClassifier,
    likelihood_methods,
    scaled_design,
    source_of,
    variance_of,
)
from skcrbm.inference import InferenceMethod
from skcrbm.inference.choice import method_constraint, methods_for
from skcrbm.learning.fit import Plan, begin_partial_fit, train, train_one_epoch
from skcrbm.learning.penalties import crbm_penalty
from skcrbm.learning.rules import Likelihood
from skcrbm.learning.solvers import (
    STOCHASTIC_SOLVERS,
    LossPlateau,
    Solver,
    resolve_solver,
    solver_constraint,
    stopping_constraint,
)
from skcrbm.targets.images import binary_images, flat_images, flat_weights, make_image_targets
from skcrbm.utils.columns import warn_of_scales
from skcrbm.utils.fitting import (
    EpochCallbacks,
    all_or_nothing,
    begin_fit,
    forget,
    skip_empty_batches,
    with_callbacks,
)
from skcrbm.utils.limits import MIN_SEARCH_ROWS
from skcrbm.utils.options import Integer, check_parameters, is_auto
from skcrbm.utils.sklearn_private import Interval, StrOptions, fit_context

# Value of alpha="auto" if the first call is `partial_fit`. It is a typical result of the search for
# alpha on a few thousand images.
_PLAIN_ALPHA = 0.003
# If there are at most this number of images, each step reads all images; otherwise it reads a
# mini-batch. The number is smaller than in `CRBMClassifier`, because training on all images makes a
# single step in each epoch.
_FULL_BATCH_ROWS = 50
# Number of epochs after which training ends when the loss has converged. More epochs lower the
# training loss, but hardly the number of wrong pixels: on 8 x 8 digits with 100 to 5,600 images, 20
# epochs and 100 epochs differ by at most 0.4 % of the pixels, in both directions.
_ENOUGH_EPOCHS = 20
# Advice in the warning about the scales of the columns of X.
_REMEDY_OF_SCALES = "Divide X by its largest grey value, as in X / 255"
# If structure="auto" and the images of y have more pixels than this number (32 x 32), the model is
# local. The number of dense weights grows with the square of the number of pixels, because each
# pixel of y has a weight for each pixel of X.
_MOST_DENSE_PIXELS = 1024


class ImageCRBM(RBMClassifier):
    """Conditional RBM that predicts binary images, for denoising, inpainting and segmentation.

    Small images get a model with dense weights: a `CRBMClassifier` with an output for each pixel,
    in which pixels depend on each other through the hidden units. By default inference is belief
    propagation, and training is averaged gradient descent for at least 20 epochs. X and y are
    arrays of shape (n_samples, height, width), or 2-D arrays with the pixels of an image in each
    row. Predictions have the shape that y had in `fit`.

    Images with more than 1024 pixels, or of different sizes, get the local model `GridCRF`, in
    which all positions share the same weights; see the parameter `structure`.

    X contains 0 and 1 or grey values, and its images may differ in size from the images in y. If X
    is 2-D, it may be sparse. y contains 0 and 1, and NaN for missing pixels. All prediction methods
    take `y_known`, an array in the shape of y with the pixels that are known beforehand, and NaN
    for the other pixels. Cross-validate and search with `skcrbm.model_selection` if y has missing
    labels: the functions there have scikit-learn's names and accept them.

    Parameters
    ----------
    n_hidden : int, default=64
        Number of hidden units. With more units the model learns more of the dependence between
        pixels, which helps to fill in large patches. The training time is proportional to
        `n_hidden`.
    inference : str or object, default="auto"
        Inference method of training and prediction, as in `CRBMClassifier`. "auto" is "exact" up to
        10 hidden units, else "sum_product".
    solver : str or object, default="asgd"
        Solver, by name or as an object from `skcrbm.learning` such as
        ``AveragedSGD(batch_size=50)``: "asgd", "adam" or "sgd". By default a batch contains all
        images if there are at most 50, else 20 images.
    structure : {"auto", "dense", "local"} or GridCRF, default="auto"
        "dense" connects each pixel of y with each pixel of X and with each hidden unit. "local"
        stands for ``GridCRF()``, in which a pixel depends on the pixels around it, with the same
        weights at all positions; a configured `GridCRF` may be given instead. "auto" is "local" if
        images differ in size, or if the images in y have more than 1024 pixels and the same size as
        the images in X. The local model uses only the parameters `n_jobs`, `random_state`,
        `verbose` and `warm_start` of the `ImageCRBM`; if a `GridCRF` is given, only `warm_start`.
        The local model has the methods `fit`, `partial_fit` (by Adam, unless a `GridCRF` is given),
        `predict`, `predict_proba`, `predict_log_proba` and `score`. Its y may hold any classes,
        unless `structure` is "auto". If `partial_fit` or `warm_start` continues training, "auto"
        keeps the structure of the fitted model.
    max_iter : int, default=100
        Largest number of epochs. Training usually ends after some 20 epochs, see `early_stopping`.
        With tens of thousands of images fewer epochs are enough.
    alpha : float or "auto", default="auto"
        L2 penalty on the weights of X, as in `CRBMClassifier`. "auto" scales the pixels of X
        internally and finds the penalty by cross-validation. A number applies to the coefficients
        of the given pixels. If the first call is `partial_fit`, "auto" is 0.003 for the given
        pixels.
    early_stopping : bool or object, default=False
        True stands for ``EarlyStopping()``: hold out 15% of the images, stop after ten epochs
        without a better validation score, and fit again on all images for the best number of
        epochs. False trains for 20 epochs, and for further epochs until the last quarter of all
        epochs has made less than 3 % of the progress of the training loss. More epochs would lower
        the training loss, but hardly the number of wrong pixels.
    warm_start : bool, default=False
        Start `fit` from the parameters of the previous fit.
    n_jobs : int, default=None
        Number of threads, which share the rows. Results do not depend on it.
    random_state : int, RandomState or None, default=None
        Seed of the initial parameters and the order of rows.
    verbose : bool or int, default=False
        1 prints a live line with rate, loss and remaining time; 2 prints a line for each epoch.

    Attributes
    ----------
    visible_coef_, hidden_coef_, weights_, visible_intercept_, hidden_intercept_ : ndarray
        Parameters, as in `CRBMClassifier`, with the pixels of an image row by row as the outputs.
        The other attributes of `CRBMClassifier` exist as well.
    n_features_in_ : int
        Number of pixels of each image in X. This attribute, and all attributes above, exist only
        for dense weights.
    local_ : GridCRF or None
        Fitted local model, or None with dense weights.

    See Also
    --------
    skcrbm.GridCRF : Local model for images of any sizes, with classes.
    skcrbm.CRBMClassifier : The same model with all learning rules, solvers and decoding rules.
    skcrbm.datasets.flip_pixels : Add noise to clean images.
    skcrbm.datasets.occlude_patch : Hide a patch of each image.

    Notes
    -----
    The weights between pixels and hidden units (`weights_`) have an L2 penalty of
    1 / max(n_samples, 40). `partial_fit` does not know the number of images and uses no penalty on
    these weights.

    The results of `sample`, `decision_function` and `predict_topk` have the shape of images, too.
    `predict_pairwise_proba` returns matrices with a row and a column for each pixel. If y is 1-D
    (classes of images), the model behaves like `CRBMClassifier`.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skcrbm import ImageCRBM
    >>> from skcrbm.datasets import flip_pixels
    >>> clean = (load_digits().images[:600] > 7).astype(float)  # (600, 8, 8)
    >>> noisy = flip_pixels(clean, 0.1, random_state=0)
    >>> model = ImageCRBM(n_hidden=16, random_state=0).fit(noisy[:500], clean[:500])
    >>> model.predict(noisy[500:]).shape
    (100, 8, 8)
    >>> bool(model.score(noisy[500:], clean[500:]) > 0.92)  # share of the pixels that are right
    True
    """

    _saved = (*RBMClassifier._saved, "_input_shape")
    _state = (*RBMClassifier._state, "_input_shape")

    _parameter_constraints: dict = {
        "n_hidden": [Integer(0)],
        "inference": method_constraint(
            methods_for(RBMEnergy, Likelihood.conditional_answers), auto=True
        ),
        "solver": solver_constraint(STOCHASTIC_SOLVERS),
        "structure": [StrOptions({"auto", "dense", "local"}), GridCRF],
        "max_iter": [Integer(1)],
        "alpha": [Interval(Real, 0, None, closed="left"), StrOptions({"auto"})],
        "early_stopping": stopping_constraint(auto=False),
        "warm_start": ["boolean"],
        "n_jobs": [Integer(), None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }
    _prediction_parameters = ("n_jobs",)

    def __init__(
        self,
        *,
        n_hidden: int = 64,
        inference: str | InferenceMethod = "auto",
        solver: str | Solver = "asgd",
        structure: str | GridCRF = "auto",
        max_iter: int = 100,
        alpha: float | str = "auto",
        early_stopping: bool | LossPlateau = False,
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: bool | int = False,
    ):
        self.n_hidden = n_hidden
        self.inference = inference
        self.solver = solver
        self.structure = structure
        self.max_iter = max_iter
        self.alpha = alpha
        self.early_stopping = early_stopping
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @all_or_nothing
    @with_callbacks
    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None):
        """Fit the model.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, height, width) or \
(n_samples, n_pixels)
            Input images with 0/1 pixels or grey values.
        y : array-like of shape (n_samples, height, width) or (n_samples, n_pixels)
            Output images with 0/1 pixels, and NaN for missing pixels. Their size may differ from
            the size of the images in X.
        sample_weight : array-like of shape (n_samples,) or the shape of y, default=None
            Non-negative weights of the images or of single pixels. An image of weight k counts as k
            copies of the image in the loss; the penalties and the size of the steps depend on the
            number of images only. A pixel of weight 0 is a missing pixel.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If X, y, a weight or a hyperparameter is invalid.
        FloatingPointError
            If the training diverges.

        Warns
        -----
        ConvergenceWarning
            If inference converged for less than 90% of the images in the last epoch.
        """
        if self._is_local(X, y, self.warm_start):
            return self._fit_local(X, y, sample_weight)
        resume, rng = begin_fit(self)
        rows = training_rows(self, X, y, flat_weights(sample_weight), reset=not resume)
        plan = self._resumed_plan(rows, rng) if resume else self._first_plan(rows, rng)
        callbacks = EpochCallbacks(self, plan.n_epochs, X, y, sample_weight)
        train(self, plan, rng, callbacks)
        self._warn_of_convergence()
        self._warn_of_strong_couplings(rows)
        callbacks.end()
        return self

    @skip_empty_batches
    @all_or_nothing
    @fit_context(prefer_skip_nested_validation=True)
    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ):
        """Train for one epoch on the given images, starting from the current parameters.

        Parameters
        ----------
        X, y, sample_weight
            As in `fit`.
        classes : array-like of shape (n_classes,), default=None
            All classes of a 1-D y; required in the first call if `y` does not contain all of them.

        Returns
        -------
        self

        Notes
        -----
        A call does nothing if no image of positive weight has an observed pixel.
        """
        if self.__sklearn_is_fitted__():  # scikit-learn validates parameters in the first call only
            self._validate_params()
        if self._is_local(X, y, True):
            return self._fit_local(X, y, sample_weight, classes, partial=True)
        resume, rng = begin_partial_fit(self)
        weight = flat_weights(sample_weight)
        rows = training_rows(self, X, y, weight, reset=not resume, classes=classes, partial=True)
        train_one_epoch(self, self._stream_plan(rows, rng), rng)
        self._warn_of_convergence()
        return self

    # ------------------------------------------------------------------------ the plans

    def _first_plan(self, rows: Rows, rng) -> Plan:
        """Return the plan of a fit from new parameters."""
        solver, methods = self._solver_and_methods(rng)
        design = scaled_design(rows, self.alpha, centre=solver.averaged)
        model = self._first_model(rows, design, methods, rng)
        alpha, points = self.alpha, []
        if is_auto(self.alpha):
            alpha, points = self._searched_alpha(rows, design, model)
        else:
            # Replace the usual advice to scale the columns, which is impossible for a 3-D X.
            warn_of_scales(rows.X, rows.weight, type(self).__name__, remedy=_REMEDY_OF_SCALES)
        return self._plan(rows, design, model, methods, solver, alpha, points=points)

    def _resumed_plan(self, rows: Rows, rng) -> Plan:
        """Return the plan of a fit from the fitted model, which keeps the penalty of a search."""
        solver, methods = self._solver_and_methods(rng)
        design = scaled_design(rows, self.alpha, centre=solver.averaged)
        model = self._resumed_model(design, methods)
        alpha, points = self.alpha_ if is_auto(self.alpha) else self.alpha, []
        if is_auto(self.alpha) and self._columns is None:  # the earlier fit did not search
            alpha, points = self._searched_alpha(rows, design, model)
        return self._plan(
            rows, design, model, methods, solver, alpha, points=points, progress=self._progress
        )

    def _stream_plan(self, rows: Rows, rng) -> Plan:
        """Return the plan of an epoch of `partial_fit`, from the fitted model if there is one."""
        solver, methods = self._solver_and_methods(rng)
        design, options = self._stream_design(rows), {"alpha_hidden": 0.0}
        if self.__sklearn_is_fitted__():
            model = self._resumed_model(design, methods)
            alpha: Any = self.alpha_ if is_auto(self.alpha) else self.alpha
            options |= {"progress": self._progress, "label_sets": self.label_sets_}
            return self._plan(rows, design, model, methods, solver, alpha, **options)
        model = self._first_model(rows, design, methods, rng)
        warn_of_scales(rows.X, rows.weight, type(self).__name__, remedy=_REMEDY_OF_SCALES)
        alpha = _PLAIN_ALPHA if is_auto(self.alpha) else self.alpha
        return self._plan(rows, design, model, methods, solver, alpha, **options)

    def _solver_and_methods(self, rng):
        methods = likelihood_methods(self, Likelihood.conditional_answers, rng)
        return resolve_solver(self.solver, STOCHASTIC_SOLVERS), methods

    def _searched_alpha(self, rows, design, model):
        """Return the best alpha of logistic regressions, and the penalties that were tried."""
        settings = PenaltySettings(
            "auto", self._targets.one_hot, self.max_iter, self.n_jobs, self.verbose
        )
        batch = source_of(rows, design).all
        return search_convex_penalty(settings, model, batch, variance_of(design))

    def _plan(
        self, rows, design, model, methods, solver, alpha, *, alpha_hidden=None, **options
    ) -> Plan:
        """Return the plan of a fit from a model and with a penalty.

        `alpha_hidden` is the penalty on W; None stands for a weak penalty. `options` are further
        arguments of `_conditional_plan`.
        """
        if alpha_hidden is None:
            alpha_hidden = 1 / max(rows.n_originals, MIN_SEARCH_ROWS)
        fields = self._stochastic_fields(
            rows, design, solver, hold_out=False, full_batch_rows=_FULL_BATCH_ROWS
        )
        if self.early_stopping is False:
            fields["enough_epochs"] = _ENOUGH_EPOCHS
        return self._conditional_plan(
            rows,
            design,
            model,
            methods,
            alpha=alpha,
            found={"local_": None},
            objective=Likelihood().conditional(methods.training, self.n_jobs),
            penalty=crbm_penalty(alpha, alpha_hidden),
            solver=solver,
            **fields,
            **options,
        )

    def _is_local(self, X, y, resume: bool) -> bool:
        """Return True if a fit to X and y must train the local model.

        If `resume` is True, training continues with the structure of the fitted model.
        """
        if not (resume and self.__sklearn_is_fitted__()):
            return _selects_local(self.structure, X, y)
        fitted = getattr(self, "local_", None) is not None
        if self.structure != "auto" and _selects_local(self.structure, X, y) != fitted:
            raise ValueError(
                f"structure={self.structure!r} differs from the earlier fit, which trained "
                f"{'the local model' if fitted else 'dense weights'}, so training cannot continue; "
                "call fit with warm_start=False, or keep the value of structure"
            )
        return fitted

    def _fit_local(self, X, y, sample_weight, classes=None, partial=False):
        """Fit the local model, or train it for one epoch in `partial_fit`."""
        if self.structure == "auto":
            for image in y:
                if image is not None:
                    binary_images(image, "y")
            if classes is None:  # the images of the first call may contain only 0 or only 1
                classes = [0, 1]
        local = _local_model(self.structure, self, partial)
        fitted = getattr(self, "local_", None)
        if fitted is None or not (partial or self.warm_start):
            forget(self, self._state)
        else:  # use the current settings in a copy, so that a failed fit does not change the model
            settings = local.get_params(deep=False)
            if not partial:
                settings["warm_start"] = True
            local = copy.deepcopy(fitted).set_params(**settings)
        if partial:
            local.partial_fit(X, y, classes, sample_weight)
            if not hasattr(local, "classes_"):  # the first images have no labels
                return self
        else:
            callbacks = EpochCallbacks(self, None, X, y, sample_weight)
            with callbacks.inner_fit(local, "local model"):
                local.fit(X, y, sample_weight)
            callbacks.end()
        if local.classes_.dtype == bool:  # predict 0 and 1, as the model with dense weights does
            local.classes_ = local.classes_.astype(np.int64)
        self.local_, self.classes_ = local, local.classes_
        return self

    def __sklearn_is_fitted__(self):
        return getattr(self, "local_", None) is not None or super().__sklearn_is_fitted__()

    def _check_predict_data(self, X):
        self._require_dense()
        return super()._check_predict_data(X)

    def _require_multilabel(self, method):
        self._require_dense()
        super()._require_multilabel(method)

    def _require_dense(self):
        """Raise a ValueError if the local model is fitted."""
        if getattr(self, "local_", None) is not None:
            raise ValueError(
                "this method needs dense weights, but the model was fitted with the local "
                "structure; set structure='dense', or use the method factor_graph of the fitted "
                "GridCRF in the attribute local_"
            )

    def _decoding_rule(self):
        return "marginal"

    def _label_scores(self, posterior):
        return posterior.log_odds()

    def _binary_scores(self, posterior):
        return posterior.log_odds()

    def _class_scores(self, posterior):
        return posterior.energy.class_log_weights()

    def _make_targets(self, y, classes):
        return make_image_targets(y, classes, self)

    def _validate_X(self, X, reset):
        shape = None

        def as_rows(images):
            nonlocal shape
            shape = images.shape[1:]
            if reset:
                return flat_images(images, "X")
            return flat_images(images, "X", self.n_features_in_, self._input_shape)

        X = super()._validate_X(X, reset, as_rows)
        if reset:
            self._input_shape = shape
        return X

    def predict(self, X, y_known=None):
        """Predict images; each pixel is set to its more probable value.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, height, width) or \
(n_samples, n_pixels)
        y_known : array-like of shape (n_samples, height, width) or (n_samples, n_pixels), \
default=None
            Pixels that are known beforehand, and NaN for the other pixels, which are predicted
            given the known pixels.

        Returns
        -------
        ndarray of shape (n_samples, height, width) or (n_samples, n_pixels)
            Predicted 0/1 pixels (also if y was boolean), in the shape that y had in `fit`. If X is
            a list and the model is local, the result is an object array of images.
        """
        local = self._fitted_local()
        if local is not None:
            return local.predict(X, y_known)
        return super().predict(X, y_known)

    def predict_proba(self, X, y_known=None):
        """Return the probability P(y_i = 1 | x) of each pixel.

        Parameters
        ----------
        X, y_known
            As in `predict`.

        Returns
        -------
        ndarray in the shape of the images in y
            Probabilities. With the local model and more than two classes, a last axis has the
            probability of each class.
        """
        local = self._fitted_local()
        if local is not None:
            return self._of_second_class(local.predict_proba(X, y_known))
        return super().predict_proba(X, y_known)

    def predict_log_proba(self, X, y_known=None):
        """Return the logarithms of `predict_proba`.

        Parameters
        ----------
        X, y_known
            As in `predict`.

        Returns
        -------
        ndarray in the shape of `predict_proba`
        """
        local = self._fitted_local()
        if local is not None:
            return self._of_second_class(local.predict_log_proba(X, y_known))
        return super().predict_log_proba(X, y_known)

    def _fitted_local(self) -> GridCRF | None:
        """Return the fitted local model with the current number of threads, or None."""
        check_is_fitted(self)
        local = getattr(self, "local_", None)
        if local is None or isinstance(self.structure, GridCRF):
            return local
        check_parameters(self, self._prediction_parameters)
        return copy.copy(local).set_params(n_jobs=self.n_jobs)

    def _of_second_class(self, images):
        """Return P(second class) if there are two classes, else `images` unchanged."""
        if len(self.classes_) > 2:
            return images
        if images.dtype == object:
            for i, image in enumerate(images):
                images[i] = image[..., 1]
            return images
        return images[..., 1]

    def score(self, X, y, sample_weight=None, y_known=None):
        """Return the share of correctly predicted pixels, or the accuracy if y is 1-D.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, height, width) or \
(n_samples, n_pixels)
        y : array-like of shape (n_samples, height, width) or (n_samples, n_pixels)
            True images; pixels that are NaN (missing) do not count.
        sample_weight : array-like of shape (n_samples,) or the shape of y, default=None
            Weights of the images or of single pixels.
        y_known : array-like of shape (n_samples, height, width) or (n_samples, n_pixels), \
default=None
            Pixels that are known beforehand, as in `predict`; they do not count in the score.

        Returns
        -------
        float
        """
        local = self._fitted_local()
        if local is not None:
            return local.score(X, y, sample_weight, y_known)
        return super().score(X, y, flat_weights(sample_weight), y_known)


def _selects_local(structure: Any, X: Any, y: Any) -> bool:
    """Return True if `structure`, an option of `ImageCRBM`, selects the local model for X and y."""
    if structure == "dense":
        return False
    if structure != "auto":
        return True
    sizes, inputs = _shape_of(y), _shape_of(X)
    if sizes is None:  # images of different sizes
        return True
    same = inputs is None or inputs[:2] == sizes
    return len(sizes) == 2 and same and sizes[0] * sizes[1] > _MOST_DENSE_PIXELS


def _shape_of(images):
    """Return the common shape of all images, or None if the images differ in shape.

    Entries of a list that are None are ignored. If all entries are None, the result is ().
    """
    objects = isinstance(images, np.ndarray) and images.ndim == 1 and images.dtype == object
    if not (objects or isinstance(images, (list, tuple))):
        return np.asarray(images).shape[1:]
    shapes = {np.shape(image)[:2] for image in images if image is not None}
    return shapes.pop() if len(shapes) == 1 else None if len(shapes) > 1 else ()


def _local_model(structure: Any, estimator: Any, partial: bool) -> GridCRF:
    """Return an unfitted `GridCRF`, for an `ImageCRBM` with the parameter `structure`.

    If `structure` is a `GridCRF`, return a clone. Otherwise the new `GridCRF` gets `n_jobs`,
    `random_state`, `verbose` and `warm_start` from the `ImageCRBM`.

    `partial` is True in `partial_fit`, which needs a stochastic solver.
    """
    if isinstance(structure, GridCRF):
        copied: Any = clone(structure)
        return copied
    return GridCRF(
        solver="adam" if partial else "lbfgs",
        warm_start=estimator.warm_start,
        n_jobs=estimator.n_jobs,
        random_state=estimator.random_state,
        verbose=estimator.verbose,
    )
