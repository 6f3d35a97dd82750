"""Denoise digits with a conditional RBM.

The digits that ship with scikit-learn (8x8, binarised) get 10% of their pixels flipped.
A conditional RBM learns to predict all clean pixels jointly from the noisy ones; the
rival is one logistic regression per pixel, its C chosen on the same training images.
Writes a picture with rows clean / noisy / restored. No download, under a minute.
"""

import argparse
import time
from pathlib import Path

import matplotlib
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

from skcrbm import CRBMClassifier

matplotlib.use("Agg")
import matplotlib.pyplot as plt

N_TRAIN_IMAGES = 1400
N_NOISE_DRAWS = 4  # noisy copies of each training image
NOISE = 0.1


def make_data(seed=0):
    """Return noisy and clean pixels, (n, 64) each: training and test."""
    rng = np.random.RandomState(seed)
    clean = (load_digits().data >= 8).astype(np.int64)
    clean = clean[rng.permutation(len(clean))]
    train = np.tile(clean[:N_TRAIN_IMAGES], (N_NOISE_DRAWS, 1))
    test = clean[N_TRAIN_IMAGES:]

    def flip(pixels):
        return np.where(rng.random_sample(pixels.shape) < NOISE, 1 - pixels, pixels)

    return flip(train).astype(np.float32), train, flip(test).astype(np.float32), test


def fit_logistic_regressions(X, Y):
    """One logistic regression per pixel; C from a grid, by a held-out fifth of the images."""
    cut = int(0.8 * N_TRAIN_IMAGES)
    is_train = np.arange(len(X)) % N_TRAIN_IMAGES < cut

    def fit(C, rows):
        models = []
        for y in Y[rows].T:
            constant = y.min() == y.max()
            models.append(None if constant else LogisticRegression(C=C).fit(X[rows], y))
        return models

    def error(C):
        return (predict_pixels(fit(C, is_train), X[~is_train], Y) != Y[~is_train]).mean()

    return fit(min((0.03, 0.1, 0.3), key=error), np.ones(len(X), bool))


def predict_pixels(models, X, Y):
    """Predict every pixel; one that never varies keeps its value."""
    columns = [
        np.full(len(X), Y[0, i]) if model is None else model.predict(X)
        for i, model in enumerate(models)
    ]
    return np.column_stack(columns)


def draw(path, *rows, titles, n_images=12):
    """Write one picture with a row of images per array."""
    figure, axes = plt.subplots(
        len(rows), n_images, figsize=(n_images * 0.8, len(rows) * 0.95), squeeze=False
    )
    for axis_row, images, title in zip(axes, rows, titles):
        for axis, image in zip(axis_row, images):
            axis.imshow(image.reshape(8, 8), cmap="gray_r", vmin=0, vmax=1)
            axis.set_xticks([])
            axis.set_yticks([])
        axis_row[0].set_ylabel(title, fontsize=9)
    figure.tight_layout(pad=0.3)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def main():
    """Fit both models, print the table, write the picture."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    default = Path(__file__).parent / "output" / "denoise_digits.png"
    parser.add_argument("--output", type=Path, default=default)
    arguments = parser.parse_args()

    X, Y, X_test, Y_test = make_data()
    changed = X_test != Y_test
    print(f"{len(X)} noisy training images, {len(X_test)} test images of 64 pixels")

    start = time.perf_counter()
    rivals = fit_logistic_regressions(X, Y)
    rival_seconds = time.perf_counter() - start

    start = time.perf_counter()
    model = CRBMClassifier(
        n_hidden=64,
        inference="sum_product",
        solver="sgd",
        learning_rate_init=0.2,
        alpha=0.003,
        batch_size=50,
        max_iter=20,
        early_stopping=False,
        n_jobs=2,
        random_state=0,
    ).fit(X, Y)
    seconds = time.perf_counter() - start
    restored = model.predict(X_test)

    print(f"{'test error, % of pixels':34s}{'all':>8s}{'flipped':>9s}{'seconds':>9s}")
    for name, prediction, spent in (
        ("none (the noisy image)", X_test, 0.0),
        ("independent logistic regression", predict_pixels(rivals, X_test, Y), rival_seconds),
        ("conditional RBM, belief propagation", restored, seconds),
    ):
        wrong = prediction != Y_test
        share = 100 * wrong.mean(), 100 * wrong[changed].mean()
        print(f"{name:34s}{share[0]:8.2f}{share[1]:9.2f}{spent:9.1f}")
    print(f"share of converged inference, last epoch: {model.convergence_curve_[-1]:.1%}")
    draw(arguments.output, Y_test, X_test, restored, titles=("clean", "noisy", "restored"))
    print(f"picture: {arguments.output}")


if __name__ == "__main__":
    main()
