"""Each inference method compared with enumeration.

The models are random RBMs of 10 + 8 units with weak to strong couplings. The program measures the
error of the marginals, the error of log Z and the share of converged models, for every method that
gives marginals except Gibbs with gradients, which takes seconds per model. Prints a Markdown table
and writes ``examples/output/inference_accuracy.png``.

    python -m examples.studies.inference_accuracy
"""

import argparse

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from examples._harness import OUTPUT
from skcrbm.energies import RBMEnergy
from skcrbm.inference import available_methods, infer

SCALES = (0.25, 0.5, 1.0, 2.0, 3.0, 5.0)
LEFT_OUT = ("exact", "gibbs_with_gradients")


def random_models(scale, n_models):
    """Draw RBMs of 10 + 8 units with weights N(0, scale^2) and biases N(0, 1)."""
    rng = np.random.default_rng(0)
    return [
        RBMEnergy(scale * rng.normal(size=(10, 8)), rng.normal(size=10), rng.normal(size=8))
        for _ in range(n_models)
    ]


def compare(method, scale, n_models):
    """Return mean error of marginals, mean error of log Z, and share of converged models."""
    returns = ("marginals", "log_partition")
    if method not in available_methods(returns=returns):
        returns = ("marginals",)
    marginals, log_z, converged = [], [], []
    for energy in random_models(scale, n_models):
        exact = infer(energy, "exact", returns=("marginals", "log_partition"))
        options = (
            {"random_state": 0} if method.startswith("gibbs") else {"max_iter": 100, "tol": 1e-4}
        )
        result = infer(energy, method, returns=returns, **options)
        marginals.append(np.abs(result.marginals - exact.marginals).mean())
        converged.append(result.converged[0])
        if result.log_partition is not None:
            log_z.append(result.log_partition[0] - exact.log_partition[0])
    return np.mean(marginals), np.mean(log_z) if log_z else np.nan, np.mean(converged)


def main():
    """Compare, print and plot."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=int, default=40, help="for each point")
    n_models = parser.parse_args().models
    methods = [m for m in available_methods(returns=("marginals",)) if m not in LEFT_OUT]
    table = {m: np.array([compare(m, s, n_models) for s in SCALES]) for m in methods}
    print("| method | std of W | error of marginals | log Z minus exact | converged |")
    print("|---|---|---|---|---|")
    for method, rows in table.items():
        for scale, (error, log_z, converged) in zip(SCALES, rows, strict=True):
            shown = "" if np.isnan(log_z) else f"{log_z:+.3f}"
            print(f"| {method} | {scale} | {error:.4f} | {shown} | {converged:.2f} |")

    figure, axes = plt.subplots(1, 3, figsize=(11, 3.4), layout="constrained")
    titles = ("error of marginals", "log Z minus exact", "share of converged models")
    for k, (ax, title) in enumerate(zip(axes, titles, strict=True)):
        for method, rows in table.items():
            ax.plot(SCALES, rows[:, k], "o-", ms=3.5, label=method)
        ax.set(title=title, xlabel="standard deviation of the weights")
        ax.grid(alpha=0.3)
    axes[0].set_yscale("log")
    axes[1].axhline(0, color="k", lw=0.8)
    axes[1].set_yscale("symlog", linthresh=0.1)
    axes[2].set_ylim(-0.02, 1.05)
    axes[0].legend(fontsize=8)
    path = OUTPUT / "inference_accuracy.png"
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, dpi=110)
    print(f"\n{path}")


if __name__ == "__main__":
    main()
