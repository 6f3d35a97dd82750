"""Sum over the hidden states of RBMs whose visible units are the classes of several outputs.

There are n rows, S classes and M hidden states. Output i has the classes first[i] to
first[i + 1] - 1. In row r, class k has the weight fields[r, k], and hidden state m multiplies this
weight by odds[k, m]. So in hidden state m, the weight of an output is the sum of
``fields[r, k] * odds[k, m]`` over its classes. The inner loops run over the hidden states.
"""

import numpy as np

from skcrbm.kernels.jit import jit
from skcrbm.kernels.scalar import dot_rows


@jit(fastmath={"contract"})
def _sum_classes(weights, odds, begin, end, total):
    """For each hidden state, write the weight of an output to `total` (M,).

    The output has the classes `begin` to ``end - 1``.
    """
    for m in range(np.uintp(total.shape[0])):
        total[m] = weights[begin] * odds[begin, m]
    for k in range(begin + 1, end):
        for m in range(np.uintp(total.shape[0])):
            total[m] += weights[k] * odds[k, m]


@jit
def multiply_outputs(fields, odds, first, groups, total, products):
    """Set products[g, r] (M,) to the product of the weights of the outputs of group g in row r.

    Group g has the outputs groups[g] to groups[g + 1] - 1. `total` (M,) is a work array.
    """
    for g in range(products.shape[0]):
        for r in range(products.shape[1]):
            product = products[g, r]
            _sum_classes(fields[r], odds, first[groups[g]], first[groups[g] + 1], product)
            for i in range(groups[g] + 1, groups[g + 1]):
                _sum_classes(fields[r], odds, first[i], first[i + 1], total)
                for m in range(np.uintp(total.shape[0])):
                    product[m] *= total[m]


@jit
def add_classes(fields, odds, first, p, weight, total, chances, sums):
    """Compute the probabilities of classes, and their sums over the rows.

    `p` (n, M) holds the probability of each hidden state, and `weight` (n,) the weight of each row.
    Set `chances` (n, S) to the probabilities of the classes. Add to sums[k, m] the joint
    probability of class k and hidden state m, multiplied by the weight of the row and divided by
    odds[k, m]. `sums` is (S, M), and `total` (M,) is a work array.
    """
    for i in range(first.shape[0] - 1):  # the odds of an output stay in the cache for all rows
        for r in range(p.shape[0]):
            _sum_classes(fields[r], odds, first[i], first[i + 1], total)
            for m in range(np.uintp(total.shape[0])):
                total[m] = p[r, m] / total[m]
            for k in range(first[i], first[i + 1]):
                chances[r, k] = fields[r, k] * dot_rows(total, odds[k])
                w = weight[r] * fields[r, k]
                if w != 0.0:
                    for m in range(np.uintp(total.shape[0])):
                        sums[k, m] += w * total[m]
