"""Bounds of the best visible state of RBMs: a subgradient method on the dual of a decomposition.

``-F(v) = b'v + sum_j softplus(c_j + w_j'v)`` is cut into one factor a hidden unit,
``softplus(c_j + w_j'v) + s_j'v``, where the shifts s_j sum to b over j. The sum of the maxima of
the factors, each over a v of its own, is above every -F(v); it is convex in the shifts.
"""

import numpy as np

from skcrbm.kernels.jit import jit
from skcrbm.kernels.scalar import softplus

# Iterations without progress after which the method aims at less, and by which factor. Progress
# is a bound that falls by so much of what is aimed at.
_PATIENCE, _LESS, _PROGRESS = 10, 0.7, 0.1
# Every so many iterations the factors' average state, with this weight of the newest, is rounded.
_ROUND_EVERY, _NEWEST = 10, 0.1
_EPS = np.finfo(np.float64).eps


@jit
def _best_of_factor(bias, weight, shift, order, turn, state):
    """Maximise ``softplus(bias + weight'v) + shift'v`` over v (V,) of 0/1; return the maximum.

    As softplus(z) is the maximum over p in [0, 1] of ``p z`` plus the entropy of p, the best v
    turns on the units with ``p weight_i + shift_i > 0`` for some p. Each unit changes sides at one
    p at most, so that V + 1 states are all that can be best. `order` (V,) sorts the p's, from the
    order of the last call; `turn` (V,) is scratch space.
    """
    z, y = bias, 0.0
    for i in range(len(weight)):
        w, s = weight[i], shift[i]
        on = s > 0 or (s == 0 and w > 0)
        state[i] = on
        if on:
            z += w
            y += s
        turn[i] = abs(s) / abs(w) if s * w < 0 and abs(s) < abs(w) else 2.0  # 2: never
    for k in range(1, len(order)):
        i = order[k]
        place = k
        while place > 0 and turn[order[place - 1]] > turn[i]:
            order[place] = order[place - 1]
            place -= 1
        order[place] = i
    best = softplus(z) + y
    n_turned = np.int64(0)
    for k in range(len(order)):
        i = order[k]
        if turn[i] >= 1:
            break
        z += abs(weight[i])
        y -= abs(shift[i])
        value = softplus(z) + y
        if value > best:
            best = value
            n_turned = k + 1
    for k in range(n_turned):
        state[order[k]] = 1 - state[order[k]]
    return best


@jit
def _inputs(bias, weight, state, z):
    """Fill z (H,), the inputs of the hidden units given a state (V,); return their softplus."""
    total = 0.0
    for j in range(len(bias)):
        z[j] = bias[j]
        for i in range(len(state)):
            if state[i]:
                z[j] += weight[j, i]
        total += softplus(z[j])
    return total


@jit
def _climb(field, bias, weight, slack, state, z):
    """Flip units in their order until no flip raises -F(v) by more than `slack`; return -F(v)."""
    gain = _inputs(bias, weight, state, z)
    moving = True
    while moving:
        moving = False
        for i in range(len(field)):
            sign = -1.0 if state[i] else 1.0
            flipped = 0.0
            for j in range(len(bias)):
                flipped += softplus(z[j] + sign * weight[j, i])
            if flipped - gain + sign * field[i] > slack:
                moving = True
                state[i] = 1 - state[i]
                gain = flipped
                for j in range(len(bias)):
                    z[j] += sign * weight[j, i]
    total = _inputs(bias, weight, state, z)
    for i in range(len(field)):
        if state[i]:
            total += field[i]
    return total


@jit
def _left_over(field, shift):
    """Bound of what rounding has left of ``field - sum_j shift_j``."""
    total = 0.0
    for i in range(len(field)):
        rest = field[i]
        for j in range(len(shift)):
            rest -= shift[j, i]
        total += max(rest, 0.0)
    return total


@jit
def _magnitude(array):
    """Sum of the magnitudes of an array (K, L)."""
    total = 0.0
    for j in range(array.shape[0]):
        for i in range(array.shape[1]):
            total += abs(array[j, i])
    return total


@jit
def _descend(field, bias, weight, max_iter, tol, best_state):
    """Run one model without held units.

    Parameters
    ----------
    field : (V,)
    bias : (H,)
        At least one.
    weight : (H, V)
    max_iter, tol
        See `rbm_dual`.
    best_state : (V,) int8 output

    Returns
    -------
    bound, n_iter, converged
    """
    n_hidden, n_visible = weight.shape
    shift = np.empty((n_hidden, n_visible))
    order = np.empty((n_hidden, n_visible), np.int64)
    state = np.zeros((n_hidden, n_visible), np.int8)
    turn, mean = np.empty(n_visible), np.empty(n_visible)
    average, z = np.empty(n_visible), np.empty(n_hidden)
    rounded, tried = np.zeros(n_visible, np.int8), np.full(n_visible, -1, np.int8)
    given = _magnitude(weight)
    for j in range(n_hidden):
        given += abs(bias[j])
        for i in range(n_visible):
            shift[j, i] = field[i] / n_hidden
            order[j, i] = i
    for i in range(n_visible):
        given += abs(field[i])
    rounding = _EPS * (n_visible + n_hidden + 8)
    bound, score, aim = np.inf, -np.inf, 0.0
    unchanged = 0
    for iteration in range(max_iter):
        dual = _left_over(field, shift)
        for j in range(n_hidden):
            dual += _best_of_factor(bias[j], weight[j], shift[j], order[j], turn, state[j])
        slack = rounding * (given + _magnitude(shift))
        spread = 0.0  # squared length of the subgradient
        for i in range(n_visible):
            mean[i] = 0.0
            for j in range(n_hidden):
                mean[i] += state[j, i]
            spread += mean[i] * (n_hidden - mean[i]) / n_hidden
            mean[i] /= n_hidden
            average[i] = mean[i] if iteration == 0 else (
                average[i] + _NEWEST * (mean[i] - average[i])
            )  # fmt: skip
        if spread == 0 or iteration % _ROUND_EVERY == 0 or iteration == max_iter - 1:
            new = False
            for i in range(n_visible):
                rounded[i] = (mean[i] if spread == 0 else average[i]) > 0.5
                new |= rounded[i] != tried[i]
                tried[i] = rounded[i]
            if new or n_visible == 0:
                found = _climb(field, bias, weight, slack, rounded, z)
                if found > score:
                    score = found
                    for i in range(n_visible):
                        best_state[i] = rounded[i]
        if iteration == 0:
            aim = dual - score
        unchanged = 0 if dual + slack < bound - _PROGRESS * aim else unchanged + 1
        bound = min(bound, dual + slack)
        if unchanged > _PATIENCE:
            aim *= _LESS
            unchanged = 0
        if spread == 0 or bound - score <= tol + 2 * slack or aim <= tol:
            return bound, iteration + 1, True
        step = (dual - max(score, bound - aim)) / spread
        for j in range(n_hidden):
            for i in range(n_visible):
                shift[j, i] -= step * (state[j, i] - mean[i])
    return bound, max_iter, False


@jit
def rbm_dual(field, bias, free, coupling, max_iter, tol, state, bound, n_iter, converged):
    """Bound the best visible state of each of N models, hidden units summed out, and find a state.

    Each step goes along the subgradient, by Polyak's rule: as far as the bound would have to fall
    to reach the best state found, or what it is aimed at, which is nearer and nearer to the
    lowest bound as this settles.

    Parameters
    ----------
    field, bias : (N, V), (N, H)
        Held units are left out.
    free : (N, V + H) bool
    coupling : (H, V)
    max_iter : int
    tol : float
        A model stops once its bound is by no more above the best state found, or aims at no less.
    state : (N, V) int8 output
        Best state found; 0 where held.
    bound : (N,) output
        No state has a higher -F(v), whatever the rounding.
    n_iter, converged : (N,) output
    """
    n_visible = coupling.shape[1]
    for n in range(len(field)):
        visible = np.flatnonzero(free[n, :n_visible])
        hidden = np.flatnonzero(free[n, n_visible:])
        part = np.empty((len(hidden), len(visible)))
        own_field, own_bias = np.empty(len(visible)), np.empty(len(hidden))
        for a in range(len(visible)):
            own_field[a] = field[n, visible[a]]
        for h in range(len(hidden)):
            own_bias[h] = bias[n, hidden[h]]
            for a in range(len(visible)):
                part[h, a] = coupling[hidden[h], visible[a]]
        best = np.zeros(len(visible), np.int8)
        if len(hidden):
            bound[n], n_iter[n], converged[n] = _descend(
                own_field, own_bias, part, max_iter, tol, best
            )
        else:
            total = 0.0
            for a in range(len(visible)):
                best[a] = own_field[a] > 0
                total += max(own_field[a], 0.0)
            bound[n], converged[n] = total * (1 + _EPS * (len(visible) + 8)), True
        for i in range(n_visible):
            state[n, i] = 0
        for a in range(len(visible)):
            state[n, visible[a]] = best[a]
