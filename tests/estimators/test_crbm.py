"""CRBMClassifier: predictions and probabilities, accepted and refused input."""

import warnings

import numpy as np
import pandas as pd
import pytest
from reference.crbm_data import PARAMETERS, assert_same_parameters, joint, make_data, quick
from scipy import sparse
from scipy.special import softmax
from sklearn.base import clone
from sklearn.exceptions import DataConversionWarning, NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, log_loss
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils._param_validation import InvalidParameterError

from skcrbm import CRBMClassifier
from skcrbm.inference import Exact, SumProduct
from skcrbm.learning import SGD, Adam, ContrastiveDivergence, EarlyStopping, LossPlateau
from skcrbm.metrics import masked_scorer

# -------------------------------------------------------------- logistic regression


def logistic(alpha, n):
    return LogisticRegression(C=1 / (alpha * n), tol=1e-10, max_iter=10_000)


@pytest.mark.parametrize("solver", [Adam(), SGD(learning_rate=0.2, momentum=0.9)])
def test_without_hidden_units_it_is_logistic_regression(solver):
    X, Y = make_data(120, 5)
    X = X * [1, 2, 0.5, 1, 1] + 1  # an intercept that matters
    model = CRBMClassifier(
        n_hidden=0,
        alpha=0.05,
        solver=solver,
        max_iter=1000,
    ).fit(X, Y)
    assert model.weights_.shape == (3, 0)
    for j in range(3):
        lr = logistic(0.05, 120).fit(X, Y[:, j])
        np.testing.assert_allclose(model.visible_coef_[j], lr.coef_[0], atol=1e-3)
        np.testing.assert_allclose(model.visible_intercept_[j], lr.intercept_[0], atol=1e-3)
        np.testing.assert_allclose(
            model.predict_proba(X)[:, j], lr.predict_proba(X)[:, 1], atol=1e-3
        )


@pytest.mark.parametrize("solver", ["auto", "adam"])
def test_default_training_without_hidden_units_gets_there_too(solver):
    """Training converges if only the number of hidden units and the penalty are set."""
    X, Y = make_data(150, 4)
    model = CRBMClassifier(n_hidden=0, alpha=0.1, solver=solver, random_state=0, max_iter=1000)
    model.fit(X, Y)
    for j in range(3):
        lr = logistic(0.1, 150).fit(X, Y[:, j])
        np.testing.assert_allclose(model.visible_coef_[j], lr.coef_[0], atol=1e-3)
        np.testing.assert_allclose(model.visible_intercept_[j], lr.intercept_[0], atol=1e-3)


@pytest.mark.parametrize("n_classes", [2, 4])
def test_class_vectors_without_hidden_units(n_classes):
    rng = np.random.RandomState(1)
    X = rng.randn(150, 4)
    y = np.argmax(X @ rng.randn(4, n_classes) + rng.gumbel(size=(150, n_classes)), axis=1)
    model = CRBMClassifier(n_hidden=0, alpha=0.02, max_iter=1000)
    model.fit(X, y)
    lr = logistic(0.02, 150).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X), lr.predict_proba(X), atol=1e-3)
    np.testing.assert_allclose(model.visible_coef_, lr.coef_, atol=1e-3)
    if n_classes == 2:
        np.testing.assert_allclose(model.visible_intercept_, lr.intercept_, atol=1e-3)
    else:  # without a penalty, only differences of intercepts have a meaning
        mine, theirs = (m.intercept_ - m.intercept_.mean() for m in (model, lr))
        np.testing.assert_allclose(mine, theirs, atol=1e-3)


def test_weighted_logistic_regression():
    X, Y = make_data(120, 3)
    weight = np.random.RandomState(0).uniform(0, 3, 120)
    model = CRBMClassifier(n_hidden=0, alpha=0.1, max_iter=1000)
    model.fit(X, Y, sample_weight=weight)
    for j in range(3):
        lr = logistic(0.1, weight.sum()).fit(X, Y[:, j], sample_weight=weight)
        np.testing.assert_allclose(model.visible_coef_[j], lr.coef_[0], atol=1e-3)


# ---------------------------------------------------------------------- prediction


def test_marginals_and_label_sets_by_enumeration():
    X, Y = make_data()
    model = CRBMClassifier(n_hidden=3, alpha=0.01, random_state=0).fit(X, Y)
    assert model.inference_ == "exact"
    sets = np.unique(Y, axis=0)
    np.testing.assert_array_equal(model.label_sets_, sets)
    proba, decision, labels = (
        method(X) for method in (model.predict_proba, model.decision_function, model.predict)
    )
    best = model.set_params(decode="label_set").predict(X)
    for n, x in enumerate(X):
        states, score = joint(model, x)
        p = softmax(score) @ states
        # Double precision; only the order of the additions differs.
        np.testing.assert_allclose(proba[n], p, atol=1e-10)
        np.testing.assert_allclose(decision[n], np.log(p / (1 - p)), atol=1e-8)
        np.testing.assert_array_equal(labels[n], p >= 0.5)
        seen = (states[:, None] == sets).all(axis=2).any(axis=1)
        np.testing.assert_array_equal(best[n], states[seen][score[seen].argmax()])
    assert labels.dtype.kind == best.dtype.kind == "i"
    assert model.classes_.tolist() == [0, 1, 2]
    assert (labels != best).any()


def test_multiclass_is_one_categorical_group():
    rng = np.random.RandomState(0)
    X, y = rng.randn(80, 3), np.array(list("abcd"))[rng.randint(0, 4, 80)]
    model = CRBMClassifier(n_hidden=5, inference="sum_product", max_iter=30, random_state=0)
    model.fit(X, y)
    assert model.inference_ == "exact"  # whatever was asked for
    assert model.n_inference_iter_ is None
    assert model.visible_coef_.shape == (4, 3)
    score = np.empty((80, 4))
    for n, x in enumerate(X):
        c = model.hidden_intercept_ + model.hidden_coef_ @ x
        for k in range(4):
            b = model.visible_intercept_[k] + model.visible_coef_[k] @ x
            score[n, k] = b + np.log1p(np.exp(model.weights_[k] + c)).sum()
    np.testing.assert_allclose(model.decision_function(X), score, atol=1e-10)
    np.testing.assert_allclose(model.predict_proba(X), softmax(score, axis=1), atol=1e-10)
    np.testing.assert_array_equal(model.predict(X), model.classes_[score.argmax(axis=1)])
    assert model.score(X, y) == accuracy_score(y, model.predict(X))


def test_binary_class_vector():
    X, Y = make_data()
    y = np.array(["no", "yes"])[Y[:, 0]]
    model = CRBMClassifier(n_hidden=3, max_iter=50, random_state=0).fit(X, y)
    assert model.visible_coef_.shape == (1, 4)
    assert model.classes_.tolist() == ["no", "yes"]
    proba, decision = model.predict_proba(X), model.decision_function(X)
    assert proba.shape == (90, 2)
    assert decision.shape == (90,)
    expected = np.array([softmax(joint(model, x)[1]) for x in X])
    np.testing.assert_allclose(proba, expected, atol=1e-10)
    np.testing.assert_allclose(decision, np.log(proba[:, 1] / proba[:, 0]), atol=1e-8)
    np.testing.assert_array_equal(model.predict(X), model.classes_[(decision >= 0).astype(int)])
    # The same model as one column of a multi-label target with one unit.
    assert model.score(X, y) > 0.8


@pytest.mark.compiled
def test_hidden_units_learn_what_linear_models_cannot():
    """XOR of two inputs as a class, and outputs that exclude each other given x."""
    rng = np.random.RandomState(0)
    X = rng.choice([-1.0, 1.0], size=(200, 2)) + 0.1 * rng.randn(200, 2)
    y = (X[:, 0] > 0) ^ (X[:, 1] > 0)
    model = CRBMClassifier(alpha=1e-3, max_iter=400, random_state=0)
    assert model.fit(X, y).score(X, y) > 0.95
    assert CRBMClassifier(n_hidden=0, random_state=0).fit(X, y).score(X, y) < 0.7

    Z = np.zeros((400, 3))
    one = rng.randint(0, 2, 400)
    Y = np.column_stack([one, 1 - one])
    exclusive = CRBMClassifier(random_state=0, max_iter=300).fit(Z, Y)
    # p(v) is .5 on (0, 1) and (1, 0): not a product of marginals.
    states, score = joint(exclusive, Z[0])
    p = dict(zip(map(tuple, states.tolist()), softmax(score), strict=True))
    assert p[0, 1] + p[1, 0] > 0.9
    np.testing.assert_allclose(exclusive.predict_proba(Z[:1]), Y.mean(0, keepdims=True), atol=0.02)


@pytest.mark.parametrize("inference", ["exact", "sum_product", "mean_field"])
def test_rows_do_not_depend_on_each_other(inference):
    X, Y = make_data()
    model = quick(inference=inference, max_iter=30).fit(X, Y)
    together = model.decision_function(X)
    alone = np.vstack([model.decision_function(X[n : n + 1]) for n in range(len(X))])
    halves = np.vstack([model.decision_function(X[::2]), model.decision_function(X[1::2])])
    # Products with X may add up in another order.
    np.testing.assert_allclose(alone, together, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(halves, np.vstack([together[::2], together[1::2]]), rtol=1e-10)


@pytest.mark.parametrize(("inference", "off"), [("sum_product", 0.002), ("mean_field", 0.055)])
def test_approximate_marginals_are_close_to_exact_ones(inference, off):
    X, Y = make_data()
    exact = quick(n_hidden=3, max_iter=10).fit(X, Y)
    model = clone(exact).set_params(inference=inference).fit(X, Y)
    assert model.inference_ == inference
    # Both approximations are good, as max|W| is 0.85. The bound is twice the measured error.
    assert np.abs(model.predict_proba(X) - exact.predict_proba(X)).max() < 2 * off


def test_score_is_subset_accuracy():
    X, Y = make_data()
    model = quick(max_iter=30).fit(X, Y)
    right = (model.predict(X) == Y).all(axis=1)
    assert model.score(X, Y) == right.mean()
    weight = np.arange(90.0)
    assert model.score(X, Y, sample_weight=weight) == pytest.approx(
        np.average(right, weights=weight)
    )


# ---------------------------------------------------------------- kinds of input


def test_pandas_input():
    X, Y = make_data()
    frame = pd.DataFrame(X, columns=["u", "v", "w", "x"])
    model = quick().fit(frame, pd.DataFrame(Y, columns=list("abc")))
    assert model.feature_names_in_.tolist() == ["u", "v", "w", "x"]
    assert model.n_features_in_ == 4
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        proba = model.predict_proba(frame)
    np.testing.assert_array_equal(proba, quick().fit(X, Y).predict_proba(X))
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(frame[["v", "u", "w", "x"]])
    y = pd.Series(Y[:, 0]).map({0: "no", 1: "yes"})
    assert set(quick().fit(frame, y).predict(frame)) <= {"no", "yes"}


@pytest.mark.parametrize("container", [sparse.csr_matrix, sparse.csr_array, sparse.coo_matrix])
def test_sparse_input(container):
    X, Y = make_data(n_features=12)
    X[np.abs(X) < 1] = 0
    dense = quick(max_iter=20).fit(X, Y)
    model = quick(max_iter=20).fit(container(X), Y)
    # Sparse products add in another order; 20 full-batch steps carry that along.
    assert_same_parameters(model, dense, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(
        model.predict_proba(container(X)), dense.predict_proba(X), rtol=1e-6, atol=1e-9
    )
    # Mini-batches take rows of the sparse matrix.
    small = quick(batch_size=16, early_stopping=True).fit(container(X), Y)
    assert_same_parameters(
        small, quick(batch_size=16, early_stopping=True).fit(X, Y), rtol=1e-6, atol=1e-9
    )


@pytest.mark.parametrize("inference", ["exact", "sum_product", "mean_field"])
@pytest.mark.parametrize("target", ["multilabel", "multiclass", "binary"])
def test_float32(inference, target):
    X, Y = make_data()
    y = {"multilabel": Y, "multiclass": Y.sum(1), "binary": Y[:, 0]}[target]
    model = quick(inference=inference, max_iter=20).fit(X.astype(np.float32), y)
    double = quick(inference=inference, max_iter=20).fit(X, y)
    for name in PARAMETERS:
        assert getattr(model, name).dtype == np.float32
        assert getattr(double, name).dtype == np.float64
    for method in ("predict_proba", "decision_function"):
        single = getattr(model, method)(X.astype(np.float32))
        assert single.dtype == np.float32
        assert getattr(double, method)(X).dtype == np.float64
        # 20 steps of Adam, which turns a gradient near 0 into a step of full length; and a
        # row may stop iterating one step apart, at a change of 1e-3 in probability.
        atol = 0.02 if model.inference_ == "exact" else 0.1
        np.testing.assert_allclose(single, getattr(double, method)(X), atol=atol)


def test_strings_bool_and_column_targets():
    X, Y = make_data()
    reference = quick().fit(X, Y)
    np.testing.assert_array_equal(
        quick().fit(X, Y.astype(bool)).predict_proba(X), reference.predict_proba(X)
    )
    y = Y[:, 0].astype(bool)
    model = quick().fit(X, y)
    assert model.classes_.dtype == bool
    assert model.predict(X).dtype == bool
    with pytest.warns(DataConversionWarning, match="column-vector"):
        column = quick().fit(X, Y[:, :1])
    np.testing.assert_array_equal(column.predict_proba(X), model.predict_proba(X))


def test_a_single_class():
    X, _ = make_data()
    model = quick().fit(X, np.full(90, 7))
    assert model.classes_.tolist() == [7]
    np.testing.assert_array_equal(model.predict(X), 7)
    np.testing.assert_array_equal(model.predict_proba(X), np.ones((90, 1)))


@pytest.mark.parametrize("decode", ["marginal", "label_set"])
@pytest.mark.parametrize("value", [0, 1])
def test_constant_labels(value, decode):
    X, Y = make_data()
    Y[:, 1] = value
    model = quick(max_iter=100, decode=decode).fit(X, Y)
    np.testing.assert_array_equal(model.predict(X)[:, 1], value)
    proba = model.predict_proba(X)[:, 1]
    assert np.isfinite(proba).all()
    assert (np.abs(proba - value) < 0.05).all()
    assert model.classes_.tolist() == [0, 1, 2]
    # All labels constant: still a model.
    np.testing.assert_array_equal(quick().fit(X, np.full((90, 2), value)).predict(X), value)


@pytest.mark.parametrize("early_stopping", ["auto", False])
def test_one_row_per_class(early_stopping):
    X = 3 * np.eye(5)
    model = CRBMClassifier(early_stopping=early_stopping, alpha=1e-3, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(X, np.arange(5))
    np.testing.assert_array_equal(model.predict(X), np.arange(5))
    one = CRBMClassifier(max_iter=3, random_state=0).fit(X[:1], [[0, 1, 1]])
    assert one.predict(X).shape == (5, 3)


# -------------------------------------------------------------------- sample weights


@pytest.mark.parametrize("solver", ["adam", "lbfgs"])
@pytest.mark.parametrize("target", ["multilabel", "multiclass"])
@pytest.mark.parametrize("n_hidden", [0, 3])
def test_weights_count_rows(n_hidden, target, solver):
    X, Y = make_data(60)
    y = Y if target == "multilabel" else Y.sum(axis=1)
    counts = np.random.RandomState(0).randint(0, 4, 60)
    model = quick(n_hidden=n_hidden, solver=solver, alpha_hidden=0.01, max_iter=40)
    weighted = clone(model).fit(X, y, sample_weight=counts)
    repeated = clone(model).fit(np.repeat(X, counts, axis=0), np.repeat(y, counts, axis=0))
    # All rows in one batch (fewer than 200), so each step is equal up to rounding.
    assert_same_parameters(weighted, repeated, rtol=1e-6, atol=1e-9)
    np.testing.assert_array_equal(weighted.label_sets_, repeated.label_sets_)


def test_zero_weight_removes_a_row():
    X, Y = make_data(60)
    weight = (np.arange(60) % 3 > 0).astype(float)
    keep = weight > 0
    # In mini-batches and the validation part as well: not even the random draws see it.
    for options in ({}, {"batch_size": 7}, {"early_stopping": True, "batch_size": 7}):
        assert_same_parameters(
            quick(**options).fit(X, Y, sample_weight=weight), quick(**options).fit(X[keep], Y[keep])
        )
    # The class of a row of weight 0 stays a class, as in scikit-learn, but is unlikely.
    y = np.array([0] * 30 + [1] * 29 + [2])
    model = quick().fit(X, y, sample_weight=np.r_[np.ones(59), 0])
    assert model.classes_.tolist() == [0, 1, 2]
    assert model.predict_proba(X)[:, 2].max() < 0.05


def test_scale_of_weights_does_not_matter():
    X, Y = make_data(60)
    a, b = (quick(max_iter=20).fit(X, Y, sample_weight=np.full(60, w)) for w in (1.0, 1e3))
    assert_same_parameters(a, b, rtol=1e-9, atol=1e-12)


# --------------------------------------------------------------- choice of inference


@pytest.mark.parametrize(
    ("n_outputs", "n_hidden", "name"),
    [(3, 2, "exact"), (3, 50, "exact"), (30, 10, "exact"), (11, 11, "sum_product")],
)
def test_auto_inference(n_outputs, n_hidden, name):
    X, Y = make_data(30, 3, n_outputs)
    model = CRBMClassifier(n_hidden=n_hidden, max_iter=1, random_state=0).fit(X, Y)
    assert model.inference_ == name
    assert model.n_inference_iter_ == (None if name == "exact" else 7)
    named = CRBMClassifier(n_hidden=n_hidden, inference=name, max_iter=1, random_state=0)
    assert_same_parameters(model, named.fit(X, Y))


def test_configured_inference():
    X, Y = make_data()
    model = quick(inference=SumProduct(max_iter=30, damping=0.5)).fit(X, Y)
    assert (model.inference_, model.n_inference_iter_) == ("sum_product", 30)
    other = quick(inference=SumProduct(max_iter=30)).fit(X, Y)
    assert (model.weights_ != other.weights_).any()
    assert quick(inference=Exact(max_units=5)).fit(X, Y).inference_ == "exact"


# ------------------------------------------------------------------ model selection


@pytest.mark.compiled
@pytest.mark.filterwarnings("ignore:F-score is ill-defined")  # rows without a label, in f1_samples
def test_grid_search_in_a_pipeline():
    X, Y = make_data(120)
    model = CRBMClassifier(n_hidden=2, alpha=0.03, max_iter=8, random_state=0)
    pipe = make_pipeline(StandardScaler(), model)
    grid = {
        "crbmclassifier__n_hidden": [0, 3],
        "crbmclassifier__inference": ["exact", SumProduct(max_iter=5)],
    }
    scoring = {
        "f1": "f1_samples",
        "auc": "roc_auc",
        "nll": masked_scorer("neg_log_loss"),
        "acc": "accuracy",
    }
    results = []
    for n_jobs in (1, 2):
        search = GridSearchCV(pipe, grid, scoring=scoring, refit="nll", cv=3, n_jobs=n_jobs)
        results.append(search.fit(X, Y).cv_results_)
        best = clone(pipe).set_params(**search.best_params_).fit(X, Y)
        np.testing.assert_array_equal(search.predict(X), best.predict(X))
    for key, values in results[0].items():
        if not key.endswith("_time"):
            np.testing.assert_array_equal(values, results[1][key], err_msg=key)
    for name in scoring:
        assert np.isfinite(results[0][f"mean_test_{name}"]).all()
    assert (results[0]["mean_test_auc"] > 0.7).all()


def test_grid_reaches_the_parameters_of_the_inference():
    X, Y = make_data(60)
    search = GridSearchCV(
        quick(inference=SumProduct()),
        {"inference__max_iter": [12, 21]},
        cv=2,
        scoring=masked_scorer("f1_samples"),
    ).fit(X, Y)
    assert search.best_estimator_.n_inference_iter_ == search.best_params_["inference__max_iter"]


def test_scorers_of_class_vectors():
    X, Y = make_data(90)
    scores = cross_val_score(quick(), X, Y.sum(axis=1), cv=3, scoring="neg_log_loss")
    assert (scores > -2).all()
    scores = cross_val_score(quick(), X, Y[:, 0], cv=3, scoring="roc_auc")
    assert (scores > 0.6).all()


@pytest.mark.parametrize("method", ["predict_proba", "decision_function", "predict"])
def test_cross_val_predict(method):
    X, Y = make_data()
    model = quick(max_iter=10)
    cv = KFold(3)
    for y in (Y, Y.sum(axis=1), Y[:, 0]):
        predicted = cross_val_predict(model, X, y, cv=cv, method=method)
        folds = [
            getattr(clone(model).fit(X[train], y[train]), method)(X[test])
            for train, test in cv.split(X)  # in the order of the rows
        ]
        np.testing.assert_allclose(predicted, np.concatenate(folds), rtol=1e-12)


def test_cross_validated_probabilities_are_better_than_none():
    X, Y = make_data()
    proba = cross_val_predict(quick(max_iter=10), X, Y[:, 0], cv=3, method="predict_proba")
    assert log_loss(Y[:, 0], proba) < np.log(2)


# ----------------------------------------------------------------------- bad input


def bad(X, message, y=None, weight=None, **options):
    _, Y = make_data()
    with pytest.raises(ValueError, match=message):
        quick(**options).fit(X, Y if y is None else y, sample_weight=weight)


def test_bad_rows():
    X, Y = make_data()
    for value, message in ((np.nan, "Input X contains NaN"), (np.inf, "Input X contains infinity")):
        spoiled = X.copy()
        spoiled[3, 1] = value
        bad(spoiled, message)
        bad(sparse.csr_matrix(spoiled), message)
        with pytest.raises(ValueError, match=message):
            quick().fit(X, Y).predict(spoiled)
    bad(X[:, 0], "Expected 2D array")
    bad(X.astype(str).astype(object) + "a", "could not convert")
    bad(X[:0], "minimum of 1 is required", y=Y[:0])


def test_bad_shapes():
    X, Y = make_data()
    for y in (Y[:7], Y[:7, 0]):
        bad(X, "inconsistent numbers of samples: X has 90 rows, y has 7", y=y)
    bad(X, r"sample_weight.shape == \(7,\), expected \(90,\)", weight=np.ones(7))
    model = quick().fit(X, Y)
    for method in (model.predict, model.predict_proba, model.decision_function):
        with pytest.raises(ValueError, match="X has 2 features, but CRBMClassifier is expecting 4"):
            method(X[:, :2])


def test_bad_weights():
    X, _ = make_data()
    bad(X, "Negative values in data passed to `sample_weight`", weight=np.full(90, -1.0))
    bad(X, "[Ss]ample.weight.*zero for every row", weight=np.zeros(90))
    bad(X, "sample_weight contains NaN", weight=np.full(90, np.nan))


def test_bad_targets():
    """`fit` validates y; the rules of the validation have tests of their own."""
    X, Y = make_data()
    bad(X, r"holds -1 and \+1\. If -1 means unknown, put NaN .* with \(y \+ 1\) / 2", y=2 * Y - 1)
    bad(X, "strings: convert it with y == '1'", y=Y.astype(str))
    bad(X, "cross_val_predict", y=np.where(Y == 0, 2, 1))
    bad(X, "infinity", y=np.where(Y == 0, np.inf, 1))
    bad(X, "no observed entry", y=np.full(Y.shape, np.nan))
    bad(X, "only a 2-D indicator y may hold NaN", y=np.where(Y[:, 0] == 0, np.nan, 1))
    bad(X, "other values", y=Y + 0.5)
    bad(X, "continuous", y=X[:, 0])
    with pytest.raises(ValueError, match="requires y to be passed, but the target y is None"):
        quick().fit(X, None)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"inference": "sumproduct"}, "'inference' parameter .*'sum_product'.*Got 'sumproduct'"),
        ({"inference": 3}, "'inference' parameter"),
        ({"decode": "modes"}, "'decode' parameter .*'label_set'.*Got 'modes'"),
        ({"solver": "newton"}, "'solver' parameter"),
        ({"learning": "ml"}, "'learning' parameter .*'mle'.*Got 'ml'"),
        ({"n_hidden": -1}, r"'n_hidden' parameter .*range \[0, inf\)\. Got -1"),
        ({"n_hidden": 2.5}, "'n_hidden' parameter"),
        ({"max_iter": 0}, "'max_iter' parameter"),
        ({"batch_size": 0}, "'batch_size' parameter of Adam"),
        ({"learning_rate": 0}, "'learning_rate' parameter of Adam"),
        ({"solver": SGD(momentum=1.0)}, "'momentum' parameter of SGD"),
        ({"solver": Adam}, "'solver' parameter"),
        ({"learning": ContrastiveDivergence(n_steps=0)}, "'n_steps' parameter of Contrastive"),
        ({"alpha": -0.1}, "'alpha' parameter"),
        ({"alpha_hidden": -0.1}, "'alpha_hidden' parameter"),
        ({"early_stopping": "always"}, "'early_stopping' parameter"),
        ({"early_stopping": EarlyStopping(1.0)}, "'validation_fraction' parameter of Early"),
        ({"early_stopping": LossPlateau(0)}, "'n_iter_no_change' parameter of LossPlateau"),
        ({"random_state": "seed"}, "'random_state' parameter"),
        ({"inference": SumProduct(max_iter=0)}, "'max_iter' parameter of SumProduct"),
    ],
)
def test_bad_parameters(option, message):
    X, Y = make_data()
    with pytest.raises(InvalidParameterError, match=message):
        quick(**option).fit(X, Y)
    with pytest.raises(InvalidParameterError, match=message):
        quick(**option).partial_fit(X, Y)


def test_a_class_in_place_of_an_object():
    X, Y = make_data()
    with pytest.raises(TypeError, match=r"configured object such as SumProduct\(max_iter=30\)"):
        quick(inference=SumProduct).fit(X, Y)


def test_exact_inference_out_of_reach():
    X, Y = make_data(30, 3, 25)
    with pytest.raises(ValueError, match="smaller layer, which has 21 units; the limit is"):
        CRBMClassifier(n_hidden=21, inference="exact").fit(X, Y)


def test_failed_fit_leaves_the_model_as_it_was():
    """Parameters of an earlier fit are never mixed with the classes of a failed fit."""
    X, Y = make_data()
    for y, weight in ((Y[:7], None), (2 * Y, None), (Y[:, 0], np.zeros(90))):
        model = quick()
        with pytest.raises(ValueError, match=r"samples|holds a 2|[Ww]eight"):
            model.fit(X, y, sample_weight=weight)
        with pytest.raises(NotFittedError):
            model.predict(X)
        before = model.fit(X, Y).predict_proba(X)
        with pytest.raises(ValueError, match=r"samples|holds a 2|[Ww]eight"):
            model.fit(X, y, sample_weight=weight)
        np.testing.assert_array_equal(model.predict_proba(X), before)
        model.fit(X, Y[:, 0])
        assert model.predict(X).shape == (90,)


def test_score_wants_as_many_rows():
    X, Y = make_data()
    model = quick().fit(X, Y)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model.score(X, Y[:7])


def test_not_fitted():
    X, Y = make_data()
    for call in ("predict", "predict_proba", "decision_function"):
        with pytest.raises(NotFittedError):
            getattr(quick(), call)(X)
    with pytest.raises(NotFittedError):
        quick().score(X, Y)
