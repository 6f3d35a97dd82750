"""Compute sums over neighbours, and beliefs, for models whose variables are the pixels of images.

A plane is an array with one number for each pixel. Planes are flat: the pixel in row r and column c
has the index r * stride + c, which is called its place. `stride` is larger than the width of the
images. The additional columns form a margin of zeros, so that a neighbour outside of an image
counts as zero. The shift of a neighbour is its place minus the place of the pixel. It depends only
on the direction of the neighbour. Inner loops run over the places of a block, which is a section of
a plane.
"""

from typing import NamedTuple

import numpy as np

from skcrbm.kernels.exponentials import exp_in_place
from skcrbm.kernels.jit import jit
from skcrbm.kernels.scalar import dot

# Number of places in a block, small enough that the block of each plane stays in the cache.
_BLOCK = 1024


class Links(NamedTuple):
    """Weighted links from source planes to target planes, sorted by target.

    There are P target planes and L links. Target plane p has the links first[p]:first[p + 1].
    """

    first: np.ndarray  # (P + 1,) int64, first link of each target plane
    source: np.ndarray  # (L,) int64, index of the source plane
    shift: np.ndarray  # (L,) int64, place of the neighbour minus place of the pixel
    weight: np.ndarray  # (L,) float64, weight of the link


@jit(fastmath={"contract"})
def _add_one(weight, x, out):
    for j in range(np.uintp(out.shape[0])):
        out[j] += weight * x[j]


@jit(fastmath={"contract"})
def _add_four(v, w, x, y, a, b, c, d, out):
    """Add a * v + b * w + c * x + d * y to `out`; the arrays have the same shape."""
    for j in range(np.uintp(out.shape[0])):
        out[j] += (a * v[j] + b * w[j]) + (c * x[j] + d * y[j])


@jit
def add_linked(links, source, begin, end, out):
    """Add weighted neighbours of each pixel in source planes to target planes.

    For each link l of target plane p, add ``weight[l] * source[source[l], j + shift[l]]`` to
    out[p, j], for the places j from `begin` to `end`. `source` has the shape (Q, n) and `out` the
    shape (P, n).
    """
    place = links.shift
    for start in range(begin, end, _BLOCK):
        stop = min(end, start + _BLOCK)
        for p in range(out.shape[0]):
            total = out[p, start:stop]
            l = links.first[p]
            last = links.first[p + 1]
            while l + 4 <= last:
                _add_four(
                    source[links.source[l], start + place[l] : stop + place[l]],
                    source[links.source[l + 1], start + place[l + 1] : stop + place[l + 1]],
                    source[links.source[l + 2], start + place[l + 2] : stop + place[l + 2]],
                    source[links.source[l + 3], start + place[l + 3] : stop + place[l + 3]],
                    links.weight[l],
                    links.weight[l + 1],
                    links.weight[l + 2],
                    links.weight[l + 3],
                    total,
                )
                l += 4
            while l < last:
                neighbour = source[links.source[l], start + place[l] : stop + place[l]]
                _add_one(links.weight[l], neighbour, total)
                l += 1


@jit
def add_link_products(links, target, source, begin, end, out):
    """Add the gradient with respect to the weights of the links in `add_linked` to `out` (L,).

    `target` (P, n) is the gradient with respect to the output of `add_linked`. The gradient of link
    l to plane p is the sum of ``target[p, j] * source[source[l], j + shift[l]]`` over the places j.
    """
    place = links.shift
    for start in range(begin, end, _BLOCK):
        stop = min(end, start + _BLOCK)
        for p in range(target.shape[0]):
            values = target[p, start:stop]
            for l in range(links.first[p], links.first[p + 1]):
                neighbour = source[links.source[l], start + place[l] : stop + place[l]]
                out[l] += dot(values, neighbour)


@jit(fastmath={"contract"})
def _centred_sigmoid(z, inside, work, out):
    """Set `out` to (sigmoid(z) - 1/2) * inside; all arguments have the same shape."""
    for j in range(np.uintp(out.shape[0])):
        work[j] = -abs(z[j])
    exp_in_place(work, out.shape[0])
    for j in range(np.uintp(out.shape[0])):
        half = 0.5 * (1.0 - work[j]) / (1.0 + work[j])
        out[j] = inside[j] * (half if z[j] >= 0.0 else -half)


@jit(fastmath={"contract"})
def _centred_softmax(z, inside, work, out):
    """Set `out` (K - 1, n) to the class probabilities minus 1/K, times `inside` (n,).

    The log-weights are `z` (K - 1, n), and 0 for the first class. `work` has the shape (2, n).
    """
    n_rows = out.shape[0]
    n = out.shape[1]
    top = work[0]
    total = work[1]
    for j in range(np.uintp(n)):
        top[j] = 0.0
    for k in range(n_rows):
        for j in range(np.uintp(n)):
            top[j] = max(top[j], z[k, j])
    for j in range(np.uintp(n)):
        total[j] = -top[j]
    exp_in_place(total, n)
    for k in range(n_rows):
        row = out[k]
        for j in range(np.uintp(n)):
            row[j] = z[k, j] - top[j]
        exp_in_place(row, n)
        for j in range(np.uintp(n)):
            total[j] += row[j]
    share = 1.0 / (n_rows + 1)
    for k in range(n_rows):
        row = out[k]
        for j in range(np.uintp(n)):
            row[j] = inside[j] * (row[j] / total[j] - share)


@jit
def centred_beliefs(z, n_visible, inside, begin, end, out):
    """Convert log-odds `z` (P, n) to centred beliefs `out` (P, n), from `begin` to `end`.

    There are P planes of n places. Pixels have n_visible + 1 classes. The first `n_visible` planes
    belong to the second and later classes. They hold log-odds against the first class in `z`, and
    P(class) - 1 / (n_visible + 1) in `out`. The other planes belong to binary variables, and hold
    P(on) - 1/2 in `out`. `inside` (n,) is 1 at the pixels of images and 0 in the margins, so that
    the beliefs in the margins are 0.
    """
    work = np.empty((2, _BLOCK))
    for start in range(begin, end, _BLOCK):
        stop = min(end, start + _BLOCK)
        if n_visible > 1:
            _centred_softmax(
                z[:n_visible, start:stop],
                inside[start:stop],
                work,
                out[:n_visible, start:stop],
            )
        for p in range(n_visible if n_visible > 1 else 0, z.shape[0]):
            _centred_sigmoid(z[p, start:stop], inside[start:stop], work[0], out[p, start:stop])


@jit(fastmath={"contract"})
def beliefs_gradient(belief, n_visible, inside, begin, end, slope):
    """Replace the gradient `slope` (P, n) for the beliefs by the gradient for the log-odds.

    `belief` (P, n) are the centred beliefs that `centred_beliefs` computes.
    """
    mean = np.empty(_BLOCK)
    share = 1.0 / (n_visible + 1)
    for start in range(begin, end, _BLOCK):
        n = min(end, start + _BLOCK) - start
        if n_visible > 1:
            for j in range(np.uintp(n)):
                mean[j] = 0.0
            for k in range(n_visible):
                b = belief[k, start : start + n]
                s = slope[k, start : start + n]
                for j in range(np.uintp(n)):
                    mean[j] += (b[j] + share) * s[j]
            for k in range(n_visible):
                b = belief[k, start : start + n]
                s = slope[k, start : start + n]
                within = inside[start : start + n]
                for j in range(np.uintp(n)):
                    s[j] = within[j] * (b[j] + share) * (s[j] - mean[j])
        for p in range(n_visible if n_visible > 1 else 0, slope.shape[0]):
            b = belief[p, start : start + n]
            s = slope[p, start : start + n]
            within = inside[start : start + n]
            for j in range(np.uintp(n)):
                s[j] *= within[j] * (0.25 - b[j] * b[j])
