"""Coverage of sets of label vectors over many random splits of the test rows.

Fits a CRBMClassifier with default settings to the training rows of each data set. Splits the test
rows at random into halves, calibrates `ConformalLabelSets` with the fitted model on one half, and
prints the mean coverage of the other half, beside the standard error of the mean if the guarantee
holds, and the mean size of the sets. With more than 14 labels the sets are calibrated on draws from
the model, whose shares have ties, so that the coverage may lie above the stated confidence.

    python -m examples.studies.label_set_coverage [--sets Yeast emotions] [--splits 100] [--jobs 2]
"""

import argparse

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.frozen import FrozenEstimator
from sklearn.preprocessing import StandardScaler

from examples.studies._defaults_methods import split
from skcrbm import CRBMClassifier
from skcrbm.calibration import ConformalLabelSets
from skcrbm.targets.label_sets import all_label_vectors

SETS = ("emotions", "Scene", "Yeast", "pairs", "groups", "genbase", "medical", "enron")
CONFIDENCES = (0.8, 0.9, 0.95)
MOST_ENUMERATED = 14


class Table(ClassifierMixin, BaseEstimator):
    """Log-probabilities of all label vectors that were computed before; X numbers the rows.

    Parameters
    ----------
    log_p : ndarray (n, 2 ** n_labels)
    """

    def __init__(self, log_p):
        self.log_p = log_p

    def fit(self, X, y):
        """Do nothing."""
        return self

    def __sklearn_is_fitted__(self):
        return True

    def score_label_sets(self, X, label_sets):
        """Return the log-probabilities (n, K) of all label vectors in their usual order."""
        return self.log_p[X[:, 0]]


def fitted(name, seed):
    """Return a fitted model, and the inputs and labels of the test rows.

    With few labels the model is a table of the probabilities of all label vectors, which saves
    time, and the inputs are the numbers of the rows.
    """
    X, Y, train, test = split(name, 0)
    scaler = StandardScaler().fit(X[train])
    model = CRBMClassifier(random_state=seed).fit(scaler.transform(X[train]), Y[train])
    inputs = scaler.transform(X[test])
    if Y.shape[1] > MOST_ENUMERATED:
        return model, inputs, Y[test]
    log_p = model.score_label_sets(inputs, all_label_vectors(Y.shape[1]))
    return Table(log_p), np.arange(len(test))[:, None], Y[test]


def lines(name, confidences, n_splits, n_draws, seed):
    """Return the lines of a data set: a line for each confidence."""
    model, X, y = fitted(name, seed)
    half = len(X) // 2
    found = []
    for confidence in confidences:
        rng = np.random.RandomState(seed)
        covered, sizes = [], []
        for split_seed in range(n_splits):
            order = rng.permutation(len(X))
            some, rest = order[:half], order[half:]
            sets = ConformalLabelSets(
                FrozenEstimator(model),
                confidence=confidence,
                n_draws=n_draws,
                random_state=split_seed,
            )
            sets.fit(X[some], y[some])
            covered.append(sets.contains(X[rest], y[rest]).mean())
            if len(sizes) < 5:
                sizes.append(sets.set_sizes(X[rest]).mean())
        variance = confidence * (1 - confidence) * (1 / (half + 2) + 1 / (len(X) - half))
        error = np.sqrt(variance / n_splits)
        found.append(
            f"| {name} ({y.shape[1]}) | {confidence} | {n_splits} | {np.mean(covered):.4f} | "
            f"{error:.4f} | {np.mean(sizes):.4g} |"
        )
    return found


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="*", default=SETS)
    parser.add_argument("--confidences", type=float, nargs="*", default=CONFIDENCES)
    parser.add_argument("--splits", type=int, default=100)
    parser.add_argument("--draws", type=int, default=2000, help="if there are many labels")
    parser.add_argument("--jobs", type=int, default=1, help="data sets at the same time")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    print("| set (labels) | confidence | splits | covered | standard error | mean size |")
    print("|---|---|---|---|---|---|")
    options = arguments.confidences, arguments.splits, arguments.draws, arguments.seed
    run = Parallel(n_jobs=arguments.jobs, return_as="generator")
    for found in run(delayed(lines)(name, *options) for name in arguments.sets):
        print("\n".join(found), flush=True)


if __name__ == "__main__":
    main()
