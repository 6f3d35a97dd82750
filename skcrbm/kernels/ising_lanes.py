"""Sum-product messages of `ising_messages`, for many pairwise Boltzmann machines side by side.

Models are SIMD lanes: the innermost loops run over the models, which lie side by side on the last
axis of all arrays. The labels of each model are visited in the same order, and messages are the
same odds, as in `ising_messages`, so that the results are equal up to rounding. A visit computes
the odds of a belief as a product, without logarithms and exponentials. So the sum of the absolute
log-messages to a label and of its field must be limited, see `ODDS_ROOM`.

Messages are stored by pairs of labels that are coupled. The entries start[i] to start[i + 1] - 1
are the messages to label i. Entry d has the sender ``variables[d]`` and the coupling s_d, and
``reverse[d]`` is the entry of the message from label i to this sender. If a model has converged,
the next model takes its lane.
"""

import math
from typing import NamedTuple

import numpy as np

from skcrbm.kernels.ising_messages import fitting_odds
from skcrbm.kernels.jit import jit
from skcrbm.kernels.scalar import EPS_32, EPS_64, ROUNDING, sigmoid_pair

#: Largest absolute log-odds of a belief, by the size of a number in bytes. A visit multiplies the
#: weights of a belief by a message, so that the product of two such odds must be in range.
ODDS_ROOM = {4: 40.0, 8: 300.0}


class PairLists(NamedTuple):
    """Coupled pairs of L labels in both directions; see the top of this file."""

    start: np.ndarray  # (L + 1,) int64
    variables: np.ndarray  # (D,) int64
    reverse: np.ndarray  # (D,) int64
    gain: np.ndarray  # (D,) exp(2 s)


class _Block(NamedTuple):
    """The models that have a lane. Held labels have odds and messages of 1."""

    own: np.ndarray  # (L, lanes) odds of the fields
    free: np.ndarray  # (L, lanes) bool, False for held labels
    odds: np.ndarray  # (L, lanes) odds of the beliefs at the last visit
    last: np.ndarray  # (L, lanes) probabilities at the last visit
    message: np.ndarray  # (D, lanes) messages as odds
    change: np.ndarray  # (lanes,) largest change of a probability in this iteration
    # (lanes,) above 0 if the odds of a belief changed by more than a factor in this iteration
    moved: np.ndarray
    model: np.ndarray  # (lanes,) int64, index of the model
    age: np.ndarray  # (lanes,) int64, number of iterations of the model


@jit
def _visit(lists, block, i, damped, masked, factor, on, off, sent, n_lanes):
    """Form the belief of label i in all lanes, and send its messages.

    `factor` is the largest ratio of odds that counts as no change. `on`, `off` and `sent` (lanes,)
    are scratch arrays. If `damped`, the geometric mean of the old and the new message is stored. If
    not `masked`, all labels are free.
    """
    start, _, reverse, gain = lists
    own, free, odds, last, message = block.own, block.free, block.odds, block.last, block.message
    change, moved = block.change, block.moved
    one = gain.dtype.type(1)
    for l in range(n_lanes):
        on[l] = own[i, l]
    for d in range(np.uintp(start[i]), np.uintp(start[i + np.uintp(1)])):
        for l in range(n_lanes):
            on[l] *= message[d, l]
    if masked:
        for l in range(n_lanes):
            on[l] = on[l] if free[i, l] else one
    for l in range(n_lanes):
        x, y = on[l], odds[i, l]
        moved[l] = max(moved[l], max(x - factor * y, y - factor * x))
        odds[i, l] = x
        off[l] = one / (one + x)
        on[l] = x * off[l]
        change[l] = max(change[l], abs(on[l] - last[i, l]))
        last[i, l] = on[l]
    for d in range(np.uintp(start[i]), np.uintp(start[i + np.uintp(1)])):
        e, r = gain[d], np.uintp(reverse[d])
        for l in range(n_lanes):
            back = off[l] * message[d, l]
            sent[l] = (e * on[l] + back) / (on[l] + e * back)
        if damped:
            for l in range(n_lanes):
                sent[l] = math.sqrt(sent[l] * message[r, l])
        if masked:
            for l in range(n_lanes):
                sent[l] = sent[l] if free[i, l] else one
        for l in range(n_lanes):
            message[r, l] = sent[l]


@jit
def _belief(lists, block, i, l):
    """Return the odds of label i in lane l, given its messages."""
    start, message = lists.start, block.message
    odds = block.own[i, l]
    for d in range(start[i], start[i + 1]):
        odds *= message[d, l]
    return odds


@jit
def _settled(lists, block, l, damping, options, rounding):
    """Return True if no label of lane l would send messages that differ from its last messages.

    Equal beliefs do not prove convergence, see `pass_ising`.
    """
    start, variables, reverse, gain = lists
    message, free, slack = block.message, block.free, options.slack
    one = gain.dtype.type(1)
    for i in range(start.shape[0] - 1):
        if not free[i, l]:
            continue
        odds = _belief(lists, block, i, l)
        x = math.log(odds)
        before = math.log(block.odds[i, l])
        off = one / (one + odds)
        on = odds * off
        if abs(x - before) > slack + rounding * abs(x):
            return False
        if block.age[l] == 1 and abs(on - block.last[i, l]) >= options.tol:
            return False
        room = (slack + rounding * (1 + abs(x))) / (1 - damping)
        for d in range(start[i], start[i + 1]):
            if not free[variables[d], l]:
                continue
            back = off * message[d, l]
            new = (gain[d] * on + back) / (on + gain[d] * back)
            old = message[reverse[d], l]
            if new > (1 + room) * old or old > (1 + room) * new:
                return False
    return True


@jit
def _load(lists, block, l, m, field, free, theta, warm, start):
    """Give lane l to model m: set its odds, and its messages as `ising_messages._start` does."""
    first, variables, _, gain = lists
    one = gain.dtype.type(1)
    block.model[l], block.age[l] = m, 0
    for i in range(field.shape[1]):
        here = free[m, i]
        block.free[i, l] = here
        block.own[i, l] = math.exp(field[m, i]) if here else one
        block.last[i, l] = sigmoid_pair(theta[m, i], one)[0] if here else one / (one + one)
        limit = theta.dtype.type(40.0 if gain.itemsize == 4 else 300.0)
        block.odds[i, l] = math.exp(min(max(theta[m, i], -limit), limit)) if here else one
        on, off = sigmoid_pair(theta[m, i], one)
        for d in range(first[i], first[i + 1]):
            k = variables[d]
            value = one
            if warm and here and free[m, k]:
                if start.shape[0]:
                    high = max(gain[d], one / gain[d])
                    value = min(max(start[m, i, k], one / high), high)
                else:
                    t, u = sigmoid_pair(theta[m, k], one)
                    value = fitting_odds(gain[d], t, u, on, off)
            block.message[d, l] = value


@jit
def _unload(lists, block, l, theta, kept):
    """Write the beliefs of lane l as log-odds to `theta`, and the messages to `kept`."""
    start, variables, _, _ = lists
    m = block.model[l]
    for i in range(theta.shape[1]):
        theta[m, i] = math.log(_belief(lists, block, i, l)) if block.free[i, l] else 0
        if kept.shape[0]:
            for d in range(start[i], start[i + 1]):
                kept[m, i, variables[d]] = block.message[d, l]


@jit
def _move(block, source, target):
    """Move the model of lane `source` to lane `target`."""
    for row in range(block.own.shape[0]):
        block.own[row, target] = block.own[row, source]
        block.free[row, target] = block.free[row, source]
        block.odds[row, target] = block.odds[row, source]
        block.last[row, target] = block.last[row, source]
    for row in range(block.message.shape[0]):
        block.message[row, target] = block.message[row, source]
    block.change[target], block.moved[target] = block.change[source], block.moved[source]
    block.model[target], block.age[target] = block.model[source], block.age[source]


@jit
def pass_ising_lanes(lists, damping, width, field, free, warm, start, options, answers, kept):
    """Pass messages for N models until each model has converged.

    Parameters
    ----------
    lists : PairLists
    damping : float, share of the old log-message in the new log-message, 0 or 1/2
    width : int, number of lanes
    field : (N, L) fields as log-odds, 2 f
    free, warm, start, kept : see `pass_ising`; messages are odds
    options, answers : IsingOptions, IsingAnswers
    """
    theta, n_iter, converged, trace = answers
    dtype, itemsize = lists.gain.dtype, lists.gain.itemsize
    n_models, n = field.shape
    n_lanes = min(width, n_models)
    rounding = ROUNDING * (EPS_32 if itemsize == 4 else EPS_64)
    factor = dtype.type(math.exp(min(options.slack, 10.0)))
    block = _Block(
        np.empty((n, n_lanes), dtype),
        np.empty((n, n_lanes), np.bool_),
        np.empty((n, n_lanes), dtype),
        np.empty((n, n_lanes), dtype),
        np.empty((lists.gain.shape[0], n_lanes), dtype),
        np.empty(n_lanes, dtype),
        np.empty(n_lanes, dtype),
        np.empty(n_lanes, np.int64),
        np.empty(n_lanes, np.int64),
    )
    on, off, sent = np.empty(n_lanes, dtype), np.empty(n_lanes, dtype), np.empty(n_lanes, dtype)
    masked = not free.all()
    for l in range(n_lanes):
        _load(lists, block, l, l, field, free, theta, warm, start)
    n_loaded = n_lanes
    while n_lanes > 0:
        for l in range(n_lanes):
            block.change[l], block.moved[l] = 0, -1
        for i in range(np.uintp(n)):
            _visit(lists, block, i, damping > 0, masked, factor, on, off, sent, np.uintp(n_lanes))
        l = 0
        while l < n_lanes:
            m = block.model[l]
            block.age[l] += 1
            if trace.shape[1]:
                trace[m, block.age[l] - 1] = block.change[l]
            converged[m] = (
                block.change[l] < options.tol
                and block.moved[l] <= 0
                and _settled(lists, block, l, damping, options, rounding)
            )
            if converged[m] or block.age[l] == options.max_iter:
                n_iter[m] = block.age[l]
                _unload(lists, block, l, theta, kept)
                if n_loaded < n_models:
                    _load(lists, block, l, n_loaded, field, free, theta, warm, start)
                    n_loaded += 1
                else:
                    n_lanes -= 1
                    if l < n_lanes:
                        _move(block, n_lanes, l)
                        continue  # with the model that was moved to this lane
            l += 1
