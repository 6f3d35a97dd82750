"""Scores of predicted labels (NaN and None mark missing labels), and distances of samples."""

from skcrbm.metrics._items import item_scorer
from skcrbm.metrics._masked import masked_score, masked_scorer
from skcrbm.metrics._probabilities import expected_calibration_error, marginal_log_loss
from skcrbm.metrics._report import MultilabelReport, multilabel_report
from skcrbm.metrics._samples import covariance_error, log_mmd

__all__ = [
    "MultilabelReport",
    "covariance_error",
    "expected_calibration_error",
    "item_scorer",
    "log_mmd",
    "marginal_log_loss",
    "masked_score",
    "masked_scorer",
    "multilabel_report",
]
