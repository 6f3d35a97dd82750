"""Sets of label vectors with a guarantee under a hierarchy, with more labels than are enumerated.

Fits regressions, one for each label, to some training rows, calibrates `ConformalLabelSets` on
other training rows, and prints a Markdown table with the share of test rows whose set holds the
true labels, the mean and the median number of label vectors in a set, and milliseconds per row.
"Rules" restricts the distribution of the labels to the hierarchy (`Constrained`). "Marginals under
rules" is the control: the probabilities of the labels under the same rules, but the labels taken as
independent. "No rules" are the regressions alone.

    python -m examples.studies.label_sets_under_rules [--set imclef07a] [--confidence 0.9]

The data files must lie in the folder that SKCRBM_DATA names.
"""

import argparse
import time

import numpy as np
from sklearn.frozen import FrozenEstimator

from examples.studies.label_rules import CLASSIFIERS, load
from examples.studies.label_set_sizes import MarginalsOf
from skcrbm.calibration import ConformalLabelSets
from skcrbm.constraints import Constrained, Hierarchy


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--set", default="imclef07a")
    parser.add_argument("--rows", type=int, nargs=3, default=[1500, 500, 500])
    parser.add_argument("--confidence", type=float, default=0.9)
    arguments = parser.parse_args()
    X, Y, X_test, Y_test, edges = load(arguments.set)
    n_fit, n_calibrate, n_test = arguments.rows
    order = np.random.RandomState(0).permutation(len(X))
    fit, calibrate = order[:n_fit], order[n_fit : n_fit + n_calibrate]
    test = np.random.RandomState(1).permutation(len(X_test))[:n_test]
    labels = np.flatnonzero(Y[fit].any(axis=0))
    kept = {label: place for place, label in enumerate(labels)}
    tree = Hierarchy([(kept[p], kept[c]) for p, c in edges if p in kept and c in kept])
    Y, Y_test = Y[:, labels], Y_test[:, labels]
    regressions = CLASSIFIERS["regressions"].fit(X[fit], Y[fit])
    rules = Constrained(FrozenEstimator(regressions), [tree]).fit(X[fit], Y[fit])
    models = {
        "rules": rules,
        "marginals under rules": MarginalsOf(FrozenEstimator(rules)).fit(X[fit], Y[fit]),
        "no rules": regressions,
    }
    print(f"{arguments.set}, {len(labels)} labels\n")
    print("| | covered | mean size | median size | ms per row |\n|---|---|---|---|---|")
    for name, model in models.items():
        sets = ConformalLabelSets(
            FrozenEstimator(model), confidence=arguments.confidence, random_state=0
        ).fit(X[calibrate], Y[calibrate])
        covered = sets.contains(X_test[test], Y_test[test]).mean()
        start = time.process_time()
        sizes = sets.set_sizes(X_test[test])
        each = (time.process_time() - start) / len(test) * 1e3
        figures = f"{covered:.3f} | {sizes.mean():.4g} | {np.median(sizes):.4g} | {each:.1f}"
        print(f"| {name} | {figures} |", flush=True)


if __name__ == "__main__":
    main()
