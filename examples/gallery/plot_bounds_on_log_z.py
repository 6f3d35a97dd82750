"""
Bounds on log Z
===============

Mean field gives a lower bound of the log-partition function of an RBM, and tree-reweighted belief
propagation gives an upper bound. The value of plain belief propagation is often, but not always,
between the bounds. The picture shows all three values minus the exact value, for random RBMs of 10
+ 8 units with weak to strong weights: the median and the range of 20 models. The program needs no
download and takes a few seconds.
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from skcrbm.energies import RBMEnergy
from skcrbm.inference import infer

SCALES = (0.1, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0)
METHODS = {"tree_reweighted": "C3", "sum_product": "C2", "mean_field": "C0"}


def log_partition(energy, method):
    """Return log Z of a model."""
    options = {} if method == "exact" else {"max_iter": 500, "tol": 1e-5}
    return infer(energy, method, returns="log_partition", **options).log_partition[0]


# %%
# Random models, and the error of each method.

rng = np.random.default_rng(0)
errors = {method: [] for method in METHODS}
for scale in SCALES:
    models = [
        RBMEnergy(scale * rng.normal(size=(10, 8)), rng.normal(size=10), rng.normal(size=8))
        for _ in range(20)
    ]
    exact = np.array([log_partition(energy, "exact") for energy in models])
    for method in METHODS:
        found = np.array([log_partition(energy, method) for energy in models])
        errors[method].append(found - exact)
        low, middle, high = np.percentile(errors[method][-1], [0, 50, 100])
        print(f"std {scale:4}, {method:15s}: {middle:+8.3f}, from {low:+8.3f} to {high:+8.3f}")

# %%
# The picture.

figure, axis = plt.subplots(figsize=(6.4, 4), layout="constrained")
for method, color in METHODS.items():
    low, middle, high = np.percentile(errors[method], [0, 50, 100], axis=1)
    axis.fill_between(SCALES, low, high, color=color, alpha=0.2, lw=0)
    axis.plot(SCALES, middle, "o-", color=color, ms=4, label=method)
axis.axhline(0, color="k", lw=0.8)
axis.set_yscale("symlog", linthresh=0.1)
axis.set(xlabel="standard deviation of the weights", ylabel="log Z minus the exact value")
axis.legend(frameon=False, ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1))
path = Path(sys.argv[0]).resolve().parents[1] / "output" / "bounds_on_log_z.png"
path.parent.mkdir(exist_ok=True)
figure.savefig(path, dpi=110)
print(f"picture: {path}")
