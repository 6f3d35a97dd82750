"""Penalties on the parameters: terms of the objective that do not depend on the rows."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from skcrbm.energies.rbm import CRBMParams


class Penalty(ABC):
    """A term that is added to the mean loss of a row."""

    def pulls(self, k: int) -> bool:
        """Return True if the gradient of parameter array number k may differ from 0."""
        return True

    @abstractmethod
    def value(self, params):
        """Return the penalty of the parameters."""

    @abstractmethod
    def add_gradient(self, gradient, params):
        """Add the penalty's gradient to the gradient of the mean loss, in place."""


class L2(Penalty):
    """``sum of factor / 2 |parameter - centre|^2`` over the parameter arrays.

    Parameters
    ----------
    factors : params of float or ndarray
        A factor per parameter array, or an array of factors that broadcasts with it; an array
        with factor 0 is not penalised.
    centres : params of ndarray or None, default=None
        Values that the parameters are pulled to; None, also for a single array, is 0.
    """

    def __init__(self, factors, centres=None):
        self.factors = factors
        self.centres = (None,) * len(factors) if centres is None else centres
        self._pulled = [k for k, factor in enumerate(factors) if np.any(factor)]

    def pulls(self, k):
        """Return True if parameter array number k has a factor."""
        return k in self._pulled

    @property
    def curvature(self):
        """Largest factor."""
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
        """Return the distance of an array of parameters from its centre."""
        centre = self.centres[k]
        return params[k] if centre is None else params[k] - centre.astype(params[k].dtype)


class ElasticNet(L2):
    """The `L2` penalty plus ``sum of factor |parameter|``.

    The second term is followed by subgradients, which are 0 for a parameter of 0: parameters come
    near 0 but are rarely exactly 0. `l1_factors` has the form of `factors`.
    """

    def __init__(self, factors, l1_factors):
        super().__init__(factors)
        self.l1_factors = l1_factors
        self._shrunk = [k for k, factor in enumerate(l1_factors) if np.any(factor)]

    def pulls(self, k):
        """Return True if parameter array number k has a factor."""
        return super().pulls(k) or k in self._shrunk

    def value(self, params):
        """Return the penalty of the parameters."""
        lengths = (np.sum(self.l1_factors[k] * np.abs(params[k])) for k in self._shrunk)
        return super().value(params) + float(sum(lengths))

    def add_gradient(self, gradient, params):
        """Add the gradient of the squares and a subgradient of the lengths."""
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

    `alpha` is the factor of U and S, `alpha_hidden` of W, `intercept` of the distance of b from
    `centre` (V,), and `hidden_intercept` of c.
    """
    return L2(
        CRBMParams(alpha_hidden, alpha, alpha, intercept, hidden_intercept),
        CRBMParams(None, None, None, centre, None),
    )
