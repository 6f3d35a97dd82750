"""The one training loop: shuffled mini-batches, early stopping, history, interruption."""

import itertools
import time
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from skcrbm.inference.base import MagnitudeError
from skcrbm.learning._base import Clock
from skcrbm.utils.parallel import one_blas_thread
from skcrbm.utils.row_sparse import RowSparse


class Epoch(NamedTuple):
    """What is known at the end of an epoch.

    Attributes
    ----------
    number : int
        0-based, counted over warm starts.
    loss : float
        Mean over rows, penalty included, averaged over the batches of the epoch.
    score : float or None
        Validation score.
    converged : float
        Share of rows whose inference converged.
    seconds : float
    params : params
        At the end of the epoch.
    effective_share : float or None
        Mean over the steps of `Step.effective_share`, where a rule has it.
    """

    number: int
    loss: float
    score: float | None
    converged: float
    seconds: float
    params: Any
    effective_share: float | None = None


@dataclass
class History:
    """Curves of a training run, and how it ended.

    Attributes
    ----------
    epochs : list of Epoch, parameters left out
    best : Epoch
        The epoch whose parameters are kept: the best one on validation data, else the last.
    reason : str
        "max_iter", "no_change", "callback" or "interrupted".
    state : object
        The objective's, after the last step.
    """

    epochs: list = field(default_factory=list)
    best: Epoch | None = None
    reason: str = "max_iter"
    state: Any = None

    def add(self, epoch, best):
        """Take in an epoch, and which one is the best now."""
        epochs = [*self.epochs, epoch._replace(params=None)]
        self.epochs, self.best = epochs, best  # on one line: an interrupt finds neither or both


def run_epochs(
    model,
    source,
    objective,
    optimizer,
    penalty=None,
    *,
    batch_size,
    max_iter,
    rng,
    key=None,
    state=None,
    steps=None,
    validate=None,
    n_iter_no_change=None,
    tol=0.0,
    first_epoch=0,
    on_epoch_begin=lambda number: None,
    on_epoch_end=lambda epoch: False,
):
    """Train until an end is reached; the parameters to keep are in ``history.best``.

    Parameters
    ----------
    model : named tuple with a `params` field
    source : Source
        Of the training rows.
    objective : Objective
    optimizer : Optimizer
    penalty : Penalty or None
    batch_size, max_iter : int
    rng : RandomState
        For the order of the rows.
    key : uint64 or None
        Of the random numbers of the objective, see `Clock`.
    state : object
        The objective's, of its `start` or of an earlier `History`; arrays in it are changed.
    steps : iterator of int
        Numbers the batches, see `Clock`; from 0 by default.
    validate : callable or None
        ``validate(model, epoch number) -> score``; the best epoch is kept.
    n_iter_no_change : int or None
        Stop after so many epochs without the score (or else the loss) getting better
        by more than `tol`.
    first_epoch : int
        Number of the first epoch, for schedules.
    on_epoch_begin, on_epoch_end : callable
        The latter gets the `Epoch` and returns True to stop.

    Returns
    -------
    History

    Raises
    ------
    FloatingPointError
        If the parameters grow without bound.
    KeyboardInterrupt
        If interrupted before the first epoch is done; afterwards an interrupt ends the
        training with what there is.
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
            # What overflows is found in the parameters.
            with one_blas_thread(), np.errstate(over="ignore", invalid="ignore"):
                model, loss, converged, share = _one_epoch(
                    model,
                    zip(source.batches(rng, batch_size), clocks),
                    source.total_weight / source.n_rows,
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
            current = -loss if score is None else score
            better = current > reference + tol
            best = history.best
            if score is None or best is None or score > best.score:
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
        optimizer.keep(model.params)  # what it holds besides is given up
        history.reason = "interrupted"
    return history


def _one_epoch(model, visits, mean_weight, objective, optimizer, penalty, history):
    """One pass over the rows.

    Parameters
    ----------
    visits : iterable of (Batch, Clock)
    mean_weight : float
        Of a row.

    Returns
    -------
    model
    loss : float
        Sum over the rows.
    n_converged : int
    effective_share : float or None
    """
    loss, n_converged, shares = 0.0, 0, []
    for batch, clock in visits:
        rows = partial(objective.rows_read, model, batch)
        model = model._replace(params=optimizer.ready(model.params, rows))
        try:
            step, history.state = objective.step(model, batch, clock, history.state)
        except MagnitudeError as error:
            raise _divergence(clock.epoch) from error
        # Both phases of a step carry the same weights, so one division normalises both. It
        # is by the expected weight of so many rows: by their own, heavy and light rows
        # would count the same whenever they are alone, and weights mean less in small
        # batches. A short last batch is normalised by its own number of rows.
        total = len(batch) * mean_weight
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
        # Parameters whose squares overflow will overflow in an energy, if not in this one.
        moved = (g.of(p) if isinstance(g, RowSparse) else p for g, p in zip(gradient, model.params))
        if not np.isfinite(loss) or not all(map(_in_bounds, moved)):
            raise _divergence(clock.epoch)
    return model, loss, n_converged, float(np.mean(shares)) if shares else None


def _divergence(epoch):
    return FloatingPointError(
        f"training diverged in epoch {epoch + 1}: the parameters grow without bound; lower "
        "learning_rate_init or scale the columns of X"
    )


def _mean_gradient(gradient, total, params, optimizer, penalty):
    """``gradient / total`` in the dtype of the parameters, in place; by rows where it can be."""
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
    """Whether the sum of the squares of an array is finite."""
    return np.isfinite(np.vdot(p, p))
