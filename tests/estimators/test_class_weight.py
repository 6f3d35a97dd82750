"""`class_weight` of classifiers trained on whole rows; LMBMClassifier has tests of its own."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.utils.class_weight import compute_sample_weight

from skcrbm import (
    MSSVMCRBM,
    CRBMClassifier,
    LayeredGMClassifier,
    LMBMClassifier,
    SSVMClassifier,
)

RNG = np.random.RandomState(0)
X = RNG.randn(80, 3)
Y = (X[:, :2] + RNG.randn(80, 2) > 0.8).astype(int)
MODELS = [
    CRBMClassifier(n_hidden=2, alpha=0.1, max_iter=20, random_state=0),
    CRBMClassifier(n_hidden=2, alpha=0.1, max_iter=5, solver="adam", random_state=0),
    MSSVMCRBM(n_hidden=2, inference="exact", max_iter=4, random_state=0),
    LayeredGMClassifier(layers=(), max_iter=4, random_state=0),
    SSVMClassifier(C=0.1, tol=1e-9),
]


@pytest.mark.quick_cases(5)
@pytest.mark.parametrize("number", range(len(MODELS)))
@pytest.mark.parametrize("target", ["multilabel", "binary", "multiclass"])
def test_classes_weigh_as_rows_do(number, target):
    """Every form of `class_weight` has the same meaning as in scikit-learn's forests."""
    y = {"multilabel": Y, "binary": Y[:, 0], "multiclass": Y.sum(axis=1)}[target]
    forms = {"balanced": "balanced"}
    if target == "multilabel":
        forms["dicts"] = [{0: 1.0, 1: 3.0}, {0: 1.0, 1: 0.5}]
        forms["positive"] = np.array([3.0, 0.5])
    else:
        forms["dict"] = {0: 1.0, 1: 3.0}
    weight = 1.0 + np.arange(80) % 2
    found = {}
    for form, class_weight in forms.items():
        model = clone(MODELS[number]).set_params(class_weight=class_weight)
        found[form] = model.fit(X, y).predict_proba(X)
        told = forms["dicts"] if form == "positive" else class_weight
        rows = compute_sample_weight(told, y)
        rows *= len(y) / rows.sum()  # the mean loss does not depend on it, small priors do
        plain = clone(MODELS[number]).fit(X, y, sample_weight=rows).predict_proba(X)
        np.testing.assert_allclose(found[form], plain, rtol=1e-6, atol=1e-9)
        if form != "balanced":  # which counts the weights of rows
            both = model.fit(X, y, sample_weight=weight).predict_proba(X)
            rows = rows * weight
            rows *= weight.sum() / rows.sum()
            plain = clone(MODELS[number]).fit(X, y, sample_weight=rows).predict_proba(X)
            np.testing.assert_allclose(both, plain, rtol=1e-6, atol=1e-9)
    unweighted = clone(MODELS[number]).fit(X, y).predict_proba(X)
    for form, proba in found.items():
        assert abs(proba - unweighted).max() > 1e-3, form


def test_labels_that_are_not_observed_and_weights_of_zero():
    y = Y.astype(float)
    y[:20, 0] = np.nan
    model = clone(MODELS[0]).set_params(class_weight=[{0: 2.0, 1: 6.0}, {0: 0.0, 1: 1.0}])
    rows = np.where(np.isnan(y[:, 0]), 1.0, np.where(y[:, 0] == 1, 6.0, 2.0)) * (y[:, 1] == 1)
    rows *= 80 / rows.sum()
    plain = clone(MODELS[0]).fit(X, y, sample_weight=rows)
    np.testing.assert_allclose(model.fit(X, y).visible_coef_, plain.visible_coef_, rtol=1e-6)


def test_thresholds_are_found_with_the_same_weights():
    options = {"decode": "threshold", "random_state": 0}
    model = clone(MODELS[0]).set_params(class_weight=[{0: 1, 1: 5}, {0: 1, 1: 5}], **options)
    rows = compute_sample_weight([{0: 1, 1: 5}, {0: 1, 1: 5}], Y)
    rows *= 80 / rows.sum()
    plain = clone(MODELS[0]).set_params(**options).fit(X, Y, sample_weight=rows)
    np.testing.assert_allclose(model.fit(X, Y).thresholds_, plain.thresholds_, rtol=1e-6)


def test_many_labels():
    """Products of hundreds of weights do not overflow."""
    y = (RNG.uniform(size=(80, 400)) < 0.5).astype(int)
    model = CRBMClassifier(n_hidden=0, alpha=0.1, max_iter=2, class_weight=np.full(400, 1e30))
    assert np.isfinite(model.fit(X, y).visible_coef_).all()


def test_partial_fit():
    model = clone(MODELS[1]).set_params(class_weight="balanced")
    with pytest.raises(ValueError, match="partial_fit does not support class_weight='balanced'"):
        model.partial_fit(X, Y)
    given = clone(MODELS[1]).set_params(class_weight=[{0: 1.0, 1: 9.0}] * 2).partial_fit(X, Y)
    assert (given.visible_intercept_ > clone(MODELS[1]).partial_fit(X, Y).visible_intercept_).all()


@pytest.mark.parametrize(
    "model", [*MODELS, LMBMClassifier(C=1.0, random_state=0)], ids=lambda m: type(m).__name__
)
def test_labels_by_name(model):
    pd = pytest.importorskip("pandas")
    y = pd.DataFrame(Y, columns=["beach", "town"])
    ordered = clone(model).set_params(class_weight=[{}, {0: 0.5, 1: 3.0}]).fit(X, y)
    named = clone(model).set_params(class_weight={"town": {0: 0.5, 1: 3.0}}).fit(X, y)
    np.testing.assert_array_equal(named.predict_proba(X), ordered.predict_proba(X))
    ordered = clone(model).set_params(class_weight=[1.0, 3.0]).fit(X, y)
    named = clone(model).set_params(class_weight={"town": 3.0}).fit(X, y)
    np.testing.assert_array_equal(named.predict_proba(X), ordered.predict_proba(X))


@pytest.mark.parametrize(
    ("class_weight", "message"),
    [
        ({"twon": 2.0}, r"names that are not labels of y: \['twon'\]; the labels are \['beach', "),
        ({"town": {2: 1.0}}, "keys that are not 0 or 1"),
        ({"town": "much"}, "must hold numbers, got 'much'"),
        ({"town": -1.0}, "finite numbers that are not negative"),
    ],
)
def test_errors_by_name(class_weight, message):
    pd = pytest.importorskip("pandas")
    with pytest.raises(ValueError, match=message):
        clone(MODELS[0]).set_params(class_weight=class_weight).fit(
            X, pd.DataFrame(Y, columns=["beach", "town"])
        )


@pytest.mark.parametrize(
    ("y", "class_weight", "message"),
    [
        (Y, {0: 1, 1: 2}, "got a dict, which needs the names of the labels"),
        (Y, [1.0, 2.0, 3.0], r"class_weight must have shape \(2,\)"),
        (Y, [-1.0, 2.0], "finite numbers that are not negative"),
        (Y, [{0: 0, 1: 0}] * 2, "gives every row a weight of 0"),
        (Y[:, 0], [1.0, 2.0], "class_weight for 1-D y must be 'balanced' or a dict"),
        (Y, "even", "'class_weight' parameter of CRBMClassifier"),
    ],
)
def test_errors(y, class_weight, message):
    with pytest.raises(ValueError, match=message):
        clone(MODELS[0]).set_params(class_weight=class_weight).fit(X, y)
