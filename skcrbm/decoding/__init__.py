"""Decoding: from a distribution over outputs to one output vector.

A rule is one file here and one line in `_registry.py`. The functions take what any
classifier predicts: marginals, a distribution over label sets, or joint samples.
"""

from skcrbm.decoding._base import Decoding
from skcrbm.decoding._decoded import DecodedClassifier
from skcrbm.decoding._expected import decode_label_sets, decode_marginals, decode_samples
from skcrbm.decoding._registry import DECODERS
from skcrbm.decoding._threshold import apply_thresholds, fit_thresholds

__all__ = [
    "DECODERS",
    "DecodedClassifier",
    "Decoding",
    "apply_thresholds",
    "decode_label_sets",
    "decode_marginals",
    "decode_samples",
    "fit_thresholds",
]
