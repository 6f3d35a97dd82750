"""Penalties on the parameters, chosen by whoever trains."""

from abc import ABC, abstractmethod

import numpy as np

from skcrbm.energies.models import CRBMParams


class Penalty(ABC):
    """A term of the objective that depends on the parameters alone.

    It stands beside the mean loss of a row.
    """

    def pulls(self, k):
        """Whether the gradient of parameter array number k may be other than 0."""
        return True

    @abstractmethod
    def value(self, params):
        """Return the penalty of the parameters, a float."""

    @abstractmethod
    def add_gradient(self, gradient, params):
        """Add the penalty's gradient to that of the mean loss, in place."""


class L2(Penalty):
    """``sum of factor / 2 |parameter - centre|^2`` over the parameter arrays.

    Parameters
    ----------
    factors : params of float or ndarray
        For each parameter array one factor, or an array of them that broadcasts with it; an
        array of factor 0 is free.
    centres : params of ndarray or None, default=None
        Where the parameters are pulled to; None, as a whole or for an array: to 0.
    """

    def __init__(self, factors, centres=None):
        self.factors = factors
        self.centres = (None,) * len(factors) if centres is None else centres
        self._pulled = [k for k, factor in enumerate(factors) if np.any(factor)]

    def pulls(self, k):
        """Whether parameter array number k has a factor."""
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
        """Distance of an array of parameters from where it is pulled to."""
        centre = self.centres[k]
        return params[k] if centre is None else params[k] - centre.astype(params[k].dtype)


class ElasticNet(L2):
    """L2 and, besides, ``sum of factor |parameter|``.

    Where a parameter is 0, the latter adds nothing to the gradient: it is followed by
    subgradients, so that parameters come near 0 but are rarely 0.

    Parameters
    ----------
    factors : params of float or ndarray
        As of `L2`.
    l1_factors : params of float or ndarray
        In the same form.
    """

    def __init__(self, factors, l1_factors):
        super().__init__(factors)
        self.l1_factors = l1_factors
        self._shrunk = [k for k, factor in enumerate(l1_factors) if np.any(factor)]

    def pulls(self, k):
        """Whether parameter array number k has a factor."""
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


def crbm_penalty(alpha, alpha_hidden, intercept=0.0, hidden_intercept=0.0, centre=None):
    """Return the `L2` of a conditional RBM.

    Parameters
    ----------
    alpha : float
        Of U and S.
    alpha_hidden : float
        Of W.
    intercept : float or ndarray (V,), default=0.0
        Of the distance of b from `centre`.
    hidden_intercept : float, default=0.0
        Of c.
    centre : ndarray (V,), default=None
    """
    return L2(
        CRBMParams(alpha_hidden, alpha, alpha, intercept, hidden_intercept),
        CRBMParams(None, None, None, centre, None),
    )
