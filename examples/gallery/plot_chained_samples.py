"""
Samples of a lattice, variable by variable
==========================================

Chained belief propagation draws the variables of an Ising model one after the other, each from its
belief given the variables already drawn. It knows the probability with which it drew each state. So
its samples give an unbiased estimate of Z, and the effective sample size says how reliable the
estimate is. The model is a cyclic 8 x 8 lattice, for which elimination computes the exact log Z.
The picture shows a sample for several couplings, the errors of several methods, and the effective
sample size. The program needs no download and takes half a minute, mostly for compilation.
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from skcrbm.datasets import make_ising_lattice
from skcrbm.inference import estimate_log_partition, infer, sample

SIDE = 8
COUPLINGS = np.array([0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6])
SHOWN = (0.1, 0.3, 0.4, 0.6)
N_SAMPLES = 1000
METHODS = {"tree_reweighted": "C3", "sum_product": "C2", "mean_field": "C0"}

# %%
# Exact, approximate and sampled log Z.

errors = {method: [] for method in METHODS}
chained, spread, shares = [], [], []
for coupling in COUPLINGS:
    energy = make_ising_lattice((SIDE, SIDE), coupling)
    exact = infer(energy, "exact", returns="log_partition").log_partition[0]
    for method in METHODS:
        result = infer(energy, method, max_iter=500, returns="log_partition")
        errors[method].append(result.log_partition[0] - exact)
    estimate = estimate_log_partition(
        energy, method="bp_chain", n_samples=N_SAMPLES, random_state=0
    )
    chained.append(estimate.log_partition[0] - exact)
    spread.append(estimate.standard_error[0])
    shares.append(estimate.effective_sample_size[0] / N_SAMPLES)
    print(
        f"coupling {coupling:.2f}: log Z {exact:8.3f}, bp_chain {chained[-1]:+.3f} "
        f"(standard error {spread[-1]:.3f}), effective share {shares[-1]:.2f}, "
        + ", ".join(f"{method} {errors[method][-1]:+.3f}" for method in METHODS)
    )

# %%
# The picture.

figure = plt.figure(figsize=(9, 5.4), layout="constrained")
images, curves = figure.subfigures(2, 1, height_ratios=(1, 2))
for axis, coupling in zip(images.subplots(1, len(SHOWN)), SHOWN):
    energy = make_ising_lattice((SIDE, SIDE), coupling)
    state = sample(energy, "bp_chain", random_state=1)[0, 0]
    axis.imshow(state.reshape(SIDE, SIDE), cmap="gray", vmin=0, vmax=1)
    axis.set(title=f"coupling {coupling}", xticks=[], yticks=[])
left, right = curves.subplots(1, 2)
for method, color in METHODS.items():
    left.plot(COUPLINGS, errors[method], "o-", color=color, ms=4, label=method)
left.errorbar(
    COUPLINGS,
    chained,
    2 * np.array(spread),
    fmt="o-",
    color="C4",
    ms=4,
    capsize=3,
    label="bp_chain",
)
left.axhline(0, color="k", lw=0.8)
left.set_yscale("symlog", linthresh=0.1)
left.set(xlabel="coupling", ylabel="log Z minus the exact value", ylim=(-60, 200))
left.legend(frameon=False, ncols=2, loc="upper left")
right.plot(COUPLINGS, shares, "o-", color="C4", ms=4)
right.set(xlabel="coupling", ylabel="effective share of samples", ylim=(0, 1.02))
path = Path(sys.argv[0]).resolve().parents[1] / "output" / "chained_samples.png"
path.parent.mkdir(exist_ok=True)
figure.savefig(path, dpi=110)
print(f"picture: {path}")
