"""A few rows: every estimator is fitted, or says which argument needs more."""

import warnings

import numpy as np
import pytest
from reference.every_estimator import MODELS, data_of, model_of
from reference.small_data import RAW, REASONS
from sklearn.linear_model import LogisticRegression

from skcrbm import CRBMClassifier
from skcrbm.ensemble import make_stacked


def fitted(model, X, y):
    """Fit and predict; return the text of the error that refuses the rows, or None."""
    refused = None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model.fit(X) if y is None else model.fit(X, y)
        except ValueError as error:
            refused = str(error)
        if refused is None and hasattr(model, "predict"):
            model.predict(X)
    if refused is not None:
        assert REASONS.search(refused), refused
        assert not RAW.search(refused), refused
    return refused


def cases(name, n):
    X, y = data_of(name, n)
    yield model_of(name), X, y
    defaults = type(model_of(name))
    inner = model_of(name).get_params(deep=False).get("estimator")
    if name in ("Pipeline", "SequenceTransformer", "BlendedLabelSets", "Constrained"):
        return
    yield defaults() if inner is None else defaults(inner), X, y
    if MODELS[name][1] == "rows":
        model = model_of(name)
        if inner is not None and name != "OutOfBagLogOdds":
            model.set_params(estimator=LogisticRegression())
        yield model, X, y[:, 0]


@pytest.mark.parametrize("name", sorted(MODELS))
@pytest.mark.parametrize(
    "n", [2, 5, *(pytest.param(n, marks=pytest.mark.deep) for n in (3, 8, 39))]
)
def test_a_few_rows(name, n):
    for model, X, y in cases(name, n):
        refused = fitted(model, X, y)
        if not hasattr(model, "estimator"):
            assert refused is None or name == "Pipeline"


@pytest.mark.parametrize("n", [2, 6, 12, pytest.param(39, marks=pytest.mark.deep)])
def test_a_stack_of_a_few_rows(n):
    X, y = data_of("CRBMClassifier", n)
    stack = make_stacked(n_estimators=4, random_state=0)
    assert fitted(stack, X, y) is None
    assert not hasattr(stack, "plain_")  # without a search for a penalty nothing is compared
    X, y = data_of("CRBMClassifier", 60)
    stack.set_params(crbmclassifier__alpha=0.1)
    assert fitted(stack, X, y) is None
    assert not hasattr(stack, "plain_")


def test_the_comparison_begins_with_the_search():
    X, y = data_of("CRBMClassifier", 40)
    final = CRBMClassifier(n_hidden=0, random_state=0)
    stack = make_stacked(n_estimators=4, random_state=0)
    stack.steps[-1] = ("crbmclassifier", final)
    assert fitted(stack, X, y) is None
    assert np.isfinite(list(stack.held_out_log_likelihood_.values())).all()
