"""Eight learning rules of the conditional RBM on Scene and Yeast, each with a small grid.

`papers/crbm_tables.py` compares the rules of Ping and Ihler (2017) on images; this program compares
them on multi-label data. 3-fold cross-validation on the training rows chooses the penalty by
Hamming loss, and the figures are for the published test rows. Times are processor seconds of the
fit with the chosen penalty. Finished cells are kept in a CSV file; about ten minutes in all.

    python -m examples.studies.learning_rules
"""

import time
import warnings
from functools import partial

from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import accuracy_score, f1_score, hamming_loss, jaccard_score
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from examples._harness import make_parser, run_tables
from skcrbm import MSSVMCRBM, CRBMClassifier
from skcrbm.datasets import load_scene, load_yeast
from skcrbm.learning import CDPercLoss, ContrastiveDivergence
from skcrbm.metrics import masked_scorer

METHODS = {
    "LR": CRBMClassifier(n_hidden=0),
    "CD-1": CRBMClassifier(learning="cd"),
    "CD-10": CRBMClassifier(learning=ContrastiveDivergence(n_steps=10)),
    "CD-PercLoss": CRBMClassifier(learning=CDPercLoss(n_steps=10)),
    "MLE-MF": CRBMClassifier(inference="mean_field"),
    "MLE-BP": CRBMClassifier(inference="sum_product"),
    "LSSVM": MSSVMCRBM(hidden="max", inference="max_product"),
    "MSSVM": MSSVMCRBM(hidden="marginal", inference="mixed_product"),
}
PENALTIES = (0.01, 0.1, 0.3)
FIELDS = ("Hamming", "Jaccard", "F1", "subset", "alpha", "fit s", "predict s")


def run(method, split):
    """Choose the penalty, fit, and measure on the test rows."""
    X, X_test, Y, Y_test = split
    model = make_pipeline(StandardScaler(), METHODS[method].set_params(random_state=0))
    alpha = f"{type(METHODS[method]).__name__.lower()}__alpha"
    search = GridSearchCV(
        model,
        {alpha: PENALTIES},
        scoring=masked_scorer("neg_hamming_loss"),
        cv=KFold(3, shuffle=True, random_state=0),
        refit=False,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        search.fit(X, Y)
        start = time.process_time()
        model.set_params(**search.best_params_).fit(X, Y)
    fitted = time.process_time()
    found = model.predict(X_test)
    predicted = time.process_time()
    scores = (
        hamming_loss(Y_test, found),
        jaccard_score(Y_test, found, average="samples", zero_division=0),
        f1_score(Y_test, found, average="samples", zero_division=0),
        accuracy_score(Y_test, found),
    )
    chosen = search.best_params_[alpha]
    seconds = f"{fitted - start:.1f}", f"{predicted - fitted:.2f}"
    figures = (*(f"{s:.3f}" for s in scores), chosen, *seconds)
    return dict(zip(FIELDS, figures))


def markdown(done):
    """Return a Markdown table per data set."""
    lines = []
    for name in dict.fromkeys(row["data"] for row in done.values()):
        lines += [f"### {name}", "", f"| | {' | '.join(FIELDS)} |", "|---" * 8 + "|"]
        lines += [
            f"| {row['method']} | {' | '.join(row[field] for field in FIELDS)} |"
            for row in done.values()
            if row["data"] == name
        ]
        lines.append("")
    return "\n".join(lines)


def cells(quick):
    """Yield the key of every cell and the function that runs it."""

    def work(name, method, split):
        if quick:
            X, X_test, Y, Y_test = split
            split = X[::5], X_test, Y[::5], Y_test
        return {"data": name, "method": method, **run(method, split)}

    for name, load in (("Scene", load_scene), ("Yeast", load_yeast)):
        data = load()
        split = data.X_train, data.X_test, data.y_train, data.y_test
        for method in METHODS:
            yield f"{name}, {method}", partial(work, name, method, split)


def main():
    """Run the cells that are not finished; write the tables."""
    arguments = make_parser(
        __doc__, "learning_rules_multilabel", "a fifth of the rows"
    ).parse_args()
    run_tables(arguments, cells(arguments.quick), markdown)


if __name__ == "__main__":
    main()
