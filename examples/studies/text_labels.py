"""Labels of texts: joint models beside one-vs-rest logistic regression, on wide sparse data.

The data are four public sets of tagged texts, a set of social bookmarks with 983 labels, and
generated texts, as TF-IDF with 20,000 columns. Smaller sets of generated texts have unusual shapes
(`SHAPES`). A row of a table is a model with default parameters. The regression comes in two forms:
with the C of scikit-learn's default, and with C searched among four values by the log loss of three
folds. Seconds are processor seconds of `fit`, including any search; milliseconds are of `predict`
per row. Two rows with the same fit differ in the decoding rule.

The last table has the differences between the CRBM and the regression with the searched C, and
their standard errors by a paired bootstrap: both models are scored on the same resampled test rows.

    python -m examples.studies.text_labels                  # about an hour
    python -m examples.studies.text_labels --only yahoo     # some minutes
    python -m examples.studies.text_labels --quick

The data files must lie in the folder that SKCRBM_DATA names.
"""

import os
import time
import warnings
from pathlib import Path

import numpy as np
from scipy.sparse import csr_matrix, hstack
from sklearn.base import clone
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score, jaccard_score, label_ranking_average_precision_score
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsRestClassifier

from examples._harness import make_parser, run_tables
from skcrbm import CRBMClassifier, DecodedClassifier, LMBMClassifier
from skcrbm.calibration import CalibratedMarginals
from skcrbm.decoding import ExpectedMetric

NAME = "text_labels"
SETS = (
    "yahoo_recreation",
    "yahoo_science",
    "stackex_chess",
    "langlog",
    "generated",
    "delicious",
)
SHAPES = (
    "word counts",
    "words of 0 and 1",
    "character n-grams",
    "words and dense columns",
    "200 rows, 50,000 columns",
    "independent labels",
    "strong dependence",
    "300 labels, power law",
)
RULES = {
    "marginal": "marginal",
    "expected_f1": ExpectedMetric("f1", zero_division=0.0),
    "expected_jaccard": ExpectedMetric("jaccard", zero_division=0.0),
}
_TRAIN_SHARE = 2 / 3  # of sets without a split of their own
_N_RESAMPLES = 200  # samples of the test rows, the same for all models of a set
_ZERO = {"zero_division": 0}


def negative_log_loss(model, X, Y):
    """Return minus the mean log loss of a label, with probabilities clipped as in the table."""
    return -log_loss(Y, model.predict_proba(X))


def log_loss(Y, proba):
    """Return the mean log loss of a label."""
    proba = np.clip(proba, 1e-7, 1 - 1e-7)
    return float(-np.where(Y == 1, np.log(proba), np.log1p(-proba)).mean())


REGRESSION = OneVsRestClassifier(LogisticRegression(solver="liblinear"))
MODELS = {
    "logistic regression": REGRESSION,
    "logistic regression, searched C": GridSearchCV(
        REGRESSION, {"estimator__C": [0.1, 1.0, 10.0, 100.0]}, scoring=negative_log_loss, cv=3
    ),
    "`CRBMClassifier()`": CRBMClassifier(random_state=0),
    "`LMBMClassifier()`, calibrated": CalibratedMarginals(LMBMClassifier(random_state=0), cv=3),
}


def matrix(data, name):
    """Return a stored CSR matrix."""
    parts = (data[f"{name}_{part}"] for part in ("data", "indices", "indptr"))
    return csr_matrix(tuple(parts), shape=tuple(data[f"{name}_shape"]))


def generated(*args, **kwargs):
    """Return texts as TF-IDF (CSR) and labels; for the parameters see `generated_counts`."""
    X, Y = generated_counts(*args, **kwargs)
    return TfidfTransformer(sublinear_tf=True).fit_transform(X).tocsr(), Y


def generated_counts(
    n_rows=12600, n_words=20000, n_labels=60, seed=0, log_odds=-4.2, dependence=1.8
):
    """Return texts as counts of words (CSR) and labels that depend on twelve topics.

    The words of a text come from Zipf's law, from the vocabulary of its topic, and from the
    vocabularies of its labels. `log_odds` is the mean log-odds of a label, or its log-odds in a
    topic, of shape (n_labels,). `dependence` is the standard deviation of the log-odds of a label
    between topics.
    """
    rng = np.random.RandomState(seed)
    topic = rng.randint(12, size=n_rows)
    of_topics = rng.normal(log_odds, 0.8, size=n_labels)
    log_odds = (of_topics + rng.normal(0, dependence, size=(12, n_labels)))[topic]
    Y = (rng.random_sample((n_rows, n_labels)) < 1 / (1 + np.exp(-log_odds))).astype(int)
    share = np.cumsum(1 / np.arange(1, n_words + 1) ** 1.05)
    lengths = rng.poisson(60, n_rows) + 5
    rows = [np.repeat(np.arange(n_rows), lengths)]
    words = [np.searchsorted(share / share[-1], rng.random_sample(lengths.sum()))]
    of_label = rng.randint(n_words, size=(n_labels, 60))
    of_topic = rng.randint(n_words, size=(12, 100))
    text, label = np.nonzero(Y)
    for owner, vocabulary in ((text, of_label[label]), (np.arange(n_rows), of_topic[topic])):
        counts = rng.poisson(3, len(owner))
        rows.append(np.repeat(owner, counts))
        choice = (rng.random_sample(counts.sum()) ** 1.5 * vocabulary.shape[1]).astype(int)
        words.append(np.repeat(vocabulary, counts, axis=0)[np.arange(len(choice)), choice])
    entries = np.ones(sum(map(len, rows)))
    X = csr_matrix((entries, (np.concatenate(rows), np.concatenate(words))), (n_rows, n_words))
    return X, Y


def shape(name):
    """Return texts and labels of an unusual kind, of which two thirds are for training."""
    size = {"n_rows": 2400, "n_words": 8000, "n_labels": 20}
    if name == "200 rows, 50,000 columns":
        return generated(300, 50000, 10, log_odds=-2.0)
    if name == "300 labels, power law":
        return generated(**{**size, "n_labels": 300}, log_odds=-2.0 - np.log(np.arange(1, 301)))
    if name == "independent labels":
        return generated(**size, log_odds=-2.5, dependence=0.0)
    if name == "strong dependence":
        return generated(**size, dependence=4.0)
    counts, Y = generated_counts(**size)
    weights = TfidfTransformer(sublinear_tf=True)
    if name == "word counts":
        return counts, Y
    if name == "words of 0 and 1":
        return (counts > 0).astype(float), Y
    rng = np.random.RandomState(0)
    if name == "character n-grams":  # eight of each word, of which common words share many
        pieces = np.minimum(rng.zipf(1.1, 8 * 8000), 10**9) * 7919 % 8000
        words = np.repeat(np.arange(8000), 8)
        spelling = csr_matrix((np.ones(len(words)), (words, pieces)), (8000, 8000))
        return weights.fit_transform(counts @ spelling).tocsr(), Y
    # Dense columns beside the words: scales from .001 to 1000, half of them far from 0.
    dense = Y @ rng.normal(size=(Y.shape[1], 20)) + 2 * rng.normal(size=(2400, 20))
    dense = (dense + rng.choice([0.0, 30.0], 20)) * np.logspace(-3, 3, 20)
    return hstack([weights.fit_transform(counts), csr_matrix(dense)]).tocsr(), Y


def load(name, quick):
    """Return X, Y, X_test and Y_test of a set."""
    if name == "generated":
        X, Y = generated(600 if quick else 12600)
    elif name in SHAPES:
        X, Y = shape(name)
    else:
        with np.load(Path(os.environ["SKCRBM_DATA"]) / f"{name}.npz") as data:
            if "X_train_data" in data:
                found = [matrix(data, part) for part in ("X_train", "Y_train", "X_test", "Y_test")]
                found[1::2] = [(Y.toarray() > 0).astype(int) for Y in found[1::2]]
                return [part[:200] if quick else part for part in found]
            X, Y = matrix(data, "X"), (matrix(data, "Y").toarray() > 0).astype(int)
    order = np.random.RandomState(0).permutation(X.shape[0])[: 600 if quick else None]
    n_train = round(_TRAIN_SHARE * len(order))
    train, test = order[:n_train], order[n_train:]
    return X[train], Y[train], X[test], Y[test]


def precision_at(Y, proba, k):
    """Return the share of positive labels among the k most probable labels of each row."""
    top = np.argsort(-proba, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(Y, top, axis=1).mean()


def row_scores(Y, proba):
    """Return the mean log loss (N,) and the LRAP (N,) of each row."""
    clipped = np.clip(proba, 1e-7, 1 - 1e-7)
    losses = -np.where(Y == 1, np.log(clipped), np.log1p(-clipped)).mean(axis=1)
    ranks = [label_ranking_average_precision_score(Y[[row]], proba[[row]]) for row in range(len(Y))]
    return losses, np.array(ranks)


def f1_of_counts(right, predicted, true):
    """Return the F1 of counts of labels, which is 0 if there are no labels."""
    return 2 * right / np.maximum(predicted + true, 1)


def resampled(Y, proba, labels):
    """Return the scores of the table on resampled test rows: a dict of arrays (B,) by column.

    `labels` has the predicted labels (N, L) of each rule. The samples depend on the number of rows
    alone, so that the scores of two models can be compared sample by sample.
    """
    n_rows = len(Y)
    counts = np.random.RandomState(0).multinomial(
        n_rows, np.full(n_rows, 1 / n_rows), size=_N_RESAMPLES
    )
    losses, ranks = row_scores(Y, proba)
    f1_labels, jaccard_labels = labels["expected_f1"], labels["expected_jaccard"]
    right, both = f1_labels * Y, jaccard_labels * Y
    per_row = f1_of_counts(right.sum(axis=1), f1_labels.sum(axis=1), Y.sum(axis=1))
    either = np.maximum((jaccard_labels | Y).sum(axis=1), 1)
    per_label = [counts @ part for part in (right, f1_labels, Y)]
    return {
        "log_loss": counts @ losses / n_rows,
        "LRAP": counts @ ranks / n_rows,
        "expected_f1 F1": counts @ per_row / n_rows,
        "expected_jaccard Jaccard": counts @ (both.sum(axis=1) / either) / n_rows,
        "expected_f1 micro-F1": f1_of_counts(*(part.sum(axis=1) for part in per_label)),
        "expected_f1 macro-F1": f1_of_counts(*per_label).mean(axis=1),
    }


def cell(name, model, quick):
    """Return the function of a cell: a fit, and its scores with each decoding rule."""

    def run():
        X, Y, X_test, Y_test = load(name, quick)
        start = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fitted = clone(MODELS[model]).fit(X, Y)
        row = {"fit": f"{time.process_time() - start:.1f}"}
        proba = fitted.predict_proba(X_test)
        row["log_loss"] = f"{log_loss(Y_test, proba):.4f}"
        row["LRAP"] = f"{label_ranking_average_precision_score(Y_test, proba):.4f}"
        for k in (1, 3, 5):
            row[f"P@{k}"] = f"{precision_at(Y_test, proba, k):.4f}"
        decoded_by = {}
        for rule, decode in RULES.items():
            if isinstance(fitted, CRBMClassifier):
                decoded = fitted.set_params(decode=decode)
            else:
                decoded = DecodedClassifier(FrozenEstimator(fitted), decode=decode).fit(X, Y)
            start = time.process_time()
            labels = decoded_by[rule] = decoded.predict(X_test)
            row[f"{rule} ms"] = f"{(time.process_time() - start) / len(labels) * 1e3:.2f}"
            row[f"{rule} F1"] = f"{f1_score(Y_test, labels, average='samples', **_ZERO):.4f}"
            jaccard = jaccard_score(Y_test, labels, average="samples", **_ZERO)
            row[f"{rule} Jaccard"] = f"{jaccard:.4f}"
            for average in ("micro", "macro"):
                score = f1_score(Y_test, labels, average=average, **_ZERO)
                row[f"{rule} {average}-F1"] = f"{score:.4f}"
            row[f"{rule} empty"] = f"{(~labels.any(axis=1)).mean():.3f}"
        for column, scores in resampled(Y_test, proba, decoded_by).items():
            row[f"resampled {column}"] = " ".join(f"{score:.5f}" for score in scores)
        return row

    return run


#: Columns of the tables: headings, and columns of the results.
COLUMNS = {
    "fit, s": "fit",
    "log loss": "log_loss",
    "LRAP": "LRAP",
    "P@1": "P@1",
    "P@3": "P@3",
    "P@5": "P@5",
    "F1": "expected_f1 F1",
    "Jaccard": "expected_jaccard Jaccard",
    "micro-F1": "expected_f1 micro-F1",
    "macro-F1": "expected_f1 macro-F1",
    "F1 at 1/2": "marginal F1",
    "ms": "expected_f1 ms",
}


_LEFT_OUT = ("P@3", "P@5", "F1 at 1/2")  # columns of the table of all shapes


def report(done):
    """Return a Markdown table for each set, with a row per model, and a table of all shapes.

    F1, micro-F1 and macro-F1 are of labels with the largest expected F1, and the Jaccard index of
    labels with the largest expected Jaccard index. "ms" is the time of the former per row.
    """
    text = []
    for name in SETS:
        found = {model: done.get(f"{name} {model}") for model in MODELS}
        if not any(found.values()):
            continue
        text.append(f"**{name}**\n")
        text.append(f"| | {' | '.join(COLUMNS)} |")
        text.append("|---" * (len(COLUMNS) + 1) + "|")
        for model, row in found.items():
            if row:
                text.append(f"| {model} | {' | '.join(row[c] for c in COLUMNS.values())} |")
        text.append("")
    columns = {name: key for name, key in COLUMNS.items() if name not in _LEFT_OUT}
    shapes = [(name, model) for name in SHAPES for model in MODELS if f"{name} {model}" in done]
    if shapes:
        text.append(f"| texts | model | {' | '.join(columns)} |")
        text.append("|---" * (len(columns) + 2) + "|")
    for name, model in shapes:
        values = " | ".join(done[f"{name} {model}"][key] for key in columns.values())
        text.append(f"| {name} | {model} | {values} |")
    return "\n".join(text + differences(done))


#: Models of the last table: the first model minus the second model.
COMPARED = ("`CRBMClassifier()`", "logistic regression, searched C")


def differences(done):
    """Return the lines of the table of differences, with their standard errors."""
    headings = {column: heading for heading, column in COLUMNS.items()}
    lines = []
    for name in SETS:
        pair = [done.get(f"{name} {model}") for model in COMPARED]
        if not all(pair):
            continue
        cells = {}
        for key in pair[0]:
            column = key.removeprefix("resampled ")
            if column != key and all(row.get(key) for row in pair):
                samples = [np.array(row[key].split(), float) for row in pair]
                gain = float(pair[0][column]) - float(pair[1][column])
                cells[headings[column]] = f"{gain:+.4f} ({np.std(samples[0] - samples[1]):.4f})"
        if cells and not lines:
            lines = [f"| | {' | '.join(cells)} |", "|---" * (len(cells) + 1) + "|"]
        if cells:
            lines.append(f"| {name} | {' | '.join(cells.values())} |")
    return lines


def main(arguments=None):
    """Run the missing cells, and print and write the tables."""
    parser = make_parser(__doc__, NAME, "600 rows of each set")
    arguments = parser.parse_args(arguments)
    cells = (
        (f"{name} {model}", cell(name, model, arguments.quick))
        for name in SETS + SHAPES
        for model in MODELS
    )
    return run_tables(arguments, cells, report)


if __name__ == "__main__":
    main()
