"""Train chains and graphs for a large margin by cutting planes with one slack variable.

Each iteration finds, for every example, the labels that violate the margin most. These labels give
a linear lower bound (plane) of the mean hinge loss. A quadratic program with a variable for each
plane gives the next parameters, and a lower bound of the smallest objective (Joachims, Finley and
Yu 2009).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from skcrbm.learning.data import Clock
from skcrbm.learning.large_margin.cutting_planes import cut_planes
from skcrbm.learning.large_margin.frank_wolfe import FrankWolfeFit
from skcrbm.learning.large_margin.structured_hinge import HingeObjective
from skcrbm.learning.structured import TrainedCoordinates


class StructuredPlanes:
    """The training problem of chains and graphs, in the form that `cut_planes` solves.

    A vector holds the trained parameters times the square root of alpha. The penalty is therefore
    half the squared length of the vector.
    """

    draft = None
    method = None

    def __init__(self, model: Any, batch: Any, objective: HingeObjective, alpha: float):
        self.model, self.batch, self.objective = model, batch, objective
        self.coordinates = TrainedCoordinates(model, objective.trained)
        self.unit = np.sqrt(alpha)
        self.weight = float(batch.weight.sum())
        self.losses: list[float] = []  # objective at each vector for which a plane was computed

    @property
    def start(self) -> np.ndarray:
        """The vector from which training starts: the parameters of the model."""
        return self.unit * self.coordinates.vector(self.model.params)

    def plane(self, vector: np.ndarray, method: Any) -> tuple[np.ndarray, float, int]:
        """Find the labels that violate the margin most; return the slope and offset of the plane.

        `vector` holds the parameters at which the labels are found. The third result is the number
        of examples for which the search was not exact.
        """
        params = self.coordinates.params(vector / self.unit)
        model = self.model._replace(params=params)
        step, _ = self.objective.step(model, self.batch, Clock(0, 0), None)
        slope = -self.coordinates.gradient(step.gradient) / (self.unit * self.weight)
        loss = step.loss / self.weight
        self.losses.append(loss + 0.5 * float(vector @ vector))
        return slope, loss + float(slope @ vector), len(self.batch) - step.n_converged

    def result(self, vector, objective, gap, n_iter, n_open, reason) -> FrankWolfeFit:
        """Return the `FrankWolfeFit` for a vector; its gap is `gap` times `objective`."""
        params = self.coordinates.params(vector / self.unit)
        proven = 1 - n_open / len(self.batch)
        gap *= objective
        return FrankWolfeFit(params, objective, gap, proven, n_iter, list(self.losses), reason)


def fit_planes(
    problem: StructuredPlanes,
    *,
    tol: float,
    max_iter: int,
    on_pass_begin: Callable | None = None,
    on_pass_end: Callable | None = None,
) -> FrankWolfeFit:
    """Train until the duality gap is at most `tol` times the objective; see `cut_planes`."""
    return cut_planes(problem, tol, max_iter, on_pass_begin, on_pass_end)
