"""The program of perturb-and-max-product, on models of a few variables."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest

from examples.papers import _pmp_deconvolution as deconvolution
from examples.papers import _pmp_deconvolution_chains as chains
from examples.papers import _pmp_exact as exact
from examples.papers import _pmp_learning as learning
from examples.papers import _pmp_likelihood as likelihood
from examples.papers import _pmp_quality as quality
from examples.papers import _pmp_recovery as recovery
from examples.papers import pmp_tables
from skcrbm.datasets import make_random_ising
from skcrbm.energies import RBMEnergy
from skcrbm.inference import PerturbAndMaxProduct, sample
from skcrbm.inference.random_numbers import logistic_noise, random_key

# These tests fit models with the programs, which is slow.
pytestmark = pytest.mark.deep


def numbers(row, names=quality.COLUMNS):
    """Return the scores of a row: an array of a row for each number of sweeps."""
    return np.array([[float(text) for text in row[name].split()] for name in names]).T


def scores(data, states):
    """Return log MMD (bandwidths 1 and .05), covariance error and worst mean, pair by pair."""

    def kernel(X, Y, width):
        return np.mean([np.exp(-np.sum(x != y) / (width * len(x))) for x in X for y in Y])

    def log_mmd(width):
        inside = kernel(data, data, width) + kernel(states, states, width)
        return np.log(inside - 2 * kernel(data, states, width))

    covariance, other = (np.cov(rows.T.astype(float), bias=True) for rows in (data, states))
    distance = np.sqrt(((covariance - other) ** 2).sum() / (covariance**2).sum())
    means = [abs(a.mean() - b.mean()) for a, b in zip(data.T, states.T)]
    return [log_mmd(1.0), log_mmd(0.05), distance, max(means)]


@pytest.fixture
def drawn(monkeypatch):
    """Samples of learned models that the program draws and scores, in their order."""
    kept, draw = [], quality.draw

    def recorded(*args):
        kept.append(draw(*args))
        return kept[-1]

    monkeypatch.setattr(quality, "draw", recorded)
    return kept


def rows_of(n_rows, n_columns):
    """Return 0/1 rows in which neighbours agree."""
    rng = np.random.default_rng(0)
    base = rng.random((n_rows, 1)) < 0.6
    return (base ^ (rng.random((n_rows, n_columns)) < 0.3)).astype(np.float32)


# --- experiments 1 and 2 --------------------------------------------------------------------


def test_four_variables_by_enumeration(monkeypatch):
    """Divergences of the learned couplings, from weights of 16 states."""
    monkeypatch.setattr(exact, "learn_shared_coupling", lambda mean, seed: 0.3)
    row = exact.four_variables(0)
    states = np.array(list(itertools.product((-1, 1), repeat=4)))
    pairs = np.array([sum(a * b for a, b in itertools.combinations(y, 2)) for y in states])
    p, q = (np.exp(theta * pairs) / np.exp(theta * pairs).sum() for theta in (0.5, 0.3))
    assert float(row["kl_gibbs"]) == pytest.approx((p * np.log(p / q)).sum(), abs=1e-4)
    counts = exact.shares(exact.sample(
        exact.equal_couplings(0.3), exact.PerturbAndMaxProduct(), n_samples=10_000, random_state=0
    )[0])  # fmt: skip
    assert float(row["kl_pmp"]) == pytest.approx((p * np.log(p / counts)).sum(), abs=1e-4)
    assert float(row["kl_pmp_to_gibbs"]) == pytest.approx(
        (counts * np.log(counts / p)).sum(), abs=1e-4
    )
    # Samples with the true couplings are biased, samples with the learned ones far less.
    assert float(row["kl_pmp_truth"]) > 10 * float(row["kl_pmp"]) > 0
    assert 0 < float(row["kl_free"]) < 0.01
    low, mean, high = (float(row[f"free_{name}"]) for name in ("min", "mean", "max"))
    assert 0.2 < low < mean < high < 0.5


def test_the_coupling_that_all_pairs_share():
    """The published range, widened a little, from the mean of the pairs under the truth."""
    states = np.array(list(itertools.product((-1, 1), repeat=4)))
    pairs = np.array([sum(a * b for a, b in itertools.combinations(y, 2)) for y in states])
    p = np.exp(0.5 * pairs)
    theta = exact.learn_shared_coupling(float(pairs @ p / p.sum()), 0)
    assert theta == pytest.approx(0.337, abs=0.015)


def test_log_z_of_random_models_by_enumeration():
    """Mean maxima of perturbed scores of all 32 states, minus log Z."""
    row = exact.random_log_z(5, 3, 20)
    states = np.array(list(itertools.product((0, 1), repeat=5)))
    rng = np.random.RandomState(0)
    values = {"pmp": [], "exact": []}
    for _ in range(3):
        energy = make_random_ising(5, random_state=rng)
        coupling = np.asarray(getattr(energy.coupling, "toarray", lambda e=energy: e.coupling)())
        field = np.ravel(energy.field)
        y = 2.0 * states - 1
        score = y @ field + 0.5 * ((y @ coupling) * y).sum(axis=1)
        log_z = np.log(np.exp(score - score.max()).sum()) + score.max()
        noisy, reached, _ = exact.perturbed(energy, 20, rng.randint(2**31))
        noise = np.asarray(noisy.field) - field
        perturbed = score + noise @ y.T
        values["exact"].append(perturbed.max(axis=1).mean() - log_z)
        index = reached.astype(int) @ (1 << np.arange(5)[::-1])
        values["pmp"].append(perturbed[np.arange(20), index].mean() - log_z)
    for name, found in values.items():
        assert float(row[name]) == pytest.approx(np.mean(found), abs=2e-3)
        error = np.std(found, ddof=1) / np.sqrt(3)
        assert float(row[f"{name}_error"]) == pytest.approx(error, abs=2e-3)
    for name in ("mplp", "linear_program"):
        assert float(row[name]) >= float(row["exact"]) - 1e-3


def test_log_z_of_lattices():
    """Log Z by transfer matrices; samples lie below the bounds."""
    for side in (3, 5):
        rows = np.array(list(itertools.product((-1, 1), repeat=side)))
        within = np.exp(-0.2 * (rows * np.roll(rows, 1, axis=1)).sum(axis=1))
        transfer = within[:, None] * np.exp(-0.2 * rows @ rows.T)
        log_z = np.log(np.trace(np.linalg.matrix_power(transfer, side)))
        if side == 5:
            assert exact.LATTICE_LOG_Z[5] == pytest.approx(log_z, abs=1e-4)
    row = exact.lattice_log_z(5, 400, 10)
    energy = exact.make_ising_lattice((5, 5), -0.2)
    noisy, states, _ = exact.perturbed(energy, 10, 0)
    y = 2.0 * states - 1
    score = (np.asarray(noisy.field) * y).sum(axis=1)
    images = y.reshape(-1, 5, 5)
    for axis in (1, 2):
        score += -0.2 * (images * np.roll(images, 1, axis=axis)).sum(axis=(1, 2))
    assert float(row["pmp_same"]) == pytest.approx(score.mean() - log_z, abs=2e-3)
    assert abs(float(row["pmp"]) - float(row["pmp_same"])) < 6 * float(row["pmp_same_error"])
    assert float(row["pmp"]) != 0
    assert float(row["pmp_same"]) <= float(row["linear_program"]) <= float(row["mplp"]) + 0.002


# --- samples of learned models --------------------------------------------------------------


@pytest.mark.parametrize(
    ("work", "learner"),
    [
        (learning.digits_ising, "pmp"),
        (learning.digits_rbm, "gibbs pcd"),
        (learning.digits_ising, "mplp"),
        (learning.digits_ising, "lp"),
    ],
)
def test_scores_of_the_small_digits(work, learner, drawn, monkeypatch):
    X = rows_of(100, 6)
    monkeypatch.setattr(learning, "small_digits", lambda: X)
    row = work(learner, 0, False)
    sweeps = ["50"] if learner == "lp" else ["10", "50", "100"]
    assert row["sweeps"].split() == sweeps
    assert [len(states) for states in drawn] == [100] * len(sweeps)
    expected = [scores(X, states) for states in drawn]
    np.testing.assert_allclose(numbers(row), expected, atol=2e-3, rtol=1e-3)


def test_scores_of_references():
    X = rows_of(120, 5)
    row = learning.reference_row(lambda: (X[:60], X[60:]), 100, "other half of the data")
    order = np.random.RandomState(0).permutation(120)
    expected = [scores(X[order[:60]], X[order[60:]])]
    np.testing.assert_allclose(numbers(row), expected, atol=2e-3, rtol=1e-3)


@pytest.fixture
def sampled(monkeypatch):
    """Methods and states of the calls of `sample` by `_pmp_learning`, in their order."""
    kept = []

    def recorded(energy, method, **options):
        kept.append((energy, method, sample(energy, method, **options)[0]))
        return kept[-1][2][None]

    monkeypatch.setattr(learning, "sample", recorded)
    return kept


def test_scores_with_other_sweeps_and_damping(sampled, monkeypatch):
    X = rows_of(100, 64)
    monkeypatch.setattr(learning, "small_digits", lambda: X)
    row = learning.digits_sweeps(3, 0.25)
    [(_, method, states)] = sampled
    assert (method.max_iter, method.damping, states.shape) == (3, 0.25, (100, 128))
    assert (row["sweeps"], row["damping"]) == (3, 0.25)
    np.testing.assert_allclose(numbers(row), [scores(X, states[:, :64])], atol=2e-3, rtol=1e-3)


def test_scores_of_the_best_states(sampled, monkeypatch):
    """Perturbed scores of the states after 1, 2 and 3 sweeps, sample by sample."""
    X = learning.small_digits()[:100]
    monkeypatch.setattr(learning, "small_digits", lambda: X)
    row = learning.digits_best(3, 0.0)
    assert [method.max_iter for _, method, _ in sampled] == [1, 2, 3]
    energy = sampled[0][0]
    # The states of a model without weights are the signs of its perturbed fields.
    free = RBMEnergy(np.zeros((64, 64)), energy.visible_bias, energy.hidden_bias)
    noise = logistic_noise(random_key(1), np.arange(100), 0, 128)
    field = np.concatenate([energy.visible_bias[0], energy.hidden_bias[0]]) + noise
    signs = sample(free, PerturbAndMaxProduct(), n_samples=100, random_state=1)[0]
    np.testing.assert_array_equal(signs, field > 0)
    best = []
    for i in range(100):
        found = [states[i].astype(float) for *_, states in sampled]
        reached = [x[:64] @ energy.weights @ x[64:] + field[i] @ x for x in found]
        best.append(found[int(np.argmax(reached))][:64])
    expected = [scores(X, sampled[-1][2][:, :64]), scores(X, np.array(best))]
    assert np.any(np.array(best) != sampled[-1][2][:, :64])
    np.testing.assert_allclose(numbers(row), expected, atol=2e-3, rtol=1e-3)


@pytest.mark.parametrize(
    ("work", "learner", "options"),
    [
        (recovery.recovery, "pmp", (5, 0, 50, False)),
        (recovery.recovery_printed, "gibbs reset", (5, 0, 50, "data", True)),
        (recovery.recovery_printed, "pmp", (5, 0, 50, "zeros", False)),
        (recovery.recovery_persistent, "gibbs pcd", (5, 50, 400)),
        (recovery.recovery_persistent, "gwg pcd", (5, 50, 400)),
        (recovery.recovery_persistent, "pmp", (5, 50, 400)),
    ],
)
def test_recovery_of_a_small_lattice(work, learner, options, drawn, monkeypatch):
    """Errors entry by entry, against a lattice whose neighbours are counted here."""
    kept = []
    errors = recovery.errors
    monkeypatch.setattr(recovery, "errors", lambda c, *args: kept.append(c) or errors(c, *args))
    row = work("lattice", 4, learner, *options)
    _, other = recovery.ising_data("lattice", 4, 50)
    assert (row["learner"], row["seed"]) == (learner, 0)
    np.testing.assert_allclose(numbers(row), [quality.compare(other, drawn[-1])], atol=2e-3)
    square, product, norm = 0.0, 0.0, 0.0
    for i, k in itertools.product(range(16), repeat=2):
        apart = [abs(a - b) % 4 for a, b in zip(divmod(i, 4), divmod(k, 4))]
        truth = -0.1 if sorted(apart) in ([0, 1], [0, 3]) else 0.0
        found = kept[0][i, k] / 2
        square += (found - truth) ** 2
        product += found * truth
        norm += truth**2
    assert float(row["log_rmse"]) == pytest.approx(np.log(np.sqrt(square / 256)), abs=1e-3)
    assert float(row["log_rmse_zero"]) == pytest.approx(np.log(np.sqrt(norm / 256)), abs=1e-3)
    assert float(row["edges"]) == pytest.approx(product / norm, abs=1e-3)
    assert float(row["edges"]) > 0.2


@pytest.mark.parametrize("centred", [False, True])
def test_printed_steps_reach_the_moments_of_the_data(centred, monkeypatch):
    """Three variables, with rows that have the probabilities of the states."""
    y = np.array(list(itertools.product((-1, 1), repeat=3)))
    rows = rows_of(400, 3)
    monkeypatch.setattr(recovery, "ising_data", lambda *args: (rows, rows))
    monkeypatch.setattr(recovery, "errors", lambda *args: {})
    monkeypatch.setattr(recovery, "_L1", 0.0)
    seen = []

    def shares(energy):
        weight = np.exp(y @ energy.field[0] + 0.5 * ((y @ energy.coupling) * y).sum(axis=1))
        return weight / weight.sum()

    def exact(energy, learner, n_sweeps, n_samples, seed):
        counts = np.round(2000 * shares(energy)).astype(int)
        return np.repeat((y + 1) / 2, counts, axis=0)

    monkeypatch.setattr(recovery, "draw", exact)
    monkeypatch.setattr(
        recovery, "scores_of_model", lambda energy, *args: seen.append(energy) or {}
    )
    recovery.recovery_printed("lattice", 0, "pmp", 5, 0, 0, "data", centred)
    data = 2.0 * rows - 1
    p = shares(seen[0])
    np.testing.assert_allclose(p @ y, data.mean(axis=0), atol=0.02)
    second = np.einsum("s,si,sk", p, y, y)
    np.testing.assert_allclose(second, data.T @ data / len(data), atol=0.02)


def test_persistent_chains_draw_from_their_model():
    """Means of pairs of three variables, by enumeration."""
    coupling = np.array([[0, 0.5, -0.3], [0.5, 0, 0.2], [-0.3, 0.2, 0]])
    field = np.array([0.3, -0.2, 0.1])
    y = np.array(list(itertools.product((-1, 1), repeat=3)))
    weight = np.exp(y @ field + 0.5 * ((y @ coupling) * y).sum(axis=1))
    expected = np.einsum("s,si,sk", weight / weight.sum(), y, y)
    for learner in ("gibbs pcd", "gwg pcd"):
        chains, rng = recovery.Chains(learner, 3, 6), np.random.RandomState(0)
        states = np.concatenate([chains(coupling, field, rng).copy() for _ in range(80)][10:])
        np.testing.assert_allclose(states.T @ states / len(states), expected, atol=0.03)


# --- deconvolution --------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:samples of 1 of 1 models:UserWarning")
def test_deconvolution_pixel_by_pixel(monkeypatch):
    kept = []
    sample = deconvolution.sample
    monkeypatch.setattr(
        deconvolution, "sample", lambda *a, **k: kept.append(sample(*a, **k)) or kept[-1]
    )
    row = deconvolution.deconvolve(2, 20, 0.5, 0)
    images, _, _ = deconvolution.make_deconvolution(2, random_state=0)
    state = kept[0][0, 0]
    side = images.shape[1] - 5
    places = state[: 2 * 5 * side**2].reshape(2, 5, side, side)
    shapes = state[2 * 5 * side**2 :][:180].reshape(5, 6, 6)
    found = np.zeros(images.shape)
    for n, f, r, c in np.argwhere(places):
        found[n, r : r + 6, c : c + 6] = np.maximum(found[n, r : r + 6, c : c + 6], shapes[f])
    assert row["explained"] == f"{100 * np.mean(found == images):.2f}"
    assert row["all_off"] == f"{100 * np.mean(images == 0):.2f}"
    assert row["places"] == places.sum()
    prior = places.sum() * np.log(0.01 / 0.99) + shapes.sum() * np.log(0.25 / 0.75)
    assert float(row["prior"]) == pytest.approx(prior, abs=0.51)
    assert row["features"] == " ".join("".join(map(str, s)) for s in shapes.reshape(5, -1))


def explained_score(images, locations, shapes, cost):
    """Return the score of shapes and places: log-priors, and the cost of wrong pixels."""
    size = len(shapes[0])
    found = np.zeros(images.shape)
    for n, f, r, c in np.argwhere(locations):
        part = found[n, r : r + size, c : c + size]
        np.maximum(part, shapes[f], out=part)
    prior = np.log(0.01 / 0.99) * locations.sum() + np.log(0.25 / 0.75) * shapes.sum()
    return prior - cost * np.sum(found != images)


def test_gradient_steps_draw_from_the_posterior_of_shapes_and_places():
    """Means of two places and the four pixels of a shape in an image, by enumeration."""
    images = np.array([[[1, 0, 1], [1, 1, 0]]])
    states = np.array(list(itertools.product((0, 1), repeat=6)))
    score = [explained_score(images, s[:2].reshape(1, 1, 1, 2), s[2:].reshape(1, 2, 2), 1.5)
             for s in states]  # fmt: skip
    p = np.exp(score) / np.exp(score).sum()
    rng = np.random.RandomState(0)
    locations, shapes = np.zeros((1, 1, 1, 2), np.int64), np.zeros((1, 2, 2), np.int64)
    drawn = []
    for _ in range(20_000):
        u = rng.uniform(size=(3, 2))
        chains.gradient_steps(images, locations, shapes, 1.5, (True, True), u)
        drawn.append(np.concatenate([locations.ravel(), shapes.ravel()]))
    np.testing.assert_allclose(np.mean(drawn, axis=0), p @ states, atol=0.02)


def test_gains_of_flips_are_differences_of_scores():
    """All gains after each of ten flips, which update only the gains that they change."""
    rng = np.random.RandomState(1)
    images = rng.randint(2, size=(2, 5, 6))
    locations, shapes = rng.randint(2, size=(2, 2, 4, 5)), rng.randint(2, size=(2, 2, 2))
    count, gains, parts = (
        np.zeros(images.shape, np.int64),
        np.empty((2, 2, 4, 5)),
        np.zeros((2, 2, 2, 2)),
    )
    for n, f, r, c in np.argwhere(locations):
        count[n, r : r + 2, c : c + 2] += shapes[f]
    weight = np.empty(gains.size + shapes.size)
    state = images, locations, shapes, count, 1.5
    for k in [locations.size, *rng.randint(len(weight), size=10)]:
        chains._flip(*state, chains._place(k, locations, shapes), gains, parts)
        total = chains._weights(gains, parts, shapes, (True, True), weight)
        before = explained_score(images, locations, shapes, 1.5)
        expected = []
        for part in (locations, shapes):
            for place in np.ndindex(*part.shape):
                part[place] ^= 1
                expected.append(explained_score(images, locations, shapes, 1.5) - before)
                part[place] ^= 1
        expected = np.array(expected)
        np.testing.assert_allclose(weight, np.exp((expected - expected.max()) / 2), rtol=1e-9)
        assert total == pytest.approx(np.log(np.exp(expected / 2).sum()))


def test_a_flip_of_a_single_place_breaks_ands():
    """No chain of single flips leaves a state of the whole graph in which shapes have pixels."""
    images, _, _ = deconvolution.make_deconvolution(1, random_state=0)
    energy = deconvolution.deconvolution_energy(images, 5, 6, 0.01, 0.25)
    n = 5 * 81
    state = np.zeros(energy.n_variables, bool)
    state[n : n + 180] = True
    log_odds = energy.visible_log_odds(state[None])[0]
    assert np.all(log_odds[:n] == -np.inf)


@pytest.mark.parametrize("held", ["", "shapes", "places"])
def test_chains_over_shapes_and_places(held, monkeypatch):
    kept, steps = [], chains.gradient_steps

    def recorded(images, locations, shapes, *args):
        before = locations.copy(), shapes.copy()
        steps(images, locations, shapes, *args)
        kept.append((images, before, locations, shapes))

    monkeypatch.setattr(chains, "gradient_steps", recorded)
    row = chains.deconvolve_by_gradients(2, 2, held, 5.0, 0)
    images, features, true = deconvolution.make_deconvolution(2, random_state=0)
    (_, before, _, _), (_, _, locations, shapes) = kept
    if held == "shapes":
        np.testing.assert_array_equal(shapes, features)
    if held == "places":
        np.testing.assert_array_equal(locations, true)
    score = explained_score(images, locations, shapes, 5.0)
    assert score > explained_score(images, *before, 5.0)
    prior = explained_score(images, locations, shapes, 0.0)
    wrong = (prior - score) / 5
    assert float(row["explained"]) == pytest.approx(100 - 100 * wrong / images.size, abs=0.01)
    assert float(row["prior"]) == pytest.approx(prior, abs=0.51)
    assert (row["places"], row["places_true"]) == (locations.sum(), true.sum())
    assert row["features"] == " ".join(
        "".join(map(str, s)) for s in shapes.reshape(-1, 25 + 11 * (not held))
    )


@pytest.mark.filterwarnings("ignore:the effective sample size:UserWarning")
def test_likelihoods_by_enumeration(drawn, monkeypatch):
    X = rows_of(100, 6)
    monkeypatch.setattr(likelihood, "small_digits", lambda: X)
    monkeypatch.setattr(likelihood, "draw", lambda *args: quality.draw(*args))
    models = []
    fit = likelihood.fit_rbm
    monkeypatch.setattr(
        likelihood, "fit_rbm", lambda *a, **k: models.append(fit(*a, **k)) or models[-1]
    )
    row = likelihood.likelihood("pmp", 0, n_hidden=3)
    energy = models[0][0].energy_
    states = np.array(list(itertools.product((0, 1), repeat=9)))
    v, h = states[:, :6], states[:, 6:]
    weight = np.exp(
        ((v @ energy.weights) * h).sum(axis=1)
        + v @ energy.visible_bias[0]
        + h @ energy.hidden_bias[0]
    )
    mean = np.mean([np.log(weight[(v == x).all(axis=1)].sum() / weight.sum()) for x in X])
    assert float(row["log_likelihood"]) == pytest.approx(mean, abs=0.006)
    assert float(row["log_likelihood_ais"].split()[-1]) == pytest.approx(mean, abs=0.1)
    expected = [scores(X, states) for states in drawn]
    assert len(expected) == 3
    np.testing.assert_allclose(numbers(row), expected, atol=2e-3, rtol=1e-3)


def test_the_reduced_run_has_every_experiment_of_the_quick_run_and_each_cell_once():
    quick, reduced = (
        [key for key, _ in pmp_tables.make_cells(size)] for size in ("quick", "reduced")
    )
    assert len(set(reduced)) == len(reduced)
    assert {key.split(" ")[0] for key in quick} <= {key.split(" ")[0] for key in reduced}


def test_short_cells_make_the_steps_of_their_keys(monkeypatch):
    fits = []

    def fit(X, *args, n_steps, **options):
        fits.append(n_steps)
        return SimpleNamespace(energy_=None), 0.0

    monkeypatch.setattr(learning, "fit_ising", fit)
    monkeypatch.setattr(learning, "fit_rbm", fit)
    monkeypatch.setattr(learning, "row_of", lambda *args: {})
    monkeypatch.setattr(learning, "contours", lambda side: rows_of(20, side))
    monkeypatch.setattr(learning, "mnist_digits", lambda label: rows_of(20, 3))
    cells = dict(pmp_tables.short_cells())
    for key, work in cells.items():
        work()
        assert f" steps={fits[-1]} " in key
    assert len(fits) == len(cells)
