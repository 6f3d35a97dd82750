"""Penalties on the parameters, which are added to the mean loss of the rows."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from skcrbm.energies.rbm import CRBMParams


class Penalty(ABC):
    """Base class of the penalties, which are added to the mean loss per row."""

    def pulls(self, k: int) -> bool:
        """Return True if the penalty may have a gradient for parameter array number k."""
        return True

    @abstractmethod
    def value(self, params):
        """Return the penalty of the parameters."""

    @abstractmethod
    def add_gradient(self, gradient, params):
        """Add the gradient of the penalty to `gradient`, in place."""


class L2(Penalty):
    """Squared penalty: the sum of ``factor / 2 |parameter - centre|^2`` over parameter arrays.

    `factors` has a number per parameter array (0 for no penalty), or an array of numbers that
    broadcasts with the parameter array. `centres` has, for each parameter array, an array of
    centres, or None for the centre 0. If `centres` is None, all centres are 0.
    """

    def __init__(self, factors, centres=None):
        self.factors = factors
        self.centres = (None,) * len(factors) if centres is None else centres
        self._pulled = [k for k, factor in enumerate(factors) if np.any(factor)]

    def pulls(self, k):
        """Return True if parameter array number k has a factor other than 0."""
        return k in self._pulled

    @property
    def curvature(self):
        """Largest second derivative of the penalty, which is the largest factor."""
        return max((float(np.max(self.factors[k])) for k in self._pulled), default=0.0)

    def value(self, params):
        """Return the penalty of the parameters."""
        total = 0.0
        for k in self._pulled:
            away, factor = self._away(params, k), self.factors[k]
            total += float(
                (factor * (away * away)).sum() if np.ndim(factor) else factor * np.vdot(away, away)
            )
        return 0.5 * total

    def add_gradient(self, gradient, params):
        """Add ``factor * (parameter - centre)`` to each array of the gradient."""
        for k in self._pulled:
            away = self._away(params, k)
            gradient[k][...] += np.asarray(self.factors[k], away.dtype) * away

    def _away(self, params, k):
        """Return parameter array number k minus its centre."""
        centre = self.centres[k]
        return params[k] if centre is None else params[k] - centre.astype(params[k].dtype)


class ElasticNet(L2):
    """Sum of the `L2` penalty and an L1 penalty, which adds up ``factor |parameter|``.

    L-BFGS makes many parameters exactly 0 (see `OrthantMinimizer`). Stochastic solvers follow
    subgradients of the L1 term, so that parameters come near 0 but are rarely exactly 0.
    `l1_factors` has the same form as `factors` in `L2`.
    """

    def __init__(self, factors, l1_factors):
        super().__init__(factors)
        self.l1_factors = l1_factors
        self._shrunk = [k for k, factor in enumerate(l1_factors) if np.any(factor)]

    def pulls(self, k):
        """Return True if parameter array number k has a factor other than 0."""
        return super().pulls(k) or k in self._shrunk

    def value(self, params):
        """Return the penalty of the parameters."""
        lengths = (np.sum(self.l1_factors[k] * np.abs(params[k])) for k in self._shrunk)
        return super().value(params) + float(sum(lengths))

    def add_gradient(self, gradient, params):
        """Add the gradient of the L2 term and a subgradient of the L1 term to `gradient`."""
        super().add_gradient(gradient, params)
        for k in self._shrunk:
            factor = np.asarray(self.l1_factors[k], params[k].dtype)
            gradient[k][...] += factor * np.sign(params[k])


def crbm_penalty(
    alpha: float,
    alpha_hidden: float,
    intercept: float | np.ndarray = 0.0,
    hidden_intercept: float = 0.0,
    centre: np.ndarray | None = None,
) -> L2:
    """Return the `L2` penalty of a conditional RBM.

    `alpha` is the factor of the coefficients of the features (U for labels, S for hidden units),
    and `alpha_hidden` the factor of the weights W between labels and hidden units. The intercepts c
    of the hidden units have the factor `hidden_intercept`. The intercepts b of the V labels have
    the factor `intercept` and are pulled towards `centre` (V,).
    """
    return L2(
        CRBMParams(alpha_hidden, alpha, alpha, intercept, hidden_intercept),
        CRBMParams(None, None, None, centre, None),
    )
