"""Variables in which the likelihood of a conditional RBM is round enough for L-BFGS."""

import numpy as np
from scipy.sparse import issparse

from skcrbm.utils.columns import dense_chunks
from skcrbm.utils.indicator import observed_weight

# Curvature left of each kind of parameter, relative to what it would be if all others were
# held: found by the iterations needed on Scene, Emotions, Birds and Medical, which other values
# within a factor of two do not change by much. W moves most freely, as what it does to the
# marginals the intercepts undo.
_WEIGHTS, _INTERCEPT, _HIDDEN = 0.02, 0.25, 0.09
_HIDDEN_COEF = 0.02
# Variance of a label that is always on or off.
_LEAST = 1e-3


class CenteredCoordinates:
    """Maps between parameters and a vector, linear, with no effect but on the conditioning.

    The intercepts are those of units and columns from which means are subtracted [1]_, and each
    parameter is divided by the inverse root of its curvature, penalty included.

    Parameters
    ----------
    model : ConditionalRBM
        Gives the shapes.
    batch : Batch
    penalty : L2

    References
    ----------
    .. [1] Melchior, Fischer and Wiskott (2016). How to center deep Boltzmann machines. JMLR.
    """

    def __init__(self, model, batch, penalty):
        self.params_type = type(model.params)
        self.shapes = [p.shape for p in model.params]
        self.ends = np.cumsum([int(np.prod(shape)) for shape in self.shapes])
        weight = batch.weight / batch.weight.sum()
        self.x_mean, x_variance = _column_moments(batch.X, weight)
        on, observed = observed_weight(batch.visible, weight)
        share = np.divide(on, observed, out=np.full(len(on), 0.5), where=observed > 0)
        self.v_mean = share
        n_hidden = model.params.weights.shape[1]
        self.h_mean = np.full(n_hidden, 0.5)
        spread = share * (1 - share) + _LEAST
        factors = penalty.factors
        self.scales = self.params_type(
            np.sqrt(_WEIGHTS * spread[:, None] + factors.weights),
            _scales(spread[:, None] * x_variance + factors.visible_coef),
            _scales(_HIDDEN_COEF * x_variance + factors.hidden_coef),
            np.sqrt(_INTERCEPT * spread),
            np.sqrt(_HIDDEN),
        )

    def vector(self, params):
        """Return the vector of parameters."""
        p = params
        centred = p._replace(
            visible_intercept=p.visible_intercept
            + p.weights @ self.h_mean
            + p.visible_coef @ self.x_mean,
            hidden_intercept=p.hidden_intercept
            + self.v_mean @ p.weights
            + p.hidden_coef @ self.x_mean,
        )
        return self._flat(a * s for a, s in zip(centred, self.scales))

    def params(self, vector):
        """Return the parameters of a vector."""
        parts = np.split(vector, self.ends[:-1])
        parts = (p.reshape(shape) for p, shape in zip(parts, self.shapes))
        p = self.params_type(*(a / s for a, s in zip(parts, self.scales)))
        return p._replace(
            visible_intercept=p.visible_intercept
            - p.weights @ self.h_mean
            - p.visible_coef @ self.x_mean,
            hidden_intercept=p.hidden_intercept
            - self.v_mean @ p.weights
            - p.hidden_coef @ self.x_mean,
        )

    def gradient(self, gradient):
        """Gradient with respect to the vector, of that with respect to the parameters."""
        g = gradient
        b, c = g.visible_intercept, g.hidden_intercept
        centred = g._replace(
            weights=g.weights - np.outer(b, self.h_mean) - np.outer(self.v_mean, c),
            visible_coef=g.visible_coef - np.outer(b, self.x_mean),
            hidden_coef=g.hidden_coef - np.outer(c, self.x_mean),
        )
        return self._flat(a / s for a, s in zip(centred, self.scales))

    @staticmethod
    def _flat(arrays):
        return np.concatenate([a.ravel() for a in arrays])


def _scales(curvature):
    """Root of the curvature; 1 where there is none, as for the coefficients of a constant."""
    return np.sqrt(np.where(curvature > 0, curvature, 1.0))


def _column_moments(X, weight):
    """Mean and variance (D,) of the columns."""
    if issparse(X):
        mean = np.asarray(weight @ X).ravel()
        second = np.asarray(weight @ X.multiply(X)).ravel()
        return mean, np.maximum(second - mean**2, 0)
    start = np.asarray(X[:1])
    mean, first, second = np.zeros((3, X.shape[1]))
    for rows in dense_chunks(X):
        part, share = np.asarray(X[rows]), weight[rows]
        mean += share @ part
        # About the first row, so that a large mean takes no digits.
        away = part - start
        first += share @ away
        second += np.einsum("n,nd,nd->d", share, away, away)
    return mean, np.maximum(second - first**2, 0)
