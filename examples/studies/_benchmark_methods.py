"""Columns and methods of `multilabel_benchmark.py`.

Joint models and their controls (logistic regressions for each label, and chains of them) get the
same columns: x, features of a kernel, or out-of-bag log-odds of forests.
"""

from functools import lru_cache

import numpy as np
from scipy.special import expit
from sklearn.base import BaseEstimator
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression
from sklearn.multioutput import ClassifierChain
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import SVC

from examples._multilabel import LabelPowerset, marginals
from examples.studies._defaults_methods import (
    OWN_DECODERS,
    SearchedLogistic,
    SearchedSVM,
    read_crbm,
    read_forest,
    read_marginals,
    read_margins,
    read_sets,
    split,
    timed,
    validation_split,
    walk,
)
from skcrbm import MSSVMCRBM, CRBMClassifier, LayeredGMClassifier, LMBMClassifier
from skcrbm.ensemble import OutOfBagLogOdds
from skcrbm.model_selection import MultilabelStratifiedShuffleSplit

# --- columns ------------------------------------------------------------------------------------


def kernel(n_features, seed, quick):
    """Return Nystroem features of an rbf kernel on standardised columns."""
    components = 50 if quick else 500
    gamma = 1 / n_features  # as in SVC
    return make_pipeline(
        StandardScaler(), Nystroem(gamma=gamma, n_components=components, random_state=seed)
    )


def forests(seed, quick):
    """Return out-of-bag log-odds of four forests: two kinds, on labels and on label sets."""
    trees = {"n_estimators": 20 if quick else 300, "bootstrap": True}
    kinds = [(f, p) for f in (ExtraTreesClassifier, RandomForestClassifier) for p in (False, True)]
    return make_union(
        *(
            OutOfBagLogOdds(forest(**trees), label_powerset=powerset, random_state=4 * seed + k)
            for k, (forest, powerset) in enumerate(kinds)
        )
    )


COLUMNS = {
    "x": lambda d, seed, quick: FunctionTransformer(),
    "kernel": kernel,
    "forests": lambda d, seed, quick: forests(seed, quick),
    "forests and kernel": lambda d, seed, quick: make_union(
        forests(seed, quick), kernel(d, seed, quick)
    ),
}


@lru_cache(maxsize=1)
def rows_of(data, seed, part, quick):
    """Return X and Y of training rows and of rows to score, and the numbers of the latter.

    The rows to score are the test rows, or, for the part "validation", 30% of the training rows.
    Labels that are on or off in all training rows are left out.
    """
    X, Y, train, test = split(data, seed, quick)
    if part == "validation":
        cut = MultilabelStratifiedShuffleSplit(1, test_size=0.3, random_state=seed)
        inner, outer = next(cut.split(X[train], Y[train]))
        train, test = train[inner], train[outer]
    seen = Y[train].any(axis=0) & ~Y[train].all(axis=0)
    return X[train], Y[train][:, seen], X[test], Y[test][:, seen], test


@lru_cache(maxsize=len(COLUMNS))
def columns_of(data, seed, part, quick, kind):
    """Return the columns of training rows and rows to score, and the seconds to compute them."""
    X, Y, X_test, _, _ = rows_of(data, seed, part, quick)
    make = COLUMNS[kind](X.shape[1], seed, quick)
    inside, seconds = timed(lambda: make.fit_transform(X, Y))
    return inside, make.transform(X_test), seconds


# --- methods without a counterpart in scikit-learn ------------------------------------------------


class Chains(BaseEstimator):
    """Mean of 10 chains of logistic regressions in random orders, C searched without chains."""

    def __init__(self, seed):
        self.seed = seed

    def fit(self, X, Y):
        """Search C as for single labels, then fit the chains."""
        C = SearchedLogistic().fit(X, Y).C_
        self.chains_ = [
            ClassifierChain(
                LogisticRegression(C=C, max_iter=1000),
                order="random",
                random_state=10 * self.seed + k,
            ).fit(X, Y)
            for k in range(10)
        ]
        return self

    def predict_proba(self, X):
        """Return the mean P(y_i = 1 | x)."""
        return np.mean([chain.predict_proba(X) for chain in self.chains_], axis=0)


class KernelSVM(SearchedSVM):
    """A support vector machine with an rbf kernel for each label, with the same C for all."""

    grid = 10.0 ** np.arange(-1, 3)
    start = 1

    def _fit(self, X, Y, C):
        return [SVC(C=C).fit(X, y) if y.min() < y.max() else 2 * y[0] - 1 for y in Y.T]

    def _margins(self, models, X):
        return np.column_stack(
            [m.decision_function(X) if isinstance(m, SVC) else np.full(len(X), m) for m in models]
        )


class MeanOfForests(BaseEstimator):
    """The mean of the forests' probabilities, without a model on top."""

    def fit(self, X, Y):
        """Note the number of labels."""
        self.n_labels_ = Y.shape[1]
        return self

    def predict_proba(self, X):
        """Return P(y_i = 1 | x) of shape (n, L)."""
        return expit(X).reshape(len(X), -1, self.n_labels_).mean(axis=1)


class Neighbours(BaseEstimator):
    """Nearest neighbours, with the k of the least log loss on 30% of the rows."""

    grid, start = (5, 10, 20, 40, 80), 1

    def fit(self, X, Y):
        """Search k, then keep all rows."""
        train, held = validation_split(X, Y)

        def loss(k):
            p = self._proba(KNeighborsClassifier(int(k)).fit(X[train], Y[train]), X[held], k)
            return -np.log(np.where(Y[held] == 1, p, 1 - p)).mean()

        self.k_ = int(walk(loss, self.grid, self.start))
        self.model_ = KNeighborsClassifier(self.k_).fit(X, Y)
        return self

    def _proba(self, model, X, k):
        """Return shares of neighbours, with an additional neighbour that votes 0.5."""
        votes = [
            p[:, list(classes).index(1)] if 1 in classes else np.zeros(len(X))
            for p, classes in zip(model.predict_proba(X), model.classes_, strict=True)
        ]
        return (k * np.column_stack(votes) + 0.5) / (k + 1)

    def predict_proba(self, X):
        """Return P(y_i = 1 | x) of shape (n, L)."""
        return self._proba(self.model_, X, self.k_)


def read_independent(model, X, Y):
    """Return P(y_i = 1 | x) of a model, whatever the form of its marginals."""
    return {"marginals": marginals(model, X)}


def read_joint(model, X, Y):
    """Return marginals, and labels by the decoder of each metric."""
    found = {"marginals": model.predict_proba(X)}
    for metric, decode in OWN_DECODERS.items():
        model[-1].set_params(decode=decode)
        found[f"labels {metric}"] = model.predict(X).astype(np.int8)
    return found


# --- methods ------------------------------------------------------------------------------------
# Name -> columns, the function that reads a fitted model, and the function that makes a model from
# (seed, quick). Columns are standardised, except for trees and for the CRBM, which scales them.


def scaled(make):
    """Standardise the columns first."""
    return lambda seed, quick: make_pipeline(StandardScaler(), make(seed, quick))


def crbm(seed, quick):
    """Build a conditional RBM with nothing set."""
    return CRBMClassifier(random_state=seed)


def lmbm(seed, quick):
    """Build a large margin Boltzmann machine with nothing set."""
    return LMBMClassifier(random_state=seed)


def logistic(seed, quick):
    """Build logistic regressions with a searched C."""
    return SearchedLogistic()


OURS = {
    "CRBM": ("x", read_crbm, scaled(crbm)),
    "CRBM on kernel": ("kernel", read_crbm, scaled(crbm)),
    "CRBM on forests": ("forests", read_crbm, crbm),
    "CRBM on forests and kernel": ("forests and kernel", read_crbm, crbm),
    "LMBM": ("x", read_joint, scaled(lmbm)),
    "LMBM on kernel": ("kernel", read_joint, scaled(lmbm)),
    "LMBM on forests": ("forests", read_joint, scaled(lmbm)),
    "MSSVM on forests": (
        "forests",
        read_joint,
        scaled(lambda seed, quick: MSSVMCRBM(random_state=seed)),
    ),
    "layered model on forests": (
        "forests",
        read_marginals,
        scaled(lambda seed, quick: LayeredGMClassifier(max_iter=50, random_state=seed)),
    ),
}
RIVALS = {
    "logistic regression": ("x", read_marginals, scaled(logistic)),
    "logistic regression on kernel": ("kernel", read_marginals, scaled(logistic)),
    "logistic regression on forests": ("forests", read_marginals, scaled(logistic)),
    "logistic regression on forests and kernel": (
        "forests and kernel",
        read_marginals,
        scaled(logistic),
    ),
    "chains": ("x", read_marginals, scaled(lambda seed, quick: Chains(seed))),
    "chains on forests": ("forests", read_marginals, scaled(lambda seed, quick: Chains(seed))),
    "mean of forests": ("forests", read_marginals, lambda seed, quick: MeanOfForests()),
    "random forest": (
        "x",
        read_forest,
        lambda seed, quick: RandomForestClassifier(20 if quick else 500, random_state=seed),
    ),
    "label-powerset trees": (
        "x",
        read_sets,
        lambda seed, quick: LabelPowerset(
            ExtraTreesClassifier(20 if quick else 500, random_state=seed)
        ),
    ),
    "kernel SVM": ("x", read_margins, scaled(lambda seed, quick: KernelSVM())),
    "nearest neighbours": ("x", read_marginals, scaled(lambda seed, quick: Neighbours())),
    "perceptron": (
        "x",
        read_independent,
        scaled(lambda seed, quick: MLPClassifier(early_stopping=True, random_state=seed)),
    ),
}
METHODS = {**OURS, **RIVALS}
# Our methods, and their controls: models on the same columns that are not joint.
CONTROLS = {
    "CRBM": ("logistic regression", "chains"),
    "CRBM on kernel": ("logistic regression on kernel",),
    "CRBM on forests": (
        "logistic regression on forests",
        "chains on forests",
        "mean of forests",
        "label-powerset trees",
    ),
    "CRBM on forests and kernel": ("logistic regression on forests and kernel",),
    "LMBM": ("logistic regression",),
    "LMBM on kernel": ("logistic regression on kernel",),
    "LMBM on forests": ("logistic regression on forests",),
    "MSSVM on forests": ("logistic regression on forests",),
    "layered model on forests": ("logistic regression on forests",),
}


def fit(data, method, seed, part, quick):
    """Fit a method; return its predictions for the rows to score, as arrays."""
    _, Y, _, Y_test, rows = rows_of(data, seed, part, quick)
    kind, read, make = METHODS[method]
    X, X_test, before = columns_of(data, seed, part, quick, kind)
    model, seconds = timed(lambda: make(seed, quick).fit(X, Y))
    print(f"  fitted in {before:.1f} + {seconds:.1f} s", flush=True)
    return {
        "fit_seconds": before + seconds,
        "truth": Y_test.astype(np.int8),
        "rows": rows,
        "n_trees": 20 if quick else 500,
        "has_empty": bool((Y.sum(axis=1) == 0).any()),
        **read(model, X_test, Y_test),
    }
