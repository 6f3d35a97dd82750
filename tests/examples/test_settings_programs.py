"""The programs that compare settings of learning rules, on a few small images."""

import numpy as np
import pytest

from examples.studies import inference_in_learning as study
from examples.studies import margin_settings, rule_settings
from skcrbm import MSSVMCRBM, CRBMClassifier
from skcrbm.energies import RBMEnergy
from skcrbm.inference import DualDecomposition, MeanField, SumProduct, infer
from skcrbm.learning import SGD, CDPercLoss
from skcrbm.learning.data import Batch, Clock
from skcrbm.learning.phases import LocalSearch

SIZE = rule_settings.QUICK._replace(n_hidden=3, max_iter=3)


def small(task, size):
    """Return training, validation and test images of 16 pixels, of which a tenth is flipped."""
    rng = np.random.default_rng(0)
    pairs = []
    for n_images in (40, 30, 30):
        clean = (rng.random((n_images, 1)) < [0.2, 0.8] * 8).astype(np.float32)
        pairs.append((np.abs(clean - (rng.random(clean.shape) < 0.1)), clean))
    return pairs


@pytest.fixture(autouse=True)
def images(monkeypatch):
    for program in (rule_settings, margin_settings, study):
        monkeypatch.setattr(program, "task_images", small)


def searched(setting, n_rows=200):
    """Return the score of the state that a search finds in each row, and of the best state."""
    rng = np.random.default_rng(1)
    energy = RBMEnergy(
        2 * rng.normal(size=(5, 4)), rng.normal(size=(n_rows, 5)), rng.normal(size=(n_rows, 4))
    )
    batch = Batch(np.zeros((n_rows, 1)), np.zeros((n_rows, 5)), np.ones(n_rows), np.arange(n_rows))
    clock = Clock(0, 0, np.uint64(7))
    phase = rule_settings.Search(setting)
    plain, _ = LocalSearch(setting.n_steps)(energy, batch, clock, None)
    return phase(energy, batch, clock, None)[0], plain


def test_the_first_setting_is_the_rule_of_the_library():
    found, plain = searched(rule_settings.Setting())
    np.testing.assert_array_equal(found.unary, plain.unary)
    np.testing.assert_array_equal(found.log_weight, plain.log_weight)


def test_the_margin_is_the_number_of_wrong_outputs():
    Setting = rule_settings.Setting
    found, plain = searched(Setting(margin=True))
    best = searched(Setting())[0]
    # Labels are all off, so each output that is on is wrong.
    wrong = found.unary[:, :5].sum(axis=1)
    assert (found.log_weight - wrong <= best.log_weight + 1e-9).mean() > 0.9
    assert found.unary[:, :5].sum() > best.unary[:, :5].sum()
    assert (found.log_weight >= best.log_weight - 1e-9).mean() > 0.9
    np.testing.assert_array_equal(best.log_weight, plain.log_weight)


def test_the_scores_of_a_cell_are_the_errors_of_the_best_epoch():
    row = rule_settings.fit_and_score("noisy", "rate 0.15", SIZE)
    (X, Y), (X_val, Y_val), (X_test, Y_test) = small("noisy", SIZE)
    model = CRBMClassifier(
        n_hidden=3,
        learning=CDPercLoss(n_steps=10),
        inference=MeanField(tol=0.01),
        decode="marginal_map",
        solver=SGD(learning_rate=0.15, batch_size=20, average=True),
        alpha=0.0,
        random_state=0,
    )
    validation, test = [], []
    for _ in range(3):
        model.partial_fit(X, Y)
        validation.append((model.predict(X_val) != Y_val).mean())
        wrong = model.predict(X_test) != Y_test
        test.append((100 * wrong.mean(), 100 * wrong[X_test != Y_test].mean()))
    best = int(np.argmin(validation))
    assert row["marginal_map_epoch"] == str(best + 1)
    assert row["marginal_map_all"] == f"{test[best][0]:.3f}"
    assert row["marginal_map_changed"] == f"{test[best][1]:.2f}"
    table = rule_settings.markdown({"a": {**row, "task": rule_settings.TASKS[0]}})
    assert f"| rate 0.15 | {row['marginal_all']} / {row['marginal_changed']} |" in table


def test_the_scores_of_the_defaults_on_images():
    margin_settings.images.cache_clear()
    task = "noise, 14 x 14"
    rows = {
        name: margin_settings.fit_and_score(task, name, quick=True)
        for name in (*margin_settings.MODELS, margin_settings.FEW_LABELS)
    }
    margin_settings.images.cache_clear()
    (X, Y), (X_val, Y_val), _ = small(task, None)
    model = MSSVMCRBM(n_hidden=64, random_state=0, max_iter=2).fit(X, Y)
    wrong = model.predict(X_val) != Y_val
    row = rows["`MSSVMCRBM(n_hidden=64)`"]
    assert row["all"] == f"{100 * wrong.mean():.2f}"
    assert row["changed"] == f"{100 * wrong[X_val != Y_val].mean():.1f}"
    assert rows["`CRBMClassifier(n_hidden=0)`"]["hidden units"] == "0"
    done = {f"{task}, {name}": row for name, row in rows.items()}
    assert margin_settings.markdown(done).count("\n") == 2 + len(rows)


def fitted(kind, inference, size):
    """Return a model after the two epochs of a quick run, and the test images."""
    (X, Y), _, test = small("patch", size)
    solver = SGD(learning_rate=0.15, batch_size=20)
    model = kind(n_hidden=3, inference=inference, solver=solver, alpha=0.0, random_state=0)
    return model.partial_fit(X, Y).partial_fit(X, Y), test


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_studies_of_inference_in_learning(monkeypatch):
    """Wrong pixels and log-likelihoods, by predictions and sums that are written out here."""
    size = study.QUICK._replace(n_hidden=3)
    monkeypatch.setattr(study, "QUICK", size)
    method = SumProduct(tol=0.001, damping=0.5)
    model, test = fitted(CRBMClassifier, method, size)
    row = study.damping(0.5, 0, size)
    model.set_params(decode="marginal")
    share = 100 * (model.predict(test[0]) != test[1]).mean()
    assert float(row["wrong"]) == pytest.approx(share, abs=0.25)  # one pixel of 480 is 0.2
    assert row["converged"] == f"{100 * model.convergence_curve_[-1]:.0f}"

    model, test = fitted(CRBMClassifier, MeanField(tol=0.001), size)
    errors = study.matched("mean field", 0, size)["wrong"].split()
    assert len(errors) == len(study.PREDICTED)
    for text, method in zip(errors, study.PREDICTED.values()):
        p = infer(study.energies(model, test[0]), method).marginals[:, :16]
        assert text == f"{100 * ((p > 0.5) != test[1]).mean():.3f}"

    model, test = fitted(MSSVMCRBM, DualDecomposition(max_iter=10, node_limit=1), size)
    own, _ = study.margin("dual_decomposition, 10 steps", 0, size)["wrong"].split()
    assert own == f"{100 * (model.predict(test[0]) != test[1]).mean():.3f}"
