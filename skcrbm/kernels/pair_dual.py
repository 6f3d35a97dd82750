"""Max-product linear programming (MPLP) on pairwise models.

MPLP is block coordinate descent on the dual of the linear program over the local polytope.
"""

import numpy as np

from skcrbm.kernels.jit import jit


@jit
def _sweep(edges, coupling, free, message, belief):
    """Visit the edges in turn, and update both messages of an edge together.

    The beliefs of the two ends of an edge are computed without the messages of this edge. The new
    message to an end of the edge is half of the max-product message to this end, minus half of the
    belief of this end.
    """
    for e in range(len(edges)):
        i, k = edges[e, 0], edges[e, 1]
        if not (free[i] and free[k]):
            continue
        w = coupling[e]
        a = belief[i] - message[e, 0]
        b = belief[k] - message[e, 1]
        message[e, 0] = 0.5 * (max(w + b, 0.0) - max(b, 0.0) - a)
        message[e, 1] = 0.5 * (max(w + a, 0.0) - max(a, 0.0) - b)
        belief[i] = a + message[e, 0]
        belief[k] = b + message[e, 1]


@jit
def _sum_beliefs(edges, field, message, belief):
    """Compute the beliefs again from the messages, so that rounding errors do not accumulate."""
    for i in range(len(field)):
        belief[i] = field[i]
    for e in range(len(edges)):
        belief[edges[e, 0]] += message[e, 0]
        belief[edges[e, 1]] += message[e, 1]


@jit
def _dual(edges, coupling, free, message, belief):
    """Return the dual objective: the sum of the maxima of all beliefs and of all edges.

    Compensated summation reduces the rounding error.
    """
    total, lost = 0.0, 0.0
    for t in range(len(belief) + len(edges)):
        if t < len(belief):
            term = max(belief[t], 0.0)  # the belief of a clamped variable is 0
        else:
            e = t - len(belief)
            if not (free[edges[e, 0]] and free[edges[e, 1]]):
                continue
            left, right = -message[e, 0], -message[e, 1]
            term = max(max(left, right), max(coupling[e] + left + right, 0.0))
        after = total + term
        if abs(total) >= abs(term):
            lost += (total - after) + term
        else:
            lost += (term - after) + total
        total = after
    return total + lost


@jit
def _score(edges, coupling, field, free, belief):
    """Return the score of the state that the beliefs of the free variables prefer."""
    total = 0.0
    for i in range(len(field)):
        if free[i] and belief[i] > 0:
            total += field[i]
    for e in range(len(edges)):
        i, k = edges[e, 0], edges[e, 1]
        if free[i] and free[k] and belief[i] > 0 and belief[k] > 0:
            total += coupling[e]
    return total


@jit
def pair_dual(
    edges, coupling, field, free, max_iter, tol, state, dual, magnitude, n_iter, converged
):
    """Sweep over the E edges of N models, until a sweep lowers the dual by at most `tol`.

    Parameters
    ----------
    edges : (E, 2) int64, pairs of n variables
    coupling : (E,), coefficients of ``x_i x_k`` for 0/1 variables
    field : (N, n), 0 if clamped
    free : (N, n) bool; edges with a clamped variable are left out
    max_iter : int, largest number of sweeps
    tol : float, the sweeps end when a sweep lowers the dual by at most this number
    state : (N, n) int8 output
        Best of the states that the beliefs prefer at the start and after each sweep.
    dual : (N,) output, upper bound of the score of the free variables, up to rounding
    magnitude : (N,) output, to which the sum of the absolute values of the messages is added
    n_iter, converged : (N,) output
    """
    message = np.empty((len(edges), 2))
    belief = np.empty(field.shape[1])
    for n in range(len(field)):
        for e in range(len(edges)):
            message[e, 0] = message[e, 1] = 0.0
        best = -np.inf
        for iteration in range(max_iter + 1):
            if iteration > 0:
                _sweep(edges, coupling, free[n], message, belief)
            _sum_beliefs(edges, field[n], message, belief)
            now = _dual(edges, coupling, free[n], message, belief)
            score = _score(edges, coupling, field[n], free[n], belief)
            if score > best:
                best = score
                for i in range(len(belief)):
                    state[n, i] = belief[i] > 0
            n_iter[n] = iteration
            if iteration > 0 and dual[n] - now <= tol:
                converged[n] = True
                dual[n] = min(dual[n], now)
                break
            dual[n] = now
        for e in range(len(edges)):
            magnitude[n] += abs(message[e, 0]) + abs(message[e, 1])
