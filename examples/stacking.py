"""Forests as inputs of a conditional RBM: structured calibration on top of strong classifiers.

Scene and Yeast, the published splits. Four forests (extra trees and random forest, each on
the labels and on the label sets) turn X into log-odds of every label, out-of-bag for the training
rows; the CRBM learns from these how far to trust each and how labels go together. Beside it the
CRBM on X itself and on Nystroem features, and the forests alone. Each metric by the decoder meant
for it: Hamming loss by marginals, subset accuracy over the label sets seen in training, Jaccard and
micro-F1 by the largest expected Jaccard, F1 by the largest expected F1. Prints Markdown tables and
draws reliability curves of the marginals.
"""

import argparse
import time
from pathlib import Path

import matplotlib
import numpy as np
from scipy.special import expit
from sklearn.calibration import calibration_curve
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.kernel_approximation import Nystroem
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import StandardScaler

from skcrbm import CRBMClassifier
from skcrbm.datasets import load_scene, load_yeast
from skcrbm.decoding import decode_marginals
from skcrbm.ensemble import OutOfBagLogOdds
from skcrbm.metrics import masked_score

matplotlib.use("Agg")
import matplotlib.pyplot as plt

# Title: score, its sign, and the decoder meant for it.
METRICS = {
    "Hamming": ("neg_hamming_loss", -1, "marginal"),
    "subset": ("accuracy", 1, "label_set"),
    "Jaccard": ("jaccard_samples", 1, "expected_jaccard"),
    "F1": ("f1_samples", 1, "expected_f1"),
    "micro-F1": ("f1_micro", 1, "expected_jaccard"),
}


def forests(n_trees, n_jobs, seed):
    """Out-of-bag log-odds of four forests."""
    options = {"n_estimators": n_trees, "bootstrap": True, "n_jobs": n_jobs}
    kinds = [
        (forest(**options), powerset)
        for forest in (ExtraTreesClassifier, RandomForestClassifier)
        for powerset in (False, True)
    ]
    return make_union(
        *(
            OutOfBagLogOdds(forest, label_powerset=powerset, random_state=4 * seed + k)
            for k, (forest, powerset) in enumerate(kinds)
        )
    )


def nystroem(n_features, seed):
    """Nystroem features of an rbf kernel, standardised."""
    kernel = Nystroem(gamma=1 / n_features, n_components=500, random_state=seed)
    return make_pipeline(StandardScaler(), kernel, StandardScaler())


def scores_of(Y, labels_by, p):
    """Return all scores; `labels_by` gives the labels of a decoder."""
    scores = [
        sign * masked_score(name, Y, y_pred=labels_by(decoder))
        for name, sign, decoder in METRICS.values()
    ]
    return [*scores, -masked_score("neg_log_loss", Y, y_score=p)]


def score_model(features, X, X_test, Y, Y_test, alpha, seed):
    """Scores, processor seconds and marginals of a CRBM on these features."""
    start = time.process_time()
    inputs = features.fit_transform(X, Y)
    model = CRBMClassifier(alpha=alpha, random_state=seed).fit(inputs, Y)
    seconds = time.process_time() - start
    test = features.transform(X_test)
    p = model.predict_proba(test)
    scores = scores_of(Y_test, lambda name: model.set_params(decode=name).predict(test), p)
    return [*scores, seconds], p


def score_forests(features, X, X_test, Y, Y_test):
    """Return the same of the mean log-odds of the forests alone, labels as independent."""
    start = time.process_time()
    features.fit(X, Y)
    seconds = time.process_time() - start
    log_odds = features.transform(X_test).reshape(len(X_test), -1, Y.shape[1]).mean(axis=1)
    p = expit(log_odds)
    by = {
        "marginal": lambda: (p >= 0.5).astype(int),
        "label_set": lambda: (p >= 0.5).astype(int),
        "expected_jaccard": lambda: decode_marginals(p, "jaccard"),
        "expected_f1": lambda: decode_marginals(p, "f1"),
    }
    return [*scores_of(Y_test, lambda name: by[name](), p), seconds], p


def main():
    """Fit everything, print the tables, draw the curves."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-home", default=None, help="folder of the .npz files")
    parser.add_argument("--trees", type=int, default=500)
    parser.add_argument("--seeds", type=int, default=1, help="fits to average")
    parser.add_argument("--n-jobs", type=int, default=1, help="threads of a forest")
    parser.add_argument("--output", type=Path, default=Path("examples/output"))
    arguments = parser.parse_args()

    figure, axes = plt.subplots(1, 2, figsize=(10, 4.6), sharex=True, sharey=True)
    for axis, load in zip(axes, (load_scene, load_yeast), strict=True):
        data = load(data_home=arguments.data_home)
        X, X_test = (np.asarray(part, float) for part in (data.X_train, data.X_test))
        split = X, X_test, data.y_train, data.y_test
        name = load.__name__.removeprefix("load_").capitalize()
        print(f"\n{name}\n\n| inputs | " + " | ".join(METRICS) + " | log loss | fit s |")
        print("|---" * (len(METRICS) + 3) + "|")
        rows = {}
        for seed in range(arguments.seeds):
            trees = forests(arguments.trees, arguments.n_jobs, seed)
            rbf = nystroem(X.shape[1], seed)
            both = make_union(trees, rbf)
            rows.setdefault("X", []).append(score_model(StandardScaler(), *split, 0.1, seed))
            rows.setdefault("Nystroem", []).append(score_model(rbf, *split, 0.1, seed))
            rows.setdefault("forests alone", []).append(score_forests(trees, *split))
            rows.setdefault("forests", []).append(score_model(trees, *split, 0.03, seed))
            rows.setdefault("forests and Nystroem", []).append(score_model(both, *split, 0.1, seed))
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
