"""GridCRF: conditional random field for images of any sizes."""

from __future__ import annotations

from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from skcrbm.decoding.rules import DecodingRule
from skcrbm.energies import FactorGraphEnergy
from skcrbm.energies.image_model import ImageModel, ImageParams, ImageStructure, pair_steps
from skcrbm.energies.pairwise_classes import pairwise_classes
from skcrbm.estimators._structured import SHARED_CONSTRAINTS, StructuredCRF
from skcrbm.inference.running import run_inference
from skcrbm.learning.solvers import Adam, LossPlateau, Solver, solver_constraint
from skcrbm.learning.structured.image import (
    ImageBatch,
    ImageLikelihood,
    image_fields,
    image_params,
    log_beliefs,
)
from skcrbm.targets.codes import MISSING, LabelCoder, label_array
from skcrbm.targets.pixels import (
    ImageRows,
    pixel_classes,
    pixel_labels,
    pixel_weights,
    split_images,
    without_weightless,
)
from skcrbm.targets.sequences import IMAGE
from skcrbm.utils.options import Integer, is_auto, option_name
from skcrbm.utils.parallel import one_blas_thread, ordered_map
from skcrbm.utils.ragged import sums_of_rows
from skcrbm.utils.sklearn_private import Interval

# Learning rate of Adam if `learning_rate` is "auto". The rate is larger than in other models,
# because the model has only a few weights, which all pixels share.
_ADAM_RATE = 0.03
# Value of alpha="auto" in `partial_fit`, which does not know the number of pixels.
_STREAM_ALPHA = 1e-5
# Reason why a model has no answers about all pixels of an image together.
_SINGLE_PIXELS = (
    "mean field gives the probabilities of single pixels only; use factor_graph(image) with "
    "skcrbm.inference"
)


class GridCRF(StructuredCRF):
    """Conditional random field over the pixels of images, with weights that all positions share.

    The class of a pixel depends on the window of X around the pixel, on the classes of its
    neighbours and, if `n_hidden` is positive, on hidden binary variables. A hidden variable depends
    on a window of X and on the classes in this window. The number of parameters does not depend on
    the size of the images, so that images may be large and differ in size. Inference is mean field
    with a fixed number of iterations, and training differentiates through these iterations [1]_.

    X is an array (n_images, height, width) or (n_images, height, width, n_channels), or a list of
    images of any sizes. Pixels may be NaN (missing). y holds the class of each pixel, in an array
    or a list of arrays (height, width): integers, strings or booleans, and NaN or None for missing
    labels. Numbers such as -1 and 255 are classes, too; if they stand for missing labels, write NaN
    instead, as in ``np.where(y == 255, np.nan, y)``. `sample_weight` holds weights of the images,
    or images of weights of single pixels, in which a pixel of weight 0 is a missing label. Only the
    ratios of the weights matter. If X is an array, so are the predictions; if X is a list, they are
    an object array with an image for each entry. Cross-validate and search with
    `skcrbm.model_selection` if y has missing labels: the functions there have scikit-learn's names
    and accept them.

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
    decode : {"marginal", "map"} or object, default="marginal"
        "marginal" predicts the most probable class of each pixel by mean field, which maximises the
        expected number of correct labels. "map" predicts the most probable labels of the whole
        image, approximately by max-product with local search. It needs ``n_hidden=0``, and takes
        much longer. Training fits the probabilities of mean field; therefore, the most probable
        labels may be worse, and may be a single class in all pixels if `window` is small.
        The rules `Marginal` and `MAP` of `skcrbm.decoding` mean the same.
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
    n_features_in_ : int
        Number of channels of X.

    See Also
    --------
    skcrbm.ImageCRBM : Conditional RBM for small binary images of a single size.
    skcrbm.GraphCRF : Conditional random field over any graphs, with features of the edges.

    Notes
    -----
    Beyond the border of an image, each channel of X has its mean value, and there are no
    neighbours. The first call of `partial_fit` determines the mean and the scale of each channel.

    Mean field gives the probabilities of single pixels, so there are no `sample` and
    `predict_topk`; `factor_graph` is the model for other inference methods.

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

    _model: ImageModel
    _rows: ImageRows
    _words = IMAGE
    _structural = ("window", "pair_window", "n_hidden")
    _lacks: ClassVar = {"predict_topk": _SINGLE_PIXELS, "sample": _SINGLE_PIXELS}
    _batch_rows = 4

    _parameter_constraints: ClassVar[dict] = {
        **SHARED_CONSTRAINTS,
        "window": [Interval(Integral, 1, None, closed="left")],
        "pair_window": [Interval(Integral, 1, None, closed="left")],
        "n_hidden": [Integer(0)],
        "n_inference_iter": [Integer(1)],
        "solver": solver_constraint(),
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
        decode: str | DecodingRule = "marginal",
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
        self.decode = decode
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.input_tags.allow_nan = True
        return tags

    # -------------------------------------------------------------------- the rows and the model

    def _first_rows(self, X, classes, sample_weight, **reading):
        rows = ImageRows()
        arrays = rows.fit_transform(X, sample_weight)
        self.n_features_in_ = len(rows.mean)
        return rows, arrays

    def _weights(self, sample_weight, arrays):
        """Return the weights of the pixels (T,), from weights of images or of pixels."""
        if sample_weight is None:
            return np.ones(arrays.start[-1])
        return pixel_weights(sample_weight, arrays)

    def _weights_of_items(self, sample_weight, arrays):
        """Return None, because the weights of pixels need no copies of images."""
        return None

    def _item_weights(self, sample_weight, arrays):
        return self._weights(sample_weight, arrays)

    def _labels(self, y, arrays, name="y"):
        """Return the labels of each image as a flat array; missing labels are NaN or None."""
        return pixel_labels(y, arrays.shapes, name)

    def _training_labels(self, y, arrays, weight):
        return without_weightless(self._labels(y, arrays), weight, arrays.start)

    def _first_coder(self, labels, arrays, classes):
        if classes is None:
            return LabelCoder(pixel_classes(labels))
        return LabelCoder(pixel_classes([label_array(classes, "classes")], "classes", given=True))

    def _codes(self, labels, arrays, name="y", allow_unknown=False):
        parts = [
            self._coder.codes(part, None, f"image {i} of {name}", allow_unknown)
            for i, part in enumerate(labels)
        ]
        return np.concatenate(parts)

    def _first_label(self, labels, mask):
        parts = np.split(mask, np.cumsum([len(part) for part in labels])[:-1])
        return next(v for part, own in zip(labels, parts) for v in part[own].tolist())

    def _batch(self, arrays, path, weight):
        return ImageBatch.of(arrays, path, weight)

    def _like(self, X, values, batch):
        """Return values (T, ...) of all pixels as images.

        If X is an array of images of equal size, the result is an array with a first axis for the
        images. If X is a list, the result is an object array with an entry for each image.
        """
        images = split_images(values, batch.arrays)
        if isinstance(X, np.ndarray) and X.ndim > 1:
            return np.stack(images)
        found = np.empty(len(images), object)
        for i, image in enumerate(images):  # `found[:] = images` would stack images of equal size
            found[i] = image
        return found

    def _first_model(self, batch, rng, partial):
        sizes = self.window, self.pair_window
        for name, size in zip(("window", "pair_window"), sizes):
            if size % 2 == 0:
                raise ValueError(f"{name} must be odd, got {size}")
        structure = ImageStructure(len(self.classes_), self._rows.n_channels, *sizes, self.n_hidden)
        return ImageModel(image_params(structure, rng), structure, self.n_inference_iter)

    def _objective(self, model, batch):
        self._check_decode()
        objective = ImageLikelihood(ImageParams(True, True, True, True), self.n_jobs)
        return model._replace(n_iter=self.n_inference_iter), objective

    def _solver(self):
        solver = super()._solver()
        if isinstance(solver, Adam) and is_auto(solver.learning_rate):
            copied: Any = clone(solver)
            solver = copied.set_params(learning_rate=_ADAM_RATE)
        return solver

    def _chosen_alpha(self, model, batch, objective, rng, resume, partial=False):
        if not is_auto(self.alpha):
            return self.alpha
        return _STREAM_ALPHA if partial else 1 / int(np.count_nonzero(batch.path != MISSING))

    def _mean_square(self, batch):
        """Return the number of values in a window; the channels have a mean square of 1."""
        return float(self._rows.n_channels * self.window**2)

    def _model_attributes(self, model, alpha):
        p = model.params
        return {
            "_model": model,
            "coef_": p.coef,
            "intercept_": p.intercept,
            "pair_coef_": p.pair_coef,
            "hidden_coef_": p.hidden_coef,
            "alpha_": alpha,
        }

    # ------------------------------------------------------------------------------- answers

    def _log_marginals(self, batch):
        """Return the log-probabilities (T, K) of the classes by mean field, given known labels."""

        def answer(part):
            known = part.path if (part.path != MISSING).any() else None
            return log_beliefs(self._model, part, known).T

        return self._by_items(batch, answer)

    def _marginals(self, batch):
        return np.exp(self._log_marginals(batch))

    def _decoded(self, batch):
        if option_name(self.decode) != "marginal":
            return super()._decoded(batch)
        return self._log_marginals(batch).argmax(axis=1)

    def _check_decode(self):
        if self.n_hidden and option_name(self.decode) == "map":
            raise ValueError(
                "decode='map' needs a model without hidden variables, n_hidden=0; use "
                "decode='marginal'"
            )

    def _best_path(self, batch):
        self._check_decode()

        def answer(image):
            known = image.path != MISSING
            clamp = np.where(known, image.path, np.nan)[None] if known.any() else None
            found = run_inference(self._energy(image), "max_product", returns="map", clamp=clamp)
            assert found.assignment is not None
            return found.assignment[0].astype(np.int64)

        with one_blas_thread():
            return np.concatenate(list(ordered_map(answer, list(batch.single()), self.n_jobs)))

    def _log_likelihoods(self, batch):
        log_p = self._log_marginals(batch.free())
        seen = np.flatnonzero(batch.path != MISSING)
        found = np.zeros(len(batch.path))
        found[seen] = log_p[seen, batch.path[seen]]
        return sums_of_rows(found, batch.start)

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
        return self._energy(self._single(image))

    def _energy(self, batch):
        """Return p(y | x) of a batch of a single image as a factor graph."""
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
