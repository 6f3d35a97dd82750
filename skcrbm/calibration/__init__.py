"""Calibration of the probabilities of multi-label classifiers, and sets with a guarantee."""

from skcrbm.calibration._label_sets import ConformalLabelSets
from skcrbm.calibration._marginals import CalibratedMarginals

__all__ = ["CalibratedMarginals", "ConformalLabelSets"]
