"""Splitters of multi-label data, for the argument `cv` of scikit-learn; out-of-fold predictions."""

from skcrbm.model_selection._groups import (
    MultilabelStratifiedGroupKFold,
    multilabel_train_test_split,
)
from skcrbm.model_selection._predict import cross_val_predict
from skcrbm.model_selection._stratified import (
    MultilabelStratifiedKFold,
    MultilabelStratifiedShuffleSplit,
)

__all__ = [
    "MultilabelStratifiedGroupKFold",
    "MultilabelStratifiedKFold",
    "MultilabelStratifiedShuffleSplit",
    "cross_val_predict",
    "multilabel_train_test_split",
]
