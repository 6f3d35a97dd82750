"""MSSVMCRBM's defaults on images, compared with regressions and with the likelihood.

Restores noisy and occluded digits of MNIST, at 28 x 28 and at 14 x 14 pixels, with the default
settings and 64 hidden units. Besides the defaults, `MSSVMCRBM` runs with the penalty that it uses
for few labels, 0.002 times the variance of the columns, which was its default for images, too.
Fits use training images, and errors are those of validation images of `crbm_tables`; test images
are not used. Finished fits are kept in a CSV file, so the program can be stopped and restarted.
About six minutes of one core.

    python -m examples.studies.margin_settings
"""

import time
import warnings
from functools import cache, partial

import numpy as np

from examples._harness import make_parser, run_tables
from examples.papers.crbm_tables import SIZES, task_images
from skcrbm import MSSVMCRBM, CRBMClassifier
from skcrbm.utils.columns import Columns

N_TRAIN, N_SCORED = 3000, 2000
TASKS = {
    "noise, 28 x 28": ("noisy MNIST 10%", 28),
    "noise, 14 x 14": ("noisy MNIST 10%", 14),
    "patches, 14 x 14": ("occluded MNIST 12x12", 14),
}
COMMON = {"n_hidden": 64, "random_state": 0}
MODELS = {
    "`CRBMClassifier(n_hidden=0)`": CRBMClassifier(n_hidden=0, random_state=0),
    "`CRBMClassifier(n_hidden=64)`": CRBMClassifier(**COMMON),
    "`MSSVMCRBM(n_hidden=64)`": MSSVMCRBM(**COMMON),
}
FEW_LABELS = "`MSSVMCRBM(n_hidden=64)`, penalty for few labels"
COLUMNS = ("all", "changed", "hidden units", "epochs", "penalty", "seconds")


@cache
def images(task, quick):
    """Return corrupted and clean training images, and the same of the images to score."""
    name, side = TASKS[task]
    n_train, n_scored = (200, 100) if quick else (N_TRAIN, N_SCORED)
    size = SIZES["full"]._replace(
        side=side, n_train=n_train, n_validation=n_scored, n_test=n_scored
    )
    train, scored, _ = task_images(name, size)
    return *train, *scored


def fit_and_score(task, name, quick):
    """Return the scores of a model as text, by the names of COLUMNS."""
    X, Y, X_scored, Y_scored = images(task, quick)
    if name == FEW_LABELS:
        columns = Columns(X, np.ones(len(X)), centre=True)
        X, X_scored = (columns.transform(part, part.dtype) for part in (X, X_scored))
        model = MSSVMCRBM(**COMMON, alpha=2e-3 * columns.variance)
    else:
        model = MODELS[name]
    if quick:
        model = model.set_params(max_iter=2)
    start = time.process_time()
    model.fit(X, Y)
    seconds = time.process_time() - start
    wrong = model.predict(X_scored) != Y_scored
    changed = images(task, quick)[2] != Y_scored
    values = (
        f"{100 * wrong.mean():.2f}",
        f"{100 * wrong[changed].mean():.1f}",
        str(model.n_hidden_),
        str(model.n_iter_),
        f"{model.alpha_:.2g}",
        f"{seconds:.0f}",
    )
    return dict(zip(COLUMNS, values, strict=True))


def markdown(done):
    """Return a table with a row for each task and model."""
    lines = ["| images | model | " + " | ".join(COLUMNS) + " |", "|---" * (len(COLUMNS) + 2) + "|"]
    for task in TASKS:
        for name in (*MODELS, FEW_LABELS):
            row = done.get(f"{task}, {name}")
            if row:
                lines.append(f"| {task} | {name} | " + " | ".join(row[c] for c in COLUMNS) + " |")
    return "\n".join(lines) + "\n"


def cells(quick):
    """Yield the key of every cell and the function that runs it."""
    warnings.simplefilter("ignore")  # inference that does not converge
    for task in list(TASKS)[::-1]:
        for name in (*MODELS, FEW_LABELS):
            yield f"{task}, {name}", partial(fit_and_score, task, name, quick)


def main():
    """Run the fits that are not finished; print and write the table."""
    parser = make_parser(__doc__, "margin_settings", "200 images, two epochs")
    arguments = parser.parse_args()
    run_tables(arguments, cells(arguments.quick), markdown)


if __name__ == "__main__":
    main()
