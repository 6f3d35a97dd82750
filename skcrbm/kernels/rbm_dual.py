"""Dual decomposition of RBMs: upper bounds of the best score -F(v) of a visible state v.

The score ``-F(v) = b'v + sum_j softplus(c_j + w_j'v)`` is split into one part per hidden unit,
``softplus(c_j + w_j'v) + s_j'v``, where the shifts s_j sum to b over j. If each part is maximised
separately over v, the sum of the maxima is an upper bound of -F(v). The bound is a convex function
of the shifts, and a subgradient method minimises it. If the minimum stays above the best known
score, branch and bound fixes a unit on which the parts disagree, first at one value, then at the
other.
"""

import numpy as np

from skcrbm.kernels.jit import jit
from skcrbm.kernels.scalar import softplus

# `_descend` chooses each step such that the bound should fall by a certain amount, the targeted
# decrease. Progress means that the bound falls by at least _PROGRESS times the targeted decrease.
# After _PATIENCE iterations without progress, the targeted decrease is multiplied by _LESS.
_PATIENCE, _LESS, _PROGRESS = 10, 0.7, 0.1
# Every _ROUND_EVERY iterations the average state of the parts is rounded to find a better state.
# The newest iteration has the weight _NEWEST in the average.
_ROUND_EVERY, _NEWEST = 10, 0.1
# Each node of the search except the root makes at most _NODE_STEPS steps. If other nodes follow the
# root, the root need not reach the lowest bound: its steps stop when the targeted decrease is below
# _ROUGH times the gap between the bound and the best score.
_NODE_STEPS, _ROUGH = 10, 0.1
_EPS = np.finfo(np.float64).eps


@jit
def _best_of_part(bias, weight, shift, order, turn, state):
    """Maximise ``softplus(bias + weight'v) + shift'v`` over v (V,) of 0/1; return the maximum.

    softplus(z) is the maximum over p in [0, 1] of ``p z`` plus the entropy of p. So there is a p
    such that in the best v exactly the units with ``p weight_i + shift_i > 0`` are 1. As p grows,
    the value of each unit changes at most once, so that only V + 1 states can be the best state.
    The states are visited in the order of p. `order` (V,) sorts the units by the p at which their
    values change. It is kept from call to call, because an array that is almost sorted is sorted
    fast. `turn` (V,) is scratch space.
    """
    z, y = bias, 0.0
    for i in range(len(weight)):
        w, s = weight[i], shift[i]
        on = s > 0 or (s == 0 and w > 0)
        state[i] = on
        if on:
            z += w
            y += s
        # 2, which is larger than every p, stands for a unit whose value does not change
        turn[i] = abs(s) / abs(w) if s * w < 0 and abs(s) < abs(w) else 2.0
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
    """Write the inputs of the hidden units to `z` (H,), given a state of the visible units.

    Return the sum of softplus(z).
    """
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
    """Flip units of a state until no flip raises -F(v) by more than `slack`; return -F(v)."""
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
    """Return the maximum over v of ``(field - sum_j shift_j)'v``, which is 0 up to rounding."""
    total = 0.0
    for i in range(len(field)):
        rest = field[i]
        for j in range(len(shift)):
            rest -= shift[j, i]
        total += max(rest, 0.0)
    return total


@jit
def _size(array):
    """Return the sum of the absolute values of an array (K, L)."""
    total = 0.0
    for j in range(array.shape[0]):
        for i in range(array.shape[1]):
            total += abs(array[j, i])
    return total


@jit
def _rounding(field, bias, weight):
    """Return the rounding error of a bound relative to the size of the model, and the size.

    The size is the sum of the absolute values of all parameters, plus 1 for each hidden unit,
    because a hidden unit adds about log 2 to the score even if its weights are 0.
    """
    total = _size(weight) + len(bias)
    for i in range(len(field)):
        total += abs(field[i])
    for j in range(len(bias)):
        total += abs(bias[j])
    return _EPS * (len(field) + len(bias) + 8), total


@jit
def _descend(field, bias, weight, shift, score, max_iter, rough, tol, average, best_state):
    """Lower the bound of a model without clamped units, by a subgradient method.

    The step size follows Polyak's rule: the bound minus a target, divided by the squared length of
    the subgradient. The target is the lowest bound so far minus the targeted decrease, but at least
    the best score. Without progress, the targeted decrease becomes smaller.

    Parameters
    ----------
    field : (V,), biases of V visible units
    bias : (H,), biases of H >= 1 hidden units
    weight : (H, V), couplings
    shift : (H, V), changed; the rows sum to `field`, up to rounding
    score : float, score of the best known state, -inf if no state is known
    max_iter : int
    rough : float, stop once the targeted decrease of the bound is below `rough` times the gap
        between the bound and the best score
    tol : float, see `rbm_dual`
    average : (V,) output, mean state of the parts, over the last steps
    best_state : (V,) int8 output, replaced if a state with a higher score is found

    Returns
    -------
    bound, score, n_iter, settled
        `settled` is False if `max_iter` steps were made without meeting a condition to stop.
    """
    n_hidden, n_visible = weight.shape
    order = np.empty((n_hidden, n_visible), np.int64)
    state = np.zeros((n_hidden, n_visible), np.int8)
    turn, mean, z = np.empty(n_visible), np.empty(n_visible), np.empty(n_hidden)
    rounded, tried = np.zeros(n_visible, np.int8), np.full(n_visible, -1, np.int8)
    share, given = _rounding(field, bias, weight)
    for j in range(n_hidden):
        for i in range(n_visible):
            order[j, i] = i
    bound, aim, unchanged = np.inf, 0.0, 0
    for iteration in range(max_iter):
        dual = _left_over(field, shift)
        for j in range(n_hidden):
            dual += _best_of_part(bias[j], weight[j], shift[j], order[j], turn, state[j])
        slack = share * (given + _size(shift))
        newest = max(_NEWEST, 1.0 / (iteration + 1))
        spread = 0.0  # squared length of the subgradient
        for i in range(n_visible):
            mean[i] = 0.0
            for j in range(n_hidden):
                mean[i] += state[j, i]
            spread += mean[i] * (n_hidden - mean[i]) / n_hidden
            mean[i] /= n_hidden
            average[i] = newest * mean[i] + ((1 - newest) * average[i] if iteration else 0.0)
        last = spread == 0 or iteration == max_iter - 1
        if last or iteration % _ROUND_EVERY == 0:
            new = n_visible == 0
            for i in range(n_visible):
                rounded[i] = (mean[i] if spread == 0 else average[i]) > 0.5
                new |= rounded[i] != tried[i]
                tried[i] = rounded[i]
            if new:
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
        gap = bound - score
        if spread == 0 or gap <= tol + 2 * slack or aim <= max(tol, rough * gap):
            return bound, score, iteration + 1, True
        step = (dual - max(score, bound - aim)) / spread
        for j in range(n_hidden):
            for i in range(n_visible):
                shift[j, i] -= step * (state[j, i] - mean[i])
    return bound, score, max_iter, False


@jit
def _next_unit(weight, average):
    """Return the visible unit that branch and bound fixes next.

    The bound has a part for each hidden unit, and each part prefers a visible state of its own.
    `average` (V,) is the mean of these states. The parts disagree on unit i by ``average[i] * (1 -
    average[i])``, which is largest if half of the parts prefer each value. The chosen unit has the
    largest product of the disagreement and the sum of its |couplings|.
    """
    best, chosen = -1.0, np.int64(0)
    for i in range(len(average)):
        size = 0.0
        for j in range(len(weight)):
            size += abs(weight[j, i])
        doubt = average[i] * (1 - average[i]) * size
        if doubt > best:
            best, chosen = doubt, i
    return chosen


@jit
def _visit(field, bias, weight, shift, held, score, max_iter, rough, tol, best_state):
    """Bound a node of the search, in which some units are fixed, and choose the next unit to fix.

    Parameters
    ----------
    field, bias, weight, shift : (V,), (H,), (H, V), (H, V); the shifts of free units change
    held : (V,) int8
        Values of fixed units, -1 if free.
    score, max_iter, rough, tol, best_state
        See `_descend`.

    Returns
    -------
    bound, score, n_iter, settled, unit, value
        `value` is the value of `unit` that more parts prefer.
    """
    free = np.flatnonzero(held < 0)
    n_free = len(free)
    offset = 0.0
    own_field, own_bias, average = np.empty(n_free), bias.copy(), np.empty(n_free)
    part, own_shift = np.empty((len(bias), n_free)), np.empty((len(bias), n_free))
    for i in range(len(field)):
        if held[i] == 1:
            offset += field[i]
            for j in range(len(bias)):
                own_bias[j] += weight[j, i]
    for a in range(n_free):
        own_field[a] = field[free[a]]
        for j in range(len(bias)):
            part[j, a] = weight[j, free[a]]
            own_shift[j, a] = shift[j, free[a]]
    state = np.zeros(n_free, np.int8)
    bound, found, n_iter, settled = _descend(
        own_field, own_bias, part, own_shift, score - offset, max_iter, rough, tol, average, state
    )
    for a in range(n_free):
        for j in range(len(bias)):
            shift[j, free[a]] = own_shift[j, a]
    if found > score - offset:
        score = found + offset
        for i in range(len(field)):
            best_state[i] = held[i]
        for a in range(n_free):
            best_state[free[a]] = state[a]
    unit, value = np.int64(0), False
    if n_free:
        chosen = _next_unit(part, average)
        unit, value = free[chosen], average[chosen] > 0.5
    return bound + offset, score, n_iter, settled, unit, value


@jit
def _search(field, bias, weight, max_iter, tol, node_limit, best_state):
    """Run depth-first branch and bound on one model without clamped units.

    All nodes share the array of shifts. This is valid because the shifts of each free unit sum to
    the field of the unit at every node.

    Parameters
    ----------
    field, bias, weight : (V,), (H,), (H, V)
    max_iter, tol, node_limit
        See `rbm_dual`.
    best_state : (V,) int8 output

    Returns
    -------
    bound, n_iter, converged
    """
    n_hidden, n_visible = weight.shape
    shift, held = np.empty((n_hidden, n_visible)), np.full(n_visible, -1, np.int8)
    for j in range(n_hidden):
        for i in range(n_visible):
            shift[j, i] = field[i] / n_hidden
    share, given = _rounding(field, bias, weight)
    # For each depth of the path to the current node: the unit fixed there (`path`), True if the
    # unit has its second value (`second`), and the bound of the parent node.
    path, second = np.empty(n_visible, np.int64), np.zeros(n_visible, np.bool_)
    above = np.empty(n_visible)
    bound, score, enough, n_iter, settled = np.inf, -np.inf, 0.0, np.int64(0), False
    unit, value, steps = np.int64(0), False, np.int64(max_iter)
    rough = 0.0 if node_limit == 1 else _ROUGH
    done, depth = -np.inf, np.int64(0)  # `done` is the highest bound of the finished nodes
    for node in range(node_limit):
        if node > 0 and bound - score > enough and depth < n_visible:
            path[depth], second[depth], above[depth] = unit, False, bound
            held[unit] = value
            depth += 1
        elif node > 0:
            done = max(done, bound)
            while depth > 0 and second[depth - 1]:
                depth -= 1
                held[path[depth]] = -1
            if depth == 0:
                break
            second[depth - 1] = True
            held[path[depth - 1]] = 1 - held[path[depth - 1]]
        bound, score, taken, settled, unit, value = _visit(
            field, bias, weight, shift, held, score, steps, rough, tol, best_state
        )
        n_iter += taken
        if node == 0:
            steps, rough = np.int64(_NODE_STEPS), 0.0
            enough = tol + 4 * share * (given + _size(shift))
        else:
            bound = min(bound, above[depth - 1])
    bound = max(bound, done)
    for d in range(depth):
        if not second[d]:
            bound = max(bound, above[d])
    proven = bound - score <= enough
    return bound + share * given, n_iter, proven or (node_limit == 1 and settled)


@jit
def rbm_dual(
    field, bias, free, coupling, max_iter, tol, node_limit, state, bound, n_iter, converged
):
    """Bound the best -F(v) of each of N models, and find a good visible state.

    A model has V visible and H hidden units.

    Parameters
    ----------
    field, bias : (N, V), (N, H); clamped units are left out
    free : (N, V + H) bool, False for clamped units
    coupling : (H, V), couplings
    max_iter : int, largest number of steps at the root, before the search
    tol : float, a node is finished once its bound exceeds the best score by at most `tol`
    node_limit : int, largest number of nodes including the root; 1 for no branch and bound
    state : (N, V) int8 output, best state found; 0 if clamped
    bound : (N,) output, upper bound of -F(v) that includes rounding errors
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
            bound[n], n_iter[n], converged[n] = _search(
                own_field, own_bias, part, max_iter, tol, node_limit, best
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
