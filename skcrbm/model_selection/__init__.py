"""Splits of multi-label data for the `cv` of scikit-learn's tools, predictions out of fold."""

from skcrbm.model_selection._out_of_fold import out_of_fold, resolve_cv
from skcrbm.model_selection._predict import cross_val_predict
from skcrbm.model_selection._stratified import (
    MultilabelStratifiedKFold,
    MultilabelStratifiedShuffleSplit,
)

__all__ = [
    "MultilabelStratifiedKFold",
    "MultilabelStratifiedShuffleSplit",
    "cross_val_predict",
    "out_of_fold",
    "resolve_cv",
]
