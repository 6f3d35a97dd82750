"""Helpers of `fit` methods: restore the model after an error, run callbacks, print progress."""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import MethodType
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from skcrbm.utils.limits import SCORE_NOISE
from skcrbm.utils.validation import NothingToLearnError
from skcrbm.utils.warm_start import check_same_structure, note_structure
from skcrbm.utils.warnings import warn_user


def all_or_nothing(fit: Callable) -> Callable:
    """Decorate a fit method: if it raises an error, the estimator gets its previous state back.

    An interrupt is always raised as KeyboardInterrupt, although compiled code may turn it into
    another error. If another decorator sets attributes during the call, put this decorator above
    it.
    """

    @functools.wraps(fit)
    def restoring(estimator, *args, **kwargs):
        before, handled = dict(vars(estimator)), sys.exc_info()[1]
        try:
            try:
                return fit(estimator, *args, **kwargs)
            except BaseException:
                # Replace all attributes in one assignment, which an interrupt cannot cut short.
                estimator.__dict__ = before
                raise
        except BaseException as error:
            # Repeat the assignment, in case an interrupt prevented the first assignment.
            estimator.__dict__ = before
            if isinstance(error, Exception) and _interrupted(error, handled):
                raise KeyboardInterrupt from error
            raise

    return restoring


def skip_empty_batches(partial_fit: Callable) -> Callable:
    """Decorate a `partial_fit` so that it skips batches without an observed label.

    Put `all_or_nothing` directly below this decorator, so that it restores the model before the
    batch is skipped.
    """

    @functools.wraps(partial_fit)
    def skipping(estimator, *args, **kwargs):
        try:
            return partial_fit(estimator, *args, **kwargs)
        except NothingToLearnError:
            return estimator

    return skipping


class only_when_fitted:
    """Decorate a method that exists only after a fit; before the fit `hasattr` returns False.

    For example, scikit-learn's checks expect an estimator that has the method `sparsify` to have
    the attribute `coef_`, which exists only after a fit.
    """

    def __init__(self, method: Callable):
        self.method = method
        functools.update_wrapper(self, method)

    def __get__(self, estimator: Any, owner: Any = None) -> Callable:
        if estimator is None:
            return self.method
        check_is_fitted(estimator)  # a NotFittedError is an AttributeError
        return MethodType(self.method, estimator)


def _interrupted(error, handled):
    """Return True if an interrupt caused the error.

    `handled` is the error that the caller was already handling; it does not count as a cause.
    """
    seen = [handled]  # errors already visited, because the chain of causes may be circular
    while error is not None and not any(error is other for other in seen):
        if isinstance(error, KeyboardInterrupt):
            return True
        seen.append(error)
        error = error.__cause__ or error.__context__
    return False


def forget(estimator: Any, state: Iterable[str] = ()) -> None:
    """Delete the fitted attributes (`name_`) of an estimator, and the attributes in `state`."""
    for name in [name for name in vars(estimator) if name.endswith("_") or name in state]:
        delattr(estimator, name)


def begin_fit(estimator: Any) -> tuple[bool, np.random.RandomState]:
    """Begin a `fit`: return True if it continues an earlier fit, and the random generator.

    With ``warm_start=True`` a fit continues from the fitted model. If the fit does not continue an
    earlier fit, the fitted attributes and the attributes in `_state` are deleted.
    """
    resume = getattr(estimator, "warm_start", False) and estimator.__sklearn_is_fitted__()
    if resume:
        resume_fit(estimator)
    else:
        forget(estimator, estimator._state)
        note_structure(estimator)
    return resume, check_random_state(estimator.random_state)


def resume_fit(estimator: Any) -> None:
    """Prepare a fit that continues from the fitted model.

    A ValueError is raised if a hyperparameter that shapes the model has changed. An estimator may
    have a method `_resume` for other preparations.
    """
    check_same_structure(estimator)
    if hasattr(estimator, "_resume"):
        estimator._resume()


try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # older scikit-learn has no callbacks: define replacements that do nothing

    class CallbackSupportMixin:
        """Replacement for the mixin of scikit-learn that adds nothing to an estimator."""

    def with_callbacks(method):
        """Return the method unchanged."""
        return method


class EpochCallbacks:
    """Calls the callbacks of an estimator at the beginning and end of the fit and of each epoch.

    Callbacks are the objects that a user has registered by scikit-learn's `set_callbacks`, such as
    a progress bar. scikit-learn calls the fit, and each epoch within the fit, a task.

    `max_subtasks` is the number of epochs, or None if it is not known in advance. Callbacks get X
    and y as the user passed them, and `sample_weight` as metadata. `task_name` is the word for an
    epoch, such as "pass".
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
        """Tell the callbacks that an epoch begins."""
        if self.root is not None:
            self.epoch = self.root.subcontext(task_name=self.task_name)
            self.epoch.call_on_fit_task_begin(**self.data)

    def end_epoch(self, fitted_attributes):
        """Tell the callbacks that the epoch has ended; return True if a callback stops the fit.

        `fitted_attributes` is a function that returns the fitted attributes by name. It is called
        only when a callback asks for a fitted estimator.
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
        """Make a context in which an inner estimator is fitted, as part of this fit.

        In the context, the inner estimator has those callbacks of this estimator that scikit-learn
        passes on to inner estimators, such as the progress bar. `task_name` is the word for the
        inner fit in the callbacks.
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
        """Tell the callbacks that the fit has ended."""
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
    """Provide a dict of the functions that a large margin solver calls before and after each pass.

    The functions print the progress and run the callbacks. Their keys in the dict are
    "on_pass_begin" and "on_pass_end". The dict is empty if nothing is printed and there are no
    callbacks.

    `unit` is the word for a pass in the progress line. `attributes` converts the state of the
    solver to fitted attributes. `summary` converts the two measures of progress that the solver
    reports to the text of the progress line.
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

    `state` is a phrase that tells how far the fit is from the optimum, and `advice` is a sentence
    on how to reach convergence.
    """
    if fitted.reason == "interrupted":
        warn_user(
            f"Training interrupted in {unit} {fitted.n_iter + 1}; the model keeps the weights "
            f"learned so far, with {state}."
        )
    elif fitted.reason == "max_iter":
        warn_user(
            f"Training ended after max_iter={max_iter} {units}, with {state}. {advice}",
            ConvergenceWarning,
        )


# Least number of seconds between two updates of the progress line in a terminal (terminals are
# slow), and between two progress lines in a file.
_PAUSE, _FILE_PAUSE = 0.1, 30.0


def rewrites_lines(stream: Any) -> bool:
    """Return True if the stream is a terminal or notebook, which can overwrite its last line."""
    isatty = getattr(stream, "isatty", None)
    return type(stream).__module__.startswith("ipykernel.") or bool(isatty and isatty())


def say(verbose: bool | int, line: str) -> None:
    """If `verbose` is true, print a line that stays on the screen."""
    if verbose:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


class LiveLine:
    """Prints the progress of a loop.

    With ``verbose=1`` a terminal or notebook shows a single line that is overwritten at each step;
    a file gets a line every `_FILE_PAUSE` seconds and at the end. With 2 or more each step prints a
    line, and with 0 nothing is printed. `unit` is the word for a step, `total` is the largest
    number of steps, and `first` is the number of steps that earlier calls made.
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
        """Report a step that took `seconds`.

        `number` counts from 0 and includes the steps of earlier calls. `figures` is the text about
        the step, such as its loss.
        """
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
        """Replace the text of the progress line, or print a new line if `verbose` is above 1."""
        if self.verbose > 1:
            say(self.verbose, text)
        elif self.verbose:
            self._text = text
            if time.monotonic() - self._last >= (_PAUSE if self._live else _FILE_PAUSE):
                self._write()

    def end(self) -> None:
        """Write the last text and end the line, so that it stays on the screen."""
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


def is_better(score: float, reference: float) -> bool:
    """Return True if `score` is larger than `reference` by more than rounding errors.

    A NaN is never better. The reference also wins a tie, so a search should try simpler settings
    first.
    """
    if np.isinf(reference):
        return bool(score > reference)
    return bool(score - reference > SCORE_NOISE * max(1.0, abs(reference)))
