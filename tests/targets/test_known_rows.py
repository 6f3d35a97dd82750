"""Known labels: their rows are matched by the index of X; zeros that are not stored are refused."""

import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import make_multilabel_classification
from sklearn.preprocessing import StandardScaler

from skcrbm import MSSVMCRBM, CRBMClassifier, DecodedClassifier, ImageCRBM, LMBMClassifier
from skcrbm.pipeline import make_pipeline

pd = pytest.importorskip("pandas")

NAMES = ["Beach", "Sunset", "Fall", "Field"]
CRBM = CRBMClassifier(n_hidden=2, alpha=0.1, max_iter=10, random_state=0)
MODELS = {
    "crbm": CRBM,
    "mssvm": MSSVMCRBM(n_hidden=2, max_iter=3, random_state=0),
    "lmbm": LMBMClassifier(C=0.01, random_state=0),
    "images": ImageCRBM(n_hidden=2, alpha=0.05, max_iter=2, random_state=0),
    "decoded": DecodedClassifier(CRBM),
    "joint_rule": DecodedClassifier(CRBM, decode="map"),
    "pipeline": make_pipeline(StandardScaler(), CRBM),
    "decoded_pipeline": DecodedClassifier(make_pipeline(StandardScaler(), CRBM)),
}


@pytest.fixture(scope="module")
def data():
    X, Y = make_multilabel_classification(60, 5, n_classes=4, random_state=0)
    index = [f"row {i}" for i in range(len(X))]
    X = pd.DataFrame(X, index, columns=[f"x{i}" for i in range(X.shape[1])])
    Y = pd.DataFrame(Y, index, columns=NAMES)
    return X, Y, Y.where(np.random.default_rng(0).random(Y.shape) < 0.5)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", MODELS)
def test_rows_are_matched_by_the_index(data, name):
    X, Y, known = data
    model = MODELS[name].fit(X, Y)
    shuffled = known.sample(frac=1.0, random_state=0)
    assert list(shuffled.index) != list(X.index)
    for method in ("predict", "predict_proba"):
        expected = getattr(model, method)(X, y_known=known.to_numpy())
        np.testing.assert_array_equal(getattr(model, method)(X, y_known=known), expected)
        np.testing.assert_array_equal(getattr(model, method)(X, y_known=shuffled), expected)
        with pytest.raises(
            ValueError, match=r"rows of y_known.*X.*y_known\.reset_index\(drop=True\)"
        ):
            getattr(model, method)(X, y_known=known.reset_index(drop=True))


@pytest.mark.parametrize("name", ["crbm", "pipeline"])
def test_rows_of_every_question_are_matched(data, name):
    X, Y, known = data
    model = MODELS[name].fit(X, Y)
    shuffled = known.sample(frac=1.0, random_state=0)
    for method, given, options in (
        ("decision_function", (), {}),
        ("score_samples", (Y,), {}),
        ("sample", (2,), {"random_state": 0}),
        ("predict_topk", (2,), {}),
        ("predict_pairwise_proba", (), {}),
        ("transform", (), {}),
    ):
        if name == "pipeline" and method == "transform":
            continue
        ask = getattr(model, method)
        found = ask(X, *given, y_known=shuffled, **options)
        expected = ask(X, *given, y_known=known.to_numpy(), **options)
        for part, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(part, other)
    # y_known may be passed by position, too.
    np.testing.assert_array_equal(
        model.sample(X, 2, shuffled, random_state=0),
        model.sample(X, 2, known.to_numpy(), random_state=0),
    )


def test_equal_indices_need_no_unique_labels(data):
    X, Y, known = data
    model = MODELS["crbm"].fit(X, Y)
    doubled = ["a", "a", "b"]
    X, known = X[:3].set_axis(doubled), known[:3].set_axis(doubled)
    expected = model.predict_proba(X, y_known=known.to_numpy())
    np.testing.assert_array_equal(model.predict_proba(X, y_known=known), expected)
    with pytest.raises(ValueError, match=r"y_known.*reset_index"):
        model.predict_proba(X, y_known=known.set_axis(["a", "b", "a"]))


def test_a_single_row_needs_no_index(data):
    X, Y, known = data
    model = MODELS["crbm"].fit(X, Y)
    expected = model.predict_proba(X[2:3], y_known=known[2:3])
    found = model.predict_proba(X[2:3], y_known=known[2:3].reset_index(drop=True))
    np.testing.assert_array_equal(found, expected)


def test_arrays_and_data_frames_are_matched_by_position(data):
    X, Y, known = data
    model = MODELS["crbm"].fit(X, Y)
    expected = model.predict_proba(X, y_known=known)
    np.testing.assert_array_equal(
        MODELS["crbm"].fit(X.to_numpy(), Y).predict_proba(X.to_numpy(), y_known=known), expected
    )
    with pytest.raises(ValueError, match="y_known must have shape"):
        model.predict_proba(X, y_known=known[:-1])


def test_a_series_is_a_label(data):
    X, Y, known = data
    model = MODELS["crbm"].fit(X, Y)
    series = known["Fall"].sample(frac=1.0, random_state=0)
    np.testing.assert_array_equal(
        model.predict_proba(X, y_known=series), model.predict_proba(X, y_known=known[["Fall"]])
    )
    with pytest.raises(ValueError, match=r"y_known must have shape \(60, 4\), got \(60,\)"):
        model.predict_proba(X, y_known=series.rename(None))


@pytest.mark.parametrize("name", ["crbm", "lmbm", "images", "decoded", "pipeline"])
def test_sparse_known_labels_are_refused(data, name):
    X, Y, known = data
    model = MODELS[name].fit(X, Y)
    on = (known == 1).astype(float)
    for form in (
        sparse.csr_matrix(on),
        sparse.csr_array(on),
        on.astype(pd.SparseDtype("float", 0.0)),
        on.astype(bool).astype(pd.SparseDtype(bool, False)),
    ):
        with pytest.raises(ValueError, match=r"y_known must be dense.*np\.full\(.*, np\.nan\)"):
            model.predict(X, y_known=form)
    # NaN is the entry that is not stored.
    kept = known.astype(pd.SparseDtype("float", np.nan))
    np.testing.assert_array_equal(
        model.predict(X, y_known=kept), model.predict(X, y_known=known.to_numpy())
    )


def warnings_of(model, X, Y, method="fit"):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        getattr(model, method)(X, Y)
    texts = [str(warning.message) for warning in caught]
    return [text for text in texts if "observed" in text]


FITS = [
    CRBM,
    MODELS["mssvm"],
    MODELS["lmbm"],
    DecodedClassifier(CRBM),
]


@pytest.mark.parametrize("model", FITS, ids=lambda model: type(model).__name__)
def test_fit_warns_once_of_labels_without_an_observed_negative_or_positive(data, model):
    X, Y, _ = data
    assert not warnings_of(model, X, Y)
    only = Y.astype(float)
    only["Beach"] = only["Beach"].where(only["Beach"] == 1)
    only["Fall"] = only["Fall"].where(only["Fall"] == 1)
    only["Field"] = only["Field"].where(only["Field"] == 0)
    (text,) = warnings_of(model, X, only)
    assert "labels 'Beach', 'Fall' have no observed 0" in text
    assert "label 'Field' has no observed 1" in text
    assert "'Sunset'" not in text
    (text,) = warnings_of(model, X, only.to_numpy())
    assert "labels 0, 2 have no observed 0" in text


def test_labels_that_no_row_has_are_ordinary(data):
    X, Y, _ = data
    rare = Y.assign(Fall=0)
    assert not warnings_of(CRBM, X, rare)  # such as a rare label in a fold
    (text,) = warnings_of(CRBM, X, Y.assign(Fall=1))
    assert "label 'Fall' has no observed 0" in text
    assert not warnings_of(CRBM, X, Y["Beach"])  # classes
    assert not warnings_of(MODELS["images"], X, Y.assign(Fall=1))  # pixels that are always on
    part = MSSVMCRBM(n_hidden=2, max_iter=3, random_state=0)
    assert not warnings_of(part, X[:4], Y[:4].assign(Fall=1), "partial_fit")  # a part of the rows
    many = pd.concat([Y, pd.DataFrame(1, Y.index, [f"on {i}" for i in range(30)])], axis=1)
    (text,) = warnings_of(CRBMClassifier(n_hidden=0, alpha=0.1), X, many)
    assert "and 10 more have no observed 0" in text


def test_the_folds_of_thresholds_do_not_warn(data):
    X, Y, _ = data
    Y = Y.assign(Fall=(np.arange(len(Y)) > 0).astype(int))  # a single row has it off
    model = CRBMClassifier(n_hidden=0, alpha=0.1, decode="threshold", random_state=0)
    assert not warnings_of(model, X, Y)


def test_advice_on_positives_that_alone_are_stored():
    """Sparse ARFF, read row by row, leaves NaN in place of the zeros."""
    Y = pd.DataFrame([{"a": "1", "b": "1"}, {"a": "1"}, {"b": "1"}])
    with pytest.raises(ValueError, match=r"y == '1', which makes all other entries 0") as error:
        CRBM.fit(np.eye(3), Y)
    assert "put NaN where it is missing" not in str(error.value)
    Y = pd.DataFrame({"a": ["1", "0", None], "b": ["0", "1", "1"]})
    with pytest.raises(ValueError, match=r"y == '1', and put NaN where it is missing"):
        CRBM.fit(np.eye(3), Y)
