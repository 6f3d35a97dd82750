"""Define `GridCRF`, a conditional random field for images of any sizes."""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from skcrbm.energies import FactorGraphEnergy
from skcrbm.energies.image_model import ImageModel, ImageParams, ImageStructure, pair_steps
from skcrbm.energies.pairwise_classes import pairwise_classes
from skcrbm.estimators._structured import (
    require_stochastic,
    warn_of_new_labels,
)
from skcrbm.learning.data import Design
from skcrbm.learning.fit import NO_PROGRESS, Plan, begin_partial_fit, train, train_one_epoch
from skcrbm.learning.solvers import (
    Adam,
    LossPlateau,
    Solver,
    resolve_solver,
    resolve_stopping,
    solver_constraint,
    stopping_constraint,
)
from skcrbm.learning.structured.image import (
    ImageBatch,
    ImageLikelihood,
    image_fields,
    image_params,
    log_beliefs,
)
from skcrbm.learning.structured.objective import structured_penalty
from skcrbm.learning.structured.rows import StructureSource
from skcrbm.targets.codes import MISSING
from skcrbm.targets.pixels import (
    UNKNOWN,
    ImageRows,
    pixel_classes,
    pixel_codes,
    pixel_labels,
    pixel_weights,
    split_images,
    without_weightless,
)
from skcrbm.utils.fitting import (
    CallbackSupportMixin,
    EpochCallbacks,
    all_or_nothing,
    begin_fit,
    skip_empty_batches,
    with_callbacks,
)
from skcrbm.utils.options import Integer, check_parameters, is_auto
from skcrbm.utils.parallel import one_blas_thread, ordered_map
from skcrbm.utils.pickling import SavedModel
from skcrbm.utils.sklearn_private import Interval, StrOptions, fit_context
from skcrbm.utils.validation import NothingToLearnError

# Number of images in a mini-batch, if the batch size of a stochastic solver is "auto".
_BATCH_IMAGES = 4
# Learning rate of Adam if `learning_rate` is "auto". The rate is larger than in other models,
# because the model has only a few weights, which all pixels share.
_ADAM_RATE = 0.03


class GridCRF(CallbackSupportMixin, SavedModel, BaseEstimator):
    """Conditional random field over the pixels of images, with weights that all positions share.

    The class of a pixel depends on the window of X around the pixel, on the classes of its
    neighbours and, if `n_hidden` is positive, on hidden binary variables. A hidden variable depends
    on a window of X and on the classes in this window. The number of parameters does not depend on
    the size of the images, so that images may be large and differ in size. Inference is mean field
    with a fixed number of iterations, and training differentiates through these iterations [1]_.

    Parameters
    ----------
    window : int, default=5
        Side of the window of X around a pixel, an odd number of pixels.
    pair_window : int, default=3
        Side of the window of neighbours whose classes a pixel depends on, an odd number of pixels:
        3 means the eight nearest neighbours, and 1 means that the pixels are independent given X.
    n_hidden : int, default=0
        Number of hidden variables at each pixel. They learn shapes such as strokes, and make the
        fit many times slower.
    n_inference_iter : int, default=5
        Number of iterations of mean-field inference, in training and prediction.
    alpha : float or "auto", default="auto"
        L2 penalty: the objective is the mean loss of a pixel plus ``alpha / 2 |w|^2``, where w are
        all parameters except `intercept_`. "auto" is 1 / (number of labelled pixels in images of
        positive weight), so that the scale of `sample_weight` has no effect; in `partial_fit` it is
        0.00001.
    solver : str or object, default="lbfgs"
        Solver. "lbfgs" reads all images in each iteration. A stochastic solver takes steps on
        mini-batches of images: "adam", "sgd", "asgd", or an object such as
        ``Adam(learning_rate=0.01, batch_size=4)``. The default learning rate of Adam is 0.03, and
        the default batch has 4 images.
    max_iter : int, default=100
        Maximum number of iterations of L-BFGS, or of epochs of a stochastic solver.
    early_stopping : bool or object, default=False
        Stopping rule of stochastic solvers. True holds out images and keeps the epoch with the best
        validation score, see `EarlyStopping`. False stops when the training loss no longer falls.
    warm_start : bool, default=False
        Start `fit` from the parameters of the previous fit.
    n_jobs : int, default=None
        Number of threads, which share the images. Results do not depend on it.
    random_state : int, RandomState or None, default=None
        Seed of the initial weights of hidden variables and of the order of images in training.
    verbose : bool or int, default=False
        1 prints a live line, 2 prints a line for each iteration or epoch.

    Attributes
    ----------
    classes_ : ndarray (n_classes,)
        Class labels.
    coef_ : ndarray (n_classes - 1 + n_hidden, n_channels, window, window)
        Coefficients of the window of X around a pixel: first for the log-odds of each class against
        the first class, then for the log-odds of the hidden variables. The coefficients apply to
        standardised channels. If X had NaN in training, a last channel is 1 at pixels with NaN.
    intercept_ : ndarray (n_classes - 1 + n_hidden,)
        Intercepts of these log-odds.
    pair_coef_ : ndarray (n_neighbours / 2, n_classes - 1, n_classes - 1)
        Couplings of the class of a pixel and the class of a neighbour, for half of the directions:
        first the neighbours on the right in the same row, then the neighbours in the rows below.
        The opposite directions have the same couplings, transposed.
    hidden_coef_ : ndarray (n_hidden, n_classes - 1, window, window)
        Couplings of the hidden variables and the classes in a window.
    alpha_ : float
        Penalty of the fit.
    loss_curve_ : list of float
        Objective of each iteration, or mean loss of a pixel in each epoch.
    n_iter_ : int
        Number of iterations or epochs.

    See Also
    --------
    skcrbm.ImageCRBM : Conditional RBM for small binary images of a single size.
    skcrbm.GraphCRF : Conditional random field over any graphs, with features of the edges.

    Notes
    -----
    Beyond the border of an image, each channel of X has its mean value, and there are no
    neighbours.

    References
    ----------
    .. [1] Shen, Wu, Domokos and Cremers (2019). Probabilistic discriminative learning with
       layered graphical models. Section 3: the gradient through truncated inference.

    Examples
    --------
    >>> import numpy as np
    >>> from skcrbm import GridCRF
    >>> from skcrbm.datasets import flip_pixels
    >>> clean = np.zeros((20, 32, 32))
    >>> for i, image in enumerate(clean):
    ...     image[i : i + 12, 4:20] = 1
    >>> noisy = flip_pixels(clean, 0.1, random_state=0)
    >>> model = GridCRF().fit(noisy[:15], clean[:15])
    >>> model.predict(noisy[15:]).shape
    (5, 32, 32)
    >>> bool(model.score(noisy[15:], clean[15:]) > 0.98)
    True
    """

    classes_: np.ndarray
    loss_curve_: list[float]
    _progress: Any
    _model: ImageModel
    _rows: ImageRows
    _state = ("_model", "_rows", "_progress", "_rng")

    _parameter_constraints: ClassVar[dict] = {
        "window": [Interval(Integral, 1, None, closed="left")],
        "pair_window": [Interval(Integral, 1, None, closed="left")],
        "n_hidden": [Integer(0)],
        "n_inference_iter": [Integer(1)],
        "alpha": [Interval(Real, 0, None, closed="left"), StrOptions({"auto"})],
        "solver": solver_constraint(),
        "max_iter": [Integer(1)],
        "early_stopping": stopping_constraint(auto=False),
        "warm_start": ["boolean"],
        "n_jobs": [Integer(), None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        *,
        window: int = 5,
        pair_window: int = 3,
        n_hidden: int = 0,
        n_inference_iter: int = 5,
        alpha: float | str = "auto",
        solver: str | Solver = "lbfgs",
        max_iter: int = 100,
        early_stopping: bool | LossPlateau = False,
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: bool | int = False,
    ):
        self.window = window
        self.pair_window = pair_window
        self.n_hidden = n_hidden
        self.n_inference_iter = n_inference_iter
        self.alpha = alpha
        self.solver = solver
        self.max_iter = max_iter
        self.early_stopping = early_stopping
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.three_d_array = True
        tags.input_tags.allow_nan = True
        tags.target_tags.required = True
        return tags

    # ------------------------------------------------------------------------------- training

    def __sklearn_is_fitted__(self):
        return hasattr(self, "classes_")

    @all_or_nothing
    @with_callbacks
    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Iterable, y: Iterable, sample_weight: ArrayLike | None = None):
        """Fit the model.

        Parameters
        ----------
        X : array-like (n_images, height, width) or (n_images, height, width, n_channels), or list
            Images; a list may hold images of different sizes. Pixels may be NaN (missing).
        y : array-like (n_images, height, width) or list of arrays (height, width)
            Class of each pixel: integers, strings or booleans, and NaN or None for missing labels.
            None in place of an image means that all its labels are missing. Numbers such as -1 and
            255 are classes, too; if they stand for missing labels, write NaN instead, as in
            ``np.where(y == 255, np.nan, y)``.
        sample_weight : array-like of shape (n_images,), or images of weights like y, default=None
            Non-negative weights of the images or of single pixels. An image of weight k counts as k
            copies of the image in the mean loss, and a pixel of weight 0 is a missing label. Only
            the ratios of the weights matter.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If X, y, a weight or a hyperparameter is invalid.
        FloatingPointError
            If training diverges.
        """
        resume, rng = begin_fit(self)
        images = self._training_images(X, y, sample_weight, resume)
        plan = self._plan(images, rng, resume)
        callbacks = EpochCallbacks(self, plan.n_epochs, X, y, sample_weight)
        train(self, plan, rng, callbacks)
        callbacks.end()
        return self

    @skip_empty_batches
    @all_or_nothing
    @fit_context(prefer_skip_nested_validation=True)
    def partial_fit(
        self,
        X: Iterable,
        y: Iterable,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ):
        """Train for one epoch on the given images, with a stochastic solver.

        The first call determines the mean and the scale of each channel. A call in which no image
        of positive weight has an observed label does nothing.

        Parameters
        ----------
        X, y, sample_weight
            As in `fit`.
        classes : array-like of shape (n_classes,), default=None
            All classes; required in the first call if `y` does not contain all of them.

        Returns
        -------
        self
        """
        resume, rng = begin_partial_fit(self)
        require_stochastic(self, "images")
        images = self._training_images(X, y, sample_weight, resume, classes)
        plan = self._plan(images, rng, resume, partial=True)
        train_one_epoch(self, plan, rng)
        return self

    def _training_images(self, X, y, sample_weight, resume, classes=None) -> ImageBatch:
        """Validate X, y and the weights; set `classes_` and the scales of the channels."""
        for name in ("window", "pair_window"):
            if getattr(self, name) % 2 == 0:
                raise ValueError(f"{name} must be odd, got {getattr(self, name)}")
        if resume:
            arrays = self._rows.transform(X)
        else:
            self._rows = ImageRows()
            arrays = self._rows.fit_transform(X, sample_weight)
        weight = pixel_weights(sample_weight, arrays)
        labels = without_weightless(pixel_labels(y, arrays.shapes), weight, arrays.start)
        if not resume:
            given = labels if classes is None else [np.asarray(classes)]
            self.classes_ = pixel_classes(given, "y" if classes is None else "classes")
        path = pixel_codes(labels, self.classes_)
        images = ImageBatch.of(arrays, path, weight)
        used = images.weight > 0
        if not used.any():
            raise NothingToLearnError("y holds no observed label in an image of positive weight")
        return images if used.all() else images.take(np.flatnonzero(used))

    def _plan(self, images: ImageBatch, rng, resume: bool, partial: bool = False) -> Plan:
        """Return the `Plan` (model, objective, solver and stopping rule) of a fit; set `alpha_`."""
        structure = ImageStructure(
            len(self.classes_), self._rows.n_channels, self.window, self.pair_window, self.n_hidden
        )
        if resume:
            model = self._model._replace(n_iter=self.n_inference_iter)
            if model.structure != structure:
                raise ValueError(
                    "window, pair_window or n_hidden has changed since the model was fitted; set "
                    "warm_start=False to start again"
                )
        else:
            model = ImageModel(image_params(structure, rng), structure, self.n_inference_iter)
        alpha: Any = self.alpha
        if is_auto(alpha):
            alpha = 1e-5 if partial else 1 / int(np.count_nonzero(images.path != MISSING))
        self.alpha_ = float(alpha)
        solver = resolve_solver(self.solver)
        if isinstance(solver, Adam) and is_auto(solver.learning_rate):
            copied: Any = clone(solver)
            solver = copied.set_params(learning_rate=_ADAM_RATE)
        stochastic: dict[str, Any] = {}
        if solver.stochastic:
            stochastic = {
                "stopping": resolve_stopping(self.early_stopping, False),
                "batch_size": solver.rows_per_step(len(images), _BATCH_IMAGES),
                "average": solver.keeps_average(False),
                "rate_factors": type(model.params)(1.0, 1.0, 1.0, 1.0),
                "mean_square": float(structure.n_channels * structure.window**2),
            }
        elif self.early_stopping is not False:
            raise ValueError(
                "early_stopping is for stochastic solvers; set early_stopping=False with "
                "solver='lbfgs'"
            )
        return Plan(
            model=model,
            design=Design(np.empty((0, 0))),
            rows=StructureSource(images),
            objective=ImageLikelihood(ImageParams(True, True, True, True), self.n_jobs),
            penalty=structured_penalty(model.params, self.alpha_, 0.0),
            solver=solver,
            max_iter=self.max_iter,
            verbose=int(self.verbose),
            progress=self._progress if resume else NO_PROGRESS,
            attributes=self._model_attributes,
            **stochastic,
        )

    def _model_attributes(self, model: ImageModel, epoch: int) -> dict[str, Any]:
        p = model.params
        return {
            "_model": model,
            "coef_": p.coef,
            "intercept_": p.intercept,
            "pair_coef_": p.pair_coef,
            "hidden_coef_": p.hidden_coef,
        }

    # ----------------------------------------------------------------------------- predictions

    def predict(self, X: Iterable, y_known: Iterable | None = None) -> np.ndarray:
        """Predict the most probable class of each pixel.

        Parameters
        ----------
        X : array-like or list of images
            Images, in the same form as in `fit`.
        y_known : array-like or list of images of labels, default=None
            Labels that are known beforehand, and None or NaN for the other labels, which are
            predicted given the known labels.

        Returns
        -------
        ndarray of shape (n_images, height, width), or ndarray of object (n_images,)
            Predicted classes. If X is a list, the entries of the result are arrays of shape
            (height, width).
        """
        batch = self._given(X, y_known)
        codes = self._log_beliefs(batch).argmax(axis=0)
        return _like(X, split_images(self.classes_[codes], batch.arrays))

    def predict_log_proba(self, X: Iterable, y_known: Iterable | None = None):
        """Return the logarithm of `predict_proba`.

        Parameters
        ----------
        X, y_known
            As in `predict`.

        Returns
        -------
        ndarray of shape (n_images, height, width, n_classes), or ndarray of object (n_images,)
        """
        batch = self._given(X, y_known)
        return _like(X, split_images(self._log_beliefs(batch).T, batch.arrays))

    def predict_proba(self, X: Iterable, y_known: Iterable | None = None):
        """Return the probability of each class at each pixel.

        Parameters
        ----------
        X, y_known
            As in `predict`.

        Returns
        -------
        ndarray of shape (n_images, height, width, n_classes), or ndarray of object (n_images,)
            Probabilities, with the classes in the order of `classes_`. If X is a list, the entries
            of the result are arrays of shape (height, width, n_classes).
        """
        batch = self._given(X, y_known)
        return _like(X, split_images(np.exp(self._log_beliefs(batch)).T, batch.arrays))

    def score(
        self,
        X: Iterable,
        y: Iterable,
        sample_weight: ArrayLike | None = None,
        y_known: Iterable | None = None,
    ) -> float:
        """Return the share of correctly predicted pixels, over all pixels with observed labels.

        Labels that did not occur in training count as wrong.

        Parameters
        ----------
        X, y
            As in `fit`.
        sample_weight : array-like of shape (n_images,), or images of weights like y, default=None
            Weights of the images or of single pixels.
        y_known : array-like or list of images of labels, default=None
            Labels that are known beforehand, as in `predict`; they do not count in the score.

        Returns
        -------
        float
        """
        batch = self._given(X, y_known)
        labels = pixel_labels(y, batch.arrays.shapes)
        path = pixel_codes(labels, self.classes_, allow_unknown=True)
        unknown = np.split(path == UNKNOWN, batch.start[1:-1])
        warn_of_new_labels(v for part, new in zip(labels, unknown) for v in part[new].tolist())
        weight = pixel_weights(sample_weight, batch.arrays)
        weight = weight * ((path != MISSING) & (batch.path == MISSING))
        if not weight.any():
            raise ValueError("y holds no observed label with a positive weight")
        right = self._log_beliefs(batch).argmax(axis=0) == path
        return float(weight @ right / weight.sum())

    def factor_graph(self, image: Any) -> FactorGraphEnergy:
        """Return p(y | x) of a single image as a factor graph.

        All queries of `skcrbm.inference.infer` work on the factor graph, for example samples by
        "gibbs" or a MAP search. The parameters were trained for mean field with `n_inference_iter`
        iterations. Therefore exact marginals may be worse predictions than `predict_proba`.

        Parameters
        ----------
        image : array-like (height, width) or (height, width, n_channels)
            A single image.

        Returns
        -------
        FactorGraphEnergy
            Factor graph whose variable ``r * width + c`` is the class of the pixel in row r and
            column c, as an index of `classes_`.

        Raises
        ------
        ValueError
            If the model has hidden variables.
        """
        check_is_fitted(self, "classes_")
        if self._model.structure.n_hidden:
            raise ValueError("factor_graph needs a model without hidden variables, n_hidden=0")
        batch = self._given([image], None)
        height, width = batch.arrays.shapes[0]
        number = np.arange(height * width).reshape(height, width)
        tables = self._model.pair_tables()
        edges, pairs = [], []
        for (down, right), table in zip(pair_steps(self._model.structure.pair_window), tables):
            left, stop = max(0, -right), width - max(0, right)
            if down >= height or left >= stop:
                continue
            begin = number[: height - down, left:stop]
            end = number[down:, left + right : stop + right]
            edges.append(np.column_stack([begin.ravel(), end.ravel()]))
            pairs.append(np.repeat(table[None], begin.size, axis=0))
        scores = np.zeros((height * width, len(self.classes_)))
        scores[:, 1:] = image_fields(self._model, batch).T
        k = len(self.classes_)
        return pairwise_classes(
            scores,
            np.concatenate([np.empty((0, 2), np.int64), *edges]),
            np.concatenate([np.empty((0, k, k)), *pairs]),
        )

    def _given(self, X, y_known) -> ImageBatch:
        """Validate X and `y_known`, and return the images and known labels as a batch."""
        check_is_fitted(self, "classes_")
        check_parameters(self, ("n_jobs",))
        arrays = self._rows.transform(X)
        path = np.full(arrays.start[-1], MISSING)
        if y_known is not None:
            labels = pixel_labels(y_known, arrays.shapes, "y_known")
            path = pixel_codes(labels, self.classes_, "y_known")
        return ImageBatch.of(arrays, path, np.ones(len(path)))

    def _log_beliefs(self, batch: ImageBatch) -> np.ndarray:
        """Return the log-probabilities (K, T) of the K classes of the T pixels by mean field.

        The probabilities are conditional on the known labels of the batch.
        """
        parts = batch.pieces()

        def answer(part):
            known = part.path if (part.path != MISSING).any() else None
            return log_beliefs(self._model, part, known).T

        with one_blas_thread():
            return batch.joined(parts, list(ordered_map(answer, parts, self.n_jobs))).T


def _like(X, images):
    """Convert the results of all images to an array or an object array, in the form of X.

    If X is an array of images of equal size, the result is an array with a first axis for the
    images. If X is a list, the result is an object array with an entry for each image.
    """
    if isinstance(X, np.ndarray) and X.ndim > 1:
        return np.stack(images)
    found = np.empty(len(images), object)
    for i, image in enumerate(images):  # `found[:] = images` would stack images of equal size
        found[i] = image
    return found
