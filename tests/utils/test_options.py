"""Hyperparameters and X of all estimators: refused values, and the call that refuses them."""

import datetime
import warnings

import numpy as np
import pandas as pd
import pytest
from reference.fits import FITS
from scipy import sparse
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.utils import Tags, get_tags

from skcrbm import (
    MSSVMCRBM,
    CRBMClassifier,
    DecodedClassifier,
    ImageCRBM,
    LayeredGMClassifier,
    LMBMClassifier,
    SSVMClassifier,
)
from skcrbm.calibration import CalibratedMarginals
from skcrbm.density import RBM, IsingModel, LargeMarginMarkovNetwork, MarkovRandomField
from skcrbm.ensemble import OutOfBagLogOdds, make_stacked
from skcrbm.inference import Gibbs
from skcrbm.utils.options import KnownName

ESTIMATORS = [
    MSSVMCRBM,
    CRBMClassifier,
    ImageCRBM,
    LayeredGMClassifier,
    LMBMClassifier,
    SSVMClassifier,
    RBM,
    IsingModel,
    MarkovRandomField,
    LargeMarginMarkovNetwork,
]
SMALL = ["crbm-mle", "mssvm-max", "lmbm-fixed", "layered", "rbm-mle", "isingmodel-mle"]
X, Y = FITS["crbm-mle"].data()
DATES = X.astype("datetime64[s]")


@pytest.mark.parametrize("kind", ESTIMATORS)
@pytest.mark.parametrize(
    "dates",
    [
        DATES,
        DATES - DATES[0],
        pd.DataFrame(DATES),
        pd.DataFrame({"a": X[:, 0], "b": DATES[:, 1]}),
        pd.DataFrame({"a": pd.to_datetime(DATES[:, 0]).tz_localize("UTC")}),
        DATES.astype(object),
        [[datetime.date(2000, 1, 1)]] * len(X),
        DATES.tolist(),
        list(DATES),
    ],
    ids=["dates", "times", "frame", "mixed", "zone", "object", "nested", "list", "rows"],
)
def test_dates_are_no_numbers(kind, dates):
    with pytest.raises(TypeError, match="X must be a numeric array"):
        kind().fit(dates, Y)


def objects(values):
    """Array of objects that are NumPy's scalars; `astype` would make Python's of them."""
    found = np.empty(values.shape, dtype=object)
    for place, value in np.ndenumerate(values):
        found[place] = value
    return found


@pytest.mark.parametrize("values", [DATES, DATES - DATES[0]], ids=["dates", "times"])
def test_dates_of_numpy_among_objects_are_no_numbers_either(values):
    mixed = objects(values)
    mixed[:, 0] = 1.0
    for given in (objects(values), mixed, mixed.tolist(), pd.DataFrame(mixed)):
        with pytest.raises(TypeError, match="X must be a numeric array"):
            LMBMClassifier().fit(given, Y)
    for weight in (values[:, 0], objects(values)[:, 0], list(values[:, 0])):
        with pytest.raises(ValueError, match="sample_weight must be numbers"):
            LMBMClassifier().fit(X, Y, sample_weight=weight)
    with pytest.raises(ValueError, match=r"y must be a 0/1 indicator matrix.* dates or times"):
        LMBMClassifier().fit(X, objects(Y.astype(values.dtype)))


def test_integers_beyond_floats_are_refused_by_name():
    huge = [[10**400, 0, 0]] * len(X)
    with pytest.raises(ValueError, match="X must be a numeric array"):
        LMBMClassifier().fit(huge, Y)
    with pytest.raises(ValueError, match="y must be a 0/1 indicator matrix"):
        LMBMClassifier().fit(X, huge)
    with pytest.raises(ValueError, match="sample_weight must be numbers"):
        LMBMClassifier().fit(X, Y, sample_weight=[10**400] * len(X))


@pytest.mark.parametrize("kind", ["datetime64[D]", "timedelta64[D]"])
def test_labels_that_are_no_time(kind):
    y = Y[:, 0].astype(kind)
    y[3] = "NaT"
    with pytest.raises(ValueError, match="y contains NaT"):
        LMBMClassifier().fit(X, y)
    with pytest.raises(ValueError, match="classes must be a vector of labels"):
        CRBMClassifier().partial_fit(X, Y[:, 0].astype(kind), classes=y)


@pytest.mark.parametrize("kind", ESTIMATORS)
@pytest.mark.parametrize("value", [True, np.True_, 2.0, "2", np.float64(3), None, [2]])
def test_counts_are_integers(kind, value):
    with pytest.raises(ValueError, match=f"'max_iter' parameter of {kind.__name__}"):
        kind(max_iter=value).fit(X, Y)
    if value is not None:
        with pytest.raises(ValueError, match=f"'n_jobs' parameter of {kind.__name__}"):
            kind(n_jobs=value).fit(X, Y)


@pytest.mark.parametrize("kind", [DecodedClassifier, CalibratedMarginals, OutOfBagLogOdds])
def test_n_jobs_of_estimators_around_others(kind):
    for value in (True, 1.0):
        with pytest.raises(ValueError, match="'n_jobs' parameter"):
            kind(LogisticRegression(), n_jobs=value).fit(X, Y[:, 0])
    with pytest.raises(ValueError, match="'n_jobs' parameter"):
        make_stacked(n_jobs=True)


@pytest.mark.parametrize("name", SMALL)
def test_integers_of_numpy(name):
    fit = FITS[name]
    options = {"max_iter": np.int32(2), "n_jobs": np.uint8(1)}
    model = fit._replace(model=clone(fit.model).set_params(**options))
    assert all(np.isfinite(part).all() for part in fit.answer(model.run(model.start())))


@pytest.mark.compiled
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("crbm-mle", {"decode": "best"}),
        ("crbm-mle", {"n_jobs": 1.5}),
        ("mssvm-max", {"decode": None}),
        ("mssvm-max", {"n_jobs": "all"}),
        ("lmbm-fixed", {"decode": "best"}),
        ("lmbm-fixed", {"margin": "wide"}),
        ("lmbm-fixed", {"margin": -1.0}),
        ("lmbm-fixed", {"inference": 3}),
        ("layered", {"n_jobs": 1.5}),
        ("decoded", {"decode": "best"}),
        ("decoded", {"n_jobs": "all"}),
        ("rbm-mle", {"binarize": "half"}),
        ("isingmodel-mle", {"inference": "guess"}),
        ("isingmodel-mle", {"n_jobs": True}),
        ("calibrated", {"method": "plain"}),
        ("bagged", {"clip": 0.7}),
    ],
)
def test_what_is_set_after_fit_is_checked_where_it_is_used(name, options):
    fit = FITS[name]
    model = fit.run(fit.start())
    with pytest.raises(ValueError, match=f"'{next(iter(options))}' parameter"):
        fit.answer(model.set_params(**options))


def test_the_fitted_kind_of_calibrator_and_of_target_counts():
    """A hyperparameter that is set after the fit takes effect in the next fit only."""
    fit = FITS["calibrated"]
    model = fit.run(fit.start())
    before = model.predict_proba(X)
    np.testing.assert_array_equal(model.set_params(method="isotonic").predict_proba(X), before)
    for name, other in (("bagged", True), ("bagged-refit", False)):
        fit = FITS[name]
        model = fit.run(fit.start())
        before = model.transform(X)
        np.testing.assert_array_equal(model.set_params(label_powerset=other).transform(X), before)
        model.fit(X, Y)
        assert hasattr(model, "label_sets_") == other


@pytest.mark.parametrize(
    "classes", [[0, 1, np.nan], [[0, 1]], [[0], [1]], [0, 1, None], [0, 1, np.inf], [], 2, [0, {}]]
)
def test_classes_of_partial_fit(classes):
    model = CRBMClassifier(alpha=0.1, n_hidden=2)
    for _ in range(2):
        with pytest.raises(ValueError, match="classes must be a vector of labels"):
            model.partial_fit(X, Y[:, 0], classes=classes)
        model.partial_fit(X, Y[:, 0], classes=np.array([0, 1], dtype=object))


def test_classes_of_labels():
    """Calls take the values 0 and 1, flat or for each output, or the labels of all columns."""
    model = CRBMClassifier(alpha=0.1, n_hidden=2)
    for _ in range(2):
        for classes in ([0, 1, np.nan], [0, 1, None], [[0, 1], [0]], [0, 2, 2], [0], 1, "01"):
            text = (
                "classes of a 2-D y must be 0 and 1, or a list|classes must be a list of 3 arrays"
            )
            with pytest.raises(ValueError, match=text):
                model.partial_fit(X, Y, classes=classes)
        model.partial_fit(X, Y, classes=[0, 1])
        model.partial_fit(X, Y, classes=[np.array([0, 1])] * Y.shape[1])


@pytest.mark.parametrize("kind", [DecodedClassifier, CalibratedMarginals, OutOfBagLogOdds])
@pytest.mark.parametrize("estimator", [None, 3, "logistic", LogisticRegression])
def test_nothing_to_wrap(kind, estimator):
    model = kind(estimator)
    assert kind.__name__ in model._repr_html_()
    assert isinstance(get_tags(model), Tags)
    is_class = isinstance(estimator, type)
    error, words = ValueError, f"'estimator' parameter of {kind.__name__} must be"
    if is_class:
        error, words = TypeError, "provide an instance of scikit-learn estimator instead of a class"
    for method in ("fit", "fit_transform")[: 1 + (kind is OutOfBagLogOdds)]:
        with pytest.raises(error, match=words):
            getattr(model, method)(X, Y)
    with pytest.raises(NotFittedError):
        getattr(model, "transform" if kind is OutOfBagLogOdds else "predict")(X)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("crbm-mle", {"n_jobs": 1.0}),
        ("calibrated", {"method": "plain"}),
        ("bagged", {"clip": 0.7}),
        ("rbm-mle", {"n_jobs": True}),
    ],
)
def test_checks_after_fit_can_be_skipped(name, options):
    """Scikit-learn's option `skip_parameter_validation` skips these checks, too."""
    fit = FITS[name]
    model = fit.run(fit.start()).set_params(**options)
    with pytest.raises(ValueError, match=f"'{next(iter(options))}' parameter"):
        fit.answer(model)
    with config_context(skip_parameter_validation=True):
        try:
            fit.answer(model)
        except Exception as error:  # whatever the value leads to
            assert "parameter of" not in str(error)  # noqa: PT017


@pytest.mark.parametrize(
    "kind", [CRBMClassifier, MSSVMCRBM, LMBMClassifier, SSVMClassifier, LayeredGMClassifier]
)
def test_rows_too_large_for_the_model(kind):
    """Rows with infinite scores are refused by an error about X, not about internal objects."""
    model = kind(max_iter=20).fit(X.astype(np.float32), Y)
    name = "visible_coef_" if isinstance(model, (CRBMClassifier, MSSVMCRBM)) else "coef_"
    if hasattr(model, name):
        setattr(model, name, 1e6 * getattr(model, name))
    for large in (np.sign(X) * 1e306, sparse.csr_matrix(np.sign(X) * 1e306)):
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            with pytest.raises(ValueError, match=r"X (times|holds)"):
                model.predict(large)


@pytest.mark.parametrize("kind", [CRBMClassifier, LMBMClassifier, SSVMClassifier])
def test_rows_too_large_for_inference(kind):
    model = kind(max_iter=20).fit(X, Y)
    for method in (model.predict, model.decision_function):
        with pytest.raises(ValueError, match="X times"):
            method(np.sign(X) * 1e35)


@pytest.mark.parametrize("scale", [1e20, 1e35, 1e150])
def test_rows_of_any_size_train_a_margin(scale):
    """Labels that a linear model tells apart are learned, and a warning says to scale X."""
    inputs, y = np.sign(X), np.sign(X)[:, 0] > 0
    with pytest.warns(UserWarning, match="scale"):
        model = SSVMClassifier(max_iter=20).fit(inputs * scale, y)
    assert model.score(inputs * scale, y) == 1.0


def test_rows_whose_squares_overflow():
    model = SSVMClassifier(max_iter=20)
    with pytest.raises(ValueError, match=r"overflowed: X, .*scale the columns of X"):
        model.fit(np.sign(X) * 1e160, Y)
    assert not hasattr(model, "visible_coef_")


def test_methods_that_cannot_do_what_a_density_needs():
    for kind in (RBM, IsingModel):
        message = rf"'inference' parameter of {kind.__name__} with learning='mle' must be one of"
        with pytest.raises(ValueError, match=message):
            kind(learning="mle", inference=Gibbs()).fit(Y)
        model = kind(learning="cd", inference=Gibbs(max_iter=20), max_iter=2).fit(Y)
        with pytest.raises(ValueError, match=r"inference=Gibbs.* cannot compute log_partition"):
            model.score_samples(Y)


@pytest.mark.parametrize("name", ["crbm-partial", "layered-partial", "isingmodel-partial"])
def test_partial_fit_checks_what_was_set_since(name):
    fit = FITS[name]
    model = fit.run(fit.start())
    with pytest.raises(ValueError, match="'max_iter' parameter"):
        fit.run(model.set_params(max_iter="many"))


def test_words_about_y_and_weights():
    for y in ([[0], [0, 1]], [[[0]]], np.zeros((24, 2, 2))):
        with pytest.raises(ValueError, match=r"y (must|holds)"):
            CRBMClassifier().fit(X, y)
    for weight in (np.zeros((24, 2)), "heavy", [], np.ones(3)):
        with pytest.raises(ValueError, match="sample_weight"):
            CRBMClassifier().fit(X, Y, sample_weight=weight)


def test_columns_that_are_too_small_for_a_scale_are_constant():
    tiny = np.hstack([X, 1e-300 * X[:, :1]])
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        warnings.filterwarnings("ignore", "1 columns of X vary by less")
        models = [LMBMClassifier(random_state=0).fit(rows, Y) for rows in (X, tiny)]
    np.testing.assert_array_equal(models[1].visible_coef_[:, -1], 0)
    np.testing.assert_array_equal(models[0].predict(X), models[1].predict(tiny))


def test_coefficients_that_are_too_large_for_the_dtype_of_X():
    small = (1e-42 * X).astype(np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        with pytest.raises(ValueError, match="X has columns with such small"):
            CRBMClassifier(n_hidden=1, max_iter=30).fit(small, Y)
        model = CRBMClassifier(n_hidden=1, max_iter=30).fit(small.astype(np.float64), Y)
    assert np.isfinite(model.visible_coef_).all()


def test_images_are_told_how_to_become_rows():
    images = np.zeros((6, 4, 4))
    rows = images.reshape(len(images), -1)
    with pytest.raises(
        ValueError, match=r"3 dimensions; use X.reshape\(len\(X\), -1\), .*ImageCRBM"
    ):
        CRBMClassifier().fit(images, rows)
    with pytest.raises(ValueError, match=r"got 3; .*y.reshape\(len\(y\), -1\) .*ImageCRBM"):
        CRBMClassifier().fit(rows, images)


def test_names_are_read_when_a_value_is_checked():
    names = ["one", "two"]
    constraint = KnownName(names, auto=True, unlisted=["old"])
    assert not constraint.is_satisfied_by("three")
    names.append("three")
    assert all(map(constraint.is_satisfied_by, ("auto", "old", *names)))
    assert not any(map(constraint.is_satisfied_by, ("ONE", 1, None, ["one"])))
    assert str(constraint) == "one of 'auto', 'one', 'two', 'three'"
    assert not KnownName(names).is_satisfied_by("auto")


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (CRBMClassifier(solver="newton"), "one of 'auto', 'lbfgs', 'asgd', 'adam', 'sgd' or a co"),
        (CRBMClassifier(decode="best"), "one of 'marginal', 'label_set', 'expected_jaccard', "),
        (CRBMClassifier(learning="ml"), "one of 'mle', 'noisy_mle', "),
    ],
)
def test_errors_list_names_in_the_order_of_registration(estimator, message):
    with pytest.raises(ValueError, match=f"must be {message}"):
        estimator.fit(X, Y)
