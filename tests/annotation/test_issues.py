"""Wrong labels: scores out of fold, the ranking, NaN and names."""

import numpy as np
import pandas as pd
import pytest
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import KFold
from sklearn.multioutput import MultiOutputClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skcrbm import CRBMClassifier, DecodedClassifier, LMBMClassifier
from skcrbm.annotation import find_label_issues
from skcrbm.calibration import CalibratedMarginals
from skcrbm.constraints import Constrained, Implies
from skcrbm.datasets import make_structured_labels
from skcrbm.model_selection import MultilabelStratifiedGroupKFold

NAN = float("nan")


@pytest.fixture(scope="module")
def data():
    X, Y = make_structured_labels(300, n_labels=5, strength=1.5, random_state=0)
    wrong = np.random.RandomState(0).random_sample(Y.shape) < 0.05
    return X, np.where(wrong, 1 - Y, Y), wrong


@pytest.fixture(scope="module")
def joint():
    return CRBMClassifier(alpha=0.03, random_state=0)


def test_scores_are_the_conditional_probabilities(data, joint):
    """With a fitted model: 1 - p(y_i | x, other labels), from the log-likelihood of both values."""
    X, Y, _ = data
    fitted = joint.fit(X[:200], Y[:200])
    issues = find_label_issues(FrozenEstimator(fitted), X[200:], Y[200:])
    log_p = fitted.score_samples(X[200:], Y[200:])
    for i in range(5):
        flipped = Y[200:].copy()
        flipped[:, i] = 1 - flipped[:, i]
        other = fitted.score_samples(X[200:], flipped)
        expected = 1 / (1 + np.exp(log_p - other))
        np.testing.assert_allclose(issues.entry_scores[:, i], expected, atol=1e-4)
    np.testing.assert_array_equal(issues.row_scores, issues.entry_scores.max(axis=1))


@pytest.mark.deep
def test_a_joint_model_finds_more_than_labels_alone(data, joint):
    X, Y, wrong = data
    auc = {}
    for given in ("other_labels", "x"):
        issues = find_label_issues(joint, X, Y, given=given, cv=3)
        auc[given] = roc_auc_score(wrong.ravel(), issues.entry_scores.ravel())
    assert auc["other_labels"] > auc["x"] + 0.02


def test_any_classifier_is_judged_out_of_fold(data):
    X, Y, _ = data
    folds = [(np.arange(150, 300), np.arange(150)), (np.arange(150), np.arange(150, 300))]
    model = MultiOutputClassifier(LogisticRegression())
    issues = find_label_issues(model, X, Y, cv=folds)
    for train, test in folds:
        proba = np.column_stack([p[:, 1] for p in model.fit(X[train], Y[train]).predict_proba(X)])
        np.testing.assert_allclose(issues.entry_scores[test], np.abs(Y - proba)[test], atol=1e-12)


def test_rows_of_a_group_do_not_judge_each_other(data):
    """A classifier that remembers the copies of a row does not see their wrong labels."""
    X, Y, _ = data
    X, Y, groups = np.repeat(X[:60], 2, axis=0), np.repeat(Y[:60], 2, axis=0), np.arange(120) // 2
    names = [f"patient {g}" for g in groups]
    model = MultiOutputClassifier(KNeighborsClassifier(1))
    alone = find_label_issues(model, X, Y, cv=KFold(3, shuffle=True, random_state=0))
    issues = find_label_issues(model, X, Y, cv=3, groups=names)
    expected = np.empty(Y.shape)
    for train, test in MultilabelStratifiedGroupKFold(3).split(X, Y, groups):
        expected[test] = Y[test] != model.fit(X[train], Y[train]).predict(X[test])
    np.testing.assert_array_equal(issues.entry_scores, expected)
    assert issues.entry_scores.mean() > alone.entry_scores.mean() + 0.1
    with pytest.raises(ValueError, match="groups names no group for row 1"):
        find_label_issues(model, X, Y, groups=["a", None, *names[2:]])
    with pytest.raises(ValueError, match="groups must have the shape"):
        find_label_issues(model, X, Y, groups=groups[:3])


def test_missing_labels(data, joint):
    X, Y, _ = data
    holes = Y.astype(float)
    holes[::3, 1] = NAN
    holes[7] = NAN
    issues = find_label_issues(joint, X, holes, cv=3)
    np.testing.assert_array_equal(np.isnan(issues.entry_scores), np.isnan(holes))
    assert np.isnan(issues.row_scores[7])
    assert len(issues.rows) == (~np.isnan(holes)).sum()


@pytest.mark.deep
def test_the_table_is_ranked_and_named(data):
    X, Y, _ = data
    names, index = list("abcde"), [f"r{i}" for i in range(300)]
    frame = pd.DataFrame(Y, columns=names, index=index)
    model = make_pipeline(StandardScaler(), LMBMClassifier(C=0.1))
    issues = find_label_issues(model, X, frame, cv=3)
    table = pd.DataFrame(issues.table())
    assert (table.score.diff().dropna() <= 0).all()
    first = table.iloc[0]
    assert frame.loc[first.row, first.label] == first.given
    assert first.score == np.nanmax(issues.entry_scores)
    assert len(issues.table(4)) == 4
    text = str(issues).splitlines()
    assert text[1].split()[:2] == [first.row, first.label]
    assert text[-1] == "and 1490 more entries"


def test_wrappers_and_errors(data, joint):
    X, Y, _ = data
    decoded = DecodedClassifier(joint)
    both = [find_label_issues(m, X, Y, cv=3, given="other_labels") for m in (joint, decoded)]
    np.testing.assert_allclose(both[0].entry_scores, both[1].entry_scores)
    logistic = MultiOutputClassifier(LogisticRegression())
    for model in (logistic, DecodedClassifier(logistic)):
        with pytest.raises(ValueError, match='given="other_labels" needs an estimator'):
            find_label_issues(model, X, Y, given="other_labels")
    with pytest.raises(ValueError, match="find_label_issues needs a 0/1 indicator matrix"):
        find_label_issues(joint, X, Y[:, 0])
    with pytest.raises(ValueError, match="n must be"):
        both[0].table(0)


@pytest.mark.deep
def test_rules_inside_of_other_wrappers(data):
    """A row that contradicts the rules of a wrapped `Constrained` is found, and raises no error."""
    X, Y, _ = data
    y = Y.copy()
    y[:, 1] |= y[:, 0]
    y[3, :2] = 1, 0
    rules = Constrained(MultiOutputClassifier(LogisticRegression()), [Implies(0, 1)])
    for model in (CalibratedMarginals(rules, cv=2), make_pipeline(StandardScaler(), rules)):
        with pytest.warns(UserWarning, match="1 of .* rows of y violate the rules"):
            issues = find_label_issues(model, X, y, cv=2)
        assert (issues.entry_scores[3, :2] >= 0.5).all()
        assert issues.entry_scores[3, :2].sum() == pytest.approx(1.5)
