"""Parameters that training starts from."""

import numpy as np

from skcrbm.energies.layered_structure import LayeredParams
from skcrbm.energies.models import CRBMParams
from skcrbm.utils.indicator import observed_weight
from skcrbm.utils.limits import MIN_SEARCH_ROWS

# Standard deviation of what breaks the symmetry between hidden units.
_SMALL = 0.01
# A label never or always on gets the log-odds of this share.
_LEAST_SHARE = 0.005
# Under Adam W moves faster than the other parameters, or the hidden units stay off.
_WEIGHTS_RATE = {"adam": 5.0, "sgd": 1.0, "asgd": 1.0}


def crbm_rate_factors(solver):
    """Learning rates of the parameters of a conditional RBM, relative to the common one."""
    return CRBMParams(_WEIGHTS_RATE[solver], 1.0, 1.0, 1.0, 1.0)


def crbm_params(
    visible, weight, n_features, n_hidden, rng, weights_scale=_SMALL, hidden_scale=_SMALL
):
    """Draw W and S, set b to the labels' log-odds; what is drawn does not depend on the rows.

    Parameters
    ----------
    visible : ndarray (N, V)
        NaN where not observed.
    weight : ndarray (N,)
    n_features, n_hidden : int
    rng : RandomState
    weights_scale, hidden_scale : float
        Standard deviations of W and S.

    Returns
    -------
    CRBMParams
    """
    n_visible, dtype = visible.shape[1], visible.dtype
    weights = rng.normal(scale=weights_scale, size=(n_visible, n_hidden))
    hidden_coef = rng.normal(scale=hidden_scale, size=(n_hidden, n_features))
    on, observed = observed_weight(visible, weight)
    share = np.divide(on, observed, out=np.full(n_visible, 0.5), where=observed > 0)
    share = np.clip(share, _LEAST_SHARE, 1 - _LEAST_SHARE)
    # Hidden units start half on: take their mean pull out of the intercept.
    intercept = np.log(share) - np.log1p(-share) - 0.5 * weights.sum(axis=1)
    return CRBMParams(
        weights.astype(dtype),
        np.zeros((n_visible, n_features), dtype),
        hidden_coef.astype(dtype),
        intercept.astype(dtype),
        np.zeros(n_hidden, dtype),
    )


def smoothed_log_odds(visible, weight, categorical=False):
    """Log-odds (V,) of the labels' shares, with half a row on and half a row off added to each.

    Parameters
    ----------
    visible : ndarray (N, V)
        NaN where not observed.
    weight : ndarray (N,)
    categorical : bool, default=False
        Logarithms of the shares instead, for units of which one is on.

    Returns
    -------
    ndarray (V,), float64
    """
    # As if there were some rows at least: then copies and weights of few rows are the same.
    weight = weight * (max(len(weight), MIN_SEARCH_ROWS) / weight.sum())
    on, observed = observed_weight(visible, weight)
    share = (on + 0.5) / (observed + 1)
    return np.log(share) - (0 if categorical else np.log1p(-share))


def max_margin_weights_scale(n_visible, n_hidden):
    """Return the standard deviation of W at which the best states of the rows differ."""
    return 2 / max(n_hidden, n_visible) ** 0.5


def layered_params(structure, input_mean, rng, dtype):
    """Draw the pairwise scores; unary scores of inputs are their mean's log-odds.

    Parameters
    ----------
    structure : LayeredStructure
    input_mean : ndarray (D (l - 1),)
        Mean of each state of each input node, over the rows where it is observed.
    rng : RandomState
    dtype : numpy dtype

    Returns
    -------
    LayeredParams
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
