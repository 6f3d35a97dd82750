"""Train on shuffled mini-batches, with early stopping, a history and safe interrupts."""

from __future__ import annotations

import copy
import itertools
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from scipy.sparse import issparse

from skcrbm.inference.base import MagnitudeError
from skcrbm.inference.random_numbers import random_key
from skcrbm.learning.data import Clock, Epoch, History, Source
from skcrbm.learning.optimizers import AdamSteps, Optimizer
from skcrbm.learning.solvers import StepScale
from skcrbm.utils.fitting import LiveLine, is_better
from skcrbm.utils.parallel import one_blas_thread
from skcrbm.utils.row_sparse import RowSparse
from skcrbm.utils.warnings import warn_user

# Training has diverged if log-odds of some row exceed this number; see `require_bounded`.
_UNBOUNDED = 1e10
# Parameters up to this number need no look at the inputs.
_ORDINARY = 1e6
_BLOCK = 4096  # number of rows whose largest values are computed together

# A stochastic solver has not converged if the last quarter of its epochs has made more than this
# share of its progress.
_LATE_PROGRESS = 0.03
_FEW_EPOCHS = 5

# Seconds of training after which the time of the fit is estimated, and the time that is long.
_TRIAL_SECONDS = 5.0
_LONG_SECONDS = 600.0

INTERRUPTED = "Training interrupted; keeping what was learned so far."


def ignore(_: Any) -> bool:
    """Do nothing at the beginning or end of an epoch, and let the training continue."""
    return False


def has_converged(losses: Sequence[float]) -> bool:
    """Return True if the last quarter of the epochs has made little of all progress.

    `losses` are the losses of all epochs. The result is False for a few epochs, whose noise hides
    the progress.
    """
    if len(losses) < _FEW_EPOCHS:
        return False
    whole = max(losses) - min(losses)
    late = losses[-1 - max(1, len(losses) // 4)] - losses[-1]
    return whole <= 0 or late / whole < _LATE_PROGRESS


class EpochLoop:
    """Training runs of a `Plan` by a stochastic solver, epoch by epoch.

    Every call of `run` starts from the parameters of the plan. Later calls continue the numbers of
    the batches, so that no two batches use the same random numbers. `rng` determines the order of
    the rows and the key of the random numbers of the objective. `begin_epoch` is called with the
    number of the epoch, `end_epoch` with the `Epoch`; if `end_epoch` returns True, the run ends.
    """

    def __init__(
        self,
        plan: Any,
        rng: np.random.RandomState,
        begin_epoch: Callable[[int], Any] = ignore,
        end_epoch: Callable[[Epoch], bool] = ignore,
    ):
        self.plan, self.rng = plan, rng
        self.begin_epoch, self.end_epoch = begin_epoch, end_epoch
        self.first_epoch = plan.progress.n_epochs
        self.steps = itertools.count(plan.progress.n_steps)
        self.key = random_key(rng) if plan.objective.draws else None
        self._begin: float | None = None  # time after the first batch, in which kernels may compile
        self._n_timed: int | None = 0  # number of batches after the first; None ends the timing

    def run(
        self,
        source: Source,
        max_iter: int,
        optimizer: Optimizer,
        validate: Callable[[Any, int], float] | None = None,
        patience: bool = True,
    ) -> History:
        """Train on the rows of `source`; the parameters to keep are in ``history.best``.

        Training ends after `max_iter` epochs, when `end_epoch` returns True, or if `patience` is
        True when the stopping rule of the plan sees no improvement, or the loss has converged after
        the `enough_epochs` of the plan. The improvement is measured by
        the score ``validate(model, epoch number)``, or by the loss if `validate` is None. With
        `validate` the epoch with the best score is kept, else the last epoch.

        A FloatingPointError is raised if the parameters grow without bound, and a KeyboardInterrupt
        if the training is interrupted before the end of the first epoch. An interrupt after the
        first epoch ends the training and keeps the parameters found so far.
        """
        plan, self._max_iter = self.plan, max_iter
        # Contrastive rules report the difference of two phases as their loss. This difference does
        # not measure progress, so it must not end the training.
        patience = patience and (validate is not None or plan.objective.is_loss)
        n_iter_no_change = plan.stopping.patience(plan.solver) if patience else None
        line = LiveLine(plan.verbose, "Epoch", max_iter, self.first_epoch)
        model = plan.model._replace(params=optimizer.start(plan.model.params))
        history = History(state=self._first_state())
        stale, reference = 0, -np.inf
        try:
            for number in range(self.first_epoch, self.first_epoch + max_iter):
                self.begin_epoch(number)
                model, epoch = self._epoch(model, source, optimizer, number, validate, history)
                current: Any = -epoch.loss if epoch.score is None else epoch.score
                better = is_better(current, reference + plan.stopping.tol)
                best = history.best
                if epoch.score is None or best is None or is_better(epoch.score, best.score):
                    best = epoch
                history.add(epoch, best)
                reference = max(reference, current)
                stale = 0 if better else stale + 1
                line.step(number, epoch.summary, epoch.seconds)
                if self.end_epoch(epoch):
                    history.reason = "callback"
                    break
                losses = [epoch.loss for epoch in history.epochs]
                enough = plan.enough_epochs if patience else None
                if enough is not None and len(losses) >= enough and has_converged(losses):
                    history.reason = "no_change"
                    break
                if n_iter_no_change is not None and stale >= n_iter_no_change:
                    history.reason = "no_change"
                    break
        except KeyboardInterrupt:
            if history.best is None:
                raise
            # Let the optimizer make all postponed updates, see `LateRows`.
            optimizer.keep(model.params)
            history.reason = "interrupted"
        finally:
            line.end()
        if history.reason == "interrupted":
            warn_user(INTERRUPTED)
        return history

    def new_optimizer(self) -> Optimizer:
        """Return an optimizer with the rates of the plan."""
        plan = self.plan
        scale = StepScale(
            # Count all rows, even if some are held out, so that a refit uses the same step size.
            n_steps=-(-plan.rows.n_originals // plan.batch_size),
            max_speedup=plan.max_speedup,
            mean_square=plan.mean_square,
            curvature=getattr(plan.penalty, "curvature", 0.0),
        )
        rate = plan.solver.step_size(scale)
        rates = type(plan.rate_factors)(*(rate * factor for factor in plan.rate_factors))
        optimizer = plan.solver.optimizer(rates, plan.average)
        if isinstance(optimizer, AdamSteps):
            optimizer.first_rates = plan.first_rates
        return optimizer

    def _first_state(self):
        """Return a copy of the state of earlier training if it can be used, else a new state."""
        before, objective = self.plan.progress, self.plan.objective
        n_indices = self.plan.rows.n_indices
        same_rows = not objective.keeps_chains or before.n_indices == n_indices
        if before.objective_key == self.plan.objective_key and same_rows:
            return copy.deepcopy(before.state)
        return objective.start(n_indices)

    def _epoch(self, model, source, optimizer, number, validate, history):
        """Train for one epoch; return the model and the `Epoch`."""
        started = time.perf_counter()
        # Ignore overflow on purpose: it makes parameters infinite, and infinite parameters are
        # detected below.
        with one_blas_thread(), np.errstate(over="ignore", invalid="ignore"):
            model, loss, converged, share = self._pass(model, source, optimizer, number, history)
            kept = model._replace(params=optimizer.keep(model.params))
            if not all(map(_in_bounds, kept.params)):
                raise _divergence(number)
            require_bounded(kept.params, source, number)
            try:
                score = None if validate is None else validate(kept, number)
            except MagnitudeError as error:
                raise _divergence(number) from error
        seconds = time.perf_counter() - started
        loss, converged = loss / source.total_weight, converged / source.n_rows
        return model, Epoch(number, loss, score, converged, seconds, kept.params, share)

    def _warn_of_time(self, source):
        """Warn once if the fit may take many minutes; call this method after each batch."""
        now, plan = time.perf_counter(), self.plan
        if self._begin is None:
            self._begin = now
            return
        if self._n_timed is None or plan.verbose:
            return
        self._n_timed += 1
        elapsed = now - self._begin
        if elapsed < _TRIAL_SECONDS:
            return
        n_batches = -(-source.n_originals // plan.batch_size) * self._max_iter
        seconds, self._n_timed = elapsed / self._n_timed * n_batches, None
        if seconds > _LONG_SECONDS:
            warn_user(
                f"max_iter={self._max_iter} epochs may take about {seconds / 60:.0f} minutes. "
                "Another inference method, fewer rows or a smaller max_iter shorten the fit. "
                "verbose=1 shows the remaining time instead of this warning"
            )

    def _pass(self, model, source, optimizer, number, history):
        """Train on each batch of one pass over the rows.

        Return the model, the sum of the losses of the rows, the number of rows whose inference
        converged, and the mean of `Step.effective_share`. The mean is None if the objective does
        not draw states with importance weights.
        """
        objective, penalty = self.plan.objective, self.plan.penalty
        loss, n_converged, shares = 0.0, 0, []
        mean_weight = source.total_weight / source.n_originals
        clocks = (Clock(number, step, self.key) for step in self.steps)
        for batch, clock in zip(source.batches(self.rng, self.plan.batch_size), clocks):
            rows = partial(objective.rows_read, model, batch)
            model = model._replace(params=optimizer.ready(model.params, rows))
            try:
                step, history.state = objective.step(model, batch, clock, history.state)
            except MagnitudeError as error:
                raise _divergence(number) from error
            # Divide the weighted sums over rows by the mean weight of a batch of this length.
            # Dividing by the actual weight of the batch would cancel the weights in batches of a
            # single row.
            total = source.count_originals(batch) * mean_weight
            gradient = _mean_gradient(step.gradient, total, model.params, optimizer, penalty)
            value = step.loss
            if penalty is not None:
                penalty.add_gradient(gradient, model.params)
                value += total * penalty.value(model.params)
            loss += value
            n_converged += step.n_converged
            if step.effective_share is not None:
                shares.append(step.effective_share)
            model = model._replace(params=optimizer.update(model.params, gradient))
            self._warn_of_time(source)
            # Stop if the squares of the changed parameters overflow, because the energies would
            # overflow soon.
            pairs = zip(gradient, model.params)
            moved = (g.of(p) if isinstance(g, RowSparse) else p for g, p in pairs)
            if not np.isfinite(loss) or not all(map(_in_bounds, moved)):
                raise _divergence(number)
        return model, loss, n_converged, float(np.mean(shares)) if shares else None


def _divergence(epoch):
    return FloatingPointError(
        f"training diverged in epoch {epoch + 1}: the parameters grow without bound; lower "
        "the solver's learning_rate or scale the columns of X"
    )


def require_bounded(params: Any, source: Source, epoch: int) -> None:
    """Raise a FloatingPointError if parameters have grown beyond any use.

    Log-odds of `_UNBOUNDED` are never learned from data, and their rounding errors hide all
    differences between rows. Coefficients of the inputs are multiplied by the largest value of
    their column, because a column in a tiny unit has large coefficients. An intercept may make up
    for a column that is far from 0.
    """
    scales = None
    for name, p in zip(params._fields, params):
        top = float(np.abs(p).max(initial=0.0))
        if top <= _ORDINARY:
            continue
        if scales is None:
            scales = _column_scales(getattr(getattr(source, "all", None), "X", None))
        if name.endswith("coef") and len(scales):
            each = p.ndim == 2 and p.shape[1] == len(scales)
            least = scales[scales > 0].min(initial=1.0)
            top = float((np.abs(p) * scales).max(initial=0.0)) if each else top * least
        elif name.endswith("intercept"):
            top /= max(1.0, float(scales.max(initial=0.0)))
        if top > _UNBOUNDED:
            raise _divergence(epoch)


def _column_scales(X):
    """Return the largest absolute value (D,) of each column of X; empty if there is no X."""
    if X is None or 0 in X.shape:
        return np.zeros(0)
    if issparse(X):
        return abs(X).max(axis=0).toarray().ravel()
    blocks = (np.abs(np.asarray(X[a : a + _BLOCK])) for a in range(0, X.shape[0], _BLOCK))
    return np.max([block.max(axis=0) for block in blocks], axis=0).astype(np.float64)


def _mean_gradient(gradient, total, params, optimizer, penalty):
    """Return ``gradient / total`` in the dtype of the parameters; may change `gradient` in place.

    A `RowSparse` array becomes dense if the penalty or the optimizer needs all rows.
    """
    mean = []
    for k, (g, p) in enumerate(zip(gradient, params)):
        if isinstance(g, RowSparse):
            pulled = penalty is not None and penalty.pulls(k)
            if pulled or not optimizer.takes_rows:
                g = g.toarray()
        g = g.astype(p.dtype, copy=False)
        g /= p.dtype.type(total)
        mean.append(g)
    return type(params)(*mean)


def _in_bounds(p):
    """Return True if the sum of the squares of an array is finite."""
    return np.isfinite(np.vdot(p, p))
