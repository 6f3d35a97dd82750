"""coef_ and intercept_ are offered by a model that is linear in X, and by no other."""

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.feature_selection import SelectFromModel

from skcrbm import MSSVMCRBM, CRBMClassifier, ImageCRBM, LMBMClassifier, SSVMClassifier

rng = np.random.default_rng(0)
X = rng.standard_normal((60, 3))
Y = (X @ rng.standard_normal((3, 4)) > 0).astype(int)
MODELS = [
    CRBMClassifier(n_hidden=2, alpha=0.1, max_iter=5, random_state=0),
    MSSVMCRBM(n_hidden=2, alpha=0.1, max_iter=3, random_state=0),
    ImageCRBM(n_hidden=2, alpha=0.1, max_iter=3, random_state=0),
]


def name_of(value):
    return type(value).__name__


@pytest.mark.parametrize("y", [Y, Y[:, 0]], ids=["labels", "classes"])
@pytest.mark.parametrize("model", MODELS, ids=name_of)
def test_hidden_units_hide_the_attributes_of_a_linear_model(model, y):
    model = model.set_params(n_hidden=2).fit(X, y)
    for name in ("coef_", "intercept_"):
        assert not hasattr(model, name)
        with pytest.raises(AttributeError, match=f"visible_{name} .*hidden_{name}"):
            getattr(model, name)
    n_outputs = 4 if y is Y else 1
    assert model.visible_coef_.shape == (n_outputs, 3)
    assert model.visible_intercept_.shape == (n_outputs,)
    with pytest.raises(ValueError, match="coef_"):
        SelectFromModel(model, prefit=True).transform(X)


@pytest.mark.parametrize("y", [Y, Y[:, 0]], ids=["labels", "classes"])
def test_without_hidden_units_the_scores_are_linear(y):
    model = CRBMClassifier(n_hidden=0, alpha=0.1, max_iter=5).fit(X, y)
    scores = (X @ model.coef_.T + model.intercept_).reshape(model.decision_function(X).shape)
    np.testing.assert_allclose(scores, model.decision_function(X), rtol=1e-6)
    np.testing.assert_array_equal(model.coef_, model.visible_coef_)
    SelectFromModel(model, prefit=True).transform(X)


@pytest.mark.parametrize("kind", [LMBMClassifier, SSVMClassifier])
def test_pairs_hide_the_attributes_of_a_linear_model(kind):
    model = kind(C=1.0, pairwise_penalty=1.0, random_state=0)
    assert not hasattr(model, "coef_")
    model.fit(X, Y)
    assert model.visible_coef_.shape == (4, 3)
    for name in ("coef_", "intercept_"):
        with pytest.raises(AttributeError, match=f"weights of pairs .*visible_{name}"):
            getattr(model, name)
    with pytest.raises(ValueError, match="coef_"):
        SelectFromModel(model, prefit=True).transform(X)
    model.set_params(pairwise_penalty=np.inf).fit(X, Y)
    scores = X @ model.coef_.T + model.intercept_
    np.testing.assert_allclose(scores, model.decision_function(X), rtol=1e-6)
    SelectFromModel(model, prefit=True).transform(X)


def test_before_fit_the_model_says_that_it_is_not_fitted():
    model = CRBMClassifier()
    assert not hasattr(model, "coef_")
    with pytest.raises(NotFittedError):
        model.predict(X)
