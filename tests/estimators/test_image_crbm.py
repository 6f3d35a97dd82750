"""ImageCRBM: shapes of images in and out, and the recipe behind its defaults."""

import pickle
import warnings

import numpy as np
import pytest
from reference.early_end import EARLY_END
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict, cross_val_score

import skcrbm.model_selection
from skcrbm import CRBMClassifier, GridCRF, ImageCRBM
from skcrbm.datasets import flip_pixels, occlude_patch
from skcrbm.learning import AveragedSGD, LossPlateau
from skcrbm.learning.loop import has_converged
from skcrbm.metrics import masked_score, masked_scorer

SMALL = {"n_hidden": 3, "alpha": 0.01, "max_iter": 2, "random_state": 0}
CLEAN = (load_digits().images[:150, :, 1:7] >= 8).astype(int)  # (150, 8, 6)
NOISY = flip_pixels(CLEAN, 0.1, random_state=0)
GAPS = np.where(np.random.RandomState(0).random_sample(CLEAN.shape) < 0.1, np.nan, CLEAN)


def flat(images):
    return images.reshape(len(images), -1)


@pytest.fixture(scope="module")
def model():
    return ImageCRBM(**SMALL).fit(NOISY, CLEAN)


@pytest.fixture(scope="module")
def rows():
    """The same model, of rows of pixels."""
    return ImageCRBM(**SMALL).fit(flat(NOISY), flat(CLEAN))


def test_predictions_are_images_where_y_was(model, rows):
    for name in ("predict", "predict_proba", "decision_function"):
        images, pixels = getattr(model, name)(NOISY), getattr(rows, name)(flat(NOISY))
        assert images.shape == CLEAN.shape
        np.testing.assert_array_equal(flat(images), pixels)
        # However X comes: it is y that rules.
        np.testing.assert_array_equal(getattr(model, name)(flat(NOISY)), images)
        np.testing.assert_array_equal(getattr(rows, name)(NOISY), pixels)
        np.testing.assert_array_equal(getattr(model, name)(NOISY.tolist()), images)
    drawn = model.sample(NOISY[:4], 3, random_state=0)
    assert drawn.shape == (4, 3, 8, 6)
    np.testing.assert_array_equal(
        drawn.reshape(4, 3, -1), rows.sample(flat(NOISY[:4]), 3, random_state=0)
    )
    assert model.predict_topk(NOISY[:4], 2).labels.shape == (4, 2, 8, 6)
    assert model.predict_pairwise_proba(NOISY[:1]).shape == (1, 48, 48)
    assert model.n_features_in_ == 48
    assert model.classes_.shape == (48,)


def test_sizes_of_X_and_y_may_differ():
    halves = NOISY[:, :4]
    model = ImageCRBM(**SMALL).fit(halves, CLEAN)
    assert model.predict(halves).shape == CLEAN.shape
    some = ImageCRBM(**SMALL).fit(sparse.csr_matrix(flat(halves)), CLEAN)
    assert some.predict(flat(halves)).shape == CLEAN.shape
    grey = ImageCRBM(**SMALL).fit(NOISY / 4 + 0.3, flat(CLEAN))
    assert grey.predict(NOISY / 4 + 0.3).shape == flat(CLEAN).shape


def test_known_pixels(model, rows):
    known = np.full(CLEAN.shape, np.nan)
    known[:, :5] = CLEAN[:, :5]
    found = model.predict(NOISY, y_known=known)
    np.testing.assert_array_equal(found[:, :5], CLEAN[:, :5])
    np.testing.assert_array_equal(model.predict(NOISY, y_known=flat(known)), found)
    np.testing.assert_array_equal(flat(found), rows.predict(flat(NOISY), y_known=known))
    drawn = model.sample(NOISY[:3], 2, known[:3], random_state=0)
    assert (drawn[:, :, :5] == CLEAN[:3, None, :5]).all()
    assert np.isfinite(model.score_samples(NOISY, CLEAN, known)).all()


def test_pixels_that_are_not_observed():
    model = ImageCRBM(**SMALL).fit(NOISY, GAPS)
    pixels = ImageCRBM(**SMALL).fit(flat(NOISY), flat(GAPS))
    np.testing.assert_array_equal(flat(model.predict_proba(NOISY)), pixels.predict_proba(NOISY))
    assert (
        np.abs(model.visible_coef_ - ImageCRBM(**SMALL).fit(NOISY, CLEAN).visible_coef_).max()
        > 1e-3
    )


def test_score_is_the_share_of_right_pixels(model, rows):
    right = model.predict(NOISY) == CLEAN
    assert model.score(NOISY, CLEAN) == pytest.approx(right.mean())
    assert rows.score(NOISY, flat(CLEAN)) == model.score(NOISY, CLEAN)
    observed = ~np.isnan(GAPS)
    assert model.score(NOISY, GAPS) == pytest.approx(right[observed].mean())
    weight = np.arange(len(CLEAN))
    share = np.average(right.mean(axis=(1, 2)), weights=weight)
    assert model.score(NOISY, CLEAN, weight) == pytest.approx(share)
    for name, answer in (("neg_hamming_loss", "predict"), ("neg_log_loss", "predict_proba")):
        kind = "y_pred" if answer == "predict" else "y_score"
        of_rows = masked_score(name, flat(GAPS), **{kind: flat(getattr(model, answer)(NOISY))})
        assert masked_scorer(name)(model, NOISY, GAPS) == of_rows


def test_tools_of_scikit_learn(model):
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.predict(NOISY), model.predict(NOISY))
    new = clone(ImageCRBM(n_hidden=1, max_iter=1, alpha=0.01, random_state=0))
    scores = cross_val_score(new, NOISY, GAPS, cv=2)
    assert scores.shape == (2,)
    search = GridSearchCV(new, {"n_hidden": [0, 1]}, cv=KFold(2)).fit(NOISY, GAPS)
    assert search.predict(NOISY).shape == CLEAN.shape
    assert search.cv_results_["mean_test_score"][1] == pytest.approx(scores.mean())
    found = cross_val_predict(new, NOISY, CLEAN, cv=2)
    for method in ("predict", "predict_proba"):
        of_gaps = skcrbm.model_selection.cross_val_predict(new, NOISY, CLEAN, cv=2, method=method)
        assert of_gaps.shape == CLEAN.shape
        np.testing.assert_array_equal(of_gaps >= 0.5, found)


def test_frames_have_a_column_for_each_pixel(model):
    pd = pytest.importorskip("pandas")
    named = clone(model).fit(NOISY, CLEAN).set_label_output("pandas")
    frame = named.predict(NOISY[:5])
    assert isinstance(frame, pd.DataFrame)
    np.testing.assert_array_equal(frame, flat(model.predict(NOISY[:5])))
    assert named.predict_topk(NOISY[:5], 2).labels.shape == (10, 48)


def test_partial_fit_and_warm_start():
    model = ImageCRBM(n_hidden=2, random_state=0)
    for part in (slice(0, 70), slice(70, 150)):
        model.partial_fit(NOISY[part], CLEAN[part])
    assert model.predict(NOISY).shape == CLEAN.shape
    assert model.n_iter_ == 2
    with pytest.raises(ValueError, match=r"y must have shape \(n_samples, 8, 6\) as in fit"):
        model.partial_fit(NOISY, CLEAN.transpose(0, 2, 1))
    with pytest.raises(ValueError, match=r"X must have shape \(n_samples, 8, 6\) as in fit"):
        model.partial_fit(NOISY.transpose(0, 2, 1), CLEAN)
    warm = ImageCRBM(**SMALL, warm_start=True).fit(NOISY, CLEAN)
    before = warm.visible_coef_
    assert np.abs(warm.fit(NOISY, CLEAN).visible_coef_ - before).max() > 0


def test_classes_of_images():
    digit = load_digits().target[:150]
    for y in (digit, digit == 3):
        model = ImageCRBM(**SMALL).fit(NOISY, y)
        assert model.predict(NOISY).shape == (150,)
        assert model.score(NOISY, y) > 0.5


SHAPE = r"must have shape \(n_samples, height, width\) or \(n_samples, n_pixels\), got \(150, "


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (NOISY[..., None], CLEAN, rf"^X {SHAPE}8, 6, 1\)"),
        (NOISY[:, :0], CLEAN, rf"^X {SHAPE}0, 6\)"),
        (NOISY, CLEAN[..., None], rf"^y {SHAPE}8, 6, 1\)"),
        (NOISY, CLEAN[:, :, :0], rf"^y {SHAPE}8, 0\)"),
        (NOISY, CLEAN[:, :1, :1], r"^y must hold images of more than one pixel"),
        (NOISY, CLEAN * 255.0, r"^y must hold binary images .*, as in y > y.max\(\) / 2"),
        (NOISY, GAPS * 255, r"^y must hold binary .*, as in np.where\(np.isnan\(y\), np.nan, y > "),
        (NOISY, CLEAN.astype(str), r"^y must be .*holds strings: convert it with y == '1'"),
        (NOISY, np.full(CLEAN.shape, np.nan), "^y holds no observed entry"),
        (NOISY, CLEAN[:-1], "X has 150 rows, y has 149"),
        (NOISY, None, "^ImageCRBM requires y"),
        ([[[0, 1]], [[0]]], CLEAN, "^X must be a numeric array"),
        (np.where(CLEAN, np.nan, 0), CLEAN, "X contains NaN"),
    ],
)
def test_one_clear_error_in_fit(X, y, message):
    with pytest.raises(ValueError, match=message):
        ImageCRBM(**SMALL).fit(X, y)


def test_one_clear_error_in_prediction(model, rows):
    for images in (NOISY[:, :4], NOISY.transpose(0, 2, 1), NOISY[..., None]):
        with pytest.raises(ValueError, match=r"^X must have shape \(n_samples, 8, 6\) as in fit"):
            model.predict(images)
    with pytest.raises(ValueError, match=r"^X must have shape \(n_samples, height, width\) of 48"):
        rows.predict(NOISY[:, :4])
    for known, message in (
        (CLEAN.transpose(0, 2, 1), r"have shape \(n_samples, 8, 6\) as in fit"),
        (CLEAN[:-1], r"have shape \(150, 8, 6\) or \(150, 48\), got \(149, 8, 6\)"),
        (CLEAN + 0.5, "hold binary images"),
    ):
        with pytest.raises(ValueError, match="^y_known must " + message):
            model.predict(NOISY, y_known=known)
    with pytest.raises(ValueError, match=r"^y must have shape \(n_samples, 8, 6\) as in fit"):
        model.score(NOISY, CLEAN[:, :4])


def test_advice_on_grey_values_fits_images():
    """The warning about grey values advises a division, as no scaler of columns takes images."""
    grey = NOISY * 255.0
    for fit in (ImageCRBM(**SMALL).fit, ImageCRBM(**SMALL).partial_fit):
        with pytest.warns(
            UserWarning,
            match=r"have standard deviations that differ much.* Divide X by .* X / 255$",
        ):
            fit(grey, CLEAN)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", EARLY_END)
        ImageCRBM(**SMALL).fit(grey / 255, CLEAN)


def test_the_defaults_are_the_recipe():
    """Defaults equal `CRBMClassifier` with the solver and number of epochs that suit images."""
    options = {"n_hidden": 12, "random_state": 0}
    X = occlude_patch(CLEAN, random_state=0)
    images = ImageCRBM(**options).fit(X, CLEAN)
    recipe = {"solver": AveragedSGD(batch_size=20), "max_iter": images.n_iter_}
    recipe["early_stopping"] = False
    crbm = CRBMClassifier(**recipe, alpha_hidden=1 / len(X), **options).fit(flat(X), flat(CLEAN))
    np.testing.assert_array_equal(images.weights_, crbm.weights_)
    assert images.inference_ == "sum_product"
    assert images.score(X, CLEAN) > np.mean(X == CLEAN)


def test_training_ends_when_the_loss_has_converged():
    """The criterion is the one of the warning, so that the default gives no warning."""
    noisy = flip_pixels(CLEAN, 0.1, random_state=0)
    model = ImageCRBM(n_hidden=4, alpha=0.01, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        model.fit(noisy, CLEAN)
    assert 20 <= model.n_iter_ < model.max_iter
    assert has_converged(model.loss_curve_)
    for n_epochs in range(20, model.n_iter_):
        assert not has_converged(model.loss_curve_[:n_epochs])
    shorter = clone(model).set_params(max_iter=5)
    with pytest.warns(ConvergenceWarning, match="max_iter=5 epochs, while the training loss"):
        shorter.fit(noisy, CLEAN)
    rule = clone(model).set_params(max_iter=25, early_stopping=LossPlateau(25))
    assert rule.fit(noisy, CLEAN).n_iter_ == 25


# --------------------------------------------------------- large images get the local model


def large_images(n, shape=(40, 33), seed=0):
    rng = np.random.default_rng(seed)
    y = np.zeros((n, *shape), int)
    for image in y:
        a, b = rng.integers(2, 12, 2)
        image[a : a + 20, b : b + 15] = 1
    return flip_pixels(y, 0.1, random_state=seed), y


def test_large_images_get_the_local_model():
    X, y = large_images(30)
    model = ImageCRBM(random_state=0).fit(X[:20], y[:20])
    same = GridCRF(random_state=0).fit(X[:20], y[:20])
    assert isinstance(model.local_, GridCRF)
    assert model.classes_.tolist() == [0, 1]
    np.testing.assert_array_equal(model.predict(X[20:]), same.predict(X[20:]))
    np.testing.assert_array_equal(model.predict_proba(X[20:]), same.predict_proba(X[20:])[..., 1])
    log_p = model.predict_log_proba(X[20:])
    np.testing.assert_array_equal(log_p, same.predict_log_proba(X[20:])[..., 1])
    assert model.score(X[20:], y[20:]) == same.score(X[20:], y[20:]) > 0.99
    known = np.where(X[20:] == y[20:], y[20:], np.nan)
    np.testing.assert_array_equal(model.predict(X[20:], known)[~np.isnan(known)],
                                  known[~np.isnan(known)])  # fmt: skip
    with pytest.raises(ValueError, match="needs dense weights"):
        model.sample(X[:1])
    with pytest.raises(ValueError, match="needs dense weights"):
        model.predict_topk(X[:1])
    assert pickle.loads(pickle.dumps(model)).score(X, y) == model.score(X, y)


def test_structure_decides():
    X, y = large_images(12, (8, 8))
    dense = ImageCRBM(n_hidden=2, max_iter=2, random_state=0).fit(X, y)
    assert dense.local_ is None
    dense.sample(X[:1], random_state=0)
    local = ImageCRBM(structure="local", random_state=0).fit(X, y)
    assert local.local_.window == 5
    chosen = ImageCRBM(structure=GridCRF(window=3, n_hidden=1, random_state=0)).fit(X, y)
    assert chosen.local_.hidden_coef_.shape == (1, 1, 3, 3)
    again = chosen.set_params(structure="dense", max_iter=1, n_hidden=2).fit(X, y)
    assert again.local_ is None
    assert again.predict(X).shape == y.shape
    assert not hasattr(local.set_params(structure="local").fit(X, y), "visible_coef_")


def test_images_of_different_sizes_and_classes():
    X, y = zip(
        *(large_images(1, shape, seed=i) for i, shape in enumerate([(30, 30), (25, 40)] * 6))
    )
    X, y = [x[0] for x in X], [t[0] for t in y]
    model = ImageCRBM().fit(X, y)
    assert [p.shape for p in model.predict(X[:2])] == [(30, 30), (25, 40)]
    assert [p.shape for p in model.predict_proba(X[:2])] == [(30, 30), (25, 40)]
    assert model.score(X, y) > 0.98
    found = cross_val_predict(model, X, y, cv=2)
    assert np.mean([(f == t).mean() for f, t in zip(found, y)]) > 0.98
    words = [np.array(["no", "yes"])[t] for t in y]
    assert ImageCRBM(structure="local").fit(X, words).classes_.tolist() == ["no", "yes"]
    three = [t + (np.arange(t.shape[1]) > 20) for t in y]
    proba = ImageCRBM(structure="local").fit(X, three).predict_proba(X[:1])
    assert proba[0].shape == (30, 30, 3)


def test_large_grey_images_are_refused_as_targets():
    X, y = large_images(3)
    with pytest.raises(ValueError, match=r"y > y.max\(\) / 2; for classes of pixels use GridCRF"):
        ImageCRBM().fit(X, 100 * y)


@pytest.mark.parametrize("structure", ["dense", "local", GridCRF(max_iter=2)])
@pytest.mark.parametrize("kind", [bool, np.uint8, float])
def test_predictions_are_integers_for_every_type_of_y(structure, kind):
    y = (np.random.default_rng(0).random((12, 6, 6)) < 0.4).astype(kind)
    X = y.astype(float)
    model = ImageCRBM(structure=structure, max_iter=2, warm_start=True).fit(X, y)
    for _ in range(2):  # with a warm start, too
        found = model.predict(X)
        assert found.dtype == np.int64
        assert set(np.unique(found)) <= {0, 1}
        right = found if structure == "dense" else model.local_.predict(X)
        assert model.score(X, y) == pytest.approx((right == y).mean())
        model.fit(X, y)


def test_local_model_in_streams_and_warm_starts():
    X, y = large_images(30)
    model = ImageCRBM(random_state=0)
    for _ in range(15):
        for i in range(0, 20, 10):
            model.partial_fit(X[i : i + 10], y[i : i + 10])
    assert model.score(X[20:], y[20:]) > 0.97
    warm = ImageCRBM(structure="local", warm_start=True).fit(X[:20], y[:20])
    first = warm.local_
    warm.fit(X[:20], y[:20])
    assert warm.local_.loss_curve_[0] <= first.loss_curve_[-1] + 1e-9
    with pytest.raises(ValueError, match="image 0 of y"):
        warm.fit(X[:20], y[:20, :-1])
    assert warm.score(X[20:], y[20:]) > 0.99


def test_local_training_continues_with_the_current_settings():
    X, y = large_images(12)
    model = ImageCRBM(structure=GridCRF(max_iter=3), warm_start=True).fit(X, y)
    first = model.local_.loss_curve_[-1]
    model.set_params(structure__max_iter=5).fit(X, y)
    assert len(model.local_.loss_curve_) == 5
    assert model.local_.loss_curve_[0] <= first
    with pytest.raises(ValueError, match="window=3, but the model was fitted with window=5"):
        model.set_params(structure__window=3).fit(X, y)
    stream = ImageCRBM().fit(X, y)
    weights = stream.local_.coef_
    stream.partial_fit(X, y)
    assert 0 < abs(stream.local_.coef_ - weights).max() < 1
    with pytest.raises(ValueError, match="'structure' parameter of ImageCRBM"):
        stream.set_params(structure=5).partial_fit(X, y)
    with pytest.raises(ValueError, match="'n_jobs' parameter of ImageCRBM"):
        ImageCRBM().fit(X, y).set_params(n_jobs="two").predict(X)


def test_streams_keep_their_structure():
    X, y = large_images(10)
    small_X, small_y = X[:, :20, :20], y[:, :20, :20]
    local = ImageCRBM().partial_fit(X, y)
    before = local.local_.coef_
    local.partial_fit(small_X, small_y)
    assert 0 < abs(local.local_.coef_ - before).max() < 1
    with pytest.raises(ValueError, match="structure='dense' differs from the earlier fit"):
        local.set_params(structure="dense").partial_fit(X, y)
    dense = ImageCRBM(n_hidden=2, random_state=0).partial_fit(small_X, small_y)
    with pytest.raises(ValueError, match=r"20, 20\) as in fit"):
        dense.partial_fit(X, y)
    with pytest.raises(ValueError, match="structure='local' differs from the earlier fit"):
        dense.set_params(structure="local").partial_fit(small_X, small_y)
    with pytest.raises(ValueError, match="which trained dense weights"):
        dense.set_params(warm_start=True).fit(small_X, small_y)
    assert dense.set_params(warm_start=False).fit(small_X, small_y).local_ is not None


def test_streams_with_batches_of_one_value_or_without_labels():
    X, y = large_images(10)
    unlabelled = np.full(y.shape, np.nan)
    model = ImageCRBM(random_state=0).partial_fit(X, unlabelled).partial_fit(X, np.zeros_like(y))
    assert model.classes_.tolist() == [0, 1]
    before = model.local_.coef_
    model.partial_fit(X, unlabelled)
    np.testing.assert_array_equal(model.local_.coef_, before)
    for _ in range(20):
        model.partial_fit(X, y)
    assert model.score(X, y) > 0.95


def test_object_arrays_and_methods_of_dense_weights():
    X, y = large_images(2)
    images, labels = np.empty(2, object), np.empty(2, object)
    images[0], labels[0] = X[0], y[0]
    images[1], labels[1] = X[1, :20], y[1, :20]
    model = ImageCRBM().fit(images, labels)
    assert [p.shape for p in model.predict_proba(images)] == [X[0].shape, X[1, :20].shape]
    with pytest.raises(ValueError, match="needs dense weights"):
        model.predict_pairwise_proba(images)
    with pytest.raises(ValueError, match="needs dense weights"):
        model.score_label_sets(images, labels)
