"""The validation of y: accepted forms, encoding and decoding, and every refusal."""

import re

import numpy as np
import pandas as pd
import pytest
from reference.early_end import others
from scipy import sparse
from sklearn.exceptions import DataConversionWarning

from skcrbm import CRBMClassifier
from skcrbm.targets.indicator import indicator_with_nan
from skcrbm.targets.kinds import BinaryTargets, MulticlassTargets, make_targets

NAN = np.nan
INDICATOR = np.array([[0, 1, 1], [1, 0, 0], [0, 0, 0]])


@pytest.mark.parametrize(
    "convert",
    [
        np.asarray,
        lambda y: y.astype(bool),
        lambda y: y.astype(np.float32),
        lambda y: y.astype(np.uint8),
        lambda y: y.astype(object),
        np.ndarray.tolist,
        lambda y: pd.DataFrame(y, columns=list("abc")),
        sparse.csr_matrix,
        sparse.csc_array,
    ],
    ids=["int", "bool", "float32", "uint8", "object", "list", "frame", "csr", "csc_array"],
)
def test_indicator_matrices(convert):
    y = convert(INDICATOR)
    targets = make_targets(y)
    assert targets.multilabel
    assert targets.n_visible == 3
    np.testing.assert_array_equal(targets.classes, range(3))
    visible = targets.encode(y)
    assert visible.dtype == np.float64
    np.testing.assert_array_equal(visible, INDICATOR)
    decoded = targets.decode(visible)
    assert decoded.dtype.kind == "i"
    np.testing.assert_array_equal(decoded, INDICATOR)


@pytest.mark.parametrize("missing", [NAN, None])
def test_missing_entries(missing):
    y = [[0, missing, 1], [missing, missing, missing]]
    expected = [[0, NAN, 1], [NAN, NAN, NAN]]
    np.testing.assert_array_equal(make_targets(y).encode(y), expected)
    frame = pd.DataFrame(y)
    np.testing.assert_array_equal(make_targets(frame).encode(frame), expected)


def test_encode_does_not_touch_its_argument():
    y = np.array([[0.0, NAN], [1.0, 1.0]])
    make_targets(y).encode(y)[:] = 7
    np.testing.assert_array_equal(y, [[0, NAN], [1, 1]])


LISTED = r"^y holds sets, or lists of different lengths, .*MultiLabelBinarizer\(\).fit_transform"
BAD_INDICATORS = {
    "minus_one": (
        [[-1, 1], [1, 1]],
        r"-1 and \+1. If -1 means unknown, .* if it means off, convert with \(y \+ 1\) / 2",
    ),
    "minus_one_and_nan": ([[-1, NAN], [1, 1]], r"\(y \+ 1\) / 2"),
    "yes_and_no": ([["yes", "no"], ["no", "no"]], "strings: convert it with y == 'yes'$"),
    "yes_no_and_none": (
        [["yes", None], ["no", "no"]],
        "y == 'yes', and put NaN where it is missing",
    ),
    "digits": ([["1", "0"], ["1", "1"]], "strings: convert it with y == '1'$"),
    "yes_frame": (pd.DataFrame([["yes", "no"], ["no", "no"]]), "convert it with y == 'yes'$"),
    "words_frame": (pd.DataFrame([["m", "yes"], ["f", "no"]]), r"as in y\[column\] == 'yes'"),
    "pairs_of_labels": ([("sun", "sea"), ("sea", "wind")], r"y = MultiLabelBinarizer\(\)"),
    "gaps": ([["1", "?"], ["1", "1"]], "strings: if '\\?' marks missing labels, put NaN"),
    "objects": (np.array([["a", 1], [0, 1]], dtype=object), "holds strings"),
    "sets": ([{"sun"}, {"sea", "sun"}], LISTED),
    "tuples": ([("sun", "sea", "wind"), ("sea",)], LISTED),
    "numbers": ([[1, 2, 4], [3]], LISTED),
    "some_empty": ([[], ["sun"]], LISTED),
    "series_of_lists": (pd.Series([["sun"], ["sea"]]), LISTED),
    "lists_of_one_length": ([[1, 4], [3, 2]], "lists of distinct numbers.*MultiLabelBinarizer"),
    "column_with_nan": ([[1], [NAN]], "y contains NaN or infinity. A y with a single column is"),
    "column_frame": (pd.DataFrame({"a": [None, 1]}, dtype=object), "A y with a single column is"),
    "two": ([[0, 2], [1, 1]], "cross_val_predict"),
    "two_and_nan": ([[0, 2], [NAN, 1]], "cross_val_predict"),
    "inf": ([[0, np.inf], [1, 1]], "holds infinity"),
    "minus_inf": ([[0, -np.inf], [2, 1]], "holds infinity"),
    "fractions": ([[0.2, 0.8], [1, 0]], r"other values: 0, 0\.2, 0\.8, 1\. .*continuous"),
    "three": ([[0, 3], [1, 1]], "other values: 0, 1, 3"),
    "complex": (np.array([[1j, 0], [0, 1]]), "values of type complex128"),
    "dates": (np.zeros((2, 2), "datetime64[s]"), "values of type datetime64"),
    "nothing_observed": ([[NAN, NAN], [NAN, NAN]], "no observed entry"),
    "no_outputs": (np.zeros((2, 0)), "at least one output"),
    "cube": (np.zeros((2, 2, 2)), "one or two dimensions, got 3"),
    "scalar": (1, "a row for each sample, got int"),
    "none": (None, "requires y"),
}


@pytest.mark.parametrize("name", BAD_INDICATORS)
def test_bad_y(name):
    y, message = BAD_INDICATORS[name]
    with pytest.raises(ValueError, match=message):
        make_targets(y)
    # And nothing gets in the way of this message on its way to the user.
    with pytest.raises(ValueError, match=message):
        CRBMClassifier(max_iter=1).fit(np.eye(2), y)


def test_errors_name_the_argument():
    with pytest.raises(ValueError, match=r"^y_known must be a 0/1 indicator matrix"):
        indicator_with_nan([[3, 0]], "y_known")


def test_another_number_of_outputs():
    targets = make_targets(INDICATOR)
    for y in (INDICATOR[:, :2], INDICATOR[:, 0], INDICATOR.tolist()[0]):
        with pytest.raises(ValueError, match=re.escape("must have shape (n_samples, 3)")):
            targets.encode(y)


@pytest.mark.parametrize(
    "classes",
    [
        np.array([False, True]),
        np.array([-1, 1]),
        np.array([3.0, 7.0]),
        np.array(["no", "yes"]),
        np.array(["no", "yes"], dtype=object),
        np.array([2, 5, 9]),
        np.array(["a", "b", "c", "d"]),
    ],
    ids=["bool", "signs", "floats", "strings", "objects", "three", "four_strings"],
)
def test_class_vectors(classes):
    y = classes[np.arange(9) % len(classes)]
    targets = make_targets(y)
    np.testing.assert_array_equal(targets.classes, classes)
    visible = targets.encode(y)
    index = np.arange(9) % len(classes)
    if len(classes) == 2:
        assert isinstance(targets, BinaryTargets)
        np.testing.assert_array_equal(visible, index[:, None])
    else:
        assert isinstance(targets, MulticlassTargets)
        np.testing.assert_array_equal(visible, np.eye(len(classes))[index])
    decoded = targets.decode(visible)
    assert decoded.dtype == classes.dtype
    np.testing.assert_array_equal(decoded, y)


def test_pandas_class_vectors():
    for y in (pd.Series(list("abca")), pd.Series(list("abca"), dtype="category")):
        targets = make_targets(y)
        assert targets.classes.tolist() == ["a", "b", "c"]
        np.testing.assert_array_equal(targets.encode(y).argmax(1), [0, 1, 2, 0])


def test_a_single_class():
    targets = make_targets([4, 4])
    assert isinstance(targets, MulticlassTargets)
    np.testing.assert_array_equal(targets.encode([4, 4, 4]), np.ones((3, 1)))
    np.testing.assert_array_equal(targets.decode(np.ones((2, 1))), [4, 4])


def test_given_classes():
    targets = make_targets(["b", "b"], classes=["c", "a", "b"])
    assert targets.classes.tolist() == ["a", "b", "c"]
    np.testing.assert_array_equal(targets.encode(["b", "c"]), [[0, 1, 0], [0, 0, 1]])
    with pytest.raises(ValueError, match=r"classes that the model does not know: \['d'\]"):
        targets.encode(["a", "d"])


@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_matrix, pd.DataFrame])
def test_a_column_is_a_class_vector(convert):
    column = convert(np.array([[0], [1], [1]]))
    with pytest.warns(DataConversionWarning, match="column-vector y") as record:
        model = CRBMClassifier(n_hidden=0, max_iter=1).fit(np.eye(3), column)
    assert len(others(record)) == 1
    np.testing.assert_array_equal(model.classes_, [0, 1])
    assert model.predict(np.eye(3)).shape == (3,)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([0, NAN, 1], "y contains NaN"),
        ([0, np.inf, 1], "y contains NaN or infinity"),
        ([[0], [NAN], [1]], "y contains NaN"),
        (np.array(["a", None, "b"], dtype=object), "y contains NaN or None"),
        (np.array(["a", NAN, "b"], dtype=object), "y contains NaN or None"),
        ([0.3, 0.5, 1.2], "Unknown label type: continuous"),
    ],
)
def test_bad_class_vectors(y, message):
    with pytest.raises(ValueError, match=message):
        make_targets(y)


def test_pandas_na_is_not_observed():
    y = pd.DataFrame(
        {
            "a": pd.array([1, None, 0], dtype="Int64"),
            "b": pd.array([True, False, None], dtype="boolean"),
            "c": [0, 1, 1],
        }
    )
    expected = [[1, 1, 0], [np.nan, 0, 1], [0, np.nan, 1]]
    np.testing.assert_array_equal(make_targets(y).encode(y), expected)


def test_classes_of_several_types_are_refused():
    with pytest.raises(ValueError, match="y must hold labels of a single, sortable type"):
        make_targets(np.array(["a", 1, "a"], dtype=object))


def test_a_1d_y_has_no_known_labels_and_is_not_multilabel():
    targets = make_targets(np.array([0, 1, 1]))
    targets.check_known(None, np.zeros((3, 1)))
    with pytest.raises(ValueError, match="y_known is for 2-D indicator y"):
        targets.check_known(np.zeros((3, 1)), np.zeros((3, 1)))
    with pytest.raises(ValueError, match="predict_topk is for 2-D y"):
        targets.require_multilabel("predict_topk")
    make_targets(np.eye(3)).require_multilabel("predict_topk")


def test_exact_ties_go_to_the_first_class_or_to_on():
    np.testing.assert_array_equal(
        make_targets(np.array([3, 5])).labels(np.array([[0.0], [1e-9], [-1e-9]])), [3, 5, 3]
    )


def test_classes_that_a_classifier_did_not_see_have_probability_0():
    targets = make_targets(np.array(["a", "b", "c"]))
    full = targets.marginals(np.array([[0.25, 0.75]]), classes=np.array(["a", "c"]))
    np.testing.assert_array_equal(full, [[0.25, 0, 0.75]])
    whole = np.array([[0.2, 0.3, 0.5]])
    np.testing.assert_array_equal(targets.marginals(whole), whole)
    np.testing.assert_array_equal(targets.marginals(whole, classes=targets.classes), whole)


def test_later_classes_must_be_the_first_ones():
    targets = make_targets(np.array([3, 5]))
    targets.check_classes(None)
    targets.check_classes([5, 3])
    with pytest.raises(ValueError, match=r"differs from the classes of the first call.*\[3, 5\]"):
        targets.check_classes([3, 4])


@pytest.mark.filterwarnings("error")
def test_only_a_column_warns():
    targets = make_targets(np.array([0, 1]))
    np.testing.assert_array_equal(targets.for_classifier([0, 1, 1]), [0, 1, 1])
    with pytest.raises(DataConversionWarning):
        targets.for_classifier(np.array([[0], [1]]))
