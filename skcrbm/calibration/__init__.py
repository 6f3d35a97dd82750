"""Calibrate the probabilities of multi-label classifiers, and predict sets with a guarantee."""

from skcrbm.calibration._label_sets import ConformalLabelSets
from skcrbm.calibration._marginals import CalibratedMarginals
from skcrbm.calibration._risk_control import ConformalRiskControl

__all__ = ["CalibratedMarginals", "ConformalLabelSets", "ConformalRiskControl"]
