"""GridCRF: images of any sizes, classes, missing pixels and labels, conditional probabilities."""

import pickle

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter, median_filter
from scipy.special import log_softmax
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score

from skcrbm import GridCRF
from skcrbm.datasets import flip_pixels
from skcrbm.learning import Adam


def blobs(n, size, seed, sigma=4.0):
    rng = np.random.default_rng(seed)
    fields = [gaussian_filter(rng.normal(size=(size, size)), sigma) for _ in range(n)]
    return (np.stack(fields) > 0).astype(int)


@pytest.fixture(scope="module")
def noisy():
    clean = blobs(30, 32, 0)
    return flip_pixels(clean, 0.15, random_state=1), clean


@pytest.fixture(scope="module")
def fitted(noisy):
    X, y = noisy
    return GridCRF(max_iter=40).fit(X[:20], y[:20])


def three_classes(shapes, seed):
    """Images of stripes of three grey values with noise, and their classes as strings."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for h, w in shapes:
        code = (np.arange(w) // 3 + rng.integers(3)) % 3 + np.zeros((h, 1), int)
        X.append(code + rng.normal(0, 0.6, (h, w)))
        y.append(np.array(["dark", "grey", "white"])[code])
    return X, y


def test_neighbours_beat_independent_pixels_and_the_median(noisy, fitted):
    X, y = noisy
    score = fitted.score(X[20:], y[20:])
    alone = GridCRF(pair_window=1, max_iter=40).fit(X[:20], y[:20]).score(X[20:], y[20:])
    median = np.mean([(median_filter(x, 3) == t).mean() for x, t in zip(X[20:], y[20:])])
    assert score > alone > median
    assert 1 - score < 0.95 * (1 - alone)


def test_predictions_have_the_shapes_and_classes_of_the_images(noisy, fitted):
    X, y = noisy
    predicted, proba = fitted.predict(X[20:]), fitted.predict_proba(X[20:])
    assert predicted.shape == y[20:].shape
    assert proba.shape == (*y[20:].shape, 2)
    np.testing.assert_allclose(proba.sum(axis=-1), 1)
    np.testing.assert_array_equal(predicted, proba.argmax(axis=-1))
    np.testing.assert_allclose(np.log(proba), fitted.predict_log_proba(X[20:]), atol=1e-9)
    assert fitted.score(X[20:], y[20:]) == pytest.approx((predicted == y[20:]).mean())


def test_images_of_different_sizes_with_classes_that_are_strings():
    X, y = three_classes([(9, 17), (12, 12), (5, 30), (20, 8)] * 5, 0)
    model = GridCRF(max_iter=60).fit(X[:16], y[:16])
    predicted = model.predict(X[16:])
    assert [p.shape for p in predicted] == [t.shape for t in y[16:]]
    assert model.classes_.tolist() == ["dark", "grey", "white"]
    assert model.coef_.shape == (2, 1, 5, 5)
    assert model.pair_coef_.shape == (4, 2, 2)
    assert model.score(X[16:], y[16:]) > 0.95


def test_conditional_probability_of_a_pixel_given_all_others():
    X, y = three_classes([(4, 5)] * 6, 1)
    model = GridCRF(window=3, max_iter=5).fit(X, y)
    graph = model.factor_graph(X[0])
    codes = np.searchsorted(model.classes_, y[0]).ravel()
    for pixel in (0, 7, 19):
        states = np.repeat(codes[None], 3, axis=0)
        states[:, pixel] = np.arange(3)
        expected = log_softmax(graph.score(states))
        known = y[0].astype(object)
        known.flat[pixel] = None
        found = model.predict_log_proba(X[:1], [known])[0].reshape(-1, 3)
        np.testing.assert_allclose(found[pixel], expected, rtol=1e-9, atol=1e-12)
        others = np.arange(20) != pixel
        np.testing.assert_array_equal(found[others].argmax(axis=1), codes[others])


def test_factor_graph_of_independent_pixels_and_of_a_single_row():
    X, y = three_classes([(4, 5)] * 6, 2)
    model = GridCRF(pair_window=1, max_iter=5).fit(X, y)
    graph = model.factor_graph(X[0])
    codes = np.argmax(model.predict_proba(X[:1])[0], axis=-1).ravel()
    best = graph.score(codes[None])
    for pixel in range(20):
        worse = codes.copy()
        worse[pixel] = (worse[pixel] + 1) % 3
        assert graph.score(worse[None]) < best
    model = GridCRF(pair_window=5, max_iter=5).fit(X, y)
    assert model.factor_graph(np.zeros((1, 3))).n_variables == 3
    hidden = GridCRF(n_hidden=1, max_iter=2, random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="n_hidden=0"):
        hidden.factor_graph(X[0])


def test_missing_pixels_are_filled_in(noisy):
    X, y = noisy
    rng = np.random.default_rng(0)
    holes = np.where(rng.random(X.shape) < 0.3, np.nan, X)
    model = GridCRF(max_iter=40).fit(holes[:20], y[:20])
    assert model.coef_.shape[1] == 2
    assert model.score(holes[20:], y[20:]) > 0.93
    whole = GridCRF(max_iter=5).fit(X[:20], y[:20])
    with pytest.raises(ValueError, match="X contains NaN, but the images in fit did not"):
        whole.predict(holes[20:])


def test_missing_labels_do_not_count(noisy):
    X, y = noisy
    rng = np.random.default_rng(0)
    part = np.where(rng.random(y.shape) < 0.5, np.nan, y)
    lie = np.where(np.isnan(part), rng.integers(0, 2, y.shape), part)
    model = GridCRF(max_iter=40).fit(X[:20], part[:20])
    assert model.classes_.tolist() == [0, 1]
    assert model.score(X[20:], y[20:]) > GridCRF(max_iter=40).fit(X[:20], lie[:20]).score(
        X[20:], y[20:]
    )
    unlabelled = [*part[:20], None]
    again = GridCRF(max_iter=40).fit([*X[:20], X[20]], unlabelled)
    assert (again.predict(X[20:]) == model.predict(X[20:])).mean() > 0.998
    assert model.score(X[20:], part[20:]) == pytest.approx(
        (model.predict(X[20:]) == part[20:])[~np.isnan(part[20:])].mean()
    )


def test_automatic_penalty_does_not_depend_on_the_scale_of_the_weights(noisy):
    X, y = noisy
    y = y[:5].astype(float)
    y[0, :2] = np.nan
    weight = np.array([1.0, 2.0, 3.0, 1.0, 0.0])
    model = GridCRF(max_iter=20).fit(X[:5], y, sample_weight=weight)
    scaled = GridCRF(max_iter=20).fit(X[:5], y, sample_weight=1000 * weight)
    assert model.alpha_ == scaled.alpha_ == 1 / np.count_nonzero(~np.isnan(y[:4]))
    np.testing.assert_allclose(scaled.coef_, model.coef_, rtol=1e-6, atol=1e-9)


def test_scale_and_channels_do_not_matter(noisy):
    X, y = noisy
    plain = GridCRF(max_iter=20).fit(X[:10], y[:10]).predict_proba(X[20:])
    scaled = GridCRF(max_iter=20).fit(255 * X[:10] + 7, y[:10]).predict_proba(255 * X[20:] + 7)
    np.testing.assert_allclose(plain, scaled, atol=1e-8)
    colours = np.stack([X, 1 - X, np.zeros_like(X)], axis=-1)
    model = GridCRF(max_iter=20).fit(colours[:10], y[:10])
    assert model.coef_.shape == (1, 3, 5, 5)
    assert model.score(colours[20:], y[20:]) == pytest.approx(
        (plain.argmax(axis=-1) == y[20:]).mean(), abs=0.01
    )


@pytest.mark.parametrize("solver", ["lbfgs", Adam(learning_rate=0.02)], ids=["lbfgs", "adam"])
def test_results_depend_on_the_seed_alone(noisy, solver):
    X, y = noisy
    options = {"n_hidden": 2, "max_iter": 3, "solver": solver, "random_state": 0}
    one = GridCRF(**options).fit(X[:10], y[:10])
    two = GridCRF(**options, n_jobs=2).fit(X[:10], y[:10])
    np.testing.assert_array_equal(one.hidden_coef_, two.hidden_coef_)
    other = GridCRF(**{**options, "random_state": 1}).fit(X[:10], y[:10])
    assert abs(one.hidden_coef_ - other.hidden_coef_).max() > 0.01
    copy = pickle.loads(pickle.dumps(one))
    np.testing.assert_array_equal(copy.predict_proba(X[10:]), one.predict_proba(X[10:]))


def test_hidden_variables_learn_shapes_that_pairs_cannot():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (60, 12, 12))
    y = X ^ np.roll(X, 1, axis=2)  # exclusive or of two pixels: no linear window tells it
    linear = GridCRF(window=3, max_iter=60).fit(X[:40], y[:40]).score(X[40:], y[40:])
    hidden = GridCRF(window=3, n_hidden=4, max_iter=150, random_state=0).fit(X[:40], y[:40])
    assert linear < 0.6
    assert hidden.score(X[40:, :, 1:-1], y[40:, :, 1:-1]) > 0.9


def test_streams_and_warm_starts(noisy):
    X, y = noisy
    model = GridCRF(solver=Adam(learning_rate=0.02), random_state=0)
    for _ in range(8):
        for i in range(0, 20, 5):
            model.partial_fit(X[i : i + 5], y[i : i + 5], classes=[0, 1])
    assert model.score(X[20:], y[20:]) > 0.95
    assert len(model.loss_curve_) == len(model.convergence_curve_) == 32
    before = model.coef_
    np.testing.assert_array_equal(model.partial_fit(X[:2], [None, None]).coef_, before)
    with pytest.raises(ValueError, match="stochastic solver"):
        GridCRF().partial_fit(X[:5], y[:5])
    warm = GridCRF(max_iter=20, warm_start=True).fit(X[:20], y[:20])
    loss = warm.loss_curve_[-1]
    assert warm.fit(X[:20], y[:20]).loss_curve_[0] <= loss + 1e-9
    with pytest.raises(ValueError, match="warm_start=False"):
        warm.set_params(window=3).fit(X[:20], y[:20])


def test_searches_and_clones_over_lists(noisy):
    X, y = noisy
    model = GridCRF(window=1, max_iter=30)
    search = GridSearchCV(model, {"pair_window": [1, 3]}, cv=2).fit(list(X), list(y))
    assert search.best_params_ == {"pair_window": 3}
    assert cross_val_score(clone(search.best_estimator_), X, y, cv=2).min() > 0.9


@pytest.mark.parametrize("shapes", [[(9, 17), (12, 12)] * 6, [(9, 17)] * 12], ids=["two", "one"])
def test_out_of_fold_predictions_of_lists_and_object_arrays(shapes):
    X, y = three_classes(shapes, 0)
    model = GridCRF(max_iter=20)
    found = cross_val_predict(model, X, y, cv=3)
    objects = np.empty(12, object)
    for i, image in enumerate(X):
        objects[i] = image
    for answers in (found, model.fit(objects, y).predict(objects)):
        assert answers.shape == (12,)
        assert [image.shape for image in answers] == shapes
        assert np.mean([(a == t).mean() for a, t in zip(answers, y)]) > 0.95
    assert [p.shape for p in model.predict_proba(objects)] == [(*shape, 3) for shape in shapes]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"X": np.zeros((8, 8))}, r"X should be a list of images, got one array of shape \(8, 8\)"),
        ({"X": [np.zeros(4)] * 3}, r"image 0 of X should have the shape \(height, width\)"),
        ({"X": [np.zeros((4, 4))] * 2}, "y has 3 images, but X has 2"),
        ({"X": [np.full((4, 4), np.inf)] * 3}, "image 0 of X contains infinity"),
        ({"X": [np.zeros((4, 4)), np.zeros((4, 4, 2)), np.zeros((4, 4))]}, "image 1 of X has 2"),
        ({"X": []}, "X is empty"),
        ({"X": [[["a"]]] * 3}, "image 0 of X should hold numbers"),
        ({"y": [np.eye(3, dtype=int)] * 3}, r"image 0 of y should have the shape \(4, 4\)"),
        ({"y": [np.full((4, 4), 0.5)] * 3}, "labels in y should be classes, got the number 0.5"),
        ({"y": [None] * 3}, "no observed label"),
        ({"y": 5}, "y should be a list of images"),
        ({"X": [np.ones((4, 4), complex)] * 3}, "image 0 of X should hold numbers: complex"),
        ({"X": np.zeros((3, 4, 4), "M8[s]")}, "image 0 of X should hold numbers: dates"),
        ({"X": np.full((3, 4, 4), "1")}, "image 0 of X should hold numbers: strings"),
        ({"y": [[[1, 0], [1]]] * 3}, r"image 0 of y should be an array \(height, width\)"),
        ({"y": [np.ones((4, 4), complex)] * 3}, "image 0 of y holds complex numbers"),
        (
            {"X": [np.ones((11, 11))] * 3, "y": [np.arange(121).reshape(11, 11)] * 3},
            "y holds 121 classes, and at most 100 are possible",
        ),
        ({"window": 4}, "window must be odd, got 4"),
        ({"pair_window": 2}, "pair_window must be odd, got 2"),
        ({"early_stopping": True}, "early_stopping is for stochastic solvers"),
        ({"sample_weight": [1, 2]}, "sample_weight"),
        ({"sample_weight": [0, 0, 0]}, "sample_weight|no observed label"),
    ],
    ids=str,
)
def test_bad_input_gets_one_clear_error(change, message):
    good = {"X": [np.ones((4, 4))] * 3, "y": [np.eye(4, dtype=int)] * 3}
    data = {name: change.get(name, value) for name, value in good.items()}
    weight = change.get("sample_weight")
    options = {k: v for k, v in change.items() if k not in ("X", "y", "sample_weight")}
    with pytest.raises(ValueError, match=message):
        GridCRF(**options).fit(data["X"], data["y"], sample_weight=weight)


def test_masks_and_scales_of_any_size(noisy):
    X, y = noisy
    hidden = np.random.default_rng(0).random(X.shape) < 0.2
    gaps = GridCRF(max_iter=5).fit(np.where(hidden, np.nan, X), np.where(hidden, np.nan, y))
    masked = GridCRF(max_iter=5).fit(
        np.ma.masked_array(X, hidden), list(np.ma.masked_array(y, hidden))
    )
    np.testing.assert_array_equal(gaps.coef_, masked.coef_)
    plain = GridCRF(max_iter=5).fit(X[:9], y[:9]).coef_
    for factor in (1e-200, 1e200):
        found = GridCRF(max_iter=5).fit(X[:9] * factor, y[:9]).coef_
        np.testing.assert_allclose(found, plain, rtol=1e-9)


def test_large_numbers_as_labels(noisy):
    X, y = noisy
    model = GridCRF(max_iter=5).fit(X[:5], y[:5] * 1e20)
    assert model.classes_.tolist() == [0, 1e20]
    assert model.score(X[:5], y[:5] * 1e20) > 0.9


def test_labels_that_fit_did_not_see(noisy, fitted):
    X, _ = noisy
    with pytest.raises(ValueError, match="image 0 of y_known holds the label 'a'"):
        fitted.predict(X[:1], [np.full((32, 32), "a")])
    with pytest.raises(ValueError, match="3 channels"):
        fitted.predict(np.zeros((1, 8, 8, 3)))


def test_labels_that_training_did_not_have_count_as_wrong():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4, 6, 5))
    y = np.where(X > 0, "b", "a")
    model = GridCRF(max_iter=3).fit(X, y)
    other = y.astype("<U3")
    other[:, 0] = "new"
    right = model.predict(X) == y
    right[:, 0] = False
    with pytest.warns(UserWarning, match="y holds the label 'new', which training did not have"):
        assert model.score(X, other) == pytest.approx(right.mean())
    with pytest.raises(ValueError, match="image 0 of y holds the label 1, which is not a class"):
        model.score(X, np.ones(y.shape, int))
    other = y.astype(object)
    other[2, 1, 1] = 5
    with pytest.raises(ValueError, match="image 2 of y holds the label 5, which is not a class"):
        model.score(X, other)
