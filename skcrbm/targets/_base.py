"""What the kinds of y have in common."""

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np

from skcrbm.utils.pickling import Versioned


class Targets(Versioned, ABC):
    """A kind of y: L labels of a 2-D y, or the classes of a 1-D y.

    Of a model it asks the scores of the kind at hand: ``_label_scores(rows)`` (N, L),
    ``_binary_scores(rows)`` (N, 1) or ``_class_scores(rows)`` (N, K), where `rows` is whatever
    the model makes of X; for 2-D y also ``_label_log_odds(rows)`` and ``_labels(rows)``, for
    binary y ``_log_odds_scale``.

    Attributes
    ----------
    classes : ndarray (L, 2) or (K,)
        As in `classes_`.
    n_visible : int
        V: L, or 1 for two classes, or K.
    multilabel : bool
        Whether y is 2-D: its labels may be partly known, and a rule decodes them.
    one_hot : bool
        Whether the visible units are the states of one categorical output.
    names : ndarray of object or None
        Names (L,) of the columns of y or, of a 1-D y, its own name (1,); None if y had none.
    """

    _saved = ("classes", "n_visible")

    classes: np.ndarray
    n_visible: int
    names: np.ndarray | None = None
    multilabel: ClassVar[bool] = False
    one_hot: ClassVar[bool] = False

    # ------------------------------------------------------------- y and visible units

    @abstractmethod
    def encode(self, y, dtype=np.float64):
        """Return 0/1 visible units (N, V), a new array, of a y; NaN where not observed."""

    @abstractmethod
    def decode(self, visible):
        """Labels of 0/1 visible units (N, V)."""

    @abstractmethod
    def for_classifier(self, y):
        """Return y in the form that another classifier's `fit` takes."""

    @abstractmethod
    def check_known(self, y_known, n_rows):
        """Known labels (N, L), NaN elsewhere, or None; ValueError if y_known is no such array."""

    @abstractmethod
    def check_classes(self, classes):
        """Refuse the `classes` of a later call to `partial_fit` if they are not these."""

    @abstractmethod
    def require_multilabel(self, method):
        """Refuse to do what `method`, named in the error, does for 2-D y only."""

    @abstractmethod
    def loss_factors(self, class_weight, visible, weight):
        """Factors of the loss of each visible unit, by `class_weight`: (N, V) or (N, 1)."""

    def class_weighted(self, class_weight, visible, weight):
        """Weights (N,) of rows by `class_weight`, for a loss that is one of whole rows.

        A row counts as often as the product over its observed labels says, as in scikit-learn's
        forests; the sum of the weights stays the same.

        Parameters
        ----------
        class_weight
            As a hyperparameter.
        visible : ndarray (N, V) of 0, 1 and NaN
        weight : ndarray (N,)
        """
        factors = self.loss_factors(class_weight, visible, weight)
        if factors.shape[1] == 1:  # all units of a row count as one
            visible = visible[:, :1]
        with np.errstate(divide="ignore"):
            log = np.log(np.where(np.isnan(visible), 1.0, factors))
        total = log.sum(axis=1)  # products of many labels overflow
        if total.max() == -np.inf:
            raise ValueError("class_weight gives every row a weight of 0: there is nothing to fit")
        found = weight * np.exp(total - total.max())
        return found * (weight.sum() / found.sum())

    @abstractmethod
    def accuracy(self, y, y_pred, sample_weight=None):
        """Accuracy of labels; of a 2-D y subset accuracy over its observed entries."""

    # ---------------------------------------------------------------- scores and labels

    @abstractmethod
    def scores(self, model, rows):
        """Decision scores (N, V) of a model."""

    @abstractmethod
    def log_odds(self, model, rows):
        """Scores (N, V) of a model whose sigmoid or softmax gives its probabilities."""

    @abstractmethod
    def predict(self, model, rows):
        """Labels that a model predicts: of a 2-D y those that it decodes, else the best class."""

    @abstractmethod
    def labels(self, scores):
        """Labels by decision scores (N, V): those on, or the best class."""

    def decision(self, scores):
        """Return decision scores (N, V) in the shape of `decision_function`."""
        return scores

    @abstractmethod
    def proba(self, log_odds):
        """Return the sigmoid or softmax of log-odds (N, V), in the shape of `predict_proba`."""

    # ------------------------------------------------ probabilities of other classifiers

    @abstractmethod
    def marginals(self, proba, classes=None, name="predict_proba(X)"):
        """P(visible unit = 1), (N, V), from what another classifier's `predict_proba` returned.

        Parameters
        ----------
        proba : ndarray or list of ndarray
        classes : array-like, default=None
            `classes_` of that classifier.
        name : str
            What `proba` is called in error messages.
        """

    def proba_of_marginals(self, marginals):
        """Return P(visible unit = 1), (N, V), in the shape of `predict_proba`."""
        return marginals

    @abstractmethod
    def labels_of_proba(self, proba):
        """Most probable labels by probabilities in the shape of `predict_proba`."""

    # ------------------------------------------------------------------ output with names

    @abstractmethod
    def visible_names(self):
        """Names or numbers (V,) of what the visible units stand for."""

    @abstractmethod
    def framed(self, values, index):
        """Return what is predicted, an array with a row for each of X, as a pandas container.

        Parameters
        ----------
        values : ndarray (N, L) or, of 1-D y, (N,)
        index : pandas Index or None
        """
