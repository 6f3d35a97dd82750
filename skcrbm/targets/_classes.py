"""1-D y: a class in each row."""

import numpy as np
from scipy import sparse
from scipy.special import expit, log_expit, log_softmax, softmax
from sklearn.exceptions import DataConversionWarning
from sklearn.metrics import accuracy_score
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from skcrbm.targets._base import Targets
from skcrbm.targets._class_weight import weights_by_class
from skcrbm.utils.labels import all_strings, in_order_of, is_frame, with_dimensions
from skcrbm.utils.warnings import warn_user


class ClassTargets(Targets):
    """1-D y: what holds for any number of classes.

    Parameters
    ----------
    classes : ndarray (K,)
        Sorted.
    names : ndarray (1,) or None, default=None
        Of y.
    """

    def __init__(self, classes, names=None):
        self.classes = classes
        self.names = names

    def _class_index(self, y):
        """Index (N,) of each row's class; refuse new classes."""
        self._check_name(y)
        y = class_vector(y, warn=True)
        unknown = np.setdiff1d(y, self.classes)
        if len(unknown):
            raise ValueError(f"y holds classes that were not given at first: {unknown.tolist()}")
        return np.searchsorted(self.classes, y)

    def _of_index(self, index):
        return self.classes[np.asarray(index, dtype=np.intp)]

    def visible_names(self):
        """Classes, of two the second (V,)."""
        return self.classes[-self.n_visible :]

    def framed(self, values, index):
        """Return a series under the name of y."""
        import pandas as pd

        return pd.Series(values, index, name=None if self.names is None else self.names[0])

    def for_classifier(self, y):
        """Return y as it is; a column as a vector, with scikit-learn's warning."""
        y = with_dimensions(y)
        return y if y.ndim == 1 else class_vector(y, warn=True)

    def check_known(self, y_known, n_rows):
        """Refuse known labels: a class is known or it is not."""
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
        """Refuse."""
        raise ValueError(f"{method} is for 2-D y; this model was fitted on a 1-D y")

    def loss_factors(self, class_weight, visible, weight):
        """Factors (N, 1), the same for all units of a row: "balanced", or a dict of classes."""
        return weights_by_class(class_weight, self.classes, self.decode(visible), weight)

    def accuracy(self, y, y_pred, sample_weight=None):
        """Share of the rows with the right class."""
        self._check_name(y)
        return accuracy_score(y, y_pred, sample_weight=sample_weight)

    def _check_name(self, y):
        """Refuse a data frame whose one column has another name than y had."""
        if is_frame(y) and all_strings(self.names):
            in_order_of(y, self.names)

    def predict(self, model, rows):
        """Most probable class (N,)."""
        return self.labels(self.scores(model, rows))

    def labels_of_proba(self, proba):
        """Most probable class (N,)."""
        return self._of_index(proba.argmax(axis=1))


class BinaryTargets(ClassTargets):
    """1-D y of two classes: one visible unit, on for the second class."""

    _saved = ("classes",)
    n_visible = 1

    def encode(self, y, dtype=np.float64):
        """Return 0/1 visible units (N, 1); refuse new classes."""
        return self._class_index(y)[:, None].astype(dtype)

    def decode(self, visible):
        """Classes (N,) of 0/1 visible units (N, 1)."""
        return self._of_index(visible[:, 0])

    def scores(self, model, rows):
        """Score (N, 1) of the second class against the first."""
        return model._binary_scores(rows)

    def log_odds(self, model, rows):
        """Log-odds (N, 1) of the second class."""
        return model._log_odds_scale * model._binary_scores(rows)

    def labels(self, scores):
        """Second class where the score is positive."""
        return self._of_index(scores[:, 0] > 0)

    def decision(self, scores):
        """Scores (N,)."""
        return scores[:, 0]

    def proba(self, log_odds):
        """Probabilities (N, 2) of both classes."""
        return np.hstack([expit(-log_odds), expit(log_odds)])

    def class_log_proba(self, log_odds):
        """Log-probabilities (N, 2) of both classes."""
        return np.hstack([log_expit(-log_odds), log_expit(log_odds)])

    def marginals(self, proba, classes=None, name="predict_proba(X)"):
        """P(second class), (N, 1)."""
        return _all_classes(proba, classes, self.classes)[:, 1:]

    def proba_of_marginals(self, marginals):
        """Probabilities (N, 2) of both classes."""
        return np.hstack([1 - marginals, marginals])


class MulticlassTargets(ClassTargets):
    """1-D y of any other number of classes K: a one-hot group of K visible units."""

    one_hot = True

    def __init__(self, classes, names=None):
        super().__init__(classes, names)
        self.n_visible = len(classes)

    def encode(self, y, dtype=np.float64):
        """Return one-hot visible units (N, K); refuse new classes."""
        return np.eye(self.n_visible, dtype=dtype)[self._class_index(y)]

    def decode(self, visible):
        """Classes (N,) of one-hot visible units (N, K)."""
        return self._of_index(visible.argmax(axis=1))

    def scores(self, model, rows):
        """Score (N, K) of each class."""
        return model._class_scores(rows)

    def log_odds(self, model, rows):
        """Unnormalised log-probability (N, K) of each class."""
        return model._class_scores(rows)

    def labels(self, scores):
        """Class of the highest score."""
        return self.decode(scores)

    def proba(self, log_odds):
        """Probabilities (N, K) of the classes."""
        return softmax(log_odds, axis=1)

    def class_log_proba(self, log_odds):
        """Log-probabilities (N, K) of the classes."""
        return log_softmax(log_odds, axis=1)

    def marginals(self, proba, classes=None, name="predict_proba(X)"):
        """P(class), (N, K)."""
        return _all_classes(proba, classes, self.classes)


def _all_classes(proba, classes, wanted):
    """Probabilities (N, K) of all classes, 0 for those that a classifier did not see."""
    proba = np.asarray(proba)
    if classes is None or len(classes) == len(wanted):
        return proba
    full = np.zeros((len(proba), len(wanted)))
    full[:, np.searchsorted(wanted, classes)] = proba
    return full


def class_vector(y, warn):
    """1-D y, NaN refused; a column is taken, with scikit-learn's warning if asked for."""
    y = y.toarray() if sparse.issparse(y) else y
    y = with_dimensions(y)
    column = y.ndim == 2
    try:
        y = column_or_1d(y)
    except ValueError as error:
        raise ValueError(f"y must hold a label for each row: {error}") from error
    if column and warn:  # scikit-learn's own would point into this file
        warn_user(
            "A column-vector y was passed when a 1d array was expected. Please change the shape of "
            "y to (n_samples,), for example using ravel().",
            DataConversionWarning,
        )
    found = _no_labels(y)
    if found and column:
        raise ValueError(
            f"y contains {found}, and has one column, which is taken for a 1-D y: that needs a "
            "label in every row. Leave out the rows without one; NaN (not observed) is for a y of "
            "two columns or more"
        )
    if found:
        raise ValueError(f"y contains {found}; only a 2-D indicator y may hold NaN (not observed)")
    try:
        with np.errstate(over="ignore", invalid="ignore"):  # casts of large labels to integers
            check_classification_targets(y)
    except (TypeError, ValueError) as error:
        raise ValueError(f"y must hold labels of one type, which can be sorted: {error}") from error
    return y


def distinct_classes(classes):
    """Sorted distinct labels (K,) of an argument `classes`; ValueError if it is no vector."""
    form = "classes must be a vector of labels of one type, which can be sorted"
    try:
        labels = np.asarray(classes)
        if labels.ndim == 1 and len(labels) and not _no_labels(labels):
            return np.unique(labels)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{form}: {error}") from error
    raise ValueError(f"{form}, without NaN; got {classes!r}")


def _no_labels(y):
    """Say what in y (N,) is no label; "" if there is nothing."""
    if y.dtype == object and any(v is None or v != v for v in y):
        return "NaN or None"
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        return "NaN or infinity"
    if y.dtype.kind in "mM" and np.isnat(y).any():
        return "NaT"
    return ""
