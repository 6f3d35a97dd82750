"""Train models of images: batches of images of any sizes, and the objective.

The loss is the negative log-belief of the observed classes after a fixed number of iterations of
mean-field inference. The gradient of this loss is exact. Pixels may have missing labels.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

import numpy as np

from skcrbm.energies.image_model import ImageModel, ImageStructure
from skcrbm.inference.images import Network, Sheet
from skcrbm.learning.objectives import Step
from skcrbm.learning.structured.objective import StructuredObjective
from skcrbm.learning.structured.rows import RaggedBatch
from skcrbm.targets.codes import MISSING
from skcrbm.utils.parallel import ordered_map
from skcrbm.utils.ragged import ImageArrays, sums_of_rows

# A batch is split into parts, to bound the memory of inference. The images of a part lie one below
# the other in a rectangle as wide as the widest image, and the rectangle has room for at most this
# number of pixels. A larger image gets a part of its own.
_PART_PLACES = 2**15
# Standard deviation of the initial weights of hidden variables. These weights are random, because
# hidden variables with equal weights would stay equal.
_SMALL = 0.1


@dataclass(frozen=True, eq=False)
class ImageBatch(RaggedBatch):
    """Batch of n images; its arrays are `ImageArrays`, and its items are pixels.

    The weight of an image in the loss is the sum of the weights of its pixels with a label.
    """

    loss_weight: np.ndarray = field(kw_only=True)  # (T,) weights of pixels; 0 without a label

    word: ClassVar[str] = "image"
    _of_items: ClassVar[tuple[str, ...]] = ("path", "loss_weight")

    @classmethod
    def of(cls, arrays: ImageArrays, path: np.ndarray, pixel_weight: np.ndarray) -> ImageBatch:
        """Return the batch of all images of a list, whose pixels have weights (T,)."""
        loss_weight = pixel_weight * (path != MISSING)
        weight = sums_of_rows(loss_weight, arrays.start)
        return cls(arrays, path, weight, np.arange(len(weight)), loss_weight=loss_weight)

    def _groups(self, n_entries):
        """Return parts of images with similar widths.

        Every image of a part takes as many columns as the widest image of the part, so narrow and
        wide images go to different parts.
        """
        order = np.argsort(self.arrays.shapes[:, 1], kind="stable")
        cuts, rows = [], 0
        for i, (height, width) in enumerate(self.arrays.shapes[order].tolist()):
            rows += height
            if rows > height and rows * width > _PART_PLACES:
                cuts.append(i)
                rows = height
        return np.split(order, cuts)

    def observed(self) -> np.ndarray:
        """Return the indices of the pixels with a label."""
        if "observed" not in self._cache:
            self._cache["observed"] = np.flatnonzero(self.path != MISSING)
        return self._cache["observed"]

    def prepared(self, margin: int) -> tuple[Sheet, np.ndarray]:
        """Return the `Sheet` of the images with margins of width `margin`, and its pixel values."""
        key = "sheet", margin
        if key not in self._cache:
            sheet = Sheet.of(self.arrays.shapes, margin)
            self._cache[key] = sheet, sheet.planes(self.arrays.values)
        return self._cache[key]


def image_params(structure: ImageStructure, rng: np.random.RandomState):
    """Return initial parameters: random weights for hidden variables, and 0 for the rest."""
    params = structure.zeros()
    if structure.n_hidden:
        params.coef[structure.n_visible :] = rng.normal(
            0, _SMALL, params.coef[structure.n_visible :].shape
        )
        params.hidden_coef[...] = rng.normal(0, _SMALL, params.hidden_coef.shape)
    return params


def image_fields(model: ImageModel, part: ImageBatch) -> np.ndarray:
    """Return the fields (P, T) of the P visible and hidden variables of each pixel in a part.

    The fields depend on X only, and not on the classes of neighbouring pixels.
    """
    sheet, planes = part.prepared(model.structure.margin)
    return Network(model._replace(n_iter=0), sheet).run(planes).log_odds[:, sheet.place]


def log_beliefs(model: ImageModel, part: ImageBatch, known: np.ndarray | None = None):
    """Return, for the pixels in a part of a batch, the log-beliefs (K, T) of the classes.

    `known` (T,) contains the known class of each pixel, or `MISSING`.
    """
    sheet, planes = part.prepared(model.structure.margin)
    log_p = _normalised(Network(model, sheet).run(planes, known), model, sheet)
    if known is not None:
        given = np.flatnonzero(known != MISSING)
        log_p[:, given] = -np.inf
        log_p[known[given], given] = 0.0
    return log_p


def _normalised(trace, model, sheet):
    """Return the log-beliefs (K, T) of the classes after the last iteration."""
    log_odds = trace.log_odds[: model.structure.n_visible, sheet.place]
    top = log_odds.max(axis=0, initial=0.0)  # the log-odds of class 0 are 0
    log_p = np.empty((len(log_odds) + 1, len(top)))
    log_p[0] = -top
    np.subtract(log_odds, top, out=log_p[1:])
    log_p -= np.log(np.exp(log_p).sum(axis=0))
    return log_p


class ImageLikelihood(StructuredObjective):
    """Negative log-belief of the observed classes after inference, with its exact gradient."""

    def step(self, model, batch: Any, clock, state):
        """Return the `Step` of a batch; see `Objective`."""
        steps = ordered_map(partial(_part_step, model), batch.pieces(model.n_entries), self.n_jobs)
        return Step.total(steps), state

    def _loss(self, model, piece):
        return _loss(log_beliefs(model, piece), piece)


def _part_step(model, part):
    """Return the `Step` of a part of a batch."""
    sheet, planes = part.prepared(model.structure.margin)
    network = Network(model, sheet)
    trace = network.run(planes)
    log_p = _normalised(trace, model, sheet)
    weight, observed = part.loss_weight, part.observed()
    difference = weight * np.exp(log_p[1:])
    others = observed[part.path[observed] > 0]
    difference[part.path[others] - 1, others] -= weight[others]
    slope = np.zeros_like(trace.log_odds)
    slope[: model.structure.n_visible, sheet.place] = difference
    return Step(network.gradient(planes, trace, slope), _loss(log_p, part), len(part))


def _loss(log_p, part):
    """Add up the weighted losses of all observed pixels in a part."""
    observed = part.observed()
    return -float(part.loss_weight[observed] @ log_p[part.path[observed], observed])
