"""Parameters from which training starts, and their relative learning rates."""

from __future__ import annotations

import numpy as np

from skcrbm.energies.layered_structure import LayeredParams
from skcrbm.energies.models import CRBMParams
from skcrbm.learning.solvers import Adam, Solver
from skcrbm.utils.labels import observed_weight
from skcrbm.utils.limits import MIN_SEARCH_ROWS

# Standard deviation of the noise that breaks the symmetry between hidden units.
_SMALL = 0.01
# A label that is never (always) on gets the log-odds of this share (of 1 - share).
_LEAST_SHARE = 0.005
# With Adam W must move faster than the other parameters, or the hidden units stay off.
_ADAM_WEIGHTS_RATE = 5.0


def crbm_rate_factors(solver: Solver) -> CRBMParams:
    """Return the relative learning rates of the parameters of a conditional RBM."""
    factor = _ADAM_WEIGHTS_RATE if isinstance(solver, Adam) else 1.0
    return CRBMParams(factor, 1.0, 1.0, 1.0, 1.0)


def crbm_params(
    visible: np.ndarray,
    weight: np.ndarray,
    n_features: int,
    n_hidden: int,
    rng: np.random.RandomState,
    weights_scale: float = _SMALL,
    hidden_scale: float = _SMALL,
) -> CRBMParams:
    """Draw W and S with these standard deviations, and set b to the log-odds of the labels.

    The random numbers do not depend on the rows `visible` (N, V), which hold NaN if a label is
    missing, nor on their weights.
    """
    n_visible, dtype = visible.shape[1], visible.dtype
    weights = rng.normal(scale=weights_scale, size=(n_visible, n_hidden))
    hidden_coef = rng.normal(scale=hidden_scale, size=(n_hidden, n_features))
    on, observed = observed_weight(visible, weight)
    share = np.divide(on, observed, out=np.full(n_visible, 0.5), where=observed > 0)
    share = np.clip(share, _LEAST_SHARE, 1 - _LEAST_SHARE)
    # Hidden units start half on: subtract their mean pull from the intercept.
    intercept = np.log(share) - np.log1p(-share) - 0.5 * weights.sum(axis=1)
    return CRBMParams(
        weights.astype(dtype),
        np.zeros((n_visible, n_features), dtype),
        hidden_coef.astype(dtype),
        intercept.astype(dtype),
        np.zeros(n_hidden, dtype),
    )


def smoothed_log_odds(
    visible: np.ndarray, weight: np.ndarray, categorical: bool = False
) -> np.ndarray:
    """Return the log-odds (V,) of the labels' shares, in float64.

    Half a row with the label on and half a row with it off are added. For `categorical` units, of
    which exactly one is on, the logarithms of the shares are returned.
    """
    # Weights are scaled as if there were a least number of rows, so that copies of few rows and
    # weights give the same result.
    weight = weight * (max(len(weight), MIN_SEARCH_ROWS) / weight.sum())
    on, observed = observed_weight(visible, weight)
    share = (on + 0.5) / (observed + 1)
    return np.log(share) - (0 if categorical else np.log1p(-share))


def max_margin_weights_scale(n_visible: int, n_hidden: int) -> float:
    """Return a standard deviation of W at which the best states of the rows differ."""
    return 2 / max(n_hidden, n_visible) ** 0.5


def layered_params(structure, input_mean: np.ndarray, rng, dtype) -> LayeredParams:
    """Draw the pairwise scores, and set the unary scores of the inputs to their log-odds.

    `input_mean` (D (l - 1),) is the mean of each state of each input node over the rows in which
    it is observed.
    """
    weights = []
    for connection in structure.connections:
        into, out_of = connection.mean_degrees
        scale = np.sqrt(2.0 / (into + out_of))
        weights.append(rng.normal(scale=scale, size=connection.n_weights))
    unaries = [np.zeros((n, s - 1)) for n, s in zip(structure.n_nodes, structure.n_states)]
    p = np.clip(input_mean.reshape(unaries[0].shape), _LEAST_SHARE, 1 - _LEAST_SHARE)
    rest = np.maximum(1 - p.sum(axis=1, keepdims=True), _LEAST_SHARE)
    unaries[0][:] = np.log(p) - np.log(rest)
    return LayeredParams(*(p.astype(dtype) for p in structure.params(unaries, weights)))
