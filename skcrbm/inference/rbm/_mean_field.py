"""Run mean field on RBMs: update the layers in turn by matrix products for the whole batch.

Hidden units are updated first, from the visible beliefs. In a conditional model the input x acts on
the visible units, so that visible beliefs carry more information than hidden beliefs.
"""

import numpy as np
from scipy.special import entr, expit

from skcrbm.energies.states import unchecked
from skcrbm.inference.base import empty_result
from skcrbm.inference.methods._messages import Beliefs
from skcrbm.utils.parallel import one_blas_thread


def solve(method, energy, query):
    """Answer a query by updating the two layers in turn; clamped units keep their values."""
    with one_blas_thread():
        return _iterate(method, energy, query)


def _iterate(method, energy, query):
    weights, n_visible, n = energy.weights, energy.n_visible, energy.n_models
    fields = empty_result(energy, query)
    if query.start is None:  # start from the fields, including the influence of clamped units
        start = np.hstack(energy.fold_evidence()[0])
    else:
        start = query.start.log_odds
    log_odds = fields["log_odds"] = np.array(start, energy.dtype)
    fields["converged"][:] = False
    if query.return_trace:
        fields["trace"] = np.full((n, method.iterations), np.nan)
    beliefs = _with_evidence(energy, expit(log_odds))
    active, part = np.arange(n), energy
    q_v, q_h = beliefs[:, :n_visible], beliefs[:, n_visible:]
    for iteration in range(method.iterations):
        theta_h = part.hidden_bias + q_v @ weights
        new_h = _with_evidence(part, expit(theta_h), n_visible)
        theta_v = part.visible_bias + new_h @ weights.T
        new_v = _with_evidence(part, expit(theta_v))
        change = np.maximum(
            np.abs(new_v - q_v).max(1, initial=0), np.abs(new_h - q_h).max(1, initial=0)
        )
        log_odds[active, :n_visible] = theta_v
        log_odds[active, n_visible:] = theta_h
        fields["n_iter"][active] = iteration + 1
        if query.return_trace:
            fields["trace"][active, iteration] = change
        done = change < method.tolerance
        fields["converged"][active[done]] = True
        if done.all():
            break
        # Remove converged models from the batch.
        keep = ~done
        if done.any():
            active, part = active[keep], part.rows(keep)
        q_v, q_h = new_v[keep], new_h[keep]
    if query.return_state:
        fields["state"] = Beliefs(log_odds.copy())
    _add_moments(energy, query, fields)
    return fields


def _with_evidence(energy, beliefs, first=0):
    """Return beliefs (N, k), in which clamped units have their clamped values.

    Column j belongs to unit ``first + j``.
    """
    if energy.evidence is None:
        return beliefs
    held = energy.evidence[:, first : first + beliefs.shape[1]]
    return np.where(np.isnan(held), beliefs, held).astype(beliefs.dtype)


def _add_moments(energy, query, fields):
    """Write statistics (products of beliefs) and the lower bound of log Z to `fields`."""
    if not query.returns & {"statistics", "log_partition"}:
        return
    beliefs = _with_evidence(energy, expit(fields["log_odds"]))
    v, h = beliefs[:, : energy.n_visible], beliefs[:, energy.n_visible :]
    if "statistics" in query.returns and query.per_example:
        fields["statistics"][0][:] = v[:, :, None] * h[:, None, :]
    elif "statistics" in query.returns:
        fields["statistics"] = unchecked(energy.sum_statistics)(beliefs, query.sample_weight)
    if "log_partition" in query.returns:
        scores = v * energy.visible_bias
        scores += v * (h @ energy.weights.T)
        fields["log_partition"][:] = scores.sum(1, dtype=np.float64)
        fields["log_partition"] += (h * energy.hidden_bias).sum(1, dtype=np.float64)
        # For clamped units, `off` is not 1 minus the belief but the belief itself. This is
        # harmless, because both are 0 or 1 and have the entropy 0.
        off = _with_evidence(energy, expit(-fields["log_odds"]))
        fields["log_partition"] += (entr(beliefs) + entr(off)).sum(1, dtype=np.float64)
