"""Estimators have few parameters and few base classes: options are in objects."""

import inspect

import pytest
from reference.every_estimator import public_estimators

# The numbers may fall and must not rise.
PARAMETERS = {
    "CRBMClassifier": 14,
    "ChainCRF": 16,
    "GraphCRF": 16,
    "GridCRF": 13,
    "IsingModel": 14,
    "LMBMClassifier": 13,
    "LabelGraphCRF": 13,
    "LargeMarginMarkovNetwork": 14,
    "LayeredGMClassifier": 15,
    "MSSVMCRBM": 14,
    "MarkovRandomField": 14,
    "RBM": 14,
}
MOST_PARAMETERS = 12  # of the other estimators that define their own constructor
MOST_CLASSES = 6  # classes of this package among an estimator and its base classes


ESTIMATORS = public_estimators()


def test_the_estimators_are_found():
    assert set(PARAMETERS) <= set(ESTIMATORS)
    assert len(ESTIMATORS) > 20


@pytest.mark.parametrize("name", sorted(ESTIMATORS))
def test_few_parameters_and_base_classes(name):
    estimator = ESTIMATORS[name]
    ours = [
        cls
        for cls in estimator.__mro__
        # With an old scikit-learn this class stands in for a mixin of later versions.
        if cls.__module__.startswith("skcrbm") and cls.__name__ != "CallbackSupportMixin"
    ]
    assert len(ours) <= MOST_CLASSES, ours
    if estimator.__init__.__module__.startswith("skcrbm"):  # else the constructor of scikit-learn
        names = list(inspect.signature(estimator).parameters)
        assert len(names) <= PARAMETERS.get(name, MOST_PARAMETERS), names
