"""The conditional RBM: parameters, and the one place where they meet the inputs X."""

from typing import NamedTuple

import numpy as np
from scipy.sparse import issparse

from skcrbm.energies._rbm import RBMEnergy
from skcrbm.utils.columns import linear_fields


class CRBMParams(NamedTuple):
    """Parameters of a conditional RBM, in the notation of Ping and Ihler (2017), eq. 3.

    Attributes
    ----------
    weights : ndarray (V, H), W
    visible_coef : ndarray (V, D), U
    hidden_coef : ndarray (H, D), S
    visible_intercept : ndarray (V,), b
    hidden_intercept : ndarray (H,), c
    """

    weights: np.ndarray
    visible_coef: np.ndarray
    hidden_coef: np.ndarray
    visible_intercept: np.ndarray
    hidden_intercept: np.ndarray


class ConditionalRBM(NamedTuple):
    """``p(v, h | x) ∝ exp(v' W h + v' U x + h' S x + v' b + h' c)``.

    Attributes
    ----------
    params : CRBMParams
    energy_type : type
        `RBMEnergy` or `OneHotRBMEnergy`, the model of (v, h) given x.
    """

    params: CRBMParams
    energy_type: type = RBMEnergy

    def energy(self, X):
        """Energy of (v, h) given each row of X (N, D), dense or CSR.

        Raises
        ------
        ValueError
            If X is too large for the coefficients.
        """
        p = self.params
        with np.errstate(over="ignore", invalid="ignore"):
            visible = linear_fields(X, p.visible_coef, p.visible_intercept)
            hidden = linear_fields(X, p.hidden_coef, p.hidden_intercept)
        try:
            return self.energy_type(p.weights, visible, hidden)
        except ValueError:
            if np.isfinite(visible).all() and np.isfinite(hidden).all():
                raise
            raise ValueError(
                "X times the coefficients is too large a number; scale the columns of X"
            ) from None

    def gradient(self, X, unary, statistics):
        """Map moment differences to parameters by the chain rule.

        Parameters
        ----------
        X : ndarray or CSR matrix (N, D)
        unary : ndarray (N, V + H)
            Weighted differences of unary moments, row by row.
        statistics : tuple of ndarray
            Differences of the weighted sums of the couplings' statistics: ((V, H),).

        Returns
        -------
        CRBMParams
        """
        (pairwise,) = statistics
        n_visible = len(pairwise)
        coef, intercept = _left_product(unary, X), unary.sum(axis=0)
        return CRBMParams(
            pairwise,
            coef[:n_visible],
            coef[n_visible:],
            intercept[:n_visible],
            intercept[n_visible:],
        )


def _left_product(moments, X):
    """Moments' X, (n_units, D), for dense or sparse X."""
    if issparse(X):
        return np.ascontiguousarray((X.T @ moments).T)
    return moments.T @ X
