"""Loop over many models at once, which lie side by side on the last axis of all arrays.

Such a model is a SIMD lane: a vector instruction processes several lanes at once. A block is the
group of models that share the arrays. In `draw_lanes`, a lane is one of several independent draws.
"""

import math
from typing import NamedTuple

import numpy as np

from skcrbm.kernels.exponentials import exp_in_place
from skcrbm.kernels.jit import jit

# Log-odds are clipped to ±CERTAIN. With log-odds of ±CERTAIN the result of a draw is certain,
# because random numbers are at least 2^-54.
CERTAIN = 80.0
# If the relative difference of two compared float32 is below this number, the comparison is
# repeated in float64, because rounding may have changed its result.
_CLOSE = 1e-4


class Lanes(NamedTuple):
    """A block of models with n variables and E edges, one model per lane.

    Kernels move converged models to the last lanes.
    """

    field: np.ndarray  # (n, lanes) fields as log-odds, from which scores are computed
    on: np.ndarray  # (n, lanes) weights of the value 1; 0 or 1 if clamped
    off: np.ndarray  # (n, lanes) weights of the value 0; `on` and `off` sum to 1
    message: np.ndarray  # (E, lanes) messages as odds, read and overwritten
    order: np.ndarray  # (lanes,) int64 output, index of the model in each lane at the end


@jit
def copy_lanes(source, target, n_lanes):
    """Copy the first `n_lanes` lanes of `source` to `target` (n, lanes)."""
    for row in range(np.uintp(source.shape[0])):
        for l in range(n_lanes):
            target[row, l] = source[row, l]


@jit
def start_beliefs(start, on, off, belief):
    """Set the weights `belief` (n, lanes) of the value 1 so that the log-odds are `start`.

    The weights of clamped variables are not changed.
    """
    for v in range(start.shape[0]):
        for l in range(start.shape[1]):
            if on[v, l] > 0 and off[v, l] > 0:
                belief[v, l] = off[v, l] * belief.dtype.type(math.exp(start[v, l]))


@jit
def lane_probabilities(on, off, last, n_lanes):
    """Write the probabilities on / (on + off) to `last` (n, lanes)."""
    for v in range(np.uintp(on.shape[0])):
        for l in range(n_lanes):
            last[v, l] = on[v, l] / (on[v, l] + off[v, l])


@jit
def lane_changes(on, off, last, change, n_lanes):
    """Write the largest change of a probability in each lane to `change`, and update `last`."""
    for l in range(n_lanes):
        change[l] = 0
    for v in range(np.uintp(on.shape[0])):
        for l in range(n_lanes):
            p = on[v, l] / (on[v, l] + off[v, l])
            change[l] = max(change[l], abs(p - last[v, l]))
            last[v, l] = p


@jit
def keep_better_states(here, on, off, order, n_lanes, answers):
    """Store the preferred states of the beliefs in lanes whose score `here` is the best so far."""
    score, state = answers.score, answers.state
    for l in range(n_lanes):
        m = order[l]
        if here[l] > score[m]:
            score[m] = here[l]
            for v in range(on.shape[0]):
                state[m, v] = on[v, l] > off[v, l]


@jit
def _odds_moved(on, before, off, l, factor):
    """Return True if, in lane l, the odds of a free variable changed by more than `factor`."""
    for v in range(on.shape[0]):
        x, y = on[v, l], before[v, l]
        if off[v, l] > 0 and (x > factor * y or y > factor * x):
            return True
    return False


@jit
def _messages_moved(message, l, kept, m, factor):
    """Return True if a message of lane l and its value in `kept` differ by more than a `factor`.

    Messages are odds, so they are compared by the ratio of the larger to the smaller message.
    """
    for e in range(message.shape[0]):
        x, y = message[e, l], kept[e, m]
        if x > factor * y or y > factor * x:
            return True
    return False


@jit
def _has_converged(here, message, l, kept, m, still, factor):
    """Return True if model m in lane l has converged; update `kept` and `still`.

    A model has converged if neither its beliefs nor its messages changed in two iterations.

    Parameters
    ----------
    here : bool, True if the beliefs of the lane did not change in this iteration
    message : (E, n_lanes) current messages
    kept : (E, n_models) messages at the first iteration without a change of beliefs; updated
    still : (n_models,) bool, True if beliefs did not change in the last iteration; updated
    factor : float, largest change of odds that counts as no change
    """
    before = still[m]
    still[m] = here
    if before and here:
        before = not _messages_moved(message, l, kept, m, factor)
    if here and not before:
        for e in range(message.shape[0]):
            kept[e, m] = message[e, l]
    return before and here


@jit
def _swap_lanes(array, i, j):
    """Exchange two lanes of an array (n, lanes)."""
    for row in range(array.shape[0]):
        array[row, i], array[row, j] = array[row, j], array[row, i]


@jit
def drop_converged(
    iteration, options, n_lanes, change, belief, after, last, kept, still, lanes, answers
):
    """Move converged models to the last lanes; return the number of lanes that continue.

    Parameters
    ----------
    options : GraphOptions
    change : (lanes,) largest change of a probability
    belief, after : (n, lanes) beliefs before and after the iteration
    last : (n, lanes) beliefs as probabilities
    kept, still : see `_has_converged`
    lanes, answers : Lanes, GraphAnswers
    """
    field, on, off, message, order = lanes
    trace, factor = answers.trace, options.slack
    n_left = np.int64(n_lanes)
    for l in range(n_left - 1, -1, -1):
        m = order[l]
        if trace.shape[1]:
            trace[m, iteration] = change[l]
        here = change[l] < options.tol and not _odds_moved(after, belief, off, l, factor)
        if _has_converged(here, message, l, kept, m, still, factor):
            answers.n_iter[m] = iteration + 1
            answers.converged[m] = True
            n_left -= 1
            if l < n_left:
                order[l], order[n_left] = order[n_left], order[l]
                for array in (on, off, message, field):
                    _swap_lanes(array, l, n_left)
                for array in (after, last):
                    _swap_lanes(array, l, n_left)
    return n_left


@jit
def lane_log_odds(belief, on, off, order, log_odds):
    """Write the log-odds of the beliefs (n, lanes) to `log_odds` (models, n), 0 if clamped."""
    for l in range(on.shape[1]):
        for v in range(on.shape[0]):
            if on[v, l] > 0 and off[v, l] > 0:
                log_odds[order[l], v] = math.log(belief[v, l]) - math.log(off[v, l])
            else:
                log_odds[order[l], v] = 0


@jit
def _odds_off(total, odds, n_lanes):
    """Write the odds exp(-total) of the value 0 to `odds`, in float32; `total` are log-odds."""
    for l in range(n_lanes):
        odds[l] = np.float32(min(max(-total[l], -CERTAIN), CERTAIN))
    exp_in_place(odds, n_lanes)


@jit
def _compare(u, odds, value, n_lanes):
    """Set `value` to 1 if u < 1 / (1 + odds), else to 0; return the number of close comparisons."""
    close = 0
    for l in range(n_lanes):
        share = u[l] * (1.0 + np.float64(odds[l]))
        value[l] = 1.0 if share < 1.0 else 0.0
        close += 1 if abs(share - 1.0) < _CLOSE * share else 0
    return close


@jit
def draw_lanes(u, total, odds, value, n_lanes):
    """Draw `value` (1 or 0) from the log-odds `total` and the random numbers `u`.

    `odds` (float32) is scratch space.
    """
    _odds_off(total, odds, n_lanes)
    if _compare(u, odds, value, n_lanes):
        for l in range(n_lanes):
            value[l] = 1.0 if u[l] * (1.0 + math.exp(-total[l])) < 1.0 else 0.0
