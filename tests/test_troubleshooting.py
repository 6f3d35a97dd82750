"""Each heading of the page of troubleshooting is a message that users see."""

import re
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score
from sklearn.model_selection import StratifiedKFold, cross_val_score, train_test_split
from sklearn.multioutput import MultiOutputClassifier
from sklearn.svm import LinearSVC

from skcrbm import ChainCRF, CRBMClassifier, DecodedClassifier
from skcrbm.constraints import Constrained, Implies
from skcrbm.energies import IsingEnergy
from skcrbm.inference import infer
from skcrbm.model_selection import MultilabelStratifiedKFold

PAGE = Path(__file__).parents[1] / "doc" / "troubleshooting.md"
HEADINGS = re.findall(r"^### `(.*)`$", PAGE.read_text(encoding="utf-8"), re.M)

RNG = np.random.RandomState(0)
X = RNG.normal(size=(24, 3))
Y = np.tile([[0, 1], [1, 0], [1, 1], [0, 0]], (6, 1))
GAPS = np.where(np.arange(48).reshape(24, 2) % 5 == 0, np.nan, Y)
FRAME = pd.DataFrame(X, columns=list("abc"))
WRONG = {value: np.where(np.arange(72).reshape(24, 3) == 4, value, X) for value in (np.nan, np.inf)}


def crbm(**options):
    return CRBMClassifier(n_hidden=0, **{"alpha": 1.0, "max_iter": 2, **options})


def scored(y, scoring, cv):
    return cross_val_score(crbm(), X, y, cv=cv, scoring=scoring, error_score="raise")


FOLDS = MultilabelStratifiedKFold(2)
# A call for each heading, in the order of the page.
CALLS = {
    "Input y contains NaN.": lambda: scored(GAPS, None, 2),
    "Input y_true contains NaN.": lambda: scored(GAPS, "f1_samples", FOLDS),
    "Target is multilabel-indicator but average='binary'": lambda: scored(Y, "f1", 2),
    "The y_prob values do not sum to one": lambda: scored(Y, "neg_log_loss", 2),
    "multiclass-multioutput is not supported": lambda: f1_score(
        [["a", "c"], ["b", "d"]], [["a", "c"], ["b", "d"]], average="macro"
    ),
    "The least populated class": lambda: train_test_split(X, np.eye(24), stratify=np.eye(24)),
    "Supported target types are: ('binary', 'multiclass'). Got 'multilabel-indicator' instead.": (
        lambda: next(StratifiedKFold(2).split(X, Y))
    ),
    "needs rows of both values of each label": lambda: DecodedClassifier(
        MultiOutputClassifier(LogisticRegression())
    ).fit(X, np.maximum(Y, [0, 1])),
    "it holds lists of distinct numbers": lambda: crbm().fit(X, [(0, 2), (1, 2)] * 12),
    "y holds lists of strings.": lambda: crbm().fit(X, [["a", "b"], ["b", "c"]] * 12),
    "y holds sets, or lists of different lengths": lambda: crbm().fit(X, [["a"], ["b", "c"]] * 12),
    "it holds -1 and +1": lambda: crbm().fit(X, 2 * Y - 1),
    "y holds labels whose observed entries are all equal": lambda: crbm().fit(
        X, np.where(Y == 0, np.nan, Y)
    ),
    "only a 2-D indicator y may hold NaN": lambda: crbm().fit(X, GAPS[:, 0]),
    "takes a 1-D y only": lambda: DecodedClassifier(LogisticRegression()).fit(X, Y),
    "Found input variables with inconsistent numbers of samples": lambda: crbm().fit(X[1:], Y),
    "Input X contains NaN": lambda: crbm().fit(WRONG[np.nan], Y),
    "Input X contains infinity": lambda: crbm().fit(WRONG[np.inf], Y),
    "X holds texts.": lambda: crbm().fit(["a film", "a song"] * 12, Y),
    "X holds text in the column": lambda: crbm().fit(FRAME.assign(d=["red", "blue"] * 12), Y),
    "Expected 2D array, got 1D array instead": lambda: crbm().fit(X[:, 0], Y),
    "features, but CRBMClassifier is expecting": lambda: crbm().fit(X, Y).predict(X[:, :2]),
    "The feature names should match those that were passed during fit.": (
        lambda: crbm().fit(FRAME, Y).predict(FRAME[["c", "b", "a"]])
    ),
    "got an unexpected keyword argument": lambda: crbm(C=1.0),
    "needs an object with options": lambda: crbm(solver="adam").set_params(
        solver__learning_rate=0.1
    ),
    "must be an object implementing 'fit' and 'predict_proba'": (
        lambda: DecodedClassifier(LinearSVC()).fit(X, Y)
    ),
    "rules should be a list of rules": (
        lambda: Constrained(LogisticRegression(), Implies(0, 1)).fit(X, Y)
    ),
    "Training ended after max_iter": lambda: crbm(alpha=1e-6, max_iter=1).fit(X, Y),
    "'exact' enumerates the free labels": lambda: infer(
        IsingEnergy(np.ones((60, 60)) - np.eye(60), np.zeros((1, 60))), method="exact"
    ),
    "instance is not fitted yet": lambda: crbm().predict(X),
    "if X holds the positions of a single sequence, pass [X]": (
        lambda: ChainCRF().fit([{"word": "the"}], [["D"]])
    ),
    "got a single table of shape": lambda: ChainCRF().fit(X, Y[:, 0]),
}


def test_each_heading_has_a_call():
    assert list(CALLS) == HEADINGS


@pytest.mark.parametrize("heading", HEADINGS)
def test_a_heading_is_the_message(heading):
    texts = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            CALLS[heading]()
        except Exception as error:
            texts = [str(error)]
    texts += [str(warning.message) for warning in caught]
    assert any(heading in text for text in texts), texts
