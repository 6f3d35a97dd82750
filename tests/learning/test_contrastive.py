"""CD, PCD, CD-PercLoss and perturbed maxima, and decoding to the most probable state.

Statistical bounds are five standard errors at fixed seeds. Tests that draw many numbers are marked
`compiled`: the interpreter would take minutes.
"""

import numpy as np
import pytest
from reference.brute_force import best_states
from reference.cases import deep_except
from reference.objectives import conditional
from reference.steps import first_step
from sklearn.linear_model import LogisticRegression

from skcrbm import CRBMClassifier
from skcrbm.energies.rbm import ConditionalRBM, CRBMParams
from skcrbm.inference import PerturbAndMaxProduct, infer
from skcrbm.inference.any_energy.perturb_and_max_product import perturbed_states
from skcrbm.inference.base import resolve_method
from skcrbm.inference.random_numbers import random_key
from skcrbm.learning import SGD, Adam, LossPlateau, PMPLearning
from skcrbm.learning.data import Batch, Clock
from skcrbm.learning.rules import LEARNING_RULES

RULES = ("cd", "pcd", "cd_percloss", "pmp")


def problem(n=6, n_visible=4, n_hidden=3, n_features=2, seed=0, scale=0.8):
    rng = np.random.default_rng(seed)
    params = CRBMParams(
        *(
            scale * rng.normal(size=shape)
            for shape in (
                (n_visible, n_hidden),
                (n_visible, n_features),
                (n_hidden, n_features),
                (n_visible,),
                (n_hidden,),
            )
        )
    )
    visible = (rng.random((n, n_visible)) < 0.5).astype(float)
    batch = Batch(rng.normal(size=(n, n_features)), visible, rng.random(n) + 0.5, np.arange(n))
    return ConditionalRBM(params), batch


def rule(name, n_steps=1):
    return conditional(name, resolve_method("exact"), n_steps=n_steps)


def clock(step=0, key=0):
    return Clock(step, step, np.uint64(key))


def a_step(name, model, batch, key=0, n_steps=1):
    """The first `Step` of a rule."""
    return first_step(rule(name, n_steps), model, batch, key=np.uint64(key))


def flat(gradient):
    return np.concatenate([g.ravel() for g in gradient])


@pytest.mark.deep
@pytest.mark.compiled
@pytest.mark.parametrize("name", ["cd", "pcd"])
def test_long_chains_give_the_gradient_of_the_likelihood(name):
    model, batch = problem()
    exact = flat(first_step(rule("mle"), model, batch).gradient)
    draws = np.array([flat(a_step(name, model, batch, key, 30).gradient) for key in range(1500)])
    error = np.abs(draws.mean(0) - exact)
    assert (error < 5 * draws.std(0) / np.sqrt(len(draws)) + 1e-12).all()


@pytest.mark.compiled
def test_one_step_is_the_expectation_of_one_sweep():
    """CD-1: v ~ data, h ~ p(h | v), v' ~ p(v | h): its mean by enumeration over h and v'."""
    model, batch = problem(n=2)
    energy = model.energy(batch.X)
    expected = np.zeros((4,))
    h_all = ((np.arange(8)[:, None] >> np.arange(3)) & 1).astype(float)
    for n in range(2):
        q = energy.hidden_given_visible(batch.visible)[n]
        p_h = np.prod(np.where(h_all == 1, q, 1 - q), axis=1)
        p_v = 1 / (1 + np.exp(-(energy.visible_bias[n] + h_all @ energy.weights.T)))
        expected += batch.weight[n] * (p_h @ p_v - batch.visible[n])
    draws = np.array(
        [a_step("cd", model, batch, key).gradient.visible_intercept for key in range(1500)]
    )
    error = np.abs(draws.mean(0) - expected)
    assert (error < 5 * draws.std(0) / np.sqrt(len(draws))).all()


@pytest.mark.parametrize("name", RULES)
def test_gradient_is_that_of_the_loss_with_the_fantasy_held_fixed(name):
    """Finite differences of the free energy difference; the chain's numbers stay the same."""
    model, batch = problem(seed=1)
    objective = rule(name, 3)
    energy = model.energy(batch.X)
    negative = objective.negative(energy, batch, clock(key=5), objective.start(6)[1])[0]
    fantasy = negative.unary[:, :4]
    assert set(np.unique(fantasy)) <= {0, 1}
    gain = energy.log_weight(fantasy) - energy.log_weight(batch.visible)
    weight = batch.weight * (gain > 0) if name == "cd_percloss" else batch.weight
    step = a_step(name, model, batch, 5, 3)
    np.testing.assert_allclose(step.loss, weight @ gain)

    def loss(params):
        energy = ConditionalRBM(params).energy(batch.X)
        return weight @ (energy.log_weight(fantasy) - energy.log_weight(batch.visible))

    eps = 1e-6
    for k, (name_k, array) in enumerate(zip(CRBMParams._fields, model.params, strict=True)):
        for index in np.ndindex(array.shape):
            ends = []
            for sign in (1, -1):
                moved = array.copy()
                moved[index] += sign * eps
                ends.append(loss(model.params._replace(**{name_k: moved})))
            difference = (ends[0] - ends[1]) / (2 * eps)
            np.testing.assert_allclose(step.gradient[k][index], difference, atol=1e-6)


@pytest.mark.parametrize("name", RULES)
def test_chains_follow_their_rows_through_shuffling(name):
    model, batch = problem(seed=2)
    order = np.array([3, 0, 5, 1, 4, 2])
    objective = rule(name, 2)
    straight, shuffled = objective.start(6), objective.start(6)
    for epoch in range(3):
        now = clock(epoch, key=1)
        whole, straight = objective.step(model, batch, now, straight)
        total = 0
        for k in (0, 2, 4):
            part = batch.rows(order[k : k + 2])
            step, shuffled = objective.step(model, part, now, shuffled)
            total = total + flat(step.gradient)
        np.testing.assert_allclose(total, flat(whole.gradient), atol=1e-12)
    if name == "pcd":
        np.testing.assert_array_equal(straight[1].states, shuffled[1].states)
        assert straight[1].visited.all()


def test_persistent_chains_move_on():
    model, batch = problem(seed=3)
    objective = rule("pcd")
    state = objective.start(6)
    seen = []
    for epoch in range(200):
        state = objective.step(model, batch, clock(epoch, key=1), state)[1]
        seen.append(state[1].states[:, 4:].copy())
    # One sweep per visit is a chain of 200 sweeps: its mean is near the model's.
    marginals = infer(model.energy(batch.X), "exact").marginals[:, 4:]
    assert np.abs(np.mean(seen[20:], axis=0) - marginals).max() < 0.2
    assert not objective.start(6)[1].visited.any()


def test_percloss_steps_only_where_it_finds_better():
    model, batch = problem(seed=4)
    energy = model.energy(batch.X)
    best = np.array(
        [
            states[summed.argmax(), :4]
            for states, _, summed in (
                best_states(energy.weights, b, c) for b, c in zip(*energy.fields, strict=True)
            )
        ]
    )
    winner = Batch(batch.X, best, batch.weight, batch.index)
    step = a_step("cd_percloss", model, winner, 0, 20)
    assert step.loss == 0
    assert not flat(step.gradient).any()
    assert a_step("cd_percloss", model, batch, 0, 20).loss > 0


# ------------------------------------------------------------------------- the estimator


def data(n=300, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    signal = X @ rng.normal(size=(4, 2)) + 0.7 * rng.normal(size=(n, 2))
    Y = signal[:, [0, 1, 0, 1, 0]] + 0.3 * rng.normal(size=(n, 5)) > 0.3
    return X, Y.astype(int)


@pytest.mark.quick_cases(1)
@pytest.mark.compiled
@pytest.mark.parametrize("name", deep_except(("cd", "cd_percloss"), RULES))
def test_fit_learns(name):
    X, Y = data()
    learning = LEARNING_RULES.get(name)()
    short = {"sampler": PerturbAndMaxProduct(10)} if name == "pmp" else {"n_steps": 5}
    options = {"learning": learning.set_params(**short), "max_iter": 60, "random_state": 0}
    options["alpha"] = 0.03
    model = CRBMClassifier(**options).fit(X, Y)
    assert (model.predict(X) == Y).mean() > 0.8
    assert (np.broadcast_to(Y.mean(0) > 0.5, Y.shape) == Y).mean() < 0.7
    assert len(model.loss_curve_) == model.n_iter_
    again = CRBMClassifier(n_jobs=2, **options).fit(X, Y)
    np.testing.assert_array_equal(model.weights_, again.weights_)


@pytest.mark.compiled
def test_without_hidden_units_cd_is_logistic_regression():
    """The chain of independent outputs is at equilibrium after one sweep: CD is unbiased."""
    X, Y = data(150)
    model = CRBMClassifier(
        n_hidden=0, learning="cd", alpha=0.1, max_iter=3000, solver=SGD(learning_rate=0.05),
        early_stopping=LossPlateau(3000), random_state=0,
    ).fit(X, Y)  # fmt: skip
    for j in range(5):
        reference = LogisticRegression(C=1 / (0.1 * 150)).fit(X, Y[:, j])
        np.testing.assert_allclose(model.visible_coef_[j], reference.coef_[0], atol=0.15)


def test_perturbed_maxima_are_samples_with_numbers_of_their_rows():
    model, batch = problem(seed=4)
    energy, key = model.energy(batch.X), random_key(0)
    drawn = infer(energy, PerturbAndMaxProduct(30, random_state=0), n_samples=1).samples[:, 0]
    found = perturbed_states(energy, key, np.arange(6), 0, 30)
    np.testing.assert_array_equal(found, drawn)
    order = np.array([3, 0, 5, 1])
    part = perturbed_states(energy.rows(order), key, order, 0, 30)
    np.testing.assert_array_equal(part, drawn[order])
    assert (perturbed_states(energy, key, np.arange(6), 1, 30) != drawn).any()
    phase = rule("pmp", 30).negative
    moments, _ = phase(energy, batch, Clock(0, 0, key), None)
    np.testing.assert_array_equal(moments.unary[:, :4], drawn[:, :4])
    hidden = energy.hidden_given_visible(drawn[:, :4])
    np.testing.assert_allclose(moments.unary[:, 4:], hidden)


@pytest.mark.deep
@pytest.mark.compiled
def test_perturbed_maxima_learn_label_sets():
    """Outputs that depend on each other given x, of new rows, against the majority label set."""
    X, Y = data(600, seed=1)
    learning = PMPLearning(PerturbAndMaxProduct(10))
    options = {"learning": learning, "max_iter": 15, "random_state": 0}
    options["alpha"] = 0.01
    model = CRBMClassifier(**options).fit(X[:400], Y[:400])
    sets, counts = np.unique(Y[:400], axis=0, return_counts=True)
    majority = (Y[400:] == sets[counts.argmax()]).all(axis=1).mean()
    assert model.score(X[400:], Y[400:]) > majority + 0.2
    again = CRBMClassifier(n_jobs=2, **options).fit(X[:400], Y[:400])
    np.testing.assert_array_equal(model.predict_proba(X), again.predict_proba(X))
    binary = CRBMClassifier(**options).fit(X[:400], Y[:400, 0])
    assert binary.score(X[400:], Y[400:, 0]) > 0.8
    warm = model.set_params(warm_start=True, solver=Adam(learning_rate=1e-9)).fit(X[:400], Y[:400])
    np.testing.assert_allclose(warm.predict_proba(X), again.predict_proba(X), atol=1e-5)


@pytest.mark.parametrize("name", RULES)
def test_refusals(name):
    X, Y = data(40)
    partly = Y.astype(float)
    partly[0, 0] = np.nan
    with pytest.raises(ValueError, match=rf"NaN.*learning='{name}'.*'mle'"):
        CRBMClassifier(learning=name).fit(X, partly)
    with pytest.raises(ValueError, match="needs two classes in a 1-D y, got 3"):
        CRBMClassifier(learning=name).fit(X, np.arange(40) % 3)
    CRBMClassifier(learning=name, max_iter=2).fit(X, Y[:, 0]).predict(X)
    model = CRBMClassifier(learning=name, max_iter=2)
    if name == "pcd":
        with pytest.raises(ValueError, match="learning='pcd' keeps a chain for each training row"):
            model.partial_fit(X, Y)
    else:
        model.partial_fit(X, Y).partial_fit(X, Y)


def test_contrastive_differences_do_not_stop_the_training():
    X, Y = data(60)
    for name, n_epochs in (("cd", 30), ("pcd", 30), ("pmp", 30)):
        model = CRBMClassifier(
            learning=name, max_iter=30, early_stopping=LossPlateau(2), random_state=0
        )
        assert model.fit(X, Y).n_iter_ == n_epochs


# ------------------------------------------------------------------------------ decoding


def quick(decode, n_hidden, **options):
    return CRBMClassifier(n_hidden=n_hidden, decode=decode, random_state=0, **options)


@pytest.mark.parametrize("rule_name", ["map", "marginal_map"])
def test_decode_many_outputs(rule_name):
    """More than can be enumerated on the visible side: message passing with restarts."""
    rng = np.random.RandomState(0)
    X = rng.randn(60, 5)
    Y = (X @ rng.randn(5, 30) + rng.randn(60, 30) > 0).astype(int)
    for n_hidden in (5, 12):
        model = CRBMClassifier(
            n_hidden=n_hidden, alpha=0.1, max_iter=20, decode=rule_name, random_state=0
        )
        found = model.fit(X, Y).predict(X)
        assert (found == model.set_params(decode="marginal").predict(X)).mean() > 0.9


@pytest.mark.parametrize("rule_name", ["map", "marginal_map"])
@pytest.mark.parametrize("exact", [True, False])
def test_decode_to_the_most_probable_state(rule_name, exact, monkeypatch):
    if not exact:
        monkeypatch.setattr("skcrbm.decoding.best_states.AUTO_EXACT_UNITS", 0)
    X, Y = data(200)
    model = quick(rule_name, 3, alpha=0.01, max_iter=50).fit(X, Y)
    known = np.full((60, 5), np.nan)
    known[:, 1] = Y[:60, 1]
    for y_known in (None, known):
        found = model.predict(X[:60], y_known=y_known)
        assert found.shape == (60, 5)
        energy = model._fitted_model().energy(X[:60])
        right = 0
        for n, (b, c) in enumerate(zip(*energy.fields, strict=True)):
            clamp = None if y_known is None else np.append(y_known[n], [np.nan] * 3)
            states, scores, summed = best_states(energy.weights, b, c, clamp)
            value = scores if rule_name == "map" else summed
            right += (states[value.argmax(), :5] == found[n]).all()
        assert right == 60
    if y_known is not None:
        np.testing.assert_array_equal(found[:, 1], Y[:60, 1])
