"""The study of messages that go on from visit to visit, on a few small images."""

import numpy as np
import pytest
from scipy.special import expit

from examples.papers.crbm_tables import SIZES
from examples.studies import persistent_messages as study
from skcrbm.inference import SumProduct, infer

SIZE = SIZES["quick"]._replace(n_hidden=7, n_train=60, max_iter=2)


@pytest.fixture
def images():
    """Twelve pixels, of which a tenth is flipped."""
    rng = np.random.default_rng(0)
    pairs = []
    for n_images in (SIZE.n_train, 30, 30):
        clean = (rng.random((n_images, 1)) < [0.2, 0.8] * 6).astype(np.float32)
        pairs.append((np.abs(clean - (rng.random(clean.shape) < 0.1)).astype(np.float32), clean))
    return pairs


def coupled(images, rate, visit, start):
    """Return a model after an epoch, with couplings made some 100 times as large."""
    model = study.make_model(SIZE, rate, visit, start, 0)
    model.partial_fit(*images[0])
    model.weights_ = (150 * model.weights_).astype(model.weights_.dtype)
    return model


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("start", ["messages", "beliefs"])
def test_short_visits_to_a_model_that_stays_end_where_a_long_run_does(images, start):
    X, Y = images[0]
    model = coupled(images, 1e-12, 1, start)
    energy = model._fitted_model().energy(X)
    long = infer(energy, SumProduct(max_iter=500, tol=1e-7))
    assert long.converged.all()
    assert (long.n_iter > 5).any()
    shares = []
    for _ in range(40):
        model.partial_fit(X, Y)
        shares.append(model.convergence_curve_[-1])
    assert shares[0] < 1 == shares[-1]
    phase, state = study.phase_and_state(model)
    log_odds = phase.earlier(energy, np.arange(len(X)), state).log_odds
    np.testing.assert_allclose(expit(log_odds), long.marginals, atol=1e-4)


def test_table(images, monkeypatch):
    monkeypatch.setattr(study, "task_images", lambda task, size: images)
    names = [(name, work) for name, work in study.cells(SIZE) if ", 5 iterations" in name]
    done = {name: {k: str(v) for k, v in work().items()} for name, work in names}
    assert len(done) == 6
    table = study.markdown(done)
    for row in done.values():
        curve = [float(error) for error in row["errors"].split()]
        assert len(curve) == 2
        assert float(row["best"]) == min(curve)
        best = f"{float(row['best']):.2f} ({row['epoch']})"
        assert (
            f"| 5 | {row['start']} | {row['seed']} | {best} | {float(row['after_2']):.2f} |"
            in table
        )
    assert table.count("learning rate 0.15**") == len(study.TASKS)
