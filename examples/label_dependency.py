"""Which labels go together: pairwise weights of Yeast's and Scene's labels.

Given the inputs, how do the labels still depend on each other? A large margin Boltzmann
machine has a weight for each pair; in a conditional RBM labels depend on each other through
the hidden units, and the picture shows the mean over 300 test rows of the weight that these
amount to. Both are a quarter of the log odds-ratio of two labels, given the inputs and the
other labels. Beside them, what the labels of the training rows show when neither inputs nor
other labels are taken into account: the same quantity of their counts, with half a row added
to each. The left panel's order is used in all three, and each has a colour scale of its own.
Prints the strongest pairs as Markdown tables and writes the pictures to ``examples/output``.
"""

import argparse
import time
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skcrbm import CRBMClassifier, LMBMClassifier
from skcrbm.datasets import load_scene, load_yeast
from skcrbm.inspection import LabelDependencyDisplay

# C and eta of the large margin machine, on inputs as they are: close to its published scores.
MODELS = {
    "yeast": (load_yeast, {"C": 1.0, "pairwise_penalty": 1e4}),
    "scene": (load_scene, {"C": 0.1, "pairwise_penalty": 10.0}),
}
N_ROWS = 300


def quarter_log_odds_ratio(Y):
    """Of each pair of labels, over the rows of Y (n, L)."""
    Y = Y.astype(float)
    both, neither = Y.T @ Y + 0.5, (1 - Y).T @ (1 - Y) + 0.5
    one = Y.T @ (1 - Y) + 0.5
    ratio = np.log(both) + np.log(neither) - np.log(one) - np.log(one.T)
    np.fill_diagonal(ratio, 0)
    return ratio / 4


def reorder(dependency, names, order):
    """Put the labels into a given order."""
    return dependency[np.ix_(order, order)], [names[i] for i in order]


def strongest_pairs(panels, names, n_pairs=8):
    """Print the pairs with the largest weights of the first panel, as Markdown."""
    first = next(iter(panels.values()))
    i, k = np.triu_indices(len(first), 1)
    top = np.argsort(-np.abs(first[i, k]))[:n_pairs]
    print("| labels | " + " | ".join(panels) + " |")
    print("|---" * (1 + len(panels)) + "|")
    for a, b in zip(i[top], k[top]):
        weights = " | ".join(f"{m[a, b]:+.2f}" for m in panels.values())
        print(f"| {names[a]}, {names[b]} | {weights} |")


def main():
    """Fit, print and plot."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", nargs="*", default=list(MODELS), help="yeast, scene")
    output = Path(__file__).parent / "output"
    output.mkdir(exist_ok=True)
    for name in parser.parse_args().data:
        loader, options = MODELS[name]
        data = loader()
        start = time.perf_counter()
        lmbm = LMBMClassifier(tol=1e-3, random_state=0, **options).fit(data.X_train, data.y_train)
        lmbm_time = time.perf_counter() - start
        crbm = make_pipeline(StandardScaler(), CRBMClassifier(random_state=0))
        start = time.perf_counter()
        crbm.fit(data.X_train, data.y_train)
        print(f"\n## {name}: LMBM fitted in {lmbm_time:.1f} s", end=", ")
        print(f"CRBM in {time.perf_counter() - start:.1f} s\n")

        X = crbm[:-1].transform(data.X_test[:N_ROWS])
        names = list(data.label_names)
        display = LabelDependencyDisplay.from_estimator(crbm[-1], X)
        panels = {
            "conditional RBM": display.dependency,
            "large margin": lmbm.pairwise_coef_,
            "labels alone": quarter_log_odds_ratio(data.y_train),
        }
        strongest_pairs(panels, names)
        plt.close(display.figure_)
        side = 2.6 + 0.2 * len(names)
        figure, axes = plt.subplots(1, 3, figsize=(3 * side, 0.84 * side), layout="constrained")
        for ax, (title, dependency) in zip(axes, panels.items()):
            ordered, ticks = reorder(dependency, names, display.order_)
            LabelDependencyDisplay(ordered, label_names=ticks).plot(ax=ax, order=None)
            ax.set_title(title)
        figure.savefig(output / f"label_dependency_{name}.png", dpi=100)


if __name__ == "__main__":
    main()
