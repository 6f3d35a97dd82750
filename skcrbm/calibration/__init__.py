"""Calibration of the probabilities of classifiers."""

from skcrbm.calibration._marginals import CalibratedMarginals

__all__ = ["CalibratedMarginals"]
