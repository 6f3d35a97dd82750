"""Forests as inputs of a conditional RBM: structured calibration on top of strong classifiers.

The data are Scene and Yeast with their published splits. The three forests of
`skcrbm.ensemble.make_stacked` (extra trees on the labels and on the label sets, a random forest on
the labels) turn X into log-odds of every label, out-of-bag for the training rows. The CRBM learns
from these log-odds how far to trust each forest and which labels occur together. The comparison
includes the CRBM on X itself and on Nystroem features and, as a control, the mean of the forests'
probabilities without a model on top. Each metric has its own decoder, the same for all rows:
Hamming loss by marginals, subset accuracy over the label sets seen in training, Jaccard and
micro-F1 by the largest expected Jaccard, F1 by the largest expected F1. Prints Markdown tables and
draws reliability curves of the marginals.

    python -m examples.studies.stacking
"""

import argparse
import time
from pathlib import Path

import matplotlib
import numpy as np
from scipy.special import expit, logit, softmax
from sklearn.calibration import calibration_curve
from sklearn.kernel_approximation import Nystroem
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import StandardScaler

from examples._harness import OUTPUT
from skcrbm import CRBMClassifier
from skcrbm.datasets import load_scene, load_yeast
from skcrbm.decoding import apply_thresholds, decode_label_sets
from skcrbm.ensemble import make_stacked
from skcrbm.metrics import masked_score

matplotlib.use("Agg")
import matplotlib.pyplot as plt

# Title: score, its sign, and its decoder.
METRICS = {
    "Hamming": ("neg_hamming_loss", -1, "marginal"),
    "subset": ("accuracy", 1, "label_set"),
    "Jaccard": ("jaccard_samples", 1, "expected_jaccard"),
    "F1": ("f1_samples", 1, "expected_f1"),
    "micro-F1": ("f1_micro", 1, "expected_jaccard"),
}


def forests(n_trees, n_jobs, seed):
    """Return out-of-bag log-odds of the three forests of `make_stacked`."""
    return make_stacked(n_estimators=n_trees, n_jobs=n_jobs, random_state=seed)[0]


def nystroem(n_features, seed):
    """Return standardised Nystroem features of an rbf kernel."""
    kernel = Nystroem(gamma=1 / n_features, n_components=500, random_state=seed)
    return make_pipeline(StandardScaler(), kernel, StandardScaler())


def scores_of(Y, labels_by, p):
    """Return all scores; `labels_by` gives the labels of a decoder."""
    scores = [
        sign * masked_score(name, Y, y_pred=labels_by(decoder))
        for name, sign, decoder in METRICS.values()
    ]
    return [*scores, -masked_score("neg_log_loss", Y, y_score=p)]


def score_model(features, X, X_test, Y, Y_test, seed):
    """Return scores, processor seconds and marginals of a CRBM on these features."""
    start = time.process_time()
    inputs = features.fit_transform(X, Y)
    model = CRBMClassifier(random_state=seed).fit(inputs, Y)
    seconds = time.process_time() - start
    test = features.transform(X_test)
    p = model.predict_proba(test)
    scores = scores_of(Y_test, lambda name: model.set_params(decode=name).predict(test), p)
    return [*scores, seconds], p


def score_forests(features, X, X_test, Y, Y_test):
    """Return the same for the control, the mean probabilities of the forests.

    The control treats the labels as independent with these probabilities, and uses the same
    decoding rules over the same label sets.
    """
    start = time.process_time()
    features.fit(X, Y)
    seconds = time.process_time() - start
    log_odds = features.transform(X_test).reshape(len(X_test), -1, Y.shape[1])
    p = expit(log_odds).mean(axis=1)
    sets = np.unique(Y, axis=0)
    weight = softmax(logit(p) @ sets.T, axis=1)
    half = np.full(p.shape[1], 0.5)
    option = {"allow_empty": not Y.any(axis=1).all()}  # as in our models
    by = {
        "marginal": lambda: apply_thresholds(p, half, **option),
        "label_set": lambda: sets[weight.argmax(axis=1)],
        "expected_jaccard": lambda: decode_label_sets(sets, weight, "jaccard", **option),
        "expected_f1": lambda: decode_label_sets(sets, weight, "f1", **option),
    }
    return [*scores_of(Y_test, lambda name: by[name](), p), seconds], p


def main():
    """Fit everything, print the tables, draw the curves."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-home", default=None, help="folder of the .npz files")
    parser.add_argument("--trees", type=int, default=300)
    parser.add_argument("--seeds", type=int, default=1, help="fits to average")
    parser.add_argument("--n-jobs", type=int, default=1, help="threads of a forest")
    parser.add_argument("--output", type=Path, default=OUTPUT)
    parser.add_argument("--quick", action="store_true", help="every sixth row, 20 trees")
    arguments = parser.parse_args()
    step = 6 if arguments.quick else 1
    arguments.trees = 20 if arguments.quick else arguments.trees

    figure, axes = plt.subplots(1, 2, figsize=(10, 4.6), sharex=True, sharey=True)
    for axis, load in zip(axes, (load_scene, load_yeast), strict=True):
        data = load(data_home=arguments.data_home)
        X, X_test = (np.asarray(part, float) for part in (data.X_train, data.X_test))
        split = X[::step], X_test, data.y_train[::step], data.y_test
        name = load.__name__.removeprefix("load_").capitalize()
        print(f"\n{name}\n\n| inputs | " + " | ".join(METRICS) + " | log loss | fit s |")
        print("|---" * (len(METRICS) + 3) + "|")
        rows = {}
        for seed in range(arguments.seeds):
            trees = forests(arguments.trees, arguments.n_jobs, seed)
            rbf = nystroem(X.shape[1], seed)
            both = make_union(trees, rbf)
            rows.setdefault("X", []).append(score_model(StandardScaler(), *split, seed))
            rows.setdefault("Nystroem", []).append(score_model(rbf, *split, seed))
            rows.setdefault("forests, no model on top", []).append(score_forests(trees, *split))
            rows.setdefault("forests", []).append(score_model(trees, *split, seed))
            rows.setdefault("forests and Nystroem", []).append(score_model(both, *split, seed))
        for inputs, results in rows.items():
            scores = np.mean([scores for scores, _ in results], axis=0)
            cells = [f"{value:.3f}" for value in scores[:-1]] + [f"{scores[-1]:.1f}"]
            print(f"| {inputs} | " + " | ".join(cells) + " |", flush=True)
            if inputs != "Nystroem":
                share, predicted = calibration_curve(
                    data.y_test.ravel(), results[0][1].ravel(), n_bins=10
                )
                axis.plot(predicted, share, "o-", label=inputs)
        axis.plot([0, 1], [0, 1], color="0.7", zorder=0)
        axis.set(title=name, xlabel="predicted probability of a label", ylabel="its share")
        axis.legend()
    figure.tight_layout()
    arguments.output.mkdir(parents=True, exist_ok=True)
    figure.savefig(arguments.output / "stacking.png", dpi=100)


if __name__ == "__main__":
    main()
