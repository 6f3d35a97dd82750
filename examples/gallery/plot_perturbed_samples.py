"""
Samples by perturb-and-max-product
==================================

An RBM learns digits of 8 x 8 pixels from samples that are maxima of its perturbed energy. The
picture shows four rows of images: digits; samples by the sampler that was used in training; samples
of the Gibbs distribution with the same parameters, which were not learned for it; and independent
pixels with the means of the data ("coins"). The program needs no download and takes half a minute.
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from skcrbm.density import RBM
from skcrbm.inference import PerturbAndMaxProduct, sample
from skcrbm.learning import Adam, PMPLearning
from skcrbm.metrics import covariance_error, log_mmd

# %%
# Learn, and draw as many samples as there are digits. A sample takes the same number of sweeps in
# training and afterwards.

digits = (load_digits().data > 7.5).astype(np.float32)
sampler = PerturbAndMaxProduct(max_iter=25)
model = RBM(
    64,
    learning=PMPLearning(sampler),
    solver=Adam(learning_rate=0.01),
    max_iter=40,
    random_state=0,
).fit(digits)
rng = np.random.default_rng(0)
gibbs = sample(model.energy_, "gibbs", n_samples=len(digits), n_chains=len(digits), random_state=0)
rows = {
    "digits": digits,
    "perturb-and-max-product": model.sample(len(digits), random_state=0),
    "the same weights, Gibbs": gibbs[0, :, :64],
    "coins with the same means": (rng.random(digits.shape) < digits.mean(axis=0)) * 1,
}

# %%
# Scores that compare samples with the digits; lower is better. At a bandwidth of 1 even the coins
# have a good score, so look at the other two scores.

titles = {}
for name, states in rows.items():
    if states is digits:
        titles[name] = name
        continue
    wide, narrow = (log_mmd(digits, states, bandwidth=width) for width in (1, 0.05))
    error = covariance_error(digits, states)
    titles[name] = f"{name}: log MMD {wide:.1f}, at 0.05 {narrow:.1f}, covariance error {error:.2f}"
    print(titles[name])

# %%
# The picture: the first 14 images of each.

figure, axes = plt.subplots(len(rows), 1, figsize=(7, 3.4), layout="constrained")
for axis, (name, states) in zip(axes, rows.items()):
    images = np.pad(states[:14].reshape(14, 8, 8), ((0, 0), (0, 0), (1, 1)))
    axis.imshow(np.hstack(images), cmap="gray_r", vmin=0, vmax=1)
    axis.set_title(titles[name], fontsize=9, loc="left")
    axis.axis("off")
path = Path(sys.argv[0]).resolve().parents[1] / "output" / "perturbed_samples.png"
path.parent.mkdir(exist_ok=True)
figure.savefig(path, dpi=110)
