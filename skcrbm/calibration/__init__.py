"""Calibration of the probabilities of multi-label classifiers."""

from skcrbm.calibration._marginals import CalibratedMarginals

__all__ = ["CalibratedMarginals"]
