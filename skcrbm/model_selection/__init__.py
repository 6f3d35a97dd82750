"""Splits of multi-label data: objects for the `cv` of scikit-learn's tools."""

from skcrbm.model_selection._out_of_fold import out_of_fold, resolve_cv
from skcrbm.model_selection._stratified import (
    MultilabelStratifiedKFold,
    MultilabelStratifiedShuffleSplit,
)

__all__ = [
    "MultilabelStratifiedKFold",
    "MultilabelStratifiedShuffleSplit",
    "out_of_fold",
    "resolve_cv",
]
