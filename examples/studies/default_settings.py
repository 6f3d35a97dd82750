"""CRBMClassifier's defaults compared with other settings, on training rows alone.

Fits 70% of the training part of Scene, Yeast, the Mediamill sample and two generated sets, and
scores the other 30%: test parts are not used. Finished fits are kept in a CSV file, so the program
can be stopped and restarted; the file gives a Markdown table per data set. About ten minutes in
all; ``--quick`` fits two data sets for few epochs.

    python -m examples.studies.default_settings
"""

import time
import warnings
from functools import cache, partial

import numpy as np
from sklearn.preprocessing import StandardScaler

from examples._harness import make_parser, run_tables
from examples.studies._defaults_methods import split
from skcrbm import CRBMClassifier
from skcrbm.inference import SumProduct
from skcrbm.metrics import marginal_log_loss, masked_score
from skcrbm.model_selection import MultilabelStratifiedShuffleSplit

DATA_NAMES = ("Scene", "Yeast", "Mediamill sample", "pairs", "groups")
# Base of the variations: training in mini-batches with a given penalty.
MINI_BATCHES = {"solver": "adam", "alpha": 0.1, "alpha_hidden": 0.0}
SETTINGS = {
    "defaults": {},
    "n_hidden=0": {"n_hidden": 0},
    "n_hidden=4": {"n_hidden": 4},
    "n_hidden=10": {"n_hidden": 10},
    "n_hidden=16": {"n_hidden": 16},
    "alpha=0.03": {"alpha": 0.03},
    "alpha=0.1": {"alpha": 0.1},
    "alpha=0.3": {"alpha": 0.3},
    "alpha_hidden=0.01": {"alpha_hidden": 0.01},
    "solver='adam'": {"solver": "adam"},
    "solver='adam', alpha=0.1": {"solver": "adam", "alpha": 0.1},
    "inference=SumProduct(max_iter=30)": {"inference": SumProduct(max_iter=30)},
}
COLUMNS = ("log-likelihood", "log loss", "subset", "Jaccard", "F1", "epochs", "seconds")


def fit_and_score(options, parts, quick):
    """Return the scores of a setting as text, in the order of COLUMNS."""
    X, X_test, Y, Y_test = parts
    if quick:
        options = {**options, "max_iter": 3}
    start = time.process_time()
    model = CRBMClassifier(random_state=0, **{**MINI_BATCHES, **options}).fit(X, Y)
    seconds = time.process_time() - start
    exact = min(model.weights_.shape) <= 20
    scores = [
        model.score_samples(X_test, Y_test).mean() if exact else np.nan,
        marginal_log_loss(Y_test, model.predict_proba(X_test)),
    ]
    for rule, metric in (
        ("label_set", "accuracy"),
        ("expected_jaccard", "jaccard_samples"),
        ("expected_f1", "f1_samples"),
    ):
        found = model.set_params(decode=rule).predict(X_test)
        scores.append(masked_score(metric, Y_test, y_pred=found))
    return [f"{score:.3f}" for score in scores] + [str(model.n_iter_), f"{seconds:.1f}"]


@cache
def halves(name, quick):
    """Return standardised inputs and labels, 70% and 30% of the training part."""
    X, Y, rows, _ = split(name, 0)
    X, Y = X[rows], Y[rows]
    cut = MultilabelStratifiedShuffleSplit(1, test_size=0.3, random_state=0)
    train, test = next(cut.split(X, Y))
    if quick:
        train, test = train[:300], test[:100]
    seen = Y[train].any(axis=0) & ~Y[train].all(axis=0)
    scaler = StandardScaler().fit(X[train])
    Y = Y[:, seen]
    return scaler.transform(X[train]), scaler.transform(X[test]), Y[train], Y[test]


def markdown(done):
    """Return a table per data set."""
    lines = []
    for name in DATA_NAMES:
        rows = {s: done[f"{name}, {s}"] for s in SETTINGS if f"{name}, {s}" in done}
        if rows:
            lines += [f"## {name}", "", "| setting | " + " | ".join(COLUMNS) + " |"]
            lines.append("|---" * (len(COLUMNS) + 1) + "|")
            for setting, row in rows.items():
                cells = [row[column] for column in COLUMNS]
                lines.append(f"| {setting} | " + " | ".join(cells) + " |")
            lines.append("")
    return "\n".join(lines)


def cells(quick):
    """Yield the key of every cell and the function that runs it."""
    CRBMClassifier(max_iter=1).fit(np.eye(4), np.eye(4, dtype=int))  # compile

    def work(name, options):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # belief propagation that does not converge
            scores = fit_and_score(options, halves(name, quick), quick)
        return dict(zip(COLUMNS, scores, strict=True))

    for name in ("Scene", "pairs") if quick else DATA_NAMES:
        for setting, options in SETTINGS.items():
            yield f"{name}, {setting}", partial(work, name, options)


def main():
    """Run the fits that are not finished; print and write the tables."""
    parser = make_parser(__doc__, "default_settings", "two data sets, three epochs")
    arguments = parser.parse_args()
    run_tables(arguments, cells(arguments.quick), markdown)


if __name__ == "__main__":
    main()
