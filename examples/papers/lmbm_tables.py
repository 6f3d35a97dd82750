"""Table 2 of Miao and Rao (2009), and on Scene and Yeast pipelines that go beyond it.

Compares large margin Boltzmann machines (LMBM: eta = 1; LMBMr: eta searched) with a linear SVM per
label (ILSVM), structural SVMs of the same score (SSVM) and linear machines over the label sets
(MLSVM). "linear program" finds labels by the relaxation of the search for the best labels. 5-fold
cross-validation of the Jaccard score A on the training rows chooses the hyperparameters. The
program also compares the same machine on Nystroem features of the inputs with kernel SVMs, forests
and classifier chains. H is the Hamming loss; A, P, R are averaged over examples, P over examples
with a non-empty prediction; F = 2 P R / (P + R). Times are processor seconds in a single thread,
for the fit on all training rows with the chosen parameters and for the prediction of the test rows;
the paper prints a time for each method, on its machine.

Mediamill10 and Mediamill50 are the rows of Mediamill with a label among the first 10 or 50. If the
whole set is missing, their rows say "not run"; figures on a sample of 2000 rows are not results on
Mediamill.

Finished cells are kept in a CSV file: the program can be stopped and restarted.

    python -m examples.papers.lmbm_tables --quick  # minutes, on few rows and grids
    python -m examples.papers.lmbm_tables          # about half an hour
    python -m examples.papers.lmbm_tables --only scene LMBM
"""

import time
import warnings
from functools import partial

import numpy as np
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import ClassifierChain, MultiOutputClassifier
from sklearn.pipeline import Pipeline
from sklearn.svm import SVC, LinearSVC
from sklearn.utils import Bunch
from threadpoolctl import threadpool_limits

from examples._harness import make_parser, run_tables
from examples._multilabel import LabelPowerset
from examples.papers._lmbm_relaxed import RelaxedLMBM
from skcrbm import LMBMClassifier, SSVMClassifier
from skcrbm.datasets import load_mediamill, load_scene, load_yeast
from skcrbm.metrics import masked_score

RELAXED, PAIRS = "linear program", "one set against one"
IN_PAPER = ("ILSVM", "LMBM", "LMBMr", f"SSVM, {RELAXED}")


def first_labels(n_labels, variant):
    """Return rows of Mediamill with a label among the first labels; None without the file."""
    try:
        data = load_mediamill(variant=variant)
    except FileNotFoundError:
        return None
    parts = {}
    for part in ("train", "test"):
        Y = data[f"y_{part}"][:, :n_labels]
        kept = Y.any(axis=1)
        parts |= {f"X_{part}": data[f"X_{part}"][kept], f"y_{part}": Y[kept]}
    return Bunch(**parts)


DATA = {
    "scene": load_scene,
    "yeast": load_yeast,
    "mediamill10": partial(first_labels, 10, "full"),
    "mediamill50": partial(first_labels, 50, "full"),
    "mediamill10, sample of 2000 rows": partial(first_labels, 10, "sample"),
    "mediamill50, sample of 2000 rows": partial(first_labels, 50, "sample"),
}
U = [0.01, 0.1, 1.0, 10.0, 100.0]
# The values of the paper, continued to 1e5: the paper prints eta squared in place of eta.
ETA = [5, 10, 100, 1e3, 1e4, 1e5]
# SVM-struct, which the paper used, takes the mean loss of the rows in place of the sum. `tol` is
# its default, a mean loss of 0.01 to 0.1.
SSVM_TOL = 1e-2
# H, A, P, R, F and seconds as printed.
PUBLISHED = {
    ("scene", "ILSVM"): (0.109, 0.567, 0.782, 0.605, 0.682, 0.63),
    ("scene", "LMBM"): (0.108, 0.681, 0.721, 0.686, 0.703, 0.25),
    ("scene", "LMBMr"): (0.107, 0.682, 0.722, 0.687, 0.704, 0.24),
    ("scene", f"SSVM, {RELAXED}"): (0.100, 0.619, 0.795, 0.635, 0.706, 81.8),
    ("scene", f"MLSVM, {PAIRS}"): (0.100, 0.704, 0.713, 0.737, 0.725, None),
    ("yeast", "ILSVM"): (0.199, 0.498, 0.717, 0.570, 0.635, 0.95),
    ("yeast", "LMBM"): (0.368, 0.329, 0.414, 0.561, 0.476, 0.47),
    ("yeast", "LMBMr"): (0.199, 0.504, 0.709, 0.584, 0.640, 0.36),
    ("yeast", f"SSVM, {RELAXED}"): (0.233, 0.337, 0.748, 0.337, 0.465, 81.7),
    ("yeast", f"MLSVM, {PAIRS}"): (0.206, 0.530, 0.615, 0.672, 0.642, None),
    ("mediamill10", "ILSVM"): (0.049, 0.636, 0.859, 0.636, 0.731, 75.57),
    ("mediamill10", "LMBM"): (0.082, 0.603, 0.605, 0.603, 0.604, 36.36),
    ("mediamill10", "LMBMr"): (0.052, 0.731, 0.752, 0.731, 0.741, 45.2),
    ("mediamill10", f"SSVM, {RELAXED}"): (0.082, 0.589, 0.609, 0.589, 0.599, 459.9),
    ("mediamill50", "ILSVM"): (0.025, 0.480, 0.739, 0.480, 0.582, 32.29),
    ("mediamill50", "LMBM"): (0.225, 0.044, 0.048, 0.286, 0.082, 49.53),
    ("mediamill50", "LMBMr"): (0.025, 0.480, 0.741, 0.480, 0.583, 33.0),
}


def linear(model, **grid):
    """Return a pipeline of the model alone, and its grid."""
    return Pipeline([("model", model)]), {f"model__{name}": v for name, v in grid.items()}


def kernel(model, X, **grid):
    """Return a pipeline of Nystroem features and the model, and its grid with kernel widths."""
    widths = [factor / (X.shape[1] * X.var()) for factor in (0.25, 0.5, 1.0, 2.0)]
    features = Nystroem(n_components=600, random_state=0)
    return Pipeline([("features", features), ("model", model)]), {
        "features__gamma": widths,
        **{f"model__{name}": v for name, v in grid.items()},
    }


def models(X):
    """Yield (row, pipeline, grid)."""
    lmbm = LMBMClassifier(C=1.0, pairwise_penalty=1.0, decode="hinge", random_state=0)
    svm = LinearSVC(loss="hinge", random_state=0)
    # A classifier that accepts labels missing from a fold of the sample.
    yield "ILSVM", *linear(OneVsRestClassifier(svm), estimator__C=U)
    yield "LMBM", *linear(lmbm, C=U)
    yield "LMBMr", *linear(lmbm, C=U, pairwise_penalty=ETA)
    yield (
        'LMBMr, decode="map"',
        *linear(clone(lmbm).set_params(decode="map"), C=U, pairwise_penalty=ETA),
    )
    relaxed = RelaxedLMBM(**lmbm.get_params())
    yield f"LMBM, {RELAXED}", *linear(relaxed, C=U)
    yield f"LMBMr, {RELAXED}", *linear(relaxed, C=U, pairwise_penalty=ETA)
    means = [u / len(X) for u in U]
    for row, method in (
        ("exact", "branch_and_bound"),
        (RELAXED, "linear_program"),
        ("ICM", "icm"),
    ):
        yield f"SSVM, {row}", *linear(SSVMClassifier(inference=method, tol=SSVM_TOL), C=means)
    joint = LinearSVC(multi_class="crammer_singer", random_state=0)
    for row, machine, grid in (
        (PAIRS, SVC(kernel="linear"), U),
        ("Crammer-Singer", joint, U[:3]),  # beyond, the solver ends before it converges
        ("one set against the rest", svm, U),
    ):
        yield f"MLSVM, {row}", *linear(LabelPowerset(machine), classifier__C=grid)
    yield "Nystroem + LMBMr", *kernel(lmbm, X, C=[0.1, 1, 10], pairwise_penalty=[1, 10, 100, 1e4])
    trial = kernel(lmbm, X, C=[0.1], pairwise_penalty=[10])
    yield "Nystroem + LMBMr, C and eta given", *trial
    yield "Nystroem + ILSVM", *kernel(MultiOutputClassifier(svm), X, estimator__C=[0.1, 1, 10])
    widths = [factor / (X.shape[1] * X.var()) for factor in (0.5, 1.0, 2.0)]
    machine = SVC(cache_size=500)
    grid = {"C": [1, 10], "gamma": widths}
    for row, wrapper, argument in (
        ("kernel SVM per label", MultiOutputClassifier, "estimator"),
        ("kernel SVM over label sets", LabelPowerset, "classifier"),
    ):
        yield row, *linear(wrapper(machine), **{f"{argument}__{k}": v for k, v in grid.items()})
    forest = RandomForestClassifier(500, random_state=0)
    yield "random forest", *linear(forest)
    yield "random forest over label sets", *linear(LabelPowerset(forest))
    chain = ClassifierChain(LogisticRegression(max_iter=1000), order="random", random_state=0)
    yield "classifier chain, logistic", *linear(chain, estimator__C=[0.1, 1, 10, 100])
    chain = ClassifierChain(machine, order="random", random_state=0)
    yield (
        "classifier chain, kernel SVM",
        *linear(chain, **{f"estimator__{k}": v for k, v in grid.items()}),
    )


def rows_of(name, X):
    """Yield the items of `models` for a data set: on Mediamill only the methods of the paper."""
    for row, pipeline, grid in models(X):
        if "mediamill" in name and row not in IN_PAPER:
            continue
        if "mediamill50" in name and row.startswith("SSVM"):  # the paper gave up after 10 hours
            continue
        yield row, pipeline, grid


def scores(Y, predicted):
    """Return H, A, P, R, F as in the paper."""
    h = -masked_score("neg_hamming_loss", Y, y_pred=predicted)
    a = masked_score("jaccard_samples", Y, y_pred=predicted)
    r = masked_score("recall_samples", Y, y_pred=predicted)
    there = predicted.any(axis=1)
    if not there.any():
        return h, a, 0.0, r, 0.0
    p = masked_score("precision_samples", Y[there], y_pred=predicted[there])
    return h, a, p, r, 2 * p * r / (p + r)


def run(data, pipeline, grid, quick):
    """Search, fit on all training rows, score the test rows; return scores, times, parameters."""
    X, Y = data.X_train, data.y_train.astype(int)
    if quick:
        X, Y = X[::4], Y[::4]
        grid = {name: values[:2] for name, values in grid.items()}
    folds = KFold(5, shuffle=True, random_state=0)  # Scene's rows come in blocks

    def jaccard(model, X, Y):
        return masked_score("jaccard_samples", Y, y_pred=np.asarray(model.predict(X), float))

    start = time.process_time()
    search = GridSearchCV(pipeline, grid, scoring=jaccard, cv=folds, refit=False).fit(X, Y)
    seconds = {"search": time.process_time() - start}
    model = pipeline.set_params(**search.best_params_)
    start = time.process_time()
    model.fit(X, Y)
    seconds["fit"] = time.process_time() - start
    start = time.process_time()
    predicted = np.asarray(model.predict(data.X_test), int)
    seconds["predict"] = time.process_time() - start
    chosen = {
        name.rpartition("__")[2]: float(f"{v:.3g}") for name, v in search.best_params_.items()
    }
    return scores(data.y_test.astype(int), predicted), seconds, chosen


def markdown(done):
    """Return Markdown tables, measured (printed)."""
    lines = [
        "Measured (printed by Miao and Rao 2009). Times are processor seconds (single thread): the",
        "fit on all training rows with the chosen parameters, the prediction of the test rows.",
        "",
    ]
    for name, load in DATA.items():
        lines += [
            f"### {name.capitalize()}",
            "",
            "| | H | A | P | R | F | chosen | fit s | predict s |",
        ]
        lines.append("|---" * 9 + "|")
        data = load()
        for row, _, _ in rows_of(name, np.eye(2) if data is None else data.X_train):
            printed = PUBLISHED.get((name, row))
            found = done.get(f"{name}, {row}")
            measured = [f"{float(found[letter]):.3f}" for letter in "HAPRF"] if found else [""] * 5
            measured.append(found["fit"] if found else "")
            if printed:
                shown = [f"({value:.3f})" for value in printed[:5]]
                shown.append(f"({printed[5]})" if printed[5] else "")
                measured = [f"{m} {p}".strip() for m, p in zip(measured, shown)]
            cells = [*measured[:5], found["chosen"] if found else "", measured[5]]
            cells.append(found["predict"] if found else "")
            if not found:
                cells[0] = f"not run {cells[0]}".strip()
            lines.append(f"| {row} | {' | '.join(cells)} |")
        lines.append("")
    return "\n".join(lines)


def cells(quick):
    """Yield the key of every cell and the function that runs it."""

    def work(data, pipeline, grid):
        with threadpool_limits(1), warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            figures, seconds, chosen = run(data, pipeline, grid, quick)
        row = {letter: f"{value:.4f}" for letter, value in zip("HAPRF", figures)}
        row["chosen"] = ", ".join(f"{name}={value:g}" for name, value in chosen.items())
        return row | {name: f"{value:.2f}" for name, value in seconds.items()}

    for name, load in DATA.items():
        data = load()
        if data is None:
            continue
        for row, pipeline, grid in rows_of(name, data.X_train):
            yield f"{name}, {row}", partial(work, data, pipeline, grid)


def main():
    """Run the cells that are not finished; write the tables."""
    arguments = make_parser(
        __doc__, "lmbm_tables", "a quarter of the rows, small grids"
    ).parse_args()
    run_tables(arguments, cells(arguments.quick), markdown)


if __name__ == "__main__":
    main()
