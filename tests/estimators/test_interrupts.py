"""Ctrl-C anywhere in any fit: the estimator is usable, or as it was before the call."""

import contextlib

import numpy as np
import pytest
from reference.fits import FITS
from reference.interrupts import count_lines, interrupted_at
from sklearn.exceptions import NotFittedError
from threadpoolctl import threadpool_info, threadpool_limits

N_INTERRUPTS = 12


def blas_threads():
    return [info["num_threads"] for info in threadpool_info() if info["user_api"] == "blas"]


def answer_of(fit, model):
    """Return the answer of the model, or None if it raises NotFittedError."""
    try:
        return fit.answer(model)
    except NotFittedError:
        return None


def interrupt(fit, line):
    """Return a model that was interrupted there."""
    model = fit.start()
    with contextlib.suppress(KeyboardInterrupt):  # anything else is a failure
        interrupted_at(lambda: fit.run(model), line)
    return model


@pytest.mark.deep
@pytest.mark.compiled
@pytest.mark.parametrize("name", FITS)
def test_an_interrupted_fit_is_whole_or_undone(name):
    fit = FITS[name]
    before = fit.start()
    old = answer_of(fit, before)
    whole = set(vars(fit.run(fit.start())))
    n_lines = count_lines(lambda: fit.run(fit.start()))
    with threadpool_limits(2, user_api="blas"):
        limits = blas_threads()
        for line in np.linspace(1, n_lines, N_INTERRUPTS).astype(int):
            model = interrupt(fit, line)
            new = answer_of(fit, model)
            assert blas_threads() == limits
            if set(vars(model)) == whole:
                assert all(np.isfinite(part).all() for part in new), line
            else:
                assert vars(model).keys() == vars(before).keys(), line
                assert (new is None) == (old is None), line
                for one, other in zip(new or [], old or [], strict=True):
                    np.testing.assert_array_equal(one, other)


@pytest.mark.quick_cases(1)
@pytest.mark.compiled
@pytest.mark.parametrize("name", ["crbm-partial", "mssvm-partial", "layered-partial"])
def test_a_failed_epoch_draws_no_numbers(name):
    """After a failed epoch, the next epoch draws the same numbers as without the failure."""
    fit = FITS[name]
    wanted = fit.answer(fit.run(fit.start()))
    n_lines, n_raised = count_lines(lambda: fit.run(fit.start())), 0
    for line in np.linspace(1, n_lines, 12).astype(int):
        model = fit.start()
        try:
            interrupted_at(lambda model=model: fit.run(model), line)
        except KeyboardInterrupt:
            n_raised += 1
            for one, other in zip(fit.answer(fit.run(model)), wanted, strict=True):
                np.testing.assert_array_equal(one, other)
    assert n_raised > 3


def test_thresholds_after_an_interrupt_are_those_of_the_marginals():
    fit = FITS["crbm-threshold"]
    n_lines = count_lines(lambda: fit.run(fit.start()))
    model = fit.start()
    X, Y = fit.data()
    with pytest.warns(UserWarning, match=r"thresholds_ are 0\.5"):
        interrupted_at(lambda: model.fit(X, Y), n_lines // 2)
    np.testing.assert_array_equal(model.thresholds_, np.full(Y.shape[1], 0.5))
    labels = model.predict(X)
    np.testing.assert_array_equal(labels, model.set_params(decode="marginal").predict(X))


def test_an_interrupt_comes_out_as_one(monkeypatch):
    """An interrupt inside NumPy or Numba still leaves `fit` as KeyboardInterrupt."""
    fit = FITS["crbm-adam"]
    before, model = fit.start(), fit.start()

    def struck(*args):
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt as error:
            raise SystemError("returned a result with an exception set") from error

    monkeypatch.setattr("skcrbm.learning.loop.EpochLoop._epoch", struck)
    with pytest.raises(KeyboardInterrupt):
        fit.run(model)
    assert vars(model).keys() == vars(before).keys()


def test_errors_after_an_interrupt_that_is_handled_stay_errors():
    fit = FITS["crbm-adam"]
    X, Y = fit.data()
    try:
        raise KeyboardInterrupt
    except KeyboardInterrupt:
        with pytest.raises(ValueError, match="inconsistent numbers"):
            fit.start().fit(X, Y[:-1])


def test_an_error_that_is_its_own_cause(monkeypatch):
    def circle(*args):
        error = ZeroDivisionError("round")
        raise error from error

    monkeypatch.setattr("skcrbm.learning.loop.EpochLoop._epoch", circle)
    fit = FITS["crbm-adam"]
    with pytest.raises(ZeroDivisionError, match="round"):
        fit.run(fit.start())


def test_an_interrupt_in_the_middle_of_an_error():
    """It may come when the error is on its way out, before anything is undone."""
    fit = FITS["crbm-refit"]
    X, Y = fit.data()
    model = fit.start()
    before = dict(vars(model))

    def failing():
        with pytest.raises(ValueError, match="inconsistent numbers"):
            model.fit(X, Y[:-1])

    n_lines = count_lines(failing)
    for line in range(n_lines - 20, n_lines + 1):
        with pytest.raises(KeyboardInterrupt):
            interrupted_at(failing, line)
        assert vars(model) == before
