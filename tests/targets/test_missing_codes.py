"""Missing labels that have become text or a number, and labels in other forms: one gate for all."""

import inspect
import warnings
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from reference.early_end import EARLY_END
from reference.every_estimator import data_of, model_of, of_form
from sklearn.linear_model import LogisticRegression

from skcrbm import ChainCRF, Graph, GraphCRF, LabelGraphCRF
from skcrbm.density import MarkovRandomField
from skcrbm.targets.codes import find_classes

OF_LISTS = [name for name in of_form("sequences", "graphs", "grids") if name.endswith("CRF")]
OF_ROWS = [name for name in of_form("rows") if name not in ("BlendedLabelSets", "Constrained")]
WARNING = r"y.* holds the class {!r}, which often marks missing labels"


def with_labels(name, labels, n=12):
    """Return an estimator, X, and a y with the given labels (48,), in the container of the lists.

    `labels` are a NumPy array, or a pandas series.
    """
    model = model_of(name)
    X, _ = data_of(name, n if name in OF_LISTS else 4 * n)
    if name not in OF_LISTS:
        if hasattr(model, "estimator") and name != "OutOfBagLogOdds":
            model.set_params(estimator=LogisticRegression())
        return model, X, labels
    parts = [labels[4 * i : 4 * i + 4] for i in range(n)]
    if name == "GridCRF":
        parts = [part.to_numpy() if hasattr(part, "iloc") else part for part in parts]
        parts = [part.reshape(2, 2) for part in parts]
    return model, X, parts


def labels_with(value):
    labels = np.array(["a", "b", "b", "a"] * 12, object)
    labels[5] = value
    return labels


@pytest.mark.parametrize("name", OF_LISTS + OF_ROWS)
@pytest.mark.parametrize("value", [np.nan, None, pd.NA, pd.NaT])
def test_text_of_missing_labels(name, value):
    for kind in ("U", "S"):
        model, X, y = with_labels(name, labels_with(value).astype(str).astype(kind))
        with pytest.raises(ValueError, match=r"text with the label .* dtype=object") as error:
            model.fit(X, y)
        assert repr(str(value)) in str(error.value)
        if name in OF_LISTS:
            known = y
            model, X, y = with_labels(name, labels_with("a"))
            with pytest.raises(
                ValueError, match=r"1 of y_known is an array of text with the label"
            ):
                model.fit(X, y).predict(X, y_known=known)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", OF_LISTS)
def test_missing_labels_of_any_kind(name):
    """They are left out, whatever stands for them: the models are the same."""
    expected = None
    as_text = {"dtype": "string"}
    containers = [
        *(labels_with(v) for v in (None, np.nan, pd.NA, pd.NaT, Decimal("nan"))),
        np.ma.masked_array(labels_with("a"), np.arange(48) == 5),
        *(pd.Series(labels_with(None), **dtype) for dtype in ({}, as_text, {"dtype": "category"})),
    ]
    for labels in containers:
        model, X, y = with_labels(name, labels)
        model.fit(X, y)
        assert model.classes_.tolist() == ["a", "b"]
        expected = model if expected is None else expected
        np.testing.assert_array_equal(model.coef_, expected.coef_)


@pytest.mark.parametrize("name", OF_ROWS)
def test_a_vector_of_classes_without_a_label(name):
    frames = [{"dtype": kind} for kind in ("string", "category", "object")]
    containers = [
        *(labels_with(v) for v in (None, np.nan, pd.NA, pd.NaT)),
        labels_with(np.nan).tolist(),  # NumPy would turn NaN into text
        *(pd.Series(labels_with(pd.NA), **kind) for kind in frames),
        pd.Series([0, 1] * 24, dtype="Int64").where(np.arange(48) != 3),
        pd.Series([False, True] * 24, dtype="boolean").where(np.arange(48) != 3),
    ]
    for labels in containers:
        model, X, y = with_labels(name, labels)
        with pytest.raises(ValueError, match="y contains NaN"):
            model.fit(X, y)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", [*OF_LISTS, "CRBMClassifier", "DecodedClassifier"])
def test_numbers_that_may_stand_for_missing_labels(name):
    classes = np.arange(48) % 3
    for code in (-100, 255, -1, 99.0):
        model, X, y = with_labels(name, np.where(np.arange(48) == 5, code, classes))
        with pytest.warns(UserWarning, match=WARNING.format(code)):
            model.fit(X, y)
        assert code in model.classes_
    text = np.where(np.arange(48) == 5, "nan", np.array(list("abc"))[classes]).astype(object)
    model, X, y = with_labels(name, text)
    with pytest.warns(UserWarning, match=WARNING.format("nan")):
        model.fit(X, y)
    for plain in (classes, classes + 1, classes - 2, np.minimum(classes, 1) * 255):
        model, X, y = with_labels(name, plain)
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)
            warnings.simplefilter("ignore", DeprecationWarning)
            warnings.filterwarnings("ignore", EARLY_END)
            model.fit(X, y)


# Classes, and those that probably mark missing labels.
CODES = [
    ([-100, -1, 0, 1, 2], [-100, -1]),
    ([-1, 0, 1, 255], [-1, 255]),
    ([-100, 0, 2], [-100]),
    ([0, 2, 255], [255]),
    ([0, 1, 99, 999], [99, 999]),
    ([-5, 1, 2, 3], [-5]),
    (["0", "1", "-100"], ["-100"]),
    (["0", "1", "255"], ["255"]),
    (["a", "b", "-1"], ["-1"]),
    (["a", "b", " nan"], [" nan"]),
    (["a", "b", "NAN", ""], ["", "NAN"]),
    (["a", "b", "none"], ["none"]),
    (["a", "b", "null", "?"], ["?", "null"]),
    (np.array(["a", "b", np.nan], "U2"), ["na"]),
    (np.array([b"a", b"b", b"NULL"]), [b"NULL"]),
    ([-2, -1, 0, 1], []),
    ([-1, 1], []),
    ([0, 255], []),
    ([0, 128, 255], []),
    ([7, 42, 99], []),
    (["-1", "1"], []),
    (["1", "2", "3"], []),
    (["inf", "name", "nana", "nonel"], []),
]


@pytest.mark.parametrize(("classes", "codes"), CODES, ids=lambda value: str(list(value)))
def test_which_classes_mark_missing_labels(classes, codes):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = find_classes(np.asarray(classes).tolist())
    np.testing.assert_array_equal(found, np.unique(classes))  # they stay classes
    assert len(caught) == bool(codes)
    for warning in caught:
        shown = ", ".join(map(repr, codes))
        assert f" {shown}, which often mark" in str(warning.message)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", [*OF_LISTS, "CRBMClassifier", "DecodedClassifier"])
def test_several_codes(name):
    """The gate sees all classes of all estimators, in arrays of objects, too."""
    for codes, classes in (([-1, -100], [0, 1, 2]), ([" nan", "none"], ["a", "b", "c"])):
        labels = np.array([classes[i % 3] for i in range(48)], int if codes[0] == -1 else object)
        labels[[5, 9]] = codes
        model, X, y = with_labels(name, labels)
        with pytest.warns(UserWarning, match="y.* holds the classes .*, which often mark missing"):
            model.fit(X, y)
        assert set(codes) <= set(model.classes_.tolist())


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", [*of_form("sequences", "graphs", "grids", "images"), *OF_ROWS])
def test_codes_in_known_labels(name):
    """The error says how to write labels that are not known."""
    model = model_of(name)
    if "y_known" not in inspect.signature(getattr(model, "predict", len)).parameters:
        return
    X, y = data_of(name, 24)
    model.fit(X, y)
    rows = [np.where(np.arange(part.size).reshape(part.shape) == 1, part, -1) for part in y]
    if name in OF_LISTS:
        with pytest.raises(ValueError, match=r"holds the label -1, .* Write None or NaN for"):
            model.predict(X, y_known=rows)
        return
    known = np.array(rows)
    known[:, 1] = 1  # -1 and 1 alone could mean off and on
    with pytest.raises(ValueError, match=r"-1 means unknown, put NaN|y_known == -1 marks missing"):
        model.predict(X, y_known=known)


def test_listed_classes_give_no_warning():
    X, y = [np.arange(4.0)[:, None]] * 4, [[0, 1, -1, 1]] * 4
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = ChainCRF(alpha=0.1, solver="adam").partial_fit(X, y, classes=[-1, 0, 1])
    assert model.classes_.tolist() == [-1, 0, 1]
    with pytest.raises(ValueError, match="'nan'"):
        model.partial_fit(X, y, classes=np.array(["a", np.nan]))


def test_columns_of_classes():
    X, text = np.arange(6.0)[:, None], np.array([["a", "x"], ["b", "y"], ["c", "x"]] * 2, object)
    text[0, 1] = None
    assert LabelGraphCRF(alpha=0.1).fit(X, text).classes_[1].tolist() == ["x", "y"]
    with pytest.raises(
        ValueError, match=r"column 1 of y is an array of text with the label 'None'"
    ):
        LabelGraphCRF(alpha=0.1).fit(X, text.astype(str))
    numbers = np.array([[0, 5], [1, 6], [2, 5], [0, 6], [255, 5], [2, 6]])
    with pytest.warns(UserWarning, match="column 0 of y holds the class 255"):
        LabelGraphCRF(alpha=0.1).fit(X, numbers)
    field = MarkovRandomField(categories="auto", max_iter=1)
    with pytest.raises(ValueError, match="X is an array of text with the label 'None'"):
        field.fit(text.astype(str))
    with pytest.warns(UserWarning, match="column 0 of X holds the class 255"):
        field.fit(numbers)


def test_labels_in_other_forms():
    X, y = data_of("ChainCRF", 6)
    one_hot = [np.eye(2)[[0, 1, 0, 1]]] * 6
    for labels in (one_hot, np.array(one_hot), [pd.DataFrame(part) for part in one_hot]):
        with pytest.raises(ValueError, match=r"sequence 0 of y has the shape \(4, 2\).*argmax"):
            ChainCRF().fit(X, labels)
    graphs = [Graph(x, [[0, 1]]) for x in X]
    with pytest.raises(ValueError, match=r"graph 0 of y holds \[1.0, 0.0\], but .*argmax"):
        GraphCRF().fit(graphs, [part.tolist() for part in one_hot])
    grid, images, _ = with_labels("GridCRF", labels_with("a"))
    with pytest.raises(ValueError, match=r"image 0 of y should have the shape .*argmax\(axis=2\)"):
        grid.fit(images, [np.zeros((2, 2, 3))] * 12)
    for labels in ({"a": 1, "b": 2, "c": 3, "d": 4}, {"a", "b", "c", "d"}, "abcd", 3):
        with pytest.raises(ValueError, match="sequence 0 of y should be a list of labels, got"):
            ChainCRF().fit(X, [labels] * 6)
    expected = ChainCRF(alpha=0.1).fit(X, y).coef_
    # A table with a single column; a list of it would be the name of the column.
    for labels in ([part[:, None] for part in y], [pd.DataFrame({"tag": part}) for part in y]):
        np.testing.assert_array_equal(ChainCRF(alpha=0.1).fit(X, labels).coef_, expected)
