"""Labels by name: from a data frame y through every method that takes or gives labels."""

import pickle
import warnings

import numpy as np
import pytest
from reference.early_end import EARLY_END
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import make_multilabel_classification
from sklearn.ensemble import ExtraTreesClassifier, StackingClassifier, VotingClassifier
from sklearn.exceptions import DataConversionWarning
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

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
from skcrbm.decoding import ExpectedMetric, Threshold, fit_thresholds
from skcrbm.ensemble import OutOfBagLogOdds, make_stacked
from skcrbm.metrics import masked_score, masked_scorer, multilabel_report

pd = pytest.importorskip("pandas")

NAMES = ["Beach", "Sunset", "Fall", "Field"]
SHUFFLED = ["Field", "Beach", "Fall", "Sunset"]


def crbm(**options):
    return CRBMClassifier(
        **{"n_hidden": 2, "alpha": 0.1, "max_iter": 10, "random_state": 0, **options}
    )


MODELS = {
    "crbm": crbm(),
    "images": ImageCRBM(n_hidden=2, alpha=0.05, max_iter=2, random_state=0),
    "mssvm": MSSVMCRBM(n_hidden=2, max_iter=3, random_state=0),
    "lmbm": LMBMClassifier(C=0.01, pairwise_penalty=10.0),
    "ssvm": SSVMClassifier(C=0.01, max_iter=20),
    "layered": LayeredGMClassifier(max_iter=2, random_state=0),
    "decoded": DecodedClassifier(ExtraTreesClassifier(5, random_state=0)),
    "calibrated": CalibratedMarginals(ExtraTreesClassifier(5, random_state=0), cv=2),
}


@pytest.fixture(scope="module")
def data():
    X, Y = make_multilabel_classification(80, 5, n_classes=4, random_state=0)
    index = [f"row {i}" for i in range(len(X))]
    X = pd.DataFrame(X, index, columns=[f"x{i}" for i in range(X.shape[1])])
    return X, pd.DataFrame(Y, index, columns=NAMES)


@pytest.fixture(scope="module")
def fitted(data):
    return crbm().fit(*data)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", MODELS)
def test_names_go_in_and_come_out(data, name):
    X, Y = data
    model = clone(MODELS[name]).fit(X, Y)
    assert list(model.label_names_) == NAMES
    arrays = model.predict(X), model.predict_proba(X)
    assert all(type(array) is np.ndarray for array in arrays)
    model.set_label_output("pandas")
    for array, frame in zip(arrays, (model.predict(X), model.predict_proba(X)), strict=True):
        pd.testing.assert_frame_equal(frame, pd.DataFrame(array, X.index, NAMES))
    assert model.score(X, Y[SHUFFLED]) == model.score(X, Y) == model.score(X, Y.to_numpy())
    with pytest.raises(
        ValueError, match="y has columns that are not labels of this model: 'beach'"
    ):
        model.score(X, Y.rename(columns={"Beach": "beach"}))


@pytest.mark.parametrize("name", ["crbm", "mssvm", "lmbm", "layered"])
def test_scores_have_names(data, name):
    X, Y = data
    model = clone(MODELS[name]).fit(X, Y)
    scores = model.decision_function(X)
    frame = model.set_label_output("pandas").decision_function(X)
    pd.testing.assert_frame_equal(frame, pd.DataFrame(scores, X.index, NAMES))


def test_known_labels_are_matched_by_name(data, fitted):
    X = data[0][:3]
    known = np.array([[np.nan, 1, np.nan, 0], [0, np.nan, np.nan, 1], [np.nan] * 4])
    expected = fitted.predict_proba(X, y_known=known)
    frame = pd.DataFrame(known, X.index, NAMES)
    for given in (frame, frame[SHUFFLED], frame.drop(columns="Fall")):
        np.testing.assert_array_equal(fitted.predict_proba(X, y_known=given), expected)
    np.testing.assert_array_equal(
        fitted.sample(X, 3, y_known=frame[SHUFFLED], random_state=0),
        fitted.sample(X, 3, y_known=known, random_state=0),
    )
    for wrong in ({"Beach": "beach", "Fall": "Autumn"}, {"Beach": 0, "Fall": 2}):
        with pytest.raises(ValueError, match="y_known has columns that are not labels") as error:
            fitted.predict(X, y_known=frame.rename(columns=wrong))
        for name in (*wrong.values(), *NAMES):
            assert repr(name) in str(error.value)


@pytest.mark.parametrize(
    "decode", ["expected_f1", "label_set", ExpectedMetric(n_samples=200), Threshold(cv=2)], ids=repr
)
def test_known_labels_of_a_wrapped_model_are_matched_by_name(data, decode):
    X, Y = data
    inner = make_pipeline(StandardScaler(), crbm(random_state=0))
    model = DecodedClassifier(inner, decode=decode, random_state=0).fit(X, Y)
    assert list(model.estimator_[-1].label_names_) == NAMES
    known = Y.where(np.random.default_rng(0).random(Y.shape) < 0.5)
    expected = model.predict(X, y_known=known.to_numpy())
    np.testing.assert_array_equal(model.predict(X, y_known=known[SHUFFLED]), expected)
    one = known[["Sunset"]]
    seen = one["Sunset"].notna()
    assert (model.predict(X, y_known=one)[seen, 1] == one["Sunset"][seen]).all()


def test_targets_are_matched_by_name(data, fitted):
    X, Y = data
    expected = fitted.score_samples(X, Y)
    np.testing.assert_array_equal(fitted.score_samples(X, Y[SHUFFLED]), expected)
    partly = Y.astype(float).assign(Beach=np.nan)
    np.testing.assert_array_equal(
        fitted.score_samples(X, Y[["Sunset", "Field", "Fall"]]), fitted.score_samples(X, partly)
    )
    with pytest.raises(ValueError, match="not labels of this model: 'Meer'"):
        fitted.score_samples(X, Y.rename(columns={"Beach": "Meer"}))
    sets = pd.DataFrame(np.eye(4, dtype=int), columns=NAMES)
    top = fitted.predict_topk(X, 2, candidates=sets.to_numpy())
    np.testing.assert_array_equal(
        fitted.predict_topk(X, 2, candidates=sets[SHUFFLED]).labels, top.labels
    )


def test_later_rows_are_matched_by_name(data):
    X, Y = data
    model = crbm(solver="adam", random_state=0).partial_fit(X, Y)
    straight, shuffled = (clone(model).partial_fit(X, Y) for _ in range(2))
    straight.partial_fit(X, Y.to_numpy())
    shuffled.partial_fit(X, Y[SHUFFLED])
    np.testing.assert_array_equal(straight.visible_coef_, shuffled.visible_coef_)
    with pytest.raises(ValueError, match="'sunset'"):
        model.partial_fit(X, Y.rename(columns={"Sunset": "sunset"}))
    warm = crbm(warm_start=True).fit(X, Y).fit(X, Y[SHUFFLED])
    assert list(warm.label_names_) == NAMES


def test_the_most_probable_label_sets_are_a_table(data, fitted):
    X = data[0][:5]
    top = fitted.predict_topk(X, 3)
    table = clone(fitted).set_label_output("pandas").fit(*data).predict_topk(X, 3)
    assert list(table.labels.columns) == NAMES
    assert list(table.labels.index) == [(row, rank) for row in X.index for rank in range(3)]
    np.testing.assert_array_equal(table.labels.to_numpy().reshape(5, 3, 4), top.labels)
    np.testing.assert_array_equal(table.proba.to_numpy().reshape(5, 3), top.proba)
    assert table.proba.index.equals(table.labels.index)


def test_the_container_survives_clone_and_pickle(fitted, data):
    X, _ = data
    model = pickle.loads(pickle.dumps(fitted)).set_label_output("pandas")
    assert isinstance(pickle.loads(pickle.dumps(model)).predict(X), pd.DataFrame)
    copy = clone(model).fit(*data)
    assert isinstance(copy.predict(X), pd.DataFrame)
    assert isinstance(copy.set_label_output().predict(X), pd.DataFrame)
    assert type(copy.set_label_output("default").predict(X)) is np.ndarray
    # Output containers of features and of labels are set independently.
    hidden = copy.set_output(transform="pandas").set_label_output("pandas").transform(X)
    assert list(hidden.columns) == ["crbmclassifier0", "crbmclassifier1"]
    with pytest.raises(
        ValueError, match="container must be 'default', 'pandas', 'polars' or 'sparse', got"
    ):
        model.set_label_output("polar")


def test_without_names(data):
    X, Y = data
    model = crbm()
    assert not hasattr(model, "label_names_")
    model.fit(X, Y.to_numpy())
    assert not hasattr(model, "label_names_")
    with pytest.raises(AttributeError, match="not fitted on a y that is a data frame"):
        model.label_names_  # noqa: B018
    frame = model.set_label_output("pandas").predict(X)
    assert list(frame.columns) == [0, 1, 2, 3]
    with pytest.warns(UserWarning, match="y has column names, but this model was fitted on a y"):
        named = model.score(X, Y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", EARLY_END)
        assert named == model.score(X, Y.to_numpy())
        assert named == model.score(X, Y.set_axis(range(4), axis=1)[[3, 1, 0, 2]])
        crbm().fit(X, Y).predict(X, y_known=Y.to_numpy())  # by position


def test_names_that_are_no_strings(data):
    X, Y = data
    model = crbm().fit(X, Y.set_axis([10, 11, 12, 13], axis=1))
    assert not hasattr(model, "label_names_")
    assert model.score(X, Y.set_axis([10, 11, 12, 13], axis=1)[[13, 11, 10, 12]]) == model.score(
        X, Y.to_numpy()
    )
    with pytest.raises(ValueError, match="y has several columns with the same name: Beach"):
        crbm().fit(X, Y.rename(columns={"Fall": "Beach"}))


@pytest.mark.parametrize("n_classes", [2, 3])
def test_classes_by_name(data, n_classes):
    X, Y = data
    kinds = np.array(["birch", "oak", "pine"])
    y = pd.Series(kinds[Y.to_numpy().sum(1) % n_classes], X.index, name="tree")
    model = crbm().fit(X, y)
    assert list(model.label_names_) == ["tree"]
    labels, before = model.predict(X), model.predict_topk(X, 2)
    model.set_label_output("pandas")
    pd.testing.assert_series_equal(model.predict(X), pd.Series(labels, X.index, name="tree"))
    assert type(model.predict_proba(X)) is type(model.decision_function(X)) is np.ndarray
    top = model.predict_topk(X, 2)
    assert top.labels.name == "tree"
    np.testing.assert_array_equal(top.labels.to_numpy().reshape(-1, 2), before.labels)
    assert model.score(X, y.rename("other")) == model.score(X, y)
    assert list(crbm().fit(X, Y["Fall"]).label_names_) == ["Fall"]


def test_scikit_learns_tools_take_named_classes(data):
    X, Y = data
    model = crbm().set_label_output("pandas")
    y = Y["Fall"]
    assert np.isfinite(cross_val_score(model, X, y, cv=2, scoring="roc_auc")).all()
    for tool in (
        CalibratedClassifierCV(model, cv=2),
        CalibratedClassifierCV(model, cv=2, method="isotonic", ensemble=False),
        StackingClassifier([("crbm", model)], cv=2),
        VotingClassifier([("crbm", model)], voting="soft"),
    ):
        assert tool.fit(X, y).predict(X).shape == y.shape


def test_a_column_under_another_name_is_refused(data):
    X, Y = data
    model = crbm(solver="adam")
    for method in (model.partial_fit, model.score, model.score_samples):
        with pytest.warns(DataConversionWarning):
            model.fit(X, Y[["Fall"]])
        with pytest.raises(
            ValueError,
            match="y has columns with the names 'Beach', but the expected names are 'Fall'",
        ):
            method(X, Y[["Beach"]])


def test_predictions_with_a_certificate_have_names(data):
    X, Y = data
    model = clone(MODELS["lmbm"]).fit(X, Y).set_label_output("pandas")
    labels, objective, gap = model.predict_with_gap(X)
    pd.testing.assert_frame_equal(labels, model.predict(X))
    assert objective.shape == gap.shape == (len(X),)


def test_names_of_log_odds(data):
    X, Y = data
    trees = ExtraTreesClassifier(10, bootstrap=True, random_state=0)
    for powerset in (False, True):
        odds = OutOfBagLogOdds(trees, label_powerset=powerset, cv=2).fit(X, Y)
        expected = [f"extratreesclassifier__{name}" for name in NAMES]
        assert odds.get_feature_names_out().tolist() == expected
    frame = odds.set_output(transform="pandas").fit_transform(X, Y)
    assert list(frame.columns) == expected
    unnamed = OutOfBagLogOdds(trees, cv=2).fit(X, Y.to_numpy())
    assert unnamed.get_feature_names_out()[-1] == "extratreesclassifier__3"
    kinds = OutOfBagLogOdds(trees, cv=2).fit(X, np.where(Y["Fall"], "oak", "birch"))
    assert kinds.get_feature_names_out().tolist() == ["extratreesclassifier__oak"]


def test_stacking_keeps_names(data):
    X, Y = data
    stacked = make_stacked([CRBMClassifier(alpha=0.1, n_hidden=0)], crbm(), cv=2).fit(X, Y)
    assert list(stacked[-1].label_names_) == NAMES
    expected = [f"crbmclassifier__{name}" for name in NAMES]
    names = stacked[:-1].get_feature_names_out()
    assert [name.partition("__")[2] for name in names] == expected


def test_scores_match_names(data, fitted):
    X, Y = data
    scorer = masked_scorer("f1_samples")
    assert scorer(fitted, X, Y[SHUFFLED]) == scorer(fitted, X, Y)
    piped = GridSearchCV(
        make_pipeline(StandardScaler(), crbm()), {}, scoring=scorer, cv=KFold(2)
    ).fit(X, Y)
    assert scorer(piped, X, Y[SHUFFLED]) == scorer(piped, X, Y)
    P = pd.DataFrame(fitted.predict_proba(X), X.index, NAMES)
    labels = (P >= 0.5).astype(int)
    score = masked_score("f1_macro", Y, y_pred=labels)
    assert masked_score("f1_macro", Y[SHUFFLED], y_pred=labels) == pytest.approx(score)
    report = multilabel_report(Y, labels, P)
    for name, value in multilabel_report(Y[SHUFFLED], labels, P).items():
        assert value == pytest.approx(report[name])
    with pytest.raises(ValueError, match="y_pred has columns with the names 'Meer'"):
        masked_score("f1_macro", Y, y_pred=labels.rename(columns={"Beach": "Meer"}))
    expected = fit_thresholds(Y.to_numpy(), P.to_numpy(), "f1_macro")
    np.testing.assert_array_equal(fit_thresholds(Y[SHUFFLED], P, "f1_macro"), expected)
    with pytest.raises(ValueError, match="y has columns with the names 'Meer'"):
        fit_thresholds(Y.rename(columns={"Beach": "Meer"}), P)


def test_numbers_as_names_are_matched_too():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3))
    Y = pd.DataFrame((X @ rng.normal(size=(3, 4)) > 0).astype(int), columns=range(1, 5))
    turned = Y[[4, 3, 2, 1]]
    model = CRBMClassifier(alpha=0.1, n_hidden=0, random_state=0).fit(X, Y)
    P = pd.DataFrame(model.predict_proba(X), columns=Y.columns)
    scorer = masked_scorer("accuracy")
    assert scorer(model, X, turned) == scorer(model, X, Y) == model.score(X, Y)
    labels = (P > 0.5).astype(int)
    assert masked_score("f1_macro", turned, y_pred=labels) == pytest.approx(
        masked_score("f1_macro", Y, y_pred=labels)
    )
    np.testing.assert_array_equal(
        fit_thresholds(turned, P, "f1_macro"), fit_thresholds(Y, P, "f1_macro")
    )
