"""Compare LightGBM and CatBoost with stacks, by their own labels and by our decoding rules.

The data sets have their published splits; CAL500 and the generated sets have a random
split. LightGBM is fitted for each label, and CatBoost to all
labels at once ("MultiLogloss"). "Own" labels are those with a probability of at least 1/2. "Our
rules" predict each metric by the rule that is made for it, from the same probabilities: subset
accuracy by the most probable label set seen in training, Jaccard and micro-F1 by the largest
expected Jaccard index, F1 by the largest expected F1, and macro-F1 by a threshold for each label,
which costs three further fits. The last table shows the gain of the best of our models over the
best booster. "On top" is `make_stacked([booster], cv=3)`: a CRBM on the
out-of-fold log-odds of the booster. The two packages are not installed with skcrbm: `pip install
lightgbm catboost`. Finished rows are kept in a CSV file, so that the program can be stopped and
restarted. The key of a row says how many trees and which seed it has.

    python -m examples.studies.boosters [--sets emotions birds Yeast]
    python -m examples.studies.boosters --sets Yeast --trees 100 --only LightGBM CatBoost
"""

import argparse
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.multiclass import OneVsRestClassifier
from sklearn.preprocessing import StandardScaler

from examples._harness import OUTPUT, Rows
from examples.studies._defaults_methods import split
from skcrbm import CRBMClassifier, DecodedClassifier
from skcrbm.decoding import Threshold
from skcrbm.ensemble import BlendedLabelSets, make_stacked
from skcrbm.metrics import masked_score
from skcrbm.pipeline import make_pipeline

# Title: score and the rule that is made for it.
METRICS = {
    "subset": ("accuracy", "label_set"),
    "Jaccard": ("jaccard_samples", "expected_jaccard"),
    "F1": ("f1_samples", "expected_f1"),
    "micro-F1": ("f1_micro", "expected_jaccard"),
    "macro-F1": ("f1_macro", Threshold("f1_macro", cv=3)),
}
ROWS = ["LightGBM", "LightGBM, on top", "CatBoost", "CatBoost, on top"]
ROWS += ["CRBMClassifier()", "make_stacked()", "BlendedLabelSets()"]
TITLES = ("log loss", "log-lik.", *METRICS, "LRAP", "s")
OURS = ("CRBMClassifier()", "make_stacked()", "BlendedLabelSets()")
# Smaller gains count as a draw: they are within the noise of a single split.
DRAW = {"log loss": 0.005, "log-lik.": 0.05}
LEAST_GAIN = 0.01


class VaryingLabels(ClassifierMixin, BaseEstimator):
    """CatBoost for labels of which some are constant in the training rows, as in a fold.

    CatBoost refuses constant labels. They get the probability 0 or 1, as in OneVsRestClassifier.

    Parameters
    ----------
    classifier : estimator
    """

    def __init__(self, classifier):
        self.classifier = classifier

    def fit(self, X, Y):
        """Fit the classifier on the labels that vary."""
        Y = np.asarray(Y)
        self.classes_ = np.arange(Y.shape[1])
        self.constant_ = Y[0].astype(float)
        self.varying_ = np.ptp(Y, axis=0) > 0
        self.classifier_ = clone(self.classifier).fit(X, Y[:, self.varying_])
        return self

    def predict_proba(self, X):
        """Return the probabilities of all labels."""
        proba = np.tile(self.constant_, (len(X), 1))
        proba[:, self.varying_] = self.classifier_.predict_proba(X)
        return proba


def boosters(seed, n_trees):
    """Return the boosters of the installed packages by name."""
    found = {}
    try:
        from lightgbm import LGBMClassifier

        options = {"verbose": -1, "n_jobs": 1, "random_state": seed}
        found["LightGBM"] = OneVsRestClassifier(LGBMClassifier(**options))
    except ImportError:
        warnings.warn("LightGBM is not installed", stacklevel=2)
    try:
        from catboost import CatBoostClassifier

        options = {"verbose": False, "thread_count": 1, "random_seed": seed}
        booster = CatBoostClassifier(
            iterations=n_trees, loss_function="MultiLogloss", allow_writing_files=False, **options
        )
        found["CatBoost"] = VaryingLabels(booster)
    except ImportError:
        warnings.warn("CatBoost is not installed", stacklevel=2)
    return found


def log_likelihood(model, X, Y, proba):
    """Return the mean of log p(y | x); labels are independent if the model has no joint."""
    if hasattr(model, "score_samples"):
        return model.score_samples(X, Y).mean()
    proba = np.clip(proba, 1e-6, 1 - 1e-6)
    return np.log(np.where(Y == 1, proba, 1 - proba)).sum(axis=1).mean()


def rows_of(model, data, own):
    """Return the cells of a row with our rules and, if `own`, of a row with the labels above 1/2.

    The result has the keys "our rules" and "own", and the cells as the text of a table.
    """
    X, Y, X_test, Y_test = data
    start = time.process_time()
    fitted = model.fit(X, Y)
    seconds = time.process_time() - start
    proba = np.asarray(fitted.predict_proba(X_test))
    loss = -masked_score("neg_log_loss", Y_test, y_score=proba)
    first = [f"{loss:.4f}", f"{log_likelihood(fitted, X_test, Y_test, proba):.2f}"]
    lrap = masked_score("label_ranking_average_precision", Y_test, y_score=proba)
    last = [f"{lrap:.3f}", f"{seconds:.0f}"]
    found = {}
    if own:
        plain = (proba >= 0.5).astype(int)
        cells = [masked_score(score, Y_test, y_pred=plain) for score, _ in METRICS.values()]
        found["own"] = " | ".join([*first, *(f"{cell:.3f}" for cell in cells), *last])
    cells = []
    for score, rule in METRICS.values():
        labels = predicted(model, fitted, rule, data, proba)
        cells.append(masked_score(score, Y_test, y_pred=labels))
    found["our rules"] = " | ".join([*first, *(f"{cell:.3f}" for cell in cells), *last])
    return found


def predicted(model, fitted, rule, data, proba):
    """Return the labels of test rows by a rule."""
    X, Y, X_test, _ = data
    if isinstance(model, BlendedLabelSets):
        if isinstance(rule, str):
            return fitted.set_params(decode=rule).predict(X_test)
        return proba >= 0.5
    if isinstance(rule, str) or hasattr(model, "steps"):
        if hasattr(model, "steps"):  # a stack: only its last step is fitted again
            inner, inside = fitted[-1], fitted[:-1]
            if isinstance(rule, str):
                return inner.set_params(decode=rule).predict(inside.transform(X_test))
            last = CRBMClassifier(decode=rule, random_state=0)
            return last.fit(model[:-1].fit_transform(X, Y), Y).predict(inside.transform(X_test))
        frozen = DecodedClassifier(FrozenEstimator(fitted), decode=rule)
        return frozen.fit(X, Y).predict(X_test)
    return DecodedClassifier(model, decode=rule).fit(X, Y).predict(X_test)


def models(seed, n_trees):
    """Yield the title of each row, its model, and True if the row of its own labels is shown."""
    for title, booster in boosters(seed, n_trees).items():
        yield title, booster, True
        yield f"{title}, on top", make_stacked([booster], cv=3, random_state=seed), False
    stack = make_stacked(n_estimators=n_trees, compare=False, random_state=seed)
    joint = make_pipeline(StandardScaler(), CRBMClassifier(random_state=seed))
    yield "CRBMClassifier()", joint, False
    yield "make_stacked()", stack, False
    yield "BlendedLabelSets()", BlendedLabelSets(clone(stack)), False


def gains(table):
    """Return the gains of the best of our models over the best booster, for each metric.

    A gain is positive if our score is better; boosters have their own labels or labels by our
    rules. `table` holds the scores of each row of the printed table of a data set, by the title of
    the row.
    """
    shown = {title: title.removesuffix(", our rules").removesuffix(", own") for title in table}
    ours = [scores for title, scores in table.items() if shown[title] in OURS]
    theirs = [scores for title, scores in table.items() if shown[title] in ("LightGBM", "CatBoost")]
    found = {}
    for place, metric in enumerate(TITLES[:-1]):
        sign = -1 if metric == "log loss" else 1
        best = [max(sign * scores[place] for scores in rows) for rows in (ours, theirs)]
        found[metric] = best[0] - best[1]
    return found


def verdict(metric, gain):
    """Return "first", "draw" or "behind" for a gain over the best booster."""
    least = DRAW.get(metric, LEAST_GAIN) + 1e-9
    return "first" if gain > least else "behind" if gain < -least else "draw"


def gain_lines(tables):
    """Yield the lines of a table of gains: data sets by metrics, with the cells behind in bold."""
    yield "| gain of ours | " + " | ".join(TITLES[:-1]) + " |"
    yield "|---" * len(TITLES) + "|"
    for name, table in tables.items():
        cells = []
        for metric, gain in gains(table).items():
            text = f"{gain:+.2f}" if metric == "log-lik." else f"{gain:+.3f}"
            place = verdict(metric, gain)
            cells.append(f"**{text}**" if place == "behind" else text + " =" * (place == "draw"))
        yield f"| {name} | " + " | ".join(cells) + " |"


def main():
    """Print a table for each data set."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="*", default=["emotions", "birds", "Yeast"])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--trees", type=int, default=300, help="trees of CatBoost and of each forest of the stack"
    )
    parser.add_argument("--only", nargs="*", default=ROWS, help=f"rows, of {', '.join(ROWS)}")
    parser.add_argument(
        "--results", type=Path, default=OUTPUT / "boosters.csv", help="file of the finished rows"
    )
    arguments = parser.parse_args()
    seed, n_trees = arguments.seed, arguments.trees
    store, tables = Rows(arguments.results), {}
    for name in arguments.sets:
        X, Y, train, test = split(name, 0)
        seen = Y[train].any(axis=0) & ~Y[train].all(axis=0)
        Y = Y[:, seen]
        data = X[train], Y[train], X[test], Y[test]
        print(f"\n| {name} | " + " | ".join(TITLES) + " |\n|---|" + "---|" * len(TITLES))
        for title, model, own in models(seed, n_trees):
            if title not in arguments.only:
                continue
            key = f"{name}, {n_trees} trees, seed {seed}: {title}"
            if key not in store:
                store.add(key, rows_of(model, data, own))
            finished = store.read()[key]
            for kind in ("own", "our rules"):
                if finished.get(kind):
                    print(f"| {title}, {kind} | {finished[kind]} |", flush=True)
                    scores = [float(cell) for cell in finished[kind].split(" | ")]
                    tables.setdefault(name, {})[f"{title}, {kind}"] = scores
    if set(arguments.only) == set(ROWS):
        print("", *gain_lines(tables), sep="\n")


if __name__ == "__main__":
    main()
