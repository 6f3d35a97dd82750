"""Time of the first prediction of a process, with an empty and with a filled cache of kernels.

Models are fitted and pickled; a new process loads each model and predicts a row, or all rows. Times
are processor seconds, the least of some turns, because other programs may run at the same time.

    python -m examples.speed.first_prediction [--turns 3] [package folder ...]

With several folders that each hold a version of skcrbm, the versions take turns.
"""

import argparse
import os
import pickle
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

from sklearn.datasets import make_multilabel_classification

import skcrbm

N_ROWS = 300
COLUMNS = "empty, 1 row", f"empty, {N_ROWS} rows", f"filled, {N_ROWS} rows"
MODELS = {
    "CRBMClassifier": {},
    "CRBMClassifier, sum_product": {"inference": "sum_product", "n_hidden": 8, "max_iter": 5},
    "LayeredGMClassifier": {"max_iter": 5},
    "MSSVMCRBM": {"max_iter": 5},
    "LMBMClassifier": {},
}
PREDICT = """
import pickle, sys, time, warnings
warnings.simplefilter("ignore")
import skcrbm
with open(sys.argv[1], "rb") as file:
    model, X = pickle.load(file)
start = time.process_time()
model.predict(X[: int(sys.argv[2])])
print(time.process_time() - start)
"""


def seconds_of(path, package, cache, n_rows):
    """Return processor seconds of the first prediction of a process."""
    variables = {"NUMBA_CACHE_DIR": cache, "PYTHONPATH": package}
    run = subprocess.run(
        [sys.executable, "-c", PREDICT, path, str(n_rows)],
        env=os.environ | variables,
        cwd=cache,
        capture_output=True,
        text=True,
        check=True,
    )
    return float(run.stdout)


def turn(path, package):
    """Return seconds of a row and of all rows, with an empty and with a filled cache."""
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as many:
        return [
            seconds_of(path, package, cache, n_rows)
            for cache, n_rows in ((one, 1), (many, N_ROWS), (many, N_ROWS))
        ]


def main(packages, n_turns):
    """Fit, measure, and print a table."""
    X, y = make_multilabel_classification(N_ROWS, 20, n_classes=6, random_state=0)
    print("| model | package |", *(f"{name}, s |" for name in COLUMNS))
    print("|---" * (2 + len(COLUMNS)) + "|")
    with tempfile.TemporaryDirectory() as folder:
        for name, settings in MODELS.items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model = getattr(skcrbm, name.split(",")[0])(random_state=0, **settings).fit(X, y)
            path = str(Path(folder) / "model.pkl")
            Path(path).write_bytes(pickle.dumps((model, X)))
            found = {package: [] for package in packages}
            for _ in range(n_turns):
                for package in packages:
                    found[package].append(turn(path, package))
            for package, turns in found.items():
                least = (f"{min(times):.2f} |" for times in zip(*turns, strict=True))
                print(f"| {name} | {package} |", *least, flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("packages", nargs="*", default=[str(Path(skcrbm.__file__).parents[1])])
    parser.add_argument("--turns", type=int, default=3)
    arguments = parser.parse_args()
    main(arguments.packages, arguments.turns)
