"""
Segment an image, and draw where the model is unsure
====================================================

The data are noisy maps of three kinds of ground: land, forest and water. The maps have different
sizes. `GridCRF` learns from 20 maps how a kind of ground looks, and that neighbours tend to agree.
The picture shows a new map: its colours, the classes of single pixels, the classes of `GridCRF`,
and the probability that a pixel has another class. Only few pixels away from borders are uncertain.
The program needs no download and takes some seconds.
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import ListedColormap
from scipy.ndimage import gaussian_filter

from skcrbm import GridCRF

CLASSES = np.array(["forest", "land", "water"])  # in the order of `classes_`
COLOURS = np.array([[0.2, 0.45, 0.25], [0.75, 0.7, 0.45], [0.25, 0.4, 0.7]])
NOISE = 0.35

# %%
# Maps of different sizes: the largest of three smooth fields decides the class of a pixel.


def make_map(rng):
    """Return a noisy colour image and the class of each pixel."""
    height, width = rng.integers(70, 120, 2)
    fields = [gaussian_filter(rng.normal(size=(height, width)), 7) for _ in CLASSES]
    kind = np.argmax(fields, axis=0)
    return COLOURS[kind] + NOISE * rng.normal(size=(height, width, 3)), CLASSES[kind]


rng = np.random.default_rng(0)
X, y = map(list, zip(*(make_map(rng) for _ in range(25))))

# %%
# A model of single pixels, and a model with windows and neighbours.

alone = GridCRF(window=1, pair_window=1).fit(X[:20], y[:20])
model = GridCRF().fit(X[:20], y[:20])
for name, found in (("single pixels", alone), ("GridCRF", model)):
    print(f"{name:14s} {100 * (1 - found.score(X[20:], y[20:])):5.1f} % of the pixels wrong")

# %%
# The picture of a new map.

image, truth = X[20], y[20]
uncertain = 1 - model.predict_proba([image])[0].max(axis=2)
panels = {
    "colours": np.clip(image, 0, 1),
    "true classes": truth,
    "single pixels": alone.predict([image])[0],
    "GridCRF": model.predict([image])[0],
}
figure, axes = plt.subplots(1, 5, figsize=(13, 3.1), layout="constrained")
for axis, (title, shown) in zip(axes, panels.items()):
    if shown.ndim == 2:
        codes = np.searchsorted(CLASSES, shown)
        axis.imshow(codes, cmap=ListedColormap(COLOURS), vmin=0, vmax=2)
    else:
        axis.imshow(shown)
    axis.set_title(title)
drawn = axes[-1].imshow(uncertain, cmap="magma", vmin=0, vmax=2 / 3)
axes[-1].set_title("probability of another class")
figure.colorbar(drawn, ax=axes[-1], shrink=0.8)
for axis in axes:
    axis.set(xticks=[], yticks=[])
path = Path(sys.argv[0]).resolve().parents[1] / "output" / "segment_image.png"
path.parent.mkdir(exist_ok=True)
figure.savefig(path, dpi=130)
print(f"picture: {path}")
