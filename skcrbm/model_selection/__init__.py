"""Splits of multi-label data: objects for the `cv` of scikit-learn's tools."""

from skcrbm.model_selection._stratified import (
    MultilabelStratifiedKFold,
    MultilabelStratifiedShuffleSplit,
)

__all__ = ["MultilabelStratifiedKFold", "MultilabelStratifiedShuffleSplit"]
