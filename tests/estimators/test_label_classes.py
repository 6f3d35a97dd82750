"""classes_ of a 2-D y numbers the labels, as scikit-learn's OneVsRestClassifier does."""

import pickle

import numpy as np
import pytest
import sklearn
from sklearn.inspection import PartialDependenceDisplay, partial_dependence
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import make_scorer, roc_auc_score
from sklearn.model_selection import KFold, cross_val_predict, cross_val_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import MultiOutputClassifier
from sklearn.utils.fixes import parse_version

from skcrbm import CRBMClassifier, DecodedClassifier, LayeredGMClassifier, LMBMClassifier
from skcrbm.calibration import CalibratedMarginals
from skcrbm.layers import Dense

rng = np.random.default_rng(0)
X = rng.standard_normal((90, 3))
Y = (X @ rng.standard_normal((3, 4)) + rng.standard_normal((90, 4)) > 0).astype(int)
MODELS = {
    "crbm": CRBMClassifier(n_hidden=2, alpha=0.1, max_iter=5, random_state=0),
    "lmbm": LMBMClassifier(C=1.0, pairwise_penalty=1.0),
    "layered": LayeredGMClassifier(layers=(Dense(2),), max_iter=2, random_state=0),
    "decoded": DecodedClassifier(MultiOutputClassifier(LogisticRegression())),
    "calibrated": CalibratedMarginals(MultiOutputClassifier(LogisticRegression()), cv=2),
}


@pytest.mark.parametrize("n_labels", [2, 4])
@pytest.mark.parametrize("name", list(MODELS))
def test_partial_dependence_has_a_curve_for_each_label(name, n_labels):
    y = Y[:, :n_labels]
    model = MODELS[name].fit(X, y)
    options = {"grid_resolution": 5, "response_method": "predict_proba"}
    found = partial_dependence(model, X, [0], **options)
    # Before scikit-learn 1.7, two columns are always those of a binary target: the second is shown.
    old = parse_version(sklearn.__version__) < parse_version("1.7")
    shown = [1] if old and n_labels == 2 else list(range(n_labels))
    assert found["average"].shape == (len(shown), 5)
    for value, average in zip(found["grid_values"][0], found["average"].T, strict=True):
        moved = X.copy()
        moved[:, 0] = value
        np.testing.assert_allclose(
            average, model.predict_proba(moved).mean(axis=0)[shown], atol=1e-12
        )
    assert pickle.loads(pickle.dumps(model)).classes_.tolist() == list(range(n_labels))


def test_classes_are_those_of_one_vs_rest():
    plain = OneVsRestClassifier(LogisticRegression()).fit(X, Y)
    for model in MODELS.values():
        np.testing.assert_array_equal(model.fit(X, Y).classes_, plain.classes_)


def test_display_of_a_label():
    pytest.importorskip("matplotlib").use("Agg")
    model = MODELS["crbm"].fit(X, Y)
    display = PartialDependenceDisplay.from_estimator(
        model, X, [0], target=2, grid_resolution=5, response_method="predict_proba"
    )
    found = partial_dependence(model, X, [0], grid_resolution=5, response_method="predict_proba")
    np.testing.assert_allclose(display.lines_[0, 0].get_ydata(), found["average"][2])


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize("n_labels", [2, 4])
@pytest.mark.parametrize("name", ["crbm", "layered", "decoded", "calibrated"])
def test_scorers_and_predictions_out_of_fold_see_all_labels(name, n_labels):
    y, cv = Y[:, :n_labels], KFold(3)
    model = MODELS[name]
    out_of_fold = cross_val_predict(model, X, y, cv=cv, method="predict_proba")
    scorer = make_scorer(roc_auc_score, response_method="predict_proba")
    scores = cross_val_score(model, X, y, cv=cv, scoring=scorer)
    for (train, test), score in zip(cv.split(X), scores, strict=True):
        proba = model.fit(X[train], y[train]).predict_proba(X[test])
        np.testing.assert_allclose(out_of_fold[test], proba)
        assert score == pytest.approx(roc_auc_score(y[test], proba))
