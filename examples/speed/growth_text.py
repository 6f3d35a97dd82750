"""Time and memory of fits to sparse texts with the number of rows, columns and labels.

The texts are generated as in `examples.studies.text_labels`. Every cell runs in its own process and
a single thread. It measures processor seconds of `fit`, the peak of memory beyond the memory of the
data, and the log loss of 500 other texts. Prints a Markdown table.

    python -m examples.speed.growth_text --quick
    python -m examples.speed.growth_text --rows 1000 10000 100000 --columns 10000 --labels 20
"""

import argparse
import itertools
import resource
import subprocess
import sys
import time
import warnings

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier

from examples.studies.text_labels import generated, log_loss
from skcrbm import CRBMClassifier, LMBMClassifier

N_TEST = 500
MODELS = {
    "logistic regression": OneVsRestClassifier(LogisticRegression(solver="liblinear")),
    "`CRBMClassifier()`": CRBMClassifier(random_state=0),
    "`LMBMClassifier()`": LMBMClassifier(random_state=0),
}


def megabytes():
    """Return the most memory that the process has held so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def cell(name, n_rows, n_columns, n_labels):
    """Print processor seconds, memory and log loss of a fit in this process."""
    warnings.simplefilter("ignore")
    model = MODELS[name]
    model.fit(*generated(100, 200, 3)).predict_proba(generated(100, 200, 3)[0])  # compile
    X, Y = generated(n_rows + N_TEST, n_columns, n_labels)
    test, train = slice(0, N_TEST), slice(N_TEST, None)
    before, start = megabytes(), time.process_time()
    model.fit(X[train], Y[train])
    seconds, memory = time.process_time() - start, megabytes() - before
    proba = np.asarray(model.predict_proba(X[test]))
    print(seconds, memory, log_loss(Y[test], proba))


def main():
    """Run every cell in its own process."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[10**3, 10**4, 10**5])
    parser.add_argument("--columns", type=int, nargs="+", default=[10**4])
    parser.add_argument("--labels", type=int, nargs="+", default=[20])
    parser.add_argument("--models", nargs="+", default=list(MODELS))
    parser.add_argument("--quick", action="store_true", help="300 rows only")
    parser.add_argument("--cell", nargs=4, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.cell:
        cell(arguments.cell[0], *map(int, arguments.cell[1:]))
        return
    rows = [300] if arguments.quick else arguments.rows
    print("| rows | columns | labels | model | fit, s | beside the data, MB | log loss |")
    print("|---" * 7 + "|")
    sizes = itertools.product(rows, arguments.columns, arguments.labels)
    for size, name in itertools.product(sizes, arguments.models):
        command = [sys.executable, "-m", "examples.speed.growth_text", "--cell", name]
        run = subprocess.run(
            [*command, *map(str, size)], capture_output=True, text=True, check=True
        )
        seconds, memory, loss = map(float, run.stdout.split())
        cells = " | ".join(map(str, size))
        print(f"| {cells} | {name} | {seconds:.1f} | {memory:.0f} | {loss:.4f} |", flush=True)


if __name__ == "__main__":
    main()
