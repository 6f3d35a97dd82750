"""Averaged gradient descent, the recipe where inference is approximate."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from reference.objects import objects
from sklearn.datasets import load_digits, make_blobs

from skcrbm import MSSVMCRBM, CRBMClassifier
from skcrbm.datasets import flip_pixels
from skcrbm.inference import SumProduct
from skcrbm.learning import AveragedSGD, EarlyStopping
from skcrbm.learning.margins import MarginalHiddenMargin
from skcrbm.utils.columns import Columns

LARGE = {"n_hidden": 12, "inference": SumProduct(max_iter=5), "alpha": 0.003, "random_state": 0}


@pytest.fixture(scope="module")
def digits():
    """Upper half of digits, and all of their pixels."""
    Y = (load_digits().data[:300] >= 8).astype(int)
    return Y[:, :32].astype(float), Y


def fitted(X, Y, **options):
    return CRBMClassifier(**objects(**{**LARGE, "max_iter": 2, **options})).fit(X, Y)


def params(model):
    return [model.visible_coef_, model.hidden_coef_, model.weights_, model.visible_intercept_]


def same(a, b):
    return all(map(np.array_equal, params(a), params(b)))


@pytest.mark.deep
def test_auto_stands_for_it_where_inference_is_approximate(digits):
    X, Y = digits
    auto = fitted(X, Y)
    named = fitted(X, Y, solver="asgd")
    spelled_out = {"solver": AveragedSGD(momentum=0.9), "early_stopping": EarlyStopping(0.15, 10)}
    assert same(auto, named)
    assert same(auto, fitted(X, Y, **spelled_out))
    for options in (
        {"solver": AveragedSGD(momentum=0.5)},
        {"solver": "adam"},
        {"solver": "sgd"},
        {"solver": AveragedSGD(batch_size=30)},
    ):
        assert not same(auto, fitted(X, Y, **options))


def test_other_solvers_do_what_they_did(digits):
    """By default there is no average and no momentum, and the patience is 25 epochs."""
    X, Y = digits
    for solver in ("adam", "sgd"):
        plain = {"average": False, "momentum": 0.0} if solver == "sgd" else {"average": False}
        old = {**plain, "n_iter_no_change": 25, "early_stopping": False}
        assert same(fitted(X, Y, solver=solver), fitted(X, Y, solver=solver, **old))


@pytest.mark.deep
def test_scales_and_shifts_of_columns_do_not_matter(digits):
    X, Y = digits
    first = fitted(X, Y, alpha="auto")
    scale = np.logspace(-1, 2, X.shape[1])
    other = fitted(5 + scale * X, Y, alpha="auto")
    assert other.alpha_ == pytest.approx(first.alpha_, rel=1e-3)
    np.testing.assert_allclose(other.visible_coef_ * scale, first.visible_coef_, atol=1e-4)
    np.testing.assert_allclose(
        other.predict_proba(5 + scale * X), first.predict_proba(X), atol=1e-4
    )


def test_sparse_columns_are_not_shifted_and_train_too(digits):
    X, Y = digits
    model = fitted(sp.csr_matrix(X), Y, max_iter=4)
    dense = fitted(X, Y, max_iter=4)
    both = (m.predict_proba(A) for m, A in ((model, sp.csr_matrix(X)), (dense, X)))
    errors = [((p >= 0.5) != Y).mean() for p in both]
    base = (Y.mean(axis=0).round() != Y).mean()
    assert max(errors) < 0.8 * base


@pytest.mark.deep
def test_it_learns_in_a_few_epochs_what_columns_and_rates_of_old_do_not(digits):
    X, Y = digits
    train, test = slice(0, 220), slice(220, None)
    wrong = {
        name: (
            fitted(X[train], Y[train], max_iter=12, **options).predict(X[test]) != Y[test]
        ).mean()
        for name, options in (
            ("auto", {}),
            ("old", {"solver": "adam", "alpha": 0.1, "early_stopping": False}),
        )
    }
    assert wrong["auto"] < wrong["old"]


def test_an_explicit_penalty_is_that_of_the_columns_as_given(digits):
    X, Y = digits
    model = fitted(X, Y, alpha=0.01)
    assert model.alpha_ == 0.01
    assert len(model.alpha_path_["alpha"]) == 0


@pytest.mark.deep
def test_the_penalty_is_worth_a_row_at_least(digits):
    Y = digits[1]
    model = fitted(Y, Y, alpha="auto")  # the pixels themselves: regressions want no penalty at all
    assert model.alpha_ >= 1 / len(Y)


def test_a_piece_of_the_rows_goes_on_with_the_step_size_of_its_first(digits):
    X, Y = digits
    model = CRBMClassifier(**LARGE, solver="asgd")
    model.partial_fit(X[:100], Y[:100])
    rates = model._progress.optimizer.learning_rates
    model.partial_fit(3 * X[100:], Y[100:])
    assert model._progress.optimizer.learning_rates == rates
    assert rates.visible_coef == pytest.approx(2 / (1 + (X[:100] ** 2).sum(axis=1).mean()))


@pytest.mark.deep
def test_max_margin_takes_it_on_large_layers_only(digits):
    X, Y = digits
    options = {"inference": "icm", "max_iter": 2, "random_state": 0}

    def fit(n_hidden, **changes):
        return MSSVMCRBM(n_hidden=n_hidden, **options, **changes).fit(X, Y)

    assert same(fit(12), fit(12, solver="asgd"))
    assert not same(fit(12), fit(12, solver="adam"))
    small = fit(4)
    assert same(small, fit(4, solver="adam"))
    two_valued = X.var(axis=0).sum()
    assert small.alpha_ == pytest.approx(2e-3 * two_valued, rel=1e-4)
    assert len(small.alpha_path_["alpha"]) == 0
    large = fit(12)
    likelihood = fitted(X, Y, alpha="auto")
    # Both penalties are found without hidden units.
    assert large.alpha_ == pytest.approx(3 * likelihood.alpha_, rel=1e-6)
    np.testing.assert_allclose(large.alpha_path_["log_loss"], likelihood.alpha_path_["log_loss"])


@pytest.fixture(scope="module")
def noisy_digits():
    """Digits with a tenth of the pixels flipped, and clean digits, for training and test."""
    clean = (load_digits().images >= 8).astype(np.float32)[:900]
    noisy = flip_pixels(clean, 0.1, random_state=0)
    return [
        part.reshape(len(part), -1) for part in (noisy[:500], clean[:500], noisy[500:], clean[500:])
    ]


@pytest.mark.deep
def test_max_margin_with_nothing_set_is_not_behind_the_model_without_hidden_units(noisy_digits):
    X, Y, X_test, Y_test = noisy_digits
    wrong = {}
    for n_hidden in (0, 32):
        kind = MSSVMCRBM if n_hidden else CRBMClassifier
        model = kind(n_hidden=n_hidden, random_state=0).fit(X, Y)
        wrong[n_hidden] = (model.predict(X_test) != Y_test).mean()
    assert model.n_hidden_ == 32
    assert model.n_iter_ >= 1
    assert wrong[32] < 0.98 * wrong[0]
    # The penalty of a fit to few labels is far too large here.
    strong = MSSVMCRBM(n_hidden=32, alpha=0.05, solver="asgd", random_state=0)
    assert wrong[32] < 0.95 * (strong.fit(X, Y).predict(X_test) != Y_test).mean()


@pytest.fixture
def useless_epochs(monkeypatch):
    """Let the validation score of every model with hidden units be that of chance."""
    score = MarginalHiddenMargin.score

    def worse(self, model, batch, epoch):
        return -0.5 if model.params.weights.shape[1] else score(self, model, batch, epoch)

    monkeypatch.setattr(MarginalHiddenMargin, "score", worse)


MARGIN = {"n_hidden": 12, "inference": "icm", "max_iter": 2, "random_state": 0}


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("refit", [True, False])
def test_max_margin_keeps_the_regressions_that_no_epoch_improves_on(digits, useless_epochs, refit):
    X, Y = digits
    model = MSSVMCRBM(early_stopping=EarlyStopping(refit=refit), **MARGIN).fit(X, Y)
    assert (model.n_hidden_, model.n_iter_, len(model.validation_scores_)) == (0, 0, 2)
    assert model.weights_.shape == (64, 0)
    assert model.visible_coef_.dtype == X.dtype
    regressions = CRBMClassifier(n_hidden=0, alpha=model.alpha_ / 3)
    Z = Columns(X, np.ones(len(X)), centre=True).transform(X)
    agree = (regressions.fit(Z, Y).predict(Z) == model.predict(X)).mean()
    assert agree > (0.995 if refit else 0.95)
    # Without the whole fit, the regressions were fitted to the other rows alone.
    assert (agree == 1) == refit or agree < 1


def test_regressions_that_were_kept_can_be_trained_further(digits, useless_epochs):
    X, Y = digits
    model = MSSVMCRBM(**MARGIN, warm_start=True).fit(X, Y)
    first, copy = model.visible_coef_, pickle.loads(pickle.dumps(model))
    assert np.array_equal(copy.predict(X), model.predict(X))
    assert copy.partial_fit(X, Y).n_hidden_ == 0
    assert not np.array_equal(copy.visible_coef_, first)
    again = model.fit(X, Y)
    assert (again.n_hidden_, again.alpha_) == (0, copy.alpha_)
    assert again.n_iter_ >= 1


def test_an_interrupt_of_the_regressions_keeps_the_best_epoch(digits, monkeypatch):
    X, Y = digits

    def interrupted(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(
        "skcrbm.estimators._mssvm.without_hidden_units", lambda *arguments: interrupted
    )
    with pytest.warns(UserWarning, match="interrupted"):
        model = MSSVMCRBM(**MARGIN).fit(X, Y)
    assert model.n_hidden_ == 12


@pytest.mark.deep
def test_the_regressions_suit_every_form_of_the_data(digits):
    X, Y = digits
    missing = np.where(np.random.RandomState(0).rand(*Y.shape) < 0.2, np.nan, Y)
    classes = np.arange(300) % 15
    for inputs, targets in ((X, missing), (sp.csr_matrix(X), Y), (X, classes)):
        model = MSSVMCRBM(**MARGIN).fit(inputs, targets)
        assert len(model.alpha_path_["alpha"]) > 0
        assert model.predict(inputs).shape == targets.shape


def test_large_penalties_do_not_make_it_diverge():
    X, y = make_blobs(60, centers=2, cluster_std=20, random_state=0)
    for options in ({}, {"alpha": 200.0}):
        model = CRBMClassifier(n_hidden=4, inference="mean_field", random_state=0, **options)
        model.fit(X / X.std(), y, sample_weight=np.where(y == 0, 1000.0, 1e-4))
        assert (model.predict(X / X.std()) == 0).all()
