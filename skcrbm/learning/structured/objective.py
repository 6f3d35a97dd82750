"""Define the objectives of structured models, and the vectors that L-BFGS optimises.

A row of training data is a whole sequence, graph or image, or a row with several outputs. `fit`
(`learning/fit.py`) uses the objectives like all other objectives: L-BFGS takes all rows at once,
and stochastic solvers take mini-batches.
"""

from __future__ import annotations

from abc import abstractmethod
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np

from skcrbm.learning.objectives import Objective, Step
from skcrbm.learning.penalties import ElasticNet
from skcrbm.utils.parallel import ordered_map

#: A final fit stops when ten iterations lower the objective by at most SHARE times its value.
SHARE = 1e-6


class Residuals(NamedTuple):
    """Loss of a part of a batch, and its gradient with respect to log-weights."""

    loss: float
    states: np.ndarray  # (T, K), gradient with respect to the log-weights of single states
    pairs: np.ndarray  # gradient with respect to the log-weights of pairs of states
    converged: bool = True  # False if inference did not converge
    cliques: Any = None  # gradient with respect to the tables of cliques; None without cliques


class TrainedCoordinates:
    """Convert the trained parameters of a model to one vector for L-BFGS, and back.

    `trained` is a named tuple like ``model.params``. If its entry for an array is False, the array
    keeps its initial value.
    """

    def __init__(self, model: Any, trained: Any):
        self.start = model.params
        self.trained = trained

    def vector(self, params: Any) -> np.ndarray:
        """Convert parameters to a vector of the trained parameters."""
        return np.concatenate([p.ravel() for p, used in zip(params, self.trained) if used])

    gradient = vector

    def params(self, vector: np.ndarray) -> Any:
        """Convert a vector to parameters; arrays that are not trained keep their values."""
        params, first = [], 0
        for p, used in zip(self.start, self.trained):
            if used:
                params.append(vector[first : first + p.size].reshape(p.shape))
                first += p.size
            else:
                params.append(p)
        return type(self.start)(*params)

    def lengths(self, penalty: ElasticNet) -> np.ndarray:
        """Return the L1 factor of each entry of the vector."""
        factors = [
            np.full(p.size, float(factor))
            for p, used, factor in zip(self.start, self.trained, penalty.l1_factors)
            if used
        ]
        return np.concatenate(factors)


class StructuredObjective(Objective):
    """Base class of the objectives of structured models.

    `trained` is a named tuple like ``model.params``, with True for each array that is trained.
    Results do not depend on `n_jobs`, the number of threads.
    """

    share = SHARE
    #: True if the penalty includes the array `intercept`.
    penalises_intercept: ClassVar[bool] = False

    def __init__(self, trained: Any, n_jobs: int | None = None):
        self.trained = trained
        self.n_jobs = n_jobs
        self.state_key = type(self).__name__, trained

    def coordinates(self, model, batch, penalty):
        """Return the object that converts parameters to a vector for L-BFGS, and back."""
        return TrainedCoordinates(model, self.trained)

    def score(self, model, batch: Any, epoch):
        """Return minus the mean loss of held-out rows."""
        pieces = batch.pieces(model.n_entries)
        return -sum(self._loss(model, piece) for piece in pieces) / batch.weight.sum()

    @abstractmethod
    def _loss(self, model, piece) -> float:
        """Return the loss of a part of the batch."""


class LogWeightObjective(StructuredObjective):
    """Base class of the objectives of models with log-weights of single states and of pairs.

    A subclass computes the loss of a part of the batch, and the gradient of the loss with respect
    to the log-weights.
    """

    def step(self, model, batch: Any, clock, state):
        """Return the `Step` of a batch; see `Objective`."""
        gradient, loss = type(model.params)(*map(np.zeros_like, model.params)), 0.0
        pieces = batch.pieces(model.n_entries)
        n_converged = 0
        residuals = ordered_map(partial(self._residuals, model), pieces, self.n_jobs)
        for piece, found in zip(pieces, residuals):
            model.add_gradient(piece, found.states, found.pairs, gradient)
            if found.cliques is not None:
                gradient.cliques[...] += found.cliques
            loss += found.loss
            n_converged += len(piece) * found.converged
        for part, used in zip(gradient, self.trained):
            part[...] *= used
        return Step(gradient, loss, n_converged), state

    def _loss(self, model, piece):
        return self._residuals(model, piece).loss

    @abstractmethod
    def _residuals(self, model, piece) -> Residuals:
        """Return the loss of a part of the batch, and its gradient."""
