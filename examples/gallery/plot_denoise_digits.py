"""
Denoise digits with a conditional RBM
=====================================

This program flips 10% of the pixels of the digits that ship with scikit-learn (8 x 8, binarised). A
conditional RBM learns to predict all clean pixels jointly from the noisy pixels. The baseline is a
logistic regression per pixel, whose C is chosen on the same training images. The picture has a row
for each model, with wrong pixels in red: light if a pixel is missing, dark if there is an
additional pixel. The program needs no download and takes less than a minute.
"""

import sys
import time
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

from skcrbm import ImageCRBM
from skcrbm.datasets import flip_pixels

N_TRAIN_IMAGES = 1400
N_NOISE_DRAWS = 4  # noisy copies of each training image
NOISE = 0.1

# %%
# Noisy and clean images.

rng = np.random.RandomState(0)
clean = (load_digits().images >= 8).astype(np.int64)  # (1797, 8, 8)
clean = clean[rng.permutation(len(clean))]
Y, Y_test = np.tile(clean[:N_TRAIN_IMAGES], (N_NOISE_DRAWS, 1, 1)), clean[N_TRAIN_IMAGES:]
X, X_test = (flip_pixels(Z.astype(np.float32), NOISE, random_state=rng) for Z in (Y, Y_test))
changed = X_test != Y_test
print(f"{len(X)} noisy training images, {len(X_test)} test images of 64 pixels")

# %%
# A logistic regression per pixel; C from a grid, by a held-out fifth of the images.


def predict_pixels(C, rows, X_new):
    """Predict every pixel on its own; a pixel that never varies keeps its value."""
    pixels, X_new = X[rows].reshape(-1, 64), X_new.reshape(-1, 64)
    columns = []
    for y in Y[rows].reshape(-1, 64).T:
        if y.min() == y.max():
            columns.append(np.full(len(X_new), y[0]))
        else:
            columns.append(LogisticRegression(C=C).fit(pixels, y).predict(X_new))
    return np.column_stack(columns).reshape(-1, 8, 8)


is_train = np.arange(len(X)) % N_TRAIN_IMAGES < int(0.8 * N_TRAIN_IMAGES)
start = time.perf_counter()
best_C = min(
    (0.03, 0.1, 0.3),
    key=lambda C: (predict_pixels(C, is_train, X[~is_train]) != Y[~is_train]).mean(),
)
rival = predict_pixels(best_C, np.ones(len(X), bool), X_test)
rival_seconds = time.perf_counter() - start

# %%
# A conditional RBM for all pixels with default settings: it finds step size and penalty itself.

start = time.perf_counter()
model = ImageCRBM(n_jobs=2, random_state=0).fit(X, Y)
seconds = time.perf_counter() - start
restored = model.predict(X_test)

print(f"{'test error, % of pixels':34s}{'all':>8s}{'flipped':>9s}{'seconds':>9s}")
for name, prediction, spent in (
    ("none (the noisy image)", X_test, 0.0),
    ("independent logistic regression", rival, rival_seconds),
    ("conditional RBM, belief propagation", restored, seconds),
):
    wrong = prediction != Y_test
    share = 100 * wrong.mean(), 100 * wrong[changed].mean()
    print(f"{name:34s}{share[0]:8.2f}{share[1]:9.2f}{spent:9.1f}")
print(f"share of converged inference, last epoch: {model.convergence_curve_[-1]:.1%}")

# %%
# The picture.

WHITE, BLACK, MISSING, EXTRA = (1, 1, 1), (0.1, 0.1, 0.1), (1, 0.55, 0.5), (0.8, 0, 0)


def colours(image, truth):
    """Return the colours (8, 8, 3) of an image with wrong pixels in red."""
    right = np.where(truth[..., None] == 1, BLACK, WHITE)
    wrong = np.where(image[..., None] == 1, EXTRA, MISSING)
    return np.where((image == truth)[..., None], right, wrong)


rows = {
    "clean": Y_test,
    "noisy": X_test,
    "logistic regression": rival,
    "conditional RBM": restored,
}
figure, axes = plt.subplots(len(rows), 8, figsize=(6.4, 2.9), layout="constrained")
for axis_row, (title, images) in zip(axes, rows.items()):
    for axis, image, truth in zip(axis_row, images, Y_test):
        axis.imshow(colours(image, truth))
        axis.set(xticks=[], yticks=[])
    wrong = f"\n{100 * (images != Y_test).mean():.1f}% wrong" if images is not Y_test else ""
    axis_row[0].set_ylabel(title + wrong, rotation=0, ha="right", va="center", fontsize=10)
path = Path(sys.argv[0]).resolve().parents[1] / "output" / "denoise_digits.png"
path.parent.mkdir(exist_ok=True)
figure.savefig(path, dpi=220)
print(f"picture: {path}")
