"""Time and memory of fits and predictions with the number of rows, up to a million.

The data are generated, with 100 features in float32 and 20 labels. Every cell runs in its own
process, in a single thread, and measures processor seconds and the peak of memory beyond the memory
of the data and the compiled kernels. Prints a Markdown table.

    python -m examples.speed.growth
    python -m examples.speed.growth --rows 10000 30000
"""

import argparse
import resource
import subprocess
import sys
import time
import warnings

import numpy as np

from skcrbm import CRBMClassifier, LMBMClassifier
from skcrbm.learning import Adam

N_FEATURES, N_LABELS = 100, 20
# A fixed number of passes, to see if a pass takes longer per row with more rows.
MODELS = {
    "LMBM, 10 passes": LMBMClassifier(C=0.01, pairwise_penalty=100, max_iter=10, random_state=0),
    "LMBM, nothing set": LMBMClassifier(random_state=0),
    "exact CRBM, 20 steps on all rows": CRBMClassifier(
        n_hidden=8, inference="exact", solver="lbfgs", alpha=0.01, max_iter=20, random_state=0
    ),
    "exact CRBM, an epoch in batches": CRBMClassifier(
        n_hidden=8, inference="exact", solver=Adam(batch_size=100), alpha=0.01,
        max_iter=1, early_stopping=False, random_state=0,
    ),
    "exact CRBM, nothing set": CRBMClassifier(random_state=0),
}  # fmt: skip


def data(n_rows):
    """Draw rows whose labels depend on x and on each other."""
    rng = np.random.default_rng(0)
    weights = rng.standard_normal((N_FEATURES, N_LABELS), dtype=np.float32) / 10
    X = np.empty((n_rows, N_FEATURES), np.float32)
    Y = np.empty((n_rows, N_LABELS), np.int8)
    for start in range(0, n_rows, 10**4):  # so that the process holds little besides the data
        rows = slice(start, start + 10**4)
        rng.standard_normal(dtype=np.float32, out=X[rows])
        fields = X[rows] @ weights + rng.standard_normal((len(X[rows]), 1))
        Y[rows] = fields + rng.standard_normal(fields.shape) > 1
    return X, Y


def megabytes():
    """Return the most memory that the process has held so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def cell(name, n_rows):
    """Measure in this process: seconds to fit and to predict, and memory of both."""
    warnings.simplefilter("ignore")
    model = MODELS[name]
    small = data(300)
    model.fit(*small).predict(small[0])  # compile
    model.predict_proba(small[0])
    X, Y = data(n_rows)
    found = [megabytes()]
    for question in (
        lambda: model.fit(X, Y),
        lambda: model.predict(X),
        lambda: model.predict_proba(X),
    ):
        start = time.process_time()
        question()
        found += [time.process_time() - start, megabytes()]
    print(*found)


def main():
    """Run every cell in its own process."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[10**4, 10**5, 10**6])
    parser.add_argument("--cell", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.cell:
        cell(arguments.cell[0], int(arguments.cell[1]))
        return
    print(
        "| model | rows | data, MB | fit, s | us a row | beside the data, MB | bytes a row "
        "| predict, us a row | predict_proba, us a row | beside, MB |"
    )
    print("|---" * 10 + "|")
    for name in MODELS:
        for n_rows in arguments.rows:
            command = [sys.executable, "-m", "examples.speed.growth", "--cell", name, str(n_rows)]
            run = subprocess.run(command, capture_output=True, text=True, check=True)
            before, fit, after_fit, predict, _, proba, after = map(float, run.stdout.split())
            print(
                f"| {name} | {n_rows} | {n_rows * (4 * N_FEATURES + N_LABELS) / 1e6:.0f} "
                f"| {fit:.2f} | {1e6 * fit / n_rows:.1f} | {after_fit - before:.0f} "
                f"| {1e6 * (after_fit - before) / n_rows:.0f} | {1e6 * predict / n_rows:.2f} "
                f"| {1e6 * proba / n_rows:.2f} | {after - after_fit:.0f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
