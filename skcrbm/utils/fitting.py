"""Around every fit: restoring the previous model after an error, callbacks, progress lines."""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from sklearn.exceptions import ConvergenceWarning

from skcrbm.utils.validation import NothingToLearnError
from skcrbm.utils.warnings import warn_user


def all_or_nothing(fit: Callable) -> Callable:
    """Decorate a method that learns: if it raises, the estimator gets its previous state back.

    An interrupt always leaves as a KeyboardInterrupt, although compiled code may turn it into
    another error. This must come before decorators that set attributes for the duration of the
    call.
    """

    @functools.wraps(fit)
    def restoring(estimator, *args, **kwargs):
        before, handled = dict(vars(estimator)), sys.exc_info()[1]
        try:
            try:
                return fit(estimator, *args, **kwargs)
            except BaseException:
                estimator.__dict__ = before  # in a single step: no state in between can be seen
                raise
        except BaseException as error:
            estimator.__dict__ = before  # again: an interrupt may have come first
            if isinstance(error, Exception) and _interrupted(error, handled):
                raise KeyboardInterrupt from error
            raise

    return restoring


def skip_empty_batches(partial_fit: Callable) -> Callable:
    """Decorate a `partial_fit`, so that it skips rows without anything to learn from.

    `all_or_nothing` must be the next decorator: it restores the model.
    """

    @functools.wraps(partial_fit)
    def skipping(estimator, *args, **kwargs):
        try:
            return partial_fit(estimator, *args, **kwargs)
        except NothingToLearnError:
            return estimator

    return skipping


def _interrupted(error, handled):
    """Return True if an interrupt caused the error; `handled` is the error handled before."""
    seen = [handled]  # causes may form a circle
    while error is not None and not any(error is other for other in seen):
        if isinstance(error, KeyboardInterrupt):
            return True
        seen.append(error)
        error = error.__cause__ or error.__context__
    return False


def forget(estimator: Any, state: Iterable[str] = ()) -> None:
    """Delete the attributes that end in an underscore and the attributes named in `state`."""
    for name in [name for name in vars(estimator) if name.endswith("_") or name in state]:
        delattr(estimator, name)


try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # older scikit-learn: stand-ins that do nothing

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


@contextmanager
def pass_hooks(
    estimator: Any,
    unit: str,
    callbacks: EpochCallbacks,
    attributes: Callable[[Any], dict],
    summary: Callable[[float, float], str] = _violation_and_share,
) -> Iterator[dict[str, Callable]]:
    """Give the hooks that a large margin solver calls at each pass; empty if nobody listens.

    `attributes` makes the fitted attributes from the solver's state; `summary` makes the text of
    the live line from the two measures that the solver reports. `unit` is the word for a pass. The
    keys are "on_pass_begin" and "on_pass_end".
    """
    line = LiveLine(estimator.verbose, unit.capitalize(), estimator.max_iter)
    if not line.verbose and not callbacks.any:
        yield {}
        return
    clock = [0.0]

    def on_pass_begin(number):
        clock[0] = time.perf_counter()
        callbacks.begin_epoch(number)

    def on_pass_end(number, first, second, now):
        seconds = time.perf_counter() - clock[0]
        line.step(number, summary(first, second), seconds)
        return callbacks.end_epoch(lambda: attributes(now()))

    try:
        yield {"on_pass_begin": on_pass_begin, "on_pass_end": on_pass_end}
    finally:
        line.end()


def warn_of_early_end(
    fitted: Any, unit: str, units: str, max_iter: int, state: str, advice: str
) -> None:
    """Warn if a large margin solver was interrupted, or did not converge in `max_iter` passes.

    `state` says how close to the optimum the fit is, `advice` how to converge.
    """
    if fitted.reason == "interrupted":
        warn_user(
            f"Training interrupted in {unit} {fitted.n_iter + 1}; keeping the weights learned so "
            f"far, with {state}."
        )
    elif fitted.reason == "max_iter":
        warn_user(
            f"Training ended after max_iter={max_iter} {units}, with {state}. {advice}",
            ConvergenceWarning,
        )


# Least number of seconds between two updates of a live line, because terminals are slow, and
# between two lines of a file.
_PAUSE, _FILE_PAUSE = 0.1, 30.0


def rewrites_lines(stream: Any) -> bool:
    """Return True if a carriage return overwrites a line of the stream: a terminal or notebook."""
    isatty = getattr(stream, "isatty", None)
    return type(stream).__module__.startswith("ipykernel.") or bool(isatty and isatty())


def say(verbose: bool | int, line: str) -> None:
    """Print a permanent line if `verbose` is true."""
    if verbose:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


class LiveLine:
    """Progress of a loop, as printed text.

    ``verbose=1`` prints a line that is overwritten in a terminal or notebook; in a file, a line
    every `_FILE_PAUSE` seconds and at the end. 2 or more prints a line for each step, 0 nothing.
    `unit` is the name of a step, `total` the largest number of steps, and `first` the number of
    steps that earlier calls did.
    """

    def __init__(
        self, verbose: bool | int, unit: str = "", total: int | None = None, first: int = 0
    ):
        self.verbose = int(verbose)
        self.unit, self.total, self.first = unit, total, first
        self._started = time.monotonic()
        self._live = rewrites_lines(sys.stdout)
        self._written, self._text = 0, None
        self._last = -_PAUSE if self._live else self._started

    def step(self, number: int, figures: str, seconds: float) -> None:
        """Report a step: its number from 0, earlier calls included, figures, and duration."""
        if self.verbose > 1:
            self.show(f"{self.unit} {number + 1}  {figures}  {seconds:.2f} s")
        elif self.verbose:
            done = number + 1 - self.first
            spent = max(time.monotonic() - self._started, 1e-9)
            text = f"{self.unit} {number + 1}"
            if self.total is not None:
                text += f"/{self.first + self.total}"
            text += f"  {_rate(done / spent)}  {figures}"
            if self.total is not None and done < self.total:
                text += f"  at most {_clock((self.total - done) * spent / done)} left"
            self.show(text)

    def show(self, text: str) -> None:
        """Overwrite the last text."""
        if self.verbose > 1:
            say(self.verbose, text)
        elif self.verbose:
            self._text = text
            if time.monotonic() - self._last >= (_PAUSE if self._live else _FILE_PAUSE):
                self._write()

    def end(self) -> None:
        """Write the last text, and leave it on the screen."""
        if self._text is not None:
            self._write()
        if self._written:
            say(True, "")
        self._written = 0

    def _write(self):
        if self._live:
            sys.stdout.write("\r" + self._text.ljust(self._written))
            sys.stdout.flush()
            self._written = len(self._text)
        else:
            say(True, self._text)
        self._text, self._last = None, time.monotonic()


def _rate(per_second):
    if per_second >= 1:
        return f"{per_second:.0f}/s" if per_second >= 100 else f"{per_second:.3g}/s"
    return f"{1 / per_second:.3g} s each"


def _clock(seconds):
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
