"""Sum over the labels of an RBM, which are independent given the states of the hidden units.

Given hidden state s, label i of a row is on (1) with probability ``p = t g / (u + t g)``. Here t =
sigmoid(field) and u = sigmoid(-field) belong to the label, and ``g = exp(h_s . W_i)`` is stored in
the array `gain`. So no exponential is needed per label and state.

Decoding rules need ``E[x^|y| | s]`` for several numbers x, where |y| is the number of labels that
are 1. It is the product of ``1 - p (1 - x)`` over the labels. Factors with a probability p above
`_CUT` are multiplied. The logarithm of all other factors is a power series in p, so the sums of six
powers of p are enough for all x.
"""

import math

import numpy as np

from skcrbm.kernels.jit import jit

# For labels with a smaller probability p, the power series up to p^6 is used. The first missing
# term of the series, p^7 / 7, is below p * 2e-10.
_CUT = 1.0 / 32.0
# A product below this number is replaced by its logarithm, before it can underflow.
_LEAST = 1e-200
# A product of weights is replaced by its logarithm before the sum of the |logarithms| of its
# factors exceeds this number, so that the product stays in the range of float64.
MAX_LOG = 300.0


@jit
def add_log_weights(t, u, gain, norm, log_weight):
    """Add ``sum_i log(u_i + t_i gain[i, s])`` to `log_weight` (N, S), for labels i and states s.

    For clamped labels, `t` (N, L) is 0 and `u` (N, L) is 1. `norm` (L,) is an upper bound of
    ``|log gain|`` of each label.
    """
    n_rows, n_labels = t.shape
    n_states = gain.shape[1]
    product = np.empty(n_states)
    for n in range(n_rows):
        total = 0.0
        for s in range(n_states):
            product[s] = 1.0
        for i in range(n_labels):
            total += norm[i]
            if total > MAX_LOG:
                for s in range(n_states):
                    log_weight[n, s] += math.log(product[s])
                    product[s] = 1.0
                total = norm[i]
            a, b = u[n, i], t[n, i]
            for s in range(np.uintp(n_states)):
                product[s] *= a + b * gain[i, s]
        for s in range(n_states):
            log_weight[n, s] += math.log(product[s])


@jit
def sum_over_labels(t, u, gain, start, state, weight, left, marginals, mean, log_rest):
    """Compute marginals and, in each likely hidden state, expectations of the number of labels on.

    The likely hidden states of row n are ``state[start[n] : start[n + 1]]``, with probabilities
    `weight`. All rows together have A likely states. There are N rows, L labels, S hidden states
    and Q numbers x. `gain` (S, L) has a row per hidden state, and `left` (Q,) holds ``1 - x`` for x
    = 0 and then for ascending positive x. The outputs are `marginals` (N, L), which must be 0 at
    first, `mean` (A,) for ``E[|y|]``, and `log_rest` (A, Q) for ``log E[x^|y|]``.
    """
    n_rows, n_labels = t.shape
    n_nodes = left.shape[0]
    product, p = np.empty(n_nodes), np.empty(n_labels)
    for n in range(n_rows):
        for a in range(start[n], start[n + 1]):
            s = state[a]
            for q in range(n_nodes):
                product[q] = 1.0
                log_rest[a, q] = 0.0
            _probabilities(t, u, gain, n, s, weight[a], p, marginals)
            mean[a], s1, s2, s3, s4, s5, s6 = _power_sums(p)
            for i in range(n_labels):
                if p[i] > _CUT:
                    for q in range(np.uintp(n_nodes)):
                        product[q] *= 1.0 - p[i] * left[q]
                    if product[1] < _LEAST:
                        _take_logs(product, log_rest, a)
            _take_logs(product, log_rest, a)
            s2, s3, s4, s5, s6 = s2 / 2.0, s3 / 3.0, s4 / 4.0, s5 / 5.0, s6 / 6.0
            for q in range(n_nodes):
                d = left[q]
                log_rest[a, q] -= d * (s1 + d * (s2 + d * (s3 + d * (s4 + d * (s5 + d * s6)))))


@jit(fastmath={"contract"})
def _probabilities(t, u, gain, n, s, weight, p, marginals):
    """Write P(y_i = 1 | s) of row n to `p` (L,), and add it to `marginals` with the weight of s."""
    for i in range(np.uintp(p.shape[0])):
        odds = t[n, i] * gain[s, i]
        p[i] = odds / (u[n, i] + odds)
        marginals[n, i] += weight * p[i]


@jit(fastmath={"contract", "reassoc"})
def _power_sums(p):
    """Return the sum of `p` (L,), and the sums of the powers 1 to 6 of its entries up to `_CUT`."""
    total = s1 = s2 = s3 = s4 = s5 = s6 = 0.0
    for i in range(np.uintp(p.shape[0])):
        total += p[i]
        x = p[i] if p[i] <= _CUT else 0.0
        square = x * x
        s1 += x
        s2 += square
        s3 += square * x
        s4 += square * square
        s5 += square * square * x
        s6 += square * square * square
    return total, s1, s2, s3, s4, s5, s6


@jit
def _take_logs(product, log_rest, a):
    """Add the logarithms of `product` (Q,) to row a of `log_rest`, and set `product` to 1."""
    for q in range(product.shape[0]):
        log_rest[a, q] += math.log(product[q]) if product[q] > 0.0 else -np.inf
        product[q] = 1.0


@jit
def sums_of_labels(t, u, gain, start, state, rest, left, labels, on):
    """Add ``E[y_i x^(|y| - 1)]`` to `on` (N, C, Q), for C labels i in `labels` and Q numbers x.

    `rest` (A, Q) is the probability of a state times ``E[x^|y|]`` in the state; see
    `sum_over_labels` for the other arguments.
    """
    n_rows, n_chosen = labels.shape
    n_nodes = np.uintp(left.shape[0])
    for n in range(n_rows):
        for c in range(n_chosen):
            i = labels[n, c]
            for a in range(start[n], start[n + 1]):
                odds = t[n, i] * gain[state[a], i]
                p = odds / (u[n, i] + odds)
                for q in range(n_nodes):
                    on[n, c, q] += rest[a, q] * (p / (1.0 - p * left[q]))


@jit
def expected_overlap(t, u, gain, start, state, weight, log_rest, left, first, labels, value):
    """Add ``E[|y and A| x^|y - A|]`` to `value` (N, C, Q), for C sets A of labels in each row.

    |y and A| is the number of labels in A that are 1, and |y - A| the number of labels outside of A
    that are 1. The labels of set c of row n are ``labels[first[n * C + c] : first[n * C + c +
    1]]``. See `sum_over_labels` for the other arguments.
    """
    n_rows, n_sets, n_nodes = value.shape
    outside, product = np.empty(n_nodes), np.empty(n_nodes)
    for n in range(n_rows):
        for a in range(start[n], start[n + 1]):
            s = state[a]
            for c in range(n_sets):
                for q in range(n_nodes):
                    outside[q] = log_rest[a, q]
                    product[q] = 1.0
                hits = 0.0
                for k in range(first[n * n_sets + c], first[n * n_sets + c + 1]):
                    i = labels[k]
                    odds = t[n, i] * gain[s, i]
                    p = odds / (u[n, i] + odds)
                    hits += p
                    for q in range(np.uintp(n_nodes)):
                        product[q] *= 1.0 - p * left[q]
                    if product[0] < _LEAST:
                        for q in range(n_nodes):
                            outside[q] -= math.log(product[q])
                            product[q] = 1.0
                for q in range(n_nodes):
                    value[n, c, q] += weight[a] * hits * (math.exp(outside[q]) / product[q])
