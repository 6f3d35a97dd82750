"""The programs of the layered models' tables, on a few made-up images."""

import itertools

import numpy as np
import pytest

from examples._harness import Rows, run_missing
from examples.papers import layered_cd, layered_tables
from skcrbm.layers import Conv2d, Dense

# These tests fit models with the programs, which is slow.
pytestmark = pytest.mark.deep

CELLS = {
    "layered": "table 2, LGM, soft clamp, 90 images",
    "nn": "table 4, NN(relu), dense, 90 images",
    "cd": "table 4, CD1, dense, 90 images",
}


@pytest.fixture
def images(monkeypatch):
    """Twelve pixels of three classes; a sixth of the pixels is redrawn."""
    rng = np.random.default_rng(0)
    y = np.arange(150) % 3
    pattern = rng.random((3, 12)) < 0.5
    X = np.where(rng.random((150, 12)) < 1 / 6, rng.random((150, 12)) < 0.5, pattern[y])
    X = X.astype(np.float32)
    data = X[:90], y[:90], X[90:], y[90:]
    monkeypatch.setattr(layered_tables, "load", lambda name, n_train: data)
    return data


@pytest.fixture
def fitted(monkeypatch):
    """Models that the program makes, in their order."""
    models = []
    for name in ("LayeredGMClassifier", "MLPClassifier", "LayerwiseCD"):
        kind = getattr(layered_tables, name)

        def make(*args, kind=kind, **options):
            models.append(kind(*args, **options))
            return models[-1]

        monkeypatch.setattr(layered_tables, name, make)
    return models


@pytest.mark.parametrize("kind", CELLS)
def test_accuracy_of_a_cell(kind, images, fitted, tmp_path):
    store, key = Rows(tmp_path / "rows.csv"), CELLS[kind]
    runs = layered_tables.runs(90, 3, False, store)
    run_missing([cell for cell in runs if cell[0] == key], store)
    found = store.read()[key]
    right = [p == y for p, y in zip(fitted[0].predict(images[2]), images[3])]
    assert sum(right) > 20
    assert found["accuracy"] == f"{sum(right) / 60:.4f}"
    assert found["epochs"] == str(fitted[0].n_iter_)
    shown = f"{float(found['accuracy']):.3f} [90]"
    assert shown in layered_tables.markdown(store.read())


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("redrawn", [False, True])
def test_accuracy_on_images_with_hidden_pixels(redrawn, images, fitted, monkeypatch):
    fit_redrawn, kept = layered_tables.fit_redrawn, []

    def recorded(*args):
        kept.append(fit_redrawn(*args))
        return kept[-1]

    monkeypatch.setattr(layered_tables, "fit_redrawn", recorded)
    options = layered_tables.seq("TRW", **layered_tables.dense(n_nodes=20), visible=0.5)
    options["redrawn"] = redrawn
    accuracy, epochs, _ = layered_tables.run("layered", options, images, 60)
    hidden = np.random.RandomState(2).random_sample(images[2].shape) >= 0.5
    model, best = kept[0] if redrawn else (fitted[0], fitted[0].n_iter_)
    right = model.predict(np.where(hidden, np.nan, images[2])) == images[3]
    assert accuracy == right.mean() > 0.4
    assert epochs == best


def test_seeds_of_a_cell(images, fitted, tmp_path):
    """Each seed has a fit of its own; the table shows their mean, and the least and greatest."""
    store, key = Rows(tmp_path / "rows.csv"), CELLS["layered"]
    keys = [key, f"{key}, seed 1", f"{key}, seed 2"]
    runs = layered_tables.runs(90, 1, False, store, n_seeds=3)
    run_missing([cell for cell in runs if cell[0] in keys], store)
    assert [model.random_state for model in fitted] == [0, 1, 2]
    rows = store.read()
    accuracies = [model.score(*images[2:]) for model in fitted]
    assert [rows[k]["accuracy"] for k in keys] == [f"{value:.4f}" for value in accuracies]
    assert len(set(accuracies)) > 1
    low, high = min(accuracies), max(accuracies)
    shown = f"| {np.mean(accuracies):.3f}, {low:.3f} to {high:.3f} [90] (0.963) |"
    assert shown in layered_tables.markdown(rows)


# --- neural networks ------------------------------------------------------------------------


def windows_of(image, padding):
    """Yield the rows and columns, and the 5 x 5 windows at a stride of 2, of an image (c, h, w)."""
    image = np.pad(image, ((0, 0), (padding, padding), (padding, padding)))
    n = (image.shape[1] - 5) // 2 + 1
    for i, j in itertools.product(range(n), repeat=2):
        yield i, j, n, image[:, 2 * i : 2 * i + 5, 2 * j : 2 * j + 5]


@pytest.mark.parametrize("net", ["conv", "local"])
@pytest.mark.parametrize("activation", ["sigmoid", "relu"])
def test_scores_of_a_network_window_by_window(net, activation):
    torch = pytest.importorskip("torch")
    networks = pytest.importorskip("examples.papers._layered_networks")
    rng = np.random.default_rng(0)
    model = networks.ImageNetwork(
        net, activation, validation_fraction=0.2, n_iter_no_change=1, max_iter=1
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model.parameters_ = model._draw_parameters()
    images = rng.random((3, 784)).astype(np.float32)
    weights = [value.detach().numpy() for value in model.parameters_]
    activate = {"relu": lambda v: np.maximum(v, 0), "sigmoid": lambda v: 1 / (1 + np.exp(-v))}
    expected = []
    for image in images:
        values = image.reshape(1, 28, 28)
        for k, padding in ((0, 1), (2, 0)):
            w, b = weights[k : k + 2]
            channels = len(b) if net == "conv" else b.shape[2]
            size = 13 if k == 0 else 5
            above = np.empty((channels, size, size))
            for i, j, n, window in windows_of(values, padding):
                if net == "conv":
                    above[:, i, j] = [np.sum(window * kernel) for kernel in w] + b
                else:
                    above[:, i, j] = window.ravel() @ w[i * n + j] + b[i * n + j, 0]
            values = activate[activation](above)
        values = activate[activation](weights[4] @ values.ravel() + weights[5])
        expected.append(weights[6] @ values + weights[7])
    np.testing.assert_allclose(model.decision_function(images), expected, atol=1e-4)


# --- layer-wise contrastive divergence ------------------------------------------------------


def pair_of(layer, below, states_below):
    """Return a pair of layers with weights of size 1, and its generator."""
    rng = np.random.RandomState(0)
    n = int(np.prod(below)) * (states_below - 1)
    pair = layered_cd.Pair(layer, below, states_below, np.full(n, 0.3), rng)
    pair.weights[:] = rng.normal(size=pair.weights.shape)
    pair.bias[1][:] = rng.normal(size=pair.bias[1].shape)
    pair._spread()
    return pair, rng


def one_hot(states, n_states):
    """Return indicators of states 1, 2, ... of each node."""
    return np.ravel([[s == k for k in range(1, n_states)] for s in states]).astype(np.float32)


def test_conditional_probabilities_by_enumeration():
    """All joint states of three nodes of 3 states below and two nodes of 4 states above."""
    pair, _ = pair_of(Dense(2, 4), (3,), 3)
    below = np.array([one_hot(s, 3) for s in itertools.product(range(3), repeat=3)])
    above = np.array([one_hot(s, 4) for s in itertools.product(range(4), repeat=2)])
    score = below @ pair.matrix @ above.T
    score += (below @ pair.bias[0])[:, None] + above @ pair.bias[1]
    joint = np.exp(score - score.max())
    up = joint @ above / joint.sum(axis=1, keepdims=True)
    down = joint.T @ below / joint.sum(axis=0)[:, None]
    np.testing.assert_allclose(pair.up(below), up, atol=1e-5)
    np.testing.assert_allclose(pair.down(above), down, atol=1e-5)


@pytest.mark.parametrize(
    ("layer", "below"), [(Dense(2, 3), (4,)), (Conv2d(3, 2, 1), (3, 3))], ids=["dense", "shared"]
)
def test_a_step_against_sums_over_rows_and_edges(layer, below):
    pair, rng = pair_of(layer, below, 2)
    v = (rng.random_sample((5, int(np.prod(below)))) < 0.5).astype(np.float32)
    first = pair.up(v)
    weights, bias = pair.weights.copy(), [b.copy() for b in pair.bias]
    drawn = layered_cd.sample(first, pair.states[1], np.random.RandomState(1))
    back = pair.down(drawn)
    last = pair.up(back)
    pair.step(v, 1, 0.5, 0.25, False, np.random.RandomState(1))
    edges = layer.edges(below)
    k = pair.states[1] - 1
    total, count = np.zeros((2, edges.n_tables, k))
    for i, j, table in zip(edges.left, edges.right, edges.table):
        for s in range(k):
            unit = j * k + s
            moves = [a[i] * b[unit] - c[i] * d[unit] for a, b, c, d in zip(v, first, back, last)]
            total[table, s] += np.mean(moves)
            count[table, s] += 1
    expected = weights + 0.5 * (total / count).ravel()
    assert np.abs(expected - weights).max() > 0.01
    np.testing.assert_allclose(pair.weights, expected, atol=1e-5)
    np.testing.assert_allclose(pair.bias[0], bias[0] + 0.25 * (v - back).mean(0), atol=1e-6)
    np.testing.assert_allclose(pair.bias[1], bias[1] + 0.25 * (first - last).mean(0), atol=1e-6)
