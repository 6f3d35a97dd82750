"""Callbacks of scikit-learn, if the installed version has them (1.9 and later)."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import contextmanager
from typing import Any

from skcrbm.utils.progress import LiveLine

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # older scikit-learn: the same calls, doing nothing

    class CallbackSupportMixin:
        """Stand-in without callbacks."""

    def with_callbacks(method):
        """Return the method unchanged."""
        return method


class EpochCallbacks:
    """Calls the hooks of an estimator's callbacks for the fit and for each epoch of it.

    `max_subtasks` is the number of epochs, None if it is not known in advance. Callbacks see X and
    y as the user passed them; `sample_weight` is handed to them as metadata. `task_name` is
    another word for an epoch, such as "pass".
    """

    def __init__(
        self,
        estimator: Any,
        max_subtasks: int | None,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        task_name: str = "epoch",
    ):
        metadata = None if sample_weight is None else {"sample_weight": sample_weight}
        self.estimator, self.task_name = estimator, task_name
        self.data = {"estimator": estimator, "X": X, "y": y, "metadata": metadata}
        self.epoch = None
        self.root = None
        if hasattr(estimator, "_init_callback_context"):
            self.root = estimator._init_callback_context(max_subtasks=max_subtasks)
            self.root.call_on_fit_task_begin(**self.data)

    @property
    def any(self):
        """True if the estimator has callbacks."""
        return bool(getattr(self.estimator, "_skl_callbacks", ()))

    def begin_epoch(self, number):
        """Start the task of one epoch."""
        if self.root is not None:
            self.epoch = self.root.subcontext(task_name=self.task_name)
            self.epoch.call_on_fit_task_begin(**self.data)

    def end_epoch(self, fitted_attributes):
        """End the task of the epoch; return True if a callback asks to stop.

        `fitted_attributes` is called if a callback wants a fitted estimator.
        """
        if self.epoch is None:
            return False
        return bool(
            self.epoch.call_on_fit_task_end(
                **self.data, reconstruction_attributes=fitted_attributes
            )
        )

    @contextmanager
    def inner_fit(self, estimator, task_name):
        """Run the fit of an inner estimator as a task of this fit.

        The inner estimator gets the callbacks that propagate, such as scikit-learn's progress bar.
        """
        if self.root is None or not self.any:
            yield
            return
        task = self.root.subcontext(task_name=task_name)
        with task.propagate_callback_context(estimator):
            task.call_on_fit_task_begin(**self.data)
            yield
            task.call_on_fit_task_end(**self.data)

    def end(self):
        """End the fit task."""
        if self.root is not None:
            self.root.call_on_fit_task_end(**self.data, reconstruction_attributes={})


def _violation_and_share(violation, share):
    return f"violation {violation:.2e}  active {share:.1%}"


def pass_hooks(
    line: LiveLine,
    callbacks: EpochCallbacks,
    attributes: Callable[[Any], dict],
    summary: Callable[[float, float], str] = _violation_and_share,
) -> dict[str, Callable]:
    """Return the hooks that a dual solver calls at each pass; empty if nobody listens.

    `attributes` makes the fitted attributes from the solver's state; `summary` makes the text of
    the live line from the two measures that the solver reports. The keys are "on_pass_begin" and
    "on_pass_end".
    """
    if not line.verbose and not callbacks.any:
        return {}
    clock = [0.0]

    def on_pass_begin(number):
        clock[0] = time.perf_counter()
        callbacks.begin_epoch(number)

    def on_pass_end(number, first, second, now):
        seconds = time.perf_counter() - clock[0]
        line.step(number, summary(first, second), seconds)
        return callbacks.end_epoch(lambda: attributes(now()))

    return {"on_pass_begin": on_pass_begin, "on_pass_end": on_pass_end}
