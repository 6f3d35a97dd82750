"""The estimators: one file each, over one base."""

from skcrbm.estimators._crbm import CRBMClassifier

__all__ = ["CRBMClassifier"]
