"""
Draw what a chain has learned
=============================

The weather of each day is observed only by a noisy thermometer and a noisy barometer. From labelled
months, `ChainCRF` learns how the instruments depend on the weather, and which weather follows which
weather. The picture shows the learned weights of the transitions beside the true log-probabilities,
and the probabilities of one month. The program needs no download and takes some seconds.
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from skcrbm import ChainCRF

WEATHER = np.array(["fog", "rain", "sun"])
NEXT = np.array([[0.7, 0.2, 0.1], [0.1, 0.7, 0.2], [0.15, 0.05, 0.8]])
SHOWN = np.array([[8.0, 1.0], [12.0, 0.0], [18.0, 2.0]])  # mean temperature and pressure
NOISE = np.array([5.0, 1.0])

# %%
# Months of 30 days.


def month(rng):
    """Return the readings (30, 2) of a month and the weather of each day."""
    days = [rng.integers(3)]
    for _ in range(29):
        days.append(rng.choice(3, p=NEXT[days[-1]]))
    return (SHOWN[days] + NOISE * rng.normal(size=(30, 2))) / SHOWN.max(axis=0), WEATHER[days]


rng = np.random.default_rng(0)
X, y = map(list, zip(*(month(rng) for _ in range(160))))
model = ChainCRF().fit(X[:120], y[:120])
print(f"{100 * model.score(X[120:], y[120:]):.1f} % of the days right")

# %%
# Scores of single states can absorb constants that are added to a row or column of the weights, so
# subtract the means of rows and columns from both matrices before comparing them.


def centred(weights):
    """Subtract the mean of each row, then of each column."""
    weights = weights - weights.mean(axis=1, keepdims=True)
    return weights - weights.mean(axis=0)


figure, axes = plt.subplots(
    1, 3, figsize=(12.5, 3.2), width_ratios=(1, 1, 2.2), layout="constrained"
)
for axis, title, weights in (
    (axes[0], "learned transitions", model.transition_),
    (axes[1], "true transitions", np.log(NEXT)),
):
    weights = centred(weights)
    axis.imshow(weights, cmap="RdBu", vmin=-1.6, vmax=1.6)
    for (i, j), value in np.ndenumerate(weights):
        axis.text(j, i, f"{value:.2f}", ha="center", va="center")
    axis.set(title=title, xlabel="next day", xticks=range(3), yticks=range(3))
    axis.set_xticklabels(WEATHER)
    axis.set_yticklabels(WEATHER)
proba = model.predict_proba(X[120:121])[0]
axes[2].stackplot(np.arange(30), proba.T, labels=WEATHER, colors=("0.7", "C0", "gold"))
truth = np.searchsorted(WEATHER, y[120])
axes[2].scatter(np.arange(30), np.full(30, 1.04), c=np.array(["0.7", "C0", "gold"])[truth], s=30)
axes[2].set(title="one month: probabilities, and the truth above", xlabel="day", xlim=(0, 29))
axes[2].legend(loc="lower right")
path = Path(sys.argv[0]).resolve().parents[1] / "output" / "transitions.png"
path.parent.mkdir(exist_ok=True)
figure.savefig(path, dpi=130)
print(f"picture: {path}")
