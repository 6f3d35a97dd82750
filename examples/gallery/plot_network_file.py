"""
Read a network file, condition on evidence, and draw the marginals
==================================================================

Files of the UAI inference competitions hold Bayesian networks and Markov random fields as text. The
network of this example is small: a burglar or an earthquake may set off an alarm, neighbours may
call, and the radio may report an earthquake. The picture shows the probability of each event, first
without evidence, then after a call of the neighbours, and then after the radio has reported an
earthquake, which explains the call. The program needs no download and takes a few seconds.
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from skcrbm.energies import FactorGraphEnergy
from skcrbm.inference import infer
from skcrbm.inspection import GraphDisplay

NETWORK = """
BAYES
5
2 2 2 2 2
5
1 0
1 1
3 0 1 2
2 2 3
2 1 4

2  0.98 0.02
2  0.97 0.03
8  0.999 0.001  0.7 0.3  0.06 0.94  0.05 0.95
4  0.95 0.05  0.2 0.8
4  0.998 0.002  0.1 0.9
"""
EVENTS = ["burglary", "earthquake", "alarm", "call", "radio"]
PLACES = [[0, 2], [2, 2], [1, 1], [1, 0], [2.4, 1]]

# %%
# `from_uai` reads the text, or a path. The energy answers all questions of `infer`.

energy = FactorGraphEnergy.from_uai(NETWORK)
CALL, RADIO = EVENTS.index("call"), EVENTS.index("radio")
questions = {"no evidence": {}, "a call": {CALL: 1}, "a call, and the radio": {CALL: 1, RADIO: 1}}
figure, axes = plt.subplots(1, 3, figsize=(12, 4), layout="constrained")
for axis, (title, evidence) in zip(axes, questions.items()):
    clamp = np.full((1, 5), np.nan)
    for variable, value in evidence.items():
        clamp[0, variable] = value
    result = infer(energy, "exact", clamp=clamp, returns=("marginals", "map"))
    print(f"{title}:\n{result.to_frame(labels=EVENTS).round(3)}\n")
    labels = [f"{name}\n{p:.3f}" for name, p in zip(EVENTS, result.marginals[0])]
    display = GraphDisplay.from_energy(energy, result, labels=labels, positions=PLACES, ax=axis)
    axis.set(title=title, ylim=(-0.1, 1.1))

# %%
# The picture.

path = Path(sys.argv[0]).resolve().parents[1] / "output" / "network_file.png"
path.parent.mkdir(exist_ok=True)
figure.savefig(path, dpi=120)
print(f"picture: {path}")
