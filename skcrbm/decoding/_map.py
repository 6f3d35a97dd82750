"""The most probable state, of the outputs alone or together with the hidden units."""

import numpy as np

from skcrbm.decoding._label_set import decode_label_set
from skcrbm.inference import Exact, MaxProduct, MixedProduct, infer

# Enumerating more units than this costs more than message passing with restarts.
_EXACT_UNITS = 10
_RESTARTS = {"n_restarts": 10, "max_iter": 50, "random_state": 0}
# What message passing finds in larger models is improved on while that is cheap.
_POLISHED_WEIGHTS, _POLISHED_SETS = 2**12, 2**12


def decode_map(decoding):
    """``argmax p(v, h | x)`` with h dropped: exact if a layer has at most 10 units.

    Else the state that max-product finds, improved as in `decode_marginal_map`.

    Parameters
    ----------
    decoding : Decoding

    Returns
    -------
    ndarray (N, V) of 0/1
    """
    smaller = min(decoding.energy.n_visible, decoding.energy.n_hidden)
    return _best_state(decoding, "map", smaller <= _EXACT_UNITS, MaxProduct, "max")


def decode_marginal_map(decoding):
    """``argmax p(v | x)`` over all output vectors: exact for at most 10 outputs.

    Else what mixed-product finds or the best label set seen in fit, both improved by flips of
    single outputs up to a local optimum: strong couplings lead messages astray. Models with
    more than 4096 couplings are left to the messages, and more than 4096 label sets out.

    Parameters
    ----------
    decoding : Decoding

    Returns
    -------
    ndarray (N, V) of 0/1
    """
    few = decoding.energy.n_visible <= _EXACT_UNITS
    return _best_state(decoding, "marginal_map", few, MixedProduct, "marginal")


def _best_state(decoding, query, enumerable, passing, hidden):
    own = decoding.state_methods.get(query)
    method = own or (Exact() if enumerable else passing(**_RESTARTS))
    result = infer(
        decoding.energy, method, returns=query, clamp=decoding.clamp(), n_jobs=decoding.n_jobs
    )
    visible = result.assignment[:, : decoding.energy.n_visible]
    if own or enumerable or decoding.energy.weights.size > _POLISHED_WEIGHTS:
        return visible
    return _polish(decoding, visible, hidden)


def _polish(decoding, visible, hidden):
    """Climb from what the messages found and from the best label set; return the higher one."""
    energy = decoding.energy
    visible = _climb(decoding, visible, hidden)
    if 0 < len(decoding.label_sets) <= _POLISHED_SETS:
        rival = _climb(decoding, decode_label_set(decoding._replace(hidden=hidden)), hidden)
        better = energy.log_weight(rival, hidden) > energy.log_weight(visible, hidden)
        visible = np.where(better[:, None], rival, visible)
    return visible


def _climb(decoding, visible, hidden):
    """Flip the unknown output that raises ``log_weight`` most until none does."""
    energy = decoding.energy
    visible = visible.copy()
    free = np.ones(visible.shape, bool) if decoding.known is None else np.isnan(decoding.known)
    tolerance = 1e3 * np.finfo(energy.dtype).eps
    rows = np.arange(energy.n_models)
    while len(rows):
        part, here = energy.rows(rows), visible[rows]
        gain = np.where(here > 0, -1, 1) * part.visible_log_odds(here, hidden)
        gain[~free[rows]] = -np.inf
        best = gain.argmax(axis=1)
        scale = 1 + np.abs(part.log_weight(here, hidden))
        going = gain[np.arange(len(rows)), best] > tolerance * scale
        rows, best = rows[going], best[going]
        visible[rows, best] = 1 - visible[rows, best]
    return visible
