"""Images that are too large for dense weights: denoising and segmentation, beside simple controls.

Tasks: "blobs", 400 images of 64 x 64 with 10 % flipped pixels; "large blobs", the same model on
images of 256 x 256; "digits", 1500 MNIST images of 28 x 28 with 10 % flipped pixels; "roads",
CamVid at 45 x 60 with 11 classes, whose unlabelled pixels count neither in training nor in the
score. For each task the program prints a Markdown table: the share of wrong pixels of the test
images in per cent, and the processor seconds of training and of prediction. MNIST and CamVid are
read from the folder SKCRBM_DATA.

    python -m examples.studies.large_images                 # about ten minutes
    python -m examples.studies.large_images --task blobs
"""

import argparse
import os
import time
from pathlib import Path

import numpy as np
from scipy.ndimage import gaussian_filter, median_filter
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression

from skcrbm import GridCRF, ImageCRBM
from skcrbm.datasets import flip_pixels, load_mnist

SIGMA = 14.0  # width of the blobs, in pixels
UNLABELLED = 11  # class of CamVid that stands for a missing label


def blobs(n, size, seed):
    """Return 0/1 images (n, size, size) of smooth blobs."""
    rng = np.random.default_rng(seed)
    noise = rng.normal(size=(n, size, size))
    return np.stack([gaussian_filter(image, SIGMA, mode="wrap") > 0 for image in noise]) * 1


class Median:
    """Median filter with a window of 3 x 3 pixels, which has no parameters to fit."""

    def fit(self, X, y):
        """Do nothing."""
        return self

    def predict(self, X):
        """Return the filtered images."""
        return np.stack([median_filter(image, 3) for image in X])


class Windows:
    """Classifier of single pixels, whose features are the window of 5 x 5 pixels around a pixel."""

    def __init__(self, model, n_rows=200_000):
        self.model = model
        self.n_rows = n_rows

    def fit(self, X, y):
        """Fit the classifier to a random sample of the labelled pixels."""
        rows, labels = np.concatenate(list(map(_windows, X))), np.ravel(y)
        some = np.flatnonzero(~np.isnan(labels))
        some = np.random.default_rng(0).permutation(some)[: self.n_rows]
        self.model.fit(rows[some], labels[some])
        return self

    def predict(self, X):
        """Return the class of each pixel."""
        return np.stack([self.model.predict(_windows(x)).reshape(x.shape[:2]) for x in X])


def _windows(image):
    """Return the windows (n_pixels, 25 * n_channels) of an image."""
    image = image if image.ndim == 3 else image[..., None]
    mean = image.mean(axis=(0, 1))
    padded = np.pad(image - mean, ((2, 2), (2, 2), (0, 0))) + mean
    height, width = image.shape[:2]
    parts = [padded[r : r + height, c : c + width] for r in range(5) for c in range(5)]
    return np.concatenate(parts, axis=2).reshape(height * width, -1)


def hidden(n_hidden, **options):
    """Return a `GridCRF` that is trained by Adam, with hidden variables at each pixel."""
    return GridCRF(n_hidden=n_hidden, solver="adam", max_iter=6, random_state=0, **options)


def with_position(images):
    """Return colour images with the row, its square and its cube, and the squared column added."""
    n, height, width, _ = images.shape
    row, column = np.mgrid[:height, :width]
    row, column = row / (height - 1) - 0.5, column / (width - 1) - 0.5
    place = np.stack([row, row**2, row**3, column**2], axis=-1)
    return np.concatenate([images / 255, np.broadcast_to(place, (n, height, width, 4))], axis=-1)


def blob_data():
    """Return noisy and clean images of 64 x 64, for training and testing."""
    clean, test = blobs(400, 64, 0), blobs(100, 64, 1)
    flip = [flip_pixels(y, 0.1, random_state=i) for i, y in enumerate((clean, test))]
    return flip[0], clean, flip[1], test


def large_blob_data():
    """Return training images of 64 x 64, and test images of 256 x 256."""
    X, y, _, _ = blob_data()
    test = blobs(20, 256, 2)
    return X, y, flip_pixels(test, 0.1, random_state=2), test


def digit_data():
    """Return noisy and clean digits."""
    clean = (load_mnist()["data"][:1900].reshape(-1, 28, 28) > 127) * 1
    noisy = flip_pixels(clean, 0.1, random_state=0)
    return noisy[:1500], clean[:1500], noisy[1500:], clean[1500:]


def road_data():
    """Return images of roads with their positions, and the classes with NaN for no label."""
    data = np.load(Path(os.environ["SKCRBM_DATA"]) / "camvid_45x60.npz")
    X, y, test_X, test_y = (data[k] for k in ("X_train", "Y_train", "X_test", "Y_test"))
    y, test_y = (np.where(v == UNLABELLED, np.nan, v) for v in (y, test_y))
    return with_position(X), y, with_position(test_X), test_y


REGRESSION = "logistic regression of 5 x 5 windows"
BLOBS = {
    "median filter, 3 x 3": Median(),
    REGRESSION: Windows(LogisticRegression(max_iter=300)),
    "boosted trees of 5 x 5 windows": Windows(HistGradientBoostingClassifier(random_state=0)),
    "`GridCRF(pair_window=1)`, without neighbours": GridCRF(pair_window=1),
    "`ImageCRBM()`": ImageCRBM(random_state=0),
    "`GridCRF(n_hidden=4)` by Adam": hidden(4),
}
TASKS = {
    "blobs": (blob_data, BLOBS),
    "large blobs": (large_blob_data, {k: BLOBS[k] for k in list(BLOBS) if "boosted" not in k}),
    "digits": (
        digit_data,
        {
            "median filter, 3 x 3": Median(),
            REGRESSION: BLOBS[REGRESSION],
            "`ImageCRBM()`, dense weights": ImageCRBM(random_state=0),
            '`ImageCRBM(structure="local")`': ImageCRBM(structure="local", random_state=0),
            "`GridCRF(n_hidden=4)` by Adam": hidden(4),
        },
    ),
    "roads": (
        road_data,
        {
            REGRESSION: Windows(LogisticRegression(max_iter=300), 50_000),
            "boosted trees of 5 x 5 windows": Windows(
                HistGradientBoostingClassifier(random_state=0), 100_000
            ),
            "`GridCRF(pair_window=1)`, without neighbours": hidden(0, pair_window=1),
            "`GridCRF()` by Adam": hidden(0),
            "`GridCRF(n_hidden=8)` by Adam": hidden(8),
        },
    ),
}


def main(arguments=None):
    """Print a table for each task."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--task", choices=TASKS, help="a single task instead of all")
    parser.add_argument("--only", default="", help="part of the name of a row")
    options = parser.parse_args(arguments)
    for task in [options.task] if options.task else TASKS:
        load, rows = TASKS[task]
        X, y, test_X, test_y = load()
        print(f"\n| {task} | wrong pixels, % | training, s | prediction, s |\n|---|---|---|---|")
        for name, model in rows.items():
            if options.only not in name:
                continue
            start = time.process_time()
            model.fit(X, y)
            trained = time.process_time()
            found = model.predict(test_X)
            seconds = trained - start, time.process_time() - trained
            labelled = ~np.isnan(test_y)
            wrong = 100 * (np.asarray(found)[labelled] != test_y[labelled]).mean()
            print(f"| {name} | {wrong:.2f} | {seconds[0]:.1f} | {seconds[1]:.1f} |", flush=True)


if __name__ == "__main__":
    main()
