"""Train for a large margin by block-coordinate Frank-Wolfe: labels of rows, chains and graphs.

The problem is to minimise ``1/W sum_i c_i H_i(w) + alpha/2 |w|^2``, where H_i is the structured
hinge loss of example i, c_i is its weight, and W is the sum of all c_i. The dual variables of an
example are probabilities of a few label vectors v, which determine the parameters w. To visit an
example, the solver finds the labels that violate the margin most. A pairwise step then moves
probability mass to these labels from the labels that violate the margin least. The best step size
has a closed form.

`fit_frank_wolfe` makes the passes and checks the duality gap. A `DualBlocks` stores the dual
variables and visits the examples: `label_blocks.py` for label vectors with weights of pairs, and
`structured_blocks.py` for chains and graphs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import numpy as np

from skcrbm.utils.parallel import one_blas_thread

#: A pairwise step is made only if the violations of its two label arrays differ by more than
#: ROUNDING times (1 + the largest violation); a smaller difference counts as a rounding error.
#: Training also ends if the duality gap per example is at most ROUNDING. The unit of the gap is the
#: loss of a wrong label.
ROUNDING = 1e-12


class Visited(NamedTuple):
    """Mean loss and gap of the examples in a pass, measured when each example was visited."""

    loss: float  # mean hinge loss of an example
    # Estimate of the duality gap: mean difference between the largest violation of an example and
    # its expected violation (the expectation under the dual variables)
    gap: float
    moved: bool = True  # False if all steps would have been as small as rounding errors


class FrankWolfeFit(NamedTuple):
    """Result of `fit_frank_wolfe`."""

    params: Any
    objective: float  # objective of `params`, computed from the labels that the searches found
    gap: float  # objective minus the dual objective
    # share of the examples for which the search has proved that it found the labels with the
    # largest violation of the margin
    proven: float
    n_iter: int  # number of passes
    losses: list[float]  # training loss of each pass, with the penalty
    reason: str  # why training ended: "tol", "max_iter", "callback", "rounding" or "interrupted"


class DualBlocks(ABC):
    """Base class for the dual variables of all examples and the parameters that they determine.

    `params` is a named tuple of arrays, the parameters w.
    """

    #: The gap is checked after this number of passes, or None to check only by estimates.
    check_every: ClassVar[int | None] = 10
    #: The gap is also checked if its estimate is at most this share of the gap of the last check,
    #: or of the first loss.
    check_share: ClassVar[float] = 0.0
    #: True if the average of the parameters over all passes is a candidate for the result.
    averages: ClassVar[bool] = True

    params: Any

    @abstractmethod
    def visit(self, rng: np.random.RandomState) -> Visited:
        """Visit each example once, in random order."""

    @abstractmethod
    def rebuild(self) -> None:
        """Compute the parameters from the dual variables, which removes rounding errors."""

    @abstractmethod
    def penalty(self, params: Any) -> float:
        """Return the penalty of the parameters."""

    @abstractmethod
    def primal(self, params: Any) -> tuple[float, float]:
        """Return the objective of the parameters, and the share of examples with a proven search.

        The search of an example is proven if it shows that no other labels violate the margin more.
        """

    @abstractmethod
    def dual(self) -> float:
        """Return the dual objective, a lower bound of the objective of all parameters."""


def fit_frank_wolfe(
    blocks: DualBlocks,
    *,
    tol: float,
    max_iter: int,
    rng: np.random.RandomState,
    on_pass_begin: Callable | None = None,
    on_pass_end: Callable | None = None,
) -> FrankWolfeFit:
    """Train until the duality gap is at most ``tol`` times the objective, or for `max_iter` passes.

    There are two candidates for the result: the parameters after the last pass, and the weighted
    average of the parameters after each pass k, with weight k. The candidate with the lower
    objective is returned. The duality gap is this objective, computed in a pass over all examples
    with fixed parameters, minus the dual objective.

    `on_pass_begin` is called before each pass with its number, from 0. `on_pass_end` is called
    after each pass with four arguments: the number of the pass, its training loss, its estimated
    gap, and a function that returns the current `FrankWolfeFit`. `on_pass_end` returns True to stop
    the training.

    A FloatingPointError is raised if the parameters or the loss overflow.
    """
    with one_blas_thread(), np.errstate(over="ignore", invalid="ignore"):
        return _Run(blocks, tol, max_iter).fit(rng, on_pass_begin, on_pass_end)


class _Run:
    def __init__(self, blocks, tol, max_iter):
        self.blocks, self.tol, self.max_iter = blocks, tol, max_iter
        self.average = type(blocks.params)(*map(np.zeros_like, blocks.params))
        self.weight = 0.0
        self.losses: list[float] = []
        # The best result so far: a tuple of the parameters with the lowest objective, the value of
        # this objective, and the share of proven searches.
        self.best: Any = None
        self.bound = -np.inf

    def fit(self, rng, begin, end):
        """Make passes; see `fit_frank_wolfe`."""
        reason = "max_iter"
        try:
            for number in range(self.max_iter):
                if begin is not None:
                    begin(number)
                visited = self.blocks.visit(rng)
                loss = visited.loss + self.blocks.penalty(self.blocks.params)
                if not np.isfinite(loss):
                    raise FloatingPointError(
                        "training overflowed: X is too large or alpha is too small; scale X"
                    )
                self.losses.append(loss)
                self.weight += number + 1
                share = (number + 1) / self.weight
                for mean, part in zip(self.average, self.blocks.params):
                    mean += share * (part - mean)
                if self.check_is_due(number + 1, visited, loss):
                    self.check()
                    # If the objective is 0 (for example with a single class), rounding errors leave
                    # a small gap.
                    if self.gap <= max(self.tol * self.best[1], ROUNDING):
                        reason = "tol"
                    elif not visited.moved:
                        reason = "rounding"
                if end is not None and end(number, loss, visited.gap, self.current):
                    reason = "callback" if reason == "max_iter" else reason
                if reason != "max_iter":
                    break
        except KeyboardInterrupt:
            if not self.losses:
                raise
            reason = "interrupted"
            self.check()
        return self.current(reason)

    @property
    def gap(self):
        """The duality gap of the best parameters."""
        return max(self.best[1] - self.bound, 0.0)

    def check_is_due(self, n_passes, visited, loss):
        """Return True if the gap should be checked after a pass."""
        blocks = self.blocks
        share = blocks.check_share * (self.losses[0] if self.best is None else self.gap)
        regular = blocks.check_every is not None and n_passes % blocks.check_every == 0
        promising = visited.gap <= max(self.tol * loss, share, ROUNDING)
        return promising or regular or not visited.moved or n_passes == self.max_iter

    def check(self):
        """Update the largest dual objective, and the parameters with the lowest primal objective.

        Candidates for the best parameters are the parameters after the last pass and, unless
        `averages` of the blocks is False, the average of the parameters over all passes.
        """
        self.blocks.rebuild()
        self.bound = max(self.bound, self.blocks.dual())
        averages = [self.average] if self.blocks.averages else []
        for params in (self.blocks.params, *averages):
            objective, proven = self.blocks.primal(params)
            if self.best is None or objective < self.best[1]:
                self.best = type(params)(*(part.copy() for part in params)), objective, proven

    def current(self, reason="callback"):
        """Return the current `FrankWolfeFit`."""
        if self.best is None or reason == "callback":
            self.check()
        assert self.best is not None
        params, objective, proven = self.best
        n_iter = len(self.losses)
        return FrankWolfeFit(params, objective, self.gap, proven, n_iter, self.losses, reason)
