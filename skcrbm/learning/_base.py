"""What every learning rule declares, and what it is handed."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy.sparse import issparse

from skcrbm.utils.columns import LazyRows, dense_chunks

# Far more than the draws of one visit, so that no two visits share one.
_DRAWS_PER_STEP = 2**20


@dataclass(frozen=True, eq=False)  # what was worked out for a batch is looked up by it
class Batch:
    """Rows of training data.

    Attributes
    ----------
    X : ndarray, CSR matrix or LazyRows (N, D)
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

    def blocks(self):
        """Cut into batches of a few megabytes, where X is dense; they are views of this one."""
        if issparse(self.X) or self.X.shape[1] == 0:
            return [self]
        chunks = dense_chunks(self.X, self.visible.shape[1])
        return [self] if len(chunks) == 1 else [self.rows(rows) for rows in chunks]

    def worked_out(self):
        """Return the batch with X as an array, where it is `LazyRows`."""
        return replace(self, X=np.asarray(self.X)) if isinstance(self.X, LazyRows) else self

    def __len__(self):
        """Return the number of rows."""
        return len(self.weight)


class Clock(NamedTuple):
    """When a batch is visited, which also says what random numbers that visit sees.

    Attributes
    ----------
    epoch : int
        0-based, counted over warm starts; for schedules.
    step : int
        Counts the batches over the whole life of a model, refits and warm starts included:
        no two visits have the same one.
    key : uint64 or None
        Of the fit; None for a rule that does not draw.
    """

    epoch: int
    step: int
    key: Any = None

    def draw(self, number):
        """Counter of a draw of this visit, for random numbers that no other visit sees.

        Parameters
        ----------
        number : int
            Counts the draws of a stream in this visit.
        """
        return self.step * _DRAWS_PER_STEP + number


class Step(NamedTuple):
    """What a rule says about one batch, as sums over its rows times their weights.

    Attributes
    ----------
    gradient : params
        Of the loss, same structure as the parameters; flat arrays or `RowSparse` ones. The loop
        changes it in place.
    loss : float
    n_converged : int
        Rows whose inference converged.
    effective_share : float or None
        Of weighted states, the share that they are worth of as many equal ones.
    """

    gradient: Any
    loss: float
    n_converged: int
    effective_share: float | None = None

    @classmethod
    def total(cls, steps):
        """Sum of the steps of parts of a batch, none of them with an effective share.

        They may be made one by one: of gradients, no more than are being added are held.
        """
        steps = iter(steps)
        total = next(steps)
        for step in steps:
            parts = zip(total.gradient, step.gradient)
            gradient = type(total.gradient)(*(a + b for a, b in parts))
            loss, n_converged = total.loss + step.loss, total.n_converged + step.n_converged
            total = cls(gradient, loss, n_converged)
            del step, parts  # before the next one is made
        return total


class Objective(ABC):
    """A learning rule: a loss, or just a direction, evaluated batch by batch.

    An objective holds options only. What it keeps from one batch to the next, such as chains,
    is the `state` that `start` returns and that the loop hands in and takes out again.

    A model is a named tuple with a field `params`, itself a named tuple of arrays, and the
    methods ``energy(X)``, one model per row or a single one that stands for all rows, and
    ``gradient(X, unary, statistics)``, see `ConditionalRBM.gradient`. A rule may ask for
    another kind of model if it says so.
    """

    #: Hyperparameters of the estimator that the constructor takes, see `from_options`.
    options: ClassVar[tuple] = ()
    #: Whether every output must be observed.
    needs_complete: ClassVar[bool] = False
    #: Whether random numbers are drawn.
    draws: bool = False
    #: Whether the loss is what training lowers, so that it may decide when to stop.
    is_loss: ClassVar[bool] = True
    #: Whether the state belongs to the training rows, by `Batch.index`, so that it means
    #: nothing for other rows.
    keeps_chains: bool = False

    #: What else the form of the state depends on, besides the rule and the rows.
    state_key: Any = None

    @classmethod
    def from_options(cls, inference, n_jobs=None, **options):
        """Return the rule, with those of an estimator's hyperparameters that it takes.

        Parameters
        ----------
        inference : InferenceMethod
        n_jobs : int or None
        **options
            Any hyperparameters; those not named in `cls.options` are left alone.
        """
        return cls(inference, n_jobs, **{name: options[name] for name in cls.options})

    def start(self, n_rows):
        """Return the state before the first batch of `n_rows` rows; None if nothing is kept."""
        return None

    def rows_read(self, model, batch):
        """Return which rows of each parameter array a step on a batch reads.

        None, or None in place of an array's, stands for all. Rules that hand out `RowSparse`
        gradients say so, as rows that are not read need not be brought up to date before.
        """
        return None

    @abstractmethod
    def step(self, model, batch, clock, state):
        """Evaluate the rule on a batch.

        Parameters
        ----------
        model : named tuple with a `params` field
        batch : Batch
        clock : Clock
        state : object
            Of `start` or of the last step. Its arrays may be changed in place.

        Returns
        -------
        step : Step
        state : object
        """

    @abstractmethod
    def score(self, model, batch, epoch):
        """Return how good a model is on held-out rows, higher is better."""
