"""Expected F1 and Jaccard index from the generating function of the number of labels on.

Both metrics divide by a number of labels n, and ``1 / n`` is the integral of ``t^(n - 1)`` over
[0, 1]. By quadrature an expected metric is thus a sum over few t of ``E[y_i t^|y|]``. That is a
product where labels are independent. Where they depend on each other, it is the marginal of y_i
under a model whose fields are shifted by log t.
"""

import functools

import numpy as np

from skcrbm.utils.limits import TIE

# Up to so many labels in a union of sets all is exact, with half as many nodes.
_EXACT_UNION = 24


@functools.lru_cache(maxsize=32)
def inverse_nodes(largest):
    """Nodes t in (0, 1) and weights w (Q,) with ``sum_q w_q t_q^(n - 1) = 1 / n``.

    Exact for n = 1, ..., `largest` up to 24, with ``Q = ceil(largest / 2)`` of Gauss and Legendre.
    Beyond, the difference is below ``1e-4 / n`` with nodes that are denser towards 1, by
    ``t = 1 - (1 - u)^2``: their number grows with the logarithm, 15 for 100, 22 for 350.
    """
    exact = largest <= _EXACT_UNION
    n_nodes = -(-largest // 2) if exact else max(12, int(np.ceil(5.5 * np.log(largest / 2))) - 7)
    x, weight = np.polynomial.legendre.leggauss(max(1, n_nodes))
    u, weight = (1 + x) / 2, weight / 2
    if exact:
        return u, weight
    return 1 - (1 - u) ** 2, weight * 2 * (1 - u)


def maximize_f1(empty, gain, zero_division=1.0, allow_empty=True):
    """Maximise the expected F1 over all label vectors (GFM).

    With ``D_ik = sum_s 2 P(y_i = 1, |y| = s) / (k + s)``, the best vector of k labels has the
    k largest D_ik.

    Parameters
    ----------
    empty : ndarray (N,)
        P(|y| = 0).
    gain : ndarray (N, L, L)
        D_ik in ``[:, k - 1, i]``.
    zero_division : float
    allow_empty : bool
        Whether no label may be the answer for a row in which labels might be on.

    Returns
    -------
    ndarray (N, L) of int
        0/1. Among equals that with the fewest labels, then the first ones.
    """
    n, n_labels = gain.shape[:2]
    # To the digits that rounding leaves alone, so that equal labels are taken in order.
    gain = np.round(gain, 12)
    size = np.arange(n_labels)
    value = np.sort(gain, axis=2)[:, :, ::-1].cumsum(axis=2)[:, size, size]
    value = np.column_stack([zero_division * empty, value])
    k = best_but_empty(value, np.arange(n_labels + 1) == 0, value[:, 1:].any(axis=1), allow_empty)
    order = np.argsort(-gain[np.arange(n), np.maximum(k - 1, 0)], axis=1, kind="stable")
    return first_k(order, k)


def best_but_empty(value, empty, possible, allow_empty):
    """Index (N,) of the first of the largest values (N, C), rounding apart.

    Parameters
    ----------
    value : ndarray (N, C)
        Of C candidates, 0 or more.
    empty : ndarray of bool (C,) or (N, C)
        Which of them have no label on.
    possible : ndarray (N,) of bool
        Rows in which a label might be on.
    allow_empty : bool
        Whether candidates without a label compete in these, too.
    """
    if not allow_empty:
        value = np.where(empty & possible[:, None], -1.0, value)
    return (value >= value.max(axis=1, keepdims=True) - TIE).argmax(axis=1)


def f1_gain(on, nodes, weight):
    """D_ik (N, L, L) in ``[:, k - 1, i]`` from ``E[y_i t^|y|] / t`` (N, Q, L) at the nodes."""
    sizes = np.arange(1, on.shape[2] + 1)
    return (2 * weight * nodes ** sizes[:, None]) @ on


def independent_on(p, nodes):
    """``E[y_i t^|y|] / t`` (N, Q, L) of independent labels (N, L)."""
    factor = 1 - p[:, None, :] * (1 - nodes[:, None])  # at least t, far from 0
    return p[:, None, :] * (factor.prod(axis=2, keepdims=True) / factor)


def independent_top_jaccard(p, zero_division):
    """Return the expected Jaccard index (N, L + 1) of the first k = 0, ..., L independent labels.

    The numbers of those on among the first k and among the others are independent, and the
    latter is what the union adds to the k.
    """
    n, n_labels = p.shape
    nodes, weight = inverse_nodes(n_labels)
    factor = 1 - p[:, None, :] * (1 - nodes[:, None])
    left_out = np.ones((n, len(nodes), n_labels))  # E[t^(number on after the first k)]
    left_out[:, :, :-1] = factor[:, :, :0:-1].cumprod(axis=2)[:, :, ::-1]
    power = weight[:, None] * nodes[:, None] ** np.arange(n_labels)
    value = p.cumsum(axis=1) * (power * left_out).sum(axis=1)
    return np.column_stack([zero_division * (1 - p).prod(axis=1), value])


def first_k(order, k):
    """0/1 vectors (N, L) with the first k labels on, by an order (N, L); k (N,) or int."""
    rank = np.argsort(order, axis=1)
    return (rank < np.reshape(k, (-1, 1))).astype(np.int64)


def jaccard(judges, candidates, zero_division):
    """Jaccard index (..., J, C) of 0/1 vectors (..., J, L) and (..., C, L)."""
    both = judges @ np.swapaxes(candidates, -1, -2)
    union = judges.sum(axis=-1)[..., :, None] + candidates.sum(axis=-1)[..., None, :] - both
    empty = union == 0
    return np.where(empty, zero_division, both / np.where(empty, 1.0, union))
