"""Splits, cross-validation and searches of multi-label data; y may hold NaN."""

from skcrbm.model_selection._groups import (
    MultilabelStratifiedGroupKFold,
    multilabel_train_test_split,
)
from skcrbm.model_selection._predict import cross_val_predict
from skcrbm.model_selection._stratified import (
    MultilabelStratifiedKFold,
    MultilabelStratifiedShuffleSplit,
)
from skcrbm.model_selection._validation import (
    GridSearchCV,
    RandomizedSearchCV,
    cross_val_score,
    cross_validate,
    learning_curve,
    permutation_test_score,
    validation_curve,
)

__all__ = [
    "GridSearchCV",
    "MultilabelStratifiedGroupKFold",
    "MultilabelStratifiedKFold",
    "MultilabelStratifiedShuffleSplit",
    "RandomizedSearchCV",
    "cross_val_predict",
    "cross_val_score",
    "cross_validate",
    "learning_curve",
    "multilabel_train_test_split",
    "permutation_test_score",
    "validation_curve",
]
