"""Objectives, the training loop and validation scores."""

from dataclasses import replace

import numpy as np
import pytest
from reference.brute_force import brute_force
from reference.objectives import conditional, optimizer_of
from reference.steps import first_step
from scipy import sparse

from skcrbm import CRBMClassifier
from skcrbm.energies import OneHotRBMEnergy, RBMEnergy
from skcrbm.energies.grouped_rbm import GroupedRBMEnergy
from skcrbm.energies.rbm import ConditionalRBM, CRBMParams
from skcrbm.inference import Exact, MeanField, SumProduct, infer
from skcrbm.learning import phases
from skcrbm.learning.data import ArraySource, Batch, Design
from skcrbm.learning.fit import Plan, Progress
from skcrbm.learning.loop import EpochLoop
from skcrbm.learning.objectives import Objective, Step, validation_score
from skcrbm.learning.penalties import L2
from skcrbm.learning.rules import LEARNING_RULES, Likelihood, resolve_rule
from skcrbm.learning.solvers import SGD, LossPlateau
from skcrbm.utils.categorical import OutputUnits

NAMES = CRBMParams._fields


def make_model(n_visible, n_hidden, n_features, seed=0, scale=1.0, energy_type=RBMEnergy):
    rng = np.random.default_rng(seed)
    shapes = [
        (n_visible, n_hidden),
        (n_visible, n_features),
        (n_hidden, n_features),
        (n_visible,),
        (n_hidden,),
    ]
    params = CRBMParams(*(rng.normal(scale=scale, size=shape) for shape in shapes))
    return ConditionalRBM(params, energy_type)


def make_batch(n, n_visible, n_features, *, missing=False, one_hot=False, seed=1):
    """Rows with uneven weights; with `missing`, one row has no observed output at all."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, n_features)) * (rng.random((n, n_features)) < 0.8)
    visible = rng.integers(0, 2, (n, n_visible)).astype(float)
    if one_hot:
        visible = np.eye(n_visible)[rng.integers(0, n_visible, n)]
    if missing:
        visible[rng.random(visible.shape) < 0.4] = np.nan
        visible[0] = np.nan
        visible[1] = 1.0
    return Batch(X, visible, rng.uniform(0.2, 3.0, n), np.arange(n))


def finite_differences(objective, model, batch, epsilon=1e-5):
    """Central differences of the loss, for every entry of every parameter array."""
    gradient = []
    for k, array in enumerate(model.params):
        result = np.zeros_like(array)
        for entry in np.ndindex(array.shape):
            sides = []
            for sign in (1, -1):
                moved = array.copy()
                moved[entry] += sign * epsilon
                params = model.params._replace(**{NAMES[k]: moved})
                sides.append(objective.loss(model._replace(params=params), batch))
            result[entry] = (sides[0] - sides[1]) / (2 * epsilon)
        gradient.append(result)
    return CRBMParams(*gradient)


def assert_gradient(objective, model, batch, atol=1e-7):
    # Losses of a few units and differences over 1e-5 leave errors of some 1e-10 each; the
    # third derivatives add as much.
    step = first_step(objective, model, batch)
    expected = finite_differences(objective, model, batch)
    for name, mine, reference in zip(NAMES, step.gradient, expected, strict=True):
        assert mine.shape == reference.shape
        np.testing.assert_allclose(mine, reference, rtol=1e-6, atol=atol, err_msg=name)
    assert step.loss == pytest.approx(objective.loss(model, batch), rel=1e-12)
    return step


# ---------------------------------------------------------------- likelihood


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("n_hidden", [0, 1, 3])
def test_gradient_of_exact_likelihood(n_hidden, missing):
    model = make_model(4, n_hidden, 3)
    batch = make_batch(6, 4, 3, missing=missing)
    step = assert_gradient(conditional("mle", Exact()), model, batch)
    assert step.n_converged == 6


@pytest.mark.parametrize("n_hidden", [0, 2])
def test_gradient_of_one_hot_likelihood(n_hidden):
    model = make_model(4, n_hidden, 3, energy_type=OneHotRBMEnergy)
    assert_gradient(conditional("mle", Exact()), model, make_batch(6, 4, 3, one_hot=True))


@pytest.mark.parametrize("n_hidden", [0, 2, 5])  # 5: the vectors of classes are enumerated
@pytest.mark.parametrize("missing", [False, True])
def test_gradient_of_grouped_likelihood(n_hidden, missing):
    units = OutputUnits([3, 2, 1, 4])
    model = make_model(8, n_hidden, 3, energy_type=GroupedRBMEnergy)._replace(units=units)
    rng = np.random.default_rng(4)
    codes = rng.integers(0, units.n_classes, (7, 4)).astype(float)
    if missing:
        codes[rng.random(codes.shape) < 0.4] = np.nan
    batch = replace(make_batch(7, 8, 3), visible=units.units_of(codes))
    assert_gradient(conditional("mle", Exact()), model, batch)


@pytest.mark.parametrize("missing", [False, True])
def test_gradient_of_sum_product_on_a_tree(missing):
    """One hidden unit makes a star: belief propagation is exact, gradient and loss alike."""
    model = make_model(4, 1, 3)
    batch = make_batch(6, 4, 3, missing=missing)
    bp = conditional("mle", SumProduct(max_iter=50, tol=1e-12))
    step = assert_gradient(bp, model, batch)
    exact = first_step(conditional("mle", Exact()), model, batch, 0)
    for mine, reference in zip(step.gradient, exact.gradient, strict=True):
        np.testing.assert_allclose(mine, reference, atol=1e-10)
    assert step.loss == pytest.approx(exact.loss, rel=1e-10)


@pytest.mark.parametrize(
    "inference",
    [SumProduct(max_iter=500, tol=1e-13), MeanField(max_iter=2000, tol=1e-13)],
    ids=["sum_product", "mean_field"],
)
@pytest.mark.parametrize("missing", [False, True])
def test_gradient_of_approximate_likelihoods(inference, missing):
    """At a fixed point the beliefs are the gradient of the Bethe or mean-field log Z."""
    model = make_model(4, 3, 3, scale=0.4)
    step = assert_gradient(
        conditional("mle", inference), model, make_batch(6, 4, 3, missing=missing), atol=1e-6
    )
    assert step.n_converged == 6


@pytest.mark.parametrize("energy_type", [RBMEnergy, OneHotRBMEnergy])
@pytest.mark.parametrize("missing", [False, True])
def test_loss_is_that_of_brute_force(energy_type, missing):
    one_hot = energy_type is OneHotRBMEnergy
    model = make_model(3, 2, 2, energy_type=energy_type)
    batch = make_batch(5, 3, 2, missing=missing and not one_hot, one_hot=one_hot)
    if one_hot and missing:
        batch.visible[[0, 1, 1, 2], [0, 1, 2, 0]] = np.nan
        batch.visible[4] = np.nan
    W, U, S, b, c = model.params
    expected = 0.0
    for x, v, weight in zip(batch.X, batch.visible, batch.weight, strict=True):
        fields = (W, b + U @ x, c + S @ x)
        clamp = np.concatenate([v, [np.nan, np.nan]])
        observed = brute_force(*fields, clamp=clamp, one_hot=one_hot).log_partition
        expected += weight * (brute_force(*fields, one_hot=one_hot).log_partition - observed)
    assert conditional("mle", Exact()).loss(model, batch) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("missing", [False, True])
def test_gradient_of_sparse_rows_is_that_of_dense_rows(missing):
    model = make_model(4, 2, 5)
    batch = make_batch(7, 4, 5, missing=missing)
    dense = first_step(conditional("mle", Exact()), model, batch, 0)
    csr = first_step(
        conditional("mle", Exact()), model, replace(batch, X=sparse.csr_matrix(batch.X)), 0
    )
    assert csr.loss == pytest.approx(dense.loss, rel=1e-12)
    for a, b in zip(csr.gradient, dense.gradient, strict=True):
        assert isinstance(a, np.ndarray)
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)


def test_weights_are_copies_of_rows():
    model = make_model(3, 2, 2)
    batch = make_batch(4, 3, 2, missing=True)
    counts = np.array([1, 3, 2, 1])
    weighted = first_step(
        conditional("mle", Exact()), model, replace(batch, weight=counts.astype(float)), 0
    )
    copies = replace(batch.rows(np.repeat(np.arange(4), counts)), weight=np.ones(7))
    repeated = first_step(conditional("mle", Exact()), model, copies, 0)
    assert weighted.loss == pytest.approx(repeated.loss, rel=1e-12)
    for a, b in zip(weighted.gradient, repeated.gradient, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("inference", [Exact(), SumProduct(), MeanField()], ids=lambda m: m.name)
def test_a_row_without_observed_output_adds_nothing(inference):
    batch = make_batch(4, 3, 2)
    batch.visible[2] = np.nan
    model = make_model(3, 2, 2)
    step = first_step(conditional("mle", inference), model, batch, 0)
    without = first_step(conditional("mle", inference), model, batch.rows([0, 1, 3]), 0)
    # Both phases run the same inference on that row, so it cancels to rounding.
    assert step.loss == pytest.approx(without.loss, abs=1e-12)
    for a, b in zip(step.gradient, without.gradient, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-12)


@pytest.mark.parametrize("inference", [Exact(), SumProduct(), MeanField()], ids=lambda m: m.name)
def test_float32_gradients(inference):
    model = make_model(4, 3, 3, scale=0.5)
    batch = make_batch(8, 4, 3, missing=True)
    single = ConditionalRBM(CRBMParams(*(p.astype(np.float32) for p in model.params)))
    batch32 = replace(batch, X=batch.X.astype(np.float32), visible=batch.visible.astype(np.float32))
    a = first_step(conditional("mle", inference), single, batch32, 40)
    b = first_step(conditional("mle", inference), model, batch, 40)
    for mine, reference in zip(a.gradient, b.gradient, strict=True):
        assert mine.dtype == np.float32
        # Sums of 8 rows of moments below 3 each, float32 rounding 1e-7 a term; an iterative
        # method may stop one iteration apart, at changes below its tol of 1e-3.
        np.testing.assert_allclose(
            mine, reference, atol=1e-5 if inference.name == "exact" else 5e-3
        )


def test_converged_rows_are_counted_in_both_phases():
    model = make_model(4, 3, 3, scale=2.0)
    batch = make_batch(6, 4, 3, missing=True)
    assert (
        first_step(
            conditional("mle", SumProduct(max_iter=1, tol=1e-15)), model, batch, 0
        ).n_converged
        == 0
    )
    assert first_step(conditional("mle", Exact()), model, batch, 0).n_converged == 6


@pytest.mark.compiled
@pytest.mark.parametrize("n_jobs", [2, -1])
@pytest.mark.parametrize("inference", [Exact(), SumProduct(max_iter=5)], ids=lambda m: m.name)
def test_threads_do_not_change_a_bit(inference, n_jobs):
    # Large enough for several chunks of rows in either method.
    model = make_model(40, 6, 3, scale=0.3)
    batch = make_batch(300, 40, 3, missing=True)
    one = first_step(conditional("mle", inference, n_jobs=None), model, batch, 0)
    more = first_step(conditional("mle", inference, n_jobs=n_jobs), model, batch, 0)
    assert one.loss == more.loss
    for a, b in zip(one.gradient, more.gradient, strict=True):
        np.testing.assert_array_equal(a, b)


def test_registry():
    assert LEARNING_RULES.get("mle") is Likelihood
    with pytest.raises(ValueError, match="learning must be one of 'mle'"):
        resolve_rule("mel", "conditional")
    with pytest.raises(ValueError, match=r"learning must be one of 'mle'.*got 'bp_chain'"):
        resolve_rule("bp_chain", "conditional")


# ---------------------------------------------------------------- loop


class Pull(Objective):
    """The gradient of a row has entries 1; the loss of a row is its weight times epoch + 1."""

    def __init__(self, losses=None):
        self.losses = losses
        self.batches = []
        self.clocks = []

    def step(self, model, batch, clock, state):
        self.batches.append(batch)
        self.clocks.append(clock)
        total = batch.weight.sum()
        gradient = CRBMParams(*(np.full_like(p, total) for p in model.params))
        loss = (clock.epoch + 1 if self.losses is None else self.losses[clock.epoch]) * total
        return Step(gradient, loss, len(batch)), state

    def score(self, model, batch, epoch):
        return 0.0


class Changed(Pull):
    """`Pull`, with something in its steps put otherwise."""

    def step(self, model, batch, clock, state):
        step, state = super().step(model, batch, clock, state)
        return self.change(step, model, batch, clock), state


RATES = CRBMParams(*[0.1] * 5)


def zeros_model(n_visible=2, n_hidden=1, n_features=2):
    model = make_model(n_visible, n_hidden, n_features)
    return model._replace(params=CRBMParams(*(np.zeros_like(p) for p in model.params)))


def source_of(batch):
    return ArraySource(batch.X, batch.visible, batch.weight, batch.index)


def run(
    objective=None,
    model=None,
    batch=None,
    optimizer=None,
    penalty=None,
    *,
    batch_size=4,
    max_iter=1,
    rng=None,
    validate=None,
    stopping=None,
    first_epoch=0,
    end_epoch=lambda epoch: False,
):
    source = source_of(make_batch(10, 2, 2) if batch is None else batch)
    plan = Plan(
        model=zeros_model() if model is None else model,
        design=Design(np.zeros((1, 0))),
        rows=source,
        objective=Pull() if objective is None else objective,
        penalty=penalty,
        solver=SGD(),
        max_iter=max_iter,
        verbose=0,
        batch_size=batch_size,
        stopping=LossPlateau(10**6) if stopping is None else stopping,
        progress=Progress(n_epochs=first_epoch),
    )
    rng = np.random.RandomState(0) if rng is None else rng
    optimizer = optimizer_of("sgd", RATES, 0.0) if optimizer is None else optimizer
    loop = EpochLoop(plan, rng, end_epoch=end_epoch)
    return loop.run(source, max_iter, optimizer, validate)


def test_every_step_is_normalised_by_its_own_rows():
    """A last batch of 2 rows moves the parameters as far as one of 4."""
    objective = Pull()
    batch = make_batch(10, 2, 2)
    history = run(objective, batch=replace(batch, weight=np.full(10, 3.0)))
    assert [len(batch) for batch in objective.batches] == [4, 4, 2]
    for p in history.best.params:
        np.testing.assert_allclose(p, -0.3)
    # All rows are seen once.
    seen = np.concatenate([batch.index for batch in objective.batches])
    assert sorted(seen) == list(range(10))
    assert seen.tolist() != sorted(seen)


def test_weights_mean_the_same_whatever_the_batch_size():
    """With one row a batch, too, the steps of an epoch add up to the weighted mean."""
    batch = make_batch(10, 2, 2)
    weight = np.arange(1.0, 11.0)
    batch = replace(batch, weight=weight)
    for size in (1, 5, 10):
        history = run(Pull(), batch=batch, batch_size=size)
        for p in history.best.params:
            np.testing.assert_allclose(p, -0.1 * 10 / size)


def test_epoch_loss_is_the_weighted_mean_over_rows_with_penalty():
    class Losses(Changed):
        def change(self, step, model, batch, clock):
            return step._replace(loss=float(batch.weight @ batch.index))

    batch = make_batch(10, 2, 2)
    model = make_model(2, 1, 2)
    penalty = L2(CRBMParams(0.5, 1.0, 2.0, 0.0, 0.0))
    # Rates of zero: the penalty of the start stays.
    still = optimizer_of("sgd", CRBMParams(*[0.0] * 5), 0.0)
    history = run(Losses(), model=model, batch=batch, optimizer=still, penalty=penalty)
    W, U, S, _, _ = model.params
    expected = 0.25 * (W**2).sum() + 0.5 * (U**2).sum() + 1.0 * (S**2).sum()
    assert penalty.value(model.params) == pytest.approx(expected)
    expected += np.average(batch.index, weights=batch.weight)
    assert history.epochs[0].loss == pytest.approx(expected)


def test_penalty_enters_the_gradient():
    class Nothing(Changed):
        def change(self, step, model, batch, clock):
            return Step(CRBMParams(*(np.zeros_like(p) for p in model.params)), 0.0, len(batch))

    model = make_model(2, 1, 2)
    penalty = L2(CRBMParams(0.5, 1, 2, 0, 0))
    history = run(Nothing(), model=model, batch_size=10, penalty=penalty)
    shrunk = (0.95, 0.9, 0.8, 1, 1)  # 1 - 0.1 * factor
    for new, old, factor in zip(history.best.params, model.params, shrunk, strict=True):
        np.testing.assert_allclose(new, factor * old)


def test_full_batches_draw_nothing():
    rng = np.random.RandomState(3)
    before = rng.get_state()[1].copy()
    objective = Pull()
    run(objective, batch_size=10, max_iter=3, rng=rng)
    np.testing.assert_array_equal(rng.get_state()[1], before)
    assert [batch.index.tolist() for batch in objective.batches] == [list(range(10))] * 3


def test_order_of_rows_comes_from_the_generator():
    orders = []
    for seed in (0, 0, 1):
        objective = Pull()
        run(objective, max_iter=2, rng=np.random.RandomState(seed))
        orders.append(np.concatenate([batch.index for batch in objective.batches]).tolist())
    assert orders[0] == orders[1] != orders[2]
    assert orders[0][:10] != orders[0][10:]


def test_best_epoch_is_restored():
    scores = [0.0, 2.0, 1.0, 2.0, 1.5]
    history = run(max_iter=5, batch_size=10, validate=lambda model, number: scores[number])
    # The first of two equally good epochs: fewer epochs to refit.
    assert history.best.number == 1
    assert [epoch.score for epoch in history.epochs] == scores
    for p in history.best.params:
        np.testing.assert_allclose(p, -0.2)  # two full-batch steps of 0.1
    assert history.reason == "max_iter"


def test_without_validation_the_last_epoch_is_kept():
    history = run(Pull(losses=[3.0, 1.0, 2.0]), max_iter=3, batch_size=10)
    assert history.best.number == 2
    np.testing.assert_allclose(history.best.params.visible_intercept, -0.3)
    assert [epoch.loss for epoch in history.epochs] == [3.0, 1.0, 2.0]
    assert all(epoch.params is None for epoch in history.epochs)  # no copy per epoch is kept


@pytest.mark.parametrize(("tol", "n_epochs"), [(0.0, 6), (0.5, 4)])
def test_patience_on_the_validation_score(tol, n_epochs):
    scores = [0.0, 1.0, 0.9, 1.4, 1.3, 1.2, 1.1]
    history = run(
        max_iter=7,
        batch_size=10,
        validate=lambda model, number: scores[number],
        stopping=LossPlateau(2, tol),
    )
    assert len(history.epochs) == n_epochs
    assert history.reason == "no_change"
    # `tol` decides when to stop, not which epoch is best: 1.4 is kept either way.
    assert history.best.number == 3


def test_patience_on_the_training_loss():
    losses = [5.0, 4.0, 4.0, 4.5, 4.2, 3.0]
    history = run(Pull(losses), max_iter=6, batch_size=10, stopping=LossPlateau(3))
    assert len(history.epochs) == 5
    assert history.reason == "no_change"
    assert len(run(Pull(losses), max_iter=6, batch_size=10).epochs) == 6


def test_callback_stops():
    seen = []

    def end_epoch(epoch):
        seen.append(epoch.number)
        return epoch.number == 6

    history = run(max_iter=9, first_epoch=5, end_epoch=end_epoch)
    assert seen == [5, 6]
    assert history.reason == "callback"
    assert history.best.number == 6


def test_converged_share():
    class Half(Changed):
        def change(self, step, model, batch, clock):
            return step._replace(n_converged=len(batch) // 2)

    assert run(Half()).epochs[0].converged == pytest.approx(0.5)


class Interrupted(Pull):
    """KeyboardInterrupt at the given step, counted from 0."""

    def __init__(self, at):
        super().__init__()
        self.at = at

    def step(self, *arguments):
        if len(self.batches) == self.at:
            raise KeyboardInterrupt
        return super().step(*arguments)


@pytest.mark.parametrize("at", [0, 2])
def test_interrupt_in_the_first_epoch_propagates(at):
    with pytest.raises(KeyboardInterrupt):
        run(Interrupted(at), max_iter=3)


def test_interrupt_later_keeps_the_last_whole_epoch():
    # An epoch has 3 steps: step 7 is in the middle of the third epoch.
    batch = replace(make_batch(10, 2, 2), weight=np.ones(10))
    history = run(Interrupted(7), batch=batch, max_iter=5)
    assert history.reason == "interrupted"
    assert history.best.number == 1
    np.testing.assert_allclose(history.best.params.weights, -0.6)  # 6 steps


def test_interrupt_keeps_the_best_epoch():
    scores = [2.0, 1.0, 3.0]
    history = run(Interrupted(7), max_iter=5, validate=lambda model, number: scores[number])
    assert (history.reason, history.best.number) == ("interrupted", 0)


def test_interrupt_in_the_hook_of_the_first_epoch():
    def end_epoch(epoch):
        raise KeyboardInterrupt

    history = run(max_iter=3, end_epoch=end_epoch)
    assert (history.reason, history.best.number) == ("interrupted", 0)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("where", ["loss", "gradient"])
def test_divergence_is_named(value, where):
    class Diverging(Changed):
        def change(self, step, model, batch, clock):
            if clock.epoch < 2:
                return step
            if where == "loss":
                return step._replace(loss=value)
            step.gradient.hidden_coef[0, 0] = value
            return step

    with pytest.raises(FloatingPointError, match=r"diverged in epoch 3.*learning_rate"):
        run(Diverging(), max_iter=5)


@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("rate", [1e20, 1e60, 1e160, 1e300])
def test_divergence_within_an_epoch(rate, dtype):
    """Between two mini-batches no energy complains about fields that are not finite."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 3)).astype(dtype)
    Y = (rng.random((30, 3)) < 0.5).astype(int)
    model = CRBMClassifier(
        solver=SGD(learning_rate=rate, batch_size=5), max_iter=40, random_state=0
    )
    with pytest.raises(FloatingPointError, match="training diverged in epoch"):
        model.fit(X, Y)
    assert not hasattr(model, "visible_coef_")


@pytest.mark.parametrize("inference", [SumProduct(), MeanField()], ids=lambda m: m.name)
def test_schedule_of_iterations_reaches_the_inference(inference, monkeypatch):
    """T = 7 + min(epoch, 50) in both phases of training; prediction has the last epoch's."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 2))
    Y = (rng.random((20, 3)) < 0.5).astype(float)
    Y[0, 0] = np.nan
    asked = []
    infer = phases.run_inference

    def recording(energy, method, **options):
        asked.append(method.max_iter)
        return infer(energy, method, **options)

    monkeypatch.setattr(phases, "run_inference", recording)
    model = CRBMClassifier(
        n_hidden=2,
        inference=inference,
        max_iter=53,
        early_stopping=LossPlateau(100),
        random_state=0,
    ).fit(X, Y)
    assert asked[::2] == asked[1::2] == [7 + min(epoch, 50) for epoch in range(53)]
    assert model.n_inference_iter_ == 57

    # A warm start goes on where the schedule was.
    asked.clear()
    model.set_params(warm_start=True, max_iter=1).fit(X, Y)
    assert set(asked) == {57}
    short = CRBMClassifier(n_hidden=2, inference=inference, max_iter=3, random_state=0).fit(X, Y)
    assert short.n_inference_iter_ == 9
    asked.clear()
    short.set_params(warm_start=True, max_iter=2).fit(X, Y)
    assert sorted(set(asked)) == [10, 11]
    asked.clear()
    short.partial_fit(X, Y)
    assert set(asked) == {12}
    assert short.n_inference_iter_ == 12


def test_fixed_iterations_are_kept(monkeypatch):
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(20, 2)), rng.integers(0, 2, (20, 3))
    model = CRBMClassifier(
        n_hidden=2, inference=SumProduct(max_iter=13), max_iter=3, random_state=0
    ).fit(X, Y)
    assert model.n_inference_iter_ == 13


# ---------------------------------------------------------------- validation score


@pytest.mark.parametrize("energy_type", [RBMEnergy, OneHotRBMEnergy])
def test_validation_score_is_the_exact_likelihood_of_small_models(energy_type):
    one_hot = energy_type is OneHotRBMEnergy
    model = make_model(4, 3, 2, energy_type=energy_type)
    batch = make_batch(6, 4, 2, missing=not one_hot, one_hot=one_hot)
    loss = conditional("mle", Exact()).loss(model, batch) / batch.weight.sum()
    # Whatever the method of training: the Bethe likelihood may rise while the true one falls.
    assert validation_score(model, batch, SumProduct(max_iter=1)) == -loss


def test_validation_score_of_large_models_is_the_share_of_right_outputs():
    model = make_model(15, 15, 2)
    batch = make_batch(5, 15, 2, missing=True)
    method = SumProduct(max_iter=20)
    marginals = infer(model.energy(batch.X), method).marginals[:, :15]
    wrong, total = 0.0, 0.0
    for row in range(5):
        for i in range(15):
            if not np.isnan(batch.visible[row, i]):
                wrong += batch.weight[row] * ((marginals[row, i] >= 0.5) != batch.visible[row, i])
                total += batch.weight[row]
    assert validation_score(model, batch, method) == pytest.approx(-wrong / total)
    assert -1 < -wrong / total < 0
