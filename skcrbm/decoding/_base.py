"""What a decoding rule sees: the posterior of each row's outputs."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from skcrbm.inference import infer


class Posterior(NamedTuple):
    """p(v, h | x) of each row of a batch, given the outputs known beforehand.

    A decoding rule is a function of this that returns 0/1 outputs of shape (N, V), equal to
    `known` where that is not NaN.

    Attributes
    ----------
    energy : BaseEnergy
        Without what is known.
    method : InferenceMethod
        What gives marginals.
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
    margin : float
        Of the hinge loss, where a rule goes by that.
    allow_empty : bool
        Whether the answer for a row in which labels might be on may be that none is.
    unseen_share : float
        Share of new rows whose label set is none of `label_sets`, as far as fit can tell.
    """

    energy: object
    method: object
    known: np.ndarray | None
    label_sets: np.ndarray
    n_jobs: int | None
    hidden: str = "marginal"
    state_methods: Mapping = MappingProxyType({})
    thresholds: np.ndarray | None = None
    margin: float = 1.0
    allow_empty: bool = True
    unseen_share: float = 1.0

    def rows(self, index):
        """Return the posterior of some rows."""
        known = None if self.known is None else self.known[index]
        return self._replace(energy=self.energy.rows(index), known=known)

    def evidence(self):
        """Values (N, n_variables) of what is known, NaN where free; None if nothing is."""
        if self.known is None:
            return None
        free = np.full((len(self.known), self.energy.n_hidden), np.nan)
        return np.hstack([self.known, free])

    def infer(self, method=None, **options):
        """`skcrbm.inference.infer` given what is known, by default with `method`."""
        method = self.method if method is None else method
        return infer(self.energy, method, clamp=self.evidence(), n_jobs=self.n_jobs, **options)

    def log_odds(self):
        """Log-odds (N, V) of the outputs' marginals given what is known."""
        return self.infer().log_odds[:, : self.energy.n_visible]


class CertifiedLabels(NamedTuple):
    """Outputs of N rows, and how far they may be from the best ones.

    Attributes
    ----------
    labels : ndarray (N, V) of 0/1
    objective : ndarray (N,)
        What the rule minimises, at these outputs.
    gap : ndarray (N,)
        The best outputs are better by at most this: 0 where these are proven to be the best,
        infinite where nothing is known.
    """

    labels: np.ndarray
    objective: np.ndarray
    gap: np.ndarray
