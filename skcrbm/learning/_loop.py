"""The one training loop: shuffled mini-batches, early stopping, history, interruption."""

import time
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from skcrbm.utils._parallel import one_blas_thread


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
    """

    number: int
    loss: float
    score: float | None
    converged: float
    seconds: float
    params: Any


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
    """

    epochs: list = field(default_factory=list)
    best: Epoch | None = None
    reason: str = "max_iter"


def run_epochs(
    model,
    batch,
    objective,
    optimizer,
    penalty,
    *,
    batch_size,
    max_iter,
    rng,
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
    batch : Batch
        All training rows.
    objective : Objective
    optimizer : SGD or Adam
    penalty : params of float
        Factors p of the quadratic penalty p/2 |parameter|^2.
    batch_size, max_iter : int
    rng : RandomState
        Shuffles the rows; full batches are not shuffled.
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
    average = optimizer.average
    if average is not None:
        model = model._replace(params=average.resume(model.params))
    history = History()
    stale, reference = 0, -np.inf
    try:
        for number in range(first_epoch, first_epoch + max_iter):
            on_epoch_begin(number)
            started = time.perf_counter()
            with one_blas_thread():
                model, loss, converged = _one_epoch(
                    model, batch, objective, optimizer, penalty, batch_size, rng, number
                )
                kept = model if average is None else model._replace(params=average.snapshot())
                score = None if validate is None else validate(kept, number)
            seconds = time.perf_counter() - started
            epoch = Epoch(number, loss, score, converged, seconds, kept.params)
            current = -loss if score is None else score
            better = current > reference + tol
            if score is None or history.best is None or score > history.best.score:
                history.best = epoch
            history.epochs.append(epoch._replace(params=None))
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
        history.reason = "interrupted"
    return history


def _one_epoch(model, batch, objective, optimizer, penalty, batch_size, rng, number):
    """One pass over the rows; returns the model, the mean loss and the converged share."""
    n = len(batch)
    order = None if batch_size >= n else rng.permutation(n)
    mean_weight = batch.weight.sum() / n
    loss, n_converged = 0.0, 0
    for start in range(0, n, batch_size):
        part = batch if order is None else batch.rows(order[start : start + batch_size])
        step = objective.step(model, part, number)
        # Both phases of a step carry the same weights, so one division normalises both. It
        # is by the expected weight of so many rows: by their own, heavy and light rows
        # would count the same whenever they are alone, and weights mean less in small
        # batches. A short last batch is normalised by its own number of rows.
        total = len(part) * mean_weight
        gradient = type(model.params)(
            *(
                _mean_gradient(g, total, p, factor)
                for g, p, factor in zip(step.gradient, model.params, penalty)
            )
        )
        loss += step.loss + total * penalty_value(model.params, penalty)
        n_converged += step.n_converged
        model = model._replace(params=optimizer.update(model.params, gradient))
        if optimizer.average is not None:
            optimizer.average.add(model.params)
        # Parameters whose squares overflow will overflow in an energy, if not in this one.
        if not np.isfinite(loss) or not all(np.isfinite(np.vdot(p, p)) for p in model.params):
            raise FloatingPointError(
                f"training diverged in epoch {number + 1}: the parameters grow without bound; "
                "lower learning_rate_init or scale the columns of X"
            )
    return model, loss / batch.weight.sum(), n_converged / n


def _mean_gradient(gradient, total, parameter, factor):
    """``gradient / total + factor * parameter`` in the dtype of the parameter, in place."""
    gradient = gradient.astype(parameter.dtype, copy=False)
    gradient /= parameter.dtype.type(total)
    if factor:
        gradient += parameter.dtype.type(factor) * parameter
    return gradient


def penalty_value(params, penalty):
    """``sum of factor/2 |parameter|^2`` over the parameter arrays."""
    return sum(0.5 * f * float(np.vdot(p, p)) for p, f in zip(params, penalty) if f)
