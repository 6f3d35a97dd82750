"""A small configuration of every public estimator, and data for it.

Tests of rules that hold for all estimators run over `MODELS`, so that a new estimator without a
configuration fails in `tests/targets/test_feature_names.py`.
"""

import importlib
import inspect

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection._search import BaseSearchCV
from sklearn.multioutput import MultiOutputClassifier
from sklearn.preprocessing import FunctionTransformer

import skcrbm
from skcrbm import (
    MSSVMCRBM,
    ChainCRF,
    CRBMClassifier,
    DecodedClassifier,
    Graph,
    GraphCRF,
    GridCRF,
    ImageCRBM,
    LabelGraphCRF,
    LayeredGMClassifier,
    LMBMClassifier,
    SSVMClassifier,
)
from skcrbm.calibration import CalibratedMarginals, ConformalLabelSets, ConformalRiskControl
from skcrbm.constraints import Constrained, Implies
from skcrbm.density import RBM, IsingModel, LargeMarginMarkovNetwork, MarkovRandomField
from skcrbm.ensemble import BlendedLabelSets, OutOfBagLogOdds, make_stacked
from skcrbm.pipeline import Pipeline, SequenceTransformer

SEEDED = {"random_state": 0}
LOGISTIC = MultiOutputClassifier(LogisticRegression())
STACKED = make_stacked(n_estimators=5, compare=False, **SEEDED)
FOREST = RandomForestClassifier(5, random_state=0)

# For each estimator, the form of its data: "rows" of X with a 2-D y, "states" without y, or lists.
MODELS = {
    "CRBMClassifier": (CRBMClassifier(n_hidden=2, alpha=0.1, max_iter=10, **SEEDED), "rows"),
    "MSSVMCRBM": (MSSVMCRBM(n_hidden=1, alpha=0.1, max_iter=3, **SEEDED), "rows"),
    "LMBMClassifier": (LMBMClassifier(C=1.0, pairwise_penalty=1.0, **SEEDED), "rows"),
    "SSVMClassifier": (SSVMClassifier(C=1.0, **SEEDED), "rows"),
    "LabelGraphCRF": (LabelGraphCRF(alpha=0.1, max_iter=20, **SEEDED), "rows"),
    "LayeredGMClassifier": (
        LayeredGMClassifier(inference="mean_field", max_iter=2, **SEEDED),
        "rows",
    ),
    "ImageCRBM": (ImageCRBM(n_hidden=1, alpha=0.1, max_iter=2, **SEEDED), "images"),
    "ChainCRF": (ChainCRF(alpha=0.1), "sequences"),
    "GraphCRF": (GraphCRF(alpha=0.1, max_iter=5), "graphs"),
    "GridCRF": (GridCRF(max_iter=5, **SEEDED), "grids"),
    "RBM": (RBM(n_hidden=2, max_iter=2, **SEEDED), "states"),
    "IsingModel": (IsingModel(max_iter=2, **SEEDED), "states"),
    "MarkovRandomField": (MarkovRandomField(max_iter=2, **SEEDED), "states"),
    "LargeMarginMarkovNetwork": (LargeMarginMarkovNetwork(C=1.0, **SEEDED), "states"),
    "DecodedClassifier": (DecodedClassifier(LOGISTIC), "rows"),
    "CalibratedMarginals": (CalibratedMarginals(LOGISTIC, cv=3), "rows"),
    "ConformalLabelSets": (ConformalLabelSets(LOGISTIC, cv=3, **SEEDED), "rows"),
    "ConformalRiskControl": (ConformalRiskControl(LOGISTIC, cv=3), "rows"),
    "Constrained": (Constrained(LOGISTIC, [Implies(0, 1)]), "rows"),
    "BlendedLabelSets": (BlendedLabelSets(STACKED, cv=3, **SEEDED), "rows"),
    "OutOfBagLogOdds": (OutOfBagLogOdds(FOREST, cv=3), "rows"),
    "Pipeline": (Pipeline([("model", CRBMClassifier(n_hidden=0, alpha=0.1))]), "rows"),
    "SequenceTransformer": (SequenceTransformer(FunctionTransformer()), "sequences"),
}
PATH = [[0, 1], [1, 2], [2, 3]]


def of_form(*forms):
    """Return the names of the estimators whose data have one of the forms."""
    return [name for name, (_, form) in MODELS.items() if form in forms]


def model_of(name):
    """Return an unfitted estimator with few iterations."""
    return clone(MODELS[name][0])


def data_of(name, n=40, seed=0):
    """Return X and y (None for densities) for an estimator, from n rows.

    The classes of lists are "a" and "b". All columns of X matter.
    """
    rng, form = np.random.default_rng(seed), MODELS[name][1]
    if form in ("rows", "states", "images"):
        X = rng.normal(size=(n, 3))
        Y = (X + 0.3 * rng.normal(size=(n, 3)) > 0).astype(int)
        Y[:, 1] |= Y[:, 0]
        if form == "states":
            return Y, None
        return X, Y.repeat(2, axis=1).reshape(n, 2, 3) if form == "images" else Y
    values = rng.normal(size=(n, 4, 2))
    y = [np.where(x[:, 0] > 0.2 * x[:, 1], "b", "a").astype(object) for x in values]
    if form == "sequences":
        return list(values), y
    if form == "graphs":
        return [Graph(x, PATH) for x in values], y
    return [x.reshape(2, 2, 2) for x in values], [labels.reshape(2, 2) for labels in y]


def public_estimators():
    """The estimators of all packages, by name, without searches, which are scikit-learn's."""
    found = {}
    for name in ("skcrbm", *(f"skcrbm.{part}" for part in skcrbm.__dir__())):
        try:
            module = importlib.import_module(name)
        except ImportError:  # a name that is not a module
            continue
        for public in getattr(module, "__all__", ()):
            value = getattr(module, public)
            if (
                inspect.isclass(value)
                and issubclass(value, BaseEstimator)
                and hasattr(value, "fit")
                and not issubclass(value, BaseSearchCV)
            ):
                found[public] = value
    return found
