"""Growth of the time of a fit with default settings: with rows, sparse features and labels.

The rows are generated. Their labels depend on x and, in groups of five with a common factor, on
each other. Each fit is scored on 1000 further rows and compared with the training frequencies, to
show that it has learned. Finished fits are kept in a CSV file, so the program can be stopped and
restarted. Times are processor seconds in a single thread.

    python -m examples.speed.benchmark_fits
    python -m examples.speed.benchmark_fits --only rows CRBM
"""

import time
import warnings
from functools import partial

import numpy as np
from scipy import sparse
from threadpoolctl import threadpool_limits

from examples._harness import make_parser, run_tables
from skcrbm import CRBMClassifier, LMBMClassifier

N_TEST = 1000
# Growing number -> (rows, features, labels, True if X is sparse) of each size; a quick run takes
# the first two sizes.
SIZES = {
    "rows": [(n, 100, 10, False) for n in (1_000, 3_000, 10_000, 30_000, 100_000)],
    "features": [(2_000, d, 10, True) for d in (1_000, 3_000, 10_000, 30_000, 100_000)],
    "labels": [(1_500, 50, n_labels, False) for n_labels in (10, 25, 50, 100, 200, 400)],
}
MODELS = {"CRBM": CRBMClassifier, "LMBM": LMBMClassifier}
PER_ROW = 50  # nonzero features of a sparse row


def generate(n_rows, n_features, n_labels, is_sparse, seed=0):
    """Draw X, normal or sparse words, and labels, about a fifth of them on."""
    rng = np.random.default_rng(seed)
    if is_sparse:
        # Some words are common, most are rare.
        word = (n_features * rng.random((n_rows, PER_ROW)) ** 3).astype(int)
        X = sparse.csr_matrix(
            (np.ones(word.size), word.ravel(), np.arange(0, word.size + 1, PER_ROW)),
            shape=(n_rows, n_features),
        )
        X.sum_duplicates()
        X.data[:] = 1.0
    else:
        X = rng.normal(size=(n_rows, n_features))
    weights = (
        rng.normal(size=(n_features, n_labels)) / (PER_ROW if is_sparse else n_features) ** 0.5
    )
    common = rng.normal(size=(n_rows, -(-n_labels // 5))).repeat(5, axis=1)[:, :n_labels]
    field = 1.5 * (X @ weights) + common
    return X, (field + rng.logistic(size=field.shape) * 0.5 > 1.6).astype(int)


def log_loss(Y, p):
    """Return the mean log loss per label."""
    p = np.clip(p, 1e-15, 1 - 1e-15)
    return -np.log(np.where(Y == 1, p, 1 - p)).mean()


def timed(function):
    """Return the result and the processor seconds of a call."""
    start = time.process_time()
    result = function()
    return result, time.process_time() - start


def measure(model, n_rows, n_features, n_labels, is_sparse):
    """Fit and predict once."""
    X, Y = generate(n_rows + N_TEST, n_features, n_labels, is_sparse)
    X, X_test, Y, Y_test = X[:n_rows], X[n_rows:], Y[:n_rows], Y[n_rows:]
    fitted, seconds = timed(lambda: MODELS[model](random_state=0).fit(X, Y))
    labels, predict_seconds = timed(lambda: fitted.predict(X_test))
    nothing = (Y.sum(axis=0) + 0.5) / (n_rows + 1)
    row = {
        "model": model,
        "rows": n_rows,
        "features": n_features,
        "labels": n_labels,
        "seconds": f"{seconds:.2f}",
        "predict_ms": f"{1e3 * predict_seconds / N_TEST:.3f}",
        "hamming": f"{(labels != Y_test).mean():.4f}",
        "hamming_nothing": f"{Y_test.mean():.4f}",
    }
    if model == "CRBM":
        row["log_loss"] = f"{log_loss(Y_test, fitted.predict_proba(X_test)):.4f}"
        row["log_loss_nothing"] = f"{log_loss(Y_test, np.tile(nothing, (N_TEST, 1))):.4f}"
    return row


def warm_up():
    """Compile, so that no measured time includes compilation."""
    for _, d, n_labels, is_sparse in (sizes[0] for sizes in SIZES.values()):
        X, Y = generate(60, d, n_labels, is_sparse)
        for model in MODELS.values():
            model(random_state=0).fit(X, Y).predict(X)


def cells(quick):
    """Yield the key of every fit and the function that runs it, small fits first."""
    for growing, sizes in SIZES.items():
        for size in sizes[:2] if quick else sizes:
            for model in MODELS:
                n_rows, n_features, n_labels, _ = size
                key = f"{growing} {model} {n_rows} x {n_features} x {n_labels}"
                yield key, partial(measure, model, *size)


def report(rows):
    """Return a Markdown table for each growing number."""
    lines = []
    for growing in SIZES:
        lines += [f"## {growing.capitalize()}", ""]
        lines.append(
            "| model | rows | features | labels | fit s | predict ms | Hamming | of nothing | "
            "log loss | of frequencies |"
        )
        lines.append("|---" * 10 + "|")
        for key, row in rows.items():
            if key.startswith(growing):
                names = ("model", "rows", "features", "labels", "seconds", "predict_ms", "hamming",
                         "hamming_nothing", "log_loss", "log_loss_nothing")  # fmt: skip
                lines.append("| " + " | ".join(row.get(name) or "–" for name in names) + " |")
        lines.append("")
    return "\n".join(lines)


def main():
    """Run the fits that are not finished; print the tables."""
    arguments = make_parser(__doc__, "benchmark_fits", "two small sizes each").parse_args()
    warnings.filterwarnings("ignore")  # limits that were reached
    with threadpool_limits(1):
        if not (arguments.list or arguments.no_run):
            warm_up()
        run_tables(arguments, cells(arguments.quick), report)


if __name__ == "__main__":
    main()
