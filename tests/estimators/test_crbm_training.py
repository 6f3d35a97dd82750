"""CRBMClassifier in training: continued, reported, interrupted, stopped early."""

import io
import re
import warnings

import numpy as np
import pytest
from reference.crbm_data import PARAMETERS, assert_same_parameters, joint, make_data, quick
from reference.early_end import EARLY_END, others
from reference.objects import objects
from scipy.special import softmax
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from threadpoolctl import threadpool_limits

from skcrbm import CRBMClassifier
from skcrbm.energies import RBMEnergy
from skcrbm.inference import MeanField, SumProduct, infer
from skcrbm.inference.accuracy import checked_rows, exact_visible_marginals
from skcrbm.learning import Adam, AveragedSGD, objectives
from skcrbm.learning.objectives import Contrast
from skcrbm.utils.fitting import rewrites_lines

# ------------------------------------------------------- warm starts, partial fits


def test_warm_start_goes_on():
    X, Y = make_data()
    # Plain gradient descent has no state besides the parameters.
    options = {"solver": "sgd", "learning_rate": 0.1}
    whole = quick(max_iter=7, **options).fit(X, Y)
    parts = quick(max_iter=3, warm_start=True, **options).fit(X, Y)
    assert parts.n_iter_ == 3
    parts.set_params(max_iter=4).fit(X, Y)
    assert_same_parameters(parts, whole)
    assert parts.n_iter_ == 4
    assert parts.loss_curve_ == whole.loss_curve_[3:]
    cold = quick(max_iter=3, **options).fit(X, Y).set_params(max_iter=4).fit(X, Y)
    assert_same_parameters(cold, quick(max_iter=4, **options).fit(X, Y))


def test_warm_start_refuses_another_problem():
    X, Y = make_data()
    model = quick(warm_start=True).fit(X, Y)
    with pytest.raises(ValueError, match="4 features as input"):
        model.fit(X[:, :2], Y)
    with pytest.raises(ValueError, match=re.escape("y must have shape (n_samples, 3)")):
        model.fit(X, Y[:, :2])
    with pytest.raises(ValueError, match="n_hidden=5, but the model was fitted with n_hidden=2"):
        model.set_params(n_hidden=5).fit(X, Y)
    with pytest.raises(ValueError, match="n_hidden=5, but the model was fitted"):
        model.partial_fit(X, Y)
    assert model.set_params(warm_start=False).fit(X, Y).weights_.shape == (3, 5)


@pytest.mark.parametrize("solver", ["adam", "sgd"])
@pytest.mark.parametrize("batch_size", ["auto", 16])
@pytest.mark.parametrize("target", ["multilabel", "multiclass", "binary"])
def test_partial_fits_make_up_a_fit(solver, batch_size, target):
    """The states of the optimiser and the random generator are kept: results are identical."""
    X, Y = make_data()
    y = {"multilabel": Y, "multiclass": Y.sum(1), "binary": Y[:, 0]}[target]
    momentum = {"momentum": 0.9} if solver == "sgd" else {}
    options = {"solver": solver, "batch_size": batch_size, "max_iter": 5, **momentum}
    whole = quick(**options).fit(X, y)
    parts = quick(**options)
    for _ in range(5):
        parts.partial_fit(X, y)
    assert_same_parameters(parts, whole)
    assert parts.loss_curve_ == whole.loss_curve_
    assert parts.n_iter_ == 5
    assert len(parts.convergence_curve_) == 5
    # And on from a fit.
    longer = clone(whole).set_params(max_iter=6).fit(X, y)
    assert_same_parameters(whole.partial_fit(X, y), longer)


def test_partial_fit_with_classes():
    X, Y = make_data()
    y = Y.sum(axis=1)
    model = quick()
    model.partial_fit(X[y == 1], y[y == 1], classes=[0, 1, 2, 3])
    assert model.predict_proba(X).shape == (90, 4)
    for _ in range(30):
        model.partial_fit(X, y)
    assert len(np.unique(model.predict(X))) > 1
    with pytest.raises(ValueError, match=r"classes that the model does not know: \[9\]"):
        model.partial_fit(X, np.full(90, 9))
    with pytest.raises(ValueError, match="classes that the model does not"):
        quick().partial_fit(X, y, classes=[0, 1])


def test_partial_fit_refuses_other_classes():
    X, Y = make_data()
    model = quick().partial_fit(X, Y[:, 0], classes=[0, 1])
    model.partial_fit(X, Y[:, 0], classes=[1, 0])  # the same classes
    with pytest.raises(ValueError, match=r"classes=\[0, 1, 2\] differs from the classes"):
        model.partial_fit(X, Y[:, 0], classes=[0, 1, 2])


def test_partial_fit_after_an_earlier_epoch_was_kept():
    """The state of the optimiser belongs to a later epoch, and is dropped."""
    X, Y, model = overfitting(refit=False, n_iter_no_change=5)
    model.fit(X, Y)
    assert model.n_iter_ < len(model.loss_curve_)
    fresh = clone(model).set_params(early_stopping=False, warm_start=True, max_iter=1)
    for name, value in vars(model).items():
        if name.endswith("_") or name.startswith("_"):
            setattr(fresh, name, value)
    fresh.fit(X, Y)
    assert_same_parameters(model.set_params(early_stopping=False).partial_fit(X, Y), fresh)


def test_partial_fit_collects_label_sets():
    X, Y = make_data()
    model = quick(decode="label_set").partial_fit(X[:40], Y[:40]).partial_fit(X[40:], Y[40:])
    np.testing.assert_array_equal(model.label_sets_, np.unique(Y, axis=0))


def test_partial_fit_weights():
    X, Y = make_data()
    keep = np.arange(90) % 2 == 0
    assert_same_parameters(
        quick().partial_fit(X, Y, sample_weight=keep.astype(float)),
        quick().partial_fit(X[keep], Y[keep]),
    )


def test_partial_fit_refuses_early_stopping():
    X, Y = make_data()
    with pytest.raises(ValueError, match="partial_fit does not support early_stopping=True"):
        quick(early_stopping=True).partial_fit(X, Y)
    many = np.vstack([X] * 12), np.vstack([Y] * 12)
    model = quick(early_stopping="auto", n_hidden=0).partial_fit(*many)
    assert model.validation_scores_ is None


# -------------------------------------------------------------- progress and history


def test_curves():
    X, Y = make_data()
    model = quick(n_hidden=3, max_iter=30).fit(X, Y)
    assert len(model.loss_curve_) == len(model.convergence_curve_) == model.n_iter_ == 30
    assert model.loss_curve_[-1] < model.loss_curve_[0]
    assert model.convergence_curve_ == [1.0] * 30
    assert model.validation_scores_ is None
    # With a single batch, the loss of an epoch is computed before the parameters change.
    last = quick(n_hidden=3, max_iter=29).fit(X, Y)
    loss = 0.0
    for x, v in zip(X, Y, strict=True):
        states, score = joint(last, x)
        loss -= np.log(softmax(score)[(states == v).all(axis=1)][0]) / len(X)
    loss += 0.05 * ((last.visible_coef_**2).sum() + (last.hidden_coef_**2).sum())
    assert model.loss_curve_[-1] == pytest.approx(loss, rel=1e-10)


def test_stops_when_the_loss_does_not_get_better():
    X, Y = make_data()
    model = CRBMClassifier(**objects(n_hidden=0, max_iter=2000, n_iter_no_change=5, tol=1e-3))
    model.fit(X, Y)
    assert 5 < model.n_iter_ < 200


LINE = re.compile(
    r"Epoch (\d+)  loss [\d.]+(  validation -[\d.]+)?  converged 100\.0%  [\d.]+ s\n?"
)


def test_verbose(capsys):
    X, Y = make_data()
    quick(verbose=2).fit(X, Y)
    lines = capsys.readouterr().out.splitlines()
    assert [LINE.fullmatch(line).group(1) for line in lines] == ["1", "2", "3", "4"]
    assert all(LINE.fullmatch(line).group(2) is None for line in lines)
    model = quick(verbose=2, early_stopping=True).fit(X, Y)
    lines = capsys.readouterr().out.splitlines()
    split = lines.index(f"Best epoch {model.n_iter_}; fitting again on all rows")
    assert [bool(LINE.fullmatch(line).group(2)) for line in lines[:split]] == [True] * 4
    assert len(lines[split + 1 :]) == model.n_iter_
    quick().fit(X, Y)
    assert capsys.readouterr().out == ""


def test_the_advice_to_damp():
    X, Y = make_data()
    advice = r"damping \(SumProduct\(max_iter=200, damping=0.5\)\), or"
    with pytest.warns(ConvergenceWarning, match=advice) as record:
        quick(inference=SumProduct(max_iter=1), max_iter=2).fit(X, Y)
    assert "more iterations (SumProduct(max_iter=200))" in str(others(record)[0].message)
    with pytest.warns(ConvergenceWarning, match="inference='exact' if a layer is small") as record:
        quick(inference=SumProduct(max_iter=1, damping=0.5), max_iter=2).fit(X, Y)
    assert " damping (" not in str(record[0].message)  # it is damped
    with pytest.warns(ConvergenceWarning, match="'mean_field'") as record:
        quick(inference=MeanField(max_iter=1), max_iter=2).fit(X, Y)
    assert "damping" not in str(record[0].message)  # it cannot be damped


def test_one_live_line(capsys, monkeypatch):
    """A line with rate, loss, score and remaining time is overwritten until training ends."""
    monkeypatch.setattr("skcrbm.utils.fitting._PAUSE", 0.0)
    monkeypatch.setattr("skcrbm.utils.fitting.rewrites_lines", lambda stream: True)
    X, Y = make_data()
    quick(verbose=True, early_stopping=True, refit=False).fit(X, Y)
    lines = capsys.readouterr().out.split("\r")
    assert lines[0] == ""
    assert len(lines) == 1 + 4
    figures = r"loss [\d.]+  validation -[\d.]+  converged 100\.0%"
    for number, line in enumerate(lines[1:], start=1):
        left = "  at most [0-9]+:[0-9]{2} left *" if number < 4 else " *\n"
        assert re.fullmatch(rf"Epoch {number}/4  [\d.]+(/s| s each)  {figures}{left}", line)
    quick(verbose=1, solver="lbfgs", n_hidden=0).fit(X, Y)
    out = capsys.readouterr().out
    assert out.count("\n") == 1
    assert re.search(r"\rIteration 2/4  ", out)


def test_a_live_line_is_not_written_all_the_time(capsys, monkeypatch):
    monkeypatch.setattr("skcrbm.utils.fitting.rewrites_lines", lambda stream: True)
    X, Y = make_data()
    quick(verbose=True).fit(X, Y)
    out = capsys.readouterr().out
    assert out.count("\r") <= 3
    assert "Epoch 4/4" in out
    assert out.endswith("\n")


def test_a_file_gets_a_line_for_each_stage(capsys, monkeypatch):
    X, Y = make_data()
    quick(verbose=True, alpha="auto", solver="lbfgs", n_hidden=0).fit(X, Y)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["alpha", "Iteration"]
    monkeypatch.setattr("skcrbm.utils.fitting._FILE_PAUSE", 0.0)
    quick(verbose=True).fit(X, Y)
    out = capsys.readouterr().out
    assert "\r" not in out
    assert [line.split()[1] for line in out.splitlines()] == ["1/4", "2/4", "3/4", "4/4"]


def test_terminals_and_notebooks_rewrite_lines():
    class Terminal:
        def isatty(self):
            return True

    notebook = type("OutStream", (), {"__module__": "ipykernel.iostream"})
    assert rewrites_lines(Terminal())
    assert rewrites_lines(notebook())
    assert not rewrites_lines(io.StringIO())
    assert not rewrites_lines(None)


@pytest.mark.parametrize("kind", ["labels", "missing", "classes"])
def test_printed_log_loss_is_per_label(capsys, kind):
    X, Y = make_data()
    y = {"labels": Y, "missing": hidden_entries(Y), "classes": Y[:, 0] + Y[:, 1]}[kind]
    model = quick(verbose=2, alpha="auto", solver="lbfgs", n_hidden=0).fit(X, y)
    printed = re.findall(r"log loss ([\d.]+) per label", capsys.readouterr().out)
    total = model.alpha_path_["log_loss"]
    n_labels = {"labels": Y.shape[1], "missing": Y.shape[1] - 1, "classes": 1}[kind]
    np.testing.assert_allclose(np.array(printed, float), total / n_labels, atol=1e-4)


def hidden_entries(Y):
    """Return Y with one missing entry in each row."""
    Y = Y.astype(float)
    Y[np.arange(len(Y)), np.arange(len(Y)) % Y.shape[1]] = np.nan
    return Y


# ------------------------------------------------------------------------ interruption


@pytest.fixture
def interrupt(monkeypatch):
    """Calls up: the objective raises KeyboardInterrupt in the given step, from 0."""

    def at(step):
        original, done = Contrast.step, []

        def interrupted(self, *args):
            if len(done) == step:
                raise KeyboardInterrupt
            done.append(1)
            return original(self, *args)

        monkeypatch.setattr(Contrast, "step", interrupted)

    yield at
    monkeypatch.undo()


def test_interrupt_leaves_a_usable_estimator(interrupt, monkeypatch):
    X, Y = make_data()
    interrupt(2)
    with pytest.warns(UserWarning, match="interrupted; keeping what was learned"):
        model = quick(max_iter=50).fit(X, Y)
    monkeypatch.undo()
    assert model.n_iter_ == len(model.loss_curve_) == 2
    assert_same_parameters(model, quick(max_iter=2).fit(X, Y))
    assert model.predict(X).shape == Y.shape


def test_interrupt_in_the_first_epoch_propagates(interrupt):
    X, Y = make_data()
    interrupt(3)
    model = quick(batch_size=20)  # 5 steps an epoch
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, Y)
    with pytest.raises(NotFittedError):
        model.predict(X)


@pytest.mark.parametrize("extra", [0, 2])
def test_interrupt_in_the_refit_keeps_the_first_run(interrupt, monkeypatch, extra):
    X, Y = make_data()
    options = {"early_stopping": True, "max_iter": 6, "learning_rate": 1e-3}
    first = quick(refit=False, **options).fit(X, Y)
    assert first.n_iter_ > extra
    interrupt(6 + extra)  # one step an epoch: in the second run, before or after its first epoch
    with pytest.warns(UserWarning, match="interrupted; keeping"):
        model = quick(**options).fit(X, Y)
    monkeypatch.undo()
    assert_same_parameters(model, first)
    assert model.validation_scores_ == first.validation_scores_
    assert model.n_iter_ == first.n_iter_


# --------------------------------------------------------------------- early stopping


@pytest.mark.parametrize(("n", "held_out"), [(999, False), (1000, True)])
def test_auto_early_stopping_starts_at_1000_rows(n, held_out):
    X, Y = make_data(n, 2)
    model = quick(n_hidden=0, max_iter=2).fit(X, Y)
    assert (model.validation_scores_ is not None) == held_out
    # Rows of weight 0 are no rows.
    weight = np.ones(n)
    weight[0] = 0
    model.fit(X, Y, sample_weight=weight)
    assert model.validation_scores_ is None
    assert quick(n_hidden=0, max_iter=2, early_stopping=False).fit(X, Y).validation_scores_ is None


def overfitting(**options):
    """Few rows, many features: the validation score rises, then falls."""
    rng = np.random.RandomState(3)
    X = rng.randn(60, 30)
    Y = (X[:, :3] + rng.randn(60, 3) > 0).astype(int)
    fixed = {"solver": "adam", "early_stopping": True, "alpha": 0.0, "learning_rate": 0.02}
    model = CRBMClassifier(**objects(**fixed, random_state=0, **options))
    return X, Y, model


def test_best_weights_are_restored():
    X, Y, model = overfitting(refit=False, n_iter_no_change=5)
    model.fit(X, Y)
    scores = model.validation_scores_
    best = int(np.argmax(scores))
    assert 0 < best < len(scores) - 1
    assert model.n_iter_ == best + 1
    assert len(scores) == len(model.loss_curve_) == best + 1 + 5
    shorter = clone(model).set_params(max_iter=best + 1)
    shorter.set_params(early_stopping__n_iter_no_change=100).fit(X, Y)
    assert_same_parameters(model, shorter)


def test_refit_takes_all_rows_for_as_many_epochs():
    X, Y, model = overfitting(n_iter_no_change=5)
    model.fit(X, Y)
    best = int(np.argmax(model.validation_scores_))
    assert model.n_iter_ == len(model.loss_curve_) == best + 1
    # In one batch nothing is drawn after the initial parameters.
    plain = clone(model).set_params(early_stopping=False, max_iter=best + 1).fit(X, Y)
    assert_same_parameters(model, plain)
    first = clone(model).set_params(early_stopping__refit=False).fit(X, Y)
    assert (first.visible_coef_ != model.visible_coef_).any()


def test_refit_is_not_cut_short_by_the_training_loss(monkeypatch):
    original = Contrast.step

    def flat(self, *args):
        step, state = original(self, *args)
        return step._replace(loss=1.0), state

    monkeypatch.setattr(Contrast, "step", flat)
    X, Y, model = overfitting(n_iter_no_change=2)
    model.fit(X, Y)
    assert model.n_iter_ > 3
    assert len(model.loss_curve_) == model.n_iter_


def test_validation_part_keeps_the_share_of_classes(monkeypatch):
    X, _ = make_data(100)
    y = np.r_[np.zeros(80), np.ones(20)]
    seen = []

    def spying(model, batch, method, n_jobs, noise):
        seen.append((len(batch), batch.visible[:, 0].sum()))
        return 0.0

    monkeypatch.setattr(objectives, "validation_score", spying)
    quick(early_stopping=True, max_iter=1, validation_fraction=0.3).fit(X, y)
    assert seen == [(30, 6)]


def test_early_stopping_falls_back_where_rows_are_too_few():
    X, Y = make_data(30)
    rare = np.r_[np.zeros(14), np.ones(15), 2]
    with pytest.warns(UserWarning, match="no stratified validation part .*1 member") as record:
        model = quick(early_stopping=True).fit(X, rare)
    assert len(others(record)) == 1
    assert model.validation_scores_ is not None
    with pytest.warns(UserWarning, match="no validation part .*without early stopping"):
        model = quick(early_stopping=True).fit(X[:1], Y[:1])
    assert model.validation_scores_ is None
    assert_same_parameters(model, quick(early_stopping=False).fit(X[:1], Y[:1]), atol=1e-12)
    partly = np.where(np.arange(30)[:, None] == 5, Y, np.nan)
    with pytest.warns(UserWarning, match="no observed output; training continues without"):
        quick(early_stopping=True).fit(X, partly)


# ----------------------------------------------------------------------- convergence


def test_one_convergence_warning():
    X, Y = make_data()
    hopeless = SumProduct(max_iter=1, tol=1e-12)
    for options in ({}, {"early_stopping": True}, {"batch_size": 16}):
        with pytest.warns(ConvergenceWarning, match="converged for 0% of the rows") as record:
            model = quick(inference=hopeless, **options).fit(X, Y)
        assert len(others(record)) == 1
        assert model.convergence_curve_ == [0.0] * len(model.loss_curve_)
    with pytest.warns(ConvergenceWarning, match="'mean_field' inference") as record:
        quick(inference=MeanField(max_iter=1, tol=1e-12)).partial_fit(X, Y)
    assert len(record) == 1


@pytest.mark.parametrize("inference", ["exact", SumProduct(max_iter=200)])
def test_no_convergence_warning(inference):
    X, Y = make_data()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", EARLY_END)
        quick(inference=inference).fit(X, Y).predict(X)


def test_convergence_is_judged_in_the_last_epoch(monkeypatch):
    original = Contrast.step

    def early_trouble(self, model, batch, clock, state):
        step, state = original(self, model, batch, clock, state)
        return step._replace(n_converged=0) if clock.epoch < 2 else step, state

    monkeypatch.setattr(Contrast, "step", early_trouble)
    X, Y = make_data()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", EARLY_END)
        model = quick().fit(X, Y)
    assert model.convergence_curve_ == [0.0, 0.0, 1.0, 1.0]


# -------------------------------------------------------------------- determinism


@pytest.mark.quick_cases(2)
@pytest.mark.compiled
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("inference", ["exact", "sum_product", "mean_field"])
def test_threads_do_not_change_a_bit(inference):
    # Batches of 300 x 40 outputs: several chunks of rows for every method.
    X, Y = make_data(700, 10, 40)
    solver = (Adam if inference == "exact" else AveragedSGD)(batch_size=300)
    model = CRBMClassifier(
        n_hidden=10, inference=inference, solver=solver, alpha=0.01, max_iter=2, random_state=0
    )
    reference = clone(model).fit(X, Y)
    expected = reference.decision_function(X)
    for n_jobs in (1, 2):
        fitted = clone(model).set_params(n_jobs=n_jobs).fit(X, Y)
        assert_same_parameters(fitted, reference)
        assert fitted.loss_curve_ == reference.loss_curve_
        np.testing.assert_array_equal(fitted.decision_function(X), expected)
    for limit in (1, 2):
        with threadpool_limits(limit):
            fitted = clone(model).fit(X, Y)
            assert_same_parameters(fitted, reference)
            np.testing.assert_array_equal(fitted.decision_function(X), expected)


def test_random_state():
    X, Y = make_data()
    options = {"batch_size": 16, "early_stopping": True}
    reference = quick(**options).fit(X, Y)
    np.random.seed(99)  # noqa: NPY002  (the global state must not matter)
    assert_same_parameters(quick(**options).fit(X, Y), reference)
    state = np.random.RandomState(0)
    model = quick(**options).set_params(random_state=state)
    assert_same_parameters(model.fit(X, Y), reference)
    # A generator moves on, as everywhere in scikit-learn.
    assert (model.fit(X, Y).weights_ != reference.weights_).any()
    other = quick(**options).set_params(random_state=1).fit(X, Y)
    assert (other.weights_ != reference.weights_).any()


def test_initial_parameters_do_not_depend_on_the_number_of_rows():
    X, Y = make_data()
    a, b = (
        quick(max_iter=1, learning_rate=1e-12).fit(np.tile(X, (k, 1)), np.tile(Y, (k, 1)))
        for k in (1, 2)
    )
    assert_same_parameters(a, b, atol=1e-9)


def test_couplings_beyond_belief_propagation():
    """Labels that all equal one coin: exact marginals are near one half, BP takes a side."""
    rng = np.random.RandomState(0)
    X = rng.randn(200, 2)
    Y = np.repeat(rng.randint(0, 2, (200, 1)), 6, axis=1)
    model = quick(inference="sum_product", max_iter=200, learning_rate=0.02)
    with pytest.warns(
        ConvergenceWarning, match="couplings .* are too strong for belief propagation"
    ):
        model.fit(X, Y)
    exact = quick(inference="exact").fit(X, Y)
    for name in PARAMETERS:
        setattr(exact, name, getattr(model, name))
    assert np.abs(exact.predict_proba(X) - model.predict_proba(X)).mean() > 0.05
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", EARLY_END)
        quick(inference="sum_product", max_iter=20).fit(X, Y)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="couplings have grown")
        model.partial_fit(X, Y)  # an epoch may cost less than the check


@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (4, 0), (1, 1)])
def test_exact_marginals_of_the_coupling_check(shape):
    rng = np.random.RandomState(1)
    energy = RBMEnergy(*(rng.normal(0, 2, size) for size in (shape, (6, shape[0]), (6, shape[1]))))
    expected = infer(energy, "exact").marginals[:, : shape[0]]
    np.testing.assert_allclose(exact_visible_marginals(energy), expected, atol=1e-12)


def test_rows_of_the_coupling_check():
    assert list(checked_rows((5, 3), 3)) == [0, 1, 2]
    assert len(checked_rows((5, 200), 1000)) == 32
    assert len(checked_rows((200, 14), 1000)) == 2
    assert len(checked_rows((15, 15), 1000)) == 0
