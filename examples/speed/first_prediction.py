"""Time of the first calls of a process, with an empty and with a filled cache of kernels.

Predictions: models are fitted and pickled; a new process loads each model and predicts a row, or
all rows. Calls: a new process fits a model and predicts, or asks an energy a question. Times are
processor seconds, the least of some turns, because other programs may run at the same time.

    python -m examples.speed.first_prediction [--turns 3] [--only calls] [package folder ...]

With several folders that each hold a version of skcrbm, the versions take turns.
"""

import argparse
import os
import pickle
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array
from sklearn.datasets import make_multilabel_classification

import skcrbm
from skcrbm.energies import FactorGraphEnergy, RBMEnergy, SparseIsingEnergy, TableFactors
from skcrbm.inference import infer

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


def _labels(name, **settings):
    """Return a call that fits a classifier of labels and predicts."""

    def call():
        model = getattr(skcrbm, name)(random_state=0, **settings)
        model.fit(*data).predict(data[0])

    data = make_multilabel_classification(N_ROWS, 20, n_classes=6, random_state=0)
    return call


def _structures(name, graphs):
    """Return a call that fits a model of 60 chains or graphs and predicts."""
    rng = np.random.RandomState(0)
    X, y = [], []
    for size in rng.randint(4, 9, 60):
        features = rng.standard_normal((size, 5))
        edges = np.column_stack([np.arange(size), np.roll(np.arange(size), -1)])
        X.append((features, edges) if graphs else features)
        y.append((features[:, 0] > 0).astype(int) + (features[:, 1] > 0))
    return lambda: getattr(skcrbm, name)(max_iter=20).fit(X, y).predict(X)


def _energy(kind):
    rng = np.random.RandomState(0)
    n = 20
    field = rng.standard_normal((1, n))
    if kind == "RBM":
        return RBMEnergy(rng.standard_normal((n, 12)), field, rng.standard_normal((1, 12)))
    if kind == "sparse Ising model":
        couplings = np.triu(rng.standard_normal((n, n)) * (rng.rand(n, n) < 0.2), 1)
        return SparseIsingEnergy(csr_array(couplings + couplings.T), field)
    pairs = np.column_stack([np.arange(n), np.roll(np.arange(n), -1)])
    triples = np.arange(18).reshape(6, 3)
    return FactorGraphEnergy(
        [
            TableFactors(pairs, rng.standard_normal((n, 2, 2))),
            TableFactors(triples, rng.standard_normal((6, 2, 2, 2))),
        ],
        field,
    )


def _question(kind, method):
    """Return a call that asks a small model a question."""
    energy = _energy(kind)
    return lambda: infer(energy, method)


CALLS = {
    "CRBMClassifier": lambda: _labels("CRBMClassifier"),
    "CRBMClassifier, 8 hidden units": lambda: _labels("CRBMClassifier", n_hidden=8),
    "MSSVMCRBM": lambda: _labels("MSSVMCRBM", max_iter=20),
    "LMBMClassifier": lambda: _labels("LMBMClassifier"),
    "LayeredGMClassifier": lambda: _labels("LayeredGMClassifier", max_iter=20),
    "ChainCRF": lambda: _structures("ChainCRF", graphs=False),
    "GraphCRF": lambda: _structures("GraphCRF", graphs=True),
} | {
    f"{kind}, {method}": lambda kind=kind, method=method: _question(kind, method)
    for kind, methods in (
        (
            "factor graph",
            "sum_product max_product perturb_and_max_product bp_chain gibbs exact map_search",
        ),
        ("sparse Ising model", "sum_product max_product perturb_and_max_product gibbs"),
        ("RBM", "sum_product max_product perturb_and_max_product gibbs exact"),
    )
    for method in methods.split()
}


def seconds_of(package, cache, *arguments):
    """Return the processor seconds that a new Python process prints."""
    variables = {"NUMBA_CACHE_DIR": cache, "PYTHONPATH": package}
    run = subprocess.run(
        [sys.executable, *map(str, arguments)],
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
            seconds_of(package, cache, "-c", PREDICT, path, n_rows)
            for cache, n_rows in ((one, 1), (many, N_ROWS), (many, N_ROWS))
        ]


def call_turn(name, package):
    """Return seconds of a call with an empty and with a filled cache."""
    with tempfile.TemporaryDirectory() as cache:
        return [seconds_of(package, cache, Path(__file__).resolve(), "--call", name) for _ in "ab"]


def least(turns):
    """Return the least seconds of each column as cells of a table."""
    return (f"{min(times):.2f} |" for times in zip(*turns, strict=True))


def print_predictions(packages, n_turns):
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
                print(f"| {name} | {package} |", *least(turns), flush=True)


def print_calls(packages, n_turns, names):
    """Measure the first calls, and print a table."""
    print("| call | package | empty, s | filled, s |\n|---|---|---|---|")
    for name in names:
        found = {package: [] for package in packages}
        for _ in range(n_turns):
            for package in packages:
                found[package].append(call_turn(name, package))
        for package, turns in found.items():
            print(f"| {name} | {package} |", *least(turns), flush=True)


def print_seconds(name):
    """Print the processor seconds of one call in this process."""
    call = CALLS[name]()
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        call()
    print(time.process_time() - start)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("packages", nargs="*", default=[str(Path(skcrbm.__file__).parents[1])])
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--only", choices=["predictions", "calls"])
    parser.add_argument("--names", nargs="+", choices=list(CALLS), default=list(CALLS))
    parser.add_argument("--call", choices=list(CALLS), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.call:
        print_seconds(arguments.call)
    else:
        if arguments.only != "calls":
            print_predictions(arguments.packages, arguments.turns)
        if arguments.only != "predictions":
            print_calls(arguments.packages, arguments.turns, arguments.names)
