"""One task of each kind with the estimator that suits it, beside a common alternative.

Prints the table of the page "Which estimator for my data": size of the data, seconds of the fit in
a process whose kernels are compiled, score on the held-out rows, and the score of the alternative.

    python -m examples.studies.which_estimator      # about two minutes
    python -m examples.studies.which_estimator --rows table text

The rows "table" and "text" need scene.npz and medical.npz in the folder that SKCRBM_DATA names.
"""

import argparse
import time
import warnings

import numpy as np
from scipy import sparse
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, f1_score
from sklearn.model_selection import train_test_split
from sklearn.multiclass import OneVsRestClassifier
from sklearn.preprocessing import StandardScaler

from skcrbm import ChainCRF, CRBMClassifier, DecodedClassifier, ImageCRBM, LMBMClassifier
from skcrbm.datasets import flip_pixels, load_mulan, load_scene, make_random_ising
from skcrbm.density import RBM, IsingModel
from skcrbm.inference import infer


def seconds(function):
    """Return the result of a function and the seconds that its second call takes."""
    function()  # compiles the kernels
    start = time.perf_counter()
    return function(), time.perf_counter() - start


def sample_f1(model, X, Y):
    """Return the mean F1 score of the rows."""
    return f1_score(Y, model.predict(X), average="samples", zero_division=0)


def table():
    """Return the rows of a table of numbers: Scene."""
    X, Y = load_scene(return_X_y=True, subset="train")
    X_test, Y_test = load_scene(return_X_y=True, subset="test")
    forest = RandomForestClassifier(random_state=0)
    plain = sample_f1(forest.fit(X, Y), X_test, Y_test)
    size = f"{X.shape[0]} rows, {X.shape[1]} columns, {Y.shape[1]} labels"
    model, took = seconds(lambda: DecodedClassifier(forest).fit(X, Y))
    yield (
        "table, a forest at hand",
        size,
        "DecodedClassifier(forest)",
        took,
        "F1",
        sample_f1(model, X_test, Y_test),
        "the forest alone",
        plain,
    )
    make = CRBMClassifier(decode="expected_f1", random_state=0)
    model, took = seconds(lambda: make.fit(X, Y))
    scaler = StandardScaler().fit(X)
    linear = OneVsRestClassifier(LogisticRegression(C=0.01, max_iter=1000))
    linear.fit(scaler.transform(X), Y)
    other = sample_f1(linear, scaler.transform(X_test), Y_test)
    score = sample_f1(model, X_test, Y_test)
    yield "table", size, "CRBMClassifier()", took, "F1", score, "logistic regressions at 0.5", other


def text():
    """Return the row of sparse words: Medical."""
    X, Y = load_mulan("medical", return_X_y=True, subset="train")
    X_test, Y_test = load_mulan("medical", return_X_y=True, subset="test")
    X, X_test = sparse.csr_array(X), sparse.csr_array(X_test)
    model, took = seconds(lambda: LMBMClassifier(random_state=0).fit(X, Y))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some labels are constant
        linear = OneVsRestClassifier(LogisticRegression(C=10.0, max_iter=1000)).fit(X, Y)
    size = f"{X.shape[0]} rows, {X.shape[1]} words, {Y.shape[1]} labels"
    other, score = sample_f1(linear, X_test, Y_test), sample_f1(model, X_test, Y_test)
    yield "text", size, "LMBMClassifier()", took, "F1", score, "logistic regressions at 0.5", other


def images():
    """Return the row of noisy digits."""
    clean = (load_digits().images > 7).astype(np.int8)
    noisy = flip_pixels(clean, 0.1, random_state=0)
    X, X_test, Y, Y_test = train_test_split(noisy, clean, random_state=0)
    model, took = seconds(lambda: ImageCRBM(random_state=0).fit(X, Y))
    wrong, before = (model.predict(X_test) != Y_test).mean(), (X_test != Y_test).mean()
    size = f"{len(X)} images of 8 x 8"
    yield "binary images", size, "ImageCRBM()", took, "wrong pixels", wrong, "the input", before


def sequences():
    """Return the row of sequences whose classes follow each other."""
    rng = np.random.RandomState(0)
    X, y = [], []
    for _ in range(400):
        states = np.cumsum(rng.random_sample(20) < 0.2) % 3
        y.append(states)
        X.append(np.eye(3)[states] + 0.9 * rng.randn(20, 3))
    model, took = seconds(lambda: ChainCRF(alpha=0.01).fit(X[:300], y[:300]))
    truth = np.concatenate(y[300:])
    score = accuracy_score(truth, np.concatenate(list(model.predict(X[300:]))))
    linear = LogisticRegression().fit(np.concatenate(X[:300]), np.concatenate(y[:300]))
    other = linear.score(np.concatenate(X[300:]), truth)
    size = "300 sequences of 20"
    yield "sequences", size, "ChainCRF()", took, "accuracy", score, "a regression per item", other


def densities():
    """Return the row of binary columns whose distribution is wanted."""
    X = (load_digits().data > 7).astype(float)
    X, X_test = train_test_split(X, random_state=0)
    model, took = seconds(lambda: RBM(64, max_iter=50, random_state=0).fit(X))
    share = (X.sum(axis=0) + 0.5) / (len(X) + 1)
    alone = (X_test * np.log(share) + (1 - X_test) * np.log1p(-share)).sum(axis=1).mean()
    size = f"{len(X)} rows, 64 columns"
    score = model.score(X_test)
    yield "a distribution", size, "density.RBM(64)", took, "log p", score, "no pairs", alone
    small = X[:, 24:40]
    model, took = seconds(lambda: IsingModel(learning="mle", random_state=0).fit(small))
    part = X_test[:, 24:40]
    alone = (part * np.log(share[24:40]) + (1 - part) * np.log1p(-share[24:40])).sum(axis=1).mean()
    size, score = f"{len(X)} rows, 16 columns", model.score(part)
    yield "a distribution", size, "density.IsingModel()", took, "log p", score, "no pairs", alone


def energies():
    """Return the row of an energy whose best state is wanted."""
    energy = make_random_ising(400, mean_degree=4, random_state=0)
    best, took = seconds(lambda: infer(energy, "simulated_annealing", returns="map"))
    greedy = infer(energy, "icm", returns="map")
    found = [float(energy.log_weight(answer.assignment)[0]) for answer in (best, greedy)]
    yield "an energy", "400 spins", "infer(energy, ...)", took, "score", found[0], "ICM", found[1]


ROWS = {
    "table": table,
    "text": text,
    "images": images,
    "sequences": sequences,
    "densities": densities,
    "energies": energies,
}


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=list(ROWS))
    warnings.simplefilter("ignore", ConvergenceWarning)
    print("| data | size | estimator | seconds | score | estimator's | alternative | its |")
    print("|---|---|---|---|---|---|---|---|")
    for name in parser.parse_args().rows:
        for data, size, estimator, took, kind, score, other, its in ROWS[name]():
            print(
                f"| {data} | {size} | `{estimator}` | {took:.1f} | {kind} | {score:.3g} | {other} "
                f"| {its:.3g} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
