"""Find wrong labels: compare a joint model with a classifier for each label.

Flips 2, 5 and 10 % of the entries of y at random and prints the area under the ROC curve of the
scores of `find_label_issues`, by which wrong entries should come before right entries. The rows of
the tables are a CRBMClassifier with default settings that judges an entry given x and the other
labels of its row, the same model given x alone, and a logistic regression and a random forest for
each label. With ``--stack``, `make_stacked` with forests of 100 trees is a further joint model.
Entries are judged by models of three folds. The flips are drawn ``--repeats`` times; with several
draws a cell holds the mean, and its standard error over the draws. If the package cleanlab is
installed (`pip
install cleanlab`, for this program only), it scores the entries by the same out-of-fold
probabilities of the regressions and of the forests: the self-confidence, adjusted by the mean
confidence of each class.

    python -m examples.studies.wrong_labels [--sets groups pairs emotions scene yeast birds]
    python -m examples.studies.wrong_labels --sets birds emotions --stack --repeats 5
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
from skcrbm.ensemble import make_stacked

RATES = (0.02, 0.05, 0.1)


def rows_of(name, data_home, seed):
    """Return X and y of a data set: its training rows, or 1000 generated rows."""
    if name in ("groups", "pairs"):
        return make_structured_labels(1000, structure=name, random_state=seed)
    data = load(name, data_home)
    return data.X_train, data.y_train


def judges(seed, stack=False):
    """Return estimators and the argument `given` by name."""
    joint = CRBMClassifier(random_state=seed)
    logistic = MultiOutputClassifier(LogisticRegression(C=0.1, max_iter=500))
    forest = MultiOutputClassifier(RandomForestClassifier(100, random_state=seed))
    found = {
        "CRBMClassifier(), x and other labels": (joint, "other_labels"),
        "CRBMClassifier(), x": (joint, "x"),
        "logistic regression for each label": (logistic, "x"),
        "random forest for each label": (forest, "x"),
    }
    if stack:
        stacked = make_stacked(n_estimators=100, compare=False, random_state=seed)
        found["make_stacked(n_estimators=100), x and other labels"] = (stacked, "other_labels")
    return found


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


def areas(judge, given, X, y, seed):
    """Return the area of a judge under the ROC curve, and the area of cleanlab or None, by rate.

    `seed` is the seed of the flips.
    """
    found = []
    for rate in RATES:
        wrong = np.random.RandomState(seed).random_sample(y.shape) < rate
        noisy = np.where(wrong, 1 - y, y)
        scores = find_label_issues(judge, X, noisy, given=given, cv=3).entry_scores
        proba = np.where(noisy == 1, 1 - scores, scores)
        adjusted = cleanlab_scores(noisy, proba) if given == "x" else None
        found.append(
            [
                None if values is None else roc_auc_score(wrong.ravel(), values.ravel())
                for values in (scores, adjusted)
            ]
        )
    return found


def cell(values):
    """Return the text of a cell: an area, or the mean of several with its standard error."""
    if len(values) == 1:
        return f"{values[0]:.3f}"
    return f"{np.mean(values):.3f} ± {np.std(values, ddof=1) / np.sqrt(len(values)):.3f}"


def main():
    """Print a table for each data set."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-home", default=None, help="folder of the .npz files")
    parser.add_argument("--sets", nargs="*", default=["groups", "pairs", "emotions", "scene"])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--repeats", type=int, default=1, help="number of draws of the flips")
    parser.add_argument("--stack", action="store_true", help="a stack as well")
    parser.add_argument("--only", nargs="*", help="words: rows whose title holds one of them")
    arguments = parser.parse_args()
    seeds = range(arguments.seed, arguments.seed + arguments.repeats)
    for name in arguments.sets:
        X, y = rows_of(name, arguments.data_home, arguments.seed)
        print(f"\n| {name} | " + " | ".join(f"{rate:.0%}" for rate in RATES) + " |")
        print("|---|" + "---|" * len(RATES))
        for title, (model, given) in judges(arguments.seed, arguments.stack).items():
            if arguments.only and not any(word in title for word in arguments.only):
                continue
            judge = make_pipeline(StandardScaler(), model)
            found = [areas(judge, given, X, y, seed) for seed in seeds]
            for place, prefix in enumerate(("", "cleanlab, adjusted: ")):
                if found[0][0][place] is None or (place and "each label" not in title):
                    continue
                cells = [cell([draw[rate][place] for draw in found]) for rate in range(len(RATES))]
                print(f"| {prefix}{title} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
