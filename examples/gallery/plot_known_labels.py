"""
What known labels tell about the others
=======================================

Yeast, with none to three quarters of a test row's labels given (`y_known`). A joint model
predicts the others given those that are known; the same model without hidden units, one logistic
regression per label, cannot learn from them. The picture shows the log loss of the unknown labels
against the share of labels that are known, and the correlations of the labels of one test row
before and after two of its labels are known. Takes Yeast from `SKCRBM_DATA`, or downloads it.
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import MaxNLocator
from sklearn.preprocessing import StandardScaler

from skcrbm import CRBMClassifier
from skcrbm.datasets import load_yeast
from skcrbm.metrics import masked_score

SHARES = (0.0, 0.25, 0.5, 0.75)

X, X_test, Y, Y_test = load_yeast(return_X_y=True)
scaler = StandardScaler().fit(X)
X, X_test = scaler.transform(X), scaler.transform(X_test)
models = {
    "CRBM": CRBMClassifier(n_hidden=8, random_state=0).fit(X, Y),
    "without hidden units": CRBMClassifier(n_hidden=0, random_state=0).fit(X, Y),
}

# %%
# The labels that are not given.

losses = {name: [] for name in models}
print("| model | labels known | accuracy on the rest | log loss on the rest |")
print("|---|---|---|---|")
for name, model in models.items():
    for share in SHARES:
        given = np.random.RandomState(0).random_sample(Y_test.shape) < share
        proba = model.predict_proba(X_test, y_known=np.where(given, Y_test, np.nan))
        rest = np.where(given, np.nan, Y_test)
        accuracy = 1 + masked_score("neg_hamming_loss", rest, y_pred=(proba >= 0.5).astype(int))
        losses[name].append(-masked_score("neg_log_loss", rest, y_score=proba))
        print(f"| {name} | {share:.0%} | {accuracy:.3f} | {losses[name][-1]:.3f} |")

# %%
# One row, before and after its first two labels are known.


def correlations(known):
    """Correlations of the labels of the first test row, 0 for those that are certain."""
    pairs = models["CRBM"].predict_pairwise_proba(X_test[:1], y_known=known)[0]
    mean = np.diagonal(pairs)
    scale = np.sqrt(mean * (1 - mean))
    scale = np.outer(scale, scale)
    covariance = pairs - np.outer(mean, mean)
    np.fill_diagonal(covariance, 0)
    return np.divide(covariance, scale, out=np.zeros_like(scale), where=scale > 1e-6)


two_known = np.full((1, Y.shape[1]), np.nan)
two_known[0, :2] = Y_test[0, :2]

figure, axes = plt.subplots(1, 3, figsize=(12, 3.6), layout="constrained")
for name, values in losses.items():
    axes[0].plot(SHARES, values, marker="o", label=name)
axes[0].set(xlabel="share of labels known", ylabel="log loss of the others")
axes[0].legend(frameon=False)
for axis, known, title in ((axes[1], None, "nothing known"), (axes[2], two_known, "two known")):
    image = axis.imshow(correlations(known), cmap="RdBu_r", vmin=-1, vmax=1)
    axis.set(title=f"label correlations, {title}", xlabel="label", ylabel="label")
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    axis.yaxis.set_major_locator(MaxNLocator(integer=True))
figure.colorbar(image, ax=axes[1:])
path = Path(sys.argv[0]).resolve().parents[1] / "output" / "known_labels.png"
path.parent.mkdir(exist_ok=True)
figure.savefig(path, dpi=110)
print(f"picture: {path}")
