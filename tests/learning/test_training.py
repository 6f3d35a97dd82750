"""Training runs: the start, the state left for the next run, and the source of the rows."""

from dataclasses import replace

import numpy as np
import pytest
from reference.density import DensityParams, density_problem
from reference.objectives import conditional

from skcrbm import CRBMClassifier
from skcrbm.inference import Exact
from skcrbm.kernels import random_uniform
from skcrbm.learning import Adam, EarlyStopping, LossPlateau
from skcrbm.learning.data import ArraySource, Design, Source
from skcrbm.learning.fit import Plan, fit, fit_one_epoch
from skcrbm.learning.rules import LEARNING_RULES


def training(model, source, name="mle", *, n_steps=None, n_chains=None, **options):
    defaults = {
        "objective": conditional(name, Exact(), n_steps=n_steps, n_chains=n_chains),
        "penalty": None,
        "solver": Adam(learning_rate=0.01),
        "rate_factors": DensityParams(1.0, 1.0, 1.0),
        "batch_size": 4,
        "max_iter": 3,
        "stopping": LossPlateau(5),
        "verbose": 0,
    }
    design = Design(np.zeros((1, 0)))
    return Plan(model=model, rows=source, design=design, **{**defaults, **options})


def rng(seed=0):
    return np.random.RandomState(seed)


@pytest.fixture
def numbers(monkeypatch):
    """All (key, stream, counter) that are drawn."""
    drawn, fill = [], random_uniform.fill_uniform

    def recording(key, streams, step, out):
        drawn.extend((int(key), int(stream), int(step)) for stream in streams)
        fill(key, streams, step, out)

    monkeypatch.setattr(random_uniform, "fill_uniform", recording)
    return drawn


@pytest.mark.parametrize("n_chains", [None, 10])
def test_a_run_goes_on_where_the_last_one_was(n_chains, numbers):
    model, source = density_problem()
    first = fit(training(model, source, "pcd", n_chains=n_chains), rng())
    progress = first.progress
    assert (progress.n_epochs, progress.n_steps) == (3, 9)
    chains = progress.state[1].states
    kept = chains.copy()
    seen = []

    class Watching(Source):
        n_rows, total_weight = source.n_rows, source.total_weight

        def batches(self, rng, size):
            seen.append(True)
            yield from source.batches(rng, size)

    # More sweeps than before: numbers drawn until now do not come again.
    plan = training(first.model, Watching(), "pcd", n_steps=3, n_chains=n_chains)
    second = fit(replace(plan, progress=progress), rng())
    assert seen
    assert (second.progress.n_epochs, second.progress.n_steps) == (6, 18)
    assert second.epochs[0].number == 3
    assert len(set(numbers)) == len(numbers)
    np.testing.assert_array_equal(chains, kept)  # the earlier state is not changed


def test_chains_belong_to_their_rows_unless_all_rows_share_them():
    model, source = density_problem()
    _, other = density_problem(n=7)
    for n_chains, goes_on in ((None, False), (10, True)):
        plan = training(model, source, "pcd", n_chains=n_chains, max_iter=1)
        progress = fit(plan, rng()).progress
        marked = progress._replace(
            state=(None, progress.state[1]._replace(visited=np.full(n_chains or 12, True)))
        )
        steps = []
        objective = plan.objective
        original = objective.step

        def step(model, batch, clock, state, original=original, steps=steps):
            steps.append(state[1].states is not None)
            return original(model, batch, clock, state)

        objective.step = step
        fit_one_epoch(replace(plan, rows=other, progress=marked), rng())
        fit(replace(plan, progress=marked), rng())
        # The first step on other rows, and the first step on the same rows.
        assert (steps[0], steps[2]) == (goes_on, True)


def test_another_rule_begins_anew():
    model, source = density_problem()
    progress = fit(training(model, source, "pcd"), rng()).progress
    result = fit(training(model, source, "cd", progress=progress), rng())
    assert result.progress.state == (None, None)
    assert result.progress.n_steps == 18


def test_a_refit_and_a_lost_run_use_up_numbers(numbers):
    model, source = density_problem(n=20)
    stopping = EarlyStopping(validation_fraction=0.25, n_iter_no_change=5)
    plan = training(model, source, "cd", stopping=stopping, batch_size=5, max_iter=4)
    result = fit(plan, rng())
    assert len(result.validation_scores) == 4
    n_refit = len(result.epochs)
    assert result.progress.n_steps == 4 * 3 + n_refit * 4
    assert len(set(numbers)) == len(numbers)


def test_the_optimiser_goes_on_in_partial_runs_only():
    model, source = density_problem()
    plan = training(model, source, max_iter=1)
    one = fit_one_epoch(plan, rng())
    plan = replace(plan, model=one.model, progress=one.progress)
    went_on = fit_one_epoch(plan, rng())
    assert went_on.progress.optimizer.n_steps == 6
    assert one.progress.optimizer.n_steps == 3  # a copy went on
    anew = fit(plan, rng())
    assert anew.progress.optimizer.n_steps == 3
    other = replace(plan, solver=Adam(learning_rate=0.1))
    assert fit_one_epoch(other, rng()).progress.optimizer.n_steps == 3


# -------------------------------------------------------------------------- sources


class Blocks(Source):
    """Rows in blocks of their own, as of a file that does not fit memory; in order."""

    def __init__(self, parts):
        self.parts = parts
        self.n_rows = sum(len(part) for part in parts)
        self.total_weight = sum(part.weight.sum() for part in parts)

    def batches(self, rng, size):
        for part in self.parts:
            assert len(part) % size == 0
            for start in range(0, len(part), size):
                yield part.rows(slice(start, start + size))


class InOrder(ArraySource):
    def batches(self, rng, size):
        for start in range(0, self.n_rows, size):
            yield self.all.rows(slice(start, start + size))


@pytest.mark.parametrize("name", ["mle", "cd", "pcd", "cd_percloss", "pmp"])
def test_blocks_give_the_same_as_arrays(name):
    model, arrays = density_problem()
    everything = arrays.all
    blocks = Blocks([everything.rows(slice(0, 8)), everything.rows(slice(8, 12))])
    ordered = InOrder(everything.X, everything.visible, everything.weight)
    found = [fit(training(model, source, name), rng()) for source in (ordered, blocks)]
    for a, b in zip(*(result.model.params for result in found), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)
    assert found[0].epochs[-1].loss == pytest.approx(found[1].epochs[-1].loss)


def test_a_source_that_cannot_hold_rows_out():
    model, arrays = density_problem()
    blocks = Blocks([arrays.all])
    with pytest.warns(UserWarning, match="cannot hold rows out; training continues") as caught:
        result = fit(training(model, blocks, stopping=EarlyStopping()), rng())
    assert caught[0].filename == __file__
    assert result.validation_scores is None


def test_parts_keep_the_positions_of_their_rows():
    _, source = density_problem()
    rest, held_out = source.split(0.25, rng())
    assert rest.n_rows + len(held_out) == 12
    assert rest.n_indices == 12
    assert sorted([*rest.all.index, *held_out.index]) == list(range(12))
    np.testing.assert_array_equal(rest.all.visible, source.all.visible[rest.all.index])


# ----------------------------------------------------------------------- the estimator


def data(n=40):
    generator = np.random.default_rng(0)
    X = generator.normal(size=(n, 3))
    return X, (X[:, [0, 1, 0]] + generator.normal(size=(n, 3)) > 0).astype(int)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("name", ["cd", "pcd", "cd_percloss", "pmp"])
def test_an_estimator_never_repeats_a_number(name, numbers):
    X, Y = data()
    rule, solver = LEARNING_RULES.get(name)(), Adam(batch_size=10)
    options = {"n_hidden": 2, "learning": rule, "solver": solver, "max_iter": 3, "random_state": 0}
    model = CRBMClassifier(warm_start=True, **options).fit(X, Y)
    first = len(numbers)
    if name != "pmp":
        model.set_params(learning__n_steps=4)
    model.fit(X, Y)
    assert len(numbers) > first
    model.set_params(early_stopping=True).fit(X, Y)
    if name != "pcd":
        model.set_params(early_stopping=False).partial_fit(X, Y).partial_fit(X, Y)
    assert len(set(numbers)) == len(numbers)


def test_a_warm_start_goes_on_with_its_chains():
    X, Y = data()
    model = CRBMClassifier(
        n_hidden=2, learning="pcd", max_iter=2, warm_start=True, random_state=0
    ).fit(X, Y)
    before = model._progress.state[1]
    assert before.states.shape == (40, 5)
    assert before.visited.all()
    # Chains of 0s, which a new chain would not begin with: a sweep of certain units keeps them.
    certain = np.zeros((40, 5), bool)
    model._progress = model._progress._replace(state=(None, before._replace(states=certain)))
    model.weights_ = np.full_like(model.weights_, 30.0)
    model.visible_intercept_ = np.full_like(model.visible_intercept_, -30.0)
    model.hidden_intercept_ = np.full_like(model.hidden_intercept_, -45.0)
    model.set_params(max_iter=1, solver=Adam(learning_rate=1e-9)).fit(X, Y)
    assert not model._progress.state[1].states.any()
    # On other rows the chains begin at their outputs.
    other = CRBMClassifier(**model.get_params(deep=False))
    model.fit(X[:30], Y[:30])
    assert model._progress.state[1].states.shape == (30, 5)
    assert model._progress.n_steps == 4
    assert not hasattr(other, "_progress")
