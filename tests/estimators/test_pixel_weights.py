"""Weights of single pixels: `sample_weight` in the shape of the images in y."""

import numpy as np
import pytest
from sklearn.base import clone

from skcrbm import GridCRF, ImageCRBM

RNG = np.random.RandomState(0)
Y = RNG.randint(0, 2, (24, 4, 5))
X = Y + RNG.normal(0, 0.7, Y.shape)
WEIGHT = RNG.choice([0.0, 1.0, 2.0], size=Y.shape)
GAPS = np.where(WEIGHT > 0, Y, np.nan)
MODELS = {
    "dense": ImageCRBM(n_hidden=2, alpha=0.01, max_iter=3, random_state=0),
    "local": ImageCRBM(structure="local", random_state=0),
    "grid": GridCRF(max_iter=5, random_state=0),
}


@pytest.mark.parametrize("name", MODELS)
def test_equal_weights_and_weights_of_zero(name):
    """Equal weights are weights of images, and a pixel of weight 0 is a missing pixel."""

    def proba(y, weight=None, X=X):
        return clone(MODELS[name]).fit(X, y, sample_weight=weight).predict_proba(X)

    images = RNG.choice([0.0, 1.0, 3.0], size=24)
    equal = proba(Y, np.ones(Y.shape) * images[:, None, None])
    np.testing.assert_array_equal(equal, proba(Y, images))
    np.testing.assert_array_equal(proba(Y, (WEIGHT > 0) * 1.0), proba(GAPS))
    weighted = proba(Y, WEIGHT)
    assert np.abs(weighted - proba(Y)).max() > 0.01
    if name == "dense":
        flat = proba(Y.reshape(24, 20), WEIGHT.reshape(24, 20), X.reshape(24, 20))
        np.testing.assert_array_equal(flat, weighted.reshape(24, 20))


@pytest.mark.parametrize("name", MODELS)
def test_scores_count_pixels_by_their_weight(name):
    model = clone(MODELS[name]).fit(X, Y)
    wanted = np.average(model.predict(X) == Y, weights=WEIGHT)
    assert model.score(X, Y, sample_weight=WEIGHT) == pytest.approx(wanted)


def test_weights_are_copies_of_images():
    """A loss over pixels is the loss of copies of the images with the pixels of larger weight."""
    model = GridCRF(alpha=0.01, max_iter=300)
    both = np.concatenate([np.where(WEIGHT > 0, Y, np.nan), np.where(WEIGHT > 1, Y, np.nan)])
    copied = clone(model).fit(np.concatenate([X, X]), both)
    weighted = clone(model).fit(X, Y, sample_weight=WEIGHT)
    np.testing.assert_allclose(weighted.predict_proba(X), copied.predict_proba(X), atol=1e-4)


def test_images_of_different_sizes_and_classes():
    """A class that occurs only at pixels of weight 0 is no class, as for missing labels."""
    sizes = [(3, 4), (5, 3), (4, 4)]
    X = [RNG.normal(size=size) for size in sizes]
    y = [np.where(image > 0, "on", "off").astype(object) for image in X]
    weight = [np.ones(size) for size in sizes]
    y[1][0, 0], weight[1][0, 0] = "void", 0.0
    model = GridCRF(max_iter=5).fit(X, y, sample_weight=weight)
    assert model.classes_.tolist() == ["off", "on"]
    gaps = [image.copy() for image in y]
    gaps[1][0, 0] = None
    expected = GridCRF(max_iter=5).fit(X, gaps)
    for found, wanted in zip(model.predict_proba(X), expected.predict_proba(X)):
        np.testing.assert_array_equal(found, wanted)


def test_partial_fit_takes_weights_of_pixels():
    for model in (MODELS["dense"], GridCRF(solver="adam", random_state=0)):
        found = clone(model).partial_fit(X, Y, sample_weight=(WEIGHT > 0) * 1.0)
        wanted = clone(model).partial_fit(X, GAPS)
        np.testing.assert_array_equal(found.predict_proba(X), wanted.predict_proba(X))


@pytest.mark.parametrize(
    ("weight", "text"),
    [
        (WEIGHT[:, :3], "sample_weight"),
        (WEIGHT[:5], "sample_weight"),
        (-WEIGHT, "sample_weight|negative"),
        (WEIGHT * np.nan, "sample_weight|NaN"),
        (WEIGHT * 0, "sample_weight is zero"),
    ],
    ids=["shape", "number", "negative", "nan", "zero"],
)
@pytest.mark.parametrize("name", MODELS)
def test_errors_name_the_argument(name, weight, text):
    with pytest.raises(ValueError, match=text) as error:
        clone(MODELS[name]).fit(X, Y, sample_weight=weight)
    assert "sample_weight" in str(error.value)


MASKED = np.ma.masked_array(WEIGHT, WEIGHT == 2)


@pytest.mark.parametrize(
    ("weight", "text"),
    [
        (MASKED, "use a weight of 0"),
        ([], r"\(n_samples,\)"),
        (WEIGHT.astype(str), "sample_weight.*(strings|type <U)"),
        ([None, *WEIGHT[1:]], "(image 0 of sample_weight|sample_weight must be numbers)"),
        ([WEIGHT[0], *np.ones(23)], "sample_weight (must be numbers|should have)"),
        ((part for part in WEIGHT), "sample_weight.*generator"),
    ],
    ids=["masked", "empty", "strings", "none", "mixed", "generator"],
)
@pytest.mark.parametrize("name", MODELS)
def test_unusual_weights_are_explained(name, weight, text):
    with pytest.raises(ValueError, match=text) as error:
        clone(MODELS[name]).fit(X, Y, sample_weight=weight)
    assert "MultiLabelBinarizer" not in str(error.value)


@pytest.mark.parametrize("name", MODELS)
def test_a_number_is_the_weight_of_all_images(name):
    found = clone(MODELS[name]).fit(X, Y, sample_weight=2.0)
    wanted = clone(MODELS[name]).fit(X, Y, sample_weight=np.full(24, 2.0))
    np.testing.assert_array_equal(found.predict_proba(X), wanted.predict_proba(X))
