"""Draw the labels of an RBM given its hidden states, and compute the log-weights of the draws.

The labels of a row are independent given the states of the hidden units of an RBM. All rows use the
same uniform random numbers. Label i of draw d is on if ``uniform[d, i]`` is smaller than the
probability of the label given the hidden state of the draw. Few labels of a draw are on in most
data sets, so the log-weight of a draw is computed as a sum over the labels that are on.
"""

import math

import numpy as np

from skcrbm.kernels.jit import jit

# Each row makes this number of draws before the next row is processed. After the last row, all rows
# continue with the next draws. So the random numbers of the draws stay in the cache for all rows.
_DRAWS = 64


@jit
def draw_log_weights(uniform, t, u, gain, last, fields, hidden_fields, weights, log_weight):
    """Write the log-weights of D draws per row to `log_weight` (N, D).

    In row n, the draws ``last[n, s - 1]`` to ``last[n, s] - 1`` have the hidden state s. The first
    draws, up to ``last[n, 0] - 1``, have the hidden state 0.

    Parameters
    ----------
    uniform : (D, L) random numbers in (0, 1)
    t, u : (N, L), sigmoid(field) and sigmoid(-field) of each label
    gain : (S, L), exp(h_s . W_i) for hidden state s and label i
    last : (N, S) int64, ascending; the last column is D
    fields, hidden_fields, weights : (N, L), (N, H), (L, H)
    log_weight : (N, D), output
    """
    n_rows, n_labels = fields.shape
    n_draws = uniform.shape[0]
    p = np.empty(n_labels)
    on = np.empty(n_labels, np.int64)
    inputs = np.empty(hidden_fields.shape[1])
    state = np.zeros(n_rows, np.int64)
    for start in range(0, n_draws, _DRAWS):
        for n in range(n_rows):
            s = state[n]
            known = False  # True if p holds the probabilities of state s
            for d in range(start, min(start + _DRAWS, n_draws)):
                while d >= last[n, s]:
                    s += 1
                    known = False
                if not known:
                    _probabilities(t, u, gain, n, s, p)
                    known = True
                count = _labels_on(uniform, d, p, on)
                log_weight[n, d] = _log_weight(on, count, fields, hidden_fields, weights, n, inputs)
            state[n] = s


@jit
def _probabilities(t, u, gain, n, s, p):
    """Write the probability of each label of row n given hidden state s to `p` (L,)."""
    for i in range(np.uintp(p.shape[0])):
        odds = t[n, i] * gain[s, i]
        p[i] = odds / (u[n, i] + odds)


@jit
def _labels_on(uniform, d, p, on):
    """Write the labels that are on in draw d to the first entries of `on`; return their number."""
    count = 0
    for i in range(np.uintp(p.shape[0])):
        on[count] = i
        count += 1 if uniform[d, i] < p[i] else 0
    return count


@jit(fastmath={"contract"})
def _log_weight(on, count, fields, hidden_fields, weights, n, inputs):
    """Return the log-weight of the label vector of row n whose `count` labels `on` are on."""
    n_hidden = np.uintp(inputs.shape[0])
    for k in range(n_hidden):
        inputs[k] = hidden_fields[n, k]
    total = 0.0
    for c in range(count):
        i = np.uintp(on[c])
        total += fields[n, i]
        for k in range(n_hidden):
            inputs[k] += weights[i, k]
    product = 1.0  # at most 2 per hidden unit, so it cannot overflow
    for k in range(n_hidden):
        x = inputs[k]
        total += x if x > 0.0 else 0.0
        product *= 1.0 + math.exp(-abs(x))
    return total + math.log(product)
