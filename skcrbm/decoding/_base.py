"""What a decoding rule gets to see."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from skcrbm.inference import infer


class Decoding(NamedTuple):
    """A batch of models to decode, and what is known about them.

    A rule is a function of this that returns 0/1 outputs of shape (N, V), equal to
    `known` where that is not NaN.

    Attributes
    ----------
    energy : RBMEnergy
    method : InferenceMethod
    known : ndarray (N, V) or None
        Outputs known beforehand, NaN elsewhere.
    label_sets : ndarray (K, V)
        Output vectors seen in fit.
    n_jobs : int or None
    hidden : {"marginal", "max"}
        Whether a score sums the hidden units out or takes their best values.
    state_methods : dict
        Query -> method that a learner was trained with; the rules for best states take it.
    thresholds : ndarray (V,) or None
        Of the outputs' marginals, fitted by cross-validation.
    """

    energy: object
    method: object
    known: np.ndarray | None
    label_sets: np.ndarray
    n_jobs: int | None
    hidden: str = "marginal"
    state_methods: Mapping = MappingProxyType({})
    thresholds: np.ndarray | None = None

    def clamp(self):
        """Clamp (N, V + H) of what is known, or None."""
        if self.known is None:
            return None
        free = np.full((len(self.known), self.energy.n_hidden), np.nan)
        return np.hstack([self.known, free])

    def log_odds(self):
        """Belief log-odds (N, V) of the outputs given what is known."""
        result = infer(self.energy, self.method, clamp=self.clamp(), n_jobs=self.n_jobs)
        return result.log_odds[:, : self.energy.n_visible]
