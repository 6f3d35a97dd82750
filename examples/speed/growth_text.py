"""Time and memory of fits to sparse texts with the number of rows, columns and labels.

The texts are generated as in `examples.studies.text_labels`, with about four labels per text. A
cell is a fit. Each axis (rows, columns or labels) starts from the same small problem. Every cell
runs in a fresh process and a single thread, which may use a limited number of processor seconds;
"over 300" means that the fit was stopped then. A cell measures processor seconds of `fit`, the peak
memory of the process with the data, and the log loss of 500 other texts. The program can be
stopped and started again: finished cells are kept. LightGBM is not installed with skcrbm: `pip
install lightgbm`.

    python -m examples.speed.growth_text --quick
    python -m examples.speed.growth_text --list
    python -m examples.speed.growth_text --only LightGBM --limit 60
"""

import argparse
import itertools
import json
import math
import os
import resource
import signal
import subprocess
import sys
import time
import warnings

import numpy as np
from sklearn.multiclass import OneVsRestClassifier

from examples._harness import make_parser, run_tables
from examples.studies.text_labels import MODELS, REGRESSION, generated, log_loss
from skcrbm import CRBMClassifier, LMBMClassifier

NAME = "growth_text"
N_TEST = 500
START = {"rows": 10**4, "columns": 10**4, "labels": 10}
AXES = {
    "rows": (10**3, 10**4, 10**5, 10**6),
    "columns": (10**2, 10**3, 10**5, 10**6),
    "labels": (100, 1000, 5000),
}
_MEAN_LOG_ODDS, _FROM = -4.2, 60  # of `generated`, and for more than this number of labels


def models():
    """Return the models by name, without those of packages that are not installed."""
    found = {
        "logistic regression": REGRESSION,
        "regression, searched C": MODELS["logistic regression, searched C"],
        "`CRBMClassifier()`": CRBMClassifier(random_state=0),
        "`LMBMClassifier()`": LMBMClassifier(random_state=0),
    }
    try:
        from lightgbm import LGBMClassifier

        booster = LGBMClassifier(verbose=-1, n_jobs=1, random_state=0)
        found["LightGBM"] = OneVsRestClassifier(booster)
    except ImportError:
        warnings.warn("LightGBM is not installed", stacklevel=2)
    return found


def sizes(quick):
    """Return the tuples (rows, columns, labels) of all axes, without repetitions."""
    if quick:
        return [(300, 500, 4)]
    changed = (
        tuple({**START, axis: value}.values()) for axis, values in AXES.items() for value in values
    )
    return list(dict.fromkeys(changed))


def texts(n_rows, n_columns, n_labels):
    """Return texts (CSR) and labels; labels are rarer if there are many of them."""
    rarer = np.log(max(1.0, n_labels / _FROM))
    return generated(n_rows, n_columns, n_labels, log_odds=_MEAN_LOG_ODDS - rarer)


def measure(name, size, limit, gigabytes):
    """Print JSON objects: before the fit the data's memory in MB, and after it the measurements.

    If the fit takes more than `limit` processor seconds, the system kills the process. If it asks
    for more than `gigabytes` of memory, the second object has no seconds.
    """
    warnings.simplefilter("ignore")
    model = models()[name]
    model.fit(*texts(100, 200, 3)).predict_proba(texts(100, 200, 3)[0])  # compile
    X, Y = texts(size[0] + N_TEST, *size[1:])
    Y = Y.astype(np.int8)
    print(json.dumps({"data": peak_megabytes()}), flush=True)
    start = time.process_time()
    unlimited = resource.RLIM_INFINITY
    resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(start + limit), unlimited))
    resource.setrlimit(resource.RLIMIT_AS, (int(gigabytes * 2**30), unlimited))
    try:
        model.fit(X[N_TEST:], Y[N_TEST:])
    except MemoryError:
        print(json.dumps({"memory": gigabytes}), flush=True)
        return
    found = {"fit": time.process_time() - start, "memory": peak_megabytes()}
    resource.setrlimit(resource.RLIMIT_CPU, (unlimited, unlimited))
    proba = np.asarray(model.predict_proba(X[:N_TEST]))
    print(json.dumps({**found, "log loss": log_loss(Y[:N_TEST], proba)}), flush=True)


def peak_megabytes():
    """Return the most memory that the process has held so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def cell(name, size, limit, gigabytes):
    """Return the function that measures a cell in a fresh process, and returns a row of text."""
    command = [sys.executable, "-m", f"examples.speed.{NAME}", "--measure", name]
    command += map(str, (*size, limit, gigabytes))
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

    def run():
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        before, *after = [json.loads(line) for line in done.stdout.splitlines()] or [None]
        row = dict(zip(("rows", "columns", "labels"), map(str, size)), model=name)
        row.update(data="", fit="", memory="", **{"log loss": ""})
        if before is not None:
            row["data"] = f"{before['data']:.0f}"
        if after and "fit" in after[0]:
            for column, digits in (("fit", 1), ("memory", 0), ("log loss", 4)):
                row[column] = f"{after[0][column]:.{digits}f}"
        elif after:
            row["memory"] = f"over {gigabytes:g} GB"
        elif before is not None and done.returncode == -signal.SIGXCPU:
            row["fit"] = f"over {limit:g}"
        else:
            raise RuntimeError(done.stderr)
        return row

    return run


def report(done):
    """Return a Markdown table with a row per cell."""
    text = ["| rows | columns | labels | model | fit, s | peak memory, MB | log loss |"]
    text.append("|---" * 7 + "|")
    order = {size: k for k, size in enumerate(sizes(False))}
    rows = sorted(done.values(), key=lambda row: order.get(size_of(row), len(order)))
    columns = ("rows", "columns", "labels", "model", "fit", "memory", "log loss")
    text.extend(f"| {' | '.join(row[column] for column in columns)} |" for row in rows)
    return "\n".join(text)


def size_of(row):
    """Return the tuple (rows, columns, labels) of a finished cell."""
    return tuple(int(row[axis]) for axis in START)


def main(arguments=None):
    """Run the missing cells, or measure a single cell in this process."""
    parser = make_parser(__doc__, NAME, "a single problem of 300 rows")
    parser.add_argument(
        "--limit", type=float, default=300, help="processor seconds that a fit may take"
    )
    parser.add_argument(
        "--gigabytes", type=float, default=12, help="memory that a process may ask for"
    )
    parser.add_argument("--measure", nargs=6, help=argparse.SUPPRESS)
    arguments = parser.parse_args(arguments)
    if arguments.measure:
        name, *numbers, limit, gigabytes = arguments.measure
        measure(name, [*map(int, numbers)], float(limit), float(gigabytes))
        return None
    cells = (
        (
            f"{' '.join(map(str, size))} {name}",
            cell(name, size, arguments.limit, arguments.gigabytes),
        )
        for size, name in itertools.product(sizes(arguments.quick), models())
    )
    return run_tables(arguments, cells, report)


if __name__ == "__main__":
    main()
