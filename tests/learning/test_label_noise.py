"""Maximum likelihood for labels that may be wrong, against enumeration and finite differences."""

import itertools

import numpy as np
import pytest
from reference.states import all_states
from sklearn.base import clone

from skcrbm import CRBMClassifier
from skcrbm.datasets import make_structured_labels
from skcrbm.energies import RBMEnergy
from skcrbm.energies.rbm import ConditionalRBM, CRBMParams
from skcrbm.inference.base import resolve_method
from skcrbm.learning import NoisyLikelihood
from skcrbm.learning.data import Batch, Clock
from skcrbm.learning.label_noise import LabelNoise
from skcrbm.learning.objectives import negative_log_likelihood, row_scores

RNG = np.random.RandomState(0)
EXACT = resolve_method("exact")
RATES = RNG.uniform(0.05, 0.4, (4, 2))
N, V, H, D = 6, 4, 2, 3
X = RNG.randn(N, D)
VISIBLE = RNG.randint(0, 2, (N, V)).astype(float)
VISIBLE[0, 1] = VISIBLE[2] = np.nan
PARAMS = CRBMParams(RNG.randn(V, H), RNG.randn(V, D), RNG.randn(H, D), RNG.randn(V), RNG.randn(H))
MODEL = ConditionalRBM(PARAMS, RBMEnergy)
BATCH = Batch(X, VISIBLE, RNG.uniform(0.5, 2, N), np.arange(N))
VECTORS = all_states(V, float)


def log_p_true(params):
    """Return log p(v | x) (N, 2^V) by enumeration of outputs and hidden units."""
    fields = X @ params.visible_coef.T + params.visible_intercept
    hidden = X @ params.hidden_coef.T + params.hidden_intercept
    score = fields @ VECTORS.T
    score = score + np.logaddexp(0, hidden[:, None] + VECTORS @ params.weights).sum(axis=2)
    return score - np.logaddexp.reduce(score, axis=1, keepdims=True)


def naive_joint():
    """Return p(true vector, observed labels | x) (N, 2^V); missing labels are summed out."""
    chance = np.ones((N, len(VECTORS)))
    for n, k, i in itertools.product(range(N), range(len(VECTORS)), range(V)):
        if np.isnan(VISIBLE[n, i]):
            continue
        true = int(VECTORS[k, i])
        wrong = VISIBLE[n, i] != true
        chance[n, k] *= RATES[i, true] if wrong else 1 - RATES[i, true]
    return np.exp(log_p_true(PARAMS)) * chance


def test_likelihood_is_a_sum_over_true_labels():
    """The loss equals the enumeration over the true labels, also with missing labels."""
    wanted = -BATCH.weight @ np.log(naive_joint().sum(axis=1))
    objective = NoisyLikelihood(RATES).conditional(EXACT)
    step, _ = objective.step(MODEL, BATCH, Clock(0, 0), objective.start(N))
    assert step.loss == pytest.approx(wanted)
    noise = objective.noise
    found = negative_log_likelihood(MODEL.energy(X), BATCH, EXACT, noise=noise)
    assert found == pytest.approx(wanted)
    joint, single = row_scores(MODEL, BATCH, EXACT, noise=noise).T
    assert BATCH.weight @ joint == pytest.approx(wanted)
    # Marginal probabilities of the observed labels
    on = np.exp(log_p_true(PARAMS)) @ VECTORS
    seen_on = on * (1 - RATES[:, 1]) + (1 - on) * RATES[:, 0]
    each = np.where(VISIBLE == 1, seen_on, 1 - seen_on)
    wanted = -np.log(np.where(np.isnan(VISIBLE), 1, each)).sum(axis=1)
    np.testing.assert_allclose(single, wanted)


def test_gradient_by_finite_differences():
    """The gradient is the gradient of the loss."""
    objective = NoisyLikelihood(RATES).conditional(EXACT)

    def loss(params):
        model = MODEL._replace(params=params)
        return objective.step(model, BATCH, Clock(0, 0), objective.start(N))[0]

    gradient = loss(PARAMS).gradient
    for name in PARAMS._fields:
        direction = RNG.randn(*getattr(PARAMS, name).shape)
        above, below = (
            loss(PARAMS._replace(**{name: getattr(PARAMS, name) + e * direction})).loss
            for e in (1e-5, -1e-5)
        )
        wanted = (above - below) / 2e-5
        assert (getattr(gradient, name) * direction).sum() == pytest.approx(wanted, rel=1e-5)


def test_true_labels_given_observed_labels():
    """Fields of the noise give the posterior of the true labels."""
    from skcrbm.inference import infer

    noise = LabelNoise(RATES)
    found = infer(noise.observe(MODEL.energy(X), VISIBLE), "exact").marginals[:, :V]
    joint = naive_joint()
    np.testing.assert_allclose(found, joint @ VECTORS / joint.sum(axis=1, keepdims=True))


XS, YS = make_structured_labels(300, n_labels=5, structure="groups", random_state=0)


@pytest.mark.parametrize("options", [{"solver": "lbfgs"}, {"solver": "adam", "max_iter": 3}])
def test_rates_near_0_give_maximum_likelihood(options):
    """With flip rates of almost 0 the fit is the usual fit."""
    gaps = np.where(RNG.rand(*YS.shape) < 0.1, np.nan, YS)
    plain = CRBMClassifier(n_hidden=2, alpha=0.05, random_state=0, **options).fit(XS, gaps)
    noisy = clone(plain).set_params(learning=NoisyLikelihood(1e-12)).fit(XS, gaps)
    np.testing.assert_allclose(noisy.predict_proba(XS), plain.predict_proba(XS), atol=2e-3)
    assert noisy.flip_rates_.shape == (5, 2)
    assert not hasattr(plain, "flip_rates_")


@pytest.mark.deep
def test_symmetric_rates_are_found_and_help():
    """The common rate is near the truth, and the model is closer to the true labels."""
    X, Y = make_structured_labels(2000, n_labels=5, structure="groups", random_state=0)
    wrong = np.random.RandomState(0).random_sample(Y.shape) < 0.15
    noisy = np.where(wrong, 1 - Y, Y)
    plain = CRBMClassifier(alpha=0.01, random_state=0).fit(X[:1000], noisy[:1000])
    robust = clone(plain).set_params(learning=NoisyLikelihood("symmetric"))
    robust.fit(X[:1000], noisy[:1000])
    assert robust.flip_rates_[0, 0] == pytest.approx(0.15, abs=0.06)
    gain = robust.score_samples(X[1000:], Y[1000:]) - plain.score_samples(X[1000:], Y[1000:])
    assert gain.mean() > 0.1


@pytest.mark.deep
def test_rates_of_labels_differ():
    """A label with many errors gets a larger rate than labels without errors."""
    X, Y = make_structured_labels(1000, n_labels=4, structure="groups", random_state=0)
    wrong = np.random.RandomState(0).random_sample(Y.shape) < [0.25, 0, 0, 0]
    model = CRBMClassifier(alpha=0.005, n_hidden=4, max_iter=60, random_state=0)
    model.set_params(learning=NoisyLikelihood("per_label", max_iter=4))
    rates = model.fit(X, np.where(wrong, 1 - Y, Y)).flip_rates_
    assert (rates[:, 0] == rates[:, 1]).all()
    assert rates[0, 0] > 1.5 * rates[1:, 0].max()


@pytest.mark.deep
def test_weights_of_labels_and_two_classes():
    """Estimation works with weights of labels, and with a 1-D y of two classes."""
    model = CRBMClassifier(n_hidden=1, alpha=0.05, max_iter=20, random_state=0)
    model.set_params(learning=NoisyLikelihood("per_value", max_iter=1))
    weight = RNG.choice([0.5, 1.0, 2.0], size=YS.shape)
    assert model.fit(XS, YS, sample_weight=weight).flip_rates_.shape == (5, 2)
    assert model.fit(XS, YS[:, 0]).flip_rates_.shape == (1, 2)
    given = clone(model).set_params(learning=NoisyLikelihood([0.1, 0.2, 0.1, 0.1, 0.3]))
    given.partial_fit(XS, YS)
    np.testing.assert_array_equal(given.flip_rates_[:, 1], [0.1, 0.2, 0.1, 0.1, 0.3])


def test_errors():
    """Errors name the argument and the alternatives."""
    model = CRBMClassifier(n_hidden=1, alpha=0.05, max_iter=20)
    for rates, text in [
        ("each", "must be one of 'symmetric'"),
        (0.5, "below 1/2"),
        ([0.1, 0.2], r"shape \(\), \(5,\)"),
        (0.0, "above 0"),
    ]:
        with pytest.raises(ValueError, match=f"flip_rates.*{text}"):
            model.set_params(learning=NoisyLikelihood(rates)).fit(XS, YS)
    with pytest.raises(ValueError, match="at least 40 rows"):
        model.set_params(learning=NoisyLikelihood()).fit(XS[:30], YS[:30])
    with pytest.raises(ValueError, match="cannot be estimated by partial_fit"):
        model.set_params(learning=NoisyLikelihood()).partial_fit(XS, YS)
    with pytest.raises(ValueError, match="two classes"):
        model.set_params(learning="noisy_mle").fit(XS, np.arange(300) % 3)
