"""
Fill in pixels that were not observed
=====================================

A layered graphical model classifies the digits that ship with scikit-learn (8 x 8) from half of
their pixels, in training and in prediction. Pixels that are not observed are nodes of the model, so
inference also computes their beliefs. The picture has a row for the original, the observed and the
filled-in pixels. The program needs no download and takes a few seconds.
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from skcrbm import LayeredGMClassifier
from skcrbm.layers import Dense
from skcrbm.learning import Backpropagation

digits = load_digits()
X, X_test, y, y_test = train_test_split(
    (digits.data / 16).astype(np.float32), digits.target, test_size=300, random_state=0
)
rng = np.random.RandomState(0)


def hide(pixels):
    """Replace half of the pixels by NaN."""
    return np.where(rng.random_sample(pixels.shape) < 0.5, np.float32(np.nan), pixels)


seen = hide(X_test)
model = LayeredGMClassifier(
    layers=(Dense(60),),
    learning=Backpropagation(label_smoothing=0.1),
    max_iter=20,
    early_stopping=False,
    random_state=0,
).fit(hide(X), y)
filled = model.impute(seen)

# %%
# The accuracy, and the error of the filled-in pixels.

missing = np.isnan(seen)
mean = np.broadcast_to(X.mean(axis=0), X_test.shape)
print(f"accuracy from half of the pixels: {model.score(seen, y_test):.3f}")
for name, guess in (("mean of the pixel", mean), ("belief", filled)):
    error = np.sqrt(np.mean((guess - X_test)[missing] ** 2))
    print(f"error of the pixels not observed, {name}: {error:.3f}")

# %%
# The picture.

colors = plt.get_cmap("gray_r").copy()
colors.set_bad("#9ecae1")  # not observed
rows = {"original": X_test, "seen": seen, "filled in": filled}
figure, axes = plt.subplots(len(rows), 12, figsize=(9.6, 2.85))
for axis_row, (title, images) in zip(axes, rows.items()):
    for axis, image in zip(axis_row, images):
        axis.imshow(np.ma.masked_invalid(image.reshape(8, 8)), cmap=colors, vmin=0, vmax=1)
        axis.set_xticks([])
        axis.set_yticks([])
    axis_row[0].set_ylabel(title, fontsize=9)
figure.tight_layout(pad=0.3)
path = Path(sys.argv[0]).resolve().parents[1] / "output" / "fill_in_digits.png"
path.parent.mkdir(exist_ok=True)
figure.savefig(path, dpi=110)
print(f"picture: {path}")
