"""scikit-learn's own checks, and the promises of every scikit-learn estimator."""

import pickle
from unittest import SkipTest

import joblib
import numpy as np
import pytest
from reference.sklearn_checks import run_check
from sklearn.base import clone
from sklearn.datasets import make_multilabel_classification
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import estimator_checks_generator, parametrize_with_checks

import skcrbm
from skcrbm import (
    MSSVMCRBM,
    CRBMClassifier,
    LayeredGMClassifier,
    LMBMClassifier,
    SSVMClassifier,
)
from skcrbm.inference import Exact, MeanField, SumProduct
from skcrbm.layers import Dense
from skcrbm.learning import SGD, AveragedSGD

MODELS = [name for name in skcrbm.__all__ if name.endswith(("er", "RBM"))]
MODELS.remove("DecodedClassifier")  # wraps another estimator; has checks of its own
ESTIMATORS = [getattr(skcrbm, name) for name in MODELS]


@pytest.mark.quick_cases(35)
@pytest.mark.compiled
@parametrize_with_checks(
    [CRBMClassifier(n_hidden=2, alpha=1e-3, max_iter=50), LMBMClassifier()],
)
def test_estimator(estimator, check):
    run_check(estimator, check)


@pytest.mark.deep
@pytest.mark.compiled
@parametrize_with_checks([kind() for kind in ESTIMATORS if kind is not LMBMClassifier])
def test_default_estimators(estimator, check):
    run_check(estimator, check)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_number_of_checks(estimator):
    checks = list(estimator_checks_generator(estimator()))
    names = {check.func.__name__ for _, check in checks}
    # None is excused: these run only under honest tags.
    assert {
        "check_classifiers_train",
        "check_classifiers_multilabel_representation_invariance",
        "check_classifiers_multilabel_output_format_predict_proba",
        "check_estimator_sparse_matrix",
        "check_sample_weight_equivalence_on_dense_data",
        "check_methods_sample_order_invariance",
    } <= names
    # CRBMClassifier: 66 in scikit-learn 1.6, 67 in 1.9.
    assert len(checks) >= 60


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_tags_are_honest(estimator):
    tags = get_tags(estimator())
    assert tags.classifier_tags.multi_label
    assert tags.classifier_tags.multi_class
    assert tags.input_tags.sparse
    assert tags.target_tags.required
    assert not tags.classifier_tags.poor_score
    assert not tags.non_deterministic
    assert not tags.no_validation
    assert not tags._skip_test
    # Only the layered model has nodes for the inputs.
    assert tags.input_tags.allow_nan == (estimator is LayeredGMClassifier)
    takes_columns = estimator in (CRBMClassifier, LayeredGMClassifier)
    assert tags.target_tags.multi_output == takes_columns


# Slow, and near to the default configuration.
DEEP = {
    "sum_product": CRBMClassifier(
        inference="sum_product", decode="label_set", n_hidden=4, max_iter=20
    ),
    "mean_field": CRBMClassifier(inference="mean_field", n_hidden=4, max_iter=20),
    "sgd": CRBMClassifier(n_hidden=0, solver=SGD(learning_rate=0.003, momentum=0.9), max_iter=40),
}
OTHERS = {
    "lssvm": MSSVMCRBM(hidden="max", inference="max_product", max_iter=100),
    "lmbm": LMBMClassifier(tol=1e-9, decode="map", pairwise_penalty=10.0),
    "lmbm_cliques": LMBMClassifier(cliques=3, C=0.1, pairwise_penalty=10.0, tol=1e-9),
    "ssvm": SSVMClassifier(inference="linear_program", C=0.01),
    "layered": LayeredGMClassifier(
        layers=(Dense(5, 3), Dense(4)), inference="mean_field", max_iter=50
    ),
}


@pytest.mark.deep
@pytest.mark.compiled
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(list(OTHERS.values()))
def test_other_configurations(estimator, check):
    check_configuration(estimator, check)


@pytest.mark.deep
@pytest.mark.compiled
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(list(DEEP.values()))
def test_configurations_near_the_default(estimator, check):
    check_configuration(estimator, check)


def check_configuration(estimator, check):
    if check.func.__name__ == "check_classifier_multioutput" and hasattr(estimator, "decode"):
        # The check expects the labels with a probability above one half.
        estimator = estimator.set_params(decode="marginal")
    try:
        check(estimator)
    except SkipTest as skip:
        # This check runs in the default configuration: its outcome does not depend on settings.
        if "SCIPY_ARRAY_API is not set" not in str(skip):
            raise AssertionError(f"{check.func.__name__} was skipped: {skip}") from skip


@pytest.fixture(scope="module")
def data():
    return make_multilabel_classification(80, n_features=6, n_classes=4, random_state=0)


CONFIGURATIONS = [
    CRBMClassifier(max_iter=5, random_state=0),
    CRBMClassifier(
        inference=SumProduct(max_iter=9, damping=0.3),
        decode="label_set",
        max_iter=4,
        alpha=0.05,
        solver=AveragedSGD(batch_size=16),
        early_stopping=True,
        random_state=3,
    ),
    CRBMClassifier(
        inference="mean_field", n_hidden=0, alpha=0.05, max_iter=5, solver="sgd", random_state=1
    ),
]


@pytest.mark.parametrize("model", CONFIGURATIONS, ids=["default", "sum_product", "mean_field"])
def test_clone_and_parameters(model):
    copy = clone(model)
    for name, value in model.get_params(deep=False).items():
        mine = getattr(copy, name)
        if hasattr(value, "get_params"):
            assert type(mine) is type(value)
            assert mine is not value
            assert mine.get_params() == value.get_params()
        else:
            assert mine == value
    assert repr(copy) == repr(model)


def test_nested_parameters():
    model = CRBMClassifier(inference=SumProduct(max_iter=30))
    params = model.get_params()
    assert params["inference__max_iter"] == 30
    assert params["inference__damping"] == 0.0
    model.set_params(inference__max_iter=5, inference__damping=0.25, n_hidden=3)
    assert model.inference.get_params() == {"max_iter": 5, "tol": None, "damping": 0.25}
    with pytest.raises(ValueError, match="inference__max_iter needs an object with options"):
        CRBMClassifier(inference="sum_product").set_params(inference__max_iter=5)
    with pytest.raises(ValueError, match="Invalid parameter 'max_iters'"):
        model.set_params(inference__max_iters=5)


@pytest.mark.parametrize("inference", [Exact(), SumProduct(max_iter=3), MeanField()])
def test_objects_are_left_as_they_were(data, inference):
    before = inference.get_params(), dict(vars(inference))
    CRBMClassifier(inference=inference, max_iter=2).fit(*data)
    assert (inference.get_params(), dict(vars(inference))) == before


@pytest.mark.quick_cases(5)
@pytest.mark.parametrize("model", CONFIGURATIONS, ids=["default", "sum_product", "mean_field"])
@pytest.mark.parametrize("target", ["multilabel", "binary", "multiclass"])
def test_pickle(data, model, target):
    X, Y = data
    y = {"multilabel": Y, "binary": Y[:, 0], "multiclass": Y.sum(1)}[target]
    model = clone(model).fit(X, y)
    copy = pickle.loads(pickle.dumps(model))
    for method in ("predict", "predict_proba", "decision_function"):
        np.testing.assert_array_equal(getattr(copy, method)(X), getattr(model, method)(X))
    if model.early_stopping is not True:  # which partial_fit refuses
        # The state of the optimiser and of the random numbers travels along.
        np.testing.assert_array_equal(
            copy.partial_fit(X, y).predict_proba(X), model.partial_fit(X, y).predict_proba(X)
        )


def test_unfitted_pickle():
    copy = pickle.loads(pickle.dumps(CRBMClassifier(inference=SumProduct(max_iter=7))))
    assert copy.get_params()["inference__max_iter"] == 7


def fit_proba(model, X, y):
    return clone(model).fit(X, y).predict_proba(X)


@pytest.mark.parametrize("backend", ["loky", "threading"])
def test_joblib(data, backend):
    """Fitting in other processes or threads at once gives the same bits."""
    X, Y = data
    models = [CRBMClassifier(alpha=0.05, max_iter=3, random_state=seed) for seed in range(4)]
    models.append(CRBMClassifier(inference="sum_product", alpha=0.05, max_iter=3, random_state=0))
    expected = [fit_proba(model, X, Y) for model in models]
    with joblib.parallel_backend(backend, n_jobs=2):
        parallel = joblib.Parallel()(joblib.delayed(fit_proba)(model, X, Y) for model in models)
    for mine, reference in zip(parallel, expected, strict=True):
        np.testing.assert_array_equal(mine, reference)


def test_fitted_model_in_other_processes(data):
    X, Y = data
    model = CRBMClassifier(max_iter=3, random_state=0).fit(X, Y)
    parts = joblib.Parallel(n_jobs=2)(
        joblib.delayed(model.predict_proba)(X[start : start + 20]) for start in range(0, 80, 20)
    )
    # Other batches of rows: equal up to rounding in the products with X.
    np.testing.assert_allclose(np.vstack(parts), model.predict_proba(X), rtol=1e-12)
