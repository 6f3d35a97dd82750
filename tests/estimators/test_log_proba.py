"""predict_log_proba: the logarithm of predict_proba, computed from log-odds."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import log_expit
from sklearn.linear_model import LogisticRegression
from sklearn.multioutput import MultiOutputClassifier
from sklearn.neighbors import KNeighborsClassifier
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
from skcrbm.layers import Dense
from skcrbm.pipeline import make_pipeline

CRBM = CRBMClassifier(n_hidden=2, alpha=0.1, max_iter=5, random_state=0)
LIST_OF_OUTPUTS = MultiOutputClassifier(LogisticRegression())
MODELS = {
    "crbm": CRBM,
    "mssvm": MSSVMCRBM(n_hidden=2, max_iter=3, random_state=0),
    "image": ImageCRBM(n_hidden=2, alpha=0.1, max_iter=3, random_state=0),
    "layered": LayeredGMClassifier(layers=[Dense(4)], max_iter=3, random_state=0),
    "lmbm": LMBMClassifier(C=1.0, pairwise_penalty=1.0),
    "ssvm": SSVMClassifier(C=1.0),
    "decoded": DecodedClassifier(CRBM),
    "decoded_list": DecodedClassifier(LIST_OF_OUTPUTS),
    "calibrated": CalibratedMarginals(CRBM, cv=2),
    "isotonic": CalibratedMarginals(CRBM, method="isotonic", cv=2),
    "pipeline": make_pipeline(StandardScaler(), CRBM),
}
JOINT = ["crbm", "mssvm", "image", "lmbm", "ssvm", "decoded", "pipeline"]


def data(kind):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 3))
    Y = (X @ rng.standard_normal((3, 4)) + rng.standard_normal((60, 4)) > 0).astype(int)
    Y[:4] = np.eye(4)
    return X, {"multilabel": Y, "binary": Y[:, 0], "multiclass": Y[:, 0] + Y[:, 1]}[kind]


def cases():
    for name in MODELS:
        for kind in ("multilabel", "binary", "multiclass"):
            one_label = name in ("decoded_list",) and kind != "multilabel"
            if not one_label and (name not in ("calibrated", "isotonic") or kind != "multiclass"):
                yield name, kind


@pytest.mark.quick_cases(19)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(("name", "kind"), list(cases()))
def test_exp_of_predict_log_proba_is_predict_proba(name, kind):
    X, y = data(kind)
    model = MODELS[name].fit(X, y)
    log_proba = model.predict_log_proba(X)
    proba = model.predict_proba(X)
    assert log_proba.shape == proba.shape
    assert log_proba.dtype == proba.dtype
    assert_allclose(np.exp(log_proba), proba, rtol=1e-9, atol=1e-12)
    if kind != "multilabel":
        assert_allclose(np.exp(log_proba).sum(axis=1), 1, rtol=1e-9)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", JOINT)
def test_known_labels_have_log_proba_0_or_minus_infinity_without_a_warning(name):
    X, Y = data("multilabel")
    known = np.full(Y.shape, np.nan)
    known[:, 1] = Y[:, 1]
    model = MODELS[name].fit(X, Y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        log_proba = model.predict_log_proba(X, y_known=known)
    assert_array_equal(log_proba[:, 1], np.where(Y[:, 1] == 1, 0.0, -np.inf))
    assert_allclose(np.exp(log_proba), model.predict_proba(X, y_known=known), atol=1e-12)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", ["crbm", "decoded", "pipeline", "lmbm"])
@pytest.mark.parametrize("kind", ["multilabel", "binary", "multiclass"])
def test_probabilities_that_round_to_0_have_finite_logarithms(name, kind):
    X, y = data(kind)
    far = 1e6 * X
    model = MODELS[name].fit(X, y)
    assert (model.predict_proba(far) == 0).any()
    assert np.isfinite(model.predict_log_proba(far)).all()


def test_log_proba_of_a_label_follows_from_its_log_odds():
    X, Y = data("multilabel")
    model = MODELS["crbm"].fit(X, Y)
    assert_allclose(model.predict_log_proba(X), log_expit(model.decision_function(X)))


def test_an_estimator_without_a_joint_model_has_the_logarithm_of_its_probabilities():
    X, Y = data("multilabel")
    neighbors = DecodedClassifier(KNeighborsClassifier(3)).fit(X, Y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        log_proba = neighbors.predict_log_proba(X)
    assert (log_proba == -np.inf).any()
    assert_array_equal(np.exp(log_proba) == 0, neighbors.predict_proba(X) == 0)


def test_calibrated_log_proba_is_finite_far_from_the_data():
    X, Y = data("multilabel")
    model = CalibratedMarginals(
        MultiOutputClassifier(LogisticRegression()), method="isotonic", cv=2
    ).fit(X, Y)
    assert np.isfinite(model.predict_log_proba(1e6 * X)).all()


def test_log_proba_has_the_names_of_the_labels():
    pd = pytest.importorskip("pandas")
    X, Y = data("multilabel")
    Y = pd.DataFrame(Y, columns=list("abcd"))
    model = CRBMClassifier(n_hidden=0, alpha=0.1, max_iter=3).set_label_output("pandas").fit(X, Y)
    assert model.predict_log_proba(X).columns.tolist() == list("abcd")
