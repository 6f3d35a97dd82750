"""Sets of labels with a bound on the expected loss."""

import numpy as np
import pandas as pd
import pytest
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score, jaccard_score
from sklearn.multioutput import MultiOutputClassifier

from skcrbm.calibration import ConformalRiskControl
from skcrbm.calibration._risk_control import _one_minus, _p_values
from skcrbm.datasets import make_structured_labels


@pytest.fixture(scope="module")
def data():
    return make_structured_labels(1200, n_labels=6, random_state=0)


@pytest.fixture(scope="module")
def model(data):
    X, Y = data
    return FrozenEstimator(MultiOutputClassifier(LogisticRegression()).fit(X[:200], Y[:200]))


def missed(y, found):
    return (y * (1 - found)).sum(axis=1) / np.maximum(y.sum(axis=1), 1)


@pytest.mark.deep
def test_false_negative_rate_over_splits(data, model):
    X, Y = data[0][200:], data[1][200:]
    rng = np.random.RandomState(0)
    risks = []
    for _ in range(60):
        order = rng.permutation(len(Y))
        some, rest = order[:150], order[150:]
        control = ConformalRiskControl(model, risk=0.15).fit(X[some], Y[some])
        risks.append(missed(Y[rest], control.predict(X[rest])).mean())
    assert 0.15 - 0.03 < np.mean(risks) < 0.15 + 3 * np.std(risks) / np.sqrt(60)


def test_the_threshold_is_the_largest_that_keeps_the_bound(data, model):
    X, Y = data[0][200:300], data[1][200:300]
    control = ConformalRiskControl(model, risk=0.1).fit(X, Y)
    proba = control.predict_proba(X)

    def bound(threshold):
        return (100 * missed(Y, (proba >= threshold).astype(int)).mean() + 1) / 101

    larger = proba[proba > control.threshold_].min()
    assert bound(control.threshold_) <= 0.1 < bound(larger)
    assert control.calibration_risk_ == pytest.approx(missed(Y, control.predict(X)).mean())


@pytest.mark.parametrize("loss", ["jaccard", "f1"])
def test_other_losses(data, model, loss):
    X, Y = data
    control = ConformalRiskControl(model, loss=loss, risk=0.6).fit(X[200:700], Y[200:700])
    found = control.predict(X[700:])
    score = {"jaccard": jaccard_score, "f1": f1_score}[loss]
    achieved = score(Y[700:], found, average="samples", zero_division=1)
    assert achieved > 0.4
    with pytest.raises(ValueError, match=r"risk=0.1 is too small for this loss"):
        ConformalRiskControl(model, loss=loss, risk=0.1).fit(X[200:700], Y[200:700])
    same = ConformalRiskControl(model, loss=lambda y, p: _one_minus(y, p, loss), risk=0.6)
    assert same.fit(X[200:700], Y[200:700]).threshold_ == control.threshold_


def test_losses_are_the_metrics_of_a_row():
    rng = np.random.RandomState(0)
    y, p = rng.randint(0, 2, (2, 50, 3))
    for metric, score in (("jaccard", jaccard_score), ("f1", f1_score)):
        mean = 1 - score(y, p, average="samples", zero_division=1)
        assert _one_minus(y, p.astype(bool), metric).mean() == pytest.approx(mean)


def test_p_values_reject_a_true_hypothesis_rarely():
    """Losses of mean 0.3: the hypothesis that the risk is above 0.3 is true at the boundary."""
    rng = np.random.RandomState(0)
    means = rng.binomial(1, 0.3, (4000, 100)).mean(axis=1)
    p = _p_values(means, 100, 0.3)
    assert (p <= 0.1).mean() <= 0.1 + 3 * np.sqrt(0.09 / 4000)
    assert _p_values(np.array([0.1]), 100, 0.3)[0] < 1e-4
    assert _p_values(np.array([0.5]), 100, 0.3)[0] == 1


def test_names_weights_and_errors(data, model):
    X, Y = data[0][200:400], data[1][200:400]
    frame = pd.DataFrame(Y, columns=list("abcdef"))
    control = ConformalRiskControl(model).fit(X, frame).set_label_output("pandas")
    assert list(control.predict(X).columns) == list("abcdef")
    weight = np.where(np.arange(200) < 120, 2.0, 0.0)
    weighted = ConformalRiskControl(model).fit(X, Y, sample_weight=weight)
    assert weighted.threshold_ == ConformalRiskControl(model).fit(X[:120], Y[:120]).threshold_
    for scale in (1e-200, 1e200):  # the square of a weight is 0 or infinite
        scaled = ConformalRiskControl(model).fit(X, Y, sample_weight=weight * scale)
        assert scaled.threshold_ == weighted.threshold_
    with pytest.raises(ValueError, match=r"at least 9 rows without missing labels .* got 5"):
        ConformalRiskControl(model).fit(X[:5], Y[:5])
    with pytest.raises(ValueError, match="loss must return"):
        ConformalRiskControl(model, loss=lambda y, p: 2 * y[:, 0]).fit(X, Y)
