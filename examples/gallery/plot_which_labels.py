"""
A distribution, three predictions
=================================

A model gives a probability to every set of labels. The set to predict depends on the cost of a
mistake: the labels with a probability above 1/2 have the fewest wrong entries on average, the most
probable set is most often right as a whole, and the set with the largest expected F1 is a
compromise. For this photo with three labels, the rules predict three different sets. The program
needs no download and takes some seconds.
"""

import itertools
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from skcrbm.decoding import decode_label_sets
from skcrbm.energies import RBMEnergy
from skcrbm.inference import infer

LABELS = ("beach", "mountain", "boats")

# %%
# A conditional RBM for a given x: the inputs have become the biases of three labels and two hidden
# units. The first hidden unit favours a mountain alone, the second favours a beach and boats.

energy = RBMEnergy(
    weights=[[-2.5, 2.0], [3.5, -1.0], [-3.0, 3.5]],
    visible_bias=[1.0, -1.0, -2.5],
    hidden_bias=[0.0, -1.0],
)
result = infer(energy, "exact", returns=("marginals", "marginal_map", "log_partition"))
marginals = result.marginals[0, :3]

# %%
# The probability of each of the eight sets, with the hidden units summed out.

sets = np.array(list(itertools.product((0, 1), repeat=3)))
log_weights = energy.rows(np.zeros(len(sets), int)).log_weight(sets)
proba = np.exp(log_weights - result.log_partition)
predictions = {
    "marginal": (marginals >= 0.5).astype(int),
    "label_set": result.assignment[0, :3],
    "expected_f1": decode_label_sets(sets, proba[None], "f1")[0],
}


def name_of(labels):
    """Write a set of labels in words."""
    return " + ".join(label for label, on in zip(LABELS, labels) if on) or "nothing"


for rule, labels in predictions.items():
    print(f'decode="{rule}": {name_of(labels)}')

# %%
# The picture.

figure, (left, right) = plt.subplots(1, 2, figsize=(9.6, 3.4), layout="constrained", sharex=True)
order = np.argsort(proba)
left.barh([name_of(labels) for labels in sets[order]], proba[order], color="C0")
for place, labels in enumerate(sets[order]):
    rules = [rule for rule, choice in predictions.items() if (choice == labels).all()]
    if rules:
        left.text(proba[order][place] + 0.01, place, rules[0], va="center", color="C3")
left.set(title="probability of each label set, and what predicts it", xlim=(0, 0.75))
right.barh(LABELS[::-1], marginals[::-1], color="C1")
right.axvline(0.5, color="k", lw=0.8, ls=":")
right.set(title="marginals")
path = Path(sys.argv[0]).resolve().parents[1] / "output" / "which_labels.png"
path.parent.mkdir(exist_ok=True)
figure.savefig(path, dpi=160)
print(f"picture: {path}")
