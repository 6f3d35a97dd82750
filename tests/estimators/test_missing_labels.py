"""NaN in y = not observed; known labels in prediction; model selection with both."""

import warnings

import numpy as np
import pytest
from reference.objects import objects
from scipy import sparse
from sklearn import config_context
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skcrbm import CRBMClassifier
from skcrbm.learning import SGD, Adam
from skcrbm.metrics import masked_score, masked_scorer

PARAMETERS = (
    "visible_coef_",
    "hidden_coef_",
    "weights_",
    "visible_intercept_",
    "hidden_intercept_",
)


def make_data(n=100, n_features=4, n_outputs=4, noise=1.0, seed=0):
    """Outputs are copies of two signals, of which X tells a part."""
    rng = np.random.RandomState(seed)
    X = rng.randn(n, n_features)
    signal = X @ rng.randn(n_features, 2) + noise * rng.randn(n, 2)
    Y = signal[:, np.arange(n_outputs) % 2] + 0.3 * rng.randn(n, n_outputs) > 0.5
    return X, Y.astype(float)


def hide(Y, share, seed=1):
    partly = Y.astype(float)
    partly[np.random.RandomState(seed).random_sample(Y.shape) < share] = np.nan
    return partly


def quick(**options):
    """Few epochs of stochastic training, whatever the defaults are."""
    small = {"n_hidden": 2, "max_iter": 6, "solver": "adam", "alpha": 0.1, "random_state": 0}
    return CRBMClassifier(**objects(**{**small, **options}))


def assert_same_parameters(a, b, **tolerance):
    for name in PARAMETERS:
        np.testing.assert_allclose(getattr(a, name), getattr(b, name), err_msg=name, **tolerance)


# --------------------------------------------------------------------------- fitting


def test_without_hidden_units_each_label_is_fitted_on_its_observed_rows():
    X, Y = make_data(150)
    partly = hide(Y, 0.3)
    partly[:20] = np.nan  # rows without any label
    alpha = 0.05
    model = CRBMClassifier(n_hidden=0, alpha=alpha, max_iter=1000)
    model.fit(X, partly)
    for j in range(4):
        seen = ~np.isnan(partly[:, j])
        # The objective is a mean over all rows, so all of them set the scale of the penalty.
        lr = LogisticRegression(C=1 / (alpha * 150), tol=1e-10, max_iter=10_000)
        lr.fit(X[seen], partly[seen, j])
        np.testing.assert_allclose(model.visible_coef_[j], lr.coef_[0], atol=1e-3)
        np.testing.assert_allclose(model.visible_intercept_[j], lr.intercept_[0], atol=1e-3)


@pytest.mark.parametrize("n_hidden", [0, 2])
@pytest.mark.parametrize("alpha", [0.0, 0.1])
def test_rows_without_observed_label(n_hidden, alpha):
    """They add rows to the mean and nothing to the sum: the penalty counts for more."""
    X, Y = make_data(80)
    partly = hide(Y, 0.2)
    blank = np.full((20, 4), np.nan)
    options = {"n_hidden": n_hidden, "max_iter": 30, "random_state": 0}
    more = CRBMClassifier(alpha=alpha, solver=SGD(0.1), **options)
    more.fit(np.vstack([X, X[:20]]), np.vstack([partly, blank]))
    # Only 80 of 100 rows have labels: every gradient is .8 of the gradient of the 80 rows alone.
    fewer = CRBMClassifier(alpha=alpha / 0.8, solver=SGD(0.08), **options).fit(X, partly)
    assert_same_parameters(more, fewer, rtol=1e-7, atol=1e-10)


@pytest.mark.parametrize("inference", ["exact", "sum_product", "mean_field"])
def test_nothing_hidden_is_the_ordinary_fit(inference):
    X, Y = make_data()
    a = quick(inference=inference).fit(X, Y)
    b = quick(inference=inference).fit(X, Y.astype(int))
    assert_same_parameters(a, b, rtol=0)
    partly = quick(inference=inference).fit(X, hide(Y, 0.5))
    assert (partly.visible_coef_ != a.visible_coef_).any()


@pytest.mark.deep
@pytest.mark.compiled
@pytest.mark.parametrize("inference", ["exact", "sum_product", "mean_field"])
@pytest.mark.parametrize("options", [{}, {"batch_size": 16, "early_stopping": True}])
def test_every_method_trains_on_partly_observed_rows(inference, options):
    X, Y = make_data(200)
    model = quick(inference=inference, max_iter=40, **options).fit(X, hide(Y, 0.4))
    right = (model.predict(X) == Y).mean()
    # .76 to .79 measured, as with all labels; the more frequent value of each gives .63.
    assert right > 0.7
    assert np.isfinite(model.loss_curve_).all()


def test_weights_count_partly_observed_rows():
    X, Y = make_data(60)
    partly = hide(Y, 0.4)
    counts = np.random.RandomState(0).randint(0, 4, 60)
    weighted = quick().fit(X, partly, sample_weight=counts)
    repeated = quick().fit(np.repeat(X, counts, axis=0), np.repeat(partly, counts, axis=0))
    assert_same_parameters(weighted, repeated, rtol=1e-7, atol=1e-10)


def test_sparse_rows_and_float32():
    X, Y = make_data()
    X[np.abs(X) < 0.7] = 0
    partly = hide(Y, 0.4)
    reference = quick().fit(X, partly)
    assert_same_parameters(
        quick().fit(sparse.csr_matrix(X), partly), reference, rtol=1e-7, atol=1e-10
    )
    single = quick().fit(X.astype(np.float32), partly.astype(np.float32))
    assert single.weights_.dtype == np.float32
    # 6 steps in single precision.
    assert_same_parameters(single, reference, atol=1e-3)


def test_a_label_that_is_never_observed():
    X, Y = make_data()
    Y[:, 2] = np.nan
    with pytest.warns(UserWarning, match="label 2 has no observed entry"):
        model = quick(max_iter=30).fit(X, Y)
    proba = model.predict_proba(X)
    assert proba.shape == (100, 4)
    assert np.isfinite(proba).all()
    # A label that is never observed acts as a further hidden unit; other labels do not suffer.
    assert masked_score("roc_auc", Y, y_score=proba) > 0.8


def test_partial_fit_and_warm_start():
    X, Y = make_data()
    partly = hide(Y, 0.4)
    whole = quick(max_iter=3).fit(X, partly)
    parts = quick()
    for _ in range(3):
        parts.partial_fit(X, partly)
    assert_same_parameters(parts, whole, rtol=0)
    again = quick(warm_start=True).fit(X, Y).fit(X, partly)
    assert again.predict(X).shape == Y.shape


def test_label_sets_of_partly_observed_rows():
    """They count with their most probable completion; a row without any label does not."""
    X, Y = make_data()
    partly = hide(Y, 0.5)
    missing = np.isnan(partly)
    complete, blank = ~missing.any(axis=1), missing.all(axis=1)
    assert complete.any()
    assert blank.any()
    model = quick(max_iter=20, decode="label_set").fit(X, partly)
    completed = clone(model).set_params(decode="marginal").fit(X, partly).predict(X, y_known=partly)
    np.testing.assert_array_equal(completed[complete], Y[complete])
    np.testing.assert_array_equal(model.label_sets_, np.unique(completed[~blank], axis=0))
    # No complete row at all.
    partly[np.arange(100), np.arange(100) % 4] = np.nan
    model.fit(X, partly)
    assert len(model.label_sets_) > 1
    assert model.predict(X).shape == Y.shape


# ------------------------------------------------------------------------- recovery


@pytest.fixture(scope="module")
def curves():
    """Test F1 for each treatment of missing labels; 30% of the training labels are missing."""
    X, Y = make_data(1000, 6, 6, noise=1.5, seed=4)
    train, test = slice(None, 400), slice(400, None)
    partly = hide(Y[train], 0.3)
    complete = ~np.isnan(partly).any(axis=1)
    zeros = np.nan_to_num(partly)
    targets = {
        "all": (X[train], Y[train]),
        "marginalised": (X[train], partly),
        "zeros": (X[train], zeros),
        "complete rows": (X[train][complete], partly[complete]),
    }
    result = {}
    for name, (rows, y) in targets.items():
        model = CRBMClassifier(
            n_hidden=3,
            max_iter=100,
            early_stopping=False,
            solver=Adam(batch_size=400),
            random_state=0,
        ).fit(rows, y)
        predicted = model.predict(X[test])
        result[name] = f1_score(Y[test], predicted, average="samples", zero_division=0)
        result[name, "nll"] = -masked_score(
            "neg_log_loss", Y[test], y_score=model.predict_proba(X[test])
        )
    return result


@pytest.mark.deep
@pytest.mark.compiled
def test_marginalising_beats_filling_with_zeros(curves):
    # The bounds are half of the measured differences: .499 against .292, and .439 against .514.
    assert curves["marginalised"] > curves["zeros"] + 0.1
    assert curves["marginalised", "nll"] < curves["zeros", "nll"] - 0.035


@pytest.mark.deep
@pytest.mark.compiled
def test_little_is_lost_by_missing_labels(curves):
    assert curves["marginalised"] > curves["all"] - 0.03
    # A ninth of the rows is complete.
    assert curves["marginalised", "nll"] < curves["complete rows", "nll"]


# --------------------------------------------------------------------------- scores


def test_score_is_over_observed_entries():
    X, Y = make_data()
    model = quick(max_iter=30).fit(X, Y)
    partly = hide(Y, 0.6)
    predicted = model.predict(X)
    right, seen = 0, 0
    for v, p in zip(partly, predicted, strict=True):
        observed = ~np.isnan(v)
        seen += observed.any()
        right += observed.any() and (v == p)[observed].all()
    assert seen < 100
    assert model.score(X, partly) == pytest.approx(right / seen)
    assert model.score(X, Y) == (predicted == Y).all(axis=1).mean()


@pytest.mark.parametrize("score", ["f1_samples", "neg_log_loss", "roc_auc", "accuracy"])
def test_cross_validation(score):
    X, Y = make_data()
    partly = hide(Y, 0.3)
    cv = KFold(3)
    scores = cross_val_score(quick(), X, partly, cv=cv, scoring=masked_scorer(score))
    for value, (train, test) in zip(scores, cv.split(X), strict=True):
        model = quick().fit(X[train], partly[train])
        assert value == pytest.approx(
            masked_score(
                score,
                partly[test],
                y_pred=model.predict(X[test]),
                y_score=model.predict_proba(X[test]),
            )
        )


def test_grid_search():
    X, Y = make_data(120)
    partly = hide(Y, 0.3)
    pipe = make_pipeline(StandardScaler(), quick(max_iter=20))
    search = GridSearchCV(
        pipe,
        {"crbmclassifier__n_hidden": [0, 2], "crbmclassifier__decode": ["marginal", "label_set"]},
        cv=KFold(3),
        scoring={name: masked_scorer(name) for name in ("f1_samples", "neg_log_loss")},
        refit="f1_samples",
        error_score="raise",
    ).fit(X, partly)
    assert np.isfinite(search.cv_results_["mean_test_f1_samples"]).all()
    assert search.best_score_ > 0.4
    assert search.predict(X).shape == Y.shape
    # Without a scorer, the estimator's own score takes NaN as well.
    plain = GridSearchCV(quick(), {"n_hidden": [0, 2]}, cv=KFold(3), error_score="raise")
    assert 0 < plain.fit(X, partly).best_score_ < 1


def test_what_cross_val_predict_does_to_nan_is_explained():
    X, Y = make_data()
    partly = hide(Y, 0.3)
    with pytest.raises(ValueError, match=r"use skcrbm\.model_selection\.cross_val_predict"):
        cross_val_predict(quick(), X, partly, cv=KFold(2), method="predict_proba")


# -------------------------------------------------------------------- known labels


@pytest.fixture(scope="module")
def known_case():
    X, Y = make_data(150)
    pipe = make_pipeline(StandardScaler(), quick(max_iter=20)).fit(X, Y)
    known = hide(Y, 0.5)
    Z = pipe[0].transform(X)
    return pipe, X, known, pipe[1].predict(Z, y_known=known), pipe[1].predict_proba(Z, known)


def test_known_labels_in_a_pipeline_without_routing(known_case):
    pipe, X, known, labels, proba = known_case
    np.testing.assert_array_equal(pipe.predict(X, y_known=known), labels)
    np.testing.assert_array_equal(pipe.predict_proba(X, y_known=known), proba)
    assert (pipe.predict_proba(X) != proba).any()
    fixed = ~np.isnan(known)
    np.testing.assert_array_equal(labels[fixed], known[fixed])
    np.testing.assert_array_equal(proba[fixed], known[fixed])


def test_known_labels_with_metadata_routing(known_case):
    fitted, X, known, labels, proba = known_case
    _, Y = make_data(150)
    with config_context(enable_metadata_routing=True):
        model = clone(fitted[1])
        # An argument that was not requested is refused, not dropped.
        silent = make_pipeline(StandardScaler(), clone(model)).fit(X, Y)
        with pytest.raises((TypeError, ValueError), match="y_known"):
            silent.predict(X, y_known=known)
        model.set_predict_request(y_known=True)
        model.set_predict_proba_request(y_known=True)
        model.set_decision_function_request(y_known="given")
        pipe = make_pipeline(StandardScaler(), model).fit(X, Y)
        np.testing.assert_array_equal(pipe.predict(X, y_known=known), labels)
        np.testing.assert_array_equal(pipe.predict_proba(X, y_known=known), proba)
        log_odds = pipe.decision_function(X, given=known)
        assert np.isinf(log_odds[~np.isnan(known)]).all()
        np.testing.assert_array_equal(log_odds >= 0, proba >= 0.5)
        # Nothing has to be given.
        np.testing.assert_array_equal(pipe.predict(X), fitted.predict(X))


def test_weights_with_metadata_routing(known_case):
    fitted, X, _, _, _ = known_case
    _, Y = make_data(150)
    weight = np.random.RandomState(0).uniform(0, 2, 150)
    expected = clone(fitted[1]).fit(fitted[0].transform(X), Y, sample_weight=weight)
    with config_context(enable_metadata_routing=True):
        pipe = make_pipeline(
            StandardScaler().set_fit_request(sample_weight=False),
            clone(fitted[1]).set_fit_request(sample_weight=True),
        ).fit(X, Y, sample_weight=weight)
        assert_same_parameters(pipe[1], expected, rtol=0)
        scores = cross_val_score(
            quick().set_fit_request(sample_weight=True).set_score_request(sample_weight=True),
            X,
            Y,
            cv=3,
            params={"sample_weight": weight},
        )
        assert (scores > 0).all()


@pytest.mark.parametrize("inference", ["exact", "sum_product", "mean_field"])
def test_known_labels_with_every_method(inference):
    X, Y = make_data(150)
    model = CRBMClassifier(
        n_hidden=3, alpha=0.02, inference=inference, max_iter=30, random_state=0
    ).fit(X, Y)
    known = hide(Y, 0.5)
    proba = model.predict_proba(X, y_known=known)
    fixed = ~np.isnan(known)
    np.testing.assert_array_equal(proba[fixed], known[fixed])
    exact = clone(model).set_params(inference="exact").fit(X, Y)
    if inference != "exact":
        # A few per cent: approximate inference in training and in prediction.
        assert np.abs(proba - exact.predict_proba(X, y_known=known)).mean() < 0.1
    # Knowing half of the labels helps to predict the others.
    nll = [
        -masked_score("neg_log_loss", np.where(fixed, np.nan, Y), y_score=p)
        for p in (proba, model.predict_proba(X))
    ]
    assert nll[0] < nll[1]


def test_all_labels_known():
    X, Y = make_data()
    for decode in ("marginal", "label_set"):
        model = quick(decode=decode).fit(X, Y)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            np.testing.assert_array_equal(model.predict(X, y_known=1 - Y), 1 - Y)
            np.testing.assert_array_equal(model.predict_proba(X, y_known=1 - Y), 1 - Y)
