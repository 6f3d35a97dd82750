"""Classifiers of any library inside of this package: their answers come in many forms.

The same probabilities in another form give the same result; a wrong form gives an error.
"""

import numpy as np
import pandas as pd
import pytest
from reference.wrapped_answers import BACKWARDS, FORMS, NAMES, Answers, by_name, pairs
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from skcrbm import DecodedClassifier
from skcrbm.annotation import find_label_issues, suggest_labels
from skcrbm.calibration import CalibratedMarginals, ConformalLabelSets, ConformalRiskControl
from skcrbm.constraints import Constrained, Implies
from skcrbm.ensemble import OutOfBagLogOdds
from skcrbm.inspection import ReliabilityDisplay
from skcrbm.metrics import marginal_log_loss, masked_score, masked_scorer
from skcrbm.model_selection import cross_val_predict

RNG = np.random.default_rng(0)
X = RNG.uniform(0.05, 0.95, size=(60, 4))
Y = (RNG.uniform(size=X.shape) < X).astype(int)
FRAME = pd.DataFrame(Y, columns=NAMES)


WRONG = {
    "a column too few": (lambda p: p[:, :3], None, r"shape \(n_samples, 4\).* got \(\d+, 3\)"),
    "a column too many": (lambda p: p[:, [0, 1, 2, 3, 3]], None, r"shape \(n_samples, 4\)"),
    "a list too short": (lambda p: pairs(p)[:3], None, r"shape \(n_samples, 4\)"),
    "transposed": (lambda p: p[:7].T, None, r"shape \(n_samples, 4\)"),
    "a row too few": (lambda p: p[1:], None, r"has \d+ rows, but X has"),
    "a vector": (lambda p: p[:, 0], None, r"must have shape \(n_samples, n_labels\)"),
    "NaN": (lambda p: np.where(p > p.min(), p, np.nan), None, "must be finite"),
    "above 1": (lambda p: 1.1 * p, None, r"must hold probabilities in \[0, 1\]"),
    "log-odds": (lambda p: np.log(p / (1 - p)), None, r"must hold probabilities in \[0, 1\]"),
    "three classes": (
        lambda p: [np.hstack([part, part[:, :1]]) for part in pairs(p)],
        [np.array([0, 1, 2])] * 4,
        "needs a column for each class, 0 or 1",
    ),
    "classes of too few labels": (pairs, BACKWARDS[:3], "lists the classes of 3 labels"),
    "unknown names": (
        lambda p: pd.DataFrame(p, columns=list("abcd")),
        None,
        "has columns with the names 'a'.* but the expected names are 'sun'",
    ),
}


def decoded(model, y):
    fitted = DecodedClassifier(model, decode="expected_f1").fit(X, y)
    return np.hstack([fitted.predict(X), fitted.predict_proba(X), fitted.predict_log_proba(X)])


def thresholds(model, y):
    return DecodedClassifier(model, decode="threshold").fit(X, y).thresholds_


def calibrated(model, y):
    return CalibratedMarginals(model, cv=3).fit(X, y).predict_proba(X)


def conformal_sets(model, y):
    fitted = ConformalLabelSets(model, cv=3, random_state=0).fit(X, y)
    return np.column_stack([fitted.set_sizes(X), fitted.contains(X, y), fitted.predict(X)])


def risk_control(model, y):
    fitted = ConformalRiskControl(model, cv=3, risk=0.3).fit(X, y)
    return np.hstack([fitted.predict(X), fitted.predict_proba(X), [[fitted.threshold_]] * 60])


def constrained(model, y):
    return Constrained(model, [Implies(0, 1)]).fit(X, y).predict_proba(X)


def log_odds(model, y):
    return OutOfBagLogOdds(model, cv=3).fit_transform(X, y)


def issues(model, y):
    return find_label_issues(model, X, y, cv=3).entry_scores


def suggestions(model, y):
    model = DecodedClassifier(model).fit(X, y) if isinstance(y, pd.DataFrame) else model
    return suggest_labels(model, X, strategy="entropy", n=4).all_gains


def cross_validated(model, y):
    log_p = (
        cross_val_predict(model, X, y, cv=3, method="predict_proba"),
        cross_val_predict(model, X, y, cv=3),
    )
    return np.hstack(log_p)


def scored(model, y):
    return masked_scorer("neg_log_loss")(model, X, y)


WRAPPERS = [
    *(decoded, thresholds, calibrated, conformal_sets, risk_control, constrained, log_odds),
    *(issues, suggestions, cross_validated),
]


@pytest.mark.filterwarnings("ignore:.*rows of y violate the rules")
@pytest.mark.parametrize("wrapper", WRAPPERS, ids=lambda function: function.__name__)
def test_the_same_probabilities_in_any_form(wrapper):
    for y in (Y, FRAME):
        expected = wrapper(Answers(), y)
        for form in FORMS:
            if by_name(form) and y is Y:
                continue  # the labels have no names
            if not by_name(form) and y is FRAME and form not in ("pairs", "polars"):
                continue
            tolerance = {"rtol": 1e-3} if form == "float32" else {"rtol": 1e-9}
            for model in (Answers(form), FrozenEstimator(Answers(form))):
                if wrapper is log_odds and by_name(form):
                    continue  # the inner classifier gets an array
                found = wrapper(model, y)
                np.testing.assert_allclose(found, expected, **tolerance, err_msg=form)


@pytest.mark.filterwarnings("ignore:.*rows of y violate the rules")
@pytest.mark.parametrize("wrapper", WRAPPERS, ids=lambda function: function.__name__)
def test_a_wrong_answer_is_an_error(wrapper):
    wrong = {form: (change, classes) for form, (change, classes, _) in WRONG.items()}
    for form, (_, _, message) in WRONG.items():
        if wrapper is log_odds and by_name(form):
            continue
        for model in (Answers(form, wrong), FrozenEstimator(Answers(form, wrong))):
            frozen = r"|^estimator is frozen and predicts \d labels, but y has 4 columns"
            with pytest.raises(ValueError, match=message + frozen):
                wrapper(model, FRAME)


def unknown(p):
    return pd.DataFrame(p, columns=list("abcd"))


@pytest.mark.filterwarnings("ignore:.*rows of y violate the rules")
@pytest.mark.parametrize("wrapper", WRAPPERS, ids=lambda function: function.__name__)
def test_names_of_labels_without_names(wrapper):
    """They are taken by position, with a warning; some names that are numbers are an error."""
    expected = wrapper(Answers(), Y)
    with pytest.warns(
        UserWarning, match=r"predict_proba\(X\) has column names, but .* by position"
    ):
        found = wrapper(Answers("given", {"given": (unknown, None)}), Y)
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    shifted = {"given": (lambda p: pd.DataFrame(p, columns=range(1, 5)), None)}
    if wrapper is log_odds:
        return
    with pytest.raises(ValueError, match="has columns with the names 1, 2, 3, 4, but"):
        wrapper(Answers("given", shifted), Y)


def test_numbers_that_may_be_names_or_positions():
    y = pd.DataFrame(Y, columns=[2, 0, 1, 3])
    numbers = DecodedClassifier(Answers("given", {"given": (pd.DataFrame, None)})).fit(X, y)
    with pytest.raises(ValueError, match="the numbers may be names or positions"):
        numbers.predict_proba(X)
    named = {"given": (lambda p: pd.DataFrame(p, columns=np.arange(4)), None)}
    found = DecodedClassifier(Answers("given", named)).fit(X, y).predict_proba(X)
    np.testing.assert_array_equal(found, X[:, [2, 0, 1, 3]])


def test_suggestions_count_the_columns():
    """The error names the answer of the classifier, whatever `y_known` holds."""
    short = (lambda p: p[:, :3], np.arange(4))
    for known in (None, np.full((60, 4), np.nan), np.full((60, 3), np.nan)):
        message = r"predict_proba\(X\) should have the shape \(n_samples, 4\), .* in classes_, got"
        with pytest.raises(ValueError, match=message):
            suggest_labels(Answers("short", {"short": short}), X, known, strategy="entropy")
    whole = Answers("given", {"given": (lambda p: p, np.arange(4))})
    with pytest.raises(ValueError, match=r"y_known must have shape \(60, 4\), got \(60, 3\)"):
        suggest_labels(whole, X, np.full((60, 3), np.nan), strategy="entropy")


def test_scores_of_frames():
    """Scores read predictions by name, as wrappers do."""
    p = pd.DataFrame(X)[[3, 1, 0, 2]]
    for y in (Y, pd.DataFrame(Y), pd.DataFrame(Y)[[1, 0, 3, 2]]):
        assert marginal_log_loss(y, p) == pytest.approx(marginal_log_loss(Y, X), rel=1e-12)
        assert masked_score("roc_auc", y, y_score=p) == masked_score("roc_auc", Y, y_score=X)
    pytest.importorskip("matplotlib")
    found = ReliabilityDisplay.from_predictions(FRAME, pd.DataFrame(X, columns=NAMES)[NAMES[::-1]])
    expected = ReliabilityDisplay.from_predictions(Y, X)
    np.testing.assert_array_equal(found.probability[0], expected.probability[0])


def test_scores_and_displays():
    pytest.importorskip("matplotlib")
    for form in ("backwards", "sparse", "frame in another order"):
        y = FRAME if by_name(form) else Y
        model = Answers(form)
        assert scored(model, y) == pytest.approx(scored(Answers(), y), rel=1e-9)
        if not by_name(form):
            found, expected = (
                ReliabilityDisplay.from_estimator(m, X, y).probability for m in (model, Answers())
            )
            np.testing.assert_allclose(found[0], expected[0])


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 0, 1]])
def test_classes_of_a_vector(order):
    """The classes of the classifier may be in any order, and more than those of y are an error."""
    y = np.array(["a", "b", "c"])[np.arange(60) % 3]
    P = X[:, :3] / X[:, :3].sum(axis=1, keepdims=True)
    forms = {"given": (lambda p: p[:, order], np.array(["a", "b", "c"])[order])}
    model = DecodedClassifier(Answers("given", forms)).fit(P, y)
    np.testing.assert_allclose(model.predict_proba(P), P)
    np.testing.assert_allclose(model.predict_log_proba(P), np.log(P))
    np.testing.assert_allclose(
        OutOfBagLogOdds(Answers("given", forms), cv=3).fit_transform(P, y), np.log(P / (1 - P))
    )
    with pytest.raises(ValueError, match=r"should have a column for each class of y, \['a', 'b'\]"):
        DecodedClassifier(Answers("given", forms)).fit(P[:2], y[:2]).predict_proba(P)
    binary = {"given": (lambda p: np.column_stack([p[:, 0], 1 - p[:, 0]]), np.array([1, 0]))}
    calibrated = CalibratedMarginals(Answers("given", binary), cv=3).fit(X, Y[:, 0])
    assert (calibrated.predict(X) == Y[:, 0]).mean() > 0.6


class Decides(Answers):
    """Classifier with decisions alone, whose second class comes first."""

    predict_proba = property()
    classes_ = np.array([1, 0])

    def decision_function(self, X):
        return 0.5 - np.asarray(X)[:, 0]


def test_decisions_for_the_second_class():
    model = CalibratedMarginals(Decides(), cv=3).fit(X, Y[:, 0])
    assert (model.predict(X) == Y[:, 0]).mean() > 0.6


def test_a_frozen_classifier_needs_no_folds():
    """Three rows suffice where a classifier that is fitted in folds needs more."""
    frozen = FrozenEstimator(Answers())
    for model in (frozen, make_pipeline(FrozenEstimator(FunctionTransformer()), frozen)):
        for n in (2, 3, 4):
            CalibratedMarginals(model).fit(X[:n], Y[:n])
            assert len(DecodedClassifier(model, decode="threshold").fit(X[:n], Y[:n]).thresholds_)
            ConformalLabelSets(model, confidence=0.3).fit(X[:n], Y[:n])
            assert find_label_issues(model, X[:n], Y[:n]).entry_scores.shape == (n, 4)
            with pytest.raises(ValueError, match="n_splits=5"):
                CalibratedMarginals(clone(Answers())).fit(X[:n], Y[:n])
    expected = CalibratedMarginals(Answers(), cv=3).fit(X, Y).predict_proba(X)
    found = CalibratedMarginals(frozen).fit(X, Y).predict_proba(X)
    np.testing.assert_allclose(found, expected, rtol=1e-9)
