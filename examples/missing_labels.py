"""Learn Yeast's labels with 10, 30 and 50% of them missing.

NaN in y means "not observed". Three ways to train the same conditional RBM: marginalise
the missing labels (pass y as it is), drop every row that lacks one, or fill in zeros;
and one logistic regression per label on the rows where that label is observed. Then the
other way round: half of a test row's labels are given at prediction. Prints Markdown
tables and writes a picture of the curves.
"""

import argparse
import time
from pathlib import Path

import matplotlib
import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from skcrbm import CRBMClassifier
from skcrbm.datasets import load_yeast
from skcrbm.metrics import masked_score

matplotlib.use("Agg")
import matplotlib.pyplot as plt

RATES = (0.0, 0.1, 0.3, 0.5)


def evaluate(Y, prediction, probability):
    """Subset accuracy, Jaccard, log loss."""
    return [
        masked_score("accuracy", Y, y_pred=prediction),
        masked_score("jaccard_samples", Y, y_pred=prediction),
        -masked_score("neg_log_loss", Y, y_score=probability),
    ]


def crbm_scores(X, Y, X_test, Y_test, **options):
    """Fit on Y, NaN and all; None if there are too few rows to fit."""
    if len(Y) < 20:
        return None
    model = CRBMClassifier(random_state=0, **options).fit(X, Y)
    return evaluate(Y_test, model.predict(X_test), model.predict_proba(X_test))


def logistic_scores(X, Y, X_test, Y_test):
    """One logistic regression per label on the rows where it is observed."""
    columns = []
    for y in Y.T:
        seen = ~np.isnan(y)
        columns.append(LogisticRegression(C=0.01).fit(X[seen], y[seen]).predict_proba(X_test)[:, 1])
    probability = np.column_stack(columns)
    return evaluate(Y_test, (probability >= 0.5).astype(int), probability)


def training_curves(X, Y, X_test, Y_test, options, seed=0):
    """Scores of every strategy at every rate of missing labels."""
    rng = np.random.RandomState(seed)
    noise = rng.random_sample(Y.shape)
    results = {}
    for rate in RATES:
        partial = np.where(noise < rate, np.nan, Y)
        complete = ~np.isnan(partial).any(axis=1)
        for name, score in (
            ("CRBM, marginalised", lambda y=partial: crbm_scores(X, y, X_test, Y_test, **options)),
            (
                "CRBM, incomplete rows dropped",
                lambda y=partial, c=complete: crbm_scores(X[c], y[c], X_test, Y_test, **options),
            ),
            (
                "CRBM, zeros filled in",
                lambda y=partial: crbm_scores(X, np.nan_to_num(y), X_test, Y_test, **options),
            ),
            ("logistic regression", lambda y=partial: logistic_scores(X, y, X_test, Y_test)),
        ):
            start = time.perf_counter()
            scores = score()
            results[name, rate] = scores
            text = (
                "fewer than 20 rows left | |"
                if scores is None
                else " | ".join(f"{s:.3f}" for s in scores)
            )
            print(
                f"| {rate:.0%} | {name} | {text} | {time.perf_counter() - start:.0f} |", flush=True
            )
    return results


def known_labels(X, Y, X_test, Y_test, options, seed=0):
    """Accuracy and log loss on half of the test labels, without and with the other half given."""
    model = CRBMClassifier(random_state=0, **options).fit(X, Y)
    given = np.random.RandomState(seed).random_sample(Y_test.shape) < 0.5
    known = np.where(given, Y_test, np.nan)
    rest = np.where(given, np.nan, Y_test)
    print("\n| labels given | accuracy on the rest | log loss on the rest |\n|---|---|---|")
    for name, y_known in (("none", None), ("half", known)):
        hamming = -masked_score(
            "neg_hamming_loss", rest, y_pred=model.predict(X_test, y_known=y_known)
        )
        loss = -masked_score(
            "neg_log_loss", rest, y_score=model.predict_proba(X_test, y_known=y_known)
        )
        print(f"| {name} | {1 - hamming:.3f} | {loss:.3f} |")


def draw(path, results):
    """Write one panel per score."""
    figure, axes = plt.subplots(1, 3, figsize=(11, 3.2))
    for column, (axis, title) in enumerate(
        zip(axes, ("subset accuracy", "Jaccard", "marginal log loss (lower is better)"))
    ):
        for name in dict.fromkeys(name for name, _ in results):
            points = [(100 * r, results[name, r][column]) for r in RATES if results[name, r]]
            axis.plot(*zip(*points), marker="o", label=name)
        axis.set_xlabel("% of training labels missing")
        axis.set_title(title, fontsize=10)
        axis.grid(alpha=0.3)
    axes[1].legend(fontsize=8, loc="lower left")
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    print(f"\npicture: {path}")


def main():
    """Run both parts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    default = Path(__file__).parent / "output" / "missing_labels.png"
    parser.add_argument("--data-home", default=None, help="folder of the .npz files")
    parser.add_argument("--quick", action="store_true", help="20 epochs, for a first look")
    parser.add_argument("--output", type=Path, default=default)
    arguments = parser.parse_args()
    options = {"max_iter": 20, "early_stopping": False} if arguments.quick else {}

    data = load_yeast(data_home=arguments.data_home)
    scaler = StandardScaler().fit(data.X_train)
    X, X_test = scaler.transform(data.X_train), scaler.transform(data.X_test)
    Y, Y_test = data.y_train.astype(float), data.y_test
    print("| missing | model | subset accuracy | Jaccard | log loss | seconds |")
    print("|---|---|---|---|---|---|")
    results = training_curves(X, Y, X_test, Y_test, options)
    known_labels(X, Y, X_test, Y_test, options)
    draw(arguments.output, results)


if __name__ == "__main__":
    main()
