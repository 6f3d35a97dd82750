"""Rows of X and of the arguments beside it: one policy of the index, and groups without a name."""

import numpy as np
import pandas as pd
import pytest
from reference.every_estimator import data_of, model_of, of_form
from sklearn.multioutput import MultiOutputClassifier
from sklearn.tree import DecisionTreeClassifier

from skcrbm import CRBMClassifier
from skcrbm.annotation import find_label_issues
from skcrbm.calibration import ConformalLabelSets
from skcrbm.metrics import masked_score
from skcrbm.model_selection import (
    MultilabelStratifiedGroupKFold,
    MultilabelStratifiedKFold,
    cross_val_predict,
    multilabel_train_test_split,
)
from skcrbm.pipeline import make_pipeline

ROWS = [name for name in of_form("rows") if name != "BlendedLabelSets"]
TREE = MultiOutputClassifier(DecisionTreeClassifier(random_state=0))
OTHER_ORDER = r"^The rows of {} and of {} have the labels of each other in another order"
# Indices of X, and an index of the argument with the same or some of the labels.
INDICES = {
    "names": ([f"row {i}" for i in range(24)], [f"row {i}" for i in reversed(range(24))]),
    "numbers": (range(24), list(reversed(range(24)))),
    "shuffled X": (list(reversed(range(24))), range(24)),
    "shifted": (range(1, 25), range(2, 26)),
    "twice": ([*range(12), *range(12)], [*range(12), *reversed(range(12))]),
}


def framed(values, index, prefix="c"):
    if values.ndim == 1:
        return pd.Series(values, index)
    return pd.DataFrame(values, index, columns=[f"{prefix}{i}" for i in range(values.shape[1])])


def small(name, index=range(24)):
    model = model_of(name)
    X, y = data_of(name, 24)
    if hasattr(model, "cv"):
        model.set_params(cv=2)
    if "estimator" in model.get_params(deep=False) and name not in ("OutOfBagLogOdds",):
        model.set_params(estimator=TREE)  # also takes labels with a single value in a fold
    X = framed(X, index, "x")
    return model, X, None if y is None else framed(y, index)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore:.*rows of y violate")
@pytest.mark.parametrize("name", [*ROWS, *of_form("states")])
@pytest.mark.parametrize("case", ["names", "numbers"])
def test_rows_in_another_order_are_refused(name, case):
    index, other = INDICES[case]
    model, X, y = small(name, index)
    weight = framed(np.arange(1.0, 25), index)
    fit = (lambda *args: model.fit(X, *args)) if y is not None else lambda: model.fit(X)
    if y is not None:
        with pytest.raises(ValueError, match=OTHER_ORDER.format("y", "X")):
            fit(y.set_axis(other))
    if name != "Pipeline":
        args = () if y is None else (y,)
        with pytest.raises(ValueError, match=OTHER_ORDER.format("sample_weight", "X")):
            model.fit(X, *args, sample_weight=weight.set_axis(other))
    fit() if y is None else fit(y)
    if y is None or not hasattr(model, "score"):
        return
    with pytest.raises(ValueError, match=OTHER_ORDER.format("y", "X")):
        model.score(X, y.set_axis(other))
    with pytest.raises(ValueError, match=OTHER_ORDER.format("sample_weight", "X")):
        model.score(X, y, sample_weight=weight.set_axis(other))
    if hasattr(model, "score_samples"):
        with pytest.raises(ValueError, match=OTHER_ORDER.format("y", "X")):
            model.score_samples(X, y.set_axis(other))
    if hasattr(model, "partial_fit"):
        with pytest.raises(ValueError, match=OTHER_ORDER.format("y", "X")):
            model.partial_fit(X, y.set_axis(other))


@pytest.mark.parametrize("case", INDICES)
def test_which_indices_are_refused(case):
    index, other = INDICES[case]
    model, X, y = small("CRBMClassifier", index)
    expected = model.fit(X, y).coef_ if model.n_hidden == 0 else model.fit(X, y).visible_coef_
    with pytest.raises(ValueError, match=r"y\.loc\[X\.index\].*y\.set_axis\(X\.index\)"):
        model.fit(X, y.set_axis(other))
    for values in (
        y.set_axis(other).set_axis(X.index),
        y.set_axis([f"other {i}" for i in range(24)]),  # labels that have nothing in common
        y.to_numpy(),
    ):
        np.testing.assert_array_equal(model.fit(X, values).visible_coef_, expected)
    split = X.set_axis([3 * i for i in range(24)])  # such as a part of a larger table
    np.testing.assert_array_equal(
        model.fit(split, y.reset_index(drop=True)).visible_coef_, expected
    )


def test_the_same_policy_elsewhere():
    index, other = INDICES["names"]
    _, X, y = small("CRBMClassifier", index)
    moved, weight = y.set_axis(other), framed(np.ones(24), other)
    groups = framed(np.arange(24) // 2, index)
    of_y, of_groups = OTHER_ORDER.format("y", "X"), OTHER_ORDER.format("groups", "[Xy]")
    calls = [
        (of_y, lambda: make_pipeline(CRBMClassifier(alpha=0.1)).fit(X, moved)),
        (of_y, lambda: find_label_issues(TREE, X, moved, cv=2)),
        (of_y, lambda: cross_val_predict(TREE, X, moved, cv=2)),
        (of_y, lambda: multilabel_train_test_split(X, moved)),
        (of_y, lambda: next(MultilabelStratifiedKFold(2).split(X, moved))),
        (of_groups, lambda: cross_val_predict(TREE, X, y, groups=groups.set_axis(other))),
        (of_groups, lambda: multilabel_train_test_split(X, y, groups=groups.set_axis(other))),
        (
            of_groups,
            lambda: next(MultilabelStratifiedGroupKFold(2).split(X, y, groups.set_axis(other))),
        ),
        (
            OTHER_ORDER.format("y_pred", "y_true"),
            lambda: masked_score("accuracy", y, y_pred=moved),
        ),
        (
            OTHER_ORDER.format("sample_weight", "y_true"),
            lambda: masked_score("accuracy", y, y_pred=y, sample_weight=weight),
        ),
    ]
    sets = ConformalLabelSets(TREE, cv=2, confidence=0.5, random_state=0)
    calls.append((of_groups, lambda: sets.fit(X, y, groups=groups.set_axis(other))))
    for message, call in calls:
        with pytest.raises(ValueError, match=message):
            call()
    sets.fit(X, y)
    with pytest.raises(ValueError, match=of_y):
        sets.contains(X, moved)


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA, pd.NaT])
def test_a_row_without_a_group(missing):
    X, Y = (values.to_numpy() for values in small("CRBMClassifier")[1:])
    groups = np.array(["a", "b"] * 12, object)
    groups[5] = missing
    containers = [groups, groups.tolist(), pd.Series(groups), pd.Series(groups, dtype="string")]
    sets = ConformalLabelSets(TREE, cv=2, confidence=0.5)
    for given in containers:
        for call in (
            lambda given=given: sets.fit(X, Y, groups=given),
            lambda given=given: next(MultilabelStratifiedGroupKFold(2).split(X, Y, given)),
            lambda given=given: multilabel_train_test_split(X, Y, groups=given),
            lambda given=given: cross_val_predict(TREE, X, Y, groups=given),
        ):
            with pytest.raises(ValueError, match="groups names no group for row 5"):
                call()
    fitted = sets.fit(X, Y, groups=["a", "b"] * 12)
    for ask in (fitted.set_sizes, fitted.predict_sets, lambda X, g: fitted.contains(X, Y, g)):
        with pytest.raises(ValueError, match="groups names no group for row 5"):
            ask(X, groups)
    with pytest.raises(
        ValueError, match=r"groups is an array of text with the label .*dtype=object"
    ):
        fitted.set_sizes(X, groups.astype(str))
    with pytest.raises(ValueError, match=r"groups mixes values of different types: 1, 'a'"):
        sets.fit(X, Y, groups=["a", 1] * 12)
    with pytest.raises(ValueError, match=r"groups must have the shape \(24,\)"):
        sets.fit(X, Y, groups=["a", "b"])
