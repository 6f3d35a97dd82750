"""Find wrong labels: compare a joint model with a classifier for each label.

Flips 2, 5 and 10 % of the entries of y at random and prints the area under the ROC curve of the
scores of `find_label_issues`, by which wrong entries should come before right entries. The rows of
the tables are a CRBMClassifier with default settings that judges an entry given x and the other
labels of its row, the same model given x alone, and a logistic regression and a random forest for
each label. Entries are judged by models of three folds. If the package cleanlab is installed (`pip
install cleanlab`, for this program only), it scores the entries by the same out-of-fold
probabilities of the regressions and of the forests: the self-confidence, adjusted by the mean
confidence of each class.

    python -m examples.studies.wrong_labels [--sets groups pairs emotions scene yeast birds]
"""

import argparse

import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.multioutput import MultiOutputClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from examples.studies.label_set_sizes import load
from skcrbm import CRBMClassifier
from skcrbm.annotation import find_label_issues
from skcrbm.datasets import make_structured_labels

RATES = (0.02, 0.05, 0.1)


def rows_of(name, data_home, seed):
    """Return X and y of a data set: its training rows, or 1000 generated rows."""
    if name in ("groups", "pairs"):
        return make_structured_labels(1000, structure=name, random_state=seed)
    data = load(name, data_home)
    return data.X_train, data.y_train


def judges(seed):
    """Return estimators and the argument `given` by name."""
    joint = CRBMClassifier(random_state=seed)
    logistic = MultiOutputClassifier(LogisticRegression(C=0.1, max_iter=500))
    forest = MultiOutputClassifier(RandomForestClassifier(100, random_state=seed))
    return {
        "CRBMClassifier(), x and other labels": (joint, "other_labels"),
        "CRBMClassifier(), x": (joint, "x"),
        "logistic regression for each label": (logistic, "x"),
        "random forest for each label": (forest, "x"),
    }


def cleanlab_scores(y, proba):
    """Return the scores (N, L) of entries by cleanlab, which are high for wrong entries.

    `proba` (N, L) are out-of-fold probabilities. Return None if cleanlab is not installed.
    """
    try:
        from cleanlab.internal.multilabel_scorer import ClassLabelScorer, MultilabelScorer
    except ImportError:
        return None
    scorer = MultilabelScorer(base_scorer=ClassLabelScorer.SELF_CONFIDENCE)
    adjusted = {"adjust_pred_probs": True}
    return 1 - scorer.get_class_label_quality_scores(y.astype(int), proba, adjusted)


def main():
    """Print a table for each data set."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-home", default=None, help="folder of the .npz files")
    parser.add_argument("--sets", nargs="*", default=["groups", "pairs", "emotions", "scene"])
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    for name in arguments.sets:
        X, y = rows_of(name, arguments.data_home, arguments.seed)
        print(f"\n| {name} | " + " | ".join(f"{rate:.0%}" for rate in RATES) + " |")
        print("|---|" + "---|" * len(RATES))
        for title, (model, given) in judges(arguments.seed).items():
            rows = {title: []}
            for rate in RATES:
                wrong = np.random.RandomState(arguments.seed).random_sample(y.shape) < rate
                noisy = np.where(wrong, 1 - y, y)
                judge = make_pipeline(StandardScaler(), model)
                found = find_label_issues(judge, X, noisy, given=given, cv=3).entry_scores
                rows[title].append(roc_auc_score(wrong.ravel(), found.ravel()))
                if "each label" in title:
                    proba = np.where(noisy == 1, 1 - found, found)
                    scores = cleanlab_scores(noisy, proba)
                    if scores is not None:
                        auc = roc_auc_score(wrong.ravel(), scores.ravel())
                        rows.setdefault(f"cleanlab, {title}", []).append(auc)
            for name, cells in rows.items():
                print(f"| {name} | " + " | ".join(f"{v:.3f}" for v in cells) + " |", flush=True)


if __name__ == "__main__":
    main()
