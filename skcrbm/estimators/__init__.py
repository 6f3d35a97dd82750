"""The estimators: one file each, over one base."""

from skcrbm.estimators._crbm import CRBMClassifier
from skcrbm.estimators._layered_gm import LayeredGMClassifier

__all__ = ["CRBMClassifier", "LayeredGMClassifier"]
