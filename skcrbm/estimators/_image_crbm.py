"""ImageCRBM: the conditional RBM with images as outputs."""

from dataclasses import replace

from skcrbm.estimators._crbm import CRBMClassifier
from skcrbm.estimators._penalty import is_auto
from skcrbm.learning import crbm_penalty
from skcrbm.targets import flat_images, make_image_targets
from skcrbm.utils.limits import MIN_SEARCH_ROWS

# What alpha="auto" stands for in a first `partial_fit`: what is found for some thousand images.
_PLAIN_ALPHA = 0.003


class ImageCRBM(CRBMClassifier):
    """Conditional RBM that predicts binary images: denoises, fills in, segments.

    A `CRBMClassifier` of which each pixel is an output: hidden units carry the dependence
    between pixels, inference is belief propagation, and training is averaged gradient descent
    for a fixed number of epochs. X and y are arrays (n_samples, height, width), or have a row
    of pixels for each image; predictions have the shape that y had in `fit`.

    X holds grey values or 0 and 1, in images of any size, flat also as a sparse matrix; y holds 0
    and 1, and NaN where a pixel is not observed. Pixels known beforehand, `y_known` in the methods
    of prediction, have the shape of y, with NaN elsewhere.

    Parameters
    ----------
    n_hidden : int, default=64
        Number of hidden units. More find more of what pixels have to do with each other, as in
        large patches that are filled in; a fit takes time in proportion.
    inference : str or object, default="auto"
        Method behind training and prediction, as in `CRBMClassifier`: "auto" is "sum_product"
        beyond 10 hidden units, else "exact".
    max_iter : int, default=20
        Epochs; fewer do for tens of thousands of images.
    batch_size : int or "auto", default="auto"
        Rows per gradient step; "auto" takes all rows up to 50, else 20.
    learning_rate_init : float or "auto", default="auto"
        Step size. "auto" is 2 / (1 + the mean square length of a row of X), after its columns
        were brought to one scale and mean 0, if they were.
    alpha : float or "auto", default="auto"
        L2 penalty on the weights of X, as in `CRBMClassifier`: "auto" finds one by validation,
        for columns brought to one scale; a number is for the columns as given. In a first
        `partial_fit` it is 0.003 for these.
    early_stopping : bool, default=False
        Hold out 15% of the rows, keep the epoch that predicts them best, and fit again
        on all rows for as many epochs; stop once ten epochs have not been better.
    warm_start : bool, default=False
        Start `fit` from the parameters of the previous one.
    n_jobs : int, default=None
        Threads over rows. The result does not depend on it.
    random_state : int, RandomState or None, default=None
        Decides the result: initial parameters, order of rows.
    verbose : bool or int, default=False
        1: one live line with rate, loss and what remains; 2: a line per epoch.

    Attributes
    ----------
    coef_, hidden_coef_, weights_, intercept_, hidden_intercept_ : ndarray
        Parameters, as in `CRBMClassifier`. Its other attributes are there as well; outputs are
        the pixels of an image, row by row.
    n_features_in_ : int
        Number of pixels of an image of X.

    See Also
    --------
    skcrbm.CRBMClassifier : The same model with all its learning rules, solvers, decoding rules.
    skcrbm.datasets.flip_pixels : Noise on clean images.
    skcrbm.datasets.occlude_patch : A hidden part of each image.

    Notes
    -----
    The couplings of pixels with hidden units have an L2 penalty that is worth one image, but in
    `partial_fit`, which does not know how many there are.

    `sample`, `decision_function` and `predict_topk` give images too; `predict_pairwise_proba` has
    a row and a column for each pixel. 1-D y, classes of images, is taken as by `CRBMClassifier`.

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

    _saved = (*CRBMClassifier._saved, "_input_shape")
    _state = (*CRBMClassifier._state, "_input_shape")
    _parameter_constraints: dict = {
        **CRBMClassifier._parameter_constraints,
        "early_stopping": ["boolean"],
    }
    _of_prediction = ("n_jobs",)

    # Scalers of columns take no images.
    _remedy_of_scales = "Divide X by its largest grey value, as in X / 255"
    # A step with all images would leave few images with `max_iter` steps.
    _full_batch_rows = 50
    # What other hyperparameters of `CRBMClassifier` are here.
    learning = "mle"
    decode = "marginal"
    solver = "asgd"
    momentum = average = n_iter_no_change = alpha_hidden = "auto"
    refit = True
    validation_fraction = 0.15
    tol = 0.0
    class_weight = None

    def __init__(
        self,
        *,
        n_hidden=64,
        inference="auto",
        max_iter=20,
        batch_size="auto",
        learning_rate_init="auto",
        alpha="auto",
        early_stopping=False,
        warm_start=False,
        n_jobs=None,
        random_state=None,
        verbose=False,
    ):
        self.n_hidden = n_hidden
        self.inference = inference
        self.max_iter = max_iter
        self.batch_size = batch_size
        self.learning_rate_init = learning_rate_init
        self.alpha = alpha
        self.early_stopping = early_stopping
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _penalty_factors(self):
        alpha = getattr(self, "alpha_", _PLAIN_ALPHA) if is_auto(self.alpha) else self.alpha
        return alpha, 0.0

    def _settle(self, training, model, design, source, rng, go_on, partial):
        training, model, attributes = super()._settle(
            training, model, design, source, rng, go_on, partial
        )
        if not partial:  # which does not know how many images there are
            on_weights = 1 / max(len(source.all), MIN_SEARCH_ROWS)
            penalty = crbm_penalty(attributes["alpha_"], on_weights)
            training = replace(training, penalty=penalty)
        return training, model, attributes

    def _make_targets(self, y, classes):
        return make_image_targets(y, classes, self)

    def _validate_X(self, X, reset):
        shape = None

        def as_rows(images):
            nonlocal shape
            shape = images.shape[1:]
            wanted = () if reset else (self.n_features_in_, self._input_shape)
            return flat_images(images, "X", *wanted)

        X = super()._validate_X(X, reset, as_rows)
        if reset:
            self._input_shape = shape
        return X

    def fit(self, X, y, sample_weight=None):
        """Fit the model.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, height, width) or \
(n_samples, n_pixels)
            Images to start from: 0/1 or grey.
        y : array-like of shape (n_samples, height, width) or (n_samples, n_pixels)
            Images to predict: 0/1, NaN where not observed. Their size may be another one.
        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative; a weight k counts as k copies of the image.

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
            If inference converged for less than 90% of the images in the last epoch.
        """
        return super().fit(X, y, sample_weight)

    def predict(self, X, y_known=None):
        """Predict images, each pixel by its more probable value.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, height, width) or \
(n_samples, n_pixels)
        y_known : array-like of shape (n_samples, height, width) or (n_samples, n_pixels), \
default=None
            Pixels known beforehand, NaN elsewhere: the others are predicted given them.

        Returns
        -------
        ndarray of shape (n_samples, height, width) or (n_samples, n_pixels)
            0 and 1, in the shape that y had in `fit`.
        """
        return super().predict(X, y_known)

    def score(self, X, y, sample_weight=None):
        """Share of the pixels that are predicted right; of 1-D y, accuracy.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, height, width) or \
(n_samples, n_pixels)
        y : array-like of shape (n_samples, height, width) or (n_samples, n_pixels)
            Pixels that are NaN are left out.
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        float
        """
        return super().score(X, y, sample_weight)
