"""
Which labels occur together
===========================

How do Yeast's labels depend on each other, given the inputs? A large margin Boltzmann machine has a
weight for each pair. In a conditional RBM labels depend on each other through the hidden units, and
the picture shows the equivalent weight, averaged over 300 test rows. Both are a quarter of the log
odds-ratio of two labels, given the inputs and the other labels. The third panel ignores inputs and
other labels: it shows the same quantity for the counts of the training labels, with half a row
added to each count. All panels use the order of the left panel, and each panel has its own colour
scale. The program takes Yeast from `SKCRBM_DATA`, or downloads it.
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skcrbm import CRBMClassifier, LMBMClassifier
from skcrbm.datasets import load_yeast
from skcrbm.inspection import LabelDependencyDisplay

data = load_yeast()
X, Y, names = data.X_train, data.y_train, list(data.label_names)

# %%
# Two models; C and eta of the large margin machine are close to its published scores.

crbm = make_pipeline(StandardScaler(), CRBMClassifier(random_state=0)).fit(X, Y)
lmbm = LMBMClassifier(C=1.0, pairwise_penalty=1e4, tol=1e-3, random_state=0).fit(X, Y)
display = LabelDependencyDisplay.from_estimator(crbm[-1], crbm[:-1].transform(data.X_test[:300]))
plt.close(display.figure_)

# %%
# The labels alone.

on, off = Y.astype(float), 1.0 - Y
both, neither, one = on.T @ on + 0.5, off.T @ off + 0.5, on.T @ off + 0.5
alone = (np.log(both) + np.log(neither) - np.log(one) - np.log(one.T)) / 4
np.fill_diagonal(alone, 0)

# %%
# The strongest pairs, and the picture.

panels = {
    "conditional RBM": display.dependency,
    "large margin": lmbm.pairwise_coef_,
    "labels alone": alone,
}
print("| labels | " + " | ".join(panels) + " |\n" + "|---" * 4 + "|")
i, k = np.triu_indices(len(names), 1)
for pair in np.argsort(-np.abs(display.dependency[i, k]))[:8]:
    a, b = i[pair], k[pair]
    weights = " | ".join(f"{panel[a, b]:+.2f}" for panel in panels.values())
    print(f"| {names[a]}, {names[b]} | {weights} |")

order = display.order_
side = 2.6 + 0.2 * len(names)
figure, axes = plt.subplots(1, 3, figsize=(3 * side, 0.84 * side), layout="constrained")
for axis, (title, panel) in zip(axes, panels.items()):
    ordered = LabelDependencyDisplay(
        panel[np.ix_(order, order)], label_names=[names[label] for label in order]
    )
    ordered.plot(ax=axis, order=None)
    axis.set_title(title)
path = Path(sys.argv[0]).resolve().parents[1] / "output" / "label_dependency_yeast.png"
path.parent.mkdir(exist_ok=True)
figure.savefig(path, dpi=100)
print(f"picture: {path}")
