"""Find states of RBMs by iterated conditional modes: improve one layer, then the other."""

import numpy as np
from scipy.special import expit

from skcrbm.inference.base import empty_result
from skcrbm.inference.random_numbers import best_of_restarts
from skcrbm.utils.parallel import one_blas_thread


def solve(method, energy, query):
    """Answer "map" by the best of several local optima."""

    def ascend(start):
        if start is None and query.start is None:
            return _ascend(method, energy, query, expit(energy.visible_bias))
        log_odds = query.start.log_odds if start is None else start
        return _ascend(method, energy, query, log_odds[:, : energy.n_visible] > 0)

    with one_blas_thread():
        return best_of_restarts(ascend, energy, method.n_restarts, method.random_state)


def _ascend(method, energy, query, visible):
    """Improve the two layers in turn, starting from the visible states or marginals (N, V).

    Each model stops when no unit changes.
    """
    weights, n_visible, dtype = energy.weights, energy.n_visible, energy.dtype
    fields = empty_result(energy, query)
    fields["log_odds"] = np.empty((energy.n_models, energy.n_variables), dtype)
    fields["converged"][:] = False
    free = energy.free
    held = None if energy.evidence is None else np.nan_to_num(energy.evidence)

    def modes(theta, first):
        on = theta > 0
        if held is not None:
            columns = slice(first, first + theta.shape[1])
            on = np.where(free[active, columns], on, held[active, columns])
        return on.astype(dtype)

    active = np.arange(energy.n_models)
    b, c = energy.fields
    v = visible.astype(dtype)
    if held is not None:
        v = np.where(free[:, :n_visible], v, held[:, :n_visible]).astype(dtype)
    h = modes(c + v @ weights, n_visible)
    for iteration in range(method.iterations):
        theta_v = b + h @ weights.T
        new_v = modes(theta_v, 0)
        theta_h = c + new_v @ weights
        new_h = modes(theta_h, n_visible)
        fields["log_odds"][active] = np.hstack([theta_v, theta_h])
        fields["assignment"][active] = np.hstack([new_v, new_h])
        fields["n_iter"][active] = iteration + 1
        moving = (new_v != v).any(1) | (new_h != h).any(1)
        fields["converged"][active[~moving]] = True
        active, b, c = active[moving], b[moving], c[moving]
        v, h = new_v[moving], new_h[moving]
        if not len(active):
            break
    return fields, energy.score(fields["assignment"])
