"""Gibbs with gradients on Ising models: a flip multiplies the proposal weights of its neighbours.

The proposal weight of a variable is ``exp(D / 2)``, where D is the change of the score if the
variable flips. After a flip, the weight of a neighbour with the coupling J is multiplied by
``exp(2 J)`` if both variables had the same sign, else by ``exp(-2 J)``. The weight of the flipped
variable is replaced by its reciprocal.

With a tree of sums, drawing a variable takes time proportional to the logarithm of the number of
variables. Level 0 of the tree holds the weights. `NODE` neighbouring entries of a level form a
node, and the sum of a node is an entry of the next level. The highest level has at most `NODE`
entries. All levels are in one array, padded with zeros to whole nodes.

A block is a group of chains that are processed together. The chains of a block make their steps
together, so that the processor overlaps the steps of several chains. `ising_gradients` is for
models with couplings or fields of several hundred, for which the weights of the other kernels would
exceed the range of floats.
"""

from typing import NamedTuple

import numpy as np

from skcrbm.kernels.exponentials import exp_in_place
from skcrbm.kernels.jit import jit
from skcrbm.kernels.scalar import GOLDEN, unit_interval

# Number of entries of a node of the tree.
NODE = 16
_NODE = np.uintp(NODE)
# Largest number of chains in a block: with lists of neighbours, and with a matrix of couplings.
_CHAINS, _CHAINS_BY_ROWS = 8, 4
# The sums of the tree are updated by adding differences. The rounding errors of these updates are
# proportional to the largest total weight since the sums were computed. If the total weight falls
# below _LOST times this largest total weight, the errors may be too large, and the sums are
# computed again from the weights.
_LOST = 1e-4
# `ising_gradients` stores exp(log-weight - reference). It chooses a new reference if a log-weight
# exceeds the reference by more than _HIGH, or if the sum of the weights falls below _LOW.
_HIGH, _LOW = 30.0, 1e-8


class Tree(NamedTuple):
    """Positions of the levels of a tree of sums; all levels are stored in a single array."""

    first: np.ndarray  # (n_levels,) int64, index of the first entry of each level
    size: np.ndarray  # (n_levels,) int64, number of entries of each level


class Moves(NamedTuple):
    """Flips that the chains of a block propose."""

    row: np.ndarray  # (n_chains,) uintp, row of `sums` with the tree of each chain
    chosen: np.ndarray  # (n_chains,) uintp, variable that each chain may flip
    rest: np.ndarray  # (n_chains,) cumulative sum of weights that determines the variable
    new: np.ndarray  # (n_chains, n_most) weights of the variable's neighbours after the flip
    other: np.ndarray  # (n_chains,) sum of all weights after the flip, inf if there is no flip


@jit(inline=True, allocates=False)
def _among_four(sums, at, threshold):
    """Find the first of four entries at which the cumulative sum reaches `threshold`.

    Return the position k from 0 to 3, and `threshold` minus the sum of the entries before k. If the
    first three entries do not reach the threshold, k is 3; the fourth entry is not read.
    """
    first = sums[at]
    second = first + sums[at + np.uintp(1)]
    third = second + sums[at + np.uintp(2)]
    k = np.uintp(first < threshold) + np.uintp(second < threshold) + np.uintp(third < threshold)
    before = first if first < threshold else 0.0
    before = second if second < threshold else before
    before = third if third < threshold else before
    return k, threshold - before


@jit(inline=True, allocates=False)
def _sum_of_four(sums, at):
    return (sums[at] + sums[at + np.uintp(1)]) + (sums[at + np.uintp(2)] + sums[at + np.uintp(3)])


@jit(allocates=False)
def _last_positive(sums, base):
    """Return the position of the last positive entry of a node, or 0."""
    for j in range(15, 0, -1):
        if sums[base + np.uintp(j)] > 0:
            return np.uintp(j)
    return np.uintp(0)


@jit(inline=True, allocates=False)
def _among_node(sums, base, threshold):
    """Find the first entry of a node at which the cumulative sum reaches `threshold`.

    Return the position from 0 to 15, and `threshold` minus the sum of the entries before this
    position. If rounding made the sum of all entries smaller than the threshold, return the
    position of the last positive entry.
    """
    first = _sum_of_four(sums, base)
    second = first + _sum_of_four(sums, base + np.uintp(4))
    third = second + _sum_of_four(sums, base + np.uintp(8))
    q = np.uintp(first < threshold) + np.uintp(second < threshold) + np.uintp(third < threshold)
    before = first if first < threshold else 0.0
    before = second if second < threshold else before
    before = third if third < threshold else before
    at = base + np.uintp(4) * q
    k, rest = _among_four(sums, at, threshold - before)
    if q + k == 6 and rest > sums[at + k]:
        return _last_positive(sums, base), np.inf
    return np.uintp(4) * q + k, rest


@jit(inline=True, allocates=False)
def _pick(sums, tree, n_chains, moves):
    """Choose a variable in each of the first `n_chains` chains of a block.

    The chosen variable is the first variable at which the cumulative sum of weights reaches
    ``moves.rest[l]``, which is overwritten. All chains go down a level of their trees before any
    chain goes down the next level, so that the processor overlaps their work.
    """
    row, chosen, rest = moves.row, moves.chosen, moves.rest
    level = len(tree.first) - 1
    few = level > 0 and tree.size[level] <= 4
    for l in range(np.uintp(n_chains)):
        chosen[l] = 0
        if few:
            k, rest[l] = _among_four(sums[row[l]], np.uintp(tree.first[level]), rest[l])
            chosen[l] = min(k, np.uintp(tree.size[level] - 1))
    level -= few
    while level >= 0:
        for l in range(np.uintp(n_chains)):
            base = np.uintp(tree.first[level]) + _NODE * chosen[l]
            child, rest[l] = _among_node(sums[row[l]], base, rest[l])
            chosen[l] = _NODE * chosen[l] + child
        level -= 1


@jit(fastmath={"contract", "reassoc"}, allocates=False)
def _node_sum(sums, base):
    total = 0.0
    for j in range(_NODE):
        total += sums[base + j]
    return total


@jit(allocates=False)
def _sum_up(sums, tree):
    """Compute the sums of all nodes from the weights; return the sum of all weights."""
    for level in range(1, len(tree.first)):
        below, first = np.uintp(tree.first[level - 1]), np.uintp(tree.first[level])
        for b in range(np.uintp(tree.size[level])):
            sums[first + b] = _node_sum(sums, below + _NODE * b)
    return _node_sum(sums, np.uintp(tree.first[len(tree.first) - 1]))


@jit(inline=True, allocates=False)
def _replace(sums, tree, k, value):
    """Set the weight of variable k, and add the difference to the nodes above."""
    change = value - sums[k]
    sums[k] = value
    node = k
    for level in range(1, len(tree.first)):
        node = node >> np.uintp(4)
        sums[np.uintp(tree.first[level]) + node] += change


@jit(allocates=False)
def _weights(half, signs, held, sums):
    """Write the proposal weights to `sums`: exp(-signs * half), or 0 for clamped variables.

    `half` (L,) holds half of the log-odds of each variable, and `signs` (L,) the present values.
    """
    n = np.uintp(len(signs))
    for i in range(n):
        sums[i] = -signs[i] * half[i]
    exp_in_place(sums, n)
    for i in range(len(held)):
        if held[i] != 0:
            sums[i] = 0.0


@jit(allocates=False)
def _signs_of(state, signs):
    for i in range(np.uintp(len(state))):
        signs[i] = 1.0 if state[i] else -1.0


@jit(allocates=False)
def _answer(half, signs, held, state, log_odds):
    """Write the states and log-odds (twice `half`); log-odds of clamped variables are infinite."""
    for i in range(np.uintp(len(signs))):
        state[i] = signs[i] > 0
        log_odds[i] = 2.0 * half[i]
    for i in range(len(held)):
        if held[i] != 0:
            log_odds[i] = np.inf if held[i] > 0 else -np.inf


@jit(allocates=False)
def _uniform(seed, k):
    """Return the k-th uniform random number of a chain, counted from 1."""
    return unit_interval(seed + GOLDEN * np.uint64(k))


# ------------------------------------------------------- couplings as lists of neighbours


@jit(allocates=False)
def _half_by_lists(start, neighbours, coupling, field, signs, half):
    """Write half of the log-odds of each variable, given all other variables, to `half`."""
    for i in range(np.uintp(len(signs))):
        total = field[i]
        for e in range(np.uintp(start[i]), np.uintp(start[i + np.uintp(1)])):
            total += coupling[e] * signs[np.uintp(neighbours[e])]
        half[i] = total


@jit(inline=True, allocates=False)
def _propose(start, neighbours, ratio, i, signs, sums, new):
    """Compute the weights that the neighbours of variable i would have after a flip of i.

    The weights are written to `new`. Return by how much the flip would change the sum of all
    weights. The flip itself is not made.
    """
    change = 1.0 / sums[i] - sums[i]
    first = np.uintp(start[i])
    for e in range(first, np.uintp(start[i + np.uintp(1)])):
        k = np.uintp(neighbours[e])
        new[e - first] = sums[k] * ratio[e, np.uintp(signs[k] == signs[i])]
        change += new[e - first] - sums[k]
    return change


@jit(inline=True, allocates=False)
def _flip(start, neighbours, tree, i, signs, sums, new):
    """Flip variable i, and give its neighbours the proposal weights `new`."""
    signs[i] = -signs[i]
    _replace(sums, tree, i, 1.0 / sums[i])
    first = np.uintp(start[i])
    for e in range(first, np.uintp(start[i + np.uintp(1)])):
        _replace(sums, tree, np.uintp(neighbours[e]), new[e - first])


@jit(allocates=False)
def _step_with_new_sums(start, neighbours, ratio, tree, v, i, signs, sums, new, total):
    """Make a step, and compute all sums again from the weights. Return the new total.

    The step flips variable i. If the random number `v` rejects the step, the variable is flipped
    back.
    """
    own = sums[i]
    _propose(start, neighbours, ratio, i, signs, sums, new)
    _flip(start, neighbours, tree, i, signs, sums, new)
    other = _sum_up(sums, tree)
    if v * other < total:
        return other
    _propose(start, neighbours, ratio, i, signs, sums, new)
    _flip(start, neighbours, tree, i, signs, sums, new)
    sums[i] = own
    return _sum_up(sums, tree)


@jit(allocates=False)
def _steps_by_lists(
    start, neighbours, ratio, tree, n_chains, seed, signs, sums, moves, total, most
):
    """Make one step per variable in each of the first `n_chains` chains of a block.

    All chains choose a variable, then all chains compute the new weights, and then all chains
    decide. A wrong guess of the processor about a decision then discards little work of the other
    chains. `total` holds the present sum of the weights of each chain. `most` holds the largest
    such sum since the sums of the tree were last computed from the weights; see `_LOST`.
    """
    chosen, new, other = moves.chosen, moves.new, moves.other
    for t in range(np.uintp(signs.shape[1])):
        for l in range(n_chains):
            u = _uniform(seed[l], np.uintp(2) * t + np.uintp(1))
            moves.rest[l] = u * total[l]
        _pick(sums, tree, n_chains, moves)
        for l in range(n_chains):
            i, own, weight = chosen[l], signs[l], sums[l]
            if weight[i] > 0:
                other[l] = total[l] + _propose(start, neighbours, ratio, i, own, weight, new[l])
            else:  # a clamped variable, because all variables are clamped or because of rounding
                other[l] = np.inf
        for l in range(n_chains):
            i, own, weight = chosen[l], signs[l], sums[l]
            v = _uniform(seed[l], np.uintp(2) * t + np.uintp(2))
            # Acceptance ratio q(x | x') p(x') / (q(x' | x) p(x)): the ratio of the weight sums.
            if other[l] < _LOST * most[l]:
                total[l] = most[l] = _step_with_new_sums(
                    start, neighbours, ratio, tree, v, i, own, weight, new[l], total[l]
                )
            elif v * other[l] < total[l]:
                _flip(start, neighbours, tree, i, own, weight, new[l])
                total[l] = other[l]
                most[l] = max(most[l], other[l])


@jit
def gradient_sweeps_by_lists(
    start, neighbours, coupling, tree, field, n_chains, held, seeds, state, log_odds
):
    """Make T sweeps of R chains of Ising models whose variables have few neighbours.

    A sweep has as many steps as there are variables. A step uses the next two random numbers of the
    chain: to choose a variable, and to accept or reject its flip.

    Parameters
    ----------
    start, neighbours, coupling : (L + 1,) int64, (2 E,) int64, (2 E,) float64
        The neighbours of variable i are at ``start[i]`` to ``start[i + 1] - 1``.
    tree : Tree
    field : (N, L) float64, fields of L variables in each of N models
    n_chains : int, number of chains of each model, so that R = N n_chains; the chains of a model
        lie one after the other
    held : (N, L) int8, -1 or 1 if a variable is clamped, else 0; (0, L) if no variable is clamped
    seeds : (T, n_chains) or (T, R) uint64, seeds that all models share, or a seed for each chain
    state : (R, L) bool, changed
    log_odds : (R, L) float64 output, log-odds of each variable given all other variables
    """
    n, n_places = state.shape[1], tree.first[len(tree.first) - 1] + 16
    signs, sums = np.empty((_CHAINS, n)), np.zeros((_CHAINS, n_places))
    total, most, half = np.empty(_CHAINS), np.empty(_CHAINS), np.empty(n)
    seed, none_held = np.empty(_CHAINS, np.uint64), np.zeros(0, np.int8)
    n_most = 0
    for i in range(n):
        n_most = max(n_most, start[i + 1] - start[i])
    moves = Moves(
        np.empty(_CHAINS, np.uintp), np.empty(_CHAINS, np.uintp), np.empty(_CHAINS),
        np.empty((_CHAINS, n_most)), np.empty(_CHAINS),
    )  # fmt: skip
    # factors by which a flip multiplies a weight, for unequal and for equal signs
    ratio = np.empty((len(coupling), 2))
    for e in range(len(coupling)):
        ratio[e, 0], ratio[e, 1] = -2.0 * coupling[e], 2.0 * coupling[e]
    exp_in_place(ratio.reshape(-1), 2 * len(coupling))
    for first in range(0, len(state), _CHAINS):
        n_lanes = min(_CHAINS, len(state) - first)
        for l in range(n_lanes):
            _signs_of(state[first + l], signs[l])
            moves.row[l] = l
        for t in range(len(seeds)):
            for l in range(n_lanes):
                model = (first + l) // n_chains
                own_held = held[model] if len(held) else none_held
                _half_by_lists(start, neighbours, coupling, field[model], signs[l], half)
                _weights(half, signs[l], own_held, sums[l])
                total[l] = most[l] = _sum_up(sums[l], tree)
                seed[l] = seeds[t, (first + l) % seeds.shape[1]]
            _steps_by_lists(
                start, neighbours, ratio, tree, n_lanes, seed, signs, sums, moves, total, most
            )
        for l in range(n_lanes):
            model = (first + l) // n_chains
            own_held = held[model] if len(held) else none_held
            _half_by_lists(start, neighbours, coupling, field[model], signs[l], half)
            _answer(half, signs[l], own_held, state[first + l], log_odds[first + l])


# ------------------------------------------------------------------- couplings as a matrix


@jit(fastmath={"contract", "reassoc"}, allocates=False)
def _pull(coupling, i, signs):
    """Return the sum over k of coupling[i, k] * signs[k], the pull of all variables on i."""
    total = 0.0
    for k in range(np.uintp(len(signs))):
        total += coupling[i, k] * signs[k]
    return total


@jit(allocates=False)
def _half_by_rows(coupling, field, signs, half):
    """Write half of the log-odds of each variable, given all other variables, to `half`."""
    for i in range(np.uintp(len(signs))):
        half[i] = field[i] + _pull(coupling, i, signs)


@jit(allocates=False)
def _propose_row(ratio, i, own, signs, sums, new):
    """Write the weights after a flip of variable i, whose sign is `own`, to `new`.

    The weight of variable k is multiplied by ratio[i, k] if k has the sign `own`, and divided by it
    otherwise. A division takes less time than reading a second matrix with the inverse ratios.
    """
    for k in range(np.uintp(len(signs))):
        new[k] = sums[k] * ratio[i, k] if signs[k] == own else sums[k] / ratio[i, k]
    new[i] = 1.0 / sums[i]


@jit(allocates=False)
def _steps_by_rows(ratio, tree, n_chains, seed, signs, sums, moves, total):
    """Make one step per variable in each of the first `n_chains` chains of a block.

    `sums` contains two trees of each chain l, in the rows 2 l and 2 l + 1: the tree of the present
    state, in the row ``moves.row[l]``, and the tree of the proposed state. If a proposal is
    accepted, ``moves.row[l]`` changes to the other row.
    """
    row = moves.row
    for t in range(np.uintp(signs.shape[1])):
        for l in range(n_chains):
            u = _uniform(seed[l], np.uintp(2) * t + np.uintp(1))
            moves.rest[l] = u * total[l]
        _pick(sums, tree, n_chains, moves)
        for l in range(n_chains):
            i, own = moves.chosen[l], signs[l]
            weight, new = sums[row[l]], sums[row[l] ^ np.uintp(1)]
            if weight[i] == 0:
                continue  # a clamped variable, because of rounding or because all are clamped
            _propose_row(ratio, i, own[i], own, weight, new)
            other = _sum_up(new, tree)
            if _uniform(seed[l], np.uintp(2) * t + np.uintp(2)) * other < total[l]:
                total[l] = other
                row[l] = row[l] ^ np.uintp(1)
                own[i] = -own[i]


@jit
def gradient_sweeps_by_rows(coupling, tree, field, n_chains, held, seeds, state, log_odds):
    """Make T sweeps of R chains of Ising models whose couplings are stored as a matrix.

    Parameters
    ----------
    coupling : (L, L) float64, symmetric
    tree, field, n_chains, held, seeds, state, log_odds : see `gradient_sweeps_by_lists`
    """
    n, n_places = state.shape[1], tree.first[len(tree.first) - 1] + 16
    signs, sums = np.empty((_CHAINS_BY_ROWS, n)), np.zeros((2 * _CHAINS_BY_ROWS, n_places))
    total, half = np.empty(_CHAINS_BY_ROWS), np.empty(n)
    seed, none_held = np.empty(_CHAINS_BY_ROWS, np.uint64), np.zeros(0, np.int8)
    moves = Moves(
        np.empty(_CHAINS_BY_ROWS, np.uintp), np.empty(_CHAINS_BY_ROWS, np.uintp),
        np.empty(_CHAINS_BY_ROWS), np.empty((0, 0)), np.empty(0),
    )  # fmt: skip
    ratio = 2.0 * coupling
    exp_in_place(ratio.reshape(-1), n * n)
    for first in range(0, len(state), _CHAINS_BY_ROWS):
        n_lanes = min(_CHAINS_BY_ROWS, len(state) - first)
        for l in range(n_lanes):
            _signs_of(state[first + l], signs[l])
        for t in range(len(seeds)):
            for l in range(n_lanes):
                model = (first + l) // n_chains
                own_held = held[model] if len(held) else none_held
                _half_by_rows(coupling, field[model], signs[l], half)
                _weights(half, signs[l], own_held, sums[2 * l])
                total[l], moves.row[l] = _sum_up(sums[2 * l], tree), 2 * l
                seed[l] = seeds[t, (first + l) % seeds.shape[1]]
            _steps_by_rows(ratio, tree, n_lanes, seed, signs, sums, moves, total)
        for l in range(n_lanes):
            model = (first + l) // n_chains
            own_held = held[model] if len(held) else none_held
            _half_by_rows(coupling, field[model], signs[l], half)
            _answer(half, signs[l], own_held, state[first + l], log_odds[first + l])


# --------------------------------------------------------- weights beyond the range of floats


@jit
def _logit(on, log_odds, limit):
    """Return half of the change of the score by a flip; log-odds are clipped to ±limit."""
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
    """Set `weight` to exp(logit - top) for free variables, and to 0 for clamped variables."""
    for i in range(len(logit)):
        weight[i] = np.exp(logit[i] - top) if free[i] else 0.0


@jit
def _pick_from_all(weight, threshold):
    """Return the first variable at which the cumulative sum of weights reaches the threshold."""
    mass = 0.0
    for i in range(len(weight)):
        mass += weight[i]
        if mass >= threshold:
            return i
    return len(weight) - 1


@jit
def _flip_log_odds(start, neighbours, coupling, i, limit, state, log_odds, logit):
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
    """Propose T flips in each of R chains. Log-odds may be so large that weights would overflow.

    The T flips of a chain are proposed one after the other.

    Parameters
    ----------
    start : (L + 1,) int64, first neighbour of each of L variables
    neighbours, coupling : (2 E,)
        The neighbours of variable i are at ``start[i]`` to ``start[i + 1] - 1``.
    free : (R, L) bool, False for clamped variables
    u : (R, 2 T) uniform random numbers, two per proposal: to choose the variable, and to accept
    limit : float, log-odds are clipped to ±limit when proposal weights are computed
    state : (R, L) bool, changed
    log_odds : (R, L) float64, changed, log-odds of each variable given all other variables
    """
    width = state.shape[1]
    logit, weight = np.empty(width), np.empty(width)
    for r in range(len(state)):
        for i in range(width):
            logit[i] = _logit(state[r, i], log_odds[r, i], limit)
        top = _largest(logit, free[r])
        if top == -np.inf:
            continue  # all variables are clamped
        _weigh(logit, free[r], top, weight)
        total = _total(weight)
        for t in range(u.shape[1] // 2):
            i = _pick_from_all(weight, u[r, 2 * t] * total)
            if not free[r, i]:
                continue
            _flip_log_odds(start, neighbours, coupling, i, limit, state[r], log_odds[r], logit)
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
            _flip_log_odds(start, neighbours, coupling, i, limit, state[r], log_odds[r], logit)
            if other_top != top:
                _weigh(logit, free[r], top, weight)
                continue
            weight[i] = np.exp(logit[i] - top)
            for e in range(start[i], start[i + 1]):
                k = neighbours[e]
                if free[r, k]:
                    weight[k] = np.exp(logit[k] - top)
