"""One policy of the index for rows and items of X and of the arguments beside it; groups."""

import numpy as np
import pandas as pd
import pytest
from reference.every_estimator import data_of, model_of, of_form
from sklearn.model_selection import GroupKFold
from sklearn.multioutput import MultiOutputClassifier
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from skcrbm import CRBMClassifier
from skcrbm.annotation import find_label_issues, suggest_labels
from skcrbm.calibration import ConformalLabelSets
from skcrbm.decoding import fit_thresholds
from skcrbm.metrics import item_scorer, masked_score, masked_scorer
from skcrbm.model_selection import (
    GridSearchCV,
    MultilabelStratifiedGroupKFold,
    MultilabelStratifiedKFold,
    cross_val_predict,
    cross_val_score,
    multilabel_train_test_split,
)
from skcrbm.pipeline import SequenceTransformer, make_pipeline

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
    of_weight = OTHER_ORDER.format("sample_weight", "[Xy]")
    crbm = CRBMClassifier(alpha=0.1, max_iter=2)
    proba = y * 0.5 + 0.2
    calls += [
        (of_weight, lambda: crbm.fit(X.to_numpy(), y, weight)),
        (of_weight, lambda: find_label_issues(TREE, X, y, sample_weight=weight, cv=2)),
        (of_weight, lambda: cross_val_score(crbm, X, y, params={"sample_weight": weight})),
        (of_weight, lambda: GridSearchCV(crbm, {}).fit(X, y, sample_weight=weight)),
        (of_weight, lambda: make_pipeline(crbm).fit(X, y, crbmclassifier__sample_weight=weight)),
        (of_groups, lambda: cross_val_score(crbm, X, y, groups=groups.set_axis(other))),
        (of_groups, lambda: GridSearchCV(crbm, {}).fit(X, y, groups=groups.set_axis(other))),
        (of_groups, lambda: find_label_issues(TREE, X, y, groups=groups.set_axis(other))),
        (OTHER_ORDER.format("proba", "y"), lambda: fit_thresholds(moved, proba)),
        (of_weight, lambda: fit_thresholds(y, proba, sample_weight=weight)),
        (
            OTHER_ORDER.format("cost", "X"),
            lambda: suggest_labels(TREE.fit(X, y), X, strategy="entropy", cost=moved + 1),
        ),
        (of_y, lambda: masked_scorer("accuracy")(TREE.fit(X, y), X, moved)),
    ]
    of_weight = of_weight.replace("sample_weight", "crbmclassifier__sample_weight")
    calls[-8] = (of_weight, calls[-8][1])
    for message, call in calls:
        with pytest.raises(ValueError, match=message):
            call()
    sets.fit(X, y)
    with pytest.raises(ValueError, match=of_y):
        sets.contains(X, moved)


def of_lists(name):
    """Return a model, X of data frames, labels, and weights of items, all with the same indices."""
    model = model_of(name)
    X, y = data_of(name, 6)
    index = [f"item {i}" for i in range(4)]
    weight = [np.arange(1.0, 5) + i for i in range(6)]
    if name == "GridCRF":
        X = [pd.DataFrame(image[:, :, 0], index[:2]) for image in X]
        y = [pd.DataFrame(labels, index[:2]) for labels in y]
        return model, X, y, [pd.DataFrame(w.reshape(2, 2), index[:2]) for w in weight]
    if name == "GraphCRF":
        X = [graph._replace(nodes=pd.DataFrame(graph.nodes, index)) for graph in X]
    else:
        X = [pd.DataFrame(x, index) for x in X]
    return model, X, [pd.Series(v, index) for v in y], [pd.Series(w, index) for w in weight]


def backwards(parts, place):
    """The parts, with the items of one part in the opposite order."""
    return [part[::-1] if i == place else part for i, part in enumerate(parts)]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", ["ChainCRF", "GraphCRF", "GridCRF"])
def test_items_in_another_order_are_refused(name):
    """The items of sequences, graphs and images follow the policy of the rows of tables."""
    model, X, y, weight = of_lists(name)
    place = r"X\[2\]\.nodes" if name == "GraphCRF" else r"X\[2\]"
    of_y, of_weight = (OTHER_ORDER.format(rf"{n}\[2\]", place) for n in ("y", "sample_weight"))
    wrong = backwards(y, 2)
    with pytest.raises(ValueError, match=of_y + r".*y\[2\]\.loc\[X\[2\]"):
        model.fit(X, wrong)
    with pytest.raises(ValueError, match=of_y):
        model.fit(iter(X), iter(wrong))
    with pytest.raises(ValueError, match=of_weight):
        model.fit(X, y, backwards(weight, 2))
    plain = [part.to_numpy() for part in y]
    expected = model.fit(X, plain, weight).coef_
    np.testing.assert_array_equal(model.fit(X, y, weight).coef_, expected)
    for ask in (model.score, model.score_samples, item_scorer("accuracy").__call__):
        args = (model, X) if "Scorer" in type(getattr(ask, "__self__", None)).__name__ else (X,)
        with pytest.raises(ValueError, match=of_y):
            ask(*args, wrong)
    with pytest.raises(ValueError, match=of_weight):
        model.score(X, y, backwards(weight, 2))
    with pytest.raises(ValueError, match=of_weight):
        item_scorer("accuracy")(model, X, plain, sample_weight=backwards(weight, 2))
    arrays = [
        x._replace(nodes=x.nodes.to_numpy()) if name == "GraphCRF" else x.to_numpy() for x in X
    ]
    with pytest.raises(ValueError, match=OTHER_ORDER.format(r"sample_weight\[2\]", r"y\[2\]")):
        model.fit(arrays, y, backwards(weight, 2))
    with pytest.raises(ValueError, match=of_y):
        cross_val_predict(model, X, wrong, cv=2)
    # Known labels are matched by the index, as in tables.
    known = [part.where(np.arange(part.size).reshape(part.shape) == 0) for part in y]
    answers = model.predict_proba(X, y_known=[part.to_numpy() for part in known])
    for given in (known, backwards(known, 2)):
        for found, other in zip(model.predict_proba(X, y_known=given), answers):
            np.testing.assert_array_equal(found, other)
    assert item_scorer("accuracy")(model, X, y, y_known=backwards(known, 2)) == model.score(
        X, y, y_known=known
    )
    known[2] = known[2].set_axis(range(len(known[2])))
    with pytest.raises(ValueError, match=rf"rows of y_known\[2\] cannot be matched .* {place}"):
        model.predict(X, y_known=known)
    model.fit(X, [part.set_axis(range(len(part))) for part in y])  # the index has no labels of X


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_parts_of_a_graph_in_another_order():
    model, X, y, _ = of_lists("GraphCRF")
    edges = pd.DataFrame(X[0].edges, ["u", "v", "w"], columns=["from", "to"])
    features = pd.DataFrame({"f": [1.0, 2.0, 3.0]}, edges.index)
    types = pd.Series(list("mnmn"), X[0].nodes.index)
    X = [graph._replace(edges=edges, edge_features=features, node_types=types) for graph in X]
    model.fit(X, y)
    for part, beside in (("edge_features", "edges"), ("node_types", "nodes")):
        wrong = [*X[:5], X[5]._replace(**{part: getattr(X[5], part)[::-1]})]
        message = OTHER_ORDER.format(rf"X\[5\]\.{part}", rf"X\[5\]\.{beside}")
        with pytest.raises(ValueError, match=message):
            model.fit(wrong, y)


def test_pipelines_of_lists_keep_the_index():
    _, X, y, _ = of_lists("ChainCRF")
    X = [x.rename(columns=str) for x in X]
    for scaler in (StandardScaler(), StandardScaler().set_output(transform="pandas")):
        model = make_pipeline(SequenceTransformer(scaler), model_of("ChainCRF"))
        with pytest.raises(ValueError, match=OTHER_ORDER.format(r"y\[2\]", r"X\[2\]")):
            model.fit(X, backwards(y, 2))
        other = [x.set_axis(range(3, 7)) for x in X]
        model.fit(other, [part.set_axis(x.index) for part, x in zip(y, other)])


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA, pd.NaT])
def test_a_row_without_a_group(missing):
    X, Y = (values.to_numpy() for values in small("CRBMClassifier")[1:])
    groups = np.array(["a", "b"] * 12, object)
    groups[5] = missing
    masked = np.ma.masked_array(np.arange(24), np.arange(24) == 5)
    containers = [groups, groups.tolist(), pd.Series(groups), pd.Series(groups, dtype="string")]
    containers.append(masked)
    sets = ConformalLabelSets(TREE, cv=2, confidence=0.5)
    for given in containers:
        for call in (
            lambda given=given: sets.fit(X, Y, groups=given),
            lambda given=given: next(MultilabelStratifiedGroupKFold(2).split(X, Y, given)),
            lambda given=given: multilabel_train_test_split(X, Y, groups=given),
            lambda given=given: cross_val_predict(TREE, X, Y, groups=given),
            lambda given=given: cross_val_score(TREE, X, Y[:, 0], groups=given),
            lambda given=given: GridSearchCV(TREE, {}, cv=GroupKFold(2)).fit(X, Y, groups=given),
        ):
            with pytest.raises(ValueError, match="groups names no group for row 5"):
                call()
    with pytest.raises(ValueError, match="params holds groups"):
        cross_val_score(TREE, X, Y, params={"groups": ["a", "b"] * 12})
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
