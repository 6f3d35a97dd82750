"""Decoding: choose an output vector, given a distribution over output vectors.

`rules.py` defines the rules that an estimator accepts as `decode`, by name or as an object.
`posterior.py` defines their input: the posterior of a model, or the predictions of any classifier.
The algorithms of the rules are in `best_states.py`, `expected.py`, `_model_expected.py` and
`thresholds.py`. The functions exported here take predictions of any classifier: marginals, a
distribution over label sets, or joint samples.
"""

from skcrbm.decoding.expected import decode_label_sets, decode_marginals, decode_samples
from skcrbm.decoding.posterior import Posterior
from skcrbm.decoding.rules import (
    MAP,
    ExpectedMetric,
    Hinge,
    LabelSet,
    Marginal,
    MarginalMAP,
    Threshold,
    decoders_for,
)
from skcrbm.decoding.thresholds import apply_thresholds, fit_thresholds

__all__ = [
    "MAP",
    "ExpectedMetric",
    "Hinge",
    "LabelSet",
    "Marginal",
    "MarginalMAP",
    "Posterior",
    "Threshold",
    "apply_thresholds",
    "decode_label_sets",
    "decode_marginals",
    "decode_samples",
    "decoders_for",
    "fit_thresholds",
]
