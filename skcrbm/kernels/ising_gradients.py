"""Gibbs with gradients on Ising models: a flip changes the log-odds of the neighbours only."""

import numpy as np

from skcrbm.kernels.jit import jit

# Weights of flips are stored relative to a reference. The reference changes if a log-weight exceeds
# it by more than _HIGH, or if the sum of the weights falls below _LOW.
_HIGH, _LOW = 30.0, 1e-8


@jit
def _logit(on, log_odds, limit):
    """Return half of the score that flipping a variable gains, with log-odds kept within ±limit."""
    bounded = min(max(log_odds, -limit), limit)
    return -0.5 * bounded if on else 0.5 * bounded


@jit
def _total(weight):
    total = 0.0
    for i in range(len(weight)):
        total += weight[i]
    return total


@jit
def _largest(logit, free):
    top = -np.inf
    for i in range(len(logit)):
        if free[i]:
            top = max(top, logit[i])
    return top


@jit
def _weigh(logit, free, top, weight):
    """Fill `weight` with exp(logit - top), and 0 for held variables."""
    for i in range(len(logit)):
        weight[i] = np.exp(logit[i] - top) if free[i] else 0.0


@jit
def _pick(weight, threshold):
    """Return the first variable at which the cumulative sum of weights reaches the threshold."""
    mass = 0.0
    for i in range(len(weight)):
        mass += weight[i]
        if mass >= threshold:
            return i
    return len(weight) - 1


@jit
def _flip(start, neighbours, coupling, i, limit, state, log_odds, logit):
    """Flip variable i, and update the log-odds of its neighbours."""
    change = -4.0 if state[i] else 4.0
    state[i] = not state[i]
    logit[i] = -logit[i]
    for e in range(start[i], start[i + 1]):
        k = neighbours[e]
        log_odds[k] += change * coupling[e]
        logit[k] = _logit(state[k], log_odds[k], limit)


@jit
def ising_gradients(start, neighbours, coupling, free, u, limit, state, log_odds):
    """Propose T flips in each of R chains, one after the other.

    Parameters
    ----------
    start : (L + 1,) int64
    neighbours, coupling : (2 E,)
        The neighbours of variable i are at ``start[i]`` to ``start[i + 1] - 1``.
    free : (R, L) bool
    u : (R, 2 T), uniform numbers, two per flip: the choice of the variable, and its acceptance
    limit : float, bound of log-odds
    state : (R, L) bool, changed
    log_odds : (R, L) float64, changed, log-odds of each variable given the others
    """
    width = state.shape[1]
    logit, weight = np.empty(width), np.empty(width)
    for r in range(len(state)):
        for i in range(width):
            logit[i] = _logit(state[r, i], log_odds[r, i], limit)
        top = _largest(logit, free[r])
        if top == -np.inf:
            continue  # all variables are held
        _weigh(logit, free[r], top, weight)
        total = _total(weight)
        for t in range(u.shape[1] // 2):
            i = _pick(weight, u[r, 2 * t] * total)
            if not free[r, i]:
                continue
            _flip(start, neighbours, coupling, i, limit, state[r], log_odds[r], logit)
            high = logit[i]
            weight[i] = np.exp(min(logit[i] - top, 2 * _HIGH))
            for e in range(start[i], start[i + 1]):
                k = neighbours[e]
                if free[r, k]:
                    high = max(high, logit[k])
                    weight[k] = np.exp(min(logit[k] - top, 2 * _HIGH))
            other_top, other_total = top, _total(weight)
            if high - top > _HIGH or other_total < _LOW:
                other_top = _largest(logit, free[r])
                _weigh(logit, free[r], other_top, weight)
                other_total = _total(weight)
            # Acceptance ratio q(x | x') p(x') / (q(x' | x) p(x)): the ratio of the weight sums.
            gain = (top + np.log(total)) - (other_top + np.log(other_total))
            if np.log(u[r, 2 * t + 1]) < gain:
                top, total = other_top, other_total
                continue
            _flip(start, neighbours, coupling, i, limit, state[r], log_odds[r], logit)
            if other_top != top:
                _weigh(logit, free[r], top, weight)
                continue
            weight[i] = np.exp(logit[i] - top)
            for e in range(start[i], start[i + 1]):
                k = neighbours[e]
                if free[r, k]:
                    weight[k] = np.exp(logit[k] - top)
