"""Data, splits and methods of `defaults_benchmark.py`, and the results that it stores."""

import time
from functools import cache

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from examples._multilabel import LabelPowerset
from skcrbm import CRBMClassifier, LMBMClassifier
from skcrbm.datasets import (
    load_mediamill,
    load_mulan,
    load_scene,
    load_yeast,
    make_structured_labels,
)
from skcrbm.decoding import ExpectedMetric
from skcrbm.model_selection import MultilabelStratifiedShuffleSplit

N_TREES = 300

# --- data -----------------------------------------------------------------------------------


def generated(structure):
    """Return 1500 and 1000 rows of a known model."""
    X, Y = make_structured_labels(2500, 20, 10, structure=structure, random_state=0)
    return X, Y, 1500, True


def published(load, *name, **options):
    """Return all rows, the train rows first, and the number of train rows."""
    data = load(*name, **options)
    return data.data.astype(np.float64), data.target, len(data.X_train), True


def cal500():
    """Return all rows of a set without a published split; 70% are train rows."""
    X, Y = load_mulan("cal500", return_X_y=True)
    return X.astype(np.float64), Y, 351, False


# Name -> X, Y, number of train rows, True if the first rows are the published train part.
DATA = {
    "emotions": lambda: published(load_mulan, "emotions"),
    "birds": lambda: published(load_mulan, "birds"),
    "genbase": lambda: published(load_mulan, "genbase"),
    "medical": lambda: published(load_mulan, "medical"),
    "pairs": lambda: generated("pairs"),
    "groups": lambda: generated("groups"),
    "Scene": lambda: published(load_scene),
    "Yeast": lambda: published(load_yeast),
    "cal500": cal500,
    "Mediamill sample": lambda: published(load_mediamill, variant="sample"),
    "enron": lambda: published(load_mulan, "enron"),
}
SEEDS = range(5)
QUICK_DATA, QUICK_SEEDS, QUICK_ROWS = ("emotions", "pairs"), range(2), 200


@cache
def load(name):
    """Return the rows of a data set, which is read once."""
    return DATA[name]()


def split(name, seed, quick=False):
    """Return X, Y and the indices of train and test rows.

    Seed 0 is the published split, if there is a published split. The others are random splits of
    all rows, of the same sizes, with equal shares of each label.
    """
    X, Y, n_train, is_published = load(name)
    if seed == 0 and is_published:
        train, test = np.arange(n_train), np.arange(n_train, len(Y))
    else:
        cut = MultilabelStratifiedShuffleSplit(
            1, train_size=n_train, test_size=len(Y) - n_train, random_state=seed
        )
        train, test = next(cut.split(X, Y))
    if quick:
        rng = np.random.RandomState(seed)  # because rows may come in blocks
        train, test = (np.sort(rng.permutation(rows)[:QUICK_ROWS]) for rows in (train, test))
    return X, Y, train, test


def smoothed_frequencies(Y):
    """Return the share of rows with each label (L,), with half a row added to both counts."""
    return (Y.sum(axis=0) + 0.5) / (len(Y) + 1)


# --- baselines -----------------------------------------------------------------------------------


def validation_split(X, Y):
    """Return 70% and 30% of the rows."""
    return next(MultilabelStratifiedShuffleSplit(1, test_size=0.3, random_state=0).split(X, Y))


def walk(loss, grid, start):
    """Return a value of a grid that is better than its neighbours, from grid[start] on.

    Goes up while the loss does not rise, or else down while it falls.
    """
    best, least = start, loss(grid[start])
    for step in (1, -1):
        while best + step in range(len(grid)):
            found = loss(grid[best + step])
            if found > least or (step < 0 and found == least):
                break
            best, least = best + step, found
        if best != start:
            break
    return float(grid[best])


class KeepBinary(TransformerMixin, BaseEstimator):
    """Turn columns with two values into 0 and 1, and standardise the others.

    If it were standardised, a rare word would be a large number, which a penalty hardly shrinks.
    """

    def fit(self, X, y=None):
        """Find the columns with two values, the means and the deviations."""
        low, high = X.min(axis=0), X.max(axis=0)
        two = ((low == X) | (high == X)).all(axis=0) & (high > low)
        scale = np.where(two, high - low, X.std(axis=0))
        self.scale_ = np.where(scale > 0, scale, 1.0)
        self.mean_ = np.where(two, low, X.mean(axis=0))
        return self

    def transform(self, X):
        """Shift and scale the columns."""
        return (X - self.mean_) / self.scale_


class Frequencies(BaseEstimator):
    """Predict the training frequencies, whatever x is."""

    def fit(self, X, Y):
        """Count the labels."""
        self.frequencies_ = smoothed_frequencies(Y)
        return self

    def predict_proba(self, X):
        """Return P(y_i = 1) of shape (n, L)."""
        return np.tile(self.frequencies_, (len(X), 1))


class SearchedLogistic(BaseEstimator):
    """A logistic regression for each label, with the same C for all.

    C has the least log loss on 30% of the rows, fitted on the others, in half decades. A label
    without both values gets its frequency.
    """

    grid = 10.0 ** (np.arange(-8, 7) / 2)
    start = 5

    def fit(self, X, Y):
        """Search C, then fit on all rows."""
        train, held = validation_split(X, Y)

        def loss(C):
            p = self._proba(self._fit(X[train], Y[train], C), X[held])
            return -np.log(np.where(Y[held] == 1, p, 1 - p)).mean()

        self.C_ = walk(loss, self.grid, self.start)
        self.models_ = self._fit(X, Y, self.C_)
        return self

    def _fit(self, X, Y, C):
        frequencies = smoothed_frequencies(Y)
        return [
            LogisticRegression(C=C, max_iter=1000).fit(X, y) if y.min() < y.max() else frequency
            for y, frequency in zip(Y.T, frequencies, strict=True)
        ]

    def _proba(self, models, X):
        """Return P(y_i = 1 | x), kept away from 0 and 1 by the size of rounding errors."""
        tiny = np.finfo(float).eps
        columns = [
            np.full(len(X), m) if isinstance(m, float) else m.predict_proba(X)[:, 1] for m in models
        ]
        return np.clip(np.column_stack(columns), tiny, 1 - tiny)

    def predict_proba(self, X):
        """Return P(y_i = 1 | x) of shape (n, L)."""
        return self._proba(self.models_, X)


class SearchedSVM(BaseEstimator):
    """A linear support vector machine for each label, with the same C for all.

    C has the least Hamming loss on 30% of the rows, fitted on the others, in decades; among equals
    the larger C is taken.
    """

    grid = 10.0 ** np.arange(-4, 2)
    start = 2

    def fit(self, X, Y):
        """Search C, then fit on all rows."""
        train, held = validation_split(X, Y)

        def loss(C):
            margins = self._margins(self._fit(X[train], Y[train], C), X[held])
            return ((margins > 0) != Y[held]).mean()

        self.C_ = walk(loss, self.grid, self.start)
        self.models_ = self._fit(X, Y, self.C_)
        return self

    def _fit(self, X, Y, C):
        return [
            LinearSVC(C=C, random_state=0).fit(X, y) if y.min() < y.max() else 2 * y[0] - 1
            for y in Y.T
        ]

    def _margins(self, models, X):
        return np.column_stack(
            [
                m.decision_function(X) if isinstance(m, LinearSVC) else np.full(len(X), m)
                for m in models
            ]
        )

    def decision_function(self, X):
        """Return margins of shape (n, L), positive for predicted labels."""
        return self._margins(self.models_, X)


# --- results of a fitted model ---------------------------------------------------------

# The scores of the benchmark count a row without true and predicted labels as 1.
OWN_DECODERS = {
    "subset": "label_set",
    "Jaccard": ExpectedMetric("jaccard", zero_division=1.0),
    "F1": ExpectedMetric("f1", zero_division=1.0),
}


def timed(function):
    """Return the result and the processor seconds of a call."""
    start = time.process_time()
    result = function()
    return result, time.process_time() - start


def read_marginals(model, X, Y):
    """Return P(y_i = 1 | x)."""
    return {"marginals": model.predict_proba(X)}


def read_forest(model, X, Y):
    """Return shares of the trees' votes; a label with a single value in training has a column."""
    votes = [
        p[:, list(classes).index(1)] if 1 in classes else np.zeros(len(X))
        for p, classes in zip(model.predict_proba(X), model.classes_, strict=True)
    ]
    return {"votes": np.column_stack(votes)}


def read_sets(model, X, Y):
    """Return a distribution over label sets, as shares of the trees' votes."""
    proba = model.classifier_.predict_proba(X).astype(np.float32)
    return {"sets": model.sets_.astype(np.int8), "sets_proba": proba}


def read_margins(model, X, Y):
    """Return the margins of each label."""
    return {"margins": model.decision_function(X)}


def read_crbm(model, X, Y):
    """Return marginals, log p(y | x) of the true label vectors, and labels for each metric."""
    estimator = model[-1] if hasattr(model, "steps") else model
    p, seconds = timed(lambda: model.predict_proba(X))
    inputs = model[:-1].transform(X) if hasattr(model, "steps") else X
    found = {
        "marginals": p,
        "seconds marginals": seconds,
        "log_likelihood": estimator.score_samples(inputs, Y),
    }
    for metric, decode in OWN_DECODERS.items():
        estimator.set_params(decode=decode)
        labels, found[f"seconds {metric}"] = timed(lambda: model.predict(X))
        found[f"labels {metric}"] = labels.astype(np.int8)
    for name in ("alpha_", "n_hidden_"):
        if hasattr(estimator, name):
            found[name] = getattr(estimator, name)
    return found


def read_labels(model, X, Y):
    """Return the labels that the model predicts with nothing set."""
    labels, seconds = timed(lambda: model.predict(X))
    return {"labels": labels.astype(np.int8), "seconds labels": seconds}


def scaled(estimator):
    """Make a pipeline on standardised columns."""
    return make_pipeline(StandardScaler(), estimator)


# Name -> the functions that read a fitted model and that make a model from (seed, n_trees).
OURS = {
    "CRBM": (read_crbm, lambda seed, trees: scaled(CRBMClassifier(random_state=seed))),
    "CRBM raw": (read_crbm, lambda seed, trees: CRBMClassifier(random_state=seed)),
    "LMBM": (read_labels, lambda seed, trees: scaled(LMBMClassifier(random_state=seed))),
    "LMBM raw": (read_labels, lambda seed, trees: LMBMClassifier(random_state=seed)),
}
RIVALS = {
    "logistic regression": (read_marginals, lambda seed, trees: scaled(SearchedLogistic())),
    "logistic regression, 0-1 kept": (
        read_marginals,
        lambda seed, trees: make_pipeline(KeepBinary(), SearchedLogistic()),
    ),
    "random forest": (
        read_forest,
        lambda seed, trees: RandomForestClassifier(trees, random_state=seed),
    ),
    "label-powerset trees": (
        read_sets,
        lambda seed, trees: LabelPowerset(ExtraTreesClassifier(trees, random_state=seed)),
    ),
    "linear SVM": (read_margins, lambda seed, trees: scaled(SearchedSVM())),
    "linear SVM, 0-1 kept": (
        read_margins,
        lambda seed, trees: make_pipeline(KeepBinary(), SearchedSVM()),
    ),
    "frequencies": (read_marginals, lambda seed, trees: Frequencies()),
}
METHODS = {**OURS, **RIVALS}


def fit(data, method, seed, quick):
    """Fit a method on a split; return its predictions for the test rows, as arrays."""
    X, Y, train, test = split(data, seed, quick)
    read, make = METHODS[method]
    trees = 20 if quick else N_TREES
    model, seconds = timed(lambda: make(seed, trees).fit(X[train], Y[train]))
    print(f"  fitted in {seconds:.1f} s", flush=True)
    return {
        "fit_seconds": seconds,
        "truth": Y[test].astype(np.int8),
        "rows": test,
        "n_trees": trees,
        "has_empty": bool((Y[train].sum(axis=1) == 0).any()),
        **read(model, X[test], Y[test]),
    }
