"""The most probable state, of the outputs alone or together with the hidden units."""

import numpy as np

from skcrbm.decoding._base import CertifiedLabels
from skcrbm.decoding._label_set import decode_label_set
from skcrbm.inference import Exact, MaxProduct, MixedProduct, available_methods
from skcrbm.inference.choice import resolve_method
from skcrbm.utils.limits import AUTO_EXACT_UNITS, ESTIMATOR_TOL

_RESTARTS = {"n_restarts": 10, "max_iter": 50, "tol": ESTIMATOR_TOL, "random_state": 0}
# What message passing finds in larger models is improved on while that is cheap.
_POLISHED_COUPLINGS, _POLISHED_SETS = 2**12, 2**12
# Labels of which one is held on in turn where the best outputs are empty and must not be.
_FIRST_LABELS = 10


def decode_map(posterior):
    """``argmax p(v, h | x)`` with h dropped: exact if a layer has at most 10 units.

    Else the state that max-product finds, improved as in `decode_marginal_map`. On energies that
    max-product does not serve, the first method that does, such as branch and bound. Where the
    empty vector is excluded, see `decode_marginal_map`.

    Parameters
    ----------
    posterior : Posterior

    Returns
    -------
    ndarray (N, V) of 0/1
    """
    return _best_outputs(posterior, "map", "max")


def decode_marginal_map(posterior):
    """``argmax p(v | x)`` over all output vectors: exact for at most 10 outputs.

    Else what mixed-product finds or the best label set seen in fit, both improved by flips of
    single outputs up to a local optimum: strong couplings lead messages astray. Models with
    more than 4096 couplings are left to the messages, and more than 4096 label sets out.
    Where that is the empty vector and it is excluded, the best is looked for given that one
    label is on, for each of the ten that take least: exact for up to ten outputs, as before.

    Parameters
    ----------
    posterior : Posterior

    Returns
    -------
    ndarray (N, V) of 0/1
    """
    return _best_outputs(posterior, "marginal_map", "marginal")


def map_with_gap(posterior):
    """Return the outputs of the best state, minus its score, and how much higher others may be.

    As the method found it: without the improvement of `decode_map`, of which nothing is proven.
    Where they are empty and must not be, the best of the searches in each of which one of the
    labels that are free is held on: exact if the method is.
    """
    labels, value, gap = (np.array(part) for part in _certified(posterior))
    if posterior.allow_empty:
        return CertifiedLabels(labels, value, gap)
    free = np.ones(labels.shape, bool) if posterior.known is None else np.isnan(posterior.known)
    empty = ~labels.any(axis=1) & free.any(axis=1)
    lower = np.where(empty, np.inf, value - gap)
    value[empty] = np.inf
    for label in range(labels.shape[1]):
        rows = np.flatnonzero(empty & free[:, label])
        if not len(rows):
            continue
        held = np.full(labels.shape, np.nan) if posterior.known is None else posterior.known
        held = held[rows].copy()
        held[:, label] = 1
        rival = _certified(posterior.rows(rows)._replace(known=held))
        lower[rows] = np.minimum(lower[rows], rival[1] - rival[2])
        better = rival[1] < value[rows]
        labels[rows[better]], value[rows[better]] = rival[0][better], rival[1][better]
    gap[empty] = np.maximum(value[empty] - lower[empty], 0.0)
    return CertifiedLabels(labels, value, gap)


def _certified(posterior):
    """Search: outputs, minus the score of the state, and how much higher others may be."""
    energy = posterior.energy
    method = posterior.state_methods.get("map") or _method_for(energy, "map")[0]
    bounded = "map_bound" in method.supports(energy)
    result = posterior.infer(method, returns=("map", "map_bound") if bounded else "map")
    gap = result.gap if bounded else np.full(energy.n_models, np.inf)
    labels = result.assignment[:, : energy.n_visible]
    return labels, -energy.score(result.assignment), gap


def _best_outputs(posterior, query, hidden):
    """Best outputs (N, V); where they are empty and must not be, the best with a label on."""
    visible = _search(posterior, query, hidden)
    if posterior.allow_empty:
        return visible
    energy = posterior.energy
    free = np.ones(visible.shape, bool) if posterior.known is None else np.isnan(posterior.known)
    rows = np.flatnonzero(~visible.any(axis=1) & free.any(axis=1))
    if not len(rows):
        return visible
    gain = energy.rows(rows).visible_log_odds(visible[rows], hidden)
    first = np.argsort(-np.where(free[rows], gain, -np.inf), axis=1, kind="stable")
    for label in first[:, :_FIRST_LABELS].T:  # each in turn held on
        possible = np.flatnonzero(free[rows, label])
        index = rows[possible]
        known = np.full(visible.shape, np.nan) if posterior.known is None else posterior.known
        known = known[index].copy()
        known[np.arange(len(index)), label[possible]] = 1
        rival = _search(posterior.rows(index)._replace(known=known), query, hidden)
        part, here = energy.rows(index), visible[index]
        better = part.log_weight(rival, hidden) > part.log_weight(here, hidden)
        better |= ~here.any(axis=1)
        visible[index] = np.where(better[:, None], rival, here)
    return visible


def _search(posterior, query, hidden):
    energy = posterior.energy
    own = posterior.state_methods.get(query)
    method, polished = (own, False) if own else _method_for(energy, query)
    visible = posterior.infer(method, returns=query).assignment[:, : energy.n_visible]
    if polished and energy.n_statistics <= _POLISHED_COUPLINGS:
        return _polish(posterior, visible, hidden)
    return visible


def _method_for(energy, query):
    """Return the method for best states, and whether these are then to be improved."""
    if energy.n_enumerated(query) <= AUTO_EXACT_UNITS:
        return Exact(), False
    passing = {"map": MaxProduct, "marginal_map": MixedProduct}[query](**_RESTARTS)
    if query in passing.supports(energy):
        return passing, True
    others = [name for name in available_methods(energy, query) if name != "exact"]
    return resolve_method((*others, "exact")[0]), True


def _polish(posterior, visible, hidden):
    """Climb from what the messages found and from the best label set; return the higher one."""
    energy = posterior.energy
    visible = _climb(posterior, visible, hidden)
    if 0 < len(posterior.label_sets) <= _POLISHED_SETS:
        rival = _climb(posterior, decode_label_set(posterior._replace(hidden=hidden)), hidden)
        better = energy.log_weight(rival, hidden) > energy.log_weight(visible, hidden)
        visible = np.where(better[:, None], rival, visible)
    return visible


def _climb(posterior, visible, hidden):
    """Flip the unknown output that raises ``log_weight`` most until none does."""
    energy = posterior.energy
    visible = visible.copy()
    free = np.ones(visible.shape, bool) if posterior.known is None else np.isnan(posterior.known)
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
