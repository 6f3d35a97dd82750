"""Train on shuffled mini-batches, with early stopping, a history and safe interrupts."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from skcrbm.inference.base import MagnitudeError
from skcrbm.learning.data import Clock, Epoch, History, Source
from skcrbm.learning.objectives import Objective
from skcrbm.learning.optimizers import Optimizer
from skcrbm.learning.penalties import Penalty
from skcrbm.utils.fitting import is_better
from skcrbm.utils.parallel import one_blas_thread
from skcrbm.utils.row_sparse import RowSparse


def run_epochs(
    model,
    source: Source,
    objective: Objective,
    optimizer: Optimizer,
    penalty: Penalty | None = None,
    *,
    batch_size: int,
    max_iter: int,
    rng: np.random.RandomState,
    key: Any = None,
    state: Any = None,
    steps: Iterator[int] | None = None,
    validate: Callable[[Any, int], float] | None = None,
    n_iter_no_change: int | None = None,
    tol: float = 0.0,
    first_epoch: int = 0,
    on_epoch_begin: Callable[[int], Any] = lambda number: None,
    on_epoch_end: Callable[[Epoch], bool] = lambda epoch: False,
) -> History:
    """Train epoch by epoch; the parameters to keep are in ``history.best``.

    Training ends after `max_iter` epochs, when `on_epoch_end` returns True, or after
    `n_iter_no_change` epochs without an improvement of more than `tol`. The improvement is measured
    by the score ``validate(model, epoch number)``, or by the loss if `validate` is None. With
    `validate` the epoch with the best score is kept, else the last epoch.

    `rng` determines the order of the rows, and `key` the random numbers of the objective. `state`
    comes from `Objective.start` or from an earlier `History`; its arrays are changed in place.
    `steps` yields the numbers of the batches, by default 0, 1, .... `Clock` explains `key` and
    `steps`. `on_epoch_begin` is called with the number of the epoch, `on_epoch_end` with the
    `Epoch`. Epochs are numbered from `first_epoch`.

    A FloatingPointError is raised if the parameters grow without bound, and a KeyboardInterrupt
    if the training is interrupted before the end of the first epoch. An interrupt after the first
    epoch ends the training and keeps the parameters found so far.
    """
    model = model._replace(params=optimizer.start(model.params))
    history = History(state=state)
    steps = itertools.count() if steps is None else steps
    stale, reference = 0, -np.inf
    try:
        for number in range(first_epoch, first_epoch + max_iter):
            on_epoch_begin(number)
            started = time.perf_counter()
            clocks = (Clock(number, step, key) for step in steps)
            # Ignore overflow on purpose: it makes parameters infinite, and infinite parameters are
            # detected below.
            with one_blas_thread(), np.errstate(over="ignore", invalid="ignore"):
                model, loss, converged, share = _one_epoch(
                    model,
                    zip(source.batches(rng, batch_size), clocks),
                    source,
                    objective,
                    optimizer,
                    penalty,
                    history,
                )
                kept = model._replace(params=optimizer.keep(model.params))
                if not all(map(_in_bounds, kept.params)):
                    raise _divergence(number)
                try:
                    score = None if validate is None else validate(kept, number)
                except MagnitudeError as error:
                    raise _divergence(number) from error
            seconds = time.perf_counter() - started
            loss, converged = loss / source.total_weight, converged / source.n_rows
            epoch = Epoch(number, loss, score, converged, seconds, kept.params, share)
            current: Any = -loss if score is None else score
            better = is_better(current, reference + tol)
            best = history.best
            if score is None or best is None or is_better(score, best.score):
                best = epoch
            history.add(epoch, best)
            reference = max(reference, current)
            stale = 0 if better else stale + 1
            if on_epoch_end(epoch):
                history.reason = "callback"
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
    return history


def _one_epoch(model, visits, source, objective, optimizer, penalty, history):
    """Train on each batch of one pass over the rows; `visits` yields pairs (`Batch`, `Clock`).

    Returns the model, the sum of the losses of the rows, the number of rows whose inference
    converged, and the mean of `Step.effective_share`. The mean is None if the objective does not
    draw states with importance weights.
    """
    loss, n_converged, shares = 0.0, 0, []
    mean_weight = source.total_weight / source.n_originals
    for batch, clock in visits:
        rows = partial(objective.rows_read, model, batch)
        model = model._replace(params=optimizer.ready(model.params, rows))
        try:
            step, history.state = objective.step(model, batch, clock, history.state)
        except MagnitudeError as error:
            raise _divergence(clock.epoch) from error
        # Divide the weighted sums over rows by the mean weight of a batch of this length. Dividing
        # by the actual weight of the batch would cancel the weights in batches of a single row.
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
        # Stop if the squares of the changed parameters overflow, because the energies would
        # overflow soon.
        moved = (g.of(p) if isinstance(g, RowSparse) else p for g, p in zip(gradient, model.params))
        if not np.isfinite(loss) or not all(map(_in_bounds, moved)):
            raise _divergence(clock.epoch)
    return model, loss, n_converged, float(np.mean(shares)) if shares else None


def _divergence(epoch):
    return FloatingPointError(
        f"training diverged in epoch {epoch + 1}: the parameters grow without bound; lower "
        "the solver's learning_rate or scale the columns of X"
    )


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
