"""Models of images: inference against loops over pixels, gradients against differences."""

import numpy as np
import pytest
from scipy.special import expit, softmax

from skcrbm.energies.image_model import ImageModel, ImageParams, ImageStructure, pair_steps
from skcrbm.learning.data import Clock
from skcrbm.learning.structured.image import ImageBatch, ImageLikelihood, log_beliefs
from skcrbm.utils.ragged import ImageArrays

ALL = ImageParams(True, True, True, True)  # the arrays that training changes
SHAPES = ((4, 6), (7, 3), (1, 1), (5, 6), (2, 9))
STRUCTURES = [
    ImageStructure(2, 1, 3, 3, 0),
    ImageStructure(2, 2, 1, 5, 0),
    ImageStructure(3, 1, 3, 3, 2),
    ImageStructure(4, 2, 5, 3, 1),
    ImageStructure(3, 1, 3, 1, 0),
]


def random_batch(structure, seed, shapes=SHAPES, missing=0.3):
    rng = np.random.default_rng(seed)
    size = [h * w for h, w in shapes]
    start = np.concatenate([[0], np.cumsum(size)])
    values = rng.normal(size=(structure.n_channels, start[-1]))
    path = rng.integers(0, structure.n_states, start[-1])
    path[rng.random(start[-1]) < missing] = -1
    arrays = ImageArrays(values, start, np.array(shapes))
    return ImageBatch.of(arrays, path, rng.uniform(0.5, 2, len(path)))


def random_model(structure, seed, n_iter=3):
    rng = np.random.default_rng(seed)
    params = structure.zeros()
    return ImageModel(
        type(params)(*(rng.normal(0, 0.4, p.shape) for p in params)), structure, n_iter
    )


def naive_log_beliefs(model, batch, known=None):
    """Mean field by loops over images, pixels and neighbours, as in the module's formula."""
    s, p = model.structure, model.params
    k, v = s.n_states, s.n_visible
    results = []
    for c, (height, width) in enumerate(batch.arrays.shapes):
        first, stop = batch.start[c : c + 2]
        x = batch.arrays.values[:, first:stop].reshape(-1, height, width)
        given = None if known is None else known[first:stop].reshape(height, width)

        def inside(r, q, height=height, width=width):
            return 0 <= r < height and 0 <= q < width

        half = s.window // 2
        field = np.zeros((s.n_planes, height, width))
        for r, q in np.ndindex(height, width):
            field[:, r, q] = p.intercept
            for a, b in np.ndindex(s.window, s.window):
                near = r + a - half, q + b - half
                if inside(*near):
                    field[:, r, q] += p.coef[:, :, a, b] @ x[:, near[0], near[1]]
        z = field
        for _ in range(model.n_iter):
            classes = softmax(np.concatenate([np.zeros((1, height, width)), z[:v]]), axis=0)
            if given is not None:
                for r, q in np.argwhere(given >= 0):
                    classes[:, r, q] = np.arange(k) == given[r, q]
            e, h = classes[1:] - 1 / k, expit(z[v:]) - 0.5
            z = field.copy()
            for r, q in np.ndindex(height, width):
                for (a, b), table in zip(pair_steps(s.pair_window), p.pair_coef):
                    if inside(r + a, q + b):
                        z[:v, r, q] += table @ e[:, r + a, q + b]
                    if inside(r - a, q - b):
                        z[:v, r, q] += table.T @ e[:, r - a, q - b]
                for a, b in np.ndindex(s.window, s.window):
                    near = r + a - half, q + b - half
                    if inside(*near):
                        table = p.hidden_coef[:, :, a, b]  # (H, V)
                        z[v:, r, q] += table @ e[:, near[0], near[1]]
                    back = r - a + half, q - b + half
                    if inside(*back):
                        z[:v, r, q] += p.hidden_coef[:, :, a, b].T @ h[:, back[0], back[1]]
        scores = np.concatenate([np.zeros((1, height, width)), z[:v]]).reshape(k, -1)
        results.append(scores - np.logaddexp.reduce(scores, axis=0))
    return np.concatenate(results, axis=1)


def all_log_beliefs(model, batch, known=None):
    pieces = batch.pieces()
    known = [
        None if known is None else known if one is batch else known[one.items] for one in pieces
    ]
    return batch.joined(
        pieces, [log_beliefs(model, one, given).T for one, given in zip(pieces, known)]
    ).T


@pytest.mark.parametrize("structure", STRUCTURES, ids=str)
def test_log_beliefs_equal_loops_over_pixels(structure):
    batch, model = random_batch(structure, 0), random_model(structure, 1)
    found, expected = all_log_beliefs(model, batch), naive_log_beliefs(model, batch)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("structure", STRUCTURES, ids=str)
def test_known_classes_are_clamped_in_each_iteration(structure):
    batch, model = random_batch(structure, 2, missing=0.7), random_model(structure, 3)
    found = all_log_beliefs(model, batch, batch.path)
    expected = naive_log_beliefs(model, batch, batch.path)
    free = batch.path < 0
    np.testing.assert_allclose(found[:, free], expected[:, free], rtol=1e-9, atol=1e-10)
    given = np.flatnonzero(~free)
    assert (found[batch.path[given], given] == 0).all()
    assert (np.exp(found[:, given]).sum(axis=0) == 1).all()


@pytest.mark.parametrize("structure", STRUCTURES, ids=str)
def test_gradient_equals_differences(structure):
    batch, model = random_batch(structure, 4), random_model(structure, 5)
    objective = ImageLikelihood(ALL)
    coordinates = objective.coordinates(model, batch, None)

    def evaluate(vector):
        moved = model._replace(params=coordinates.params(vector))
        step, _ = objective.step(moved, batch, Clock(0, 0), None)
        return step.loss, coordinates.gradient(step.gradient)

    x = coordinates.vector(model.params)
    loss, gradient = evaluate(x)
    assert loss / batch.weight.sum() == pytest.approx(-objective.score(model, batch, 0))
    numeric = np.empty_like(x)
    for i in range(len(x)):
        step = np.zeros_like(x)
        step[i] = 1e-5
        numeric[i] = (evaluate(x + step)[0] - evaluate(x - step)[0]) / 2e-5
    np.testing.assert_allclose(gradient, numeric, rtol=1e-5, atol=1e-6)


def test_loss_counts_observed_pixels_by_their_weight():
    structure = STRUCTURES[2]
    batch, model = random_batch(structure, 6), random_model(structure, 7)
    log_p = naive_log_beliefs(model, batch)
    weight = np.random.default_rng(8).uniform(0.5, 2, len(batch.path))
    batch = ImageBatch.of(batch.arrays, batch.path, weight)
    seen = np.flatnonzero(batch.path >= 0)
    expected = -(weight[seen] * log_p[batch.path[seen], seen]).sum()
    step, _ = ImageLikelihood(ALL).step(model, batch, Clock(0, 0), None)
    assert step.loss == pytest.approx(expected)
    assert batch.weight.sum() == pytest.approx(weight[seen].sum())


def test_threads_and_parts_do_not_change_the_result():
    structure = STRUCTURES[2]
    shapes = [(90, 100)] * 9 + [(3, 4)]
    batch, model = random_batch(structure, 8, shapes), random_model(structure, 9)
    assert len(batch.pieces()) > 2
    one, _ = ImageLikelihood(ALL).step(model, batch, Clock(0, 0), None)
    two, _ = ImageLikelihood(ALL, n_jobs=2).step(model, batch, Clock(0, 0), None)
    assert one.loss == two.loss
    for a, b in zip(one.gradient, two.gradient):
        np.testing.assert_array_equal(a, b)
    alone = batch.take(np.array([3]))
    together = all_log_beliefs(model, batch)[:, batch.start[3] : batch.start[4]]
    np.testing.assert_allclose(all_log_beliefs(model, alone), together, rtol=1e-12, atol=1e-12)


def test_tall_and_wide_images_take_little_memory():
    shapes = [(300, 1)] * 60 + [(1, 300)] * 60 + [(20 + i % 7, 20 + i % 11) for i in range(60)]
    structure = STRUCTURES[2]
    batch, model = random_batch(structure, 10, shapes), random_model(structure, 11)
    places = sum(len(part.prepared(1)[0].inside) for part in batch.pieces())
    assert places < 4 * len(batch.path)
    assert sorted(np.concatenate([part.items for part in batch.pieces()])) == list(
        range(len(batch.path))
    )
    together = all_log_beliefs(model, batch)
    for i in (0, 60, 130):
        alone = all_log_beliefs(model, batch.take(np.array([i])))
        found = together[:, batch.start[i] : batch.start[i + 1]]
        np.testing.assert_allclose(found, alone, rtol=1e-12, atol=1e-12)
