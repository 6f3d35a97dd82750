"""The program of perturb-and-max-product, on models of a few variables."""

import itertools

import numpy as np
import pytest

from examples.papers import _pmp_deconvolution as deconvolution
from examples.papers import _pmp_deconvolution_chains as chains
from examples.papers import _pmp_exact as exact
from examples.papers import _pmp_learning as learning
from examples.papers import _pmp_likelihood as likelihood
from examples.papers import _pmp_quality as quality
from examples.papers import _pmp_recovery as recovery
from skcrbm.datasets import make_random_ising

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
    for _ in range(5000):
        u = rng.uniform(size=(3, 2))
        chains.gradient_steps(images, locations, shapes, 1.5, (True, True), u)
        drawn.append(np.concatenate([locations.ravel(), shapes.ravel()]))
    np.testing.assert_allclose(np.mean(drawn, axis=0), p @ states, atol=0.04)


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
