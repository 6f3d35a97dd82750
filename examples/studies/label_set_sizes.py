"""How many label vectors a set with a guarantee needs: joint model, chains, independent labels.

Calibrates `ConformalLabelSets` on the training rows of each data set by five folds, for a
CRBMClassifier with default settings, ten classifier chains of logistic regressions, and two models
of independent labels: the marginals of the same CRBMClassifier, and a logistic regression for each
label. With ``--stack``, a stack of forests of 100 trees and a CRBM is a further joint model. Prints
a Markdown table with the share of the test rows whose set holds the true labels, and the mean and
the median number of label vectors in a set.

    python -m examples.studies.label_set_sizes [--sets yeast emotions scene] [--confidence 0.9]
    python -m examples.studies.label_set_sizes --sets yeast --stack
"""

import argparse

import numpy as np
from scipy.special import log_expit, logsumexp
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.linear_model import LogisticRegression
from sklearn.multioutput import ClassifierChain, MultiOutputClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skcrbm import CRBMClassifier
from skcrbm.calibration import ConformalLabelSets
from skcrbm.datasets import load_mulan, load_scene, load_yeast
from skcrbm.ensemble import make_stacked


class Chains(ClassifierMixin, BaseEstimator):
    """Mixture of classifier chains of logistic regressions in random orders.

    Parameters
    ----------
    n_chains : int
    C : float
        Inverse penalty of the logistic regressions.
    """

    def __init__(self, n_chains=10, C=0.1):
        self.n_chains = n_chains
        self.C = C

    def fit(self, X, Y):
        """Fit each chain."""
        self.classes_ = np.arange(Y.shape[1])
        logistic = LogisticRegression(C=self.C, max_iter=500)
        self.chains_ = [
            ClassifierChain(logistic, order="random", random_state=seed).fit(X, Y)
            for seed in range(self.n_chains)
        ]
        return self

    def score_label_sets(self, X, label_sets):
        """Return log p(y | x), (n, K), under the mixture."""
        chains = np.empty((self.n_chains, len(X), len(label_sets)))
        for log_p, chain in zip(chains, self.chains_, strict=True):
            log_p[:] = 0
            earlier = np.asarray(label_sets, float)[:, chain.order_]
            for place, (label, model) in enumerate(
                zip(chain.order_, chain.estimators_, strict=True)
            ):
                coef = model.coef_[0]
                from_x = X @ coef[: X.shape[1]] + model.intercept_
                from_y = earlier[:, :place] @ coef[X.shape[1] :]
                sign = 2 * np.asarray(label_sets)[:, label] - 1
                log_p += log_expit(sign * (from_x[:, None] + from_y))
        return logsumexp(chains, axis=0) - np.log(self.n_chains)


class MarginalsOf(ClassifierMixin, BaseEstimator):
    """The marginals of a classifier, without its joint distribution.

    Parameters
    ----------
    classifier : estimator
    """

    def __init__(self, classifier):
        self.classifier = classifier

    def fit(self, X, Y):
        """Fit the classifier."""
        self.classes_ = np.arange(Y.shape[1])
        self.classifier_ = clone(self.classifier).fit(X, Y)
        return self

    def predict_proba(self, X):
        """Return the marginals of the classifier."""
        return self.classifier_.predict_proba(X)


def models(seed, stack=False):
    """Return the compared classifiers by name."""
    joint = CRBMClassifier(random_state=seed)
    logistic = MultiOutputClassifier(LogisticRegression(C=0.1, max_iter=500))
    found = {
        "CRBMClassifier()": joint,
        "ten classifier chains, C=1": Chains(C=1.0),
        "ten classifier chains, C=0.1": Chains(),
        "marginals of CRBMClassifier(), independent": MarginalsOf(joint),
        "a logistic regression for each label": logistic,
    }
    if stack:
        stacked = make_stacked(n_estimators=100, compare=False, random_state=seed)
        found["make_stacked(n_estimators=100)"] = stacked
    return found


def load(name, data_home):
    """Return a data set with a split into training and test rows."""
    if name in ("yeast", "scene"):
        return {"yeast": load_yeast, "scene": load_scene}[name](data_home=data_home)
    return load_mulan(name, data_home=data_home)


def main():
    """Print a table for each data set."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-home", default=None, help="folder of the .npz files")
    parser.add_argument("--sets", nargs="*", default=["yeast", "emotions", "scene"])
    parser.add_argument("--confidence", type=float, default=0.9)
    parser.add_argument("--rule", default="mass", choices=["mass", "probability"])
    parser.add_argument("--stack", action="store_true", help="a stack as well, some minutes")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    for name in arguments.sets:
        data = load(name, arguments.data_home)
        print(f"\n{name}, of {2 ** data.y_train.shape[1]} label vectors, rule={arguments.rule!r}\n")
        print("| model | covered | mean size | median size |\n|---|---|---|---|")
        for title, model in models(arguments.seed, arguments.stack).items():
            sets = ConformalLabelSets(
                make_pipeline(StandardScaler(), model),
                confidence=arguments.confidence,
                rule=arguments.rule,
            )
            sets.fit(data.X_train, data.y_train)
            covered = sets.contains(data.X_test, data.y_test).mean()
            sizes = sets.set_sizes(data.X_test)
            print(
                f"| {title} | {covered:.3f} | {sizes.mean():.1f} | {np.median(sizes):.0f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
