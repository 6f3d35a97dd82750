"""Phases, and models whose energy does not depend on the row."""

import numpy as np
import pytest
from reference.brute_force import brute_force
from reference.density import DensityParams, density_problem
from reference.objectives import conditional, optimizer_of
from reference.steps import first_step

from skcrbm.inference import Exact, SumProduct, infer
from skcrbm.learning import phases
from skcrbm.learning.data import Batch, Clock, Design
from skcrbm.learning.fit import Plan, Progress
from skcrbm.learning.loop import EpochLoop
from skcrbm.learning.objectives import Contrast
from skcrbm.learning.penalties import L2
from skcrbm.learning.phases import Chains, Expected, Observed
from skcrbm.learning.rules import LEARNING_RULES, rules_for
from skcrbm.learning.solvers import Adam, LossPlateau

RATES = DensityParams(0.05, 0.05, 0.05)


def rule(name, **options):
    return conditional(name, Exact(), **options)


def flat(params):
    return np.concatenate([np.ravel(p) for p in params])


def minus_log_likelihood(params, batch):
    """By enumeration of all states."""
    W, b, c = params
    total = 0.0
    for v, weight in zip(batch.visible, batch.weight, strict=True):
        clamp = np.concatenate([v, np.full(len(c), np.nan)])
        observed = brute_force(W, b, c, clamp=clamp).log_partition
        total += weight * (brute_force(W, b, c).log_partition - observed)
    return total


def moved(params, k, by):
    vector, cuts = flat(params), np.cumsum([p.size for p in params])[:-1]
    vector[k] += by
    parts = np.split(vector, cuts)
    return DensityParams(*(x.reshape(p.shape) for x, p in zip(parts, params, strict=True)))


def train(name, model, source, *, objective=None, penalty=None, first_epoch=0, **options):
    plan = Plan(
        model=model,
        design=Design(np.zeros((1, 0))),
        rows=source,
        objective=objective or rule(name),
        penalty=penalty,
        solver=Adam(),
        verbose=0,
        stopping=LossPlateau(10**6),
        progress=Progress(n_epochs=first_epoch),
        **{"batch_size": 4, "max_iter": 100, **options},
    )
    loop = EpochLoop(plan, np.random.RandomState(0))
    return loop.run(source, plan.max_iter, optimizer_of("adam", RATES, 0.0))


@pytest.mark.parametrize("missing", [False, True])
def test_gradient_of_a_density(missing, monkeypatch):
    model, source = density_problem(missing=missing)
    asked = []

    def recording(energy, *args, **options):
        asked.append(energy.n_models)
        return infer(energy, *args, **options)

    monkeypatch.setattr(phases, "run_inference", recording)
    (batch,) = source.batches(None, 100)
    step = first_step(rule("mle"), model, batch)
    # One inference for all rows; rows with gaps have each their own condition.
    n_partly = int(np.isnan(batch.visible).any(axis=1).sum())
    assert sorted(asked) == ([1, n_partly] if missing else [1])
    assert step.loss == pytest.approx(minus_log_likelihood(model.params, batch), rel=1e-10)
    assert step.n_converged == len(batch)
    for k, gradient in enumerate(flat(step.gradient)):
        up, down = (minus_log_likelihood(moved(model.params, k, d), batch) for d in (1e-5, -1e-5))
        assert gradient == pytest.approx((up - down) / 2e-5, abs=1e-7)
    assert rule("mle").loss(model, batch) == pytest.approx(step.loss, rel=1e-12)


def test_a_batch_of_one_row_is_the_same():
    model, source = density_problem()
    whole = source.all
    parts = [first_step(rule("mle"), model, whole.rows([n])) for n in range(len(whole))]
    step = first_step(rule("mle"), model, whole)
    np.testing.assert_allclose(sum(flat(p.gradient) for p in parts), flat(step.gradient))
    assert sum(p.loss for p in parts) == pytest.approx(step.loss)


def test_mle_finds_the_moments_of_the_data():
    model, source = density_problem()
    history = train("mle", model, source, batch_size=12, max_iter=1500)
    fitted = model._replace(params=history.best.params)
    marginals = infer(fitted.energy(None), "exact").marginals[0, :4]
    np.testing.assert_allclose(
        marginals, np.average(source.all.visible, axis=0, weights=source.all.weight), atol=5e-3
    )


@pytest.mark.deep
@pytest.mark.compiled
@pytest.mark.parametrize(("name", "options"), [("cd", {}), ("pcd", {}), ("pcd", {"n_chains": 40})])
def test_long_chains_give_the_gradient_of_the_likelihood(name, options):
    model, source = density_problem(n=5)
    exact = flat(first_step(rule("mle"), model, source.all).gradient)
    objective = rule(name, n_steps=40, **options)
    draws = np.array(
        [
            flat(first_step(objective, model, source.all, key=np.uint64(key)).gradient)
            for key in range(600)
        ]
    )
    error = np.abs(draws.mean(0) - exact)
    assert (error < 5 * draws.std(0) / np.sqrt(len(draws)) + 1e-12).all()


@pytest.mark.deep
@pytest.mark.parametrize(("name", "options"), [("cd", {}), ("pcd", {}), ("pcd", {"n_chains": 50})])
def test_densities_learn_from_samples(name, options):
    model, source = density_problem(n=60, seed=3)
    objective = rule(name, n_steps=2, **options)
    before = minus_log_likelihood(model.params, source.all)
    history = train(name, model, source, objective=objective, batch_size=20)
    after = minus_log_likelihood(history.best.params, source.all)
    best = train("mle", model, source, batch_size=20, max_iter=300).best.params
    assert after - minus_log_likelihood(best, source.all) < 0.25 * (before - after)


def test_shared_chains_go_on_and_never_repeat_a_number():
    """Steps without an epoch's seed: fixed parameters, so each visit would do the same."""
    model, source = density_problem()
    objective = rule("pcd", n_chains=30)
    assert not objective.keeps_chains
    state, seen = objective.start(source.n_indices), []
    for step in range(150):
        _, state = objective.step(model, source.all, Clock(0, step, np.uint64(2)), state)
        seen.append(state[1].states.copy())
    assert len({s.tobytes() for s in seen}) == len(seen)
    found = np.mean(seen[10:], axis=(0, 1))
    expected = infer(model.energy(None), "exact").marginals[0]
    assert np.abs(found - expected).max() < 0.06
    # The loop gives the state back, and goes on from it, with new numbers.
    first = train("pcd", model, source, objective=objective, max_iter=2)
    assert first.state[1].states.shape == (30, 6)


def test_the_loop_numbers_batches_through():
    model, source = density_problem()
    clocks = []

    class Watching(Contrast):
        def step(self, model, batch, clock, state):
            clocks.append(clock)
            return super().step(model, batch, clock, state)

    objective = Watching(Observed(Exact()), Expected(Exact()), inference=Exact())
    train("", model, source, objective=objective, max_iter=3, batch_size=5, first_epoch=7)
    assert [clock.step for clock in clocks] == list(range(9))
    assert [clock.epoch for clock in clocks] == [7, 7, 7, 8, 8, 8, 9, 9, 9]
    assert {clock.key for clock in clocks} == {None}  # the objective draws nothing


def test_draws_of_two_visits_differ_whatever_their_number_of_sweeps():
    counters = [Clock(0, step).draw(number) for step in range(20) for number in range(200)]
    assert len(set(counters)) == len(counters)


def test_compositions_that_make_no_sense():
    model, source = density_problem()
    exact = Exact()
    only = Contrast(Observed(exact), Expected(exact), only_violations=True, inference=exact)
    with pytest.raises(TypeError, match="one state per row"):
        first_step(only, model, source.all)
    conditional = model._replace(params=model.params._replace(visible_bias=np.zeros((12, 4))))
    with pytest.raises(ValueError, match="does not depend on x"):
        first_step(rule("pcd", n_chains=3), conditional, source.all, key=np.uint64(0))


def test_contrasts_know_what_their_phases_need():
    exact = Exact()
    for chains, expected in (
        (Chains(1), (True, False)),
        (Chains(1, start="persistent"), (True, True)),
        (Chains(1, start="persistent", n_chains=2), (True, False)),
    ):
        contrast = Contrast(Observed(exact), chains, inference=exact)
        assert (contrast.draws, contrast.keeps_chains) == expected
    for name in rules_for("conditional"):
        rule = LEARNING_RULES.get(name)()
        made = rule.conditional(exact)
        assert (made.draws, made.keeps_chains) == (rule.draws, rule.keeps_chains)
        assert made.needs_complete == rule.needs_complete


def test_penalties_are_the_callers_choice():
    model, source = density_problem()
    free = train("mle", model, source, batch_size=12, max_iter=200).best.params
    penalty = L2(DensityParams(1.0, 0.0, 0.0))
    held = train("mle", model, source, penalty=penalty, batch_size=12, max_iter=200).best.params
    assert np.abs(held.weights).max() < 0.2 * np.abs(free.weights).max()

    class Pulled(L2):
        """Any term will do: here one towards 1."""

        def value(self, params):
            return float(((params.visible_bias - 1) ** 2).sum())

        def add_gradient(self, gradient, params):
            gradient.visible_bias[...] += 2e3 * (params.visible_bias - 1)

    pulled = train("mle", model, source, penalty=Pulled(RATES), batch_size=12, max_iter=600)
    pulled = pulled.best.params
    np.testing.assert_allclose(pulled.visible_bias, 1, atol=0.01)


def test_sum_product_on_a_density():
    model, source = density_problem(n_hidden=1)  # a tree
    exact = first_step(rule("mle"), model, source.all)
    bp = first_step(conditional("mle", SumProduct(max_iter=50, tol=1e-12)), model, source.all)
    np.testing.assert_allclose(flat(bp.gradient), flat(exact.gradient), atol=1e-8)


def test_observed_rows_of_one_model():
    """The energy holds a single model; the moments have a row for each row of the batch."""
    model, source = density_problem(missing=True)
    batch: Batch = source.all
    moments, _ = Observed(Exact())(model.energy(None), batch, Clock(0, 0), None)
    assert moments.unary.shape == (12, 6)
    assert moments.log_weight.shape == (12,)
