"""Decoding: from a distribution over outputs to one output vector.

A rule is one file here and one line in `_registry.py`. The functions take what any
classifier predicts: marginals, a distribution over label sets, or joint samples.
"""

from skcrbm.decoding._base import CertifiedLabels, Posterior
from skcrbm.decoding._empty import with_a_label
from skcrbm.decoding._expected import decode_label_sets, decode_marginals, decode_samples
from skcrbm.decoding._label_set import weighted_label_sets
from skcrbm.decoding._registry import CERTIFIED_DECODERS, DECODERS, decoders_for
from skcrbm.decoding._threshold import (
    THRESHOLD_METRICS,
    apply_thresholds,
    fit_thresholds,
    labels_by_fitted_thresholds,
)

__all__ = [
    "CERTIFIED_DECODERS",
    "DECODERS",
    "THRESHOLD_METRICS",
    "CertifiedLabels",
    "Posterior",
    "apply_thresholds",
    "decode_label_sets",
    "decode_marginals",
    "decode_samples",
    "decoders_for",
    "fit_thresholds",
    "labels_by_fitted_thresholds",
    "weighted_label_sets",
    "with_a_label",
]
