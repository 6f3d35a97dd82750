"""scikit-learn's callbacks where the installed version has them (1.9 and later)."""

import time
from contextlib import contextmanager

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # older scikit-learn: the same calls, doing nothing

    class CallbackSupportMixin:
        """Stand-in without callbacks."""

    def with_callbacks(method):
        """Return the method as it is."""
        return method


class EpochCallbacks:
    """Calls the hooks of an estimator's callbacks for the fit task and for each epoch or the like.

    Parameters
    ----------
    estimator : estimator
    max_subtasks : int or None
        Number of epochs, None if it is not known in advance.
    X, y : array-like
    metadata : dict or None
    task_name : str, default="epoch"
    """

    def __init__(self, estimator, max_subtasks, X, y, metadata, task_name="epoch"):
        self.estimator, self.task_name = estimator, task_name
        self.data = {"estimator": estimator, "X": X, "y": y, "metadata": metadata}
        self.epoch = None
        self.root = None
        if hasattr(estimator, "_init_callback_context"):
            self.root = estimator._init_callback_context(max_subtasks=max_subtasks)
            self.root.call_on_fit_task_begin(**self.data)

    @property
    def any(self):
        """Whether there are callbacks."""
        return bool(getattr(self.estimator, "_skl_callbacks", ()))

    def begin_epoch(self, number):
        """Start the task of one epoch."""
        if self.root is not None:
            self.epoch = self.root.subcontext(task_name=self.task_name)
            self.epoch.call_on_fit_task_begin(**self.data)

    def end_epoch(self, fitted_attributes):
        """End it; `fitted_attributes` is called if a callback wants a fitted estimator.

        Returns
        -------
        stop : bool
            Whether a callback asks to stop.
        """
        if self.epoch is None:
            return False
        return bool(
            self.epoch.call_on_fit_task_end(
                **self.data, reconstruction_attributes=fitted_attributes
            )
        )

    @contextmanager
    def of_inner(self, estimator, task_name):
        """Run the fit of an estimator inside this one as a task.

        It gets those of scikit-learn's callbacks that propagate, such as its progress bar.
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


def pass_hooks(line, callbacks, attributes, told=_violation_and_share):
    """Return what a solver of a dual problem is to call at each pass; nothing if nobody listens.

    Parameters
    ----------
    line : LiveLine
    callbacks : EpochCallbacks
    attributes : callable
        Makes the fitted attributes of what the solver has found.
    told : callable
        Makes the text of the live line of the two measures that the solver gives.

    Returns
    -------
    dict
        "on_pass_begin" and "on_pass_end", or empty.
    """
    if not line.verbose and not callbacks.any:
        return {}
    clock = [0.0]

    def on_pass_begin(number):
        clock[0] = time.perf_counter()
        callbacks.begin_epoch(number)

    def on_pass_end(number, first, second, now):
        seconds = time.perf_counter() - clock[0]
        line.step(number, told(first, second), seconds)
        return callbacks.end_epoch(lambda: attributes(now()))

    return {"on_pass_begin": on_pass_begin, "on_pass_end": on_pass_end}
