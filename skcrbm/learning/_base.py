"""The protocol that every learning rule follows."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np


@dataclass(frozen=True)
class Batch:
    """Rows of training data.

    Attributes
    ----------
    X : ndarray or CSR matrix (N, D)
    visible : ndarray (N, V)
        0/1 outputs, NaN where not observed.
    weight : ndarray (N,)
        Positive row weights.
    index : ndarray (N,) of int
        Position of each row in the training set, for rules that keep one chain a row.
    """

    X: Any
    visible: np.ndarray
    weight: np.ndarray
    index: np.ndarray

    def rows(self, index):
        """Return the given rows."""
        return Batch(self.X[index], self.visible[index], self.weight[index], self.index[index])

    def __len__(self):
        """Return the number of rows."""
        return len(self.weight)


class Step(NamedTuple):
    """What a rule says about one batch, as sums over its rows times their weights.

    Attributes
    ----------
    gradient : params
        Of the loss, same structure as the parameters.
    loss : float
    n_converged : int
        Rows whose inference converged.
    """

    gradient: Any
    loss: float
    n_converged: int


class Objective(ABC):
    """A learning rule: a loss, or just a direction, evaluated batch by batch.

    Parameters
    ----------
    inference : InferenceMethod
    n_jobs : int or None
    n_gibbs_steps : int
        For rules that run chains.
    key : uint64
        For rules that draw random numbers.
    """

    #: Whether every output must be observed.
    needs_complete: ClassVar[bool] = False
    #: Whether random numbers are drawn.
    draws: ClassVar[bool] = False
    #: Whether the loss is what training lowers, so that it may decide when to stop.
    is_loss: ClassVar[bool] = True
    #: Whether something is kept for each training row from one visit to the next.
    keeps_chains: ClassVar[bool] = False

    def __init__(self, inference, n_jobs=None, n_gibbs_steps=1, key=None):
        self.inference = inference
        self.n_jobs = n_jobs
        self.n_gibbs_steps = n_gibbs_steps
        self.key = key

    def start(self, n_rows):  # noqa: B027  (most rules keep nothing)
        """Begin a training run on some of `n_rows` rows, whose `Batch.index` is below that."""

    @abstractmethod
    def step(self, model, batch, epoch):
        """Return the `Step` of a batch in the given epoch (0-based, for schedules)."""
