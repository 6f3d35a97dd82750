"""
Predict labels given known labels
=================================

A part of the labels of each Yeast test row is known (`y_known`), from no label to three quarters of
the labels. A joint model predicts the other labels given the known labels. The same model without
hidden units, which is a logistic regression per label, cannot use them. The picture shows the log
loss of the unknown labels against the share of known labels, and, for a photo of Scene, the
probability of every label before and after a single label becomes known. The program takes both
data sets from `SKCRBM_DATA`, or downloads them.
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.preprocessing import StandardScaler

from skcrbm import CRBMClassifier
from skcrbm.datasets import load_scene, load_yeast
from skcrbm.metrics import masked_score

SHARES = (0.0, 0.25, 0.5, 0.75)

X, Y = load_yeast(return_X_y=True, subset="train")
X_test, Y_test = load_yeast(return_X_y=True, subset="test")
scaler = StandardScaler().fit(X)
X, X_test = scaler.transform(X), scaler.transform(X_test)
models = {
    "CRBM": CRBMClassifier(n_hidden=8, random_state=0).fit(X, Y),
    "without hidden units": CRBMClassifier(n_hidden=0, random_state=0).fit(X, Y),
}

# %%
# The unknown labels.

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
# The photo whose two most probable labels have the closest probabilities. Is it the first label?

scene = load_scene()
names = np.array(scene.label_names)
model = CRBMClassifier(random_state=0).fit(scene.X_train, scene.y_train)
before = model.predict_proba(scene.X_test)
best = np.sort(before)[:, ::-1]
photo = np.argmin(best[:, 0] - best[:, 1])
asked = before[photo].argmax()
known = np.full((1, len(names)), np.nan)
known[0, asked] = scene.y_test[photo, asked]
after = model.predict_proba(scene.X_test[photo : photo + 1], y_known=known)[0]
told = f"told: {'' if known[0, asked] else 'not '}{names[asked]}"
for name, one, other, truth in zip(names, before[photo], after, scene.y_test[photo]):
    print(f"{name:12s} {one:.2f} -> {other:.2f}{', which is right' if truth else ''}")

# %%
# The picture.

figure, (left, right) = plt.subplots(1, 2, figsize=(9.6, 3.6), layout="constrained")
for name, values in losses.items():
    left.plot(SHARES, values, marker="o", label=name)
left.set(
    title="Yeast: labels that are not known",
    xlabel="share of labels known",
    ylabel="log loss of the others",
    xticks=SHARES,
)
left.legend(frameon=False)
place = np.arange(len(names))
right.barh(place - 0.2, before[photo], 0.38, color="0.65", label="nothing known")
right.barh(place + 0.2, after, 0.38, color="C0", label=told)
right.set(title="Scene: one photo", xlabel="probability", xlim=(0, 1), yticks=place)
right.set_yticklabels(
    [f"{name} (true)" if truth else name for name, truth in zip(names, scene.y_test[photo])]
)
right.invert_yaxis()
right.legend(frameon=False)
path = Path(sys.argv[0]).resolve().parents[1] / "output" / "known_labels.png"
path.parent.mkdir(exist_ok=True)
figure.savefig(path, dpi=160)
print(f"picture: {path}")
