"""Define the parameters of image models, in which all positions share the same local weights.

Pixel i has a class y_i and n_hidden binary variables h_i. The vector e(k) encodes class k. It has
an entry for each class except the first: the entry of class k is 1 - 1/K, and all other entries are
-1/K. The log-weight of classes and hidden variables is

``sum_i s_i' e(y_i) + t_i' (h_i - 1/2) + sum over pairs of pixels e(y_i)' A_d e(y_j)
+ (h_i - 1/2)' B_d e(y_j)``,

where the fields s_i and t_i are linear in the window of X around i, and the matrices A_d and B_d
depend on the difference d of the positions of pixels i and j. Neighbours outside of the image are
left out, so that they favour no class.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np


class ImageParams(NamedTuple):
    """Parameters, for K classes, C channels, H hidden variables and windows of side S.

    A plane is an array with a number for each pixel. There are P = K - 1 + H planes: first the
    log-odds of the classes 1 to K - 1 against class 0, then the log-odds of the H hidden variables.
    """

    coef: Any  # (P, C, S, S), coefficients of the window of X around a pixel
    intercept: Any  # (P,)
    pair_coef: Any  # (M, K - 1, K - 1), matrices A_d for the M differences d in `pair_steps`
    hidden_coef: Any  # (H, K - 1, S, S), couplings B_d of hidden variables and a window of classes


class ImageStructure(NamedTuple):
    """Numbers that determine the shapes of the parameters."""

    n_states: int  # number of classes K
    n_channels: int  # number of channels of X
    window: int  # side of the window of X around a pixel, an odd number
    pair_window: int  # side of the window of the neighbours of a pixel, an odd number
    n_hidden: int  # number of hidden variables per pixel

    @property
    def n_visible(self) -> int:
        """Number of planes of the classes, K - 1."""
        return self.n_states - 1

    @property
    def n_planes(self) -> int:
        """Number of planes of the classes and the hidden variables."""
        return self.n_visible + self.n_hidden

    @property
    def margin(self) -> int:
        """Largest distance, in rows or columns, to a pixel that affects a position directly."""
        return max(self.window, self.pair_window) // 2

    def zeros(self) -> ImageParams:
        """Return parameters that are all 0, with the shapes that this structure determines."""
        side = self.window
        n_steps = len(pair_steps(self.pair_window))
        return ImageParams(
            np.zeros((self.n_planes, self.n_channels, side, side)),
            np.zeros(self.n_planes),
            np.zeros((n_steps, self.n_visible, self.n_visible)),
            np.zeros((self.n_hidden, self.n_visible, side, side)),
        )


class Couplings(NamedTuple):
    """Couplings between variables, as L directed links from a source to a target plane.

    A coupling between two variables of planes p and q consists of two links, from p to q and from q
    to p. The links are sorted by the target plane.
    """

    first: np.ndarray  # (P + 1,), first link of each target plane
    source: np.ndarray  # (L,), source plane of each link
    step: np.ndarray  # (L, 2), rows and columns from the target pixel to the source pixel
    # (L,) index of the weight of each link, among the entries of `pair_coef` and then `hidden_coef`
    parameter: np.ndarray


def pair_steps(pair_window: int) -> list[tuple[int, int]]:
    """Return the steps (rows, columns) from a pixel to half of its neighbours in its window.

    The steps to the other neighbours are the same steps in the opposite direction.
    """
    r = pair_window // 2
    return [(a, b) for a in range(r + 1) for b in range(-r, r + 1) if a > 0 or b > 0]


def window_steps(window: int) -> np.ndarray:
    """Return the steps (S * S, 2) from the centre of a window to all its pixels, row by row."""
    places = np.arange(window) - window // 2
    return np.stack(np.meshgrid(places, places, indexing="ij"), axis=-1).reshape(-1, 2)


@lru_cache(maxsize=16)
def couplings_of(structure: ImageStructure) -> Couplings:
    """Return the links of all pairwise couplings between classes and hidden variables."""
    v, links = structure.n_visible, []

    def join(p, q, step):
        """Couple each variable of plane p to the variable of plane q at the distance `step`."""
        number = len(links) // 2
        links.append((p, q, *step, number))
        links.append((q, p, -step[0], -step[1], number))

    for step in pair_steps(structure.pair_window):
        for k in range(v):
            for l in range(v):
                join(k, l, step)
    for h in range(structure.n_hidden):
        for k in range(v):
            for step in window_steps(structure.window).tolist():
                join(v + h, k, step)
    table = np.array(links, np.int64).reshape(-1, 5)
    table = table[np.argsort(table[:, 0], kind="stable")]
    first = np.searchsorted(table[:, 0], np.arange(structure.n_planes + 1))
    # Kernels take contiguous arrays only.
    columns = map(np.ascontiguousarray, (table[:, 1], table[:, 2:4], table[:, 4]))
    return Couplings(first, *columns)


class ImageModel(NamedTuple):
    """A model of images: parameters, their shapes, and the number of inference iterations."""

    params: ImageParams
    structure: ImageStructure
    n_iter: int  # number of iterations of mean-field inference, in training and prediction

    @property
    def n_entries(self) -> int:
        """Number of binary variables per pixel, visible and hidden."""
        return self.structure.n_visible + self.structure.n_hidden

    def coupling_weights(self) -> np.ndarray:
        """Return the weight of each of the L links that `couplings_of` returns, (L,)."""
        p = self.params
        values = np.concatenate([p.pair_coef.ravel(), p.hidden_coef.ravel()])
        return values[couplings_of(self.structure).parameter]

    def pair_tables(self) -> np.ndarray:
        """Return the log-weights (M, K, K) of pairs of classes (k, l), for each of M pair steps.

        A pair step, from `pair_steps`, leads from the pixel of class k to the pixel of class l. The
        log-weights are ``e(k)' A_d e(l)``, with the encoding e of classes and the matrix A_d of
        step d.
        """
        k = self.structure.n_states
        indicator = np.eye(k)[:, 1:] - 1 / k
        return np.einsum("ka,mab,lb->mkl", indicator, self.params.pair_coef, indicator)
