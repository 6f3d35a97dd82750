"""Training by L-BFGS on all rows at once: for exact objectives that draw no numbers."""

import time
from dataclasses import dataclass

import numpy as np

from skcrbm.inference.base import MagnitudeError
from skcrbm.learning._base import Clock, Objective, Step
from skcrbm.learning._coordinates import CenteredCoordinates
from skcrbm.learning._lbfgs import LBFGS
from skcrbm.learning._loop import Epoch, History
from skcrbm.learning._penalty import Penalty
from skcrbm.learning._training import (
    INTERRUPTED,
    Progress,
    TrainingResult,
    nothing,
    rule_of,
    told,
)
from skcrbm.utils.parallel import one_blas_thread
from skcrbm.utils.progress import LiveLine
from skcrbm.utils.warnings import warn_user

# A fit has converged when so many iterations lower the objective by no more than `tol`, nor by
# more than this share of it. Without hidden units it has one minimum, which few more
# iterations reach; with them there are many, and on held-out rows what comes later is no better.
_WINDOW = 10
_SHARE, _CONVEX_SHARE = 5e-4, 1e-8


class RowsObjective:
    """Mean loss of fixed rows plus a penalty, as a function of one vector.

    Parameters
    ----------
    model : ConditionalRBM
        Gives the shapes; its numbers do not matter.
    batch : Batch
        X in float64, as the whole computation.
    objective : Objective
        Its loss must be what its gradient belongs to, and it must not draw random numbers.
    penalty : L2

    Attributes
    ----------
    coordinates : CenteredCoordinates
        What the vector stands for.
    """

    def __init__(self, model, batch, objective, penalty):
        self.model, self.objective, self.penalty = model, objective, penalty
        self.blocks = batch.blocks()
        self.coordinates = CenteredCoordinates(model, batch, penalty)
        self.total = float(batch.weight.sum())
        self.n_evaluations = 0

    def __call__(self, vector):
        """Return the value, the gradient, and how many rows' inference has converged.

        The value is infinite where the numbers have become too large to compute it.
        """
        params = self.coordinates.params(vector)
        if not all(np.isfinite(np.vdot(p, p)) for p in params):
            return np.inf, vector, 0
        clock = Clock(0, self.n_evaluations)
        self.n_evaluations += 1
        model = self.model._replace(params=params)
        try:
            step = Step.total(self._step(model, block, clock) for block in self.blocks)
        except MagnitudeError:
            return np.inf, vector, 0
        gradient = type(params)(*(np.asarray(g, np.float64) / self.total for g in step.gradient))
        self.penalty.add_gradient(gradient, params)
        value = step.loss / self.total + self.penalty.value(params)
        return value, self.coordinates.gradient(gradient), step.n_converged

    def _step(self, model, block, clock):
        step, _ = self.objective.step(model, block.worked_out(), clock, self.objective.start(0))
        return step


def descend(model, batch, objective, penalty, max_iter, share, tol=0.0):
    """Yield an `LBFGS` after each of its iterations, until it has converged.

    Parameters
    ----------
    model, batch, objective, penalty
        As in `RowsObjective`.
    max_iter : int
    share, tol : float
        It has converged when `_WINDOW` iterations lower the objective by no more than `tol`, nor
        by more than this share of it.

    Yields
    ------
    minimiser : LBFGS
    converged : bool
    """
    # What overflows makes the objective infinite.
    with one_blas_thread(), np.errstate(over="ignore", invalid="ignore"):
        function = RowsObjective(model, batch, objective, penalty)
        minimiser = LBFGS(function, function.coordinates.vector(model.params))
    if not np.isfinite(minimiser.value):
        raise FloatingPointError(
            "the objective is not finite where training starts; scale the columns of X"
        )
    values = [minimiser.value]
    for _ in range(max_iter):
        with one_blas_thread(), np.errstate(over="ignore", invalid="ignore"):
            moved = minimiser.iterate()
        values.append(minimiser.value)
        converged = not moved
        if len(values) > _WINDOW:
            gain = values[-1 - _WINDOW] - values[-1]
            converged |= gain <= max(tol, share * abs(values[-1]))
        yield function, minimiser, converged
        if converged:
            return


def fit_rows(model, batch, objective, penalty, max_iter, share):
    """Return the model after `descend`."""
    for function, minimiser, _ in descend(model, batch, objective, penalty, max_iter, share):
        best = function, minimiser
    function, minimiser = best
    return model._replace(params=function.coordinates.params(minimiser.x))


@dataclass(frozen=True, kw_only=True)
class FullBatchTraining:
    """How models are fitted by L-BFGS; takes the place of a `Training`. Options only.

    Attributes
    ----------
    objective : Objective
    penalty : Penalty or None
    max_iter : int
        Iterations at most; each is reported as an epoch.
    tol : float
    verbose : int
    """

    objective: Objective
    penalty: Penalty | None = None
    max_iter: int
    tol: float
    verbose: int

    #: No rows are held out.
    early_stopping = refit = False

    def run(self, model, source, rng, progress=None, on_epoch_begin=nothing, on_epoch_end=nothing):
        """Train on all rows; arguments and result as those of `Training.run`."""
        progress = Progress() if progress is None else progress
        (batch,) = source.batches(rng, source.n_rows)
        history = History()
        number = progress.n_epochs
        line = LiveLine(self.verbose, "Iteration", self.max_iter, number)
        convex = model.params.weights.shape[1] == 0
        share = _CONVEX_SHARE if convex else _SHARE
        steps = descend(model, batch, self.objective, self.penalty, self.max_iter, share, self.tol)
        try:
            while len(history.epochs) < self.max_iter:
                on_epoch_begin(number)
                started = time.perf_counter()
                function, minimiser, converged = next(steps)
                epoch = Epoch(
                    number,
                    minimiser.value,
                    None,
                    minimiser.info / source.n_rows,
                    time.perf_counter() - started,
                    function.coordinates.params(minimiser.x),
                )
                history.add(epoch, epoch)
                line.step(number, told(epoch), epoch.seconds)
                number += 1
                if on_epoch_end(epoch):
                    history.reason = "callback"
                    break
                if converged:
                    history.reason = "no_change"
                    break
        except KeyboardInterrupt:
            if history.best is None:
                raise
            history.reason = "interrupted"
            warn_user(INTERRUPTED)
        finally:
            line.end()
        found = Progress(
            n_epochs=history.best.number + 1,
            n_steps=progress.n_steps + len(history.epochs),
            rule=rule_of(self.objective),
            state=self.objective.start(source.n_indices),
            n_indices=source.n_indices,
        )
        return TrainingResult(history, None, found)
