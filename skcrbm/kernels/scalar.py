"""Scalar functions and small loops that several kernels share."""

import math

import numpy as np

from skcrbm.kernels.jit import jit

# Kinds of message passing.
SUM, MAX, MIXED = 0, 1, 2
# A term of a log-sum-exp is left out if it is this much smaller than the largest term. Even 2^30
# terms of exp(-60) do not change a sum of float64 that contains exp(0).
NEGLIGIBLE = 60.0
# The marginals of a position of a chain are valid if their sum differs from 1 by less than this
# error.
MARGINAL_ERROR = 1e-8
# Machine epsilon of both precisions.
EPS_32, EPS_64 = (float(np.finfo(dtype).eps) for dtype in (np.float32, np.float64))
# Largest relative difference, in units of the machine epsilon, between two computations of the same
# log-odds.
ROUNDING = 4.0


@jit
def fill(out, value):
    """Set all entries of `out` (K,) to a value; slice assignment would take a second to compile."""
    for j in range(out.shape[0]):
        out[j] = value


@jit
def copy_into(source, out):
    """Copy `source` (K,) into `out` (K,)."""
    for j in range(out.shape[0]):
        out[j] = source[j]


@jit(fastmath={"contract"})
def add_row(weights, i, field):
    """Add weights[i] to `field` (H,)."""
    for j in range(np.uintp(field.shape[0])):
        field[j] += weights[i, j]


@jit(fastmath={"contract", "reassoc"})
def dot(x, y):
    """Return the inner product of `x` (K,) and `y` (K,)."""
    total = x.dtype.type(0)
    for k in range(x.shape[0]):
        total += x[k] * y[k]
    return total


@jit
def move_probability(value, worst, best, rise, curvature):
    """Make a pairwise Frank-Wolfe step on the dual variables `value` (M,) of a training example.

    The step moves probability from entry `worst` to entry `best`. Without the bound of 0, the best
    amount is ``rise / curvature``, where `rise` is the difference of the gradients of the two
    entries. Return the moved amount.
    """
    moved = value[worst]
    if curvature > 0.0 and rise < moved * curvature:
        moved = rise / curvature
        value[worst] -= moved
    else:
        value[worst] = 0.0
    value[best] += moved
    return moved


@jit
def softplus(x):
    """Return log(1 + e^x)."""
    return max(x, x - x) + math.log1p(math.exp(-abs(x)))


@jit
def sigmoid_pair(x, one):
    """Return sigmoid(x), sigmoid(-x) to full relative precision; `one` is 1 in the dtype of x."""
    z = math.exp(-abs(x))
    large = one / (one + z)
    small = z * large
    if x >= 0:
        return large, small
    return small, large


@jit
def log_add(x, y):
    """Return log(exp(x) + exp(y))."""
    return max(x, y) + math.log1p(math.exp(-abs(x - y))) if x != -math.inf else y


# Tests of convergence. If a probability is close to 0 or 1, its log-odds may change while the
# probability stays the same up to rounding, and this change may later flip other units. So a model
# has converged only if neither probabilities nor log-odds change. If all messages are sent at once,
# the changes of two messages may cancel in a belief for one iteration. So the beliefs must stay the
# same in two successive iterations, and the messages must not change between these iterations.


@jit
def log_odds_moved(theta, last, slack, rounding):
    """Return True if log-odds theta changed by more than ``slack + rounding * |theta|``.

    `last` are the log-odds before the change.
    """
    return abs(theta - last) > slack + rounding * abs(theta)


@jit
def odds_moved(product, last, free, factor):
    """Return True if the odds of a free unit rose or fell by a factor of more than `factor`.

    `product` (K,) holds the new odds of K units, and `last` (K,) the odds before the iteration.
    """
    moved = False
    for k in range(product.shape[0]):
        moved |= free[k] & ((product[k] > factor * last[k]) | (last[k] > factor * product[k]))
    return moved


@jit
def message_from_beliefs(w, theta_i, theta_j):
    """Return the sum-product message i -> j at the fixed point that has the given beliefs.

    The beliefs are the log-odds theta_i and theta_j, and w is the coupling of i and j. The message
    is returned as log R, where R are its odds. Let E = e^w, T_j = e^theta_j, t_i = sigmoid(theta_i)
    and u_i = 1 - t_i. At a fixed point, R^2 + B R = E T_j, where
    B = T_j (t_i + E u_i) - (E t_i + u_i). All computations are in float64.
    """
    limit = 300.0
    w = min(max(float(w), -limit), limit)
    tj = math.exp(min(max(float(theta_j), -limit), limit))
    ti, ui = sigmoid_pair(float(theta_i), 1.0)
    e = math.exp(w)
    b = tj * (ti + e * ui) - (e * ti + ui)
    # `root` is the square root of E T_j; hypot computes sqrt(b^2 + 4 E T_j) without an overflow
    root = math.sqrt(e) * math.sqrt(tj)
    disc = math.hypot(b, 2.0 * root)
    r = 2.0 * root / (b + disc) * root if b > 0 else 0.5 * (disc - b)
    bound = abs(w)
    return min(max(math.log(r), -bound), bound)


@jit(fastmath={"contract"})
def odds_from_beliefs(odds, t, u, on, off, message):
    """Write the messages from a visible unit to H hidden units, as odds R, to `message` (H,).

    The messages belong to the sum-product fixed point with given beliefs: the visible unit is on
    with probability `on` and off with probability `off`, and hidden unit j is on with probability
    t[j] and off with probability u[j]. `odds` (H,) holds E = e^w for the couplings w. The message R
    solves u R^2 + b R = E t, where b = t (on + E off) - u (E on + off). The solution takes a square
    root and a division, without a branch, and is finite even if a probability is 0.
    """
    one = odds.dtype.type(1)
    two = one + one
    four = two + two
    for j in range(np.uintp(message.shape[0])):
        e = odds[j]
        b = t[j] * (on + e * off) - u[j] * (e * on + off)
        root = math.sqrt(b * b + four * (u[j] * (e * t[j])))
        num = two * (e * t[j]) if b > 0 else root - b
        den = b + root if b > 0 else two * u[j]
        r = num / den
        low = e if e < one else one
        high = one if e < one else e
        r = r if r > low else low
        message[j] = r if r < high else high


@jit
def max_message_from_beliefs(w, theta_i, theta_j):
    """Return the message visible i -> hidden j at a max-product fixed point with given beliefs.

    The beliefs are the log-odds theta_i and theta_j, and w is the coupling. Let b be the message
    i -> j, and a the message j -> i. They solve a = f(w, theta_j - b) and b = f(w, theta_i - a),
    where f(w, x) = relu(w + x) - relu(x). The message of the unit with the stronger belief is at a
    limit of f, 0 or w.
    """
    zero = w - w
    b = min(w, zero)
    a = zero
    if (theta_i if w > 0 else -theta_i) < theta_j:
        x = theta_j - b
        a = max(w + x, zero) - max(x, zero)
    x = theta_i - a
    b = max(w + x, zero) - max(x, zero)
    x = theta_j - b
    a = max(w + x, zero) - max(x, zero)
    x = theta_i - a
    return max(w + x, zero) - max(x, zero)


# The next functions are for chains.


@jit(fastmath={"contract"})
def times_row(weight, row, out):
    """Add ``weight * row`` to `out`; all arrays are (K,)."""
    for j in range(np.uintp(out.shape[0])):
        out[j] += weight * row[j]


@jit(fastmath={"contract", "reassoc"})
def dot_rows(row, other):
    """Return the inner product of two rows (K,)."""
    total = 0.0
    for j in range(np.uintp(row.shape[0])):
        total += row[j] * other[j]
    return total


@jit(inline=True)
def keep_larger(row, value, i, best, argument):
    """For each j with ``value + row[j] > best[j]``, set best[j] to the sum and argument[j] to i.

    The arrays `row`, `best` and `argument` have the shape (K,).
    """
    for j in range(np.uintp(best.shape[0])):
        x = value + row[j]
        larger = x > best[j]
        argument[j] = i if larger else argument[j]
        best[j] = x if larger else best[j]


# The next functions enumerate the 2^k states of the k units in one layer of a bipartite model. The
# bits of the state's number are the values of the units. A tile is a set of states that differ only
# in the first units, the low units. The other units are the high units, fixed in each tile.


@jit
def n_low_units(n_states):
    """Return the number l of low units in a tile of S = 2^l states."""
    n_low = 0
    while (1 << n_low) < n_states:
        n_low += 1
    return n_low


@jit
def shifted_fields(state, n_low, coupling, enumerated, summed, field):
    """Write the fields of the m units of the other layer to `field` (m,), given the high units.

    The bits of `state` are the values of the high units. Return the sum of the fields of the high
    units that are on.
    """
    n_high = enumerated.shape[0] - n_low
    offset = 0.0
    for i in range(summed.shape[0]):
        field[i] = summed[i]
    for h in range(n_high):
        if (state >> h) & 1:
            offset += enumerated[n_low + h]
            for i in range(summed.shape[0]):
                field[i] += coupling[n_low + h, i]
    return offset


@jit
def low_fields(offset, enumerated, out):
    """Write the score of each of the S states of the low units to `out` (S,).

    The score of a state is `offset` plus the sum of the fields of the low units that are on.
    """
    out[0] = offset
    bit, length = 0, 1
    while length < out.shape[0]:
        for s in range(length):
            out[length + s] = out[s] + enumerated[bit]
        bit += 1
        length *= 2


@jit
def add_log_of(value, r, high, total):
    """Add exp(value) to a running log-sum-exp, which is ``high[r] + log(total[r])``."""
    if value > high[r]:
        total[r] = total[r] * math.exp(high[r] - value) + 1.0
        high[r] = value
    elif value > high[r] - NEGLIGIBLE:
        total[r] += math.exp(value - high[r])


@jit
def entropy_term(p):
    """Return -p log p."""
    return -p * math.log(p) if p > 0 else 0.0


@jit
def binary_entropy(theta):
    """Return the entropy of a unit with log-odds theta, in float64."""
    x = abs(float(theta))
    z = math.exp(-x)
    return math.log1p(z) + x * z / (1.0 + z)


# The next functions make random numbers by hashing counters, see `random_uniform`.

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_S27, _S30, _S31, _S11 = np.uint64(27), np.uint64(30), np.uint64(31), np.uint64(11)


@jit
def mix(x):
    """Return a hash of the 64 bits of x, by the last step of SplitMix64."""
    x = (x ^ (x >> _S30)) * _FIRST
    x = (x ^ (x >> _S27)) * _SECOND
    return x ^ (x >> _S31)


@jit
def unit_interval(x):
    """Turn 64 random bits into a uniform number on (0, 1), which is never 0 or 1."""
    return (np.float64(mix(x) >> _S11) + 0.5) * 1.1102230246251565e-16


@jit
def next_uniform(seed):
    """Return the next uniform random number of a generator, whose state seed[0] is updated."""
    seed[0] += GOLDEN
    return unit_interval(seed[0])


@jit
def shuffle(order, count, state):
    """Shuffle the first `count` entries of `order` with xorshift64 numbers (Marsaglia 2003)."""
    x = state[0]
    for r in range(count - 1, 0, -1):
        x ^= x << np.uint64(13)
        x ^= x >> np.uint64(7)
        x ^= x << np.uint64(17)
        j = np.int64((x >> np.uint64(11)) * 1.1102230246251565e-16 * (r + 1))
        order[r], order[j] = order[j], order[r]
    state[0] = x


@jit
def root_of(parent, v):
    """Return the root of v in the union-find forest `parent`, and shorten the path to the root."""
    while parent[v] != v:
        parent[v] = parent[parent[v]]
        v = parent[v]
    return v
