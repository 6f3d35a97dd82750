"""score(y_known=...): labels known beforehand inform the prediction and do not count."""

import numpy as np
import pytest
import sklearn
from scipy.special import logit
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold, cross_validate
from sklearn.multioutput import MultiOutputClassifier
from sklearn.preprocessing import StandardScaler
from sklearn.utils.fixes import parse_version

from skcrbm import (
    CRBMClassifier,
    DecodedClassifier,
    ImageCRBM,
    LMBMClassifier,
    SSVMClassifier,
)
from skcrbm.calibration import CalibratedMarginals
from skcrbm.metrics import masked_score, masked_scorer
from skcrbm.pipeline import make_pipeline

CRBM = CRBMClassifier(n_hidden=2, alpha=0.1, max_iter=10, random_state=0)
MODELS = {
    "crbm": CRBM,
    "lmbm": LMBMClassifier(C=1.0, pairwise_penalty=1.0),
    "ssvm": SSVMClassifier(C=1.0),
    "decoded": DecodedClassifier(CRBM),
    "calibrated": CalibratedMarginals(CRBM, cv=2),
    "pipeline": make_pipeline(StandardScaler(), CRBM),
}
rng = np.random.default_rng(0)
X = rng.standard_normal((90, 3))
Y = (X @ rng.standard_normal((3, 4)) + 2 * rng.standard_normal((90, 1)) > 0).astype(int)
Y[rng.random(Y.shape) < 0.15] ^= 1
KNOWN = np.where(rng.random(Y.shape) < 0.4, Y, np.nan)
REST = np.where(np.isnan(KNOWN), Y, np.nan)


@pytest.mark.parametrize("name", list(MODELS))
def test_score_is_over_the_labels_that_are_not_known(name):
    model = MODELS[name].fit(X, Y)
    expected = masked_score("accuracy", REST, y_pred=model.predict(X, y_known=KNOWN))
    assert model.score(X, Y, y_known=KNOWN) == pytest.approx(expected)
    weight = np.arange(90.0)
    expected = masked_score(
        "accuracy", REST, y_pred=model.predict(X, y_known=KNOWN), sample_weight=weight
    )
    assert model.score(X, Y, weight, KNOWN) == pytest.approx(expected)
    assert model.score(X, Y, y_known=np.full(Y.shape, np.nan)) == model.score(X, Y)


def test_wrong_known_labels_do_not_count_as_errors():
    model = CRBMClassifier(n_hidden=0, alpha=0.1, max_iter=10).fit(X, Y)
    known = np.full(Y.shape, np.nan)
    known[:, 0] = 1 - Y[:, 0]
    expected = (model.predict(X)[:, 1:] == Y[:, 1:]).all(axis=1).mean()
    assert model.score(X, Y, y_known=known) == pytest.approx(expected)


def test_images_score_the_pixels_that_are_not_known():
    images = Y.reshape(-1, 2, 2)
    model = ImageCRBM(n_hidden=2, alpha=0.1, max_iter=2, random_state=0).fit(X, images)
    known = KNOWN.reshape(-1, 2, 2)
    right = model.predict(X, known) == images
    expected = right[np.isnan(known)].mean()
    assert model.score(X, images, y_known=known) == pytest.approx(expected)


def test_errors_name_the_argument():
    model = CRBM.fit(X, Y)
    with pytest.raises(ValueError, match="y_known holds every observed label of y"):
        model.score(X, Y, y_known=Y)
    with pytest.raises(ValueError, match="y_known must have shape"):
        model.score(X, Y, y_known=KNOWN[:, :2])
    with pytest.raises(ValueError, match="y_known is for 2-D"):
        model.fit(X, Y[:, 0]).score(X, Y[:, 0], y_known=KNOWN[:, 0])
    decoded = DecodedClassifier(MultiOutputClassifier(LogisticRegression())).fit(X, Y)
    with pytest.raises(ValueError, match="y_known needs an estimator"):
        decoded.score(X, Y, y_known=KNOWN)


@pytest.mark.parametrize("name", ["f1_micro", "neg_log_loss", "roc_auc"])
def test_masked_scorer_takes_known_labels(name):
    model = CRBM.fit(X, Y)
    scored = {
        "y_pred": model.predict(X, y_known=KNOWN),
        "y_score": model.predict_proba(X, y_known=KNOWN),
    }
    expected = masked_score(name, REST, **scored)
    found = masked_scorer(name)(model, X, Y, y_known=KNOWN)
    assert found == pytest.approx(expected)
    assert found != pytest.approx(masked_scorer(name)(model, X, Y))


def test_masked_scorer_matches_known_labels_by_name():
    pd = pytest.importorskip("pandas")
    names = list("abcd")
    model = CRBMClassifier(n_hidden=2, alpha=0.1, max_iter=10, random_state=0)
    model.fit(X, pd.DataFrame(Y, columns=names))
    known = pd.DataFrame(KNOWN, columns=names)[["c", "a"]]
    full = np.where([True, False, True, False], KNOWN, np.nan)
    scorer = masked_scorer("accuracy")
    assert scorer(model, X, Y, y_known=known) == scorer(model, X, Y, y_known=full)


@pytest.mark.parametrize(
    "scaled",
    [
        False,
        pytest.param(
            True,
            marks=pytest.mark.skipif(
                parse_version(sklearn.__version__) < parse_version("1.8"),
                reason="scikit-learn's searches route no y_known to the score of a Pipeline",
            ),
        ),
    ],
)
def test_searches_route_known_labels_to_score(scaled):
    cv = KFold(3)
    with sklearn.config_context(enable_metadata_routing=True):
        model = CRBMClassifier(n_hidden=2, alpha=0.1, max_iter=10, random_state=0)
        model.set_score_request(y_known=True)
        whole = make_pipeline(StandardScaler(), model) if scaled else model
        found = cross_validate(whole, X, Y, cv=cv, params={"y_known": KNOWN})["test_score"]
        grid = {"crbmclassifier__alpha" if scaled else "alpha": [0.1]}
        search = GridSearchCV(whole, grid, cv=cv).fit(X, Y, y_known=KNOWN)
        scorer = masked_scorer("accuracy").set_score_request(y_known=True)
        masked = cross_validate(whole, X, Y, cv=cv, scoring=scorer, params={"y_known": KNOWN})
        expected = [
            whole.fit(X[a], Y[a]).score(X[b], Y[b], y_known=KNOWN[b]) for a, b in cv.split(X)
        ]
    np.testing.assert_allclose(found, expected)
    np.testing.assert_allclose(masked["test_score"], expected)
    assert search.best_score_ == pytest.approx(np.mean(expected))
    assert search.best_score_ != pytest.approx(np.mean([whole.score(X, Y)]))


def test_a_request_that_is_not_given_does_not_change():
    with sklearn.config_context(enable_metadata_routing=True):
        scorer = masked_scorer("accuracy").set_score_request(sample_weight=True)
        requests = scorer.set_score_request(y_known="given").get_metadata_routing().score.requests
    assert requests == {"sample_weight": True, "y_known": "given"}


def test_calibrated_marginals_shift_with_known_labels():
    model = MODELS["calibrated"].fit(X, Y)
    known = KNOWN.copy()
    known[:5] = np.nan
    proba, alone = model.predict_proba(X, known), model.predict_proba(X)
    np.testing.assert_allclose(proba[:5], alone[:5])
    fixed = ~np.isnan(known)
    np.testing.assert_array_equal(proba[fixed], known[fixed])
    inner = model.estimator_
    change = logit(inner.predict_proba(X, known)) - logit(inner.predict_proba(X))
    np.testing.assert_allclose((logit(proba) - logit(alone))[~fixed], change[~fixed], atol=1e-6)
    assert np.abs(change[~fixed]).max() > 0.1
    np.testing.assert_array_equal(model.predict(X, known), proba >= 0.5)
    one_by_one = CalibratedMarginals(MultiOutputClassifier(LogisticRegression()), cv=2).fit(X, Y)
    with pytest.raises(ValueError, match="y_known needs an estimator"):
        one_by_one.predict_proba(X, known)
