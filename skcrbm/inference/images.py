"""Infer the classes of pixels by mean field with a fixed number of iterations.

An iteration computes the log-odds of all pixels at the same time: the field of a pixel plus the
couplings times the neighbours' beliefs of the previous iteration. Training differentiates through
the iterations, so the parameters are fitted to this number of iterations.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skcrbm.energies.image_model import (
    ImageModel,
    ImageParams,
    couplings_of,
    window_steps,
)
from skcrbm.kernels.planes import (
    Links,
    add_link_products,
    add_linked,
    beliefs_gradient,
    centred_beliefs,
)


class Sheet(NamedTuple):
    """Layout of several images in a flat array, one image below the other, with margins.

    A flat array of this layout is called a plane. It has n places. The place of each of the T
    pixels holds a number such as the log-odds of a class. The places in the margins around the
    images hold zeros.
    """

    place: np.ndarray  # (T,): index of each pixel in a plane
    inside: np.ndarray  # (n,): 1 at the pixels and 0 in the margins
    stride: int  # distance in a plane from a pixel to the pixel below
    begin: int  # first place that inference computes
    end: int  # place after the last place that inference computes

    @classmethod
    def of(cls, shapes: np.ndarray, margin: int) -> Sheet:
        """Return the layout of images with the given `shapes`, a row (height, width) per image."""
        stride = int(shapes[:, 1].max()) + margin
        begin = margin * stride + margin
        places, row = [], 0
        for height, width in shapes.tolist():
            rows = np.arange(row, row + height) * stride + begin
            places.append((rows[:, None] + np.arange(width)).ravel())
            row += height + margin
        place = np.concatenate(places)
        end = int(place[-1]) + 1
        inside = np.zeros(end + begin)
        inside[place] = 1.0
        return cls(place, inside, stride, begin, end)

    def planes(self, values: np.ndarray) -> np.ndarray:
        """Copy Q values of each pixel, (Q, T), to Q planes (Q, n) with zeros in the margins."""
        planes = np.zeros((len(values), len(self.inside)))
        planes[:, self.place] = values
        return planes


class Trace(NamedTuple):
    """Log-odds after the last iteration, and the beliefs before each iteration."""

    log_odds: np.ndarray  # (P, n): planes of the classes (without the first), then hidden variables
    beliefs: list[np.ndarray]  # centred beliefs (P, n) of each iteration, 0 in the margins


class Network:
    """Mean-field inference in the images of a `Sheet`, and its gradient.

    `model` has the parameters and the number of iterations, and `sheet` the layout of the images.
    """

    def __init__(self, model: ImageModel, sheet: Sheet):
        self.model = model
        self.sheet = sheet
        structure, params = model.structure, model.params
        found = couplings_of(structure)
        shift = found.step @ np.array([sheet.stride, 1])
        self.couplings = Links(found.first, found.source, shift, model.coupling_weights())
        n = structure.n_channels * structure.window**2
        source = np.repeat(np.arange(structure.n_channels), structure.window**2)
        shift = np.tile(
            window_steps(structure.window) @ np.array([sheet.stride, 1]), structure.n_channels
        )
        self.inputs = Links(
            np.arange(structure.n_planes + 1) * n,
            np.tile(source, structure.n_planes),
            np.tile(shift, structure.n_planes),
            params.coef.ravel(),
        )
        self._range = sheet.begin, sheet.end

    def run(self, X: np.ndarray, known: np.ndarray | None = None) -> Trace:
        """Run all iterations.

        X (C, n) has a plane for each of the C channels of the images. `known` (T,) has the known
        class of each pixel, and -1 for pixels whose class is not known.
        """
        model, sheet = self.model, self.sheet
        field = np.zeros((model.structure.n_planes, X.shape[1]))
        field += model.params.intercept[:, None]
        add_linked(self.inputs, X, *self._range, field)
        log_odds, beliefs = field, []
        for _ in range(model.n_iter):
            belief = np.zeros_like(field)
            centred_beliefs(log_odds, model.structure.n_visible, sheet.inside, *self._range, belief)
            if known is not None:
                self._clamp(belief, known)
            beliefs.append(belief)
            log_odds = field.copy()
            add_linked(self.couplings, belief, *self._range, log_odds)
        return Trace(log_odds, beliefs)

    def _clamp(self, belief, known):
        """Set the beliefs of pixels whose class is known.

        Beliefs are centred probabilities: 1 - 1/K for the known class, and -1/K for the other
        classes.
        """
        given = np.flatnonzero(known >= 0)
        place = self.sheet.place[given]
        belief[: self.model.structure.n_visible, place] = -1 / self.model.structure.n_states
        others = known[given] > 0
        belief[known[given][others] - 1, place[others]] += 1.0

    def gradient(self, X: np.ndarray, trace: Trace, slope: np.ndarray) -> ImageParams:
        """Return the gradient of a loss with respect to the parameters.

        `slope` (P, n) is the gradient of the loss with respect to `trace.log_odds`. It is 0 in the
        margins.
        """
        structure, params = self.model.structure, self.model.params
        total = np.zeros_like(slope)
        links = np.zeros(len(self.couplings.weight))
        for belief in reversed(trace.beliefs):
            total += slope
            add_link_products(self.couplings, slope, belief, *self._range, links)
            below = np.zeros_like(slope)
            # The matrix of the couplings between pixels is symmetric: if pixel a has a coupling to
            # pixel b, b has the same coupling to a. So the gradient uses the same function as
            # `run`.
            add_linked(self.couplings, slope, *self._range, below)
            beliefs_gradient(belief, structure.n_visible, self.sheet.inside, *self._range, below)
            slope = below
        total += slope
        weights = np.zeros(params.coef.size)
        add_link_products(self.inputs, total, X, *self._range, weights)
        parameter = couplings_of(structure).parameter
        n_pairs, n = params.pair_coef.size, params.pair_coef.size + params.hidden_coef.size
        links = np.bincount(parameter, links, n)
        return ImageParams(
            weights.reshape(params.coef.shape),
            total.sum(axis=1),
            links[:n_pairs].reshape(params.pair_coef.shape),
            links[n_pairs:].reshape(params.hidden_coef.shape),
        )
