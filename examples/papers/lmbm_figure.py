"""Figure 2 of Miao and Rao (2009): the dependencies between labels that LMBMr finds.

Draws the absolute values of the pair weights of Scene, Yeast and a sample of 2000 rows of Mediamill
(the rows with a label among the first 10 and the first 50; the paper has the whole set). Labels are
in the order of the files, as in the paper. Rows, C and eta are the same as in `lmbm_tables.py`.

    python -m examples.papers.lmbm_figure
"""

import argparse
from pathlib import Path

import matplotlib
import numpy as np

from examples._harness import OUTPUT
from examples.papers.lmbm_tables import first_labels
from skcrbm import LMBMClassifier
from skcrbm.datasets import load_scene, load_yeast

matplotlib.use("Agg")
import matplotlib.pyplot as plt


def panels():
    """Yield a title, the training data and the settings of each panel."""
    scene, yeast = load_scene(), load_yeast()
    yield "Scene", scene.X_train, scene.y_train, {"C": 0.1, "pairwise_penalty": 10}
    yield "Yeast", yeast.X_train, yeast.y_train, {"C": 10, "pairwise_penalty": 1e5}
    for n_labels, C, eta in ((10, 100, 1000), (50, 0.01, 5)):
        sample = first_labels(n_labels, "sample")
        settings = {"C": C, "pairwise_penalty": eta}
        title = f"Mediamill{n_labels}, sample, {len(sample.X_train)} rows"
        yield title, sample.X_train, sample.y_train, settings


def main():
    """Fit, draw, and print the strongest pairs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=OUTPUT / "lmbm_figure_2.png")
    arguments = parser.parse_args()
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    figure, axes = plt.subplots(2, 2, figsize=(9, 8), layout="constrained")
    for axis, (title, X, Y, settings) in zip(axes.flat, panels()):
        model = LMBMClassifier(**settings, tol=1e-3, max_iter=5000, random_state=0).fit(X, Y)
        weights = model.pairwise_coef_
        end = len(weights) + 0.5  # labels are counted from 1
        drawn = axis.imshow(np.abs(weights), cmap="gray_r", extent=(0.5, end, end, 0.5))
        axis.set_title(
            f"{title} (C={settings['C']:g}, eta={settings['pairwise_penalty']:g})", fontsize=10
        )
        figure.colorbar(drawn, ax=axis)
        i, k = np.triu_indices(len(weights), 1)
        strongest = np.argsort(-np.abs(weights[i, k]))[:4]
        pairs = ", ".join(f"{i[p] + 1}-{k[p] + 1} {weights[i[p], k[p]]:+.2f}" for p in strongest)
        print(f"{title}: gap {model.dual_gap_:.1e}; strongest pairs {pairs}", flush=True)
    figure.savefig(arguments.output, dpi=100)
    print(f"picture: {arguments.output}")


if __name__ == "__main__":
    main()
