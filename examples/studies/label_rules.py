"""Rules between labels: hierarchies of labels kept by a classifier, beside other ways to keep them.

The labels of each data set form a tree. A forest, or a regression for each label, predicts the
probability of each label. The program prints a Markdown table with a row per way to choose labels:
F1 and Jaccard index of a row, subset accuracy, share of rows that violate the hierarchy, and
milliseconds per row beyond the prediction of the classifier. "Top-down" trains a regression for the
children of each label on the rows in which the label is on, and switches on a child only if its
parent is on.

    python -m examples.studies.label_rules             # some minutes
    python -m examples.studies.label_rules --sets imclef07a

The data files must lie in the folder that SKCRBM_DATA names.
"""

import argparse
import os
import time
from collections import defaultdict
from pathlib import Path

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, f1_score, jaccard_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skcrbm import DecodedClassifier
from skcrbm.constraints import Constrained, Hierarchy

SETS = ("imclef07a", "diatoms", "pheno_fun", "cellcycle_fun")
CLASSIFIERS = {
    "forest": make_pipeline(
        SimpleImputer(keep_empty_features=True),
        RandomForestClassifier(min_samples_leaf=2, random_state=0),
    ),
    "regressions": make_pipeline(
        SimpleImputer(keep_empty_features=True),
        StandardScaler(),
        OneVsRestClassifier(LogisticRegression(C=0.1, solver="liblinear")),
    ),
}


def load(name):
    """Return X, Y, X_test, Y_test and the edges of the hierarchy of a set."""
    with np.load(Path(os.environ["SKCRBM_DATA"]) / f"{name}.npz") as data:
        parts = [data["X_train"], data["Y_train"], data["X_test"], data["Y_test"]]
        edges = data["edges_parent_child"].tolist()
    X, Y, X_test, Y_test = parts
    return X, Y.astype(int), X_test, Y_test.astype(int), edges


class TopDown(ClassifierMixin, BaseEstimator):
    """A regression for the children of each label, applied from the top of the hierarchy."""

    def __init__(self, edges):
        self.edges = edges

    def fit(self, X, Y):
        """Fit a regression for each label, on the rows in which its parent is on."""
        self.parent_ = np.full(Y.shape[1], -1)
        for parent, child in self.edges:
            self.parent_[child] = parent
        self.models_ = []
        for label, parent in enumerate(self.parent_):
            rows = np.ones(len(Y), bool) if parent < 0 else Y[:, parent] == 1
            y = Y[rows, label]
            if len(np.unique(y)) < 2:
                self.models_.append(float(y.mean()) if len(y) else 0.0)
            else:
                self.models_.append(LogisticRegression(max_iter=200).fit(X[rows], y))
        return self

    def predict(self, X):
        """Return the labels, a level of the hierarchy after the other."""
        labels = np.zeros((len(X), len(self.models_)), int)
        children = defaultdict(list)
        for label, parent in enumerate(self.parent_):
            children[parent].append(label)
        level = children[-1]
        while level:
            for label in level:
                model, parent = self.models_[label], self.parent_[label]
                p = model if isinstance(model, float) else model.predict_proba(X)[:, 1]
                above = 1 if parent < 0 else labels[:, parent]
                labels[:, label] = (p >= 0.5) * above
            level = [child for label in level for child in children[label]]
        return labels


def violations(labels, edges):
    """Return the share of rows in which a label is on and its parent is off."""
    wrong = np.zeros(len(labels), bool)
    for parent, child in edges:
        wrong |= labels[:, child] > labels[:, parent]
    return wrong.mean()


def report(name, labels, Y, edges, seconds):
    """Print a row of the table."""
    options = {"average": "samples", "zero_division": 0}
    scores = (
        f1_score(Y, labels, **options),
        jaccard_score(Y, labels, **options),
        accuracy_score(Y, labels),
        violations(labels, edges),
    )
    shown = " | ".join(f"{score:.3f}" for score in scores)
    print(f"| {name} | {shown} | {seconds / len(Y) * 1e3:.2f} |", flush=True)


def main(arguments=None):
    """Print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sets", nargs="*", default=SETS, choices=SETS)
    parser.add_argument("--rows", type=int, default=None, help="number of training rows")
    options = parser.parse_args(arguments)
    for name in options.sets:
        X, Y, X_test, Y_test, edges = load(name)
        X, Y = X[: options.rows], Y[: options.rows]
        print(f"\n**{name}** ({len(X)} rows, {Y.shape[1]} labels, {len(edges)} edges)\n")
        print("| | F1 | Jaccard | subset | rows with violations | ms per row |")
        print("|---|---|---|---|---|---|")
        rule = [Hierarchy(edges)]
        for base, classifier in CLASSIFIERS.items():
            fitted = clone(classifier).fit(X, Y)
            start = time.perf_counter()
            labels = fitted.predict(X_test)
            seconds = time.perf_counter() - start
            report(f"{base} at one half", labels, Y_test, edges, 0.0)
            fixed = FrozenEstimator(fitted)
            f1 = {"decode": "expected_f1", "random_state": 0}
            ways = {
                f"{base}, decoded for F1": DecodedClassifier(fixed, decode="expected_f1"),
                f'{base} with rules, "map"': Constrained(fixed, rule, decode="map"),
                f'{base} with rules, "expected_f1"': Constrained(fixed, rule, **f1),
            }
            for way, model in ways.items():
                model.fit(X, Y)
                start = time.perf_counter()
                labels = model.predict(X_test)
                more = max(0.0, time.perf_counter() - start - seconds)
                report(way, labels, Y_test, edges, more)
        local = make_pipeline(
            SimpleImputer(keep_empty_features=True), StandardScaler(), TopDown(edges)
        )
        labels = local.fit(X, Y).predict(X_test)
        report("top-down regressions", labels, Y_test, edges, 0.0)


if __name__ == "__main__":
    main()
