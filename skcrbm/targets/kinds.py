"""Classes for the kinds of y (labels, two classes, more classes), and a mixin of classifiers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
from scipy.special import expit, log_expit, log_softmax, softmax
from sklearn.metrics import accuracy_score

from skcrbm.targets.codes import (
    class_vector,
    complete_vector,
    distinct_classes,
    warn_of_codes,
    warn_of_new_label,
)
from skcrbm.targets.frames import label_frame, named_series
from skcrbm.targets.indicator import (
    indicator_by_name,
    indicator_with_nan,
    require_observed,
    warn_of_one_value,
    with_dimensions,
    without_known,
)
from skcrbm.targets.names import (
    all_strings,
    in_order_of,
    in_rows_of,
    is_frame,
    label_names_of,
    refuse_sparse_known,
)
from skcrbm.targets.new_labels import first_names, names_with_new
from skcrbm.targets.proba import label_marginals, proba_of_classes
from skcrbm.targets.scored import share_of_right_rows
from skcrbm.targets.weights import (
    is_per_label,
    label_weight_beside,
    row_weights,
    weight_beside,
    weights_by_class,
    weights_by_label,
)
from skcrbm.utils.advice import supporting
from skcrbm.utils.pickling import Versioned
from skcrbm.utils.validation import check_sample_weight, count_rows


def make_targets(y: Any, classes: Any = None, estimator: Any = None) -> Targets:
    """Return the `Targets` object for y.

    `classes` are all classes of a 1-D y (an argument of `partial_fit`). Errors name the
    `estimator`. A ValueError is raised if y is neither an indicator matrix nor a vector of classes.
    """
    if y is None:
        name = "This estimator" if estimator is None else type(estimator).__name__
        raise ValueError(f"{name} requires y to be passed, but the target y is None.")
    names = label_names_of(y)
    given, y = y, with_dimensions(y)
    if y.ndim == 2 and y.shape[1] != 1:
        if y.shape[1] == 0:
            raise ValueError("y must have at least one output, got shape (n_samples, 0)")
        indicator = indicator_with_nan(given, dtype=np.float32)
        if len(indicator):
            require_observed(indicator == indicator)
        known = (y.shape[1], names) if classes is None else first_names(classes, names, y.shape[1])
        return MultilabelTargets(*known)
    if y.ndim > 2:
        raise ValueError(
            f"y must have one or two dimensions, got {y.ndim}; use y.argmax(axis=2) if classes are "
            "one-hot along the last axis, y.reshape(len(y), -1) if each entry is a label, or "
            f"skcrbm.{supporting('images')} if y holds binary images"
        )
    y = class_vector(y, warn=False)  # `encode` warns if y is a matrix of one column
    if classes is None:
        classes = np.unique(y)
        warn_of_codes(classes)
    else:
        classes = distinct_classes(classes)
    return (BinaryTargets if len(classes) == 2 else MulticlassTargets)(classes, names)


class Targets(Versioned, ABC):
    """Base class of the kinds of y: 2-D with L labels, or 1-D with K classes.

    If a method has the arguments `model` and `rows`, it passes `rows` to a method of the model. For
    a 2-D y the model has ``_label_scores(rows)`` (N, L), ``_label_log_odds(rows)`` (N, L) and
    ``_labels(rows)`` (N, L); for two classes ``_binary_scores(rows)`` (N, 1) and the attribute
    `_log_odds_scale`; for more classes ``_class_scores(rows)`` (N, K).
    """

    _warns_of_version = False

    _saved = ("classes", "n_visible")

    #: Indices (L,) of the labels, or classes (K,). Classifiers have this array as `classes_`.
    classes: np.ndarray
    #: Number V of visible units: L for labels, 1 for two classes, K for more classes.
    n_visible: int
    #: Names (L,) of the columns of y, or the name (1,) of a 1-D y; None if y has no names.
    names: np.ndarray | None = None
    #: True if y is 2-D, which means that decoding rules and known labels are supported.
    multilabel: ClassVar[bool] = False
    indicator: ClassVar[bool] = False  #: True if y is a 2-D matrix of 0/1 labels
    one_hot: ClassVar[bool] = False  #: True if the visible units are states of one output
    #: `OutputUnits` if the columns of y hold classes that are encoded as 0/1 units, else None.
    units: Any = None

    @property
    def exclusive(self) -> bool | np.ndarray:
        """Bool, or bool array (V,): True for units of groups in which exactly one unit is on."""
        return self.one_hot

    @property
    def n_bits(self) -> int:
        """Number n of bits such that there are at most 2^n label vectors or vectors of classes."""
        return self.n_visible

    @abstractmethod
    def encode(self, y: Any, dtype: Any = np.float64) -> np.ndarray:
        """Encode y as 0/1 visible units (N, V), with NaN for missing labels, in a new array."""

    @abstractmethod
    def decode(self, visible: np.ndarray) -> np.ndarray:
        """Return the labels or classes for 0/1 visible units (N, V)."""

    @abstractmethod
    def for_classifier(self, y: Any) -> Any:
        """Return y in a form that `fit` of any scikit-learn classifier accepts."""

    @abstractmethod
    def check_known(self, y_known: Any, X: Any) -> np.ndarray | None:
        """Validate the known labels of the rows of X, and return them as an array (N, L).

        Rows of pandas objects are matched by their index. The result is None if no label is known.
        """

    @abstractmethod
    def check_classes(self, classes: Any) -> None:
        """Raise a ValueError if `classes` in a call of `partial_fit` differ from `self.classes`."""

    @abstractmethod
    def require_multilabel(self, method: str) -> None:
        """If y is 1-D, raise a ValueError that says that `method` needs a 2-D y."""

    @abstractmethod
    def loss_factors(
        self, class_weight: Any, visible: np.ndarray, weight: np.ndarray
    ) -> np.ndarray:
        """Turn `class_weight` into weights of the visible units (N, V) or of the rows (N, 1)."""

    def checked_weight(self, sample_weight: Any, y: Any) -> np.ndarray | None:
        """Return weights of rows (N,), or of single labels (N, L) in the order of the labels."""
        if sample_weight is None:
            return None
        if self.multilabel and is_per_label(sample_weight):
            return label_weight_beside(
                sample_weight, y, count_rows(y), self.names, len(self.classes)
            )
        return check_sample_weight(sample_weight, y)

    def class_weighted(self, class_weight: Any, visible, weight, labels: Any) -> np.ndarray:
        """Return the row weights (N,), multiplied by the class weights of the labels of each row.

        Rows may be copies that lack some labels; ``visible[labels[n]]`` holds all labels of row n.
        """
        factors = self.loss_factors(class_weight, visible, weight)
        return row_weights(factors[labels], visible[labels], weight)

    @abstractmethod
    def accuracy(
        self, y: Any, y_pred: np.ndarray, sample_weight: Any = None, known: Any = None
    ) -> float:
        """Return the accuracy or, for a 2-D y, the subset accuracy over the observed labels.

        Labels of a 2-D y that are known beforehand (not NaN in `known`, (N, L)) do not count.
        """

    def warn_of_one_value(self, visible: np.ndarray) -> None:
        """Warn of labels of a 2-D y that have the same value in all rows of `visible` (N, V)."""

    @abstractmethod
    def scores(self, model: Any, rows: Any) -> np.ndarray:
        """Return the decision scores (N, V) that the model computes."""

    @abstractmethod
    def log_odds(self, model: Any, rows: Any) -> np.ndarray:
        """Return the scores (N, V) whose sigmoid or softmax gives the model's probabilities."""

    @abstractmethod
    def predict(self, model: Any, rows: Any) -> np.ndarray:
        """Return labels (N, L) by the model's decoding rule, or for a 1-D y the best classes."""

    @abstractmethod
    def labels(self, scores: np.ndarray) -> np.ndarray:
        """Return labels, 1 for scores of at least 0, or for a 1-D y the class of highest score."""

    def decision(self, scores: np.ndarray) -> np.ndarray:
        """Return decision scores (N, V) in the shape of `decision_function`."""
        return scores

    @abstractmethod
    def proba(self, log_odds: np.ndarray) -> np.ndarray:
        """Return the probabilities for log-odds (N, V), in the shape of `predict_proba`."""

    @abstractmethod
    def log_proba(self, log_odds: np.ndarray) -> np.ndarray:
        """Return log-probabilities for log-odds (N, V); finite log-odds give finite results."""

    @abstractmethod
    def marginals(
        self, proba: Any, classes: Any = None, name: str = "predict_proba(X)"
    ) -> np.ndarray:
        """Convert the output of any `predict_proba` to P(visible unit = 1), an array (N, V).

        `proba` is the result of `predict_proba`, and `classes` is the `classes_` of the classifier.
        Error messages refer to `proba` as `name`.
        """

    @abstractmethod
    def visible_names(self) -> np.ndarray:
        """Return a name (V,) for each visible unit: the name or index of a label, or a class."""

    @abstractmethod
    def framed(self, values: np.ndarray, index: Any, container: str = "pandas") -> Any:
        """Return predictions (N, L) as a data frame, or predictions (N,) as a series.

        `container` is "pandas" or "polars"; polars ignores `index`.
        """


# --------------------------------------------------------------------------- 2-D y


class MultilabelTargets(Targets):
    """Targets of a 2-D y: a matrix of L 0/1 labels, with NaN for missing labels."""

    multilabel = indicator = True

    def __init__(self, n_outputs: int, names: np.ndarray | None = None):
        self.n_visible = n_outputs
        self.names = names
        # With dtype int, scikit-learn would take two labels for the classes of a binary y.
        self.classes = np.arange(n_outputs).astype(object)

    def encode(self, y, dtype=np.float64):
        """Return y as an array (N, L) with NaN for missing labels; check the number of labels.

        Data frames are matched to the labels by column name; labels without a column become NaN.
        """
        y = y if is_frame(y) else with_dimensions(y)
        visible = y
        if len(y.shape) == 2:
            visible = indicator_by_name(y, self.names, self.n_visible, dtype=dtype)
        if visible.shape[1:] != (self.n_visible,):
            raise ValueError(
                f"y must have shape (n_samples, {self.n_visible}) as in the first fit, "
                f"got {y.shape}"
            )
        return visible

    def decode(self, visible):
        """Return integer labels (N, L)."""
        return visible.astype(np.int64)

    def for_classifier(self, y):
        """Return y (N, L) as integers, or as floats if it contains NaN; keep data frames."""
        visible = self.encode(y)
        visible = visible if np.isnan(visible).any() else visible.astype(np.int64)
        return self.framed(visible, y.index) if hasattr(y, "iloc") else visible

    def visible_names(self):
        """Return the names (L,) of the labels, or their indices if y has no names."""
        return np.arange(self.n_visible) if self.names is None else self.names

    def framed(self, values, index, container="pandas"):
        """Return a data frame with a column for each label."""
        return label_frame(values, index, self.names, container)

    def check_known(self, y_known, X):
        """Return the known labels (N, L), with NaN for unknown labels; None if all are unknown."""
        if y_known is None:
            return None
        n_rows, y_known = count_rows(X), in_rows_of(y_known, X)
        refuse_sparse_known(y_known)
        if not is_frame(y_known) and self.names is not None and label_names_of(y_known) is not None:
            y_known = y_known.to_frame()  # a series whose name is the name of a label
        known = indicator_by_name(y_known, self.names, self.n_visible, "y_known")
        shape = (n_rows, self.n_visible)
        if known.shape != shape:
            raise ValueError(f"y_known must have shape {shape}, got {known.shape}")
        return known

    def warn_of_one_value(self, visible):
        """Warn of labels that have the same value in all rows of `visible` (N, L)."""
        warn_of_one_value(visible, range(self.n_visible) if self.names is None else self.names)

    def check_classes(self, classes):
        """Raise a ValueError if `classes` names labels that are not labels of the model."""
        n_labels, _ = names_with_new(self, classes)
        if n_labels > self.n_visible:
            raise ValueError(
                f"`classes` has new labels; only {supporting('new labels', 'and')} add them"
            )

    def require_multilabel(self, method):
        """Do nothing, because y is 2-D."""

    def loss_factors(self, class_weight, visible, weight):
        """Return the weights (N, L) of the labels, or ones (N, 1) without `class_weight`."""
        if class_weight is None:
            return np.ones((len(visible), 1))
        return weights_by_label(class_weight, visible, weight, self.names)

    def accuracy(self, y, y_pred, sample_weight=None, known=None):
        """Return the share of the rows in which all observed labels are predicted correctly."""
        visible = without_known(self.encode(y), known)
        weight = weight_beside(sample_weight, y, len(visible), self.names, self.n_visible)
        return share_of_right_rows(visible, y_pred, weight)

    def scores(self, model, rows):
        """Return the score (N, L) of each label."""
        return model._label_scores(rows)

    def log_odds(self, model, rows):
        """Return the log-odds (N, L) of the marginal of each label."""
        return model._label_log_odds(rows)

    def predict(self, model, rows):
        """Return the labels (N, L) that the model predicts by its decoding rule."""
        return self.decode(model._labels(rows))

    def labels(self, scores):
        """Return labels (N, L), which are 1 for scores of at least 0."""
        return self.decode(scores >= 0)

    def proba(self, log_odds):
        """Return the probabilities P(y_i = 1) as an array (N, L)."""
        return expit(log_odds)

    def log_proba(self, log_odds):
        """Return the log-probabilities log P(y_i = 1) as an array (N, L)."""
        return log_expit(log_odds)

    def marginals(self, proba, classes=None, name="predict_proba(X)"):
        """Return P(y_i = 1) (N, L) from an array (N, L) or a list of L arrays (N, 2)."""
        return label_marginals(proba, classes, name, self.n_visible, self.names)


# --------------------------------------------------------------------------- 1-D y


class ClassTargets(Targets):
    """Base class of the targets of a 1-D y; `classes` (K,) are sorted."""

    def __init__(self, classes: np.ndarray, names: np.ndarray | None = None):
        self.classes = classes
        self.names = names

    def _class_index(self, y):
        """Return the index (N,) of the class of each row; raise a ValueError for new classes."""
        self._check_name(y)
        y = class_vector(y, warn=True)
        unknown = np.setdiff1d(y, self.classes)
        if len(unknown):
            raise ValueError(f"y holds classes that the model does not know: {unknown.tolist()}")
        return np.searchsorted(self.classes, y)

    def _classes_at(self, index):
        return self.classes[np.asarray(index, dtype=np.intp)]

    def visible_names(self):
        """Return the class of each visible unit; of two classes, only the second has a unit."""
        return self.classes[-self.n_visible :]

    def framed(self, values, index, container="pandas"):
        """Return values as a series with the name of y."""
        return named_series(values, index, None if self.names is None else self.names[0], container)

    def for_classifier(self, y):
        """Return y; turn a column (N, 1) into a vector, with scikit-learn's warning."""
        y = with_dimensions(y)
        return y if y.ndim == 1 else class_vector(y, warn=True)

    def check_known(self, y_known, X):
        """Raise a ValueError if `y_known` is given, because a class cannot be known in part."""
        if y_known is not None:
            raise ValueError("y_known is for 2-D indicator y; this model was fitted on a 1-D y")

    def check_classes(self, classes):
        """Raise a ValueError if `classes` is not None and differs from `self.classes`."""
        if classes is not None and not np.array_equal(distinct_classes(classes), self.classes):
            raise ValueError(
                f"classes={list(classes)} differs from the classes of the first call to "
                f"partial_fit: {self.classes.tolist()}"
            )

    def require_multilabel(self, method):
        """Raise a ValueError, because y is 1-D."""
        raise ValueError(f"{method} is for 2-D y; this model was fitted on a 1-D y")

    def loss_factors(self, class_weight, visible, weight):
        """Return a weight (N, 1) for each row, which depends on the class of the row."""
        if class_weight is None:
            return np.ones((len(visible), 1))
        return weights_by_class(class_weight, self.classes, self.decode(visible), weight)

    def accuracy(self, y, y_pred, sample_weight=None, known=None):
        """Return the share of the rows whose class is predicted correctly."""
        self._check_name(y)
        labels = complete_vector(y, warn=False).tolist()
        number = {label: k for k, label in enumerate(self.classes.tolist())}
        index = [number.get(label, -1) for label in labels]
        if -1 in index:
            warn_of_new_label(labels[index.index(-1)])
        predicted = [number[label] for label in np.asarray(y_pred).tolist()]
        return accuracy_score(index, predicted, sample_weight=sample_weight)

    def _check_name(self, y):
        """Raise an error if y is a data frame whose column has another name than y in `fit`."""
        if is_frame(y) and all_strings(self.names):
            in_order_of(y, self.names)

    def predict(self, model, rows):
        """Return the most probable class (N,)."""
        return self.labels(self.scores(model, rows))


class BinaryTargets(ClassTargets):
    """Targets of two classes, encoded as a single visible unit that is 1 for the second class."""

    _saved = ("classes",)
    n_visible = 1

    def encode(self, y, dtype=np.float64):
        """Return 0/1 visible units (N, 1); raise a ValueError for new classes."""
        return self._class_index(y)[:, None].astype(dtype)

    def decode(self, visible):
        """Return the classes (N,) for 0/1 visible units (N, 1)."""
        return self._classes_at(visible[:, 0])

    def scores(self, model, rows):
        """Return scores (N, 1), which are positive if the second class is preferred."""
        return model._binary_scores(rows)

    def log_odds(self, model, rows):
        """Return the log-odds (N, 1) of the second class."""
        return model._log_odds_scale * model._binary_scores(rows)

    def labels(self, scores):
        """Return the second class for a positive score, else the first."""
        return self._classes_at(scores[:, 0] > 0)

    def decision(self, scores):
        """Return the scores (N, 1) as a vector (N,)."""
        return scores[:, 0]

    def proba(self, log_odds):
        """Return the probabilities (N, 2) of both classes."""
        return np.hstack([expit(-log_odds), expit(log_odds)])

    def log_proba(self, log_odds):
        """Return the log-probabilities (N, 2) of both classes."""
        return np.hstack([log_expit(-log_odds), log_expit(log_odds)])

    def marginals(self, proba, classes=None, name="predict_proba(X)"):
        """Return the probability (N, 1) of the second class."""
        return proba_of_classes(proba, classes, self.classes, name)[:, 1:]


class MulticlassTargets(ClassTargets):
    """Targets of K classes, K != 2, with a one-hot encoding as K visible units."""

    one_hot = True

    def __init__(self, classes: np.ndarray, names: np.ndarray | None = None):
        super().__init__(classes, names)
        self.n_visible = len(classes)

    def encode(self, y, dtype=np.float64):
        """Return one-hot visible units (N, K); raise a ValueError for new classes."""
        return np.eye(self.n_visible, dtype=dtype)[self._class_index(y)]

    def decode(self, visible):
        """Return the classes (N,) for one-hot visible units (N, K)."""
        return self._classes_at(visible.argmax(axis=1))

    def scores(self, model, rows):
        """Return the score (N, K) of each class."""
        return model._class_scores(rows)

    log_odds = scores  # the scores of classes are unnormalised log-probabilities

    def labels(self, scores):
        """Return the class with the highest score."""
        return self.decode(scores)

    def proba(self, log_odds):
        """Return the probabilities (N, K) of the classes."""
        return softmax(log_odds, axis=1)

    def log_proba(self, log_odds):
        """Return the log-probabilities (N, K) of the classes."""
        return log_softmax(log_odds, axis=1)

    def marginals(self, proba, classes=None, name="predict_proba(X)"):
        """Return the probabilities (N, K) of the classes."""
        return proba_of_classes(proba, classes, self.classes, name)


# ------------------------------------------------------------------------- classifiers
