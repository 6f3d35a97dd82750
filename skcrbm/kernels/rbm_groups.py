"""Sums over the hidden states of RBMs whose visible units are the classes of several outputs.

A hidden state m of M states multiplies the weight of class k of S classes by odds[k, m]. Output i
has the classes first[i] to first[i + 1] - 1. Row r of n rows has the weight fields[r, k] of class
k. Given a hidden state, the weight of an output is the sum of ``fields[r, k] * odds[k, m]`` over
its classes. The inner loops run over the hidden states.
"""

import numpy as np

from skcrbm.kernels.jit import jit


@jit(fastmath={"contract"})
def _sum_classes(weights, odds, begin, end, total):
    """Set `total` (M,) to the weight of the output with the classes `begin` to ``end - 1``."""
    for m in range(np.uintp(total.shape[0])):
        total[m] = weights[begin] * odds[begin, m]
    for k in range(begin + 1, end):
        for m in range(np.uintp(total.shape[0])):
            total[m] += weights[k] * odds[k, m]


@jit(fastmath={"contract", "reassoc"})
def _dot(a, b):
    total = 0.0
    for m in range(np.uintp(a.shape[0])):
        total += a[m] * b[m]
    return total


@jit
def multiply_outputs(fields, odds, first, groups, total, products):
    """Set products[g, r] to the product of the weights of the outputs of group g.

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
    Set `chances` (n, S) to the probabilities of the classes. Add to `sums` (S, M) the weighted
    probabilities of a class and a hidden state, divided by the odds of both. `total` (M,) is a work
    array.
    """
    for i in range(first.shape[0] - 1):  # the odds of an output stay in the cache for all rows
        for r in range(p.shape[0]):
            _sum_classes(fields[r], odds, first[i], first[i + 1], total)
            for m in range(np.uintp(total.shape[0])):
                total[m] = p[r, m] / total[m]
            for k in range(first[i], first[i + 1]):
                chances[r, k] = fields[r, k] * _dot(total, odds[k])
                w = weight[r] * fields[r, k]
                if w != 0.0:
                    for m in range(np.uintp(total.shape[0])):
                        sums[k, m] += w * total[m]
