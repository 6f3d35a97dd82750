"""Probabilities that mean what they say."""

from skcrbm.calibration._marginals import CalibratedMarginals

__all__ = ["CalibratedMarginals"]
