"""Inputs that a new user tries: each is read as it is meant, or refused with the way that works."""

import warnings

import numpy as np
import pandas as pd
import pytest
from reference.cases import deep
from reference.every_estimator import data_of, model_of, of_form
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import make_multilabel_classification
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import MultiOutputClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skcrbm import (
    ChainCRF,
    CRBMClassifier,
    DecodedClassifier,
    Graph,
    GraphCRF,
    GridCRF,
    ImageCRBM,
    LMBMClassifier,
)
from skcrbm.calibration import CalibratedMarginals, ConformalLabelSets, ConformalRiskControl
from skcrbm.constraints import Constrained, Implies
from skcrbm.decoding import decode_marginals
from skcrbm.density import IsingModel
from skcrbm.ensemble import OutOfBagLogOdds
from skcrbm.metrics import marginal_log_loss, masked_score
from skcrbm.model_selection import (
    MultilabelStratifiedKFold,
    MultilabelStratifiedShuffleSplit,
    cross_val_predict,
)

CRBM = CRBMClassifier(n_hidden=0, alpha=0.1)
FOREST = RandomForestClassifier(5, random_state=0)
OUTER = [
    CRBM,
    ImageCRBM(n_hidden=0, alpha=0.05, max_iter=1),
    DecodedClassifier(FOREST),
    CalibratedMarginals(FOREST, cv=2),
    OutOfBagLogOdds(FOREST),
]
names = {"ids": lambda value: type(value).__name__}


@pytest.fixture(scope="module")
def data():
    return make_multilabel_classification(60, 5, n_classes=4, random_state=0)


@pytest.fixture(scope="module")
def gaps(data):
    Y = data[1].astype(float)
    Y[0, 0] = Y[3, 1] = np.nan
    return Y


# ------------------------------------------------------------------ codes of missing labels, tags


@pytest.mark.parametrize("code", [-1, -999, 9])
def test_codes_of_missing_labels(data, gaps, code):
    coded = np.where(np.isnan(gaps), code, gaps)
    with pytest.raises(ValueError, match=rf"NaN in their place, as in np\.where\(y == {code}, "):
        CRBM.fit(data[0], coded)
    pd = pytest.importorskip("pandas")
    with pytest.raises(ValueError, match=rf"NaN in their place, as in y\.mask\(y == {code}\)"):
        CRBM.fit(data[0], pd.DataFrame(coded))
    coded[5, 2] = -2
    if code < 0:
        with pytest.raises(ValueError, match=r"np\.where\(y < 0, np\.nan, y\)"):
            CRBM.fit(data[0], coded)


@pytest.mark.parametrize(
    "tags",
    [[["a", "b"], ["b", "a"]], [("a", "b"), ("a", "c")], [["a"], ["a", "b"]], [{"a"}, {"b"}]],
)
def test_lists_of_tags(data, tags):
    X, y = data[0], tags * 30
    for ask in (
        lambda: CRBM.fit(X, y),
        lambda: cross_val_predict(CRBM, X, y),
        lambda: next(MultilabelStratifiedKFold(2).split(X, y)),
        lambda: next(MultilabelStratifiedShuffleSplit(2).split(X, y)),
    ):
        with pytest.raises(ValueError, match=r"y = MultiLabelBinarizer\(\)\.fit_transform\(y\)"):
            ask()


def test_lists_of_values_are_no_tags(data):
    with pytest.raises(ValueError, match="convert it with y == 'yes'"):
        CRBM.fit(data[0], [["yes", "no"], ["no", "no"]] * 30)


# --------------------------------------------------------------------- estimators of other kinds


@pytest.mark.parametrize("model", OUTER[2:], **names)
def test_missing_labels_for_an_estimator_that_refuses_them(data, gaps, model):
    model = clone(model)
    if isinstance(model, OutOfBagLogOdds):
        model.set_params(cv=2)
    fit = getattr(model, "fit_transform" if hasattr(model, "cv") else "fit", model.fit)
    with pytest.raises(ValueError, match="RandomForestClassifier does not take missing labels"):
        fit(data[0], gaps)
    with pytest.raises(ValueError, match="CRBMClassifier, MSSVMCRBM, LMBMClassifier"):
        cross_val_predict(FOREST, data[0], gaps, cv=2)


@pytest.mark.parametrize("outer", [DecodedClassifier, CalibratedMarginals], **names)
def test_a_classifier_of_a_vector_is_given_a_matrix(data, outer):
    with pytest.raises(ValueError, match=r"OneVsRestClassifier\(LogisticRegression\(\)\)"):
        outer(LogisticRegression()).fit(*data)
    with pytest.raises(ValueError, match=r"least_one|n_estimators"):  # other errors are as they are
        outer(OneVsRestClassifier(RandomForestClassifier(0))).fit(*data)


def test_a_classifier_of_a_matrix_is_given_a_vector(data):
    X, Y = data[:2]
    inner = MultiOutputClassifier(LogisticRegression())
    for y in (Y[:, 0], Y[:, :1]):
        with pytest.raises(ValueError, match="MultiOutputClassifier takes a 2-D y of several"):
            DecodedClassifier(inner).fit(X, y)


def test_missing_features(data):
    X, Y = data[0].copy(), data[1]
    X[0, 0] = np.nan
    text = r"Input X contains NaN in column 0 \(row 0\), and CRBM.*SimpleImputer.*HistGradient"
    with pytest.raises(ValueError, match=text):
        CRBM.fit(X, Y)
    boosting = HistGradientBoostingClassifier(max_iter=2)
    for model in (OneVsRestClassifier(boosting), MultiOutputClassifier(boosting)):
        assert DecodedClassifier(model).fit(X, Y).predict(X).shape == Y.shape


@pytest.mark.parametrize("name", ["CRBMClassifier", "LabelGraphCRF", "IsingModel"])
def test_missing_values_of_pandas_in_objects(name):
    """pandas' NA is read as NaN."""
    model, (X, y) = model_of(name), data_of(name, 20)
    X = X.astype(object)
    X[3, 1] = pd.NA
    frame = pd.DataFrame(X, columns=list("uvw"))
    for form, place in ((X, "column 1"), (X.tolist(), "column 1"), (frame, "column 'v'")):
        if y is None:  # densities take missing values
            numbers = X.copy()
            numbers[3, 1] = np.nan
            expected = clone(model).fit(numbers.astype(float)).field_
            np.testing.assert_array_equal(model.fit(form).field_, expected)
        else:
            with pytest.raises(ValueError, match=rf"Input X contains NaN in {place} \(row 3\)"):
                model.fit(form, y)


@pytest.mark.parametrize("outer", OUTER[2:], **names)
def test_a_fitted_estimator_inside_of_an_unfitted_one(data, outer):
    X, Y = data
    model = clone(outer).set_params(estimator=clone(FOREST).fit(X, Y))
    text = rf"{type(outer).__name__}\(FrozenEstimator\(model\)\)"
    ask = model.transform if hasattr(model, "transform") else model.predict
    with pytest.raises(NotFittedError, match=text):
        ask(X)
    with pytest.raises(NotFittedError, match="is not fitted yet"):
        (clone(outer).transform if hasattr(model, "transform") else clone(outer).predict)(X)
    if isinstance(outer, DecodedClassifier):
        for method in (model.predict_proba, lambda X: model.score(X, Y)):
            with pytest.raises(NotFittedError, match=text):
                method(X)
        frozen = DecodedClassifier(FrozenEstimator(model.estimator)).fit(X, Y)
        assert frozen.predict(X).shape == Y.shape


@pytest.mark.parametrize("outer", OUTER[2:4], **names)
@pytest.mark.parametrize("n_labels", [deep(3), 5])
def test_a_frozen_classifier_of_other_labels(data, outer, n_labels):
    X, Y = data
    other = make_multilabel_classification(60, 5, n_classes=n_labels, random_state=1)[1]
    frozen = FrozenEstimator(clone(FOREST).fit(X, other))
    models = [clone(outer).set_params(estimator=frozen)]
    if isinstance(outer, DecodedClassifier):
        models += [ConformalLabelSets(frozen), ConformalRiskControl(frozen)]
        models += [Constrained(frozen, [Implies(0, 1)])]
    for model in models:
        with pytest.raises(ValueError, match=f"predicts {n_labels} labels, but y has 4"):
            model.fit(X, Y)


def test_names_and_forms_of_a_frozen_classifier(data):
    X, Y = data
    frame = pd.DataFrame(Y, columns=list("abcd"))
    frozen = FrozenEstimator(clone(CRBM).fit(X, frame))
    with pytest.raises(ValueError, match=r"predicts the labels .* but y has the columns"):
        DecodedClassifier(frozen).fit(X, frame[list("badc")])
    assert DecodedClassifier(frozen).fit(X, frame).score(X, frame) > 0
    frozen = FrozenEstimator(OneVsRestClassifier(LogisticRegression()).fit(X, Y))
    with pytest.raises(ValueError, match="predicts 4 labels, but y has 3"):
        DecodedClassifier(make_pipeline(StandardScaler(), frozen)).fit(X, Y[:, :3])
    for form in (sparse.coo_matrix, sparse.csc_matrix):
        assert DecodedClassifier(frozen).fit(form(X), Y).predict(form(X)).shape == Y.shape


def test_a_frozen_classifier_of_other_classes(data):
    X, y = data[0], np.arange(60) % 3
    frozen = FrozenEstimator(clone(FOREST).fit(X, y))
    with pytest.raises(ValueError, match=r"predicts the classes \[0, 1, 2\], but y has the cla"):
        DecodedClassifier(frozen).fit(X, np.minimum(y, 1))
    assert (DecodedClassifier(frozen).fit(X, y).predict(X) == frozen.predict(X)).all()


def test_an_unfitted_wrapper_of_a_frozen_classifier(data):
    X, Y = data
    with pytest.raises(NotFittedError, match="the frozen estimator is kept as it is"):
        DecodedClassifier(FrozenEstimator(clone(FOREST).fit(X, Y))).predict(X)


def test_a_single_class(data):
    X = data[0]
    for y in (np.zeros(60, int), np.zeros((60, 1), int), np.array(["a"] * 60)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = DecodedClassifier(OneVsRestClassifier(LogisticRegression())).fit(X, y)
            np.testing.assert_array_equal(model.predict_proba(X), np.ones((60, 1)))
        assert model.classes_.shape == (1,)


# ---------------------------------------------------------------------- containers and masks


@pytest.mark.parametrize("model", OUTER, **names)
@pytest.mark.parametrize("y", [{"a": 1}, {0, 1}, iter([0, 1]), 3, "abc"], **names)
def test_containers_without_rows(data, model, y):
    text = f"y must be an array, data frame or sparse matrix .*, got {type(y).__name__}"
    with pytest.raises(ValueError, match=text):
        clone(model).fit(data[0], y)
    with pytest.raises(ValueError, match=text):
        next(MultilabelStratifiedKFold(2).split(data[0], y))
    with pytest.raises(ValueError, match=text):
        cross_val_predict(CRBM, data[0], y)
    with pytest.raises(ValueError, match=f"y_known must be an array.*{type(y).__name__}"):
        clone(CRBM).fit(*data).predict(data[0], y_known=y)
    with pytest.raises((TypeError, ValueError), match="X must be a numeric array"):
        clone(CRBM).fit(y, data[1])


@pytest.mark.parametrize("model", OUTER[:3], **names)
def test_lazy_frames(data, model):
    pl = pytest.importorskip("polars")
    lazy = pl.DataFrame(data[1], schema=list("abcd")).lazy()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ValueError, match=r"y must be an array.*LazyFrame; collect"):
            model.fit(data[0], lazy)
        with pytest.raises(ValueError, match=r"y_known must be an array.*LazyFrame"):
            CRBM.fit(*data).predict(data[0], y_known=lazy)


def test_masked_labels_are_missing(data, gaps):
    X, Y = data
    masked = np.ma.masked_array(Y, np.isnan(gaps))
    expected = clone(CRBM).fit(X, gaps)
    for y in (masked, masked.astype(bool), masked.astype(float)):
        np.testing.assert_array_equal(clone(CRBM).fit(X, y).coef_, expected.coef_)
    np.testing.assert_array_equal(
        expected.predict_proba(X, y_known=masked), expected.predict_proba(X, y_known=gaps)
    )
    scored = {"y_pred": 1 - Y}
    assert masked_score("accuracy", masked, **scored) == masked_score("accuracy", gaps, **scored)
    images = ImageCRBM(n_hidden=0, alpha=0.05, max_iter=2, random_state=0)
    np.testing.assert_array_equal(
        clone(images).fit(X, masked.reshape(60, 2, 2)).coef_,
        clone(images).fit(X, gaps.reshape(60, 2, 2)).coef_,
    )
    unmasked = np.ma.masked_array(Y)
    np.testing.assert_array_equal(clone(CRBM).fit(X, unmasked).coef_, clone(CRBM).fit(X, Y).coef_)
    with pytest.raises(ValueError, match="only a 2-D indicator y may hold NaN"):
        clone(CRBM).fit(X, masked[:, 0])


def test_masks_elsewhere_are_refused(data):
    X, Y = data
    masked = np.ma.masked_array(X, np.arange(X.size).reshape(X.shape) % 7 == 0)
    with pytest.raises(ValueError, match="X must not have masked entries"):
        clone(CRBM).fit(masked, Y)
    with pytest.raises(ValueError, match="X must not have masked entries"):
        CRBM.fit(X, Y).predict(masked)
    with pytest.raises(ValueError, match=r"masked entries.*X\.astype\(float\)\.filled\(np\.nan\)"):
        IsingModel(max_iter=1).fit(np.ma.masked_array(Y, Y == 1))
    weight = np.ma.masked_array(np.ones(60), np.arange(60) == 3)
    with pytest.raises(ValueError, match=r"sample_weight must be .*masked entries"):
        clone(CRBM).fit(X, Y, weight)
    with pytest.raises(ValueError, match="masked entries"):
        decode_marginals(np.ma.masked_array(np.full((2, 2), 0.5), [[1, 0], [0, 0]]))
    clone(CRBM).fit(np.ma.masked_array(X), Y)  # without a masked entry


# -------------------------------------------------------------------------- names and scales


@pytest.mark.parametrize(
    "columns", [[7, 3, 5, 2], [("a", 1), ("a", 2), ("b", 1), ("b", 2)], ["a", 1, "b", 2]]
)
def test_names_that_are_not_strings(data, columns):
    pd = pytest.importorskip("pandas")
    X, Y = data
    index = pd.Index(columns)
    Y = pd.DataFrame(Y, columns=index)
    model = clone(CRBM).fit(X, Y)
    with pytest.raises(AttributeError, match="were not all strings"):
        _ = model.label_names_
    known = Y.where(Y == 1)
    np.testing.assert_array_equal(
        model.predict(X, y_known=known.iloc[:, ::-1]), model.predict(X, y_known=known.to_numpy())
    )
    found = model.set_label_output("pandas").predict(X).columns
    assert found.equals(index)
    assert type(found) is type(index)


@pytest.mark.parametrize(
    "model", [CRBMClassifier(n_hidden=0), LMBMClassifier(random_state=0)], **names
)
def test_columns_of_tiny_numbers(data, model):
    X, Y = data
    with pytest.warns(UserWarning, match="5 columns of X vary by less than 1e-290"):
        clone(model).fit(X * 1e-300, Y)
    with pytest.warns(UserWarning, match="2 columns of X vary by less than 1e-290"):
        clone(model).fit(X * [1.0, 1e-310, 1.0, 1e-300, 1.0], Y)


TABLES = {
    "text": (lambda x: np.char.add(x.astype("U9"), "a"), ValueError, "1 of X holds the text"),
    "text in a frame": (
        lambda x: pd.DataFrame({"u": ["red"] * len(x), "v": x[:, 0]}),
        ValueError,
        "1 of X holds the text 'red' in feature 'u' of .* 0",
    ),
    "categories": (
        lambda x: pd.DataFrame({"u": pd.Categorical(["red"] * len(x)), "v": x[:, 0]}),
        ValueError,
        "1 of X holds the text 'red' in feature 'u'",
    ),
    "dates": (lambda x: x.astype("M8[s]"), TypeError, "1 of X holds dates or times"),
    "dates in a frame": (
        lambda x: pd.DataFrame({"u": pd.to_datetime(["2020"] * len(x)), "v": x[:, 0]}),
        TypeError,
        "1 of X holds dates or times",
    ),
    "masks": (
        lambda x: np.ma.masked_array(x, x == x[0, 0]),
        ValueError,
        "1 of X has masked entries, whose hidden values would be used",
    ),
}


@pytest.mark.parametrize("case", TABLES)
@pytest.mark.parametrize("name", ["ChainCRF", "GraphCRF"])
def test_tables_in_lists(name, case):
    """They follow the rules of a single table."""
    change, kind, message = TABLES[case]
    model, (X, y) = model_of(name).set_params(max_iter=1), data_of(name, 4)
    X = [x.nodes if name == "GraphCRF" else x for x in X]
    X[1] = change(X[1])
    if name == "GraphCRF":
        X = [Graph(x, [[0, 1]]) for x in X]
    if "frame" in case or case == "categories":
        X, y, message = X[1:2], y[1:2], message.replace("1 of", "0 of")
    with pytest.raises(kind, match=message):
        model.fit(X, y)


def test_parts_of_graphs():
    nodes, edges = np.ones((2, 1)), np.array([[0, 1]])
    for graph, kind, message in (
        (Graph(nodes, np.ma.masked_array(edges, [[True, False]])), ValueError, "edges of graph 0"),
        (Graph(nodes, edges, [["a"]]), ValueError, "edge_features of graph 0 .* edge 0 has a text"),
        (Graph(nodes, edges, np.array([["2020"]], "M8[D]")), TypeError, "edge_features .* dates"),
        (Graph(nodes, edges, np.ma.masked_array([[1.0]], True)), ValueError, "masked entries"),
    ):
        with pytest.raises(kind, match=message):
            GraphCRF().fit([graph], [["a", "b"]])


def test_sparse_images():
    image = sparse.csr_array(np.eye(3))
    with pytest.raises(ValueError, match=r"image 0 of X .*use image\.toarray\(\)"):
        GridCRF().fit([image], [np.eye(3)])
    with pytest.raises(ValueError, match=r"image 0 of y .*use labels\.toarray\(\)"):
        GridCRF().fit([np.eye(3)], [image])


def test_labels_that_are_complex_numbers():
    with pytest.raises(ValueError, match="the labels in y should be classes, got complex"):
        ChainCRF().fit([np.eye(2)], [[1j, 1]])


@pytest.mark.parametrize("name", [*of_form("rows"), "ImageCRBM"])
def test_scores_name_y(name):
    model, (X, y) = model_of(name), data_of(name, 24)
    if not hasattr(model, "score"):
        return
    model.fit(X, y)
    with pytest.raises(ValueError, match=r"^y holds no observed"):
        model.score(X, np.full(y.shape, np.nan))


def test_scores_read_missing_values_of_pandas():
    y = np.array([[1, pd.NA], [0, 1]], object)
    p = np.array([[0.9, 0.5], [0.2, 0.8]])
    expected = marginal_log_loss(np.array([[1, np.nan], [0, 1]]), p)
    assert marginal_log_loss(y, p) == marginal_log_loss(pd.DataFrame(y), p) == expected
