"""Learn Yeast's labels with 10, 30 and 50% of them missing.

NaN in y means "not observed". The study trains the same conditional RBM in three ways: marginalise
the missing labels (pass y with NaN), drop every row with a missing label, or fill in zeros. The
control is a logistic regression per label on the rows with this label. A stack of forests of 100
trees is trained with NaN and with zeros. Finished fits are kept in a CSV file; prints a Markdown
table and draws the curves.

    python -m examples.studies.missing_labels
"""

import time
from functools import partial

import matplotlib
import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from examples._harness import make_parser, results_path, run_tables
from skcrbm import CRBMClassifier
from skcrbm.datasets import load_yeast
from skcrbm.ensemble import make_stacked
from skcrbm.metrics import masked_score

matplotlib.use("Agg")
import matplotlib.pyplot as plt

RATES = (0.0, 0.1, 0.3, 0.5)
SCORES = ("subset accuracy", "Jaccard", "log loss")
STRATEGIES = (
    "CRBM, marginalised",
    "CRBM, incomplete rows dropped",
    "CRBM, zeros filled in",
    "logistic regression",
    "stack of forests, marginalised",
    "stack of forests, zeros filled in",
)
TOO_FEW = "fewer than 20 rows left"


def evaluate(Y, prediction, probability):
    """Return subset accuracy, Jaccard index and log loss."""
    return [
        masked_score("accuracy", Y, y_pred=prediction),
        masked_score("jaccard_samples", Y, y_pred=prediction),
        -masked_score("neg_log_loss", Y, y_score=probability),
    ]


def joint_scores(model, X, Y, X_test, Y_test):
    """Fit on Y with NaN; return None if there are too few rows."""
    if len(Y) < 20:
        return None
    model.fit(X, Y)
    return evaluate(Y_test, model.predict(X_test), model.predict_proba(X_test))


def logistic_scores(X, Y, X_test, Y_test):
    """Fit a logistic regression per label on the rows with this label."""
    columns = []
    for y in Y.T:
        seen = ~np.isnan(y)
        columns.append(LogisticRegression(C=0.01).fit(X[seen], y[seen]).predict_proba(X_test)[:, 1])
    probability = np.column_stack(columns)
    return evaluate(Y_test, (probability >= 0.5).astype(int), probability)


def cells(quick, seed=0):
    """Yield the key of every strategy at every rate of missing labels, and its function."""
    options = {"max_iter": 20, "early_stopping": False} if quick else {}
    data = load_yeast()
    scaler = StandardScaler().fit(data.X_train)
    X, X_test = scaler.transform(data.X_train), scaler.transform(data.X_test)
    Y, Y_test = data.y_train.astype(float), data.y_test
    noise = np.random.RandomState(seed).random_sample(Y.shape)

    def work(rate, name):
        partly = np.where(noise < rate, np.nan, Y)
        complete = ~np.isnan(partly).any(axis=1)
        start = time.perf_counter()
        if name == "logistic regression":
            scores = logistic_scores(X, partly, X_test, Y_test)
        else:
            rows, labels = X, partly
            if "rows dropped" in name:
                rows, labels = X[complete], partly[complete]
            elif "zeros" in name:
                labels = np.nan_to_num(partly)
            model = CRBMClassifier(random_state=0, **options)
            if "stack" in name:
                model = make_stacked(None, model, n_estimators=100, random_state=0)
            scores = joint_scores(model, rows, labels, X_test, Y_test)
        texts = [TOO_FEW, "", ""] if scores is None else [f"{score:.3f}" for score in scores]
        row = {"rate": rate, "model": name, **dict(zip(SCORES, texts))}
        return row | {"seconds": f"{time.perf_counter() - start:.0f}"}

    for rate in RATES:
        for name in STRATEGIES:
            yield f"{rate:.0%}, {name}", partial(work, rate, name)


def markdown(done):
    """Return a Markdown table of the finished rows."""
    lines = [f"| missing | model | {' | '.join(SCORES)} | seconds |", "|---" * 6 + "|"]
    for row in done.values():
        values = " | ".join(row[score] for score in SCORES)
        lines.append(f"| {float(row['rate']):.0%} | {row['model']} | {values} | {row['seconds']} |")
    return "\n".join(lines) + "\n"


def draw(path, done):
    """Draw a panel per score."""
    figure, axes = plt.subplots(1, 3, figsize=(11, 3.2))
    for axis, score in zip(axes, SCORES):
        for name in STRATEGIES:
            points = [
                (100 * float(row["rate"]), float(row[score]))
                for row in done.values()
                if row["model"] == name and row["subset accuracy"] != TOO_FEW
            ]
            if points:
                axis.plot(*zip(*sorted(points)), marker="o", label=name)
        axis.set_xlabel("% of training labels missing")
        title = "marginal log loss (lower is better)" if score == "log loss" else score
        axis.set_title(title, fontsize=10)
        axis.grid(alpha=0.3)
    axes[1].legend(fontsize=8, loc="lower left")
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    print(f"picture: {path}")


def main():
    """Run the fits that are not finished; write the table and the picture."""
    parser = make_parser(__doc__, "missing_labels", "20 epochs, for a first look")
    arguments = parser.parse_args()
    done = run_tables(arguments, cells(arguments.quick), markdown)
    if done and not arguments.list:
        draw(results_path(arguments, ".csv").with_suffix(".png"), done)


if __name__ == "__main__":
    main()
