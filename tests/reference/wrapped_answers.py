"""Classifiers whose answers come in many forms, as those of any library inside of this package."""

from importlib.util import find_spec

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin

NAMES = ["sun", "rain", "snow", "wind"]


def pairs(p, backwards=False):
    both = [np.column_stack([1 - column, column]) for column in p.T]
    return [part[:, ::-1] for part in both] if backwards else both


# Forms of the probabilities (N, 4), and the classes that belong to them.
BACKWARDS = [np.array([1, 0])] * 4
FORMS = {
    "array": (lambda p: p, None),
    "float32": (lambda p: p.astype(np.float32), None),
    "nested lists": (lambda p: p.tolist(), None),
    "sparse": (sparse.csr_matrix, None),
    "pairs": (pairs, None),
    "pairs with classes": (pairs, [np.array([0, 1])] * 4),
    "sparse pairs": (lambda p: [sparse.csr_matrix(part) for part in pairs(p)], None),
    "frames of pairs": (lambda p: [pd.DataFrame(part) for part in pairs(p)], None),
    "backwards": (lambda p: pairs(p, True), BACKWARDS),
    "backwards, one list of classes": (lambda p: pairs(p, True), np.array([1, 0])),
    "backwards, booleans": (lambda p: pairs(p, True), [np.array([True, False])] * 4),
    "other words": (pairs, [np.array(["no", "yes"])] * 4),
    "frame": (lambda p: pd.DataFrame(p, columns=NAMES), None),
    "frame in another order": (lambda p: pd.DataFrame(p, columns=NAMES)[NAMES[::-1]], None),
    "numbers in another order": (lambda p: pd.DataFrame(p)[[2, 0, 3, 1]], None),
    "numbers of the classes": (lambda p: pd.DataFrame(p, columns=np.arange(4)), None),
    "pairs of frames backwards": (
        lambda p: [pd.DataFrame(part, columns=[1, 0]) for part in pairs(p, True)],
        None,
    ),
    "pairs of frames with classes": (
        lambda p: [pd.DataFrame(part, columns=np.arange(2)) for part in pairs(p)],
        BACKWARDS,
    ),
    "labels in another order": (lambda p: p[:, [2, 0, 3, 1]], np.array([2, 0, 3, 1])),
    "names in another order": (lambda p: p[:, ::-1], np.array(NAMES[::-1])),
}


if find_spec("polars"):
    import polars as pl

    FORMS["polars"] = pl.DataFrame, None
    FORMS["polars, numbers"] = lambda p: pl.DataFrame(p, list("0123"))[list("2031")], None


class Answers(ClassifierMixin, BaseEstimator):
    """Classifier whose X holds its probabilities, which it returns in a given form."""

    def __init__(self, form="array", forms=FORMS):
        self.form = form
        self.forms = forms

    def fit(self, X, y):
        self.n_features_in_ = np.shape(X)[1]
        return self

    def __sklearn_is_fitted__(self):
        return True

    @property
    def classes_(self):
        classes = self.forms[self.form][1]
        if classes is None:
            raise AttributeError("without classes")
        return classes

    def predict_proba(self, X):
        return self.forms[self.form][0](np.asarray(X))

    def predict(self, X):
        labels = (np.asarray(X) >= 0.5).astype(int)
        if self.form == "sparse":
            return sparse.csr_matrix(labels)
        if self.form == "frame in another order":
            return pd.DataFrame(labels, columns=NAMES)[NAMES[::-1]]
        return labels

    def __sklearn_clone__(self):
        return type(self)(self.form, self.forms)


def by_name(form):
    """Whether a form tells labels apart by their names, which are strings."""
    return ("frame" in form and "pairs" not in form) or "names" in form
