"""What the first prediction of a process takes, with an empty cache of kernels and a filled one.

Models are fitted and pickled; processes of their own load one and predict a row. Processor
seconds, least of three, as other programs may run beside.

    python -m examples.speed.first_prediction [package folder ...]

With several folders that hold a version of skcrbm each, these take turns.
"""

import os
import pickle
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

from sklearn.datasets import make_multilabel_classification

import skcrbm

N_TURNS = 3
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
model.predict(X[:1])
print(time.process_time() - start)
"""


def seconds_of(path, package, cache):
    """Processor seconds of the first prediction of a process."""
    variables = {"NUMBA_CACHE_DIR": cache, "PYTHONPATH": package}
    run = subprocess.run(
        [sys.executable, "-c", PREDICT, path],
        env=os.environ | variables,
        cwd=cache,
        capture_output=True,
        text=True,
        check=True,
    )
    return float(run.stdout)


def main(packages):
    """Fit, measure, print a table."""
    X, y = make_multilabel_classification(300, 20, n_classes=6, random_state=0)
    print("| model | package | empty, s | filled, s |")
    print("|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for name, settings in MODELS.items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model = getattr(skcrbm, name.split(",")[0])(random_state=0, **settings).fit(X, y)
            path = str(Path(folder) / "model.pkl")
            Path(path).write_bytes(pickle.dumps((model, X)))
            found = {package: ([], []) for package in packages}
            for _ in range(N_TURNS):
                for package in packages:
                    with tempfile.TemporaryDirectory() as cache:
                        for times in found[package]:
                            times.append(seconds_of(path, package, cache))
            for package, (empty, filled) in found.items():
                print(f"| {name} | {package} | {min(empty):.2f} | {min(filled):.2f} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:] or [str(Path(skcrbm.__file__).parents[1])])
