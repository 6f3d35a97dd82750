"""scikit-learn's own checks of the density estimators, and the promises of every estimator."""

import pytest
from reference.sklearn_checks import run_check
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import estimator_checks_generator, parametrize_with_checks

from skcrbm.density import RBM, IsingModel, LargeMarginMarkovNetwork, MarkovRandomField

ESTIMATORS = [MarkovRandomField, IsingModel, RBM, LargeMarginMarkovNetwork]


@pytest.mark.deep
@pytest.mark.compiled
@parametrize_with_checks([estimator() for estimator in ESTIMATORS])
def test_default_estimator(estimator, check):
    run_check(estimator, check)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_number_of_checks(estimator):
    checks = list(estimator_checks_generator(estimator()))
    names = {check.func.__name__ for _, check in checks}
    assert {
        "check_estimator_sparse_matrix",
        "check_sample_weight_equivalence_on_dense_data",
        "check_methods_sample_order_invariance",
        "check_methods_subset_invariance",
    } <= names
    assert len(checks) >= 40


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_tags_are_honest(estimator):
    tags = get_tags(estimator())
    assert tags.estimator_type == "density_estimator"
    assert tags.input_tags.sparse
    assert tags.input_tags.allow_nan
    assert not tags.target_tags.required
    assert not tags.non_deterministic
    assert not tags.no_validation
    assert not tags._skip_test
