"""Define the sources, objectives and penalty search that training of chains and graphs shares.

A row of training data is a whole sequence or graph. `fit` (`learning/fit.py`) uses the objectives
like all other objectives: L-BFGS takes all rows at once, and stochastic solvers take mini-batches.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np

from skcrbm.learning.data import Source
from skcrbm.learning.lbfgs import descend
from skcrbm.learning.objectives import Objective, Step
from skcrbm.learning.penalties import L2, ElasticNet
from skcrbm.utils.parallel import ordered_map

# alpha="auto" tries penalties in this order, the strongest first. The numbers multiply the penalty
# in an objective that adds up the losses of all rows, so alpha is the number divided by the total
# weight of the rows. The search stops after PATIENCE successive penalties that do not improve the
# best score.
TOTALS = (100.0, 30.0, 10.0, 3.0, 1.0, 0.3, 0.1, 0.03, 0.01, 0.003)
PATIENCE = 2
# A fit for one of the penalties in TOTALS stops when ten iterations lower the objective by no more
# than _PATH_SHARE times its value, or after _PATH_ITERATIONS iterations.
_PATH_SHARE = 1e-4
_PATH_ITERATIONS = 100
#: A final fit stops when ten iterations lower the objective by at most SHARE times its value.
SHARE = 1e-6


class Residuals(NamedTuple):
    """Loss of a part of a batch, and its gradient with respect to log-weights."""

    loss: float
    states: np.ndarray  # (T, K), gradient with respect to the log-weights of single states
    pairs: np.ndarray  # gradient with respect to the log-weights of pairs of states
    converged: bool = True  # False if inference did not converge
    cliques: Any = None  # gradient with respect to the tables of cliques; None without cliques


class StructureSource(Source):
    """Source of mini-batches of sequences or graphs, in random order.

    `batch` contains all sequences or graphs, for example as a `SequenceBatch`. If all of them fit
    into a single mini-batch, the source yields `batch` itself, without shuffling.
    """

    def __init__(self, batch: Any):
        self.all = batch
        self.n_rows = len(batch)
        self.total_weight = float(batch.weight.sum())

    def batches(self, rng: np.random.RandomState, size: int) -> Iterator[Any]:
        """Yield the batches of one pass; see `Source`."""
        if size >= self.n_rows:
            yield self.all
            return
        order = rng.permutation(self.n_rows)
        for start in range(0, self.n_rows, size):
            yield self.all.take(order[start : start + size])

    def split(self, fraction: float, rng, stratify: bool = False) -> Any:
        """Hold out a fraction of the sequences or graphs for validation; see `Source`."""
        n_held = int(np.ceil(fraction * self.n_rows))
        if n_held >= self.n_rows:
            return super().split(fraction, rng, stratify)
        order = rng.permutation(self.n_rows)
        held, rest = np.sort(order[:n_held]), np.sort(order[n_held:])
        return StructureSource(self.all.take(rest)), self.all.take(held)


class TrainedCoordinates:
    """Convert the trained parameters of a model to one vector for L-BFGS, and back.

    `trained` has one entry per array of ``model.params``. If the entry is False, the array keeps
    its initial value.
    """

    def __init__(self, model: Any, trained: tuple[bool, ...]):
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
    """Base class of the objectives of chains and graphs.

    A subclass computes the loss of a part of the batch, and the gradient of the loss with respect
    to the log-weights of single states and of pairs of states.

    `trained` has an entry for each array of ``model.params``: True if the array is trained. Results
    do not depend on `n_jobs`, the number of threads.
    """

    share = SHARE
    #: True if the penalty includes the array `intercept`.
    penalises_intercept: ClassVar[bool] = False

    def __init__(self, trained: tuple[bool, ...], n_jobs: int | None = None):
        self.trained = trained
        self.n_jobs = n_jobs
        self.state_key = type(self).__name__, trained

    def coordinates(self, model, batch, penalty):
        """Return the object that converts parameters to a vector for L-BFGS, and back."""
        return TrainedCoordinates(model, self.trained)

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

    def score(self, model, batch: Any, epoch):
        """Return minus the mean loss of held-out rows."""
        pieces = batch.pieces(model.n_entries)
        return -sum(self._residuals(model, piece).loss for piece in pieces) / batch.weight.sum()

    @abstractmethod
    def _residuals(self, model, piece) -> Residuals:
        """Return the loss of a part of the batch, and its gradient."""


# -------------------------------------------------------------------------------- the penalty


def structured_penalty(
    params: Any, alpha: float, l1_ratio: float, with_intercept: bool = False
) -> L2:
    """Return the penalty of all arrays of `params`, a named tuple.

    The array `intercept` has no penalty unless `with_intercept` is True.
    """

    def factors(factor):
        found = type(params)(*([factor] * len(params)))
        return found if with_intercept else found._replace(intercept=0.0)

    if l1_ratio == 0:
        return L2(factors(alpha))
    return ElasticNet(factors(alpha * (1 - l1_ratio)), factors(alpha * l1_ratio))


def gradient_path(model: Any, rest: Any, objective: Objective, l1_ratio: float) -> Callable:
    """Return a function that trains by L-BFGS; it is the argument `train` of `penalty_path`.

    `rest` is the batch of training rows.
    """
    weight = float(rest.weight.sum())

    def train(total, neighbour):
        start = model if neighbour is None else neighbour
        penalty = structured_penalty(model.params, total / weight, l1_ratio)
        steps = descend(start, rest, objective, penalty, _PATH_ITERATIONS, _PATH_SHARE)
        for function, minimizer, _ in steps:
            reached = function, minimizer
        function, minimizer = reached
        return model._replace(params=function.coordinates.params(minimizer.x))

    return train
