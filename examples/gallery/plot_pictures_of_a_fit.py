"""
Pictures of a fit
=================

This program answers five questions about a fitted joint model by displays: Has the training
converged? Are its probabilities reliable? Which labels occur together? Which labels are predicted
in place of others? Which label sets are probable for a row? The data are generated, so that no
download is needed.
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd

from skcrbm import CRBMClassifier
from skcrbm.datasets import make_structured_labels
from skcrbm.inspection import (
    CooccurrenceDisplay,
    LabelConfusionDisplay,
    LabelSetsDisplay,
    ReliabilityDisplay,
    TrainingCurveDisplay,
)
from skcrbm.model_selection import multilabel_train_test_split

X, Y = make_structured_labels(1500, n_labels=5, structure="groups", random_state=0)
Y = pd.DataFrame(Y, columns=["sun", "snow", "beach", "town", "people"])
X, X_test, Y, Y_test = multilabel_train_test_split(X, Y, random_state=0)
model = CRBMClassifier(random_state=0).fit(X, Y)

# %%
# The loss of L-BFGS has levelled off: more iterations would not change the model.

figure, axes = plt.subplots(2, 4, figsize=(20, 9), layout="constrained")
TrainingCurveDisplay.from_estimator(model, ax=axes[0, 0])
axes[0, 0].set_title("training")

# %%
# Reliability of all labels together, of each label, and of whole label sets. The curves of reliable
# probabilities lie on the diagonal.

ReliabilityDisplay.from_estimator(model, X_test, Y_test, ax=axes[0, 1])
axes[0, 1].set_title("reliability, labels")
display = ReliabilityDisplay.from_estimator(
    model, X_test, Y_test, labels="each", n_bins=5, ax=axes[0, 2]
)
axes[0, 2].set_title("reliability, each label")
display = ReliabilityDisplay.from_estimator(
    model, X_test, Y_test, labels="sets", n_bins=5, ax=axes[1, 0]
)
axes[1, 0].set_title("reliability, label sets")
print("| probability of the set | share right | rows |\n|---|---|---|")
for probability, share, count in zip(display.probability[0], display.share[0], display.count[0]):
    print(f"| {probability:.2f} | {share:.2f} | {count} |")

# %%
# Labels that occur together; labels that are found (diagonal) or replaced by others; and the most
# probable label sets of a row.

CooccurrenceDisplay.from_labels(Y, ax=axes[1, 1])
axes[1, 1].set_title("labels that occur together")
LabelConfusionDisplay.from_estimator(model, X_test, Y_test, ax=axes[1, 2])
axes[1, 2].set_title("labels found, and labels in their place")
LabelSetsDisplay.from_estimator(model, X_test, row=4, ax=axes[1, 3])
axes[1, 3].set_title("label sets of a row")
axes[0, 3].remove()
path = Path(sys.argv[0]).resolve().parents[1] / "output" / "pictures_of_a_fit.png"
path.parent.mkdir(exist_ok=True)
figure.savefig(path, dpi=80)
print(f"picture: {path}")
