"""Scores for multi-label targets in which NaN means "not observed"."""

from skcrbm.metrics._masked import masked_score
from skcrbm.metrics._scorer import masked_scorer

__all__ = ["masked_score", "masked_scorer"]
