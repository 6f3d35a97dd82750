"""DecodedClassifier: rules on other classifiers, known labels, metadata, scikit-learn's checks."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import make_multilabel_classification
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score, get_scorer_names
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict
from sklearn.multioutput import ClassifierChain, MultiOutputClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import parametrize_with_checks

from skcrbm import CRBMClassifier, DecodedClassifier, LMBMClassifier
from skcrbm.calibration import CalibratedMarginals
from skcrbm.decoding import (
    ExpectedMetric,
    Threshold,
    decode_marginals,
    decode_samples,
    fit_thresholds,
)
from skcrbm.decoding.thresholds import THRESHOLD_METRICS
from skcrbm.metrics import masked_score, multilabel_report

# With a penalty that is given: folds of rows and of copies of rows differ, and so might a search.
LINEAR = CRBMClassifier(n_hidden=0, max_iter=20, alpha=0.1)
TREE = DecisionTreeClassifier(max_depth=3, random_state=0)


@pytest.mark.deep
@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks(
    [
        DecodedClassifier(LINEAR),
        DecodedClassifier(LINEAR, decode=Threshold("f1_macro", cv=2)),
    ]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def data():
    X, Y = make_multilabel_classification(200, n_features=8, n_classes=4, random_state=0)
    return StandardScaler().fit_transform(X), Y


CLASSIFIERS = {
    "list of arrays": TREE,
    "array": KNeighborsClassifier(9),
    "one model per label": MultiOutputClassifier(LogisticRegression()),
    "chain": ClassifierChain(LogisticRegression()),
}


def stacked(model, X):
    proba = model.predict_proba(X)
    return np.column_stack([p[:, 1] for p in proba]) if isinstance(proba, list) else proba


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_rules(data, name):
    X, Y = data
    inner = CLASSIFIERS[name]
    model = DecodedClassifier(inner).fit(X[:120], Y[:120])
    proba = stacked(clone(inner).fit(X[:120], Y[:120]), X[120:])
    np.testing.assert_allclose(model.predict_proba(X[120:]), proba)
    for metric in ("f1", "jaccard"):
        model.set_params(decode=f"expected_{metric}")
        np.testing.assert_array_equal(
            model.predict(X[120:]), decode_marginals(proba, metric, zero_division=0)
        )
    np.testing.assert_array_equal(
        model.set_params(decode="marginal").predict(X[120:]), proba >= 0.5
    )
    with pytest.raises(ValueError, match="set decode='threshold' and fit again"):
        model.set_params(decode="threshold").predict(X[120:])


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_classes_fit_the_probabilities(data, name):
    X, Y = data
    model = DecodedClassifier(CLASSIFIERS[name])
    proba = cross_val_predict(model, X, Y, cv=KFold(3), method="predict_proba")
    assert proba.shape == Y.shape
    assert model.fit(X, Y).classes_.tolist() == list(range(Y.shape[1]))


@pytest.mark.parametrize("metric", ["f1_samples", "f1_macro"])
def test_threshold(data, metric):
    X, Y = data
    cv = KFold(3, shuffle=True, random_state=0)
    model = DecodedClassifier(TREE, decode=Threshold(metric, cv=cv))
    model.fit(X, Y)
    unseen = np.empty(Y.shape)
    for train, test in cv.split(X):
        unseen[test] = stacked(clone(TREE).fit(X[train], Y[train]), X[test])
    np.testing.assert_allclose(model.thresholds_, fit_thresholds(Y, unseen, metric))
    np.testing.assert_array_equal(model.predict(X), model.predict_proba(X) >= model.thresholds_)
    assert not hasattr(clone(model).set_params(decode="marginal").fit(X, Y), "thresholds_")


def test_samples_of_a_joint_model(data):
    X, Y = data
    inner = CRBMClassifier(n_hidden=2, alpha=0.05, max_iter=20, random_state=0)
    rule = ExpectedMetric(n_samples=50)
    model = DecodedClassifier(inner, decode=rule, random_state=0).fit(X, Y)
    np.testing.assert_array_equal(model.predict(X), model.predict(X))
    draws = model._posterior(rule, X, None).draw(50)
    np.testing.assert_array_equal(
        model.predict(X), decode_samples(draws, "f1_samples", zero_division=0)
    )
    known = np.where(np.arange(4) < 2, Y, np.nan)
    for metric in ("f1", "jaccard"):
        found = model.set_params(decode__metric=metric).predict(X, y_known=known)
        np.testing.assert_array_equal(found[:, :2], Y[:, :2])
    with pytest.raises(ValueError, match=r"n_samples=50 needs .*; DecisionTreeClassifier has no"):
        DecodedClassifier(TREE, decode=rule).fit(X, Y)


def test_samples_have_the_probabilities_of_the_model(data):
    """Draws from tables, and draws row by row with more than 12 labels."""
    X, Y = data
    inner = CRBMClassifier(n_hidden=2, alpha=0.05, max_iter=20, random_state=0)
    rule = ExpectedMetric(n_samples=4000)
    model = DecodedClassifier(inner, decode=rule, random_state=0).fit(X, Y)
    known = np.where(np.arange(4) < 1, Y, np.nan)[:8]
    for given in (None, known):
        draws = model._posterior(rule, X[:8], given).draw(4000)
        proba = model.estimator_.predict_proba(X[:8], y_known=given)
        assert np.abs(draws.mean(axis=1) - proba).max() < 0.035
        pairs = model.estimator_.predict_pairwise_proba(X[:8], y_known=given)
        both = (draws[:, :, 1] * draws[:, :, 2]).mean(axis=1)
        assert np.abs(both - pairs[:, 1, 2]).max() < 0.035
    many = np.hstack([Y, 1 - Y, Y, 1 - Y])  # 16 labels
    model = clone(model).set_params(decode__n_samples=20).fit(X, many)
    alone = [model.estimator_.sample(X[[i]], 20, random_state=model._seed) for i in range(5)]
    np.testing.assert_array_equal(
        model._posterior(model.decode, X[:5], None).draw(20), np.concatenate(alone)
    )


def test_samples_of_a_row_do_not_depend_on_the_batch(data):
    X, Y = data
    inner = CRBMClassifier(n_hidden=2, alpha=0.05, max_iter=20, random_state=0)
    model = DecodedClassifier(make_pipeline(StandardScaler(), inner), random_state=0)
    model.set_params(decode=ExpectedMetric("jaccard", n_samples=3)).fit(X, Y)
    some = np.vstack([X[:40], X[:1]])
    known = np.where(np.arange(4) < 1, np.vstack([Y[:40], Y[:1]]), np.nan)
    for given in (None, known):
        found = model.predict(some, y_known=given)
        np.testing.assert_array_equal(found[40], found[0])
        backwards = model.predict(some[::-1], y_known=None if given is None else given[::-1])
        np.testing.assert_array_equal(backwards[::-1], found)
    with pytest.raises(ValueError, match="0 sample"):
        model.predict(X[:0])


def test_samples_of_any_sparse_format(data):
    """Rows of X are drawn in blocks, also if the format of X has no rows to take."""
    X, Y = data
    inner = CRBMClassifier(n_hidden=0, alpha=0.05, max_iter=5, random_state=0)
    rule = ExpectedMetric("jaccard", n_samples=3)
    model = DecodedClassifier(inner, decode=rule, random_state=0).fit(X, Y)
    expected = model.predict(sparse.csr_matrix(X[:9]))
    for convert in (sparse.coo_matrix, sparse.dia_matrix):
        np.testing.assert_array_equal(model.predict(convert(X[:9])), expected)


@pytest.mark.parametrize(
    "decode",
    ["marginal", "label_set", "expected_f1", "expected_jaccard", Threshold(cv=2)],
    ids=repr,
)
def test_known_labels(data, decode):
    X, Y = data
    known = np.where(np.arange(4) % 2 == 0, 1.0 - Y, np.nan)
    fixed = ~np.isnan(known)
    inner = CRBMClassifier(n_hidden=2, alpha=0.05, max_iter=20, random_state=0)
    model = DecodedClassifier(inner, decode=decode).fit(X, Y)
    np.testing.assert_array_equal(model.predict(X, y_known=known)[fixed], known[fixed])
    np.testing.assert_array_equal(model.predict_proba(X, y_known=known)[fixed], known[fixed])
    for other in (model, DecodedClassifier(TREE, decode=decode).fit(X, Y)):
        with pytest.raises(ValueError, match="y_known must have shape"):
            other.predict(X, y_known=known[:, :2])
    # The CRBM says how likely the others are given these.
    proba = model.estimator_.predict_proba(X, y_known=known)
    np.testing.assert_allclose(model.predict_proba(X, y_known=known), proba)


def nearly_equal_labels():
    """Two labels that agree in nearly all rows, and known values of the first."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    first = rng.random(300) < 0.5
    Y = np.column_stack([first, first ^ (rng.random(300) < 0.03)]).astype(int)
    return X, Y, np.column_stack([Y[:, 0], np.full(300, np.nan)])


def searched(model):
    return GridSearchCV(model, {}, scoring="f1_samples", cv=KFold(2))


@pytest.mark.quick_cases(5)
@pytest.mark.parametrize(
    "wrap",
    [
        lambda crbm: make_pipeline(StandardScaler(), crbm),
        lambda crbm: make_pipeline("passthrough", make_pipeline(StandardScaler(), crbm)),
        lambda crbm: searched(crbm),
        lambda crbm: searched(make_pipeline(StandardScaler(), crbm)),
        lambda crbm: make_pipeline(StandardScaler(), searched(crbm)),
        lambda crbm: DecodedClassifier(make_pipeline(StandardScaler(), crbm)),
    ],
    ids=["pipeline", "nested", "search", "search_of_pipeline", "searched_step", "decoded"],
)
@pytest.mark.parametrize("routing", [False, True])
def test_known_labels_reach_a_wrapped_model(wrap, routing):
    X, Y, known = nearly_equal_labels()
    crbm = CRBMClassifier(n_hidden=2, max_iter=200, alpha=0.01, random_state=0)
    model = DecodedClassifier(wrap(crbm), decode=ExpectedMetric(zero_division=1.0)).fit(X, Y)
    with sklearn.config_context(enable_metadata_routing=routing):
        proba = model.predict_proba(X, y_known=known)
        agree = np.where(Y[:, 0] == 1, proba[:, 1], 1 - proba[:, 1])
        assert agree.mean() > 0.85
        assert (model.predict(X, y_known=known)[:, 1] == Y[:, 0]).mean() > 0.95
    unknown = model.predict_proba(X)[:, 1]
    assert np.where(Y[:, 0] == 1, unknown, 1 - unknown).mean() < 0.65


@pytest.mark.parametrize(
    "inner",
    [
        TREE,
        make_pipeline(StandardScaler(), MultiOutputClassifier(LogisticRegression())),
        searched(TREE),
        CalibratedMarginals(TREE, cv=2),
    ],
    ids=["tree", "pipeline", "search", "calibrated"],
)
@pytest.mark.parametrize("decode", ["marginal", "expected_f1", Threshold(cv=2)], ids=repr)
def test_known_labels_that_a_model_cannot_condition_on(data, inner, decode):
    X, Y = data
    model = DecodedClassifier(inner, decode=decode).fit(X, Y)
    known = np.where(np.arange(4) < 2, Y, np.nan)
    message = "y_known needs an estimator whose predict_proba takes y_known, .*decode_marginals"
    for method in (model.predict, model.predict_proba):
        with pytest.raises(ValueError, match=message):
            method(X, y_known=known)


def test_interrupted_folds_leave_the_earlier_fit(data, monkeypatch):
    """Ctrl-C in a fold stops the whole fit, even if the model would keep its parameters."""
    X, Y = data
    inner = CRBMClassifier(n_hidden=2, alpha=0.05, max_iter=5, random_state=0)
    model = DecodedClassifier(inner, decode=Threshold(cv=2)).fit(X, Y)
    before = model.predict(X)
    fits = []

    def interrupted(self, *args, **kwargs):
        fits.append(len(args[0]))
        if len(fits) == 2:
            warnings.warn("Training interrupted; keeping what was learned so far.", stacklevel=1)
        return fit(self, *args, **kwargs)

    fit = CRBMClassifier.fit
    monkeypatch.setattr(CRBMClassifier, "fit", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, 1 - Y)
    assert fits == [200, 100]
    np.testing.assert_array_equal(model.predict(X), before)


def test_missing_labels(data):
    X, Y = data
    Y = np.where(np.random.default_rng(0).random(Y.shape) < 0.2, np.nan, Y)
    inner = CRBMClassifier(n_hidden=2, alpha=0.05, max_iter=10, random_state=0)
    model = DecodedClassifier(inner, decode=Threshold(cv=2)).fit(X, Y)
    assert np.isin(model.predict(X), (0, 1)).all()
    right = (np.isnan(Y) | (model.predict(X) == Y)).all(axis=1)
    seen = ~np.isnan(Y).all(axis=1)
    assert model.score(X, Y) == pytest.approx(right[seen].mean())
    weight = np.arange(len(X))
    expected = np.average(right[seen], weights=weight[seen])
    assert model.score(X, Y, sample_weight=weight) == pytest.approx(expected)
    with pytest.raises(ValueError, match="NaN"):
        DecodedClassifier(TREE).fit(X, Y)


def test_label_with_one_class(data):
    X, Y = data
    for value in (0, 1):
        constant = np.hstack([Y, np.full((len(Y), 1), value)])
        model = DecodedClassifier(TREE).fit(X, constant)
        assert (model.predict_proba(X)[:, 4] == value).all()
        assert (model.predict(X)[:, 4] == value).all()


@pytest.mark.parametrize("n_classes", [2, 3])
def test_class_vector_is_passed_through(data, n_classes):
    X, Y = data
    y = np.array(["a", "b", "c"])[Y.sum(axis=1) % n_classes]
    for decode in ("expected_f1", "threshold"):
        model = DecodedClassifier(TREE, decode=decode).fit(X, y)
        plain = clone(TREE).fit(X, y)
        np.testing.assert_array_equal(model.predict(X), plain.predict(X))
        np.testing.assert_array_equal(model.predict_proba(X), plain.predict_proba(X))
        np.testing.assert_array_equal(model.classes_, plain.classes_)
        with pytest.raises(ValueError, match="y_known is for 2-D indicator y"):
            model.predict(X, y_known=Y)


def test_forms_of_data(data):
    X, Y = data
    model = DecodedClassifier(TREE, decode=Threshold(cv=2))
    expected = clone(model).fit(X, Y).predict(X)
    for A, B in ((sparse.csr_matrix(X), Y), (X, sparse.csr_matrix(Y)), (X.tolist(), Y.tolist())):
        np.testing.assert_array_equal(clone(model).fit(A, B).predict(A), expected)
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(8)])
    model.fit(frame, pd.DataFrame(Y))
    np.testing.assert_array_equal(model.predict(frame), expected)
    assert list(model.feature_names_in_) == list(frame.columns)
    assert model.n_features_in_ == 8
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(frame), expected)
    assert get_tags(model).input_tags.sparse
    assert get_tags(model).classifier_tags.multi_label
    assert not get_tags(DecodedClassifier(LogisticRegression())).classifier_tags.multi_label


def test_parameters_of_the_estimator(data):
    X, Y = data
    inner = make_pipeline(
        StandardScaler(), CRBMClassifier(n_hidden=2, alpha=0.05, max_iter=3, random_state=0)
    )
    model = DecodedClassifier(inner)
    assert model.get_params()["estimator__crbmclassifier__n_hidden"] == 2
    grid = {"decode": ["marginal", "expected_f1"], "estimator__crbmclassifier__alpha": [0.1, 1.0]}
    search = GridSearchCV(model, grid, scoring="f1_samples", cv=KFold(2)).fit(X, Y)
    assert search.best_estimator_.predict(X).shape == Y.shape
    before = clone(inner)
    model.fit(X, Y)
    assert repr(before) == repr(inner)
    assert not hasattr(inner[-1], "visible_coef_")


def test_sample_weight(data):
    X, Y = data
    weight = np.random.default_rng(0).integers(0, 3, len(X)).astype(float)
    model = DecodedClassifier(TREE, decode=Threshold(cv=KFold(4))).fit(X, Y, sample_weight=weight)
    plain = clone(TREE).fit(X, Y, sample_weight=weight)
    np.testing.assert_allclose(model.predict_proba(X), stacked(plain, X))
    unweighted = DecodedClassifier(TREE, decode=Threshold(cv=KFold(4))).fit(X, Y)
    assert (model.thresholds_ != unweighted.thresholds_).any()
    with pytest.raises(ValueError, match="sample_weight is not supported by KNeighbors"):
        DecodedClassifier(KNeighborsClassifier()).fit(X, Y, sample_weight=weight)


class Recorder(ClassifierMixin, BaseEstimator):
    """Keeps the arguments of its fit."""

    def fit(self, X, y, sample_weight=None, note=None):
        self.given_ = sample_weight, note
        self.n_outputs_ = np.shape(y)[1]
        return self

    def predict_proba(self, X):
        return np.full((len(X), self.n_outputs_), 0.25)


def test_metadata_routing(data):
    X, Y = data
    weight, note = np.arange(200.0), np.arange(200)
    with sklearn.config_context(enable_metadata_routing=True):
        inner = Recorder().set_fit_request(sample_weight=True, note=True)
        model = DecodedClassifier(inner, decode="threshold").fit(
            X, Y, sample_weight=weight, note=note
        )
        np.testing.assert_array_equal(model.estimator_.given_, (weight, note))
        model = DecodedClassifier(inner, decode="threshold").fit(X, Y, note="once for all rows")
        assert model.estimator_.given_ == (None, "once for all rows")
        with pytest.raises(TypeError, match="no_such"):
            DecodedClassifier(Recorder().set_fit_request(sample_weight=True)).fit(
                X, Y, sample_weight=weight, no_such=note
            )


def test_gain(data):
    """The rule that maximises expected F1 improves F1 on held-out rows."""
    X, Y = data
    model = DecodedClassifier(MultiOutputClassifier(LogisticRegression())).fit(X[:120], Y[:120])
    by_rule = f1_score(Y[120:], model.predict(X[120:]), average="samples", zero_division=1)
    model.set_params(decode="marginal")
    plain = f1_score(Y[120:], model.predict(X[120:]), average="samples", zero_division=1)
    assert by_rule > plain


def test_refusals(data):
    X, Y = data
    for decode in ("expected_f1", "threshold"):
        with pytest.raises(ValueError, match="sample_weight"):
            DecodedClassifier(TREE, decode=decode).fit(X, Y, sample_weight=np.ones(3))
    for model, message in (
        (DecodedClassifier(StandardScaler()), "'estimator' parameter"),
        (DecodedClassifier(TREE, decode="f1"), "'decode' parameter"),
        (DecodedClassifier(TREE, decode="map"), "'map' needs .*; DecisionTreeClassifier is not"),
        (DecodedClassifier(TREE, decode=ExpectedMetric(n_samples=0)), "'n_samples' parameter"),
    ):
        with pytest.raises(ValueError, match=message):
            model.fit(X, Y)
    with pytest.raises(ValueError, match="it holds -1 and"):
        DecodedClassifier(TREE).fit(X, 2 * Y - 1)
    for options, message in (
        ({"decode": "f1"}, "'decode' parameter"),
        ({"decode": "map"}, "'map' needs .*; DecisionTreeClassifier is not"),
        ({"decode": "threshold"}, "set decode='threshold' and fit again"),
        ({"decode": ExpectedMetric(n_samples=9)}, "DecisionTreeClassifier has no such method"),
    ):
        model = DecodedClassifier(TREE).fit(X, Y).set_params(**options)
        with pytest.raises(ValueError, match=message):
            model.predict(X)
    assert DecodedClassifier(LMBMClassifier()).fit(X, Y).predict(X).shape == Y.shape


def test_no_rows_to_predict():
    X, Y = np.arange(20.0)[:, None], np.arange(40).reshape(20, 2) % 3 % 2
    model = DecodedClassifier(MultiOutputClassifier(LogisticRegression())).fit(X, Y)
    with pytest.raises(TypeError, match="X must be a numeric array, data frame or sparse matrix"):
        model.predict_proba(None)


def test_rows_without_labels_score_as_in_scikit_learn():
    """0 by default, so that no label is predicted only if no label is possible; or 1."""
    X, Y = np.zeros((40, 1)), np.zeros((40, 2), int)
    Y[:12, 0] = 1
    logistic = MultiOutputClassifier(DummyClassifier())
    for rule in (ExpectedMetric("f1"), ExpectedMetric("jaccard"), Threshold(cv=2)):
        model = DecodedClassifier(logistic, decode=rule).fit(X, Y)
        assert model.allow_empty_
        assert model.predict(X[:1]).tolist() == [[1, 0]], rule
        model.set_params(decode__zero_division=1.0).fit(X, Y)
        assert model.predict(X[:1]).tolist() == [[0, 0]], rule
    for value in (0.5, "warn", np.nan):
        with pytest.raises(ValueError, match="'zero_division' parameter of ExpectedMetric"):
            DecodedClassifier(logistic, decode=ExpectedMetric(zero_division=value)).fit(X, Y)
    with pytest.raises(ValueError, match="zero_division must be 0 or 1, got 2"):
        fit_thresholds(Y, Y, zero_division=2)


def test_metrics_have_the_names_of_scorers():
    """The same names in every function, and in scikit-learn if it has the metric."""
    known = set(get_scorer_names())
    ours = {"neg_calibration_error", "roc_auc_micro", "average_precision_micro"}
    ours |= {"neg_hamming_loss", "label_ranking_average_precision", "neg_label_ranking_loss"}
    ours |= {"neg_coverage_error"}
    y, p = np.array([[1, 0], [0, 1], [1, 1]]), np.array([[0.9, 0.2], [0.3, 0.6], [0.8, 0.4]])
    report = multilabel_report(y, p >= 0.5, p)
    assert set(report) - known <= ours
    for name, value in report.items():
        assert value == masked_score(name, y, y_pred=p >= 0.5, y_score=p)
    for name in THRESHOLD_METRICS:
        assert name in report
        assert fit_thresholds(y, p, name).shape == (2,)
    for name in ("f1_samples", "jaccard_samples"):
        assert decode_marginals(p, name).tolist() == decode_marginals(p, name[:-8]).tolist()
