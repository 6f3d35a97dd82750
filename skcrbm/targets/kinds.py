"""The kinds of y: encoding as 0/1 visible units, and the way back to labels and scores."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
from scipy.special import expit, log_expit, log_softmax, softmax
from sklearn.metrics import accuracy_score
from sklearn.utils import compute_class_weight
from sklearn.utils.validation import check_array

from skcrbm.metrics import masked_score
from skcrbm.utils.classifiers import label_marginals
from skcrbm.utils.labels import (
    all_strings,
    class_vector,
    distinct_classes,
    in_order_of,
    indicator_by_name,
    indicator_with_nan,
    is_frame,
    label_names_of,
    refuse_sparse_known,
    require_observed,
    warn_of_one_value,
    with_dimensions,
)
from skcrbm.utils.pickling import Versioned


def make_targets(y: Any, classes: Any = None, estimator: Any = None) -> Targets:
    """Return the kind of y that was given.

    `classes` are all classes of a 1-D y, for `partial_fit`. `estimator` is named in the error if
    y is None. A y that is neither an indicator matrix nor a vector of classes is a ValueError.
    """
    if y is None:
        name = "This estimator" if estimator is None else type(estimator).__name__
        raise ValueError(f"{name} requires y to be passed, but the target y is None.")
    names = label_names_of(y)
    y = with_dimensions(y)
    if y.ndim == 2 and y.shape[1] != 1:
        if y.shape[1] == 0:
            raise ValueError("y must have at least one output, got shape (n_samples, 0)")
        indicator = indicator_with_nan(y, dtype=np.float32)
        if len(indicator):
            require_observed(indicator == indicator)
        targets = MultilabelTargets(y.shape[1], names)
        targets.check_classes(classes)
        return targets
    if y.ndim > 2:
        raise ValueError(
            f"y must have one or two dimensions, got {y.ndim}; use y.reshape(len(y), -1), or for "
            "binary images skcrbm.ImageCRBM, which takes them as they are"
        )
    y = class_vector(y, warn=False)  # `encode` warns about a column
    classes = np.unique(y) if classes is None else distinct_classes(classes)
    kind = BinaryTargets if len(classes) == 2 else MulticlassTargets
    return kind(classes, names)


class Targets(Versioned, ABC):
    """Base of the kinds of y: L labels of a 2-D y, or the classes of a 1-D y.

    Targets ask a model for its scores: ``_label_scores(rows)`` (N, L), ``_binary_scores(rows)``
    (N, 1) or ``_class_scores(rows)`` (N, K), where `rows` is the X of the model after its
    validation. A model of a 2-D y also has ``_label_log_odds(rows)`` and ``_labels(rows)``, a
    model of two classes ``_log_odds_scale``.
    """

    _saved = ("classes", "n_visible")

    #: Classes, as in `classes_`: (L, 2) or (K,).
    classes: np.ndarray
    #: Number V of visible units: L, or 1 for two classes, or K.
    n_visible: int
    #: Names (L,) of the columns of y, or the name (1,) of a 1-D y; None without names.
    names: np.ndarray | None = None
    #: True if y is 2-D: its labels may be known in part, and a decoding rule predicts them.
    multilabel: ClassVar[bool] = False
    #: True if the visible units are the states of one categorical output.
    one_hot: ClassVar[bool] = False

    # ------------------------------------------------------------- y and visible units

    @abstractmethod
    def encode(self, y: Any, dtype: Any = np.float64) -> np.ndarray:
        """Return 0/1 visible units (N, V) of a y in a new array, NaN where not observed."""

    @abstractmethod
    def decode(self, visible: np.ndarray) -> np.ndarray:
        """Return the labels of 0/1 visible units (N, V)."""

    @abstractmethod
    def for_classifier(self, y: Any) -> Any:
        """Return y in the form that `fit` of another classifier takes."""

    @abstractmethod
    def check_known(self, y_known: Any, n_rows: int) -> np.ndarray | None:
        """Return known labels (N, L), NaN elsewhere, or None; ValueError if y_known is invalid."""

    @abstractmethod
    def check_classes(self, classes: Any) -> None:
        """Refuse `classes` of a later call to `partial_fit` that differ from these classes."""

    @abstractmethod
    def require_multilabel(self, method: str) -> None:
        """Raise an error that names `method`, which needs a 2-D y, if y is 1-D."""

    @abstractmethod
    def loss_factors(
        self, class_weight: Any, visible: np.ndarray, weight: np.ndarray
    ) -> np.ndarray:
        """Return factors of the loss of each visible unit, (N, V), or of each row, (N, 1)."""

    def class_weighted(
        self, class_weight: Any, visible: np.ndarray, weight: np.ndarray
    ) -> np.ndarray:
        """Return row weights (N,) with `class_weight`, for a loss of whole rows.

        The weight of a row is multiplied by the factors of its observed labels, as in the forests
        of scikit-learn. The sum of the weights stays the same.
        """
        factors = self.loss_factors(class_weight, visible, weight)
        if factors.shape[1] == 1:  # all units of a row share a factor
            visible = visible[:, :1]
        with np.errstate(divide="ignore"):
            log = np.log(np.where(np.isnan(visible), 1.0, factors))
        total = log.sum(axis=1)  # products of many labels overflow
        if total.max() == -np.inf:
            raise ValueError("class_weight gives every row a weight of 0: there is nothing to fit")
        found = weight * np.exp(total - total.max())
        return found * (weight.sum() / found.sum())

    @abstractmethod
    def accuracy(self, y: Any, y_pred: np.ndarray, sample_weight: Any = None) -> float:
        """Return the accuracy; for a 2-D y the subset accuracy over its observed entries."""

    def warn_of_one_value(self, visible: np.ndarray) -> None:
        """Warn of labels (N, V) of a 2-D y that were observed with a single value."""

    # ---------------------------------------------------------------- scores and labels

    @abstractmethod
    def scores(self, model: Any, rows: Any) -> np.ndarray:
        """Return the decision scores (N, V) of a model."""

    @abstractmethod
    def log_odds(self, model: Any, rows: Any) -> np.ndarray:
        """Return scores (N, V) whose sigmoid or softmax is the probability."""

    @abstractmethod
    def predict(self, model: Any, rows: Any) -> np.ndarray:
        """Return the labels that the model decodes for a 2-D y, else the best class."""

    @abstractmethod
    def labels(self, scores: np.ndarray) -> np.ndarray:
        """Return the labels with positive decision scores (N, V), or the best class."""

    def decision(self, scores: np.ndarray) -> np.ndarray:
        """Return decision scores (N, V) in the shape of `decision_function`."""
        return scores

    @abstractmethod
    def proba(self, log_odds: np.ndarray) -> np.ndarray:
        """Return the sigmoid or softmax of log-odds (N, V) in the shape of `predict_proba`."""

    # ------------------------------------------------ probabilities of other classifiers

    @abstractmethod
    def marginals(
        self, proba: Any, classes: Any = None, name: str = "predict_proba(X)"
    ) -> np.ndarray:
        """Return P(visible unit = 1), (N, V), from `predict_proba` of another classifier.

        `classes` is the `classes_` of that classifier; error messages call `proba` by `name`.
        """

    def proba_of_marginals(self, marginals: np.ndarray) -> np.ndarray:
        """Return P(visible unit = 1), (N, V), in the shape of `predict_proba`."""
        return marginals

    @abstractmethod
    def labels_of_proba(self, proba: np.ndarray) -> np.ndarray:
        """Return the most probable labels of probabilities in the shape of `predict_proba`."""

    # ------------------------------------------------------------------ output with names

    @abstractmethod
    def visible_names(self) -> np.ndarray:
        """Return the names or numbers (V,) of the labels or classes of the visible units."""

    @abstractmethod
    def framed(self, values: np.ndarray, index: Any, container: str = "pandas") -> Any:
        """Return predictions (N, L), or (N,) of a 1-D y, as a data frame or series.

        `container` is "pandas" or "polars"; polars has no index.
        """


# --------------------------------------------------------------------------- 2-D y


class MultilabelTargets(Targets):
    """2-D y: a matrix of L 0/1 labels, NaN where not observed."""

    multilabel = True

    def __init__(self, n_outputs: int, names: np.ndarray | None = None):
        self.n_visible = n_outputs
        self.names = names
        self.classes = np.tile(np.array([0, 1]), (n_outputs, 1))

    def encode(self, y, dtype=np.float64):
        """Return y as (N, L) with NaN; refuse another number of labels.

        The columns of a data frame are matched by name; labels without a column become NaN.
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
        """Return y (N, L) with its names: integers, or floats if some entries are NaN."""
        visible = self.encode(y)
        visible = visible if np.isnan(visible).any() else visible.astype(np.int64)
        return self.framed(visible, y.index) if hasattr(y, "iloc") else visible

    def visible_names(self):
        """Return the names (L,) of the labels, or their numbers."""
        return np.arange(self.n_visible) if self.names is None else self.names

    def framed(self, values, index, container="pandas"):
        """Return a data frame with a column for each label."""
        if container == "polars":
            import polars as pl

            names = [str(name) for name in self.visible_names()]
            return pl.DataFrame(values, schema=names, orient="row")
        import pandas as pd

        # A list of tuples becomes a MultiIndex.
        names = None if self.names is None else pd.Index(list(self.names))
        return pd.DataFrame(values, index, columns=names)

    def check_known(self, y_known, n_rows):
        """Return known labels (N, L), NaN elsewhere, or None; a data frame is matched by name."""
        if y_known is None:
            return None
        refuse_sparse_known(y_known)
        if not is_frame(y_known) and self.names is not None and label_names_of(y_known) is not None:
            y_known = y_known.to_frame()  # a series with the name of a label
        known = indicator_by_name(y_known, self.names, self.n_visible, "y_known")
        shape = (n_rows, self.n_visible)
        if known.shape != shape:
            raise ValueError(f"y_known must have shape {shape}, got {known.shape}")
        return known

    def warn_of_one_value(self, visible):
        """Warn of labels (N, L) that were observed with a single value."""
        warn_of_one_value(visible, range(self.n_visible) if self.names is None else self.names)

    def check_classes(self, classes):
        """Refuse other classes than 0 and 1; a list for each output may be given."""
        try:
            right = classes is None or np.array_equal(np.unique(np.asarray(classes)), [0, 1])
        except (TypeError, ValueError):  # lists of different lengths, values of different kinds
            right = False
        if not right:
            raise ValueError(f"classes of a 2-D y must be 0 and 1, got {classes!r}")

    def require_multilabel(self, method):
        """Do nothing: y is 2-D."""

    def loss_factors(self, class_weight, visible, weight):
        """Return factors (N, L): "balanced", a dict per label, or weights of the positives."""
        return _weights_by_label(class_weight, visible, weight)

    def accuracy(self, y, y_pred, sample_weight=None):
        """Return the share of the rows in which all observed labels are right."""
        return masked_score("accuracy", self.encode(y), y_pred=y_pred, sample_weight=sample_weight)

    def scores(self, model, rows):
        """Return the score (N, L) of each label."""
        return model._label_scores(rows)

    def log_odds(self, model, rows):
        """Return the log-odds (N, L) of the marginal of each label."""
        return model._label_log_odds(rows)

    def predict(self, model, rows):
        """Return the labels (N, L) that the model decodes."""
        return self.decode(model._labels(rows))

    def labels(self, scores):
        """Return labels (N, L), 1 for a score of 0 or more."""
        return self.decode(scores >= 0)

    def proba(self, log_odds):
        """Return P(y_i = 1), (N, L)."""
        return expit(log_odds)

    def marginals(self, proba, classes=None, name="predict_proba(X)"):
        """Return P(y_i = 1), (N, L), of an array (N, L) or L arrays (N, 2)."""
        return label_marginals(proba, classes, name)

    def labels_of_proba(self, proba):
        """Return labels (N, L), 1 for a probability of 0.5 or more."""
        return self.decode(proba >= 0.5)


# --------------------------------------------------------------------------- 1-D y


class ClassTargets(Targets):
    """1-D y with classes; the base of the kinds for two classes and for more.

    `classes` (K,) are sorted, `names` (1,) holds the name of y.
    """

    def __init__(self, classes: np.ndarray, names: np.ndarray | None = None):
        self.classes = classes
        self.names = names

    def _class_index(self, y):
        """Return the index (N,) of the class of each row; refuse new classes."""
        self._check_name(y)
        y = class_vector(y, warn=True)
        unknown = np.setdiff1d(y, self.classes)
        if len(unknown):
            raise ValueError(f"y holds classes that were not given at first: {unknown.tolist()}")
        return np.searchsorted(self.classes, y)

    def _classes_at(self, index):
        return self.classes[np.asarray(index, dtype=np.intp)]

    def visible_names(self):
        """Return the classes; for two classes only the second."""
        return self.classes[-self.n_visible :]

    def framed(self, values, index, container="pandas"):
        """Return a series with the name of y."""
        name = None if self.names is None else self.names[0]
        return named_series(values, index, name, container)

    def for_classifier(self, y):
        """Return y unchanged; a column as a vector, with the warning of scikit-learn."""
        y = with_dimensions(y)
        return y if y.ndim == 1 else class_vector(y, warn=True)

    def check_known(self, y_known, n_rows):
        """Refuse known labels: no part of a class can be known."""
        if y_known is not None:
            raise ValueError("y_known is for 2-D indicator y; this model was fitted on a 1-D y")

    def check_classes(self, classes):
        """Refuse other classes than these."""
        if classes is not None and not np.array_equal(distinct_classes(classes), self.classes):
            raise ValueError(
                f"classes={list(classes)} differs from the classes of the first call to "
                f"partial_fit: {self.classes.tolist()}"
            )

    def require_multilabel(self, method):
        """Raise the error."""
        raise ValueError(f"{method} is for 2-D y; this model was fitted on a 1-D y")

    def loss_factors(self, class_weight, visible, weight):
        """Return factors (N, 1), the same for all units of a row."""
        return _weights_by_class(class_weight, self.classes, self.decode(visible), weight)

    def accuracy(self, y, y_pred, sample_weight=None):
        """Return the share of the rows with the right class."""
        self._check_name(y)
        return accuracy_score(y, y_pred, sample_weight=sample_weight)

    def _check_name(self, y):
        """Refuse a data frame whose column has another name than the y of `fit`."""
        if is_frame(y) and all_strings(self.names):
            in_order_of(y, self.names)

    def predict(self, model, rows):
        """Return the most probable class (N,)."""
        return self.labels(self.scores(model, rows))

    def labels_of_proba(self, proba):
        """Return the most probable class (N,)."""
        return self._classes_at(proba.argmax(axis=1))


def named_series(values: np.ndarray, index: Any, name: Any, container: str) -> Any:
    """Return values (N,) as a series of pandas, with an index, or of polars."""
    if container == "polars":
        import polars as pl

        values = values if values.dtype.kind in "biuf" else values.tolist()
        return pl.Series("" if name is None else str(name), values)
    import pandas as pd

    return pd.Series(values, index, name=name)


class BinaryTargets(ClassTargets):
    """1-D y of two classes: a visible unit that is 1 for the second class."""

    _saved = ("classes",)
    n_visible = 1

    def encode(self, y, dtype=np.float64):
        """Return 0/1 visible units (N, 1); refuse new classes."""
        return self._class_index(y)[:, None].astype(dtype)

    def decode(self, visible):
        """Return the classes (N,) of 0/1 visible units (N, 1)."""
        return self._classes_at(visible[:, 0])

    def scores(self, model, rows):
        """Return the score (N, 1) of the second class against the first."""
        return model._binary_scores(rows)

    def log_odds(self, model, rows):
        """Return the log-odds (N, 1) of the second class."""
        return model._log_odds_scale * model._binary_scores(rows)

    def labels(self, scores):
        """Return the second class for a positive score, else the first."""
        return self._classes_at(scores[:, 0] > 0)

    def decision(self, scores):
        """Return the scores as (N,)."""
        return scores[:, 0]

    def proba(self, log_odds):
        """Return the probabilities (N, 2) of both classes."""
        return np.hstack([expit(-log_odds), expit(log_odds)])

    def class_log_proba(self, log_odds: np.ndarray) -> np.ndarray:
        """Return the log-probabilities (N, 2) of both classes."""
        return np.hstack([log_expit(-log_odds), log_expit(log_odds)])

    def marginals(self, proba, classes=None, name="predict_proba(X)"):
        """Return P(second class), (N, 1)."""
        return _all_classes(proba, classes, self.classes)[:, 1:]

    def proba_of_marginals(self, marginals):
        """Return the probabilities (N, 2) of both classes."""
        return np.hstack([1 - marginals, marginals])


class MulticlassTargets(ClassTargets):
    """1-D y with another number of classes K: a one-hot group of K visible units."""

    one_hot = True

    def __init__(self, classes: np.ndarray, names: np.ndarray | None = None):
        super().__init__(classes, names)
        self.n_visible = len(classes)

    def encode(self, y, dtype=np.float64):
        """Return one-hot visible units (N, K); refuse new classes."""
        return np.eye(self.n_visible, dtype=dtype)[self._class_index(y)]

    def decode(self, visible):
        """Return the classes (N,) of one-hot visible units (N, K)."""
        return self._classes_at(visible.argmax(axis=1))

    def scores(self, model, rows):
        """Return the score (N, K) of each class."""
        return model._class_scores(rows)

    def log_odds(self, model, rows):
        """Return the unnormalised log-probability (N, K) of each class."""
        return model._class_scores(rows)

    def labels(self, scores):
        """Return the class with the highest score."""
        return self.decode(scores)

    def proba(self, log_odds):
        """Return the probabilities (N, K) of the classes."""
        return softmax(log_odds, axis=1)

    def class_log_proba(self, log_odds: np.ndarray) -> np.ndarray:
        """Return the log-probabilities (N, K) of the classes."""
        return log_softmax(log_odds, axis=1)

    def marginals(self, proba, classes=None, name="predict_proba(X)"):
        """Return P(class), (N, K)."""
        return _all_classes(proba, classes, self.classes)


def _all_classes(proba, classes, all_classes):
    """Return probabilities (N, K) of all classes, 0 for classes that a classifier did not see."""
    proba = np.asarray(proba)
    if classes is None or len(classes) == len(all_classes):
        return proba
    full = np.zeros((len(proba), len(all_classes)))
    full[:, np.searchsorted(all_classes, classes)] = proba
    return full


# ------------------------------------------------------------------------ class_weight


def _weights_by_label(class_weight, visible, weight):
    """Return factors (N, L) of the loss of the labels of a 2-D y; (N, 1) if all are 1.

    `class_weight` is None, "balanced", a dict of 0 and 1 for each label, or the weights (L,) of
    the positive class. "balanced" takes the weights (N,) of the rows into account.
    """
    n_rows, n_visible = visible.shape
    if class_weight is None:
        return np.ones((n_rows, 1))
    if isinstance(class_weight, str):
        return np.column_stack([_balanced(column, weight) for column in visible.T])
    if isinstance(class_weight, dict):
        raise ValueError(
            "class_weight for 2-D y must be 'balanced', a list with a dict for each label, or the "
            "weights (n_outputs,) of the positive class; got a dict"
        )
    are_dicts = {isinstance(w, dict) for w in class_weight}
    if len(are_dicts) == 2:
        raise ValueError("class_weight must hold a dict for each label or numbers, not both")
    if True in are_dicts:
        if len(class_weight) != n_visible:
            raise ValueError(
                f"class_weight must hold a dict for each of the {n_visible} labels, "
                f"got {len(class_weight)}"
            )
        wrong = {key for w in class_weight for key in w} - {0, 1}
        if wrong:
            raise ValueError(f"class_weight holds keys that are not 0 or 1: {sorted(wrong)}")
        pairs = np.array([[w.get(0, 1.0), w.get(1, 1.0)] for w in class_weight], np.float64)
    else:
        positive = check_array(
            class_weight,
            ensure_2d=False,
            ensure_min_samples=0,
            dtype=np.float64,
            input_name="class_weight",
        )
        if positive.shape != (n_visible,):
            raise ValueError(
                f"class_weight must have shape ({n_visible},), a weight of the positive class "
                f"of each label; got {positive.shape}"
            )
        pairs = np.column_stack([np.ones(n_visible), positive])
    if not (np.isfinite(pairs) & (pairs >= 0)).all():
        raise ValueError("class_weight must hold finite numbers that are not negative")
    return np.where(visible == 1, pairs[:, 1], pairs[:, 0])


def _balanced(column, weight):
    """Return factors (N,) that give each class in the column half of the observed weight."""
    mass = np.array([weight[column == 0].sum(), weight[column == 1].sum()])
    factor = np.divide(mass.sum(), 2.0 * mass, out=np.ones(2), where=mass > 0)
    return np.where(column == 1, factor[1], factor[0])


def _weights_by_class(class_weight, classes, y, weight):
    """Return factors (N, 1) of the loss of the rows of a 1-D y.

    `class_weight` is None, "balanced" or a dict of class: weight.
    """
    if class_weight is None:
        return np.ones((len(y), 1))
    index = np.searchsorted(classes, y)
    if isinstance(class_weight, str):
        mass = np.bincount(index, weights=weight, minlength=len(classes))
        present = mass > 0
        factor = np.divide(mass.sum(), present.sum() * mass, out=np.ones_like(mass), where=present)
    elif isinstance(class_weight, dict):
        factor = compute_class_weight(class_weight, classes=classes, y=y)
        if not (np.isfinite(factor) & (factor >= 0)).all():
            raise ValueError("class_weight must hold finite numbers that are not negative")
    else:
        raise ValueError(
            "class_weight for 1-D y must be 'balanced' or a dict of class: weight; "
            f"got {class_weight!r}"
        )
    return factor[index][:, None]
