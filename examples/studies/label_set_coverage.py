"""Coverage of sets of label vectors over many random splits of the rows that were not trained on.

Fits a CRBMClassifier with default settings to the training rows of each data set. Splits the test
rows at random into halves, calibrates `ConformalLabelSets` with the fitted model on one half, and
prints the mean coverage of the other half, beside the standard error of the mean if the guarantee
holds, and the mean size of the sets.

    python -m examples.studies.label_set_coverage [--sets yeast emotions scene] [--splits 100]
"""

import argparse

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.frozen import FrozenEstimator
from sklearn.preprocessing import StandardScaler

from examples.studies.label_set_sizes import load
from skcrbm import CRBMClassifier
from skcrbm.calibration import ConformalLabelSets
from skcrbm.utils.labels import all_label_vectors


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


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-home", default=None, help="folder of the .npz files")
    parser.add_argument("--sets", nargs="*", default=["yeast", "emotions", "scene"])
    parser.add_argument("--splits", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    print("| set | confidence | splits | covered | standard error | mean size |")
    print("|---|---|---|---|---|---|")
    for name in arguments.sets:
        data = load(name, arguments.data_home)
        scaler = StandardScaler().fit(data.X_train)
        model = CRBMClassifier(random_state=arguments.seed)
        model.fit(scaler.transform(data.X_train), data.y_train)
        vectors = all_label_vectors(data.y_train.shape[1])
        log_p = model.score_label_sets(scaler.transform(data.X_test), vectors)
        n_rows, y = len(log_p), data.y_test
        half = n_rows // 2
        frozen = FrozenEstimator(Table(log_p))
        for confidence in (0.8, 0.9, 0.95):
            rng = np.random.RandomState(arguments.seed)
            covered, sizes = [], []
            for _ in range(arguments.splits):
                order = rng.permutation(n_rows)[:, None]
                some, rest = order[:half], order[half:]
                sets = ConformalLabelSets(frozen, confidence=confidence).fit(some, y[some[:, 0]])
                covered.append(sets.contains(rest, y[rest[:, 0]]).mean())
                if len(sizes) < 5:
                    sizes.append(sets.set_sizes(rest).mean())
            variance = confidence * (1 - confidence) * (1 / (half + 2) + 1 / (n_rows - half))
            error = np.sqrt(variance / arguments.splits)
            print(
                f"| {name} | {confidence} | {arguments.splits} | {np.mean(covered):.4f} | "
                f"{error:.4f} | {np.mean(sizes):.1f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
