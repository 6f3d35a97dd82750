"""Processor time per row of `Constrained` under trees of labels and counts over 1000 labels.

The probabilities of the labels are given, so that only the rules take time. With
``--elimination`` a rule that is always true is added, which has no place in trees with counts: the
answers then come from variable elimination.

    python -m examples.speed.benchmark_rules [--rows 200] [--elimination]
"""

import argparse
import time
import warnings

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin

from skcrbm.constraints import Allowed, Between, Constrained, Excludes, Hierarchy

N_LABELS = 1000
QUESTIONS = {
    "probabilities": lambda model, P: model.predict_proba(P),
    "best vector": lambda model, P: model.predict(P),
    "ten best vectors": lambda model, P: model.predict_topk(P, 10),
    "200 samples": lambda model, P: model.sample(P, 200, random_state=0),
}


class Given(ClassifierMixin, BaseEstimator):
    """A classifier whose probabilities are the columns of X."""

    def fit(self, X, y):
        """Do nothing."""
        self.classes_ = np.arange(y.shape[1])
        return self

    def predict_proba(self, X):
        """Return X."""
        return np.asarray(X)


def rule_sets():
    """Return lists of rules by name."""
    every = range(N_LABELS)
    tree = Hierarchy([((child - 1) // 4, child) for child in range(1, N_LABELS)])
    path = Hierarchy([(child - 1, child) for child in range(1, N_LABELS)])
    return {
        "a tree of depth 5": [tree],
        "at most 5": [Between(every, 0, 5)],
        "exactly 20": [Between(every, 20, 20)],
        "the tree, and at most 3": [tree, Between(every, 0, 3)],
        "the tree, and at most 20": [tree, Between(every, 0, 20)],
        "a path, and at most 20": [path, Between(every, 0, 20)],
        "100 exclusions of 10 labels": [Excludes(every[i : i + 10]) for i in every[::10]],
    }


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=200)
    parser.add_argument("--elimination", action="store_true", help="elimination in every case")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore", ".*violate the rules")
    P = np.random.default_rng(0).beta(1, 20, (arguments.rows, N_LABELS))
    print("| ms per row | " + " | ".join(QUESTIONS) + " |\n|---|" + "---|" * len(QUESTIONS))
    for name, rules in rule_sets().items():
        if arguments.elimination:
            rules = [*rules, Allowed([0], [[0], [1]])]
        try:
            model = Constrained(Given(), rules, decode="map")
            model.fit(P[:1], np.zeros((1, N_LABELS), int))
        except ValueError:
            print(f"| {name} | refused |" + " |" * (len(QUESTIONS) - 1))
            continue
        cells = []
        for ask in QUESTIONS.values():
            ask(model, P[:2])  # compile
            start = time.process_time()
            ask(model, P)
            cells.append(f"{(time.process_time() - start) / len(P) * 1e3:.2f}")
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
