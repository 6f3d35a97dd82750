"""Train models of images: batches of images of any sizes, and the objective.

The loss is the negative log-belief of the observed classes after a fixed number of iterations of
mean-field inference. The gradient of this loss is exact. Pixels may have missing labels.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from skcrbm.energies.image_model import ImageModel, ImageStructure
from skcrbm.inference.images import Network, Sheet
from skcrbm.learning.objectives import Objective, Step
from skcrbm.learning.structured import SHARE, TrainedCoordinates
from skcrbm.utils.images import ImageArrays
from skcrbm.utils.parallel import ordered_map

MISSING = -1  # class of a pixel whose label is not observed
# A batch is split into parts, to bound the memory of inference. The images of a part lie one below
# the other in a rectangle as wide as the widest image, and the rectangle has room for at most this
# number of pixels. A larger image gets a part of its own.
_PART_PLACES = 2**15
# Standard deviation of the initial weights of hidden variables. These weights are random, because
# hidden variables with equal weights would stay equal.
_SMALL = 0.1


@dataclass(frozen=True, eq=False)
class ImageBatch:
    """Batch of n images, with all pixels stored one after the other."""

    arrays: ImageArrays
    path: np.ndarray  # (T,) index of the class of each pixel, or `MISSING` if it is not observed
    pixel_weight: np.ndarray  # (T,) weights of the pixels
    pixels: Any = None  # (T,) indices of the pixels in the batch from which `take` took them
    _parts: dict = field(default_factory=dict, repr=False)  # cache of the methods below

    @property
    def start(self) -> np.ndarray:
        """First pixel (n + 1,) of each image."""
        return self.arrays.start

    @property
    def weight(self) -> np.ndarray:
        """Weight (n,) of each image in the loss: the sum over its pixels with a label."""
        return np.add.reduceat(self.observed()[0], self.start[:-1])

    def __len__(self) -> int:
        """Return the number of images."""
        return len(self.arrays.shapes)

    def blocks(self) -> list[ImageBatch]:
        """Return a list of the whole batch, because the objectives split a batch themselves."""
        return [self]

    def computed(self) -> ImageBatch:
        """Return the batch unchanged, because its pixels are stored and need no computation."""
        return self

    def take(self, numbers: np.ndarray) -> ImageBatch:
        """Return the images with the indices `numbers`, in the order of `numbers`."""
        arrays, pixels = self.arrays.take(numbers)
        return ImageBatch(arrays, self.path[pixels], self.pixel_weight[pixels], pixels)

    def parts(self) -> list[ImageBatch]:
        """Split the batch into parts of images with similar widths, to bound the memory.

        Every image of a part takes as many columns as the widest image of the part, so narrow and
        wide images go to different parts. The parts do not depend on the number of threads.
        """
        if "parts" not in self._parts:
            order = np.argsort(self.arrays.shapes[:, 1], kind="stable")
            cuts, rows = [0], 0
            for i, (height, width) in enumerate(self.arrays.shapes[order].tolist()):
                rows += height
                if rows > height and rows * width > _PART_PLACES:
                    cuts.append(i)
                    rows = height
            cuts.append(len(self))
            self._parts["parts"] = [self.take(order[a:b]) for a, b in pairwise(cuts)]
        return self._parts["parts"]

    def observed(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the weight (T,) of each pixel in the loss, and the indices of observed pixels.

        Pixels that are not observed have the weight 0.
        """
        if "observed" not in self._parts:
            labelled = self.path != MISSING
            self._parts["observed"] = self.pixel_weight * labelled, np.flatnonzero(labelled)
        return self._parts["observed"]

    def prepared(self, margin: int) -> tuple[Sheet, np.ndarray]:
        """Return the `Sheet` of the images with margins of width `margin`, and its pixel values."""
        if margin not in self._parts:
            sheet = Sheet.of(self.arrays.shapes, margin)
            self._parts[margin] = sheet, sheet.planes(self.arrays.values)
        return self._parts[margin]


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
    top = np.maximum(log_odds.max(axis=0), 0.0)
    log_p = np.empty((len(log_odds) + 1, len(top)))
    log_p[0] = -top
    np.subtract(log_odds, top, out=log_p[1:])
    log_p -= np.log(np.exp(log_p).sum(axis=0))
    return log_p


class ImageLikelihood(Objective):
    """Negative log-belief of the observed classes after inference, with its exact gradient.

    The result does not depend on `n_jobs`, the number of threads.
    """

    share = SHARE
    state_key = "images"

    def __init__(self, n_jobs: int | None = None):
        self.n_jobs = n_jobs

    def coordinates(self, model, batch, penalty):
        """Return the object that converts parameters to a vector for L-BFGS, and back."""
        return TrainedCoordinates(model, (True,) * len(model.params))

    def step(self, model, batch: Any, clock, state):
        """Return the `Step` of a batch; see `Objective`."""
        steps = ordered_map(partial(_part_step, model), batch.parts(), self.n_jobs)
        return Step.total(steps), state

    def score(self, model, batch: Any, epoch):
        """Return minus the mean loss of the pixels of held-out images."""
        losses = [_loss(log_beliefs(model, part), part) for part in batch.parts()]
        return -sum(losses) / batch.weight.sum()


def _part_step(model, part):
    """Return the `Step` of a part of a batch."""
    sheet, planes = part.prepared(model.structure.margin)
    network = Network(model, sheet)
    trace = network.run(planes)
    log_p = _normalised(trace, model, sheet)
    weight, observed = part.observed()
    difference = weight * np.exp(log_p[1:])
    others = observed[part.path[observed] > 0]
    difference[part.path[others] - 1, others] -= weight[others]
    slope = np.zeros_like(trace.log_odds)
    slope[: model.structure.n_visible, sheet.place] = difference
    return Step(network.gradient(planes, trace, slope), _loss(log_p, part), len(part))


def _loss(log_p, part):
    """Add up the weighted losses of all observed pixels in a part."""
    weight, observed = part.observed()
    return -float(weight[observed] @ log_p[part.path[observed], observed])
