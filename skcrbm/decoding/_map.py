"""The most probable state, of the outputs alone or together with the hidden units."""

from skcrbm.inference import Exact, MaxProduct, MixedProduct, infer

# Enumerating more units than this costs more than message passing with restarts.
_EXACT_UNITS = 10
_RESTARTS = {"n_restarts": 10, "max_iter": 50, "random_state": 0}


def decode_map(decoding):
    """``argmax p(v, h | x)`` with h dropped: exact if a layer has at most 10 units.

    Parameters
    ----------
    decoding : Decoding

    Returns
    -------
    ndarray (N, V) of 0/1
    """
    smaller = min(decoding.energy.n_visible, decoding.energy.n_hidden)
    method = Exact() if smaller <= _EXACT_UNITS else MaxProduct(**_RESTARTS)
    return _best_state(decoding, method, "map")


def decode_marginal_map(decoding):
    """``argmax p(v | x)`` over all output vectors: exact for at most 10 outputs.

    Parameters
    ----------
    decoding : Decoding

    Returns
    -------
    ndarray (N, V) of 0/1
    """
    few = decoding.energy.n_visible <= _EXACT_UNITS
    method = Exact() if few else MixedProduct(**_RESTARTS)
    return _best_state(decoding, method, "marginal_map")


def _best_state(decoding, method, query):
    method = decoding.state_methods.get(query, method)
    result = infer(
        decoding.energy, method, returns=query, clamp=decoding.clamp(), n_jobs=decoding.n_jobs
    )
    return result.assignment[:, : decoding.energy.n_visible]
